"""Samples are taken side by side, after caches were emptied, until there are enough."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from roofbook.devices import find as all_devices
from roofbook.devices import provenance
from roofbook.devices.contract import BuildFailed, Unsupported
from roofbook.measure.placement import control_of
from roofbook.measure.policy import Policy

from .made_up import QUIET, Bench, Device, Memory, Queue, made, samples_by_round


def test_variants_are_interleaved_at_random_and_mirrored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a fixed seed: two of six orders are the same once in a thousand times."""
    monkeypatch.setattr("secrets.randbelow", lambda below: 1)
    names = "abcdefg"
    bench(*(made(name, None if name == "a" else "a") for name in names))
    rounds = samples_by_round(bench.rows, bench.log)
    assert len(rounds) == 12 and all(sorted(names_of_round) == sorted("a" + names) for names_of_round in rounds)
    for one, mirrored in zip(rounds[::2], rounds[1::2], strict=True):
        assert mirrored == one[::-1]
    drawn = {tuple(names_of_round) for names_of_round in rounds[::2]}
    assert len(drawn) == 6 and len({names_of_round[0] for names_of_round in drawn}) > 1


def test_each_run_draws_which_buffers_come_first_and_which_sample(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses of buffers and the kernel that ran before can favour a variant for a whole run, so runs must differ in them."""
    monkeypatch.setattr("roofbook.measure.case_run.UNTIMED", "no scale")

    def orders(seed: int) -> tuple[list[str], list[list[str]]]:
        monkeypatch.setattr("secrets.randbelow", lambda below: seed)
        bench(*(made(name, None if name == "a" else "a") for name in "abcdefg"))
        planned = [name for name, event in bench.log if event.startswith("timed plan")]
        assert {row["variant"] for row in bench.rows} == set("abcdefg")
        assert [row["variant"] for row in bench.rows] == [*"abcdefg", "a"], "rows have the ladder's order"
        return planned, samples_by_round(bench.rows, bench.log)

    first, again, other_seed = orders(1), orders(1), orders(2)
    assert first == again, "the seed in the row says which"
    assert first[0] != other_seed[0] and first[1] != other_seed[1]
    assert first[0] != sorted(first[0]), "not in the ladder's order"


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


def test_the_control_is_the_parent_of_most(bench: Bench) -> None:
    ladder = [made("a"), made("b", "a"), made("c", "b"), made("d", "b"), made("e", "d")]
    assert control_of(ladder).name == "b"
    assert control_of(ladder[:3]).name == "a", "the first of equals"
    bench(*ladder)
    control = [row for row in bench.rows if row["role"] == "again"]
    assert [row["variant"] for row in control] == ["b"]
    assert control[0]["cell_key"] == bench.row("b")["cell_key"] and control[0]["samples_s"] != []
    bench(made("a"))
    assert [row["role"] for row in bench.rows] == ["step"], "one variant alone has nothing to be compared with"
    bench(made("a"), made("b", "a", role="sweep"), made("c", "a", role="probe"))
    assert sorted(row["role"] for row in bench.rows) == ["again", "probe", "step", "sweep"]
    bench(made("b", "a", role="sweep"), made("c", "a", role="probe"))
    assert sorted(row["role"] for row in bench.rows) == ["probe", "sweep"], "no step could be the control"


def test_the_hosts_variants_run_on_its_cpu_in_a_row_of_their_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    host = Device(bench.log, bench.clock, "Host CPU")
    monkeypatch.setattr(all_devices, "host_cpu", lambda: host)
    bench.device.kind = "gpu"
    bench(made("a", device="host"), made("b", "a"), made("c", "b"), made("peer", role="peer", needs=["host"]))
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
    bench(made("a", device="host"), made("b"), made("peer", role="peer", needs=["host"]))
    assert [row["variant"] for row in bench.rows] == ["b"]


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
        (Policy(cache="warm", budget_s=0.5), 0.25, 6),  # they take three budgets
        (Policy(cache="warm", budget_s=0.5), 0.125, 10),  # the minimum goes before the budget
        (Policy(cache="warm", budget_s=0.5), 1 / 32, 10),
        (Policy(cache="warm", minimum=6, noise=1.0), noisy(0.1), 6),
        (Policy(cache="warm", scarce=4, budget_s=0.5), 0.9, 4),
        (Policy(cache="warm", maximum=7, noise=0, minimum=5), 0.01, 7),
    ],
)
def test_sampling_stops(bench: Bench, policy: Policy, seconds: float | list[float], samples: int) -> None:
    (row,) = bench(made("a", seconds=seconds), policy=policy)
    assert len(row["samples_s"]) == samples


HOT = "hardware thermal slowdown"


def throttled(bench: Bench, monkeypatch: pytest.MonkeyPatch, *reasons: list[str]) -> None:
    """Let the clocks report these reasons, one list for each sample, then none."""
    next_reason = iter(reasons)

    def read(self: provenance.Clocks) -> dict[str, Any]:
        return {"clock_mhz": 1000.0, "temperature_c": 90.0, "throttle": next(next_reason, [])}

    monkeypatch.setattr(provenance.Clocks, "read", read)


@pytest.mark.parametrize(
    ("policy", "seconds", "hot", "samples"),
    [
        (Policy(cache="warm"), 0.01, 4, 14),  # as many more, in their place
        (Policy(cache="warm"), 0.01, 100, 50),  # up to the maximum
        (Policy(cache="warm", budget_s=0.5), 0.6, 1, 4),
        (Policy(cache="warm", budget_s=0.5), 0.6, 100, 6),  # one run outlasts the budget: up to twice as many
    ],
)
def test_samples_of_a_device_that_slowed_itself_down_are_taken_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, policy: Policy, seconds: float, hot: int, samples: int
) -> None:
    throttled(bench, monkeypatch, *[[HOT]] * hot)
    (row,) = bench(made("a", seconds=seconds), policy=policy)
    assert len(row["samples_s"]) == len(row["sample_throttle"]) == samples
    assert row["sample_throttle"].count(HOT) == min(hot, samples) and row["throttle"] == [HOT]


def test_a_sample_at_the_power_cap_is_one_like_others_and_marked(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    throttled(bench, monkeypatch, [], ["software power cap", "sync boost"])
    (row,) = bench(made("a", seconds=0.01), policy=Policy(cache="warm"))
    assert row["sample_throttle"] == ["", "software power cap, sync boost", *[""] * 8]
    throttled(bench, monkeypatch)
    (row,) = bench(made("a", seconds=0.01), policy=Policy(cache="warm"))
    assert row["sample_throttle"] == [] and len(row["samples_s"]) == 10


def test_cached_device_memory_is_released_before_each_flush(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Device, "release_persisting", lambda self: self.log.append(("flush", "release")))
    bench(made("a"), policy=replace(QUIET, cache="cold"))
    events = [event for _, event in bench.log if event in ("timed run", "release", "copy")]
    assert events[1:] == ["release", "copy", "timed run"] * 12
    bench(made("a"))
    assert not bench.log.of("release"), "warm"


def test_flushing_counts_in_the_budget_but_not_against_the_minimum(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow:
        def __init__(self, device: Device) -> None:
            """A device whose cache takes as long to empty as 63 samples."""

        def __call__(self) -> None:
            bench.clock.now += 63 / 64

    policy = Policy(budget_s=20, noise=0.0)
    monkeypatch.setattr("roofbook.measure.sampling.Flush", Slow)
    (row,) = bench(made("a", seconds=1 / 64), policy=policy)
    assert len(row["samples_s"]) == 20 and set(row["wall_s"]) == {1 / 64}
    (row,) = bench(made("a", seconds=1 / 64), policy=replace(policy, budget_s=0.5))
    assert len(row["samples_s"]) == policy.minimum, "a run does not outlast the budget: what empties the cache does"


@pytest.mark.parametrize(
    ("seconds", "compiles", "role", "warm_ups"),
    [
        (0.1, 0.0, "step", 1),
        (0.1, 5.0, "step", 1),
        (5.0, 0.0, "step", 1),
        (11.0, 0.0, "step", 0),
        (0.1, 60.0, "peer", 1),
    ],
)
def test_trials_in_a_first_run_are_no_samples(
    bench: Bench, seconds: float, compiles: float, role: str, warm_ups: int
) -> None:
    """A library tries its kernels in the first run of each object: one that takes long for that is warmed up all the same."""
    bench(made("a", seconds=seconds, compiles=compiles, role=role))
    assert len(bench.log.of("timed run")) == len(bench.row("a", role)["samples_s"]) + warm_ups


def test_a_noisy_variant_goes_on_when_a_quiet_one_has_enough(bench: Bench) -> None:
    bench(made("a", seconds=0.01), made("b", "a", seconds=noisy(1)), policy=Policy(cache="warm", budget_s=1000))
    assert len(bench.row("a")["samples_s"]) == 10 and len(bench.row("b")["samples_s"]) == 50


def test_an_interrupt_hands_over_finished_rows_and_is_raised_again(bench: Bench) -> None:
    policy = Policy(cache="warm", budget_s=1000)
    with pytest.raises(KeyboardInterrupt):
        bench(
            made("a"), made("b", "a", seconds=noisy(1), fails={"timed run 21": KeyboardInterrupt()}),
            made("c", "a", fails={"plan": BuildFailed("no")}), policy=policy,
        )  # fmt: skip
    assert {(row["variant"], row["status"]) for row in bench.rows} == {("c", "failed")}, "a was not verified again"
    assert Counter(bench.log.of("timed close")) == Counter(bench.log.of("timed plan"))


def test_an_interrupted_check_leaves_nothing_open(bench: Bench) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench(made("a"), made("b", "a", fails={"trial run": KeyboardInterrupt()}))
    assert bench.rows == []
    planned = [name for name, event in bench.log if event.startswith("timed plan")]
    assert bench.log.of("trial close") == [*planned, "b"] and bench.log.of("timed close") == planned


def test_cold_overwrites_the_cache_before_each_sample_and_warm_never(bench: Bench) -> None:
    bench(made("a"), made("b", "a"), policy=replace(QUIET, cache="cold"))
    events = [event for _, event in bench.log if event in ("timed run", "finish", "copy")]
    assert events[:3] == ["timed run"] * 3, "the warm-up of two variants and the control"
    assert events[3:] == ["copy", "finish", "timed run"] * 36
    bench(made("a"))
    assert "flush" not in {name for name, _ in bench.log}


@pytest.mark.parametrize(("kind", "parts"), [("cpu", 3), ("gpu", 1)])
def test_each_core_of_a_cpu_overwrites_its_part_of_the_cache(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, kind: str, parts: int
) -> None:
    copied: list[int] = []
    queues: set[Queue] = set()

    def copy(self: Queue, target: Memory, source: Memory) -> None:
        assert target is not source and target.nbytes == source.nbytes
        copied.append(source.nbytes)
        queues.add(self)

    monkeypatch.setattr(Queue, "copy", copy)
    monkeypatch.setattr(Device, "kind", kind)
    monkeypatch.setattr(Device, "compute_units", 3)
    bench(made("a"), policy=replace(QUIET, cache="cold"))
    assert len(copied) == 12 * parts and len(queues) == parts, "side by side: a queue does one thing after the other"
    assert sum(copied) >= 12 * Device.cache_bytes
    assert bench.log.of("finish") == ["flush"] * 12 * parts
