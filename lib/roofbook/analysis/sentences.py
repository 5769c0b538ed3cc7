"""Numbers inside sentences: medians and ratios as text, read from rows, so that no figure is ever typed."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from . import format as show
from .readings import FEW_RUNS, TOO_FEW, Reading, Speedup, cases_of, faster, newest

if TYPE_CHECKING:
    import pandas as pd

NOT_MEASURED = "(not measured)"
NOT_COMPARED = "(too few samples to compare)"


def time_text(rows: "pd.DataFrame", variant: str, case: str) -> str:
    """Return '12.3 µs', the median time per unit of a variant; NOT_MEASURED without a verified one."""
    reading = _read(rows, case, variant).get(variant)
    return show.duration(reading.median) if reading and reading.ok else NOT_MEASURED


def ratio_text(rows: "pd.DataFrame", variant: str, reference: str, case: str) -> str:
    """Return a ratio as `ratio_words`. A ratio that rests on one run or two starts with that: 'in one run'."""
    readings = _read(rows, case, variant, reference)
    reading = readings.get(variant)
    ratio = faster(readings.get(reference), reading) if reading else None
    if ratio is None:
        return f"{NOT_MEASURED} against"
    if TOO_FEW in ratio.how:
        return f"{NOT_COMPARED} with"
    runs_text = next((f"in {words} " for words in FEW_RUNS if words in ratio.how), "")
    return runs_text + ratio_words(ratio)


def ratio_words(ratio: Speedup) -> str:
    """Return '3.14 [3.10, 3.18] times as fast as', or 'as slow as' with the inverse.

    If no difference may be claimed: 'as fast [0.99, 1.01] as' if all of the interval lies in the equality band, else 'within
    the noise [0.93, 1.12] of'.
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
    """Return a ratio in words and its interval: ('1.52 times as fast', '[1.50, 1.54]'), or 'as slow' or 'as fast'.

    'As fast' means that there is no difference. If nothing can be claimed: ('within the noise', '[0.93, 1.12]'), or ('too few
    samples to compare', '').
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
    """Return the parts of a sentence joined, without those whose figure is missing; '' if none is left."""
    return joined.join(part for part in parts if NOT_MEASURED not in part and NOT_COMPARED not in part)


def _read(rows: "pd.DataFrame", case: str, *variants: str) -> dict[str, Reading]:
    """Return the readings of these variants on a case; variants without rows are left out."""
    readings = newest(rows, case) if case in cases_of(rows) else {}
    return {name: readings[name] for name in variants if name in readings}


def shorter_medians(kernel: str, steps: Sequence[tuple[str, str, str]]) -> str:
    """Return a sentence on the steps with a shorter median than the fastest kernel, and one that it is faster where both ran.

    Without steps return ''. kernel: its name, as the page's markup has it. steps: of each its name, its time, and `ratio_words`
    of the kernel over it.
    """
    if not steps:
        return ""
    if len(steps) == 1:
        ((name, time, ratio),) = steps
        return f"{name} has a shorter median, {time}, over other runs. Where both ran, {kernel} is {ratio} it."
    names = joined([f"{name} ({time})" for name, time, _ in steps])
    ratios = joined([f"{ratio} {name}" for name, _, ratio in steps])
    return f"{names} have shorter medians over other runs. Where both ran, {kernel} is {ratios}."


def joined(words: Sequence[str]) -> str:
    """Return 'a', 'a and b' or 'a, b and c'; '' for no words."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
