"""The Parquet files of a store: their names, their encoding, and the warnings on files and rows that are left out.

The media that hold them are in storage.py, the rules for rows in row_rules.py. Serves the store.
"""

import json
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import one_of, warn
from .file_check import MERGED_FROM, MOST_BYTES, Facts
from .schema import COLUMNS, TIMES

if TYPE_CHECKING:
    import pyarrow as pa

StorePart = Literal["recorded", "local"]
"""Top folders of a store: committed runs, and the user's own."""
Stamp = tuple[int, int, int]
"""Mode, modification time in ns and size of a file: they change if another file takes its name."""
STORE_PARTS: tuple[StorePart, ...] = ("recorded", "local")
_ROWS_PER_GROUP = 1024
"""Rows in a row group of a merged file: few, since most queries read only a few of its rows."""
MOST_NAME = 160
"""Largest number of bytes in a file's name: temporary files and files in caches add some to it."""
_LISTED_ROWS = 3
"""Largest number of rows that a warning lists."""


def folder_of(part: StorePart, lab: str, device: str) -> str:
    """Return the folder of a lab and a device, relative to the store. UsageError for an unknown part."""
    if part not in STORE_PARTS:
        raise one_of("part of the store", part, list(STORE_PARTS))
    return f"{part}/lab={lab}/device={device}"


def name_fault(name: str | Path) -> str:
    """Return why a name of a file or folder cannot be used, '' if it can. Arrow and DuckDB take UTF-8 only."""
    try:
        last = str(name).encode().rpartition(b"/")[2]
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    if len(last) > MOST_NAME:
        return f"its name has {len(last)} bytes, {MOST_NAME} at most"
    return "" if str(name).isprintable() else "its name has a control character"


def file_fault(name: str, size: int) -> str:
    """Return why a file of this name and size in bytes cannot be read; '' if it can."""
    return name_fault(name) or (f"it has {size} bytes, {MOST_BYTES} at most" if size > MOST_BYTES else "")


def printable(name: str | Path) -> str:
    """Return a name for a message: on one line, with control characters escaped."""
    return str(name) if str(name).isprintable() else repr(str(name))


def warn_of_closed(root: Path, pattern: str) -> None:
    """Warn once of each folder that may not be read though it may hold matching files: it would seem empty."""
    *parts, _ = pattern.split("/")
    for depth in range(len(parts) + 1):
        for folder in root.glob("/".join(parts[:depth])) if depth else [root]:
            if folder not in _warned and folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                warn_once(folder, f"{printable(folder)} is left out: it may not be read")


MERGED = "merged-"
"""Prefix of the names of merged files."""


def pattern(part: StorePart, lab: str = "*", device: str = "*", name: str = "[!.]*") -> str:
    """Return the glob pattern of the Parquet files of a lab and a device, relative to the store."""
    return f"{folder_of(part, lab, device)}/{name}.parquet"


_warned: set[Path] = set()


def warn_once(path: Path, message: str) -> None:
    """Print a warning on a file or folder on standard error, unless one was printed before."""
    if path not in _warned:
        _warned.add(path)
        warn(f"warning: {message}")


def warn_of(path: Path, facts: Facts) -> None:
    """Warn once that a file or some of its rows are left out, or that it has rows from the future."""
    if path in _warned:
        return
    newest = facts.newest_at()
    if facts.fault:
        warn_once(path, f"{printable(path)} is left out: {facts.fault}; restore it, or move it out of the store")
    elif facts.wrong:
        warn_once(path, f"{printable(path)}: {left_out_rows(facts)}")
    elif newest and newest > datetime.now(UTC):
        problem = f"has rows of {newest:%Y-%m-%d %H:%M} UTC, which is in the future: a clock was wrong"
        warn_once(path, f"{printable(path)} {problem}; they count as older than all others")


def left_out_rows(facts: Facts) -> str:
    """Return a clause on the rows of a file that are left out: their numbers from 0, with the reasons."""
    rows = [f"row {row} ({reason})" for row, reason in facts.left_out[:_LISTED_ROWS]]
    if facts.wrong > len(rows):
        rows.append(f"{facts.wrong - len(rows)} more")
    listed = rows[0] if len(rows) == 1 else f"{', '.join(rows[:-1])} and {rows[-1]}"
    return f"{listed} {'is' if facts.wrong == 1 else 'are'} left out"


def encoded(table: "pa.Table", merged_from: Sequence[str] | None = None) -> bytes:
    """Return a table as the bytes of a Parquet file. merged_from: digests of the files that it was merged from.

    Samples get no dictionary: it would be as long as they are, and take longer to write than everything else.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if merged_from is not None:
        table = table.replace_schema_metadata({MERGED_FROM: json.dumps(sorted(set(merged_from)))})
    buffer = pa.BufferOutputStream()
    with_dictionary = [
        f"{name}.list.element" if kind.endswith("[]") else name for name, kind in COLUMNS.items() if name not in TIMES
    ]
    group = None if merged_from is None else _ROWS_PER_GROUP
    pq.write_table(table, buffer, compression="zstd", row_group_size=group, use_dictionary=with_dictionary)
    return bytes(buffer.getvalue())


def stamp(path: Path) -> Stamp:
    """Return the stamp of a file; zeros if it is gone."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return 0, 0, 0
    return status.st_mode, status.st_mtime_ns, status.st_size
