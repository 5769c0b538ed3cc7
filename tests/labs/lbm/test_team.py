"""Work-items that wait for each other, of any number, with bands of many rows, of one or of none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from roofbook.devices import opencl

PROGRAM = """
import sys

from roofbook.devices.find import host_cpu
from roofbook.labs.lbm import LAB

device, variant, case = host_cpu(), LAB.variant(sys.argv[1]), LAB.case("40x24", "test")
build = device.build


def patient(text, options=()):
    assert "1 << 18" in text
    return build(text.replace("1 << 18", "1 << 29"), options)  # on few processors it takes long until all are there


device.build = patient
small, inputs = LAB.verification_case(case, variant), LAB.inputs(case, 3)
runnable = variant.plan(device, variant, small, inputs)
right = LAB.reference(small, inputs)
for _ in range(3):  # the last to leave makes everything ready for the next launch
    runnable.reset()
    runnable.run()
    error, allowed, what = LAB.check(small, variant, runnable.outputs(), right)
    assert error <= allowed, what
print(device.compute_units)
"""


@pytest.mark.parametrize("number", [3, *(pytest.param(number, marks=pytest.mark.thorough) for number in (16, 24, 30))])
@pytest.mark.parametrize("name", ["team", "team-neighbours"])
def test_any_number_of_them_is_right(name: str, number: int) -> None:
    many = {"POCL_MAX_PTHREAD_COUNT": str(number), "POCL_CPU_MAX_CU_COUNT": str(number), opencl.AFFINITY: "0"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, name], env=os.environ | many, capture_output=True, text=True, timeout=1000
    )
    assert done.returncode == 0, done.stderr
    if done.stdout.split() != [str(number)]:
        pytest.skip(f"the CPU's device has {done.stdout.strip()} cores, whatever it is told")
