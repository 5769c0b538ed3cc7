"""Submissions of a class: files and folders of strangers, each with a text or with the reason why it has none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roofbook.errors import UsageError
from roofbook.escaping import printable
from roofbook.spec.answer_file import LARGEST
from roofbook.spec.class_folder import ClassSubmission, submissions_in

SUFFIXES = (".cl", ".k")


def by_name(folder: Path) -> dict[str, ClassSubmission]:
    return {submission.name: submission for submission in submissions_in(folder, SUFFIXES)}


def test_a_file_or_a_folder_with_one_kernel_is_a_submission(tmp_path: Path) -> None:
    (tmp_path / "anna.cl").write_bytes(b"kernel\r\n")
    (tmp_path / "ben").mkdir()
    (tmp_path / "ben" / "mine.k").write_text("text")
    (tmp_path / "ben" / "README.md").write_text("prose")
    (tmp_path / ".git").mkdir()
    submissions = submissions_in(tmp_path, SUFFIXES)
    assert [(s.name, s.key, s.text, s.suffix, s.reason) for s in submissions] == [
        ("anna.cl", "anna.cl", "kernel\n", ".cl", ""),
        ("ben", "ben", "text", ".k", ""),
    ]


def test_other_files_have_a_reason_and_stop_nothing(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.cl").write_text("secret")
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "link.cl").symlink_to(outside / "secret.cl")
    (folder / "linked-folder").symlink_to(outside)
    (folder / "link-within").mkdir()
    (folder / "link-within" / "a.cl").symlink_to(outside / "secret.cl")
    (folder / "empty").mkdir()
    (folder / "two").mkdir()
    for name in ("a.cl", "b.k"):
        (folder / "two" / name).write_text("text")
    (folder / "large.cl").write_bytes(b"x" * 10_000_000)
    (folder / "binary.cl").write_bytes(b"\x7fELF\x00\xff\xfe")
    (folder / "wide.cl").write_bytes("text".encode("utf-16"))
    (folder / "notes.txt").write_text("text")
    (folder / "folder.cl").mkdir()
    os.mkfifo(folder / "pipe.cl")
    reasons = {name: submission.reason for name, submission in by_name(folder).items()}
    assert not any(submission.text for submission in by_name(folder).values())
    assert reasons.pop("large.cl") == f"it has 10000000 bytes; a kernel's text has {LARGEST} at most"
    assert reasons.pop("binary.cl").startswith("it is no text in UTF-8") and "UTF-16" in reasons.pop("wide.cl")
    for name in ("link.cl", "linked-folder", "link-within"):
        assert reasons.pop(name) == "it is a link, which is not followed"
    assert "has 0 files" in reasons.pop("empty") and "has 0 files" in reasons.pop("folder.cl")
    assert "has 2 files" in reasons.pop("two")
    assert reasons.pop("notes.txt") == "the ending of a kernel's file is .cl, .k"
    assert reasons == {"pipe.cl": "it is no file with a kernel's text"}


def test_names_stay_on_one_line_and_apart(tmp_path: Path) -> None:
    names = ["a\nb.cl", "a\\nb.cl", "=cmd|'.cl", "\u202eabc.cl", "x" * 200 + ".cl", os.fsdecode(b"\xff.cl")]
    for name in names:
        (tmp_path / name).write_text("text")
    submissions = submissions_in(tmp_path, SUFFIXES)
    for column in ("name", "key"):
        values = [getattr(submission, column) for submission in submissions]
        assert len(set(values)) == len(names) and all(value == printable(value) for value in values)
        assert not any("\n" in value or len(value) > 200 for value in values)
    assert all(submission.key.isascii() and not set(submission.key) & set("/'|\\") for submission in submissions)


def test_a_folder_without_submissions_is_an_error(tmp_path: Path) -> None:
    for folder, message in ((tmp_path, "has no submissions"), (tmp_path / "nowhere", "No such file")):
        with pytest.raises(UsageError, match=message):
            submissions_in(folder, SUFFIXES)
