"""A campaign on a real Slurm of one node, which the test starts if it is installed, by the script of the page on clusters."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest

from roofbook import paths
from roofbook.store.parquet import Store

from ..free_ports import free_ports
from ..processes import until
from ..tls import tls_settings

ROOT = Path(__file__).parents[2]
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel")
CONFIGURATION = """
ClusterName=roofbook
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={processors} RealMemory={memory} State=UNKNOWN
PartitionName=debug Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str:
    """Return the reason why no Slurm can run on this machine, '' if one can."""
    if lacking := [name for name in PROGRAMS if not shutil.which(name)]:
        return f"no {', '.join(lacking)} (Debian: apt-get install slurm-wlm munge)"
    if os.geteuid() != 0:
        return "Slurm's daemons start jobs of others, so they need root"
    try:
        pwd.getpwnam("munge")
    except KeyError:
        return "there is no user munge"
    return ""


if find_spec("dask_jobqueue") is None:  # not imported: it takes Ctrl-C for itself
    pytest.skip("dask-jobqueue is not installed: pip install 'roofbook[cluster]'", allow_module_level=True)
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "all is there")


@pytest.fixture(scope="module")
def slurm() -> Iterator[dict[str, str]]:
    """Start a Slurm of this node alone, and yield the environment that its commands need."""
    folder = Path(tempfile.mkdtemp(prefix="roofbook-slurm-", dir="/tmp"))
    folder.chmod(0o755)
    munge = pwd.getpwnam("munge")
    for name in ("state", "spool", "munge"):
        (folder / name).mkdir()
    (folder / "munge" / "key").write_bytes(os.urandom(1024))
    for path in (folder, folder / "munge", folder / "munge" / "key"):
        os.chown(path, munge.pw_uid, munge.pw_gid)
        path.chmod(0o755 if path.is_dir() else 0o400)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            host=socket.gethostname(), folder=folder, ports=free_ports(2), processors=psutil.cpu_count(),
            memory=psutil.virtual_memory().total >> 21,
        )
    )  # fmt: skip
    environment = {**os.environ, "SLURM_CONF": str(configuration)}
    files = [f"--{name}-file={folder}/munge/{name}" for name in ("key", "pid", "log", "seed")]
    started = list[subprocess.Popen[bytes]]()

    def start(*command: str, **options: object) -> None:
        with (folder / f"{len(started)}.log").open("wb") as log:
            started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, **options))  # type: ignore[call-overload]

    try:
        start("munged", "--foreground", f"--socket={folder}/munge.socket", *files, user="munge", group="munge")
        until((folder / "munge.socket").exists)
        start("slurmctld", "-D", "-f", str(configuration))
        start("slurmd", "-D", "-f", str(configuration), "-N", socket.gethostname())
        until(
            lambda: b"idle" in subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True).stdout
        )
        yield environment
    finally:
        subprocess.run(["scancel", "--user=root"], env=environment, capture_output=True, timeout=200)
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(200)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def script() -> str:
    """Return the script of the page on clusters, changed for a partition without GPUs whose jobs start at once."""
    (text,) = re.findall(
        r"^```python\n(from dask_jobqueue.*?)^```", (ROOT / "book" / "cluster.md").read_text(), re.M | re.S
    )
    text, queues = re.subn(r'queue="gpu"', 'queue="debug"', text)
    text, directives = re.subn(r"^ *job_extra_directives=.*\n", "", text, flags=re.M)
    text, memories = re.subn(r'memory="\w+"', 'memory="200MB"', text)
    text, jobs = re.subn(r"jobs=\d+", "jobs=1", text)
    assert queues == directives == memories == jobs == 1
    return text


def test_a_campaign_by_jobs_of_slurm(slurm: dict[str, str], tmp_path: Path) -> None:
    library = os.pathsep.join(filter(None, [str(paths.LIBRARY.parent), os.environ.get("PYTHONPATH")]))
    environment = {**slurm, **tls_settings(tmp_path), "PYTHONPATH": library}
    (tmp_path / "cluster.py").write_text(script())
    jobs = subprocess.Popen(
        [sys.executable, "cluster.py"], cwd=tmp_path, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert jobs.stdout and jobs.stdin
        address = jobs.stdout.readline().strip()
        assert re.fullmatch(r"tls://[\d.]+:\d+", address)
        words = [
            "record",
            str(tmp_path / "out"),
            "--uncommitted",
            "--cluster",
            address,
            "--lab",
            "stencil",
            "--scale",
            "test",
        ]
        words += ["--device", "opencl:pocl", "--case", "5x13", "--variant", "flat", "--budget", "1e-6", "--runs", "2"]
        command = [sys.executable, "-m", "roofbook.cli", *words]
        process = subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, timeout=500)
        assert process.returncode == 0, process.stdout + process.stderr
        rows = Store(tmp_path / "out").rows("stencil")
        assert list(rows["variant"]) == ["flat"] * 2 and rows["run"].nunique() == 2
        jobs.stdin.write("\n")
        jobs.stdin.flush()
        jobs.wait(500)
        until(lambda: not subprocess.run(["squeue", "-h"], env=slurm, capture_output=True).stdout.strip())
    finally:
        jobs.kill()
        jobs.communicate()
