"""Steps of which PoCL makes the machine code of their parents, though text or flags differ: each is explained.

test_same_code.py asks this of NVRTC. PoCL compiles a kernel for a group when it is launched, so each step runs once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from roofbook.devices import opencl, pocl_cpu, pocl_probe
from roofbook.devices.find import host_cpu
from roofbook.paths import cache_key, cached
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant

from . import pocl_code

ROOT = Path(__file__).parents[2]
POCL = "PoCL"
OF_LENET = ("linear-constant", "tiled-halo-constant", "unrolled-constant", "constant", "tiled-constant")
PAIRS = {
    ("cnn", "constant"),
    ("convpool", "fast-math"),
    *(("lenet", name) for name in OF_LENET),
    ("stencil", "rsqrt"),
    ("stencil", "native-rsqrt"),
}
"""(lab, step) with their parents' code, written down apart from the ladders, which have the reasons."""
NOT_EVERYWHERE = {"rsqrt", *OF_LENET}
"""Steps that are equal only on some machines, or in some runs: where PoCL can inline its built-in functions, or orders
instructions alike."""

Code = Mapping[str, Mapping[str, Mapping[str, str]]]
"""Variant -> case -> kernel with its group -> hash of its code."""


def key_of(lab: Lab) -> str:
    """Return a key of all that decides the code of a lab's steps: PoCL, processor, our calls, kernels, plans and options."""
    modules = (Path(str(module.__file__)).read_text() for module in (pocl_code, opencl, pocl_cpu, pocl_probe))
    steps = [
        (step.name, case.name, step.fingerprint(), step.source.render("opencl"))
        for *pair, case in pocl_code.pairs(lab)
        for step in pair
        if step.source
    ]
    return cache_key(lab.name, json.dumps(host_cpu().identity()), *modules, json.dumps(steps))


def code_of(name: str, cache: Path, *steps: str) -> Code:
    """Return PoCL's code of the named steps, made now; or of all steps, from the cache of this machine where it is there."""
    if "Portable Computing Language" not in host_cpu().identity()["platform"]:
        pytest.skip("the host's OpenCL is not PoCL")

    def run_pocl() -> bytes:
        cache.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.devices.pocl_code", name, *steps],
            env={**os.environ, "POCL_CACHE_DIR": str(cache), "PYOPENCL_NO_CACHE": "1"},
            cwd=ROOT, capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.splitlines()[-1].encode()

    code_by_step: Code = json.loads(run_pocl() if steps else cached("pocl-code", key_of(registry.get(name)), run_pocl))
    return code_by_step


def equal_to_parents(lab: Lab, code_by_step: Code) -> set[str]:
    """Return the variants whose kernels are all equal to their parents'."""

    def kernels(variant: Variant, case: Case) -> list[str]:
        return sorted(code_by_step.get(variant.name, {}).get(case.name, {}).values())

    return {
        variant.name
        for variant, parent, case in pocl_code.pairs(lab)
        if kernels(variant, case) and kernels(variant, case) == kernels(parent, case)
    }


@pytest.mark.thorough
@pytest.mark.parametrize("name", registry.names())
def test_every_step_of_its_parents_code_is_explained_and_no_other(name: str, tmp_path: Path) -> None:
    lab, code_by_step = registry.get(name), code_of(name, tmp_path / "once")
    assert code_by_step and all(code for cases in code_by_step.values() for code in cases.values()), "each has kernels"
    listed = {variant for of, variant in PAIRS if of == name}
    equal = equal_to_parents(lab, code_by_step)
    if not equal <= listed:  # PoCL's code of a kernel changes from run to run: what is equal each time counts
        equal &= equal_to_parents(lab, code_of(name, tmp_path / "again", *equal))
    assert listed - NOT_EVERYWHERE <= equal <= listed, "say why in Variant.same_code, or give the step code of its own"
    assert {variant.name for variant in lab.all_variants() if POCL in variant.same_code} == listed
