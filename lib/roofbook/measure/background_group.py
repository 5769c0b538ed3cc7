"""Background work during measurements, such as compiling the kernels of the next lab: it is paused while samples are taken.

The process that measures lab after lab starts this work as one process group, and names the group in the environment. Any
process that takes samples stops that group meanwhile.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..ctrl_c import ctrl_c_waits

VARIABLE = "ROOFBOOK_BESIDE"
"""Variable with the group's number, a colon, and the folder of its done files."""
PARENT = "ROOFBOOK_PARENT"
"""Variable with the number of the parent process, for `end_with_parent`."""
POLL_S = 0.05


class BackgroundGroup:
    """Process group that works in the background of measurements; it ends with the block.

    >>> with BackgroundGroup(["sh", "-c", "sleep 60"]) as group:
    ...     with paused():
    ...         pass  # take samples
    ...     group.is_leader_alive()
    True
    """

    def __init__(self, command: Sequence[str], done: Sequence[str] = ()) -> None:
        """command: of the process that leads the group. It ends when its standard input does. It gets a folder as its last
        argument, where it makes a file for each finished task. done: names of tasks that count as finished.
        """
        self._command, self._done = list(command), done

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="roofbook-", ignore_cleanup_errors=True)
        for task in self._done:
            Path(self._folder.name, task).touch()
        self._leader = subprocess.Popen(
            [*self._command, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
            env={**os.environ, **parent_environment()},
        )
        os.environ[VARIABLE] = f"{self._leader.pid}:{self._folder.name}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ctrl_c_waits():
            del os.environ[VARIABLE]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader.pid, signal.SIGKILL)
            self._leader.wait()
            assert self._leader.stdin
            self._leader.stdin.close()
            self._folder.cleanup()

    def is_leader_alive(self) -> bool:
        """Return whether the leader still runs. It is reaped at the end of the block, so that its group exists until then."""
        return _is_alive(self._leader.pid)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Pause the background group, if there is one, while the block runs."""
    _signal("SIGSTOP")
    try:
        yield
    finally:
        resume()


def resume() -> None:
    """Resume the background group, also after a process that had paused it died."""
    _signal("SIGCONT")


def wait_for(task: str, report_waiting: Callable[[], Any] = lambda: None) -> bool:
    """Wait until the group's leader has finished a task. Return False if there is no group, or the leader ended before."""
    group = _group()
    if not group:
        return False
    leader, folder = group
    while not (folder / task).exists():
        if not _is_alive(leader):
            return False
        report_waiting()
        time.sleep(POLL_S)
    return True


def run_in_background() -> None:
    """Give this process of the group the lowest priority on all processors, and let it end with its parent.

    One busy core would be enough to slow a kernel that runs on all cores.
    """
    os.nice(19)
    end_with_parent()


def parent_environment() -> dict[str, str]:
    """Return the variables of the environment of a child that is to end with this process."""
    return {PARENT: str(os.getpid())}


def end_with_parent(yes: bool = True) -> None:
    """Let the system kill this process when its parent dies, even while it is stopped; with yes=False no more. On Linux.

    A parent that has died already is noticed if it had put `parent_environment` into the environment.
    """
    parent = int(os.environ.pop(PARENT, os.getppid()))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL) if yes else 0)  # 1: PR_SET_PDEATHSIG
    if yes and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def exists() -> bool:
    """Return whether there is a background group."""
    return _group() is not None


def _group() -> tuple[int, Path] | None:
    """Return the number and the folder of the background group, from the environment."""
    group, colon, folder = os.environ.get(VARIABLE, "").partition(":")
    return (int(group), Path(folder)) if colon and group.isdigit() and int(group) > 1 else None


def _signal(name: str) -> None:
    """Send a signal to the group, if there is one. name: not all systems have these signals, and none has then a group."""
    if group := _group():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group[0], signal.Signals[name])


def _is_alive(process: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
