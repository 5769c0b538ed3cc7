"""IDX files whole and broken, folders, the cache and its checksums, the stand-in, and the bilinear resize."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import subprocess
import sys
import threading
import tracemalloc
import types
import zlib
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from roofbook.errors import UsageError
from roofbook.labs.lenet import data
from roofbook.labs.lenet.data import IMAGES, LABELS, SHA256, Bytes, interpolation, load, parse, read, resized
from roofbook.peers import pytorch

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))


def idx(array: Bytes) -> bytes:
    """Return an IDX file of unsigned bytes."""
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGE_FILE = idx(np.arange(3 * 784).reshape(3, 28, 28).astype(np.uint8))
LABEL_FILE = idx(np.array([9, 0, 5], np.uint8))


def written(folder: Path, images: bytes = IMAGE_FILE, labels: bytes = LABEL_FILE) -> Path:
    (folder / f"t10k-{IMAGES}").write_bytes(images)
    (folder / f"t10k-{LABELS}").write_bytes(labels)
    return folder


# -- IDX files ---------------------------------------------------------------------------------------------------------


@given(arrays.arrays(np.uint8, arrays.array_shapes(max_dims=3, max_side=6)), st.booleans())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, array: Bytes, zipped: bool) -> None:
    file = tmp_path_factory.mktemp("idx") / "file"
    file.write_bytes(gzip.compress(idx(array)) if zipped else idx(array))
    np.testing.assert_array_equal(parse(file), array)
    assert parse(file).shape == array.shape


@given(st.data(), st.booleans())
def test_no_part_of_a_file_is_taken_for_the_whole(
    tmp_path_factory: pytest.TempPathFactory, draw: st.DataObject, zipped: bool
) -> None:
    full = gzip.compress(LABEL_FILE) if zipped else LABEL_FILE
    file = tmp_path_factory.mktemp("idx") / "file"
    file.write_bytes(full[: draw.draw(st.integers(0, len(full) - 1))])
    with pytest.raises(UsageError) as error:
        parse(file)
    assert str(error.value).startswith(f"{file} ") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "begins with nothing; an IDX file of bytes begins with 00 00 08"),
        (b"<html>", "begins with 3c 68 74 6d; "),
        (b"\0\0\x0d\x01\0\0\0\0", "begins with 00 00 0d 01; "),
        (b"\0\0\x08\0", "begins with 00 00 08 00; "),
        (
            b"\0\0\x08\xff" + bytes(4 * 255),
            "begins with 00 00 08 ff; an IDX file of bytes begins with 00 00 08 01 to 03",
        ),
        (b"\0\0\x08\x03" + bytes(4) + b"\xff" * 8, "0 x 4294967295 x 4294967295, no value at all"),
        (LABEL_FILE[:6], "ends within its header, after 6 bytes"),
        (LABEL_FILE[:-1], "holds 10 bytes; expected 11, as its header says 3"),
        (LABEL_FILE + b"\0", "holds 12 bytes; expected 11"),
        (
            b"\0\0\x08\x03" + b"\xff" * 12,
            "holds an array of 4294967295 x 4294967295 x 4294967295; expected 536870912 values at most",
        ),
        (gzip.compress(LABEL_FILE, mtime=0)[:-5], "is not a complete gzip file"),
        (gzip.compress(LABEL_FILE, mtime=0)[:-8] + bytes(8), "is not a complete gzip file (CRC check failed"),
    ],
)
def test_a_bad_file_is_named_with_what_would_be_right(tmp_path: Path, raw: bytes, words: str) -> None:
    file = tmp_path / "labels"
    file.write_bytes(raw)
    with pytest.raises(UsageError) as error:
        parse(file)
    assert f"{file} " in str(error.value) and words in str(error.value)


@pytest.mark.parametrize(
    ("images", "labels", "words"),
    [
        (IMAGE_FILE, idx(np.zeros(2, np.uint8)), f"{LABELS} holds 2 labels; expected 3, one for each image of t10k-"),
        (LABEL_FILE, LABEL_FILE, f"{IMAGES} holds an array of 3; expected images, N x 28 x 28"),
        (idx(np.zeros((3, 32, 32), np.uint8)), LABEL_FILE, f"{IMAGES} holds an array of 3 x 32 x 32; expected"),
        (idx(np.zeros((0, 28, 28), np.uint8)), idx(np.zeros(0, np.uint8)), f"{IMAGES} holds an array of 0 x 28 x 28"),
        (IMAGE_FILE, IMAGE_FILE, f"{LABELS} holds an array of 3 x 28 x 28; expected one label"),
        (IMAGE_FILE, idx(np.array([0, 10, 2], np.uint8)), f"{LABELS} holds the label 10; expected 0 to 9"),
    ],
)
def test_images_and_labels_that_do_not_belong_together(
    tmp_path: Path, images: bytes, labels: bytes, words: str
) -> None:
    with pytest.raises(UsageError) as error:
        load(written(tmp_path, images, labels))
    assert words in str(error.value) and str(tmp_path) in str(error.value) and "\n" not in str(error.value)


def bomb(header: bytes, pieces: int) -> bytes:
    """Return a gzip file of this header and many MiB of zeros."""
    packed = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join([packed.compress(header), *(packed.compress(zeros) for _ in range(pieces)), packed.flush()])


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((10, 28, 28), r"holds more than 7856 bytes; expected 7856"),
        ((1,), r"holds more than 9 bytes; expected 9"),
        ((60000, 28, 28), r"holds more than 47040016 bytes"),
        ((1 << 31, 1 << 31, 1 << 31), r"expected 536870912 values at most"),
        ((1 << 20, 28, 28), r"expected 536870912 values at most"),
    ],
)
def test_no_more_is_unpacked_than_the_header_says(tmp_path: Path, shape: tuple[int, ...], words: str) -> None:
    file = tmp_path / "images.gz"
    file.write_bytes(bomb(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape), pieces=64))
    before = 2 * np.prod(shape[:3], dtype=float) if "values at most" not in words else 0
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=words):
            parse(file)
        assert tracemalloc.get_traced_memory()[1] < (1 << 23) + before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "images"
    place.mkdir() if kind == "folder" else os.mkfifo(place)
    with pytest.raises(UsageError, match="is no file"):
        parse(place)


# -- where the files are -----------------------------------------------------------------------------------------------


def test_a_folder_holds_a_part_of_the_set_or_the_whole(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    images, labels = random.integers(0, 256, (64, 28, 28), np.uint8), random.integers(0, 10, 64, np.uint8)
    for kind, array in ((IMAGES, images), (LABELS, labels)):
        (tmp_path / f"t10k-first64-{kind}.gz").write_bytes(gzip.compress(idx(array)))
    sample = load(tmp_path)
    assert (sample.images == images).all() and (sample.labels == labels).all()
    assert sample.images.dtype == sample.labels.dtype == np.uint8
    assert sample.source == "Fashion-MNIST, 64 images of its test set" and sample.name == "fashion-mnist"
    assert len(load(str(written(tmp_path))).images) == 3, "the official name comes first"


@pytest.mark.parametrize(
    ("folder", "split", "words"),
    [
        ("absent", "test", "there is no folder .*absent; expected one with the IDX files of Fashion-MNIST"),
        (".", "train", "holds no train-images-idx3-ubyte, .gz or not; expected"),
        (".", "tset", "unknown split 'tset' .did you mean 'test'.*; valid: train, test"),
    ],
)
def test_a_folder_without_the_files(tmp_path: Path, folder: str, split: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(written(tmp_path) / folder, split)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Each address -> its answer: bytes, or an exception; `asked` is the list of requested addresses. The cache is empty."""
    answers: dict[str, Any] = {"asked": []}

    def open_https(address: str, timeout: float) -> io.BytesIO:
        assert timeout
        answers["asked"].append(address)
        answer = answers.get(address, URLError("no network"))
        if isinstance(answer, Exception):
            raise answer
        return io.BytesIO(answer)

    monkeypatch.delenv("ROOFBOOK_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(data, "open_https", open_https)
    for name, content in (("images", IMAGE_FILE), ("labels", LABEL_FILE)):
        file = f"t10k-{name}-idx{3 if name == 'images' else 1}-ubyte.gz"
        answers[data.ADDRESSES[0] + file] = raw = gzip.compress(content)
        monkeypatch.setitem(SHA256, file, hashlib.sha256(raw).hexdigest())
    monkeypatch.setattr(data, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    return answers


def test_a_download_is_kept_and_a_damaged_one_made_again(server: dict[str, Any], tmp_path: Path) -> None:
    assert len(load().images) == 3 and len(server["asked"]) == 2
    assert len(load().images) == 3 and len(server["asked"]) == 2, "from the cache"
    files = sorted((tmp_path / "cache" / "roofbook" / "fashion-mnist").iterdir())
    assert [file.name for file in files] == [f"t10k-{IMAGES}.gz", f"t10k-{LABELS}.gz"], "and nothing beside them"
    files[0].write_bytes(b"half of it")
    assert len(load().images) == 3 and len(server["asked"]) == 3


def test_a_file_with_another_checksum_is_asked_for_elsewhere_and_never_kept(
    server: dict[str, Any], tmp_path: Path
) -> None:
    good = server[data.ADDRESSES[0] + f"t10k-{IMAGES}.gz"]
    server[data.ADDRESSES[0] + f"t10k-{IMAGES}.gz"] = gzip.compress(b"a portal's page")
    with pytest.raises(
        UsageError, match=r"raw.githubusercontent.com: another checksum .*; storage.googleapis.com: no network"
    ):
        load()
    assert not list((tmp_path / "cache").rglob("*ubyte*"))
    server[data.ADDRESSES[1] + f"t10k-{IMAGES}.gz"] = good
    assert len(load().images) == 3


class Endless(io.RawIOBase):
    """HTTP answer without an end, of which no more is held than was requested."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return len(buffer)


def test_a_download_without_an_end_is_given_up(server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_BYTES", 1000)
    monkeypatch.setattr(data, "open_https", lambda address, timeout: io.BufferedReader(Endless()))
    with pytest.raises(UsageError, match=r"raw\.githubusercontent\.com: over 1000 bytes; storage[^;]*: over 1000"):
        load()


def test_all_addresses_are_https_and_none_leads_to_another_scheme() -> None:
    from email.message import Message
    from urllib.request import HTTPRedirectHandler, OpenerDirector, Request

    assert all(address.startswith("https://") and address.endswith("/") for address in data.ADDRESSES)
    opened: list[OpenerDirector] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenerDirector, "open", lambda self, *_, **__: opened.append(self))
        data.open_https(data.ADDRESSES[0], 1.0)
    handlers: Any = opened[0].__dict__["handlers"]
    redirecting: list[Any] = [h for h in handlers if isinstance(h, HTTPRedirectHandler)]
    (handler,) = redirecting
    request = Request(data.ADDRESSES[0])
    for address in ("http://example.org/x", "ftp://example.org/x", "file:///etc/passwd"):
        with pytest.raises(OSError, match="not https"):
            handler.redirect_request(request, None, 302, "", Message(), address)
    led = handler.redirect_request(request, None, 302, "", Message(), "https://example.org/x")
    assert led and led.full_url == "https://example.org/x"


def test_a_large_file_in_the_cache_is_not_read(
    server: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cache" / "roofbook" / "fashion-mnist" / f"t10k-{IMAGES}.gz"
    file.parent.mkdir(parents=True)
    with file.open("wb") as sparse:
        sparse.truncate(1 << 40)
    assert data.at_hand() == "digits" and len(load().images) == 3


def test_a_download_that_trickles_is_given_up(server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "MOST_S", 0.05)
    given_up, before = threading.Event(), threading.enumerate()
    monkeypatch.setattr(data, "open_https", lambda address, timeout: given_up.wait(60) and io.BytesIO())
    try:
        with pytest.raises(UsageError, match=rf"t10k-{IMAGES}\.gz was not here after 0\.05 s"):
            load()
    finally:
        given_up.set()
        for thread in threading.enumerate():
            if thread not in before:
                thread.join()  # it tries the next address yet, which must not be the next test's


def test_a_fetch_is_kept_and_asks_for_nothing_that_is_at_hand(
    server: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROOFBOOK_DATA", str(tmp_path))
    data.fetch()
    assert data.at_hand() == "fashion-mnist" and not server["asked"], "a folder is enough"
    monkeypatch.delenv("ROOFBOOK_DATA")
    assert data.at_hand() == "digits" and not server["asked"], "asks nobody"
    data.fetch()
    assert data.at_hand() == "fashion-mnist" and len(server["asked"]) == 2
    data.fetch()
    assert len(load().images) == 3 and len(server["asked"]) == 2
    (tmp_path / "cache" / "roofbook" / "fashion-mnist" / f"t10k-{LABELS}.gz").write_bytes(b"half of it")
    assert data.at_hand() == "digits"


@pytest.mark.parametrize("failure", [URLError("no network"), TimeoutError("slow"), HTTPException("not HTTP")])
def test_a_fetch_without_a_network_says_nothing(
    server: dict[str, Any], failure: Exception, capfd: pytest.CaptureFixture[str]
) -> None:
    for address in [key for key in server if key != "asked"]:
        server[address] = failure
    data.fetch()
    assert server["asked"] and data.at_hand() == "digits" and capfd.readouterr() == ("", "")


def test_a_folder_in_the_environment_comes_before_the_cache_and_after_the_callers_own(
    server: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    two, one = tmp_path / "two", tmp_path / "one"
    for folder, many in ((two, 2), (one, 1)):
        folder.mkdir()
        written(folder, idx(np.zeros((many, 28, 28), np.uint8)), idx(np.zeros(many, np.uint8)))
    monkeypatch.setenv("ROOFBOOK_DATA", str(two))
    assert (len(load().images), len(load(one).images), server["asked"]) == (2, 1, [])
    monkeypatch.setenv("ROOFBOOK_DATA", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"^there is no folder .*none; expected one with the IDX files"):
        load()


# -- the stand-in ------------------------------------------------------------------------------------------------------


def test_without_a_network_digits_stand_in(server: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    server.clear()
    server["asked"] = []
    with pytest.raises(UsageError, match=r"could not be downloaded .*no network.*; give the folder .*scikit-learn"):
        load()
    shades = np.zeros((1797, 8, 8))
    shades[:, 4:, :] = 16
    digits = types.SimpleNamespace(images=shades, target=np.arange(1797) % 10)
    monkeypatch.setitem(sys.modules, "sklearn", types.ModuleType("sklearn"))
    monkeypatch.setitem(sys.modules, "sklearn.datasets", types.SimpleNamespace(load_digits=lambda: digits))
    training, test = load(split="train"), load(split="test")
    assert len(training.images) == 1437 and len(test.images) == 360
    assert "digits" in test.source and "in place of Fashion-MNIST" in test.source and test.name == "digits"
    assert test.images.shape == (360, 28, 28) and test.images.dtype == test.labels.dtype == np.uint8
    assert (test.images[:, 0] == 0).all() and (test.images[:, -1] == 255).all() and test.labels[0] == 1437 % 10


@pytest.mark.thorough
def test_digits_are_those_of_scikit_learn_though_it_is_not_imported() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    shades, labels = data._scikit_learns_digits()
    right = datasets.load_digits()
    np.testing.assert_array_equal(shades, right.images)
    np.testing.assert_array_equal(labels, right.target)
    code = (
        "from roofbook.labs.lenet import data; import sys; data.digits('test', ''); sys.exit('sklearn' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- the resize --------------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(("old", "new"), [(28, 86), (8, 28), (3, 7)])
def test_the_resize_is_that_of_pytorch(old: int, new: int) -> None:
    import torch

    images = np.random.default_rng(old).uniform(0, 255, (5, old, old)).astype(np.float32)
    want = torch.nn.functional.interpolate(torch.tensor(images)[:, None], (new, new), mode="bilinear")[:, 0].numpy()
    matrix = interpolation(old, new)
    np.testing.assert_allclose(matrix @ images @ matrix.T, want, atol=2e-3)


def test_the_resize_keeps_a_plane_and_its_edges() -> None:
    plane = np.broadcast_to(np.arange(28, dtype=np.uint8) * 8, (2, 28, 28))
    out = resized(plane)
    assert out.shape == (2, 86, 86) and out.dtype == np.float32
    np.testing.assert_allclose(out[1, 5], np.clip(((np.arange(86) + 0.5) * 28 / 86 - 0.5) * 8, 0, 216), atol=1e-3)
    np.testing.assert_allclose(resized(plane.transpose(0, 2, 1)), out.transpose(0, 2, 1), atol=1e-3)


def test_read_names_the_split(tmp_path: Path) -> None:
    written(tmp_path)
    assert "train set" in read(tmp_path / f"t10k-{IMAGES}", tmp_path / f"t10k-{LABELS}", "train").source
