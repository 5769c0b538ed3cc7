"""A case in a process of its own: a kernel that crashes, hangs or errs costs its own row; the others are measured."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import labs
from roofbook.devices.backends import ON_REQUEST, WEBGPU
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import Failed, UsageError
from roofbook.measure import case_process, worker_process
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.process_keeper import descendants
from roofbook.process_tree import PatientClock
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.store.parquet import Store

from ..often import often
from ..processes import state, until

LAB = """
import ctypes, os, signal, sys, threading, time
from collections.abc import Mapping, Sequence
import numpy as np
from roofbook.errors import UsageError
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Plan as LabPlan, Variant, least_bytes, no_conditions


class Plan(LabPlan):
    traffic, conditions = staticmethod(least_bytes), staticmethod(no_conditions)

    def __init__(self, device, variant, case, inputs):
        self.device, self.units, self.does, self.runs = device, case.units, variant.options.get("does", {}), 0
        self.stage, _, self.fault = variant.options.get("fault", "").partition(" ")
        self.at("plan")

    def at(self, stage):
        if stage == self.stage:
            self.do(self.fault)

    def reset(self):
        self.at("reset")
        self.out = np.full(4, np.nan)

    def run(self):
        self.runs += 1
        self.out = np.ones(4)
        self.at("run")
        for number, what in self.does.items():
            if self.runs >= number:
                self.do(what)
        time.sleep(1e-4)

    def do(self, what):
        if what == "SIGSEGV":
            ctypes.string_at(8)
        if what == "SIGRTMIN+6":
            os.kill(os.getpid(), 40)
        if what == "SIGSEGV by WebGPU" and self.device.backend == "webgpu":
            ctypes.string_at(8)
        if what == "abort":
            os.write(2, b"corrupted double-linked list\\n")
            os.abort()
        if what == "exit":
            os._exit(3)
        if what == "exit-0":
            os._exit(0)
        if what == "sys.exit":
            sys.exit()
        if what == "raise":
            raise RuntimeError("no context of \\udcff\\x1b[2J")
        if what == "fork":
            if not os.fork():
                time.sleep(3600)
        if what == "fork-returns":
            os.fork()
        if what == "writes":
            for number in range(3, 99):
                try:
                    os.write(number, b'{"kept": [["small", "' + b'x' * 5 + b'", "step", "ok", "run"]]}\\n')
                except OSError:
                    pass
        if what == "hang":
            open(os.environ["HANGS"], "w").close()
            while True:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
                time.sleep(3600)
        if what == "slow":
            time.sleep(0.2)
        if what == "sleep":
            time.sleep(3600)
        if what == "python":
            raise AttributeError("libcudart: undefined symbol: cuLaunchKernel")
        if what == "usage":
            raise UsageError("ROOFBOOK_DATA names no folder")
        if what == "lost":
            import pyopencl as cl
            def upload(array):
                raise cl.LogicError("the context is poisoned")
            self.device.upload = upload
            raise cl.LogicError("illegal address")
        if what == "print":
            print("a driver says something")
            open(os.environ["HANGS"] + "-printed", "w").close()
        if what == "ends-later":
            threading.Thread(target=self.end_later, daemon=True).start()

    def end_later(self):
        while not os.path.exists(os.environ["HANGS"] + "-printed"):
            time.sleep(0.001)
        os._exit(0)

    def outputs(self):
        self.at("outputs")
        return {"out": self.out}

    def facts(self):
        self.at("facts")
        return {"process": os.getpid()}

    def close(self):
        self.at("close")


class Everywhere(Variant):
    def lacking(self, backend):
        return ""


def made(name, fault="", **does):
    does = {int(number[3:]): what for number, what in does.items()}
    return Everywhere(name, None if name == "one" else "one", None, Plan, "", "", options={"does": does, "fault": fault})


STAGES = ("plan", "reset", "run", "outputs", "facts", "close")
FAULTS = ("SIGSEGV", "SIGRTMIN+6", "exit-0", "sys.exit", "raise", "fork", "fork-returns", "writes", "hang")


class Faulty(Lab):
    name, title, preferred_backend, unit, timed, bases, best = "faulty", "Faulty", "opencl", "pass", "loop", ("one",), "one"
    ladder = (
        made("one"), made("two", run1="print"), made("crash", run1="SIGSEGV"), made("late", run4="abort"),
        made("exit", run2="exit"),
        made("hang", run1="hang"), made("hang-late", run3="hang"), made("python", run1="python"), made("usage", run1="usage"),
        made("lost", run1="lost"), made("lost-late", run4="lost"), made("slow", run1="slow"), made("sleep", run1="sleep"),
        made("ends-later", "plan ends-later"), made("crash-there", run1="SIGSEGV by WebGPU"),
        *(made(f"{fault} in {stage}", f"{stage} {fault}") for stage in STAGES for fault in FAULTS),
    )

    def cases(self, scale):
        return [Case("small", scale, {}, units=1)]

    def inputs(self, case, seed):
        return {}

    def reference(self, case, inputs):
        return {"out": np.ones(4)}

    def check(self, case, variant, outputs, reference):
        return float(np.abs(outputs["out"] - reference["out"]).max()), 0.5, "largest difference"

    def work(self, case):
        return Work(1.0, 1.0, 1.0)


LAB = Faulty()
"""
RUNNING = r"(first run, again|warm up|warm up again|sample .*|last run)"
"""Stages in which a variant runs after its first run: which one a later run is in is drawn."""
POLICY = Policy(cache="warm", budget_s=1e-6, minimum=3, maximum=6, limit_s=100.0)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Return a lab with kernels that make the mistakes of careless ones."""
    folder = tmp_path / "labs" / "faulty"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LAB)
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(folder.parent)])
    hangs = tmp_path / "hangs"
    monkeypatch.setenv("HANGS", str(hangs))

    def is_over(clock: PatientClock) -> bool:
        """Whether a kernel hangs: its watchdog does not wait, and no other one's barks on a busy machine."""
        try:
            hangs.unlink()
        except FileNotFoundError:
            return False
        return clock.limit_s is not None

    monkeypatch.setattr(PatientClock, "is_over", is_over)
    monkeypatch.setattr(PatientClock, "SLICE_S", 0.05)
    monkeypatch.delitem(sys.modules, "roofbook.labs.faulty", raising=False)
    return registry.get("faulty")


Measure = Callable[..., pd.DataFrame]


@pytest.fixture
def measure(faulty: Lab, tmp_path: Path) -> Measure:
    """Measures variants of it in processes of their own: the rows."""
    try:
        device = host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))

    def run(*names: str, **options: Any) -> pd.DataFrame:
        store = Store(tmp_path / "results")
        at = Setting(faulty, faulty.cases("test")[0], device, POLICY)
        stored = case_process.measure_isolated(
            at,
            [faulty.variant(name) for name in names],
            run="20260101T000000Z-abcdef",
            store=store,
            where="local",
            **options,
        )
        rows = store.rows("faulty")
        assert sorted(map(tuple, stored)) == sorted(
            zip(*(rows[name] for name in ("case", "variant", "role", "status", "run")), strict=True)
        )
        return rows[rows["role"] == "step"].set_index("variant")

    return run


def processes(rows: pd.DataFrame) -> set[int]:
    import json

    return {json.loads(extra)["process"] for extra in rows[rows["status"] == "ok"]["extra"]}


def rounds_of_both(rows: pd.DataFrame) -> set[int]:
    """Return the rounds in which `one` and `two` were both sampled."""
    return set(rows.loc["one", "rounds"]) & set(rows.loc["two", "rounds"])


def test_a_case_runs_in_another_process_that_reports_its_stage(measure: Measure) -> None:
    stages: list[tuple[str, str]] = []
    rows = measure("one", "two", progress=lambda *event: stages.append(event))
    assert set(rows["status"]) == {"ok"} and all(len(samples) >= 3 for samples in rows["samples_s"])
    assert len(processes(rows)) == 1 and os.getpid() not in processes(rows)
    assert ("one", "first run") in stages and any(stage.startswith("sample") for _, stage in stages)
    assert rounds_of_both(rows) == set(rows.loc["one", "rounds"]), "side by side"


REASONS = {
    "crash": r"crashed by SIGSEGV( \(a driver says something\))?; it was at: first run",
    "late": rf"crashed by SIGABRT \(corrupted double-linked list\); it was at: {RUNNING}",
    "exit": rf"ended with exit code 3( \(a driver says something\))?; it was at: {RUNNING}",
    "hang": r"did not answer for 260 s; it was at: first run",
    "hang-late": rf"did not answer for 260 s; it was at: {RUNNING}",
    "python": r"AttributeError: libcudart: undefined symbol: cuLaunchKernel( \(verify.py, line \d+\))?",
    "lost": r"LogicError: illegal address",
    "lost-late": r"LogicError: illegal address",
}
"""Faults of kernels, and the pattern of the reason in the row."""


@pytest.mark.parametrize(
    "names",
    [
        ("crash", "hang-late", "lost"),
        *(pytest.param((name,), marks=pytest.mark.thorough) for name in REASONS),
        pytest.param(("crash", "late", "lost", "exit"), marks=pytest.mark.thorough),
    ],
    ids="+".join,
)
def test_a_kernels_fault_costs_its_own_row_only(measure: Measure, names: tuple[str, ...]) -> None:
    """Also where several kernels fail, each in its own way."""
    first, *others = names
    rows = measure(first, "one", *others, "two")
    assert dict(rows["status"]) == {"one": "ok", **dict.fromkeys(names, "failed"), "two": "ok"}
    for name in names:
        assert re.fullmatch(REASONS[name], rows.loc[name, "reason"]), rows.loc[name, "reason"]
    assert len(rounds_of_both(rows)) >= POLICY.minimum, "a round that the failure cut short counts for neither"


def test_a_kernel_that_crashes_on_one_of_two_devices_has_its_time_on_the_other(measure: Measure, faulty: Lab) -> None:
    if not (adapters := ON_REQUEST["webgpu"].devices()):
        pytest.skip(WEBGPU.absent)
    rows = measure("one", "crash-there", "two", further_devices=adapters[:1])
    status = dict(zip(zip(rows.index, rows["backend"], strict=True), rows["status"], strict=True))
    here = host_cpu().backend
    assert status == {
        (name, backend): "failed" if (name, backend) == ("crash-there", "webgpu") else "ok"
        for name in ("one", "crash-there", "two")
        for backend in (here, "webgpu")
    }
    assert "crashed by SIGSEGV" in rows[rows["status"] == "failed"]["reason"].item()
    assert all(len(processes(rows.loc[[name]])) == 1 for name in ("one", "two")), "one process measures both devices"


def test_bad_input_is_one_line_for_the_user(measure: Measure) -> None:
    with pytest.raises(UsageError, match=r"^ROOFBOOK_DATA names no folder$"):
        measure("one", "usage")


def test_a_process_that_never_begins_is_an_error_and_no_loop(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(Failed, match="faulty small: the measuring process ended with exit code 1"):
        measure("one")


# -- every stage, every fault -------------------------------------------------------------------------------------------

STAGES = {
    "plan": "plan.*",
    "reset": "first run",
    "run": "first run",
    "outputs": "outputs",
    "facts": "facts",
    "close": "close",
}
"""Stages of a plan, and the words for them in the reason of its row."""


FAULTS = {
    "SIGSEGV": "crashed by SIGSEGV",
    "SIGRTMIN+6": r"crashed by SIGRTMIN\+6",
    "exit-0": "ended with exit code 0",
    "sys.exit": "ended with exit code 0",
    "hang": r"did not answer for (260|300) s",
}
"""Faults of a kernel or its plan, and the words for them."""
OFTEN = {("plan", "exit-0"), ("close", "hang")}
"""Pairs that the short suite tries: early and late stages, and an exit and a process that hangs. Signals end a run above."""


@pytest.mark.parametrize(("stage", "fault"), often(product(STAGES, FAULTS), OFTEN.__contains__))
def test_a_fault_that_ends_or_stops_the_process_costs_one_row_that_names_the_stage(
    measure: Measure, stage: str, fault: str
) -> None:
    rows = measure("one", f"{fault} in {stage}", "two")
    assert dict(rows["status"]) == {"one": "ok", f"{fault} in {stage}": "failed", "two": "ok"}
    reason = rows.loc[f"{fault} in {stage}", "reason"]
    assert re.fullmatch(rf"{FAULTS[fault]}( \(.*\))?; it was at: {STAGES[stage]}", reason), reason


def test_a_variant_that_ends_the_process_during_anothers_run_is_blamed(measure: Measure) -> None:
    """A thread of it ends the process in a run of `two`: each is tried alone."""
    rows = measure("ends-later", "two")
    assert dict(rows["status"]) == {"ends-later": "failed", "two": "ok"}
    assert rows.loc["ends-later", "reason"].startswith("ended with exit code 0")


def test_variants_run_alone_if_none_can_be_blamed_for_the_end_of_a_process(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages = case_process._messages
    groups: list[list[str]] = []

    def talk(workers: Any, at: Any, variants: Any, *options: Any) -> Any:
        groups.append([variant.name for variant in variants])
        if "two" in groups[-1]:
            raise case_process.WorkerEnded("ended with exit code 0", "", "rows")
        yield from messages(workers, at, variants, *options)

    monkeypatch.setattr(case_process, "_messages", talk)
    rows = measure("one", "two", "python")
    assert groups == [["one", "two", "python"], ["one"], ["two"], ["python"]]
    assert dict(rows["status"]) == {"one": "ok", "two": "failed", "python": "failed"}
    assert rows.loc["two", "reason"] == "ended with exit code 0; it was at: rows"


@pytest.mark.thorough
def test_rows_stored_under_one_name_all_stay(measure: Measure) -> None:
    """As on a cluster: those of a process, and of each variant that was tried alone, have names of their own."""
    rows = measure("one", "ends-later", "two", "exit-0 in run", once="case-1", resume=False)
    assert dict(rows["status"]) == {"one": "ok", "ends-later": "failed", "two": "ok", "exit-0 in run": "failed"}


def test_an_error_costs_its_own_row_and_its_text_is_plain(measure: Measure) -> None:
    wrong = [f"raise in {stage}" for stage in STAGES]
    rows = measure("one", *wrong, "two")
    assert dict(rows["status"]) == {"one": "ok", **dict.fromkeys(wrong, "failed"), "two": "ok"}
    assert len(processes(rows)) == 1, "they stayed in one process"
    assert all("RuntimeError: no context of ? [2J" in reason for reason in rows.loc[wrong, "reason"])


@pytest.mark.parametrize("stage", often(["plan", "run", "close"], lambda stage: stage == "run"))
def test_a_fork_that_holds_the_pipe_keeps_nobody_waiting(measure: Measure, stage: str) -> None:
    """The fork sleeps for an hour; it must end together with its parent process."""
    rows = measure("one", f"fork in {stage}", "two")
    assert set(rows["status"]) == {"ok"}


def test_a_fork_that_goes_on_from_a_plan_measures_nothing(measure: Measure) -> None:
    """Rows would be there twice."""
    rows = measure("one", "fork-returns in plan", "two")
    assert dict(rows["status"]) == {"one": "ok", "fork-returns in plan": "ok", "two": "ok"}


def test_messages_that_a_kernel_writes_into_the_pipe_are_refused(measure: Measure) -> None:
    rows = measure("one", "writes in run", "two")
    assert dict(rows["status"]) == {"one": "ok", "writes in run": "failed", "two": "ok"}
    assert rows.loc["writes in run", "reason"].startswith("sent an invalid message: not expected")


@pytest.mark.parametrize("name", ["hang", "slow"])
def test_ctrl_c_ends_it_even_in_a_kernel_that_does_not_end(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(worker_process, "GRACE_S", 1.0 if name == "hang" else 120.0)
    monkeypatch.setattr(PatientClock, "is_over", lambda clock: False)
    started: list[Any] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press_when_it_hangs() -> None:
        until(Path(os.environ["HANGS"]).exists)
        signal.raise_signal(signal.SIGINT)

    def press(variant: str, stage: str) -> None:
        if variant == name and stage.startswith(("first run", "sample")) and not pressed.is_set():
            pressed.set()
            if name == "hang":
                threading.Thread(target=press_when_it_hangs).start()
            else:
                signal.raise_signal(signal.SIGINT)

    pressed = threading.Event()
    try:
        with pytest.raises(KeyboardInterrupt):
            measure("one", name, progress=press)
    finally:
        signal.signal(signal.SIGINT, before)
    assert [process.poll() is not None for process in started] == [True]


def _blocks(process: int, number: signal.Signals) -> bool:
    """Whether the main thread of a process takes no such signal."""
    (mask,) = [
        line.split()[1] for line in Path(f"/proc/{process}/status").read_text().splitlines() if line[:6] == "SigBlk"
    ]
    return bool(int(mask, 16) >> number - 1 & 1)


WORKER = """
import os, signal, sys
from roofbook.measure import case_worker
signal.signal(signal.SIGINT, signal.default_int_handler)
case_worker.GRACE_S = float(sys.argv.pop())
os._exit(case_worker.main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("name", "code"), [("sleep", 130), ("hang", -signal.SIGKILL)])
def test_a_process_whose_reader_died_ends(measure: Measure, faulty: Lab, tmp_path: Path, name: str, code: int) -> None:
    """Also one whose kernel does not end."""
    import json
    from dataclasses import asdict

    order = {
        "case": "small", "scale": "test", "run": "20260101T000000Z-abcdef",
        "policy": asdict(POLICY), "variants": [name], "root": str(tmp_path), "where": "local", "resume": True,
        "devices": [host_cpu().spec],
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, "faulty", host_cpu().spec, "1" if name == "hang" else "120"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, **registry.environment()},
    )  # fmt: skip
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    assert any(b"first run" in line for line in iter(process.stdout.readline, b""))
    if name == "hang":
        until(lambda: _blocks(process.pid, signal.SIGINT))
    process.stdin.close()
    assert process.wait(1000) == code
    process.stdout.close()


# -- the process that gets ready meanwhile -----------------------------------------------------------------------------


@pytest.fixture
def workers(faulty: Lab) -> Iterator[case_process.Workers]:
    try:
        device = host_cpu().spec
    except Unsupported as why:
        pytest.skip(str(why))
    with case_process.Workers("faulty", device, cases=3) as workers:
        yield workers


def states(worker: worker_process.WorkerProcess) -> set[str]:
    """Return the states of the processes that a worker's keeper keeps. One that the worker starts meanwhile may be gone."""
    process_states = set()
    for number in descendants(worker.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            process_states.add(state(number))
    return process_states


def test_the_next_process_gets_ready_while_one_is_at_work_and_rests_while_it_samples(
    workers: case_process.Workers,
) -> None:
    first = workers.take()
    workers.follow("check, 1 of 2")
    ready = workers._ready
    assert ready and ready is not first
    workers.follow("first run")
    assert workers._ready is ready, "one, not one a message"
    for stage in ("warm up", "sample 1 of at most 50"):
        workers.follow(stage)
        until(lambda: states(ready) == {"T"})
    workers.follow("last run")
    until(lambda: "T" not in states(ready))
    workers.follow("sample 1 of at most 50")  # of another group
    assert workers.take() is ready, "it goes on, though nothing was told since it was stopped"
    until(lambda: "T" not in states(ready))
    workers.follow("check, 1 of 2")
    workers.take().end()
    workers.follow("check, 1 of 2")
    assert workers._ready is None, "there are no more cases"
    for worker in (first, ready):
        worker.end()


def test_a_process_that_died_while_it_got_ready_is_replaced(workers: case_process.Workers) -> None:
    workers.follow("check, 1 of 2")
    died = workers._ready
    assert died
    died.process.kill()
    died.process.wait()
    taken = workers.take()
    assert taken is not died and taken.process.poll() is None
    taken.end()


def test_a_prepared_process_that_is_not_needed_ends(faulty: Lab) -> None:
    with case_process.Workers("faulty", "host", cases=2) as workers:
        workers.follow("check, 1 of 2")
        ready = workers._ready
        workers.follow("sample 1 of at most 50")
        assert ready
    assert ready.process.returncode is not None


@pytest.mark.thorough
def test_one_process_after_the_other_measures(faulty: Lab, tmp_path: Path, workers: case_process.Workers) -> None:
    store, at = Store(tmp_path), Setting(faulty, faulty.cases("test")[0], host_cpu(), POLICY)
    for run in ("20260101T000000Z-abcdef", "20260101T000001Z-abcdef", "20260101T000002Z-abcdef"):
        variants = [faulty.variant(name) for name in ("one", "two")]
        case_process.measure_isolated(at, variants, run=run, store=store, where="local", workers=workers)
    rows = store.rows("faulty")
    assert set(rows["status"]) == {"ok"} and len(processes(rows)) == 3
