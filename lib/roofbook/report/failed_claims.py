"""The claims of a report that did not hold on some device, as a list: the published number, ours, links to the steps."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..escaping import escape
from .claims_table import anchor, printed, verdict_cell
from .html import Cell, Html

if TYPE_CHECKING:
    from ..analysis.verdicts import Judged

FAILED = ("reversed", "no difference", "a difference")
"""The verdicts on a claim that did not hold, the strongest first."""


def failed_claims(lines: "Sequence[Judged]", lab: str, title: str, commands: Mapping[str, str]) -> Html:
    """An item for each claim that failed somewhere; '' where there is none.

    lines: from `claims.judged`, of the lab of that name and title. commands: by the claim's id, what measures it again.
    """
    items = []
    for _, group in groupby(lines, key=lambda line: line.id):
        pieces = [(at, line) for at, line in enumerate(group) if any(_failed(line, lab))]
        items += [_item(pieces, lab, commands[pieces[0][1].id])] if pieces else []
    if not items:
        return Html("")
    return Html(f'<div><h3>{escape(title)}</h3>\n<ul class="failed-claims">\n{"".join(items)}</ul></div>\n')


def _failed(line: "Judged", lab: str) -> Iterator[tuple[str, str]]:
    """Each verdict that says so, the strongest first, with its devices and our numbers as HTML, which open their cards."""
    for verdict in FAILED:
        on = [place for place, each in line.outcomes.items() if each.verdict == verdict]
        if on:
            yield verdict, "; ".join(f"{escape(str(place))}: {_number(verdict_cell(line, place, lab))}" for place in on)


def _number(cell: Cell) -> str:
    """The number of a verdict with its interval, and what is said of it: '0.9 [0.8, 1.0] (in one run)'."""
    number, bracket, said = cell.small.partition(" (")
    shown = f'<span data-of="{escape(cell.of)}">{escape(number)}</span>' if cell.of else escape(number)
    return shown + escape(bracket + said)


def _item(pieces: "Sequence[tuple[int, Judged]]", lab: str, command: str) -> str:
    """A claim. pieces: the evidence by which it failed, with its number among all of the claim."""
    found = "".join(f"<p>{_piece(line, lab, at)}</p>" for at, line in pieces)
    again = f"<details><summary>To measure it again</summary><p><code>{escape(command)}</code></p></details>" * bool(
        command
    )
    return f"<li><p>The report: {escape(pieces[0][1].claim)}</p>{found}{again}</li>\n"


def _piece(line: "Judged", lab: str, number: int) -> str:
    published = "; ".join(printed(effect, line.evidence.unit) for effect in line.effects)
    where = f"{escape(line.evidence.scope)}{f', published {escape(published)}' if published else ''}: "
    found = "; ".join(
        f'<strong class="verdict {verdict.replace(" ", "-")}">{verdict}</strong> on {there}'
        for verdict, there in _failed(line, lab)
    )
    steps = dict.fromkeys(name.partition("@")[0] for name in line.variants)
    links = ", ".join(
        f'<a href="labs/{escape(lab)}/kernels.html#{escape(name)}"><code>{escape(name)}</code></a>' for name in steps
    )
    row = f'<a href="#{escape(anchor(lab, line.id, number))}">all devices</a>'
    return f"{where}{found}. {f'Kernels: {links}; ' if links else ''}{row}."
