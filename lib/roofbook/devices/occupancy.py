"""How many groups of a kernel one multiprocessor of an NVIDIA GPU holds at once, and what sets the limit.

From the numbers that the compiler gives for the kernel and the driver for the device; no kernel runs for it. The rule is that
of cuda_occupancy.h, the occupancy calculator in the CUDA Toolkit's headers.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WARP = 32
REGISTERS_AT_ONCE = 256
"""A warp gets registers in portions of this many, on all architectures from 3.0 on."""
CORES = {
    (6, 0): 64, (6, 1): 128, (7, 0): 64, (7, 5): 64, (8, 0): 64, (8, 6): 128, (8, 7): 128, (8, 9): 128, (9, 0): 128,
    (10, 0): 128, (12, 0): 128,
}  # fmt: skip
"""Multiply-adds in fp32 a clock and multiprocessor by compute capability, which NVIDIA calls CUDA cores: CUDA C++ Programming
Guide, throughput of native arithmetic."""

LIMITS = ("groups_by_registers", "groups_by_local_memory", "groups_by_work_items")
"""What a row calls how many groups a multiprocessor holds, were each of its parts the only limit."""
REGISTERS = 65536
"""Of a multiprocessor, the same from compute capability 5.0 on: CUDA C++ Programming Guide, technical specifications."""


@dataclass(frozen=True)
class Multiprocessor:
    """What the groups on one multiprocessor share."""

    threads: int
    groups: int
    registers: int
    local_bytes: int
    reserved_local_bytes: int = 0
    """Shared memory that the driver takes for itself from each group."""
    partitions: int = 4
    """Sub-partitions, each with a warp scheduler and an equal part of the registers."""
    local_bytes_at_once: int = 128
    """A group gets shared memory in portions of so many bytes."""


def partitions(architecture: int) -> int:
    """Sub-partitions of a multiprocessor of sm_`architecture`, 50 or above: two on a GP100 alone."""
    return 2 if architecture == 60 else 4


def local_bytes_at_once(architecture: int) -> int:
    """Bytes of the portions in which sm_`architecture` gives shared memory to a group."""
    return 128 if architecture >= 80 else 256


def occupancy(resources: Mapping[str, int], work_items: int, place: Multiprocessor) -> dict[str, float]:
    """`groups_by_registers`, `groups_by_local_memory`, `groups_by_work_items` and `occupancy`, the share of places filled.

    resources: `registers` of a work-item and `local_bytes` of a group, which must be one that the device can launch. Each
    multiprocessor is seen by itself: the groups of a cluster, which must find their places together, may fill fewer.
    """
    warps = -(-work_items // WARP)
    local = resources["local_bytes"] + place.reserved_local_bytes
    local = -(-local // place.local_bytes_at_once) * place.local_bytes_at_once
    by_registers = groups_by_registers(resources["registers"], work_items, place.registers, place.partitions)
    limits = {
        "groups_by_registers": place.groups if by_registers is None else by_registers,
        "groups_by_local_memory": place.local_bytes // local if local else place.groups,
        "groups_by_work_items": min(place.groups, place.threads // WARP // warps),
    }
    return {**limits, "occupancy": share(min(limits.values()), work_items, place)}


def share(groups: int, work_items: int, place: Multiprocessor) -> float:
    """The part of a multiprocessor's places for warps that so many groups of so many work-items fill, at most 1."""
    return groups * -(-work_items // WARP) * WARP / place.threads


def groups_by_registers(registers: int, work_items: int, of_multiprocessor: int, partitions: int = 4) -> int | None:
    """How many groups find registers on a multiprocessor that has so many; None where a work-item takes none.

    A warp has all its registers in one sub-partition, so that what is left over in each is of no use: of 65536, 80 a
    work-item are enough for 24 warps, not for 25. The header's check of a single group's registers follows from this where a
    group may have all of a multiprocessor's, as on all architectures from 6.0 on but 6.2.
    """
    of_a_warp = -(-registers * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    if not of_a_warp:
        return None
    groups = of_multiprocessor // partitions // of_a_warp * partitions // -(-work_items // WARP)
    if partitions == 2 and not groups_by_registers(registers, work_items, of_multiprocessor):
        return 0  # what does not run on the other GPUs of its family does not run on a GP100
    return groups


def recounted(facts: Mapping[str, Any], architecture: int) -> dict[str, Any]:
    """Facts of a run on sm_`architecture`, with `groups_by_registers` and `occupancy` by today's rule in rows older than it.

    Such rows do not say `occupancy_by`; here they are given it. They were counted as if a multiprocessor's registers were one
    pool, their other limits as today. A row that lacks its group or a limit keeps its figures, and is given nothing. Names
    may have an ending, as those of a second kernel.
    """
    found = dict(facts)
    for ending in [name.removeprefix(LIMITS[0]) for name in facts if name.startswith(LIMITS[0])]:
        held: list[Any] = [facts.get(limit + ending) for limit in LIMITS]
        own: list[Any] = [facts.get(name + ending) for name in ("registers", "group", "occupancy")]
        if "occupancy_by" + ending in facts or None in (*held, *own) or not min(held):
            continue
        registers, group, was = own
        if not re.fullmatch(r"\d+(x\d+)*", str(group)):  # a row may say anything
            continue
        items = math.prod(map(int, str(group).split("x")))
        groups = groups_by_registers(registers, items, REGISTERS, partitions(architecture))
        if groups is not None:
            now = was * min(groups, *held[1:]) / min(held)
            found |= {LIMITS[0] + ending: groups, "occupancy" + ending: now, "occupancy_by" + ending: "rule"}
    return found
