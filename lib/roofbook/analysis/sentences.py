"""Numbers inside sentences: medians and ratios as text, read from rows, so that no figure is ever typed."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ..escaping import markdown_code
from . import format as show
from .readings import FEW_RUNS, TOO_FEW, Reading, Speedup, cases_of, faster, newest

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab
    from .lab_data import Measured

NOT_MEASURED = "(not measured)"
NOT_COMPARED = "(too few samples to compare)"


def time_text(rows: "pd.DataFrame", variant: str, case: str) -> str:
    """'12.3 µs', the median time per unit of a variant; says so where there is no verified one."""
    reading = _read(rows, case, variant).get(variant)
    return show.duration(reading.median) if reading and reading.ok else NOT_MEASURED


def ratio_text(rows: "pd.DataFrame", variant: str, reference: str, case: str) -> str:
    """Return a ratio in words, as `ratio_words` has it. What rests on one run or two says so first: 'in one run'."""
    found = _read(rows, case, variant, reference)
    own = found.get(variant)
    ratio = faster(found.get(reference), own) if own else None
    if ratio is None:
        return f"{NOT_MEASURED} against"
    if TOO_FEW in ratio.how:
        return f"{NOT_COMPARED} with"
    where = next((f"in {words} " for words in FEW_RUNS if words in ratio.how), "")
    return where + ratio_words(ratio)


def ratio_words(ratio: Speedup) -> str:
    """Return '3.14 [3.10, 3.18] times as fast as', or 'as slow as' with the inverse.

    Where no difference may be claimed: 'as fast [0.99, 1.01] as' if all of the interval lies in the equality band, else
    'within the noise [0.93, 1.12] of'.
    """
    estimate, low, high = ratio.estimate, ratio.low, ratio.high
    if ratio.word == "undecided":
        return f"within the noise {show.undecided(estimate, low, high)} of"
    if ratio.word == "same":
        return f"as fast {show.factor(estimate, low, high).partition(' ')[2]} as"
    if ratio.word == "slower":
        return f"{show.factor(1 / estimate, 1 / high, 1 / low)} times as slow as"
    return f"{show.factor(estimate, low, high)} times as fast as"


def effect_text(ratio: Speedup) -> tuple[str, str]:
    """('1.52 times as fast', '[1.50, 1.54]'), or 'as slow', or 'as fast' where the difference is none; and the interval of what
    is said. Where nothing can be claimed: ('within the noise', '[0.93, 1.12]'), or that samples are too few, and ''.
    """
    if TOO_FEW in ratio.how:
        return NOT_COMPARED.strip("()"), ""
    estimate, low, high = ratio.estimate, ratio.low, ratio.high
    if ratio.word == "undecided":
        return "within the noise", show.undecided(estimate, low, high)
    if ratio.word == "slower":
        estimate, low, high = 1 / estimate, 1 / high, 1 / low
    times, _, ends = show.factor(estimate, low, high).partition(" ")
    return "as fast" if ratio.word == "same" else f"{times} times as {ratio.word.removesuffix('er')}", ends


def without_missing(parts: Iterable[str], joined: str = ", ") -> str:
    """Parts of a sentence one after the other, without those whose figure is not there; '' for none."""
    return joined.join(part for part in parts if NOT_MEASURED not in part and NOT_COMPARED not in part)


def _read(rows: "pd.DataFrame", case: str, *variants: str) -> dict[str, Reading]:
    """What a case has of these variants; nothing of one that has no rows."""
    found = newest(rows, case) if case in cases_of(rows) else {}
    return {name: found[name] for name in variants if name in found}


def conclusions(lab: "Lab", measured: "Measured") -> str:
    """One paragraph a case: the fastest step beside the base and beside a peer. What was not measured is left out."""
    said = []
    for case in [each.name for each in measured.cases]:
        beside = beside_peer(measured, case)
        sentences = [beside_base(lab, measured, case), *[f"{beside}."] * bool(beside)]
        said.append(f"**{case}.** " + " ".join(sentences))
    return "\n\n".join([*said, *about_bases(lab, measured)])


def beside_base(lab: "Lab", measured: "Measured", case: str) -> str:
    """One sentence: the fastest step of a case, its time, and how fast it is against the base, as far as that is known."""
    fastest = measured.fastest(case)
    base = measured.base(case)
    against = without_missing([f", which is {measured.times(fastest, base, case)} {markdown_code(base)}"])
    time = f"{measured.value(fastest, case)} per {lab.unit}"
    return f"The fastest kernel {measured.where(fastest, case)} is {markdown_code(fastest)}: {time}{against}."


def about_bases(lab: "Lab", measured: "Measured", cases: Iterable[str] | None = None) -> list[str]:
    """A sentence on each base that speedups of sentences are over: what it is, and for what it stands in.

    cases: by default all; where none of the lab's bases has a time, nothing is said.
    """
    told = []
    first = lab.headline[0]
    for base in dict.fromkeys(map(measured.base, cases or [each.name for each in measured.cases])):
        if any(measured.seconds(base, each.name) is not None for each in measured.cases):
            is_what = lab.variant(base).said
            parts = [f"is {is_what}"] * bool(is_what)
            parts += [f"stands in for `{first}`, which has no time here"] * (base != first)
            told += [f"`{base}` {', and '.join(parts)}."] * bool(parts)
    return told


def beside_peer(measured: "Measured", case: str) -> str:
    """How fast the fastest step of a case is against the best peer like for like, and in what the two are alike; else against
    the nearest peer, and in what they differ. The same of the fastest peer, where that is another. Without a full stop; ''
    where nothing is known.
    """
    fastest, said = measured.fastest(case), list[str]()
    kernel = markdown_code(fastest)
    for rival in measured.rivals(case):
        peer = markdown_code(rival.reading.variant) + f" (called by {rival.called_by})" * bool(rival.called_by)
        times = measured.times(fastest, rival.reading.variant, case)
        alone = f", while {kernel} {joined(rival.only_kernel)}" if rival.only_kernel else ""
        unlike = f"{which('', rival.only_rival)}{alone}"
        if said:
            said.append(f"{times} the fastest peer, {peer}{unlike}")
        elif rival.alike:
            said.append(f"Like for like the best peer is {peer}{which('also ', rival.shared)}: {kernel} is {times} it")
        else:
            said.append(f"The nearest peer is {peer}{unlike}: {kernel} is {times} it")
    return without_missing(said, ", and ")


def which(how: str, conditions: Sequence[str]) -> str:
    """', which rounds results to fp16 and ...', of conditions in the words of `Lab.conditions`; '' for none."""
    return f", which {how}{joined(conditions)}" if conditions else ""


def joined(words: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else words[0]
