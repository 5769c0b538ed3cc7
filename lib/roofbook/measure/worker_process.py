"""Processes of this library that take orders and report, one line of JSON each, and that a kernel may break.

A kernel shares its process with the code that reports, so each message is checked before it is used.
"""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import own_python
from ..peers import threads
from ..process_tree import BadLine, Lines, ProcessTree, how_ended
from ..spec import registry
from . import background_group, messages
from .checked_runnable import plain_text

GRACE_S = 10.0
"""Seconds in which a process must save its samples after Ctrl-C."""
POISONED = 70
"""Exit code of a process whose device no longer works."""
MOST_ERROR_BYTES = 1 << 16
"""Bytes at the end of standard error in which the last message is looked for."""


class WorkerFailed(Exception):
    """A process ended, hung or sent an invalid message; the text says which in a few words, such as `crashed by SIGSEGV`."""

    def __init__(self, reason: str, *, hung: bool = False) -> None:
        """hung: whether it did not answer in time."""
        super().__init__(reason)
        self.hung = hung


class WorkerProcess:
    """Process that works when it receives an order, with all processes that it starts."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        *,
        own_session: bool = True,
        line_bytes: int = Lines.MOST_BYTES,
    ) -> None:
        """folder, environment: of the process; by default this process's folder, and what it needs to find the same labs.

        own_session: see `ProcessTree`. line_bytes: largest size of a message.
        """
        environment = registry.environment() if environment is None else environment
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self.tree = ProcessTree(
            command, grace_s=GRACE_S + 2.0, own_session=own_session,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._complaints, cwd=folder,
            env={**threads.QUIET, **own_python.environment(), **background_group.parent_environment(), **environment},
        )  # fmt: skip
        self.process = self.tree.process
        assert self.process.stdout
        self._lines = Lines(self.process.stdout, line_bytes)

    def tell(self, order: Mapping[str, Any]) -> None:
        """Send an order. Ignored if the process has died: `receive` notices that."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self, limit_s: float | None, *shapes: Mapping[str, messages.Shape]) -> dict[str, Any]:
        """Return the next message, with its texts on one line each. Raises WorkerFailed.

        limit_s: seconds to wait; None for ever. shapes: those that it may have, see `messages`; any object without one.
        """
        try:
            if not (line := self._lines.next(limit_s)):
                raise WorkerFailed(self._describe_end())
            message = messages.parse(line)
            if not shapes:
                return message
            message = messages.expect(message, *shapes)
        except TimeoutError:
            raise WorkerFailed(f"did not answer for {limit_s:.0f} s", hung=True) from None
        except (messages.BadMessage, BadLine) as bad:
            raise WorkerFailed(f"sent an invalid message: {bad}") from None
        return {name: plain_text(value) if isinstance(value, str) else value for name, value in message.items()}

    def _describe_end(self) -> str:
        """Return why the process ended, with the last line of its standard error."""
        code = self.process.wait()
        if code == POISONED:
            return "left the device in an error that it does not leave"
        self._complaints.seek(0, os.SEEK_END)
        self._complaints.seek(max(0, self._complaints.tell() - MOST_ERROR_BYTES))
        lines = [line.strip() for line in self._complaints.read().decode(errors="replace").splitlines() if line.strip()]
        return how_ended(code) + (f" ({plain_text(lines[-1][:200])})" if lines else "")

    def interrupt(self) -> None:
        """Interrupt the process, so that it saves its samples and ends; wait GRACE_S seconds for that."""
        self.tree.interrupt()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_S)

    def kill(self) -> None:
        """Kill the process, if it has not ended, and all processes that it started. Another thread may be in `receive`."""
        self.tree.end()

    def end(self) -> None:
        """Kill the process and all processes that it started, and close its pipes."""
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self._complaints):
            assert pipe
            with contextlib.suppress(BrokenPipeError):  # for an order that it did not read
                pipe.close()
