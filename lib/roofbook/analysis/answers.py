"""The answer that a lab's page gives first: the fastest kernel of a case, its peers, and the steps that gained most.

Serves report/answer_box.py. A peer runs on the kernel's device, whichever backend calls it. The comparison is like for like if
`Lab.conditions` gives the same for both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..spec.plan import ROUNDS_OPERANDS, differing_conditions
from .case_data import peers_on
from .readings import EARLIER, Reading, Speedup, called_by, faster, fastest

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from .case_data import CaseData

MATTERED = 2
"""Number of steps named as those that gained most."""

IN_FULL = 5
"""Most steps that a story shows in full; a line says of each of the others what it does and brings."""


@dataclass(frozen=True)
class Rival:
    """A reading compared with a kernel. ratio: how many times as fast the kernel is."""

    reading: Reading
    ratio: Speedup | None
    only_rival: Sequence[str] = ()
    """Conditions that only the rival has."""
    only_kernel: Sequence[str] = ()
    """Conditions that only the kernel has."""
    shared: Sequence[str] = ()
    """Conditions that both have."""

    called_by: str = ""
    """The backend that calls the rival, as a reader sees it, if it is not the kernel's; else ''."""

    @property
    def alike(self) -> bool:
        """Whether like is compared with like."""
        return not (self.only_rival or self.only_kernel)

    def medians_disagree(self, kernel: Reading) -> bool:
        """Return whether the ratio that is shown contradicts the two median times, as `Speedup.contradicts`."""
        return self.ratio is not None and self.ratio.contradicts(self.reading, kernel)


@dataclass(frozen=True)
class Fastest:
    """A kernel with the peers that it is compared with."""

    reading: Reading
    conditions: Sequence[str]
    """The kernel's `Lab.conditions`."""
    peer: Rival | None
    """The fastest peer of those that differ in the fewest conditions; None if no peer was measured."""
    faster_peer: Rival | None
    """The fastest peer of all, if it is faster than `peer`."""
    as_exact: Rival | None
    """The fastest peer that multiplies in the same precision, whatever else differs, if it is faster than `peer`."""


@dataclass(frozen=True)
class Mattered:
    """A step on the way to the fastest kernel. ratio: how many times as fast as `over`, the last step before it with a time."""

    step: str
    over: str
    ratio: Speedup


@dataclass(frozen=True)
class LabAnswer:
    """The answer for one case on one device."""

    fastest: Fastest
    plain: Fastest | None
    """The fastest kernel without conditions, if the fastest of all has some."""
    base: Rival | None
    """Baseline of the speedups in sentences; None if no baseline has a time."""
    base_is: str
    """The baseline in words, as `Variant.description`."""
    mattered: Sequence[Mattered]
    """Steps that gained most, the largest gain first."""
    steps: Sequence[str]
    """Names of the lab's steps that this device and this case can run, baselines excluded."""
    lacking: Sequence[str]
    """Names of `steps` without a reading: one of them may be faster."""
    level: Sequence[str]
    """Names of the steps whose difference from the fastest is within the noise, the nearest first."""
    shorter: Sequence[Rival] = ()
    """Steps with a shorter median than the fastest, which is faster where both ran; as `shorter_elsewhere`."""


def answer(lab: "Lab", data: "CaseData") -> LabAnswer | None:
    """Return the answer of a case; None if no step has a verified time on it."""
    readings = data.readings
    steps = [reading for reading in readings.values() if reading.ok and reading.role == "step"]
    best = fastest(steps)
    if best is None:
        return None
    peers = peers_on(best.row["device"], readings.values())
    plain = fastest(step for step in steps if not lab.conditions(lab.variant(step.variant)))
    base = next(iter(data.verified(lab.headline)), None)
    left_out = {*lab.headline, *data.skip_reasons}
    names = [step.name for step in lab.ladder if step.role == "step" and step.name not in left_out]
    return LabAnswer(
        _kernel(lab, best, peers),
        _kernel(lab, plain, peers) if plain and plain is not best else None,
        Rival(base, faster(base, best)) if base else None,
        lab.variant(base.variant).description if base else "",
        mattered(lab, best.variant, readings),
        names,
        [name for name in names if name not in readings],
        [step.variant for step in sorted(steps, key=lambda step: step.median) if _is_level(best, step)],
        shorter_elsewhere(best, steps),
    )


def shorter_elsewhere(best: Reading, steps: Iterable[Reading]) -> list[Rival]:
    """Return the steps with a shorter median than the fastest, by median, though it is faster where both ran.

    Such a step has other runs, on machines with shorter times.
    """
    shorter = sorted((step for step in steps if step.median < best.median), key=lambda step: step.median)
    ratios = [(step, faster(step, best)) for step in shorter]
    return [
        Rival(step, ratio) for step, ratio in ratios if ratio and ratio.word == "faster" and EARLIER not in ratio.how
    ]


def _is_level(best: Reading, step: Reading) -> bool:
    ratio = faster(step, best) if step is not best else None
    return ratio is not None and ratio.same


def mattered(lab: "Lab", step: str, readings: Mapping[str, Reading]) -> list[Mattered]:
    """Return the steps that gained most from the lab's first one to this one, the largest gain first, as `way` has them."""
    return sorted(way(lab, step, readings), key=lambda gain: -gain.ratio.estimate)[:MATTERED]


def way(lab: "Lab", step: str, readings: Mapping[str, Reading]) -> list[Mattered]:
    """Return the gains from the lab's first step to this one, in order, each over the nearest step before it with a time.

    A step counts if the gain is beyond the noise and both ran on one device: moving from the host to another device does not
    change a kernel.
    """
    gains = []
    reading, name = readings.get(step), lab.variant(step).parent
    while name:
        before = readings.get(name)
        if before and before.ok and reading:
            ratio = faster(before, reading)
            if ratio and ratio.word == "faster" and before.row["device"] == reading.row["device"]:
                gains.append(Mattered(reading.variant, name, ratio))
            reading = before
        name = lab.variant(name).parent
    return gains[::-1]


def main_steps(lab: "Lab", data: "CaseData") -> list[str]:
    """Return the steps of a case that a story shows in full: those that gained most on the way to the fastest, and that one.

    Empty if no step has a verified time.
    """
    best = fastest(reading for reading in data.readings.values() if reading.ok and reading.role == "step")
    if best is None:
        return []
    gains = sorted(way(lab, best.variant, data.readings), key=lambda gain: -gain.ratio.estimate)
    return list(dict.fromkeys([best.variant, *(gain.step for gain in gains)]))[:IN_FULL]


def _kernel(lab: "Lab", reading: Reading, peers: Iterable[Reading]) -> Fastest:
    conditions = lab.conditions(lab.variant(reading.variant))
    rivals = [_rival(lab, reading, peer) for peer in peers]
    nearest = min(rivals, key=lambda rival: (_distance(rival), rival.reading.median), default=None)

    def faster_of(candidates: Iterable[Rival]) -> Rival | None:
        best = min(candidates, key=lambda rival: rival.reading.median, default=None)
        return best if best and nearest and best.reading.median < nearest.reading.median else None

    exact = (rival for rival in rivals if not _distance(rival)[0])
    return Fastest(reading, conditions, nearest, faster_of(rivals), faster_of(exact))


def _rival(lab: "Lab", kernel: Reading, peer: Reading) -> Rival:
    of_kernel, of_peer = (lab.conditions(lab.variant(reading.variant)) for reading in (kernel, peer))
    only_kernel, only_peer = differing_conditions(of_kernel, of_peer)
    shared = [condition for condition in of_kernel if condition in of_peer]
    return Rival(peer, faster(peer, kernel), only_peer, only_kernel, shared, called_by(peer, kernel))


def _distance(rival: Rival) -> tuple[int, int]:
    """Return (differences in the operands' precision, all differences).

    Half the digits make another problem; results in another order do not.
    """
    differences = [*rival.only_rival, *rival.only_kernel]
    return sum(difference.startswith(ROUNDS_OPERANDS) for difference in differences), len(differences)
