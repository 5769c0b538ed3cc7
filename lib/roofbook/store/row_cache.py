"""Rows of checked files, in the cache of this machine: a file is checked once, and opened no more as long as it stays as it is.

What several files of a folder hold is kept as one Arrow file, under their names, times and sizes: to open a file takes longer
than to read it, and a store has hundreds. Serves the store and whoever needs rows without SQL.
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
from .file_check import MOST_BYTES, NUMBER, Facts, checked_schema

if TYPE_CHECKING:
    import pyarrow as pa

FILE = "filename"
AT = (FILE, NUMBER)
"""Columns that are added to the rows: the file of each, and its number there."""
_TOGETHER = 16
"""Files that are kept as one. Those of a folder beyond the last so many are kept each by itself, until they are so many."""
_LARGE = 1 << 20
"""Bytes of a file from which on it is kept by itself."""
_GROUPS = 4096
"""Groups of files whose rows this process remembers."""
_KIND = "rows"
_FACTS = b"roofbook.facts"


class CheckedRows(NamedTuple):
    """Rows that may count, with AT, and what there is to say of each file that they were looked for in."""

    table: "pa.Table"
    facts: dict[Path, Facts]

    @property
    def gone(self) -> bool:
        """Whether a file was listed and is there no more, as after a merge."""
        return any(facts.fault == _GONE for facts in self.facts.values())


_GONE = "it cannot be reached"


def read_rows(found: Sequence[Path]) -> CheckedRows:
    """Return the rows of these files that hold what rows may hold. A warning names, once, what is left out."""
    import pyarrow as pa

    tables, facts = [_schema().empty_table()], dict[Path, Facts]()
    for group in _groups(found):
        rows = _read_group(group)
        tables.append(rows.table)
        facts |= rows.facts
    for path in found:
        if facts[path].fault != _GONE or path.is_symlink():
            files.warn_of(path, facts[path])
    return CheckedRows(pa.concat_tables(tables), facts)


@cache
def _schema() -> "pa.Schema":
    import pyarrow as pa

    return checked_schema().append(pa.field(FILE, pa.dictionary(pa.int32(), pa.string())))


def _groups(found: Sequence[Path]) -> Iterator[list[tuple[Path, files.Stamp]]]:
    """The files that are kept as one: of a folder, in the order of their names, merged ones first, as those stay."""
    stamped = [(path, files.stamp(path)) for path in found]
    yield from ([each] for each in stamped if each[1][2] > _LARGE)
    small = [each for each in stamped if each[1][2] <= _LARGE]
    small.sort(key=lambda each: (each[0].parent, not each[0].name.startswith(files.MERGED), each[0].name))
    for _, group in itertools.groupby(small, lambda each: each[0].parent):
        mine = list(group)
        whole = len(mine) // _TOGETHER * _TOGETHER
        yield from (mine[at : at + _TOGETHER] for at in range(0, whole, _TOGETHER))
        yield from ([each] for each in mine[whole:])


_known: dict[tuple[tuple[Path, files.Stamp], ...], CheckedRows] = {}


def _read_group(group: Sequence[tuple[Path, files.Stamp]]) -> CheckedRows:
    """The rows of files of one folder: as this process knows them, as the cache does, or checked now."""
    key = tuple(group)
    if key in _known:
        return _known[key]
    rows = _kept(key)
    lasting = True
    if rows is None:
        rows, lasting = _check_group(group)
        if lasting:
            write_cached(_KIND, _key(key), _encoded(rows))
            for each in key if len(key) > 1 else ():  # nobody looks for them one by one any more
                with contextlib.suppress(OSError):
                    (cache_dir() / _KIND / _key((each,))).unlink(missing_ok=True)
    if lasting:
        while len(_known) >= _GROUPS:
            _known.pop(next(iter(_known)), None)
        _known[key] = rows
    return rows


def _kept(group: tuple[tuple[Path, files.Stamp], ...]) -> CheckedRows | None:
    """What the cache has of these files; None where it has nothing, or nothing whole."""
    import pyarrow as pa

    content = read_cached(_KIND, _key(group))
    if content is None:
        return None
    with pa.ipc.open_file(pa.py_buffer(content)) as file:
        table = file.read_all()
    told = json.loads(table.schema.metadata[_FACTS])
    facts = {path: Facts.of_json(text) for (path, _), text in zip(group, told, strict=True)}
    return CheckedRows(table.replace_schema_metadata(), facts)


def _encoded(rows: CheckedRows) -> bytes:
    import pyarrow as pa

    table = rows.table.replace_schema_metadata({_FACTS: json.dumps([each.as_json() for each in rows.facts.values()])})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)
    return bytes(sink.getvalue())


def _check_group(group: Sequence[tuple[Path, files.Stamp]]) -> tuple[CheckedRows, bool]:
    """The rows of these files, checked now; and whether the same files would give the same again."""
    import pyarrow as pa

    tables, facts, lasting = [_schema().empty_table()], dict[Path, Facts](), True
    for path, stamp in group:
        rows, lasts = (_kept(((path, stamp),)), True) if len(group) > 1 else (None, True)
        if rows is None:
            rows, lasts = _check_one(path, stamp)
        tables.append(rows.table)
        facts |= rows.facts
        lasting &= lasts
    whole = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    return CheckedRows(whole, facts), lasting


def _check_one(path: Path, stamp: files.Stamp) -> tuple[CheckedRows, bool]:
    """As `_check_group`, of one file."""
    import pyarrow as pa

    if why := _unread(path, stamp):
        return CheckedRows(_schema().empty_table(), {path: Facts(why)}), stamp != (0, 0, 0)
    try:
        checked = check_file(read_regular(path, MOST_BYTES))
    except OSError as error:
        return CheckedRows(_schema().empty_table(), {path: Facts(_refused(error))}), False
    place = pa.array([0] * len(checked.rows), pa.int32())
    names = pa.DictionaryArray.from_arrays(place, pa.array([str(path.absolute())]))
    rows = CheckedRows(checked.rows.append_column(_schema().field(FILE), names), {path: checked.facts})
    return rows, checked.lasting and files.stamp(path) == stamp


def _unread(path: Path, stamp: files.Stamp) -> str:
    """Why a file is not even opened; '' for one that is."""
    if stamp == (0, 0, 0):
        return _GONE
    if not stat.S_ISREG(stamp[0]):
        return "it is no file"
    if stamp[2] > MOST_BYTES:
        return f"it has {stamp[2]} bytes, {MOST_BYTES} at most"
    return files.unnamed("/".join(path.parts[-3:]))


def _refused(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return _GONE
    return "it may not be read" if isinstance(error, PermissionError) else error.strerror or "it cannot be read"


def _key(group: tuple[tuple[Path, files.Stamp], ...]) -> str:
    folder = repr(str(group[0][0].parent.absolute()))
    return cache_key(_rules(), folder, *(f"{path.name!r} {stamp}" for path, stamp in group))


@cache
def _rules() -> str:
    """What another text of the checks, or another library, changes: what was checked by others is checked again."""
    import pyarrow as pa

    texts = [Path(str(module.__file__)).read_text() for module in (columns, row_rules, file_check)]
    return cache_key(pa.__version__, *texts)
