"""Ctrl-C, SIGTERM and SIGHUP: they end a command by KeyboardInterrupt, at a moment when nothing is lost."""

import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

REPEAT_S = 1.0
"""Seconds after which a KeyboardInterrupt is raised again if a library has dropped it."""


@contextmanager
def plain_ctrl_c() -> Iterator[None]:
    """Have Ctrl-C, SIGTERM and SIGHUP leave the block as KeyboardInterrupt, without further messages.

    Click and the import of an extension module make another error of it, as does what fails on its way out. Python notes an
    interrupt that came through code of a string, as dataclasses are made by; `python -m` would then end by the signal whatever
    the exit code. Other code of a string takes the note back. And objects of libraries that were left half made complain when
    they are thrown away, as do coroutines that nobody awaits any more.
    """
    try:
        with _repeated_until_it_arrives():
            yield
    except (KeyboardInterrupt, Exception) as error:
        if not is_ctrl_c(error):
            raise
        sys.unraisablehook = lambda _: None
        warnings.simplefilter("ignore")
        exec("")
        raise KeyboardInterrupt from error


@contextmanager
def _repeated_until_it_arrives() -> Iterator[None]:
    """Have these signals raise KeyboardInterrupt in the block, and again every REPEAT_S seconds until it leaves the block.

    An error in a destructor, in a callback of a weak reference, or in Python code that an extension module calls may be dropped
    by the code around it. Nothing is raised while KeyboardInterrupt is on its way: what tidies up is not interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in _numbers("SIGINT", "SIGTERM", "SIGHUP")}
    # `nohup` ignores SIGHUP, and a shell's background job SIGINT: they stay ignored
    taken = [number for number in handlers if handlers[number] in (signal.SIG_DFL, signal.default_int_handler)]
    alarm = _Alarm()

    def begin(number: int, frame: FrameType | None) -> None:
        alarm.start()
        raise KeyboardInterrupt

    for number in taken:
        signal.signal(number, begin)
    try:
        yield
    finally:
        alarm.end()
        for number in taken:
            signal.signal(number, handlers[number])


class _Alarm:
    """The system's timer, which raises KeyboardInterrupt every REPEAT_S seconds once it has started."""

    def __init__(self) -> None:
        self._previous: tuple[Any, tuple[float, float]] | None = None

    def start(self) -> None:
        """Start it, or start it anew. Ignored on a system without SIGALRM."""
        if hasattr(signal, "SIGALRM"):
            handler = signal.signal(signal.SIGALRM, _raise_again)
            timer = signal.setitimer(signal.ITIMER_REAL, REPEAT_S, REPEAT_S)
            self._previous = self._previous or (handler, timer)

    def end(self) -> None:
        """Stop it, if it has started, and give the timer back to whoever used it before."""
        if self._previous:
            handler, timer = self._previous
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, *timer)


def _raise_again(number: int, frame: FrameType | None) -> None:
    error = sys.exc_info()[1]
    if error is None or not is_ctrl_c(error):
        raise KeyboardInterrupt


def accept_ctrl_c() -> None:
    """Have the last Ctrl-C count as arrived: the caller has caught its KeyboardInterrupt and goes on."""
    if hasattr(signal, "SIGALRM") and signal.getsignal(signal.SIGALRM) is _raise_again:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, or was caused by it.

    >>> is_ctrl_c(OSError()), is_ctrl_c(KeyboardInterrupt())
    (False, True)
    """
    chain: list[BaseException] = [error]
    for link in chain:  # grows in the loop; errors may name one another
        chain += [cause for cause in (link.__cause__, link.__context__) if cause and cause not in chain]
    return any(isinstance(link, KeyboardInterrupt) for link in chain)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C, SIGTERM and SIGHUP to the end of the block.

    While a process starts, nobody could end it yet. A module by nanobind, such as duckdb or pyopencl, aborts Python where its
    import is interrupted, or loses the interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _numbers("SIGINT", "SIGTERM", "SIGHUP")}
    held = [number for number, handler in handlers.items() if callable(handler)]  # an ignored one stays ignored
    if hasattr(signal, "SIGALRM") and signal.getsignal(signal.SIGALRM) is _raise_again:
        handlers[signal.SIGALRM] = _raise_again
        held.append(signal.SIGALRM)
    for number in held:
        signal.signal(number, lambda which, _: came.append(which))
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, handlers[number])
        if came:
            signal.raise_signal(came[0])


def _numbers(*names: str) -> list[int]:
    """Return the numbers of the signals that this system has."""
    return [getattr(signal, name) for name in names if hasattr(signal, name)]
