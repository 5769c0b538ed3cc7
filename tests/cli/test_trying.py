"""`roofbook try`: steps are verified and timed in one process, also on a system without the functions of Linux."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.backends import ON_REQUEST, WEBGPU
from roofbook.devices.find import open_device
from roofbook.errors import UsageError
from roofbook.spec import registry

Command = Callable[..., tuple[Any, str, str]]

AS_ON_WINDOWS = """
import os, psutil, signal, subprocess, sys, tempfile
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pyopencl", "cupy"):
    sys.modules[name] = None  # an import of it fails
for module, names in (
    (os, "getuid fork killpg setsid statvfs sched_getaffinity sched_setaffinity getloadavg O_NONBLOCK O_CLOEXEC O_NOFOLLOW"),
    (signal, "SIGHUP SIGCHLD SIGTSTP SIGCONT SIGSTOP SIGUSR1 SIGALRM pthread_sigmask sigwaitinfo sigtimedwait setitimer"),
):
    for name in names.split():
        delattr(module, name)
sys.argv = ["roofbook", *sys.argv[1:]]
from roofbook.cli import main
main()
"""
"""The command in a Python that lacks what Windows lacks, and any other backend than WebGPU."""


@pytest.fixture(scope="module")
def cpu() -> str:
    """PoCL's device, which these tests time instead of an adapter."""
    try:
        return open_device("opencl:pocl").spec
    except UsageError as reason:
        pytest.skip(str(reason))


def test_steps_are_verified_timed_and_compared(command: Command, cpu: str, tmp_path: Path) -> None:
    options = ["--device", cpu, "--scale", "test", "--budget", "0.01", "--json", str(tmp_path / "rows.json")]
    code, out, err = command("try", "stencil", "checked", "no-ifs", "tensor-none", *options)
    assert code and "unknown variant 'tensor-none'" in err
    code, out, err = command("try", "stencil", "checked", "no-ifs", "tasks-16", *options)
    assert not code, err
    lines = " ".join(out.split())
    assert "a pass, verified; " in lines and "times as fast as checked, in one run" in lines
    assert "checked, measured twice; " in lines
    assert "tasks-16: not run: not on this case: the width is not a multiple of 2048" in lines
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["variant"] for row in rows] == ["checked", "no-ifs", "checked"] and rows[0]["samples_s"]
    code, _, err = command("try", "stencil", "--case", "7x7", *options)
    assert code and "7x48" in err


@pytest.mark.parametrize(("lab", "step", "reason"), [
    ("lbm", "deep-halo-ptx", "it is for a GPU, and {cpu} is a CPU"),
    ("cnn", "tensor-fp16", "OpenCL lacks: kernels in CUDA C++, with what the neutral dialect has no word for"),
    ("convpool", "triton-int8", "OpenCL lacks: its memory is CuPy's, so that libraries on CuPy can work on it"),
])  # fmt: skip
def test_a_step_for_other_devices_says_what_this_one_lacks(
    command: Command, cpu: str, lab: str, step: str, reason: str
) -> None:
    code, _, err = command("try", lab, step, "--device", cpu, "--scale", "test")
    assert code == 2 and err.strip() == f"error: none of these steps runs on {cpu}: {reason.format(cpu=cpu)}"


def test_a_wrong_step_fails(command: Command, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(registry.get("stencil")), "check", lambda *_: (2.0, 1.0, "error of everything"))
    code, out, err = command("try", "stencil", "flat", "--device", cpu, "--scale", "test", "--budget", "0.01")
    assert code == 1 and "flat: failed: wrong" in out and "a step failed" in err


def test_a_step_that_is_too_large_for_a_device_is_not_wrong(
    command: Command, cpu: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = registry.get("stencil").variant("flat")
    monkeypatch.setattr(step.plan, "submit", lambda run: run.device.several(99))
    code, out, err = command("try", "stencil", "flat", "--device", cpu, "--scale", "test", "--budget", "0.01")
    assert not code, err
    assert "flat: not supported here: 99 parts of" in " ".join(out.split())


def test_two_backends_of_one_model_are_timed_in_the_same_rounds(
    command: Command, cpu: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if not (adapters := ON_REQUEST["webgpu"].devices()):
        pytest.skip(WEBGPU.absent)
    monkeypatch.setattr(adapters[0], "name", open_device(cpu).name)
    options = ["--device", cpu, "--device", "webgpu:0", "--scale", "test", "--budget", "0.01"]
    code, out, err = command("try", "stencil", "flat", "float4", "streams", *options, "--json", str(tmp_path / "rows"))
    assert not code, err
    lines = " ".join(out.split())
    assert lines.count("times as fast as by OpenCL, in one run") == 2 and lines.count("measured twice; ") == 2
    assert "streams: not run: WebGPU lacks: devices that are the host's own CPU" in lines
    rows = json.loads((tmp_path / "rows").read_text())
    rounds = {(row["variant"], row["backend"]): set(row["rounds"]) for row in rows if row["role"] == "step"}
    assert rounds["flat", "opencl"] & rounds["flat", "webgpu"] and ("streams", "webgpu") not in rounds


def test_it_runs_without_the_functions_of_linux(tmp_path: Path) -> None:
    if not ON_REQUEST["webgpu"].devices():
        pytest.skip(WEBGPU.absent)
    words = ["try", "stencil", "checked", "streams", "--scale", "test", "--budget", "0.01"]
    done = subprocess.run([sys.executable, "-c", AS_ON_WINDOWS, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = " ".join(done.stdout.split())
    assert lines.count("a pass, verified") == 1
    assert "streams: not run: WebGPU lacks: devices that are the host's own CPU" in lines
