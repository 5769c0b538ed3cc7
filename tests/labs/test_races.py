"""Every OpenCL kernel of every lab under Oclgrind: no race, no access out of bounds, and a right result.

Findings that are no mistakes stand in ALLOWED, with the reason.
"""

from __future__ import annotations

from fnmatch import fnmatch
from typing import NamedTuple

import pytest

from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.measure import sanitize
from roofbook.measure.sanitize import CheckedVariant
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant, missing

from ..often import often

LABS = [*registry.names(), registry.PEAKS]
CASES = {
    # The second for sub-tiles, with as few channels as there may be; the third for taps of 5x5.
    "cnn": ("3to5ch-7x34-k3", "2to16ch-16x28-k3", "3to5ch-7x34-k5"),
    "lbm": ("40x24", "128x128"),  # the second for sides that are powers of two
    "lenet": ("batch-1",),
    "stencil": ("5x13", "7x48", "4x1024", "4x2048"),
}
"""Lab -> sizes: a variant takes the first that it is for. All other labs have those of the scale `test`."""
ENDS = ("lenet/*", "lbm/bit-neighbours")
"""Kernels with so many groups, all alike, that the first and the last of each launch stand for them: no result is compared."""


class AllowedFinding(NamedTuple):
    """Finding in a variant that is no mistake: the only kind, the only file, or the reason why it does not run."""

    kind: str | None = None
    file: str | None = None
    reason: str | None = None


OVERLAP = "write-write data race in global memory"
SAME = AllowedFinding("write-write data race in local memory", "tiled_halo.k")
"""The parts of the input that a work-item loads overlap those of others: both write the same values to the same place."""
ALLOWED = {
    # The last vector of a row is moved back inside the row, over part of the one before. Both work-items compute those
    # cells from the same inputs by the same operations, so both write the same values, whichever comes last.
    ("lbm", "vectors"): AllowedFinding(OVERLAP, "vectors.k"),
    ("cnn", "vectors"): AllowedFinding(OVERLAP, "vectors.k"),
    **{("lenet", name): SAME for name in ("tiled-halo", "tiled-halo-constant", "tiled-halo-atomic", "rotating-halo")},
    # OpenCL has no atomic load of a float: a sum begins with what it saw, and is exchanged only where that is still there.
    ("lenet", "linear-atomic"): AllowedFinding("read-write data race in global memory", "input.cl"),
    # Oclgrind has one core, which divides into no parts. `slab` is the same kernel on one device.
    **{
        ("lbm", f"halo-{name}"): AllowedFinding(reason="2 parts of 1")
        for name in ("by-host", "direct", "overlapped", "stored", "stored-overlapped", "stored-overlapped@devices=2")
    },
    # Its kernel runs in processes of its own, which ask for a device of the machine.
    ("convpool", "initialisation"): AllowedFinding(reason="no device"),
    ("convpool", "whole-program"): AllowedFinding(reason="no device"),
}


@pytest.fixture(scope="module", autouse=True)
def oclgrind() -> None:
    try:
        sanitize.find_oclgrind()
    except UsageError as none:
        pytest.skip(str(none))


def chosen(lab: Lab) -> list[tuple[Variant, Case]]:
    """List the ladder, the peers with kernels of ours, and the ends of the sweeps, each with its case.

    Labs that are in ENDS as a whole have no sweeps here. Points for larger cases only are left out, and so are steps whose
    compiler is not installed.
    """
    cases = [lab.case(name) for name in CASES.get(lab.name, ())] or lab.cases("test")
    variants = (*lab.ladder, *lab.peers) if f"{lab.name}/*" in ENDS else lab.at_scale("test")
    pairs = []
    for variant in variants:
        if sanitize.reason_unchecked(variant, host_cpu()) or missing(variant):
            continue
        fit = next((case for case in cases if lab.skip_reason(variant, case) is None), None)
        assert fit or variant.role == "sweep", f"{variant.name} is for none of {[case.name for case in cases]}"
        pairs += [(variant, fit)] if fit else []
    return pairs


def complaint(lab: Lab, checked: CheckedVariant) -> str | None:
    """Return an unexpected finding, or an expected one that is missing; None where all are as expected."""
    allowed = ALLOWED.get((lab.name, checked.variant.name), AllowedFinding())
    kinds = {finding.kind for finding in checked.defects}
    files = {place.file.rpartition("/")[2] for finding in checked.defects for place in finding.places}
    expected = (
        {allowed.kind} if allowed.kind else set(),
        {allowed.file} if allowed.file else set(),
    )
    if (kinds, files) != expected or (checked.reason is None) != (allowed.reason is None):
        return f"{checked.variant.name} on {checked.case.name}: {dict(checked.defects)}, {checked.reason}"
    return (
        None
        if allowed.reason is None or allowed.reason in str(checked.reason)
        else f"{checked.variant.name}: {checked.reason}"
    )


@pytest.mark.parametrize("name", often(LABS, {"stencil"}.__contains__))
def test_no_kernel_races_or_leaves_its_buffers(name: str) -> None:
    lab = registry.get(name)
    pairs: dict[bool, list[tuple[Variant, Case]]] = {False: [], True: []}
    for variant, case in chosen(lab):
        pairs[any(fnmatch(f"{name}/{variant.name}", pattern) for pattern in ENDS)].append((variant, case))
    done = [checked for ends, some in pairs.items() for checked in sanitize.check(lab, some, host_cpu(), ends=ends)]
    assert [checked.variant for checked in done] == [variant for some in pairs.values() for variant, _ in some]
    wrong = [text for text in (complaint(lab, checked) for checked in done) if text]
    assert not wrong, "\n".join(wrong)
    assert {lab for lab, _ in ALLOWED} <= set(LABS)
    unoptimised = {checked.variant.name for checked in done if not checked.outcome.get("optimised", True)}
    assert unoptimised == ({"vectors"} if name == "lbm" else set()), "Oclgrind gets the optimised code of these wrong"
