"""Work beside measuring rests while samples are taken, goes on whatever happens to who measures, and never outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofbook.measure import background_group
from roofbook.measure.background_group import BackgroundGroup, paused, wait_for

from ..processes import has_ended, state, until

LEADER = (
    "import pathlib, sys, time\n"
    "folder = pathlib.Path(sys.argv[-1])\n"
    "(folder / 'first').touch()\n"
    "while True:\n"
    "    (folder / 'now').write_text(str(time.monotonic()))\n"
    "    time.sleep(0.01)\n"
)


def leader() -> int:
    return int(os.environ[background_group.VARIABLE].partition(":")[0])


def test_background_work_pauses_while_samples_are_taken() -> None:
    with BackgroundGroup([sys.executable, "-c", LEADER]):
        assert wait_for("first")
        now = Path(os.environ[background_group.VARIABLE].partition(":")[2], "now")
        until(now.exists)
        with paused():
            until(lambda: state(leader()) == "T")
            before = now.read_text()
            time.sleep(0.2)
            assert now.read_text() == before
        until(lambda: now.read_text() not in ("", before))
        led = leader()
    assert background_group.VARIABLE not in os.environ
    assert not Path(f"/proc/{led}").exists() and not now.exists()


def test_background_work_continues_after_the_process_that_paused_it_failed() -> None:
    with BackgroundGroup([sys.executable, "-c", LEADER]):
        assert wait_for("first")
        with pytest.raises(ZeroDivisionError), paused():
            until(lambda: state(leader()) == "T")
            raise ZeroDivisionError
        until(lambda: state(leader()) != "T")
        killed = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import os; from roofbook.measure.background_group import paused\nwith paused(): os._exit(9)",
            ],
            env=dict(os.environ),
        )
        assert killed.wait() == 9
        until(lambda: state(leader()) == "T")
        background_group.resume()
        until(lambda: state(leader()) != "T")


def test_waiting_ends_with_a_process_that_never_signals() -> None:
    messages: list[str] = []
    with BackgroundGroup([sys.executable, "-c", "import sys; open(sys.argv[-1] + '/done', 'w').close()"]):
        assert wait_for("done", lambda: messages.append("waits"))
        assert not wait_for("never")
        with paused():
            pass  # of a leader that has ended
    assert not wait_for("done"), "there is no group"


def test_an_unreadable_name_of_a_group_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "7", "x:/tmp", ":", "1:/tmp"):
        monkeypatch.setenv(background_group.VARIABLE, text)
        assert not wait_for("anything")
        with paused():
            pass


def test_a_paused_group_ends_with_its_parent() -> None:
    program = (
        "import os, sys, time\n"
        "from roofbook.measure.background_group import BackgroundGroup, paused\n"
        "work = 'from roofbook.measure.background_group import run_in_background; import sys, time; run_in_background(); "
        'open(sys.argv[-1] + "/ready", "w").close(); time.sleep(60)\'\n'
        "from roofbook.measure import background_group\n"
        "with BackgroundGroup([sys.executable, '-c', work]):\n"
        "    assert background_group.wait_for('ready')\n"
        "    with paused():\n"
        "        print(os.environ[background_group.VARIABLE].partition(':')[0], flush=True)\n"
        "        time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    led = int(process.stdout.readline())
    until(lambda: state(led) == "T")
    process.kill()
    process.wait()
    process.stdout.close()
    until(lambda: has_ended(led))


def test_a_group_ends_at_once_if_its_parent_has_died() -> None:
    """As it then has another parent than its environment says."""
    begins = (
        "import os; from roofbook.measure import background_group; background_group.end_with_parent(); "
        "print(os.environ.get(background_group.PARENT))"
    )
    for named, code, printed in ((os.getpid(), 0, "None\n"), (os.getppid(), -signal.SIGKILL, "")):
        environment = {**os.environ, background_group.PARENT: str(named)}
        done = subprocess.run([sys.executable, "-c", begins], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (code, printed)
    assert background_group.parent_environment() == {background_group.PARENT: str(os.getpid())}
