"""Cache of checked rows on this machine: a Parquet file is checked once, and not opened again until it changes.

The rows of several files of a folder are cached as one Arrow file, whose key contains their names, times and sizes: to open a
file takes longer than to read it, and a store has hundreds. Serves the store and readers of rows without SQL.
"""

import contextlib
import itertools
import json
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..paths import cache_dir, cache_key, read_cached, read_regular, write_cached
from . import file_check, files, row_rules
from . import schema as columns
from .checker import check_file
from .file_check import FACTS, MOST_BYTES, NUMBER, Facts, checked_schema

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "filename"
AT = (FILE, NUMBER)
"""Columns that are added to the rows: a row's file, and its number there."""
_FILES_PER_GROUP = 16
"""Number of files that are cached as one. The last files of a folder, if fewer, are cached one by one."""
_LARGE = 1 << 20
"""Bytes of a file above which it is cached by itself."""
_MOST_KEPT = 1 << 26
"""Largest number of bytes of rows that this process keeps in memory; others are read from the cache again."""
_KIND = "rows"
"""Folder of the cache."""

StampedPath = tuple[Path, files.Stamp]


class CheckedRows(NamedTuple):
    """Valid rows of several files, with the columns AT, and the facts on each file."""

    table: "pa.Table"
    facts: dict[Path, Facts]

    @property
    def gone(self) -> bool:
        """Whether a listed file does not exist any more, as after a merge."""
        return any(facts.fault == _GONE for facts in self.facts.values())


_GONE = "it cannot be reached"


def read_rows(stamped: Sequence[StampedPath]) -> CheckedRows:
    """Return the valid rows of these files. Warn once of each file of which anything is left out."""
    import pyarrow as pa

    tables, facts = [_schema().empty_table()], dict[Path, Facts]()
    for group in _groups(stamped):
        rows = _read_group(group)
        tables.append(rows.table)
        facts |= rows.facts
    for path, _ in stamped:
        if facts[path].fault != _GONE or path.is_symlink():
            files.warn_of(path, facts[path])
    return CheckedRows(pa.concat_tables(tables), facts)


@cache
def _schema() -> "pa.Schema":
    import pyarrow as pa

    return checked_schema().append(pa.field(FILE, pa.dictionary(pa.int32(), pa.string())))


def _groups(stamped: Sequence[StampedPath]) -> Iterator[list[StampedPath]]:
    """Yield the files in groups that are cached as one: of one folder, sorted by name, merged files first since they stay."""
    yield from ([(path, stamp)] for path, stamp in stamped if stamp[2] > _LARGE)
    small = [(path, stamp) for path, stamp in stamped if stamp[2] <= _LARGE]
    small.sort(key=lambda file: (file[0].parent, not file[0].name.startswith(files.MERGED), file[0].name))
    for _, group in itertools.groupby(small, lambda file: file[0].parent):
        siblings = list(group)
        grouped = len(siblings) // _FILES_PER_GROUP * _FILES_PER_GROUP
        yield from (siblings[first : first + _FILES_PER_GROUP] for first in range(0, grouped, _FILES_PER_GROUP))
        yield from ([file] for file in siblings[grouped:])


_memory: dict[tuple[StampedPath, ...], tuple[CheckedRows, int]] = {}
"""Rows that this process has read and their bytes, by group of files, the oldest first."""


def _read_group(group: Sequence[StampedPath]) -> CheckedRows:
    """Return the rows of files of one folder: from memory, from the cache, or checked now."""
    key = tuple(group)
    if key in _memory:
        return _memory[key][0]
    rows = _read_cache(key)
    lasting = True
    if rows is None:
        rows, lasting = _check_group(group)
        if lasting:
            write_cached(_KIND, _key(key), _encoded(rows))
            for file in key if len(key) > 1 else ():  # the rows of single files are not needed any more
                with contextlib.suppress(OSError):
                    (cache_dir() / _KIND / _key((file,))).unlink(missing_ok=True)
    if lasting:
        size = rows.table.nbytes
        left = _MOST_KEPT - size - sum(kept for _, kept in _memory.values())
        while _memory and left < 0:
            left += _memory.pop(next(iter(_memory)))[1]
        _memory[key] = rows, size
    return rows


def _read_cache(group: tuple[StampedPath, ...]) -> CheckedRows | None:
    """Return the cached rows of a group of files; None if the cache does not have them, or its file is damaged."""
    import pyarrow as pa

    content = read_cached(_KIND, _key(group))
    if content is None:
        return None
    with pa.ipc.open_file(pa.py_buffer(content)) as file:
        table = file.read_all()
    texts = json.loads(table.schema.metadata[FACTS])
    facts = {path: Facts.of_json(text) for (path, _), text in zip(group, texts, strict=True)}
    return CheckedRows(table.replace_schema_metadata(), facts)


def _encoded(rows: CheckedRows) -> bytes:
    import pyarrow as pa

    table = rows.table.replace_schema_metadata({FACTS: json.dumps([facts.as_json() for facts in rows.facts.values()])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


def _check_group(group: Sequence[StampedPath]) -> tuple[CheckedRows, bool]:
    """Check files. Return their rows, and whether another check would give the same."""
    import pyarrow as pa

    tables, facts, lasting = [_schema().empty_table()], dict[Path, Facts](), True
    for path, stamp in group:
        rows, is_lasting = (_read_cache(((path, stamp),)), True) if len(group) > 1 else (None, True)
        if rows is None:
            rows, is_lasting = _check_one(path, stamp)
        tables.append(rows.table)
        facts |= rows.facts
        lasting &= is_lasting
    combined = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    return CheckedRows(combined, facts), lasting


def _check_one(path: Path, stamp: files.Stamp) -> tuple[CheckedRows, bool]:
    """Check one file. Return its rows, and whether another check would give the same."""
    import pyarrow as pa

    if fault := _fault(path, stamp):
        return CheckedRows(_schema().empty_table(), {path: Facts(fault)}), stamp != (0, 0, 0)
    try:
        checked = check_file(read_regular(path, MOST_BYTES))
    except OSError as error:
        return CheckedRows(_schema().empty_table(), {path: Facts(_reason(error))}), False
    indices = pa.array([0] * len(checked.rows), pa.int32())
    names = pa.DictionaryArray.from_arrays(indices, pa.array([str(path.absolute())]))
    rows = CheckedRows(checked.rows.append_column(_schema().field(FILE), names), {path: checked.facts})
    return rows, checked.lasting and files.stamp(path) == stamp


def _fault(path: Path, stamp: files.Stamp) -> str:
    """Return why a file is not opened; '' if it may be."""
    if stamp == (0, 0, 0):
        return _GONE
    if not stat.S_ISREG(stamp[0]):
        return "it is no file"
    if stamp[2] > MOST_BYTES:
        return f"it has {stamp[2]} bytes, {MOST_BYTES} at most"
    return files.name_fault("/".join(path.parts[-3:]))


def _reason(error: OSError) -> str:
    """Return why a file could not be read."""
    if isinstance(error, FileNotFoundError):
        return _GONE
    return "it may not be read" if isinstance(error, PermissionError) else error.strerror or "it cannot be read"


def _key(group: tuple[StampedPath, ...]) -> str:
    """Return the key in the cache of a group of files of one folder."""
    folder = repr(str(group[0][0].parent.absolute()))
    return cache_key(_rules(), folder, *(f"{path.name!r} {stamp}" for path, stamp in group))


@cache
def _rules() -> str:
    """Return a hash of the checks' source and pyarrow's version: if it changes, all files are checked again."""
    import pyarrow as pa

    texts = [Path(str(module.__file__)).read_text() for module in (columns, row_rules, file_check)]
    return cache_key(pa.__version__, *texts)
