"""Comparison of two sources of a lab: their variants are measured in turns, each source in a process of its own. For the gate.

A run starts both processes anew. Each of its rounds takes one sample of each variant and side, in a random order. A run gives
one ratio per variant. Processes differ from run to run, so several runs decide.
"""

import random
import secrets
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import Failed, UsageError, UserFacingError
from . import messages, stats
from .case_process import START, message_limit, seconds_allowed
from .policy import Policy
from .progress import Progress, silent
from .source_tree import SourceTree
from .worker_process import WorkerFailed, WorkerProcess

Verdict = Literal["slower", "faster", "unchanged", "undecided", "broken", "not compared"]
SIDES = ("before", "now")
"""Names of the sides: the commit's source, and the checkout's."""
MOST_VERDICTS = 3
"""Number of verdicts: after the requested number of runs, after twice and after three times as many."""
PRECISION = 0.004
"""Relative half-width of a ratio's interval below which a variant needs no further round of a run."""


@dataclass(frozen=True)
class Rule:
    """Rule of the gate: which change must be found, and how many runs are measured."""

    tolerance: float = 1.03
    """Ratio of times from which on a slowdown must be found. A variant is unchanged if its whole interval lies below."""
    runs: int = 5
    """Number of runs, each with two new processes, before the first verdict. `slower` must be confirmed by as many more."""

    @property
    def most_runs(self) -> int:
        return MOST_VERDICTS * self.runs


def verdict(ratio: stats.RatioEstimate, rule: Rule) -> Verdict:
    """Return the verdict on a ratio now / before: slower or faster beyond stats.LEAST, unchanged below the tolerance."""
    word = stats.relation(1 / ratio.high, 1 / ratio.low if ratio.low else float("inf"))
    if word in ("slower", "faster"):
        return word
    return "unchanged" if ratio.high < rule.tolerance else "undecided"


@dataclass
class VariantRuns:
    """Runs of a variant on a case, before and now: a ratio and two medians per run."""

    lab: str
    case: str
    variant: str
    ratios: list[stats.RatioEstimate] = field(default_factory=list)
    """Time now / time before, by run: above 1 is slower."""
    medians: list[tuple[float, float]] = field(default_factory=list)
    """Medians before and now by run, seconds per unit."""
    backend: str = ""
    device: str = ""
    failed: dict[str, str] = field(default_factory=dict)
    """Reason of a failure by side."""
    absent: str = ""
    """Reason why one side does not have it here; '' if both have it."""

    @property
    def ratio(self) -> stats.RatioEstimate | None:
        """Ratio over all runs; None without any."""
        return stats.over_runs(self.ratios) if self.ratios else None

    def verdict(self, rule: Rule) -> Verdict:
        if "before" in self.failed or self.absent:
            return "not compared"
        if "now" in self.failed:
            return "broken"
        return verdict(self.ratio, rule) if self.ratio else "not compared"

    def is_settled(self, rule: Rule) -> bool:
        """Return whether no further run is needed. A first verdict of `slower` needs as many runs again."""
        if self.failed or self.absent or len(self.ratios) >= rule.most_runs:
            return True
        if not self.ratios or len(self.ratios) % rule.runs:
            return False
        word = self.verdict(rule)
        return word in ("faster", "unchanged") or (word == "slower" and len(self.ratios) > rule.runs)


@dataclass(frozen=True)
class SourceComparison:
    """Variants of a case of a lab on a device, to be compared between two sources."""

    lab: str
    case: str
    scale: str
    device: str
    variants: tuple[str, ...]
    trees: tuple[SourceTree, SourceTree]
    """Sources of the commit and of the checkout."""
    policy: Policy


def compare(comparison: SourceComparison, rule: Rule, progress: Progress = silent) -> list[VariantRuns]:
    """Measure runs until each variant is settled, and return the runs of each variant.

    A variant that ends its process, is wrong or fails otherwise has no time; the others continue. Errors: if a process ends
    before its first variant, Failed for the checkout's, UsageError for the commit's.
    """
    runs_by_variant = {name: VariantRuns(comparison.lab, comparison.case, name) for name in comparison.variants}
    while due := [runs for runs in runs_by_variant.values() if not runs.is_settled(rule)]:
        number = min(len(runs.ratios) for runs in due) + 1

        def report_progress(variant: str, stage: str, number: int = number) -> None:
            progress(
                f"{comparison.lab} {comparison.case} {variant}",
                f"run {number} of {rule.runs} to {rule.most_runs}: {stage}",
            )

        try:
            _run(comparison, due, report_progress)
        except _SideEnded as end:
            guilty = runs_by_variant.get(end.variant)
            if guilty is None or guilty.failed:
                raise _error(end, comparison.trees[SIDES.index(end.side)]) from None
            guilty.failed[end.side] = f"{end.reason}; it was at: {end.stage}"
    return list(runs_by_variant.values())


def fingerprints(tree: SourceTree, side: str, labs: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return fingerprints by lab and variant from the source of a tree, for the labs that it has. Errors as `compare`."""
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
    """Return whether a value holds fingerprints (JSON objects) by lab and variant."""
    return isinstance(value, dict) and all(
        isinstance(of_variants, dict) and all(isinstance(fingerprint, dict) for fingerprint in of_variants.values())
        for of_variants in value.values()
    )


@dataclass
class _SideEnded(Exception):
    """The process of a side ended, hung or sent an invalid message."""

    side: str
    reason: str
    variant: str
    stage: str


def _error(end: _SideEnded, tree: SourceTree) -> UserFacingError:
    """Return the error for the user: UsageError for the commit that was chosen, Failed for the checkout."""
    if end.side == "before":
        return UsageError(f"this gate cannot measure the source of {_tree_name(tree)}: {end.reason}")
    return Failed(f"{_tree_name(tree)}: {end.reason}")


class _Side:
    """Process that takes samples of one source."""

    def __init__(self, tree: SourceTree, name: str, policy: Policy, variants: Collection[str] = ()) -> None:
        """variants: names that its messages may contain."""
        self.name, self.policy, self.variants, self.at = name, policy, variants, ("", START)
        command = [sys.executable, "-P", str(Path(__file__).with_name("gate_worker.py"))]
        self.worker = WorkerProcess(command, tree.folder, tree.environment)

    def tell(self, do: str, **order: Any) -> None:
        self.worker.tell({"do": do, **order})

    def answers(self, *last: Mapping[str, Any], earlier: Sequence[Mapping[str, Any]] = ()) -> Iterator[dict[str, Any]]:
        """Yield messages, up to one that has a shape of `last`. Raises _SideEnded, also for an invalid message.

        earlier: shapes of messages before the last one, in addition to stages.
        """
        stage = {"variant": messages.one_of({"", *self.variants}), "what": str}
        for _ in range(message_limit(self.policy, len(self.variants))):
            try:
                limit_s = seconds_allowed(self.policy, self.at[1])
                message = self.worker.receive(limit_s, *last, *earlier, stage, {"error": str})
            except WorkerFailed as failed:
                raise _SideEnded(self.name, str(failed), *self.at) from None
            if message.keys() == {"error"}:
                raise _SideEnded(self.name, message["error"], *self.at)
            if "what" in message:
                self.at = message["variant"], message["what"]
            yield message
            if any(messages.has_shape(message, dict(shape)) for shape in last):
                return
        raise _SideEnded(self.name, "sent messages without end", *self.at)

    def sample(self, variant: str) -> dict[str, Any]:
        """Take a sample of a variant, and return the answer: its seconds, or why it failed."""
        self.at = variant, "sample"
        self.tell("sample", variant=variant)
        is_it = messages.one_of([variant])
        sample = {
            "sample": is_it, "seconds": messages.above_zero, "spent": messages.above_zero, "slowed": bool, "disturbed": bool,
        }  # fmt: skip
        return list(self.answers(sample, {"failed": is_it, "why": str}))[-1]

    def verify(self, variant: str) -> str | None:
        """Verify a variant once more. Return why it is wrong; None if it is right."""
        self.at = variant, "last run"
        self.tell("verify", variant=variant)
        answer = list(self.answers({"verified": messages.one_of([variant]), "why": (str, None)}))[-1]
        reason: str | None = answer["why"]
        return reason

    def end(self) -> None:
        self.worker.end()


def _run(comparison: SourceComparison, all_runs: Sequence[VariantRuns], progress: Progress) -> None:
    """Make one run: start both processes, verify, take samples in turns, verify again, and add the ratios."""
    progress("", "getting ready")
    names = [runs.variant for runs in all_runs]
    sides = [_Side(tree, name, comparison.policy, names) for tree, name in zip(comparison.trees, SIDES, strict=True)]
    try:
        units = _prepare(comparison, sides, all_runs, progress)
        ready = [runs for runs in all_runs if not runs.failed and not runs.absent]
        for device in dict.fromkeys(runs.device for runs in ready):
            group = [runs for runs in ready if runs.device == device]
            rounds = _sample(sides, group, comparison.policy, progress)
            for runs in (r for r in group if not r.failed):
                for side in sides:
                    if reason := side.verify(runs.variant):
                        runs.failed[side.name] = reason
                if not runs.failed:
                    _add_ratio(runs, rounds[runs.variant], units[runs.variant])
    finally:
        for side in sides:
            side.end()


def _prepare(
    comparison: SourceComparison, sides: Sequence[_Side], all_runs: Sequence[VariantRuns], progress: Progress
) -> Mapping[str, Mapping[str, int]]:
    """Prepare the variants on both sides at the same time. Return the units of a sample by variant and side."""
    units: dict[str, dict[str, int]] = {runs.variant: {} for runs in all_runs}
    by_name = {runs.variant: runs for runs in all_runs}
    policy = {"cache": comparison.policy.cache, "seed": comparison.policy.seed, "limit_s": comparison.policy.limit_s}
    for side in sides:
        side.tell(
            "prepare", lab=comparison.lab, case=comparison.case, scale=comparison.scale, device=comparison.device,
            variants=list(by_name), policy=policy, seed=secrets.randbelow(1 << 31),
        )  # fmt: skip
    is_due_variant = messages.one_of(by_name)
    shapes: tuple[dict[str, Any], ...] = (
        {"made": is_due_variant, "units": messages.whole_above_zero, "on": str, "backend": str, "device": str},
        {"failed": is_due_variant, "why": str},
        {"absent": is_due_variant, "why": str},
    )
    for side in sides:
        for message in side.answers({"ready": bool}, earlier=shapes):
            if "what" in message:
                progress(message["variant"], message["what"])
            elif "made" in message:
                runs = by_name[message["made"]]
                units[runs.variant][side.name] = message["units"]
                if runs.device not in ("", message["on"]):
                    runs.absent = f"it runs on {runs.device} before and on {message['on']} now"
                runs.device, runs.backend = message["on"], message["backend"]
            elif "failed" in message:
                by_name[message["failed"]].failed[side.name] = message["why"]
            elif "absent" in message:
                by_name[message["absent"]].absent = f"{_side_name(comparison, side.name)}: {message['why']}"
        for runs in all_runs:
            if side.name not in units[runs.variant] and not runs.failed and not runs.absent:
                runs.failed[side.name] = "its process did not say what came of it"
    return units


@dataclass
class _RunSamples:
    """Samples of a variant in a run: (seconds before, seconds now) of each round that both sides have."""

    quiet: list[tuple[float, float]] = field(default_factory=list)
    disturbed: list[tuple[float, float]] = field(default_factory=list)
    """Pairs during which another program took a core of the CPU on which they ran."""
    spent: float = 0.0
    longest: float = 0.0

    def pairs(self, policy: Policy) -> list[tuple[float, float]]:
        """Return the pairs that count: the quiet ones, or all if these are too few."""
        return self.quiet if len(self.quiet) >= policy.minimum else self.quiet + self.disturbed

    def enough(self, policy: Policy) -> bool:
        """Return whether no further round is needed: the ratio is precise enough, or the budget is spent."""
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
    """Take samples in rounds, and return the pairs by variant. Both sides of a variant follow each other directly.

    The order of variants and sides is drawn every second round and reversed in between, so that drift favours neither side.
    """
    draw = random.Random()
    samples_by_variant = {runs.variant: _RunSamples() for runs in all_runs}
    active, number, tries = list(all_runs), 0, 2 * policy.maximum
    order = [(runs, list(sides)) for runs in active]
    while active and number < tries:
        if number % 2 == 0:
            order = [(runs, draw.sample(sides, len(sides))) for runs in draw.sample(active, len(active))]
        else:
            order = [(runs, both_sides[::-1]) for runs, both_sides in reversed(order) if runs in active]
        for runs, both in order:
            samples = samples_by_variant[runs.variant]
            progress(runs.variant, f"sample {number + 1} of at most {policy.maximum}")
            answers = {}
            for side in both:
                answers[side.name] = answer = side.sample(runs.variant)
                if "failed" in answer:
                    runs.failed[side.name] = answer["why"]
                    break
                samples.spent += answer["spent"]
                samples.longest = max(samples.longest, answer["spent"])
            if (
                len(answers) == len(sides)
                and not runs.failed
                and not any(answer["slowed"] for answer in answers.values())
            ):
                pairs = samples.disturbed if any(answer["disturbed"] for answer in answers.values()) else samples.quiet
                pairs.append((answers["before"]["seconds"], answers["now"]["seconds"]))
        number += 1
        active = [runs for runs in active if not runs.failed and not samples_by_variant[runs.variant].enough(policy)]
    for runs in all_runs:
        if not runs.failed and len(samples_by_variant[runs.variant].pairs(policy)) < policy.scarce:
            runs.failed["before"] = "the device slowed itself down in too many samples"
    return {name: samples.pairs(policy) for name, samples in samples_by_variant.items()}


def _add_ratio(runs: VariantRuns, pairs: Sequence[tuple[float, float]], units: Mapping[str, int]) -> None:
    """Add the ratio and the medians of a run, of times per unit."""
    before, now = (
        [seconds / units[name] for seconds in times]
        for name, times in zip(SIDES, zip(*pairs, strict=True), strict=True)
    )
    runs.ratios.append(stats.paired_ratio(now, before))
    runs.medians.append((stats.median_ci(before).estimate, stats.median_ci(now).estimate))


def _side_name(comparison: SourceComparison, side: str) -> str:
    return _tree_name(comparison.trees[SIDES.index(side)])


def _tree_name(tree: SourceTree) -> str:
    return f"commit {tree.commit[:10]}" if tree.commit else "the checkout"
