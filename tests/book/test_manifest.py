"""The manifest: a product is stale exactly if one of its inputs has changed, also after several writers and killed ones."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.book.manifest import EDITED, MISSING, UNKNOWN, Manifest, reason_text

NAMES = ("library", "kernels", "store")


def product(root: Path, name: str = "page") -> Path:
    return root / "book" / name


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(NAMES), st.sampled_from("12")),
        st.tuples(st.sampled_from(["make", "edit", "delete", "forget", "lose"]), st.just(""), st.just("")),
    ),
    max_size=20,
)


@given(steps=STEPS, with_other=st.booleans())
def test_a_product_is_stale_exactly_if_one_of_its_inputs_has_changed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]], with_other: bool
) -> None:
    """Compare with a model that remembers all steps; another product in the same manifest makes no difference."""
    root = tmp_path_factory.mktemp("checkout")
    manifest, page = Manifest(root), product(root)
    now, made_from, text, content = dict.fromkeys(NAMES, "0"), dict[str, str](), "", ""
    for step, name, value in [("make", "", ""), *steps]:
        if with_other:
            manifest.write(product(root, "other"), "other", now)
        if step == "change":
            now[name] = value
        elif step == "make":
            text = content = f"made from {now}"
            manifest.write(page, text, now, {"scale": "test"})
            made_from = dict(now)
        elif step == "edit":
            page.parent.mkdir(exist_ok=True)
            content = content + "edited"
            page.write_text(content)
        elif step == "delete":
            page.unlink(missing_ok=True)
            content = ""
        elif step == "forget":
            manifest.forget(page)
            made_from = {}
        else:
            manifest.path.unlink(missing_ok=True)
            made_from = {}
        expected = [name for name in NAMES if made_from.get(name) != now[name]] + [EDITED] * (text != content)
        if not content:
            expected = [MISSING]
        elif not made_from:
            expected = [UNKNOWN]
        assert Manifest(root).stale(page, now) == expected
        is_known = bool(made_from) and content in ("", text)
        assert Manifest(root).parameters(page) == ({"scale": "test"} if is_known else None)
        assert Manifest(root).made_from(page) == made_from


def test_a_new_and_a_removed_input_make_a_product_stale(tmp_path: Path) -> None:
    manifest, page = Manifest(tmp_path), product(tmp_path)
    manifest.write(page, "text", {"library": "1", "kernels": "1"})
    assert manifest.stale(page, {"library": "1", "device": "1"}) == ["device", "kernels"]


def test_an_empty_product_has_no_file_and_is_up_to_date(tmp_path: Path) -> None:
    manifest, page = Manifest(tmp_path), product(tmp_path)
    manifest.write(page, "text", {"store": "1"})
    manifest.write(page, "", {"store": "2"})
    assert not page.exists() and manifest.stale(page, {"store": "2"}) == []
    page.write_text("by hand")
    assert manifest.stale(page, {"store": "2"}) == [EDITED]


@pytest.mark.parametrize(
    "broken", ["", "{", "[]", "null", '{"book/page": 1}', '{"book/page": {"made_from": {"store": "1"}}}', "\udcff"]
)
def test_a_broken_manifest_is_empty_and_written_again(tmp_path: Path, broken: str) -> None:
    manifest, page = Manifest(tmp_path), product(tmp_path)
    manifest.write(page, "text", {"store": "1"})
    manifest.path.write_bytes(broken.encode(errors="surrogateescape"))
    assert manifest.stale(page, {"store": "1"}) == [UNKNOWN] and manifest.parameters(page) is None
    manifest.record(page, {"store": "1"})
    assert manifest.stale(page, {"store": "1"}) == []


WRITES = """
import itertools, sys
from pathlib import Path
from roofbook.book.manifest import Manifest
root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in itertools.count() if count < 0 else range(count):
    product = root / "book" / (name if count < 0 else f"{name}{number}")
    Manifest(root).write(product, f"{name} {number} " * 1000, {"store": str(number)}, {"number": number})
"""


def writer(root: Path, name: str, count: int = -1) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITES, str(root), name, str(count)])


def test_two_processes_at_once_lose_no_record_of_each_other(tmp_path: Path) -> None:
    writers = [writer(tmp_path, name, 40) for name in ("left", "right")]
    assert [process.wait() for process in writers] == [0, 0]
    manifest = Manifest(tmp_path)
    for name in ("left", "right"):
        for number in range(40):
            assert manifest.stale(product(tmp_path, f"{name}{number}"), {"store": str(number)}) == []


def test_two_processes_that_write_one_product_leave_it_as_one_of_them_wrote_it(tmp_path: Path) -> None:
    writers = [writer(tmp_path, "same") for _ in range(2)]
    try:
        deadline = time.monotonic() + 500
        while not product(tmp_path, "same").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
    finally:
        for process in writers:
            process.kill()
            process.wait()
    check_killed(tmp_path, "same")


def check_killed(root: Path, name: str) -> None:
    """Fail unless file and manifest are complete after a kill, and the manifest has the right inputs or says stale."""
    manifest, page = Manifest(root), product(root, name)
    if manifest.path.exists():  # before the first record there is none
        json.loads(manifest.path.read_text())
    number = page.read_text().split()[1]
    assert page.read_text() == f"{name} {number} " * 1000
    stale = manifest.stale(page, {"store": number})
    assert stale in ([], ["store", EDITED], [UNKNOWN]), "killed between the file and its record: stale"
    manifest.record(page, {"store": number})
    assert manifest.stale(page, {"store": number}) == [], "a killed process holds no lock"


def test_a_process_killed_in_the_middle_leaves_no_wrong_record(tmp_path: Path) -> None:
    choose = random.Random(1)
    page = product(tmp_path, "killed")
    for _ in range(6):
        before = page.read_text() if page.exists() else None
        running = writer(tmp_path, "killed")
        deadline = time.monotonic() + 500
        while (page.read_text() if page.exists() else None) == before and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(choose.uniform(0, 0.03))
        running.send_signal(signal.SIGKILL)
        running.wait()
        check_killed(tmp_path, "killed")


def test_a_product_written_without_its_record_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, page = Manifest(tmp_path), product(tmp_path)
    manifest.write(page, "old", {"store": "1"})

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "_save", interrupt)
        with pytest.raises(KeyboardInterrupt):
            manifest.write(page, "new", {"store": "2"})
    assert manifest.stale(page, {"store": "2"}) == ["store", EDITED]
    assert manifest.stale(page, {"store": "1"}) == [EDITED], "also if all inputs are the old ones again"


def test_the_manifest_is_one_small_file_of_names_within_the_checkout(tmp_path: Path) -> None:
    Manifest(tmp_path).write(product(tmp_path), "text", {"store": "1"}, {"scale": "test"})
    manifest = json.loads((tmp_path / "_build" / "manifest.json").read_text())
    assert list(manifest) == ["book/page"] and manifest["book/page"]["parameters"] == {"scale": "test"}
    assert {*os.listdir(tmp_path / "_build")} == {"manifest.json", "manifest.lock"}


@pytest.mark.parametrize(
    ("stale", "words"),
    [
        ([], ""),
        (["kernels"], "kernels changed"),
        (["library", "kernels", "store"], "library, kernels and store changed"),
        (["library", EDITED], "library changed, edited since"),
        ([MISSING], "not made yet"),
        ([UNKNOWN], "not in the manifest"),
    ],
)
def test_the_reason_in_words(stale: list[str], words: str) -> None:
    assert reason_text(stale) == words
