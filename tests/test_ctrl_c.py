"""Ctrl-C, pressed in real processes: one line, finished work stays, and the same command continues from there."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import signal
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from roofbook.ctrl_c import is_ctrl_c, plain_ctrl_c
from roofbook.devices import opencl
from roofbook.errors import UsageError
from roofbook.paths import scratch_folder
from roofbook.store.parquet import Store

from .cli.commands import process, rows
from .conftest import Command
from .often import often


def interrupted(
    command: list[str],
    place: Path,
    when: Callable[[int, Path], bool],
    number: signal.Signals = signal.SIGINT,
    *,
    after_s: float = 0.3,
    out: str = "",
) -> None:
    """Press Ctrl-C in a real process `after_s` after `when`, told its number and its folder for temporary files.

    It has printed `out` by then. Nothing but one line may be left.
    """
    with tempfile.TemporaryDirectory() as scratch:
        run = process(*command, cwd=place, env={**os.environ, "TMPDIR": scratch})
        deadline = time.monotonic() + 500
        while not when(run.pid, Path(scratch)) and time.monotonic() < deadline:
            time.sleep(0.002)
        time.sleep(after_s)
        os.killpg(run.pid, number)
        printed, err = run.communicate(timeout=500)
        assert (run.returncode, printed) == (130, out), err
        assert (
            err.strip() == "stopped; finished measurements are in the store, and the same command continues from there"
        )
        assert not list(Path(scratch).iterdir())
    assert not [*place.rglob("*.tmp"), *place.rglob(".*.parquet")]


STOPPED = """
import signal, sys
from contextlib import nullcontext
from roofbook.ctrl_c import plain_ctrl_c

class Half:
    def __del__(self):
        self.mutex

async def begun():
    pass

half, left = Half(), begun()
try:
    with plain_ctrl_c():
        exec("signal.raise_signal(signal.SIGINT)")
except KeyboardInterrupt:
    print("stopped", file=sys.stderr)
    sys.exit(130)
"""


def test_ctrl_c_in_evaluated_code_or_a_half_made_object_prints_our_line_only(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(STOPPED)
    run = process(cwd=tmp_path, module="stopped")
    out, err = run.communicate()
    assert (run.returncode, out, err) == (130, "", "stopped\n")
    (tmp_path / "stopped.py").write_text(STOPPED.replace("with plain_ctrl_c()", "with nullcontext()"))
    run = process(cwd=tmp_path, module="stopped")
    _, err = run.communicate()
    assert run.returncode == -signal.SIGINT and "no attribute 'mutex'" in err and "never awaited" in err, (
        "else there is nothing to forget"
    )


DROPPED = """
import signal, sys, time
from roofbook.errors import program

class Library:
    def __del__(self):
        signal.raise_signal(NUMBER)  # the error leaves a destructor, and Python drops it

def steps():
    try:
        yield
    finally:
        time.sleep(1.5)  # meanwhile it would be raised again
        print("closed", flush=True)

def work():
    generator = steps()
    next(generator)
    try:
        library = Library()
        del library
        print("dropped", flush=True)
        while True:
            time.sleep(0.01)
    finally:
        generator.close()
        time.sleep(1.5)
        print("tidied up", flush=True)

sys.unraisablehook = lambda _: None
sys.exit(program(work, "stopped"))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_ctrl_c_that_a_library_drops_comes_again_and_does_not_disturb_what_tidies_up(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "dropped.py").write_text(DROPPED.replace("NUMBER", str(int(number))))
    run = process(cwd=tmp_path, module="dropped")
    assert (*run.communicate(timeout=500), run.returncode) == ("dropped\nclosed\ntidied up\n", "stopped\n", 130)


@pytest.mark.usefixtures("listens")
def test_a_timer_that_was_set_before_is_set_again() -> None:
    previous = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    timer = signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        with pytest.raises(KeyboardInterrupt), plain_ctrl_c():
            signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGALRM) == signal.SIG_IGN
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, previous)


@pytest.mark.parametrize("kind", [ImportError, RuntimeError])
def test_an_error_that_ctrl_c_has_caused_is_ctrl_c_and_any_other_is_none(
    command: Command, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    """So it leaves the import of an extension module, and click."""
    causes = [KeyboardInterrupt(), None, ValueError()]

    def fails() -> None:
        raise kind("an error while initializing the extension") from causes.pop(0)

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr("roofbook.spec.registry.names", fails)
    code, out, err = command("labs")
    assert (code, out) == (130, "") and err.startswith("stopped; ") and err.count("\n") == 1
    while causes:
        with pytest.raises(kind, match="while initializing"):
            command("labs")


def test_an_error_of_tidying_up_after_ctrl_c_is_ctrl_c(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise UsageError("the disk is full")

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    monkeypatch.setattr("roofbook.spec.registry.names", fails)
    code, out, err = command("labs")
    assert (code, out) == (130, "") and err.startswith("stopped; ") and err.count("\n") == 1


def test_a_cycle_of_errors_is_ctrl_c_if_one_of_them_is() -> None:
    first_error, second_error = ValueError(), ValueError()
    first_error.__cause__, second_error.__context__ = second_error, first_error
    assert not is_ctrl_c(first_error)
    second_error.__cause__ = KeyboardInterrupt()
    assert is_ctrl_c(first_error)


@pytest.mark.usefixtures("listens")
@pytest.mark.parametrize(
    ("name", "use"), [("duckdb", lambda: Store("nowhere").query("select 1")), ("pyopencl", opencl.simulators)]
)
def test_ctrl_c_waits_for_an_import_that_would_abort_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, use: Callable[[], object]
) -> None:
    importlib.import_module(name)
    (tmp_path / f"{name}.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\nis_whole = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name)
    with pytest.raises(KeyboardInterrupt):
        use()
    assert sys.modules[name].is_whole


@pytest.mark.usefixtures("listens")
def test_ctrl_c_while_temporary_files_are_removed_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C interrupts each removal of a file, and all files are removed nevertheless."""
    removed, unlink = list[str](), os.unlink

    def interrupted(name: str, **at: int) -> None:
        removed.append(name)
        signal.raise_signal(signal.SIGINT)
        unlink(name, **at)

    monkeypatch.setattr(os, "unlink", interrupted)
    with pytest.raises(KeyboardInterrupt), scratch_folder() as folder:
        (folder / "one").touch()
        (folder / "two").touch()
    assert sorted(removed) == ["one", "two"] and not folder.exists()


@pytest.mark.parametrize("lab", ["cnn", "lbm"])
def test_ctrl_c_after_a_lab_s_program_has_said_all_changes_nothing(tmp_path: Path, lab: str) -> None:
    late = "import atexit, runpy, signal; atexit.register(signal.raise_signal, signal.SIGINT)"
    (tmp_path / "late.py").write_text(
        f"{late}\nrunpy.run_module('roofbook.labs.{lab}', run_name='__main__', alter_sys=True)"
    )
    run = process("--unknown", cwd=tmp_path, module="late")
    out, err = run.communicate()
    assert (run.returncode, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.thorough
def test_ctrl_c_while_a_notebook_measures(unmeasured: Callable[[], Path]) -> None:
    place = unmeasured()
    command = ["run", "lbm", "--scale", "test", "-p", "budget_s", "0.01"]
    interrupted(command, place, lambda *_: len(list(place.rglob("lab=peaks/**/*.parquet"))) == 3)
    stored = rows(place)
    assert set(stored["lab"]) == {"peaks"} and set(stored["status"]) == {"ok"}
    again = process(*command, "-p", "variants", "[fused]", cwd=place)
    _, err = again.communicate()
    assert (again.returncode, err) == (0, "")
    after = rows(place)
    assert list(after["run"])[: len(stored)] == list(stored["run"]), "what was finished is not measured again"
    assert list(after["variant"])[len(stored) :] == ["fused"]


@pytest.mark.parametrize("after_s", often([0.02, 0.3], {0.3}.__contains__))
@pytest.mark.thorough
def test_ctrl_c_while_processes_draw_the_devices(unmeasured: Callable[[], Path], after_s: float) -> None:
    """A terminal sends it to them too: they are starting, or at work."""

    def draws(pid: int, _: Path) -> bool:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text():
                    return True
        return False

    place = unmeasured()
    announcement = "Drawing the labs on the best recorded device\n"
    interrupted(["build", "--scale", "test"], place, draws, after_s=after_s, out=announcement)
    assert rows(place).empty


@pytest.mark.parametrize("number", often([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], {signal.SIGTERM}.__contains__))
def test_ctrl_c_while_a_cell_is_measured_again(unmeasured: Callable[[], Path], number: signal.Signals) -> None:
    place = unmeasured()
    # With the driver loaded, this takes many seconds on any machine: the reference of a large grid comes first.
    command = ["rerun", "lbm", "sequential", "4096x4096", "--scale", "large"]
    interrupted(command, place, lambda pid, _: "libpocl" in Path(f"/proc/{pid}/maps").read_text(), number)
    assert rows(place).empty


def test_serve_serves_until_ctrl_c(tmp_path: Path, unmeasured: Callable[[], Path]) -> None:
    place = unmeasured()
    (place / "_build" / "html").mkdir(parents=True)
    (place / "_build" / "html" / "index.html").write_text("the book")
    run = process("serve", "--port", "0", cwd=place)
    assert run.stdout
    address = re.findall(r"http://127\.0\.0\.1:\d+", run.stdout.readline())
    with urllib.request.urlopen(address[0]) as answer:
        assert answer.read() == b"the book"
    for host, status in (("localhost", 200), ("evil.example", 421), ("evil.example:80", 421)):
        request = urllib.request.Request(address[0], headers={"Host": host})
        try:
            with urllib.request.urlopen(request) as answer:
                assert answer.status == status
        except urllib.error.HTTPError as refused:
            assert refused.code == status
    taken = process("serve", "--port", address[0].rpartition(":")[2], cwd=place)
    _, err = taken.communicate()
    assert taken.returncode == 2 and "choose another by --port" in err
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=500)
    assert (run.returncode, err) == (0, "")
