"""What produced a measurement: the environment that decides its env_key, the state of the machine, the device's clocks.

Serves measure, which puts a snapshot into every row, and store and run, which compare it with today's. Nothing here
names a host, a user or a path: rows are published.
"""

import os
import platform
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

from ..paths import LIBRARY
from .backends import BACKENDS
from .host import processors

# NVML's bits. That a GPU idles between two samples slows nothing, so bit 0x1 is not here.
_THROTTLE = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}


class Identified(Protocol):
    """The part of a device that this module needs."""

    def identity(self) -> dict[str, str]:
        """Backend, model, driver and runtime."""


def environment(device: Identified) -> dict[str, Any]:
    """What env_key is made of: the device's identity, Python, NumPy and the libraries of the device's own backend.

    The same on an unchanged machine, also when a library of the other backend comes or goes.
    """
    identity = device.identity()
    backend = BACKENDS.get(identity.get("backend", ""))
    names = ("numpy", *(backend.libraries if backend else ()))
    libraries = {name: version for name in names if (version := _version(name))}
    return {"device": identity, "libraries": libraries, "python": platform.python_version()}


def snapshot(device: Identified) -> dict[str, Any]:
    """All that a row's provenance column holds, as plain JSON data; unknown things are null.

    `environment` is what env_key is made of; next to it the machine, its load and the project's commit at this moment.
    """
    import psutil

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "environment": environment(device),
        **_machine(),
        "governor": _first_line(Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        "load_1min": None if load is None else round(load, 2),
        "memory_available_bytes": psutil.virtual_memory().available,
        "git": _git(LIBRARY.parents[1]),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first thing that differs between two environments, such as `the driver changed: 1.2 -> 1.3`; else None."""
    old, new = _flat(was), _flat(now)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if not changed:
        return None
    first = changed[0]
    more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
    if first not in new:
        return f"{first} is gone: was {old[first]}{more}"
    if first not in old:
        return f"{first} is new: {new[first]}{more}"
    return f"the {first} changed: {old[first]} -> {new[first]}{more}"


class Clocks:
    """Clock, temperature and throttle reasons, read between samples: of a GPU by NVML, of a CPU its clock alone.

    A GPU is found by its PCI bus id: NVML numbers all cards of the machine in the order of the bus (NVML API Reference,
    nvmlDeviceGetHandleByIndex), CUDA those that CUDA_VISIBLE_DEVICES leaves, the fastest first, and OpenCL in an order of its
    own. An instance of a card that is shared by MIG has the bus id of the card, whose clock and temperature all its instances
    have. `reason` says in one clause why a GPU tells nothing; it is empty where all is well.
    """

    def __init__(self, kind: str = "cpu", pci_bus_id: str | None = None) -> None:
        """kind: `cpu` or `gpu`. pci_bus_id: of a GPU, as `Device.pci_bus_id`; a GPU without one has no clocks."""
        self.reason = ""
        self._kind = kind
        self._nvml: Any = None
        if kind == "cpu":
            return
        if pci_bus_id is None:
            self.reason = "the driver does not tell the GPU's PCI bus id"
            return
        try:
            import pynvml
        except ImportError:
            self.reason = "nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
            self._nvml = pynvml
        except pynvml.NVMLError as error:
            self.reason = f"no NVML for GPU {pci_bus_id}: {error}"

    def read(self) -> dict[str, Any]:
        """`clock_mhz` and `temperature_c` (float, or None where unknown) and `throttle` (names, empty for none)."""
        if self._kind == "cpu":
            return {"clock_mhz": _cpu_mhz(), "temperature_c": None, "throttle": []}
        if self._nvml is None:
            return {"clock_mhz": None, "temperature_c": None, "throttle": []}
        nvml = self._nvml
        # Drivers from before the renaming know the reasons under their old name only.
        reasons = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        clock = self._ask("nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM)
        temperature = self._ask("nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU)
        return {
            "clock_mhz": None if clock is None else float(clock),
            "temperature_c": None if temperature is None else float(temperature),
            "throttle": [name for bit, name in _THROTTLE.items() if bit & (reasons or 0)],
        }

    def _ask(self, function: str, *arguments: int) -> int | None:
        """One figure; a driver that does not tell it makes it unknown, not an error."""
        try:
            return int(getattr(self._nvml, function)(self._handle, *arguments))
        except (AttributeError, self._nvml.NVMLError):
            return None


@lru_cache(maxsize=64)
def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@lru_cache(maxsize=1)
def _machine() -> dict[str, Any]:
    """What does not change while the process lives."""
    import psutil

    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        system = platform.system()
    return {
        "cpu": _cpu_model(),
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
        "threads_usable": processors(),
        "memory_bytes": psutil.virtual_memory().total,
        "os": system,
        # The number alone: what a house appends to its own kernels' releases can name the house.
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
    }


def _cpu_model() -> str | None:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or None


def _cpu_mhz() -> float | None:
    import psutil

    try:
        current = psutil.cpu_freq()
    except (AttributeError, NotImplementedError, OSError):  # not on every platform, nor in every container
        return None
    return float(current.current) if current and current.current else None


def _first_line(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None


@lru_cache(maxsize=8)
def _git(project: Path) -> dict[str, Any] | None:
    """Commit (null before the first) and dirty flag by a single call of git; None outside a repository or without git.

    Only the project's own repository counts, not one that an installed copy happens to lie in. An archive of a commit names
    it, and cannot tell whether it was changed since.
    """
    if not (project / ".git").exists():
        commit = _first_line(LIBRARY / "archived.txt")
        return {"commit": commit, "dirty": None} if commit and not commit.startswith("$") else None
    command = ["git", "-C", str(project), "status", "--porcelain=v2", "--branch"]
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        lines = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True, env=quiet).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    headers = dict(line[2:].split(" ", 1) for line in lines.splitlines() if line.startswith("# "))
    commit = headers.get("branch.oid")
    dirty = any(not line.startswith("# ") for line in lines.splitlines())
    return {"commit": None if commit == "(initial)" else commit, "dirty": dirty}


def _flat(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Nested mappings as one, under the names that a reader knows: `driver` for device/driver."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _flat(value) if isinstance(value, Mapping) else {name: value}
    return flat
