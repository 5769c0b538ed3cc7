"""The Parquet files of a store: how they are named, how rows are written to one, and what is said of those that are left out.

Where they lie is in storage.py, what may be in one in row_rules.py. Serves the store.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import one_of, warn
from .file_check import MERGED_FROM, Facts
from .schema import COLUMNS, TIMES

if TYPE_CHECKING:
    import pyarrow as pa

Where = Literal["recorded", "local"]
Stamp = tuple[int, int, int]
"""What tells a file from another of its name: mode, time and size."""
EVERYWHERE: tuple[Where, ...] = ("recorded", "local")
"""The parts of results that hold rows: committed runs, and yours."""
_GROUP = 1024
"""Rows of a merged file that are read together: few, since most questions are about a few of its rows."""
MOST_NAME = 160
"""Bytes of a file's name: what is put beside it, or in a cache, has a longer one."""
_MOST_SAID = 3
"""Rows that a warning names."""


def folder_of(where: Where, lab: str, device: str) -> str:
    """The folder of a lab and a device in a part of results."""
    if where not in EVERYWHERE:
        raise one_of("place", where, list(EVERYWHERE))
    return f"{where}/lab={lab}/device={device}"


def unnamed(name: str | Path) -> str:
    """Why a name of a file or folder cannot be used, '' for one that can: Arrow and DuckDB take UTF-8 alone."""
    try:
        last = str(name).encode().rpartition(b"/")[2]
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(last) > MOST_NAME:
        return f"its name has {len(last)} bytes, {MOST_NAME} at most"
    return "" if str(name).isprintable() else "its name has a control character"


def shown(name: str | Path) -> str:
    """A name as a message has it: on one line, and what a terminal would obey escaped."""
    return str(name) if str(name).isprintable() else repr(str(name))


def warn_of_closed(root: Path, pattern: str) -> None:
    """Of each folder that may hold files whose names fit and may not be read, once: it lists as an empty one."""
    *parts, _ = pattern.split("/")
    for depth in range(len(parts) + 1):
        for folder in root.glob("/".join(parts[:depth])) if depth else [root]:
            if folder not in _warned and folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                warn_once(folder, f"{shown(folder)} is left out: it may not be read")


MERGED = "merged-"
"""How the name of a merged file begins."""


def pattern(where: Where, lab: str = "*", device: str = "*", name: str = "[!.]*") -> str:
    """What the names of its Parquet files fit."""
    return f"{folder_of(where, lab, device)}/{name}.parquet"


_warned: set[Path] = set()


def warn_once(path: Path, what: str) -> None:
    """Say on standard error what is wrong with a file or folder, unless something was said of it before."""
    if path not in _warned:
        _warned.add(path)
        warn(f"warning: {what}")


def warn_of(path: Path, facts: Facts) -> None:
    """Say, once, what of a file is left out: all of it, or rows; or that it has rows from the future."""
    if path in _warned:
        return
    newest = facts.newest_at()
    if facts.fault:
        warn_once(path, f"{shown(path)} is left out: {facts.fault}; restore it, or move it out of the store")
    elif facts.wrong:
        warn_once(path, f"{shown(path)}: {of_rows(facts)}")
    elif newest and newest > datetime.now(UTC):
        what = f"has rows of {newest:%Y-%m-%d %H:%M} UTC, which is to come: a clock was wrong"
        warn_once(path, f"{shown(path)} {what}; they count as older than all others")


def of_rows(facts: Facts) -> str:
    """Which rows of a file are left out, by their numbers from 0, and why."""
    named = [f"row {row} ({why})" for row, why in facts.left_out[:_MOST_SAID]]
    if facts.wrong > len(named):
        named.append(f"{facts.wrong - len(named)} more")
    listed = named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
    return f"{listed} {'is' if facts.wrong == 1 else 'are'} left out"


def encoded(table: "pa.Table", merged_from: Sequence[str] | None = None) -> bytes:
    """A table as a Parquet file. merged_from: digests of the files that it was merged from.

    A dictionary of samples would be as long as they are, and take longer to write than all the rest.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if merged_from is not None:
        table = table.replace_schema_metadata({MERGED_FROM: json.dumps(sorted(set(merged_from)))})
    buffer = pa.BufferOutputStream()
    repeated = [
        f"{name}.list.element" if kind.endswith("[]") else name for name, kind in COLUMNS.items() if name not in TIMES
    ]
    group = None if merged_from is None else _GROUP
    pq.write_table(table, buffer, compression="zstd", row_group_size=group, use_dictionary=repeated)
    return bytes(buffer.getvalue())


def stamp(path: Path) -> Stamp:
    """What tells a file from another of its name. Zeros where it is gone."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return 0, 0, 0
    return found.st_mode, found.st_mtime_ns, found.st_size
