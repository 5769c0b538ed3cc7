"""The provenance of a measurement: the environment of its env_key, the state of the machine, the device's clocks.

Serves measure, which puts a snapshot into every row, and store and run, which compare it with today's. Nothing here
names a host, a user or a path: rows are published.
"""

import os
import platform
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from typing import Any, Protocol

from . import checkout, machine, settings
from .backends import BACKENDS, ON_REQUEST
from .nvml import NvmlCard, card

SLOWDOWNS = frozenset({"hardware slowdown", "software thermal slowdown", "hardware thermal slowdown", "power brake"})
"""The reasons that make a sample one of another device: too hot, or short of power from outside. The others hold in normal
operation: a GPU that multiplies matrices runs at its power cap, as whoever uses it for that finds it."""
ANYWHERE = ("numpy",)
"""Libraries that count for every device."""
_LIBRARIES: Mapping[str, tuple[str, ...]] = {
    backend.name: (*ANYWHERE, *backend.libraries) for backend in (*BACKENDS.values(), *ON_REQUEST.values())
}
"""Backend -> libraries whose versions are part of its devices' keys."""
COUNTING_RULE = f"{settings.COUNTING_RULE} {_LIBRARIES}"
"""Text that changes if `counted` does: results that depend on it are cached under it."""


class Identified(Protocol):
    """The part of a device that its environment is made of."""

    def identity(self) -> dict[str, str]:
        """Return backend, model, driver and runtime."""


class Described(Identified, Protocol):
    """The part of a device that this module needs."""

    @property
    def kind(self) -> str: ...

    @property
    def pci_bus_id(self) -> str | None: ...


def environment(device: Identified) -> dict[str, Any]:
    """Return the contents of env_key: the device's identity, Python, NumPy, libraries of its backend, and variables.

    The variables are those that are set and change the work of a compiler or a driver. On an unchanged machine the result
    stays the same, also if a library of another backend or another driver is installed.
    """
    identity = device.identity()
    names = _LIBRARIES.get(identity.get("backend", ""), ANYWHERE)
    versions = {name: version for name in names if (version := _version(name))}
    variables = settings.of_device(identity.get("backend", ""), getattr(device, "kind", ""))
    return {
        "device": identity,
        "libraries": versions,
        "python": platform.python_version(),
        **({"settings": variables} if variables else {}),
    }


def counted(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts of a stored row's environment that `environment` would put into a key today.

    Left out are variables that no longer count, and libraries that are none of the backend's: once the distribution of PoCL
    counted for every device by OpenCL, and so hid runs on a GPU. The libraries of an unknown backend all count.
    """
    counted = dict(environment)
    if variables := environment.get("settings"):
        counted["settings"] = settings.counted(variables)
        if not counted["settings"]:
            del counted["settings"]
    device, versions = environment.get("device") or {}, environment.get("libraries")
    if versions and (names := _LIBRARIES.get(str(device.get("backend")))):
        counted["libraries"] = {name: version for name, version in versions.items() if name in names}
    return counted


def snapshot(device: Described) -> dict[str, Any]:
    """Return the contents of a row's provenance column, as plain JSON data; unknown facts are null.

    Only `environment` is part of a key, env_key. Beside it are the machine, the card of a GPU, the load and the project's
    commit at this moment.
    """
    import psutil

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "environment": environment(device),
        **machine.facts(),
        "gpu": card(device.pci_bus_id).facts() if device.kind == "gpu" else None,
        "load_1min": None if load is None else round(load, 2),
        "memory_available_bytes": psutil.virtual_memory().available,
        "git": checkout.state(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Return the first of `differences`, with the number of further ones; None if there are none."""
    changes = differences(was, now)
    others_count = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    return f"{changes[0]}{others_count}" if changes else None


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the differences between two environments, each such as `the driver changed: 1.2 -> 1.3`."""
    old, new = _flat(was), _flat(now)

    def said(name: str) -> str:
        if name not in new:
            return f"{name} is gone: was {old[name]}"
        return f"{name} is new: {new[name]}" if name not in old else f"the {name} changed: {old[name]} -> {new[name]}"

    return [said(name) for name in {**old, **new} if old.get(name) != new.get(name)]


class Clocks:
    """Clock, temperature and throttle reasons, read between samples: of a GPU by NVML, of a CPU its clock alone.

    `reason` says in one clause why a GPU tells nothing; it is empty where all is well.
    """

    def __init__(self, kind: str = "cpu", pci_bus_id: str | None = None) -> None:
        """kind: `cpu` or `gpu`. pci_bus_id: of a GPU, as `Device.pci_bus_id`; a GPU without one has no clocks."""
        self._card = None if kind == "cpu" else NvmlCard(pci_bus_id)
        self.reason = self._card.reason if self._card else ""

    def read(self) -> dict[str, Any]:
        """Return `clock_mhz` and `temperature_c`, None if unknown, and `throttle`, the names of the reasons."""
        return self._card.now() if self._card else {"clock_mhz": _cpu_mhz(), "temperature_c": None, "throttle": []}


def slowed(reasons: Collection[str]) -> bool:
    """Return whether a device with these throttle reasons slowed itself down."""
    return not SLOWDOWNS.isdisjoint(reasons)


@lru_cache(maxsize=64)
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu_mhz() -> float | None:
    import psutil

    try:
        current = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError):  # not on every platform, nor in every container
        return None
    return float(current.current) if current and current.current else None


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one, under the names that a reader knows: `driver` for device/driver."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return flat
