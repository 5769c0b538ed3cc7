"""Tables of published claims with our verdicts: a column for each device, and the commands that repeat the measurements."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.store_devices import StoreDevice, card_of
from ..analysis.verdicts import no_difference
from ..measure.stats import CONFIDENCE
from .cell_format import INTERVAL_WORDS, ratio_text
from .columns import Column, table, text_column
from .html import Cell, Row, Table

if TYPE_CHECKING:
    from ..analysis.verdicts import Judged, Verdict

COLUMNS = (
    *("id", "claim", "case", "variants", "compared", "published", "device", "backend", "verdict"),
    *("ours", "ours_low", "ours_high", "note"),
)


def claims(lines: "Sequence[Judged]", title: str, lab: str = "") -> Table:
    """Return a table of claims: the statement, the published number, and each device's verdict with the number behind it.

    lines: from `verdicts.judged`. title: the lab's title. lab: its name, if a page links to the rows.
    """
    devices = list(lines[0].outcomes) if lines else []
    columns = [Cell("Claim"), Cell("What the report says"), Cell("On", "key"), Cell("Published", "num published")]
    columns += [Cell(str(device)) for device in devices] or [Cell("Measured here")]
    rows, records = [], []
    for _, group in groupby(lines, key=lambda line: line.id):
        above = ""
        for number, line in enumerate(group):
            compared = line.evidence.compared
            statement = Cell(
                line.claim if number == 0 else "", "wrap", small=f"({compared})" if compared not in ("", above) else ""
            )
            above = compared
            cells = [Cell(line.id), statement, Cell(line.evidence.scope, "wrap"), _published_cell(line)]
            if reason := getattr(line.evidence, "reason", ""):
                cells.append(Cell(f"not testable: {reason}", "reason wrap", span=len(devices) or 1))
            else:
                cells += [verdict_cell(line, device, lab) for device in devices] or [_NOT_MEASURED]
            rows.append(Row(cells, anchor=anchor(lab, line.id, number) if lab else ""))
            records += _records(line)
    notes = [f"{device}: {_verdict_counts(line.outcomes[device].verdict for line in lines)}." for device in devices]
    notes += [
        "In parentheses below a statement: the exact comparison. Below a published number:"
        " 'claims none' where the report says that there is no effect.",
        "Below each verdict: our number, of the same kind as the published one, with its"
        f" {CONFIDENCE} interval. Whether times differ is decided as in every table: {INTERVAL_WORDS}.",
        "A row of the store counts if its kernel is identical to today's and its size is a published one; of these, all"
        " runs of the newest measurement.",
    ]
    caption = f"{title}: published claims, re-tested"
    return Table(caption, columns, rows, records, notes, "claims", fields=list(COLUMNS))


def claim_measurements(lines: "Sequence[Judged]", commands: dict[str, str], title: str) -> Table:
    """Return a table of the measurements behind each claim, and the commands that repeat them.

    commands: the claim's id -> command; '' for none.
    """
    groups = {name: list(group) for name, group in groupby(lines, key=lambda line: line.id)}

    def cells(name: str) -> str:
        cases = dict.fromkeys(line.evidence.case for line in groups[name] if line.evidence.case)
        variants = dict.fromkeys(variant for line in groups[name] for variant in line.variants)
        return f"{', '.join(variants)} on {', '.join(cases)}" if variants else "none"

    columns: list[Column[str]] = [
        text_column("Claim", "id", str),
        text_column("Shown by", "shown_by", lambda name: groups[name][0].shown_by, "wrap"),
        text_column("Cells", "cells", cells, "wrap"),
        Column(
            Cell("To repeat them", "command"),
            lambda name: Cell(commands[name] or show.DASH, "wrap"),
            fields={"command": commands.__getitem__},
        ),
    ]
    return table(f"{title}: the measurements behind each claim", columns, groups, css="claims-cells")


def anchor(lab: str, claim: str, number: int) -> str:
    """Return the id of the row with a claim's first piece of evidence, or with another one of several."""
    return f"claim-{lab}-{claim}" + (f"-{number + 1}" if number else "")


_NOT_MEASURED = Cell("not measured", "absent")


def _unit_scale(unit: str) -> tuple[float, str]:
    """Return the factor by which numbers of a unit are shown, and the text that follows them."""
    return (100.0, f"{show.THIN}%") if unit == "%" else (1.0, "" if unit == "x" else f"{show.THIN}{unit}")


def _published_cell(line: "Judged") -> Cell:
    """Return the cell of the published numbers, which notes if the verdict's rule takes them for no difference."""
    unit = line.evidence.unit
    text = "; ".join(published_number(effect, unit) for effect in line.effects) or show.DASH
    stated = line.effects if line.evidence.effect is None else (line.evidence.effect,)
    none = unit == "x" and len(stated) == 1 and no_difference(stated[0])
    return Cell(text, "num published", small="(claims none)" if none else "")


def published_number(effect: float, unit: str) -> str:
    """Return a published number with all its digits: '384.5', '19.2 %', '2.2 FLOP/B'."""
    size, ending = _unit_scale(unit)
    return f"{size * effect:.10g}{ending}"


def verdict_cell(line: "Judged", device: StoreDevice, lab: str) -> Cell:
    """Return the cell of a verdict, linked to the measurement of its first variant. lab: its name; '' for no link."""
    cell, case = _unlinked_verdict_cell(line.outcomes[device], line.evidence.unit), line.evidence.case
    finding = line.outcomes[device].finding
    if not lab or not case or not line.variants or finding is None:
        return cell
    variant = (finding.variants or line.variants)[0]
    return replace(cell, card_id=card_of(lab, device.id, "published", f"{variant}~{case}".replace(" ", "_")))


def _unlinked_verdict_cell(outcome: "Verdict", unit: str) -> Cell:
    """Return the cell of a verdict; its small print has our number, or the reason why there is none."""
    estimate, (size, ending) = outcome.finding, _unit_scale(unit)
    if estimate is None:
        return Cell(outcome.verdict, "absent wrap", small=f"({outcome.reason})")
    number, low, high = (size * end for end in (estimate.estimate, estimate.low, estimate.high))
    if estimate.low == estimate.high:
        small = show.number(number)
    else:
        small = ratio_text(number, low, high, outcome.verdict) if unit == "x" else show.interval(number, low, high)
    how = f" ({estimate.how})" if estimate.how else ""
    return Cell(outcome.verdict, f"verdict {outcome.verdict.replace(' ', '-')} wrap", small=f"{small}{ending}{how}")


def _records(line: "Judged") -> list[dict[str, Any]]:
    shared = {
        "id": line.id,
        "claim": line.claim,
        "case": line.evidence.scope,
        "variants": ", ".join(line.variants),
        "compared": line.evidence.compared,
        "published": line.effects[0] if len(line.effects) == 1 else None,
    }
    return [
        shared
        | {"device": device.slug, "backend": device.backend, "verdict": outcome.verdict}
        | (
            {"ours": estimate.estimate, "ours_low": estimate.low, "ours_high": estimate.high, "note": estimate.how}
            if (estimate := outcome.finding)
            else {"note": outcome.reason}
        )
        for device, outcome in line.outcomes.items()
    ]


def _verdict_counts(verdicts: Any) -> str:
    """Return '12 holds, 3 reversed', the most frequent first."""
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).most_common())
