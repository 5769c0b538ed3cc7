"""Work beside measuring, such as compiling the kernels of the next lab: it rests while samples are taken.

Who measures lab after lab starts this work as one process group and names it in the environment. Whichever process takes
samples stops that group meanwhile.
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

from ..errors import ctrl_c_waits

VARIABLE = "ROOFBOOK_BESIDE"
"""The group's number, a colon, and the folder where it says what it has done."""
PARENT = "ROOFBOOK_PARENT"
"""The number of the process that has started this one, for `end_with_parent`."""
POLL_S = 0.05


class BackgroundGroup:
    """A process group that works beside whoever measures; it ends with the block.

    >>> with BackgroundGroup(["sleep", "60"]) as beside:
    ...     with paused():
    ...         pass  # take samples
    ...     isinstance(beside.run(["true"]), subprocess.Popen)
    True
    """

    def __init__(self, command: Sequence[str], done: Sequence[str] = ()) -> None:
        """command: of the process that leads the group. It ends when its standard input does, and gets a folder as its last
        argument: there it makes a file for each thing that it has done. done: things that nobody need wait for.
        """
        self._command, self._done = list(command), done

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="roofbook-", ignore_cleanup_errors=True)
        for what in self._done:
            Path(self._folder.name, what).touch()
        self._leader = self._start([*self._command, self._folder.name], 0, stdin=subprocess.PIPE)
        self._others: list[subprocess.Popen[bytes]] = []
        os.environ[VARIABLE] = f"{self._leader.pid}:{self._folder.name}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ctrl_c_waits():
            del os.environ[VARIABLE]
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader.pid, signal.SIGKILL)
            for process in (self._leader, *self._others):
                process.wait()
            assert self._leader.stdin
            self._leader.stdin.close()
            self._folder.cleanup()

    def run(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        """Start a process in the group, in silence. Killed with it at the end of the block, unless waited for."""
        process = self._start(command, self._leader.pid, stdin=subprocess.DEVNULL)
        self._others.append(process)
        return process

    def is_leader_alive(self) -> bool:
        """Whether the leader still works. One that has ended is not waited for before the end of the block: until then its
        group is there."""
        return _is_alive(self._leader.pid)

    @staticmethod
    def _start(command: Sequence[str], group: int, **options: Any) -> "subprocess.Popen[bytes]":
        null = subprocess.DEVNULL
        environment = {**os.environ, **parent_environment()}
        return subprocess.Popen(command, stdout=null, stderr=null, process_group=group, env=environment, **options)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """While the block runs, what works beside it rests. Nothing where nothing does."""
    _signal(signal.SIGSTOP)
    try:
        yield
    finally:
        resume()


def resume() -> None:
    """What works beside goes on: also after a process that had stopped it and died."""
    _signal(signal.SIGCONT)


def wait_for(what: str, tell: Callable[[], Any] = lambda: None) -> bool:
    """Wait until the group's leader has done `what`. False where there is no group, or the leader has ended without it."""
    found = _named()
    if not found:
        return False
    leader, folder = found
    while not (folder / what).exists():
        if not _is_alive(leader):
            return False
        tell()
        time.sleep(POLL_S)
    return True


def run_in_background() -> None:
    """For a process of the group: it leaves the processors to whoever measures, and ends where its parent dies.

    All of them: a kernel whose parts run on two cores waits for the later one.
    """
    os.nice(19)
    end_with_parent()


def parent_environment() -> dict[str, str]:
    """What the environment of a process has in it that this one starts, and that is to end with it."""
    return {PARENT: str(os.getpid())}


def end_with_parent(yes: bool = True) -> None:
    """Let the system kill this process where the one that started it dies, even while it is stopped; or no more. On Linux.

    One that has died already is noticed where it had put `parent_environment` into the environment.
    """
    parent = int(os.environ.pop(PARENT, os.getppid()))
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL) if yes else 0)  # 1: PR_SET_PDEATHSIG
    if yes and os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def exists() -> bool:
    """Whether something works beside whoever measures."""
    return _named() is not None


def _named() -> tuple[int, Path] | None:
    group, colon, folder = os.environ.get(VARIABLE, "").partition(":")
    return (int(group), Path(folder)) if colon and group.isdigit() and int(group) > 1 else None


def _signal(number: signal.Signals) -> None:
    if found := _named():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(found[0], number)


def _is_alive(process: int) -> bool:
    """Whether a process runs; one that has died but is not waited for yet does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
