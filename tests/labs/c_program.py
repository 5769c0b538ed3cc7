"""The C peers of the labs for tests: made, run, compared with the reference, and made wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.find import host_cpu
from roofbook.peers import cc, openmp
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant

needs_compiler = pytest.mark.skipif(cc.compiler() is None, reason=str(cc.missing()))


def c_peer(lab: Lab) -> Variant | None:
    """Return the peer of a lab that is a program in C, None where it has none."""
    peers = [peer for peer in lab.peers if isinstance(peer.plan, type) and issubclass(peer.plan, openmp.CProgram)]
    return peers[0] if peers else None


LABS = [name for name in registry.names() if c_peer(registry.get(name))]
"""Labs with a peer that is a program in C."""


def make(lab: Lab, name: str, plan: Any = None) -> tuple[openmp.CProgram, Case, Variant]:
    """Return the lab's C peer, or another plan in its place, made for a case; with the case and the variant."""
    variant, case = c_peer(lab), lab.case(name)
    assert variant
    program = (plan or variant.plan)(host_cpu(), variant, case, lab.inputs(case, seed=5))
    assert isinstance(program, openmp.CProgram)
    program.reset()
    return program, case, variant


def error_beyond_allowed(lab: Lab, program: openmp.CProgram, case: Case, variant: Variant) -> float:
    """Return the error of one run beyond the allowed one: at most 0 where it is right."""
    reference = lab.reference(case, lab.inputs(case, seed=5))
    program.run()
    error, tolerance, _ = lab.check(case, variant, program.outputs(), reference)
    return error - tolerance


def is_right(lab: Lab, name: str) -> bool:
    """Return whether the program is right with one thread and with three."""
    for threads in (1, 3):
        program, case, variant = make(lab, name)
        program.threads = threads
        if not error_beyond_allowed(lab, program, case, variant) <= 0:
            return False
    return True


def is_refused(lab: Lab, name: str, text: str, wrong: str, folder: Path) -> bool:
    """Return whether the check refuses the program with `text` replaced by `wrong`; compiled in `folder`."""
    variant = c_peer(lab)
    assert variant
    plan: Any = variant.plan
    written = plan.sources[0].read_text()
    assert written.count(text) == 1
    changed = folder / "changed.c"
    changed.write_text(written.replace(text, wrong))
    program, case, variant = make(lab, name, type("Changed", (plan,), {"sources": (changed,)}))
    return not error_beyond_allowed(lab, program, case, variant) <= 0
