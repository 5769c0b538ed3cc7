"""Occupancy: how many groups of a kernel one multiprocessor of an NVIDIA GPU holds at once, and the resource that limits them.

It follows from the compiler's numbers for the kernel and the driver's for the device; no kernel runs. The rule is that of
cuda_occupancy.h, the occupancy calculator in the CUDA Toolkit's headers.
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
"""Names in a row for the number of groups that a multiprocessor would hold if one resource were the only limit."""
REGISTERS = 65536
"""Registers of a multiprocessor from compute capability 5.0 on: CUDA C++ Programming Guide, technical specifications."""


@dataclass(frozen=True)
class Multiprocessor:
    """Resources of a multiprocessor, which the groups on it share."""

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
    """Return the sub-partitions of a multiprocessor of sm_`architecture`, 50 or above: two only on a GP100."""
    return 2 if architecture == 60 else 4


def local_bytes_at_once(architecture: int) -> int:
    """Return the bytes of the portions in which sm_`architecture` gives shared memory to a group."""
    return 128 if architecture >= 80 else 256


def occupancy(resources: Mapping[str, int], work_items: int, place: Multiprocessor) -> dict[str, float]:
    """Return the LIMITS of a kernel, and `occupancy`, the share of a multiprocessor's warps that its groups fill.

    resources: `registers` of a work-item and `local_bytes` of a group, which the device must be able to launch. Clusters are
    not considered: their groups must fit together, and may fill less.
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
    """Return the share of a multiprocessor's warps that `groups` groups of `work_items` work-items fill, at most 1."""
    return groups * -(-work_items // WARP) * WARP / place.threads


def groups_by_registers(registers: int, work_items: int, of_multiprocessor: int, partitions: int = 4) -> int | None:
    """Return how many groups find registers on a multiprocessor with `of_multiprocessor`; None if a work-item takes none.

    A warp has all its registers in one sub-partition, so a remainder in each is of no use: 65536 registers, at 80 for a
    work-item, are enough for 24 warps, not for 25. The header also checks the registers of a single group. That follows from
    this rule if a group may have all registers of a multiprocessor, as on all architectures from 6.0 on but 6.2.
    """
    of_a_warp = -(-registers * WARP // REGISTERS_AT_ONCE) * REGISTERS_AT_ONCE
    if not of_a_warp:
        return None
    groups = of_multiprocessor // partitions // of_a_warp * partitions // -(-work_items // WARP)
    if partitions == 2 and not groups_by_registers(registers, work_items, of_multiprocessor):
        return 0  # what does not run on the other GPUs of its family does not run on a GP100
    return groups


def recounted(facts: Mapping[str, Any], architecture: int) -> dict[str, Any]:
    """Return facts of a run on sm_`architecture`, with occupancy by today's rule also if the row is older than the rule.

    Old rows have no `occupancy_by`, and counted a multiprocessor's registers as one pool. They get new values of
    `groups_by_registers`, `occupancy` and `occupancy_by`. A row without its group or a limit stays unchanged. Names of facts
    may have an ending, such as those of a second kernel.
    """
    corrected = dict(facts)
    for ending in [name.removeprefix(LIMITS[0]) for name in facts if name.startswith(LIMITS[0])]:
        limits: list[Any] = [facts.get(limit + ending) for limit in LIMITS]
        run_facts: list[Any] = [facts.get(name + ending) for name in ("registers", "group", "occupancy")]
        if "occupancy_by" + ending in facts or None in (*limits, *run_facts) or not min(limits):
            continue
        registers, group, was = run_facts
        if not re.fullmatch(r"\d+(x\d+)*", str(group)):  # a row may say anything
            continue
        items = math.prod(map(int, str(group).split("x")))
        groups = groups_by_registers(registers, items, REGISTERS, partitions(architecture))
        if groups is not None:
            now = was * min(groups, *limits[1:]) / min(limits)
            corrected |= {LIMITS[0] + ending: groups, "occupancy" + ending: now, "occupancy_by" + ending: "rule"}
    return corrected
