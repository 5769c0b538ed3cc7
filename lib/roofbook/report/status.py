"""Tables of record: the state of every measurement, failures and their reasons, the card of a run."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.readings import newest
from ..escaping import read_json
from .html import Cell, Row, Table

if TYPE_CHECKING:
    import pandas as pd

STATES = {
    "fresh": "measured with today's code and environment",
    "stale-env": "today's code, another driver, runtime or version",
    "stale-code": "measured, but not with today's code",
    "failed": "the newest attempt failed",
    "missing": "never measured",
}


def states(cells: Iterable[Mapping[str, Any] | object], caption: str = "") -> Table:
    """Return a table of the state of each measurement and its reason.

    cells: mappings or objects with lab, variant, case, backend, device, state and why. From the store: `[{**cell,
    **state._asdict()} for cell, state in zip(cells, store.states(cells))]`.
    """
    names = ("lab", "variant", "case", "backend", "device", "state", "why")
    records = [
        {name: (cell.get(name) if isinstance(cell, Mapping) else getattr(cell, name, None)) or "" for name in names}
        for cell in cells
    ]
    lines = [
        Row(
            [
                Cell(str(record["variant"])),
                Cell(str(record["case"])),
                Cell(str(record["backend"])),
                Cell(str(record["device"])),
                Cell(str(record["state"]), f"state {record['state']}"),
                Cell(str(record["why"])),
            ],
            str(record["state"]),
        )
        for record in records
    ]
    counts = [
        f"{sum(record['state'] == state for record in records)} {state}: {meaning}"
        for state, meaning in STATES.items()
        if any(record["state"] == state for record in records)
    ]
    columns = [Cell("Variant"), Cell("Case", "key"), *(Cell(name) for name in ("Backend", "Device", "State"))]
    columns += [Cell("Why", "below")]
    return Table(
        caption or "State of every measurement",
        columns,
        lines,
        _frame(records, names),
        ["; ".join(counts) + "."] if counts else ["No measurements."],
        "states",
    )


def failed(rows: "pd.DataFrame", caption: str = "", origin: str = "") -> Table:
    """Return a table of failures: the newest row of each variant, case and device, if it failed or was not verified.

    origin: that of the rows, such as a device, so that "Nothing failed" claims no more than the rows say.
    """
    records = []
    for (case, device), group in rows.groupby(["case", "device"], sort=False) if len(rows) else ():
        records += [
            {
                "variant": name,
                "case": case,
                "device": device,
                "backend": reading.row.get("backend"),
                "reason": reading.reason,
                "started": reading.row["started"],
            }
            for name, reading in newest(group).items()
            if not reading.ok
        ]
    lines = [
        Row(
            [
                Cell(str(record["variant"]), "wrap"),
                Cell(str(record["case"])),
                Cell(f"{record['device']}, {record['backend']}"),
                Cell(str(record["reason"]), "reason"),
                Cell(f"{record['started']:%Y-%m-%d %H:%M}"),
            ],
            "failed",
        )
        for record in records
    ]
    columns = [Cell("Variant"), Cell("Case"), Cell("Device"), Cell("Why"), Cell("When (UTC)")]
    return Table(
        caption or f"What failed{f' on {origin}' if origin else ''}, and why",
        columns,
        lines,
        _frame(records, ("variant", "case", "device", "backend", "reason", "started")),
        () if lines else [f"Nothing failed{f' on {origin}' if origin else ''}."],
        "failures",
    )


def card(provenance: Mapping[str, Any] | str, parameters: Mapping[str, Any], caption: str = "This run") -> Table:
    """Return the card at the head of a page: the run's parameters and its provenance, each fact once, in a fixed order.

    provenance: of a row (provenance.snapshot), as a mapping or its JSON; empty facts are left out. A parameter replaces the
    fact of the same name.
    """
    facts: dict[str, Any] = read_json(provenance) if isinstance(provenance, str) else dict(provenance)
    environment = dict(facts.pop("environment", None) or {})
    device = environment.pop("device", None) or {}
    git, gpu = facts.pop("git", None) or {}, facts.pop("gpu", None) or {}
    commit = str(git.get("commit") or "")[:12] + (" with uncommitted changes" if git.get("dirty") else "")
    commit += f" ({git['change']})" if git.get("change") else ""
    merged = {**device, **environment, **facts, **_gpu_facts(gpu), "commit": commit.strip()}
    merged = {**parameters, **{name: fact for name, fact in merged.items() if name not in parameters}}
    for name in [name for name in merged if name.endswith("_bytes") and merged[name]]:
        merged[name.removesuffix("_bytes")] = show.quantity(float(merged.pop(name)), "B")
    pairs = [(name, _fact_text(fact)) for name, fact in merged.items() if _fact_text(fact)]
    lines = [Row([Cell(name.replace("_", " ")), Cell(fact)]) for name, fact in pairs]
    return Table(
        caption,
        [Cell("Fact"), Cell("Value")],
        lines,
        _frame([{"fact": name, "value": fact} for name, fact in pairs], ("fact", "value")),
        (),
        "run-card",
    )


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


def _frame(records: Iterable[Mapping[str, Any]], columns: Iterable[str]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame([dict(record) for record in records], columns=list(columns))
