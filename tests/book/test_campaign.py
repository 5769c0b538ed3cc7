"""Campaigns by real workers of Dask: if one process is killed in the middle of a case, nothing is measured twice or lost."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
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

from ..processes import PATIENCE_S, until

pytest.importorskip("distributed", reason="distributed is not installed: pip install 'roofbook[cluster]'")

LAB = """
import os, signal, time
from pathlib import Path
import numpy as np
import psutil
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Plan as LabPlan, Variant, least_bytes, no_conditions

MARKS = Path({marks!r})


class Plan(LabPlan):
    traffic, conditions = staticmethod(least_bytes), staticmethod(no_conditions)

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
        # Kill the worker at a case that is measured: the process of Dask, four above this one.
        marks = len(list(MARKS.iterdir()))
        if self.case == "slow":
            (MARKS / "slow").touch()
            time.sleep({slow_s})
        elif self.case == "deadly" or not (MARKS / self.case).exists():
            (MARKS / f"{{self.case}}{{marks * (self.case == 'deadly') or ''}}").touch()
            psutil.Process().parents()[3].kill()  # between them: a keeper, the process of the order and its keeper
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
ROLES = ["again one", "step one", "step two"]
"""Roles and variants of a case's rows: two steps and the A/A control."""


class MadeUpLab:
    """Folder with a made-up lab and its store, and the commands that measure the lab into this store."""

    def __init__(self, folder: Path, *cases: str, slow_s: float = 5.0) -> None:
        """slow_s: seconds that each measurement of the case `slow` takes, in which a test has to see that it is at work."""
        self.folder, self.marks, self.cases = folder, folder / "marks", cases
        self.marks.mkdir()
        (folder / "labs" / "mortal").mkdir(parents=True)
        (folder / "labs" / "mortal" / "__init__.py").write_text(
            LAB.format(marks=str(self.marks), cases=cases, slow_s=slow_s)
        )
        paths_of = os.pathsep.join(filter(None, [str(paths.LIBRARY.parent), os.environ.get("PYTHONPATH")]))
        self.environment = {**os.environ, "PYTHONPATH": paths_of, "ROOFBOOK_LABS": str(folder / "labs")}

    def record(self, *options: str) -> subprocess.Popen[str]:
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
        return self.start("roofbook.cli", *words, "--device", "opencl:pocl", "--budget", "1e-6", *options)

    def start(self, module: str, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", module, *words], env=self.environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def rows(self) -> dict[str, list[str]]:
        """Return the role, variant and, if failed, status of each row by case; only of complete files, as readers see them."""
        store, rows_by_case = Store(self.folder / "out", ["local"]), dict[str, list[str]]()
        for row in store.rows("mortal").sort_values(["role", "variant"]).itertuples():
            rows_by_case.setdefault(row.case, []).append(
                f"{row.role} {row.variant}{'' if row.status == 'ok' else ' failed'}"
            )
        return rows_by_case

    def processes(self) -> list[int]:
        """Return the ids of all processes whose environment names this folder's lab."""
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if f"ROOFBOOK_LABS={self.folder}".encode() in (process / "environ").read_bytes():
                    pids.append(int(process.name))
            except OSError:
                continue
        return pids


@pytest.fixture(autouse=True)
def needs_pocl() -> None:
    if not any("Portable" in device.identity()["platform"] for device in devices()):
        pytest.skip("PoCL is not installed: pip install 'pyopencl[pocl]'")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Yield a list of processes, and kill those that the test adds when it ends."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.thorough
def test_another_worker_takes_the_case_of_a_killed_one_and_a_case_that_kills_two_gets_failed_rows(
    tmp_path: Path,
) -> None:
    lab = MadeUpLab(tmp_path, "deadly", "mortal", "good")
    process = lab.record("--workers", "2")
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, output
    assert lab.rows() == {"good": ROLES, "mortal": ROLES, "deadly": ["step one failed", "step two failed"]}
    reasons = Store(tmp_path / "out").rows("mortal", case="deadly")["reason"]
    assert all(re.fullmatch(r"it ended 2 workers: \S+, \S+", reason) for reason in reasons)
    assert re.search(r"6 measurements taken, 2 of them failed; run", output), output
    assert sorted(path.name for path in lab.marks.iterdir()).count("mortal") == 1
    until(lambda: not lab.processes())


@pytest.mark.thorough
def test_the_command_continues_after_the_scheduler_was_killed_and_measures_nothing_twice(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    lab, address = MadeUpLab(tmp_path, "good", "slow"), tmp_path / "scheduler.json"
    scheduler_file = ["--scheduler-file", str(address)]
    scheduler = lab.start("distributed.cli.dask_scheduler", *scheduler_file, "--port", "0", "--no-dashboard")
    worker = ["--nworkers", "1", "--nthreads", "1", "--no-dashboard", "--local-directory", str(tmp_path / "dask")]
    processes += [scheduler, lab.start("distributed.cli.dask_worker", *scheduler_file, *worker)]
    address_in_file = re.compile(r'"(tcp://[\d.:]+)"')
    until(lambda: address.exists() and address_in_file.search(address.read_text()))  # Dask fills the file later
    client = lab.record("--cluster", address_in_file.findall(address.read_text())[0])
    processes.append(client)
    until((lab.marks / "slow").exists)  # in the middle of a case
    scheduler.kill()
    output, _ = client.communicate(timeout=PATIENCE_S)
    assert client.returncode == 1 and output.splitlines()[-1].startswith("error: the Dask scheduler is gone"), output
    again = lab.record("--workers", "1")  # at once, while the worker of the first may still be at its case
    processes.append(again)
    output, _ = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, output
    until(lambda: not set(lab.processes()) - {process.pid for process in processes})
    assert lab.rows() == {"good": ROLES, "slow": ROLES}


def test_workers_end_with_a_killed_client(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    lab = MadeUpLab(tmp_path, "slow", slow_s=PATIENCE_S)
    client = lab.record("--workers", "1")
    processes.append(client)
    until((lab.marks / "slow").exists)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    until(lambda: not lab.processes())
    assert lab.rows() == {}


def test_our_scheduler_takes_a_free_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """If another campaign on this host has Dask's usual port, Dask would warn; also if it has no dashboard."""
    monkeypatch.setitem(sys.modules, "distributed.dashboard.scheduler", None)
    with socket.socket() as listener, warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with contextlib.suppress(OSError):  # another process has the port already
            listener.bind(("", 8787))
            listener.listen()
        with cluster.connected(None, 1) as client:
            assert client.scheduler_info()["services"]["dashboard"] != 8787


@pytest.mark.thorough
def test_ctrl_c_leaves_no_worker_and_no_file(tmp_path: Path, processes: list[subprocess.Popen[str]]) -> None:
    lab, temporary = MadeUpLab(tmp_path, "slow", slow_s=PATIENCE_S), tmp_path / "temporary"
    temporary.mkdir()
    lab.environment["TMPDIR"] = str(temporary)
    client = lab.record("--workers", "1")
    processes.append(client)
    until((lab.marks / "slow").exists)
    client.terminate()  # does as Ctrl-C, which a shell's background job ignores
    assert client.wait() == 130 and not list(temporary.rglob("*"))
    until(lambda: not lab.processes())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--cluster", "tcp://127.0.0.1:1"], r"no Dask scheduler answers at 'tcp://127.0.0.1:1': .*"),
        (["--cluster", "nonsense://x"], r"no Dask scheduler answers at 'nonsense://x': .*"),
        (["--cluster", "tcp://127.0.0.1:1", "--workers", "2"], r"--cluster names running workers, .*"),
    ],
)
def test_a_wrong_address_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    lab = MadeUpLab(tmp_path, "good")
    process = lab.record(*words)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2 and re.fullmatch(rf"error: {message}\n", output), output
    assert not list((tmp_path / "out").rglob("*.parquet"))


def test_a_missing_package_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(
        UsageError, match=r"^a cluster needs the package distributed: `make book WITH=cluster` installs it$"
    ):
        cluster.require_dask()


def test_the_token_file_next_to_the_store_does_not_change_the_checkout() -> None:
    """Git ignores the file by which workers check that they see the store, as rows of a changed checkout are not recorded."""
    root = Path(__file__).parents[2]
    process = subprocess.run(["git", "check-ignore", "-q", f"results/{campaign.TOKENS}x"], cwd=root)
    assert process.returncode == 0 or not (root / ".git").exists()


def test_a_worker_names_the_reason_why_it_cannot_take_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    order = {
        "do": "worker_facts",
        "lab": "stencil",
        "device": "opencl:nowhere",
        "root": str(tmp_path),
        "token": "unfinished/there",
    }
    (tmp_path / "unfinished").mkdir()
    (tmp_path / "unfinished" / "there").touch()
    monkeypatch.setenv(gpu_claim.VARIABLE, "")
    for change, message in (
        ({"device": "auto"}, "other workers of this host have all cards"),
        ({"token": "unfinished/gone"}, f"it does not see the store {tmp_path}: "),
        ({}, "unknown device 'opencl:nowhere' (did you mean 'opencl:0'?); valid: auto, "),
    ):
        line = json.dumps({**order, **change})
        command = [sys.executable, "-m", "roofbook.book.campaign_worker"]
        answer = json.loads(subprocess.run(command, input=line, capture_output=True, text=True, check=True).stdout)
        assert answer["host"] and answer["error"].startswith(message)
