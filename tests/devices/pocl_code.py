"""Program: PoCL's machine code of each step of a lab, read from a cache of its own. Prints JSON.

Arguments: the lab, and the steps to look at, or none for all. POCL_CACHE_DIR names an empty folder: PoCL reads it when it
starts, so this takes a process.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from roofbook.devices import opencl
from roofbook.devices.contract import Program, Unsupported
from roofbook.devices.find import open_device
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant

from .elf import sections

Code = dict[str, str]
"""Kernel, with the group that it is compiled for -> hash of its instructions and constants."""


SCALES = {"convpool": "quick"}
"""Lab -> scale of its cases, where those of `test` are too small to tell two steps apart (of one chunk, say)."""


def differ(variant: Variant, parent: Variant) -> bool:
    """Return whether the compiler's input differs between the two: text, or flags."""
    assert variant.source and parent.source
    flags = [{name: step.options.get(name) for name in ("fast_math", "build")} for step in (variant, parent)]
    return variant.source.sha256 != parent.source.sha256 or flags[0] != flags[1]


def pairs(lab: Lab) -> Iterator[tuple[Variant, Variant, Case]]:
    """List (step, parent, case of both) for each step, or point that leaves out a part, that may differ from its parent."""
    for variant in lab.all_variants():
        parent = lab.variant(variant.parent) if variant.parent else None
        if variant.role != "step" and variant.axis != "without":
            continue
        if not (parent and parent.source and variant.source and "opencl" in variant.backends & parent.backends):
            continue
        cases = [
            case
            for case in lab.cases(SCALES.get(lab.name, "test"))
            if not any(lab.skip_reason(step, case) for step in (variant, parent))
        ]
        if differ(variant, parent) and cases:
            yield variant, parent, cases[0]


def code_of(lab: Lab, cache: Path, steps: Collection[str] = ()) -> dict[str, dict[str, Code]]:
    """Return the new files in the cache after each step and its parent ran on their cases; nothing where none may run.

    steps: these alone, where any are named.
    """
    pocl = open_device("opencl:pocl")
    build, number = opencl.OpenCLDevice.build, 0

    def build_uncached(self: Any, text: str, options: Sequence[str] = ()) -> Program:
        """Build with a macro that no text uses: so the cache has none of these programs."""
        program: Program = build(self, text, (*options, f"-D ROOFBOOK_PROGRAM_{number}"))
        return program

    opencl.OpenCLDevice.build = build_uncached  # type: ignore[method-assign, assignment]
    code_by_step: dict[str, dict[str, Code]] = {}
    chosen = [pair for pair in pairs(lab) if not steps or pair[0].name in steps]
    runs = {(step.name, case.name): (step, case) for *pair, case in chosen for step in pair}
    for variant, case in runs.values():
        number += 1
        before = set(cache.rglob("*.so"))
        few = Case(case.name, case.scale, case.params, min(case.units, 4))
        try:
            run = variant.plan(pocl, variant, few, lab.inputs(few, seed=1))
        except Unsupported:
            continue
        run.reset()
        run.run()
        run.close()
        code_by_step.setdefault(variant.name, {})[case.name] = {
            f"{shared.stem} {shared.parent.name}": _hash(shared) for shared in sorted(set(cache.rglob("*.so")) - before)
        }
    return code_by_step


def _hash(shared: Path) -> str:
    """Hash a program's instructions and the constants that they read."""
    contents = [content for name, content in sections(shared.read_bytes()) if name.startswith((".text", ".rodata"))]
    return hashlib.sha256(b"".join(contents)).hexdigest()


if __name__ == "__main__":
    print(json.dumps(code_of(registry.get(sys.argv[1]), Path(os.environ["POCL_CACHE_DIR"]), sys.argv[2:])))
