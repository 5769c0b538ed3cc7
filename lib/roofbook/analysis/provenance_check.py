"""Provenance of rows: whether a row names its code and its machine. Serves tables, and the pages of recorded devices."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..devices import checkout
from ..escaping import read_json

if TYPE_CHECKING:
    import pandas as pd


def untraced(row: Mapping[str, Any]) -> str:
    """Return why a row's commit does not name its code: `checkout`'s UNKNOWN, CHANGED or ABSENT; '' if it does.

    A row without `git` in its provenance was not made by `measure`, and is not judged.
    """
    text = row.get("provenance")
    provenance = read_json(text) if isinstance(text, str) and text else {}  # a null may read as NaN
    if "git" not in provenance:
        return ""
    git = provenance["git"]
    return checkout.fault(git) or (checkout.ABSENT if checkout.absent(str(git["commit"])) else "")


def counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of rows that cannot be traced, by reason."""
    return dict(Counter(filter(None, map(untraced, rows))))


_TELLING = {
    **{"cpu": "", "cpu_id": "", "cpu_flags": "flags ", "sockets": "sockets ", "cores": "cores "},
    **{"threads_usable": "usable threads ", "numa_nodes": "NUMA nodes ", "cpu_quota": "quota of processors "},
    **{"governor": "governor ", "uuid": "", "power_limit_w": "power limit in W "},
    **{"application_clock_mhz": "application clock in MHz ", "mig": "MIG ", "ecc": "ECC "},
}
"""Facts that distinguish two machines for a reader -> the text before their value."""


def machines(rows: "pd.DataFrame") -> list[str]:
    """Return a text for each machine and card of these rows, with the facts in which they differ.

    The list is empty if the rows are of one machine and card, or do not name them.
    """
    facts_by_card: dict[tuple[str, str | None], dict[str, Any]] = {}
    for text in rows["provenance"].dropna().unique():
        provenance = read_json(text)
        card = provenance.get("gpu") or {}
        if "machine" in provenance:
            facts_by_card[provenance["machine"], card.get("uuid")] = {**provenance, **card}
    with_card = {machine for machine, card in facts_by_card if card}
    # A machine's host is not listed apart from its cards.
    facts_by_card = {key: facts for key, facts in facts_by_card.items() if key[1] or key[0] not in with_card}
    if len(facts_by_card) < 2:
        return []
    differing = [name for name in _TELLING if len({str(facts.get(name)) for facts in facts_by_card.values()}) > 1]
    return [
        ", ".join([machine, *(f"{_TELLING[name]}{facts[name]}" for name in differing if facts.get(name) is not None)])
        for (machine, _), facts in facts_by_card.items()
    ]
