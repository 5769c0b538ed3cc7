"""Process in which a reader's kernel runs: start, requests, and validation of its replies, which may be forged.

Used by answer.py. `RemoteRunnable` and `RemoteLedger` let verify.py and sampling.py measure the kernel by requests.
"""

import json
import math
import os
import pickle
import re
import secrets
import selectors
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..devices import pocl_cpu
from ..paths import LIBRARY, cache_dir
from ..process_tree import PatientClock, ProcessTree, how_ended
from ..spec import registry
from ..spec.plan import Case, Runnable
from .background_group import PARENT, VARIABLE, parent_environment
from .buffer_ledger import BufferLedger
from .frames import LENGTHS, BadFrame, frame_lengths, frame_of, header_of
from .sandbox import Sandbox, package_folders
from .verify import KernelRefused

PASSED_VARIABLES = re.compile(
    r"PATH|LANG|TZ|LD_LIBRARY_PATH|(?:LC|OCL|OPENCL|POCL|PYOPENCL|CUDA|NVIDIA|CUPY|NVRTC|ROOFBOOK|OMP|OPENBLAS|ROCR|HIP|INTEL)_\w+"
)
"""Variables of the environment that a kernel's process inherits: those that a driver may need."""
DROPPED_VARIABLES = ("POCL_CACHE_DIR", "PYOPENCL_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH", PARENT, VARIABLE)
"""Exceptions from PASSED_VARIABLES: folders of compiled code, as the process has its own, and numbers of our processes."""
RESOURCES = {
    "registers": "registers", "spill_bytes": "B spilled", "local_bytes": "B local memory", "private_bytes": "B private memory"
}  # fmt: skip
"""Facts of a kernel by its compiler that a judgement has, and their units in words."""
MOST_OF_RESOURCE = 1 << 40
"""Largest number that such a fact can be."""
MOST_ERROR_BYTES = 4000
"""Bytes at the end of standard error that are kept."""
CHUNK_BYTES = 1 << 20
"""Largest number of bytes of one read or write."""
EMPTY = memoryview(b"")
CLOSING_S = 5.0
"""Seconds in which a process must end after it has closed its pipe."""


class ProcessEnded(KernelRefused):
    """A kernel's process returned no outputs: it ended, hung, or sent an invalid reply."""

    is_out_of_time = False


class KernelProcess:
    """Process for one kernel on one device, with a folder of its own in which it may write."""

    def __init__(self, order: Mapping[str, Any], folder: Path, sandbox: Sandbox, limit_s: float) -> None:
        """limit_s: seconds that each request may take.

        Raises ProcessEnded, or KernelRefused if the device does not open or is not the `model` of the order.
        """
        self.limit_s, self._in_sandbox = limit_s, sandbox.is_used
        self.last_words = b""
        """Last bytes of its standard error."""
        self._tree = self._start(order, folder, sandbox)
        self._received, self._is_over = bytearray(), False
        try:
            self._reply()
        except BaseException:
            self.end()
            raise

    def _start(self, order: Mapping[str, Any], folder: Path, sandbox: Sandbox) -> ProcessTree:
        inner = [sys.executable, "-m", f"{__package__}.answer_worker", json.dumps(order)]
        environment_kept = {name: value for name, value in os.environ.items() if PASSED_VARIABLES.fullmatch(name)}
        environment = {
            **{name: value for name, value in environment_kept.items() if name not in DROPPED_VARIABLES},
            **registry.environment(),
            **({} if sandbox.is_used else parent_environment()),
            "HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "LC_ALL": "C",
            "PYTHONPATH": os.pathsep.join(map(str, (LIBRARY.parent, *package_folders()))), "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        _copy_answers_of_probes(Path(environment["XDG_CACHE_HOME"]))
        pipe = subprocess.PIPE
        tree = ProcessTree(
            sandbox.command(inner, folder), stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder, env=environment
        )
        for stream in _streams(tree):
            os.set_blocking(stream.fileno(), False)
        return tree

    @property
    def has_ended(self) -> bool:
        """Whether it can no longer answer requests."""
        return self._is_over or self._tree.process.poll() is not None

    def ask(self, request: str, payload: Any = None) -> tuple[dict[str, Any], bytes]:
        """Send a request, and return header and bytes of the reply. Raises KernelRefused with its reason, or ProcessEnded."""
        content = b"" if payload is None else pickle.dumps(payload, protocol=5)
        return self._reply(frame_of({"do": request}, content))

    def end(self) -> int:
        """Kill it and all processes that it started. Return its exit code, as Popen has it."""
        self._is_over = True
        code = self._tree.end()
        for stream in _streams(self._tree):
            with suppress(OSError):
                stream.close()
        return code

    def _reply(self, request: bytes = b"") -> tuple[dict[str, Any], bytes]:
        if self._is_over:
            raise ProcessEnded("its process has ended")
        clock = PatientClock(self.limit_s)
        try:
            header_bytes, payload_bytes = frame_lengths(self._exchange(LENGTHS.size, clock, memoryview(request)))
            header = header_of(self._exchange(header_bytes, clock))
            payload = self._exchange(payload_bytes, clock)
        except TimeoutError:
            self.end()
            timeout = ProcessEnded(f"its process did not end within {self.limit_s:g} s")
            timeout.is_out_of_time = True
            raise timeout from None
        except EOFError:
            raise ProcessEnded(self._describe_end()) from None
        except BadFrame as error:
            self.end()
            raise ProcessEnded(f"its process sent an invalid result: {error}") from None
        if "reason" in header:
            raise KernelRefused(str(header["reason"])[:MOST_ERROR_BYTES])
        return header, payload

    def _exchange(self, count: int, clock: PatientClock, request: memoryview = EMPTY) -> bytes:
        """Write a request, and read `count` bytes. Raises TimeoutError, or EOFError if the process ended before."""
        requests, replies, errors = _streams(self._tree)
        with selectors.DefaultSelector() as ready:
            ready.register(replies, selectors.EVENT_READ)
            ready.register(errors, selectors.EVENT_READ)
            if request:
                ready.register(requests, selectors.EVENT_WRITE)
            while len(self._received) < count or request:
                for key, _ in ready.select(clock.slice_s()):
                    if key.fileobj is requests:
                        request = request[_write_some(key.fd, request) :]
                        if not request:
                            ready.unregister(requests)
                    elif part := os.read(key.fd, CHUNK_BYTES):
                        if key.fileobj is replies:
                            self._received += part
                        else:
                            self.last_words = (self.last_words + part)[-MOST_ERROR_BYTES:]
                    elif key.fileobj is replies:
                        raise EOFError
                    else:
                        ready.unregister(errors)
                clock.tick()
                if clock.is_over():
                    raise TimeoutError
        content = bytes(self._received[:count])
        del self._received[:count]
        return content

    def _describe_end(self) -> str:
        """Return how the process ended, after it has closed its pipe."""
        try:
            self._tree.process.wait(CLOSING_S)
        except subprocess.TimeoutExpired:
            self.end()
            return "its process closed its pipe before it had handed over its outputs"
        code = self.end()
        if code > 128 and self._in_sandbox:  # bubblewrap ends with the signal in its exit code
            code = 128 - code
        before_outputs = " before it had handed over its outputs" if code >= 0 else ""
        return f"its process {how_ended(code)}{before_outputs}"


def _copy_answers_of_probes(cache: Path) -> None:
    """Copy what probes told of PoCL into the cache of a process. It would run them again, which takes seconds."""
    for kind in pocl_cpu.CACHED:
        with suppress(OSError):
            shutil.copytree(cache_dir() / kind, cache / cache_dir().name / kind)


def _streams(tree: ProcessTree) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """Return the pipes of a process: requests, replies, errors."""
    process = tree.process
    assert process.stdin and process.stdout and process.stderr
    return process.stdin, process.stdout, process.stderr


def _write_some(descriptor: int, request: memoryview) -> int:
    """Write as much as a pipe takes now, and return the number of bytes. Raises EOFError if nobody reads it."""
    try:
        return os.write(descriptor, request[:CHUNK_BYTES])
    except BlockingIOError:
        return 0
    except OSError:
        raise EOFError from None


class RemoteRunnable(Runnable):
    """Plan in a kernel's process, on inputs that are drawn in secret."""

    def __init__(
        self,
        process: KernelProcess,
        case: Case,
        draw: Callable[[], Mapping[str, Any]],
        *,
        timed: bool = False,
        guarded: bool = True,
    ) -> None:
        """Plan it on inputs and reset it on garbage.

        case: with its units. draw: draws inputs, and remembers them for the check of the next outputs. timed: each run has new
        inputs and an empty cache. guarded: a write before or behind a buffer is noticed.
        """
        self._process, self.units, self._draw, self._timed = process, case.units, draw, timed
        self.are_launches_judged = False
        """Whether launches that the plan itself times are judged in the next run."""
        self.form: Form | None = None
        """Form that its outputs must have; None for any."""
        self._is_fresh = True
        process.ask("plan", (case, draw(), guarded))

    def reset(self) -> None:
        self.renew(garbage=secrets.randbelow(2) == 1)

    def renew(self, *, garbage: bool) -> None:
        """Draw new inputs, and reset it on garbage or on NaN."""
        self._process.ask("renew", (self._draw(), garbage))
        self._is_fresh = True

    def run(self) -> float:
        """Run it, and return the seconds. Raises ProcessEnded for an invalid time."""
        if self._timed and not self._is_fresh:
            self.reset()
        self._is_fresh = False
        header, _ = self._process.ask("run", (self._timed, self.are_launches_judged))
        seconds = header.get("seconds")
        if not isinstance(seconds, float) or not math.isfinite(seconds) or seconds <= 0:
            self._process.end()
            raise ProcessEnded("its process sent an invalid time")
        return seconds

    def outputs(self) -> dict[str, np.ndarray]:
        """Return the outputs of the last run. Raises ProcessEnded for bytes that are no arrays, or arrays of another form."""
        header, content = self._process.ask("outputs")
        try:
            arrays = arrays_of(header.get("arrays"), content)
            if self.form is not None and output_form(arrays) != self.form:
                raise BadFrame("outputs of another form than those of the book's kernel")
            return arrays
        except BadFrame as error:
            self._process.end()
            raise ProcessEnded(f"its process sent an invalid result: {error}") from None

    def resources(self) -> dict[str, int]:
        """Return what the compiler says of the kernel: those of RESOURCES that its process knows, if they are plain numbers."""
        try:
            facts = self._process.ask("facts")[0].get("facts")
        except KernelRefused:
            return {}
        known = facts if isinstance(facts, dict) else {}
        return {
            name: known[name]
            for name in RESOURCES
            if type(known.get(name)) is int and 0 <= known[name] <= MOST_OF_RESOURCE
        }

    def close(self) -> None:
        self._process.ask("close")


Form = dict[str, tuple[np.dtype[Any], tuple[int, ...]]]
"""Type and shape of each output."""


def output_form(arrays: Mapping[str, np.ndarray]) -> Form:
    """Return type and shape of each output."""
    return {name: (array.dtype, array.shape) for name, array in arrays.items()}


def arrays_of(form: Any, content: bytes) -> dict[str, np.ndarray]:
    """Return the arrays in `content`. form: list of [name, type, shape]. Raises BadFrame if the two do not match."""
    arrays: dict[str, np.ndarray] = {}
    start = 0
    if not isinstance(form, list):
        raise BadFrame("no list of arrays")
    for entry in form:
        match entry:
            case [str(name), str(kind), list(shape)] if (
                re.fullmatch(r"<[fiu][248]|\|[iub]1", kind)
                and len(shape) <= 8
                and all(type(side) is int and 0 <= side < 1 << 40 for side in shape)
            ):
                count, dtype = math.prod(shape), np.dtype(kind)
            case _:
                raise BadFrame("an array of no known form")
        if start + count * dtype.itemsize > len(content):
            raise BadFrame("fewer bytes than the arrays have")
        arrays[name] = np.frombuffer(content, dtype, count, start).reshape(shape)
        start += count * dtype.itemsize
    if start != len(content):
        raise BadFrame("more bytes than the arrays have")
    return arrays


class RemoteLedger(BufferLedger):
    """Buffers of a `RemoteRunnable`: each reset draws new inputs in secret, and poisons all buffers but operands."""

    def __init__(self, process: KernelProcess, runnable: RemoteRunnable) -> None:
        super().__init__()
        self._process, self._runnable = process, runnable

    def reset(self, runnable: Runnable, *, change: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        self._runnable.renew(garbage=change is not None or secrets.randbelow(2) == 1)

    def remember_operands(self) -> None:
        """Do nothing: the process remembers operands at each reset."""

    def check_operands(self) -> None:
        self._process.ask("check_operands")

    def check_launches(self) -> None:
        self._process.ask("check_launches")

    @contextmanager
    def exchanged_operands(self, runnable: Runnable) -> Iterator[None]:
        """Give a runnable new inputs, drawn in secret, which it keeps after the block."""
        self.reset(runnable)
        yield

    @contextmanager
    def judging_timed_launches(self, *, poison: bool = True, paired: bool = False) -> Iterator[Callable[[], float]]:
        self._runnable.are_launches_judged = True
        try:
            yield lambda: 0.0  # the runnable's own seconds are without it
        finally:
            self._runnable.are_launches_judged = False
