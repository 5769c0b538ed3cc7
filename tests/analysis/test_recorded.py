"""Labs on recorded devices are read once, and again if a file or a kernel has changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis import recorded as module
from roofbook.analysis.answers import answer
from roofbook.analysis.conclusions import finding_of_measured
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import StoreDevice
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..report.rows import row
from .test_comparison import row as made

LAB = registry.get("lbm")


@pytest.fixture
def add(tmp_path: Path) -> Callable[..., Any]:
    """One more run of a step as it is today."""
    store = Store(tmp_path)
    source = LAB.variant("fused").source
    assert source is not None

    def add(run: str, lab: str = LAB.name, variant: str = "fused") -> None:
        kernel = source if lab == LAB.name else registry.get(lab).variant(variant).source
        assert kernel is not None
        case = "128x128" if lab == LAB.name else "64 MiB"
        recorded_row = row(
            variant, 1e-5, lab=lab, run=run, case=case, scale="published", cell_key="cell", env_key="environment"
        )
        units = registry.get(lab).case(case, "published").units
        store.append([recorded_row | {"source_sha256": kernel.sha256, "units": units}], "recorded")

    return add


def test_it_is_shared_while_nothing_changes(tmp_path: Path, add: Callable[..., Any]) -> None:
    assert recorded(LAB, Store(tmp_path)) == []
    add("20260101T000000Z-000001")
    first = recorded(LAB, Store(tmp_path))
    again = recorded(LAB, Store(tmp_path))
    assert len(first) == 1 and again[0] is first[0] and again is not first, "a caller may change its list"
    assert recorded(LAB, Store(tmp_path), "large") == []


@pytest.mark.parametrize(("lab", "variant"), [("lbm", "fused"), ("peaks", "copy")])
def test_a_file_more_shows_also_one_of_the_peaks(
    tmp_path: Path, add: Callable[..., Any], lab: str, variant: str
) -> None:
    add("20260101T000000Z-000001")
    (first,) = recorded(LAB, Store(tmp_path))
    rows, peaks = len(first.rows), len(first.peak_rows)
    add("20260101T000000Z-000002", lab, variant)
    (now,) = recorded(LAB, Store(tmp_path))
    assert (len(now.rows) - rows, len(now.peak_rows) - peaks) in ((1, 0), (0, 1)) and now is not first


def test_an_answer_says_of_how_many_steps_it_knows_nothing(tmp_path: Path, add: Callable[..., Any]) -> None:
    add("20260101T000000Z-000001")
    (data,) = recorded(LAB, Store(tmp_path))
    lab_answer = answer(LAB, data.on())
    assert lab_answer and "fused" not in lab_answer.lacking
    lacking, count = len(lab_answer.lacking), len(lab_answer.steps)
    assert count - lacking == 1, "one step of the store has a time"
    said = (
        f"It is fast. On 128x128, {lacking} of the {count} steps that can run here have no measurement, so this answer leaves "
        "them out."
    )
    assert finding_of_measured("It is fast.", data.measured) == said
    assert finding_of_measured("", data.measured) == "", "no answer that could be of some steps alone"


def test_the_spread_of_a_time_counts_its_runs_and_their_machines(tmp_path: Path, add: Callable[..., Any]) -> None:
    for number in (1, 2):
        add(f"20260101T000000Z-00000{number}")
    (data,) = recorded(LAB, Store(tmp_path))
    assert data.measured.spread("fused", "128x128") == (2, 1) and data.measured.spread("soa", "128x128") == (0, 0)
    assert data.measured.near_fastest("128x128") == ["fused"]


@pytest.mark.parametrize(
    ("counts", "words"), [((0, 5), ""), ((1, 5), " can run here has no"), ((2, 5), " can run here have no")]
)
def test_an_answer_of_all_steps_has_no_such_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, add: Callable[..., Any], counts: tuple[int, int], words: str
) -> None:
    add("20260101T000000Z-000001")
    (data,) = recorded(LAB, Store(tmp_path))
    monkeypatch.setattr(Measured, "steps_without_measurement", lambda measured, case: counts)
    text = finding_of_measured("It is fast.", data.measured)
    assert words in text and (text == "It is fast.") == (not words)


def test_a_kernel_that_is_edited_has_no_row_any_more(
    tmp_path: Path, add: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    add("20260101T000000Z-000001")
    assert len(recorded(LAB, Store(tmp_path))) == 1
    monkeypatch.setattr("roofbook.store.todays_code.source_hashes", lambda lab: {"fused": "edited"})
    monkeypatch.setattr(module, "source_hashes", lambda lab: {"fused": "edited"})
    assert recorded(LAB, Store(tmp_path)) == []


def test_what_is_kept_is_bounded(tmp_path: Path, add: Callable[..., Any]) -> None:
    for number in range(module._MOST + 3):
        recorded(LAB, Store(tmp_path / str(number)))
    assert len(module._RECENT) <= module._MOST


def test_of_alike_devices_the_one_with_most_measurements_comes_first(tmp_path: Path) -> None:
    few, most = (StoreDevice(name, "opencl", name.upper(), "gpu") for name in ("a", "b"))
    store = Store(tmp_path)
    store.append([made("fused", 1e-4, few), made("fused", 1e-4, most), made("soa", 1e-4, most)], "recorded")
    assert [record.store_device.name for record in recorded(LAB, store)] == ["B", "A"]


def test_a_step_for_cpus_is_not_on_a_gpu_by_the_same_backend(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([made("fused", 1e-4, StoreDevice("a", "opencl", "A", "gpu"))], "recorded")
    store.append([made("fused", 1e-4, StoreDevice("b", "opencl", "B", "cpu"))], "recorded")
    gpu, cpu = recorded(LAB, store)
    for name in ("bands", "team"):
        step = LAB.variant(name)
        assert gpu.skip_reason(step, gpu.case()) == "not on this device" and not cpu.skip_reason(step, cpu.case())


def test_a_step_of_several_gpus_was_not_measured_where_it_has_no_row(tmp_path: Path) -> None:
    """No row says how many GPUs a machine had."""
    store = Store(tmp_path)
    store.append([made("fused", 1e-4, StoreDevice("a", "cuda", "A", "gpu"))], "recorded")
    (gpu,) = recorded(LAB, store)
    assert gpu.skip_reason(LAB.variant("halo-direct"), gpu.case()) == ""


@pytest.mark.parametrize("reason", [None, "its library is not installed"])
def test_bounds_of_recorded_variants_do_not_depend_on_what_this_machine_has_installed(
    monkeypatch: pytest.MonkeyPatch, reason: str | None
) -> None:
    """The share of lbmpy-bare was another one where lbmpy was not installed."""
    lab, store = registry.get("lbm"), Store(project_root() / "results", ("recorded",))
    monkeypatch.setattr(lab.variant("lbmpy-bare").plan, "missing", staticmethod(lambda: reason))
    data = next(data for data in recorded(lab, store) if data.store_device.id == "nvidia-h200/cuda")
    bounds = data.bounds(lab.case("1024x1024", "published"))
    assert bounds["lbmpy-bare"].seconds < bounds["float32"].seconds
