"""Outcomes and texts of the stencil's page: errors of roots, bits that differ, sentences on measured variants alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.stencil import LAB, demonstration
from roofbook.labs.stencil.problem import ROOT_ULPS

from ..fake_measurements import FakeMeasurements, demonstration_table
from . import native

FLOATS = st.floats(-(2.0**127), 2.0**127, width=32)


# -- what is compared --------------------------------------------------------------------------------------------------


@given(FLOATS, FLOATS)
def test_whole_numbers_are_in_the_order_of_their_values(a: float, b: float) -> None:
    first, second = demonstration.in_order(np.array([a, b], np.float32))
    if a != b:
        assert (first < second) == (a < b)
    above = np.nextafter(np.float32(a), np.float32(np.inf))
    if a != 0:
        assert demonstration.in_order(np.array([above]))[0] - first == 1


def test_nothing_but_equal_bits_and_nan_is_no_step_apart() -> None:
    zeros = demonstration.in_order(np.array([-0.0, 0.0], np.float32))
    assert zeros[1] - zeros[0] == 1
    nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
    assert len(set(demonstration.in_order(nans).tolist())) == 1
    assert demonstration.in_order(nans[:1])[0] > demonstration.in_order(np.array([np.inf], np.float32))[0]


def test_every_special_sum_meets_every_special_number() -> None:
    image = demonstration.special()
    sums = (image["r"][:-2] + image["b"][2:]).view(np.uint32).ravel().tolist()
    met = set(zip(sums, image["g"][1:-1].view(np.uint32).ravel().tolist(), strict=True))
    bits = np.array(demonstration.SPECIAL, np.float32).view(np.uint32).tolist()
    assert len(set(bits)) == len(demonstration.SPECIAL) and set(product(bits, bits)) <= met
    denormal = np.abs(image["g"][np.isfinite(image["g"]) & (image["g"] != 0)])
    assert denormal.min() == 2.0**-149


class FakeDevice:
    """Stand-in for a device whose kernel gives known roots."""

    backend, name = "opencl", "FakeDevice"

    def __init__(self, *roots: Callable[[Any], Any]) -> None:
        self.roots = roots

    def build(self, text: str) -> Any:
        return SimpleNamespace(kernel=lambda name: name)

    def queue(self) -> Any:
        return self

    def empty(self, nbytes: int) -> Any:
        return SimpleNamespace(array=None, release=lambda: None)

    def write(self, buffer: Any, array: np.ndarray) -> None:
        buffer.array = array.copy()

    def launch(self, kernel: str, size: tuple[int], local: tuple[int], x: Any, *arguments: Any) -> None:
        assert size == (x.array.size,) == (arguments[-1],) and size[0] % local[0] == 0
        for buffer, root in zip(arguments, self.roots, strict=False):
            buffer.array = root(x.array)

    def read(self, buffer: Any, array: np.ndarray) -> np.ndarray:
        array[...] = buffer.array
        return array


def nearest(x: np.ndarray) -> np.ndarray:
    return (1 / np.sqrt(x.astype(np.float64))).astype(np.float32)


def one_wrong(x: np.ndarray) -> np.ndarray:
    root = nearest(x)
    root[x == np.float32(3.5)] = 0.25
    return root


def test_errors_of_known_roots() -> None:
    device = cast(Device, FakeDevice(nearest, lambda x: np.nextafter(nearest(x), np.float32(0)), one_wrong))
    exact, below, wrong = demonstration.roots(device)
    assert [outcome.computed for outcome in (exact, below, wrong)] == ["1/sqrt", "rsqrt", "native_rsqrt"]
    assert exact.values == 2**24 and exact.differing == 0
    assert 0.4999 < exact.largest <= 0.5 and exact.mean == pytest.approx(0.25, rel=1e-3)
    assert below.differing == 2**24 and 1.4999 < below.largest <= 1.5 and below.mean == pytest.approx(1, rel=1e-3)
    assert wrong.differing == 1 and wrong.largest == pytest.approx((3.5**-0.5 - 0.25) * 2**24)


def test_a_root_that_is_nan_shows() -> None:
    def broken(x: np.ndarray) -> np.ndarray:
        return np.where(x == np.float32(1.5), np.float32(np.nan), nearest(x))

    device = cast(Device, FakeDevice(broken, nearest, nearest))
    errors = next(demonstration.roots(device))
    assert math.isnan(errors.largest) and math.isnan(errors.mean) and errors.differing == 1


def test_one_bit_that_differs_is_counted(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    run = demonstration.passes

    def flipped(device: Device, name: str, image: demonstration.Problem) -> demonstration.Floats:
        g = run(device, name, image)
        if name == "float4":
            g.view(np.uint32)[5, 7] ^= 1
        return g

    if native.are_estimates(device):
        pytest.skip(f"native roots of {device.name} differ with the width of a vector")
    monkeypatch.setattr(demonstration, "passes", flipped)
    for fusion in demonstration.fusions(device):
        apart = fusion.computed.startswith("float4")
        assert (fusion.differing, fusion.largest) == ((1, 1) if apart else (0, 0)), fusion.computed


# -- on a device -------------------------------------------------------------------------------------------------------


def test_the_table_says_what_the_roots_give_away_and_that_fusing_changes_no_bit(device: Device) -> None:
    table = demonstration_table(LAB, device)
    frame = table.frame.set_index("computed")
    roots, fused = frame[frame.against == "exact"], frame[frame.against == "fused"]
    assert list(roots.index) == ["1/sqrt", "rsqrt", "native_rsqrt"] and (roots["values"] == 2**24).all()
    estimates = native.are_estimates(device)
    allowed = [ROOT_ULPS, ROOT_ULPS, 1.5 * 2**12 if estimates else ROOT_ULPS]
    assert ((roots.largest >= 0.5) & (roots.largest <= allowed)).all(), "what the bound of the check supposes"
    assert list(fused.index) == [
        f"{name}, {kind}" for kind in ("drawn", "special") for name in ("flat", "float4", "float16")
    ]
    assert estimates or (fused[["largest", "mean", "differing"]] == 0).all(axis=None)
    assert "16\u202f777\u202f216" in table.html and "2\u202f368" in table.html and device.name in table.caption


# -- sentences ---------------------------------------------------------------------------------------------------------


def known(*measured: str) -> FakeMeasurements:
    stand_in = FakeMeasurements(LAB, *measured)
    stand_in.most = 2
    return stand_in


def test_the_summary_tells_the_fastest_rung_beside_the_base_and_a_peer() -> None:
    names = [variant.name for variant in (*LAB.ladder, *LAB.peers)]
    paragraphs = publication(LAB).summary(cast(Measured, known("fused", *names))).split("\n\n")
    assert [paragraph.split("**")[1] for paragraph in paragraphs] == [f"{case.name}." for case in LAB.cases("test")[:2]]
    for text, case in zip(paragraphs, LAB.cases("test"), strict=False):
        over = f"so much over on {case.name}"
        assert f"`fused`: the time of fused on {case.name} per pass, which is {over} `sequential-c`." in text
        assert f"Under equal conditions `fused` is {over} the best peer, `{LAB.peers[0].name}`." in text
        assert NOT_MEASURED not in text


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    summary = publication(LAB).summary(cast(Measured, known("float2", "flat")))
    assert summary.count("`float2`: the time of float2 on") == 2 and NOT_MEASURED not in summary
    assert "so much over" not in summary and "peer" not in summary
    nothing = publication(LAB).summary(cast(Measured, known()))
    assert nothing.count(NOT_MEASURED) == 2, "once a case the page says that there is none"
