"""Which cells of a lab are fresh, and the measuring of those that are not. Serves the notebooks and the command line.

The store is the truth: whoever calls, a cell that is fresh is not measured again; what was measured is kept at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..devices import provenance
from ..devices.contract import Device
from ..spec.lab import Case, Lab, Variant
from ..store.files import Where
from ..store.identity import new_run_id
from ..store.parquet import Store
from ..store.schema import CONTROL
from .apart import measure_apart
from .case_run import Kept, measure_and_keep
from .placement import Setting, Target, keys, target_of
from .policy import Policy
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
        return said + (f"; run {self.run}" if self.measured else "")


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
            "environment": provenance.environment(target.device),
            "source_sha256": variant.source.sha256 if variant.source else None,
        }
        for case, variant, target, (key, environment) in chosen
    ]  # fmt: skip
    return [
        Planned(lab, case, variant, *target, *its_keys, *state)
        for (case, variant, target, its_keys), state in zip(chosen, store.states(asked), strict=True)
    ]


def bring_up_to_date(
    cells: Sequence[Planned],
    device: Device,
    store: Store,
    policy: Policy,
    *,
    remeasure: bool = False,
    go_on: bool = True,
    where: Where = "local",
    progress: Progress = silent,
    apart: bool = False,
) -> Done:
    """Measure those cells that are not fresh (with `remeasure`: all), case by case; a case's rows are kept at once.

    apart: each case in a process of its own, which is watched: one that a kernel ends costs that kernel's row alone.

    go_on: with samples of an interrupted case, which then stays in its run; what is a row of that run by this policy, a
    failure too, is not measured twice.
    """
    due = [cell for cell in cells if remeasure or cell.state != "fresh"]
    run, kept = new_run_id(), list[Kept]()
    if due:
        here = [(cell.case, cell.variant) for cell in due if cell.device is device]
        prebuild(due[0].lab, here, device, policy.seed, lambda what: progress(due[0].lab.name, what))
    measure = measure_apart if apart else measure_and_keep
    for case in dict.fromkeys(cell.case.name for cell in due):

        def tell(variant: str, what: str, case: str = case) -> None:
            progress(f"{case} {variant}", what)

        mine = [cell for cell in due if cell.case.name == case]
        at = Setting(mine[0].lab, mine[0].case, device, policy)
        kept += measure(
            at, [cell.variant for cell in mine], run=run, store=store, where=where, go_on=go_on, progress=tell
        )
    own = [each for each in kept if each.role != CONTROL]  # the A/A control is no cell of its own
    failed = sum(each.status == "failed" for each in own)
    runs = {each.run for each in kept}
    fresh, earlier = len(cells) - len(due), len(due) - len(own)
    return Done(runs.pop() if len(runs) == 1 else run, len(own), fresh, failed, earlier)
