"""Scaling over several devices: the model is exact for its own form, shows where scaling breaks, and may be missing."""

from __future__ import annotations

import pytest

from roofbook.labs.lbm import scaling

FIXED = {1: 5.0, 2: 20.0, 4: 50.0}
ROW = 0.25
TIMES = {(n, rows): FIXED[n] + ROW * rows / n for n in FIXED for rows in (8, 64, 512, 1024)}


def test_the_model_gives_back_the_times_that_it_is_made_of_and_says_which_it_was_read_from() -> None:
    model = scaling.model(TIMES)
    assert model and model.row == pytest.approx(ROW) and model.fixed == pytest.approx(FIXED)
    for (devices, rows), seconds in TIMES.items():
        assert model.seconds(devices, rows) == pytest.approx(seconds)
    assert model.read == {(1, 1024), (1, 8), (2, 8), (4, 8)}
    with pytest.raises(KeyError):
        model.seconds(8, 64)


def test_it_says_from_where_on_several_devices_pay_and_scale() -> None:
    model = scaling.model(TIMES)
    assert model
    rows = model.pays_from(2)
    assert rows == pytest.approx(120) and model.seconds(2, 120) == pytest.approx(model.seconds(1, 120))
    share = model.weak_from(4, 0.9)
    assert model.seconds(1, 1) < model.seconds(4, 4)
    alone, together = FIXED[1] + ROW * share, FIXED[4] + ROW * share
    assert alone / together == pytest.approx(0.9)
    free = scaling.Model({1: 5.0, 2: 4.0}, ROW, frozenset())
    assert free.pays_from(2) == 0 and free.weak_from(2, 0.9) == 0


def test_gain_and_efficiency_are_of_measured_times() -> None:
    assert scaling.strong(TIMES, 2, 512) == pytest.approx((5 + 128) / (20 + 64))
    assert scaling.weak(TIMES, 2, 1024) == pytest.approx((5 + 128) / (20 + 128))
    assert scaling.weak(TIMES, 4, 512) is None, "one device has no time on a quarter of it"
    assert scaling.strong(TIMES, 8, 512) is None and scaling.weak({(1, 3): 1.0, (2, 7): 1.0}, 2, 7) is None


@pytest.mark.parametrize(
    "times", [{}, {(2, 8): 1.0, (2, 16): 2.0}, {(1, 8): 1.0}, {(1, 8): 1.0, (1, 16): 1.0}, {(1, 8): 2.0, (1, 16): 1.0}]
)
def test_without_two_grids_on_one_device_the_larger_one_slower_there_is_none(times: scaling.Times) -> None:
    assert scaling.model(times) is None


def test_rows_that_a_cache_holds_make_no_fixed_time_below_nothing() -> None:
    model = scaling.model({(1, 8): 1.0, (1, 1024): 1024.0, (2, 8): 9.0})
    assert model and model.fixed[1] == 0.0 and model.fixed[2] == pytest.approx(9 - 4 * 1023 / 1016)
