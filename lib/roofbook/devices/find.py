"""Lists the devices of this machine, and opens one by the name that a user gives."""

import os
import re
from collections.abc import Sequence

from ..errors import UsageError, one_of
from .backends import BACKENDS, ON_REQUEST, OPENCL
from .contract import Device, Unsupported

CHOOSING = (
    "OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH", "POCL_DEVICES", "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ONEAPI_DEVICE_SELECTOR",
)  # fmt: skip
"""Variables of the environment that choose the drivers that are loaded, and the devices that are visible."""


def devices(of: str | None = None) -> list[Device]:
    """Return the devices that are present: first GPUs by CUDA, then OpenCL's devices in the order of their platforms.

    of: name of a backend, to list its devices alone and start no other driver. Those of ON_REQUEST are listed by it alone.
    """
    if of and (backend := ON_REQUEST.get(of)):
        return backend.devices()
    return [device for backend in BACKENDS.values() if of in (None, backend.name) for device in backend.devices()]


def no_device() -> UsageError:
    """Return the error of a machine without a device: how to get one, or the reason why PoCL cannot be one."""
    from .opencl import pocl_refused

    reason = pocl_refused() or "install an OpenCL driver, or `pip install 'pyopencl[pocl]'` for the CPU"
    chosen = [f"{name}={value}" for name in CHOOSING if (value := os.environ.get(name)) is not None]
    are_set = f"; this environment says which are seen: {' '.join(', '.join(chosen).split())}" if chosen else ""
    return UsageError(f"no device: {reason}{are_set}")


def open_device(spec: str = "auto", preferred_backend: str = OPENCL.name) -> Device:
    """Open the device that `spec` names. Raise UsageError if there is none.

    `auto` is a GPU by `preferred_backend`, else a GPU by another backend, else the CPU device, and never one of ON_REQUEST.
    `opencl:0` and `cuda:0` count a backend's devices. `opencl:NVIDIA` is the first device with the word in its platform, else
    in its other facts. Blanks around both parts are ignored.
    """
    spec = ":".join(part.strip() for part in spec.split(":", 1))
    backend, _, selector = (preferred_backend if spec == "auto" else spec).partition(":")
    of_backend = devices(backend)
    if spec == "auto":
        gpu = next((device for device in of_backend if device.kind == "gpu"), None)
        if gpu or (present := devices()):
            return gpu or _auto(present, preferred_backend)
        raise no_device()
    named = [device for device in of_backend if device.spec == spec]
    if selector and not selector.isdigit():
        word, identities = selector.lower(), [(device, device.identity()) for device in of_backend]
        named += [device for device, identity in identities if word in identity["platform"].lower()]
        named += [device for device, identity in identities if word in " ".join(identity.values()).lower()]
    if named:
        return named[0]
    if backend in ON_REQUEST and not of_backend:
        raise UsageError(ON_REQUEST[backend].absent)
    if present := devices():
        others = of_backend if backend in ON_REQUEST else present
        raise one_of("device", spec, ["auto", *(device.spec for device in others)])
    raise no_device()


def _auto(present: Sequence[Device], preferred_backend: str) -> Device:
    """Return the device that `auto` means, of those that are present."""
    return min(present, key=lambda device: (device.kind != "gpu", device.backend != preferred_backend))


def why_auto(preferred_backend: str | None = None) -> str:
    """Return a line with the device that `auto` means and the reason; '' if there are fewer than two devices.

    preferred_backend: that of the labs in question; by default of all labs.
    """
    present = devices()
    if len(present) < 2:
        return ""
    preferences = [preferred_backend] if preferred_backend else list(BACKENDS)
    chosen = list(dict.fromkeys(_auto(present, backend) for backend in preferences))
    if chosen[0].kind == "cpu":
        reason = "there is no GPU, and PoCL is the platform that every CPU can have"
    elif len({device.backend for device in present if device.kind == "gpu"}) > 1:
        reason = "a GPU, by the backend that the lab was written for"
    else:
        reason = "the first GPU"
    return f"auto takes {' or '.join(device.spec for device in chosen)}: {reason}"


def spec_of(device: Device) -> str:
    """Return a spec that names a device on other machines too, where other devices may be listed before it.

    It has the first word of an OpenCL device's platform, or otherwise the number 0.
    """
    platform = device.identity().get("platform", "") if device.backend == OPENCL.name else ""
    word = "pocl" if "pocl" in platform.lower() else "".join(re.findall(r"^\w+", platform))
    return f"{device.backend}:{word or 0}"


def host_cpu() -> Device:
    """Return the CPU of this machine as a device, for `sequential` and for comparisons. Raise Unsupported if there is none."""
    for backend in BACKENDS.values():
        for device in backend.devices() if "cpu" in backend.features else ():
            if device.kind == "cpu":
                return device
    raise Unsupported("no OpenCL device for the CPU: `pip install 'pyopencl[pocl]'` brings one")
