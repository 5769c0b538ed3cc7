"""Programs that end with everything they started: measuring processes, and tools such as compilers and profilers.

A program that runs a stranger's kernel may fork, start programs with sessions of their own, hold a pipe open, or never end.
So a keeper stands between it and us, process_keeper.py. It kills all descendants when the program ends, when we say so, and
when this process dies, by kill -9 too.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO, Any

from . import process_keeper

ORDERS = process_keeper.ORDERS - {signal.SIGCHLD}
PYTHON, KEEPER = sys.executable, Path(process_keeper.__file__)
ENDING_S = 15.0
"""Seconds that a keeper has to kill its processes, before it is killed itself."""
MOST_OUTPUT = 32 << 20
"""Bytes of a tool's output that are kept, of either stream; more is read and thrown away."""


def name_of_signal(number: int) -> str:
    """Return the name of a signal: `SIGSEGV`, `SIGRTMIN+6`, or `signal 32` for one without a name.

    >>> name_of_signal(11), name_of_signal(32)
    ('SIGSEGV', 'signal 32')
    """
    try:
        return signal.Signals(number).name
    except ValueError:
        is_real_time = signal.SIGRTMIN < number < signal.SIGRTMAX
        return f"SIGRTMIN+{number - signal.SIGRTMIN}" if is_real_time else f"signal {number}"


def how_ended(code: int) -> str:
    """Say how a process ended, by its `returncode`: `crashed by SIGSEGV`, `ended with exit code 3`."""
    return f"crashed by {name_of_signal(-code)}" if code < 0 else f"ended with exit code {code}"


class ProcessTree:
    """A program and all processes that descend from it."""

    def __init__(
        self, command: Sequence[str], *, grace_s: float = 0.0, own_session: bool = True, **options: Any
    ) -> None:
        """Start the program. A command that cannot be started ends with exit code 127 and a line on standard error.

        grace_s: seconds that the program has to end by itself where this process dies. own_session: False to stay in the
        process group of this process, so that a signal to the group is one to the program. options: those of
        `subprocess.Popen`.
        """
        keeper = [PYTHON, "-I", "-S", str(KEEPER), str(os.getpid()), str(grace_s)]
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ORDERS)  # or the keeper would lose an order while it starts
        try:
            self.process: subprocess.Popen[bytes] = subprocess.Popen(
                [*keeper, *command], start_new_session=own_session, **options
            )
            """The keeper. It has the program's streams, and ends as the program ended once all else has."""
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._own_session = own_session
        self._is_paused = False

    def interrupt(self) -> None:
        """Send Ctrl-C to the program."""
        self._send(signal.SIGINT)

    def pause(self) -> None:
        """Stop all processes of the tree until `resume`."""
        if not self._is_paused:
            self._is_paused = True
            self._send(signal.SIGTSTP)

    def resume(self) -> None:
        """Let all processes of the tree go on."""
        if self._is_paused:
            self._is_paused = False
            self._send(signal.SIGCONT)

    def end(self) -> int:
        """Kill all processes that still run. Return the exit code of the program, as Popen does."""
        self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)
        try:
            self.process.wait(ENDING_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._own_session:  # where the keeper was killed, its group is still there
                os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()

    def _send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


@dataclass(frozen=True)
class ToolRun:
    """Output of a tool, and the way it ended."""

    code: int
    """Its exit code; negative for the signal that killed it."""
    output: str
    """Standard output; with `together`, both streams."""
    errors: str = ""
    """Standard error."""
    out_of_time: bool = False
    """Whether it was killed because it did not end in time."""
    is_cut: bool = False
    """Whether it printed more than MOST_OUTPUT, so that the end of its output is missing."""

    def last_words(self) -> str:
        """Return the last line of its errors, or else of its output; `no message` if it printed nothing."""
        lines = [line.strip() for line in (self.errors.strip() or self.output).splitlines() if line.strip()]
        return lines[-1][:200] if lines else "no message"


def run_tool(
    command: Sequence[str],
    *,
    limit_s: float,
    env: Mapping[str, str] | None = None,
    together: bool = False,
    mark: bytes | None = None,
    stop: threading.Event | None = None,
) -> ToolRun:
    """Run a tool to its end, with everything that it starts, and return its output.

    limit_s: seconds that it may take, or take since it printed `mark` last. together: standard error is part of the output.
    stop: ends it as if it were out of time.
    """
    outputs = [bytearray(), bytearray()]
    tree = ProcessTree(
        command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if together else subprocess.PIPE,
    )  # fmt: skip
    pipes = [pipe for pipe in (tree.process.stdout, tree.process.stderr) if pipe]
    out_of_time, is_cut, code = False, False, None
    try:
        with selectors.DefaultSelector() as ready:
            for pipe, text in zip(pipes, outputs, strict=False):
                ready.register(pipe, selectors.EVENT_READ, text)
            clock = PatientClock(limit_s)
            while ready.get_map() and not out_of_time:
                for key, _ in ready.select(clock.slice_s()):
                    part = os.read(key.fd, 1 << 16)
                    if not part:
                        ready.unregister(key.fileobj)
                    elif len(key.data) < MOST_OUTPUT:
                        tail = max(0, len(key.data) - len(mark or b""))
                        key.data.extend(part)
                        if mark and mark in key.data[tail:]:
                            clock.restart()
                    else:
                        is_cut = True
                clock.tick()
                out_of_time = clock.is_over() or (stop is not None and stop.is_set())
        if not out_of_time:
            code = tree.process.wait()
    finally:
        ended = tree.end()
        for pipe in pipes:
            pipe.close()
    output, errors = (bytes(text).decode(errors="replace") for text in outputs)
    return ToolRun(ended if code is None else code, output, errors, out_of_time, is_cut)


class PatientClock:
    """Counts seconds in which this process was awake: a machine that slept, or a stopped process, has lost no time."""

    SLICE_S = 1.0

    def __init__(self, limit_s: float | None) -> None:
        """limit_s: None for a clock that never runs out."""
        self.limit_s = limit_s
        self.restart()

    def restart(self) -> None:
        """Begin to count from zero."""
        self.spent_s, self._last = 0.0, monotonic()

    def slice_s(self) -> float:
        """Return the seconds to wait before the next `tick`."""
        return self.SLICE_S if self.limit_s is None else min(self.SLICE_S, max(0.0, self.limit_s - self.spent_s))

    def tick(self) -> None:
        """Count the time since the last tick, a slice at most."""
        now = monotonic()
        self.spent_s += min(now - self._last, self.SLICE_S)
        self._last = now

    def is_over(self) -> bool:
        """Whether the limit is reached."""
        return self.limit_s is not None and self.spent_s >= self.limit_s


class BadLine(Exception):
    """Data in a pipe without a line end within a sensible length."""


class Lines:
    """Lines of a pipe, each waited for so long and no longer."""

    MOST_BYTES = 1 << 20
    """Bytes of a line."""

    def __init__(self, pipe: IO[bytes], most_bytes: int = MOST_BYTES) -> None:
        """most_bytes: largest size of a line."""
        self.pipe, self.held, self.most_bytes = pipe, b"", most_bytes
        self.ready = selectors.DefaultSelector()
        self.ready.register(pipe, selectors.EVENT_READ)

    def next(self, seconds: float | None) -> bytes:
        """Return the next line; empty at the end. Raises TimeoutError, and BadLine for one without an end."""
        clock = PatientClock(seconds)
        while b"\n" not in self.held:
            if len(self.held) > self.most_bytes:
                raise BadLine(f"a line of more than {self.most_bytes} bytes")
            if not self.ready.select(clock.slice_s()):  # a signal may come to another thread
                clock.tick()
                if clock.is_over():
                    raise TimeoutError
                continue
            clock.tick()
            part = os.read(self.pipe.fileno(), 1 << 16)
            if not part:
                return b""
            self.held += part
        line, _, self.held = self.held.partition(b"\n")
        return line
