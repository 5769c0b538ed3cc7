"""Every rung and sweep point of the LeNet lab against the float64 reference, on every device that is present."""

from __future__ import annotations

import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from roofbook.device import Buffer, Device, Queue, Unsupported
from roofbook.lab import Case, Variant
from roofbook.labs.lenet import HERE, LAB, network
from roofbook.labs.lenet.forward import Forward
from roofbook.labs.lenet.problem import CONV1, CONV2, LAYERS, Bounded, Layer, sampled
from roofbook.source import Source

BATCHES = (1, 3, 40)
"""In the last not every image is sampled."""
VARIANTS = [pytest.param(each, id=each.name) for each in LAB.all_variants()]
RUNGS = [pytest.param(each, id=each.name) for each in LAB.ladder]


def case_of(batch: int) -> Case:
    return Case(f"batch-{batch}", "test", {"batch": batch, "data": "fashion-mnist"}, 1)


@cache
def problem(batch: int) -> tuple[Mapping[str, Any], Mapping[str, Bounded]]:
    """Images of noise, all different, through the trained network, and what is right for them."""
    draw = np.random.default_rng(batch)
    x = draw.uniform(0, 255, (batch, 1, 22, 22)).repeat(4, axis=2).repeat(4, axis=3)[:, :, 1:-1, 1:-1]
    given = {
        "x": np.ascontiguousarray(x, np.float32), "labels": draw.integers(0, 10, batch).astype(np.uint8),
        "weights": network.trained()[0], "source": "noise", "images": batch,
    }  # fmt: skip
    return given, LAB.reference(case_of(batch), given)


def make(device: Device, variant: Variant, batch: int) -> Forward:
    """The variant ready to run, or the test skipped where a group is too large for the device."""
    try:
        made = variant.plan(device, variant, case_of(batch), problem(batch)[0])
    except Unsupported as reason:
        pytest.skip(str(reason))
    assert isinstance(made, Forward)
    return made


def run(device: Device, variant: Variant, batch: int) -> dict[str, NDArray[Any]]:
    """Outputs of one run after a reset."""
    runnable = make(device, variant, batch)
    runnable.reset()
    assert all(np.isnan(array).all() for array in runnable.outputs().values()), "poisoned before it runs"
    runnable.run()
    out = runnable.outputs()
    runnable.close()
    return out


def accepted(variant: Variant, batch: int, out: Mapping[str, NDArray[Any]]) -> bool:
    error, bound, _ = LAB.check(case_of(batch), variant, out, problem(batch)[1])
    return error <= bound


# -- against the reference ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_is_right(device: Device, variant: Variant, batch: int) -> None:
    out = run(device, variant, batch)
    assert {name: array.shape for name, array in out.items()} == {
        "conv1": (min(batch, 32), 4, 80, 80),
        "conv2": (min(batch, 32), 16, 34, 34),
        "scores": (batch, 10),
    }
    assert accepted(variant, batch, out)


@pytest.mark.parametrize("minibatch", [1, 2, 4, 5])
def test_mini_batches_that_do_not_divide_the_batch(device: Device, minibatch: int) -> None:
    swept = LAB.variant("unrolled-constant").at("minibatch", minibatch, minibatch=minibatch)
    assert accepted(swept, 5, run(device, swept, 5))


@pytest.mark.parametrize("variant", RUNGS)
def test_a_part_of_a_batch_is_computed_and_nothing_else(device: Device, variant: Variant) -> None:
    """What streams rely on: any run of images, by its first and its number."""
    given, right = problem(5)[0], problem(5)[1]
    runnable = make(device, variant, 5)
    inputs = {CONV1: given["x"], CONV2: right["pool1"].value.astype(np.float32)}
    for layer in LAYERS:
        x, y, *more = runnable.allocate(layer)
        shape = (5, *layer.y_shape)
        runnable.queue.write(x, inputs[layer])
        runnable.queue.write(y, np.full(shape, np.nan, np.float32))
        if runnable.constant:
            runnable.queue.write(runnable.built[layer].weights, given["weights"][layer.name])
        runnable.launch(layer, runnable.queue, x, y, 2, 2)
        out = runnable.queue.read(y, np.empty(shape, np.float32))
        for buffer in (x, y, *more):
            buffer.release()
        assert np.isnan(out[[0, 1, 4]]).all()
        np.testing.assert_allclose(out[2:4], right[layer.name].value[2:4], atol=1e-3)
    runnable.close()


def test_sums_in_the_same_order_have_the_same_bits(device: Device) -> None:
    out = run(device, LAB.variant("baseline"), 3)
    for name in ("constant", "tiled", "tiled-constant", "unrolled", "unrolled-constant", "fused-constant", "joint"):
        for layer, array in run(device, LAB.variant(name), 3).items():
            np.testing.assert_array_equal(array, out[layer], err_msg=f"{name}, {layer}")


# -- times and facts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", RUNGS)
def test_a_run_tells_its_parts(device: Device, variant: Variant) -> None:
    runnable = make(device, variant, 3)
    runnable.reset()
    for _ in range(2):
        began = time.perf_counter()
        told, parts = runnable.run(), runnable.parts
        wall = time.perf_counter() - began
        elsewhere = variant.name in ("baseline", "tiled", "unrolled")
        covered = {"allocate", "copy", "kernels", "free"} | (set() if elsewhere else {"copy to constant memory"})
        assert set(parts) == {"op 1", "op 2", "layer 1", "layer 2"} | covered
        assert told == parts["op 1"] + parts["op 2"] and min(parts.values()) > 0
        layers = parts["layer 1"] + parts["layer 2"]
        assert sum(parts[name] for name in covered) == pytest.approx(layers, rel=1e-6)
        assert told + layers <= wall
    runnable.close()


def test_facts_are_of_both_layers_and_of_the_last_run(device: Device) -> None:
    runnable = make(device, LAB.variant("tiled-atomic"), 3)
    runnable.reset()
    runnable.run()
    facts, scores = runnable.facts(), runnable.outputs()["scores"]
    given = problem(3)[0]
    assert facts["accuracy"] == (scores.argmax(axis=1) == given["labels"]).mean()
    assert facts["accuracy"] == network.accuracy(given["weights"], given["x"], given["labels"])
    assert (facts["source"], facts["images"], facts["group"]) == ("noise", 3, "17x17x1")
    assert (facts["groups"], facts["groups_1"]) == (16 * 4 * 1 * 3, 4 * 9 * 3)
    resources = runnable.built[CONV2].kernel.resources()
    assert all(facts[name] == value for name, value in resources.items())
    assert {f"{name}_1" for name in resources} <= set(facts)
    runnable.close()


GROUPS = {
    "baseline": (9 * 16, 25 * 4),
    "atomic-channels": (9 * 16 * 4, 25 * 4),
    "tiled": (16, 9 * 4),
    "tiled-constant@tile=20": (16, 4 * 4),
    "unrolled": (73, 400),
    "fused-constant": (73, 400),
    "joint": (10, 50),
}
"""Of one image, in layer 2 and in layer 1."""


@pytest.mark.parametrize("name", GROUPS)
def test_a_launch_has_the_published_groups(device: Device, name: str) -> None:
    runnable = make(device, LAB.variant(name), 1)
    group = math.prod(runnable.group)
    for layer, groups in zip((CONV2, CONV1), GROUPS[name], strict=True):
        size = runnable.size(layer, 7)
        assert math.prod(size) == 7 * groups * group and size[2] == 7
        limits = 2**31 - 1, 65535, 65535  # groups of a CUDA grid
        for length, local, most in zip(runnable.size(layer, 40000), runnable.group, limits, strict=True):
            assert length % local == 0 and length // local <= most
    runnable.close()


# -- the check sees what a kernel forgets ------------------------------------------------------------------------------

MISTAKES = [
    ("baseline", "direct.k", "w < OUT", "w < OUT - 1", "the last column"),
    ("baseline", "direct.k", "p < TAPS", "p < TAPS - 1", "the last row of taps"),
    ("baseline", "channels.k", "(CHANNELS - 1)", "(CHANNELS - 2)", "the last channel"),
    ("constant", "layer.k", "((m) * CHANNELS + (c)) * TAPS", "((m) * CHANNELS) * TAPS", "which channel a weight is of"),
    ("atomic-channels", "clear.k", "= 0.0f", "+= 0.0f", "to begin with zero"),
    ("atomic-channels", "channels.k", "ATOMIC_ADD(pointer, sum)", "*(pointer) = (sum)", "to add"),
    ("tiled", "tiled.k", "HALO (SIDE + TAPS - 1)", "HALO (SIDE + TAPS - 2)", "the last row and column of a tile"),
    ("tiled-constant", "tiled.k", "row + i * TILE_WIDTH + p", "row + p", "the lower outputs"),
    ("tiled-atomic", "tiled.k", "h < OUT", "h < OUT - 1", "the last row"),
    ("unrolled", "unroll.k", "x[X_AT(first + image", "x[X_AT(image", "where the mini-batch begins"),
    ("unrolled-constant", "multiply.k", "y[((first + image)", "y[((image)", "where the mini-batch goes"),
    ("unrolled-constant", "multiply.k", "k0 < ROWS", "k0 + SIDE < ROWS", "the last rows of the matrix"),
    ("fused-constant", "fused.k", "k0 + column < ROWS", "k0 + column + 1 < ROWS", "the last weight"),
    ("fused-constant", "fused.k", "m < FILTERS && pixel", "m < FILTERS - 1 && pixel", "the last filter"),
    ("joint", "joint.k", "k < ROWS && pixel", "k + 1 < ROWS && pixel", "the last row"),
    ("joint", "joint.k", "if (m0 + u < FILTERS)", "if (m0 + u < FILTERS - 1)", "the last filter"),
    ("joint", "joint.k", "if (pixel < PIXELS) {", "if (pixel < PIXELS - 1) {", "the last pixel"),
    (
        "joint",
        "joint.k",
        "if (pixel < PIXELS) {",
        "if (pixel < PIXELS && image != 17) {",
        "an image that is not sampled",
    ),
    (
        "constant",
        "direct.k",
        "RESULT(y",
        "if (image == 17) sum *= 1.1f; RESULT(y",
        "to be exact in an image not sampled",
    ),
]
"""(variant, file, words, other words, what is forgotten)."""


def test_not_every_image_is_sampled() -> None:
    assert 17 not in sampled(40)


@pytest.mark.parametrize(
    ("name", "file", "words", "instead"), [pytest.param(*each[:4], id=f"{each[0]}: {each[4]}") for each in MISTAKES]
)
def test_a_kernel_that_forgets_something_is_refused(
    device: Device, tmp_path: Path, name: str, file: str, words: str, instead: str
) -> None:
    variant = LAB.variant(name)
    assert variant.source
    if variant.name.startswith("unrolled"):
        variant = variant.at("minibatch", 7, minibatch=7)
    for kernel in HERE.glob("*.k"):
        shutil.copy(kernel, tmp_path)
    assert variant.source
    copied = replace(variant, source=Source.of(tmp_path / variant.source.path.name, **dict(variant.source.knobs)))
    assert accepted(variant, 40, run(device, copied, 40)), "the copy is right until it is changed"
    text = (tmp_path / file).read_text()
    assert words in text
    (tmp_path / file).write_text(text.replace(words, instead))
    assert not accepted(variant, 40, run(device, copied, 40))


def test_what_another_run_left_in_memory_does_not_pass(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """The device's output starts as NaN in the first run after a reset, which is the one that is verified."""
    variant, right = LAB.variant("baseline"), problem(3)[1]
    runnable = make(device, variant, 3)
    allocate, launch = runnable.allocate, runnable.launch

    def with_right_values(layer: Layer) -> list[Buffer]:
        x, y = allocate(layer)
        runnable.queue.write(y, right[layer.name].value.astype(np.float32))
        return [x, y]

    def all_but_the_last(layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        launch(layer, queue, x, y, first, count - 1)

    monkeypatch.setattr(runnable, "allocate", with_right_values)
    monkeypatch.setattr(runnable, "launch", all_but_the_last)
    runnable.reset()
    runnable.run()
    assert not accepted(variant, 3, runnable.outputs())
    runnable.run()
    assert accepted(variant, 3, runnable.outputs()), "from then on memory is as it comes"
    runnable.close()


@pytest.mark.parametrize("layer", [pytest.param(layer, id=layer.name) for layer in LAYERS])
def test_what_is_missing_shows_in_the_scores(device: Device, layer: Layer) -> None:
    """NaN survives ReLU, pools and dense layers, so that the check sees what no sampled image has."""
    runnable = make(device, LAB.variant("baseline"), 3)
    runnable.reset()
    y = np.zeros((3, *layer.y_shape), np.float32)
    y[1, 2, 17, 30] = np.nan
    buffer = device.upload(y)
    pooled = runnable.pool(layer, buffer).copy()
    buffer.release()
    assert np.isnan(pooled).sum() == 1 and np.isnan(pooled[1, 2, 17 // layer.pool, 30 // layer.pool])
    if layer is CONV2:
        runnable.classify(pooled)
        assert np.isnan(runnable.scores[1]).all() and np.isfinite(runnable.scores[[0, 2]]).all()
    runnable.close()
