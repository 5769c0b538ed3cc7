"""Kinds of evidence for the claims of a report: each makes one number from the measurements of a case.

Serves the labs, which name the evidence for each claim, and verdicts.py, which judges the number.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ..measure import stats
from .claim_data import ClaimData, MissingData, NotApplicable
from .readings import Reading, faster, fastest, number_field, of_kernel, side_by_side
from .roofline import memory

if TYPE_CHECKING:
    from ..spec.lab import Lab


@dataclass(frozen=True)
class Finding:
    """Our number for a claim, oriented as the published effect is, with its 95 % interval [low, high].

    `turn` is the number at which the statement would turn into its opposite: 1 for a ratio, half for a share that is said to be
    small or large. 0 means that there is none: the statement is a quantity, and ours is the same or another.
    """

    estimate: float
    low: float
    high: float
    how: str = ""
    turn: float = 1.0
    below: bool = False
    """Whether a statement without a number says that the effect lies below `turn`, not above it."""
    least: float = stats.LEAST
    """Factor from which on a difference counts; for times it is the same as in every table."""
    variants: tuple[str, ...] = ()
    """The variants that it rests on, if they are not those that the evidence names first."""


HALF = 0.5
"""Share at which 'small' turns into 'large'."""
NO_GAIN = 1.05
"""Speedup below which a claim of no gain holds, if no table calls the step faster. It may be slower."""
LITTLE = 1.25
"""Speedup below which a claim of a little gain holds."""
FEWEST = 3
"""Least number of values for an interval."""


@dataclass(frozen=True)
class SumOfParts:
    """A variant timed by the sum of these parts of its run, not by the time that its lab defines."""

    variant: str
    parts: tuple[str, ...]

    def of(self, reading: Reading) -> Reading:
        """Return the reading with the sum of the parts as its times. Errors: MissingData for a part that not every run has."""
        return reading.of_times(self.times)

    def times(self, reading: Reading) -> list[float]:
        """Return the sum of the parts in each sample of one run."""
        for part in self.parts:
            if len(reading.parts.get(part, ())) != len(reading.times):
                raise MissingData(f"{self.variant} has no part {part!r}")
        times = [sum(sample) for sample in zip(*(reading.parts[part] for part in self.parts), strict=True)]
        if min(times) <= 0:
            raise MissingData(f"{' + '.join(self.parts)} of {self.variant} took less time than the clock resolves")
        return times


Timed = str | SumOfParts
"""A timed side of a comparison: a variant as its lab times it, or parts of its run."""


class Evidence(ABC):
    """Evidence for one claim: it makes a number from the measurements of one case."""

    case: str
    unit: ClassVar[str] = "x"
    """Unit of the number: `x` for a ratio, `%` for a share, or a physical unit."""
    effect: float | None = None
    """The claimed effect, whatever number the report prints: 1 for a claim that two things are alike."""
    numbered: bool = True
    """Whether the published number, if there is one, is the one that this evidence makes."""
    remark: str = ""
    """Further facts for readers who doubt the verdict, such as the report's own comparison."""

    @property
    def scope(self) -> str:
        """The case, and the part of it that counts."""
        return self.case

    @property
    def basis(self) -> str:
        """The numbers that are compared; '' if the variants' names say it."""
        return ""

    @property
    def compared(self) -> str:
        """Exact comparison in one line; '' if the variants' names say it all."""
        return "; ".join(filter(None, (self.basis, self.remark)))

    @abstractmethod
    def variants(self, lab: "Lab") -> tuple[str, ...]:
        """Return the variants whose measurements are needed."""

    @abstractmethod
    def find(self, claim_data: ClaimData) -> Finding:
        """Return the number. Errors: MissingData if a measurement that it needs has no verified time."""


@dataclass(frozen=True)
class NotTestable(Evidence):
    """A claim that nothing measured here can test, with the reason."""

    reason: str
    case: str = ""

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return ()

    def find(self, claim_data: ClaimData) -> Finding:
        raise NotApplicable(self.reason)


@dataclass(frozen=True)
class OrElse(Evidence):
    """Evidence as the report has it, and what stands in for it on a device that has no such measurement.

    `note`: the condition of the stand-in, which stands beside its number.
    """

    first: Evidence
    stand_in: Evidence
    note: str

    def __post_init__(self) -> None:
        """Take over all that is said of the evidence from `first`."""
        for name in ("case", "unit", "effect", "numbered"):
            object.__setattr__(self, name, getattr(self.first, name))

    @property
    def scope(self) -> str:
        return self.first.scope

    @property
    def compared(self) -> str:
        return "; ".join(filter(None, (self.first.compared, f"otherwise {self.note}")))

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.first.variants(lab), *self.stand_in.variants(lab))))

    def find(self, claim_data: ClaimData) -> Finding:
        try:
            return self.first.find(claim_data)
        except MissingData as error:
            try:
                finding = self.stand_in.find(claim_data)
            except MissingData:
                raise error from None
        how = ", ".join(filter(None, (self.note, finding.how)))
        return replace(finding, how=how, variants=self.stand_in.variants(claim_data.lab))


@dataclass(frozen=True)
class Pair(Evidence):
    """How many times as fast the second variant is as the first, by samples of the same rounds if one run has both.

    `below`: the statement is that it is less than this many times as fast. `kind`: of the device that the statement is about.
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
        parts = [" + ".join(side.parts) for side in (self.slower, self.faster) if isinstance(side, SumOfParts)]
        limit = [f"less than {self.below:g} x"] if self.below else []
        return ", ".join([self.case, *parts[:1], *limit])

    @property
    def basis(self) -> str:
        sides = (self.slower, self.faster)
        return " over ".join(
            f"{' + '.join(side.parts)} of {side.variant}" for side in sides if isinstance(side, SumOfParts)
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        names = (side if isinstance(side, str) else side.variant for side in (self.slower, self.faster))
        return tuple(dict.fromkeys(names))

    def find(self, claim_data: ClaimData) -> Finding:
        if self.kind and claim_data.kind != self.kind:
            raise NotApplicable(f"the claim is about a {self.kind.upper()}")
        sides = (self.slower, self.faster)
        names = [side if isinstance(side, str) else side.variant for side in sides]
        readings = side_by_side(*(claim_data.reading(name, self.case) for name in names))
        slower, quicker = (
            reading if isinstance(side, str) else side.of(reading)
            for side, reading in zip(sides, readings, strict=True)
        )
        finding = ratio(slower, quicker)
        return replace(finding, turn=self.below, below=True) if self.below else finding


def pair_on(case: str, slower: str, faster: str, remark: str = "") -> tuple[Pair]:
    """Return the evidence of a claim on one pair of variants alone: how many times as fast `faster` is as `slower`."""
    return (Pair(slower, faster, case, remark=remark),)


def ratio(slower: Reading, quicker: Reading, how: str = "") -> Finding:
    """Return slower / quicker with its interval."""
    speedup = faster(slower, quicker)
    assert speedup is not None
    return Finding(speedup.estimate, speedup.low, speedup.high, ", ".join(filter(None, [how, speedup.how])))


def points(lab: "Lab", axis: str) -> dict[str, str]:
    """Return the names of a sweep's variants by their points."""
    return {str(v.point): v.name for sweep in lab.sweeps if sweep.axis == axis for v in sweep.variants}


def quickest(readings: Iterable[Reading]) -> Reading:
    """Return the fastest verified reading, as `fastest` chooses it; there must be one."""
    reading = fastest(readings)
    assert reading is not None
    return reading


@dataclass(frozen=True)
class Best(Evidence):
    """How many times as fast the quickest of some points of a sweep is as the quickest of the others.

    `other_points`: all others, unless given. Points that failed are left out.
    """

    axis: str
    best: tuple[str, ...]
    case: str
    other_points: tuple[str, ...] = ()
    remark: str = ""

    @property
    def basis(self) -> str:
        best, reference = " and ".join(self.best), " and ".join(self.other_points) or "all other points"
        fastest = f"the fastest of {best}" if len(self.best) > 1 else best
        return f"{fastest} beside the fastest of {reference}; the same samples choose it and time it"

    def _sides(self, lab: "Lab") -> tuple[list[str], list[str]]:
        names = points(lab, self.axis)
        other_points = self.other_points or tuple(point for point in names if point not in self.best)
        return [names[point] for point in self.best], [names[point] for point in other_points]

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        best, reference = self._sides(lab)
        return (*best, *reference)

    def find(self, claim_data: ClaimData) -> Finding:
        ran = [list(claim_data.ran(names, self.case).values()) for names in self._sides(claim_data.lab)]
        if not all(ran):
            raise MissingData(f"all of {'others' if ran[0] else ' and '.join(self.best)} failed")
        best, reference = (quickest(readings) for readings in ran)
        best_point, reference_point = (claim_data.lab.variant(side.variant).point for side in (best, reference))
        return ratio(reference, best, f"{best_point} beside {reference_point}")


@dataclass(frozen=True)
class ItemsPerCore(Evidence):
    """Number of work-items per core of the device at the quickest point of a sweep, some points of which have fewer than one.

    The interval includes each point that may be the quickest: no interval shows it to be slower.
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
        """Return the points that can run on this case."""
        case = lab.case(self.case)
        return tuple(name for name in points(lab, self.axis).values() if not lab.skip_reason(lab.variant(name), case))

    def find(self, claim_data: ClaimData) -> Finding:
        ran = claim_data.ran(self.variants(claim_data.lab), self.case)
        shares = {
            name: number_of(claim_data, name, self.case, "work_items") / number_of(claim_data, name, self.case, "cores")
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
        rivals = [shares[name] for name, reading in ran.items() if reading is best or ratio(reading, best).low <= 1]
        points_of = (claim_data.lab.variant(name).point for name in (best.variant, fewest))
        how = "{} is the fastest; {} has {:.2g} per core".format(*points_of, shares[fewest])
        return Finding(shares[best.variant], min(rivals), max(rivals), how)


@dataclass(frozen=True)
class AboveMost(Evidence):
    """Speedup of one step, to be compared with the median speedup of other steps.

    The interval includes both uncertainties: the step's, and that of the median, whose ends are the medians of the other steps'
    ends.
    """

    slower: str
    faster: str
    other_steps: tuple[tuple[str, str], ...]
    case: str

    @property
    def basis(self) -> str:
        steps = ", ".join(f"{faster} over {slower}" for slower, faster in self.other_steps)
        return f"the gain of {self.faster} over {self.slower}, turning at the median gain of {steps}, or at none"

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        pairs = ((self.slower, self.faster), *self.other_steps)
        return tuple(dict.fromkeys(name for pair in pairs for name in pair))

    def find(self, claim_data: ClaimData) -> Finding:
        def gain(slower: str, faster: str) -> Finding:
            return ratio(claim_data.reading(slower, self.case), claim_data.reading(faster, self.case))

        gains = [gain(*pair) for pair in self.other_steps]
        middle, low, high = (
            float(np.median([getattr(finding, end) for finding in gains])) for end in ("estimate", "low", "high")
        )
        step = gain(self.slower, self.faster)
        turn = max(1.0, middle)
        how = ", ".join(filter(None, [f"the median of the other steps is {middle:.3g}", step.how]))
        return Finding(step.estimate, step.low * turn / max(1.0, high), step.high * turn / max(1.0, low), how, turn)


@dataclass(frozen=True)
class Share(Evidence):
    """Share of one part in the sum of several parts of a run. `turn`: half if it is said to be small or large, else 0."""

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

    def find(self, claim_data: ClaimData) -> Finding:
        reading = claim_data.reading(self.variant, self.case)

        def shares(run: Reading) -> list[float]:
            part, total = (SumOfParts(self.variant, parts).times(run) for parts in ((self.part,), self.of))
            return [part_s / total_s for part_s, total_s in zip(part, total, strict=True)]

        shared = reading.of_times(shares)
        return Finding(shared.median, shared.low, shared.high, shared.few, self.turn)


def number(reading: Reading, fact: str) -> float:
    """Return a number among a run's facts. Errors: NotApplicable if there is none, as a backend may not report it."""
    fact_value = reading.facts.get(fact)
    if isinstance(fact_value, bool) or not isinstance(fact_value, int | float) or not math.isfinite(fact_value):
        raise NotApplicable(f"{reading.variant} does not report {fact!r} by this backend")
    return float(fact_value)


def number_of(claim_data: ClaimData, variant: str, case: str, fact: str) -> float:
    """Return a number among the facts of a variant's newest run. Errors: as `ClaimData.reading` and `number`."""
    return number(claim_data.reading(variant, case), fact)


def exactly(number: float, how: str = "", turn: float = 1.0) -> Finding:
    """Return a finding for a number that is not a measured time, without an interval."""
    return Finding(number, number, number, how, turn)


@dataclass(frozen=True)
class Fact(Evidence):
    """Ratio of a number among a run's facts, such as its registers: of `larger` over `smaller`."""

    fact: str
    smaller: str
    larger: str
    case: str
    remark: str = ""

    @property
    def scope(self) -> str:
        return f"{self.case}, {self.fact}"

    @property
    def basis(self) -> str:
        return (
            f"{self.fact} of {self.larger} over that of {self.smaller}, as compiler and driver report them: no interval"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return self.smaller, self.larger

    def find(self, claim_data: ClaimData) -> Finding:
        small, large = (number_of(claim_data, name, self.case, self.fact) for name in (self.smaller, self.larger))
        if small == large == 0:
            raise NotApplicable(f"{self.fact} is reported as 0 for both by this backend")
        how = f"{small:.4g} with {self.smaller}, {large:.4g} with {self.larger}"
        return exactly(large / small if small else math.inf, how)


@dataclass(frozen=True)
class FactSpread(Evidence):
    """The largest over the smallest of several facts of a run, which are claimed to be alike: within 5 %.

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

    def find(self, claim_data: ClaimData) -> Finding:
        numbers_by_run = [
            [number(reading, fact) for fact in self.facts]
            for reading in claim_data.reading(self.variant, self.case).runs
        ]
        for numbers in numbers_by_run:
            if min(numbers) <= 0:
                raise MissingData(f"a {self.detail} of {self.variant} is {min(numbers):g}")
        spread = [max(numbers) / min(numbers) for numbers in numbers_by_run]
        low, high = (min(spread), max(spread)) if len(spread) >= FEWEST else (0.0, math.inf)
        how = f"{', '.join(f'{number:.3g}' for number in numbers_by_run[0])} in the newest run, n = {len(spread)}"
        return Finding(float(np.median(spread)), low, high, how, least=stats.EQUAL)


@dataclass(frozen=True)
class Counterexample(Evidence):
    """Whether more of a fact is not always faster, by the pair of variants that most supports that.

    The number is how many times as fast the variant with less of the fact is. All variants do the same work.
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

    def find(self, claim_data: ClaimData) -> Finding:
        ran = claim_data.ran(self.among, self.case)
        facts = {name: number_of(claim_data, name, self.case, self.fact) for name in ran}
        pairs = [
            ratio(ran[larger], ran[smaller], f"{smaller} with {facts[smaller]:.3g}, {larger} with {facts[larger]:.3g}")
            for larger in ran
            for smaller in ran
            if facts[smaller] < facts[larger]
        ]
        if not pairs:
            raise MissingData(f"{self.fact} is the same for all")
        return max(pairs, key=lambda pair: (pair.low, pair.estimate))


@dataclass(frozen=True)
class CounterRatio(Evidence):
    """Ratio of a kernel's hardware counter in `after` to that in `before`.

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

    def find(self, claim_data: ClaimData) -> Finding:
        sides = {name: self._of(claim_data.counted(name, self.case), name) for name in (self.before, self.after)}
        before, after = sides.values()
        how = ", ".join(f"{value:.3g} with {name}" for name, value in sides.items())
        return exactly(after / before, how)

    def _of(self, counters: Mapping[str, Any], name: str) -> float:
        count = of_kernel(counters, self.kernel, self.number, self.counter)
        if not count:
            raise MissingData(f"{self.counter} of {self.kernel} {self.number} in {name}")
        return count


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

    def find(self, claim_data: ClaimData) -> Finding:
        row, peaks = claim_data.reading(self.variant, self.case).row, claim_data.peaks
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

    def find(self, claim_data: ClaimData) -> Finding:
        reading = claim_data.reading(self.variant, self.case)
        least = number_field(reading.row, "bytes") / memory(claim_data.peaks)
        return Finding(least / reading.median, least / reading.high, least / reading.low, reading.few, self.turn)
