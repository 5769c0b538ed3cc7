"""Timed samples are judged too: kernels that leave out work, or keep results in hidden places, fail with the reason."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, observed_by
from roofbook.devices.find import open_device
from roofbook.measure import sampling
from roofbook.measure.buffer_ledger import (
    BufferLedger,
)
from roofbook.measure.case_run import measure_case
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.measure.progress import Progress, silent
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Plan, Variant

from ..often import often
from ..plain_plan import PlainPlan
from .made_up import Bench, made

COUNT, ROUNDS = 4096, 200
"""Numbers of the made-up problem, and operations on each."""
LAUNCH_S, CHAIN_S = 1e-4, 1e-6
"""Made-up seconds of a launch, and of each chain of operations that it computes."""
CHAIN = "for (int k = 0; k < ROUNDS; k++) v = v * 0.99f + 0.01f; atomic_inc(n);"
WORK = f"float v = x[i]; {CHAIN}"
ARGUMENTS = "__global float *x, __global float *y, __global float *s, __global int *c, __global int *n"
HEAD = f"#define ROUNDS {ROUNDS}\n__kernel void f({ARGUMENTS}) {{\n"
HONEST = f"{HEAD} int i = get_global_id(0); {WORK} y[i] = v; }}"
CHEATS = {
    # the counter is empty until `reset` fills it again
    "queue": f"{HEAD} int i; while ((i = atomic_dec(c) - 1) >= 0) {{ {WORK} y[i] = v; }} }}",
    "computes where there is a NaN": f"{HEAD} int i = get_global_id(0); if (isnan(y[i])) {{ {WORK} y[i] = v; }} }}",
    "keeps results in an input": f"{HEAD} int i = get_global_id(0); if (x[i] > 0) {{ {WORK} x[i] = -v; }} y[i] = -x[i]; }}",
    "keeps results in scratch": f"{HEAD} int i = get_global_id(0);"
    f" if (s[i + {COUNT}] != 7.0f) {{ {WORK} s[i] = v; s[i + {COUNT}] = 7.0f; }} y[i] = s[i]; }}",
    "computes when the last output is not finished": f"{HEAD} int i = get_global_id(0);"
    f" if (!(y[i] > 0 && y[i] < 1)) {{ {WORK} y[i] = v; }} }}",
    "one of a thousand": f"{HEAD} int i = get_global_id(0); if (i % 1000 != 999) {{ {WORK} y[i] = v; }} }}",
}


class Chains(PlainPlan):
    """A chain of operations on each number: x is an operand, y the output, s scratch, c a counter that reset fills.

    A run takes LAUNCH_S, and CHAIN_S for each chain that the kernel computed. The kernel counts them in n, which no ledger
    watches. So work left out shows in the time, however busy the machine is.
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.units, self.queue = case.units, device.queue(profiling=True)
        self.kernel = device.build(str(variant.options["text"])).kernel("f")
        self.x = device.upload(inputs["x"])
        self.y, self.s, self.c = device.empty(4 * COUNT), device.empty(8 * COUNT), device.empty(4)
        with observed_by(None):
            self.n, self.own_queue = device.upload(np.zeros(1, np.int32)), device.queue()

    def chains(self) -> int:
        """Return how many chains the kernel has computed since the plan was made."""
        return int(self.own_queue.read(self.n, np.empty(1, np.int32))[0])

    def launch(self) -> None:
        buffers = (self.x, self.y, self.s, self.c, self.n)
        self.queue.launch(self.kernel, (COUNT,), (64,), *buffers)

    def reset(self) -> None:
        self.queue.write(self.y, np.full(COUNT, np.nan, np.float32))
        self.queue.write(self.c, np.array([COUNT], np.int32))

    def run(self) -> float:
        chains_before = self.chains()
        self.queue.timed(self.launch)
        return LAUNCH_S + CHAIN_S * (self.chains() - chains_before)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"y": self.queue.read(self.y, np.empty(COUNT, np.float32)).astype(np.float64)}

    def close(self) -> None:
        for buffer in (self.x, self.y, self.s, self.c, self.n):
            buffer.release()


class Chained(Lab):
    """The lab of Chains."""

    name, title, preferred_backend, unit, timed, bases, best = (
        "chained",
        "Chained",
        "opencl",
        "pass",
        "kernel",
        ("a",),
        "a",
    )

    def __init__(self, *variants: Variant) -> None:
        self.ladder = variants

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case("small", scale, {}, units=1)]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"x": np.random.default_rng(seed).uniform(0.1, 0.9, COUNT).astype(np.float32)}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        decay = 0.99**ROUNDS
        return {"y": inputs["x"] * decay + 1 - decay}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        return float(np.abs(outputs["y"] - reference["y"]).max()), 1e-3, "largest difference"

    def work(self, case: Case) -> Work:
        return Work(2.0 * ROUNDS * COUNT, 8.0 * COUNT, 8.0 * COUNT)


def rows_of(*texts: str, plan: type[Plan] = Chains, progress: Progress = silent, **policy: Any) -> list[dict[str, Any]]:
    """Measure kernels of Chained on the first device by OpenCL; the first is the parent of all."""
    variants = [
        Variant(f"k{number}", "k0" if number else None, None, plan, "", "", options={"text": text})
        for number, text in enumerate(texts)
    ]
    lab, rows = Chained(*variants), list[dict[str, Any]]()
    case = lab.cases("quick")[0]
    at = Setting(lab, case, open_device("opencl:0"), Policy(**{"minimum": 6, "maximum": 8, "budget_s": 0.05, **policy}))
    measure_case(at, variants, run="20260101T000000Z-abcdef", keep=rows.extend, progress=progress)
    return [row for row in rows if row["role"] != "again"]


def test_an_honest_kernel_is_timed_and_its_row_says_which_samples_were_judged() -> None:
    (row,) = rows_of(HONEST)
    assert row["status"] == "ok", row["reason"]
    assert '"samples": [' in row["extra"] and '"samples": []' not in row["extra"]


@pytest.mark.parametrize(
    "cheat",
    often(
        CHEATS, ["computes where there is a NaN", "keeps results in an input", "keeps results in scratch"].__contains__
    ),
)
def test_a_kernel_that_leaves_out_work_fails_with_its_reason_and_costs_no_neighbour(cheat: str) -> None:
    honest, dishonest = rows_of(HONEST, CHEATS[cheat])
    assert honest["status"] == "ok", honest["reason"]
    assert dishonest["status"] == "failed" and dishonest["samples_s"] == []
    reason = {
        "queue": "its samples left out work",
        "computes where there is a NaN": "wrong result",
        "keeps results in an input": "it changed operand 1 of 1 (16384 bytes), which it may only read",
        "keeps results in scratch": "its samples left out work",
        "computes when the last output is not finished": "wrong result",
        "one of a thousand": "wrong result",
    }[cheat]
    assert reason in str(dishonest["reason"])


class Counted(Chains):
    """Counts its runs."""

    runs = 0

    def run(self) -> float:
        Counted.runs += 1
        return super().run()


def test_a_pair_of_runs_costs_four_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on other operands comes before each of the two compared; one run for all pairs finds which outputs are finished."""
    monkeypatch.setattr(sampling, "SUSPECT", 0.0)
    monkeypatch.setattr(sampling, "AGAINST", 1.0)
    monkeypatch.setattr(sampling, "LONGER", float("inf"))  # whatever else the machine does
    monkeypatch.setattr(sampling, "FIRST_PAIRS", 5)  # all that are taken
    monkeypatch.setattr(Counted, "runs", 0)
    runs_before = list[int]()

    def progress(_: str, stage: str) -> None:
        if stage.startswith("sample pair") or (stage == "last run" and len(runs_before) == 5):
            runs_before.append(Counted.runs)

    (row,) = rows_of(HONEST, plan=Counted, progress=progress)
    assert row["status"] == "ok", row["reason"]
    assert [after - before for before, after in itertools.pairwise(runs_before)] == [4] * 5


STATE = f"float v = s[i]; if (x[i] != s[i + COUNT]) {{ v = x[i]; {CHAIN} }}"


class Filled(Chains):
    """A plan that launches its kernel once in its constructor, so that scratch memory holds the results of that launch."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.launch()
        self.queue.finish()


def test_results_cached_while_operands_stay_are_detected() -> None:
    """A kernel that is right on any operands, and keeps results in memory that its plan has filled and nobody poisons."""
    text = (
        f"#define COUNT {COUNT}\n{HEAD} int i = get_global_id(0); {STATE} s[i] = v; s[i + COUNT] = x[i]; y[i] = v; }}"
    )
    honest, keeping = rows_of(HONEST, text, plan=Filled)
    assert honest["status"] == "ok", honest["reason"]
    assert "its samples left out work" in str(keeping["reason"])


class Cleared(Chains):
    """A plan whose scratch the host fills with zeros, as it does counters of a barrier."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.s.release()
        self.s = device.upload(np.zeros(2 * COUNT, np.float32))


@pytest.mark.thorough
def test_results_cached_in_cleared_memory_while_operands_stay_are_detected() -> None:
    text = (
        f"#define COUNT {COUNT}\n{HEAD} int i = get_global_id(0); {STATE} s[i] = v; s[i + COUNT] = x[i]; y[i] = v; }}"
    )
    (keeping,) = rows_of(text, plan=Cleared)
    assert "its samples left out work" in str(keeping["reason"])


class KeptByTheHost(Chains):
    """A plan that launches its kernel once, and returns that first output for ever."""

    first_output: np.ndarray | None = None

    def run(self) -> float:
        if self.first_output is None:
            super().run()
            self.first_output = self.queue.read(self.y, np.empty(COUNT, np.float32))
        self.queue.write(self.y, self.first_output)
        return 1e-3


def test_results_cached_for_ever_are_wrong_once_operands_change() -> None:
    (row,) = rows_of(HONEST, plan=KeptByTheHost)
    assert "wrong result" in str(row["reason"])


class TimesAgain(Chains):
    """Reads its results, then times the same launch once more, as a plan that tells copies from kernels does."""

    def run(self) -> float:
        self.launch()
        self.host = self.queue.read(self.y, np.empty(COUNT, np.float32))
        return super().run()

    def outputs(self) -> dict[str, np.ndarray]:
        return {"y": self.host.astype(np.float64)}


def test_a_launch_that_is_timed_after_the_results_were_read_is_judged_too() -> None:
    lazy = f"{HEAD} int i = get_global_id(0); if (s[i] != 7.0f) {{ {WORK} y[i] = v; s[i] = 7.0f; }} }}"
    honest, dishonest = rows_of(HONEST, lazy, plan=TimesAgain)
    assert honest["status"] == "ok", honest["reason"]
    assert "the launches that are timed do not compute" in str(dishonest["reason"])


class AddsUp(TimesAgain):
    """Clears its results before each launch, since its kernel adds to them; `clears` says before which launches."""

    clears: tuple[str, ...] = ("read", "timed")

    def run(self) -> float:
        if "read" in self.clears:
            self.queue.fill(self.y, 0)
        self.launch()
        self.host = self.queue.read(self.y, np.empty(COUNT, np.float32))
        if "timed" in self.clears:
            self.queue.fill(self.y, 0)
        return Chains.run(self)


class ClearsOnce(AddsUp):
    """Forgets to clear its results before the launch that is timed."""

    clears = ("read",)


def test_a_kernel_that_adds_to_its_results_finds_them_cleared_or_is_refused() -> None:
    adding = f"{HEAD} int i = get_global_id(0); {WORK} y[i] += v; }}"
    (honest,) = rows_of(adding, plan=AddsUp)
    assert honest["status"] == "ok", honest["reason"]
    (dishonest,) = rows_of(adding, plan=ClearsOnce)
    assert "the launches that are timed do not compute" in str(dishonest["reason"])


def test_one_of_the_first_samples_is_judged_and_some_of_the_later_ones() -> None:
    class Counted:
        def __init__(self) -> None:
            self.samples, self.poisoned = list[float](), list[int]()

    firsts, later = set[int](), 0
    for _ in range(300):
        measurement: Any = Counted()
        for number in range(50):
            if sampling._is_judged(measurement):
                measurement.poisoned.append(number)
            measurement.samples.append(1.0)
        assert 1 <= len(measurement.poisoned) <= sampling.JUDGED and measurement.poisoned[0] < sampling.FIRST
        firsts.add(measurement.poisoned[0])
        later += len(measurement.poisoned) > 1
    assert firsts == set(range(sampling.FIRST)) and later > 150


@pytest.mark.parametrize(("judged", "status"), [(0.1, "ok"), (0.109, "ok"), (0.3, "failed")])
def test_a_run_on_poisoned_outputs_may_take_as_long_as_others_and_no_longer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, judged: float, status: str
) -> None:
    """By a clock that the test turns: runs that follow a reset take `judged` seconds, all others 0.1."""
    monkeypatch.setattr(sampling, "_is_judged", lambda measurement: len(measurement.samples) == 2)
    plan: Any = made("a").plan

    class Slow(plan):  # type: ignore[misc]
        values: np.ndarray

        def run(self) -> float | None:
            fresh = bool(np.isnan(self.values).any())
            self.values = np.zeros(8)  # so that Made takes no run for the last one
            super().run()
            if fresh and self.timed:
                self.device.clock.now += judged - 0.1
            return None

    (row,) = bench(replace(made("a"), plan=Slow))
    assert row["status"] == status, row["reason"]
    if status == "failed":
        assert "3 times as long" in row["reason"] and row["samples_s"] == []


def test_runs_with_no_memory_to_poison_are_not_compared() -> None:
    """As those of a process that is started anew for each run."""
    runnable, stages = SimpleNamespace(run=lambda: None, reset=lambda: None), list[str]()
    measurement: Any = SimpleNamespace(
        samples=[1.0, 1.0, 2.0], poisoned=[2], walls=[1.0], variant=SimpleNamespace(name="a"), runnable=runnable,
        planned=runnable, ledger=BufferLedger(), reason=None, run_s=1.0,
    )  # fmt: skip
    sampling._compare_judged(measurement, [], lambda: None, lambda _, stage: stages.append(stage))
    assert stages == ["run whose outputs are kept, to compare"] and not measurement.reason


RUN_S = 3e-6
"""Seconds of a short kernel on a GPU."""


@pytest.mark.parametrize(
    ("on_finished_s", "second_s", "noise_s"),
    [
        pytest.param(RUN_S, 0.0, 0.0, id="no difference"),
        pytest.param(RUN_S, 0.0, 1e-6, id="noise"),
        pytest.param(RUN_S, 1e-6, 0.0, id="the second run of a pair is longer"),
        pytest.param(RUN_S / 1.11, 0.0, 0.0, id="a difference that the clock hardly shows"),
        pytest.param(RUN_S / 1.11, 1e-6, 0.3e-6, id="all of these"),
    ],
)
def test_noise_of_a_short_kernel_is_no_proof(
    monkeypatch: pytest.MonkeyPatch, on_finished_s: float, second_s: float, noise_s: float
) -> None:
    """By made-up clocks and fixed draws, each kernel 300 times; noise alone is found longer once in 7 million times."""
    for seed in range(300):
        monkeypatch.setattr(sampling, "_drawn", random.Random(seed))
        assert sampling.ratio_if_longer(clock(seed, on_finished_s, second_s, noise_s), sampling.PAIRS) is None


@pytest.mark.parametrize("on_finished_s", [2e-6, 1e-6, 1e-9])
def test_a_short_kernel_that_leaves_out_a_third_is_found_in_all_noise(
    monkeypatch: pytest.MonkeyPatch, on_finished_s: float
) -> None:
    for seed in range(100):
        monkeypatch.setattr(sampling, "_drawn", random.Random(seed))
        ratio = sampling.ratio_if_longer(clock(seed, on_finished_s, 0.2e-6, 0.2e-6), sampling.PAIRS)
        assert ratio is not None and ratio > 1.3


@pytest.mark.parametrize("pairs", [sampling.PAIRS, sampling.PAIRS_OF_LONG])
def test_half_of_the_pairs_of_a_trial_begin_on_poisoned_outputs_in_a_drawn_order(pairs: int) -> None:
    """So a second run that is longer for its place alone is as often against the kernel as for it."""
    poisoned_of_runs, orders = list[bool](), set[tuple[bool, ...]]()

    def seconds_on(poisoned: bool) -> float:
        poisoned_of_runs.append(poisoned)
        return 1.0 + poisoned

    for _ in range(20):
        poisoned_of_runs.clear()
        assert sampling.ratio_if_longer(seconds_on, pairs) == 2
        first, second = poisoned_of_runs[::2], poisoned_of_runs[1::2]
        assert [not poisoned for poisoned in first] == second
        trials = [tuple(first[start : start + pairs]) for start in range(0, len(first), pairs)]
        assert [sum(trial) for trial in trials] == [pairs / 2] * sampling.TRIALS
        orders.update(trials)
    assert len(orders) > 10


@pytest.mark.parametrize(("shorter_pairs", "ratio"), [(2, 1.3), (3, None), (5, None)])
def test_runs_on_poisoned_outputs_have_to_be_longer_in_nearly_all_pairs(
    shorter_pairs: int, ratio: float | None
) -> None:
    """A median alone is no proof: in up to half of the pairs the run on poisoned outputs may be the shorter one."""
    runs = itertools.count()

    def seconds_on(poisoned: bool) -> float:
        pair = next(runs) // 2 % sampling.PAIRS
        return 1.0 if not poisoned else 0.9 if pair >= sampling.PAIRS - shorter_pairs else 1.3

    assert sampling.ratio_if_longer(seconds_on, sampling.PAIRS) == ratio


def clock(seed: int, on_finished_s: float, second_s: float, noise_s: float) -> Callable[[bool], float]:
    """Return made-up seconds of runs in pairs: RUN_S on poisoned outputs, and by noise, position and ticks more or less."""
    noise, tick_s, runs = np.random.default_rng(seed), 32e-9, itertools.count()

    def seconds_on(poisoned: bool) -> float:
        seconds = RUN_S if poisoned else on_finished_s
        seconds += next(runs) % 2 * second_s + abs(float(noise.normal(0, noise_s)))
        return round(seconds / tick_s) * tick_s

    return seconds_on


def test_one_slow_judged_sample_is_no_proof(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair of runs shows that the machine was disturbed when the slow sample was taken."""
    monkeypatch.setattr(sampling, "_is_judged", lambda measurement: len(measurement.samples) == 2)
    plan: Any = made("a").plan

    class Disturbed(plan):  # type: ignore[misc]
        values: np.ndarray

        def run(self) -> float | None:
            self.values = np.zeros(8)
            super().run()
            if self.timed and self.runs == 5:  # warm-up, two samples, one on other operands, the judged one
                self.device.clock.now += 10
            return None

    (row,) = bench(replace(made("a"), plan=Disturbed))
    assert row["status"] == "ok" and max(row["samples_s"]) > 10
