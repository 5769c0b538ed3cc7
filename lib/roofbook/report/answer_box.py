"""The answer box of a lab's page: for each case the fastest kernel, its rivals, and the steps that mattered most."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.answers import Fastest, LabAnswer, Mattered, Rival
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, Speedup, text_field
from ..analysis.sentences import effect_text, joined, ratio_words, shorter_medians
from ..escaping import escape
from .cell_format import ABOVE_REASON, bound_of, is_above_bound
from .counters_table import changed_counters_of_step
from .html import Html, number_of

if TYPE_CHECKING:
    import pandas as pd

MOST_LACKING = 6
"""Most steps without a measurement that the box names."""
MOST_LEVEL = 3
"""Most steps level with the fastest that the box names."""


def answer(
    data: CaseData, lab_answer: LabAnswer | None, main: bool = False, profiles: "pd.DataFrame | None" = None
) -> Html:
    """Return the answer on one case as a list of a few lines. lab_answer: None if no step has a verified time.

    main: whether a page of several cases shows this one until its reader chooses another. profiles: rows of hardware
    counters, of any cases.
    """
    case = escape(data.case)
    lines = (
        _lines(data, lab_answer, profiles) if lab_answer else [("Fastest kernel", "No step has a verified time here.")]
    )
    items = "\n".join(f"<div><dt>{head}</dt><dd>{text}</dd></div>" for head, text in lines)
    return Html(
        f'<div class="answer" data-case="{case}"{" data-main" * main} role="group" aria-label="The answer on {case}">\n'
        f'<p class="answer-case">On {case}</p>\n<dl>\n{items}\n</dl>\n</div>\n'
    )


def _lines(data: CaseData, lab_answer: LabAnswer, profiles: "pd.DataFrame | None") -> list[tuple[str, str]]:
    kernel, plain = lab_answer.fastest, lab_answer.plain
    lines = [
        (
            "Fastest kernel",
            _kernel_text(data, kernel) + _shorter_steps_text(lab_answer) + _level_steps_text(lab_answer),
        ),
        *[("Not measured here", _lacking_steps_text(lab_answer))] * bool(lab_answer.lacking),
        ("Share of the bound", _share_text(data, kernel.reading)),
        *_peer_lines(data, kernel),
        ("Against the baseline", _baseline_text(lab_answer)),
    ]
    if plain:
        rivals = [_peer_text(plain, rival) for rival in (plain.peer, plain.as_exact) if rival]
        lines.append(
            (
                "Fastest that does none of that",
                " ".join([_kernel_text(data, plain), _share_text(data, plain.reading), *rivals]),
            )
        )
    return [*lines, ("What mattered most", _steps_list(data, lab_answer.mattered, profiles))]


def _shorter_steps_text(lab_answer: LabAnswer) -> str:
    """Return sentences on the steps with a shorter median than the fastest; '' for none."""

    def code(name: str) -> str:
        return f"<code>{escape(name)}</code>"

    steps = [
        (code(step.reading.variant), show.duration(step.reading.median), escape(ratio_words(step.ratio)))
        for step in lab_answer.shorter
        if step.ratio
    ]
    return f" {shorter_medians(code(lab_answer.fastest.reading.variant), steps)}" if steps else ""


def _level_steps_text(lab_answer: LabAnswer) -> str:
    """Return ' The difference to <code>a</code> is within the noise.'; of many steps the nearest are named. '' for none."""
    names = [f"<code>{escape(name)}</code>" for name in lab_answer.level[:MOST_LEVEL]]
    names += [f"{len(lab_answer.level) - MOST_LEVEL} more"] * (len(lab_answer.level) > MOST_LEVEL)
    if not names:
        return ""
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    several = len(names) > 1
    return f" The difference{'s' * several} to {listed} {'are' if several else 'is'} within the noise."


def _lacking_steps_text(lab_answer: LabAnswer) -> str:
    """Return '8 of 20 steps: c, d, e, f, g, h and 2 more. One of them may be faster.' It names the last ones of the ladder."""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in lab_answer.lacking[-MOST_LACKING:])
    unnamed = len(lab_answer.lacking) - MOST_LACKING
    remainder = f" and {unnamed} more" if unnamed > 0 else ""
    pronoun = "One of them" if len(lab_answer.lacking) > 1 else "It"
    return f"{len(lab_answer.lacking)} of {len(lab_answer.steps)} steps: {names}{remainder}. {pronoun} may be faster."


def _kernel_text(data: CaseData, kernel: Fastest) -> str:
    """Return a sentence with the kernel, its precision and time, and a sentence with its conditions."""
    reading = kernel.reading
    time = f"<strong>{_time_number(reading)}</strong> per {escape(str(reading.row['unit']))}"
    precision = escape(str(text_field(reading.row, "dtype") or ""))
    return f"{_step_link(reading)}, {precision}: {time}." + _conditions_sentence(kernel.conditions, "It")


def _share_text(data: CaseData, reading: Reading) -> str:
    floor = bound_of(data.bounds, reading)
    if floor is None:
        return "Unknown: the peak of its precision was not measured here."
    if is_above_bound(floor, reading):
        return f"It is faster than its bound of {show.duration(floor.seconds)}: {escape(ABOVE_REASON)}."
    share = floor.share_of(reading.median)
    if floor.launch and share is None:
        launch = floor.launch.words
        return (
            f"{escape(launch[0].upper() + launch[1:])} takes {show.duration(floor.launch.seconds)}, longer than the bound,"
            f" {show.duration(floor.seconds)}: a share of the bound would say nothing about the kernel."
        )
    percent = show.percent(min(1.0, share or 0))
    roof = floor.roof if floor.roof == "memory" else f"{floor.roof} arithmetic"
    return f"<strong>{percent}</strong> of its bound, {show.duration(floor.seconds)}, which {escape(roof)} sets."


def _peer_lines(data: CaseData, kernel: Fastest) -> list[tuple[str, str]]:
    if kernel.peer is None:
        return [("Against the best peer", "No library or other program was measured on this device.")]
    head = "Against the best peer under equal conditions" if kernel.peer.alike else "Against the nearest peer"
    description = data.changes.get(kernel.peer.reading.variant, "")
    lines = [
        (
            head,
            " ".join(
                [
                    _peer_text(kernel, kernel.peer),
                    *[f"<small>({escape(description.removesuffix('.'))})</small>"] * bool(description),
                ]
            ),
        )
    ]
    return lines + [("Against the fastest peer", _peer_text(kernel, rival)) for rival in (kernel.faster_peer,) if rival]


def _peer_text(kernel: Fastest, rival: Rival) -> str:
    unlike = _conditions_sentence(rival.only_rival, "The peer")
    alone = _conditions_sentence(rival.only_kernel, f"{_step_link(kernel.reading)} alone")
    threads = UNBOUND_THREADS_NOTE * _has_unbound_threads(rival.reading)
    return f"{_rival_text(rival)}.{_paired_ratio_note(kernel, rival)}{unlike}{alone}{threads}"


def _paired_ratio_note(kernel: Fastest, rival: Rival) -> str:
    """Return why the ratio is not that of the two times in the text; '' if it is."""
    if rival.ratio is None or not rival.medians_disagree(kernel.reading):
        return ""
    alone = show.factor(rival.reading.median / kernel.reading.median)
    return f" The ratio {rival.ratio.basis}: the median times alone would make it {alone}."


UNBOUND_THREADS_NOTE = " The peer's threads were not bound to processors: it may take less time than that."


def _has_unbound_threads(peer: Reading) -> bool:
    """Return whether a peer is a program of several CPU threads that the system may have started on one processor."""
    several = int(peer.facts.get("threads") or 1) > 1
    return peer.row["device_kind"] == "cpu" and several and not peer.facts.get("threads_bound")


def _baseline_text(lab_answer: LabAnswer) -> str:
    if lab_answer.base is None:
        return "No baseline has a time here."
    description = f", {escape(lab_answer.base_is)}" * bool(lab_answer.base_is)
    return f"{_rival_text(lab_answer.base)}{description}.{_paired_ratio_note(lab_answer.fastest, lab_answer.base)}"


def _rival_text(rival: Rival) -> str:
    """Return '<strong>1.11 times as fast</strong> [1.10, 1.12] as <code>torch</code>, 236 us'."""
    name, time = f"<code>{escape(rival.reading.variant)}</code>", _time_number(rival.reading)
    name += f" (called by {escape(rival.called_by)})" * bool(rival.called_by)
    return (
        f"{_ratio_text(rival.ratio, name, begins=True)}, {time}" if rival.ratio else f"Not compared with {name}, {time}"
    )


def _ratio_text(ratio: Speedup, name: str, *, begins: bool = False) -> str:
    """Return a ratio in words: '<strong>1.11 times as fast</strong> as `name`'. begins: whether it begins a sentence."""
    words, ends = effect_text(ratio)
    preposition = "of" if words == "within the noise" else "with" if not ends else "as"
    how = f" <small>({escape(ratio.how)})</small>" * bool(ratio.how and ends)
    words = words[0].upper() + words[1:] if begins else words
    return f"<strong>{words}</strong>{f' {escape(ends)}' * bool(ends)}{how} {preposition} {name}"


def _steps_list(data: CaseData, steps: Sequence[Mattered], profiles: "pd.DataFrame | None") -> str:
    if not steps:
        return "No step on the way to it is faster than the one before it beyond the noise."
    items = []
    for step in steps:
        effect = _ratio_text(step.ratio, f"<code>{escape(step.over)}</code>")
        counted = changed_counters_of_step(
            profiles, data.readings[step.step], data.readings[step.over], step.ratio.word
        )
        cause = f" <small>Counters: {escape(counted)}.</small>" if counted else ""
        items.append(
            f"<li>{_step_link(data.readings[step.step])}, {effect}: {escape(data.changes.get(step.step, ''))}{cause}</li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def _time_number(reading: Reading) -> str:
    return number_of(show.duration(reading.median), reading.id)


def _step_link(reading: Reading) -> str:
    """Return the name of a step; a step with a parent links to its description on the page."""
    name = f"<code>{escape(reading.variant)}</code>"
    return f'<a href="#step-{escape(reading.variant)}">{name}</a>' if reading.parent else name


def _conditions_sentence(conditions: Iterable[str], subject: str) -> str:
    listed = escape(joined([*conditions]))
    return f" {subject} {listed}." if listed else ""
