"""Which cells of a lab are fresh, and the measuring of those that are not. Serves the notebooks and the command line.

The store is the truth: whoever calls, a cell that is fresh is not measured again; what was measured is kept at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ..devices import provenance
from ..devices.contract import Device
from ..errors import UsageError
from ..spec.lab import Case, Lab, Variant
from ..store.parquet import Store, Where, new_run_id
from . import case_run
from .checkpoint import Unfinished, key_of
from .precompile import prebuild

if TYPE_CHECKING:
    import pandas as pd


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
class Summary:
    """What a call of `bring_up_to_date` did."""

    run: str
    measured: int
    fresh: int
    failed: int
    earlier: int = 0
    """Rows of the same run, kept before an interrupt."""

    def __str__(self) -> str:
        said = f"{self.measured} cell{'s' * (self.measured != 1)} measured"
        said += f", {self.failed} of them failed" if self.failed else ""
        if self.fresh or not self.measured:
            said += f", {self.fresh} {'was' if self.fresh == 1 else 'were'} fresh"
        said += f", {self.earlier} before the interrupt" if self.earlier else ""
        return said + (f"; run {self.run}" if self.measured else "")


def plan(
    lab: Lab, cases: Sequence[Case], variants: Sequence[Variant], device: Device, store: Store, policy: case_run.Policy
) -> list[Planned]:
    """Every cell that `device` can run, with its state in the store."""
    cells: list[dict[str, Any]] = []
    parts = []
    for case in cases:
        for variant in variants:
            place, backend = case_run.where(variant, device)
            if place is None or lab.skip_reason(variant, case):
                continue
            units = lab.units(case, variant, place)
            key, environment = case_run.keys(lab, case, variant, place, backend, policy, units)
            parts.append((case, variant, place, backend, key, environment))
            cells.append({
                "lab": lab.name, "variant": variant.name, "case": case.name, "backend": backend, "device": place.slug,
                "cell_key": key, "env_key": environment, "environment": provenance.environment(place),
                "source_sha256": variant.source.sha256 if variant.source else None,
            })  # fmt: skip
    states = store.states(cells)
    return [Planned(lab, *part, *state) for part, state in zip(parts, states, strict=True)]


def bring_up_to_date(
    cells: Sequence[Planned],
    device: Device,
    store: Store,
    policy: case_run.Policy,
    *,
    remeasure: bool = False,
    go_on: bool = True,
    where: Where = "local",
    progress: case_run.Progress = lambda variant, what: None,
) -> Summary:
    """Measure those cells that are not fresh (with `remeasure`: all), case by case; a case's rows are kept at once.

    go_on: with samples of an interrupted case, which then stays in its run; what is a row of that run by this policy, a
    failure too, is not measured twice.
    """
    due = [cell for cell in cells if remeasure or cell.state != "fresh"]
    run, rows = new_run_id(), []
    if due:
        here = [(cell.case, cell.variant) for cell in due if cell.device is device]
        prebuild(due[0].lab, here, device, policy.seed, lambda what: progress(due[0].lab.name, what))

    def keep(measured: list[dict[str, Any]]) -> None:
        store.append(measured, where)
        rows.extend(measured)

    for case in dict.fromkeys(cell.case.name for cell in due):

        def tell(variant: str, what: str, case: str = case) -> None:
            progress(f"{case} {variant}", what)

        mine = [cell for cell in due if cell.case.name == case]
        unfinished = Unfinished(store.root / "unfinished", mine[0].lab.name, case)
        case_run.measure(
            mine[0].lab, mine[0].case, [cell.variant for cell in mine], device, run=run, policy=policy, keep=keep,
            progress=tell, unfinished=unfinished, go_on=go_on, finished=_finished(store, mine[0], policy, unfinished),
        )  # fmt: skip
    own = [row for row in rows if row["role"] != "again"]  # the twin of a parent is no cell of its own
    failed = sum(row["status"] == "failed" for row in own)
    runs = {row["run"] for row in rows}
    fresh, earlier = len(cells) - len(due), len(due) - len(own)
    return Summary(runs.pop() if len(runs) == 1 else run, len(own), fresh, failed, earlier)


def _finished(store: Store, of: Planned, policy: case_run.Policy, unfinished: Unfinished) -> dict[str, set[str]]:
    """By each run that an interrupt left unfinished, the keys of those cells of the case that are rows of it by this policy."""
    found: dict[str, set[str]] = {run: set() for run in unfinished.runs()}
    if not found:
        return {}
    rows = store.rows(of.lab.name, case=of.case.name, run=list(found), policy=case_run.written(policy))
    for row in rows.itertuples():
        found[row.run].add(key_of(row.cell_key, row.env_key, row.role))
    return found


def todays(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Those rows of a lab whose kernel is, letter for letter, that of today's code, `modelled`."""
    today = {variant.name: variant.source.sha256 if variant.source else "" for variant in lab.all_variants()}
    return modelled(lab, rows[rows["variant"].map(today) == rows["source_sha256"].fillna("")]) if len(rows) else rows


def modelled(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of a lab with bytes by today's model of what its variants move: a row's own are those of the day it was measured."""
    known = {variant.name: variant for variant in lab.all_variants()}

    @cache
    def case_of(name: str, scale: str) -> Case | None:
        try:
            return lab.case(name, scale)
        except UsageError:
            return None

    def bytes_of(variant: str, name: str, scale: str, own: float) -> float:
        case = case_of(name, scale)
        return lab.traffic(case, known[variant]) if case and variant in known else own

    columns = (rows[name] for name in ("variant", "case", "scale", "bytes"))
    return rows.assign(bytes=[bytes_of(*row) for row in zip(*columns, strict=True)])


def warm(policy: case_run.Policy) -> case_run.Policy:
    """The policy for ceilings: caches are what is measured, so they are not emptied."""
    return replace(policy, cache="warm", budget_s=min(policy.budget_s, 0.5))
