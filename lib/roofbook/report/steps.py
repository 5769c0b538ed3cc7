"""A step of a ladder on a lab's page: its change, the expected effect, and the measured one on each case."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.predictions import outcome
from ..analysis.readings import Reading, cases_of, faster, fastest, newest
from ..analysis.sentences import effect_text
from ..escaping import escape
from .counters_table import changed_counters_of_step
from .html import Html, html_diff, number_of, with_code
from .technique_links import techniques_of_step

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.plan import Variant
    from ..spec.prediction import Prediction

NONE: "Mapping[str, Prediction]" = MappingProxyType({})
CHANGED_PART = {"plan": "host code", "options": "options"}
"""Words for the parts in which a step with its parent's kernel differs, as `Variant.differs` names them."""


def step(
    variant: "Variant",
    rows: "pd.DataFrame",
    cases: Mapping[str, str],
    diff: str,
    lab: str,
    size: str = "",
    predictions: "Mapping[str, Prediction]" = NONE,
    profiles: "pd.DataFrame | None" = None,
    tuned_parents: Sequence[str] = (),
) -> Html:
    """Return a step as HTML: name, change, expected effect, measured effects, and the kernel's difference.

    cases: name -> why the variant does not run there; '' if it does. diff: unified, of the kernels as they are compiled; may
    be empty. lab: its name. size: the case whose sizes the kernels have as constants; '' for none. predictions: case -> the
    prediction that `expect` makes there. profiles: rows of hardware counters, of any cases. tuned_parents: names of the parent
    with other sizes of its launch or tiles.

    A notebook has the kernels' difference to unfold, the site a link to the page that has both; `on_site` chooses.
    """
    name = escape(variant.name)
    parent_text = f"Over <code>{escape(variant.parent)}</code>. " if variant.parent else ""
    link = f'<a class="headerlink" href="#step-{name}" title="Link to this step">#</a>'
    link_text = "Code and difference" if diff else "Code"
    code = f'<a class="step-code on-site" href="{escape(lab)}/kernels.html#{name}" hidden>{link_text}</a>' * bool(
        variant.source
    )
    parts = [
        f'<div class="step" id="step-{name}">',
        f"<h3><code>{name}</code>{link}</h3>{code}",
        f"<p>{parent_text}{with_code(variant.change)}</p>",
        f'<p class="expected"><em>Expected:</em> {with_code(variant.expect)}{_judging_note(predictions, cases)}</p>'
        if variant.expect
        else "",
        effect(variant.name, variant.parent, rows, cases, predictions, profiles, tuned_parents),
    ]
    on_size = f", on {escape(size)}" if size else ""
    if diff:
        parts.append(
            f'<details class="in-notebook"><summary>Diff of the kernel, {escape(variant.parent or "")} to {name}{on_size}'
            f"</summary>{html_diff(diff)}</details>"
        )
    elif variant.parent:
        changed = " and ".join(CHANGED_PART[field] for field in variant.differs if field != "source")
        parts.append(f'<p class="table-note">Same kernel; only the {changed} changed.</p>')
    for compiler, reason in variant.same_code.items():
        parts.append(
            f'<p class="table-note">In the tests of this book {escape(compiler)} makes the same machine code of it as of'
            f" <code>{escape(variant.parent or '')}</code>, since {escape(reason)}. On such compilers the two steps are the"
            " same program.</p>"
        )
    parts.append(techniques_of_step(lab, variant.name))
    return Html("".join([*parts, "</div>"]))


def effect(
    name: str,
    parent: str | None,
    rows: "pd.DataFrame",
    cases: Mapping[str, str],
    predictions: "Mapping[str, Prediction]" = NONE,
    profiles: "pd.DataFrame | None" = None,
    tuned_parents: Sequence[str] = (),
) -> Html:
    """Return a list with a line for each case: the prediction's outcome, the ratio to the parent, both times, and counters.

    A case without a time has the reason. If all cases lack a time for the same reason, one line says so. Counters are shown
    if both variants were counted, and the gain over the parent at its best if one of `tuned_parents` is faster.
    """
    readings_by_case = {case: newest(rows, case) if case in cases_of(rows) else {} for case in cases}
    reasons = {case: _lack_reason(readings_by_case[case].get(name), lack) for case, lack in cases.items()}
    if len(set(reasons.values())) == 1 and any(reasons.values()):
        return Html(
            f'<ul class="effect"><li class="absent">{escape(_sentence(next(iter(reasons.values()))))}</li></ul>'
        )
    lines = []
    for case in cases:
        css, text, cause = "absent", escape(_sentence(reasons[case]).removesuffix(".")), ""
        if not reasons[case]:
            reading, parent_reading = readings_by_case[case][name], readings_by_case[case].get(parent or "")
            css, text = _effect_line(reading, parent_reading, predictions.get(case))
            cause = _counters_note(profiles, reading, parent_reading)
            tuned = [readings_by_case[case][tuned] for tuned in tuned_parents if tuned in readings_by_case[case]]
            cause += _tuned_parent_note(reading, parent_reading, fastest(tuned))
        mark = f' class="{css}"' * bool(css)
        lines.append(
            f'<li{mark} data-case="{escape(case)}">{text} <span class="on-case">on {escape(case)}</span>{cause}</li>'
        )
    return Html(f'<ul class="effect">{"".join(lines)}</ul>')


def _effect_line(reading: Reading, parent: Reading | None, prediction: "Prediction | None") -> tuple[str, str]:
    """Return a CSS class and 'Confirmed: 1.52 times as fast [1.50, 1.54], 18.0 -> 11.8 us'; without a parent only a time."""
    ratio = faster(parent, reading)
    if ratio is None or parent is None:
        return "", number_of(show.duration(reading.median), reading.id)
    unit, size = show.time_unit([parent.median, reading.median])
    before = number_of(show.number(parent.median / size), parent.id)
    after = number_of(f"{show.number(reading.median / size)}{show.THIN}{unit}", reading.id)
    words, ends = effect_text(ratio)
    how = f" <small>({escape(ratio.how)})</small>" * bool(ratio.how and ends)
    outcome_word = outcome(prediction, ratio) if prediction else ""
    headline = (
        f"{outcome_word[:1].upper()}{outcome_word[1:]}: {words}" if outcome_word else f"{words[:1].upper()}{words[1:]}"
    )
    return (
        outcome_word and f"verdict {outcome_word}",
        f"<strong>{headline}</strong>{f' {escape(ends)}' * bool(ends)}{how}, {before} → {after}",
    )


def _counters_note(profiles: "pd.DataFrame | None", reading: Reading, parent: Reading | None) -> str:
    """Return the counters that changed with the effect on a case; '' if not both variants were counted."""
    ratio = faster(parent, reading)
    if parent is None or ratio is None:
        return ""
    counted = changed_counters_of_step(profiles, reading, parent, ratio.word)
    return f'<div class="cause">Counters: {escape(counted)}.</div>' if counted else ""


def _tuned_parent_note(reading: Reading, parent: Reading | None, tuned: Reading | None) -> str:
    """Return what a step that is faster than its parent gains over the parent at its best, `tuned`; '' for any other step.

    So it is '' too where the parent as it is is no slower than `tuned`.
    """
    gains = [faster(parent, other) for other in (reading, tuned) if other]
    ratio = faster(tuned, reading)
    if tuned is None or ratio is None or [gain.word for gain in gains if gain] != ["faster"] * 2:
        return ""
    words, ends = effect_text(ratio)
    best = number_of(escape(tuned.variant), tuned.id)
    return (
        f'<div class="cause">Compared with its parent at its best, {best}: {escape(f"{words} {ends}".strip())}.</div>'
    )


def _judging_note(predictions: "Mapping[str, Prediction]", cases: Mapping[str, str]) -> str:
    """Return the rule by which predictions are judged, in words; several rules name their cases."""
    by_words: dict[str, list[str]] = {}
    for case, prediction in predictions.items():
        by_words.setdefault(prediction.words, []).append(case)
    if not by_words:
        return ""
    text = "; ".join(f"{words} on {', '.join(case_names)}" for words, case_names in by_words.items())
    if len(by_words) == 1 and len(predictions) == len(cases):
        text = next(iter(by_words))
    return f' <small class="judged">(Judged as: {escape(text)}.)</small>'


def _lack_reason(reading: Reading | None, lack: str) -> str:
    """Return why there is no time; '' if there is one."""
    if reading is None:
        return lack or "not measured"
    return "" if reading.ok else f"failed: {reading.reason}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."
