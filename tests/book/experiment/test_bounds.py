"""Peaks and bounds of an experiment: for each scale, dtype, traffic and number of devices, and pages without peaks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofbook.analysis.roofline import Peaks
from roofbook.book import experiment as module
from roofbook.labs import peaks
from roofbook.labs.stencil.bandwidth import bandwidth_chart
from roofbook.spec.lab import Lab

from .opening import Open, change_step


@pytest.mark.thorough
def test_peaks_measured_at_one_scale_do_not_hide_those_of_another(
    open_with_peaks: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scales share cases: that of arithmetic is equal on both, that of a copy has only the same name."""
    registers = type(peaks.LAB).cases(peaks.LAB, "test")[1]
    monkeypatch.setattr(
        peaks.LAB, "cases", lambda scale: [peaks.LAB.working_set(scale, 256), replace(registers, scale=scale)]
    )
    first = open_with_peaks(variants=["fused"], scale="test")
    first.measure()
    second = open_with_peaks(variants=["fused"], scale="quick", cases=["128x128"])
    second.measure()
    for experiment in (first, open_with_peaks(variants=["fused"], scale="test"), second):
        assert experiment.data.peaks and len(experiment.data.peak_rows) == 4
        assert experiment.data.bounds(experiment.cases[0]).get("float32")


@pytest.mark.thorough
def test_each_dtype_of_the_lab_has_a_bound_if_its_roof_was_measured(
    open_lab: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_step(lab, "soa", dtype="float16")
    change_step(lab, "fused", dtype="bfloat16")
    experiment = open_lab(variants=["fused", "soa"])
    measured = Peaks([(1e9, 1e12)], {"float32": 1e6, "float16": 4e6, "int8": 8e6})
    monkeypatch.setattr(module.MeasuredData, "peaks", measured)
    case = experiment.data.case()
    bounds = experiment.data.bounds(case)
    assert list(bounds)[:2] == ["float32", "float16"], "of the lab's dtypes, those with a roof"
    assert bounds["float32"].seconds == 4 * bounds["float16"].seconds == lab.work(case).flops / 1e6
    assert experiment.data.bounds(case).get("float32") == bounds["float32"]
    experiment.measure()
    shares = experiment.ladder().frame.set_index("variant").share
    assert shares["soa"] > 0 and shares["fused"] != shares["fused"], "no share of a roof that was not measured"
    assert "soa (float16)" not in (html := experiment.roofline().html) and "fused (bfloat16)" in html
    assert "float16: 4.00" in html and "float32: " not in html, "roofs of the dtypes drawn"
    assert "bytes counted" not in html
    monkeypatch.delitem(experiment.__dict__, "data")  # it caches the bytes of a case
    monkeypatch.setattr(
        module.MeasuredData, "_counted_bytes", lambda data, name: {"soa": 1e9} if name == case.name else {}
    )
    assert "bytes counted" in experiment.roofline().html


def test_a_variant_that_moves_fewer_bytes_has_its_own_bound(
    open_lab: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Populations in fp16 take half the bytes, so the bound for fp32 would be too low for them."""
    experiment = open_lab(variants=["flat-grid", "half-storage"])
    monkeypatch.setattr(module.MeasuredData, "peaks", Peaks([(1e4, 1e9), (1e12, 1e6)], {"float32": 1e15}))
    case = experiment.data.case()
    bounds, halves = experiment.data.bounds(case), lab.variant("half-storage")
    byte_share = lab.traffic(case, halves) / lab.work(case).bytes
    assert byte_share == pytest.approx(37 / 73)
    assert bounds["half-storage"].seconds == pytest.approx(byte_share * bounds["float32"].seconds)
    assert "flat-grid" not in bounds, "it has the bound of its dtype"
    experiment.measure()
    frame = experiment.ladder().frame.set_index("variant")
    for name, floor in (("flat-grid", bounds["float32"]), ("half-storage", bounds["half-storage"])):
        assert frame.share[name] == pytest.approx(floor.seconds / frame.seconds[name])
    assert any("move fewer bytes: half-storage" in note for note in experiment.ladder().notes)


def test_a_variant_on_several_gpus_has_their_common_bound_and_on_parts_of_a_cpu_that_of_the_cpu(
    open_lab: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = open_lab(variants=["halo-direct"])
    monkeypatch.setattr(module.MeasuredData, "peaks", Peaks([(4e4, 4e9), (1e12, 1e6)], {"float32": 1e15}))
    case = experiment.data.case()
    assert "halo-direct" not in experiment.data.bounds(case)
    monkeypatch.setattr(experiment.data.device, "kind", "gpu")
    bounds = experiment.data.bounds(case)
    assert bounds["halo-direct"].seconds < bounds["float32"].seconds / 2, (
        "half of the grid on each, which fits a faster memory"
    )
    assert "slab" not in bounds and "halo-stored-overlapped@devices=8" in bounds


def test_a_page_can_be_drawn_without_peaks(open_with_peaks: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(peaks.LAB), "check", lambda *_: (1.0, 0.5, "nothing"))
    experiment = open_with_peaks(variants=["sequential", "fused"])
    experiment.measure()
    assert experiment.data.peaks is None and experiment.data.bounds(experiment.data.case()).get("float32") is None
    assert "Of the bound" not in experiment.ladder().html
    assert experiment.peak_table().html.count(">failed: wrong result") == 5
    lacks = "a peak of this device has no verified time; <code>roofbook run peaks</code> measures it"
    assert f"No roofline: {lacks}." in experiment.roofline().html
    assert f"No bandwidths: {lacks}." in experiment.draw_case(bandwidth_chart).html
