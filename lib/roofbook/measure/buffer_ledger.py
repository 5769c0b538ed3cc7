"""Ledger of a plan's device buffers, so that no leftovers of a launch can help the next one.

A plan defines how its outputs are reset. The ledger watches the plan and sorts its buffers into four kinds:

operand: filled with data by the host while the plan is made, and not by its reset. No kernel may change it.
cleared: filled with zeros by the host while the plan is made, such as the counters of a barrier. The ledger leaves it alone.
scratch: never filled by the host. Before a verified run each byte is set to 255, which is a NaN or -1.
restored: filled by reset, such as an output with NaN.

Used by verify and sampling. Buffers of libraries, such as PyTorch's tensors, are not watched.
"""

import hashlib
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.contract import Buffer, Device, Queue, observed_by
from ..spec.bands import by_bands
from ..spec.plan import Runnable

POISON = 0xFF
"""Byte that fills scratch buffers: it makes a NaN in each floating-point type, and -1 in each integer type."""
CLOSE = 1e-3
"""Allowed relative difference of two launches on the same operands: the order of atomic sums differs."""
MOST_SNAPSHOT_BYTES = 1 << 32
"""Largest number of bytes that a snapshot copies to the host."""
GUARD = 4096
"""Bytes before and behind each buffer of a guarded ledger, full of NaNs."""
_CHUNK = 1 << 26
"""Bytes of a buffer that one read copies."""
_PIECE = 1 << 18
"""Elements that are compared, reordered or read from a device at once."""


class OperandChanged(Exception):
    """A kernel wrote into an operand, which it may only read."""


class TimedLaunchDiffers(Exception):
    """A timed launch left other results than the launch before it."""


class LeftBuffer(Exception):
    """A kernel wrote before the start of a buffer, or behind its end."""


@dataclass(eq=False)
class _BufferRecord:
    """State of one buffer of a plan."""

    device: Device
    buffer: Buffer
    allocation: Buffer
    """Buffer with its guards; the buffer itself if it has none."""
    guard: np.ndarray | None = None
    """Contents of each guard."""
    filled_by_plan: bool = False
    """Whether the host or a kernel filled it while the plan was made."""
    holds_data: bool = False
    """Whether the host filled it with other numbers than zeros: it is an operand if reset leaves it alone."""
    dtype: np.dtype[Any] | None = None
    """Type of the array that filled all of it."""
    filled_by_reset: bool = False
    released: bool = False


@dataclass
class Snapshot:
    """Copies of the contents of a runnable's buffers and host arrays."""

    buffers: list[tuple[_BufferRecord, np.ndarray]]
    arrays: list[tuple[Any, Any, np.ndarray]]
    """(container, key in it, copy) of each host array."""

    def restore(self) -> None:
        """Write the copies back."""
        for record, copied in self.buffers:
            if not record.released:
                record.device.queue().write(record.buffer, copied)
        for container, key, copied in self.arrays:
            array = container[key]
            if isinstance(array, np.ndarray) and array.shape == copied.shape:
                array[...] = copied


class BufferLedger:
    """Device buffers of one runnable.

    guarded: put GUARD bytes before and behind each buffer, so that a write there is detected, and a read finds no zeros.
    """

    def __init__(self, *, guarded: bool = False) -> None:
        self.guard_bytes = GUARD if guarded else 0
        self._records: dict[int, _BufferRecord] = {}
        self._queues: list[Queue] = []
        self.builds: list[tuple[str, tuple[str, ...]]] = []
        """Texts that the plan has compiled, with their options."""
        self._digests: dict[int, bytes] | None = None
        self._timed_launch_differs = False
        self._noting = self._resetting = False

    def plan(self, make: Callable[[], Runnable]) -> Runnable:
        """Make a runnable by `make`, and enter its buffers into this ledger."""
        self._noting = True
        try:
            with observed_by(self), ExitStack() as watched:
                self._watched = watched
                return make()
        finally:
            self._noting = False

    def reset(self, runnable: Runnable, *, change: Callable[[np.ndarray], np.ndarray] | None = None) -> None:
        """Reset a runnable, and poison its scratch. change: maps each array that reset writes to the one written instead."""
        self._noting = self._resetting = True
        try:
            with self._watching(change):
                runnable.reset()
        finally:
            self._noting = self._resetting = False
        for record in self._live():
            if not (record.filled_by_plan or record.filled_by_reset):
                record.device.queue().fill(record.buffer, POISON)

    def remember_operands(self) -> None:
        """Record the digest of each operand before any run. Later calls do nothing."""
        if self._digests is None:
            self._digests = {key: self._digest(record) for key, record in self._operands().items()}

    def check(self) -> None:
        """Raise the error of `check_guards`, `check_launches` or `check_operands`."""
        self.check_guards()
        self.check_launches()
        self.check_operands()

    def check_launches(self) -> None:
        """Raise TimedLaunchDiffers if a block of `judging_timed_launches` saw other results than before."""
        if self._timed_launch_differs:
            raise TimedLaunchDiffers("the launches that are timed do not compute what the launches before them did")

    def check_operands(self) -> None:
        """Raise OperandChanged if an operand is not as before the first run."""
        hooks = self._digests or {}
        operands = self._operands()
        for number, (key, record) in enumerate(operands.items(), 1):
            if key in hooks and self._digest(record) != hooks[key]:
                raise OperandChanged(
                    f"it changed operand {number} of {len(operands)} ({record.buffer.nbytes} bytes), which it may only read"
                )

    def check_guards(self) -> None:
        """Raise LeftBuffer if a kernel wrote before the start of a buffer, or behind its end."""
        for record in [record for record in self._live() if record.guard is not None]:
            with observed_by(None):
                queue = record.device.queue()
            for place, start in (("before the start", 0), ("behind the end", self.guard_bytes + record.buffer.nbytes)):
                guard = queue.read(record.allocation, np.empty(self.guard_bytes, np.uint8), start)
                if (guard != record.guard).any():
                    raise LeftBuffer(f"it wrote {place} of a buffer of {record.buffer.nbytes} bytes")

    def take_operands(self, source_ledger: "BufferLedger") -> None:
        """Copy the operands of another ledger, of the same plan on other inputs, into those of this one.

        Call it after a reset, which distinguishes operands from outputs. The digests are dropped. Raises ValueError if the
        sizes of the buffers differ.
        """
        records, source_records = list(self._records.values()), list(source_ledger._records.values())
        if [record.buffer.nbytes for record in records] != [record.buffer.nbytes for record in source_records]:
            raise ValueError("on other inputs the plan has buffers of other sizes")
        for record, source in zip(records, source_records, strict=True):
            if (record.holds_data or source.holds_data) and not record.filled_by_reset and not record.released:
                record.holds_data = source.holds_data
                queue = record.device.queue()
                queue.copy(record.buffer, source.buffer)
                queue.finish()
        self._digests = None

    @contextmanager
    def exchanged_operands(self, runnable: Runnable) -> Iterator[None]:
        """Give a runnable other operands in this block: the floating-point numbers of each, in another order.

        Inputs that its reset restores are reordered in the same way, so the runnable is reset here. Indices, pointers and
        masks stay as they are. The operands are restored after the block.
        """
        reordered = list[_BufferRecord]()
        try:
            for record in self._operands().values():
                if record.dtype is not None and record.dtype.kind == "f":
                    reordered.append(record)
                    _rewrite_pieces(record, _reordered)
            self.reset(runnable, change=_reordered_array)
            yield
        finally:
            for record in reordered:
                _rewrite_pieces(record, _in_first_order)

    def snapshot(self, runnable: Runnable) -> "Snapshot | None":
        """Return a snapshot of the runnable's buffers, except operands, and of its host arrays.

        None if it would exceed MOST_SNAPSHOT_BYTES.
        """
        operands = self._operands()
        records = [record for key, record in self._records.items() if key not in operands and not record.released]
        arrays = list(_arrays(vars(runnable)))
        sizes = [record.buffer.nbytes for record in records] + [container[key].nbytes for container, key in arrays]
        if sum(sizes) > MOST_SNAPSHOT_BYTES:
            return None
        contents = [
            record.device.queue().read(record.buffer, np.empty(record.buffer.nbytes, np.uint8), 0) for record in records
        ]
        copies = [(container, key, container[key].copy()) for container, key in arrays]
        return Snapshot(list(zip(records, contents, strict=True)), copies)

    @contextmanager
    def judging_timed_launches(self, *, poison: bool = True, paired: bool = False) -> Iterator[Callable[[], float]]:
        """Watch, in this block, timed launches that repeat launches whose results the plan has read.

        The results are poisoned before the timed launches, which must compute them again: `check_launches` raises if not. A
        buffer that the plan has cleared in between stays clear: a kernel may add to zeros.
        Yields a function that returns the seconds that the watching took so far. poison: False to leave the results. paired:
        write them twice, poisoned or not, so that the times of two such blocks can be compared.
        """
        watch = _LaunchWatch(poison, paired)
        with ExitStack() as watched:
            watched.callback(watch.end)
            for queue in self._queues:
                watched.enter_context(watch.over(queue))
            yield lambda: watch.seconds
        self._timed_launch_differs |= watch.differs

    # -- what devices and queues report ---------------------------------------------------------------------------------

    def notice_build(self, device: Device, text: str, options: Sequence[str]) -> None:
        """Record a text that the plan has compiled, with its options."""
        self.builds.append((text, tuple(options)))

    def notice_buffer(self, device: Device, buffer: Buffer, guarded: Buffer) -> None:
        """Enter a new buffer of the plan, and fill its guards."""
        record = self._records[id(buffer)] = _BufferRecord(device, buffer, guarded)
        if guarded is not buffer:
            with observed_by(None):
                queue = device.queue()
            # NaNs, different for each buffer, so that copies from one guard to another are detected.
            number = POISON - len(self._records) % 128
            record.guard = np.resize(np.array([number, POISON, POISON, POISON], np.uint8), self.guard_bytes)
            for start in (0, self.guard_bytes + buffer.nbytes):
                queue.send(guarded, record.guard, start)
            queue.finish()
        release = buffer.release

        def released() -> None:
            record.released = True
            release()
            if record.allocation is not buffer:
                record.allocation.release()

        buffer.release = released  # type: ignore[method-assign]

    def notice_queue(self, device: Device, queue: Queue) -> None:
        """Watch a new queue while the plan is made."""
        self._queues.append(queue)
        self._watched.enter_context(self._watch(queue, None))

    # -- inside ---------------------------------------------------------------------------------------------------------

    def _live(self) -> list[_BufferRecord]:
        return [record for record in self._records.values() if not record.released]

    def _operands(self) -> dict[int, _BufferRecord]:
        return {
            key: record
            for key, record in self._records.items()
            if record.holds_data and not record.filled_by_reset and not record.released
        }

    @staticmethod
    def _digest(record: _BufferRecord) -> bytes:
        """Return the SHA-256 of the SHA-256s of a buffer's parts, which all cores compute."""
        digest, queue = hashlib.sha256(), record.device.queue()
        memory = np.empty(min(_CHUNK, record.buffer.nbytes), np.uint8)
        for start in range(0, record.buffer.nbytes, _CHUNK):
            chunk = queue.read(record.buffer, memory[: record.buffer.nbytes - start], start)
            for part in by_bands(len(chunk), 1, lambda band: hashlib.sha256(chunk[band].data).digest()):  # noqa: B023 called at once
                digest.update(part)
        return digest.digest()

    @contextmanager
    def _watching(self, change: Callable[[np.ndarray], np.ndarray] | None) -> Iterator[None]:
        with ExitStack() as watched:
            for queue in self._queues:
                watched.enter_context(self._watch(queue, change))
            yield

    @contextmanager
    def _watch(self, queue: Queue, change: Callable[[np.ndarray], np.ndarray] | None) -> Iterator[None]:
        """Record which buffers this queue fills in this block. change: maps each array to the one written instead."""
        write, send, launch, copy, fetch, record = (
            queue.write, queue.send, queue.launch, queue.copy, queue.fetch, queue.record,
        )  # fmt: skip
        recording = False

        def noted_write(buffer: Buffer, array: np.ndarray) -> None:
            self._filled(buffer, array)
            write(buffer, array if change is None else change(array))

        def noted_send(buffer: Buffer, array: np.ndarray, offset: int = 0) -> None:
            self._filled(buffer, array)
            send(buffer, array, offset)

        def noted_launch(kernel: Any, global_size: Any, local_size: Any, *args: Any) -> None:
            if not recording:
                for argument in args:
                    self._filled(argument)
            launch(kernel, global_size, local_size, *args)

        def noted_copy(target: Buffer, source: Buffer) -> None:
            self._filled(target)
            copy(target, source)

        def noted_fetch(target: Buffer, source: Buffer, offset: int = 0) -> None:
            self._filled(target)
            fetch(target, source, offset)

        def noted_record(submit: Callable[[], None]) -> Any:
            nonlocal recording
            recording = True
            try:
                return record(submit)
            finally:
                recording = False

        hooks: dict[str, Callable[..., Any]] = {
            "write": noted_write, "send": noted_send, "launch": noted_launch, "copy": noted_copy, "fetch": noted_fetch,
            "record": noted_record,
        }  # fmt: skip
        with _replaced_methods(queue, hooks):
            yield

    def _filled(self, buffer: Any, array: np.ndarray | None = None) -> None:
        """Record that a buffer was filled, by a kernel or with an array of the host."""
        record = self._records.get(id(buffer)) if self._noting else None
        if record is None:
            return
        if self._resetting:
            record.filled_by_reset = True
            return
        record.filled_by_plan = True
        if array is not None and (record.holds_data or any(piece.any() for piece in _pieces(array))):
            record.holds_data = True
            record.dtype = array.dtype if array.nbytes == buffer.nbytes else None


@contextmanager
def _replaced_methods(queue: Queue, methods: dict[str, Callable[..., Any]]) -> Iterator[None]:
    """Replace methods of one queue in this block."""
    before = {name: vars(queue)[name] for name in methods if name in vars(queue)}
    vars(queue).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(queue)[name]
        vars(queue).update(before)


class Garbage:
    """Random numbers in place of arrays that are all NaN, or all the least integer: a `change` of `BufferLedger.reset`.

    Those of floating-point arrays are finite, of many magnitudes.
    """

    def __init__(self) -> None:
        self._draw = np.random.default_rng(secrets.randbits(64))

    def __call__(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "i" and array.size and (array == np.iinfo(array.dtype).min).all():
            return (
                self._draw.integers(-(1 << 15), 1 << 15, array.shape)
                .clip(np.iinfo(array.dtype).min)
                .astype(array.dtype)
            )
        if array.dtype.kind != "f" or not np.isnan(array.flat[:1]).all() or not np.isnan(array).all():
            return array
        tile = self._draw.standard_normal(1 << 16) * 2.0 ** self._draw.integers(-6, 7, 1 << 16)
        return np.resize(tile.astype(array.dtype), array.shape)


def _reordered_array(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind != "f":
        return array
    parts = [_reordered(part) for part in _pieces(np.ascontiguousarray(array))]
    return np.concatenate(parts).reshape(array.shape) if parts else array


def _reordered(piece: np.ndarray) -> np.ndarray:
    """Return a flat array with its second half first: the same numbers at other positions."""
    return np.roll(piece, _shift(piece))


def _in_first_order(piece: np.ndarray) -> np.ndarray:
    """Return what `_reordered` was given."""
    return np.roll(piece, -_shift(piece))


def _shift(piece: np.ndarray) -> int:
    """Return by how many places `_reordered` moves numbers: not by half of them, since data may repeat after it."""
    return len(piece) // 2 + 1 if len(piece) > 2 else 1


def _rewrite_pieces(record: _BufferRecord, change: Callable[[np.ndarray], np.ndarray]) -> None:
    """Replace each piece of an operand, as of `_pieces`, by what `change` makes of it."""
    assert record.dtype is not None
    queue, start = record.device.queue(), 0
    for piece in _pieces_on_device(queue.read, record.buffer, record.dtype):
        if not _same_bytes(piece, changed := change(piece)):
            queue.send(record.buffer, changed, start)
            queue.finish()
        start += piece.nbytes


def _pieces(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield an array in flat pieces of _PIECE elements, which stay in a cache while they are compared."""
    flat = array.ravel()
    return (flat[start : start + _PIECE] for start in range(0, flat.size, _PIECE))


def _same_bytes(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two arrays of one shape and type have the same bytes. Stops at the first piece that differs."""
    pairs = zip(_pieces(first), _pieces(second), strict=True)
    return all(np.array_equal(left.view(np.uint8), right.view(np.uint8)) for left, right in pairs)


class _LaunchWatch:
    """Watch over the timed launches of a plan: poisons results that the plan has read, and compares them afterwards."""

    def __init__(self, poison: bool, paired: bool) -> None:
        self.poison, self.paired = poison, paired
        self.seconds = 0.0
        """Seconds that the watching took."""
        self.differs = False
        self._results: dict[int, tuple[Buffer, np.ndarray]] = {}
        """Buffers that were read as a whole since the last timed launches, and their contents."""
        self._releases: dict[int, tuple[Buffer, Callable[[], None]]] = {}
        """Buffers whose release is watched, by id, with their own `release`."""

    def end(self) -> None:
        """Give each buffer whose release is watched its own `release` back."""
        for buffer, release in self._releases.values():
            buffer.release = release  # type: ignore[method-assign]

    @contextmanager
    def over(self, queue: Queue) -> Iterator[None]:
        """Watch one queue in this block."""
        read, laps = queue.read, queue.laps

        def noted_read(buffer: Buffer, array: np.ndarray, offset: int = 0) -> np.ndarray:
            read(buffer, array, offset)
            if array.nbytes == buffer.nbytes:
                self._results[id(buffer)] = buffer, array
                self._watch_release(buffer)
            return array

        def judged_laps(*submits: Callable[[], None]) -> list[float]:
            start = time.perf_counter()
            results = list(self._results.values())
            self._results.clear()
            for buffer, before in results:
                if any(piece.any() for piece in _pieces_on_device(read, buffer, before.dtype)):
                    content = read(buffer, np.empty_like(before), 0) if self.paired else None
                    self._rewrite(queue, buffer, content)
            self.seconds += time.perf_counter() - start
            seconds = laps(*submits)
            start = time.perf_counter()
            self.differs |= any(
                not _close(_pieces_on_device(read, buffer, before.dtype), before) for buffer, before in results
            )
            self.seconds += time.perf_counter() - start
            return seconds

        with _replaced_methods(queue, {"read": noted_read, "laps": judged_laps}):
            yield

    def _rewrite(self, queue: Queue, buffer: Buffer, content: np.ndarray | None) -> None:
        """Poison a buffer, or restore its content. In a pair both write it twice, so that caches are in the same state.

        content: of the buffer, in a pair.
        """
        if content is not None:
            if not self.poison:
                queue.fill(buffer, POISON)
            queue.write(buffer, content)
        if self.poison:
            queue.fill(buffer, POISON)

    def _watch_release(self, buffer: Buffer) -> None:
        """Forget the contents of a buffer when it is released. Its `release` is replaced once, however often it is read."""
        if id(buffer) in self._releases:
            return
        release = buffer.release
        self._releases[id(buffer)] = buffer, release

        def released() -> None:
            self._results.pop(id(buffer), None)
            self._releases.pop(id(buffer), None)
            release()

        buffer.release = released  # type: ignore[method-assign]


def _arrays(container: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of each writable NumPy array in a container, and in the containers in it."""
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        if isinstance(value, np.ndarray):
            if value.flags.writeable and value.dtype != object:
                yield container, key
        elif isinstance(value, dict | list | tuple):
            yield from _arrays(value)


def _pieces_on_device(
    read: Callable[[Buffer, np.ndarray, int], np.ndarray], buffer: Buffer, dtype: np.dtype[Any]
) -> Iterator[np.ndarray]:
    """Yield a buffer's contents in pieces of _PIECE elements, read one by one into the same memory.

    A buffer can have a GB, and new memory of the host for all of it would take longer than the copies.
    """
    size = buffer.nbytes // dtype.itemsize
    memory = np.empty(min(_PIECE, size), dtype)
    for start in range(0, size, _PIECE):
        yield read(buffer, memory[: size - start], start * dtype.itemsize)


def _close(after: Iterable[np.ndarray], before: np.ndarray) -> bool:
    """Return whether two launches left the same results, up to the order of atomic sums. after: pieces as of `_pieces`."""
    largest: float | None = None
    for now, then in zip(after, _pieces(before), strict=True):
        if _same_bytes(now, then):
            continue
        if largest is None:
            largest = max(float(np.abs(part[np.isfinite(part)]).max(initial=0)) for part in _pieces(before))
        if not np.allclose(now, then, rtol=CLOSE, atol=CLOSE * largest, equal_nan=True):
            return False
    return True
