"""Wrong outputs that every lab's check must refuse, and kernels and plans that are made to err: one harness for all labs.

A lab hands over a right output and its check, and adds mutants of mistakes that only it allows. Mistakes that students make
in kernels are in the `corpus.py` of each lab's tests.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from roofbook.measure.measurement import Measurement
from roofbook.measure.placement import Setting, Target
from roofbook.measure.policy import Policy
from roofbook.measure.verify import References, prepare
from roofbook.measure.wrong_outputs import STALE as STALE
from roofbook.measure.wrong_outputs import Array as Array
from roofbook.measure.wrong_outputs import Check as Check
from roofbook.measure.wrong_outputs import Outputs as Outputs
from roofbook.measure.wrong_outputs import refused as refused
from roofbook.measure.wrong_outputs import standard
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant
from roofbook.spec.source import Source

from .plain_plan import PlainPlan


def all_refused(check: Check, right: Outputs, off_by: float, extra_mutants: Iterable[tuple[str, Outputs]] = ()) -> None:
    """Assert that `check` accepts `right`, and refuses each standard mutant and each of the lab's own.

    off_by: an error of one element that is wrong anywhere, in the outputs' unit.
    """
    assert not refused(check, right), "what is right is accepted"
    passed = [how for how, wrong in (*standard(right, off_by), *extra_mutants) if not refused(check, wrong)]
    assert not passed, f"accepted, though wrong: {'; '.join(passed)}"


# -- kernels -----------------------------------------------------------------------------------------------------------


def copied(variant: Variant, kernels: Path, folder: Path) -> Variant:
    """The variant with the text of its kernel in `folder`, where all kernels of its lab are laid."""
    for pattern in ("*.k", "*.cu", "*.h", "*.inc"):
        for path in kernels.glob(pattern):
            shutil.copy(path, folder)
    return of_folder(variant, folder)


def of_folder(variant: Variant, folder: Path) -> Variant:
    """Return the variant with its source read from a folder, where its text may have changed."""
    assert variant.source
    source = Source.of(folder / variant.source.path.name, **dict(variant.source.knobs))
    return replace(variant, source=source)


def change(folder: Path, file: str, words: str, instead: str, *, once: bool = True) -> None:
    """Other words in a kernel's text; they must be there, and `once` where the mistake is to be one place alone."""
    text = (folder / file).read_text()
    assert text.count(words) == 1 if once else words in text, f"{file} has {words!r} {text.count(words)} times"
    (folder / file).write_text(text.replace(words, instead))


# -- a corpus of mistakes ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A student's mistake in a kernel or in the module of its plan: other words in the text of `file`.

    case: the lab's case, if not the corpus's own. options: options of the plan in addition to the variant's. everywhere: the
    words occur more than once. survives: the reason why no check can see the mistake.
    """

    variant: str
    file: str
    words: str
    instead: str
    wrong: str
    case: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    everywhere: bool = False
    survives: str = ""

    def applied(self, lab: Lab, folder: Path, patch: pytest.MonkeyPatch) -> Variant:
        """The variant as the mistake leaves it; `folder` takes its kernels."""
        right = lab.variant(self.variant)
        right = replace(right, options={**right.options, **self.options})
        lab_folder = package_of(lab)
        if self.file.endswith(".py"):
            return replace(right, plan=replanned(right.plan, lab_folder / self.file, self.words, self.instead))
        variant = copied(right, lab_folder, folder)
        change(folder, self.file, self.words, self.instead, once=not self.everywhere)
        for name, module in list(sys.modules.items()):
            if name.startswith(f"roofbook.labs.{lab.name}.") and hasattr(module, "HERE"):
                patch.setattr(module, "HERE", folder)  # plans find kernels of their own there
        return of_folder(variant, folder)


@dataclass(frozen=True)
class Emulated:
    """A student's mistake that no device here can run: `compute` makes the outputs of a case from its inputs.

    right: the computation without the mistake, which must pass.
    """

    variant: str
    compute: Callable[[Case, Mapping[str, Any]], Outputs]
    right: Callable[[Case, Mapping[str, Any]], Outputs]
    wrong: str
    case: str = ""
    survives: str = ""

    def applied(self, lab: Lab, folder: Path, patch: pytest.MonkeyPatch) -> Variant:
        return emulated(lab.variant(self.variant), self.compute)


def package_of(lab: Lab) -> Path:
    """The folder of a lab's modules and kernels."""
    return Path(str(sys.modules[type(lab).__module__].__file__)).parent


def replanned(plan: Any, file: Path, words: str, instead: str) -> Any:
    """The plan with other words in the module that it stands in, which is `file`."""
    module = sys.modules[plan.__module__]
    assert Path(str(module.__file__)) == file, f"{plan.__qualname__} does not stand in {file.name}"
    text = file.read_text()
    assert text.count(words) == 1, f"{file.name} has {words!r} {text.count(words)} times"
    changed = ModuleType(module.__name__)
    changed.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    exec(compile(text.replace(words, instead), file, "exec"), changed.__dict__)
    return getattr(changed, plan.__qualname__)


def emulated(variant: Variant, compute: Callable[[Case, Mapping[str, Any]], Outputs]) -> Variant:
    """The variant with a plan whose outputs NumPy computes."""

    class Computed(PlainPlan):
        def __init__(self, device: Any, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
            self.units, self.case, self.inputs = case.units, case, inputs

        def reset(self) -> None:
            """Nothing is kept."""

        def run(self) -> None:
            """All is done by `outputs`."""

        def outputs(self) -> dict[str, Array]:
            return dict(compute(self.case, self.inputs))

    return replace(variant, plan=Computed)


def verdict(
    lab: Lab, variant: Variant, case: str, target: Target, seen: dict[tuple[str, str], References]
) -> str | None:
    """Why a variant is refused before it would be timed; None where it is not. seen: inputs and references, filled here."""
    size = lab.case(case, "test")
    at = Setting(lab, size, target.device, Policy())
    references = seen.setdefault((lab.name, case), References(at, at.policy.seed))
    measurement = Measurement(variant, variant.role, *target)
    prepare(at, measurement, references)
    if measurement.runnable:
        measurement.runnable.close()
    return measurement.reason
