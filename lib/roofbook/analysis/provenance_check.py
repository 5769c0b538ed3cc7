"""Whether a row can be traced to the code and the machine that it is of. Serves tables, and the pages of recorded devices."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..devices import checkout
from ..escaping import read_json

if TYPE_CHECKING:
    import pandas as pd


def untraced(row: Mapping[str, Any]) -> str:
    """Why a row's commit does not name its code: `checkout`'s UNKNOWN, CHANGED or ABSENT; '' where it does.

    Nothing is said of a row that tells nothing of its checkout, which is none of `measure`.
    """
    text = row.get("provenance")
    found = read_json(text) if isinstance(text, str) and text else {}  # a null may read as NaN
    if "git" not in found:
        return ""
    git = found["git"]
    return checkout.fault(git) or (checkout.ABSENT if checkout.absent(str(git["commit"])) else "")


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many rows cannot be traced, by the reason."""
    return dict(Counter(filter(None, map(untraced, rows))))


_TELLING = {
    **{"cpu": "", "cpu_id": "", "cpu_flags": "flags ", "sockets": "sockets ", "cores": "cores "},
    **{"threads_usable": "usable threads ", "numa_nodes": "NUMA nodes ", "cpu_quota": "quota of processors "},
    **{"governor": "governor ", "uuid": "", "power_limit_w": "power limit in W "},
    **{"application_clock_mhz": "application clock in MHz ", "mig": "MIG ", "ecc": "ECC "},
}
"""Facts that a reader tells two machines apart by, and what names them before their value."""


def machines(rows: "pd.DataFrame") -> list[str]:
    """What tells the machines and cards of these rows apart, one text each; nothing where they are of one, or do not say."""
    known: dict[tuple[str, str | None], dict[str, Any]] = {}
    for text in rows["provenance"].dropna().unique():
        found = read_json(text)
        card = found.get("gpu") or {}
        if "machine" in found:
            known[found["machine"], card.get("uuid")] = {**found, **card}
    with_card = {machine for machine, card in known if card}
    known = {
        place: facts for place, facts in known.items() if place[1] or place[0] not in with_card
    }  # not the host's own
    if len(known) < 2:
        return []
    differing = [name for name in _TELLING if len({str(facts.get(name)) for facts in known.values()}) > 1]
    return [
        ", ".join([machine, *(f"{_TELLING[name]}{facts[name]}" for name in differing if facts.get(name) is not None)])
        for (machine, _), facts in known.items()
    ]
