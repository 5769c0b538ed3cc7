"""A step of a ladder on a lab's page: its change, the expected effect, and the measured one on each case."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.predictions import outcome
from ..analysis.readings import Reading, Speedup, cases_of, faster, fastest, newest
from ..analysis.sentences import effect_text
from ..escaping import escape
from ..spec.step_marks import marks
from .animations import animation_of_step
from .counters_table import changed_counters_of_step, counters_of_step
from .html import Html, html_diff, html_source, number_of, with_code
from .technique_links import techniques_of_step

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.changed_lines import Excerpt
    from ..spec.plan import Variant
    from ..spec.prediction import Prediction


@dataclass(frozen=True)
class StepFold:
    """A fold of a step that a story does not show in full. opens_on: names of the cases on which it is open."""

    opens_on: Sequence[str] = ()


NONE: "Mapping[str, Prediction]" = MappingProxyType({})
NO_WHYS: Mapping[str, str] = MappingProxyType({})
UNEXPLAINED = (
    "nobody has looked for the cause on this device yet; `roofbook profile` reads the counters that could tell"
)
"""Text in place of the cause of a refuted prediction that the lab states none for."""
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
    excerpt: "Excerpt | None" = None,
    whys: Mapping[str, str] = NO_WHYS,
    fold: StepFold | None = None,
) -> Html:
    """Return a step as HTML: name, change, expected effect, changed lines, measured effects, and the kernel's difference.

    cases: name -> why the variant does not run there; '' if it does. diff: unified, of the kernels as they are compiled; may
    be empty. lab: its name. size: the case whose sizes the kernels have as constants; '' for none. predictions: case -> the
    prediction that `expect` makes there. profiles: rows of hardware counters, of any cases. tuned_parents: names of the parent
    with other sizes of its launch or tiles. excerpt: its changed lines. whys: case -> the cause of a refuted prediction. fold:
    puts all of it below a line with its name, effect and change.

    A notebook has the kernels' difference to unfold, the site the excerpt and a link to the page that has both; `on_site`
    chooses.
    """
    name = escape(variant.name)
    link = f'<a class="headerlink" href="#step-{name}" title="Link to this step">#</a>'
    link_text = "Code and difference" if diff else "Code"
    code = f'<a class="step-code on-site" href="{escape(lab)}/kernels.html#{name}" hidden>{link_text}</a>' * bool(
        variant.source
    )
    only_for = f" <small>For {escape(variant.only_for)}.</small>" * bool(variant.only_for)
    heading = f"<h3><code>{name}</code>{_marks_html(variant)}{link}</h3>"
    parts = [
        f'<div class="step" id="step-{name}">',
        f"{heading * (fold is None)}{code}",
        f"<p>{_over(variant)}{with_code(variant.change)}{only_for}</p>",
        f'<p class="expected"><em>Expected:</em> {with_code(variant.expect)}</p>' if variant.expect else "",
        excerpt_html(excerpt) if excerpt and excerpt.lines else "",
        effect(variant.name, variant.parent, rows, cases, predictions, profiles, tuned_parents, whys),
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
    parts += [techniques_of_step(lab, variant.name), animation_of_step(lab, variant.name)]
    html = "".join([*parts, "</div>"])
    return Html(html if fold is None else _folded(html, variant, fold, _outcomes(variant, rows, cases, predictions)))


def _over(variant: "Variant") -> str:
    """Return 'Over `parent`. ', which says what an effect is compared with; '' without a parent."""
    return f"Over <code>{escape(variant.parent)}</code>. " if variant.parent else ""


def _marks_html(variant: "Variant") -> str:
    words = " \u00b7 ".join(marks(variant))
    return f' <small class="marks">{escape(words)}</small>' * bool(words)


def _folded(html: str, variant: "Variant", fold: StepFold, outcomes: str) -> str:
    """Return a step below a line with its name, its marks, its effect on each case and its change.

    The heading is in the line, so that it is in the accessibility tree while the step is folded.
    """
    name, opens_on = escape(variant.name), escape(" ".join(fold.opens_on))
    attribute = f' data-opens-on="{opens_on}"' * bool(opens_on)
    return (
        f'<details class="step-fold"{attribute}><summary data-variant="{name}"><h3><code>{name}</code>'
        f'{_marks_html(variant)}</h3> <span class="fold-effects">{outcomes}</span> '
        f'<span class="fold-change">{_over(variant)}{with_code(variant.change)}</span></summary>{html}</details>'
    )


def _outcomes(
    variant: "Variant", rows: "pd.DataFrame", cases: Mapping[str, str], predictions: "Mapping[str, Prediction]"
) -> str:
    """Return a step's effect on each case in a few words, with the word for a refuted prediction."""
    parts = []
    for case, lack in cases.items():
        readings = newest(rows, case) if case in cases_of(rows) else {}
        reading, parent = readings.get(variant.name), readings.get(variant.parent or "")
        on_case = f'<small class="on-case">on {escape(case)}</small>'
        if reading is None or not reading.ok:
            parts.append(f'<span data-case="{escape(case)}">{escape(_lack_reason(reading, lack))} {on_case}</span>')
            continue
        ratio, prediction = faster(parent, reading), predictions.get(case)
        words = " ".join(effect_text(ratio)).strip() if ratio else show.duration(reading.median)
        is_refuted = bool(ratio and prediction and outcome(prediction, ratio) == "refuted")
        refuted = ' <em class="refuted">prediction refuted</em>' * is_refuted
        css = f"verdict {ratio.word}" if ratio else "verdict"
        parts.append(f'<span class="{css}" data-case="{escape(case)}"><b>{escape(words)}</b> {on_case}{refuted}</span>')
    return " ".join(parts)


def excerpt_html(excerpt: "Excerpt") -> str:
    """Return the changed lines of a step, which only the site shows."""
    kind = "of the host's code" if excerpt.of_host else "of the kernel"
    number = (
        f"{excerpt.line_count} of {excerpt.changed}"
        if excerpt.line_count < excerpt.changed
        else f"{excerpt.line_count}"
    )
    plural = "s" * (excerpt.changed != 1)
    return (
        f'<div class="step-lines on-site" hidden>{html_source(chr(10).join(excerpt.lines), "diff")}'
        f'<p class="table-note">{number} changed line{plural} {escape(kind)}</p></div>'
    )


def effect(
    name: str,
    parent: str | None,
    rows: "pd.DataFrame",
    cases: Mapping[str, str],
    predictions: "Mapping[str, Prediction]" = NONE,
    profiles: "pd.DataFrame | None" = None,
    tuned_parents: Sequence[str] = (),
    whys: Mapping[str, str] = NO_WHYS,
) -> Html:
    """Return a list with a line for each case: the ratio to the parent, both times, the prediction's outcome, and counters.

    A case without a time has the reason. If all cases lack a time for the same reason, one line says so. Counters are the
    changes over the parent if both were counted, otherwise the step's own. The gain over the parent at its best is shown if
    one of `tuned_parents` is faster, and the cause of `whys` if the prediction was refuted.
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
            css, text = _effect_line(reading, parent_reading)
            on_case = f' <span class="on-case">on {escape(case)}</span>'
            text = f"{step_bars(reading, parent_reading)}{text}{on_case}"
            cause = _verdict_note(faster(parent_reading, reading), predictions.get(case), whys.get(case, ""))
            cause += _counters_note(profiles, reading, parent_reading)
            tuned = [readings_by_case[case][tuned] for tuned in tuned_parents if tuned in readings_by_case[case]]
            cause += _tuned_parent_note(reading, parent_reading, fastest(tuned))
        else:
            text += f' <span class="on-case">on {escape(case)}</span>'
        mark = f' class="{css}"' * bool(css)
        lines.append(f'<li{mark} data-case="{escape(case)}">{text}{cause}</li>')
    return Html(f'<ul class="effect">{"".join(lines)}</ul>')


def _effect_line(reading: Reading, parent: Reading | None) -> tuple[str, str]:
    """Return a CSS class and '1.52 times as fast [1.50, 1.54], 18.0 -> 11.8 us'; without a parent only a time."""
    ratio = faster(parent, reading)
    if ratio is None or parent is None:
        return "", number_of(show.duration(reading.median), reading.id)
    unit, size = show.time_unit([parent.median, reading.median])
    before = number_of(show.number(parent.median / size), parent.id)
    after = number_of(f"{show.number(reading.median / size)}{show.THIN}{unit}", reading.id)
    words, ends = effect_text(ratio)
    how = f" <small>({escape(ratio.how)})</small>" * bool(ratio.how and ends)
    return (
        f"verdict {ratio.word}",
        f"<strong>{words[:1].upper()}{words[1:]}</strong>{f' {escape(ends)}' * bool(ends)}{how}, {before} \u2192 {after}"
        f"{medians_note(ratio, parent, reading)}",
    )


def medians_note(ratio: Speedup, reference: Reading, reading: Reading) -> str:
    """Return why the ratio is not that of the two times beside it, as HTML; '' if it is."""
    if not ratio.contradicts(reference, reading):
        return ""
    return f" <small>(the ratio {ratio.basis}; the times are medians of all runs of each)</small>"


def step_bars(reading: Reading, parent: Reading | None) -> str:
    """Return the times of a step and of its parent as two bars, which only the site shows; '' without a ratio of both.

    The brackets at the step's bar have the interval of the ratio, applied to the parent's time.
    """
    ratio = faster(parent, reading)
    if parent is None or ratio is None or not ratio.low > 0:
        return ""
    longest = max(parent.median, reading.median)

    def percent(seconds: float) -> str:
        return f"{100 * min(1.0, seconds / longest):.4g}%"

    ends = f"--low:{percent(parent.median / ratio.high)};--high:{percent(parent.median / ratio.low)}"
    return (
        f'<div class="step-bars on-site" aria-hidden="true" hidden><i>{escape(parent.variant)}</i>'
        f'<b style="--at:{percent(parent.median)}"></b><i>{escape(reading.variant)}</i>'
        f'<b class="own" style="--at:{percent(reading.median)};{ends}"></b></div>'
    )


def _verdict_note(ratio: Speedup | None, prediction: "Prediction | None", why: str) -> str:
    """Return what was predicted of a ratio and what came of it, and why where it was refuted; '' without a prediction."""
    if ratio is None or prediction is None:
        return ""
    word = outcome(prediction, ratio)
    text = f'<div class="prediction {word}">Predicted: {escape(prediction.words)}. <b>{word.capitalize()}</b>.</div>'
    return text + f'<div class="why"><b>Why:</b> {with_code(why or UNEXPLAINED)}.</div>' * (word == "refuted")


def _counters_note(profiles: "pd.DataFrame | None", reading: Reading, parent: Reading | None) -> str:
    """Return the counters that changed with the effect on a case, or the step's own; '' if the step was not counted."""
    ratio, counted = faster(parent, reading), ""
    if parent is not None and ratio is not None:
        counted = changed_counters_of_step(profiles, reading, parent, ratio.word)
    counted = counted or counters_of_step(profiles, reading)
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


def _lack_reason(reading: Reading | None, lack: str) -> str:
    """Return why there is no time; '' if there is one."""
    if reading is None:
        return lack or "not measured"
    return "" if reading.ok else f"failed: {reading.reason}"


def _sentence(words: str) -> str:
    return f"{words[:1].upper()}{words[1:].removesuffix('.')}."
