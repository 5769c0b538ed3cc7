"""The measuring protocol on a lab and a device that are made up, under a clock that the tests turn.

Guards what makes a time worth keeping: nothing wrong is timed, a failure stays one row, samples are taken side by side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook import device as contract
from roofbook import devices as all_devices
from roofbook import measure as protocol
from roofbook.device import BuildFailed, OutOfMemory, Unsupported
from roofbook.lab import Case, Lab, Runnable, Variant, Work
from roofbook.measure import Policy, keys, measure, twin
from roofbook.peers import cc
from roofbook.source import Source
from roofbook.store import Store

RIGHT = np.arange(1.0, 9.0)
CASE = Case("small", "test", {"n": 8}, units=10)
QUIET = Policy(cache="warm", budget_s=1000, noise=0.0, minimum=10, maximum=12)
"""Takes all 12 samples of everything."""


class Clock:
    """Seconds that pass only when a test lets them."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Log(list[tuple[str, str]]):
    """(variant, what) in the order in which it happened."""

    def of(self, what: str) -> list[str]:
        return [name for name, event in self if event == what]


class Made(Runnable):
    """Does what the options of its variant say: how long a run takes, what comes out, where it fails."""

    def __init__(self, device: Any, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.name, self.units, self.options = device, variant.name, case.units, variant.options
        self.timed = case.units == CASE.units
        self.runs = 0
        self.step("plan")
        seconds = self.options.get("seconds", 0.1)
        self.seconds = cycle(seconds if isinstance(seconds, list) else [seconds])

    def step(self, what: str) -> None:
        """Note it; fail where the options say so, such as {'run': error} or {'timed run 4': error}."""
        self.device.log.append((self.name, f"{'timed' if self.timed else 'trial'} {what}"))
        failures = self.options.get("fails", {})
        for key in (what, f"timed {what}" if self.timed else f"trial {what}"):
            if key in failures:
                raise failures[key]

    def reset(self) -> None:
        self.step("reset")
        self.values = np.full(8, np.nan)

    def run(self) -> float | None:
        self.runs += 1
        self.device.clock.now += next(self.seconds) * (1 if self.timed else self.units / CASE.units)
        if not self.timed and self.runs == 1:
            self.device.clock.now += self.options.get("compiles", 0)
        self.step("run")
        self.step(f"run {self.runs}")
        self.values = np.array(self.options.get("value", RIGHT), float)
        told: float | None = self.options.get("told")
        return told

    def outputs(self) -> dict[str, np.ndarray]:
        self.step("outputs")
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        self.step("facts")
        return {"group": "64x1"}

    def close(self) -> None:
        self.step("close")


class Memory(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def release(self) -> None:
        """Nothing is held."""


class Queue(contract.Queue):
    def __init__(self, log: Log) -> None:
        self.log = log

    def launch(
        self, kernel: contract.Kernel, global_size: Sequence[int], local_size: Sequence[int], *args: Any
    ) -> None:
        raise NotImplementedError

    def write(self, buffer: contract.Buffer, array: np.ndarray) -> None:
        assert array.nbytes <= buffer.nbytes and array.std() > 0, "zeros flush nothing on hardware that compresses them"

    def read(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> np.ndarray:
        raise NotImplementedError

    def copy(self, target: contract.Buffer, source: contract.Buffer) -> None:
        assert target is not source
        self.log.append(("flush", "copy"))
        assert min(source.nbytes, target.nbytes) >= Device.cache_bytes > 1 << 22

    def send(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def receive(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        raise NotImplementedError

    def finish(self) -> None:
        self.log.append(("flush", "finish"))


class Device(contract.Device):
    """A made-up device with a log and a clock."""

    backend, kind, name, spec = "opencl", "cpu", "Made Up 1000", "opencl:0"
    compute_units = max_work_group = max_clock_mhz = 1
    memory_bytes, cache_bytes, local_bytes = 1 << 30, 20 << 20, 1 << 15

    def __init__(self, log: Log, clock: Clock, name: str = "Made Up 1000") -> None:
        self.log, self.clock, self.name = log, clock, name

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name, "driver": "1.0"}

    def build(self, text: str, options: Sequence[str] = ()) -> contract.Program:
        raise NotImplementedError

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self.log)


class Toy(Lab):
    """Eight values; verified on 2 units, timed on 10."""

    name, title, home, unit, timed, base, best = "toy", "Toy", "opencl", "pass", "loop", "a", "a"
    allowed = 0.5

    def __init__(self, *variants: Variant) -> None:
        self.ladder = variants
        self.references = 0

    def cases(self, scale: str) -> Sequence[Case]:
        return [CASE]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"seed": seed}

    def checker(self, case: Case, variant: Variant) -> Case:
        return replace(case, units=2)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        self.references += 1
        return {"values": RIGHT}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if outputs["values"].shape != reference["values"].shape:
            raise ValueError("shapes differ")
        return float(np.abs(outputs["values"] - reference["values"]).max()), self.allowed, "largest difference"

    def work(self, case: Case) -> Work:
        return Work(flops=2e9, bytes=3.0, footprint=4.0)

    def traffic(self, case: Case, variant: Variant) -> float:
        return float(variant.options.get("moves", super().traffic(case, variant)))

    def excuse(self, variant: Variant, case: Case) -> str | None:
        return "not on this case" if variant.options.get("excused") else None


def made(
    name: str, parent: str | None = None, role: str = "step", backends: Sequence[str] = ("opencl",), **options: Any
) -> Variant:
    return Variant(name, parent, None, Made, "", "", frozenset(backends), role, options)


class Bench:
    """Measures variants of the toy lab and keeps what comes of it."""

    def __init__(self) -> None:
        self.log, self.clock = Log(), Clock()
        self.device = Device(self.log, self.clock)
        self.rows: list[dict[str, Any]] = []
        self.told: list[tuple[str, str]] = []
        self.lab = Toy()

    def __call__(self, *variants: Variant, policy: Policy = QUIET) -> list[dict[str, Any]]:
        self.lab.ladder = variants
        self.log.clear()
        self.rows = []
        measure(
            self.lab, CASE, variants, self.device, run="20260101T000000Z-abcdef", policy=policy,
            progress=lambda variant, what: self.told.append((variant, what)), keep=self.rows.extend,
        )  # fmt: skip
        return self.rows

    def row(self, name: str, role: str = "step") -> dict[str, Any]:
        (found,) = (row for row in self.rows if (row["variant"], row["role"]) == (name, role))
        return found


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made_up = Bench()
    monkeypatch.setattr(protocol, "time", SimpleNamespace(perf_counter=made_up.clock.perf_counter))
    return made_up


def samples_by_round(rows: Sequence[Mapping[str, Any]], log: Log) -> list[list[str]]:
    """Names in the order of each round, out of the log of runs."""
    runs = [name for name in log.of("timed run")]
    rounds: list[list[str]] = []
    at = len(rows)  # each was warmed up by one run
    for number in range(max(number for row in rows for number in row["rounds"]) + 1):
        taking_part = sum(number in row["rounds"] for row in rows)
        rounds.append(runs[at : at + taking_part])
        at += taking_part
    assert at == len(runs)
    return rounds


# -- a row -------------------------------------------------------------------------------------------------------------


def test_a_row_says_what_was_measured_and_goes_through_the_store(bench: Bench, tmp_path: Path) -> None:
    seconds = [0.5, *[0.1 + i / 1000 for i in range(12)]]  # the first is the warm-up's
    (row,) = bench(made("a", seconds=seconds))
    assert (row["status"], row["reason"], row["lab"], row["variant"], row["case"]) == ("ok", None, "toy", "a", "small")
    assert (row["unit"], row["units"], row["timed"], row["scale"]) == ("pass", 10, "loop", "test")
    assert (row["device"], row["device_kind"], row["backend"], row["dtype"]) == (
        "made-up-1000",
        "cpu",
        "opencl",
        "float32",
    )
    assert row["samples_s"] == row["wall_s"] == pytest.approx(seconds[1:]) and row["rounds"] == list(range(12))
    assert (row["error"], row["bound"], row["flops"], row["bytes"]) == (0.0, 0.5, 2e9, 3.0)
    extra, policy = json.loads(row["extra"]), json.loads(row["policy"])
    assert extra["group"] == "64x1" and extra["error_is"] == "largest difference" and extra["footprint"] == 4.0
    assert (extra["rate_amount"], extra["rate_unit"]) == (2.0, "GFLOP/s")
    assert (policy["cache"], policy["seed"]) == ("warm", 20)
    provenance = json.loads(row["provenance"])
    assert provenance["environment"]["device"]["driver"] == "1.0" and provenance["time"]

    bench(made("a", seconds=seconds), made("b", "a", fails={"plan": BuildFailed("no")}))
    store = Store(tmp_path / "results")
    store.append(bench.rows)
    kept = store.rows("toy").set_index(["variant", "role"])
    assert kept.loc[("a", "step")].samples_s.tolist() == pytest.approx(seconds[1:])
    assert kept.loc[("b", "step")].status == "failed" and len(kept.loc[("b", "step")].samples_s) == 0
    key = {name: bench.row("a")[name] for name in ("cell_key", "env_key")}
    assert store.state("toy", "a", "small", "opencl", "made-up-1000", **key).state == "fresh"


def test_outputs_are_poisoned_before_the_run_and_all_is_closed(bench: Bench) -> None:
    bench(made("a"))
    assert [what for _, what in bench.log if not what.startswith("timed run")] == [
        "trial plan", "trial reset", "trial run", "trial run 1", "trial outputs", "trial close",
        "timed plan", "timed reset", "timed facts", "timed close",
    ]  # fmt: skip


def test_what_run_returns_is_the_time_and_the_wall_clock_is_kept_beside_it(bench: Bench) -> None:
    bench(made("a", told=0.02, seconds=0.3), made("b", "a", seconds=0.3))
    assert bench.row("a")["samples_s"] == [0.02] * 12
    assert bench.row("b")["samples_s"] == pytest.approx([0.3] * 12)
    assert bench.row("a")["wall_s"] == bench.row("b")["wall_s"] == pytest.approx([0.3] * 12)


def test_the_budget_is_of_whole_calls(bench: Bench) -> None:
    policy = Policy(cache="warm", budget_s=2.9, noise=0.0, minimum=5)
    (row,) = bench(made("a", told=1e-6, seconds=0.3), policy=policy)
    assert len(row["samples_s"]) == len(row["wall_s"]) == 10


def test_bytes_are_those_that_the_variant_moves(bench: Bench) -> None:
    bench(made("a"), made("b", "a", moves=5.0))
    assert [bench.row(name)["bytes"] for name in "ab"] == [3.0, 5.0]
    assert {row["flops"] for row in bench.rows} == {2e9}


def test_a_reference_is_computed_once_for_all(bench: Bench) -> None:
    bench(*(made(name, None if name == "a" else "a") for name in "abcd"))
    assert bench.lab.references == 1


def test_progress_is_told_for_each_variant(bench: Bench) -> None:
    bench(made("a"))
    assert [name for name, _ in bench.told] == ["a"] * 14
    assert bench.told[0][1].startswith("check") and "12" in bench.told[-1][1]


def test_variants_that_are_not_for_here_leave_no_row(bench: Bench) -> None:
    bench(made("a"), made("b", "a", excused=True), made("c", "a", backends=["cuda"]))
    assert {row["variant"] for row in bench.rows} == {"a"}
    bench(made("b", excused=True))
    assert bench.rows == []


# -- wrong results -----------------------------------------------------------------------------------------------------


def off(index: int, by: float) -> np.ndarray:
    values = RIGHT.copy()
    values[index] += by
    return values


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (off(3, np.nan), "nan"),
        (off(7, np.inf), "inf"),
        (off(0, -np.inf), "inf"),
        (off(5, 0.5001), "0.5"),
        (np.roll(RIGHT, 1), "7"),
        (np.zeros(8), "8"),
        (np.full(8, np.nan), "nan"),
    ],
    ids=["one NaN", "inf", "-inf", "over the bound", "off by one", "zeros", "nothing written"],
)
def test_a_wrong_result_is_a_failed_row_without_samples(bench: Bench, value: np.ndarray, error: str) -> None:
    bench(made("a"), made("b", "a", value=value.tolist()), made("c", "a"))
    row = bench.row("b")
    assert row["status"] == "failed" and row["samples_s"] == row["wall_s"] == row["rounds"] == []
    assert row["reason"].startswith(f"wrong result: error {error}")
    assert row["reason"].endswith(", allowed 0.5 (largest difference)")
    assert "b" not in bench.log.of("timed plan"), "what is wrong is not timed"
    assert "b" in bench.log.of("trial close")
    assert len(bench.row("a")["samples_s"]) == len(bench.row("c")["samples_s"]) == 12


def test_what_lies_on_the_bound_passes_and_a_bound_that_is_nan_does_not(bench: Bench) -> None:
    assert bench(made("a", value=off(2, 0.5).tolist()))[0]["status"] == "ok"
    bench.lab.allowed = float("nan")
    assert bench(made("a"))[0]["status"] == "failed"


def test_a_wrong_shape_is_our_own_defect(bench: Bench) -> None:
    with pytest.raises(ValueError, match="shapes differ"):
        bench(made("a", value=RIGHT[:7].tolist()))
    assert bench.rows == [] and bench.log.of("trial close") == ["a"]


# -- failures ----------------------------------------------------------------------------------------------------------


class DriverError(Exception):
    """As a driver's binding raises it."""


DriverError.__module__ = "pyopencl._cl"

FAILURES = [
    ("plan", BuildFailed("line 3: error: what?\nline 4: error: more"), "does not build: line 3: error: what?"),
    ("trial run", OutOfMemory("64 bytes asked for"), "out of memory: 64 bytes asked for"),
    ("timed plan", OutOfMemory("96 bytes asked for"), "out of memory: 96 bytes asked for"),
    ("timed reset", MemoryError(), "out of memory: MemoryError"),
    ("trial outputs", MemoryError("no room"), "out of memory: no room"),
    ("run", Unsupported("this backend has no graphs"), "not supported here: this backend has no graphs"),
    ("timed run 1", DriverError("INVALID_WORK_GROUP_SIZE\n(at launch)"), "DriverError: INVALID_WORK_GROUP_SIZE"),
    ("timed facts", DriverError("LOST"), "DriverError: LOST"),
    ("timed run 6", DriverError("\nOUT_OF_RESOURCES"), "DriverError: OUT_OF_RESOURCES"),
    ("plan", cc.NoCompiler("no C compiler: install one"), "does not build: no C compiler: install one"),
    ("plan", cc.BuildFailed("cc exited with 1: error"), "does not build: cc exited with 1: error"),
]


@pytest.mark.parametrize(
    ("where", "error", "reason"), FAILURES, ids=lambda it: it if isinstance(it, str) else type(it).__name__
)
def test_a_failure_is_one_row_with_one_line_and_the_others_go_on(
    bench: Bench, where: str, error: Exception, reason: str
) -> None:
    bench(made("a"), made("b", "a", fails={where: error}), made("c", "a"))
    row = bench.row("b")
    assert (row["status"], row["reason"]) == ("failed", reason)
    assert row["samples_s"] == row["wall_s"] == row["rounds"] == []
    for name in "ac":
        assert bench.row(name)["status"] == "ok" and len(bench.row(name)["samples_s"]) == 12
    assert len(bench.rows) == 4, "three variants and the twin"
    if where in ("plan", "trial run", "timed plan", "timed reset"):
        assert "b" not in bench.log.of("timed run")


@pytest.mark.parametrize("where", ["plan", "trial run", "trial outputs", "timed plan", "timed facts", "timed run 6"])
@pytest.mark.parametrize("error", [TypeError("takes 3"), AssertionError("turned"), KeyError("x"), RuntimeError("?")])
def test_a_defect_of_ours_is_raised_not_filed(bench: Bench, where: str, error: Exception) -> None:
    with pytest.raises(type(error)):
        bench(made("a"), made("b", "a", fails={where: error}), made("c", "a"))
    assert all(row["variant"] != "b" for row in bench.rows)
    assert Counter(bench.log.of("timed close")) == Counter(bench.log.of("timed plan")) - Counter(
        {"b": 1} if where in ("plan", "timed plan") else {}
    )


def test_a_run_that_would_take_too_long_is_not_begun(bench: Bench) -> None:
    bench(made("a"), made("b", "a", seconds=151), made("c", "a", seconds=149.0))
    assert bench.row("b")["reason"] == "out of time: a run of 10 x pass would take 151 s, the limit is 150 s"
    assert "b" not in bench.log.of("timed plan")
    assert bench.row("c")["status"] == "ok"


class Sizes(Toy):
    """Its published case is a thousand times its quick one."""

    def cases(self, scale: str) -> Sequence[Case]:
        return [replace(CASE, name=scale, scale=scale)]

    def work(self, case: Case) -> Work:
        return Work(flops=1e6 if case.scale == "quick" else 1e9, bytes=3.0, footprint=4.0)


@pytest.mark.parametrize(
    ("seconds", "compiles", "reason"),
    [
        (0.149, 0, None),
        (0.149, 5.0, None),
        (0.152, 0, "out of time: by its time on quick it would take about 152 s, the limit is 150 s"),
    ],
)
def test_a_loop_nest_on_one_core_is_judged_by_a_small_case(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float, compiles: float, reason: str | None
) -> None:
    """The whole case would be run once to learn that it is too long."""
    monkeypatch.setattr(all_devices, "host_cpu", lambda: bench.device)
    bench.lab = Sizes()
    (case,) = bench.lab.cases("published")
    for options in ({"device": "host"}, {}):
        plain = made("a", seconds=seconds, compiles=compiles, **options)
        bench.lab.ladder, bench.rows = (plain,), []
        bench.log.clear()
        measure(bench.lab, case, [plain], bench.device, run="r", policy=QUIET, keep=bench.rows.extend)
        assert bench.row("a")["reason"] == (reason if options else None)
    opened, closed = (len(bench.log.of(f"trial {what}")) for what in ("plan", "close"))
    assert opened == closed


def test_a_loop_nest_that_does_not_build_for_the_small_case_is_one_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_devices, "host_cpu", lambda: bench.device)
    bench(made("a"), made("b", "a", device="host", fails={"trial plan": BuildFailed("line 3")}))
    assert bench.row("b")["reason"] == "does not build: line 3" and bench.row("a")["status"] == "ok"


def test_a_compiler_in_the_first_run_does_not_count_as_its_time(bench: Bench) -> None:
    """A driver may compile when a kernel first runs: half a second for 2 units is no 25 minutes for 6000."""
    bench(made("a", seconds=0.1, compiles=30.0))
    assert bench.row("a")["status"] == "ok"
    assert bench.log.of("trial reset") == ["a", "a"], "poisoned again before the second run"


# -- order -------------------------------------------------------------------------------------------------------------


def test_variants_are_interleaved_at_random_and_mirrored(bench: Bench) -> None:
    names = "abcdefg"
    bench(*(made(name, None if name == "a" else "a") for name in names))
    rounds = samples_by_round(bench.rows, bench.log)
    assert len(rounds) == 12 and all(sorted(each) == sorted("a" + names) for each in rounds)
    for one, mirrored in zip(rounds[::2], rounds[1::2], strict=True):
        assert mirrored == one[::-1]
    drawn = {tuple(each) for each in rounds[::2]}
    assert len(drawn) == 6 and len({each[0] for each in drawn}) > 1

    bench(*(made(name, None if name == "a" else "a") for name in names))
    assert samples_by_round(bench.rows, bench.log) == rounds, "the seed decides"
    bench(*(made(name, None if name == "a" else "a") for name in names), policy=replace(QUIET, seed=21))
    assert samples_by_round(bench.rows, bench.log) != rounds


def test_rounds_tell_which_samples_were_taken_side_by_side(bench: Bench) -> None:
    policy = replace(QUIET, budget_s=1.05, noise=0.0)
    bench(made("a", seconds=0.1), made("b", "a", seconds=1.2), made("c", "a", seconds=0.01), policy=policy)
    assert bench.row("a")["rounds"] == list(range(11))
    assert bench.row("b")["rounds"] == list(range(3))
    assert bench.row("c")["rounds"] == list(range(12))
    for row in bench.rows:
        assert len(row["rounds"]) == len(row["samples_s"])
    rounds = samples_by_round(bench.rows, bench.log)
    assert sorted(rounds[2]) == ["a", "a", "b", "c"] and sorted(rounds[3]) == ["a", "a", "c"]


def test_the_twin_is_the_parent_of_most(bench: Bench) -> None:
    ladder = [made("a"), made("b", "a"), made("c", "b"), made("d", "b"), made("e", "d")]
    assert twin(ladder).name == "b"
    assert twin(ladder[:3]).name == "a", "the first of equals"
    bench(*ladder)
    again = [row for row in bench.rows if row["role"] == "again"]
    assert [row["variant"] for row in again] == ["b"]
    assert again[0]["cell_key"] == bench.row("b")["cell_key"] and again[0]["samples_s"] != []
    bench(made("a"))
    assert [row["role"] for row in bench.rows] == ["step"], "one variant alone has nothing to be compared with"
    bench(made("a"), made("b", "a", role="sweep"), made("c", "a", role="probe"))
    assert sorted(row["role"] for row in bench.rows) == ["probe", "step", "sweep"]


def test_the_hosts_variants_run_on_its_cpu_in_a_row_of_their_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Device(bench.log, bench.clock, "Host CPU")
    monkeypatch.setattr(all_devices, "host_cpu", lambda: host)
    bench.device.kind = "gpu"
    bench(made("a", device="host"), made("b", "a"), made("c", "b"), made("peer", role="peer", backends=["host"]))
    assert {row["variant"]: (row["device"], row["backend"]) for row in bench.rows} == {
        "a": ("host-cpu", "opencl"), "b": ("made-up-1000", "opencl"), "c": ("made-up-1000", "opencl"),
        "peer": ("host-cpu", "host"),
    }  # fmt: skip
    assert [row["variant"] for row in bench.rows if row["role"] == "again"] == ["b"], "not the base, which is elsewhere"
    runs = bench.log.of("timed run")
    assert set(runs[: 3 * 13]) == {"b", "c"} and set(runs[3 * 13 :]) == {"a", "peer"}, "the lab's device, then the host"

    def none() -> Device:
        raise Unsupported("no OpenCL device for the CPU")

    monkeypatch.setattr(all_devices, "host_cpu", none)
    bench(made("a", device="host"), made("b"), made("peer", role="peer", backends=["host"]))
    assert [row["variant"] for row in bench.rows] == ["b"]


# -- when to stop ------------------------------------------------------------------------------------------------------


def noisy(spread: float) -> list[float]:
    """Runs of 1/64 s to (1 + spread) times as long: exact in binary, so that sums meet a budget exactly."""
    return [(1 + spread * (i * 7 % 8) / 8) / 64 for i in range(8)]


@pytest.mark.parametrize(
    ("policy", "seconds", "samples"),
    [
        (Policy(cache="warm"), 0.01, 10),  # no noise: the minimum
        (Policy(cache="warm", budget_s=1000), noisy(1), 50),  # noisy for ever: the maximum
        (Policy(cache="warm", budget_s=0.5), noisy(1), 22),  # noisy: the budget, at 1.44 / 64 s a run
        (Policy(cache="warm", budget_s=0.5), 0.6, 3),  # one run outlasts the budget
        (Policy(cache="warm", budget_s=0.5), 0.5, 3),
        (Policy(cache="warm", budget_s=0.5), 0.25, 10),  # the minimum goes before the budget
        (Policy(cache="warm", budget_s=0.5), 1 / 32, 10),
        (Policy(cache="warm", minimum=6, noise=1.0), noisy(0.1), 6),
        (Policy(cache="warm", scarce=4, budget_s=0.5), 0.9, 4),
        (Policy(cache="warm", maximum=7, noise=0, minimum=5), 0.01, 7),
    ],
)
def test_sampling_stops(bench: Bench, policy: Policy, seconds: float | list[float], samples: int) -> None:
    (row,) = bench(made("a", seconds=seconds), policy=policy)
    assert len(row["samples_s"]) == samples


def test_a_noisy_variant_goes_on_when_a_quiet_one_has_enough(bench: Bench) -> None:
    bench(made("a", seconds=0.01), made("b", "a", seconds=noisy(1)), policy=Policy(cache="warm", budget_s=1000))
    assert len(bench.row("a")["samples_s"]) == 10 and len(bench.row("b")["samples_s"]) == 50


def test_an_interrupt_hands_over_what_is_whole_and_goes_on_up(bench: Bench) -> None:
    policy = Policy(cache="warm", budget_s=1000)
    with pytest.raises(KeyboardInterrupt):
        bench(
            made("a"), made("b", "a", seconds=noisy(1), fails={"timed run 21": KeyboardInterrupt()}),
            made("c", "a", fails={"plan": BuildFailed("no")}), policy=policy,
        )  # fmt: skip
    assert {(row["variant"], row["status"]) for row in bench.rows} == {("a", "ok"), ("c", "failed")}
    assert len(bench.row("a")["samples_s"]) == 10 and json.loads(bench.row("a")["extra"])["group"] == "64x1"
    assert Counter(bench.log.of("timed close")) == Counter(bench.log.of("timed plan"))


def test_an_interrupted_check_leaves_nothing_open(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench(made("a"), made("b", "a", fails={"trial run": KeyboardInterrupt()}))
    assert bench.rows == []
    assert bench.log.of("trial close") == ["a", "b"] and bench.log.of("timed close") == ["a"]


# -- cold and warm -----------------------------------------------------------------------------------------------------


def test_cold_overwrites_the_cache_before_each_sample_and_warm_never(bench: Bench) -> None:
    bench(made("a"), made("b", "a"), policy=replace(QUIET, cache="cold"))
    events = [what for _, what in bench.log if what in ("timed run", "finish", "copy")]
    assert events[:3] == ["timed run"] * 3, "the warm-up of two variants and a twin"
    assert events[3:] == ["copy", "finish", "timed run"] * 36
    bench(made("a"))
    assert "flush" not in {name for name, _ in bench.log}


# -- identity ----------------------------------------------------------------------------------------------------------


def test_a_key_follows_what_decides_a_time_and_nothing_else(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "k.k"
    path.write_text("KERNEL void k() { VALUE }\n")
    variant = replace(made("a", group=(64, 1)), source=Source.of(path, VALUE="1;"))

    def key(change: Callable[[Variant], Variant] = lambda same: same, **other: Any) -> tuple[str, str]:
        given: dict[str, Any] = {
            "lab": bench.lab, "case": CASE, "device": bench.device, "backend": "opencl", "policy": Policy(), "units": 10
        } | other  # fmt: skip
        return keys(variant=change(variant), **given)

    cell, environment = key()
    assert key() == (cell, environment)
    assert key(policy=Policy(budget_s=9, noise=0.5, minimum=4, scarce=2, maximum=9, limit_s=1))[0] == cell
    assert key(lambda it: replace(it, change="x", expect="y", parent="z", shows={"k": "x"}, published="p"))[0] == cell
    different = {
        "source": key(lambda it: replace(it, source=Source.of(path, VALUE="2;"))),
        "plan": key(lambda it: replace(it, plan=Toy)),  # type: ignore[arg-type]
        "option": key(lambda it: replace(it, options={"group": (32, 1)})),
        "more options": key(lambda it: replace(it, options={**it.options, "finish": True})),
        "name": key(lambda it: replace(it, name="b")),
        "cache": key(policy=Policy(cache="warm")),
        "seed": key(policy=Policy(seed=1)),
        "units": key(units=20),
        "backend": key(backend="cuda"),
        "case": key(case=replace(CASE, name="other")),
        "parameter": key(case=replace(CASE, params={"n": 9})),
        "model": key(device=Device(bench.log, bench.clock, "Made Up 2000")),
    }
    found = {what: other[0] for what, other in different.items()}
    assert cell not in found.values() and len(set(found.values())) == len(found), found
    path.write_text("KERNEL void k() { VALUE; }\n")
    assert key()[0] not in {cell, *found.values()}, "an edit of the file"
    assert {other[1] for what, other in different.items() if what != "model"} == {environment}
    assert different["model"][1] != environment


def test_rows_carry_the_keys_that_the_plan_foresees(bench: Bench) -> None:
    (row,) = bench(made("a"))
    assert (row["cell_key"], row["env_key"]) == keys(
        bench.lab, CASE, bench.lab.ladder[0], bench.device, "opencl", QUIET, CASE.units
    )
    (failed,) = bench(made("a", fails={"timed plan": OutOfMemory("no")}))
    assert failed["units"] == 10
