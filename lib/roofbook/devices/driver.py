"""Start NVIDIA's driver ahead of CuPy: it takes as long as the imports do. For programs that run for less than a second."""

import ctypes
import importlib.util
import sys
import threading
from contextlib import suppress

from .backends import CUDA


def start_driver(index: int | None = None) -> None:
    """Let the driver start in a thread of its own, and open the device of that number.

    Whoever asks the driver then waits for this. Without a driver or CuPy, or once CuPy is imported, nothing happens.
    """

    def start() -> None:
        with suppress(Exception):  # whoever asks the driver next learns what is wrong with it
            driver = ctypes.CDLL("libcuda.so.1")
            device, context = ctypes.c_int(), ctypes.c_void_p()
            if not driver.cuInit(0) and index is not None and not driver.cuDeviceGet(ctypes.byref(device), index):
                driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)

    if "cupy" not in sys.modules and importlib.util.find_spec("cupy"):
        threading.Thread(target=start, daemon=True).start()


def start_driver_of(spec: str, preferred_backend: str) -> None:
    """Start the driver of the device that `find.open_device` will be called for, in a thread of its own."""
    backend, _, which = (preferred_backend if spec == "auto" else spec).partition(":")
    if backend == CUDA.name:
        start_driver(int(which) if which.isdecimal() and len(which) < 4 else 0)
