"""Machines that measured rows, by what the rows say of them."""

from collections.abc import Iterable
from functools import lru_cache

from ..escaping import read_json


@lru_cache(maxsize=1 << 16)
def machine(provenance: object) -> tuple[str, str | None]:
    """Return (processor and usable threads, identifier) of a row's machine; the identifier is None in older rows."""
    facts = read_json(provenance) if isinstance(provenance, str) and provenance else {}  # a null may read as NaN
    return f"{facts.get('cpu')}, {facts.get('threads_usable')}", facts.get("machine")


def is_one_machine(first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    """Return whether two results of `machine` are of one machine; an identifier that is missing is not compared."""
    return first[0] == second[0] and (first[1] == second[1] or None in (first[1], second[1]))


def is_one_host(first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    """Return whether two results of `machine` are of one host for a GPU's times: its usable threads may differ between runs.

    If an identifier is missing, processor and threads decide.
    """
    return is_one_machine(first, second) or (first[1] is not None and first[1] == second[1])


def machine_count(provenances: Iterable[str | None]) -> int:
    """Return the number of machines or GPUs that rows with these provenances name; unnamed ones count as one."""
    facts = [read_json(provenance or "{}") for provenance in provenances]
    return len({(row_facts.get("machine"), (row_facts.get("gpu") or {}).get("uuid")) for row_facts in facts})
