"""Cells drawn for recorded devices: drawn again, by several processes, only if code, notebook or records changed."""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import device_choices, device_pages, render_recorded, run_buttons
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.files import StorePart
from roofbook.store.parquet import Store

from ..analysis.test_comparison import row as row_on
from ..report.rows import row

LAB = "lbm"
CELLS = ("import roofbook\nlab = roofbook.open('lbm', globals())\nlab", "lab.ladder()")


def add(
    root: Path,
    run: str,
    lab: str = LAB,
    part: StorePart = "recorded",
    scale: str = "published",
    device: StoreDevice | None = None,
) -> None:
    """Add a run of the step `fused` to the store, with the hash of today's kernel."""
    source = registry.get(LAB).variant("fused").source
    assert source is not None
    case = {"published": "128x128", "large": "4096x4096"}[scale]
    options = {"run": run, "case": case, "scale": scale, "cell_key": "cell", "env_key": "environment"}
    new_row = row_on("fused", 1e-5, device, lab, **options) if device else row("fused", 1e-5, lab=lab, **options)
    Store(root / "results").append([new_row | {"source_sha256": source.sha256}], part)


class InThisProcess(Executor):
    """Pool that draws in the test's own process, at once."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, act: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(act(*arguments, **named))
        return future


@pytest.fixture(autouse=True)
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the pool of processes, which start slowly, in all tests but the one that is about them."""
    if "several_processes" not in request.node.name:
        monkeypatch.setattr(render_recorded, "ProcessPoolExecutor", InThisProcess)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write a checkout with one lab's notebook, and return its folder."""
    (tmp_path / "results").mkdir()
    (tmp_path / "experiments").mkdir()
    write(tmp_path, *CELLS)
    return tmp_path


def write(root: Path, *sources: str, tags: dict[str, str] | None = None) -> None:
    """Write the lab's notebook with these cells; `tags` maps the source of a cell to its tag."""
    cells = [
        {
            "cell_type": "code",
            "metadata": {"tags": [tags[source]]} if tags and source in tags else {},
            "source": source,
            "outputs": [],
        }
        for source in sources
    ]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (root / "experiments" / f"{LAB}.ipynb").write_text(json.dumps(notebook))


def times_of_outputs(root: Path) -> dict[str, int]:
    """Return the time of the last write of the outputs on each device."""
    return {path.stem: path.stat().st_mtime_ns for path in (root / device_choices.FOLDER / LAB).glob("[!i]*.json")}


def test_a_lab_is_drawn_once_for_each_device_and_scale_and_again_when_something_changed(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    first, large = device_choices.choices(root, LAB)
    assert large.name == f"{first.name}/large" and large.label == f"{first.label}, large sizes"
    before = times_of_outputs(root)
    assert set(before) == {first.stem, large.stem}
    assert "128x128" in "".join(device_choices.raw_cells(root, LAB, first).values())
    assert "4096x4096" in "".join(device_choices.raw_cells(root, LAB, large).values())

    add(root, "20260101T000000Z-000002", part="local")
    assert render_recorded.stale(root) == []
    render_recorded.draw(root)
    assert times_of_outputs(root) == before, "a measurement on this machine changes none of them"
    for run, lab in (("20260101T000000Z-000003", LAB), ("20260101T000000Z-000004", registry.PEAKS)):
        add(root, run, lab)
        assert render_recorded.stale(root) == [LAB]
        render_recorded.draw(root)
    write(root, *CELLS, "lab.failed()")
    assert render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    assert len(device_choices.raw_cells(root, LAB, first)) == 3 and render_recorded.stale(root) == []


@pytest.mark.thorough
def test_the_best_device_can_come_first_and_is_drawn_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    scales, draw = list[str](), render_recorded._draw

    def draw_and_count(root: Path, lab: str, extent: render_recorded.Extent) -> None:
        scales.append(extent.scale)
        draw(root, lab, extent)

    monkeypatch.setattr(render_recorded, "_draw", draw_and_count)
    render_recorded.draw(root, best_only=True)
    (best,) = device_choices.choices(root, LAB)
    assert (
        scales == ["published"] and set(times_of_outputs(root)) == {best.stem} and render_recorded.stale(root) == [LAB]
    )
    render_recorded.draw(root, best_only=True)
    assert scales == ["published"], "there is nothing to do"
    render_recorded.draw(root)
    assert scales == ["published", "large"] and render_recorded.stale(root) == []
    assert [choice.name for choice in device_choices.choices(root, LAB)] == [best.name, f"{best.name}/large"]
    assert len(times_of_outputs(root)) == 2

    for change in (
        lambda: add(root, "20260101T000000Z-000002"),
        lambda: device_choices.cells_file(root, LAB, best).unlink(),
    ):
        shutil.rmtree(root / "_build")
        render_recorded.draw(root, best_only=True)
        change()
        scales.clear()
        render_recorded.draw(root)
        assert scales == ["published", "large"] and render_recorded.stale(root) == [], "the best one is of today too"


def test_if_only_one_device_is_recorded_drawing_the_best_draws_all(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    render_recorded.draw(root, best_only=True)
    assert len(device_choices.choices(root, LAB)) == 1 and render_recorded.stale(root) == []


def test_a_missing_script_or_a_broken_list_is_written_again(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    device_choices.cells_file(root, LAB, only).unlink()
    assert render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    assert device_choices.raw_cells(root, LAB, only)
    (root / device_choices.FOLDER / LAB / "index.json").write_text('[["nvidia')
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == [LAB]


def test_sphinx_reads_a_page_again_if_its_cells_were_drawn_again(root: Path) -> None:
    """A page depends on the device that it shows first, and a story on the devices whose results it lists."""
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    add(root, "20260101T000000Z-000002", device=StoreDevice("other", "cuda", "Other GPU", "gpu"))
    write(root, *CELLS, "lab.failed()", tags={"lab.ladder()": "page-results"})
    render_recorded.draw(root)
    notebook = json.loads((root / "experiments" / f"{LAB}.ipynb").read_text())
    notebook["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": "# A lab"})
    first, second, large = device_choices.choices(root, LAB)
    assert large.name.endswith("/large")
    for name, shown in ((f"labs/{LAB}", [first, second]), (f"labs/{LAB}/results", [first])):
        env = SimpleNamespace(dependencies=defaultdict(set), metadata=defaultdict(dict))
        sphinx: Any = SimpleNamespace(srcdir=root / "book", env=env)
        device_pages.add_places(sphinx, name, json.loads(json.dumps(notebook)))
        cells_files = {str(device_choices.cells_file(root, LAB, choice)) for choice in shown}
        assert env.dependencies[name] == {*cells_files, str(root / run_buttons.RUNS / LAB / run_buttons.INDEX)}


@pytest.mark.thorough
def test_several_processes_draw_and_a_device_that_is_no_longer_recorded_loses_its_script(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    render_recorded.draw(root)
    assert [choice.name.endswith(device_choices.LARGE) for choice in device_choices.choices(root, LAB)] == [False, True]
    shutil.rmtree(root / "results" / "recorded")
    add(root, "20260101T000000Z-000002")
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    assert set(times_of_outputs(root)) == {only.stem}


def test_without_records_there_is_no_choice_and_nothing_stale(root: Path) -> None:
    render_recorded.draw(root)
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == []


def test_a_gpu_with_most_measurements_comes_first_and_large_sizes_last() -> None:
    """Check the order on the recorded runs of this checkout."""
    listed, store = render_recorded.extents(project_root(), LAB), Store(project_root() / "results")
    assert listed[0].place == "nvidia-h200/cuda"
    kind = {
        data.store_device.id: data.store_device.kind
        for scale in render_recorded.SCALES
        for data in recorded(registry.get(LAB), store, scale)
    }
    kinds = [(extent.scale, kind[extent.place]) for extent in listed]
    assert kinds == sorted(kinds, key=lambda pair: (pair[0] != "published", pair[1] != "gpu"))


def test_of_gpus_the_one_with_most_measurements_over_all_labs_comes_first(tmp_path: Path) -> None:
    few, most, least = (StoreDevice(name, "cuda", name.upper(), "gpu") for name in ("a", "b", "c"))
    rows = [row_on(name, 1e-4, place) for place in (few, most) for name in ("fused", "soa")]
    store = Store(tmp_path / "results")
    store.append([*rows, row_on("fused", 1e-4, least)], "recorded")
    store.append([row_on("fused", 1e-4, place, "stencil") for place in (most, least)], "recorded")
    store.append([row_on("float4", 1e-4, least, "stencil"), row_on("float2", 1e-4, least, "stencil")], "recorded")
    assert [extent.place for extent in render_recorded.extents(tmp_path, LAB)] == ["c/cuda", "b/cuda", "a/cuda"]
