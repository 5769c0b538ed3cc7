"""The ledger of a plan's buffers: what it poisons, compares, reorders and puts back, also in pieces of large buffers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import open_device
from roofbook.measure.buffer_ledger import (
    _PIECE,
    CLOSE,
    BufferLedger,
    Garbage,
    OperandChanged,
    TimedLaunchDiffers,
    _close,
    _pieces,
    _same_bytes,
)

from ..plain_plan import PlainPlan


def test_scratch_memory_is_poisoned_unless_a_plan_filled_or_cleared_it() -> None:
    device = open_device("opencl:0")
    ledger, queue = BufferLedger(), device.queue()
    copy = "__kernel void f(__global float *to, __global float *of) { to[get_global_id(0)] = of[get_global_id(0)]; }"
    held: dict[str, Any] = {}

    class Prepared(PlainPlan):
        units = 1

        def __init__(self) -> None:
            queue = device.queue()
            held["operand"] = device.upload(np.arange(8, dtype=np.float32))
            held["counters"] = device.upload(np.zeros(8, np.int32))
            for name in ("prepared", "scratch", "output"):
                held[name] = device.empty(32)
            queue.launch(device.build(copy).kernel("f"), (8,), (8,), held["prepared"], held["operand"])
            queue.finish()
            self.queue = queue

        def reset(self) -> None:
            self.queue.write(held["output"], np.full(8, np.nan, np.float32))

        def run(self) -> None: ...

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

    def read(name: str) -> np.ndarray:
        return queue.read(held[name], np.empty(8, np.float32))

    runnable = ledger.plan(Prepared)
    ledger.reset(runnable)
    assert np.isnan(read("scratch")).all() and np.isnan(read("output")).all()
    assert (read("prepared") == np.arange(8)).all() and (read("operand") == np.arange(8)).all()
    ledger.reset(runnable, change=Garbage())
    assert np.isfinite(read("output")).all() and len(set(read("output"))) == 8
    ledger.remember_operands()
    queue.write(held["counters"], np.arange(8, dtype=np.int32))
    ledger.check_operands()
    ledger.reset(runnable)
    assert (queue.read(held["counters"], np.empty(8, np.int32)) == np.arange(8)).all()
    queue.write(held["operand"], np.arange(1, 9, dtype=np.float32))
    with pytest.raises(Exception, match=r"operand 1 of \d \(32 bytes\), which it may only read"):
        ledger.check_operands()


def test_a_plan_that_reads_a_buffer_in_each_of_many_steps_is_closed_like_any_other() -> None:
    """A plan that copies its grid to the host and back in each step reads one buffer thousands of times in a run."""
    device = open_device("opencl:0")
    ledger = BufferLedger()

    class CopiedInEachStep(PlainPlan):
        units = 2 * sys.getrecursionlimit()

        def __init__(self) -> None:
            self.queue, self.grid = device.queue(), device.empty(32)

        def reset(self) -> None: ...

        def run(self) -> None:
            for _ in range(self.units):
                self.queue.read(self.grid, np.empty(8, np.float32))

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

        def close(self) -> None:
            self.grid.release()
            closed.append(self.grid)

    closed = list[Any]()
    runnable = ledger.plan(CopiedInEachStep)
    with ledger.judging_timed_launches():
        runnable.run()
    runnable.close()
    assert closed


def test_a_buffer_that_a_run_allocates_and_releases_is_not_read_again() -> None:
    """LeNet's forward pass as published allocates buffers in each run, which no ledger enters: reading one again may crash."""
    device = open_device("opencl:0")
    ledger = BufferLedger()

    class Allocates(PlainPlan):
        units = 1

        def __init__(self) -> None:
            self.queue = device.queue()

        def reset(self) -> None: ...

        def run(self) -> None:
            for _ in range(2):
                buffer = device.empty(32)
                self.queue.laps()
                self.queue.read(buffer, np.empty(8, np.float32))
                allocated.append(buffer)
                buffer.release()

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

    allocated, reads = list[Any](), list[Any]()
    runnable = ledger.plan(Allocates)
    queue = runnable.queue  # type: ignore[attr-defined]
    read = queue.read

    def noted(buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        reads.append(buffer)
        return read(buffer, array, offset)  # type: ignore[no-any-return]

    queue.read, queue.laps = noted, lambda *submits: []
    with ledger.judging_timed_launches():
        runnable.run()
    assert reads == allocated


@pytest.mark.parametrize("size", [1, _PIECE - 1, _PIECE, 2 * _PIECE + 1])
@pytest.mark.parametrize("paired", [False, True])
def test_a_timed_launch_that_leaves_out_one_number_is_noticed(size: int, paired: bool) -> None:
    """Results are read in pieces: the first number and the last one count, in each piece."""
    device, numbers = open_device("opencl:0"), np.arange(1, size + 1, dtype=np.float32)

    class Timed(PlainPlan):
        def __init__(self) -> None:
            self.queue, self.buffer = device.queue(), device.empty(numbers.nbytes)
            self.queue.laps = self.laps  # type: ignore[method-assign]

        def laps(self, *submits: Any) -> list[float]:
            contents.append(self.queue.read(self.buffer, np.empty_like(numbers), 0))
            written = numbers.copy()
            if left_out is not None:
                written[left_out] = contents[-1][left_out]
            self.queue.write(self.buffer, written)
            return [1.0]

        def reset(self) -> None: ...

        def run(self) -> None:
            self.queue.write(self.buffer, numbers)
            self.queue.read(self.buffer, np.empty_like(numbers))
            self.queue.laps()

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

    for left_out in (None, 0, size - 1, min(size - 1, _PIECE)):
        for poison in (True, False) if paired else (True,):
            contents, ledger = list[np.ndarray](), BufferLedger()
            runnable = ledger.plan(Timed)
            with ledger.judging_timed_launches(poison=poison, paired=paired):
                runnable.run()
            assert np.isnan(contents[0]).all() if poison else np.array_equal(contents[0], numbers)
            if poison and left_out is not None:
                with pytest.raises(TimedLaunchDiffers):
                    ledger.check_launches()
            else:
                ledger.check_launches()


@pytest.mark.parametrize("size", [1, 2, 3, _PIECE, _PIECE + 1, _PIECE + 2, 2 * _PIECE + 3])
@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_other_operands_are_the_same_numbers_and_the_operands_come_back(size: int, kind: type[np.floating]) -> None:
    """Operands, and inputs that the plan's reset restores, get the same order: a plan may need them side by side."""
    device, ledger, numbers = open_device("opencl:0"), BufferLedger(), (np.arange(size) % 2039 + 1).astype(kind)

    class Operands(PlainPlan):
        def __init__(self) -> None:
            self.queue, self.operand = device.queue(), device.upload(numbers)
            self.restored = device.empty(numbers.nbytes)

        def reset(self) -> None:
            self.queue.write(self.restored, numbers)

        def run(self) -> None:
            self.seen = [self.queue.read(buffer, np.empty_like(numbers)) for buffer in (self.operand, self.restored)]

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

    runnable = ledger.plan(Operands)
    ledger.reset(runnable)
    ledger.remember_operands()
    with ledger.exchanged_operands(runnable):
        runnable.run()
    operand, restored = runnable.seen  # type: ignore[attr-defined]
    assert np.array_equal(operand, restored) and np.array_equal(np.sort(operand), np.sort(numbers))
    places = np.flatnonzero(operand != numbers)
    assert size == 1 or (len(places) and (size < 2 * _PIECE or places[-1] >= 2 * _PIECE)), (
        "each piece is in another order"
    )
    ledger.reset(runnable)
    runnable.run()
    assert all(np.array_equal(array, numbers) for array in runnable.seen)  # type: ignore[attr-defined]
    ledger.check_operands()


def test_an_operand_that_is_changed_in_the_run_on_other_operands_alone_is_noticed() -> None:
    """Operands are put back by another order of what the device holds, so that a change stays for the check at the end."""
    device, ledger, numbers = open_device("opencl:0"), BufferLedger(), np.arange(1, 10, dtype=np.float32)

    class ChangesOthers(PlainPlan):
        def __init__(self) -> None:
            self.queue, self.operand = device.queue(), device.upload(numbers)

        def reset(self) -> None: ...

        def run(self) -> None:
            operand = self.queue.read(self.operand, np.empty_like(numbers))
            if not np.array_equal(operand, numbers):
                self.queue.write(self.operand, operand + np.float32(1))

        def outputs(self) -> dict[str, np.ndarray]:
            return {}

    runnable = ledger.plan(ChangesOthers)
    ledger.reset(runnable)
    ledger.remember_operands()
    runnable.run()
    ledger.check_operands()
    with ledger.exchanged_operands(runnable):
        runnable.run()
    with pytest.raises(OperandChanged):
        ledger.check_operands()


@pytest.mark.parametrize("size", [0, 1, _PIECE - 1, _PIECE + 1])
def test_arrays_are_the_same_if_all_bytes_are(size: int) -> None:
    """The numbers of an operand are given in another order where that changes a byte, a NaN's or the last one's too."""
    numbers = np.full(size, np.nan, np.float32)
    assert _same_bytes(numbers, numbers.copy())
    for place in {0, size // 2, size - 1} if size else ():
        other = numbers.copy()
        other.view(np.uint32)[place] ^= 1
        assert not _same_bytes(numbers, other)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("place", [0, _PIECE - 1, _PIECE, 2 * _PIECE])
def test_results_of_two_launches_may_differ_by_the_order_of_sums(kind: type[np.generic], place: int) -> None:
    """The largest result sets the tolerance, wherever it is. A NaN or infinity must be one in both."""
    before = np.ones(2 * _PIECE + 1, kind)
    before[place - 1] = 100
    after = before.copy()
    assert _close(_pieces(after), before)
    after[place] = before[place] + np.array(100 * CLOSE / 2).astype(kind)
    assert _close(_pieces(after), before)
    after[place] = before[place] + np.array(1).astype(kind)
    assert not _close(_pieces(after), before)
    if np.dtype(kind).kind == "f":
        for value in (np.nan, np.inf):
            after[place] = value
            assert not _close(_pieces(after), before)
            twice = after.copy()
            assert _close(_pieces(after), twice), "both are the same"
