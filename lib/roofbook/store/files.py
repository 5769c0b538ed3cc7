"""The Parquet files of a store: how they are named, what is in one, and which of them and of their rows count.

Where they lie is in storage.py. Serves the store.
"""

import itertools
import json
import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ..errors import one_of, warn
from .schema import COLUMNS, JSON, REQUIRED, TIMES, fits, unlike

if TYPE_CHECKING:
    import pyarrow as pa

Where = Literal["recorded", "local"]
Stamp = tuple[int, int, int]
"""What tells a file from another of its name: mode, time and size."""
EVERYWHERE: tuple[Where, ...] = ("recorded", "local")
"""The parts of results that hold rows: committed runs, and yours."""
_UNFIT, _MERGED_FROM = b"roofbook.unfit_rows", b"roofbook.merged_from"
"""What a merged file says of itself: which of its rows are unfit, and the digests of the files that went into it."""
_GROUP = 1024
"""Rows of a merged file that are read together: few, since most questions are about a few of its rows."""


def folder_of(where: Where, lab: str, device: str) -> str:
    """The folder of a lab and a device in a part of results."""
    if where not in EVERYWHERE:
        raise one_of("place", where, list(EVERYWHERE))
    return f"{where}/lab={lab}/device={device}"


def unnamed(name: str | Path) -> str:
    """Why a name of a file or folder cannot be used, '' for one that can: Arrow and DuckDB take UTF-8 alone."""
    try:
        str(name).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    return ""


def warn_of_closed(root: Path, pattern: str) -> None:
    """Of each folder that may hold files whose names fit and may not be read, once: it lists as an empty one."""
    *parts, _ = pattern.split("/")
    for depth in range(len(parts) + 1):
        for folder in root.glob("/".join(parts[:depth])) if depth else [root]:
            if folder not in _warned and folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
                _warned.add(folder)
                warn(f"warning: {folder} is left out: it may not be read")


MERGED = "merged-"
"""How the name of a merged file begins."""


def pattern(where: Where, lab: str = "*", device: str = "*", name: str = "[!.]*") -> str:
    """What the names of its Parquet files fit."""
    return f"{folder_of(where, lab, device)}/{name}.parquet"


def readable(found: Sequence[Path], known: Mapping[Path, datetime | None] = MappingProxyType({})) -> list[Path]:
    """Those files that are whole and of the store's columns. Each other one is left out, with a warning that names it, once.

    So is one named, once, that has rows from the future. known: when the newest row was started of files that are known to be
    right.
    """
    kept = []
    for path in found:
        if path in known:
            why, newest = "", known[path]
        else:
            now = stamp(path)
            why, newest = footer(path, now)
            why = _broken.get((path, now)) or why
        if not why:
            kept.append(path)
        if path in _warned or not os.path.lexists(path):
            continue
        if why:
            _warned.add(path)
            warn(f"warning: {path} is left out: {why}; restore it, or move it out of the store")
        elif newest and newest > datetime.now(UTC):
            _warned.add(path)
            what = f"has rows of {newest:%Y-%m-%d %H:%M} UTC, which is to come: a clock was wrong"
            warn(f"warning: {path} {what}; they count as older than all others")
    return kept


def unfit_rows(path: Path) -> tuple[int, ...]:
    """Which rows of a file, from 0, hold no JSON where there should be some. A warning names the file, once."""
    rows = _unfit_rows(path, stamp(path))
    if rows and path not in _warned:
        _warned.add(path)
        what = f"{len(rows)} of its rows are" if len(rows) > 1 else "one of its rows is"
        warn(f"warning: {path}: {what} left out: `extra` or `provenance` is not the JSON of a row")
    return rows


@lru_cache(maxsize=16384)
def _unfit_rows(path: Path, stamp: Stamp) -> tuple[int, ...]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            told = (file.schema_arrow.metadata or {}).get(_UNFIT)
            if told is not None:
                return tuple(json.loads(told))
            return unfit_rows_of(file.read(columns=list(JSON)))
    except (pa.ArrowException, OSError):
        return ()  # gone meanwhile, or broken within: who reads the rows finds out


def unfit_rows_of(table: "pa.Table") -> tuple[int, ...]:
    """The same of a table."""
    rows = set[int]()
    for name in set(JSON) & set(table.column_names):
        texts = table[name].combine_chunks().dictionary_encode()
        unfit = [at for at, text in enumerate(texts.dictionary.to_pylist()) if not fits(text, JSON[name])]
        if unfit:
            rows |= {row for row, at in enumerate(texts.indices.to_pylist()) if at in unfit}
    return tuple(sorted(rows))


def encoded(table: "pa.Table", merged_from: Sequence[str] | None = None) -> bytes:
    """A table as a Parquet file. merged_from: digests of the files that it was merged from."""
    if merged_from is not None:
        told = {_UNFIT: json.dumps(unfit_rows_of(table)), _MERGED_FROM: json.dumps(sorted(set(merged_from)))}
        table = table.replace_schema_metadata(told)
    return _as_parquet(table, None if merged_from is None else _GROUP)


def _as_parquet(table: "pa.Table", group: int | None, compression: Literal["zstd", "lz4"] = "zstd") -> bytes:
    """A dictionary of samples would be as long as they are, and take longer to write than all the rest."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    repeated = [
        f"{name}.list.element" if kind.endswith("[]") else name for name, kind in COLUMNS.items() if name not in TIMES
    ]
    pq.write_table(table, buffer, compression=compression, row_group_size=group, use_dictionary=repeated)
    return bytes(buffer.getvalue())


Fetch = Callable[[Sequence[tuple[int, int]]], Sequence[Any]]
"""Gives the bytes of parts of a file, each from its first byte to before its last."""
_TAIL = 1 << 18
"""Bytes at the end of a file in which its footer mostly is."""


def some_columns(size: int, fetch: Fetch, columns: Collection[str]) -> bytes:
    """A merged file with these of its columns alone, all rows in their order, and what it says of itself.

    size: of the file in bytes. fetch: gives parts of it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    whole = bytearray(size)  # only what is fetched is ever filled, so only that takes memory

    def fill(parts: Sequence[tuple[int, int]]) -> None:
        for (begin, end), data in zip(parts, fetch(parts), strict=True):
            whole[begin:end] = data

    fill([(max(0, size - _TAIL), size)])
    footer = int.from_bytes(whole[-8:-4], "little") + 8
    if _TAIL < footer <= size:
        fill([(size - footer, size - _TAIL)])
    with pq.ParquetFile(pa.BufferReader(pa.py_buffer(whole))) as file:
        known, metadata = file.schema_arrow, file.metadata
        names = {name for name in known.names if name in columns or _UNFIT not in (known.metadata or {})}
        parts = []
        for group, at in itertools.product(range(metadata.num_row_groups), range(metadata.num_columns)):
            column = metadata.row_group(group).column(at)
            if column.path_in_schema.partition(".")[0] in names:
                begin = column.data_page_offset
                if column.has_dictionary_page:
                    begin = min(begin, column.dictionary_page_offset)
                parts.append((begin, begin + column.total_compressed_size))
        fill(parts)
        return _as_parquet(file.read([name for name in known.names if name in names]), _GROUP, "lz4")


def merged_from(file: Path | bytes) -> list[str]:
    """The digests of the files that a file was merged from, and of those that these were; none of another file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(pa.BufferReader(file) if isinstance(file, bytes) else file) as opened:
            return list(json.loads((opened.schema_arrow.metadata or {}).get(_MERGED_FROM, b"[]")))
    except (pa.ArrowException, OSError, ValueError):
        return []


MOST_ROWS = 1_000_000
"""Of one file: a run has thousands. A file of a few MB can claim many more than memory holds."""
_warned: set[Path] = set()
_broken: dict[tuple[Path, Stamp], str] = {}
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
            _broken[path, stamp(path)] = "it is not a whole Parquet file"
    return len(_broken) > known


def stamp(path: Path) -> Stamp:
    """What tells a file from another of its name. Zeros where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0, 0
    return found.st_mode, found.st_mtime_ns, found.st_size


@lru_cache(maxsize=16384)
def footer(path: Path, stamp: Stamp) -> tuple[str, datetime | None]:
    """Why a file is none of the store's, '' for one that is; and when its newest row was started. Its rows are not read."""
    if stamp == (0, 0, 0):
        return "it cannot be reached", None
    if not stat.S_ISREG(stamp[0]):
        return "it is no file", None
    if why := unnamed(path):
        return why, None
    return _footer_of(path)


def fault(data: bytes) -> str:
    """Why a file of this content is none of the store's; '' for one that is."""
    import pyarrow as pa

    return _footer_of(pa.BufferReader(data))[0]


def _footer_of(source: "Path | pa.NativeFile") -> tuple[str, datetime | None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(source) as file:
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
