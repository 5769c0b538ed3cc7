"""Each OpenMP thread is bound to a processor; the thread that starts them is bound only while a peer runs."""

from __future__ import annotations

import ctypes
import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.find import host_cpu
from roofbook.devices.host import processors
from roofbook.measure import case_process, sampling, worker_process
from roofbook.measure.case_run import measure_and_store
from roofbook.measure.placement import Setting, Target, keys
from roofbook.measure.policy import Policy
from roofbook.peers import threads
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..labs.c_program import needs_compiler

STENCIL = registry.get("stencil")
PEER, BASE = STENCIL.variant("openmp"), STENCIL.variant("sequential-c")
RUN = "20260101T000000Z-000000"


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in threads.SETTINGS:
        monkeypatch.delenv(name, raising=False)


def _has_openmp() -> bool:
    try:
        ctypes.CDLL("libgomp.so.1")
    except OSError:
        return False
    return True


needs_two = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or processors() < 2 or not _has_openmp(),
    reason="needs Linux, two processors and GCC's OpenMP",
)

SCRIPT = """
import contextlib, json, os, sys
from pathlib import Path
from roofbook.devices.find import host_cpu
from roofbook.peers import threads
from roofbook.spec import registry

def allowed():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread of a driver has ended since
            found[int(task.name)] = sorted(os.sched_getaffinity(int(task.name)))
    return found

free = sorted(os.sched_getaffinity(0))
threads.bind()
lab = registry.get("stencil")
case, variant = lab.cases("test")[0], lab.variant("openmp")
it = variant.plan(host_cpu(), variant, case, lab.inputs(case, 5))
it.reset()
before = allowed()
with threads.on_own_processor(variant):
    inside = sorted(os.sched_getaffinity(0))
    it.run()
with threads.on_own_processor(lab.variant("flat")):
    beside = sorted(os.sched_getaffinity(0))
team = [each for number, each in allowed().items() if number not in before]
print(json.dumps({
    "free": free, "inside": inside, "beside": beside, "after": sorted(os.sched_getaffinity(0)), "team": team,
    "facts": threads.facts(variant, it.facts()), "left": [name for name in threads.SETTINGS if name in os.environ],
}))
"""


def facts_of_threads(**environment: str) -> dict[str, Any]:
    """Run a peer in a process that binds its threads, and return its facts about them."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@needs_compiler
@needs_two
def test_each_thread_of_a_peer_has_a_processor_and_the_first_only_while_it_runs() -> None:
    answer = facts_of_threads()
    places = [answer["inside"], *answer["team"]]
    assert [len(place) for place in places] == [1] * len(places) and sorted(chain(*places)) == answer["free"]
    assert answer["after"] == answer["beside"] == answer["free"]
    assert answer["facts"] == {"threads_bound": True} and not answer["left"]


@needs_compiler
@needs_two
def test_nothing_is_bound_where_the_user_has_said_what_openmp_is_to_do() -> None:
    answer = facts_of_threads(OMP_PROC_BIND="false")
    assert answer["team"] and all(place == answer["free"] for place in answer["team"])
    assert answer["inside"] == answer["after"] == answer["free"] and answer["facts"] == {}


@needs_compiler
@needs_two
def test_a_row_of_a_peer_tells_that_its_threads_were_bound(tmp_path: Path) -> None:
    at, store = Setting(STENCIL, STENCIL.cases("test")[0], host_cpu(), Policy()), Store(tmp_path)
    case_process.measure_isolated(at, [PEER, BASE], run=RUN, store=store, where="local")
    rows = {row.variant: row for row in store.rows("stencil").itertuples()}
    assert {name: row.status for name, row in rows.items()} == {"openmp": "ok", "sequential-c": "ok"}
    bound = {name: json.loads(row.extra).get("threads_bound") for name, row in rows.items()}
    assert bound == {"openmp": True, "sequential-c": None}


@needs_compiler
@needs_two
def test_the_thread_that_starts_the_others_is_bound_while_a_sample_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, timed, untimed = os.sched_getaffinity(0), list[set[int]](), list[set[int]]()
    sampling_now: list[bool] = []
    take = sampling._take

    class Noting(PEER.plan):  # type: ignore[name-defined, misc]
        def run(self) -> None:
            (timed if sampling_now else untimed).append(os.sched_getaffinity(0))
            super().run()

    def noted(*at: Any, **how: Any) -> None:
        sampling_now.append(True)
        try:
            take(*at, **how)
        finally:
            sampling_now.clear()

    monkeypatch.setattr(threads, "_first", {min(free)})
    monkeypatch.setattr(sampling, "_take", noted)
    monkeypatch.setattr(sampling, "SUSPECT", math.inf)  # no pairs of runs, which are timed too, after a slow sample
    at = Setting(STENCIL, STENCIL.cases("test")[0], host_cpu(), Policy())
    measure_and_store(at, [replace(PEER, plan=Noting)], run=RUN, store=Store(tmp_path), where="local")
    assert timed and all(place == {min(free)} for place in timed)
    assert len(untimed) >= 2 and all(place == free for place in untimed), "not while it is verified, before and after"
    assert os.sched_getaffinity(0) == free


AWAKE = """
import contextlib, json, os, time
from pathlib import Path
import numpy as np

def used():
    found = {}
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # a thread has ended since
            found[task.name] = int((task / "schedstat").read_text().split()[0])
    found.pop(str(os.getpid()))  # which reads these files
    return found

a = np.ones((600, 600))
for _ in range(3):
    a @ a
time.sleep(0.002)
before = used()
time.sleep(0.015)
print(json.dumps([(each - before[name]) / 1e6 for name, each in used().items() if name in before]))
"""


@needs_two
@pytest.mark.parametrize("quiet", [True, False])
def test_threads_of_numpy_sleep_between_two_products(quiet: bool) -> None:
    environment = {**os.environ, **(threads.QUIET if quiet else {})}
    environment.pop("OPENBLAS_NUM_THREADS", None)
    done = subprocess.run([sys.executable, "-c", AWAKE], env=environment, capture_output=True, text=True, check=True)
    awake_ms = max(json.loads(done.stdout))
    if not quiet and awake_ms < 5:
        pytest.skip("NumPy's threads sleep here in any case")
    assert (awake_ms < 2) == quiet


def test_a_process_that_measures_has_quiet_threads_unless_the_user_has_said_how_long_they_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT", raising=False)
    assert environment_of_a_worker()["OPENBLAS_THREAD_TIMEOUT"] == "4"
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    assert environment_of_a_worker()["OPENBLAS_THREAD_TIMEOUT"] == "20"


def environment_of_a_worker() -> dict[str, str]:
    """Return the environment of a process that `worker_process` starts."""
    worker = worker_process.WorkerProcess(
        [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    )
    assert worker.process.stdout
    environment: dict[str, str] = json.loads(worker.process.stdout.read())
    worker.end()
    return environment


def test_bound_threads_are_part_of_the_identity_of_a_peer_on_the_cpu_and_of_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = host_cpu()
    at = Setting(STENCIL, STENCIL.cases("test")[0], host, Policy())

    def key(name: str) -> str:
        variant = STENCIL.variant(name)
        return keys(at, variant, Target(host, next(iter(variant.backends))), 1)[0]

    names = ("openmp", "torch-cpu", "torch", "flat", "sequential-c")
    bound = {name: key(name) for name in names}
    monkeypatch.setenv("OMP_PROC_BIND", "false")
    assert {name for name in names if bound[name] != key(name)} == {"openmp", "torch-cpu"}


def test_a_program_that_tells_no_threads_is_not_said_to_have_bound_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_first", {0})
    facts = [threads.facts(PEER, of) for of in ({"threads": 2}, {"threads": 1}, {})]
    assert facts == [{"threads_bound": True} if hasattr(os, "sched_setaffinity") else {}, {}, {}]


def test_the_copy_of_openmp_that_pytorch_brings_is_found_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "torch"
    for folder in (package / "lib", tmp_path / "torch.libs"):
        folder.mkdir(parents=True)
        (folder / "libgomp-1a2b.so.1").touch()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    copies = [str(package / "lib" / "libgomp-1a2b.so.1"), str(tmp_path / "torch.libs" / "libgomp-1a2b.so.1")]
    assert threads._libraries() == ["libgomp.so.1", *copies]
