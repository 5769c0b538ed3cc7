"""The answer that a lab's page opens with: of a case the fastest kernel, what stands beside it, and the steps that mattered."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.answers import Fastest, LabAnswer, Mattered, Rival
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, Speedup, text_field
from ..analysis.sentences import effect_text
from ..escaping import escape
from .cell_format import ABOVE_REASON, bound_of, is_above_bound
from .counters_table import moved_by_step
from .html import Html, number_of

if TYPE_CHECKING:
    import pandas as pd

NAMED = 6
"""Of steps that were not measured at most so many are named."""
LEVEL = 3
"""Of steps that are level with the fastest at most so many are named."""


def answer(data: CaseData, found: LabAnswer | None, main: bool = False, profiles: "pd.DataFrame | None" = None) -> Html:
    """One case as a list of a few lines. found: as `answers.answer` has it, None where no step has a verified time.

    main: whether a page of several cases shows this one until its reader chooses another. profiles: what hardware counters
    counted, on any cases.
    """
    case = escape(data.case)
    lines = _lines(data, found, profiles) if found else [("Fastest kernel", "No step has a verified time here.")]
    items = "\n".join(f"<div><dt>{head}</dt><dd>{text}</dd></div>" for head, text in lines)
    return Html(
        f'<div class="answer" data-case="{case}"{" data-main" * main} role="group" aria-label="The answer on {case}">\n'
        f'<p class="answer-case">On {case}</p>\n<dl>\n{items}\n</dl>\n</div>\n'
    )


def _lines(data: CaseData, found: LabAnswer, profiles: "pd.DataFrame | None") -> list[tuple[str, str]]:
    kernel, plain = found.fastest, found.plain
    lines = [
        ("Fastest kernel", _named(data, kernel) + _level(found)),
        *[("Not measured here", _lacking(found))] * bool(found.lacking),
        ("Share of the bound", _share(data, kernel.reading)),
        *_peers(data, kernel),
        ("Against the baseline", _base(found)),
    ]
    if plain:
        beside = [_peer(plain, each) for each in (plain.peer, plain.as_exact) if each]
        lines.append(("Fastest without that", " ".join([_named(data, plain), _share(data, plain.reading), *beside])))
    return [*lines, ("What mattered most", _mattered(data, found.mattered, profiles))]


def _level(found: LabAnswer) -> str:
    """' The difference to <code>a</code> is within the noise.' Of many the nearest are named; '' for none."""
    names = [f"<code>{escape(name)}</code>" for name in found.level[:LEVEL]]
    names += [f"{len(found.level) - LEVEL} more"] * (len(found.level) > LEVEL)
    if not names:
        return ""
    told = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    several = len(names) > 1
    return f" The difference{'s' * several} to {told} {'are' if several else 'is'} within the noise."


def _lacking(found: LabAnswer) -> str:
    """'8 of 20 steps: c, d, e, f, g, h and 2 more. One of them may be faster.' Of many the last of the ladder are named."""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in found.lacking[-NAMED:])
    more = len(found.lacking) - NAMED
    rest = f" and {more} more" if more > 0 else ""
    which = "One of them" if len(found.lacking) > 1 else "It"
    return f"{len(found.lacking)} of {len(found.steps)} steps: {names}{rest}. {which} may be faster."


def _named(data: CaseData, kernel: Fastest) -> str:
    """The kernel, its precision and time, and its conditions in a sentence."""
    reading = kernel.reading
    time = f"<strong>{_time(reading)}</strong> per {escape(str(reading.row['unit']))}"
    precision = escape(str(text_field(reading.row, "dtype") or ""))
    return f"{_step(reading)}, {precision}: {time}." + _sentence(kernel.conditions, "It")


def _share(data: CaseData, reading: Reading) -> str:
    floor = bound_of(data.bounds, reading)
    if floor is None:
        return "Unknown: the peak of its precision was not measured here."
    if is_above_bound(floor, reading):
        return f"It is faster than its bound of {show.duration(floor.seconds)}: {escape(ABOVE_REASON)}."
    share = show.percent(min(1.0, floor.seconds / reading.median))
    roof = floor.roof if floor.roof == "memory" else f"{floor.roof} arithmetic"
    return f"<strong>{share}</strong> of its bound, {show.duration(floor.seconds)}, which {escape(roof)} sets."


def _peers(data: CaseData, kernel: Fastest) -> list[tuple[str, str]]:
    if kernel.peer is None:
        return [("Against the best peer", "No library or other program was measured on this device.")]
    head = "Against the best peer like for like" if kernel.peer.alike else "Against the nearest peer"
    is_what = data.changes.get(kernel.peer.reading.variant, "")
    lines = [
        (
            head,
            " ".join(
                [_peer(kernel, kernel.peer), *[f"<small>({escape(is_what.removesuffix('.'))})</small>"] * bool(is_what)]
            ),
        )
    ]
    return lines + [("Against the fastest peer", _peer(kernel, each)) for each in (kernel.faster_peer,) if each]


def _peer(kernel: Fastest, beside: Rival) -> str:
    unlike = _sentence(beside.only_rival, "The peer")
    alone = _sentence(beside.only_kernel, f"{_step(kernel.reading)} alone")
    return f"{_beside(beside)}.{_by_rounds(kernel, beside)}{unlike}{alone}{FREE * _is_free(beside.reading)}"


def _by_rounds(kernel: Fastest, beside: Rival) -> str:
    """Why the ratio is not that of the two times which stand there; '' where it is."""
    if not beside.medians_disagree(kernel.reading):
        return ""
    alone = show.factor(beside.reading.median / kernel.reading.median)
    return f" The ratio pairs samples of the same round: the median times alone would make it {alone}."


FREE = " The peer's threads were not bound to processors: it may take less time than that."


def _is_free(peer: Reading) -> bool:
    """Whether it is a program with several threads on a CPU that the system could start on one processor."""
    several = int(peer.facts.get("threads") or 1) > 1
    return peer.row["device_kind"] == "cpu" and several and not peer.facts.get("threads_bound")


def _base(found: LabAnswer) -> str:
    if found.base is None:
        return "No baseline has a time here."
    is_what = f", {escape(found.base_is)}" * bool(found.base_is)
    return f"{_beside(found.base)}{is_what}.{_by_rounds(found.fastest, found.base)}"


def _beside(beside: Rival) -> str:
    """'<strong>1.11 times as fast</strong> [1.10, 1.12] as <code>torch</code>, 236 us'."""
    name, time = f"<code>{escape(beside.reading.variant)}</code>", _time(beside.reading)
    name += f" (called by {escape(beside.called_by)})" * bool(beside.called_by)
    return (
        f"{_effect(beside.ratio, name, begins=True)}, {time}" if beside.ratio else f"Not compared with {name}, {time}"
    )


def _effect(ratio: Speedup, name: str, *, begins: bool = False) -> str:
    """begins: a sentence."""
    words, ends = effect_text(ratio)
    of = "of" if words == "within the noise" else "with" if not ends else "as"
    how = f" <small>({escape(ratio.how)})</small>" * bool(ratio.how and ends)
    words = words[0].upper() + words[1:] if begins else words
    return f"<strong>{words}</strong>{f' {escape(ends)}' * bool(ends)}{how} {of} {name}"


def _mattered(data: CaseData, steps: Sequence[Mattered], profiles: "pd.DataFrame | None") -> str:
    if not steps:
        return "No step on the way to it is faster than the one before it beyond the noise."
    items = []
    for each in steps:
        effect = _effect(each.ratio, f"<code>{escape(each.over)}</code>")
        counted = moved_by_step(profiles, data.readings[each.step], data.readings[each.over], each.ratio.word)
        cause = f" <small>Counters: {escape(counted)}.</small>" if counted else ""
        items.append(
            f"<li>{_step(data.readings[each.step])}, {effect}: {escape(data.changes.get(each.step, ''))}{cause}</li>"
        )
    return f"<ol>{''.join(items)}</ol>"


def _time(reading: Reading) -> str:
    return number_of(show.duration(reading.median), reading.id)


def _step(reading: Reading) -> str:
    """A step by its name, as a link to where the page tells of it; it tells of one over its parent."""
    name = f"<code>{escape(reading.variant)}</code>"
    return f'<a href="#step-{escape(reading.variant)}">{name}</a>' if reading.parent else name


def _sentence(conditions: Iterable[str], who: str) -> str:
    told = escape(" and ".join(conditions))
    return f" {who} {told}." if told else ""
