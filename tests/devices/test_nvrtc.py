"""Every CUDA kernel of the book through its compiler, with no GPU: it compiles, spills nothing, shows its instructions.

A device on paper takes the place of the GPU: plans build, allocate and launch on it as they would, and each launch is
compared with the compiler's report of the kernel: number and kind of its arguments, registers, size of the group.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import pytest

from roofbook.devices import nvrtc
from roofbook.devices.contract import BuildFailed, Unsupported
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from ..labs.sweep_points import often_tried
from .paper import (
    ARCHITECTURES,
    BY_ARCHITECTURE,
    LABS,
    Kernel,
    Queue,
    compiled,
    cuda_variants,
    drive,
    skip_without_compiler,
)

ALIGNED_IN_PARTS = re.compile(
    r"\bbar(\.cta)?\.\w+(\.\w+)*\s+[^,;]+,[^;]*;|\bbarrier(\.cta)?\.\w+\.aligned\s+[^,;]+,[^;]*;"
)
"""Pattern of an aligned barrier with a number of threads, in PTX."""


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    skip_without_compiler()


def each_for_its_architectures() -> Iterator[Any]:
    """Yield (lab, variant, architecture): every step for all architectures, and points of sweeps by turns for one each.

    Points of a sweep differ by a number in their text. Steps on the older architecture are thorough, and so are points
    that are not tried often.
    """
    swept = cycle(ARCHITECTURES)
    tried = {name for lab in LABS.values() for name in often_tried(lab.sweeps)}
    for lab, variant in (param.values for param in cuda_variants()):
        for architecture in [next(swept)] if variant.role == "sweep" else ARCHITECTURES:
            is_quick = variant.name in tried if variant.role == "sweep" else architecture == max(ARCHITECTURES)
            marks = [] if is_quick else [pytest.mark.thorough]
            yield pytest.param(lab, variant, architecture, id=f"{lab.name}-{variant.name}-{architecture}", marks=marks)


@pytest.mark.parametrize(("lab", "variant", "architecture"), list(each_for_its_architectures()))
def test_compiles_spills_nothing_and_is_launched_with_its_own_arguments(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if architecture not in variant.architectures:
        pytest.skip(f"needs sm_{variant.architectures.start}")
    try:
        device = drive(lab, variant, architecture, monkeypatch)
    except Unsupported as reason:  # a point of a sweep that no device can run; the page names it with this reason
        assert variant.role == "sweep"
        pytest.skip(str(reason))
    assert device.launched
    for built in device.built:
        for name, report in built.kernels.items():
            if variant.role != "sweep":  # a sweep walks past the point where registers run out
                assert report.spilled == 0, f"{name} spills {report.spilled} bytes"


@pytest.mark.parametrize("case", ["128x128", "128x256", "256x256"])
@pytest.mark.parametrize("name", [v.name for v in registry.get("lbm").ladder if v.plan.__name__ == "Persistent"])
def test_the_blocks_of_a_persistent_kernel_hold_the_whole_grid(
    name: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = registry.get("lbm")
    device = drive(lab, lab.variant(name), 90, monkeypatch, lab.case(case))
    ((_, size, local),) = {launch for launch in device.launched if launch[0] == "persistent"}
    columns, lines = map(int, case.split("x"))
    assert local[0] == columns and size[0] * size[1] == columns * lines
    (built,) = (text for text in device.built if "persistent" in text.kernels)
    assert f"[{local[1]}][{columns}]" in built.text, "compiled for the rows with which it is launched"
    assert built.kernels["persistent"].spilled == 0


def ptx_of(lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the PTX of each kernel that the variant builds."""
    device = drive(lab, variant, architecture, monkeypatch)
    return {name: report.body for built in device.built for name, report in built.kernels.items()}


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
@pytest.mark.parametrize(
    ("lab", "variant"), [param for param in cuda_variants() if param.values[1].shows or param.values[1].omits]
)
def test_the_code_shows_what_the_variant_says_and_its_parents_does_not(
    lab: Lab, variant: Variant, architecture: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if architecture not in variant.architectures:
        pytest.skip(f"needs sm_{variant.architectures.start}")
    code = ptx_of(lab, variant, architecture, monkeypatch)
    parent = ptx_of(lab, lab.variant(variant.parent), architecture, monkeypatch) if variant.parent else {}
    for kernel, pattern in variant.shows.items():
        assert re.search(pattern, code[kernel]), f"{kernel} lacks {pattern}"
        if kernel in parent:
            assert not re.search(pattern, parent[kernel]), f"{kernel} of {variant.parent} has {pattern} as well"
    for kernel, pattern in variant.omits.items():
        assert not re.search(pattern, code[kernel]), f"{kernel} has {pattern}"
        assert re.search(pattern, parent[kernel]), f"{kernel} of {variant.parent} lacks {pattern} as well"


@pytest.mark.parametrize(
    ("lab", "variant"),
    [
        param
        for param in cuda_variants()
        if param.values[1].role == "step"
        and {"deep_halo.inc", "hopper.h"} & {path.name for path in param.values[1].source.files}
    ],
)
def test_barriers_and_tensor_maps_are_used_as_the_manual_of_ptx_asks(
    lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A barrier for a part of a block's threads is not aligned, and maps are acquired before the first box, each of them."""
    assert variant.source
    text = variant.source.path.read_text()
    maps = set(re.findall(r"const void \*(?:RESTRICT )?(\w*map)\b", text))
    assert maps <= set(re.findall(r"\w+", " ".join(re.findall(r"acquire_map\((.*)\);", text))))
    for code in ptx_of(lab, variant, 90, monkeypatch).values():
        assert not ALIGNED_IN_PARTS.search(code)
        if "cp.async.bulk.tensor" in code:
            assert maps and "fence.proxy.tensormap::generic.acquire" in code.partition("cp.async.bulk.tensor")[0]


def test_a_step_that_is_launched_early_touches_no_grid_before_its_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it load populations by ld.global.nc, whose memory no kernel may write while this one runs."""
    lab = registry.get("lbm")
    before, wait, after = ptx_of(lab, lab.variant("early-launch"), 90, monkeypatch)["fused"].partition(
        "griddepcontrol.wait"
    )
    assert wait and after.count("griddepcontrol") == 1, "one wait, then one signal"
    assert not re.search(r"ld\.global(\.nc)?\.f32|\bst\.", before)
    assert len(re.findall(r"ld\.global\.f32", after)) == 9 and "ld.global.nc.f32" not in after
    assert re.search(r"ld\.global\.nc\.[bsu]8", before), "the obstacle"


def test_all_steps_of_a_graph_but_the_first_are_launched_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """And no other launch: those around a graph read or write the number of steps."""
    launches: list[tuple[str, bool]] = []

    def launch(queue: Queue, kernel: Kernel, *arguments: Any) -> None:
        launches.append((kernel.name, kernel.early))
        launch_on_paper(queue, kernel, *arguments)

    launch_on_paper = Queue.launch
    monkeypatch.setattr(Queue, "launch", launch)
    lab = registry.get("lbm")
    drive(lab, lab.variant("early-launch"), 90, monkeypatch)
    recorded = launches.index(("count_steps", False))
    assert recorded > 2 and len(launches) > recorded + 2
    assert [number for number, (_, early) in enumerate(launches) if early] == list(range(1, recorded))


def test_what_lbm_shows_is_there_to_be_read() -> None:
    """The list may grow; without these the compiler's own evidence would be gone."""
    telling = {variant.name for variant in registry.get("lbm").ladder if variant.shows}
    assert telling >= {"no-compute", "device-struct", "bit-neighbours", "byte-obstacles", "half-storage"}


def test_the_limit_of_registers_in_stencils_report_would_change_none_of_its_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lab = registry.get("stencil")
    for name in ("native-rsqrt", "local-memory", "local-memory-tasks-2", "tasks-2"):
        device = drive(lab, lab.variant(name), 90, monkeypatch)
        assert 0 < max(report.registers for built in device.built for report in built.kernels.values()) <= 32


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
def test_hoisted_constants_take_most_divisions_out(architecture: int, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("lbm")
    divisions = {
        name: ptx_of(lab, lab.variant(name), architecture, monkeypatch)["fused"].count("div.rn.f32")
        for name in ("accelerate-fused", "hoisted")
    }
    assert divisions["hoisted"] == 2, "one for each component of the velocity"
    assert divisions["accelerate-fused"] >= 5 * divisions["hoisted"]


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
def test_a_text_with_an_error_fails_in_one_line(architecture: int) -> None:
    with pytest.raises(BuildFailed, match=r"^[^\n]*error[^\n]*missing[^\n]*$"):
        nvrtc.compile_cuda('extern "C" __global__ void k(float *x) { x[0] = missing; }', architecture)


def test_a_spill_would_be_seen() -> None:
    """A kernel that must spill is refused: 64 registers' worth of values that live at once, in a block of 1024."""
    values = "\n".join(f"  float v{i} = x[i + {i}];" for i in range(160))
    uses = "\n".join(f"  x[i + {1000 + i}] = v{i} * v{(i * 7) % 160};" for i in range(160))
    head = 'extern "C" __global__ void __launch_bounds__(1024) k(float *x) {\n  int i = threadIdx.x;\n'
    text = f"{head}{values}\n  __syncthreads();\n{uses}\n}}"
    assert compiled(text, 90).kernels["k"].spilled > 0
