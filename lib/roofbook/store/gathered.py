"""The rows of many small files together: to open a file takes longer than to read it, and a store has hundreds.

A file of a store never changes, so what some of a folder hold is kept in the cache, under their names, sizes and times. Serves
the store, which reads every other file by itself. pyarrow is imported on first use.
"""

import contextlib
import itertools
import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..paths import cache_dir, cache_key, cached
from . import files
from .schema import schema

if TYPE_CHECKING:
    import pyarrow as pa

AT = ("filename", "file_row_number")
"""What DuckDB adds to a row: its file, and its number there."""
_TOGETHER = 16
"""Files that are kept as one. Those of a folder beyond the last so many are kept each by itself, until they are so many."""
_MOST_BYTES, _MOST_FILES = 1 << 20, 1024
"""Of one file and of a question: what is more is not held in memory, since DuckDB reads parts of a file."""
_KIND = "rows"
_NEWEST = b"roofbook.newest"
_FORM = "1"
"""Of what is kept: another one where `_read` makes something else of the same files."""


class Gathered(NamedTuple):
    """Rows with AT, None without any, and by the files that they come from, when the newest row of each was started."""

    rows: "pa.Table | None"
    newest: dict[Path, datetime | None]


def gathered(found: Sequence[Path]) -> Gathered:
    """The rows of those of these files that are small, whole, and have all columns of the store and nothing to warn of."""
    each = [one for one in _of(found) if one.newest]
    if not each:
        return Gathered(None, {})
    import pyarrow as pa

    newest = {path: at for one in each for path, at in one.newest.items()}
    return Gathered(pa.concat_tables([one.rows for one in each]), newest)


def _of(found: Sequence[Path]) -> Iterator[Gathered]:
    """What is gathered of these files, of a folder in the order of their names, merged ones first: those stay as they are."""
    named = [path for path in found if not files.unnamed(path)]
    small = [(path, stamp) for path in named if 0 < (stamp := files.stamp(path))[2] <= _MOST_BYTES]
    if len(small) > _MOST_FILES:
        return
    small.sort(key=lambda each: (each[0].parent, not each[0].name.startswith(files.MERGED), each[0].name))
    for _, group in itertools.groupby(small, lambda each: each[0].parent):
        mine = list(group)
        whole = len(mine) // _TOGETHER * _TOGETHER
        for at in range(0, whole, _TOGETHER):
            yield _gathered(*mine[at : at + _TOGETHER])
        yield from map(_gathered, mine[whole:])


@lru_cache(maxsize=_MOST_FILES)
def _gathered(*mine: tuple[Path, files.Stamp]) -> Gathered:
    """Of files of one folder."""
    import pyarrow as pa

    folder = mine[0][0].parent
    with pa.ipc.open_file(pa.py_buffer(cached(_KIND, _key(mine), lambda: _read(mine)))) as kept:
        table = kept.read_all()
    times = json.loads(table.schema.metadata[_NEWEST]).items()
    newest = {folder / name: datetime.fromisoformat(at) if at else None for name, at in times}
    return Gathered(table.replace_schema_metadata(), newest)


def _key(mine: Sequence[tuple[Path, files.Stamp]]) -> str:
    folder = str(mine[0][0].parent.absolute())
    return cache_key(_FORM, str(schema()), folder, *(f"{path.name} {stamp}" for path, stamp in mine))


def _read(mine: Sequence[tuple[Path, files.Stamp]]) -> bytes:
    """The rows of those files that may be gathered, as an Arrow file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = pa.schema([*schema(), (AT[0], pa.string()), (AT[1], pa.int64())])
    tables, times = list[pa.Table](), dict[str, str]()
    for path, stamp in mine:
        why, at = files.footer(path, stamp)
        try:
            found = None if why or files.unfit_rows(path) else pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError):
            found = None  # gone meanwhile, or broken within: who reads it by itself finds out
        if found is not None and (columns := _columns(found)) and files.stamp(path) == stamp:
            place = [pa.array([str(path.absolute())] * len(found)), pa.array(range(len(found)), pa.int64())]
            tables.append(pa.table([*columns, *place], types))
            times[path.name] = at.isoformat() if at else ""
    made = (
        pa.concat_tables([*tables, types.empty_table()])
        .combine_chunks()
        .replace_schema_metadata({_NEWEST: json.dumps(times)})
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, made.schema) as file:
        file.write_table(made)
    if len(mine) > 1:  # nobody looks for them one by one any more
        for each in mine:
            with contextlib.suppress(OSError):
                (cache_dir() / _KIND / _key([each])).unlink(missing_ok=True)
    return bytes(sink.getvalue())


def _columns(found: "pa.Table") -> "list[pa.ChunkedArray]":
    """Those of the store, one that is missing as nulls; none of a table that has others, or has them as another type."""
    import pyarrow as pa

    names = found.column_names
    if any(name not in schema().names or found.schema.field(name).type != schema().field(name).type for name in names):
        return []
    return [
        found[field.name] if field.name in names else pa.chunked_array([pa.nulls(len(found), field.type)])
        for field in schema()
    ]
