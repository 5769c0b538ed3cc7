"""What a gate found: a table for a terminal, JSON for a program, and annotations that GitHub shows beside the changed lines."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from .. import strict_json
from ..analysis import format as show
from ..analysis.gate import FAILING, Findings, Gated
from ..escaping import printable, printable_data
from ..measure.side_by_side import Rule
from ..measure.stats import CONFIDENCE, ENOUGH_RUNS, LEAST, RatioEstimate
from .html import Cell, Row, Table

ORDER = ("broken", "slower", "undecided", "not compared", "faster", "unchanged")
"""Of the lines of the table: what fails first."""
LISTED = 8
"""Names of new or removed variants in a sentence, at most."""
WEAKER = (
    "These rows were taken at another time, and not in turns with what was measured now: this is the weaker comparison. A"
    " commit in place of rows has its own source measured beside today's."
)


def gate_table(found: Findings, rule: Rule) -> Table:
    """A line a variant and case, what fails first. Times are per unit; the ratio is time now over time before."""
    import pandas as pd

    ordered = sorted(found.outcomes, key=lambda each: ORDER.index(each.verdict))
    name, size = show.time_unit([second for each in ordered for second in each.seconds or ()])
    heads = [
        Cell("Variant"), Cell("Case"), Cell("Verdict"), Cell("Times as long", "num"), Cell(f"Before, {name}", "num"),
        Cell(f"Now, {name}", "num"), Cell("Runs", "num"), Cell("Why", "wrap"),
    ]  # fmt: skip
    if not any(each.reason for each in ordered):
        heads.pop()
    lines = [Row(_cells(each, size)[: len(heads)], each.verdict) for each in ordered]
    frame = pd.DataFrame([_record(each) for each in ordered])
    return Table(f"Against {found.against}", heads, lines, frame, notes(found, rule), "gate")


def _cells(each: Gated, size: float) -> list[Cell]:
    ratio, seconds = each.ratio, each.seconds
    times = [show.number(second / size) for second in seconds] if seconds else [show.DASH] * 2
    return [
        Cell(f"{each.lab} {each.variant}"),
        Cell(each.case),
        Cell(each.verdict),
        Cell(_times(ratio) if ratio else show.DASH, "num"),
        *(Cell(time, "num") for time in times),
        Cell(str(each.runs or ""), "num"),
        Cell(each.reason, "wrap"),
    ]


def _times(ratio: RatioEstimate) -> str:
    """With a third place after the point, where three digits would hide what the verdict is about."""
    return f"{ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def notes(found: Findings, rule: Rule) -> list[str]:
    """What the table means, and what is not in it."""
    said = []
    if found.outcomes:
        percent = show.number(100 * (rule.tolerance - 1), 2)
        said.append(
            f"Times as long: time now over time before, with its {CONFIDENCE} interval over runs. Slower: all of it lies above"
            f" {LEAST}. Unchanged: all of it lies below {rule.tolerance:g}, so a slowdown of {percent}{show.THIN}% is excluded."
            " Undecided: neither."
        )
        if found.commit is None:
            said.append(f"{WEAKER} A difference needs {ENOUGH_RUNS} runs on both sides.")
    same = found.same
    if same:
        said.append(
            f"{same} {'variant has' if same == 1 else 'variants have'} not changed; --unchanged measures these too."
        )
    for names, what in (
        (found.elsewhere, "Changed, but not measured, since this device does not run them"),
        (found.new, "New, so there is nothing to compare with"),
        (found.removed, "Gone"),
    ):
        if names:
            more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
            said.append(f"{what}: {', '.join(names[:LISTED])}{more}.")
    return said


def summary(found: Findings) -> str:
    """Return what was compared and what it came to, in a sentence or two."""
    if not found.compared:
        why = found.lack or "no variant that was asked for is in both and runs here"
        return f"nothing was compared with {found.against}: {why}"
    if not found.outcomes:
        variants = "1 variant" if found.same == 1 else f"{found.same} variants"
        return f"The code of {variants} is the same as in {found.against}, so nothing was measured."
    counts = [(word, sum(each.verdict == word for each in found.outcomes)) for word in ORDER]
    told = ", ".join(f"{count} {word}" for word, count in counts if count)
    return f"Against {found.against}: {told}."


def as_json(found: Findings, rule: Rule) -> str:
    """All of it, with all digits; seconds are per unit."""
    outcomes = [_record(each) | {"runs": each.runs, "ratios": list(each.ratios)} for each in found.outcomes]
    made = {
        "against": found.against, "commit": found.commit, "failed": bool(found.failing), "comparison": _how(found),
        "rule": asdict(rule) | {"least": LEAST}, "compared": found.compared, "unchanged": found.same,
        "elsewhere": found.elsewhere, "new": found.new, "gone": found.removed,
        "results": outcomes,
    }  # fmt: skip
    return strict_json.dumps(printable_data(made), indent=1, ensure_ascii=False) + "\n"


def _how(found: Findings) -> str:
    return "in turns with the commit's own source" if found.commit else "with stored rows, across runs"


def _record(each: Gated) -> dict[str, Any]:
    ratio = each.ratio
    before, now = each.seconds or (None, None)
    ends = (ratio.estimate, ratio.low, ratio.high) if ratio else (math.nan,) * 3
    estimate, low, high = (end if math.isfinite(end) else None for end in ends)
    return {
        "lab": each.lab, "variant": each.variant, "case": each.case, "device": each.device, "backend": each.backend,
        "verdict": each.verdict, "ratio": estimate, "low": low, "high": high,
        "before_s": before, "now_s": now, "unit": each.unit, "why": each.reason,
        "file": each.file, "line": each.line,
    }  # fmt: skip


def annotations(found: Findings) -> Sequence[str]:
    """Workflow commands of GitHub: an error for what fails, a warning for what is undecided, at the file of the change."""
    levels = dict.fromkeys(FAILING, "error") | {"undecided": "warning"}
    return [_annotation(levels[each.verdict], each, found) for each in found.outcomes if each.verdict in levels]


def _annotation(level: str, each: Gated, found: Findings) -> str:
    ratio = each.ratio
    told = f"{_times(ratio)} times as long as in {found.against}" if ratio else ""
    where = f" on {each.device} by {each.backend}" if each.device else ""
    text = "; ".join(filter(None, [f"{each.variant} on {each.case}{where}: {each.verdict}", told, each.reason]))
    place = f"file={_property(each.file)},line={each.line}," if each.file else ""
    return f"::{level} {place}title={_property(f'{each.lab} {each.variant}: {each.verdict}')}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
