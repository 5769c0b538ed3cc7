"""Few points stand for a sweep in two directions; no value of either knob is left out."""

from __future__ import annotations

import pytest

from roofbook.labs import peaks
from roofbook.spec import registry
from roofbook.spec.lab import Lab

from .sweep_points import points, values, variants

LABS = [pytest.param(lab, id=lab.name) for lab in (*map(registry.get, registry.names()), peaks.LAB)]


@pytest.mark.parametrize("lab", LABS)
def test_each_value_of_each_knob_is_there_and_so_are_the_ends(lab: Lab) -> None:
    for sweep in lab.sweeps:
        few = points(sweep)
        assert few == points(sweep) and few[0] is sweep.variants[0] and few[-1] is sweep.variants[-1]
        assert set().union(*map(values, few)) == set().union(*map(values, sweep.variants)), sweep.axis
    names = [variant.name for variant in variants(lab)]
    assert len(names) == len({*names}) and {*names} <= {variant.name for variant in lab.all_variants()}
    assert {variant.name for variant in (*lab.ladder, *lab.peers)} <= {*names}


def test_the_large_space_is_sampled_and_a_sweep_along_one_knob_is_whole() -> None:
    count = {sweep.axis: (len(points(sweep)), len(sweep.variants)) for sweep in registry.get("cnn").sweeps}
    assert count["space"][1] == 72 and 9 <= count["space"][0] <= 16
    (misaligned,) = (sweep for sweep in registry.get("stencil").sweeps if sweep.axis == "misaligned")
    assert points(misaligned) == list(misaligned.variants)
