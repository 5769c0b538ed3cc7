"""Every rung of the sparse convolution equals the reference exactly, on each device that is there; a wrong one is refused."""

import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from roofbook.device import Device, Unsupported
from roofbook.lab import Case, Variant
from roofbook.labs.convpool import HERE, LAB, plans
from roofbook.labs.convpool.problem import Layer, inputs
from roofbook.source import Source

LAYERS = ["1x1x2x2-k1", "5x7x9x9-k3", "3x2x7x7-k5", "2x300x6x6-k3", "4x3x31x31-k3"]
DENSITIES = [(None, None), (1.0, 1.0), (0.02, 0.5)]


def right(
    device: Device, variant: Variant, name: str, densities: tuple[float | None, float | None] = (None, None)
) -> bool:
    if device.backend not in variant.backends:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    layer = Layer.named(name)
    case = Case(name, "test", {"layer": asdict(layer)}, 1)
    given = inputs(layer, 7, *densities)
    try:
        run = variant.plan(device, variant, case, given)
    except Unsupported as reason:
        assert variant.role == "sweep"
        pytest.skip(str(reason))
    run.reset()
    assert (run.outputs()["out"] == plans.SENTINEL).all(), "poisoned before it runs"
    run.run()
    error, bound, _ = LAB.check(case, variant, run.outputs(), LAB.reference(case, given))
    run.run()
    again, _, _ = LAB.check(case, variant, run.outputs(), LAB.reference(case, given))
    run.close()
    assert again == error, "a second run gives the same"
    return error <= bound


@pytest.mark.parametrize("densities", DENSITIES, ids=str)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("variant", [pytest.param(each, id=each.name) for each in LAB.all_variants()])
def test_every_variant_is_exact(
    device: Device, variant: Variant, name: str, densities: tuple[float | None, float | None]
) -> None:
    assert right(device, variant, name, densities)


MISTAKES = [
    ("row-groups", "dense.k", "j < DEPTH", "j < DEPTH - 1", "the last channel"),
    ("filter-groups", "dense.k", "p < TAPS", "p < TAPS - 1", "the last row of taps"),
    ("atomic-pool", "dense_atomic.k", "h / 2 < SIZE / 2", "h / 2 < SIZE / 2 - 1", "the last row of windows"),
    ("filter-groups", "dense_separate.k", "LARGER(sum, 0)", "sum", "ReLU"),
    ("shared-index", "dense_shared.k", "same[1] = WEIGHT_AT(FILTER", "same[1] = WEIGHT_AT(0", "whose filter it is"),
    ("lists", "lists.k", "if (value)", "if (value > 0)", "negative weights"),
    ("lists", "lists_direct.k", "turn + k < DEPTH", "turn + k < DEPTH - 1", "the last channel of a turn"),
    ("input-in-local", "lists_staged.k", " + places[n]", "", "where a weight lies"),
    ("built-lists", "built.k", "lower1 += value * x[from + X_ROW + 1]", "lower1 += 0", "a pixel of each window"),
    ("both-sparse", "both.k", "row < SIZE", "row < SIZE - 1", "the last row of the map"),
    ("both-sparse", "both.k", "line % SIZE + TAPS / 2", "line % SIZE", "the border above"),
    ("sequential", "sequential.k", "j < DEPTH", "j < DEPTH - 1", "the last channel"),
]
"""(variant, file, words, other words, what is forgotten)."""


@pytest.mark.parametrize(
    ("name", "file", "words", "instead", "what"),
    [pytest.param(*each, id=f"{each[0]}: {each[-1]}") for each in MISTAKES],
)
def test_a_kernel_that_errs_is_refused(
    device: Device, tmp_path: Path, name: str, file: str, words: str, instead: str, what: str
) -> None:
    variant = LAB.variant(name)
    assert variant.source
    for each in HERE.glob("*.k"):
        shutil.copy(each, tmp_path)
    text = (tmp_path / file).read_text()
    assert text.count(words) >= 1, words
    (tmp_path / file).write_text(text.replace(words, instead))
    broken = replace(variant, source=Source.of(tmp_path / variant.source.path.name, **dict(variant.source.knobs)))
    assert not right(device, broken, "4x5x10x10-k3", (1.0, 1.0)), what


def test_nan_and_other_garbage_count_as_wrong() -> None:
    case = LAB.case("5x7x9x9-k3", "test")
    reference = LAB.reference(case, LAB.inputs(case, 1))
    for garbage in (np.full_like(reference["out"], plans.SENTINEL), reference["out"].astype(float) * np.nan):
        error, bound, _ = LAB.check(case, LAB.ladder[0], {"out": garbage}, reference)
        assert error == garbage.size and not error <= bound
