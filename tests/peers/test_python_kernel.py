"""Kernels in Triton, CuTe DSL and Numba: their machine code, and results by those languages that have an interpreter.

All languages are optional: without them their tests are skipped.
"""

import math
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.peers.interpreted import Interpreted

from roofbook.devices.contract import Unsupported
from roofbook.peers import python_kernel
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

ROOT = Path(__file__).parents[2]
TRITON = pytest.mark.skipif(find_spec("triton") is None, reason="Triton is not installed: pip install triton")
CUTE = pytest.mark.skipif(
    find_spec("nvidia_cutlass_dsl") is None, reason="CuTe DSL is not installed: pip install nvidia-cutlass-dsl"
)
NUMBA = pytest.mark.skipif(find_spec("numba_cuda") is None, reason="Numba is not installed: pip install numba-cuda")
ROWS = [(lab, variant) for lab in map(registry.get, registry.names()) for variant in lab.peers if variant.role == "dsl"]
IN_TRITON = [(lab, variant) for lab, variant in ROWS if issubclass(variant.plan, python_kernel.Triton)]
IN_CUTE = [(lab, variant) for lab, variant in ROWS if issubclass(variant.plan, python_kernel.Cute)]
AWKWARD = {"stencil": "5x13", "convpool": "3x2x7x7-k5", "cnn": "3to5ch-7x34-k3"}


def name_of(of: Lab | Variant) -> str:
    return of.name


def printed(module: str, *arguments: str, **variables: str) -> str:
    """Return the output of a module in a process of its own, since a language reads its variables when it is imported."""
    command, environment = [sys.executable, "-m", module, *arguments], {**os.environ, **variables}
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_kernel_has_few_lines_and_they_are_counted_without_imports_and_docstrings(tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    file.write_text(
        '"""Doc\n\nmore."""\nimport math\n\nSIDE = 4\n"""Side."""\n\n\n@mark\ndef f(x):\n    # why\n\n    return x\n'
    )
    assert python_kernel.lines_of_code(file) == 4
    files = {file for _, variant in ROWS for file in getattr(variant.plan, "sources", ())}
    assert all(1 < python_kernel.lines_of_code(file) < 80 for file in files)


@pytest.mark.parametrize(("lab", "variant"), ROWS, ids=name_of)
def test_a_row_without_its_language_gives_the_reason(
    lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    case = lab.awkward_case(lab.awkward[0])
    reason = lab.skip_reason(variant, case)
    assert reason and reason.endswith("is not installed: `make book WITH=languages` installs it")
    with pytest.raises(
        Unsupported, match=r"^(Triton|CuTe DSL|Numba for CUDA) is not installed: pip install 'roofbook\[languages\]'$"
    ):
        variant.plan(Interpreted(), variant, case, lab.inputs(case, 1))


def machine_code(
    lab: Lab, variant: Variant, case_name: str, monkeypatch: pytest.MonkeyPatch
) -> python_kernel.MachineCode:
    """Return the code that a row's language makes for Hopper."""
    made: list[python_kernel.MachineCode] = []

    def compiled(plan: Any, device: Any, compile: Any, *form: Any) -> Any:
        made.append(compile(plan.function(), 90, *form))
        raise Unsupported("no GPU")

    monkeypatch.setattr(python_kernel.PythonKernel, "compiled", compiled)
    case = lab.awkward_case(case_name)
    with pytest.raises(Unsupported, match="no GPU"):
        variant.plan(Interpreted(), variant, case, lab.inputs(case, 1))
    (code,) = made
    return code


@TRITON
@pytest.mark.parametrize(("lab", "variant"), IN_TRITON, ids=name_of)
def test_triton_makes_machine_code_for_hopper(lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    code = machine_code(lab, variant, AWKWARD.get(lab.name, lab.awkward[0]), monkeypatch)
    assert code.image.startswith(b"\x7fELF") and code.name.encode() in code.image
    assert code.shared_bytes <= 227 << 10 and code.pointers_behind in (1, 2)


@CUTE
@pytest.mark.parametrize(("lab", "variant"), IN_CUTE, ids=name_of)
def test_cute_makes_machine_code_for_hopper(lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    code = machine_code(lab, variant, AWKWARD[lab.name], monkeypatch)
    assert code.image.startswith(b"\x7fELF") and code.name.encode() in code.image
    assert code.shared_bytes <= 227 << 10 and code.cluster == variant.options["cluster"]


@pytest.mark.parametrize(("lab", "variant"), IN_CUTE, ids=name_of)
def test_what_cute_kernels_may_fetch_is_the_layer(lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch) -> None:
    """TMA's maps of a plan are read as it would read them: weights, and pixels by channels of all taps, which overlap."""
    maps: list[tuple[Any, ...]] = []
    languages = sys.modules[variant.plan.__module__]
    name = "tensor_map" if lab.name == "cnn" else "tensor_map_of_bytes"

    def note(*described: Any) -> bytes:
        maps.append(described)
        return bytes(128)

    monkeypatch.setattr(languages, name, note)
    monkeypatch.setattr(python_kernel.PythonKernel, "compiled", lambda *_: None)
    case = lab.awkward_case(AWKWARD[lab.name])
    inputs = lab.inputs(case, 3)
    plan: Any = variant.plan(Interpreted(), variant, case, inputs)
    (weight, (values, filters), weight_box, *_), (pixels, sizes, box, *_, strides) = maps
    kind = np.dtype(np.float16 if lab.name == "cnn" else np.int8)
    a = weight.memory.view(kind).reshape(filters, values)
    unfolded = np.lib.stride_tricks.as_strided(pixels.memory.view(kind), sizes, (kind.itemsize, *strides))
    _, across, down, taps, _ = sizes
    b = unfolded.transpose(2, 1, 4, 3, 0).reshape(down, across, values).astype(np.float64)
    sums = b[: down // 2 * 2, : across // 2 * 2] @ a.T.astype(np.float64) + inputs.get("bias", 0)
    pooled = sums.reshape(down // 2, 2, across // 2, 2, filters).max((1, 3)).transpose(2, 0, 1).clip(0)
    error, tolerance, _ = lab.check(case, variant, {"out": pooled}, lab.reference(case, inputs))
    assert error <= tolerance and taps**2 * sizes[0] == values

    tile = variant.options
    fetched = math.prod(weight_box) + tile["cluster"] * math.prod(box)
    assert fetched == tile["depth"] * (tile["filters"] + tile["across"] * tile["down"])
    assert box[0] * kind.itemsize == 128, "lines of 128 bytes are swizzled"
    groups = -(-across // tile["across"]) * -(-down // tile["down"]) * tile["cluster"]
    assert math.prod(plan.size) == math.prod(plan.group) * groups


@TRITON
@pytest.mark.parametrize(("lab", "variant"), [row for row in IN_TRITON if row[0].name in AWKWARD], ids=name_of)
def test_triton_is_right_in_its_interpreter(lab: Lab, variant: Variant) -> None:
    out = printed("tests.peers.interpreted", lab.name, variant.name, AWKWARD[lab.name], TRITON_INTERPRET="1")
    error, tolerance = map(float, out.split())
    assert error <= tolerance


@pytest.mark.parametrize(
    ("language", "switch"),
    [
        pytest.param("triton", "TRITON_INTERPRET", marks=TRITON),
        pytest.param("numba", "NUMBA_ENABLE_CUDASIM", marks=NUMBA),
    ],
)
def test_two_steps_of_a_lattice_are_right_in_an_interpreter(language: str, switch: str) -> None:
    assert float(printed("tests.labs.lbm.step_in_python", language, **{switch: "1"})) < 1


@NUMBA
def test_numba_adds_all_passes_in_its_simulator() -> None:
    out = printed("tests.labs.stencil.numba_in_python", NUMBA_ENABLE_CUDASIM="1")
    error, tolerance = map(float, out.split())
    assert error <= tolerance


@NUMBA
def test_numba_takes_an_array_as_nine_arguments() -> None:
    pytest.importorskip("numba.cuda")
    code = printed("tests.labs.stencil.numba_in_python", "arguments")
    assert int(code) == len(python_kernel.numba_array(Interpreted().empty(48), 3, 4)) + 1
