"""Who may take times on a host: on the CPU alone, on each card one at a time, and nobody waits for ever."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import time
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.measure import host_locks
from roofbook.measure.host_locks import HostLocks

from ..processes import PATIENCE_S, until

CPU: Any = SimpleNamespace(kind="cpu", pci_bus_id=None, spec="opencl:0")
ONE: Any = SimpleNamespace(kind="gpu", pci_bus_id="0000:01:00.0", spec="cuda:0")
TWO: Any = SimpleNamespace(kind="gpu", pci_bus_id="0000:02:00.0", spec="cuda:0")


def waits(
    first_lock: AbstractContextManager[object], second_lock: AbstractContextManager[object], *, expected: bool
) -> bool:
    """Return whether a thread that takes the second lock waits as long as another one holds the first.

    expected: whether it should. A thread that should not wait has all the time that a busy machine needs to run it.
    """
    got = threading.Event()

    def want() -> None:
        with second_lock:
            got.set()

    second_thread = threading.Thread(target=want)
    with first_lock:
        second_thread.start()
        waited = not got.wait(0.1 if expected else PATIENCE_S)
    assert got.wait(PATIENCE_S)
    second_thread.join()
    return waited


@pytest.mark.parametrize(
    ("first_lock", "second_lock", "expected"),
    [
        (CPU, CPU, True), (CPU, None, True), (None, CPU, True), (CPU, ONE, True), (ONE, CPU, True),
        (ONE, ONE, True), (ONE, TWO, False), (ONE, None, False), (None, None, False),
    ],
)  # fmt: skip
def test_locks_wait_for_each_other_by_device_and_timing(
    tmp_path: Path, first_lock: Any, second_lock: Any, expected: bool
) -> None:
    """None: work that is not timed."""
    first, second = (
        lock.working() if device is None else lock.timing(device)
        for lock, device in ((HostLocks(tmp_path), first_lock), (HostLocks(tmp_path), second_lock))
    )
    assert waits(first, second, expected=expected) is expected


def is_locked(path: Path) -> bool:
    """Return whether somebody holds the exclusive lock of a file."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_worker_that_waits_for_the_cpu_is_not_overtaken(tmp_path: Path) -> None:
    first, order = HostLocks(tmp_path).working(), list[str]()

    def timing() -> None:
        with HostLocks(tmp_path).timing(CPU):
            order.append("timing")

    def working() -> None:
        with HostLocks(tmp_path).working():
            order.append("working")

    with first:
        threads = [threading.Thread(target=timing), threading.Thread(target=working)]
        threads[0].start()
        until(lambda: is_locked(tmp_path / "gate"))
        threads[1].start()
        time.sleep(0.1)
        assert order == [], "the later one waits although the processors are shared"
    for thread in threads:
        thread.join(500)
    assert sorted(order) == ["timing", "working"]


def test_a_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    code = (
        "import sys, time; from types import SimpleNamespace as N; from pathlib import Path\n"
        "from roofbook.measure.host_locks import HostLocks\n"
        "with HostLocks(Path(sys.argv[1])).timing(N(kind='cpu')):\n    print('has it', flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == b"has it\n"
    process.kill()
    process.communicate()
    with HostLocks(tmp_path).timing(CPU):
        pass


def test_without_a_sweep_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(host_locks.VARIABLE, raising=False)
    locks = HostLocks.from_environment()
    assert not waits(locks.timing(CPU), locks.timing(CPU), expected=False)


def test_samples_on_the_cpu_are_taken_by_one_worker_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers measure a case at once, through the code that measures every case."""
    from roofbook.devices.contract import Unsupported
    from roofbook.devices.find import host_cpu
    from roofbook.measure import case_run
    from roofbook.measure.placement import Setting
    from roofbook.measure.policy import Policy
    from roofbook.spec import registry

    try:
        device = host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))
    spans = list[tuple[float, float]]()

    def sample(group: Any, *_: Any) -> None:
        began = time.monotonic()
        time.sleep(0.1)
        spans.append((began, time.monotonic()))

    monkeypatch.setenv(host_locks.VARIABLE, str(tmp_path))

    def prepare(at: Any, measurement: Any, *_: Any, others_hold_memory: bool) -> None:
        measurement.runnable = SimpleNamespace(close=lambda: None)

    monkeypatch.setattr(case_run, "sample", sample)
    monkeypatch.setattr(case_run, "prepare", prepare)
    monkeypatch.setattr(case_run, "References", lambda at: SimpleNamespace(seed=1, timing=lambda: None))
    lab = registry.get("stencil")
    at = Setting(lab, lab.cases("test")[-1], device, Policy())
    threads = [
        threading.Thread(
            target=case_run.measure_case, args=(at, [lab.variant("flat")]), kwargs={"run": "r", "keep": list}
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(500)
    (_, first_ended), (second_began, _) = sorted(spans)
    assert second_began >= first_ended
