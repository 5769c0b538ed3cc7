"""The folder of programs and libraries that compilers of the host made, without those that are not whole.

A machine that loses power, or a full disk, can leave a file cut. Nobody would make it again: a library is made once.
"""

import hashlib
import json
import os
import struct
import sys
from pathlib import Path

from .. import paths
from ..paths import cache_key
from . import settings
from .contract import BuildFailed

HEAD = 4096
"""Bytes of an ELF file that hold the headers of its segments."""
_DIGEST = ".sha256"
"""Ending of the file beside a library that holds its digest."""


def library_folder() -> Path:
    """Return the folder for programs and libraries that are compiled now. Raise BuildFailed if none in it can be loaded.

    If variables that change how a compiler compiles are set, it is a folder of their own.
    """
    folder = paths.cache_dir()
    if extra := settings.of_compiling():
        folder /= f"compiled-{cache_key(json.dumps(extra, sort_keys=True))[:12]}"
    folder.mkdir(parents=True, exist_ok=True)
    if reason := not_executable(folder, "XDG_CACHE_HOME"):
        raise BuildFailed(reason)
    _remove_what_is_cut(folder)
    return folder


def not_executable(folder: Path, variable: str) -> str:
    """Return why no library in a folder can be loaded, and the variable that names another folder; '' if one can."""
    try:
        flags = os.statvfs(folder).f_flag
    except OSError:
        return ""
    if not flags & getattr(os, "ST_NOEXEC", 0):
        return ""
    return f"{folder} lies on a file system that is mounted noexec: no library in it can be loaded; {variable} names another"


def _remove_what_is_cut(folder: Path) -> None:
    """Remove libraries, programs and texts of programs that are not whole. Note the digest of each new one."""
    for path in folder.glob("*-" + "[0-9a-f]" * 16 + "*"):
        if path.suffix not in ("", ".so") or not path.is_file():
            continue
        note = path.with_name(path.name + _DIGEST)
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        noted = note.read_text(errors="replace") if note.exists() else ""
        if not is_whole_elf(content[:HEAD], len(content)) or noted not in ("", digest):
            path.unlink(missing_ok=True)
            note.unlink(missing_ok=True)
        elif not noted:
            paths.write_whole(note, digest)
    for path in (folder / "one-thread").glob("*.c"):
        if cache_key(path.read_text(encoding="utf-8", errors="replace"))[:16] != path.stem:
            path.unlink(missing_ok=True)


def is_whole_elf(head: bytes, length: int) -> bool:
    """Whether an ELF file of so many bytes holds all its segments and section headers (System V ABI, 'Object Files').

    head: its first HEAD bytes. A file of another format counts as whole on systems whose linkers write another.

    >>> is_whole_elf(b"", 0), is_whole_elf(bytes(64), 100)
    (False, False)
    """
    if not head.strip(b"\0"):
        return False
    if head[:4] != b"\x7fELF":
        return sys.platform != "linux"
    if len(head) < 64 or head[4:6] != b"\x02\x01":  # the headers of others than 64-bit little-endian stand elsewhere
        return len(head) >= 64
    segments, sections = struct.unpack_from("<QQ", head, 0x20)
    size, count, section_size, sections_count = struct.unpack_from("<HHHH", head, 0x36)
    ends = [segments + size * count, sections + section_size * sections_count]
    for number in range(count):
        at = segments + size * number
        if at + size <= len(head):
            begin, _, _, held = struct.unpack_from("<QQQQ", head, at + 8)
            ends.append(begin + held)
    return bool(max(ends) <= length)
