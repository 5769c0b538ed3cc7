"""A gate's rule on simulated noise: it finds a slowdown of 3 %, seldom sees one that is not there, and knows when to stop."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from roofbook.errors import Failed, UsageError
from roofbook.measure import side_by_side, stats
from roofbook.measure.policy import Policy
from roofbook.measure.side_by_side import Rule, SourceComparison, VariantRuns, compare
from roofbook.measure.source_tree import SourceTree

RULE = Rule()
SERIES = 200
QUIET, BUSY = (0.003, 0.01), (0.01, 0.03)
"""Noise between runs and that of a sample, as standard deviations: of a quiet machine, and of one that has neighbours."""
TREE = SourceTree(Path("."), {})


def simulated(slowdown: float, noise: tuple[float, float], rng: np.random.Generator) -> VariantRuns:
    """Return the runs of a variant that became this many times slower, one after another until they are enough."""
    runs = VariantRuns("lab", "case", "variant")
    while not runs.is_settled(RULE):
        between = np.exp(noise[0] * rng.standard_normal(2))
        before, now = between[:, None] * np.exp(noise[1] * rng.standard_normal((2, 20)))
        runs.ratios.append(stats.paired_ratio(slowdown * now, before))
    return runs


def slower_of_hundred(slowdown: float, noise: tuple[float, float]) -> int:
    """Return how many of a hundred simulated variants are called slower."""
    rng = np.random.default_rng(round(1000 * slowdown))
    words = [simulated(slowdown, noise, rng).verdict(RULE) for _ in range(SERIES)]
    return 100 * words.count("slower") // SERIES


@pytest.mark.parametrize("noise", [QUIET, (0.005, 0.02)])
def test_a_slowdown_of_three_percent_is_detected(noise: tuple[float, float]) -> None:
    assert slower_of_hundred(1.03, noise) >= 95


@pytest.mark.parametrize("noise", [QUIET, BUSY, (0.05, 0.2)])
def test_an_equally_fast_variant_is_seldom_called_slower(noise: tuple[float, float]) -> None:
    """With much noise the verdict is `undecided`, not `slower`."""
    assert slower_of_hundred(1.0, noise) <= 1


def test_without_the_spread_between_runs_noise_would_be_called_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run alone is certain of a difference that the next run denies, because its rounds are not independent runs."""
    rng, noise = np.random.default_rng(0), (0.03, 0.005)
    first = [simulated(1.0, noise, rng).ratios[0] for _ in range(SERIES)]
    certain = sum(side_by_side.verdict(ratios_of_run, RULE) == "slower" for ratios_of_run in first)
    assert certain > 0.25 * SERIES and slower_of_hundred(1.0, noise) <= 1


def test_an_apparent_slowdown_is_measured_in_as_many_runs_again() -> None:
    rng = np.random.default_rng(1)
    assert len(simulated(1.2, QUIET, rng).ratios) == 2 * RULE.runs
    assert len(simulated(1.0, QUIET, rng).ratios) == RULE.runs == len(simulated(0.8, QUIET, rng).ratios)
    loud = simulated(1.02, (0.05, 0.01), rng)
    assert len(loud.ratios) == RULE.most_runs and loud.verdict(RULE) == "undecided"


def ratio(low: float, high: float) -> stats.RatioEstimate:
    return stats.RatioEstimate((low * high) ** 0.5, low, high, 9, low <= 1 <= high, "over runs")


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.011, 1.5, "slower"), (1.009, 1.5, "undecided"), (0.9, 0.989, "faster"), (0.98, 1.029, "unchanged"),
        (0.98, 1.031, "undecided"), (1.002, 1.02, "unchanged"), (0.0, float("inf"), "undecided"),
    ],
)  # fmt: skip
def test_the_whole_interval_decides(low: float, high: float, word: str) -> None:
    assert side_by_side.verdict(ratio(low, high), RULE) == word


def comparison(*variants: str) -> SourceComparison:
    return SourceComparison(
        "lab", "case", "test", "opencl:0", variants, (TREE, SourceTree(TREE.folder, {}, "abc")), Policy()
    )


def test_other_variants_continue_without_one_that_ended_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: SourceComparison, all_runs: list[VariantRuns], progress: Any) -> None:
        names = [runs.variant for runs in all_runs]
        if "crash" in names:
            raise side_by_side._SideEnded("now", "crashed by SIGSEGV", "crash", "first run")
        for runs in all_runs:
            runs.ratios.append(stats.paired_ratio([1.0] * 9, [1.0] * 9))

    monkeypatch.setattr(side_by_side, "_run", run)
    sound, crash = compare(comparison("sound", "crash"), RULE)
    assert sound.verdict(RULE) == "unchanged" and len(sound.ratios) == RULE.runs
    assert crash.verdict(RULE) == "broken" and crash.failed == {"now": "crashed by SIGSEGV; it was at: first run"}


@pytest.mark.parametrize(("side", "error"), [("before", UsageError), ("now", Failed)])
def test_a_side_that_ends_before_any_variant_is_an_error_that_names_it(
    monkeypatch: pytest.MonkeyPatch, side: str, error: type[Exception]
) -> None:
    def run(*_: Any) -> None:
        raise side_by_side._SideEnded(side, "ImportError: no such name", "", "start")

    monkeypatch.setattr(side_by_side, "_run", run)
    trees = comparison().trees[::-1]
    with pytest.raises(error, match="ImportError: no such name"):
        compare(SourceComparison("lab", "case", "test", "opencl:0", ("one",), trees, Policy()), RULE)


def test_disturbed_pairs_count_only_if_too_few_are_quiet() -> None:
    taken, policy = side_by_side._RunSamples(), Policy(minimum=3, maximum=10, budget_s=1e9)
    taken.quiet, taken.disturbed = [(1.0, 1.0)] * 2, [(1.0, 2.0)] * 4
    assert len(taken.pairs(policy)) == 6 and not taken.enough(policy)
    taken.quiet *= 3
    assert taken.pairs(policy) == taken.quiet and taken.enough(policy), "10 rounds are the most"


class Scripted:
    """One side of a comparison without a process: it logs its orders, and the variant `late` is wrong after its last sample."""

    log: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, tree: SourceTree, name: str, policy: Policy, variants: list[str]) -> None:
        self.name, self.variants = name, variants

    def tell(self, do: str, variants: list[str], **order: Any) -> None:
        assert variants == self.variants

    def answers(self, *last: Any, earlier: Any) -> Iterator[dict[str, Any]]:
        for name in self.variants:
            if name == "elsewhere":
                yield {"made": name, "units": 1, "on": f"device-of-{self.name}", "backend": "opencl"}
            elif name == "new" and self.name == "before":
                yield {"absent": name, "why": "no such case"}
            else:
                yield {"made": name, "units": 2 if self.name == "now" else 1, "on": "some-cpu", "backend": "opencl"}
        yield {"ready": True}

    def sample(self, variant: str) -> dict[str, Any]:
        Scripted.log.append((self.name, variant))
        return {"sample": variant, "seconds": 2.0, "spent": 0.1, "slowed": False, "disturbed": False}

    def verify(self, variant: str) -> str | None:
        return "after its last sample: wrong result" if (variant, self.name) == ("late", "now") else None

    def end(self) -> None:
        """Nothing runs."""


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    monkeypatch.setattr(side_by_side, "_Side", Scripted)
    Scripted.log.clear()
    return Scripted


def test_a_variant_wrong_after_its_last_sample_is_broken(scripted: type[Scripted]) -> None:
    late, sound = compare(comparison("late", "sound"), RULE)
    assert late.verdict(RULE) == "broken" and "after its last sample" in late.failed["now"] and not late.ratios
    assert sound.verdict(RULE) == "faster" and sound.ratio and sound.ratio.estimate == 0.5, (
        "a sample now is of two units"
    )
    assert sound.medians[0] == (2.0, 1.0)


def test_variants_of_one_side_or_of_different_devices_are_not_compared(scripted: type[Scripted]) -> None:
    new, elsewhere = compare(comparison("new", "elsewhere"), RULE)
    assert new.verdict(RULE) == elsewhere.verdict(RULE) == "not compared" and not scripted.log
    assert new.absent.endswith("no such case")
    assert elsewhere.absent == "it runs on device-of-before before and on device-of-now now"


def test_both_sides_of_a_variant_are_sampled_one_after_the_other_and_neither_is_always_first(
    scripted: type[Scripted],
) -> None:
    compare(comparison("one", "two", "three"), RULE)
    pairs = list(zip(scripted.log[::2], scripted.log[1::2], strict=True))
    assert all(first[1] == second[1] and first[0] != second[0] for first, second in pairs)
    rounds = [pairs[at : at + 3] for at in range(0, len(pairs), 3)]
    for drawn, back in zip(rounds[::2], rounds[1::2], strict=True):
        assert [(second, first) for first, second in reversed(drawn)] == back, (
            "walked back, so that a drift favours none"
        )
    assert {first[0] for first, _ in pairs} == {"before", "now"} and len(
        {str(names_of_round) for names_of_round in rounds}
    ) > 2


# -- what a process says is checked ------------------------------------------------------------------------------------

SAMPLE = {"sample": "one", "seconds": 2.0, "spent": 0.1, "slowed": False, "disturbed": False}


@pytest.fixture
def saying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a side whose process says these lines, and ends."""
    sides: list[Any] = []

    def make(*lines: str) -> Any:
        program = tmp_path / "says"
        program.write_text("#!/bin/sh\ncat <<'END'\n" + "".join(f"{line}\n" for line in lines) + "END\n")
        program.chmod(0o755)
        monkeypatch.setattr("sys.executable", str(program))
        sides.append(side_by_side._Side(TREE, "now", Policy(), ["one", "two"]))
        return sides[-1]

    yield make
    for side in sides:
        side.end()


def test_messages_before_a_sample_are_noted_as_the_stage(saying: Any) -> None:
    side = saying(json.dumps({"variant": "one", "what": "outputs \x1b[2J"}), json.dumps(SAMPLE))
    assert side.sample("one") == SAMPLE and side.at == ("one", "outputs [2J")


@pytest.mark.parametrize(
    "line",
    [
        *(json.dumps({**SAMPLE, "seconds": seconds}) for seconds in (0, -1.0, float("nan"), float("inf"), "2", None, True)),
        json.dumps(SAMPLE).replace("2.0", "1e999"), json.dumps({**SAMPLE, "sample": "two"}), json.dumps({**SAMPLE, "x": 1}),
        json.dumps({**SAMPLE, "slowed": "no"}), json.dumps({"failed": "two", "why": "x"}), json.dumps({"failed": "one"}),
        json.dumps({"variant": "three", "what": "sample"}), "[]", "nothing", "[" * 100_000, '"\\ud800"', "9" * 10_000,
    ],
)  # fmt: skip
def test_a_malformed_sample_is_no_time(saying: Any, line: str) -> None:
    with pytest.raises(side_by_side._SideEnded) as end:
        saying(line).sample("one")
    assert (end.value.variant, end.value.stage) == ("one", "sample") and "invalid message" in end.value.reason
    assert end.value.reason.isprintable() and len(end.value.reason) < 400


def test_a_process_that_ends_with_0_before_its_answer_has_ended(saying: Any) -> None:
    with pytest.raises(side_by_side._SideEnded, match="ended with exit code 0"):
        saying(json.dumps({"variant": "one", "what": "last run"})).verify("one")


def test_messages_without_end_end(saying: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "message_limit", lambda policy, variants: 5)
    with pytest.raises(side_by_side._SideEnded, match="messages without end"):
        saying(*[json.dumps({"variant": "one", "what": "sample"})] * 9).sample("one")


def test_a_variant_of_which_a_process_says_nothing_has_failed(
    scripted: type[Scripted], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scripted, "answers", lambda self, *last, earlier: iter([{"ready": True}]))
    (silent,) = compare(comparison("one"), RULE)
    assert (
        silent.failed == {"before": "its process did not say what came of it"}
        and silent.verdict(RULE) == "not compared"
    )
