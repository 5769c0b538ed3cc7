"""What pages show of recorded devices: drawn again where code, notebook or records changed, by several processes; else kept."""

from __future__ import annotations

import json
import os
import shutil
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import device_choices, device_switch, render_recorded
from roofbook.book.lab_pages import STORY
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.files import StorePart
from roofbook.store.parquet import Store

from ..analysis.test_comparison import row as made
from ..report.rows import row

LAB = "lbm"
CELLS = ("import roofbook\nlab = roofbook.open('lbm', globals())\nlab", "lab.ladder()")


def add(root: Path, run: str, lab: str = LAB, where: StorePart = "recorded", scale: str = "published") -> None:
    """One more run, of a step as it is today."""
    source = registry.get(LAB).variant("fused").source
    assert source is not None
    case = {"published": "128x128", "large": "4096x4096"}[scale]
    made = row("fused", 1e-5, lab=lab, run=run, case=case, scale=scale, cell_key="cell", env_key="environment")
    Store(root / "results").append([made | {"source_sha256": source.sha256}], where)


class InThisProcess(Executor):
    """A pool that draws here, at once."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, act: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(act(*given, **named))
        return done


@pytest.fixture(autouse=True)
def pool(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes start slowly: those of one test, and of the tests of the book, are enough."""
    if "several_processes" not in request.node.name:
        monkeypatch.setattr(render_recorded, "ProcessPoolExecutor", InThisProcess)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout with one lab's notebook."""
    (tmp_path / "results").mkdir()
    (tmp_path / "experiments").mkdir()
    write(tmp_path, *CELLS)
    return tmp_path


def write(root: Path, *sources: str, tags: dict[str, str] | None = None) -> None:
    """tags: source -> the tag of its cell."""
    cells = [
        {
            "cell_type": "code",
            "metadata": {"tags": [tags[source]]} if tags and source in tags else {},
            "source": source,
            "outputs": [],
        }
        for source in sources
    ]
    made = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (root / "experiments" / f"{LAB}.ipynb").write_text(json.dumps(made))


def drawn(root: Path) -> dict[str, int]:
    """When each script was written."""
    return {path.name: path.stat().st_mtime_ns for path in (root / device_choices.FOLDER / LAB / STORY).glob("*.js")}


def test_a_lab_is_drawn_once_for_each_device_and_scale_and_again_when_something_changed(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    first, large = device_choices.choices(root, LAB)
    assert large.name == f"{first.name}/large" and large.label == f"{first.label}, large sizes"
    before = drawn(root)
    assert set(before) == {first.script, large.script}
    assert "128x128" in "".join(device_choices.page_cells(root, LAB, first).values())
    assert "4096x4096" in "".join(device_choices.page_cells(root, LAB, large).values())

    add(root, "20260101T000000Z-000002", where="local")
    assert render_recorded.stale(root) == []
    render_recorded.draw(root)
    assert drawn(root) == before, "what is measured here leaves them as they are"
    for run, lab in (("20260101T000000Z-000003", LAB), ("20260101T000000Z-000004", registry.PEAKS)):
        add(root, run, lab)
        assert render_recorded.stale(root) == [LAB]
        render_recorded.draw(root)
    write(root, *CELLS, "lab.failed()")
    assert render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    assert len(device_choices.page_cells(root, LAB, first)) == 3 and render_recorded.stale(root) == []


def test_the_best_device_can_come_first_and_is_drawn_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    asked, draw = list[str](), render_recorded._draw

    def counted(root: Path, lab: str, scale: str, place: str) -> Any:
        asked.append(scale)
        return draw(root, lab, scale, place)

    monkeypatch.setattr(render_recorded, "_draw", counted)
    render_recorded.draw(root, best_only=True)
    (best,) = device_choices.choices(root, LAB)
    assert asked == ["published"] and set(drawn(root)) == {best.script} and render_recorded.stale(root) == [LAB]
    render_recorded.draw(root, best_only=True)
    assert asked == ["published"], "there is nothing to do"
    render_recorded.draw(root)
    assert asked == ["published", "large"] and render_recorded.stale(root) == []
    assert [each.name for each in device_choices.choices(root, LAB)] == [best.name, f"{best.name}/large"]
    assert len(drawn(root)) == 2

    for change in (
        lambda: add(root, "20260101T000000Z-000002"),
        lambda: (root / device_choices.FOLDER / LAB / STORY / best.script).unlink(),
    ):
        shutil.rmtree(root / "_build")
        render_recorded.draw(root, best_only=True)
        change()
        asked.clear()
        render_recorded.draw(root)
        assert asked == ["published", "large"] and render_recorded.stale(root) == [], "the best one is of today too"


def test_where_one_device_is_recorded_the_best_is_all(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    render_recorded.draw(root, best_only=True)
    assert len(device_choices.choices(root, LAB)) == 1 and render_recorded.stale(root) == []


def test_a_script_that_is_gone_or_a_list_that_is_torn_is_made_again(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    (root / device_choices.FOLDER / LAB / STORY / only.script).unlink()
    assert render_recorded.stale(root) == [LAB]
    render_recorded.draw(root)
    assert device_choices.page_cells(root, LAB, only)
    (root / device_choices.FOLDER / LAB / "index.json").write_text('[["nvidia')
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == [LAB]


def test_sphinx_reads_a_page_again_where_what_it_shows_was_drawn_again(root: Path) -> None:
    """The list of devices stays as it is then, and so do the pages of a notebook that nobody has executed."""
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    write(root, *CELLS, "lab.failed()", tags={"lab.ladder()": "page-results"})
    render_recorded.draw(root)
    notebook = json.loads((root / "experiments" / f"{LAB}.ipynb").read_text())
    notebook["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": "# A lab"})
    first, large = device_choices.choices(root, LAB)
    for name, page, shown in ((f"labs/{LAB}", STORY, [first, large]), (f"labs/{LAB}/results", "results", [first])):
        env = SimpleNamespace(dependencies=defaultdict(set), metadata=defaultdict(dict))
        device_switch.add_device_bar(
            cast(Any, SimpleNamespace(srcdir=root / "book", env=env)), name, json.loads(json.dumps(notebook))
        )
        scripts = {path for path in env.dependencies[name] if path.endswith(".js")}
        assert scripts == {str(root / device_choices.FOLDER / LAB / page / each.script) for each in shown}


def test_each_page_of_a_lab_has_a_script_of_what_it_shows_itself(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    write(root, *CELLS, "lab.failed()", tags={"lab.ladder()": "page-results"})
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    story, results = (device_choices.page_cells(root, LAB, only, page) for page in (STORY, "results"))
    assert len(story) == 1 and len(results) == 2 and "The ladder on" in "".join(results.values())
    (root / device_choices.FOLDER / LAB / "results" / only.script).unlink()
    assert render_recorded.stale(root) == [LAB]
    write(root, *CELLS)
    render_recorded.draw(root)
    assert {path.name for path in (root / device_choices.FOLDER / LAB).iterdir()} == {"index.json", STORY}
    assert render_recorded.stale(root) == []


@pytest.mark.thorough
def test_several_processes_draw_and_one_that_is_recorded_no_more_loses_its_script(root: Path) -> None:
    add(root, "20260101T000000Z-000000")
    add(root, "20260101T000000Z-000001", scale="large")
    render_recorded.draw(root)
    assert [each.name.endswith(device_choices.LARGE) for each in device_choices.choices(root, LAB)] == [False, True]
    shutil.rmtree(root / "results" / "recorded")
    add(root, "20260101T000000Z-000002")
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    assert set(drawn(root)) == {only.script}


def test_nothing_recorded_is_no_choice_and_not_drawn_for_ever(root: Path) -> None:
    render_recorded.draw(root)
    assert device_choices.choices(root, LAB) == [] and render_recorded.stale(root) == []


def test_a_gpu_with_most_measurements_comes_first_and_large_sizes_last() -> None:
    """On the runs that this book has."""
    listed, store = render_recorded.extents(project_root(), LAB), Store(project_root() / "results")
    assert listed[0].place == "nvidia-h200/cuda"
    kind = {
        data.store_device.id: data.store_device.kind
        for each in render_recorded.SCALES
        for data in recorded(registry.get(LAB), store, each)
    }
    kinds = [(each.scale, kind[each.place]) for each in listed]
    assert kinds == sorted(kinds, key=lambda each: (each[0] != "published", each[1] != "gpu"))


def test_scripts_join_the_site_where_they_changed(root: Path, tmp_path: Path) -> None:
    add(root, "20260101T000000Z-000000")
    render_recorded.draw(root)
    (only,) = device_choices.choices(root, LAB)
    target = tmp_path / "site"
    device_choices.copy_scripts(root, target)
    copy, source = (folder / LAB / STORY / only.script for folder in (target, root / device_choices.FOLDER))
    assert copy.read_text() == source.read_text()
    copy.write_text("old")
    device_choices.copy_scripts(root, target)
    assert copy.read_text() == source.read_text()
    stamp = os.stat(copy).st_ino
    device_choices.copy_scripts(root, target)
    assert os.stat(copy).st_ino == stamp


def test_ids_of_figures_are_unique_over_all_cells_and_tables_scroll() -> None:
    svg = '<svg><defs><path id="a"/></defs><use href="#a"/></svg>'
    made = device_switch.finish_cells({"one": svg, "two": f"{svg}<table><tr><th>x</th></tr></table>", "none": ""})
    assert 'id="d1-1"' in made["one"] and 'href="#d2-1"' in made["two"] and made["none"] == ""
    assert 'class="table-scroll"' in made["two"]


def test_of_gpus_with_as_much_of_a_lab_the_one_with_most_of_all_labs_comes_first(tmp_path: Path) -> None:
    few, most, least = (StoreDevice(name, "cuda", name.upper(), "gpu") for name in ("a", "b", "c"))
    rows = [made(name, 1e-4, place) for place in (few, most) for name in ("fused", "soa")]
    store = Store(tmp_path / "results")
    store.append([*rows, made("fused", 1e-4, least)], "recorded")
    store.append([made("fused", 1e-4, place, "stencil") for place in (most, least)], "recorded")
    store.append([made("float4", 1e-4, least, "stencil"), made("float2", 1e-4, least, "stencil")], "recorded")
    assert [each.place for each in render_recorded.extents(tmp_path, LAB)] == ["b/cuda", "a/cuda", "c/cuda"]
