"""The step with a deep halo in one launch for all time steps, for CUDA and NVIDIA's OpenCL: deep_halo_ptx.k.

Groups wait for each other, so all of them must run at once. CUDA promises it for a cooperative launch. OpenCL has no such
launch, so there are no more groups than compute units, and the groups count each other before they begin. A device with
fewer units gets fewer groups, with larger tiles.
"""

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from ...devices.backends import has
from ...devices.contract import Device, Unsupported
from ...spec.kernel_run import require_ptx
from ...spec.plan import Case, Variant
from ...spec.prediction import SEVERAL
from ...spec.source import Source
from .on_chip import BLOCKS_AT_MOST, HERE, LOCAL_BYTES, WARP, SeveralSteps, Tiling, _tilings

DECLARED_BYTES = 48 << 10
"""Largest local memory of a group that a kernel declares itself, in bytes. NVIDIA's OpenCL has no other."""


def planes_bytes(tiling: Tiling) -> int:
    """Return the bytes of a group's planes: two copies of eight populations with their margins."""
    return 4 * 2 * (8 * tiling.threads + 2 * (tiling.wide + 1))


def local_bytes(tiling: Tiling) -> int:
    """Return the local memory of a group: its planes, a sum a step and warp, a flag."""
    return planes_bytes(tiling) + 4 * (tiling.depth * (tiling.threads // WARP) + 1)


def groups_of(nx: int, ny: int, tiling: Tiling) -> int:
    """Return the number of groups, a tile each, that must run at once."""
    return nx * ny // (tiling.tile_x * tiling.tile_y)


def cost(tiling: Tiling) -> float:
    """Return the modelled time of a step in ns: its share of an exchange, a fixed time with the barrier, and its cells' time.

    The cells' time grows faster than the number of warps that compute them: while warps are few, one more only fills waits.
    The numbers are fitted to times on an H200, within 0.5 %: depths of 3 to 6 with tiles of 16x8, 2 to 4 with tiles of 32x16.
    """
    rows = [tiling.tile_y + 2 * ring for ring in range(tiling.depth)]
    warps = tiling.wide * sum(rows) / WARP / tiling.depth
    return 567 / tiling.depth + 224 + 3.3 * warps * math.sqrt(warps)


@lru_cache
def tiling_of(nx: int, ny: int, units: int = BLOCKS_AT_MOST, most_bytes: int = LOCAL_BYTES) -> Tiling | None:
    """Return the tiling with the least cost of those that fit the units and the local memory; None if none does.

    units: compute units of the device, each for one group. More than BLOCKS_AT_MOST are not used.
    most_bytes: largest local memory of a group, by default what a launch by CUDA gives.
    """
    fitting = (
        tiling
        for tiling in _tilings(nx, ny)
        if groups_of(nx, ny, tiling) <= units and local_bytes(tiling) <= most_bytes
    )
    return min(fitting, key=cost, default=None)


def gives_local(device: Device) -> bool:
    """Return whether a launch on the device can give a group more local memory than the kernel can declare, as by CUDA."""
    return has(device.backend, "cooperative")


def tiling_on(device: Device, nx: int, ny: int) -> Tiling | None:
    """Return the tiling of a grid on a device; None if there is none."""
    most_bytes = LOCAL_BYTES if gives_local(device) else DECLARED_BYTES
    return tiling_of(nx, ny, device.compute_units, most_bytes)


class DeepHaloPtx(SeveralSteps):
    """Groups that take several steps between two exchanges, in one launch. `run` raises RuntimeError if one never begins."""

    kernel_name = "deep_halo_ptx"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes that groups exchange in a step, on average: three words of 16 bytes a cell.

        The tiling is that by CUDA on a device with BLOCKS_AT_MOST compute units or more. Fewer groups exchange less.
        """
        nx, ny = case.params["nx"], case.params["ny"]
        tiling = tiling_of(nx, ny)
        return 48 * tiling.exchanged * groups_of(nx, ny, tiling) / tiling.depth if tiling else least

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        fits = tiling_of(case.params["nx"], case.params["ny"])
        return None if fits else "not on this case: the groups that run at once do not hold the grid"

    @classmethod
    def run_options(cls, case: Case, device: Device) -> Mapping[str, Any] | None:
        """Return the options; None if the device lacks the PTX, or its compute units do not hold the grid."""
        return {} if device.ptx >= 80 and tiling_on(device, case.params["nx"], case.params["ny"]) else None

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_ptx(device, 80)
        if reason := self.refusal(case, variant):
            raise Unsupported(reason)
        if not tiling_on(device, case.params["nx"], case.params["ny"]):
            raise Unsupported(
                f"the grid does not fit one work-group on each of the {device.compute_units} compute units"
            )
        super().__init__(device, variant, case, inputs)
        (self.kernel,) = self.kernels
        if gives_local(device):
            self.kernel.configure(cooperative=True, dynamic_local_bytes=planes_bytes(self.tiling))
        self.halo = device.upload(np.zeros(2 * 3 * 2 * self.params.nx * self.params.ny, np.int64))
        self.begun = device.upload(np.zeros(1, np.int32))
        self.tag, self.groups_begun = 1, 0

    def lay_out(self) -> None:
        nx, ny = self.params.nx, self.params.ny
        tiling = tiling_on(self.device, nx, ny)
        assert tiling
        self.tiling, self.groups, self.group_size = tiling, groups_of(nx, ny, tiling), tiling.threads
        self.local, self.size = (self.group_size,), (self.group_size * self.groups,)

    def knobs(self) -> dict[str, Any]:
        tile_x, tile_y, depth = self.tiling
        planes = "LAUNCHED" if gives_local(self.device) else "DECLARED"
        return {
            "NX": self.params.nx, "NY": self.params.ny, "TILE_X": tile_x, "TILE_Y": tile_y, "DEPTH": depth, "PLANES": planes,
        }  # fmt: skip

    def turns(self) -> int:
        return 1

    def submit(self) -> None:
        self.launch_accelerate(0)
        source, target = self.grids[self.now].arguments, self.grids[1 - self.now].arguments
        self.groups_begun += self.groups
        self.queue.launch(self.kernel, self.size, self.local, *source, *target, self.obstacles, self.sums, self.halo,
                          self.begun, np.int32(self.groups_begun), np.int32(self.tag), np.int32(self.units), self.omega,
                          self.w1, self.w2)  # fmt: skip
        self.tag += -(-self.units // self.tiling.depth)  # tags only ever rise, so nothing is cleared between runs
        self.add_up(0, self.units)

    def run(self) -> None:
        super().run()
        if self.av_vels[0] < 0:
            raise RuntimeError(
                f"nothing was computed: the {self.groups} work-groups of a launch wait for each other, and not all of them "
                f"began within about a second, on {self.device.compute_units} compute units"
            )

    def close(self) -> None:
        super().close()
        self.halo.release()
        self.begun.release()


DEEP_HALO = Source.of(
    HERE / "deep_halo_ptx.k", CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char",
    NX=128, NY=128, TILE_X=16, TILE_Y=8, DEPTH=5,
)  # fmt: skip
STEPS = (
    Variant(
        "deep-halo-ptx", "walk-momentum", DEEP_HALO, DeepHaloPtx,
        "One launch for all steps, by OpenCL too. Groups keep their tiles on the chip and send each other their edges, in "
        "words of 16 bytes with a tag, by PTX. The equilibrium is by momentum and velocity.",
        "A walk of six steps is one launch, and its arithmetic fills few multiprocessors. Here no launch is left, and one "
        "exchange serves several steps: several times as fast.",
        needs=frozenset({"ptx"}), kind="gpu", differs=("source", "plan"), predicts={"small": SEVERAL},
    ),
    Variant(
        "deep-halo-no-waits", "deep-halo-ptx", DEEP_HALO.with_knobs(LEFT_OUT="WAITS"), DeepHaloPtx,
        "Groups send words and read none, so no group waits for another. The halo is fluid at rest instead. All arithmetic and "
        "all stores are left. Results are right up to the first exchange.",
        "The time that is left is that of the cells and of sending. The rest of the parent's time is waits for neighbours.",
        role="probe", needs=frozenset({"ptx"}), kind="gpu",
    ),
    Variant(
        "deep-halo-exchange", "deep-halo-ptx", DEEP_HALO.with_knobs(LEFT_OUT="STEPS"), DeepHaloPtx,
        "No cell is computed. Groups send words, wait for those of their neighbours, and store sums of zero.",
        "An exchange by itself, as often as in the parent.",
        role="probe", needs=frozenset({"ptx"}), kind="gpu",
    ),
)  # fmt: skip
