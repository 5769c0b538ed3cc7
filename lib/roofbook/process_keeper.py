"""Runs a program and ends with it all that it started: `python -I -S process_keeper.py PARENT GRACE_S COMMAND...`.

Serves process_tree.py, which starts it between itself and each program. On Linux whatever loses its parent becomes a child of
this process, so no descendant is out of reach, not one with a session of its own either. It ends as the program ended: with its
exit code, or by its signal. It imports nothing but Python's own modules, and runs no code between two signals.

SIGTERM, or the death of PARENT, kills all; after a death the program has GRACE_S seconds to end by itself. SIGINT is passed on
to the program, SIGTSTP and SIGCONT stop and continue all.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Iterable

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PARENT_DIED = signal.SIGUSR1
ORDERS = {
    signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT, PARENT_DIED,
}  # fmt: skip
NOT_FOUND = 127
"""Exit code for a command that could not be started, as a shell has it."""
ENDING_S = 10.0
"""Seconds after which a process that does not die, such as one in the midst of a driver's call, is left alone."""


def main(parent: int, grace_s: float, command: list[str]) -> int:
    """Run the command. Returns its status, as `os.waitpid` has it."""
    libc = ctypes.CDLL(None)
    signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    libc.prctl(PR_SET_PDEATHSIG, int(PARENT_DIED))
    if os.getppid() != parent:
        return signal.SIGKILL
    program = os.fork()
    if program == 0:
        libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ORDERS)
        _become(command)
    until = float("inf")
    while True:
        left = until - time.monotonic()
        order = signal.sigtimedwait(ORDERS, max(0.0, left)) if left < 1e9 else signal.sigwaitinfo(ORDERS)
        if order is None or order.si_signo == signal.SIGTERM:
            return signal.SIGKILL
        if order.si_signo == signal.SIGCHLD:
            if (status := _reaped(program)) is not None:
                return status
        elif order.si_signo == PARENT_DIED:
            if os.getppid() != parent:  # else a thread of it ended
                until = min(until, time.monotonic() + grace_s)
                _signal([program], signal.SIGCONT)
        elif order.si_signo == signal.SIGINT:
            _signal([program], signal.SIGINT)
        elif order.si_signo == signal.SIGTSTP:
            _stop_all()
        elif order.si_signo == signal.SIGCONT:
            _signal(descendants(os.getpid()), signal.SIGCONT)


def _become(command: list[str]) -> None:
    """Replace this process by the program; it names this process as the one that started it."""
    environment = dict(os.environ)
    if "ROOFBOOK_PARENT" in environment:  # background_group.PARENT
        environment["ROOFBOOK_PARENT"] = str(os.getppid())
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment)
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
    finally:
        os._exit(NOT_FOUND)


def _reaped(program: int) -> int | None:
    """Take note of children that have ended. Returns the status of the program if it is one of them."""
    code = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                code = ended[1]
    return code


def end_all() -> None:
    """Kill all descendants of this process, also those that they start meanwhile."""
    until = time.monotonic() + ENDING_S
    while time.monotonic() < until:
        _reaped(0)
        alive = descendants(os.getpid())
        if not alive:
            return
        _signal(alive, signal.SIGKILL)
        time.sleep(0.002)


def _stop_all() -> None:
    """Stop all descendants of this process, also those that they start meanwhile."""
    stopped: set[int] = set()
    while running := set(descendants(os.getpid())) - stopped:
        _signal(running, signal.SIGSTOP)
        stopped |= running


def descendants(ancestor: int) -> list[int]:
    """Return the numbers of all processes that descend from a process, as /proc has them now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    family = list(children.get(ancestor, []))
    for member in family:  # grows meanwhile
        family += children.get(member, [])
    return family


def _signal(processes: Iterable[int], number: int) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def end_as(status: int) -> None:
    """End this process as one of that status ended."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the program has left its core, if any
        with contextlib.suppress(OSError, ValueError):  # SIGKILL takes no handler
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    ended = main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
    end_all()
    end_as(ended)
