"""Measured ceilings of a device: copy bandwidth by working-set size, so that each level of the memory shows, and fp32 FMA.

Measured, verified and kept like any lab's cells, so that a share of a bound compares like with like.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device import Device
from ..lab import Case, Lab, Runnable, Variant, Work
from ..source import Source

if TYPE_CHECKING:
    import pandas as pd

    from ..roofline import Peaks

HERE = Path(__file__).parent
GROUP = 256
CHAINS = 16
A, B = 0.999, 0.001
KIB = 1024


class Copy(Runnable):
    """float32 from one buffer to another; the working set is both."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        self.device, self.units, self.data = device, case.units, inputs["data"]
        cpu = device.kind == "cpu"
        source = variant.source.turn(WALK="BLOCKED" if cpu else "STRIDED", VECTOR="float16" if cpu else "float4")
        self.kernel = device.build(source.render(device.backend)).kernel("copy")
        self.queue = device.queue()
        self.source, self.target = device.upload(self.data), device.empty(self.data.nbytes)
        self.vectors = self.data.size // (16 if cpu else 4)
        self.items, self.group = (device.compute_units, 1) if cpu else (device.compute_units * 2048, GROUP)
        self.items = min(self.items, -(-self.vectors // self.group) * self.group)

    def reset(self) -> None:
        self.queue.write(self.target, np.full_like(self.data, np.nan))

    def run(self) -> None:
        self.queue.launch(self.kernel, (self.items,), (self.group,), self.source, self.target,
                          np.int32(self.vectors), np.int32(self.units))  # fmt: skip
        self.queue.finish()

    def outputs(self) -> dict[str, np.ndarray]:
        return {"copy": self.queue.read(self.target, np.empty_like(self.data))}

    def close(self) -> None:
        self.source.release()
        self.target.release()


class Chains(Runnable):
    """Fused multiply-adds that touch no memory. A unit is one FMA of every chain."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        self.device, self.units = device, case.units
        self.width = 16 if device.kind == "cpu" else 1
        source = variant.source.turn(VECTOR="float16" if self.width == 16 else "float")
        self.kernel = device.build(source.render(device.backend)).kernel("chains")
        self.queue = device.queue()
        self.items = items(device)
        self.out = device.empty(4 * self.width * self.items)

    def reset(self) -> None:
        self.queue.write(self.out, np.full(self.width * self.items, np.nan, np.float32))

    def run(self) -> None:
        self.queue.launch(self.kernel, (self.items,), (GROUP,), self.out, np.float32(A), np.float32(B),
                          np.int32(self.units))  # fmt: skip
        self.queue.finish()

    def outputs(self) -> dict[str, np.ndarray]:
        return {"sums": self.queue.read(self.out, np.empty(self.width * self.items, np.float32))}

    def facts(self) -> dict[str, Any]:
        return {"flops_per_unit": 2 * CHAINS * self.width * self.items, **self.kernel.resources()}

    def close(self) -> None:
        self.out.release()


def items(device: Device) -> int:
    """Work-items that fill the device."""
    return device.compute_units * (2048 if device.kind == "gpu" else GROUP)


COPY = Variant(
    "copy", None, Source.of(HERE / "copy.k", WALK="STRIDED", VECTOR="float4"), Copy, "Copies float32.", "", role="peak"
)
FMA = Variant(
    "fma", None, Source.of(HERE / "fma.k", VECTOR="float"), Chains, "FMA chains in registers.", "", role="peak"
)


class PeaksLab(Lab):
    """Cases are working-set sizes for `copy`, and one for `fma`."""

    name = "peaks"
    title = "Ceilings of a device"
    home = "opencl"
    unit = "pass"
    timed = "kernel and one wait"
    base = best = "copy"
    ladder = (COPY, FMA)

    def cases(self, scale: str) -> Sequence[Case]:
        sizes = {"test": (256,), "quick": (256, 2048, 16384, 98304, 262144)}.get(
            scale, (1024, 8192, 32768, 131072, 1048576, 4194304)
        )
        copies = [self._copy(scale, kib) for kib in sizes]
        return [*copies, Case("registers", scale, {"kib": 0}, 2000 if scale in ("quick", "test") else 20000)]

    def _copy(self, scale: str, kib: int) -> Case:
        moved = 64 * KIB if scale == "test" else 512 * KIB if scale == "quick" else 16 * KIB * KIB
        label = f"{kib} KiB" if kib < KIB else f"{kib // KIB} MiB" if kib < KIB * KIB else f"{kib // KIB // KIB} GiB"
        return Case(label, scale, {"kib": kib}, max(1, moved // kib))

    def excuse(self, variant: Variant, case: Case) -> str | None:
        return None if (variant.name == "fma") == (case.name == "registers") else "another ceiling's case"

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"data": np.random.default_rng(seed).random(case.params["kib"] * KIB // 8, np.float32)}

    def checker(self, case: Case, variant: Variant) -> Case:
        return Case(case.name, case.scale, case.params, min(case.units, 100))

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        chains = np.arange(1, CHAINS + 1) / 100
        decay = np.float64(np.float32(A)) ** case.units
        limit = np.float64(np.float32(B)) / (1 - np.float64(np.float32(A)))
        return {"copy": inputs["data"], "sum": float((chains * decay + limit * (1 - decay)).sum())}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if "copy" in outputs:
            return float(np.abs(outputs["copy"] - reference["copy"]).max()), 0.0, "difference to the source"
        wrong = np.abs(outputs["sums"] / reference["sum"] - 1).max()
        return float(wrong), 2.0**-24 * (case.units + 2 * CHAINS), "relative error of the sum of the chains"

    def work(self, case: Case) -> Work:
        nbytes = case.params["kib"] * KIB
        return Work(flops=0, bytes=nbytes, footprint=nbytes)


LAB = PeaksLab()


def read(rows: "pd.DataFrame") -> "Peaks":
    """The ceilings in the store's rows of lab `peaks` for one device and backend. ValueError where one is missing.

    A ceiling is what the device can do, so the fastest sample counts: what disturbs a sample only makes it slower.
    """
    import json

    from ..roofline import Peaks

    def seconds(row: Any) -> float:
        return float(min(row.samples_s) / row.units)

    good = rows[rows["status"] == "ok"]
    copies = [(row.bytes, row.bytes / seconds(row)) for row in good.itertuples() if row.variant == "copy"]
    flops = [
        json.loads(row.extra)["flops_per_unit"] / seconds(row) for row in good.itertuples() if row.variant == "fma"
    ]
    if not copies or not flops:
        raise ValueError("no ceilings of this device in the store yet")
    return Peaks(bandwidth=sorted(copies), flops={"float32": max(flops)})
