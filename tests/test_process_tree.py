"""A program ends with everything that it started: when it ends, when we say so, and when whoever started it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from roofbook import process_tree
from roofbook.process_tree import BadLine, Lines, PatientClock, ProcessTree, how_ended, name_of_signal, run_tool

from .processes import has_ended, state, until

ALWAYS_S = 120.0
"""A limit that no test reaches."""


def is_stopped(process: int) -> bool:
    """Return whether a process is stopped."""
    return state(process) == "T"


# A program that starts one by fork, one with a session of its own, and one whose parent has ended, and prints their numbers.
FAMILY = """
import os, signal, subprocess, sys, time
def endless():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(600)
numbers = [os.getpid()]
forked = os.fork()
if not forked:
    endless()
numbers.append(forked)
read, write = os.pipe()
if not os.fork():
    os.setsid()
    orphan = os.fork()
    if not orphan:
        endless()
    os.write(write, f"{orphan}\\n".encode())
    os._exit(0)
os.wait()
numbers.append(int(os.read(read, 20)))
print(*numbers, flush=True)
"""


@pytest.mark.parametrize(
    ("last_words", "code", "how"),
    [
        ("os._exit(0)", 0, "ended with exit code 0"),
        ("sys.exit(3)", 3, "ended with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV, "crashed by SIGSEGV"),
        ("os.kill(os.getpid(), 40)", -40, f"crashed by SIGRTMIN+{40 - signal.SIGRTMIN}"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, "crashed by SIGKILL"),
    ],
)
def test_all_descendants_end_when_the_program_ends(last_words: str, code: int, how: str) -> None:
    run = run_tool([sys.executable, "-c", FAMILY + last_words], limit_s=ALWAYS_S)
    assert run.code == code and how_ended(run.code) == how and not run.out_of_time
    family = [int(number) for number in run.output.split()]
    assert len(family) == 3 and all(map(has_ended, family))


def test_all_descendants_end_when_time_is_over() -> None:
    run = run_tool([sys.executable, "-c", FAMILY + "endless()"], limit_s=3.0)
    assert run.out_of_time and run.code == -signal.SIGKILL
    assert all(has_ended(int(number)) for number in run.output.split())


def test_all_descendants_end_when_whoever_started_them_is_killed() -> None:
    starter = (
        "import sys\nfrom roofbook.process_tree import ProcessTree\n"
        f"ProcessTree([sys.executable, '-c', {FAMILY + 'endless()'!r}]).process.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    assert parent.stdout
    family = [int(number) for number in parent.stdout.readline().split()]
    assert len(family) == 3 and not any(map(has_ended, family))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: all(map(has_ended, family)))


def test_a_program_may_end_by_itself_after_whoever_started_it_was_killed(tmp_path: Path) -> None:
    """Within its seconds of grace, here as many as it needs."""
    program = (
        "import pathlib, sys\nprint('ready', flush=True)\nsys.stdin.read()\n"
        f"pathlib.Path({str(tmp_path / 'put aside')!r}).touch()"
    )
    starter = (
        "import subprocess, sys\nfrom roofbook.process_tree import ProcessTree\n"
        f"ProcessTree([sys.executable, '-c', {program!r}], grace_s={ALWAYS_S}, stdin=subprocess.PIPE).process.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE)
    assert parent.stdout and parent.stdout.readline() == b"ready\n"
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until((tmp_path / "put aside").exists)


def test_a_stopped_tool_continues_and_obeys_ctrl_c() -> None:
    program = (  # a shell's background job would ignore Ctrl-C
        "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    )
    tree = ProcessTree([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert tree.process.stdout
    number = int(tree.process.stdout.readline())
    tree.pause()
    until(lambda: is_stopped(number))
    tree.resume()
    until(lambda: not is_stopped(number))
    tree.interrupt()
    assert tree.process.wait() == -signal.SIGINT
    tree.end()
    tree.process.stdout.close()


def test_a_stopped_program_ends() -> None:
    tree = ProcessTree(["sh", "-c", "echo $$; exec sleep 600"], stdout=subprocess.PIPE)
    assert tree.process.stdout
    number = int(tree.process.stdout.readline())
    tree.pause()
    until(lambda: is_stopped(number))
    assert tree.end() == -signal.SIGKILL and has_ended(number)
    tree.process.stdout.close()


def test_a_program_whose_keeper_was_killed_ends() -> None:
    tree = ProcessTree(["sh", "-c", "echo $$; exec sleep 600"], stdout=subprocess.PIPE)
    assert tree.process.stdout
    number = int(tree.process.stdout.readline())
    tree.process.kill()
    assert tree.end() == -signal.SIGKILL
    until(lambda: has_ended(number))
    tree.process.stdout.close()


def test_in_the_group_of_its_parent_a_signal_to_the_group_is_one_to_it() -> None:
    starter = (
        "import os, subprocess, sys\nfrom roofbook.process_tree import ProcessTree\n"
        "ProcessTree(['sh', '-c', 'echo $$; exec sleep 600'], own_session=False).process.wait()"
    )
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, process_group=0)
    assert parent.stdout
    number = int(parent.stdout.readline())
    assert os.getpgid(number) == parent.pid
    os.killpg(parent.pid, signal.SIGSTOP)
    until(lambda: is_stopped(number))
    os.killpg(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until(lambda: has_ended(number))


def test_output_of_a_tool_is_separate_or_joined_and_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["sh", "-c", "echo out; echo err >&2"]
    run = run_tool(command, limit_s=ALWAYS_S)
    assert (run.output, run.errors, run.last_words()) == ("out\n", "err\n", "err")
    assert run_tool(command, limit_s=ALWAYS_S, together=True).output == "out\nerr\n"
    assert run_tool(["true"], limit_s=ALWAYS_S).last_words() == "no message"
    monkeypatch.setattr(process_tree, "MOST_OUTPUT", 1 << 20)
    run = run_tool(["head", "-c", "50000000", "/dev/zero"], limit_s=ALWAYS_S)
    assert run.code == 0 and 1 << 20 <= len(run.output) < 2 << 20


def test_a_tool_that_cannot_be_started_says_so() -> None:
    run = run_tool(["/no/such/tool"], limit_s=ALWAYS_S)
    assert run.code == 127 and run.last_words() == "/no/such/tool: No such file or directory"


def test_time_is_counted_from_the_last_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    restarts = list[PatientClock]()
    restart = PatientClock.restart

    def noted(clock: PatientClock) -> None:
        restarts.append(clock)
        restart(clock)

    monkeypatch.setattr(PatientClock, "restart", noted)
    for printed, expected in (("begins", 1), ("begin it", 2)):  # one when the clock was made
        restarts.clear()
        run = run_tool(["echo", printed], limit_s=ALWAYS_S, mark=b"begin ")
        assert run.code == 0 and len(restarts) == expected


def test_a_clock_does_not_count_while_this_process_sleeps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(process_tree, "monotonic", lambda: now)
    clock = PatientClock(2.5)
    now += 3600
    clock.tick()
    assert clock.spent_s == PatientClock.SLICE_S and not clock.is_over()
    now += 0.5
    clock.tick()
    now += 1
    clock.tick()
    assert clock.is_over() and clock.slice_s() == 0
    assert not PatientClock(None).is_over()


def test_signals_have_names() -> None:
    assert [name_of_signal(number) for number in (9, 32, 33, signal.SIGRTMIN, signal.SIGRTMAX)] == [
        "SIGKILL", "signal 32", "signal 33", "SIGRTMIN", "SIGRTMAX",
    ]  # fmt: skip
    assert name_of_signal(signal.SIGRTMIN + 1) == "SIGRTMIN+1" and name_of_signal(200) == "signal 200"


def test_lines_are_waited_for_and_end() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        lines = Lines(pipe)
        os.write(write, b"one\ntwo\nthr")
        assert [lines.next(ALWAYS_S), lines.next(None)] == [b"one", b"two"]
        with pytest.raises(TimeoutError):
            lines.next(0.05)
        os.write(write, b"ee\n")
        assert lines.next(ALWAYS_S) == b"three"
        writer = threading.Thread(target=os.write, args=(write, b"x" * (2 << 20)))
        writer.start()
        with pytest.raises(BadLine):
            lines.next(ALWAYS_S)
        os.set_blocking(read, False)  # the writer may end before a further read
        while writer.is_alive():
            with contextlib.suppress(BlockingIOError):
                os.read(read, 1 << 16)
    os.close(write)
