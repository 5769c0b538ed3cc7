"""Numbers in tables and figures as text: three significant digits, engineering units, one unit a column."""

import math
from collections.abc import Iterable

from ..measure.stats import LEAST

THIN = "\u202f"  # narrow space that breaks no line: between thousands, and between a number and its unit
MINUS = "\u2212"
DASH = "\u2013"  # shown if there is no number
LONGEST = 1e7  # from here on a number is written with an exponent
TIMES = (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6), ("ns", 1e-9))
PREFIXES = (
    ("P", 1e15),
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("", 1.0),
    ("m", 1e-3),
    ("\u00b5", 1e-6),
    ("n", 1e-9),
)


def decimals(value: float, digits: int = 3) -> int:
    """Return the number of places after the point that give `value` so many significant digits; never below 0."""
    if value == 0 or not math.isfinite(value):
        return digits - 1
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if abs(round(value, places)) >= 10.0 ** (digits - places):  # 9.996 is written 10.0, not 10.00
        places -= 1
    return max(0, places)


def number(value: float, digits: int = 3, places: int | None = None) -> str:
    """Return a number with three significant digits: 0.0123, 1.23, 12.3, 123, 1 230 (thin space); a dash for NaN.

    Digits before the point beyond the third are rounded too, unless `places` fixes the places after the point. Below 1e-4 and
    from 1e7 the exponent is written: 1.23e-05.
    """
    if math.isnan(value):
        return DASH
    if math.isinf(value):
        return "∞" if value > 0 else MINUS + "∞"
    if value and places is None and not 1e-4 <= abs(value) < LONGEST:
        return f"{value:.{digits - 1}e}".replace("-", MINUS)
    if places is None:
        places = decimals(value, digits)
        if abs(value) >= 10**digits:
            value = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}".replace(",", THIN).replace("-", MINUS)


def interval(estimate: float, low: float, high: float) -> str:
    """Return '12.3 [12.1, 12.6]'. The digits of the estimate set the places of all three."""
    if math.isnan(low) or math.isnan(high):
        return number(estimate)
    if estimate and not 1e-4 <= abs(estimate) < LONGEST:
        return f"{number(estimate)} [{number(low)}, {number(high)}]"
    if abs(estimate) >= 1000:
        return f"{number(estimate)} [{_whole(low, estimate)}, {_whole(high, estimate)}]"
    places = decimals(estimate)
    return f"{number(estimate, places=places)} [{number(low, places=places)}, {number(high, places=places)}]"


def _whole(value: float, like: float) -> str:
    """Return `value` rounded at the digit where three significant digits of `like` end."""
    return number(round(value, 2 - math.floor(math.log10(abs(like)))), places=0)


TENFOLD = 10.0


def undecided(estimate: float, low: float, high: float) -> str:
    """Return the interval of a ratio of which nothing may be claimed; an end beyond a factor of ten is cut: '[<0.1, >10]'."""
    ends = factor(estimate, max(low, 1 / TENFOLD), min(high, TENFOLD)).partition("[")[2].removesuffix("]").split(", ")
    first = f"<{1 / TENFOLD:g}" if low < 1 / TENFOLD else ends[0]
    return f"[{first}, {f'>{TENFOLD:g}' if high > TENFOLD else ends[1]}]"


def factor(estimate: float, low: float = math.nan, high: float = math.nan) -> str:
    """Return a ratio with its interval.

    It has more than three digits if those hide the side of 1, or of a difference that counts, on which an end lies.
    """
    ends = [end for end in (low, high) if not math.isnan(end)] or [estimate]
    places = decimals(estimate)
    while places < 5 and any(_hides(end, places) for end in ends):
        places += 1
    if places == decimals(estimate):
        return interval(estimate, low, high)
    if math.isnan(low) or math.isnan(high):
        return number(estimate, places=places)
    return f"{number(estimate, places=places)} [{number(low, places=places)}, {number(high, places=places)}]"


def _hides(value: float, places: int) -> bool:
    """Return whether rounding moves a value to or across 1, or a limit of a difference that counts."""
    rounded = float(f"{value:.{places}f}")
    limits = (1.0, LEAST, 1 / LEAST)
    return any(value != limit and (rounded == limit or (rounded > limit) != (value > limit)) for limit in limits)


def tick(value: float) -> str:
    """Return a number on an axis, as short as possible: 0, 0.5, 1, 10, 0.001, 1e-05."""
    text = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}" if abs(value) < 1e7 else f"{value:.0e}"
    return text.replace(",", THIN).replace("-", MINUS)


def percent(share: float) -> str:
    """Return a share as '74.1 %', with a thin space before the sign."""
    return f"{number(100 * share)}{THIN}%" if math.isfinite(share) else DASH


def time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """Return the unit for a column of times, and its seconds.

    It is the largest in which the shortest time is at least 1, or a larger one if the longest would be written with an
    exponent.
    """
    times = [value for value in seconds if math.isfinite(value) and value > 0]
    shortest, longest = min(times, default=1.0), max(times, default=1.0)
    return next((unit for unit in TIMES if shortest >= unit[1] or longest >= LONGEST * unit[1] / 1e3), TIMES[-1])


def prefix(values: Iterable[float]) -> tuple[str, float]:
    """Return the SI prefix for a column of rates, and its factor: the largest in which the greatest rate is at least 1."""
    greatest = max((value for value in values if math.isfinite(value) and value > 0), default=1.0)
    return next((entry for entry in PREFIXES if greatest >= entry[1]), PREFIXES[-1])


def several(number: int, noun: str) -> str:
    """Return a number of things: several(3, 'run') is '3 runs'."""
    return f"{number} {noun}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Return a single time in its own unit: '12.3 µs'."""
    if not math.isfinite(seconds):
        return DASH
    name, size = time_unit([seconds])
    return f"{number(seconds / size)}{THIN}{name}"


def quantity(value: float, unit: str) -> str:
    """Return a single value with an SI prefix: quantity(4.26e12, 'B/s') is '4.26 TB/s'."""
    if not math.isfinite(value):
        return DASH
    letter, size = prefix([value])
    return f"{number(value / size)}{THIN}{letter}{unit}"
