"""Whether the store holds a cell as code and machine are now: its state, and why in one clause."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..devices.provenance import difference
from ..escaping import read_json
from .schema import CONTROL, PROFILE

PLACE = ("lab", "variant", "case", "backend", "device")
"""What a cell is looked for by."""


class State(NamedTuple):
    """`state` is fresh, stale-env, stale-code, failed or missing; `why` is one clause."""

    state: str
    why: str
    runs: int = 0
    """Those that have it as it is now, verified: by today's code, in today's environment."""


def place_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Where a row or a cell stands, by PLACE."""
    return tuple(row[name] for name in PLACE)


def state_of(cell: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> State:
    """The state of a cell, given the rows of its place, oldest first."""
    role = cell.get("role")
    rows = [row for row in rows if (row["role"] == role if role else row["role"] not in (CONTROL, PROFILE))]
    if not rows:
        return State("missing", f"never measured on {cell['device']} by {cell['backend']}")
    same = [row for row in rows if row["cell_key"] == cell["cell_key"]]
    newest = (same or rows)[-1]
    since = f"{newest['run']} ({newest['started']:%Y-%m-%d})"
    if not same:
        today = cell.get("source_sha256")
        what = "kernel source or plan"
        if today and newest["source_sha256"]:
            what = "kernel source" if today != newest["source_sha256"] else "plan, build options or policy"
        return State("stale-code", f"{what} changed since {since}")
    if newest["status"] == "failed":
        return State("failed", f"failed in {since}: {newest['reason'] or 'no reason recorded'}")
    ok = [row for row in same if row["status"] == "ok"]
    fresh = [row for row in ok if row["env_key"] == cell["env_key"]]
    if not fresh and newest["env_key"] == cell.get(
        "env_key_without_compilers"
    ):  # it cannot say which compiler it is by
        fresh = [row for row in ok if row["env_key"] == newest["env_key"]]
    if fresh:
        return State("fresh", f"measured in {since}", fresh[-1]["runs"])
    was, now = read_json(newest["provenance"] or "{}").get("environment"), cell.get("environment")
    named = difference(was, now) if was and now else None
    return State("stale-env", f"{named or 'the environment changed'}, since {since}")
