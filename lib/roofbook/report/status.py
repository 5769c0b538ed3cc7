"""Tables of record: the state of every measurement, failures and their reasons, the card of a run."""

from collections import Counter
from collections.abc import Iterable, Mapping
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.readings import Reading, newest
from .columns import Column, Record, row_fields, table
from .html import Cell, Table

if TYPE_CHECKING:
    import pandas as pd

STATES = {
    "fresh": "measured with today's code and environment",
    "stale-env": "today's code, another driver, runtime or version",
    "stale-code": "measured, but not with today's code",
    "failed": "the newest attempt failed",
    "missing": "never measured",
}


def states(cells: Iterable[Record], caption: str = "State of every measurement") -> Table:
    """Return a table of the state of each measurement and its reason.

    cells: mappings with lab, variant, case, backend, device, state and why. From the store: `[{**cell, **state._asdict()} for
    cell, state in zip(cells, store.states(cells))]`.
    """
    names = ("lab", "variant", "case", "backend", "device", "state", "why")
    records = [{name: str(cell.get(name) or "") for name in names} for cell in cells]
    columns: list[Column[Record]] = [
        Column("Variant", itemgetter("variant")),
        Column(Cell("Case", "key"), itemgetter("case")),
        Column("Backend", itemgetter("backend")),
        Column("Device", itemgetter("device")),
        Column("State", lambda record: Cell(record["state"], f"state {record['state']}")),
        Column(Cell("Why", "below"), lambda record: Cell(record["why"])),
    ]
    counts = Counter(record["state"] for record in records)
    counted = "; ".join(f"{counts[state]} {state}: {meaning}" for state, meaning in STATES.items() if counts[state])
    return table(
        caption,
        columns,
        records,
        [f"{counted}." if counted else "No measurements."],
        "states",
        records=records,
        fields=names,
        marks=itemgetter("state"),
    )


def failed(rows: "pd.DataFrame", origin: str = "") -> Table:
    """Return a table of failures: the newest row of each variant, case and device, if it failed or was not verified.

    origin: that of the rows, such as a device, so that "Nothing failed" claims no more than the rows say.
    """
    groups = rows.groupby(["case", "device"], sort=False) if len(rows) else ()
    failures = [reading for _, group in groups for reading in newest(group).values() if not reading.ok]
    columns: list[Column[Reading]] = [
        Column("Variant", lambda reading: Cell(reading.variant, "wrap"), fields={"variant": attrgetter("variant")}),
        Column("Case", lambda reading: str(reading.row["case"]), fields=row_fields("case")),
        Column(
            "Device",
            lambda reading: f"{reading.row['device']}, {reading.row.get('backend')}",
            fields=row_fields("device", "backend"),
        ),
        Column("Why", lambda reading: Cell(reading.reason, "reason"), fields={"reason": attrgetter("reason")}),
        Column("When (UTC)", lambda reading: f"{reading.row['started']:%Y-%m-%d %H:%M}", fields=row_fields("started")),
    ]
    on_origin = f" on {origin}" if origin else ""
    notes = [] if failures else [f"Nothing failed{on_origin}."]
    caption = f"What failed{on_origin}, and why"
    return table(caption, columns, failures, notes, "failures", marks=lambda _: "failed")


def card(provenance: Mapping[str, Any], parameters: Mapping[str, Any]) -> Table:
    """Return the card at the head of a page: the run's parameters and the facts of its provenance."""
    records = [{"fact": name, "value": text} for name, text in run_facts(provenance, parameters).items()]
    columns: list[Column[Record]] = [
        Column("Fact", lambda record: record["fact"].replace("_", " ")),
        Column("Value", itemgetter("value")),
    ]
    return table("This run", columns, records, (), "run-card", records=records, fields=("fact", "value"))


def run_facts(provenance: Mapping[str, Any], parameters: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters of a run and its provenance as texts by name, in a fixed order; empty facts are left out.

    provenance: of a row, as made by provenance.snapshot. A parameter replaces the fact of the same name.
    """
    facts = dict(provenance)
    environment = dict(facts.pop("environment", None) or {})
    device = environment.pop("device", None) or {}
    git, gpu = facts.pop("git", None) or {}, facts.pop("gpu", None) or {}
    commit = str(git.get("commit") or "")[:12] + (" with uncommitted changes" if git.get("dirty") else "")
    commit += f" ({git['change']})" if git.get("change") else ""
    merged = {**device, **environment, **facts, **_gpu_facts(gpu), "commit": commit.strip()}
    merged = {**parameters, **{name: fact for name, fact in merged.items() if name not in parameters}}
    for name in [name for name in merged if name.endswith("_bytes") and merged[name]]:
        merged[name.removesuffix("_bytes")] = show.quantity(float(merged.pop(name)), "B")
    return {name: text for name, fact in merged.items() if (text := _fact_text(fact))}


def _gpu_facts(gpu: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts of a GPU: its identifiers, power limit, clock limit and modes."""

    def limit(name: str, default: str, unit: str, words: str) -> str:
        setting, usual = gpu.get(name), gpu.get(default)
        if setting is None:
            return ""
        return f"{setting:g} {unit}" + (f", {words} {usual:g} {unit}" if usual not in (None, setting) else "")

    modes = {"persistence": "persistence mode", "mig": "MIG", "ecc": "ECC"}
    flags = [f"{name} {'on' if gpu[mode] else 'off'}" for mode, name in modes.items() if gpu.get(mode) is not None]
    return {
        "GPU": ", ".join(filter(None, [gpu.get("uuid"), gpu.get("pci_bus_id")])),
        "GPU driver": gpu.get("driver") or "",
        "power limit": limit("power_limit_w", "power_limit_default_w", "W", "by default"),
        "application clock": limit("application_clock_mhz", "highest_clock_mhz", "MHz", "at most"),
        "GPU modes": ", ".join([*flags, *([f"compute mode {gpu['compute_mode']}"] if gpu.get("compute_mode") else [])]),
    }


def _fact_text(fact: Any) -> str:
    """Return a fact as one line."""
    if isinstance(fact, Mapping):
        return ", ".join(f"{name} {_fact_text(inner)}" for name, inner in fact.items() if _fact_text(inner))
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, (list, tuple)):
        return ", ".join(_fact_text(member) for member in fact)
    if isinstance(fact, float):
        return show.number(fact)
    return "" if fact is None else str(fact)
