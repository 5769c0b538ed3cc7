"""The images of the lab: Fashion-MNIST from a folder, from the cache or by download; without these, handwritten digits.

Parses IDX files (https://github.com/zalandoresearch/fashion-mnist), plain or gzip, and enlarges images to the network's
input. A file that is not what it should be is a UsageError of one line with its name and what would be right.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import math
import os
import threading
import zlib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError, one_of
from ...paths import cache_dir, write_whole
from . import network

Bytes = NDArray[np.uint8]

SIZE = 28  # rows and columns of an image
SPLITS = {"train": "train", "test": "t10k"}  # and how their files begin
IMAGES, LABELS = "images-idx3-ubyte", "labels-idx1-ubyte"
TEST_FILES = tuple(f"{SPLITS['test']}-{kind}.gz" for kind in (IMAGES, LABELS))
ADDRESSES = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
TIMEOUT_S, MOST_S, MOST_BYTES = 5, 120, 32_000_000
"""Of a download: seconds without an answer, seconds in all, and the size; the largest file has 26 MB."""
TRAINING_DIGITS = 1437  # of 1797


class Data(NamedTuple):
    """Images (N, 28, 28) of pixels from 0 to 255, labels (N,) from 0 to 9, and where they are from."""

    images: Bytes
    labels: Bytes
    source: str  # for a reader: data set, split, number of images
    name: str  # "fashion-mnist" or "digits": which weights fit


def load(data_dir: str | Path | None = None, split: str = "test") -> Data:
    """One split, "train" or "test": of `data_dir` or $ROOFBOOK_DATA, else the whole one from the cache or by download.

    A folder's files are named as the official ones, .gz or not; before `images` or `labels` may stand which part of the
    set they hold, as in t10k-first4443-images-idx3-ubyte.gz. With neither folder nor network scikit-learn's digits
    stand in, where it is installed. Raises UsageError for a bad file, and where there is no data at all.
    """
    if split not in SPLITS:
        raise one_of("split", split, list(SPLITS))
    data_dir = data_dir or folder()
    if data_dir is not None:
        images, labels = (_find(Path(data_dir), SPLITS[split], kind) for kind in (IMAGES, LABELS))
        return read(images, labels, split)
    try:
        images, labels = (_cached(f"{SPLITS[split]}-{kind}.gz") for kind in (IMAGES, LABELS))
    except OSError as error:
        return digits(split, str(error))
    return read(images, labels, split)


def folder() -> str | None:
    """The folder of images that $ROOFBOOK_DATA names."""
    return os.environ.get("ROOFBOOK_DATA") or None


def at_hand() -> str:
    """The data set, `Data.name`, whose test images are here without a network: in $ROOFBOOK_DATA, or whole in the cache."""
    files = [cache_dir() / "fashion-mnist" / name for name in TEST_FILES]
    here = folder() or all(file.is_file() and _official(file.name, file.read_bytes()) for file in files)
    return "fashion-mnist" if here else "digits"


def fetch() -> None:
    """Download the test files into the cache unless they are at hand. Says nothing where that fails."""
    if at_hand() == "digits":
        with contextlib.suppress(OSError):
            for name in TEST_FILES:
                _cached(name)


def read(images: Path, labels: Path, split: str) -> Data:
    """The images and the labels of two IDX files that belong together."""
    x, y = parse(images), parse(labels)
    if x.ndim != 3 or x.shape[1:] != (SIZE, SIZE):
        raise UsageError(f"{images} holds an array of {_text(x.shape)}; expected images, N x {SIZE} x {SIZE}")
    if y.ndim != 1:
        raise UsageError(f"{labels} holds an array of {_text(y.shape)}; expected one label for each image, N")
    if len(x) != len(y):
        raise UsageError(f"{labels} holds {len(y)} labels; expected {len(x)}, one for each image of {images.name}")
    if y.max() >= network.CLASSES:
        raise UsageError(f"{labels} holds the label {y.max()}; expected 0 to {network.CLASSES - 1}")
    return Data(x, y, f"Fashion-MNIST, {len(x)} images of its {split} set", "fashion-mnist")


def parse(file: Path) -> Bytes:
    """The array of an IDX file of unsigned bytes, plain or gzip: 0 0 8, the number of dimensions, each length, the values.

    Lengths are 32-bit, big-endian. Raises UsageError where the file cannot be read, or holds less, more or else.
    """
    try:
        raw = file.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{file} is not a complete gzip file ({error}); copy it again") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); expected an IDX file") from None
    if raw[:3] != b"\0\0\x08" or len(raw) < 4 or not 1 <= raw[3] <= 3:
        magic = raw[:4].hex(" ") or "nothing"
        raise UsageError(f"{file} begins with {magic}; an IDX file of bytes begins with 00 00 08 01 to 03")
    start = 4 + 4 * raw[3]
    if len(raw) < start:
        raise UsageError(f"{file} ends within its header, after {len(raw)} bytes; expected a complete copy of it")
    shape = [int.from_bytes(raw[at : at + 4], "big") for at in range(4, start, 4)]
    expected = start + math.prod(shape)
    if 0 in shape:
        raise UsageError(f"{file} holds an array of {_text(shape)}, no value at all; expected one image or more")
    if len(raw) != expected:
        raise UsageError(f"{file} holds {len(raw)} bytes; expected {expected}, as its header says {_text(shape)}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _find(folder: Path, prefix: str, kind: str) -> Path:
    """The file of that kind; the official name, being shorter, comes before one that says which part it holds."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; expected one with the IDX files of Fashion-MNIST")
    found = [file for end in ("", ".gz") for file in folder.glob(f"{prefix}-*{kind}{end}")]
    if not found:
        raise UsageError(f"{folder} holds no {prefix}-{kind}, .gz or not; expected a folder with Fashion-MNIST")
    return min(found, key=lambda file: (len(file.name), file.name))


def _cached(name: str) -> Path:
    """An official file, in the cache. Raises OSError where no address gave it whole."""
    file = cache_dir() / "fashion-mnist" / name
    if not file.is_file() or not _official(name, file.read_bytes()):
        raw = _download(name)
        write_whole(file, raw)
    return file


def _download(name: str) -> bytes:
    """An official file. It may take MOST_S in all, however slowly an address answers, or a name is looked up."""
    done: list[bytes | OSError] = []

    def work() -> None:
        try:
            done.append(_from_an_address(name))
        except OSError as error:
            done.append(error)

    at_work = threading.Thread(target=work, daemon=True)
    at_work.start()
    at_work.join(MOST_S)
    found = done[0] if done else TimeoutError(f"{name} was not here after {MOST_S} s")
    if isinstance(found, OSError):
        raise found
    return found


def _from_an_address(name: str) -> bytes:
    import urllib.request  # with http.client longer to import than the rest of the lab
    from http.client import HTTPException

    failures = []
    for address in ADDRESSES:
        host = address.split("/")[2]
        try:
            with urllib.request.urlopen(address + name, timeout=TIMEOUT_S) as answer:
                raw: bytes = answer.read(MOST_BYTES + 1)
            if _official(name, raw):
                return raw
            wrong = "another checksum than that of the official file"
            failures.append(f"{host}: {f'over {MOST_BYTES} bytes' if len(raw) > MOST_BYTES else wrong}")
        except (OSError, HTTPException) as error:
            failures.append(f"{host}: {getattr(error, 'reason', None) or error}")
    raise OSError("; ".join(failures))


def _official(name: str, raw: bytes) -> bool:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest() == MD5[name]


def digits(split: str, why: str) -> Data:
    """scikit-learn's 1797 handwritten digits, 8x8 and 17 shades, enlarged: the first 1437 to train, the rest to test."""
    try:
        shades, labels = _scikit_learns_digits()
    except ImportError:
        raise UsageError(
            f"Fashion-MNIST could not be downloaded ({why}); give the folder of its files as data_dir,"
            " or `pip install scikit-learn` for its digits"
        ) from None
    part = slice(TRAINING_DIGITS) if split == "train" else slice(TRAINING_DIGITS, None)
    images = np.rint(_enlarged(shades[part] * (255 / 16), SIZE)).astype(np.uint8)
    source = f"scikit-learn's digits, {len(images)} images of their {split} part, in place of Fashion-MNIST"
    return Data(images, labels[part].astype(np.uint8), source, "digits")


def _scikit_learns_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Shades from 0 to 16 (1797, 8, 8) and labels (1797,). Raises ImportError where scikit-learn is not installed.

    From its file, where that lies as ever: its import takes longer than all else that a small batch needs.
    """
    package = find_spec("sklearn")
    for place in (package and package.submodule_search_locations) or ():
        file = Path(place, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    found = importlib.import_module("sklearn.datasets").load_digits()
    return found.images, found.target


def resized(images: Bytes) -> NDArray[np.float32]:
    """The network's input: (N, 28, 28) pixels to (N, 86, 86), bilinear, from 0 to 255 as before. 30 KB an image.

    Pixels are squares (half-pixel centres), as in PyTorch's interpolate with align_corners=False.
    """
    return _enlarged(images.astype(np.float32), network.SIZE)


def _enlarged(images: NDArray[np.floating], size: int) -> NDArray[np.float32]:
    matrix = interpolation(images.shape[-1], size)
    return matrix @ images.astype(np.float32) @ matrix.T


def interpolation(old: int, new: int) -> NDArray[np.float32]:
    """The matrix (new, old) that enlarges a row of pixels: two neighbours' shares in each new one, the edges repeated."""
    at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = np.minimum(at.astype(int), old - 2)
    rows, share = np.arange(new), at - low
    matrix = np.zeros((new, old), np.float32)
    matrix[rows, low] = 1 - share
    matrix[rows, low + 1] = share
    return matrix
