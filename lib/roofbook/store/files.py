"""The Parquet files under results: written whole or not at all, over no other, and never changed.

A file is written aside, put on the disk, then linked to its name. Serves the store.
"""

import contextlib
import itertools
import os
import secrets
import stat
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import UsageError, one_of
from .schema import JSON, REQUIRED, fits, unlike

if TYPE_CHECKING:
    import pyarrow as pa

Where = Literal["recorded", "local"]
EVERYWHERE: tuple[Where, ...] = ("recorded", "local")
"""The parts of results that hold rows: committed runs, and yours."""
_STALE_S = 24 * 3600


def part_of(root: Path, where: Where) -> Path:
    """The folder of a part of results."""
    if where not in EVERYWHERE:
        raise one_of("place", where, list(EVERYWHERE))
    return root / where


def listed(root: Path, lab: str = "*", device: str = "*", where: Sequence[Where] = EVERYWHERE) -> list[Path]:
    """The Parquet files, sorted. Listed until two listings agree: a single one can miss what a merge just moved."""
    before: list[Path] | None = None
    while True:
        folders = [part_of(root, each) for each in where]
        found = [p for f in folders for p in sorted(f.glob(f"lab={lab}/device={device}/[!.]*.parquet"))]
        if found == before:
            return found
        before = found


def readable(found: Sequence[Path]) -> list[Path]:
    """Those files that are whole and of the store's columns. Each other one is left out, with a warning that names it, once.

    So is one named, once, that has rows from the future.
    """
    kept = []
    for path in found:
        why, newest = _footer(path, _stamp(path))
        why = _broken.get((path, _stamp(path))) or why
        if not why:
            kept.append(path)
        if path in _warned or not os.path.lexists(path):
            continue
        if why:
            _warned.add(path)
            print(f"warning: {path} is left out: {why}; restore it, or move it out of the store", file=sys.stderr)
        elif newest and newest > datetime.now(UTC):
            _warned.add(path)
            what = f"has rows of {newest:%Y-%m-%d %H:%M} UTC, which is to come: a clock was wrong"
            print(f"warning: {path} {what}; they count as older than all others", file=sys.stderr)
    return kept


def unfit_rows(path: Path) -> tuple[int, ...]:
    """Which rows of a file, from 0, hold no JSON where there should be some. A warning names the file, once."""
    rows = _unfit_rows(path, _stamp(path))
    if rows and path not in _warned:
        _warned.add(path)
        what = f"{len(rows)} of its rows are" if len(rows) > 1 else "one of its rows is"
        print(f"warning: {path}: {what} left out: `extra` or `provenance` is not the JSON of a row", file=sys.stderr)
    return rows


@lru_cache(maxsize=16384)
def _unfit_rows(path: Path, stamp: tuple[int, int, int]) -> tuple[int, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read(columns=list(JSON))
    except (pa.ArrowException, OSError):
        return ()  # gone meanwhile, or broken within: who reads the rows finds out
    rows = set[int]()
    for name in table.column_names:
        texts = table[name].combine_chunks().dictionary_encode()
        unfit = [at for at, text in enumerate(texts.dictionary.to_pylist()) if not fits(text, JSON[name])]
        if unfit:
            rows |= {row for row, at in enumerate(texts.indices.to_pylist()) if at in unfit}
    return tuple(sorted(rows))


MOST_ROWS = 1_000_000
"""Of one file: a run has thousands. A file of a few MB can claim many more than memory holds."""
_warned: set[Path] = set()
_broken: dict[tuple[Path, tuple[int, int, int]], str] = {}
"""Files whose footer is right and whose rows are not: found where a query failed."""


def blame(found: Sequence[Path]) -> bool:
    """Whether any of these files is broken within: each is read whole. `readable` leaves it out from now on."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    known = len(_broken)
    for path in found:
        try:
            pq.ParquetFile(path).read()
        except FileNotFoundError:
            continue
        except (pa.ArrowException, OSError):
            _broken[path, _stamp(path)] = "it is not a whole Parquet file"
    return len(_broken) > known


def _stamp(path: Path) -> tuple[int, int, int]:
    """What tells a file from another of its name. Zeros where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mode, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16384)
def _footer(path: Path, stamp: tuple[int, int, int]) -> tuple[str, datetime | None]:
    """Why a file is none of the store's, '' for one that is; and when its newest row was started. Its rows are not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if stamp == (0, 0, 0):
        return "it cannot be reached", None
    if not stat.S_ISREG(stamp[0]):
        return "it is no file", None
    try:
        with pq.ParquetFile(path) as file:
            metadata, schema = file.metadata, file.schema_arrow
    except PermissionError:
        return "it may not be read", None
    except (pa.ArrowException, OSError, ValueError):
        return "it is not a whole Parquet file", None
    if metadata.num_rows > MOST_ROWS:
        return f"it claims {metadata.num_rows} rows, {MOST_ROWS} at most", None
    if why := unlike(schema):
        return why, None
    newest = None
    for group, at in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
        column = metadata.row_group(group).column(at)
        known = column.statistics
        if known is None or column.path_in_schema not in REQUIRED:
            continue
        if known.null_count:
            return f"its column {column.path_in_schema!r} has a row without a value", None
        if column.path_in_schema == "started" and known.has_min_max:
            try:
                newest = max(known.min, known.max, newest or known.max)
            except (ValueError, OverflowError):
                return "its column 'started' holds what is no date", None
    return "", newest


def add(table: "pa.Table", folder: Path, name: str) -> Path:
    """Write a table into `folder`, made if need be; see `write`. What killed writers left there long ago goes."""
    _make(folder)
    remove_stale(folder)
    return write(table, folder, name)


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
    for path in missing:
        sync(path.parent)


def write(table: "pa.Table", folder: Path, name: str) -> Path:
    """The table as NAME.parquet, or NAME.2.parquet and so on where that exists: whole or not at all, over no other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    part = folder / f".{name}-{secrets.token_hex(6)}.tmp"
    try:
        with part.open("xb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        number, final = 1, folder / f"{name}.parquet"
        while not _linked(part, final):
            number += 1
            final = folder / f"{name}.{number}.parquet"
        sync(folder)
    except OSError as error:
        raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):  # of a file system that takes no more
            part.unlink(missing_ok=True)
    return final


def _linked(part: Path, final: Path) -> bool:
    """Give the file its name; False where another has it."""
    try:
        os.link(part, final)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{final.parent} must allow hard links to hold results: {error.strerror}") from error
    return True


def sync(folder: Path) -> None:
    """Put the folder's names on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove_stale(folder: Path) -> None:
    """Remove what writers that were killed more than a day ago left; a younger dot-file may still be written."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
        except FileNotFoundError:
            continue
