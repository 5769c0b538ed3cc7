"""Result of a gate: a table for a terminal, JSON for a program, and annotations that GitHub shows beside the changed lines."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from operator import attrgetter
from typing import Any

from .. import strict_json
from ..analysis import format as show
from ..analysis.gate import FAILING, Findings, Gated
from ..escaping import printable, printable_data
from ..measure.side_by_side import Rule
from ..measure.stats import CONFIDENCE, ENOUGH_RUNS, LEAST, RatioEstimate
from .columns import Column, table
from .html import Table

VERDICT_ORDER = ("broken", "slower", "undecided", "not compared", "faster", "unchanged")
"""Verdicts in the order of the table's lines: failures first."""
MOST_NAMES = 8
"""Most names of new or removed variants in a sentence."""
WEAKER_NOTE = (
    "These rows were taken at another time, not in turns with today's measurements: this is the weaker comparison. If you"
    " name a commit in place of rows, its own source is measured in turns with today's."
)


def gate_table(findings: Findings, rule: Rule) -> Table:
    """Return a table with a line for each variant and case, failures first; times are per unit, ratios are now over before."""
    ordered = sorted(findings.outcomes, key=lambda outcome: VERDICT_ORDER.index(outcome.verdict))
    name, size = show.time_unit([second for outcome in ordered for second in outcome.seconds or ()])

    def time(number: int, outcome: Gated) -> str:
        return show.number(outcome.seconds[number] / size) if outcome.seconds else show.DASH

    columns: list[Column[Gated]] = [
        Column("Variant", lambda outcome: f"{outcome.lab} {outcome.variant}"),
        Column("Case", attrgetter("case")),
        Column("Verdict", attrgetter("verdict")),
        Column("Times as long", lambda outcome: _ratio_text(outcome.ratio) if outcome.ratio else show.DASH, "num"),
        Column(f"Before, {name}", partial(time, 0), "num"),
        Column(f"Now, {name}", partial(time, 1), "num"),
        Column("Runs", lambda outcome: str(outcome.runs or ""), "num"),
    ]
    if any(outcome.reason for outcome in ordered):
        columns.append(Column("Why", attrgetter("reason"), "wrap"))
    records = list(map(_record, ordered))
    explanations = notes(findings, rule)
    caption = f"Against {findings.against}"
    return table(caption, columns, ordered, explanations, "gate", records=records, marks=attrgetter("verdict"))


def _ratio_text(ratio: RatioEstimate) -> str:
    """Return a ratio with three decimals, since three digits could hide the difference that the verdict rests on."""
    return f"{ratio.estimate:.3f} [{ratio.low:.3f}, {ratio.high:.3f}]"


def notes(findings: Findings, rule: Rule) -> list[str]:
    """Return sentences that explain the table, and name the variants that are not in it."""
    sentences = []
    if findings.outcomes:
        percent = show.number(100 * (rule.tolerance - 1), 2)
        sentences.append(
            f"Times as long: time now over time before, with its {CONFIDENCE} interval over runs. Slower: all of it lies above"
            f" {LEAST}. Unchanged: all of it lies below {rule.tolerance:g}, so a slowdown of {percent}{show.THIN}% is excluded."
            " Undecided: neither."
        )
        if findings.commit is None:
            sentences.append(f"{WEAKER_NOTE} A difference needs {ENOUGH_RUNS} runs on both sides.")
    same = findings.same
    if same:
        sentences.append(
            f"{same} {'variant has' if same == 1 else 'variants have'} not changed; --unchanged measures these too."
        )
    for names, heading in (
        (findings.elsewhere, "Changed, but not measured, since this device does not run them"),
        (findings.new, "New, so there is nothing to compare with"),
        (findings.removed, "Gone"),
    ):
        if names:
            remainder = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            sentences.append(f"{heading}: {', '.join(names[:MOST_NAMES])}{remainder}.")
    return sentences


def summary(findings: Findings) -> str:
    """Return a sentence that names the reference and counts the variants by verdict."""
    if not findings.compared:
        reason = findings.lack or "no variant that was asked for is in both and runs here"
        return f"nothing was compared with {findings.against}: {reason}"
    if not findings.outcomes:
        variants = "1 variant" if findings.same == 1 else f"{findings.same} variants"
        return f"The code of {variants} is the same as in {findings.against}, so nothing was measured."
    counts = [(word, sum(outcome.verdict == word for outcome in findings.outcomes)) for word in VERDICT_ORDER]
    counts_text = ", ".join(f"{count} {word}" for word, count in counts if count)
    return f"Against {findings.against}: {counts_text}."


def as_json(findings: Findings, rule: Rule) -> str:
    """Return all findings as JSON with all digits; seconds are per unit."""
    outcomes = [
        _record(outcome) | {"runs": outcome.runs, "ratios": list(outcome.ratios)} for outcome in findings.outcomes
    ]
    report = {
        "against": findings.against, "commit": findings.commit, "failed": bool(findings.failing),
        "comparison": _comparison_text(findings),
        "rule": asdict(rule) | {"least": LEAST}, "compared": findings.compared, "unchanged": findings.same,
        "elsewhere": findings.elsewhere, "new": findings.new, "gone": findings.removed,
        "results": outcomes,
    }  # fmt: skip
    return strict_json.dumps(printable_data(report), indent=1, ensure_ascii=False) + "\n"


def _comparison_text(findings: Findings) -> str:
    return "in turns with the commit's own source" if findings.commit else "with stored rows, across runs"


def _record(outcome: Gated) -> dict[str, Any]:
    ratio = outcome.ratio
    before, now = outcome.seconds or (None, None)
    ends = (ratio.estimate, ratio.low, ratio.high) if ratio else (math.nan,) * 3
    estimate, low, high = (end if math.isfinite(end) else None for end in ends)
    return {
        "lab": outcome.lab, "variant": outcome.variant, "case": outcome.case,
        "device": outcome.device, "backend": outcome.backend,
        "verdict": outcome.verdict, "ratio": estimate, "low": low, "high": high,
        "before_s": before, "now_s": now, "unit": outcome.unit, "why": outcome.reason,
        "file": outcome.file, "line": outcome.line,
    }  # fmt: skip


def annotations(findings: Findings) -> Sequence[str]:
    """Return workflow commands of GitHub: an error for each failure, a warning if undecided, at the file of the change."""
    levels = dict.fromkeys(FAILING, "error") | {"undecided": "warning"}
    return [
        _annotation(levels[outcome.verdict], outcome, findings)
        for outcome in findings.outcomes
        if outcome.verdict in levels
    ]


def _annotation(level: str, outcome: Gated, findings: Findings) -> str:
    ratio = outcome.ratio
    comparison = f"{_ratio_text(ratio)} times as long as in {findings.against}" if ratio else ""
    device = f" on {outcome.device} by {outcome.backend}" if outcome.device else ""
    text = "; ".join(
        filter(None, [f"{outcome.variant} on {outcome.case}{device}: {outcome.verdict}", comparison, outcome.reason])
    )
    location = f"file={_property(outcome.file)},line={outcome.line}," if outcome.file else ""
    return f"::{level} {location}title={_property(f'{outcome.lab} {outcome.variant}: {outcome.verdict}')}::{_escaped(text)}"


def _escaped(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
