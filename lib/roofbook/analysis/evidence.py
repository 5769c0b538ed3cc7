"""What in the store tells of a published statement: kinds of evidence, each of which makes one number of cells of a case.

Serves the labs, which say for each claim of their report what to look at, and claims, which judges the number.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..measure import stats
from .claim_data import Cells, MissingData, NotApplicable
from .readings import Reading, faster, number_field, of_kernel, side_by_side

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from .roofline import Peaks


@dataclass(frozen=True)
class Finding:
    """What our cells say, oriented as the published effect is; low and high are those of its 95 % interval.

    `turn` is where the statement would turn into its opposite: 1 for a ratio, half for a share that is said to be small or
    large. 0 says that it has none: the statement is a quantity, and ours is the same or another.
    """

    estimate: float
    low: float
    high: float
    how: str = ""
    turn: float = 1.0
    below: bool = False
    """Whether a statement without a number says that this lies below `turn`, not above it."""
    least: float = stats.LEAST
    """Factor from which on a difference counts. Of times it is that of every table."""


HALF = 0.5
"""Where a share that is said to be small turns large, and the other way round."""
NO_GAIN = 1.05
"""Times as fast: what is said to gain nothing gains less than that, and no table calls it faster. It may be slower."""
LITTLE = 1.25
"""Times as fast: what is said to gain a little gains less than that."""
FEWEST = 3
"""Numbers that an interval is drawn from, at least."""


@dataclass(frozen=True)
class Parts:
    """A variant by the sum of these parts of its run, in place of what the lab times."""

    variant: str
    parts: tuple[str, ...]

    def of(self, reading: Reading) -> Reading:
        """The reading with the sum of the parts as its times. Raises MissingData for a part that not every run has."""
        return reading.of_times(self.times)

    def times(self, reading: Reading) -> list[float]:
        """The sums of one run."""
        for part in self.parts:
            if len(reading.parts.get(part, ())) != len(reading.times):
                raise MissingData(f"{self.variant} has no part {part!r}")
        times = [sum(each) for each in zip(*(reading.parts[part] for part in self.parts), strict=True)]
        if min(times) <= 0:
            raise MissingData(f"{' + '.join(self.parts)} of {self.variant} took less time than the clock resolves")
        return times


Timed = str | Parts
"""What is timed: a variant as its lab times it, or parts of its run."""


class Evidence(ABC):
    """Cells of one case that a statement is judged by."""

    case: str
    unit: ClassVar[str] = "x"
    """Of the number: `x` for a ratio, `%` for a share, or a physical one."""
    effect: float | None = None
    """What a statement amounts to, whatever number its report prints: 1 where it says that two things are alike."""
    numbered: bool = True
    """Whether the published number, if there is one, is of this."""
    remark: str = ""
    """What else a reader should know who doubts the verdict, such as what the report compared."""

    @property
    def scope(self) -> str:
        """The case, and what of it."""
        return self.case

    @property
    def basis(self) -> str:
        """Which numbers are compared; '' where the variants' names say it."""
        return ""

    @property
    def compared(self) -> str:
        """What exactly is compared, in a line; '' where the variants' names say it all."""
        return "; ".join(filter(None, (self.basis, self.remark)))

    @abstractmethod
    def variants(self, lab: "Lab") -> tuple[str, ...]:
        """The variants whose cells are needed."""

    @abstractmethod
    def find(self, cells: Cells) -> Finding:
        """The number. Raises MissingData where a cell that it needs has no verified time."""


@dataclass(frozen=True)
class NotTestable(Evidence):
    """Nothing that can be measured here tells of it, and why."""

    reason: str
    case: str = ""

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return ()

    def find(self, cells: Cells) -> Finding:
        raise NotApplicable(self.reason)


@dataclass(frozen=True)
class Pair(Evidence):
    """How many times as fast the second is as the first, by samples of the same rounds where one run has both.

    `below`: the statement is that it is less than so many times as fast. `kind`: of the device that it is about.
    """

    slower: Timed
    faster: Timed
    case: str
    below: float | None = None
    kind: str | None = None
    effect: float | None = None
    remark: str = ""

    @property
    def scope(self) -> str:
        parts = [" + ".join(each.parts) for each in (self.slower, self.faster) if isinstance(each, Parts)]
        most = [f"less than {self.below:g} x"] if self.below else []
        return ", ".join([self.case, *parts[:1], *most])

    @property
    def basis(self) -> str:
        sides = (self.slower, self.faster)
        return " over ".join(f"{' + '.join(each.parts)} of {each.variant}" for each in sides if isinstance(each, Parts))

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        names = (each if isinstance(each, str) else each.variant for each in (self.slower, self.faster))
        return tuple(dict.fromkeys(names))

    def find(self, cells: Cells) -> Finding:
        if self.kind and cells.kind != self.kind:
            raise NotApplicable(f"the claim is about a {self.kind.upper()}")
        sides = (self.slower, self.faster)
        names = [side if isinstance(side, str) else side.variant for side in sides]
        readings = side_by_side(*(cells.reading(name, self.case) for name in names))
        slower, quicker = (
            reading if isinstance(side, str) else side.of(reading)
            for side, reading in zip(sides, readings, strict=True)
        )
        found = ratio(slower, quicker)
        return replace(found, turn=self.below, below=True) if self.below else found


def ratio(slower: Reading, quicker: Reading, how: str = "") -> Finding:
    """slower / quicker with its interval."""
    found = faster(slower, quicker)
    assert found is not None
    return Finding(found.estimate, found.low, found.high, ", ".join(filter(None, [how, found.how])))


def points(lab: "Lab", axis: str) -> dict[str, str]:
    """The variants of a sweep by their points."""
    return {str(each.point): each.name for sweep in lab.sweeps if sweep.axis == axis for each in sweep.variants}


def quickest(readings: Iterable[Reading]) -> Reading:
    return min(readings, key=lambda reading: reading.median)


@dataclass(frozen=True)
class Best(Evidence):
    """How many times as fast the quickest of some points of a sweep is as the quickest of the others.

    `others`: all other points, unless given. A point that failed is none.
    """

    axis: str
    best: tuple[str, ...]
    case: str
    others: tuple[str, ...] = ()
    remark: str = ""

    @property
    def basis(self) -> str:
        own, other = " and ".join(self.best), " and ".join(self.others) or "all other points"
        fastest = f"the fastest of {own}" if len(self.best) > 1 else own
        return f"{fastest} beside the fastest of {other}; the same samples choose it and time it"

    def _sides(self, lab: "Lab") -> tuple[list[str], list[str]]:
        names = points(lab, self.axis)
        others = self.others or tuple(point for point in names if point not in self.best)
        return [names[point] for point in self.best], [names[point] for point in others]

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        own, others = self._sides(lab)
        return (*own, *others)

    def find(self, cells: Cells) -> Finding:
        ran = [list(cells.ran(names, self.case).values()) for names in self._sides(cells.lab)]
        if not all(ran):
            raise MissingData(f"all of {'others' if ran[0] else ' and '.join(self.best)} failed")
        own, other = (quickest(readings) for readings in ran)
        return ratio(
            other, own, f"{cells.lab.variant(own.variant).point} beside {cells.lab.variant(other.variant).point}"
        )


@dataclass(frozen=True)
class Crowded(Evidence):
    """How many work-items a core of the device has at the quickest point of a sweep, of which some have fewer than one.

    The interval is that of the points that may be the quickest: those that no interval shows to be slower.
    """

    axis: str
    case: str
    unit = "per core"

    @property
    def basis(self) -> str:
        return (
            "work-items of the fastest point over the device's cores (lanes of a GPU); its interval includes each point that"
            " is not shown to be slower"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        """Those points that can be on this case."""
        case = lab.case(self.case)
        return tuple(name for name in points(lab, self.axis).values() if not lab.skip_reason(lab.variant(name), case))

    def find(self, cells: Cells) -> Finding:
        ran = cells.ran(self.variants(cells.lab), self.case)
        shares = {
            name: number_of(cells, name, self.case, "work_items") / number_of(cells, name, self.case, "cores")
            for name in ran
        }
        if not shares:
            raise MissingData("all points of the sweep failed")
        fewest = min(shares, key=lambda name: shares[name])
        if shares[fewest] > 1:
            at_least = f"at least {shares[fewest]:.3g} per core"
            raise NotApplicable(
                f"no point of the sweep that ran has as few work-items as this device has cores: {at_least}"
            )
        best = quickest(ran.values())
        rivals = [shares[name] for name, each in ran.items() if each is best or ratio(each, best).low <= 1]
        points_of = (cells.lab.variant(name).point for name in (best.variant, fewest))
        how = "{} is the fastest; {} has {:.2g} per core".format(*points_of, shares[fewest])
        return Finding(shares[best.variant], min(rivals), max(rivals), how)


@dataclass(frozen=True)
class AboveMost(Evidence):
    """How many times as fast a step makes it, to be compared with the median of what other steps do.

    The interval is as wide as that of both: of the step, and of the median, whose ends are the medians of the others' ends.
    """

    slower: str
    faster: str
    others: tuple[tuple[str, str], ...]
    case: str

    @property
    def basis(self) -> str:
        others = ", ".join(f"{faster} over {slower}" for slower, faster in self.others)
        return f"the gain of {self.faster} over {self.slower}, turning at the median gain of {others}, or at none"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for pair in ((self.slower, self.faster), *self.others) for name in pair))

    def find(self, cells: Cells) -> Finding:
        def gain(one: str, other: str) -> Finding:
            return ratio(cells.reading(one, self.case), cells.reading(other, self.case))

        gains = [gain(*pair) for pair in self.others]
        middle, low, high = (
            float(np.median([getattr(each, end) for each in gains])) for end in ("estimate", "low", "high")
        )
        found = gain(self.slower, self.faster)
        turn = max(1.0, middle)
        how = ", ".join(filter(None, [f"the median of the other steps is {middle:.3g}", found.how]))
        return Finding(found.estimate, found.low * turn / max(1.0, high), found.high * turn / max(1.0, low), how, turn)


@dataclass(frozen=True)
class Share(Evidence):
    """The share of a part in the sum of several parts of a run. `turn`: half where it is said to be small or large, else 0."""

    variant: str
    part: str
    of: tuple[str, ...]
    case: str
    turn: float = 0.0
    remark: str = ""
    unit = "%"

    @property
    def basis(self) -> str:
        return f"{self.part} over {' + '.join(self.of)} of {self.variant}, in each sample"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return (self.variant,)

    def find(self, cells: Cells) -> Finding:
        reading = cells.reading(self.variant, self.case)

        def shares(run: Reading) -> list[float]:
            part, whole = (Parts(self.variant, parts).times(run) for parts in ((self.part,), self.of))
            return [one / all_ for one, all_ in zip(part, whole, strict=True)]

        found = reading.of_times(shares)
        return Finding(found.median, found.low, found.high, found.few, self.turn)


def number(reading: Reading, fact: str) -> float:
    """A number that a run told besides its times. Raises NotApplicable where it told none, as a backend may not."""
    found = reading.facts.get(fact)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        raise NotApplicable(f"{reading.variant} does not report {fact!r} by this backend")
    return float(found)


def number_of(cells: Cells, variant: str, case: str, fact: str) -> float:
    """The same of the newest run of a variant. Raises as `Cells.reading` and `number`."""
    return number(cells.reading(variant, case), fact)


def exactly(number: float, how: str = "", turn: float = 1.0) -> Finding:
    """A number that is not measured in time and has no interval."""
    return Finding(number, number, number, how, turn)


@dataclass(frozen=True)
class Fact(Evidence):
    """How many times as large a number that a run tells, such as its registers, is with `more` as with `less`."""

    fact: str
    less: str
    more: str
    case: str
    remark: str = ""

    @property
    def scope(self) -> str:
        return f"{self.case}, {self.fact}"

    @property
    def basis(self) -> str:
        return f"{self.fact} of {self.more} over that of {self.less}, as compiler and driver report them: no interval"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return self.less, self.more

    def find(self, cells: Cells) -> Finding:
        few, many = (number_of(cells, name, self.case, self.fact) for name in (self.less, self.more))
        if few == many == 0:
            raise NotApplicable(f"{self.fact} is reported as 0 for both by this backend")
        return exactly(many / few if few else math.inf, f"{few:.4g} with {self.less}, {many:.4g} with {self.more}")


@dataclass(frozen=True)
class Even(Evidence):
    """The largest over the smallest of several numbers that a run tells, which are said to be alike: they are within 5 %.

    The median of all runs in the store, and their range; fewer than `FEWEST` runs give no interval.
    """

    variant: str
    facts: tuple[str, ...]
    case: str
    detail: str
    effect: float | None = 1.0
    remark: str = ""

    @property
    def scope(self) -> str:
        return f"{self.case}, {self.detail}"

    @property
    def basis(self) -> str:
        return (
            f"the largest {self.detail} of {self.variant} over the smallest, one number from each run in the store, and the"
            f" range of the runs; a difference counts from {100 * (stats.EQUAL - 1):.3g} %"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return (self.variant,)

    def find(self, cells: Cells) -> Finding:
        told = [
            [number(reading, fact) for fact in self.facts] for reading in cells.reading(self.variant, self.case).runs
        ]
        for numbers in told:
            if min(numbers) <= 0:
                raise MissingData(f"a {self.detail} of {self.variant} is {min(numbers):g}")
        spread = [max(numbers) / min(numbers) for numbers in told]
        low, high = (min(spread), max(spread)) if len(spread) >= FEWEST else (0.0, math.inf)
        how = f"{', '.join(f'{each:.3g}' for each in told[0])} in the newest run, n = {len(spread)}"
        return Finding(float(np.median(spread)), low, high, how, least=stats.EQUAL)


@dataclass(frozen=True)
class Counterexample(Evidence):
    """Whether more of a fact is not always faster: of all pairs with more of it and less, the one that speaks most for that.

    How many times as fast the one with less is. The variants do the same work.
    """

    fact: str
    among: tuple[str, ...]
    case: str
    remark: str = ""

    @property
    def basis(self) -> str:
        return f"of all pairs of {', '.join(self.among)} with more {self.fact} and less, the one that speaks most for the claim"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return self.among

    def find(self, cells: Cells) -> Finding:
        ran = cells.ran(self.among, self.case)
        facts = {name: number_of(cells, name, self.case, self.fact) for name in ran}
        pairs = [
            ratio(ran[more], ran[less], f"{less} with {facts[less]:.3g}, {more} with {facts[more]:.3g}")
            for more in ran
            for less in ran
            if facts[less] < facts[more]
        ]
        if not pairs:
            raise MissingData(f"{self.fact} is the same for all")
        return max(pairs, key=lambda pair: (pair.low, pair.estimate))


@dataclass(frozen=True)
class Counted(Evidence):
    """How many times as large a hardware counter of a kernel is in `after` as in `before`.

    number: which launch shape of the kernel, from 1, such as that of a network's second layer.
    """

    counter: str
    before: str
    after: str
    case: str
    kernel: str
    number: int = 1
    remark: str = ""

    @property
    def scope(self) -> str:
        return f"{self.case}, {self.counter} of {self.kernel} {self.number}"

    @property
    def basis(self) -> str:
        return (
            f"a hardware counter with {self.after} over that with {self.before}, of one profiled run each: no interval"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return self.before, self.after

    def find(self, cells: Cells) -> Finding:
        sides = {name: self._of(cells.counted(name, self.case), name) for name in (self.before, self.after)}
        before, after = sides.values()
        told = ", ".join(f"{value:.3g} with {name}" for name, value in sides.items())
        return exactly(after / before, told)

    def _of(self, told: Mapping[str, Any], name: str) -> float:
        value = of_kernel(told, self.kernel, self.number, self.counter)
        if not value:
            raise MissingData(f"{self.counter} of {self.kernel} {self.number} in {name}")
        return value


@dataclass(frozen=True)
class Intensity(Evidence):
    """FLOP per byte of memory traffic of a variant; above the device's ridge, memory no longer bounds it."""

    variant: str
    case: str
    remark: str = ""
    unit = "FLOP/B"

    @property
    def basis(self) -> str:
        return f"FLOP of a step and modelled bytes of {self.variant}, counted by hand; turning at the ridge of measured peaks"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return (self.variant,)

    def find(self, cells: Cells) -> Finding:
        row, peaks = cells.reading(self.variant, self.case).row, cells.peaks
        ridge = peaks.flops["float32"] / memory(peaks)
        return exactly(
            number_field(row, "flops") / number_field(row, "bytes"), f"the ridge point is at {ridge:.3g}", ridge
        )


@dataclass(frozen=True)
class Bandwidth(Evidence):
    """Bytes of memory traffic of a variant over its time, as a share of the fastest stream through the largest working set.

    `turn`: half where memory is said to bound it or not to, else 0.
    """

    variant: str
    case: str
    turn: float = 0.0
    numbered: bool = True
    remark: str = ""
    unit = "%"

    @property
    def scope(self) -> str:
        return f"{self.case}, bandwidth"

    @property
    def basis(self) -> str:
        turning = "; turning at a half: above it memory takes most of the time" if self.turn else ""
        return (
            f"modelled bytes of {self.variant} over its time, from caches or memory, as a share of the fastest stream through"
            f" memory{turning}"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return (self.variant,)

    def find(self, cells: Cells) -> Finding:
        reading = cells.reading(self.variant, self.case)
        least = number_field(reading.row, "bytes") / memory(cells.peaks)
        return Finding(least / reading.median, least / reading.high, least / reading.low, reading.few, self.turn)


def memory(peaks: "Peaks") -> float:
    """Bytes per second of the fastest stream through the largest working set."""
    return max(peaks.bandwidth)[1]
