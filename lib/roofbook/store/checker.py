"""Client of the process that checks Parquet files (file_check.py): it sends a file's bytes and gets the checked rows.

One checking process serves all files that this process reads. It starts with the first unchecked file, and again if a file
killed it. Serves row_cache.py, transfer.py and readers of other Parquet files.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from .. import own_python
from ..ctrl_c import ctrl_c_waits
from ..process_tree import name_of_signal
from .file_check import CPU_S, FACTS, Facts, checked_schema

if TYPE_CHECKING:
    import pyarrow as pa

WALL_S = 20.0 * CPU_S
"""Seconds to wait for an answer: much more than the limit of CPU time, since the machine may be busy."""
_VARIABLES = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", own_python.PACKAGES),
)
"""Environment variables that the checking process gets: none holds credentials."""


class CheckedFile(NamedTuple):
    """Valid rows of a file, and facts on the file."""

    rows: "pa.Table"
    facts: Facts
    lasting: bool = True
    """Whether another check would give the same: False if something other than the file may have ended the process."""


def check_file(data: bytes) -> CheckedFile:
    """Return the rows of a Parquet file that keep the rules of row_rules.py. No file can harm this process."""
    return _checker(os.getpid()).check(data)


@cache
def _checker(process: int) -> "_Checker":
    """Return the checker of the process with this id: a forked process starts its own."""
    return _Checker()


class _Checker:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def check(self, data: bytes) -> CheckedFile:
        import pyarrow as pa

        with self._lock:
            try:
                answer = self._ask(data)
            except BaseException:  # such as Ctrl-C: otherwise the next caller would get this answer
                self._end()
                raise
        if isinstance(answer, CheckedFile):
            return answer
        with pa.ipc.open_stream(answer) as stream:
            table = stream.read_all()
        return CheckedFile(table.replace_schema_metadata(), Facts.of_json(table.schema.metadata[FACTS]))

    def _ask(self, data: bytes) -> "bytes | CheckedFile":
        """Return the answer as an Arrow stream, or a CheckedFile without rows if the process died or is late."""
        process = self._started()
        assert process.stdin and process.stdout
        deadline = time.monotonic() + WALL_S
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"%d\n" % len(data))
            process.stdin.write(data)
            process.stdin.flush()
        if (head := self._read(8, deadline)) is not None:
            answer = self._read(int.from_bytes(head, "little"), deadline)
            if answer is not None:
                return answer
        is_late = process.poll() is None and time.monotonic() >= deadline
        self._end()
        return _fault_of(signal.SIGPROF if is_late else -(process.returncode or 0), lasting=not is_late)

    def _read(self, size: int, deadline: float) -> bytes | None:
        """Return `size` bytes of the answer; None if it ends earlier or the deadline passes."""
        assert self._process and self._process.stdout
        parts, left = list[bytes](), size
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while left:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), min(left, 1 << 20))
                if not part:
                    self._process.wait()
                    return None
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def _started(self) -> "subprocess.Popen[bytes]":
        """Return the checking process, started if it does not run."""
        if self._process and self._process.poll() is None:
            return self._process
        self._end()
        environment = {name: value for name in _VARIABLES if (value := os.environ.get(name)) is not None}
        environment = own_python.environment(environment)
        environment |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"), "1")
        with ctrl_c_waits():  # otherwise self._process might stay None, and nobody would end the process
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.file_check"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=-1,
                env=environment, cwd="/", start_new_session=True,
            )  # fmt: skip
        return self._process

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if pipe:
                    pipe.close()


def _fault_of(number: int, lasting: bool) -> CheckedFile:
    """Return a CheckedFile without rows for a file whose check was ended by a signal. number: the signal, 0 for an exit."""
    empty = checked_schema().empty_table()
    if number == signal.SIGPROF:
        return CheckedFile(empty, Facts(f"to check it takes more than {CPU_S} s"), lasting)
    cause = name_of_signal(number) if number > 0 else "an error"
    lasting = number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    return CheckedFile(empty, Facts(f"the process that read it was ended by {cause}"), lasting)
