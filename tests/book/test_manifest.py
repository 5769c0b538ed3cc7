"""The manifest: a thing is stale exactly if something it was made from has changed, whoever writes and whoever is killed."""

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

from roofbook.book.manifest import EDITED, MISSING, UNKNOWN, Manifest, because

NAMES = ("library", "kernels", "store")


def thing(root: Path, name: str = "page") -> Path:
    return root / "book" / name


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(NAMES), st.sampled_from("12")),
        st.tuples(st.sampled_from(["make", "edit", "delete", "forget", "lose"]), st.just(""), st.just("")),
    ),
    max_size=20,
)


@given(steps=STEPS, other=st.booleans())
def test_a_thing_is_stale_exactly_if_something_has_changed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, str]], other: bool
) -> None:
    """By a model that remembers all that was done; another thing in the same manifest makes no difference."""
    root = tmp_path_factory.mktemp("checkout")
    manifest, page = Manifest(root), thing(root)
    now, made, text, lies = dict.fromkeys(NAMES, "0"), dict[str, str](), "", ""
    for step, name, value in [("make", "", ""), *steps]:
        if other:
            manifest.write(thing(root, "other"), "other", now)
        if step == "change":
            now[name] = value
        elif step == "make":
            text = lies = f"made from {now}"
            manifest.write(page, text, now, {"scale": "test"})
            made = dict(now)
        elif step == "edit":
            page.parent.mkdir(exist_ok=True)
            lies = lies + "edited"
            page.write_text(lies)
        elif step == "delete":
            page.unlink(missing_ok=True)
            lies = ""
        elif step == "forget":
            manifest.forget(page)
            made = {}
        else:
            manifest.path.unlink(missing_ok=True)
            made = {}
        expected = [name for name in NAMES if made.get(name) != now[name]] + [EDITED] * (text != lies)
        if not lies:
            expected = [MISSING]
        elif not made:
            expected = [UNKNOWN]
        assert Manifest(root).stale(page, now) == expected
        known = bool(made) and lies in ("", text)
        assert Manifest(root).parameters(page) == ({"scale": "test"} if known else None)
        assert Manifest(root).made_from(page) == made


def test_of_what_it_is_made_from_a_name_may_come_and_go(tmp_path: Path) -> None:
    manifest, page = Manifest(tmp_path), thing(tmp_path)
    manifest.write(page, "text", {"library": "1", "kernels": "1"})
    assert manifest.stale(page, {"library": "1", "device": "1"}) == ["device", "kernels"]


def test_what_has_nothing_to_say_is_no_file_and_up_to_date(tmp_path: Path) -> None:
    manifest, page = Manifest(tmp_path), thing(tmp_path)
    manifest.write(page, "text", {"store": "1"})
    manifest.write(page, "", {"store": "2"})
    assert not page.exists() and manifest.stale(page, {"store": "2"}) == []
    page.write_text("by hand")
    assert manifest.stale(page, {"store": "2"}) == [EDITED]


@pytest.mark.parametrize(
    "torn", ["", "{", "[]", "null", '{"book/page": 1}', '{"book/page": {"made_from": {"store": "1"}}}', "\udcff"]
)
def test_a_torn_manifest_knows_nothing_and_is_made_again(tmp_path: Path, torn: str) -> None:
    manifest, page = Manifest(tmp_path), thing(tmp_path)
    manifest.write(page, "text", {"store": "1"})
    manifest.path.write_bytes(torn.encode(errors="surrogateescape"))
    assert manifest.stale(page, {"store": "1"}) == [UNKNOWN] and manifest.parameters(page) is None
    manifest.record(page, {"store": "1"})
    assert manifest.stale(page, {"store": "1"}) == []


WRITES = """
import itertools, sys
from pathlib import Path
from roofbook.book.manifest import Manifest
root, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in itertools.count() if count < 0 else range(count):
    thing = root / "book" / (name if count < 0 else f"{name}{number}")
    Manifest(root).write(thing, f"{name} {number} " * 1000, {"store": str(number)}, {"number": number})
"""


def writer(root: Path, name: str, count: int = -1) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITES, str(root), name, str(count)])


def test_two_processes_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    both = [writer(tmp_path, name, 40) for name in ("left", "right")]
    assert [each.wait() for each in both] == [0, 0]
    manifest = Manifest(tmp_path)
    for name in ("left", "right"):
        for number in range(40):
            assert manifest.stale(thing(tmp_path, f"{name}{number}"), {"store": str(number)}) == []


def test_two_processes_that_make_the_same_thing_leave_it_as_one_of_them_made_it(tmp_path: Path) -> None:
    both = [writer(tmp_path, "same") for _ in range(2)]
    try:
        deadline = time.monotonic() + 500
        while not thing(tmp_path, "same").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.5)
    finally:
        for each in both:
            each.kill()
            each.wait()
    check_killed(tmp_path, "same")


def check_killed(root: Path, name: str) -> None:
    """After a kill: the file is whole; the manifest too, and holds of the thing what is right or that it is stale."""
    manifest, page = Manifest(root), thing(root, name)
    if manifest.path.exists():  # before the first record there is none
        json.loads(manifest.path.read_text())
    number = page.read_text().split()[1]
    assert page.read_text() == f"{name} {number} " * 1000
    stale = manifest.stale(page, {"store": number})
    assert stale in ([], ["store", EDITED], [UNKNOWN]), "between the thing and its record: it is made again"
    manifest.record(page, {"store": number})
    assert manifest.stale(page, {"store": number}) == [], "whoever died holds no lock"


def test_a_process_that_is_killed_in_the_middle_leaves_no_lie(tmp_path: Path) -> None:
    choose = random.Random(1)
    page = thing(tmp_path, "killed")
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


def test_killed_between_a_thing_and_its_record_it_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest, page = Manifest(tmp_path), thing(tmp_path)
    manifest.write(page, "old", {"store": "1"})

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "_save", killed)
        with pytest.raises(KeyboardInterrupt):
            manifest.write(page, "new", {"store": "2"})
    assert manifest.stale(page, {"store": "2"}) == ["store", EDITED]
    assert manifest.stale(page, {"store": "1"}) == [EDITED], "also where all is again as it was"


def test_the_manifest_is_one_small_file_of_names_within_the_checkout(tmp_path: Path) -> None:
    Manifest(tmp_path).write(thing(tmp_path), "text", {"store": "1"}, {"scale": "test"})
    found = json.loads((tmp_path / "_build" / "manifest.json").read_text())
    assert list(found) == ["book/page"] and found["book/page"]["parameters"] == {"scale": "test"}
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
def test_why_in_words(stale: list[str], words: str) -> None:
    assert because(stale) == words
