"""WebGPU without its run-time checks: kernels may leave their buffers, and loops are not bounded.

No browser offers this. It measures what the checks cost: the same WGSL, adapter and driver, as wgpu-native compiles it for
programs that vouch for their shaders. Steps are verified as by any other backend.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from . import webgpu
from .backends import WEBGPU_UNCHECKED

NO_CHECKS = 0
"""Flags of wgpu-native's run-time checks: none of them."""


class _WithoutChecks:
    """Functions of wgpu-native as the package wgpu calls them, but modules are created as trusted ones."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        if name != "wgpuDeviceCreateShaderModule":
            return getattr(self._functions, name)
        from wgpu.backends.wgpu_native import lib

        return lambda device, descriptor: lib.wgpuDeviceCreateShaderModuleTrusted(device, descriptor, NO_CHECKS)


@contextmanager
def _without_checks() -> Iterator[None]:
    """Let the package wgpu create modules without run-time checks. It has no option for that."""
    from wgpu.backends.wgpu_native import _api

    functions = _api.libf
    _api.libf = _WithoutChecks(functions)
    try:
        yield
    finally:
        _api.libf = functions


class UncheckedDevice(webgpu.WebGPUDevice):
    """An adapter of WebGPU whose kernels are compiled without run-time checks."""

    backend = WEBGPU_UNCHECKED.name

    def module(self, text: str) -> Any:
        super().module(text)  # errors of the text are found here: a trusted module reports none
        with _without_checks():
            return super().module(text)


@lru_cache
def devices() -> list[webgpu.WebGPUDevice]:
    """Return the adapters of `webgpu.devices`, in their order, each as a device of its own."""
    return [UncheckedDevice(device.adapter, index) for index, device in enumerate(webgpu.devices())]
