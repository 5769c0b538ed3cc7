"""Variants of two sources of one lab measured in turns, each source in a process of its own. Serves the gate.

A run starts both processes afresh. Its rounds take one sample of each variant and side, in an order that is drawn. A run gives
one ratio a variant; what differs between processes shows only from run to run, so several runs decide.
"""

import random
import secrets
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import Failed, UsageError, UserFacingError
from ..process_tree import BadLine, Lines
from . import messages, stats
from .case_process import START, Worker, most_messages, seconds_allowed, why_ended
from .checked_runnable import plain_text
from .policy import Policy
from .progress import Progress, silent
from .source_tree import SourceTree

Verdict = Literal["slower", "faster", "unchanged", "undecided", "broken", "not compared"]
SIDES = ("before", "now")
"""The commit's, and the checkout's."""
LOOKS = 3
"""How often the runs so far are judged: after as many runs as were asked for, after twice and after three times as many."""
PRECISION = 0.004
"""A variant needs no further round of a run once the interval of its ratio is within this of its middle, on either side."""


@dataclass(frozen=True)
class Rule:
    """When something counts as slower, and how much is measured to tell."""

    tolerance: float = 1.03
    """What takes so many times as long must be found. Something is unchanged where the whole interval lies below."""
    runs: int = 5
    """Pairs of fresh processes before the first verdict. One of `slower` needs as many more to be the last."""

    @property
    def most(self) -> int:
        return LOOKS * self.runs


def verdict(ratio: stats.RatioEstimate, rule: Rule) -> Verdict:
    """What a ratio of times, now / before, comes to: slower or faster beyond stats.LEAST, unchanged below the tolerance."""
    word = stats.relation(1 / ratio.high, 1 / ratio.low if ratio.low else float("inf"))
    if word in ("slower", "faster"):
        return word
    return "unchanged" if ratio.high < rule.tolerance else "undecided"


@dataclass
class VariantRuns:
    """A variant on a case, before and now: a ratio and two medians a run."""

    lab: str
    case: str
    variant: str
    ratios: list[stats.RatioEstimate] = field(default_factory=list)
    """Time now / time before, run by run: above 1 is slower."""
    medians: list[tuple[float, float]] = field(default_factory=list)
    """Before and now, seconds per unit."""
    backend: str = ""
    device: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    """Why it has no time, by its side."""
    absent: str = ""
    """Why one side does not have it here."""

    @property
    def ratio(self) -> stats.RatioEstimate | None:
        """Over the runs; None without one."""
        return stats.over_runs(self.ratios) if self.ratios else None

    def verdict(self, rule: Rule) -> Verdict:
        if "before" in self.failed or self.absent:
            return "not compared"
        if "now" in self.failed:
            return "broken"
        return verdict(self.ratio, rule) if self.ratio else "not compared"

    def is_settled(self, rule: Rule) -> bool:
        """Whether no further run is needed. What looks slower at the first look is measured in as many runs again."""
        if self.failed or self.absent or len(self.ratios) >= rule.most:
            return True
        if not self.ratios or len(self.ratios) % rule.runs:
            return False
        word = self.verdict(rule)
        return word in ("faster", "unchanged") or (word == "slower" and len(self.ratios) > rule.runs)


@dataclass(frozen=True)
class SourceComparison:
    """What is measured side by side: variants of a case of a lab on a device, by two sources."""

    lab: str
    case: str
    scale: str
    device: str
    variants: tuple[str, ...]
    trees: tuple[SourceTree, SourceTree]
    """The commit's and the checkout's."""
    policy: Policy


def compare(comparison: SourceComparison, rule: Rule, progress: Progress = silent) -> list[VariantRuns]:
    """Measure run after run until each variant is settled.

    A variant that ends its process, is wrong or fails otherwise has no time, and the others go on. Errors: Failed where a
    process of the checkout ends before it is at any variant, UsageError where one of the commit does.
    """
    all_runs = {name: VariantRuns(comparison.lab, comparison.case, name) for name in comparison.variants}
    while due := [runs for runs in all_runs.values() if not runs.is_settled(rule)]:
        number = min(len(runs.ratios) for runs in due) + 1

        def tell(variant: str, what: str, number: int = number) -> None:
            progress(
                f"{comparison.lab} {comparison.case} {variant}", f"run {number} of {rule.runs} to {rule.most}: {what}"
            )

        try:
            _run(comparison, due, tell)
        except _SideEnded as end:
            guilty = all_runs.get(end.variant)
            if guilty is None or guilty.failed:
                raise _error(end, comparison.trees[SIDES.index(end.side)]) from None
            guilty.failed[end.side] = f"{end.why}; it was at: {end.what}"
    return list(all_runs.values())


def fingerprints(tree: SourceTree, side: str, labs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By lab and variant what decides a result, as the source of that tree has it; of labs that it has. Errors as `compare`."""
    process = _Side(tree, side, Policy())
    try:
        process.tell("fingerprints", labs=list(labs))
        answer = next(process.answers({"fingerprints": _are_fingerprints}))
        return {lab: dict(of_variants) for lab, of_variants in answer["fingerprints"].items() if lab in labs}
    except _SideEnded as end:
        raise _error(end, tree) from None
    finally:
        process.end()


def _are_fingerprints(value: Any) -> bool:
    """Whether a value has objects by lab and variant, as `Variant.fingerprint` makes them."""
    return isinstance(value, dict) and all(
        isinstance(of_variants, dict) and all(isinstance(fingerprint, dict) for fingerprint in of_variants.values())
        for of_variants in value.values()
    )


@dataclass
class _SideEnded(Exception):
    """The process of a side that answers no more."""

    side: str
    why: str
    variant: str
    what: str


def _error(end: _SideEnded, tree: SourceTree) -> UserFacingError:
    """What a user is told: it is the choice of the commit, or a fault of the checkout."""
    if end.side == "before":
        return UsageError(f"this gate cannot measure the source of {_of_tree(tree)}: {end.why}")
    return Failed(f"{_of_tree(tree)}: {end.why}")


class _Side:
    """A process that serves samples of one source."""

    def __init__(self, tree: SourceTree, name: str, policy: Policy, variants: Collection[str] = ()) -> None:
        """variants: names of those that it may speak of."""
        self.name, self.policy, self.variants, self.at = name, policy, variants, ("", START)
        command = [sys.executable, "-P", str(Path(__file__).with_name("gate_worker.py"))]
        self.worker = Worker(command, tree.folder, tree.environment)
        assert self.worker.process.stdout
        self.lines = Lines(self.worker.process.stdout)

    def tell(self, do: str, **order: Any) -> None:
        self.worker.tell({"do": do, **order})

    def answers(self, *last: Mapping[str, Any], others: Sequence[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
        """Yield what it says, up to a message of one of the shapes `last`. Raises _SideEnded, also for what is no message.

        others: shapes of messages before that, beside what it is at.
        """
        stage = {"variant": messages.one_of({"", *self.variants}), "what": str}
        for _ in range(most_messages(self.policy, len(self.variants))):
            allowed = seconds_allowed(self.policy, self.at[1])
            try:
                line = self.lines.next(allowed)
                if not line:
                    code = self.worker.process.wait()
                    raise _SideEnded(self.name, why_ended(code, self.worker.complaints), *self.at)
                said = messages.expect(messages.parse(line), *last, *others, stage, {"error": str})
            except TimeoutError:
                raise _SideEnded(self.name, f"did not answer for {allowed:.0f} s", *self.at) from None
            except (messages.BadMessage, BadLine) as bad:
                raise _SideEnded(self.name, f"said what is no message: {bad}", *self.at) from None
            if said.keys() == {"error"}:
                raise _SideEnded(self.name, plain_text(said["error"]), *self.at)
            said = {name: plain_text(value) if isinstance(value, str) else value for name, value in said.items()}
            if "what" in said:
                self.at = said["variant"], said["what"]
            yield said
            if any(messages.has_shape(said, dict(shape)) for shape in last):
                return
        raise _SideEnded(self.name, "sent messages without end", *self.at)

    def sample(self, variant: str) -> dict[str, Any]:
        """Have a sample of a variant taken: its seconds, or why it failed."""
        self.at = variant, "sample"
        self.tell("sample", variant=variant)
        is_it = messages.one_of([variant])
        sample = {
            "sample": is_it, "seconds": messages.above_zero, "spent": messages.above_zero, "slowed": bool, "disturbed": bool,
        }  # fmt: skip
        return list(self.answers(sample, {"failed": is_it, "why": str}))[-1]

    def verify(self, variant: str) -> str | None:
        """Have a variant verified once more: why it is wrong; None where it is right."""
        self.at = variant, "last run"
        self.tell("verify", variant=variant)
        answer = list(self.answers({"verified": messages.one_of([variant]), "why": (str, None)}))[-1]
        why: str | None = answer["why"]
        return why

    def end(self) -> None:
        self.worker.end()


def _run(comparison: SourceComparison, all_runs: Sequence[VariantRuns], progress: Progress) -> None:
    """One run: both processes start, verify what is due, take samples in turns and verify again. Adds a ratio to each runs."""
    progress("", "getting ready")
    names = [runs.variant for runs in all_runs]
    sides = [_Side(tree, name, comparison.policy, names) for tree, name in zip(comparison.trees, SIDES, strict=True)]
    try:
        units = _prepare(comparison, sides, all_runs, progress)
        ready = [runs for runs in all_runs if not runs.failed and not runs.absent]
        for device in dict.fromkeys(runs.device for runs in ready):
            group = [runs for runs in ready if runs.device == device]
            rounds = _sample(sides, group, comparison.policy, progress)
            for runs in (each for each in group if not each.failed):
                for side in sides:
                    if why := side.verify(runs.variant):
                        runs.failed[side.name] = why
                if not runs.failed:
                    _note(runs, rounds[runs.variant], units[runs.variant])
    finally:
        for side in sides:
            side.end()


def _prepare(
    comparison: SourceComparison, sides: Sequence[_Side], all_runs: Sequence[VariantRuns], progress: Progress
) -> Mapping[str, Mapping[str, int]]:
    """Have both sides make ready what is due, at the same time. Returns the units of a sample, by variant and side."""
    units: dict[str, dict[str, int]] = {runs.variant: {} for runs in all_runs}
    by_name = {runs.variant: runs for runs in all_runs}
    policy = {"cache": comparison.policy.cache, "seed": comparison.policy.seed, "limit_s": comparison.policy.limit_s}
    for side in sides:
        side.tell(
            "prepare", lab=comparison.lab, case=comparison.case, scale=comparison.scale, device=comparison.device,
            variants=list(by_name), policy=policy, seed=secrets.randbelow(1 << 31),
        )  # fmt: skip
    known = messages.one_of(by_name)
    shapes: tuple[dict[str, Any], ...] = (
        {"made": known, "units": messages.whole_above_zero, "on": str, "backend": str, "device": str},
        {"failed": known, "why": str},
        {"absent": known, "why": str},
    )
    for side in sides:
        for said in side.answers({"ready": bool}, others=shapes):
            if "what" in said:
                progress(said["variant"], said["what"])
            elif "made" in said:
                runs = by_name[said["made"]]
                units[runs.variant][side.name] = said["units"]
                if runs.device not in ("", said["on"]):
                    runs.absent = f"it runs on {runs.device} before and on {said['on']} now"
                runs.device, runs.backend = said["on"], said["backend"]
            elif "failed" in said:
                by_name[said["failed"]].failed[side.name] = said["why"]
            elif "absent" in said:
                by_name[said["absent"]].absent = f"{_named(comparison, side.name)}: {said['why']}"
        for runs in all_runs:
            if side.name not in units[runs.variant] and not runs.failed and not runs.absent:
                runs.failed[side.name] = "its process did not say what came of it"
    return units


@dataclass
class _Taken:
    """Samples of a variant in a run: of each round that both sides have, seconds before and now."""

    quiet: list[tuple[float, float]] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    """Those of which another program took a core of the CPU that they ran on."""
    spent: float = 0.0
    longest: float = 0.0

    def pairs(self, policy: Policy) -> list[tuple[float, float]]:
        """Those that count: the quiet ones, or all where these are too few."""
        return self.quiet if len(self.quiet) >= policy.minimum else self.quiet + self.disturbed

    def enough(self, policy: Policy) -> bool:
        """Whether no further round is needed: its ratio is known well for this run, or the budget is spent."""
        n = len(self.quiet) + len(self.disturbed)
        if n < policy.minimum:
            return n >= policy.scarce and self.longest >= policy.budget_s
        if n >= policy.maximum or self.spent >= 2 * policy.budget_s:  # of two sides
            return True
        if len(self.quiet) < policy.minimum:
            return False
        ratio = stats.paired_ratio(*zip(*self.quiet, strict=True))
        return max(ratio.high / ratio.estimate, ratio.estimate / ratio.low) < 1 + PRECISION


def _sample(
    sides: Sequence[_Side], all_runs: Sequence[VariantRuns], policy: Policy, progress: Progress
) -> Mapping[str, Sequence[tuple[float, float]]]:
    """Samples in rounds, by variant. Both sides of a variant come one after the other, so that they see the same machine.

    Which comes first, and in which order variants do, is drawn every second round and walked back in between: a drift then
    favours neither side.
    """
    draw = random.Random()
    taken = {runs.variant: _Taken() for runs in all_runs}
    active, number, tries = list(all_runs), 0, 2 * policy.maximum
    order = [(runs, list(sides)) for runs in active]
    while active and number < tries:
        if number % 2 == 0:
            order = [(runs, draw.sample(sides, len(sides))) for runs in draw.sample(active, len(active))]
        else:
            order = [(runs, both[::-1]) for runs, both in reversed(order) if runs in active]
        for runs, both in order:
            mine = taken[runs.variant]
            progress(runs.variant, f"sample {number + 1} of at most {policy.maximum}")
            said = {}
            for side in both:
                said[side.name] = found = side.sample(runs.variant)
                if "failed" in found:
                    runs.failed[side.name] = found["why"]
                    break
                mine.spent += found["spent"]
                mine.longest = max(mine.longest, found["spent"])
            if len(said) == len(sides) and not runs.failed and not any(each["slowed"] for each in said.values()):
                kept = mine.disturbed if any(each["disturbed"] for each in said.values()) else mine.quiet
                kept.append((said["before"]["seconds"], said["now"]["seconds"]))
        number += 1
        active = [runs for runs in active if not runs.failed and not taken[runs.variant].enough(policy)]
    for runs in all_runs:
        if not runs.failed and len(taken[runs.variant].pairs(policy)) < policy.scarce:
            runs.failed["before"] = "the device slowed itself down in too many samples"
    return {name: each.pairs(policy) for name, each in taken.items()}


def _note(runs: VariantRuns, pairs: Sequence[tuple[float, float]], units: Mapping[str, int]) -> None:
    """Add a run's ratio, of times per unit."""
    before, now = (
        [each / units[name] for each in times] for name, times in zip(SIDES, zip(*pairs, strict=True), strict=True)
    )
    runs.ratios.append(stats.paired_ratio(now, before))
    runs.medians.append((stats.median_ci(before).estimate, stats.median_ci(now).estimate))


def _named(comparison: SourceComparison, side: str) -> str:
    return _of_tree(comparison.trees[SIDES.index(side)])


def _of_tree(tree: SourceTree) -> str:
    return f"commit {tree.commit[:10]}" if tree.commit else "the checkout"
