"""Constants that host code needs are written once, in the kernel's text: tiles, groups and bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roofbook.labs.cnn import ladder as cnn
from roofbook.labs.lenet import producer
from roofbook.labs.lenet.problem import CONV1, CONV2, LAYERS
from roofbook.paths import LIBRARY
from roofbook.spec.kernel_constants import constants, work_items
from roofbook.spec.source import Source, TextError

TEXT = """// Knob TILE: outputs of a work-item
// Knob WAY:  FAR or NEAR
#ifndef TILE
#define TILE 4
#endif
#ifndef WAY
#define WAY NEAR
#endif
#define NEAR 1
#define FAR 2
#include "sizes.h"
#define ROW (TILE * WIDTH + 1)
#define SHARE (WAY == FAR ? ROW / 2 : ROW % 7)
#define SCALE 2048.0f
#define NAME "text"
#define SIDE UNKNOWN
#if WAY == FAR
#define DEPTH 3
#else
#define DEPTH 1 << 4
#endif
#define ROUND(x) ((x) + 1)
#define ROUNDED ROUND(ROW)
KERNEL_OF(32 * TILE, 2) ALIGNED void first(GLOBAL float *x) { x[0] = ROW; }
KERNEL_OF(ROUND(WIDTH), 1) void second(GLOBAL float *x) { x[0] = 1; }
KERNEL void third(GLOBAL float *x) { x[0] = 2; }
"""


@pytest.fixture
def source(tmp_path: Path) -> Source:
    (tmp_path / "sizes.h").write_text("#define WIDTH 10\n")
    (tmp_path / "kernel.k").write_text(TEXT)
    return Source.of(tmp_path / "kernel.k")


@pytest.mark.parametrize(
    ("knobs", "expected"),
    [
        ({}, {"TILE": 4, "ROW": 41, "SHARE": 6, "DEPTH": 16, "WIDTH": 10, "ROUNDED": 42}),
        ({"TILE": 8}, {"TILE": 8, "ROW": 81, "SHARE": 4, "ROUNDED": 82}),
        ({"WAY": "FAR"}, {"WAY": 2, "SHARE": 20, "DEPTH": 3}),
    ],
)
def test_a_constant_is_what_the_compiler_sees(
    source: Source, knobs: dict[str, int | str], expected: dict[str, int]
) -> None:
    values = constants(source.with_knobs(**knobs))
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("name", ["SCALE", "NAME", "SIDE", "ROUND", "NOSUCH"])
def test_what_is_no_integer_is_no_constant(source: Source, name: str) -> None:
    with pytest.raises(TextError, match=rf"kernel\.k has no constant {name}, .*: write #define {name} and a number"):
        constants(source)[name]


def test_a_group_is_the_first_argument_of_the_kernel(source: Source) -> None:
    assert (work_items(source, "first"), work_items(source.with_knobs(TILE=2), "first")) == (128, 64)
    assert work_items(source, "second") == 11
    with pytest.raises(
        TextError, match=r"kernel\.k does not fix the groups of third: write KERNEL_OF\(work-items, groups\)"
    ):
        work_items(source, "third")


def test_an_edit_is_seen_at_once(source: Source) -> None:
    assert constants(source)["WIDTH"] == 10
    source.path.with_name("sizes.h").write_text("#define WIDTH 12 // wider\n")
    assert constants(source)["WIDTH"] == 12 and constants(source)["ROW"] == 49


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        (cnn.TENSOR, "STAGE_BYTES", 2 * 64 * (128 + 8 * 32)),
        (cnn.TENSOR.with_knobs(PRODUCTS=3), "PARTS", 2),
        (cnn.TENSOR_WINDOW, "STAGES_BYTES", 230400),
        (cnn.TENSOR_SPLIT, "TILE_W", 16),
        (producer.LAYER_2, "PIXELS_1", 2 * 43 * 192 + 128),
        (producer.LAYER_2, "PIXELS_2", 4 * 10 * 320 + 256),
    ],
)
def test_constants_of_kernels_are_those_of_the_launches(text: Source, name: str, value: int) -> None:
    assert constants(text)[name] == value


def test_layers_are_numbered_as_in_the_text() -> None:
    values = constants(producer.LAYER_2)
    for number, layer in enumerate((CONV1, CONV2), 1):
        assert (values[f"SIZE_{number}"], values[f"OUT_{number}"]) == (layer.size, layer.side)
    assert LAYERS == (CONV1, CONV2)


def test_no_host_code_says_that_it_repeats_a_constant() -> None:
    for path in (LIBRARY / "labs").rglob("*.py"):
        repeated = re.search(r"constants? of \w+\.(?:cu|k|h)\b", path.read_text())
        assert not repeated, f"{path}: read it by spec.kernel_constants"
