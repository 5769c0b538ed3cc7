"""Make this machine look like another CPU, for tests: Python imports this file at its start where PYTHONPATH names its folder.

ROOFBOOK_MADE_UP_CPU is LLVM's name of the CPU, by which PoCL then compiles. ROOFBOOK_MADE_UP_FLAGS lists the features that
/proc/cpuinfo shows. An empty or missing variable leaves the machine's own.
"""

from __future__ import annotations

import builtins
import ctypes
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from typing import Any

NAME, FLAGS = (os.environ.get(f"ROOFBOOK_MADE_UP_{suffix}", "") for suffix in ("CPU", "FLAGS"))
_text = ctypes.create_string_buffer(NAME.encode())


def _make_up(opencl: Any) -> None:
    """Let PoCL have the made-up name of the CPU in its structures, and in the version, which PoCL forms from LLVM's name."""
    from roofbook.devices import pocl_probe

    real_platforms, real_version = opencl.get_platforms, opencl.Device.version

    def version(device: Any) -> str:
        text: str = real_version.__get__(device)
        return f"{text.rpartition('linux-gnu-')[0]}linux-gnu-{NAME}" if "pocl" in text.lower() else text

    def get_platforms() -> Any:
        platforms = real_platforms()
        opencl.Device.version = real_version
        for device in (device for platform in platforms for device in platform.get_devices()):
            field = pocl_probe._field(device)
            if field is not None and field.value not in pocl_probe._names:
                field.value = ctypes.addressof(_text)
        opencl.Device.version = property(version)
        return platforms

    opencl.get_platforms = get_platforms


class _Finder(importlib.abc.MetaPathFinder):
    """Lets PyOpenCL be imported as ever, then wraps it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "pyopencl":
            return None
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path, target)
        run = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            run(module)
            _make_up(module)

        spec.loader.exec_module = exec_module
        return spec


def _shown(open_file: Callable[..., Any]) -> Any:
    """Wrap `open` so that the list of features in /proc/cpuinfo is the made-up one."""

    def opened(file: Any, *arguments: Any, **options: Any) -> Any:
        if str(file) != "/proc/cpuinfo":
            return open_file(file, *arguments, **options)
        with open_file(file) as real:
            lines = [f"flags\t\t: {FLAGS}\n" if line.startswith("flags") else line for line in real]
        return io.StringIO("".join(lines))

    return opened


if NAME:
    sys.meta_path.insert(0, _Finder())
if FLAGS:
    builtins.open = io.open = _shown(io.open)
