"""What a lab's page answers first: the fastest kernel of a case, what stands beside it, and the steps that mattered most.

Serves report/answer_box.py. A peer runs on the kernel's device, whichever backend calls it. It is compared like for like where
`Lab.conditions` says the same of it as of the kernel.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..measure import stats
from ..spec.lab import ROUNDS_OPERANDS, unlike
from .case_data import peers_on
from .readings import Reading, Speedup, called_by, faster, fastest

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from .case_data import CaseData

MATTERED = 2
"""How many steps are named as those that mattered most."""


@dataclass(frozen=True)
class Rival:
    """A reading beside a kernel. ratio: how many times as fast the kernel is."""

    reading: Reading
    ratio: Speedup | None
    only_rival: Sequence[str] = ()
    """What is said of the other alone."""
    only_kernel: Sequence[str] = ()
    """What is said of the kernel alone."""
    shared: Sequence[str] = ()
    """What is said of both."""

    called_by: str = ""
    """The backend that calls the other, as a reader sees it, where that is not the kernel's; else ''."""

    @property
    def alike(self) -> bool:
        """Whether like is compared with like."""
        return not (self.only_rival or self.only_kernel)

    def medians_disagree(self, kernel: Reading) -> bool:
        """Whether the two median times, which stand beside a ratio of pairs, make one that lies well outside its interval.

        Samples of the same round can differ by more than the medians do, where the times of a run lie in two heaps.
        """
        if self.ratio is None or not self.ratio.runs:
            return False
        of_medians = self.reading.median / kernel.median
        return not self.ratio.low / stats.LEAST <= of_medians <= self.ratio.high * stats.LEAST


@dataclass(frozen=True)
class Fastest:
    """A kernel and the peers beside it."""

    reading: Reading
    conditions: Sequence[str]
    """As `Lab.conditions` has them."""
    peer: Rival | None
    """The fastest peer that is like it, else the fastest of those that differ in the least; None where none was measured."""
    faster_peer: Rival | None
    """The fastest peer of all, where that is faster than `peer`."""
    as_exact: Rival | None
    """The fastest peer that multiplies the same, whatever else it does, where that is faster than `peer`."""


@dataclass(frozen=True)
class Mattered:
    """A step on the way to the fastest kernel. ratio: how many times as fast as `over`, the last step before it with a time."""

    step: str
    over: str
    ratio: Speedup


@dataclass(frozen=True)
class LabAnswer:
    """That of one case on one device."""

    fastest: Fastest
    plain: Fastest | None
    """The fastest kernel without conditions, where the fastest of all has some."""
    base: Rival | None
    """What speedups of sentences are over; None where no base has a time."""
    base_is: str
    """What the base is, in words, as `Variant.said`."""
    mattered: Sequence[Mattered]
    """The largest first."""
    steps: Sequence[str]
    """Those of the lab that this device and this case can have, without bases."""
    lacking: Sequence[str]
    """Those of them that were not tried: one of them may be faster."""
    level: Sequence[str]
    """The steps whose difference to the fastest is within the noise, the nearest first."""


def answer(lab: "Lab", data: "CaseData") -> LabAnswer | None:
    """The answer of a case; None where no step has a verified time on it."""
    found = data.readings
    steps = [each for each in found.values() if each.ok and each.role == "step"]
    best = fastest(steps)
    if best is None:
        return None
    peers = peers_on(best.row["device"], found.values())
    plain = fastest(each for each in steps if not lab.conditions(lab.variant(each.variant)))
    base = next(iter(data.verified(lab.headline)), None)
    left_out = {*lab.headline, *data.skip_reasons}
    known = [each.name for each in lab.ladder if each.role == "step" and each.name not in left_out]
    return LabAnswer(
        _kernel(lab, best, peers),
        _kernel(lab, plain, peers) if plain and plain is not best else None,
        Rival(base, faster(base, best)) if base else None,
        lab.variant(base.variant).said if base else "",
        mattered(lab, best.variant, found),
        known,
        [name for name in known if name not in found],
        [each.variant for each in sorted(steps, key=lambda each: each.median) if _is_level(best, each)],
    )


def _is_level(best: Reading, step: Reading) -> bool:
    ratio = faster(step, best) if step is not best else None
    return ratio is not None and ratio.same


def mattered(lab: "Lab", step: str, found: Mapping[str, Reading]) -> list[Mattered]:
    """The steps from the lab's first to this one that gained most, each over the nearest before it that has a time.

    A step counts where the gain is beyond the noise, and where both ran on one device: to leave the host for another device is
    no change of a kernel.
    """
    made = []
    own, name = found.get(step), lab.variant(step).parent
    while name:
        before = found.get(name)
        if before and before.ok and own:
            ratio = faster(before, own)
            if ratio and ratio.word == "faster" and before.row["device"] == own.row["device"]:
                made.append(Mattered(own.variant, name, ratio))
            own = before
        name = lab.variant(name).parent
    return sorted(made, key=lambda each: -each.ratio.estimate)[:MATTERED]


def _kernel(lab: "Lab", reading: Reading, peers: Iterable[Reading]) -> Fastest:
    conditions = lab.conditions(lab.variant(reading.variant))
    known = [_beside(lab, reading, each) for each in peers]
    nearest = min(known, key=lambda each: (_distance(each), each.reading.median), default=None)

    def faster_of(some: Iterable[Rival]) -> Rival | None:
        quickest = min(some, key=lambda each: each.reading.median, default=None)
        return quickest if quickest and nearest and quickest.reading.median < nearest.reading.median else None

    exact = (each for each in known if not _distance(each)[0])
    return Fastest(reading, conditions, nearest, faster_of(known), faster_of(exact))


def _beside(lab: "Lab", reading: Reading, peer: Reading) -> Rival:
    mine, its = (lab.conditions(lab.variant(each.variant)) for each in (reading, peer))
    only_mine, only_its = unlike(mine, its)
    both = [condition for condition in mine if condition in its]
    return Rival(peer, faster(peer, reading), only_its, only_mine, both, called_by(peer, reading))


def _distance(beside: Rival) -> tuple[int, int]:
    """What is multiplied comes first: half the digits are another problem, results in another order are not."""
    unlike = [*beside.only_rival, *beside.only_kernel]
    return sum(each.startswith(ROUNDS_OPERANDS) for each in unlike), len(unlike)
