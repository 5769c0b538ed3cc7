"""Which devices this machine has, and how one is found by the name that a user gives."""

import os
import re
from collections.abc import Sequence

from ..errors import UsageError, one_of
from .backends import BACKENDS, OPENCL
from .contract import Device, Unsupported

CHOOSING = (
    "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "POCL_DEVICES", "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ONEAPI_DEVICE_SELECTOR",
)  # fmt: skip
"""Variables that say which drivers are loaded, and which of their devices are seen."""


def devices(of: str | None = None) -> list[Device]:
    """Every device that is present, in the order of BACKENDS: GPUs by CUDA, then OpenCL's in the order of their platforms.

    Or those of one backend, by its name: the others need not start their drivers.
    """
    return [device for backend in BACKENDS.values() if of in (None, backend.name) for device in backend.devices()]


def no_device() -> UsageError:
    """The error of a machine without one: how to get one, or what keeps PoCL from being one."""
    from .opencl import pocl_refused

    why = pocl_refused() or "install an OpenCL driver, or `pip install 'pyopencl[pocl]'` for the CPU"
    chosen = [f"{name}={value}" for name in CHOOSING if (value := os.environ.get(name)) is not None]
    are_set = f"; this environment says which are seen: {' '.join(', '.join(chosen).split())}" if chosen else ""
    return UsageError(f"no device: {why}{are_set}")


def open_device(spec: str = "auto", preferred_backend: str = OPENCL.name) -> Device:
    """The device named by `spec`.

    `auto` is a GPU by `preferred_backend`, else a GPU by another, else the CPU device. `opencl:0` and `cuda:0` count a
    backend's devices; `opencl:NVIDIA` takes the first whose platform contains the word, else the first that it describes.
    Blanks around either part do not count.
    """
    spec = ":".join(part.strip() for part in spec.split(":", 1))
    backend, _, which = (preferred_backend if spec == "auto" else spec).partition(":")
    of_backend = devices(backend)
    if spec == "auto":
        gpu = next((device for device in of_backend if device.kind == "gpu"), None)
        if gpu or (found := devices()):
            return gpu or _auto(found, preferred_backend)
        raise no_device()
    named = [device for device in of_backend if device.spec == spec]
    if which and not which.isdigit():
        told = [(device, device.identity()) for device in of_backend]
        named += [device for device, identity in told if which.lower() in identity["platform"].lower()]
        named += [device for device, identity in told if which.lower() in " ".join(identity.values()).lower()]
    if named:
        return named[0]
    if found := devices():
        raise one_of("device", spec, ["auto", *(device.spec for device in found)])
    raise no_device()


def _auto(found: Sequence[Device], preferred_backend: str) -> Device:
    return min(found, key=lambda device: (device.kind != "gpu", device.backend != preferred_backend))


def why_auto(preferred_backend: str | None = None) -> str:
    """Which device `auto` takes and why, in one line: for labs that prefer this backend, or for all; '' where there is one."""
    found = devices()
    if len(found) < 2:
        return ""
    asked = [preferred_backend] if preferred_backend else list(BACKENDS)
    taken = list(dict.fromkeys(_auto(found, backend) for backend in asked))
    if taken[0].kind == "cpu":
        why = "there is no GPU, and PoCL is the platform that every CPU can have"
    elif len({device.backend for device in found if device.kind == "gpu"}) > 1:
        why = "a GPU, by the backend that the lab was written for"
    else:
        why = "the first GPU"
    return f"auto takes {' or '.join(device.spec for device in taken)}: {why}"


def spec_of(device: Device) -> str:
    """What names such a device on another machine, or by another version of this library, which may list others before it.

    Its platform where it may be one of several, else the first.
    """
    platform = device.identity().get("platform", "") if device.backend == OPENCL.name else ""
    word = "pocl" if "pocl" in platform.lower() else "".join(re.findall(r"^\w+", platform))
    return f"{device.backend}:{word or 0}"


def host_cpu() -> Device:
    """The CPU of this machine as a device, for `sequential` and for comparisons. Raises Unsupported where there is none."""
    for backend in BACKENDS.values():
        for device in backend.devices() if "cpu" in backend.features else ():
            if device.kind == "cpu":
                return device
    raise Unsupported("no OpenCL device for the CPU: `pip install 'pyopencl[pocl]'` brings one")
