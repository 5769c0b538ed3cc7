"""Animations: their numbers are those of kernels and plans, and a drawing has a still and motion between its stages."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

from roofbook.labs.cnn import animations as cnn
from roofbook.labs.cnn import ladder
from roofbook.labs.lbm.persistent import Persistent
from roofbook.report.animations import animation_of_step, animation_of_technique, animations_of_lab
from roofbook.report.animations.scene import CHANGE, SECONDS, Animation, Scene, Stage
from roofbook.report.animations.split_operands import A, B, product_errors, split
from roofbook.report.animations.staging import staging
from roofbook.spec import registry
from roofbook.spec.kernel_constants import constants
from roofbook.spec.techniques import step_tags

EXPLAINED = {"staging", "halo", "persistent", "split-operands"}
ALL = [
    pytest.param(lab, step, animation, id=f"{lab}-{step}")
    for lab in registry.names()
    for step, animation in animations_of_lab(registry.get(lab)).items()
]


@pytest.mark.parametrize(("lab", "step", "animation"), ALL)
def test_an_animation_is_of_a_step_with_its_technique_and_is_a_drawing_with_a_description(
    lab: str, step: str, animation: Animation
) -> None:
    assert animation.technique in {tag.technique.key for tag in step_tags(registry.get(lab)).get(step, ())}
    root = ElementTree.fromstring(animation.svg)
    assert root.attrib["role"] == "img" and len(root.attrib["aria-label"]) > 80
    assert 'id="' not in animation.svg, "several on a page share the names of their motions, which are equal then"
    names = set(re.findall(r'class="(m\w+)"', animation.svg))
    assert names == set(re.findall(r"@keyframes (\w+)", animation.svg)) and len(names) > 3
    assert len(animation.html.encode()) < 14_000


def test_each_subject_has_an_animation_at_a_step_and_on_the_page_of_its_technique() -> None:
    assert {param.values[2].technique for param in ALL} == EXPLAINED  # type: ignore[union-attr]
    for key in EXPLAINED:
        page = animation_of_technique(key)
        (lab, step) = re.findall(r'href="\.\./labs/(\w+)\.html#step-([\w-]+)"', page)[0]
        assert animations_of_lab(registry.get(lab))[step].html in page
        assert animations_of_lab(registry.get(lab))[step].html in animation_of_step(lab, step)
    assert animation_of_technique("graphs") == animation_of_step("lbm", "graph") == ""


def test_the_sizes_of_a_tile_are_those_of_the_kernel() -> None:
    source = ladder.LADDER[[variant.name for variant in ladder.LADDER].index("local-tile")].text
    sizes = constants(source)
    captions = " ".join(stage.caption for stage in cnn.ANIMATIONS["local-tile"].stages)
    assert f"{sizes['TILE_H']} x {sizes['TILE_W']} inputs" in captions, "as the kernel declares its local array"
    assert f"{4 * sizes['TILE_H'] * sizes['TILE_W']:,} bytes" in captions
    wider = staging(**cnn._staging(source.with_knobs(SUB_W=7)), plane="a channel", last_stage="")
    narrower = constants(source.with_knobs(SUB_W=7))
    assert f"{narrower['TILE_H']} x {narrower['TILE_W']} inputs" in wider.stages[0].caption


def test_the_bytes_of_an_exchange_are_those_of_the_plan() -> None:
    lab = registry.get("lbm")
    case = next(case for case in lab.cases("published") if case.name == "128x128")
    halo = animations_of_lab(lab)["tagged-halo"]
    numbers = {name: value for stage in halo.stages for name, value in stage.numbers.items()}
    both = Persistent.traffic(case, lab.variant("tagged-halo"), 0)
    assert 2 * numbers["bytes_sent_by_a_part"] * numbers["parts"] == both, "written and read"
    assert numbers["parts"] * numbers["rows"] == case.params["ny"]


def test_three_products_of_parts_are_nearly_as_exact_as_fp32() -> None:
    scale = cnn._split_scale()
    high, low = split(A, scale)
    assert abs(float(high) + float(low) / scale - float(A)) < 2.0**-22 * float(A)
    rounded, three, plain = product_errors(A, B, scale)
    assert 2.0**-14 < rounded < 2.0**-10 and three < 2.0**-21 and plain <= 2.0**-24
    coarse, *_ = product_errors(np.float32(1.5), np.float32(2.0), scale)
    assert coarse == 0, "numbers that fp16 has lose nothing"


def test_a_part_that_changes_has_keyframes_and_the_state_of_the_last_stage_as_its_still() -> None:
    scene = Scene(100, 50, 4)
    scene.box((1, 2), (3, 4))
    scene.box((1, 2), (3, 4), during=range(0, 2))
    scene.box((5, 2), (3, 4), offsets={0: (10, 0), 2: (0, 0)})
    plain, vanishing, moving = re.findall(r"(<g[^>]*>)?<rect", scene.svg("A title", "A description"))
    assert plain == "" and 'opacity="0"' in vanishing and "opacity" not in moving and "transform" not in moving
    frames = {
        name: re.findall(r"([\d.]+)%\{opacity:(\d);transform:translate\(([\d.]+)px", text)
        for name, text in re.findall(r"@keyframes (\w+)\{(.*?\})\}", scene.svg("", ""))
    }
    change = [f"{100 * at / 4:.1f}".removesuffix(".0") for at in (0, 2, 2 + CHANGE, 4)]
    assert [[at for at, _, _ in texts] for texts in frames.values()] == [change, change]
    fading, sliding = frames.values()
    assert [shown for _, shown, _ in fading] == ["1", "1", "0", "0"]
    assert [x for _, _, x in sliding] == ["10", "10", "0", "0"]


def test_numbers_of_the_stages_are_there_to_take_away() -> None:
    animation = Animation(
        "staging", "A title", "", [Stage("One, two.", {"bytes": 12}), Stage("Three.")], Scene(1, 1, 2)
    )
    assert animation.csv == 'stage,caption,bytes\n1,"One, two.",12.0\n2,Three.,\n'
    assert 'download="a-title.csv"' in animation.html and f"--still: -{1.8 * SECONDS:g}s" in animation.html
