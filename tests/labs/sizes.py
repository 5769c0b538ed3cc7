"""Assertions on sizes that no scale of a lab lists, and the steps that move less than a problem needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.book.experiment import Experiment
from roofbook.errors import UsageError
from roofbook.spec.lab import Lab
from roofbook.spec.plan import SCALES


def unlisted(lab: Lab, name: str, impossible: str, results: Path) -> None:
    """Assert that a case of that name is measured like any other, and that an impossible size is a UsageError."""
    assert lab.case(name).name == name and lab.case(name, "published").scale == "published"
    assert name not in [case.name for scale in SCALES for case in lab.cases(scale)]
    experiment = Experiment(lab.name, {"cases": [name], "scale": "test", "results": str(results)})
    params = [case.params for case in experiment.cases]
    assert params == [lab.case(name).params] == [experiment.data.case(name).params]
    assert experiment.plan(), "some variant is for it"
    with pytest.raises(UsageError, match=r"^[^\n]* must be [23] or more[^\n]*$"):
        lab.case(impossible)
    with pytest.raises(UsageError, match=lab.other_sizes):
        lab.case("none")


def moving_less(lab: Lab) -> set[str]:
    """Return the steps that move less than the problem needs in its own type from memory, once a unit.

    They keep the problem in a narrower type, or wholly on the chip.
    """
    cases = [case for scale in SCALES for case in lab.cases(scale)]
    return {v.name for case in cases for v in lab.ladder if lab.traffic(case, v) < lab.work(case).bytes}
