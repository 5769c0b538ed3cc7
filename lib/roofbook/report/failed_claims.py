"""List of a report's claims that failed on some device: the published number, ours, and links to the steps."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..escaping import escape
from .claims_table import anchor, published_number, verdict_cell
from .html import Cell, Html

if TYPE_CHECKING:
    from ..analysis.verdicts import Judged

FAILED_VERDICTS = ("reversed", "no difference", "a difference")
"""Verdicts on a claim that failed, the strongest first."""


def failed_claims(lines: "Sequence[Judged]", lab: str, title: str, commands: Mapping[str, str]) -> Html:
    """Return an item for each claim that failed somewhere; '' if none did.

    lines: from `verdicts.judged`, of one lab. lab, title: its name and title. commands: the claim's id -> command that repeats
    its measurements.
    """
    items = []
    for _, group in groupby(lines, key=lambda line: line.id):
        pieces = [(number, line) for number, line in enumerate(group) if any(_failed_verdicts(line, lab))]
        items += [_item(pieces, lab, commands[pieces[0][1].id])] if pieces else []
    if not items:
        return Html("")
    return Html(f'<div><h3>{escape(title)}</h3>\n<ul class="failed-claims">\n{"".join(items)}</ul></div>\n')


def _failed_verdicts(line: "Judged", lab: str) -> Iterator[tuple[str, str]]:
    """Yield each failing verdict, the strongest first, with its devices and linked numbers as HTML."""
    for verdict in FAILED_VERDICTS:
        devices = [device for device, outcome in line.outcomes.items() if outcome.verdict == verdict]
        if devices:
            yield (
                verdict,
                "; ".join(
                    f"{escape(str(device))}: {_linked_number(verdict_cell(line, device, lab))}" for device in devices
                ),
            )


def _linked_number(cell: Cell) -> str:
    """Return the number of a verdict with its interval and remark: '0.9 [0.8, 1.0] (in one run)'."""
    number, bracket, remark = cell.small.partition(" (")
    linked = f'<span data-of="{escape(cell.card_id)}">{escape(number)}</span>' if cell.card_id else escape(number)
    return linked + escape(bracket + remark)


def _item(pieces: "Sequence[tuple[int, Judged]]", lab: str, command: str) -> str:
    """Return the item of a claim. pieces: the evidence that failed, with its number in the claim."""
    evidence = "".join(f"<p>{_evidence_text(line, lab, evidence_number)}</p>" for evidence_number, line in pieces)
    repeat = f"<details><summary>To measure it again</summary><p><code>{escape(command)}</code></p></details>" * bool(
        command
    )
    return f"<li><p>The report: {escape(pieces[0][1].claim)}</p>{evidence}{repeat}</li>\n"


def _evidence_text(line: "Judged", lab: str, number: int) -> str:
    published = "; ".join(published_number(effect, line.evidence.unit) for effect in line.effects)
    context = f"{escape(line.evidence.scope)}{f', published {escape(published)}' if published else ''}: "
    verdicts = "; ".join(
        f'<strong class="verdict {verdict.replace(" ", "-")}">{verdict}</strong> on {devices}'
        for verdict, devices in _failed_verdicts(line, lab)
    )
    steps = dict.fromkeys(name.partition("@")[0] for name in line.variants)
    links = ", ".join(
        f'<a href="labs/{escape(lab)}/kernels.html#{escape(name)}"><code>{escape(name)}</code></a>' for name in steps
    )
    row = f'<a href="#{escape(anchor(lab, line.id, number))}">all devices</a>'
    return f"{context}{verdicts}. {f'Kernels: {links}; ' if links else ''}{row}."
