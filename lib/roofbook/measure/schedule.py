"""Schedule of a lab's measurements: which are fresh in the store, and measuring the others. For notebooks and command line.

A fresh measurement is not repeated, and a new one is stored at once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..devices.contract import Device
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..store.files import StorePart
from ..store.identity import new_run_id
from ..store.parquet import Store
from ..store.schema import CONTROL
from . import placement
from .background_group import exists, wait_for
from .case_process import Workers, measure_isolated
from .case_run import StoredRow, measure_and_store
from .placement import Setting, Target, keys, target_of
from .policy import UNTIMED, Policy
from .precompile import prebuild
from .progress import PlanShare, Progress, silent


@dataclass(frozen=True)
class Planned:
    """A measurement of today's code on this machine, and its state in the store."""

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
    """Number of stored runs that match today's code and environment."""

    @property
    def name(self) -> tuple[str, str]:
        """(case, variant)"""
        return self.case.name, self.variant.name

    def row(self) -> dict[str, str]:
        """Return the row for a table of states."""
        return {
            "lab": self.lab.name, "variant": self.variant.name, "case": self.case.name, "backend": self.backend,
            "device": self.device.slug, "state": self.state, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Done:
    """Outcome of a call of `bring_up_to_date`: numbers of measurements."""

    run: str
    """Names of the runs, separated by commas."""
    measured: int
    fresh: int
    failed: int
    earlier: int = 0
    """Number of measurements that were rows of the resumed run before an interrupt."""

    def __str__(self) -> str:
        text = f"{self.measured} measurement{'s' * (self.measured != 1)} taken"
        text += f", {self.failed} of them failed" if self.failed else ""
        if self.fresh or not self.measured:
            text += f", {self.fresh} {'was' if self.fresh == 1 else 'were'} fresh"
        text += f", {self.earlier} before the interrupt" if self.earlier else ""
        return text + (f"; run{'s' * (',' in self.run)} {self.run}" if self.measured else "")


def plan(
    lab: Lab, cases: Sequence[Case], variants: Sequence[Variant], device: Device, store: Store, policy: Policy
) -> list[Planned]:
    """Return every measurement that `device` can run, with its state in the store."""
    cells = []
    for at in (Setting(lab, case, device, policy) for case in cases):
        for variant in variants:
            target = target_of(variant, device)
            if target and not lab.skip_reason(variant, at.case):
                units = lab.units(at.case, variant, target.device)
                cells.append((at.case, variant, target, keys(at, variant, target, units)))
    return with_states(lab, cells, store)


def with_states(
    lab: Lab, cells: Sequence[tuple[Case, Variant, Target, tuple[str, str]]], store: Store, role: str | None = None
) -> list[Planned]:
    """Return measurements, given with their keys, with their states in the store. role: of the rows; with times if None."""
    queries: list[dict[str, Any]] = [
        {
            "lab": lab.name, "variant": variant.name, "case": case.name, "backend": target.backend,
            "device": target.device.slug, "cell_key": key, "env_key": environment, "role": role,
            "environment": placement.environment(variant, target),
            "env_key_without_compilers": placement.key_without_compilers(target),
            "source_sha256": variant.source.sha256 if variant.source else None,
            "wgsl_sha256": placement.wgsl_sha256(lab, case, variant, target),
        }
        for case, variant, target, (key, environment) in cells
    ]  # fmt: skip
    return [
        Planned(lab, case, variant, *target, *its_keys, state.state, state.why, state.runs)
        for (case, variant, target, its_keys), state in zip(cells, store.states(queries), strict=True)
    ]


def bring_up_to_date(
    cells: Sequence[Planned],
    device: Device,
    store: Store,
    policy: Policy,
    *,
    runs: int = 1,
    remeasure: bool = False,
    resume: bool = True,
    where: StorePart = "local",
    further_devices: Sequence[Device] = (),
    progress: Progress = silent,
    isolated: bool = False,
    workers: Workers | None = None,
) -> Done:
    """Measure, case by case, the cells that are not fresh in `runs` runs; with `remeasure` all cells, in `runs` more.

    All cases are measured once before any is measured again, so that the runs of a case are apart in time. Rows are stored
    after each case.

    further_devices: those whose cells are among `cells`. A variant that is not fresh on one device is measured on all of
    them, in the same rounds where they are backends of one model.
    isolated: measure each case in a process of its own, so that a kernel that crashes it costs only its own row.
    workers: these processes, if the caller has prepared one.
    resume: continue an interrupted case in its run, with its samples. A variant that has a row of that run by this policy, also
    a failed one, is not measured again.
    """
    left: dict[tuple[str, str], int] = {}
    for cell in cells:
        due_runs = runs if remeasure else max(runs - cell.runs, int(cell.state != "fresh"))
        left[cell.name] = max(left.get(cell.name, 0), due_runs)
    not_fresh = {cell.name for cell in cells if cell.state != "fresh"}
    first = due = [cell for cell in cells if left[cell.name]]
    if not due:
        return Done("", 0, len(cells), 0)
    lab, stored, skipped = due[0].lab, list[StoredRow](), 0
    compiled_in_background = due[0].case.scale == UNTIMED and exists()
    if not compiled_in_background and not wait_for(lab.name, lambda: progress(lab.name, "kernels are being compiled")):
        kernels_to_build = [(cell.case, cell.variant) for cell in due if cell.device is device]
        prebuild(lab, kernels_to_build, device, policy.seed, lambda stage: progress(lab.name, stage))
    cases = len({cell.case.name for cell in due}) * max(left.values())
    share = PlanShare(sum(left.values()))
    with workers or Workers(lab.name, device.spec, cases) as processes:
        measure = partial(measure_isolated, workers=processes) if isolated else measure_and_store
        measure = partial(measure, store=store, where=where, resume=resume, further_devices=further_devices)
        while due:
            new_rows = _one_run(due, device, policy, progress, share, partial(measure, run=new_run_id()))
            measured = {(r.case, r.variant) for r in new_rows}
            succeeded = {(r.case, r.variant) for r in new_rows if r.status != "failed"}
            for name in dict.fromkeys(cell.name for cell in due):
                if name in measured:
                    left[name] = left[name] - 1 if name in succeeded else 0
                elif remeasure or name in not_fresh or not new_rows:  # a row of the resumed run
                    left[name], skipped = left[name] - 1, skipped + 1
            stored += new_rows
            due = [cell for cell in due if left[cell.name]]
    names = dict.fromkeys(r.run for r in stored)
    failed = sum(r.status == "failed" for r in stored)
    return Done(", ".join(names), len(stored), len(cells) - len(first), failed, skipped)


def _one_run(
    due: Sequence[Planned],
    device: Device,
    policy: Policy,
    progress: Progress,
    share: PlanShare,
    measure: Callable[..., list[StoredRow]],
) -> list[StoredRow]:
    """Measure cells once, case by case. Return the stored rows without A/A controls, which belong to other variants' cells.

    share: counts the cells that are done.
    """
    stored = []
    for case in dict.fromkeys(cell.case.name for cell in due):

        def report_progress(variant: str, stage: str, case: str = case) -> None:
            progress(f"{case} {variant}", f"{stage}; {share}" if share.total > 1 else stage)

        cells = [cell for cell in due if cell.case.name == case]
        at = Setting(cells[0].lab, cells[0].case, device, policy)
        variants = list({cell.variant.name: cell.variant for cell in cells}.values())  # each once, for all devices
        stored += measure(at, variants, progress=report_progress)
        share.done += len(variants)
    return [r for r in stored if r.role != CONTROL]
