"""One step of a ladder for the reader: what changes, what was expected, what it brought on each case, and its diff."""

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.readings import faster, newest
from .cells import ratio_cell, ratio_head, time_cell, usual_how
from .html import Cell, Html, Row, Table, html_diff

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Variant


def step(variant: "Variant", rows: "pd.DataFrame", cases: Mapping[str, str], diff: str, size: str = "") -> Html:
    """cases: name -> why the variant does not run there, empty where it does. diff: unified, of the kernels as they are
    compiled; may be empty. size: the case whose sizes these have as constants; empty where they have none.
    """
    name = escape(variant.name)
    over = f"Over <code>{escape(variant.parent)}</code>. " if variant.parent else ""
    link = f'<a class="headerlink" href="#step-{name}" title="Link to this step">#</a>'
    parts = [
        f'<div class="step" id="step-{name}">',
        f"<h3><code>{name}</code>{link}</h3>",
        f"<p>{over}{escape(variant.change)}</p>",
        f'<p class="expected"><em>Expected:</em> {escape(variant.expect)}</p>' if variant.expect else "",
        effect(variant.name, variant.parent, rows, cases).html,
    ]
    on = f", on {escape(size)}" if size else ""
    if diff:
        parts.append(
            f"<details><summary>Diff of the kernel, {escape(variant.parent or '')} to {name}{on}</summary>"
            f"{html_diff(diff)}</details>"
        )
    elif variant.parent:
        differs = " and ".join(name for name in variant.differs if name != "source")
        parts.append(f'<p class="table-note">The kernel is the same; what differs: {escape(differs)}.</p>')
    for compiler, why in variant.same_code.items():
        parts.append(
            f'<p class="table-note">In the tests of this book {escape(compiler)} makes the same machine code of it as of'
            f" <code>{escape(variant.parent or '')}</code>, since {escape(why)}. Where it does, their times differ by noise"
            " alone.</p>"
        )
    return Html("".join([*parts, "</div>"]))


def effect(name: str, parent: str | None, rows: "pd.DataFrame", cases: Mapping[str, str]) -> Table:
    """One line a case: time of the parent, time of the variant, how many times as fast."""
    import pandas as pd

    lines = []
    known = set(rows["case"]) if len(rows) else set()
    read = {case: newest(rows, case) if case in known else {} for case in cases}
    ratios = {case: faster(found.get(parent or ""), found[name]) for case, found in read.items() if name in found}
    how = usual_how(ratios.values())
    for case, lack in cases.items():
        own, other = read[case].get(name), read[case].get(parent or "")
        if own is None or not own.ok:
            why = f"failed: {own.why}" if own else lack or "not measured"
            lines.append(Row([Cell(case), Cell(why, "reason", span=3 if parent else 1)], "failed" if own else "absent"))
            continue
        unit, size = show.time_unit([own.median])
        if parent is None:
            lines.append(Row([Cell(case), Cell(f"{time_cell(own, size).text} {unit}", "num", of=own.id)]))
            continue
        before = Cell(show.DASH, "num")
        if other and other.ok:
            before = Cell(f"{time_cell(other, size).text} {unit}", "num", of=other.id)
        after = Cell(f"{time_cell(own, size).text} {unit}", "num", of=own.id)
        lines.append(Row([Cell(case), before, after, ratio_cell(ratios[case], known=how)]))
    columns = [Cell("Case"), *([Cell(parent, "num")] if parent else []), Cell(name, "num")]
    columns += [ratio_head("times as fast", how)] if parent else []
    return Table(f"Effect of {name}", columns, lines, pd.DataFrame(), [], "effect")
