"""How many groups of a kernel one multiprocessor of an NVIDIA GPU holds at once, and what sets the limit.

From the numbers that the compiler gives for the kernel and the driver for the device; no kernel runs for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

WARP = 32
REGISTERS_AT_ONCE = 256
"""A warp gets registers in portions of this many, on all architectures from 3.0 on."""
LOCAL_BYTES_AT_ONCE = 128
CORES = {
    (6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128,
    (10, 0): 128, (12, 0): 128,
}  # fmt: skip
"""Multiply-adds in fp32 a clock and multiprocessor by compute capability, which NVIDIA calls CUDA cores: CUDA C++ Programming
Guide, throughput of native arithmetic."""


@dataclass(frozen=True)
class Multiprocessor:
    """What the groups on one multiprocessor share."""

    threads: int
    groups: int
    registers: int
    local_bytes: int
    reserved_local_bytes: int = 0
    """Shared memory that the driver takes for itself from each group."""


def occupancy(resources: Mapping[str, int], work_items: int, place: Multiprocessor) -> dict[str, float]:
    """`groups_by_registers`, `groups_by_local_memory`, `groups_by_work_items` and `occupancy`, the share of places filled.

    resources: `registers` of a work-item and `local_bytes` of a group.
    """
    warps = -(-work_items // WARP)
    of_a_warp = -(-resources["registers"] * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    local = resources["local_bytes"] + place.reserved_local_bytes
    local = -(-local // LOCAL_BYTES_AT_ONCE) * LOCAL_BYTES_AT_ONCE
    limits = {
        "groups_by_registers": place.registers // of_a_warp // warps if of_a_warp else place.groups,
        "groups_by_local_memory": place.local_bytes // local if local else place.groups,
        "groups_by_work_items": min(place.groups, place.threads // WARP // warps),
    }
    return {**limits, "occupancy": min(limits.values()) * warps * WARP / place.threads}
