"""Steps of which NVRTC makes the code of their parents, though the text or the flags differ: each is explained.

A step whose code is its parent's measures noise, however plausible its time. No GPU is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from roofbook.devices.contract import Unsupported
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from .paper import BY_ARCHITECTURE, LABS, Paper, Report, common, compiled, drive, skip_without_compiler

NVRTC = "NVRTC"
PAIRS = {
    ("cnn", "aligned"),
    ("cnn", "zeroed-declared"),
    ("cnn", "fused-declared"),
    ("cnn", "fused-declared-aligned"),
    ("cnn", "fissioned@without=alignment"),
    ("convpool", "fast-math"),
}
"""(lab, step) with their parents' code, written down apart from the ladders, so that a needless `Variant.same_code` fails."""


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    skip_without_compiler()


@cache
def drive_on_paper(lab: str, variant: str, case: str, architecture: int) -> Paper:
    """The device on paper after a run of the variant: it knows the kernels built and launched. Raises Unsupported."""
    with pytest.MonkeyPatch.context() as patch:
        made_lab = LABS[lab]
        return drive(made_lab, made_lab.variant(variant), architecture, patch, made_lab.case(case))


def launched(device: Paper) -> list[Report]:
    """Return the kernels of a run, in the order of their first launch. Two programs may have kernels of one name."""
    return list(device.kernels.values())


def options_of(device: Paper) -> set[tuple[str, ...]]:
    """Return the compiler's options for each text."""
    return {built.options for built in device.built}


def normal(body: str) -> str:
    """Return PTX without comments, and with its labels, parameters and variables numbered."""
    bare = re.sub(r"//[^\n]*", "", body)
    names = dict.fromkeys(re.findall(r"\$L__\w+|\b_Z\w+|\b\w+_param_\d+", bare))
    numbers = {name: f"name{number}" for number, name in enumerate(names)}
    return " ".join(re.sub(r"[$\w]+", lambda word: numbers.get(word[0], word[0]), bare).split())


def all_equal(first: list[Report], second: list[Report]) -> bool:
    """Return whether all kernels are equal, each as machine code or as PTX.

    NVRTC does not always make the same PTX of one text: of `tiles` of convpool it makes now one, now another. So equal code
    may look different, but different code never looks equal.
    """
    return len(first) == len(second) and all(
        kernel.machine_code == counterpart.machine_code or normal(kernel.body) == normal(counterpart.body)
        for kernel, counterpart in zip(first, second, strict=True)
    )


def pairs(lab: Lab, architecture: int) -> Iterator[tuple[Variant, Variant]]:
    """List (step, parent) for each step, or point that leaves out a part, that may differ from its parent in text or flags.

    Points of other sweeps differ in a number that the code has.
    """
    for variant in lab.all_variants():
        if variant.role == "sweep" and variant.axis != "without":
            continue
        parent = lab.variant(variant.parent) if variant.parent else None
        if not (parent and parent.source and variant.source and "cuda" in variant.backends & parent.backends):
            continue
        if architecture not in variant.architectures or architecture not in parent.architectures:
            continue
        if variant.source.sha256 != parent.source.sha256 or "options" in variant.differs:
            yield variant, parent


def is_same(lab: Lab, variant: Variant, parent: Variant, architecture: int) -> bool:
    """Return whether their kernels are equal on the first case that both run, though the compiler's input was not."""
    assert variant.source and parent.source
    for case in common(lab, variant, parent):
        try:
            kernels, parent_kernels = (
                drive_on_paper(lab.name, v.name, case.name, architecture) for v in (variant, parent)
            )
        except Unsupported:
            continue
        if variant.source.sha256 == parent.source.sha256 and options_of(kernels) == options_of(parent_kernels):
            return False  # they are apart in their plans alone
        return all_equal(launched(kernels), launched(parent_kernels))
    raise AssertionError(f"{variant.name} and {parent.name} have no case in common")


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
@pytest.mark.parametrize("name", LABS)
def test_every_step_of_its_parents_code_is_explained_and_no_other(name: str, architecture: int) -> None:
    lab = LABS[name]
    equal = {
        variant.name for variant, parent in pairs(lab, architecture) if is_same(lab, variant, parent, architecture)
    }
    listed = {variant for of, variant in PAIRS if of == name}
    assert equal == listed, "say why in Variant.same_code, or give the step code of its own"
    assert {variant.name for variant in lab.all_variants() if NVRTC in variant.same_code} == listed


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
def test_the_two_loads_differ_in_their_cache_and_in_nothing_else(architecture: int) -> None:
    lab = registry.get("convpool")
    case = lab.cases("quick")[0].name
    cached, uncached = (launched(drive_on_paper(lab.name, name, case, architecture)) for name in ("cached", "uncached"))
    bodies = [normal(kernel.body) for kernel in cached], [normal(kernel.body) for kernel in uncached]
    assert bodies[0] == [body.replace("ld.global.cg", "ld.global.ca") for body in bodies[1]] != bodies[1]
    assert len(re.findall(r"ld\.global\.\w+", bodies[1][0])) == 2, "one load of a weight and one of an input"
    assert not all_equal(cached, uncached), "the assembler tells them apart"


FLAG = "--ptxas-options=-dlcm=cg"
READ = 'extern "C" __global__ void k({0} *{1} x, int *out) {{ out[threadIdx.x] = x[threadIdx.x] + 1; }}'


@pytest.mark.parametrize("architecture", BY_ARCHITECTURE)
def test_the_reports_flag_does_not_reach_loads_of_what_is_constant_and_restricted(architecture: int) -> None:
    """The flag has no effect on such loads, so the steps name the cache themselves."""
    for declared, reached in ((("const int", "__restrict__"), False), (("int", ""), True)):
        plain, flagged = (
            [*compiled(READ.format(*declared), architecture, options).kernels.values()] for options in ((), (FLAG,))
        )
        assert normal(plain[0].body) == normal(flagged[0].body), "the flag is the assembler's"
        assert (plain[0].machine_code == flagged[0].machine_code) != reached


def test_what_only_names_differ_in_is_the_same_and_one_instruction_is_not() -> None:
    text = 'extern "C" __global__ void {0}(float *{1}) {{ {1}[threadIdx.x] = {1}[threadIdx.x] * {2}f; }} // {0}'
    one, renamed, third = (
        [*compiled(text.format(*words), 90).kernels.values()]
        for words in (("k", "x", "2.5"), ("another", "values", "2.5"), ("k", "x", "3.5"))
    )
    assert all_equal(one, renamed) and normal(one[0].body) == normal(renamed[0].body)
    assert one[0].machine_code == renamed[0].machine_code and len(one[0].machine_code) >= 16
    assert not all_equal(one, third) and not all_equal(one, [*one, *one])
