"""The process that runs a stranger's kernel: its messages are checked, and its sandbox lets it reach little."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices import pocl_cpu
from roofbook.devices.find import open_device
from roofbook.errors import UsageError
from roofbook.measure import frames, sandbox
from roofbook.measure.frames import BadFrame
from roofbook.measure.kernel_process import KernelProcess, ProcessEnded, RemoteRunnable, arrays_of, output_form
from roofbook.measure.sandbox import Sandbox
from roofbook.measure.verify import KernelRefused
from roofbook.paths import read_cached, write_cached
from roofbook.spec.plan import Case

ORDER = {
    "lab": "stencil", "exercise": "fused", "device": "opencl:pocl", "model": open_device("opencl:pocl").name, "text": "",
}  # fmt: skip


def test_arrays_come_back_as_they_were_sent() -> None:
    sent = {"g": np.arange(6, dtype=np.float32).reshape(2, 3), "count": np.array([3, -1]), "none": np.empty((0, 4))}
    form = [[name, array.dtype.str, list(array.shape)] for name, array in sent.items()]
    received = arrays_of(json.loads(json.dumps(form)), b"".join(array.tobytes() for array in sent.values()))
    assert list(received) == list(sent) and all((received[name] == sent[name]).all() for name in sent)


@pytest.mark.parametrize(
    "form",
    [
        None, {}, [1], [["g"]], [["g", "<f4", [2], 1]], [[1, "<f4", [2]]], [["g", "O", [1]]], [["g", "|V8", [1]]],
        [["g", "<f4", [3]]], [["g", "<f4", [1]]], [["g", "<f4", [-2, -1]]], [["g", "<f4", [2.0]]], [["g", "<f4", [True, 2]]],
        [["g", "<f4", [1 << 62, 4]]], [["g", "<f4", ["2"]]], [["g", "<f1", [8]]], [["g", "|u2", [4]]], [["g", "<f4", [1] * 40]],
        [["g", "<M8", [1]]], [["g", "<f4", 2]], [["g", "<b4", [2]]],
    ],
)  # fmt: skip
def test_a_payload_that_is_no_array_is_refused(form: Any) -> None:
    with pytest.raises(BadFrame):
        arrays_of(form, bytes(8))


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"1", b"\xff", b"[" * 5000, b'{"a":'])
def test_a_header_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(BadFrame):
        frames.header_of(text)


def test_a_frame_longer_than_a_frame_may_be_is_refused() -> None:
    for header, payload in ((frames.LONGEST_HEADER + 1, 0), (2, frames.LONGEST_PAYLOAD + 1)):
        with pytest.raises(BadFrame):
            frames.frame_lengths(frames.LENGTHS.pack(header, payload))


class HostileProcess:
    """Stands in for the process of a kernel: it answers each request with the same."""

    def __init__(self, header: dict[str, Any], content: bytes = b"") -> None:
        self.reply, self.is_ended = (header, content), False

    def ask(self, request: str, payload: Any = None) -> tuple[dict[str, Any], bytes]:
        return self.reply

    def end(self) -> None:
        self.is_ended = True


CASE = Case("7x48", "test", {}, 1)


@pytest.mark.parametrize("seconds", [None, 0.0, -1.0, float("nan"), float("inf"), "1", True, [1.0], 10**400])
def test_a_time_that_is_none_ends_the_process(seconds: Any) -> None:
    process: Any = HostileProcess({"seconds": seconds})
    with pytest.raises(ProcessEnded, match="an invalid time"):
        RemoteRunnable(process, CASE, dict).run()
    assert process.is_ended


@pytest.mark.parametrize(
    "arrays",
    [[], [["g", "<f4", [1, 2]]], [["g", "<i4", [2]]], [["h", "<f4", [2]]], [["g", "<f4", [1]], ["h", "<f4", [1]]]],
)
def test_outputs_of_another_form_than_the_books_kernel_end_the_process(arrays: Any) -> None:
    process: Any = HostileProcess({"arrays": arrays}, bytes(8 if arrays else 0))
    runnable = RemoteRunnable(process, CASE, dict)
    runnable.outputs()
    runnable.form = output_form({"g": np.zeros(2, np.float32)})
    with pytest.raises(ProcessEnded, match="another form than those of the book's kernel"):
        runnable.outputs()
    assert process.is_ended


def in_sandbox(folder: Path, code: str) -> str:
    if reason := sandbox.reason_unusable():
        pytest.skip(reason)
    done = subprocess.run(
        Sandbox(True).command([sys.executable, "-c", code], folder), capture_output=True, text=True, check=False
    )
    return (done.stdout + done.stderr).strip()


def test_in_the_sandbox_there_is_no_network_no_home_and_nothing_to_write_to(tmp_path: Path) -> None:
    home = os.path.expanduser("~")
    (secret := tmp_path / "secret.txt").write_text("SECRET")
    (own_folder := tmp_path / "own").mkdir()
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        port = server.getsockname()[1]
        code = f"""
import os, socket
def tried(name, do):
    try:
        print(name, do())
    except OSError as error:
        print(name, "refused")
tried("secret", lambda: open({str(secret)!r}).read())
tried("home", lambda: [f for f in os.listdir({home!r}) if f not in (".pyenv", ".local", "miniconda3")])
tried("net", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
for place in ("/usr", "/etc", {str(Path(sys.prefix))!r}):
    tried("write", lambda: open(place + "/roofbook-test", "w"))
tried("passwd", lambda: open("/etc/shadow").read()[:0] or "read")
tried("own", lambda: open("own.txt", "w").write("x"))
print("others", [p for p in os.listdir("/proc") if p.isdigit() and int(p) > 50])
"""
        printed = in_sandbox(own_folder, code).splitlines()
    assert (
        printed[0] == "secret refused" and printed[1] in ("home refused", "home []") and printed[2] == "net refused"
    ), printed
    assert printed[3:6] == ["write refused"] * 3 and printed[6:] == ["passwd refused", "own 1", "others []"], printed
    assert (own_folder / "own.txt").is_file() and not Path("/etc/roofbook-test").exists()


def test_without_bubblewrap_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox.reason_unusable.cache_clear()
    try:
        assert sandbox.sandbox() == Sandbox(False, "bubblewrap (bwrap) is not installed")
        assert sandbox.sandbox(False).command(["true"], tmp_path) == ["true"]
        with pytest.raises(UsageError, match=r"there is no sandbox: .* is not installed; --no-sandbox runs"):
            sandbox.sandbox(True)
        (tmp_path / "bwrap").write_text("#!/bin/sh\necho no namespaces here >&2\nexit 1\n")
        (tmp_path / "bwrap").chmod(0o755)
        sandbox.reason_unusable.cache_clear()
        assert sandbox.sandbox() == Sandbox(False, "bubblewrap does not work here: no namespaces here")
    finally:
        sandbox.reason_unusable.cache_clear()


def test_a_process_gets_no_secrets_of_the_environment_and_no_shared_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRET")
    monkeypatch.setenv("POCL_CACHE_DIR", "/shared")
    process = KernelProcess(ORDER, tmp_path, Sandbox(False), 120.0)
    try:
        children = [
            Path("/proc", name, "environ").read_bytes()
            for name in os.listdir("/proc")
            if name.isdigit() and str(tmp_path).encode() in _environment(name)
        ]
    finally:
        process.end()
    assert children and not any(b"SECRET" in child or b"/shared" in child for child in children)


def test_a_process_has_copies_of_what_probes_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without them it runs a probe kernel in a process of its own before it runs the reader's kernel."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "ours"))
    for kind in pocl_cpu.CACHED:
        write_cached(kind, "of-a-probe", b"told")
    write_cached("rows", "of-the-reader", b"SECRET")
    (folder := tmp_path / "its").mkdir()
    KernelProcess(ORDER, folder, Sandbox(False), 120.0).end()
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert [read_cached(kind, "of-a-probe") for kind in pocl_cpu.CACHED] == [b"told"] * len(pocl_cpu.CACHED)
    assert read_cached("rows", "of-the-reader") is None


def _environment(process: str) -> bytes:
    try:
        return Path("/proc", process, "environ").read_bytes()
    except OSError:
        return b""


def test_requests_that_are_none_and_a_device_that_is_none_are_reasons(tmp_path: Path) -> None:
    process = KernelProcess(ORDER, tmp_path, Sandbox(False), 120.0)
    try:
        with pytest.raises(KernelRefused):
            process.ask("__init__")
        with pytest.raises(KernelRefused):
            process.ask("outputs")
        assert not process.has_ended
    finally:
        process.end()
    with pytest.raises(ProcessEnded):
        process.ask("outputs")
    with pytest.raises(KernelRefused, match="unknown device"):
        KernelProcess({**ORDER, "device": "opencl:nowhere"}, tmp_path, Sandbox(False), 120.0)
    with pytest.raises(KernelRefused, match="is another device there than a Z80"):
        KernelProcess({**ORDER, "model": "a Z80"}, tmp_path, Sandbox(False), 120.0)
