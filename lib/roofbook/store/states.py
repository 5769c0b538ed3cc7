"""State of a measurement in the store: fresh, stale, failed or missing for today's code and machine, with the reason."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..devices.provenance import difference
from ..escaping import read_json
from .schema import CONTROL, PROFILE

COORDINATES = ("lab", "variant", "case", "backend", "device")
"""Columns by which a measurement is looked up."""


class State(NamedTuple):
    """State of a measurement: fresh, stale-env, stale-code, failed or missing; `why` gives the reason in one clause."""

    state: str
    why: str
    runs: int = 0
    """Number of verified runs of a fresh measurement, with today's code in today's environment."""


def coordinates_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the COORDINATES of a row or a cell."""
    return tuple(row[name] for name in COORDINATES)


def state_of(cell: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> State:
    """Return the state of the measurement `cell` (keys: see `Store.states`). rows: those of its coordinates, oldest first."""
    role = cell.get("role")
    rows = [row for row in rows if (row["role"] == role if role else row["role"] not in (CONTROL, PROFILE))]
    if not rows:
        return State("missing", f"never measured on {cell['device']} by {cell['backend']}")
    current = [row for row in rows if row["cell_key"] == cell["cell_key"]]
    newest = (current or rows)[-1]
    since = f"{newest['run']} ({newest['started']:%Y-%m-%d})"
    if not current:
        return State("stale-code", _cause(cell, newest, since))
    if newest["status"] == "failed":
        return State("failed", f"failed in {since}: {newest['reason'] or 'no reason recorded'}")
    ok = [row for row in current if row["status"] == "ok"]
    fresh = [row for row in ok if row["env_key"] == cell["env_key"]]
    # A row may not say which compiler built it.
    if not fresh and newest["env_key"] == cell.get("env_key_without_compilers"):
        fresh = [row for row in ok if row["env_key"] == newest["env_key"]]
    if fresh:
        return State("fresh", f"measured in {since}", fresh[-1]["runs"])
    stored, today = read_json(newest["provenance"] or "{}").get("environment"), cell.get("environment")
    change = difference(stored, today) if stored and today else None
    return State("stale-env", f"{change or 'the environment changed'}, since {since}")


def _cause(cell: Mapping[str, Any], row: Mapping[str, Any], since: str) -> str:
    """Return the clause that says why a row is not of today's code. since: its run and day."""
    if not (cell.get("source_sha256") and row["source_sha256"]):
        return f"kernel source or plan changed since {since}"
    if cell["source_sha256"] != row["source_sha256"]:
        return f"kernel source changed since {since}"
    if today := cell.get("wgsl_sha256"):
        recorded = read_json(row["extra"] or "{}").get("wgsl_sha256")
        if recorded is None:
            return f"its WGSL is unknown: it was measured in {since}, before rows named theirs"
        if recorded != today:
            return f"translation to WGSL changed since {since}"
    return f"plan, build options or policy changed since {since}"
