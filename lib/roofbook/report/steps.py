"""One step of a ladder for the reader: what changes, what was expected, and in a line a case what it brought."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.predictions import outcome
from ..analysis.readings import Reading, cases_of, faster, newest
from ..analysis.sentences import effect_text
from ..escaping import escape
from .counters_table import moved_by_step
from .html import Html, html_diff, number_of, with_code

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Variant
    from ..spec.prediction import Prediction

NONE: "Mapping[str, Prediction]" = MappingProxyType({})


def step(
    variant: "Variant",
    rows: "pd.DataFrame",
    cases: Mapping[str, str],
    diff: str,
    of: str,
    size: str = "",
    predictions: "Mapping[str, Prediction]" = NONE,
    profiles: "pd.DataFrame | None" = None,
) -> Html:
    """cases: name -> why the variant does not run there, empty where it does. diff: unified, of the kernels as they are
    compiled; may be empty. of: the lab's name. size: the case whose sizes these have as constants; empty where they have none.
    predictions: by case what `expect` comes to there. profiles: what hardware counters counted, on any cases.

    A notebook has the difference of the kernels to unfold, and the site a link to the page that has both: `on_site` chooses.
    """
    name = escape(variant.name)
    over = f"Over <code>{escape(variant.parent)}</code>. " if variant.parent else ""
    link = f'<a class="headerlink" href="#step-{name}" title="Link to this step">#</a>'
    there = "Code and difference" if diff else "Code"
    code = f'<a class="step-code on-site" href="{escape(of)}/kernels.html#{name}" hidden>{there}</a>' * bool(
        variant.source
    )
    parts = [
        f'<div class="step" id="step-{name}">',
        f"<h3><code>{name}</code>{link}</h3>{code}",
        f"<p>{over}{with_code(variant.change)}</p>",
        f'<p class="expected"><em>Expected:</em> {with_code(variant.expect)}{_judged(predictions, cases)}</p>'
        if variant.expect
        else "",
        effect(variant.name, variant.parent, rows, cases, predictions, profiles),
    ]
    on = f", on {escape(size)}" if size else ""
    if diff:
        parts.append(
            f'<details class="in-notebook"><summary>Diff of the kernel, {escape(variant.parent or "")} to {name}{on}</summary>'
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


def effect(
    name: str,
    parent: str | None,
    rows: "pd.DataFrame",
    cases: Mapping[str, str],
    predictions: "Mapping[str, Prediction]" = NONE,
    profiles: "pd.DataFrame | None" = None,
) -> Html:
    """One line a case: what came of the prediction, how many times as fast as its parent a variant is, and both times; or why
    there is no time. Where all cases lack one for the same reason, one line says so. Below a line stands what hardware counters
    say, where both were counted.
    """
    read = {case: newest(rows, case) if case in cases_of(rows) else {} for case in cases}
    lacks = {case: _lack(read[case].get(name), lack) for case, lack in cases.items()}
    if len(set(lacks.values())) == 1 and any(lacks.values()):
        return Html(f'<ul class="effect"><li class="absent">{escape(_sentence(next(iter(lacks.values()))))}</li></ul>')
    lines = []
    for case in cases:
        css, text, cause = "absent", escape(_sentence(lacks[case]).removesuffix(".")), ""
        if not lacks[case]:
            own, other = read[case][name], read[case].get(parent or "")
            css, text = _brought(own, other, predictions.get(case))
            cause = _counted(profiles, own, other)
        mark = f' class="{css}"' * bool(css)
        lines.append(
            f'<li{mark} data-case="{escape(case)}">{text} <span class="on-case">on {escape(case)}</span>{cause}</li>'
        )
    return Html(f'<ul class="effect">{"".join(lines)}</ul>')


def _brought(own: Reading, parent: Reading | None, prediction: "Prediction | None") -> tuple[str, str]:
    """The class of a line, and 'Confirmed: 1.52 times as fast [1.50, 1.54], 18.0 -> 11.8 us'; a time alone without another."""
    ratio = faster(parent, own)
    if ratio is None or parent is None:
        return "", number_of(show.duration(own.median), own.id)
    unit, size = show.time_unit([parent.median, own.median])
    before = number_of(show.number(parent.median / size), parent.id)
    after = number_of(f"{show.number(own.median / size)}{show.THIN}{unit}", own.id)
    words, ends = effect_text(ratio)
    how = f" <small>({escape(ratio.how)})</small>" * bool(ratio.how and ends)
    came = outcome(prediction, ratio) if prediction else ""
    said = f"{came[:1].upper()}{came[1:]}: {words}" if came else f"{words[:1].upper()}{words[1:]}"
    return (
        came and f"verdict {came}",
        f"<strong>{said}</strong>{f' {escape(ends)}' * bool(ends)}{how}, {before} → {after}",
    )


def _counted(profiles: "pd.DataFrame | None", own: Reading, parent: Reading | None) -> str:
    """What counters say beside the effect on a case; '' where they say nothing of both."""
    ratio = faster(parent, own)
    if parent is None or ratio is None:
        return ""
    told = moved_by_step(profiles, own, parent, ratio.word)
    return f'<div class="cause">Counters: {escape(told)}.</div>' if told else ""


def _judged(predictions: "Mapping[str, Prediction]", cases: Mapping[str, str]) -> str:
    """What is judged of the sentence before it, in words: of all cases alike, or which of which."""
    by_words: dict[str, list[str]] = {}
    for case, each in predictions.items():
        by_words.setdefault(each.words, []).append(case)
    if not by_words:
        return ""
    told = "; ".join(f"{words} on {', '.join(named)}" for words, named in by_words.items())
    if len(by_words) == 1 and len(predictions) == len(cases):
        told = next(iter(by_words))
    return f' <small class="judged">(Judged as: {escape(told)}.)</small>'


def _lack(reading: Reading | None, lack: str) -> str:
    """Why there is no time; '' where there is one."""
    if reading is None:
        return lack or "not measured"
    return "" if reading.ok else f"failed: {reading.reason}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."
