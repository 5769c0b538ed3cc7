"""The plans that measure and verify each peak: streams through memory, chains in registers, tensor cores, costs of waiting."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS
from ...spec.bands import by_bands
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div, require_ptx, resources
from ...spec.plan import Case, Plan, Variant, least_bytes, no_conditions
from .theory import Theory, theory

KIB = 1024
GROUP = 256
CHAINS = 16
LARGE_KIB = 256 * KIB
"""Working set from which each pass of a GPU that writes is a separate launch: it takes far longer than a launch, and blocks go
through the memory in order."""
COUNTED = 1 << 28
"""Largest number of zeros and ones that a check adds up: with 32 sums or more, each stays below 2**24, where float is exact."""
CHECKED_ROUNDS = 100
Outputs = Mapping[str, np.ndarray]


class Peak(Plan):
    """Base of the plans. `amount`: bytes or operations of a unit, for the unit `rate`; 0 if the time of a unit is the peak."""

    amount: float = 0
    rate: ClassVar[str] = ""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.variant, self.case, self.units = device, variant, case, case.units
        self.cpu = device.kind == "cpu"
        self.queue = device.queue(profiling=True)
        self.buffers: list[Any] = []

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return None if variant.options["group"] == case.params["group"] else "a case of another peak"

    @classmethod
    def checked_units(cls, case: Case) -> int:
        """Return the units of a run whose outputs can be judged: few enough, and all of a peak that counts its rounds."""
        return case.units

    @classmethod
    def judge_lossy(cls, case: Case, variant: Variant, outputs: Outputs) -> tuple[float, float, str] | None:
        """Judge a timed run like `judge`, if its outputs are sums that lose digits; None if they are not."""
        return None

    @classmethod
    @abstractmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        """Return (error, tolerance, meaning of the error) of a run's outputs."""

    def theory(self) -> Theory | None:
        """Return the theoretical value of this peak; None if the device's properties do not give it."""
        return theory(self.device, self.variant.name)

    def facts(self) -> dict[str, Any]:
        promised = self.theory()
        theory_facts = {"theory": promised.value, "theory_is": promised.words} if promised else {}
        return {"amount": self.amount, "rate": self.rate, **theory_facts}

    def close(self) -> None:
        for buffer in self.buffers:
            buffer.release()


class Stream(Peak):
    """Passes over a working set, in one kernel if it is small; a unit is a pass. Option `action`: copy (the working set is both
    buffers), read or write.
    """

    rate = "B/s"

    @classmethod
    def checked_units(cls, case: Case) -> int:
        """Return so few passes that a work-item's sum is exact, even on a CPU with few cores."""
        return min(CHECKED_ROUNDS, max(1, COUNTED // max(1, int(case.params["kib"]) * KIB // 4)))

    @classmethod
    def judge_lossy(cls, case: Case, variant: Variant, outputs: Outputs) -> tuple[float, float, str] | None:
        sums = outputs["moved"]
        if variant.options["action"] != "read" or sums.max() < 2**24:
            return None
        wrong = (~(sums >= 0)).sum() + (not sums.any())
        return float(wrong), 0.0, "sums that are no numbers of at least 0, or all zero"

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.action = variant.options["action"]
        self.data = stream_data(inputs["data"], self.action)
        self.amount = case.params["kib"] * KIB
        vector, lanes = ("float16", 16) if self.cpu else ("float4", 4)
        source = variant.text.with_knobs(WALK="BLOCKED" if self.cpu else "STRIDED", VECTOR=vector)
        self.kernel = device.build(source.render(device.backend)).kernel("move")
        self.vectors = self.data.size // lanes
        self.items, self.group = (device.compute_units, 1) if self.cpu else (device.compute_units * 2048, GROUP)
        is_separate = case.params["kib"] >= LARGE_KIB and self.action != "read" and not self.cpu
        self.launches = self.units if is_separate else 1
        if self.launches > 1 or self.items > self.vectors:
            self.items = ceil_div(self.vectors, self.group) * self.group
        self.source = device.upload(self.data)
        self.out = np.full(lanes * self.items if self.action == "read" else self.data.size, np.nan, np.float32)
        self.target = device.empty(self.out.nbytes)
        self.buffers = [self.source, self.target]

    def reset(self) -> None:
        self.queue.write(self.target, self.out)

    def run(self) -> float:
        return self.queue.timed(self.submit)

    def submit(self) -> None:
        for _ in range(self.launches):
            self.queue.launch(
                self.kernel, (self.items,), (self.group,), self.source, self.target, np.int32(self.vectors),
                np.int32(self.units // self.launches),
            )  # fmt: skip

    def outputs(self) -> dict[str, np.ndarray]:
        return {"moved": self.queue.read(self.target, np.empty_like(self.out)), "launches": np.array(self.launches)}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        moved, action = outputs["moved"], variant.options["action"]
        data = stream_data(inputs["data"], action)
        passes = case.units // outputs["launches"]
        if action == "read":
            ones = sum(by_bands(len(data), 1, lambda band: data[band].sum(dtype=np.float64)))
            return float(abs(moved.sum(dtype=np.float64) - passes * ones)), 0.0, "difference of the sum"
        if action == "write":
            return largest_difference(moved, np.float32(passes)), 0.0, "difference to the number of passes"
        return largest_difference(moved, data), 0.0, "difference to the source"


def stream_data(data: NDArray[np.float32], action: str) -> NDArray[np.float32]:
    """Return the data of a stream: half of the working set if there are two buffers; zeros and ones, whose sums are exact, if
    they are added up."""
    if action == "copy":
        return data[: data.size // 2]
    if action != "read":
        return data
    rounded = np.empty_like(data)
    by_bands(len(data), 1, lambda band: np.rint(data[band], out=rounded[band]))
    return rounded


def largest_difference(numbers: NDArray[np.float32], expected: NDArray[np.float32] | np.float32) -> float:
    """Return the largest difference of numbers in fp32 from those expected; NaN if one of them is."""
    right = np.broadcast_to(expected, numbers.shape)
    return float(np.max(by_bands(len(numbers), 1, lambda band: np.abs(numbers[band] - right[band]).max())))


class Chains(Peak):
    """Sixteen chains a work-item. A unit is one operation of every chain. Option `kind`: type of a chain's operations."""

    @classmethod
    def checked_units(cls, case: Case) -> int:
        return CHECKED_ROUNDS

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.kind = variant.options["kind"]
        starts, a, b = chain(self.kind)
        self.width = 64 // starts.itemsize if self.cpu else 1
        scalar = dict(variant.text.knobs)["SCALAR"]
        source = variant.text.with_knobs(VECTOR=f"{scalar}{self.width}" if self.cpu else scalar)
        self.kernel = device.build(source.render(device.backend)).kernel("chains")
        self.items = device.compute_units * (GROUP if self.cpu else 2048)
        self.scalars = (a, b)
        self.ends = np.zeros((self.items, CHAINS, self.width), starts.dtype)
        self.ends.view(np.uint8)[:] = 0xFF
        self.starts, self.out = device.upload(starts), device.empty(self.ends.nbytes)
        self.buffers = [self.starts, self.out]
        pairs = 2 if self.kind == "float16" else 1
        self.amount = CHAINS * self.width * self.items * pairs * (1 if self.kind == "root" else 2)

    @property
    def rate(self) -> str:  # type: ignore[override]
        return "FLOP/s" if self.kind.startswith("float") else "op/s"

    def reset(self) -> None:
        self.queue.write(self.out, self.ends)

    def run(self) -> float:
        return self.queue.timed(lambda: self.queue.launch(
            self.kernel, (self.items,), (GROUP,), self.starts, self.out, *self.scalars, np.int32(self.units)
        ))  # fmt: skip

    def outputs(self) -> dict[str, np.ndarray]:
        ends = self.queue.read(self.out, np.empty_like(self.ends))
        return {"ends": ends.view(np.float16) if self.kind == "float16" else ends}

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **resources(self.device, self.kernel, (GROUP,))}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        kind, ends = variant.options["kind"], outputs["ends"]
        expected = chained(kind, case.units)
        if kind == "float16":
            ends = ends.reshape(-1, CHAINS, 2)
            return float(np.abs(ends.astype(np.float64) - expected).max()), 0.0, "difference of a chain's end"
        if kind == "int32":
            return float((ends != expected[:, None]).sum()), 0.0, "chains that end elsewhere"
        error = float(np.abs(ends / expected[:, None] - 1).max())
        unit = 2.0**-53 if kind == "float64" else 2.0**-24
        return error, 2.0**-20 if kind == "root" else 2 * unit * (case.units + 1), "relative error of a chain's end"


def chain(kind: str) -> tuple[NDArray[Any], Any, Any]:
    """Return (starts of the chains, factor, summand) in the types of the kernel's arguments."""
    number = np.arange(1, CHAINS + 1)
    if kind == "float64":
        return number / 100, np.float64(0.999), np.float64(0.001)
    if kind == "int32":
        return number.astype(np.int32), np.int32(1103515245), np.int32(12345)
    if kind == "float16":  # two numbers a word
        pairs = np.stack([number / 16, number / 32], 1).astype(np.float16)
        a, b = (np.full(2, value, np.float16).view(np.int32)[0] for value in (0.75, 0.125))
        return pairs.view(np.int32).ravel(), a, b
    starts = number if kind == "root" else number / 100
    return starts.astype(np.float32), np.float32(0.999), np.float32(0.001)


def chained(kind: str, rounds: int) -> NDArray[Any]:
    """Return the ends of the chains: exact for int32 and float16 (chain, number), otherwise float64."""
    starts, a, b = chain(kind)
    x: NDArray[Any]
    if kind == "int32":
        x, a, b = starts.view(np.uint32), np.uint32(a), np.uint32(b)
    elif kind == "float16":
        x, a, b = starts.view(np.float16).reshape(CHAINS, 2), np.float64(0.75), np.float64(0.125)
    else:
        x, a, b = starts.astype(np.float64), np.float64(a), np.float64(b)
    for _ in range(rounds):
        x = 1 / np.sqrt(x) if kind == "root" else (x.astype(np.float64) if kind == "float16" else x) * a + b
        x = x.astype(np.float16) if kind == "float16" else x
    return x.view(np.int32) if kind == "int32" else x.astype(np.float64)


class Tensor(Peak):
    """Products on tensor cores. Options: `element`, type of the operands; `rows`, `columns` and `bytes` of an operand.

    Also `times`, products a sum and unit; `sums`, number of sums in a block; `swizzled`, operands in shared memory.
    """

    @classmethod
    def checked_units(cls, case: Case) -> int:
        """Return so few rounds that one more or less exceeds the rounding errors."""
        return 4

    @classmethod
    def judge_lossy(cls, case: Case, variant: Variant, outputs: Outputs) -> tuple[float, float, str] | None:
        sums = outputs["ends"]
        if case.units <= cls.checked_units(case):
            return None
        return float(not (np.isfinite(sums).all() and sums.any())), 0.0, "sums that are no numbers, or all zero"

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        knobs = variant.options
        options = COMPILER_OPTIONS if knobs["swizzled"] else ()
        self.kernel = device.build(variant.text.render(device.backend), options).kernel("tensor")
        self.group = knobs["work_items"]
        rows, columns, _ = operands(variant, inputs["numbers"])
        if knobs["swizzled"]:
            rows, columns = swizzle(rows), swizzle(columns)
        self.rows, self.columns = device.upload(rows), device.upload(columns)
        self.ends = np.full((device.compute_units, self.group), np.nan, np.float32)
        self.out = device.empty(self.ends.nbytes)
        self.buffers = [self.rows, self.columns, self.out]
        depth = knobs["bytes"] // ELEMENTS[knobs["element"]]
        products = knobs["rows"] * knobs["columns"] * depth * knobs["times"] * knobs["sums"]
        self.amount = 2 * products * device.compute_units

    @property
    def rate(self) -> str:  # type: ignore[override]
        return "op/s" if self.variant.dtype.startswith("int") else "FLOP/s"

    def reset(self) -> None:
        self.queue.write(self.out, self.ends)

    def run(self) -> float:
        return self.queue.timed(lambda: self.queue.launch(
            self.kernel, (self.ends.size,), (self.group,), self.rows, self.columns, self.out, np.int32(self.units)
        ))  # fmt: skip

    def outputs(self) -> dict[str, np.ndarray]:
        return {"ends": self.queue.read(self.out, np.empty_like(self.ends))}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        knobs = variant.options
        *_, (a, b) = operands(variant, inputs["numbers"])
        times = case.units * knobs["times"] * knobs["sums"]
        expected, size = times * (a @ b.T).sum(), times * (np.abs(a) @ np.abs(b).T).sum()
        error = np.abs(outputs["ends"].sum(axis=1, dtype=np.float64) - expected).max()
        terms = knobs["sums"] * knobs["rows"] * knobs["columns"] // knobs["work_items"]
        rounded = case.units * knobs["times"] * knobs["bytes"] // 32
        bound = size * (2.0**-24 * terms + ROUNDOFF.get(variant.dtype, 2.0**-23) * rounded)
        return float(error), float(bound), "error of the sum of all products"

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **resources(self.device, self.kernel, (self.group,))}


class TensorByPtx(Tensor):
    """Products on tensor cores by PTX in the text, which only NVIDIA's OpenCL takes."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_ptx(device, 80)
        super().__init__(device, variant, case, inputs)

    def theory(self) -> Theory | None:
        return theory(self.device, f"mma-{self.variant.options['element']}")


class TensorOfNormals(Tensor):
    """Products on tensor cores of normally distributed operands, like those of a lab."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, _of_normals(inputs))

    def theory(self) -> Theory | None:
        return theory(self.device, self.variant.name.removesuffix("-normal"))

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        return super().judge(case, variant, outputs, _of_normals(inputs))


def _of_normals(inputs: Mapping[str, Any]) -> dict[str, Any]:
    return {**inputs, "numbers": inputs["normal"]}


ROUNDOFF = {"int8": 0.0, "float8": 2.0**-12}
"""Unit roundoff of a sum on tensor cores by the type of operands, if it is not that of fp32. For fp8, Hopper cuts off a sum and
its addends after 13 bits; the error of that stays below twice the unit of 13 bits.
"""

ELEMENTS = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1, "e4m3": 1}
"""Bytes of each element type."""


def operands(
    variant: Variant, numbers: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return rows and columns as bytes (row, byte), and their values as numbers."""
    options = variant.options
    depth = options["bytes"] // ELEMENTS[options["element"]]
    encoded, values = encode(numbers[: options["rows"] + options["columns"], :depth], options["element"])
    rows = options["rows"]
    return encoded[:rows], encoded[rows:], (values[:rows], values[rows:])


def encode(numbers: NDArray[np.float64], element: str) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return numbers (row, column) as bytes of an element type, and their values after rounding or cutting to it."""
    if element == "f16":
        half = numbers.astype(np.float16)
        return half.view(np.uint8), half.astype(np.float64)
    if element in ("bf16", "tf32"):
        cut = numbers.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000 if element == "bf16" else 0xFFFFE000)
        words = (cut >> 16).astype(np.uint16) if element == "bf16" else cut
        return words.view(np.uint8), cut.view(np.float32).astype(np.float64)
    if element == "s8":
        integers = np.clip(np.rint(32 * numbers), -127, 127).astype(np.int8)
        return integers.view(np.uint8), integers.astype(np.float64)
    codes = np.arange(0x7F, dtype=np.uint8)
    power, fraction = codes >> 3, (codes & 7) / 8
    table = np.where(power, 2.0 ** (power.astype(float) - 7) * (1 + fraction), 2.0**-6 * fraction)
    codes_found = np.searchsorted(table, np.abs(numbers)).clip(max=0x7E).astype(np.uint8)
    return codes_found | np.where(numbers < 0, 0x80, 0).astype(np.uint8), np.sign(numbers) * table[codes_found]


def swizzle(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return rows of 128 bytes with each piece of 16 bytes at its position exclusive-or the row's number."""
    pieces = rows.reshape(-1, 8, 16)
    place = np.arange(8)[None, :] ^ (np.arange(len(pieces)) % 8)[:, None]
    laid = np.empty_like(pieces)
    np.put_along_axis(laid, np.broadcast_to(place[..., None], pieces.shape), pieces, axis=1)
    return laid.reshape(rows.shape)


class Launches(Peak):
    """Kernels that do nothing, one after the other. A unit is one kernel. Option `how`: the period that is timed.

    `wait`: from the first launch until the last has run; `submit`: until the last is in the queue; `graph`: as nodes of a
    graph of NODES, until the last has run.
    """

    NODES = 100

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.how = variant.options["how"]
        self.queue = device.queue()
        self.kernel = device.build(variant.text.render(device.backend)).kernel("count")
        self.counter = device.empty(4)
        self.buffers = [self.counter]
        self.reset()
        self.graph = self.queue.record(lambda: self.submit(self.NODES)) if self.how == "graph" else None

    def submit(self, launches: int) -> None:
        for _ in range(launches):
            self.queue.launch(self.kernel, (GROUP,), (GROUP,), self.counter)

    def reset(self) -> None:
        self.queue.write(self.counter, np.zeros(1, np.int32))

    def run(self) -> float:
        start = time.perf_counter()
        if self.graph:
            for _ in range(self.units // self.NODES):
                self.graph.launch()
        else:
            self.submit(self.units)
        submitted = time.perf_counter()
        self.queue.finish()
        return (submitted if self.how == "submit" else time.perf_counter()) - start

    def outputs(self) -> dict[str, np.ndarray]:
        return {"launches": self.queue.read(self.counter, np.empty(1, np.int32))}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        return float(abs(int(outputs["launches"][0]) - case.units)), 0.0, "launches that were not seen"


class EmptyKernels(Launches):
    """Kernels that do nothing, each timed alone, by the clock of a lab's kernels. A unit is one kernel.

    All units of a run count as long as the fastest: on a CPU, most wait until a thread awakes, so a mean is no floor.
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.queue = device.queue(profiling=True)

    def run(self) -> float:
        return self.units * min(self.queue.timed(lambda: self.submit(1)) for _ in range(self.units))


class Barriers(Peak):
    """Blocks of 256 that wait for each other, or order their accesses. A unit is one barrier or fence.

    Options: `kernel`, its name; `blocks`, their number, by default one a multiprocessor.
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.blocks = variant.options.get("blocks") or device.compute_units
        self.kernel = device.build(variant.text.render(device.backend)).kernel(variant.options["kernel"])
        self.kernel.configure(cooperative="blocks" not in variant.options)
        self.arrivals, self.words, self.right = (device.empty(4 * n) for n in (1, 2 * self.blocks, self.blocks))
        self.buffers = [self.arrivals, self.words, self.right]

    def reset(self) -> None:
        self.queue.write(self.arrivals, np.zeros(1, np.int32))
        self.queue.write(self.words, np.zeros(2 * self.blocks, np.int32))
        self.queue.write(self.right, np.full(self.blocks, -1, np.int32))

    def run(self) -> float:
        self.queue.write(self.arrivals, np.zeros(1, np.int32))
        return self.queue.timed(lambda: self.queue.launch(
            self.kernel, (GROUP * self.blocks,), (GROUP,), self.arrivals, self.words, self.right, np.int32(self.units)
        ))  # fmt: skip

    def outputs(self) -> dict[str, np.ndarray]:
        return {"right": self.queue.read(self.right, np.empty(self.blocks, np.int32))}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        expected = min(case.units, constants(variant.text)["WATCHED"])
        return float(np.abs(outputs["right"] - expected).max()), 0.0, "words that were not there in time"


class Transfer(Peak):
    """Copies between host and device, from the call to their end. Options: `pinned` host memory, `to` device or host."""

    rate = "B/s"

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.to, self.amount = variant.options["to"], case.params["kib"] * KIB
        self.data = inputs["data"]
        self.host = (
            device.pinned(self.data.shape, np.float32) if variant.options["pinned"] else np.empty_like(self.data)
        )
        self.buffer = device.empty(self.data.nbytes)
        self.buffers = [self.buffer]

    def reset(self) -> None:
        """Write the data to the source of the copy, and NaN to its target."""
        nothing = np.full_like(self.data, np.nan)
        self.host[:], on_device = (self.data, nothing) if self.to == "device" else (nothing, self.data)
        self.queue.write(self.buffer, on_device)

    def run(self) -> float:
        move: Callable[..., None] = self.queue.send if self.to == "device" else self.queue.receive
        start = time.perf_counter()
        for _ in range(self.units):
            move(self.buffer, self.host)
        self.queue.finish()
        return time.perf_counter() - start

    def outputs(self) -> dict[str, np.ndarray]:
        arrived = self.queue.read(self.buffer, np.empty_like(self.data)) if self.to == "device" else self.host.copy()
        return {"arrived": arrived}

    def close(self) -> None:
        super().close()
        del self.host

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        return largest_difference(outputs["arrived"], inputs["data"]), 0.0, "difference to what was sent"
