"""A program with the few declarations that it needs is that with all of them."""

from __future__ import annotations

import pytest

from roofbook.devices.contract import BuildFailed
from roofbook.devices.find import devices
from roofbook.devices.opencl import POCL, OpenCLDevice

from .pocl_builtins import statements, with_declarations

TEXT = """kernel void k(global float *x, local float *y) {
    int i = get_global_id(0);
    y[get_local_id(0)] = fma(vload4(0, x).w, x[i], native_rsqrt(x[i + 1]));
    barrier(CLK_LOCAL_MEM_FENCE);
    atomic_add((volatile global int *)x, convert_int_rte(y[0]));
}
"""


def pocl() -> OpenCLDevice:
    """Return PoCL's device; skip the test where there is none, or none of the package that we read."""
    for device in devices():
        if isinstance(device, OpenCLDevice) and POCL in device.device.platform.name and statements():
            return device
    pytest.skip("no PoCL of the package pocl-binary-distribution")


def test_the_code_is_that_with_all_declarations() -> None:
    import pyopencl as cl

    device = pocl()
    text = with_declarations(TEXT, ())
    whole = cl.Program(device.context, TEXT).build(devices=[device.device])
    assert "native_sqrt(" not in text and "native_rsqrt(" in text
    few = cl.Program(device.context, text).build(["-D_OPENCL_H_"], devices=[device.device])
    sizes = [len(program.get_info(cl.program_info.BINARIES)[0]) for program in (whole, few)]
    assert sizes[0] == sizes[1] > len(TEXT), "the bitcode also holds the program's hash, which differs"


def test_an_error_is_on_the_line_of_the_text_and_no_further_function_is_declared() -> None:
    device = pocl()
    with pytest.raises(BuildFailed, match=r"line 3:.*clamped"):
        device.build(TEXT.replace("fma(", "clamped("))
