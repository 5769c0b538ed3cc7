"""Test whether a device's native roots are a processor's estimates: their bits then depend on how wide its vectors are."""

from __future__ import annotations

from roofbook.devices.contract import Device
from roofbook.labs.stencil.native_root import native_root_loss
from roofbook.labs.stencil.problem import ROOT_ULPS


def are_estimates(device: Device) -> bool:
    """Return whether a native root is further off than an accurate one may be."""
    return native_root_loss(device, 1).ulps > ROOT_ULPS
