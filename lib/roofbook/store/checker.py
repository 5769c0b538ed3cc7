"""The process that checks Parquet files (file_check.py), as seen by who reads a store: bytes go there, checked rows come back.

One serves all files that this process reads. It is started for the first file that nobody has checked before, and another one
where a file ended it. Serves row_cache.py, copying.py and whoever reads Parquet files from elsewhere.
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
from ..errors import ctrl_c_waits
from ..process_tree import name_of_signal
from .file_check import CPU_S, FACTS, Facts, checked_schema

if TYPE_CHECKING:
    import pyarrow as pa

WALL_S = 20.0 * CPU_S
"""Seconds after which an answer is not waited for any more: a machine may be busy, but not so busy."""
_PASSED_ON = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH"),
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", own_python.PACKAGES),
)
"""Variables of the environment that the process gets: no credentials are among them."""


class CheckedFile(NamedTuple):
    """What a file holds that may count, and what there is to say of it."""

    rows: "pa.Table"
    facts: Facts
    lasting: bool = True
    """Whether the same file would give the same again: not where something else may have ended the process."""


def check_file(data: bytes) -> CheckedFile:
    """Return the rows of a Parquet file that hold what rows of the store may hold. Whatever it is, nothing happens to us."""
    return _checker(os.getpid()).check(data)


@cache
def _checker(process: int) -> "_Checker":
    """The one of a process: a fork of it has another."""
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
            except BaseException:  # such as Ctrl-C: the answer would come to who asks next
                self._end()
                raise
        if isinstance(answer, CheckedFile):
            return answer
        with pa.ipc.open_stream(answer) as stream:
            table = stream.read_all()
        return CheckedFile(table.replace_schema_metadata(), Facts.of_json(table.schema.metadata[FACTS]))

    def _ask(self, data: bytes) -> "bytes | CheckedFile":
        """The answer as an Arrow stream; or a fault, where there is none."""
        process = self._started()
        assert process.stdin and process.stdout
        until = time.monotonic() + WALL_S
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(b"%d\n" % len(data))
            process.stdin.write(data)
            process.stdin.flush()
        if (head := self._read(8, until)) is not None:
            answer = self._read(int.from_bytes(head, "little"), until)
            if answer is not None:
                return answer
        late = process.poll() is None and time.monotonic() >= until
        self._end()
        return _fault_of(signal.SIGPROF if late else -(process.returncode or 0), lasting=not late)

    def _read(self, size: int, until: float) -> bytes | None:
        """So many bytes of the answer; None where it ends before, or does not come."""
        assert self._process and self._process.stdout
        parts, left = list[bytes](), size
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while left:
                if not selector.select(max(0.0, until - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), min(left, 1 << 20))
                if not part:
                    self._process.wait()
                    return None
                parts.append(part)
                left -= len(part)
        return b"".join(parts)

    def _started(self) -> "subprocess.Popen[bytes]":
        if self._process and self._process.poll() is None:
            return self._process
        self._end()
        environment = {name: value for name in _PASSED_ON if (value := os.environ.get(name)) is not None}
        environment = own_python.environment(environment)
        environment |= {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1"}
        environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "ARROW_IO_THREADS"), "1")
        with ctrl_c_waits():  # else nobody could end it
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
    """What to say of a file at which the process ended by this signal."""
    empty = checked_schema().empty_table()
    if number == signal.SIGPROF:
        return CheckedFile(empty, Facts(f"to check it takes more than {CPU_S} s"), lasting)
    named = name_of_signal(number) if number > 0 else "an error"
    lasting = number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
    return CheckedFile(empty, Facts(f"the process that read it was ended by {named}"), lasting)
