"""Corpus of mistakes: each is made in a kernel or a plan, and the check before a measurement must refuse it."""

from __future__ import annotations

from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.contract import Device
from roofbook.devices.find import host_cpu
from roofbook.measure.placement import Target, target_of
from roofbook.measure.verify import References
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from .. import mutants
from ..naming import naming
from .unoptimised_builds import unoptimised

LABS = sorted(path.parent.name for path in Path(__file__).parent.glob("*/corpus.py"))
CORPORA = {lab: import_module(f".{lab}.corpus", __package__) for lab in LABS}
MISTAKES: list[tuple[str, mutants.Mutant | mutants.Emulated]] = [
    (lab, mistake) for lab, corpus in CORPORA.items() for mistake in corpus.MISTAKES
]
OPTIMISED = True
LONG = {"batch-40"}
"""Cases whose runs outlast the compiler; kernels of all others are compiled as they stand."""
TWELFTH = 12
"""The short suite tries one of so many mistakes."""
HONEST = 4 * TWELFTH
"""The short suite tries one of so many kernels without a mistake: they are steps, which are verified by themselves."""
SEEN: dict[tuple[str, str], References] = {}


def case_of(lab: str, mistake: mutants.Mutant | mutants.Emulated) -> str:
    return mistake.case or str(CORPORA[lab].CASE)


def refused(lab: Lab, variant: Variant, case: str, target: Target) -> bool:
    """Return whether a check says that outputs are wrong, or that a buffer was left; another reason fails the test."""
    with nullcontext() if case in LONG else unoptimised():
        reason = mutants.verdict(lab, variant, case, target, SEEN)
    assert reason is None or reason.startswith(("wrong result: ", "not accepted: it wrote ")), reason
    return reason is not None


def of_kind(kind: type) -> list[tuple[str, Any]]:
    return [(lab, mistake) for lab, mistake in MISTAKES if isinstance(mistake, kind)]


def named(kind: type) -> list[Any]:
    """Return the mistakes of a kind as parameters; all but each twelfth are thorough."""
    return [
        pytest.param(
            lab,
            mistake,
            id=f"{lab}, {mistake.variant}: {mistake.wrong}",
            marks=[pytest.mark.thorough] if number % TWELFTH else [],
        )
        for number, (lab, mistake) in enumerate(of_kind(kind))
    ]


def target(device: Device, variant: Variant) -> Target:
    runs_on = target_of(variant, device)
    if runs_on is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    return runs_on


@pytest.mark.parametrize(("name", "mistake"), named(mutants.Mutant))
def test_a_mistake_is_refused(
    device: Device, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mistake: mutants.Mutant
) -> None:
    lab = registry.get(name)
    wrong = mistake.applied(lab, tmp_path, monkeypatch)
    place = target(device, lab.variant(mistake.variant))
    assert refused(lab, wrong, case_of(name, mistake), place) == (not mistake.survives)


@pytest.mark.parametrize(("name", "mistake"), named(mutants.Emulated))
def test_an_emulated_mistake_is_refused_and_what_is_right_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mistake: mutants.Emulated
) -> None:
    lab, place = registry.get(name), Target(host_cpu(), "opencl")
    right = mutants.emulated(lab.variant(mistake.variant), mistake.right)
    assert not refused(lab, right, case_of(name, mistake), place)
    wrong = mistake.applied(lab, tmp_path, monkeypatch)
    assert refused(lab, wrong, case_of(name, mistake), place) == (not mistake.survives)


@pytest.mark.parametrize("name", LABS)
def test_the_words_of_each_mistake_stand_in_the_text_that_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for lab, mistake in MISTAKES:
        if lab == name:
            with naming(mistake.wrong):
                mistake.applied(registry.get(name), tmp_path, monkeypatch)


USED = sorted({(lab, mistake.variant, case_of(lab, mistake)) for lab, mistake in of_kind(mutants.Mutant)})


@pytest.mark.parametrize(
    ("name", "variant", "case"),
    [pytest.param(*used, marks=[pytest.mark.thorough] if number % HONEST else []) for number, used in enumerate(USED)],
)
def test_without_a_mistake_it_passes(device: Device, name: str, variant: str, case: str) -> None:
    lab = registry.get(name)
    right = lab.variant(variant)
    assert not refused(lab, right, case, target(device, right))


def test_nineteen_of_twenty_mistakes_are_refused() -> None:
    alive = [
        f"{lab}, {mistake.variant}: {mistake.wrong}: {mistake.survives}"
        for lab, mistake in MISTAKES
        if mistake.survives
    ]
    assert len(alive) <= 0.05 * len(MISTAKES), "; ".join(alive)
    assert all(sum(lab == lab_of_mistake for lab_of_mistake, _ in MISTAKES) >= 15 for lab in LABS)
