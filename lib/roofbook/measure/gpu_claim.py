"""Claim of a GPU: each worker takes a card that no other worker of its host has, and may measure on that card only.

Cards are named by UUID, never by number: CUDA numbers cards in each process anew. Used by cluster and workers.
"""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ..devices.contract import Device
from ..devices.find import open_device
from ..devices.nvml import card, uuids
from ..errors import UsageError
from ..paths import open_lock
from ..spec import registry
from ..spec.lab import Lab

CUDA = "CUDA_VISIBLE_DEVICES"
VARIABLE = "ROOFBOOK_CARD"
"""Variable with the UUID of a worker's card; the worker's processes inherit it."""
ALL_TAKEN = "other workers of this host have all cards that this one may see: start one worker for each card"
_held: list[IO[bytes]] = []
"""Locks of claimed cards, held until the process ends."""


def visible_cards(cards: Sequence[str], preset: str | None) -> list[str]:
    """Return the UUIDs of `cards` (in bus order) that a preset CUDA_VISIBLE_DEVICES selects, in its order.

    The preset is read like CUDA does (CUDA C++ Programming Guide, environment variables): numbers or beginnings of UUIDs, up
    to the first one that names no card. Numbers follow the bus, as Slurm's presets do. A MIG instance is kept as it is.

    >>> cards = ["GPU-a1", "GPU-b2"]
    >>> visible_cards(cards, "1,0"), visible_cards(cards, "GPU-b"), visible_cards(cards, "7,0")
    (['GPU-b2', 'GPU-a1'], ['GPU-b2'], [])
    """
    if preset is None:
        return list(cards)
    left: list[str] = []
    for word in filter(None, (part.strip() for part in preset.split(","))):
        if word.startswith("MIG-"):
            named = [word]
        elif word.isdigit():
            named = list(cards[int(word) : int(word) + 1])
        else:
            named = [uuid for uuid in cards if uuid.startswith(word)]
        if len(named) != 1 or named[0] in left:
            break
        left += named
    return left


def claim(folder: Path) -> str:
    """Claim a card that no other worker of the host has, and hide all others from this process and its children.

    Return its UUID; '' if no card is visible, or if other workers have all. folder: `host_locks.host_folder`. Call it before
    the process uses CUDA.
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


def open_lab(name: str, spec: str) -> tuple[Lab, Device]:
    """Return a lab, prepared, and its device. Raise UsageError for a card that this worker has not claimed."""
    lab = registry.get(name)
    lab.prepare()
    device = open_device(spec, lab.preferred_backend)
    check_device(device)
    return lab, device


def has_no_card() -> bool:
    """Return whether other workers have claimed all cards that this worker may see."""
    return os.environ.get(VARIABLE) == ""


def check_device(device: Device) -> None:
    """Raise UsageError if a worker would measure on a card that it has not claimed. A CPU is always allowed."""
    if VARIABLE not in os.environ or device.kind != "gpu":
        return
    claimed = os.environ[VARIABLE]
    if not claimed:
        raise UsageError(ALL_TAKEN)
    actual = (card(device.pci_bus_id).facts() or {}).get("uuid")
    if actual != claimed and not claimed.startswith("MIG-"):
        raise UsageError(
            f"the worker was given the card {claimed}, but {device.spec} is {actual or 'one that NVML does not know'}"
        )
