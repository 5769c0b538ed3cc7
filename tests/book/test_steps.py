"""A step of a ladder as a page shows it: its heading, and the difference of kernels of the case that stands beside it."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pytest

from roofbook.book.experiment import Experiment
from roofbook.spec import registry

DIALECT = re.compile(r"\b(KERNEL|GLOBAL|RESTRICT|LOCAL_ID|GROUP_ID|GLOBAL_ID|LOCAL_ARRAY|BARRIER)\b")
SIZED = {"cnn": ("16ch-16x28-k5", "fissioned"), "convpool": ("5x7x9x9-k3", "lists"), "stencil": ("6x1024", "flat")}
"""By lab a small case and a step whose kernel has the sizes as constants."""


def steps(lab: str, folder: Path, *names: str, **parameters: Any) -> str:
    """What the page shows of these steps, its words as they are read. Nothing is measured."""
    page = Experiment(lab, {"scale": "test", "results": str(folder), **parameters})
    return html.unescape(re.sub(r"<(?!/?h\d|a |/a)[^>]+>", "", page.steps(*names)))


@pytest.mark.parametrize("lab", registry.names())
def test_no_difference_shows_a_word_of_the_dialect(lab: str, tmp_path: Path) -> None:
    shown = steps(lab, tmp_path, *(each.name for each in registry.get(lab).ladder))
    code = "\n".join(line for line in shown.splitlines() if line[:1] in "+-" and "//" not in line)
    assert "__kernel" in code and not DIALECT.findall(code)


@pytest.mark.parametrize("lab", SIZED)
def test_a_difference_is_of_the_case_that_stands_beside_it(lab: str, tmp_path: Path) -> None:
    case, step = SIZED[lab]
    problem = registry.get(lab)
    own, published = (problem.sizes(each) for each in (problem.case(case, "test"), problem.cases("published")[0]))
    shown = steps(lab, tmp_path, step, cases=[case])
    assert f" to {step}, on {case}" in shown
    code = shown.partition("\n@@")[2]
    apart = {str(each) for each in published.values()} - {str(each) for each in own.values()}
    assert apart and not [size for size in apart if re.search(rf"\b{size}\b", code)]
    assert any(re.search(rf"\b{size}\b", code) for name, size in own.items() if str(published[name]) in apart)
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path), "cases": [case]})
    whole = html.unescape(re.sub(r"<[^>]+>", "", page.source(step, "opencl")))
    assert not [size for size in apart if re.search(rf"\b{size}\b", whole)]


def test_a_step_has_a_heading_below_that_of_its_section_and_a_permalink(tmp_path: Path) -> None:
    page = Experiment("lbm", {"scale": "test", "results": str(tmp_path)})
    shown = page.steps("fused", "soa")
    assert re.findall(r'<div class="step" id="step-(\w+)">', shown) == ["fused", "soa"]
    heads = re.findall(r'<h3><code>(\w+)</code><a class="headerlink" href="#step-(\w+)" [^>]*>#</a></h3>', shown)
    assert heads == [("fused", "fused"), ("soa", "soa")]


@pytest.mark.parametrize("lab", registry.names())
def test_a_sweep_without_a_point_says_so_in_words_of_its_own(lab: str, tmp_path: Path) -> None:
    """Nothing is measured here: no note lists what else the store has, or names an error."""
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path)})
    for sweep in registry.get(lab).sweeps:
        for shown in (page.sweep_table(sweep.axis), page.line_sweep(sweep.axis), page.heat_map(sweep.axis)):
            assert re.match(rf"{re.escape(sweep.question)} On [\w-]+: \w.*\.$", repr(shown)), shown
