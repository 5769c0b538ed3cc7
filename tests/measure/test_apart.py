"""A case in a process of its own: a kernel that crashes, hangs or errs costs its own row; the others are measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import labs
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import Failed, UsageError
from roofbook.measure import apart
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.store.parquet import Store

from .processes import state, until

LAB = """
import ctypes, os, signal, time
from collections.abc import Mapping, Sequence
import numpy as np
from roofbook.errors import UsageError
from roofbook.spec.lab import Case, Lab, Runnable, Variant, Work


class Plan(Runnable):
    def __init__(self, device, variant, case, inputs):
        self.device, self.units, self.does, self.runs = device, case.units, variant.options.get("does", {}), 0

    def reset(self):
        self.out = np.full(4, np.nan)

    def run(self):
        self.runs += 1
        self.out = np.ones(4)
        what = self.does.get(self.runs)
        if what == "SIGSEGV":
            ctypes.string_at(8)
        if what == "abort":
            os.write(2, b"corrupted double-linked list\\n")
            os.abort()
        if what == "exit":
            os._exit(3)
        if what == "hang":
            while True:
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
                time.sleep(3600)
        if what == "slow":
            time.sleep(0.2)
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
        time.sleep(1e-4)

    def outputs(self):
        return {"out": self.out}

    def facts(self):
        return {"process": os.getpid()}

    def close(self):
        pass


def made(name, **does):
    does = {int(number[3:]): what for number, what in does.items()}
    return Variant(name, None if name == "one" else "one", None, Plan, "", "", options={"does": does})


class Faulty(Lab):
    name, title, preferred_backend, unit, timed, bases, best = "faulty", "Faulty", "opencl", "pass", "loop", ("one",), "one"
    ladder = (
        made("one"), made("two", run1="print"), made("crash", run1="SIGSEGV"), made("late", run4="abort"),
        made("exit", run2="exit"),
        made("hang", run1="hang"), made("hang-late", run3="hang"), made("python", run1="python"), made("usage", run1="usage"),
        made("lost", run1="lost"), made("lost-late", run4="lost"), made("slow", **{f"run{n}": "slow" for n in range(1, 99)}),
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
POLICY = Policy(cache="warm", budget_s=1e-6, minimum=3, maximum=6, limit_s=0.5)


@pytest.fixture
def faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """A lab whose kernels do what a careless one may."""
    folder = tmp_path / "labs" / "faulty"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LAB)
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(folder.parent)])
    monkeypatch.setattr(apart, "COMPILING_S", 4.0)
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

    def run(*names: str, **more: Any) -> pd.DataFrame:
        store = Store(tmp_path / "results")
        at = Setting(faulty, faulty.cases("test")[0], device, POLICY)
        kept = apart.measure_apart(
            at,
            [faulty.variant(name) for name in names],
            run="20260101T000000Z-abcdef",
            store=store,
            where="local",
            **more,
        )
        rows = store.rows("faulty")
        assert sorted(map(tuple, kept)) == sorted(
            zip(*(rows[name] for name in ("case", "variant", "role", "status", "run")), strict=True)
        )
        return rows[rows["role"] == "step"].set_index("variant")

    return run


def processes(rows: pd.DataFrame) -> set[int]:
    import json

    return {json.loads(extra)["process"] for extra in rows[rows["status"] == "ok"]["extra"]}


def test_it_is_another_process_and_says_what_it_is_at(measure: Measure) -> None:
    said: list[tuple[str, str]] = []
    rows = measure("one", "two", progress=lambda *each: said.append(each))
    assert set(rows["status"]) == {"ok"} and all(len(each) >= 3 for each in rows["samples_s"])
    assert len(processes(rows)) == 1 and os.getpid() not in processes(rows)
    assert ("one", "first run") in said and any(what.startswith("sample") for _, what in said)
    assert list(rows.loc["one", "rounds"]) == list(rows.loc["two", "rounds"]), "side by side"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("crash", r"crashed by SIGSEGV( \(a driver says something\))?; it was at: first run"),
        ("late", r"crashed by SIGABRT \(corrupted double-linked list\); it was at: sample \d of at most 6"),
        ("exit", r"ended with exit code 3 \(a driver says something\); it was at: sample 1 of at most 6"),
        ("hang", r"did not answer for 5 s; it was at: first run"),
        ("hang-late", r"did not answer for 5 s; it was at: sample \d of at most 6"),
        ("python", r"AttributeError: libcudart: undefined symbol: cuLaunchKernel( \(verify.py, line \d+\))?"),
        ("lost", r"LogicError: illegal address"),
        ("lost-late", r"LogicError: illegal address"),
    ],
)
def test_what_a_kernel_does_costs_its_own_row(measure: Measure, name: str, reason: str) -> None:
    import re

    rows = measure("one", name, "two")
    assert dict(rows["status"]) == {"one": "ok", name: "failed", "two": "ok"}
    assert re.fullmatch(reason, rows.loc[name, "reason"]), rows.loc[name, "reason"]
    assert list(rows.loc["one", "rounds"])[:3] == list(rows.loc["two", "rounds"])[:3], "side by side"


def test_many_kernels_may_fail_each_in_its_own_way(measure: Measure) -> None:
    rows = measure("crash", "one", "late", "lost", "exit", "two")
    assert {name for name, status in rows["status"].items() if status == "ok"} == {"one", "two"}
    assert len(rows) == 6


def test_bad_input_is_one_line_for_the_user(measure: Measure) -> None:
    with pytest.raises(UsageError, match=r"^ROOFBOOK_DATA names no folder$"):
        measure("one", "usage")


def test_a_process_that_never_begins_is_an_error_and_no_loop(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")
    with pytest.raises(Failed, match="faulty small: the measuring process ended with exit code 1"):
        measure("one")


@pytest.mark.parametrize("name", ["hang", "slow"])
def test_ctrl_c_ends_it_even_in_a_kernel_that_does_not_end(
    measure: Measure, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(apart, "GRACE_S", 1.0)
    monkeypatch.setattr(apart, "COMPILING_S", 1000.0)
    started: list[Any] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> Any:
        started.append(popen(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", start)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def press(variant: str, what: str) -> None:
        if variant == name and what.startswith(("first run", "sample")) and not pressed.is_set():
            pressed.set()
            threading.Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()

    pressed = threading.Event()
    try:
        began = time.perf_counter()
        with pytest.raises(KeyboardInterrupt):
            measure("one", name, progress=press)
        assert time.perf_counter() - began < 15
    finally:
        signal.signal(signal.SIGINT, before)
    assert [each.poll() is not None for each in started] == [True]


def _blocks(process: int, number: signal.Signals) -> bool:
    """Whether the main thread of a process takes no such signal."""
    (mask,) = [
        line.split()[1] for line in Path(f"/proc/{process}/status").read_text().splitlines() if line[:6] == "SigBlk"
    ]
    return bool(int(mask, 16) >> number - 1 & 1)


WORKER = """
import os, signal, sys
from roofbook.measure import worker
signal.signal(signal.SIGINT, signal.default_int_handler)
worker.GRACE_S = 1.0
os._exit(worker.main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("name", "code"), [("slow", 130), ("hang", -signal.SIGKILL)])
def test_a_process_whose_reader_died_ends(measure: Measure, faulty: Lab, tmp_path: Path, name: str, code: int) -> None:
    """Also one whose kernel does not end."""
    import json
    from dataclasses import asdict

    order = {
        "case": "small", "scale": "test", "run": "20260101T000000Z-abcdef",
        "policy": asdict(POLICY), "variants": [name], "root": str(tmp_path), "where": "local", "go_on": True,
    }  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, "faulty", host_cpu().spec],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, **registry.environment()},
    )  # fmt: skip
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()
    while b"first run" not in process.stdout.readline():
        pass
    if name == "hang":
        until(lambda: _blocks(process.pid, signal.SIGINT))
    process.stdin.close()
    assert process.wait(10) == code
    process.stdout.close()


# -- the process that gets ready meanwhile -----------------------------------------------------------------------------


@pytest.fixture
def workers(faulty: Lab) -> Iterator[apart.Workers]:
    try:
        device = host_cpu().spec
    except Unsupported as why:
        pytest.skip(str(why))
    with apart.Workers("faulty", device, cases=3) as workers:
        yield workers


def test_the_next_process_gets_ready_while_one_is_at_work_and_rests_while_it_samples(workers: apart.Workers) -> None:
    first = workers.take()
    workers.follow("check, 1 of 2")
    ready = workers._ready
    assert ready and ready is not first
    workers.follow("first run")
    assert workers._ready is ready, "one, not one a message"
    for what in ("warm up", "sample 1 of at most 50"):
        workers.follow(what)
        until(lambda: state(ready.process.pid) == "T")
    workers.follow("last run")
    until(lambda: state(ready.process.pid) != "T")
    workers.follow("sample 1 of at most 50")  # of another group
    assert workers.take() is ready, "it goes on, though nothing was told since it was stopped"
    until(lambda: state(ready.process.pid) != "T")
    workers.follow("check, 1 of 2")
    workers.take().end()
    workers.follow("check, 1 of 2")
    assert workers._ready is None, "there are no more cases"
    for worker in (first, ready):
        worker.end()


def test_a_process_that_died_while_it_got_ready_is_replaced(workers: apart.Workers) -> None:
    workers.follow("check, 1 of 2")
    died = workers._ready
    assert died
    died.process.kill()
    died.process.wait()
    taken = workers.take()
    assert taken is not died and taken.process.poll() is None
    taken.end()


def test_what_got_ready_for_nothing_ends(faulty: Lab) -> None:
    with apart.Workers("faulty", "host", cases=2) as workers:
        workers.follow("check, 1 of 2")
        ready = workers._ready
        workers.follow("sample 1 of at most 50")
        assert ready
    assert ready.process.returncode is not None


def test_one_process_after_the_other_measures(faulty: Lab, tmp_path: Path, workers: apart.Workers) -> None:
    store, at = Store(tmp_path), Setting(faulty, faulty.cases("test")[0], host_cpu(), POLICY)
    for run in ("20260101T000000Z-abcdef", "20260101T000001Z-abcdef", "20260101T000002Z-abcdef"):
        variants = [faulty.variant(name) for name in ("one", "two")]
        apart.measure_apart(at, variants, run=run, store=store, where="local", workers=workers)
    rows = store.rows("faulty")
    assert set(rows["status"]) == {"ok"} and len(processes(rows)) == 3
