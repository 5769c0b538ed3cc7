"""`roofbook train`: the weights that it makes, and a mistake in one line."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from roofbook.labs.lenet.network import read_weights

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def roofbook(command: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Function that runs a command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return command


@pytest.fixture
def some_images(tmp_path: Path) -> Path:
    """A folder with 64 random images, for training and for the test alike, as IDX files."""
    random = np.random.default_rng(1)
    images, labels = random.integers(0, 256, (64, 28, 28), np.uint8), random.integers(0, 10, 64, np.uint8)
    for split in ("train", "t10k"):
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
            (tmp_path / f"{split}-{kind}-ubyte").write_bytes(head + array.tobytes())
    return tmp_path


def test_train_makes_weights_and_says_what_they_reach(roofbook: Cli, some_images: Path) -> None:
    out_file = some_images / "weights.npz"
    command = ["train", "lenet", "--data-dir", str(some_images), "--epochs", "2", "--out"]
    code, out, err = roofbook(*command, str(out_file), "--seed", "7")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    lines[3:] = [" ".join(lines[3:])]  # wrapped
    assert lines[0] == "training on Fashion-MNIST, 64 images of its train set"
    assert re.fullmatch(r"epoch 2 of 2: loss \d\.\d{4}", lines[2])
    reached = re.fullmatch(rf"accuracy (0\.\d+) on Fashion-MNIST, 64 .*; the weights are in {out_file}", lines[3])
    weights, how = read_weights(out_file)
    assert reached and how["accuracy"] == float(reached[1]) and how["command"].endswith("--seed 7 --epochs 2")
    assert len(weights) == 6


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm"], "unknown lab with weights 'lbm'; valid: lenet"),
        (["lenet", "--data-dir", "absent"], "there is no folder absent; expected one with the IDX files"),
        (["lenet", "--data-dir", "SAMPLE", "--out", "absent/w.npz"], "absent/w.npz cannot be written; expected a file"),
        (["lenet", "--epochs", "0"], "0 is not in the range x>=1"),
    ],
)
def test_train_stops_at_a_mistake_with_one_line(
    roofbook: Cli, some_images: Path, arguments: list[str], words: str
) -> None:
    code, out, err = roofbook("train", *(str(some_images) if word == "SAMPLE" else word for word in arguments))
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_train_writes_no_weights_where_it_cannot(roofbook: Cli, tmp_path: Path) -> None:
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"")
    (tmp_path / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03\0\0")
    (tmp_path / "train-labels-idx1-ubyte").write_bytes(b"")
    code, out, err = roofbook("train", "lenet", "--data-dir", str(tmp_path), "--out", str(tmp_path / "w.npz"))
    assert (code, out) == (2, "") and err.startswith(
        f"error: {tmp_path}/train-images-idx3-ubyte ends within its header"
    )
    assert not (tmp_path / "w.npz").exists()
