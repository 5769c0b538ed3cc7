"""A step of a ladder on a page: its heading, and the difference of its kernel, with the sizes of the page's case."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook.analysis.recorded import recorded
from roofbook.book.experiment import Experiment
from roofbook.book.replay_notebook import RecordedPage
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..report.rows import STARTED, even
from .experiment.opening import drawn

DIALECT = re.compile(r"\b(KERNEL|GLOBAL|RESTRICT|LOCAL_ID|GROUP_ID|GLOBAL_ID|LOCAL_ARRAY|BARRIER)\b")
SIZED = {"cnn": ("16ch-16x28-k5", "fissioned"), "convpool": ("5x7x9x9-k3", "lists"), "stencil": ("6x1024", "flat")}
"""For each lab a small case, and a step whose kernel has the sizes as constants."""


def steps(lab: str, folder: Path, *names: str, **parameters: Any) -> str:
    """Return the text that a page shows for these steps, without most tags; nothing is measured."""
    page = Experiment(lab, {"scale": "test", "results": str(folder), **parameters})
    return html.unescape(re.sub(r"<(?!/?h\d|a |/a)[^>]+>", "", page.steps(*names)))


@pytest.mark.parametrize("lab", registry.names())
def test_no_difference_shows_a_word_of_the_dialect(lab: str, tmp_path: Path) -> None:
    text = steps(lab, tmp_path, *(variant.name for variant in registry.get(lab).ladder))
    code = "\n".join(line for line in text.splitlines() if line[:1] in "+-" and "//" not in line)
    assert code and not DIALECT.findall(code)


@pytest.mark.parametrize("lab", SIZED)
def test_a_difference_has_the_sizes_of_the_case_that_it_names(lab: str, tmp_path: Path) -> None:
    case, step = SIZED[lab]
    problem = registry.get(lab)
    case_sizes, published_sizes = (
        problem.sizes(problem.case(case, "test")),
        problem.sizes(problem.cases("published")[0]),
    )
    text = steps(lab, tmp_path, step, cases=[case])
    assert f" to {step}, on {case}" in text
    code = text.partition("\n@@")[2]
    only_published = {str(size) for size in published_sizes.values()} - {str(size) for size in case_sizes.values()}
    assert only_published and not [size for size in only_published if re.search(rf"\b{size}\b", code)]
    changed = [size for name, size in case_sizes.items() if str(published_sizes[name]) in only_published]
    assert any(re.search(rf"\b{size}\b", code) for size in changed)
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path), "cases": [case]})
    kernel = html.unescape(re.sub(r"<[^>]+>", "", page.source(step, "opencl")))
    assert not [size for size in only_published if re.search(rf"\b{size}\b", kernel)]


def test_a_step_has_a_heading_below_that_of_its_section_and_a_permalink(tmp_path: Path) -> None:
    page = Experiment("lbm", {"scale": "test", "results": str(tmp_path)})
    steps_html = page.steps("fused", "soa")
    assert re.findall(r'<div class="step" id="step-(\w+)">', steps_html) == ["fused", "soa"]
    heads = re.findall(r'<h3><code>(\w+)</code><a class="headerlink" href="#step-(\w+)" [^>]*>#</a></h3>', steps_html)
    assert heads == [("fused", "fused"), ("soa", "soa")]


@pytest.mark.parametrize("lab", registry.names())
def test_a_sweep_without_a_measured_point_says_so_after_its_question(lab: str, tmp_path: Path) -> None:
    """Measure nothing: then no note lists other rows of the store, or names an error."""
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path)})
    for sweep in registry.get(lab).sweeps:
        drawn = (getattr(page, draw)(sweep.axis) for draw in ("sweep", "sweep_table", "line_sweep", "heat_map"))
        for output in drawn:
            assert re.match(rf"{re.escape(sweep.question)} On [\w-]+: \w.*\.$", repr(output)), output


def test_a_map_says_which_of_its_times_contradict_their_ratio(tmp_path: Path) -> None:
    """All kernels take as long; only the first point ran on the slow machine of the last three runs."""
    lab, store = registry.get("lbm"), Store(tmp_path / "results")
    points = [variant for sweep in lab.sweeps if sweep.axis == "wg" for variant in sweep.variants][:4]
    rows = [
        even(
            point.name, 1e-5 if at < 2 else 2e-5, point.parent, role="sweep", axis="wg", point=point.point, run=f"run-{at}",
            started=STARTED + pd.Timedelta(days=at), scale="published", cell_key=point.name, env_key="e",
            source_sha256=point.text.sha256,
        )
        for number, point in enumerate(points)
        for at in range(2 if number else 5)
    ]  # fmt: skip
    store.append(rows, "recorded")
    (data,) = recorded(lab, store)
    (note,) = [text for text in drawn(RecordedPage(data, store).heat_map("wg")).notes if "all runs" in text]
    assert f"] as {points[0].point}. The ratio pairs samples of the same round" in note


def test_a_story_has_the_steps_that_matter_in_full_and_a_line_for_each_other(tmp_path: Path) -> None:
    """On the main case `tree` leads to the fastest step; on the other one `select` does, whose fold opens with it."""
    lab, store = registry.get("lbm"), Store(tmp_path / "results")
    times = {
        "no-finish": (8e-4, 8e-4), "fused": (4e-4, 4e-4), "soa": (5e-4, 5e-4), "tree": (1e-4, 3e-4), "select": (2e-4, 1e-4),
    }  # fmt: skip
    columns = {"scale": "published", "cell_key": "c", "env_key": "e"}
    rows = [
        even(name, seconds, lab.variant(name).parent, case=case, source_sha256=lab.variant(name).text.sha256, **columns)
        for name, by_case in times.items()
        for case, seconds in zip(("1024x1024", "128x128"), by_case, strict=True)
    ]
    store.append(rows, "recorded")
    (data,) = recorded(lab, store)
    page = RecordedPage(data, store)
    markup = page.steps(*times, "graph")
    folded = re.findall(
        r'<details class="step-fold"(?: data-opens-on="([^"]*)")?><summary data-variant="([\w-]+)">', markup
    )
    in_full = re.findall(r"<h3><code>([\w-]+)</code>(?: <small[^>]*>[^<]*</small>)?<a ", markup)
    assert data.case().name == "1024x1024" and "tree" in in_full and ("128x128", "select") in folded
    assert {*in_full, *(name for _, name in folded)} == {*times, "graph"} and "soa" not in in_full
    assert '<details class="steps-not-here"><summary>Without a time here: <code>graph</code>' in markup
    lines = dict(re.findall(r'<summary data-variant="([\w-]+)">(.*?)</summary>', markup))
    assert "1.25 times as slow [" in lines["soa"] and lines["soa"].count("data-case=") == 2
    aside = page.steps("soa", aside="A side road")
    assert aside.startswith('<details class="steps-aside"><summary>A side road: <code>soa</code></summary>')
    assert "step-fold" not in aside
