"""What the host is, for the provenance of a row: its processors, what of them this process may use, memory, system.

Nothing here names a host, a user or a path. What the system does not tell is null.
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
"""Of x86 and Arm: the flags that say which vector instructions a compiler may use."""


def facts(root: Path = Path("/")) -> dict[str, Any]:
    """All that is known of the host, as plain JSON data. `machine` is what tells it from another of the same model.

    root: where `proc`, `sys` and `etc` lie.
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
    """What does not change while the process lives."""
    import psutil

    text = _text(root / "proc/cpuinfo")
    pairs = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    first = {name.strip(): value.strip() for name, _, value in pairs}
    flags = sorted((first.get("flags") or first.get("Features") or "").split())
    known = {
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
        "machine": _identifier(known, _installation(root)),
        **known,
        "cpu_flags": _digest(flags) if flags else None,
        "threads_usable": processors(),
        "numa_nodes": len(list((root / "sys/devices/system/node").glob("node[0-9]*"))) or None,
        "memory_bytes": psutil.virtual_memory().total,
        "os": system,
        # The number alone: what a house appends to its own kernels' releases can name the house.
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "hypervisor": "hypervisor" in flags if "flags" in first else None,
    }


def _identifier(known: Mapping[str, Any], installation: str | None) -> str:
    """Ten hexadecimal digits, the same on an unchanged machine.

    Of the processor and, where it has one, of the system's installation: containers often lack it or share that of their image,
    and clouds rename the model, so neither is enough. Not of all flags, which a newer kernel adds to, nor of the memory.
    """
    return _digest([known, installation])[:10]


def _installation(root: Path) -> str | None:
    """A digest of the machine id, which is confidential and must not be published itself (man 5 machine-id); None for none."""
    found = _line(root / "etc/machine-id") or ""
    if not re.fullmatch("[0-9a-f]{32}", found) or not int(found, 16):
        return None
    return hmac.new(bytes.fromhex(found), b"roofbook", hashlib.sha256).hexdigest()


def _cpu_id(first: Mapping[str, str]) -> str | None:
    """What the maker numbers the model by: two that a cloud gives one name to differ in it."""
    for names in (("cpu family", "model", "stepping"), ("CPU implementer", "CPU part", "CPU variant", "CPU revision")):
        if all(name in first for name in names):
            return ", ".join(f"{name.removeprefix('CPU ').removeprefix('cpu ')} {first[name]}" for name in names)
    return None


def _quota(root: Path) -> float | None:
    """Processors' worth of time that the control group may use; None where nothing limits it or the system does not tell."""
    own = next((line[3:] for line in _text(root / "proc/self/cgroup").splitlines() if line.startswith("0::")), "/")
    base = root / "sys/fs/cgroup"
    folder, quotas = base / own.strip("/"), list[float]()
    for each in (folder, *folder.parents):
        quotas += _ratio((_line(each / "cpu.max") or "").split())
        if each == base:
            break
    first = base / "cpu"
    quotas += _ratio([_line(first / "cpu.cfs_quota_us") or "", _line(first / "cpu.cfs_period_us") or ""])
    return min(quotas, default=None)


def _ratio(words: list[str]) -> list[float]:
    """A quota over its period, both in microseconds; nothing where there is no limit, which reads `max` or -1."""
    if len(words) != 2 or not all(word.isdigit() for word in words) or not int(words[1]):
        return []
    return [round(int(words[0]) / int(words[1]), 3)]


def _clock_limits(root: Path) -> list[float] | None:
    """The least and the highest clock that the system lets the first processor have, MHz."""
    folder = root / "sys/devices/system/cpu/cpu0/cpufreq"
    found = [_line(folder / f"scaling_{which}_freq") or "" for which in ("min", "max")]
    return [int(each) / 1000 for each in found] if all(each.isdigit() for each in found) else None


def _boost(root: Path) -> bool | None:
    """Whether processors may clock above their base."""
    folder = root / "sys/devices/system/cpu"
    allowed, forbidden = _line(folder / "cpufreq/boost"), _line(folder / "intel_pstate/no_turbo")
    if allowed in ("0", "1"):
        return allowed == "1"
    return forbidden == "0" if forbidden in ("0", "1") else None


def _digest(what: Any) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line(path: Path) -> str | None:
    return next(iter(_text(path).splitlines()), None)
