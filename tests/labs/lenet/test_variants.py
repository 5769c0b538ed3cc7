"""Every step and sweep point of the LeNet lab against the float64 reference, on every device that is present."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.often import often

from roofbook.devices.contract import Buffer, Device, Kernel, Queue, Unsupported
from roofbook.labs.lenet import LAB, network, peers, reported, tuned, whole, winograd
from roofbook.labs.lenet.forward import Forward, host
from roofbook.labs.lenet.problem import CONV1, CONV2, LAYERS, Bounded, Layer, error_over_bound, roundoff, sampled
from roofbook.measure.placement import target_of
from roofbook.spec.kernel_constants import constants
from roofbook.spec.plan import Case, Runnable, Variant

from ..sweep_points import params
from ..unoptimised_builds import unoptimised

OPTIMISED = True
"""Whether kernels are optimised: with forty images of 86x86 the runs outlast the compiler."""
MANY = 40
"""Size of a batch of which not every image is sampled."""
STEPS = [pytest.param(v, id=v.name) for v in LAB.ladder if v.role == "step"]
"""Steps with kernels, whose images may be computed a part at a time."""
POOLED = (
    "fused-pool",
    "winograd",
    "pooled-vectors",
    "winograd-vectors",
    "halves",
    "tensor",
    "warps",
    "warps-ahead",
    "warpgroup",
    "split-pool",
    "whole",
    "whole-tensor",
    "graph",
)
ON_CHIP = ("whole-fused", "whole-split", "whole-roles")
WHOLE = ("whole", "whole-tensor", "graph", *ON_CHIP)
ROTATING = ("rotating-linear", "rotating-halo", "rotating-joint")
STREAMS = ("streams", "streams-tiled", "streams-joint", "pinned", *ROTATING)
UNROLLED = ("registers", "winograd", "vectors", "filter-lanes", "pooled-vectors", "winograd-vectors")
"""Steps whose loops are unrolled: the compiler takes longer to optimise them than a few images take without."""
CLEARED = ("linear-atomic", "tiled-halo-atomic", "rotating-halo")


def case_of(batch: int) -> Case:
    return Case(f"batch-{batch}", "test", {"batch": batch, "data": "fashion-mnist"}, 1)


@cache
def problem(batch: int) -> tuple[Mapping[str, Any], Mapping[str, Bounded]]:
    """Images of noise, all different, through the trained network, and their right outputs."""
    draw = np.random.default_rng(batch)
    x = draw.uniform(0, 255, (batch, 1, 22, 22)).repeat(4, axis=2).repeat(4, axis=3)[:, :, 1:-1, 1:-1]
    inputs = {
        "x": np.ascontiguousarray(x, np.float32), "labels": draw.integers(0, 10, batch).astype(np.uint8),
        "weights": network.trained()[0], "source": "noise", "images": batch,
    }  # fmt: skip
    return inputs, LAB.reference(case_of(batch), inputs)


def planned(device: Device, variant: Variant, batch: int) -> Runnable:
    """Return the variant ready to run; skip the test where this device or machine cannot run it."""
    target = target_of(variant, device)
    if target is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    if variant.role == "peer" and (excuse := LAB.skip_reason(variant, case_of(batch))):
        pytest.skip(excuse)
    try:
        if variant.role == "sweep" or (variant.name in UNROLLED and batch <= 5):
            with unoptimised():
                return variant.plan(target.device, variant, case_of(batch), problem(batch)[0])
        return variant.plan(target.device, variant, case_of(batch), problem(batch)[0])
    except Unsupported as reason:
        pytest.skip(str(reason))


def make(device: Device, variant: Variant, batch: int) -> Forward:
    forward = planned(device, variant, batch)
    assert isinstance(forward, Forward)
    return forward


def outputs(runnable: Runnable) -> dict[str, NDArray[Any]]:
    """Return the outputs of one run after a reset."""
    runnable.reset()
    assert all(np.isnan(array).all() for array in runnable.outputs().values()), "poisoned before it runs"
    runnable.run()
    out = runnable.outputs()
    runnable.close()
    return out


def run(device: Device, variant: Variant, batch: int) -> dict[str, NDArray[Any]]:
    return outputs(planned(device, variant, batch))


def accepted(variant: Variant, batch: int, out: Mapping[str, NDArray[Any]]) -> bool:
    error, tolerance, _ = LAB.check(case_of(batch), variant, out, problem(batch)[1])
    return error <= tolerance


# -- against the reference ---------------------------------------------------------------------------------------------


STEPS_AND_PEERS = [pytest.param(variant, id=variant.name) for variant in (*LAB.ladder, *LAB.peers)]


@pytest.mark.parametrize("variant", [*STEPS_AND_PEERS, *params(LAB.sweeps)])
def test_every_variant_is_right(device: Device, variant: Variant) -> None:
    is_right(device, variant, 3)


@pytest.mark.parametrize("batch", [1, MANY])
@pytest.mark.parametrize(
    "variant",
    [pytest.param(v, id=v.name, marks=[] if v.name == LAB.best else [pytest.mark.thorough]) for v in LAB.ladder],
)
def test_a_batch_of_one_and_one_of_which_some_images_are_sampled(device: Device, variant: Variant, batch: int) -> None:
    is_right(device, variant, batch)


def is_right(device: Device, variant: Variant, batch: int) -> None:
    """Run a variant on a batch, and compare shapes and values of its outputs with the reference."""
    out = run(device, variant, batch)
    few = min(batch, 32)
    maps = {"conv1": (few, 4, 80, 80), "conv2": (few, 16, 34, 34)}
    if variant.name in POOLED or variant.plan is tuned.Folded:
        maps = {"pool1": (few, 4, 40, 40), "pool2": (few, 16, 9, 9)}
    elif variant.name in ON_CHIP:
        maps = {"pool2": (few, 16, 9, 9)}
    elif variant.plan in (peers.TorchWhole, tuned.FoldedWhole):
        maps = {}
    assert {name: array.shape for name, array in out.items()} == {**maps, "scores": (batch, 10)}
    assert accepted(variant, batch, out)


@pytest.mark.parametrize("minibatch", often([1, 2, 4, 5], lambda images: images == 2))
def test_mini_batches_that_do_not_divide_the_batch(device: Device, minibatch: int) -> None:
    swept = LAB.variant("unrolled-constant").at("minibatch", minibatch, minibatch=minibatch)
    assert accepted(swept, 5, run(device, swept, 5))


@pytest.mark.parametrize("variant", [param for param in STEPS if param.id not in ON_CHIP])
def test_a_part_of_a_batch_is_computed_and_nothing_else(device: Device, variant: Variant) -> None:
    """A launch computes any run of images, by its first and its number: streams rely on it."""
    images, right = problem(5)[0], problem(5)[1]
    runnable = make(device, variant, 5)
    inputs = {CONV1: images["x"], CONV2: right["pool1"].value.astype(np.float32)}
    for layer in LAYERS:
        x, y, *scratch = runnable.allocate(layer)
        shape = (5, *runnable.y_shape(layer))
        runnable.queue.write(x, inputs[layer])
        runnable.queue.write(y, np.full(shape, np.nan, np.float32))
        if runnable.constant:
            runnable.queue.write(runnable.built[layer].weights, images["weights"][layer.name])
        if isinstance(runnable, reported.Cleared):
            runnable.clear(layer, y, 2, 2)
        runnable.launch(layer, runnable.queue, x, y, 2, 2)
        out = runnable.queue.read(y, np.empty(shape, np.float32))
        for buffer in (x, y, *scratch):
            buffer.release()
        assert np.isnan(out[[0, 1, 4]]).all()
        name = layer.name.replace("conv", "pool") if variant.name in POOLED else layer.name
        part = Bounded(*(field[2:4] for field in right[name]))
        assert error_over_bound(out[2:4], part, roundoff(variant.options)) <= 1
    runnable.close()


def test_sums_in_the_same_order_have_the_same_bits(device: Device) -> None:
    if device.identity()["platform"].startswith("Intel") and device.kind == "cpu":
        pytest.skip("Intel's compiler for CPUs rounds tiled kernels otherwise, with FP_CONTRACT off as well")
    out = run(device, LAB.variant("baseline"), 3)
    for name in (
        "linear", "linear-constant", "tiled-halo", "tiled-halo-constant", "rotating-linear", "rotating-joint",
        "constant", "tiled", "tiled-constant", "unrolled", "unrolled-constant", "fused-constant", "joint", "streams",
        "streams-joint", "pinned", "registers", "registers@conv1=4x2x5/4x3", "registers@conv2=16x1x5",
    ):  # fmt: skip
        for layer, array in run(device, LAB.variant(name), 3).items():
            np.testing.assert_array_equal(array, out[layer], err_msg=f"{name}, {layer}")


def test_pooling_in_registers_changes_no_bit(device: Device) -> None:
    maps, pooled = (run(device, LAB.variant(name), 3) for name in ("registers", "fused-pool"))
    for layer in LAYERS:
        right = network.pool(np.maximum(maps[layer.name], 0), layer.pool)
        np.testing.assert_array_equal(pooled[layer.name.replace("conv", "pool")], right)
    np.testing.assert_array_equal(pooled["scores"], maps["scores"])


@pytest.mark.parametrize("items", [1, 2, 7])
@pytest.mark.parametrize("name", ["vectors", "filter-lanes", "pooled-vectors", "winograd-vectors"])
def test_any_number_of_work_items_shares_the_images_out(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str, items: int
) -> None:
    """Five images go to one work-item, to two with unequal shares, or to as many as there are images."""
    monkeypatch.setattr(LAB.variant(name).plan, "size", lambda self, layer, count: (min(count, items),))
    assert accepted(LAB.variant(name), 5, run(device, LAB.variant(name), 5))


@pytest.mark.parametrize("parts", often([1, 2, 3, 20], lambda parts: parts == 3))
@pytest.mark.parametrize("units", [1, 500])
def test_winograd_is_right_with_any_parts_of_an_image_and_groups(
    device: Device, monkeypatch: pytest.MonkeyPatch, parts: int, units: int
) -> None:
    """Two groups take all windows of five images by turns, or each batch of windows has a group of its own."""
    monkeypatch.setattr(winograd, "parts_of_image", lambda groups, room, steps: parts)
    monkeypatch.setattr(device, "compute_units", units)
    assert accepted(LAB.variant("winograd"), 5, run(device, LAB.variant("winograd"), 5))


def test_winograd_divides_images_if_they_are_few() -> None:
    """Undivided images of 10000, 1000 and 100 are 1563, 157 and 16 groups; an H200 runs 264 at once."""
    assert [winograd.parts_of_image(groups, 264, 20) for groups in (1563, 157, 16)] == [1, 5, 10]


def test_ten_products_are_four_outputs_and_no_fewer_points_would_do() -> None:
    """Some combinations of ten inputs, times the factors, interpolate to the outputs: 28 equations for each, ten unknowns."""
    points, taps, tile = winograd.points_of(constants(LAB.variant("winograd").text)), 7, 4
    powers = np.array([[*(float(point) ** j for point in points), float(j == tile - 1)] for j in range(tile)])
    products = np.einsum("ji,iq->jqi", powers, winograd.factor_matrix(points)).reshape(tile * taps, -1)
    right = np.array([np.eye(tile + taps - 1)[j + q] for j in range(tile) for q in range(taps)])
    for count, is_exact in ((10, True), (9, False)):
        values = np.linalg.lstsq(products[:, :count], right, rcond=None)[0]
        assert np.allclose(products[:, :count] @ values, right, rtol=0, atol=1e-9) == is_exact


def test_explicit_vectors_are_for_a_cpu() -> None:
    for name in ("vectors", "filter-lanes", "pooled-vectors", "winograd-vectors"):
        assert LAB.variant(name).is_for("opencl", "cpu") and not LAB.variant(name).is_for("opencl", "gpu")


def test_the_filters_in_lanes_change_no_bit_of_what_is_pooled(device: Device) -> None:
    maps, pooled = (run(device, LAB.variant(name), 3) for name in ("filter-lanes", "pooled-vectors"))
    for layer in LAYERS:
        right = network.pool(np.maximum(maps[layer.name], 0), layer.pool)
        np.testing.assert_array_equal(pooled[layer.name.replace("conv", "pool")], right)


# -- times and facts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", STEPS)
def test_a_run_tells_its_parts(device: Device, variant: Variant) -> None:
    runnable = make(device, variant, 3)
    runnable.reset()
    for _ in range(2):
        began = time.perf_counter()
        seconds, parts = runnable.run(), runnable.parts
        wall = time.perf_counter() - began
        assert min(parts.values()) > 0
        if variant.name in WHOLE:
            assert set(parts) == {"pass"} and seconds + parts["pass"] <= wall
            continue
        overlapped = variant.name in STREAMS
        covered = {"allocate", "free"} | ({"copies and kernels"} if overlapped else {"copy", "kernels"})
        covered |= {"copy to constant memory"} if runnable.constant else set()
        further = {"op 1 as published", "op 2 as published"} if overlapped else set()
        covered |= {"clear"} if variant.name in CLEARED else set()
        further |= {"unroll"} if variant.name.startswith("unrolled") else set()
        assert set(parts) == {"op 1", "op 2", "op", "layer 1", "layer 2", "layer"} | covered | further
        assert seconds == parts["op"] == parts["op 1"] + parts["op 2"]
        assert parts["layer"] == parts["layer 1"] + parts["layer 2"]
        assert sum(parts[name] for name in covered) == pytest.approx(parts["layer"], rel=1e-6)
        assert seconds <= parts["copies and kernels"] if overlapped else seconds + parts["layer"] <= wall
    runnable.close()


def test_unrolling_has_its_share_of_the_kernels(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    runnable = make(device, LAB.variant("unrolled-constant").at("minibatch", 2, minibatch=2), 5)
    runnable.reset()
    runnable.run()
    share = runnable.facts()["share of unroll"]
    assert 0 < share == runnable.parts["unroll"] / runnable.parts["op"] < 1
    monkeypatch.setattr(runnable.queue, "laps", lambda *steps: [1.0, 3.0] * (len(steps) // 2))
    assert runnable.run() == 2 * 3 * 4.0 and runnable.facts()["share of unroll"] == 0.25, "three mini-batches a layer"
    runnable.close()


@pytest.mark.parametrize("name", ["tiled-atomic", "streams", "whole"])
def test_facts_are_of_both_layers_and_of_the_last_run(device: Device, name: str) -> None:
    runnable = make(device, LAB.variant(name), 3)
    runnable.reset()
    runnable.run()
    facts, scores = runnable.facts(), runnable.outputs()["scores"]
    images = problem(3)[0]
    assert facts["accuracy"] == (scores.argmax(axis=1) == images["labels"]).mean()
    assert facts["accuracy"] == network.accuracy(images["weights"], images["x"], images["labels"])
    assert (facts["source"], facts["images"]) == ("noise", 3)
    if name == "tiled-atomic":
        assert facts["group"] == "17x17x1" and (facts["groups"], facts["groups_1"]) == (16 * 4 * 1 * 3, 4 * 9 * 3)
    resources = runnable.built[CONV2].kernel.resources()
    assert all(facts[key] == value for key, value in resources.items())
    assert {f"{key}_1" for key in resources} <= set(facts)
    runnable.close()


GROUPS = {
    "tiled-halo": (16, 9 * 4),
    "tiled-halo-atomic": (4 * 16, 9 * 4),
    "baseline": (9 * 16, 25 * 4),
    "atomic-channels": (9 * 16 * 4, 25 * 4),
    "tiled": (16, 9 * 4),
    "tiled-constant@tile=20": (16, 4 * 4),
    "unrolled": (73, 400),
    "fused-constant": (73, 400),
    "joint": (10, 50),
}
"""Variant -> (groups of one image in layer 2, in layer 1)."""


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


LINES = {"linear": ((1024,), (1024,)), "linear-atomic": ((24, 4), (96, 1)), "rotating-linear": ((96,), (96,))}
"""Variant whose outputs stand in a line -> (shape of a group in layer 2, in layer 1)."""


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("count", [1, 7, 40000])
def test_a_line_has_just_enough_of_the_published_groups(device: Device, name: str, count: int) -> None:
    runnable = make(device, LAB.variant(name), 1)
    for layer, group in zip((CONV2, CONV1), LINES[name], strict=True):
        length, *deep = runnable.size(layer, count)
        assert runnable.group_of(layer) == group and tuple(deep) == group[1:]
        assert length % group[0] == 0 and 0 <= length - count * layer.y_values < group[0]
        assert length // group[0] < 2**31, "groups of a CUDA grid; its threads may be more"
    runnable.close()


@pytest.mark.parametrize(("name", "channels"), [("tiled-halo", 4), ("tiled-halo-atomic", 1)])
def test_the_reports_tile_holds_all_channels_and_the_atomic_one_a_single(
    device: Device, name: str, channels: int
) -> None:
    """Local memory that layer 2 takes at once; layer 1 has one channel."""
    runnable = make(device, LAB.variant(name), 1)
    facts, reserved = runnable.facts(), 64  # a driver may keep some for itself
    runnable.close()
    assert 0 <= facts["local_bytes"] - 4 * channels * 40 * 40 <= reserved
    assert 0 <= facts["local_bytes_1"] - 4 * 40 * 40 <= reserved


@pytest.mark.parametrize(("name", "items"), [("linear", "1024"), ("tiled-halo-atomic", r"529 .* \(23x23x1\)")])
def test_a_device_with_smaller_groups_says_so(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str, items: str
) -> None:
    monkeypatch.setattr(device, "max_work_group", 256)
    variant = LAB.variant(name)
    with pytest.raises(Unsupported, match=f"^{items}.*: 256 at most$"):
        variant.plan(device, variant, case_of(1), problem(1)[0])


@pytest.mark.parametrize("name", CLEARED)
def test_the_op_time_leaves_out_the_zeros(device: Device, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Zeros are written before the launches that are timed, whether by laps or by a trace."""
    runnable = make(device, LAB.variant(name), 3)
    main, noted, timed = runnable.source.path.stem, set(), []

    def inside(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            timed.append(True)
            try:
                return call(*args)
            finally:
                timed.clear()

        return run

    def watched(launch: Callable[..., None]) -> Callable[..., None]:
        def run(kernel: Kernel, *arguments: Any) -> None:
            noted.add((kernel.name, bool(timed)))
            launch(kernel, *arguments)

        return run

    monkeypatch.setattr(runnable.queue, "laps", inside(runnable.queue.laps))
    monkeypatch.setattr(runnable.device, "traced", inside(runnable.device.traced))
    for queue in (runnable.queue, *getattr(runnable, "queues", ())):
        monkeypatch.setattr(queue, "launch", watched(queue.launch))
    runnable.run()
    runnable.close()
    untimed = set() if name in ROTATING else {(main, False)}
    assert {launch for launch in noted if launch[0] in ("clear", main)} == {("clear", False), (main, True)} | untimed


# -- the check sees what a kernel forgets ------------------------------------------------------------------------------


def test_not_every_image_is_sampled() -> None:
    assert 17 not in sampled(40)


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


@pytest.mark.parametrize("name", ["baseline", "streams", "fused-pool", "whole"])
def test_an_image_that_is_not_sampled_must_be_computed_too(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Memory of the host and of the device holds the right maps of an earlier run."""
    variant, runnable = LAB.variant(name), make(device, LAB.variant(name), 40)
    launch, allocate, memory = runnable.launch, runnable.allocate, dict[Layer, list[Buffer]]()

    def same_memory(layer: Layer) -> list[Buffer]:
        if layer not in memory:
            memory[layer] = allocate(layer)
            for buffer in memory[layer]:
                monkeypatch.setattr(buffer, "release", lambda: None)
        return memory[layer]

    monkeypatch.setattr(runnable, "allocate", same_memory)
    runnable.run()

    def all_but_image_17(layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        for start, end in ((first, 17), (18, first + count)):
            if max(start, first) < min(end, first + count):
                launch(layer, queue, x, y, max(start, first), min(end, first + count) - max(start, first))

    monkeypatch.setattr(runnable, "launch", all_but_image_17)
    assert not accepted(variant, 40, outputs(runnable))


def test_maps_that_are_not_copied_back_are_noticed(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pooled maps go back to the device from the host, whose array holds those of an earlier run."""
    variant, runnable = LAB.variant("fused-pool"), make(device, LAB.variant("fused-pool"), 40)
    runnable.run()
    read = runnable.queue.read

    def all_but_image_17(buffer: Buffer, array: NDArray[Any], offset: int = 0) -> NDArray[Any]:
        left = array[17].copy()
        read(buffer, array, offset)
        if array is runnable.y[LAYERS[0]]:
            array[17] = left
        return array

    monkeypatch.setattr(runnable.queue, "read", all_but_image_17)
    assert not accepted(variant, 40, outputs(runnable))


def test_small_batches_leave_the_arrays_of_a_large_one_in_use() -> None:
    """Each step is verified on a batch of seven too: the arrays of the next step must be those of the step before."""
    shapes = [(40, *layer.y_shape) for layer in LAYERS] + [(40, *layer.pooled_shape) for layer in LAYERS]
    arrays = [host(*shape) for shape in shapes]
    for shape in shapes:
        host(7, *shape[1:])
    assert all(host(*shape) is array for shape, array in zip(shapes, arrays, strict=True))


@pytest.mark.parametrize("skipped", ["conv1", "conv2", "dense"])
def test_a_whole_pass_that_leaves_out_a_step_is_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch, skipped: str
) -> None:
    variant = LAB.variant("whole")
    runnable = make(device, variant, 3)
    runnable.run()  # memory holds what is right
    assert isinstance(runnable, whole.Whole)
    launch = runnable.launch

    def all_but_one(layer: Layer, *arguments: Any) -> None:
        if layer.name != skipped:
            launch(layer, *arguments)

    monkeypatch.setattr(runnable, "launch", all_but_one)
    if skipped == "dense":
        monkeypatch.setattr(runnable, "submit_dense", lambda pooled: None)
    assert not accepted(variant, 3, outputs(runnable))


@pytest.mark.parametrize("layer", [pytest.param(layer, id=layer.name) for layer in LAYERS])
def test_what_is_missing_shows_in_the_scores(device: Device, layer: Layer) -> None:
    """NaN survives ReLU, pools and dense layers, so that the check sees a mistake in images that are not sampled."""
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


@pytest.mark.parametrize(("name", "times"), [("baseline", 2), ("streams", 1)])
def test_the_launches_that_are_timed_repeat_identical_ones_as_the_note_says(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str, times: int
) -> None:
    """`LAB.cache_note`: in a run the first launch of a layer is not timed; with streams there is only one, in segments."""
    runnable = planned(device, LAB.variant(name), 1)
    launched: list[tuple[str, int, int, int]] = []
    whole_launch = Forward.launch

    def launch(self: Forward, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        launched.append((layer.name, id(x), first, count))
        whole_launch(self, layer, queue, x, y, first, count)

    monkeypatch.setattr(Forward, "launch", launch)
    runnable.run()
    runnable.close()
    assert len(launched) == 2 * times and len(set(launched)) == 2
    assert "warm" in LAB.cache_note and LAB.cache == "cold", "the policy is part of identity: what is shown tells"
