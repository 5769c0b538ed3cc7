"""Files that readers hand in: any name, any kind of file, any encoding; each is read or refused in one line, within seconds."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from roofbook.errors import UsageError
from roofbook.spec import answer_file
from roofbook.spec.answer_file import on_one_line, read_answer

TEXT = "KERNEL void flat() {} // ö\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (TEXT.encode(), TEXT),
        (TEXT.encode("utf-8-sig"), TEXT),
        (TEXT.replace("\n", "\r\n").encode(), TEXT),
        (TEXT.replace("\n", "\r").encode("utf-8-sig"), TEXT),
        (b"", ""),
    ],
)
def test_utf_8_is_read_with_a_mark_or_without_and_with_any_line_ends(tmp_path: Path, content: bytes, text: str) -> None:
    (tmp_path / "my.k").write_bytes(content)
    assert read_answer(tmp_path / "my.k").text == text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (TEXT.encode("utf-16"), "in UTF-16; save it as UTF-8"),
        ("int a;".encode("utf-16-be"), "zero bytes; save it as UTF-8"),
        (b"\xfe\xff" + TEXT.encode("utf-16-be"), "in UTF-16; save it as UTF-8"),
        (TEXT.encode("utf-32"), "in UTF-32; save it as UTF-8"),
        (b"int a;\n" + TEXT.encode("latin-1"), "byte 0xf6 in line 2; save it as UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00\xff", "byte 0xff in line 1; save it as UTF-8"),
        (b"x" * (answer_file.LARGEST + 1), f"has {answer_file.LARGEST + 1} bytes; a kernel's text has"),
    ],
)
def test_other_content_is_refused_with_what_would_be_right(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "my.k").write_bytes(content)
    with pytest.raises(UsageError) as error:
        read_answer(tmp_path / "my.k")
    assert words in str(error.value) and "\n" not in str(error.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("link")
    (tmp_path / "to-fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        for name, words in (
            ("", "is a directory"), ("link", "Too many levels of symbolic links"), ("none", "No such file"),
            ("fifo", "is a pipe into which nobody wrote"), ("to-fifo", "is a pipe into which nobody wrote"),
            ("socket", "No such device or address"), ("/dev/zero", "is a device"), ("/dev/null", "is a device"),
            ("x" * 300, "File name too long"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=words):
                read_answer(tmp_path / name)


def test_a_named_pipe_is_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_file, "WRITER_S", 60.0)
    os.mkfifo(tmp_path / "fifo")

    def write() -> None:
        with (tmp_path / "fifo").open("w") as pipe:
            for line in ("one\n", "two\n"):
                pipe.write(line)
                pipe.flush()
                time.sleep(0.2)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_answer(tmp_path / "fifo").text == "one\ntwo\n"
    writer.join()


def test_a_pipe_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_file, "PIPE_S", 0.5)
    os.mkfifo(tmp_path / "fifo")
    held = os.open(tmp_path / "fifo", os.O_RDWR)
    os.write(held, b"int a;")
    with pytest.raises(UsageError, match="did not end within"):
        read_answer(tmp_path / "fifo")
    os.close(held)


def test_standard_input_is_a_minus(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, TEXT.encode())
    os.close(writing)
    before = os.dup(0)
    os.dup2(reading, 0)
    try:
        answer = read_answer(Path("-"))
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reading)
    assert (answer.name, answer.text) == ("standard input", TEXT)


@pytest.mark.parametrize("name", ["a\nb.k", "a\x1b[31m.k", "-", " .k", "a\\1.k", 'a".k', "\udcff.k", "a\u202eb.k"])
def test_a_file_of_any_name_is_read_and_named_on_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(TEXT)
    answer = read_answer(tmp_path / name)
    assert answer.text == TEXT and answer.name.isprintable() and answer.name == on_one_line(name)
