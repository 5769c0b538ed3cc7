"""The images of the lab: Fashion-MNIST from a folder, from the cache or by download; otherwise handwritten digits.

Parses IDX files (https://github.com/zalandoresearch/fashion-mnist), plain or gzip, and enlarges images to the network's
input. A wrong file raises a UsageError of one line with the file's name and the expected contents.
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
from typing import Any, BinaryIO, NamedTuple

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
    "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
)
SHA256 = {
    "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
    "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
}
TIMEOUT_S, MOST_S, MOST_BYTES = 5, 120, 32_000_000
"""Limits of a download: seconds without an answer, seconds in all, and bytes; the largest file has 26 MB."""
MOST_VALUES = 1 << 29
"""Limit of the values of an array in a file, unpacked. The largest official one has 47 million."""
TRAINING_DIGITS = 1437  # of 1797


class Data(NamedTuple):
    """Images (N, 28, 28) of pixels from 0 to 255, labels (N,) from 0 to 9, and their source."""

    images: Bytes
    labels: Bytes
    source: str  # for a reader: data set, split, number of images
    name: str  # "fashion-mnist" or "digits": which weights fit


def load(data_dir: str | Path | None = None, split: str = "test") -> Data:
    """Load one split, "train" or "test", from `data_dir` or $ROOFBOOK_DATA; otherwise from the cache or by download.

    A folder's files have the official names, .gz or not. The name may say before `images` or `labels` which part of the set
    the file holds, as in t10k-first4443-images-idx3-ubyte.gz. Without folder and network, scikit-learn's digits are used, if
    it is installed. Raises UsageError for a bad file, and if there is no data at all.
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
    """Return the folder of images that $ROOFBOOK_DATA names; None if it is not set."""
    return os.path.expanduser(os.environ.get("ROOFBOOK_DATA", "")) or None


def at_hand() -> str:
    """Return the data set, `Data.name`, whose test images need no network: those of $ROOFBOOK_DATA or whole in the cache."""
    files = [cache_dir() / "fashion-mnist" / name for name in TEST_FILES]
    has_images = folder() or all(_is_official(file) for file in files)
    return "fashion-mnist" if has_images else "digits"


def fetch() -> None:
    """Download the test files into the cache unless they are at hand. A failure is ignored."""
    if at_hand() == "digits":
        with contextlib.suppress(OSError):
            for name in TEST_FILES:
                _cached(name)


def read(images: Path, labels: Path, split: str) -> Data:
    """Return the images and labels of two IDX files that belong together. Raises UsageError."""
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
    """Return the array of an IDX file of unsigned bytes, plain or gzip.

    The format: 0 0 8, the number of dimensions, each length (32-bit, big-endian), the values. Not more is unpacked than the
    lengths say. Raises UsageError if the file cannot be read, or holds fewer, more or other bytes.
    """
    if file.exists() and not file.is_file():
        raise UsageError(f"{file} is no file; expected an IDX file")
    try:
        with file.open("rb") as packed:
            zipped = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            if not zipped:
                return _unpacked(file, packed, os.fstat(packed.fileno()).st_size)
            with gzip.GzipFile(fileobj=packed) as stream:
                return _unpacked(file, stream, None)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UsageError(f"{file} is not a complete gzip file ({error}); copy it again") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}); expected an IDX file") from None


def _unpacked(file: Path, stream: BinaryIO | gzip.GzipFile, size: int | None) -> Bytes:
    """Return the array of an IDX file from its bytes. size: how many there are; None if only reading them tells."""
    head = stream.read(4)
    if head[:3] != b"\0\0\x08" or len(head) < 4 or not 1 <= head[3] <= 3:
        magic = head.hex(" ") or "nothing"
        raise UsageError(f"{file} begins with {magic}; an IDX file of bytes begins with 00 00 08 01 to 03")
    lengths = stream.read(4 * head[3])
    start = 4 + 4 * head[3]
    if 4 + len(lengths) < start:
        raise UsageError(
            f"{file} ends within its header, after {4 + len(lengths)} bytes; expected a complete copy of it"
        )
    shape = [int.from_bytes(lengths[at : at + 4], "big") for at in range(0, len(lengths), 4)]
    count = math.prod(shape)
    if count == 0:
        raise UsageError(f"{file} holds an array of {_text(shape)}, no value at all; expected one image or more")
    if count > MOST_VALUES:
        raise UsageError(f"{file} holds an array of {_text(shape)}; expected {MOST_VALUES} values at most")
    values = b"" if size is not None and size != start + count else stream.read(count + 1)
    if len(values) != count:
        held = size or (f"more than {start + count}" if len(values) > count else start + len(values))
        raise UsageError(f"{file} holds {held} bytes; expected {start + count}, as its header says {_text(shape)}")
    return np.frombuffer(values, np.uint8).reshape(shape)


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _find(folder: Path, prefix: str, kind: str) -> Path:
    """Return the file of a kind. The official name, which is shorter, is preferred to one that names a part of the set."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}; expected one with the IDX files of Fashion-MNIST")
    files = [file for end in ("", ".gz") for file in folder.glob(f"{prefix}-*{kind}{end}")]
    if not files:
        raise UsageError(f"{folder} holds no {prefix}-{kind}, .gz or not; expected a folder with Fashion-MNIST")
    return min(files, key=lambda file: (len(file.name), file.name))


def _cached(name: str) -> Path:
    """Return an official file, in the cache. Raises OSError if no address gave it whole."""
    file = cache_dir() / "fashion-mnist" / name
    if not _is_official(file):
        raw = _download(name)
        write_whole(file, raw)
    return file


def _download(name: str) -> bytes:
    """Download an official file, within MOST_S seconds however slow an address or a look-up of its name is."""
    answers: list[bytes | OSError] = []

    def work() -> None:
        try:
            answers.append(_from_an_address(name))
        except OSError as error:
            answers.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(MOST_S)
    answer = answers[0] if answers else TimeoutError(f"{name} was not here after {MOST_S} s")
    if isinstance(answer, OSError):
        raise answer
    return answer


def _from_an_address(name: str) -> bytes:
    from http.client import HTTPException

    failures = []
    for address in ADDRESSES:
        host = address.split("/")[2]
        try:
            with open_https(address + name, timeout=TIMEOUT_S) as answer:
                raw: bytes = answer.read(MOST_BYTES + 1)
            if _official(name, raw):
                return raw
            wrong = "another checksum than that of the official file"
            failures.append(f"{host}: {f'over {MOST_BYTES} bytes' if len(raw) > MOST_BYTES else wrong}")
        except (OSError, HTTPException) as error:
            failures.append(f"{host}: {getattr(error, 'reason', None) or error}")
    raise OSError("; ".join(failures))


def open_https(address: str, timeout: float) -> Any:
    """Open an address by https, and refuse redirections to anything else."""
    import urllib.request  # with http.client longer to import than the rest of the lab

    class HttpsAlone(urllib.request.HTTPRedirectHandler):
        def redirect_request(
            self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
        ) -> urllib.request.Request | None:
            if not newurl.lower().startswith("https://"):
                raise OSError(f"it leads to {newurl[:80]}, which is not https")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    return urllib.request.build_opener(HttpsAlone).open(address, timeout=timeout)


def _official(name: str, raw: bytes) -> bool:
    return hashlib.sha256(raw).hexdigest() == SHA256[name]


def _is_official(file: Path) -> bool:
    """Return whether a file in the cache is whole. A file larger than any official one is not read."""
    return file.is_file() and file.stat().st_size <= MOST_BYTES and _official(file.name, file.read_bytes())


def digits(split: str, reason: str) -> Data:
    """Return scikit-learn's 1797 handwritten digits, 8x8 and 17 shades, enlarged: 1437 to train, the others to test."""
    try:
        shades, labels = _scikit_learns_digits()
    except ImportError:
        raise UsageError(
            f"Fashion-MNIST could not be downloaded ({reason}); give the folder of its files as data_dir,"
            " or `pip install scikit-learn` for its digits"
        ) from None
    part = slice(TRAINING_DIGITS) if split == "train" else slice(TRAINING_DIGITS, None)
    images = np.rint(_enlarged(shades[part] * (255 / 16), SIZE)).astype(np.uint8)
    source = f"scikit-learn's digits, {len(images)} images of their {split} part, in place of Fashion-MNIST"
    return Data(images, labels[part].astype(np.uint8), source, "digits")


def _scikit_learns_digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return shades from 0 to 16 (1797, 8, 8) and labels (1797,). Raises ImportError if scikit-learn is not installed.

    They are read from its file, if that is in the usual folder: importing scikit-learn takes longer than a small batch.
    """
    package = find_spec("sklearn")
    for location in (package and package.submodule_search_locations) or ():
        file = Path(location, "datasets", "data", "digits.csv.gz")
        if file.is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int64)
    bunch = importlib.import_module("sklearn.datasets").load_digits()
    return bunch.images, bunch.target


def resized(images: Bytes) -> NDArray[np.float32]:
    """Enlarge (N, 28, 28) pixels to the network's input (N, 86, 86), bilinearly, from 0 to 255. 30 KB an image.

    Pixels are squares (half-pixel centres), as in PyTorch's interpolate with align_corners=False.
    """
    return _enlarged(images.astype(np.float32), network.SIZE)


def _enlarged(images: NDArray[np.floating], size: int) -> NDArray[np.float32]:
    matrix = interpolation(images.shape[-1], size)
    return matrix @ images.astype(np.float32) @ matrix.T


def interpolation(old: int, new: int) -> NDArray[np.float32]:
    """Return the matrix (new, old) that enlarges a row of pixels: two neighbours' shares in each new one, edges repeated."""
    at = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    low = np.minimum(at.astype(int), old - 2)
    rows, share = np.arange(new), at - low
    matrix = np.zeros((new, old), np.float32)
    matrix[rows, low] = 1 - share
    matrix[rows, low + 1] = share
    return matrix
