"""Sweeps by real workers of Dask: whoever is killed, in the middle of a case, nothing is measured twice and nothing is lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.book import campaign
from roofbook.devices.find import devices
from roofbook.errors import UsageError
from roofbook.measure import cluster, gpu_claim
from roofbook.store.parquet import Store

pytest.importorskip("distributed", reason="distributed is not installed: pip install 'roofbook[cluster]'")

LAB = """
import os, signal, time
from pathlib import Path
import numpy as np
import psutil
from roofbook.spec.lab import Case, Lab, Runnable, Variant, Work

MARKS = Path({marks!r})


class Plan(Runnable):
    def __init__(self, device, variant, case, inputs):
        self.units, self.case, self.runs = case.units, case.name, 0

    def reset(self):
        self.out = np.full(4, np.nan)

    def run(self):
        self.runs += 1
        self.out = np.ones(4)
        if self.runs == 2 and self.case != "good":
            self.kill()
        time.sleep(1e-4)

    def kill(self):
        # Of the case that is measured for good, at which its worker is killed: the process of Dask, two above this one.
        marks = len(list(MARKS.iterdir()))
        if self.case == "slow":
            (MARKS / "slow").touch()
            time.sleep(0.3)
        elif self.case == "deadly" or not (MARKS / self.case).exists():
            (MARKS / f"{{self.case}}{{marks * (self.case == 'deadly') or ''}}").touch()
            psutil.Process().parents()[3].kill()  # before it a keeper, the process of the order and its keeper
            time.sleep(60)

    def outputs(self):
        return {{"out": self.out}}

    def facts(self):
        return {{"process": os.getpid()}}

    def close(self):
        pass


class Mortal(Lab):
    name, title, preferred_backend, unit, timed, bases, best = "mortal", "Mortal", "opencl", "pass", "loop", ("one",), "one"
    ladder = tuple(Variant(name, None if name == "one" else "one", None, Plan, "", "") for name in ("one", "two"))

    def cases(self, scale):
        return [Case(name, scale, {{}}, units=1) for name in {cases!r}]

    def inputs(self, case, seed):
        return {{}}

    def reference(self, case, inputs):
        return {{"out": np.ones(4)}}

    def check(self, case, variant, outputs, reference):
        return float(np.abs(outputs["out"] - reference["out"]).max()), 0.5, "largest difference"

    def work(self, case):
        return Work(1.0, 1.0, 1.0)


LAB = Mortal()
"""
WAIT_S = 500
"""Limit for what hangs, not for what is slow."""
ROLES = ["again one", "step one", "step two"]
"""Of one case: two steps and the A/A control."""


class Place:
    """A folder with a made-up lab, its store, and the commands that measure it there."""

    def __init__(self, folder: Path, *cases: str) -> None:
        self.folder, self.marks, self.cases = folder, folder / "marks", cases
        self.marks.mkdir()
        (folder / "labs" / "mortal").mkdir(parents=True)
        (folder / "labs" / "mortal" / "__init__.py").write_text(LAB.format(marks=str(self.marks), cases=cases))
        paths_of = os.pathsep.join(filter(None, [str(paths.LIBRARY.parent), os.environ.get("PYTHONPATH")]))
        quick = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
        self.environment = {**os.environ, **quick, "PYTHONPATH": paths_of, "ROOFBOOK_LABS": str(folder / "labs")}

    def record(self, *more: str) -> subprocess.Popen[str]:
        words = [
            "record",
            str(self.folder / "out"),
            "--uncommitted",
            "--lab",
            "mortal",
            "--scale",
            "test",
            "--runs",
            "1",
        ]
        return self.start("roofbook.cli", *words, "--device", "opencl:pocl", "--budget", "1e-6", *more)

    def start(self, module: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=self.environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def rows(self) -> dict[str, list[str]]:
        """By case: each row's role, variant and, unless it is ok, status; of whole files alone, as readers see them."""
        store, found = Store(self.folder / "out", ["local"]), dict[str, list[str]]()
        for each in store.rows("mortal").sort_values(["role", "variant"]).itertuples():
            found.setdefault(each.case, []).append(
                f"{each.role} {each.variant}{'' if each.status == 'ok' else ' failed'}"
            )
        return found

    def processes(self) -> list[int]:
        """All that know this folder's lab by their environment."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"ROOFBOOK_LABS={self.folder}".encode() in (process / "environ").read_bytes():
                    found.append(int(process.name))
            except OSError:
                continue
        return found


@pytest.fixture(autouse=True)
def needs_pocl() -> None:
    if not any("Portable" in device.identity()["platform"] for device in devices()):
        pytest.skip("PoCL is not installed: pip install 'pyopencl[pocl]'")


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that end with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def until(what: object, seconds: float = WAIT_S) -> None:
    end = time.monotonic() + seconds
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.05)


@pytest.mark.thorough
def test_a_case_whose_worker_is_killed_is_taken_by_another_and_one_that_kills_two_is_failed_rows(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path, "deadly", "mortal", "good")
    done = place.record("--workers", "2")
    said, _ = done.communicate(timeout=WAIT_S)
    assert done.returncode == 0, said
    assert place.rows() == {"good": ROLES, "mortal": ROLES, "deadly": ["step one failed", "step two failed"]}
    reasons = Store(tmp_path / "out").rows("mortal", case="deadly")["reason"]
    assert all(re.fullmatch(r"it ended 2 workers: \S+, \S+", each) for each in reasons)
    assert re.search(r"6 measurements taken, 2 of them failed; run", said), said
    assert sorted(path.name for path in place.marks.iterdir()).count("mortal") == 1
    until(lambda: not place.processes())


@pytest.mark.thorough
def test_the_same_command_goes_on_after_the_scheduler_was_killed_and_nothing_is_twice(
    tmp_path: Path, ended: list[subprocess.Popen[str]]
) -> None:
    place, address = Place(tmp_path, "good", "slow"), tmp_path / "scheduler.json"
    begin = ["--scheduler-file", str(address)]
    scheduler = place.start("distributed.cli.dask_scheduler", *begin, "--port", "0", "--no-dashboard")
    worker = ["--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / "dask")]
    ended += [scheduler, place.start("distributed.cli.dask_worker", *begin, *worker)]
    written = re.compile(r'"(tcp://[\d.:]+)"')
    until(lambda: address.exists() and written.search(address.read_text()))  # Dask makes the file before it fills it
    client = place.record("--cluster", written.findall(address.read_text())[0])
    ended.append(client)
    until((place.marks / "slow").exists)  # in the middle of a case
    scheduler.kill()
    said, _ = client.communicate(timeout=WAIT_S)
    assert client.returncode == 1 and said.splitlines()[-1].startswith("error: the Dask scheduler is gone"), said
    again = place.record("--workers", "1")  # at once, while the worker of the first may still be at its case
    ended.append(again)
    said, _ = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0, said
    until(lambda: not set(place.processes()) - {each.pid for each in ended})
    assert place.rows() == {"good": ROLES, "slow": ROLES}


def test_whoever_sweeps_is_killed_and_takes_its_workers_along(
    tmp_path: Path, ended: list[subprocess.Popen[str]]
) -> None:
    place = Place(tmp_path, "slow")
    client = place.record("--workers", "1")
    ended.append(client)
    until((place.marks / "slow").exists)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    until(lambda: not place.processes())
    assert place.rows() == {}


def test_a_scheduler_of_ours_takes_a_port_that_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another sweep on this host may have Dask's usual one, and Dask would warn of that; also where it has no dashboard."""
    monkeypatch.setitem(sys.modules, "distributed.dashboard.scheduler", None)
    with socket.socket() as other, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with contextlib.suppress(OSError):  # another has it indeed
            other.bind(("", 8787))
            other.listen()
        with cluster.connected(None, 1) as client:
            assert client.scheduler_info()["services"]["dashboard"] != 8787


@pytest.mark.thorough
def test_ctrl_c_leaves_no_worker_and_no_file(tmp_path: Path, ended: list[subprocess.Popen[str]]) -> None:
    place, temporary = Place(tmp_path, "slow"), tmp_path / "temporary"
    temporary.mkdir()
    place.environment["TMPDIR"] = str(temporary)
    client = place.record("--workers", "1")
    ended.append(client)
    until((place.marks / "slow").exists)
    client.terminate()  # does as Ctrl-C, which a shell's background job ignores
    assert client.wait() == 130 and not list(temporary.rglob("*"))
    until(lambda: not place.processes())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "tcp://127.0.0.1:1"], r"no Dask scheduler answers at 'tcp://127.0.0.1:1': .*"),
        (["--cluster", "nonsense://x"], r"no Dask scheduler answers at 'nonsense://x': .*"),
        (["--cluster", "tcp://127.0.0.1:1", "--workers", "2"], r"--cluster names running workers, .*"),
    ],
)
def test_what_is_wrong_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    place = Place(tmp_path, "good")
    done = place.record(*words)
    out, _ = done.communicate(timeout=WAIT_S)
    assert done.returncode == 2 and re.fullmatch(rf"error: {said}\n", out), out
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        UsageError, match=r"^a cluster needs the package distributed: `make book WITH=cluster` installs it$"
    ):
        cluster.require_dask()


def test_what_is_put_beside_the_store_does_not_make_a_checkout_changed() -> None:
    """A row of a changed checkout is not recorded: git passes over the file by which workers see that they see the store."""
    root = Path(__file__).parents[2]
    done = subprocess.run(["git", "check-ignore", "-q", f"results/{campaign.TOKENS}x"], cwd=root)
    assert done.returncode == 0 or not (root / ".git").exists()


def test_a_worker_says_what_keeps_it_from_taking_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    order = {
        "do": "who",
        "lab": "stencil",
        "device": "opencl:nowhere",
        "root": str(tmp_path),
        "token": "unfinished/there",
    }
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "there").touch()
    monkeypatch.setenv(gpu_claim.VARIABLE, "")
    for change, said in (
        ({"device": "auto"}, "other workers of this host have all cards"),
        ({"token": "unfinished/gone"}, f"it does not see the store {tmp_path}: "),
        ({}, "unknown device 'opencl:nowhere' (did you mean 'opencl:0'?); valid: auto, "),
    ):
        line = json.dumps({**order, **change})
        command = [sys.executable, "-m", "roofbook.book.campaign_worker"]
        answer = json.loads(subprocess.run(command, input=line, capture_output=True, text=True, check=True).stdout)
        assert answer["host"] and answer["error"].startswith(said)
