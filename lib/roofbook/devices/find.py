"""Which devices this machine has, and how one is found by the name that a user gives."""

from ..errors import UsageError, one_of
from .backends import BACKENDS, OPENCL
from .contract import Device, Unsupported


def devices() -> list[Device]:
    """Every device that is present, in the order of BACKENDS: GPUs by CUDA, then OpenCL's in the order of their platforms."""
    return [device for backend in BACKENDS.values() for device in backend.devices()]


def no_device() -> UsageError:
    """The error of a machine without one: how to get one, or what keeps PoCL from being one."""
    from .opencl import pocl_refused

    why = pocl_refused() or "install an OpenCL driver, or `pip install 'pyopencl[pocl]'` for the CPU"
    return UsageError(f"no device: {why}")


def open_device(spec: str = "auto", preferred_backend: str = OPENCL.name) -> Device:
    """The device named by `spec`.

    `auto` is a GPU by `preferred_backend`, else a GPU by another, else the CPU device. `opencl:0` and `cuda:0` count a
    backend's devices; `opencl:NVIDIA` takes the first whose name or platform contains the word.
    """
    found = devices()
    if not found:
        raise no_device()
    if spec == "auto":
        return min(found, key=lambda device: (device.kind != "gpu", device.backend != preferred_backend))
    backend, _, which = spec.partition(":")
    of_backend = [device for device in found if device.backend == backend]
    for device in of_backend:
        words = " ".join(device.identity().values()).lower()
        if which and (device.spec == spec or (not which.isdigit() and which.lower() in words)):
            return device
    raise one_of("device", spec, ["auto", *(device.spec for device in found)])


def host_cpu() -> Device:
    """The CPU of this machine as a device, for `sequential` and for comparisons. Raises Unsupported where there is none."""
    for backend in BACKENDS.values():
        for device in backend.devices() if "cpu" in backend.features else ():
            if device.kind == "cpu":
                return device
    raise Unsupported("no OpenCL device for the CPU: `pip install 'pyopencl[pocl]'` brings one")
