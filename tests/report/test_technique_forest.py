"""Forest plots of techniques: colours by effect, a link and a record for each point, and one colour for one effect."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from roofbook.analysis.technique_effects import StepEffects
from roofbook.book.page_html import on_site
from roofbook.report.effect_style import EFFECT_COLOURS, LEGEND
from roofbook.report.technique_forest import MOST_LANES, device_marks, figures_of
from roofbook.report.technique_links import technique_links, techniques_of_step
from roofbook.report.techniques_table import (
    effects_alone,
    never_paid,
    slower_on,
    steps_of_technique,
    summary,
    technique_list,
    techniques_table,
)
from roofbook.spec import registry
from roofbook.spec.techniques import TECHNIQUES

from ..analysis.technique_effects import BY_CUDA, BY_OPENCL, CPU, SLOWER, STEPS, effect, step
from .inspection import axes, line
from .test_tips import tips
from .test_variant_style import SEEN, lab

MEASURED = [step for step in STEPS if step.effects]
STAGING, DEVICES = TECHNIQUES["staging"], [BY_CUDA, BY_OPENCL, CPU]
CSS = Path(__file__).parents[2] / "book" / "_assets" / "roofbook.css"


@pytest.mark.parametrize("seen", SEEN)
def test_effects_are_told_apart(seen: str) -> None:
    colours = {EFFECT_COLOURS[effect_name] for effect_name in LEGEND}
    apart = [float(np.linalg.norm(lab(first, seen) - lab(second, seen))) for first, second in combinations(colours, 2)]
    assert len(apart) == 6 and min(apart) >= 25


def test_the_pages_have_the_colours_of_the_figures_and_each_contrasts_with_both_grounds() -> None:
    def light(colour: str) -> float:
        parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722]) + 0.05

    (rule,) = re.findall(r"^html \{ (--faster: .*) \}$", CSS.read_text(encoding="utf-8"), re.M)
    colours = dict(re.findall(r"--(\w+): (#\w+);", rule))
    assert colours == {name: EFFECT_COLOURS[name] for name in LEGEND}
    for colour in colours.values():
        assert light("#fbfbfa") / light(colour) >= 3 and light(colour) / light("#15181c") >= 3


def test_a_point_has_the_colour_of_its_effect_the_shape_of_its_device_and_a_link_to_its_step() -> None:
    (figure,) = figures_of(STAGING, MEASURED, DEVICES)
    points = [drawn for drawn in axes(figure).lines if drawn.get_linestyle() == "None"]
    colours = [to_hex(drawn.get_color()) for drawn in points]
    words = ("slower", "slower", "same", "faster", "same", "faster")
    assert colours[: len(words)] == [EFFECT_COLOURS[word] for word in words]
    assert [drawn.get_marker() for drawn in points[:3]] == ["o", "o", "s"], "a GPU by two backends, and a CPU"
    assert [drawn.get_markerfacecolor() for drawn in points[:2]] == [EFFECT_COLOURS["slower"], "none"]
    links = re.findall(r'<a data-tip="([^"]*)" href="([^"]*)">', figure.svg)
    assert len(links) == len(tips(figure)) == sum(len(step.effects) for step in MEASURED) == len(figure.records)
    assert links[0] == (
        "cnn local-tile: slower, 0.500 [0.400, 0.600] times as fast as fissioned on large, A GPU, CUDA",
        "../labs/cnn.html#step-local-tile",
    )


def test_a_name_of_several_labs_is_described_where_labs_stand_beside_each_other() -> None:
    labs, measured = [registry.get(name) for name in ("cnn", "lenet")], MEASURED[0]
    two = [StepEffects(lab, lab.variant("unrolled"), measured.tags, measured.effects) for lab in labs]
    (figure,) = figures_of(STAGING, two, DEVICES)
    texts = [text.get_text() for text in axes(figure).texts][::2]
    assert "unrolled \u2013 The loop over filters" in texts[0]
    assert "unrolled \u2013 The input is unrolled" in texts[1]
    (figure,) = figures_of(STAGING, two[:1], DEVICES)
    assert axes(figure).texts[0].get_text() == "unrolled", "one lab has one step of a name"


def test_a_lane_says_what_its_step_changes_and_its_outcomes() -> None:
    (figure,) = figures_of(STAGING, MEASURED, DEVICES)
    texts = [text.get_text() for text in axes(figure).texts]
    assert "Convolution layer" not in texts[0], "one lab needs no name"
    assert texts == [
        "local-tile", "1 same, 2 slower", "warps-fp16 (without it) * (tensor cores, NVIDIA GPU)", "1 faster",
        "tensor-columns * (sm_90, tensor cores)", "1 faster, 1 same",
    ]  # fmt: skip
    label = re.search(r'aria-label="([^"]*)"', figure.svg)
    assert label and "cnn local-tile 0.500 to 1.00 times as fast as fissioned: 1 same, 2 slower" in label[1]
    assert figure.csv.splitlines()[0].startswith("lab,step,parent,techniques,device,backend,case,scale,ratio,low,high")


def test_a_technique_of_many_steps_has_a_figure_for_each_lab_on_one_axis() -> None:
    several = [*MEASURED * 3, step("stencil", "local-memory", effect(BY_CUDA, SLOWER))]
    assert len(several) > MOST_LANES
    figures = figures_of(STAGING, several, DEVICES)
    assert [figure.title.partition(": ")[2] for figure in figures] == ["Convolution layer", "Rsqrt stencil"]
    assert len({axes(figure).get_xlim() for figure in figures}) == 1
    assert figures_of(STAGING, [], DEVICES) == []


def test_a_step_links_to_its_techniques() -> None:
    assert technique_links(STEPS[1].tags, "../") == (
        '<a href="../techniques/layout.html">Data layout</a>, '
        '<a href="../techniques/staging.html">without Staging in local memory</a>'
    )
    assert technique_links((), "") == techniques_of_step("cnn", "sequential") == ""
    in_story = techniques_of_step("cnn", "local-tile")
    assert in_story == (
        '<p class="step-techniques table-note"><a class="technique on-site" href="../techniques/staging.html" hidden>'
        "Staging in local memory</a></p>"
    )
    assert " hidden" not in on_site(in_story), "a notebook has no such page beside it"


def test_only_a_backend_beside_cuda_is_hollow() -> None:
    marks = device_marks(DEVICES)
    assert [mark.hollow for mark in marks.values()] == [False, True, False]
    assert marks[BY_CUDA].marker == marks[BY_OPENCL].marker != marks[CPU].marker


def test_the_tables_name_what_never_paid_and_what_is_slower() -> None:
    from roofbook.analysis.technique_effects import technique_effects

    known = technique_effects(STEPS)
    staging = known[0]
    assert summary(staging) == (
        "1 of 2 measured steps is faster somewhere. 1 of 5 measurements faster, 2 slower; 0.500 to 2.00 times as fast. "
        "Steps that change nothing else (1): 0.500 to 1.00."
    )
    assert effects_alone(staging).count("<li>") == 1 and 'href="../labs/cnn.html#step-local-tile"' in effects_alone(
        staging
    )
    assert [row.cells[0].text for row in never_paid(STEPS).rows] == ["local-tile"]
    slower = slower_on("A GPU", [(STEPS[0], STEPS[0].effects[0])])
    assert "num slower" in line(slower, '<a href="labs/cnn.html#step-local-tile">local-tile</a>')
    steps = steps_of_technique(STAGING, STEPS)
    assert [row.cells[0].small for row in steps.rows][:2] == [
        "Convolution layer, over fissioned",
        "Convolution layer, takes it away from warps-staged; needs tensor cores and NVIDIA GPU",
    ]
    assert steps.rows[-1].cells[3].small == "not measured" and steps.rows[0].cells[3].small == "1 same, 2 slower"
    assert steps.rows[2].cells[2].text == "Clusters of blocks"
    everything = techniques_table(known)
    assert len(everything.rows) == len(TECHNIQUES) and everything.records[0]["paid"] == 1
    listed = technique_list(known, "techniques/")
    assert listed.count('<li id="') == len(TECHNIQUES) and 'class="slower" style="flex-grow: 2"' in listed
    assert "measured step" not in summary(known[-1]) and summary(known[-1]) == "0 steps, not measured."
