"""Facts of the host for the provenance of a row: processors, those that this process may use, memory, system.

Nothing here names a host, a user or a path. Facts that the system does not tell are null.
"""

import hashlib
import hmac
import json
import platform
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .host import processors

_SIMD = re.compile(r"sse4_2|avx\w*|fma|f16c|amx\w*|neon|asimd\w*|sve\w*|i8mm|bf16")
"""Flags of x86 and Arm for the vector instructions that a compiler may use."""


def facts(root: Path = Path("/")) -> dict[str, Any]:
    """Return the facts of the host as plain JSON data. `machine` distinguishes it from others of the same model.

    root: folder of `proc`, `sys` and `etc`.
    """
    return {
        **_lasting(root),
        "cpu_quota": _quota(root),
        "governor": _line(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "cpu_mhz_limits": _clock_limits(root),
        "boost": _boost(root),
    }


@lru_cache(maxsize=4)
def _lasting(root: Path) -> dict[str, Any]:
    """Return the facts that do not change while the process lives."""
    import psutil

    text = _text(root / "proc/cpuinfo")
    pairs = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    first = {name.strip(): value.strip() for name, _, value in pairs}
    flags = sorted((first.get("flags") or first.get("Features") or "").split())
    processor = {
        "cpu": first.get("model name") or platform.processor() or platform.machine() or None,
        "cpu_id": _cpu_id(first),
        "cpu_simd": [flag for flag in flags if _SIMD.fullmatch(flag)] or None,
        "sockets": len(set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.M))) or None,
        "cores": psutil.cpu_count(logical=False),
        "threads": psutil.cpu_count(),
    }
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        system = platform.system()
    return {
        "machine": _identifier(processor, _installation(root)),
        **processor,
        "cpu_flags": _digest(flags) if flags else None,
        "threads_usable": processors(),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
        "memory_bytes": psutil.virtual_memory().total,
        "os": system,
        # The number alone: what a house appends to its own kernels' releases can name the house.
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "hypervisor": "hypervisor" in flags if "flags" in first else None,
    }


def _identifier(processor: Mapping[str, Any], installation: str | None) -> str:
    """Return ten hexadecimal digits, the same on an unchanged machine: a digest of the processor and the installation.

    Neither is enough: containers often have no installation's id or share that of their image, and clouds rename the model.
    All flags and the memory are left out, since a newer kernel adds flags.
    """
    return _digest([processor, installation])[:10]


def _installation(root: Path) -> str | None:
    """Return a digest of the machine id, which is confidential itself (man 5 machine-id); None without an id."""
    machine_id = _line(root / "etc/machine-id") or ""
    if not re.fullmatch("[0-9a-f]{32}", machine_id) or not int(machine_id, 16):
        return None
    return hmac.new(bytes.fromhex(machine_id), b"roofbook", hashlib.sha256).hexdigest()


def _cpu_id(first: Mapping[str, str]) -> str | None:
    """Return the maker's numbers of the model: they differ between models to which a cloud gives one name."""
    for names in (("cpu family", "model", "stepping"), ("CPU implementer", "CPU part", "CPU variant", "CPU revision")):
        if all(name in first for name in names):
            return ", ".join(f"{name.removeprefix('CPU ').removeprefix('cpu ')} {first[name]}" for name in names)
    return None


def _quota(root: Path) -> float | None:
    """Return the processors' worth of time that the control group may use; None without a known limit."""
    group = next((line[3:] for line in _text(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    base = root / "sys/fs/cgroup"
    folder, quotas = base / group.strip("/"), list[float]()
    for level in (folder, *folder.parents):
        quotas += _ratio((_line(level / "cpu.max") or "").split())
        if level == base:
            break
    first = base / "cpu"
    quotas += _ratio([_line(first / "cpu.cfs_quota_us") or "", _line(first / "cpu.cfs_period_us") or ""])
    return min(quotas, default=None)


def _ratio(words: list[str]) -> list[float]:
    """Return a quota over its period, both in microseconds; nothing without a limit, which reads `max` or -1."""
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return []
    return [round(int(words[0]) / int(words[1]), 3)]


def _clock_limits(root: Path) -> list[float] | None:
    """Return the lowest and the highest clock that the system allows the first processor, in MHz."""
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    limits = [_line(folder / f"scaling_{which}_freq") or "" for which in ("min", "max")]
    return [int(khz) / 1000 for khz in limits] if all(khz.isdigit() for khz in limits) else None


def _boost(root: Path) -> bool | None:
    """Return whether processors may clock above their base; None if the system does not tell."""
    folder = root / "sys/devices/system/cpu"
    allowed, forbidden = _line(folder / "cpufreq/boost"), _line(folder / "intel_pstate/no_turbo")
    if allowed in ("0", "1"):
        return allowed == "1"
    return forbidden == "0" if forbidden in ("0", "1") else None


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str | None:
    return next(iter(_text(path).splitlines()), None)
