"""Which cells of a lab are fresh, and the measuring of those that are not. Serves the notebooks and the command line.

The store is the truth: whoever calls, a cell that is fresh is not measured again, and what was measured is appended at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from . import measure, provenance
from .device import Device
from .lab import Case, Lab, Variant
from .store import Store, new_run_id


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
            "device": self.device.slug, "state": self.state, "reason": self.why,
        }  # fmt: skip


@dataclass(frozen=True)
class Summary:
    """What a call of `bring_up_to_date` did."""

    run: str
    measured: int
    fresh: int
    failed: int

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.measured} cells measured{failed}, {self.fresh} were fresh" + (f"; run {self.run}" if self.measured else "")


def plan(
    lab: Lab, cases: Sequence[Case], variants: Sequence[Variant], device: Device, store: Store, policy: measure.Policy
) -> list[Planned]:
    """Every cell that `device` can run, with its state in the store."""
    cells: list[dict[str, Any]] = []
    parts = []
    for case in cases:
        for variant in variants:
            place, backend = measure.where(variant, device)
            if place is None or lab.excuse(variant, case):
                continue
            units = lab.units(case, variant, place)
            key, environment = measure.keys(lab, case, variant, place, backend, policy, units)
            parts.append((case, variant, place, backend, key, environment))
            cells.append(
                {
                    "lab": lab.name, "variant": variant.name, "case": case.name, "backend": backend, "device": place.slug,
                    "cell_key": key, "env_key": environment, "environment": provenance.environment(place),
                    "source_sha256": variant.source.sha256 if variant.source else None,
                }  # fmt: skip
            )
    states = store.states(cells)
    return [Planned(lab, *part, *state) for part, state in zip(parts, states, strict=True)]


def bring_up_to_date(
    cells: Sequence[Planned],
    device: Device,
    store: Store,
    policy: measure.Policy,
    *,
    remeasure: bool = False,
    where: str = "local",
    progress: measure.Progress = lambda variant, what: None,
) -> Summary:
    """Measure those cells that are not fresh (with `remeasure`: all), case by case, and append each case's rows at once."""
    due = [cell for cell in cells if remeasure or cell.state != "fresh"]
    run, rows = new_run_id(), []

    def keep(measured: list[dict[str, Any]]) -> None:
        store.append(measured, where)  # type: ignore[arg-type]
        rows.extend(measured)

    for case in dict.fromkeys(cell.case.name for cell in due):
        mine = [cell for cell in due if cell.case.name == case]
        measure.measure(
            mine[0].lab, mine[0].case, [cell.variant for cell in mine], device,
            run=run, policy=policy, keep=keep, progress=lambda variant, what, case=case: progress(f"{case} {variant}", what),
        )  # fmt: skip
    failed = sum(row["status"] == "failed" for row in rows)
    return Summary(run, len(rows), len(cells) - len(due), failed)


def warm(policy: measure.Policy) -> measure.Policy:
    """The policy for ceilings: caches are what is measured, so they are not emptied."""
    return replace(policy, cache="warm", budget_s=min(policy.budget_s, 0.5))


def project_root(start: Path | None = None) -> Path:
    """The checkout: the nearest folder, from `start` or here upwards, else this library's own, that has experiments/."""
    from .errors import UsageError

    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents, Path(__file__).resolve().parents[2]):
        if (folder / "experiments").is_dir() and (folder / "_config.yml").is_file():
            return folder
    raise UsageError(f"{here} is not in a checkout of Roofbook: no folder with experiments/ and _config.yml above it")
