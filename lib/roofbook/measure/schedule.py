"""Which cells of a lab are fresh, and the measuring of those that are not. Serves the notebooks and the command line.

The store is the truth: whoever calls, a cell that is fresh is not measured again; what was measured is kept at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..devices.contract import Device
from ..spec.lab import Case, Lab, Variant
from ..store.files import Where
from ..store.identity import new_run_id
from ..store.parquet import Store
from ..store.schema import CONTROL
from . import placement
from .background_group import exists, wait_for
from .case_process import Workers, measure_isolated
from .case_run import Kept, measure_and_keep
from .placement import Setting, Target, keys, target_of
from .policy import UNTIMED, Policy
from .precompile import prebuild
from .progress import Progress, silent


@dataclass(frozen=True)
class Planned:
    """A cell as the code and the machine are now, and what the store has of it."""

    lab: Lab
    case: Case
    variant: Variant
    device: Device
    backend: str
    cell_key: str
    env_key: str
    state: str
    why: str
    runs: int
    """Those of the store that have it fresh."""

    @property
    def name(self) -> tuple[str, str]:
        """(case, variant)"""
        return self.case.name, self.variant.name

    def row(self) -> dict[str, str]:
        """For a table of states."""
        return {
            "lab": self.lab.name, "variant": self.variant.name, "case": self.case.name, "backend": self.backend,
            "device": self.device.slug, "state": self.state, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Done:
    """What a call of `bring_up_to_date` did."""

    run: str
    """The runs' names, with commas between several."""
    measured: int
    fresh: int
    failed: int
    earlier: int = 0
    """Rows of the same run, kept before an interrupt."""

    def __str__(self) -> str:
        said = f"{self.measured} measurement{'s' * (self.measured != 1)} taken"
        said += f", {self.failed} of them failed" if self.failed else ""
        if self.fresh or not self.measured:
            said += f", {self.fresh} {'was' if self.fresh == 1 else 'were'} fresh"
        said += f", {self.earlier} before the interrupt" if self.earlier else ""
        return said + (f"; run{'s' * (',' in self.run)} {self.run}" if self.measured else "")


def plan(
    lab: Lab, cases: Sequence[Case], variants: Sequence[Variant], device: Device, store: Store, policy: Policy
) -> list[Planned]:
    """Every cell that `device` can run, with its state in the store."""
    chosen = []
    for at in (Setting(lab, case, device, policy) for case in cases):
        for variant in variants:
            target = target_of(variant, device)
            if target and not lab.skip_reason(variant, at.case):
                units = lab.units(at.case, variant, target.device)
                chosen.append((at.case, variant, target, keys(at, variant, target, units)))
    return with_states(lab, chosen, store)


def with_states(
    lab: Lab, chosen: Sequence[tuple[Case, Variant, Target, tuple[str, str]]], store: Store, role: str | None = None
) -> list[Planned]:
    """Cells by their keys, with their states in the store. role: of the rows that count, those of times without it."""
    asked: list[dict[str, Any]] = [
        {
            "lab": lab.name, "variant": variant.name, "case": case.name, "backend": target.backend,
            "device": target.device.slug, "cell_key": key, "env_key": environment, "role": role,
            "environment": placement.environment(variant, target),
            "env_key_without_compilers": placement.key_without_compilers(target),
            "source_sha256": variant.source.sha256 if variant.source else None,
        }
        for case, variant, target, (key, environment) in chosen
    ]  # fmt: skip
    return [
        Planned(lab, case, variant, *target, *its_keys, state.state, state.why, state.runs)
        for (case, variant, target, its_keys), state in zip(chosen, store.states(asked), strict=True)
    ]


def bring_up_to_date(
    cells: Sequence[Planned],
    device: Device,
    store: Store,
    policy: Policy,
    *,
    runs: int = 1,
    remeasure: bool = False,
    go_on: bool = True,
    where: Where = "local",
    progress: Progress = silent,
    apart: bool = False,
    workers: Workers | None = None,
) -> Done:
    """Measure those cells that are not fresh in as many runs (with `remeasure`: all, in as many more), case by case.

    All cases are measured once before any is again, so that the runs of a case lie apart in time. A case's rows are kept at
    once.

    apart: each case of a run in a process of its own, which is watched: one that a kernel ends costs that kernel's row alone.
    workers: those processes, where one is to get ready before.

    go_on: with samples of an interrupted case, which then stays in its run; what is a row of that run by this policy, a
    failure too, is not measured twice.
    """
    left = {cell.name: runs if remeasure else max(runs - cell.runs, int(cell.state != "fresh")) for cell in cells}
    first = due = [cell for cell in cells if left[cell.name]]
    if not due:
        return Done("", 0, len(cells), 0)
    lab, kept, skipped = due[0].lab, list[Kept](), 0
    beside_it = due[0].case.scale == UNTIMED and exists()
    if not beside_it and not wait_for(lab.name, lambda: progress(lab.name, "kernels are being compiled")):
        here = [(cell.case, cell.variant) for cell in due if cell.device is device]
        prebuild(lab, here, device, policy.seed, lambda what: progress(lab.name, what))
    cases = len({cell.case.name for cell in due}) * max(left.values())
    with workers or Workers(lab.name, device.spec, cases) as processes:
        measure = partial(measure_isolated, workers=processes) if apart else measure_and_keep
        measure = partial(measure, store=store, where=where, go_on=go_on)
        while due:
            new = _one_run(due, device, policy, progress, partial(measure, run=new_run_id()))
            ended = {(each.case, each.variant): each.status for each in new}
            for cell in due:
                if cell.name in ended:
                    left[cell.name] = 0 if ended[cell.name] == "failed" else left[cell.name] - 1
                elif remeasure or cell.state != "fresh" or not new:  # it is a row of the run that was gone on with
                    left[cell.name], skipped = left[cell.name] - 1, skipped + 1
            kept += new
            due = [cell for cell in due if left[cell.name]]
    names = dict.fromkeys(each.run for each in kept)
    failed = sum(each.status == "failed" for each in kept)
    return Done(", ".join(names), len(kept), len(cells) - len(first), failed, skipped)


def _one_run(
    due: Sequence[Planned], device: Device, policy: Policy, progress: Progress, measure: Callable[..., list[Kept]]
) -> list[Kept]:
    """Measure cells once, case by case. Returns what became rows, without the A/A controls, which are no cells of their own."""
    kept = []
    for case in dict.fromkeys(cell.case.name for cell in due):

        def tell(variant: str, what: str, case: str = case) -> None:
            progress(f"{case} {variant}", what)

        mine = [cell for cell in due if cell.case.name == case]
        at = Setting(mine[0].lab, mine[0].case, device, policy)
        kept += measure(at, [cell.variant for cell in mine], progress=tell)
    return [each for each in kept if each.role != CONTROL]
