"""One worker, one card: a worker claims one that no other worker of its host has, and what it measures must be on that one.

By the UUID, never by a number: CUDA numbers cards anew in each process, in an order of its own. Serves cluster and worker.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..devices.contract import Device
from ..devices.nvml import card, uuids
from ..errors import UsageError
from ..paths import open_lock

CUDA = "CUDA_VISIBLE_DEVICES"
VARIABLE = "ROOFBOOK_CARD"
"""The UUID of the card that a worker has; its processes inherit it."""
ALL_TAKEN = "other workers of this host have all cards that this one may see: start one worker for each card"
_held: list[IO[bytes]] = []
"""Locks of claimed cards, for as long as the process lives."""


def visible_cards(cards: Sequence[str], preset: str | None) -> list[str]:
    """Those of the host's cards, in the order of the bus, that a preset CUDA_VISIBLE_DEVICES leaves, in its order.

    As CUDA reads it (CUDA C++ Programming Guide, environment variables): numbers or beginnings of UUIDs, and what follows
    one that is no card does not count. Numbers count along the bus, as those that Slurm presets do. An instance of a card, by
    MIG, stands for itself.

    >>> cards = ["GPU-a1", "GPU-b2"]
    >>> visible_cards(cards, "1,0"), visible_cards(cards, "GPU-b"), visible_cards(cards, "7,0")
    (['GPU-b2', 'GPU-a1'], ['GPU-b2'], [])
    """
    if preset is None:
        return list(cards)
    left: list[str] = []
    for word in filter(None, (each.strip() for each in preset.split(","))):
        if word.startswith("MIG-"):
            named = [word]
        elif word.isdigit():
            named = list(cards[int(word) : int(word) + 1])
        else:
            named = [each for each in cards if each.startswith(word)]
        if len(named) != 1 or named[0] in left:
            break
        left += named
    return left


def claim(folder: Path) -> str:
    """Take a card that no other worker of the host has: let this process and its children see that one alone.

    Returns its UUID; '' where there is none to see, or where other workers have all. folder: `host_locks.host_folder`. Before
    anything of the process has called CUDA.
    """
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    cards = uuids()
    if not cards:
        return ""
    for uuid in visible_cards(cards, os.environ.get(CUDA)):
        lock = open_lock(folder / f"worker-{uuid.replace('/', '-')}", private=True)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _held.append(lock)
        os.environ[CUDA] = os.environ[VARIABLE] = uuid
        return uuid
    os.environ[VARIABLE] = os.environ[CUDA] = ""
    return ""


def has_no_card() -> bool:
    """Whether this is a worker of a host with cards, and others have all that it may see."""
    return os.environ.get(VARIABLE) == ""


def check_device(device: Device) -> None:
    """UsageError where a worker that has a card is about to measure another one, or a worker without one any. A CPU is none."""
    if VARIABLE not in os.environ or device.kind != "gpu":
        return
    given = os.environ[VARIABLE]
    if not given:
        raise UsageError(ALL_TAKEN)
    seen = (card(device.pci_bus_id).facts() or {}).get("uuid")
    if seen != given and not given.startswith("MIG-"):
        raise UsageError(
            f"the worker was given the card {given}, but {device.spec} is {seen or 'one that NVML does not know'}"
        )
