"""The float64 network against plain loops and PyTorch, its gradient against differences, its weights on real images."""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofbook.errors import UsageError
from roofbook.labs.lenet import network, train
from roofbook.labs.lenet.data import Data, load, resized
from roofbook.labs.lenet.network import FILES, LAYERS, SHAPES, Array, accuracy, convolve, forward, pool, trained
from roofbook.peers import pytorch

FOLDER = os.environ.get("ROOFBOOK_DATA")
needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))
needs_images = pytest.mark.skipif(FOLDER is None, reason="ROOFBOOK_DATA names no folder of Fashion-MNIST images")


def random_images(n: int) -> Array:
    return np.random.default_rng(n).uniform(0, 255, (n, 1, 86, 86))


# -- layers ------------------------------------------------------------------------------------------------------------


def test_convolution_is_the_plain_loop() -> None:
    draw = np.random.default_rng(1)
    images, weights = draw.standard_normal((2, 3, 9, 11)), draw.standard_normal((4, 3, 7, 7))
    want = np.zeros((2, 4, 3, 5))
    for n, m, y, x in np.ndindex(*want.shape):
        for c, p, q in np.ndindex(3, 7, 7):
            want[n, m, y, x] += weights[m, c, p, q] * images[n, c, y + p, x + q]
    np.testing.assert_allclose(convolve(images, weights), want, rtol=1e-12)


@pytest.mark.parametrize(("height", "width", "size"), [(4, 6, 2), (34, 34, 4), (5, 3, 2), (9, 8, 4)])
def test_pool_is_the_plain_loop_and_keeps_what_the_edge_cuts_off(height: int, width: int, size: int) -> None:
    images = np.random.default_rng(height).standard_normal((2, 3, height, width)) - 5
    want = np.array(
        [
            [images[:, :, y : y + size, x : x + size].max(axis=(2, 3)) for x in range(0, width, size)]
            for y in range(0, height, size)
        ]
    ).transpose(2, 3, 0, 1)
    np.testing.assert_array_equal(pool(images, size), want)


def test_every_layer_has_its_shape_in_float64() -> None:
    out = forward(train.initial(np.random.default_rng(0)), random_images(3).astype(np.float32))
    assert {name: (array.shape, array.dtype) for name, array in out.items()} == {
        name: ((3, *shape), np.dtype(np.float64)) for name, shape in LAYERS.items()
    }
    with pytest.raises(ValueError, match=r"expected images \(N, 1, 86, 86\), not \(3, 86, 86\)"):
        forward({}, random_images(3)[:, 0])


@needs_torch
def test_every_layer_is_that_of_pytorch() -> None:
    import torch
    from torch.nn.functional import conv2d, linear, max_pool2d

    weights, images = train.initial(np.random.default_rng(2)), random_images(3)
    weights["fc1_bias"] += np.arange(32, dtype=np.float32)
    weights["fc2_bias"] -= np.arange(10, dtype=np.float32)
    w = {name: torch.tensor(array, dtype=torch.float64) for name, array in weights.items()}
    want = {"conv1": conv2d(torch.tensor(images), w["conv1"])}
    want["relu1"] = want["conv1"].relu()
    want["pool1"] = max_pool2d(want["relu1"], 2)
    want["conv2"] = conv2d(want["pool1"], w["conv2"])
    want["relu2"] = want["conv2"].relu()
    want["pool2"] = max_pool2d(want["relu2"], 4, ceil_mode=True)
    want["fc1"] = linear(want["pool2"].flatten(1), w["fc1"], w["fc1_bias"])
    want["relu3"] = want["fc1"].relu()
    want["fc2"] = linear(want["relu3"], w["fc2"], w["fc2_bias"])
    out = forward(weights, images)
    for name, expected in want.items():
        np.testing.assert_allclose(out[name], expected.numpy(), rtol=1e-11, atol=1e-9 * float(expected.abs().max()))


def test_accuracy_counts_what_is_right_in_every_part() -> None:
    weights = train.initial(np.random.default_rng(0))
    weights["fc2"][:] = 0
    weights["fc2_bias"][3] = 1
    labels = np.zeros(103, np.uint8)
    labels[[0, 99, 102]] = 3
    assert accuracy(weights, np.broadcast_to(np.float32(1), (103, 1, 86, 86)), labels) == pytest.approx(3 / 103)


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_the_gradient_is_that_of_the_loss(name: str) -> None:
    draw = np.random.default_rng(4)
    weights = {layer: array.astype(np.float64) for layer, array in train.initial(draw).items()}
    images, labels = draw.uniform(0, 1, (2, 1, 86, 86)), np.array([3, 8], np.uint8)
    loss, gradient = train.loss_and_gradient(weights, images, labels)  # type: ignore[arg-type]
    scores = forward(weights, images)["fc2"]  # type: ignore[arg-type]
    assert loss == pytest.approx(float(np.mean(np.log(np.exp(scores).sum(axis=1)) - scores[[0, 1], labels])))
    for at in draw.integers(0, SHAPES[name], (4, len(SHAPES[name]))):
        losses = []
        for step in (1e-6, -1e-6):
            moved = weights | {name: weights[name].copy()}
            moved[name][tuple(at)] += step
            losses.append(train.loss_and_gradient(moved, images, labels)[0])  # type: ignore[arg-type]
        assert gradient[name][tuple(at)] == pytest.approx((losses[0] - losses[1]) / 2e-6, rel=1e-4, abs=1e-8)


def bars(many: int) -> Data:
    """Return ten kinds of images: a bar at one of five heights, short or long, in noise."""
    random = np.random.default_rng(5)
    labels = random.integers(0, 10, many).astype(np.uint8)
    images = random.integers(0, 60, (many, 28, 28)).astype(np.uint8)
    for image, label in zip(images, labels, strict=True):
        reach = 5 if label < 5 else 12
        image[3 + label % 5 * 5 :][:3, 14 - reach : 14 + reach] = 230
    return Data(images, labels, "bars", "fashion-mnist")


def test_training_learns_and_a_seed_says_all() -> None:
    sample = bars(64)
    losses: list[float] = []
    weights = train.train(sample, 3, 12, lambda epoch, loss: losses.append(loss))
    assert len(losses) == 12 and losses[-1] < 0.75 * losses[0]
    assert {name: (array.shape, array.dtype) for name, array in weights.items()} == {
        name: (shape, np.dtype(np.float32)) for name, shape in SHAPES.items()
    }
    assert accuracy(weights, resized(sample.images)[:, None], sample.labels) > 0.4
    start, scaled = train.initial(np.random.default_rng(3)), train.train(sample, 3, 0, lambda *_: None)
    np.testing.assert_allclose(scaled["conv1"] * 255, start["conv1"], rtol=1e-6, err_msg="for pixels from 0 to 255")
    first, again, other_seed = (train.train(sample, seed, 1, lambda *_: None) for seed in (3, 3, 4))
    assert all(np.array_equal(first[name], again[name]) for name in SHAPES)
    assert not np.array_equal(first["conv1"], other_seed["conv1"])


def test_augmented_images_are_shifted_and_mirrored_where_that_is_asked() -> None:
    image = np.zeros((28, 28), np.uint8)
    image[10, 7], image[10, 8] = 1, 2
    seen = set()
    for mirror in (False, True):
        out = train.augmented(np.repeat(image[None], 400, axis=0), np.random.default_rng(0), mirror)
        for shifted in out:
            (y, x), (y2, x2) = np.argwhere(shifted == 1)[0], np.argwhere(shifted == 2)[0]
            assert y == y2 and abs(y - 10) <= 2
            turned = x2 < x
            assert abs((27 - x if turned else x) - 7) <= 2 and (mirror or not turned)
            seen.add((mirror, turned, y, 27 - x if turned else x))
    assert len(seen) == 3 * 25


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_are_saved_with_how_they_were_made(tmp_path: Path) -> None:
    file, weights = tmp_path / "w.npz", train.initial(np.random.default_rng(0))
    train.save(file, weights, {"seed": 3})
    again, how = network.read_weights(file)
    assert how == {"seed": 3} and all(np.array_equal(again[name], weights[name]) for name in SHAPES)
    assert [path.name for path in tmp_path.iterdir()] == ["w.npz"]
    with pytest.raises(UsageError, match=r"absent.*cannot be written: No such file"):
        train.save(tmp_path / "absent" / "w.npz", weights, {})


def test_a_file_that_holds_no_weights_is_named(tmp_path: Path) -> None:
    file, weights = tmp_path / "w.npz", train.initial(np.random.default_rng(0))
    for raw in (None, b"", b"text", FILES["fashion-mnist"].read_bytes()[:-100]):
        if raw is not None:
            file.write_bytes(raw)
        with pytest.raises(UsageError, match=r"w\.npz holds no weights .*`roofbook train lenet` makes them"):
            network.read_weights(file)
    fc2: Any = weights["fc2"]
    for wrong in (fc2.T, fc2.astype(np.float64), fc2 * np.nan):
        train.save(file, weights | {"fc2": wrong}, {})
        with pytest.raises(UsageError, match=r"fc2 must be finite float32 \(10, 32\), not "):
            network.read_weights(file)


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.floats(-1, 1), st.binary(min_size=1, max_size=4)), min_size=1, max_size=3))
def test_weights_with_wrong_bytes_are_read_or_refused_in_one_line(
    tmp_path: Path, wrong: list[tuple[float, bytes]]
) -> None:
    """Wrong bytes lie near the beginning and the end, where a .npz describes its arrays, as often as in between."""
    content = bytearray(FILES["digits"].read_bytes())
    for at, replacement in wrong:
        place = round(at**5 * (len(content) - 5))
        content[place : place + len(replacement)] = replacement
    (tmp_path / "w.npz").write_bytes(content)
    try:
        weights, how = network.read_weights(tmp_path / "w.npz")
        assert weights.keys() == SHAPES.keys() and isinstance(how, dict)
    except UsageError as refused:
        assert "w.npz" in str(refused) and "\n" not in str(refused)


def test_an_array_and_a_claim_of_terabytes_are_no_weights(tmp_path: Path) -> None:
    file = tmp_path / "w.npz"
    arrays: dict[str, Any] = {**trained("digits")[0], "how": np.array("[3]")}
    np.savez(tmp_path / "whole.npz", **arrays)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**13,)})
    with zipfile.ZipFile(tmp_path / "claims.npz", "w") as archive:
        archive.writestr("conv1.npy", header.getvalue())
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("whole.npz", "claims.npz", "one.npy"):
        (tmp_path / name).rename(file)
        with pytest.raises(UsageError, match=r"^\S*w\.npz holds no weights \(.+\)"):
            network.read_weights(file)


@pytest.mark.parametrize("name", FILES)
def test_the_weights_of_the_lab_say_how_they_were_made(name: str) -> None:
    weights, how = trained(name)
    assert FILES[name].stat().st_size < 250_000 and all(array.dtype == np.float32 for array in weights.values())
    assert how["command"].startswith("roofbook train lenet --seed ") and how["accuracy"] >= 0.86
    assert json.loads(json.dumps(how)) == how


@needs_images
def test_the_weights_reach_the_accuracy_that_they_claim() -> None:
    weights, how = trained()
    test: Data = load(FOLDER)
    reached = accuracy(weights, resized(test.images)[:, None], test.labels)
    assert reached >= 0.86
    if test.source == how["test"]:
        assert reached == pytest.approx(how["accuracy"], abs=1e-4)
