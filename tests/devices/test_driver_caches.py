"""Caches of drivers and of compiled programs: cut files are removed, whole files stay."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.devices import driver_caches, library_folder, opencl
from roofbook.devices.contract import BuildFailed
from roofbook.peers import cc

needs_compiler = pytest.mark.skipif(cc.missing() is not None, reason=str(cc.missing()))

BITCODE = b"BC\xc0\xde" + bytes([0x35, 0x14, 0, 0]) + (2).to_bytes(4, "little") + bytes(8)
"""An LLVM file of one block of two words."""


def a_library() -> bytes:
    import pyopencl._cl as module

    return Path(module.__file__).read_bytes()


def age(*paths: Path) -> None:
    """Let files look as if nobody had written them for a while."""
    then = time.time() - 2 * driver_caches.YOUNG_S
    for path in paths:
        os.utime(path, (then, then))


def test_a_cut_file_of_pocl_is_removed_with_its_program_and_no_other(tmp_path: Path) -> None:
    library = a_library()
    for program in ("AB/CUT", "AB/WHOLE", "CD/EMPTY", "CD/ZEROS"):
        (tmp_path / program / "kernel").mkdir(parents=True)
        (tmp_path / program / "program.bc").write_bytes(BITCODE)
        (tmp_path / program / "kernel" / "kernel.so").write_bytes(library)
    assert driver_caches.remove_cut_kernels(tmp_path) == []
    (tmp_path / "AB/CUT/kernel/kernel.so").write_bytes(library[:2000])
    (tmp_path / "CD/EMPTY/program.bc").write_bytes(b"")
    (tmp_path / "CD/ZEROS/kernel/kernel.so").write_bytes(bytes(5000))
    assert driver_caches.remove_cut_kernels(tmp_path) == [], "they may be on their way"
    age(*tmp_path.rglob("*.so"), *tmp_path.rglob("*.bc"))
    with (tmp_path / "AB/CUT/kernel/kernel.so").open("rb"):
        assert len(driver_caches.remove_cut_kernels(tmp_path)) == 2, "a process has it open"
    assert len(driver_caches.remove_cut_kernels(tmp_path)) == 1
    assert [path.name for path in sorted(tmp_path.glob("*/*"))] == ["WHOLE"]


@pytest.mark.parametrize("length", [0, 3, 4, 8, 12, len(BITCODE) - 4, len(BITCODE) - 1])
def test_bitcode_is_whole_only_in_full(length: int) -> None:
    assert driver_caches.is_whole_bitcode(BITCODE) and not driver_caches.is_whole_bitcode(BITCODE[:length])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_library_is_whole_only_in_full(share: float) -> None:
    library = a_library()
    assert library_folder.is_whole_elf(library[: library_folder.HEAD], len(library))
    part = library[: int(share * len(library))]
    assert not library_folder.is_whole_elf(part[: library_folder.HEAD], len(part))


def test_only_what_changed_since_the_last_look_is_read(tmp_path: Path) -> None:
    folder, stamp = tmp_path / "kcache", tmp_path / "stamp"
    (folder / "AB" / "OLD").mkdir(parents=True)
    cut = folder / "AB" / "OLD" / "program.bc"
    cut.write_bytes(BITCODE)
    assert driver_caches.remove_cut_kernels(folder, stamp) == [] and stamp.exists()
    cut.write_bytes(BITCODE[:-4])  # a moment later: changed
    assert driver_caches.remove_cut_kernels(folder, stamp) == [], "it may be on its way"
    age(cut)
    assert driver_caches.remove_cut_kernels(folder, stamp) == [cut]
    stamp.write_text(stamp.read_text().replace('"boot": "', '"boot": "before '))
    assert driver_caches._noted(stamp) == 0.0, "after the system has started anew, all are looked at"


def test_a_damaged_database_is_removed_with_its_journals(tmp_path: Path) -> None:
    intact = tmp_path / "whole.sqlite"
    with sqlite3.connect(intact) as database:
        database.execute("create table t (a)")
        database.executemany("insert into t values (?)", [(str(number) * 50,) for number in range(2000)])
    database.close()
    content = intact.read_bytes()
    damaged = {
        "noise": os.urandom(5000),
        "cut": content[: len(content) // 2],
        "holes": content[:4096] + bytes(len(content) - 4096),
    }
    for name, bad in damaged.items():
        (tmp_path / f"{name}.sqlite").write_bytes(bad)
    (tmp_path / "noise.sqlite-wal").write_bytes(b"x")
    (tmp_path / "new.sqlite").write_bytes(b"")
    removed = driver_caches.remove_cut_databases(tmp_path)
    assert {path.stem for path in removed} == damaged.keys()
    assert {path.name for path in tmp_path.iterdir()} == {"whole.sqlite", "new.sqlite"}
    holder = sqlite3.connect(intact)
    holder.execute("begin exclusive")
    assert driver_caches.is_whole_database(intact), "another process holds it"
    holder.close()


SOURCE = "int one(void) { return 1; }\n"


@needs_compiler
@pytest.mark.parametrize("damage", ["empty", "half", "noise", "flipped"])
def test_a_damaged_library_is_made_again(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = tmp_path / "one.c"
    source.write_text(SOURCE)
    call = (
        "import pathlib, sys; from roofbook.peers import cc\n"
        "assert cc.build(pathlib.Path(sys.argv[1]), ('-O1',)).one() == 1\n"
        "cc.cache_dir()\n"
    )
    command = [sys.executable, "-c", call, str(source)]
    environment = {**os.environ, "PYTHONPATH": str(paths.LIBRARY.parent)}
    subprocess.run(command, env=environment, check=True)
    (library,) = (tmp_path / "cache" / "roofbook").glob("one-*.so")
    content = library.read_bytes()
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 0xFF
    library.write_bytes(
        {"empty": b"", "half": content[: len(content) // 2], "noise": os.urandom(5000), "flipped": bytes(flipped)}[
            damage
        ]
    )
    subprocess.run(command, env=environment, check=True)
    assert library.read_bytes() == content


def test_a_cut_text_of_a_kernel_in_c_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = library_folder.library_folder() / "one-thread"
    folder.mkdir()
    (intact := folder / f"{paths.cache_key(SOURCE)[:16]}.c").write_text(SOURCE)
    (cut := folder / f"{paths.cache_key(SOURCE + SOURCE)[:16]}.c").write_text(SOURCE)
    library_folder.library_folder()
    assert intact.exists() and not cut.exists()


def test_a_folder_that_is_mounted_noexec_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    state = os.statvfs(tmp_path)

    class Mounted:
        f_flag = state.f_flag | os.ST_NOEXEC

    monkeypatch.setattr(os, "statvfs", lambda path: Mounted)
    with pytest.raises(BuildFailed, match=r"mounted noexec.*XDG_CACHE_HOME names another$"):
        library_folder.library_folder()


@pytest.mark.parametrize(("left", "is_refused"), [(0, True), (opencl.LEAST_LEFT - 1, True), (opencl.LEAST_LEFT, False)])
def test_a_cache_without_space_is_named(
    left: int, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full file system PoCL would end the process."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))

    class Full:
        f_flag, f_bavail, f_frsize = 0, left, 1

    monkeypatch.setattr(os, "statvfs", lambda path: Full)
    for refusal, folder, variable in (
        (opencl.pocl_refused(), "pocl", "POCL_CACHE_DIR"), (opencl.pyopencl_refused(), "cache/pytools", "XDG_CACHE_HOME"),
    ):  # fmt: skip
        words = (
            rf"cannot write into {tmp_path}/{folder}: fewer than \d+ bytes are left; {variable} names another folder"
        )
        assert bool(re.search(words, refusal)) == bool(refusal) == is_refused


@needs_compiler
def test_what_compilers_read_besides_their_flags_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    wrapper = tmp_path / "wrapper"
    folders = []
    choices: list[dict[str, str]] = [{}, {"CPATH": "/a"}, {"CPATH": "/b"}, {"LIBRARY_PATH": "/a"}]
    for environment in choices:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            folders.append(library_folder.library_folder())
    monkeypatch.setenv("CC", str(wrapper))
    for flags in ("-O1", "-O2"):  # a wrapper says nothing of the flags that it adds
        wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("cc")} "$@" {flags}\n')
        wrapper.chmod(0o755)
        folders.append(library_folder.library_folder())
    assert len(set(folders)) == len(folders) and folders[0] == paths.cache_dir()
