"""The page on a GPU that nobody measured: what it computes from, and what a reader sees."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import by_extent
from roofbook.book import my_gpu
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
LABS = ("stencil", "cnn")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page with two labs; return its folder."""
    store, folder = Store(project_root() / "results", ("recorded",)), tmp_path_factory.mktemp("site")
    records, ranks = [data for lab in LABS for data in recorded(registry.get(lab), store)], by_extent(store)
    (folder / "_static").mkdir()
    (folder / "_static" / "my-gpu-data.js").write_text(my_gpu.script(records, ranks), encoding="utf-8")
    shutil.copy(ASSETS / "my-gpu.js", folder / "_static")
    page = f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>My GPU</title><main>{my_gpu.form(records, ranks)}</main>"
    (folder / "my-gpu.html").write_text(page, encoding="utf-8")
    return folder


def test_without_records_there_is_nothing_to_scale() -> None:
    assert my_gpu.form([], {}) == my_gpu.script([], {}) == ""


def test_each_step_has_what_its_estimate_needs(site: Path) -> None:
    text = (site / "_static" / "my-gpu-data.js").read_text(encoding="utf-8")
    contents = json.loads(re.sub(r"^\w+\(|\);\s*$", "", text))
    assert [lab["name"] for lab in contents["labs"]] == list(LABS) and "H200" in contents["device"]
    for step in (step for lab in contents["labs"] for step in lab["steps"]):
        floor = max(step["bytes"] / step["bandwidth"], step["flops"] / step["rate"])
        assert floor > 0 and step["seconds"] > 0 and step["last"] > step["first"], step["name"]


def test_a_reader_sees_which_steps_apply_to_an_a100_and_estimates_that_follow_the_bandwidth(
    browser: Any, site: Path
) -> None:
    tab = browser.new_page()
    errors: list[str] = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto(f"file://{site}/my-gpu.html")
    tab.wait_for_selector(".my-gpu details")
    assert tab.locator(".my-gpu summary").count() == len(LABS)
    tab.locator(".my-gpu summary").nth(1).click()
    assert "for compute capability 9 alone" in tab.locator("tr", has_text="tensor-turns").first.inner_text()

    def bound_text() -> str:
        return str(
            tab.locator("tr", has=tab.locator("code", has_text=re.compile("^float4$"))).locator("td").first.inner_text()
        )

    before = float(bound_text().split()[0])
    tab.fill("input[name=bandwidth]", str(2 * 2039))
    assert float(bound_text().split()[0]) == pytest.approx(before / 2, rel=0.02)
    assert tab.input_value("select[name=preset]") == ""
    tab.select_option("select[name=preset]", "AMD MI300X")
    assert "CUDA C++ alone" in tab.locator("tr", has_text="tensor-turns").first.inner_text()
    assert not errors
    tab.close()
