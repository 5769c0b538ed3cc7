"""Program that checks Parquet files: it reads them, whoever wrote them, and gives back the rows that hold what a row may hold.

A file may be cut, forged or made to exhaust memory, and the library that reads it has had faults of its own. So this runs as a
process that may die (`python -m roofbook.store.file_check`), with limits of memory and time, without the right to write a file.
It gets files as bytes on standard input, one after another, and answers on standard output with an Arrow stream each. Serves
checker.py.
"""

import contextlib
import itertools
import json
import os
import re
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from .row_rules import FIRST_TIME, LAST_TIME, NO_TEXT, wrong_rows
from .schema import COLUMNS, REQUIRED, schema

if TYPE_CHECKING:
    import pyarrow as pa

MOST_BYTES = 1 << 26
"""Bytes of a file: a run of thousands of rows has a few million."""
MOST_ROWS = 100_000
"""Rows of a file."""
MOST_COLUMNS = 1_000
MOST_UNPACKED, MOST_UNPACKED_TIMES = 1 << 25, 200
"""Bytes of a file's rows in memory: so many, or so many times the bytes of the file."""
MEMORY = 3 << 29
"""Bytes of memory that the process may take for a file."""
CPU_S = 30
"""Seconds of a processor that a file may take."""
MERGED_FROM = b"roofbook.merged_from"
"""What a merged file says of itself: the digests of the files that went into it."""
_DIGEST = re.compile(r"[0-9a-f]{32}")
_MOST_ORIGINS = 100_000
_MOST_TOLD = 20
"""Rows that are left out of which it is said why; the others are counted."""
_FOOTER_LIMIT = 1 << 24
"""Bytes and elements that Thrift may take for a footer."""


class Facts(NamedTuple):
    """What is known of a file once it was checked: all that goes along with its rows."""

    fault: str = ""
    """Why the file is none of the store's; '' for one that is."""
    left_out: tuple[tuple[int, str], ...] = ()
    """Rows that are left out, by their number in the file, each with the reason: the first of them."""
    wrong: int = 0
    """Number of rows that are left out."""
    unknown: tuple[str, ...] = ()
    """Columns that no row of the store has."""
    newest: str = ""
    """When the newest row was started, as ISO 8601; '' without rows."""
    merged_from: tuple[str, ...] = ()
    """Digests of the files that it was merged from, and of those that these were."""

    @property
    def whole(self) -> bool:
        """Whether nothing of the file is left out."""
        return not (self.fault or self.wrong or self.unknown)

    def newest_at(self) -> datetime | None:
        """When the newest row was started; None without rows."""
        return datetime.fromisoformat(self.newest) if self.newest else None

    def as_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def of_json(cls, text: str | bytes) -> "Facts":
        told: dict[str, Any] = json.loads(text)
        left_out = tuple((int(row), str(why)) for row, why in told.pop("left_out"))
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in told.items()
        }
        return cls(**fields, left_out=left_out)


class Fault(Exception):
    """Why a file holds no rows of the store."""


NUMBER = "file_row_number"
"""The column that is added to the rows: where each stood in its file."""


@cache
def checked_schema() -> "pa.Schema":
    """The columns of checked rows: those of the store, their text dictionary-encoded, and NUMBER."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    columns = [(field.name, text if pa.types.is_string(field.type) else field.type) for field in schema()]
    return pa.schema([*columns, (NUMBER, pa.int64())])


def check(data: bytes) -> "tuple[pa.Table, Facts]":
    """Return the rows of a Parquet file that may count, and what there is to say of the file."""
    import pyarrow as pa

    empty = checked_schema().empty_table()
    try:
        table, unknown, origins = _read(data)
        wrong = wrong_rows(table)
    except Fault as fault:
        return empty, Facts(str(fault))
    except (MemoryError, pa.ArrowMemoryError):
        return empty, Facts(_unfolds())
    except (pa.ArrowException, OSError, ValueError, OverflowError, RecursionError):
        return empty, Facts("it is not a whole Parquet file")
    told = tuple(itertools.islice(wrong.items(), _MOST_TOLD))
    if wrong:
        table = table.filter(pa.array([row not in wrong for row in range(len(table))]))
    newest = max(table["started"].to_pylist(), default=None)
    facts = Facts("", told, len(wrong), unknown, newest.isoformat() if newest else "", origins)
    return table.select(checked_schema().names).cast(checked_schema()), facts


def _unfolds() -> str:
    return f"it unfolds to more than {MOST_UNPACKED >> 20} MB and {MOST_UNPACKED_TIMES} times its size"


def _read(data: bytes) -> "tuple[pa.Table, tuple[str, ...], tuple[str, ...]]":
    """The rows of a file with the store's columns and types; names of other columns; and what it was merged from."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(data) > MOST_BYTES:
        raise Fault(f"it has {len(data)} bytes, {MOST_BYTES} at most")
    most = max(MOST_UNPACKED, MOST_UNPACKED_TIMES * len(data))
    limits: dict[str, Any] = {"thrift_string_size_limit": _FOOTER_LIMIT, "thrift_container_size_limit": _FOOTER_LIMIT}
    with pq.ParquetFile(pa.BufferReader(data), **limits) as file:
        found, metadata = file.schema_arrow, file.metadata
    _judge_footer(metadata, len(data), most)
    _judge_columns(found)
    known = [name for name in COLUMNS if name in found.names]
    plain = _delta_coded(metadata)
    texts = [
        name for name in known if COLUMNS[name] == "VARCHAR" and name not in plain
    ]  # as dictionaries, or a text of many rows would unfold
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts, memory_map=False, **limits) as file:
        table = file.read(known, use_threads=False)
    if len(table) > MOST_ROWS:
        raise Fault(f"it has {len(table)} rows, {MOST_ROWS} at most")
    if table.nbytes > most:
        raise Fault(_unfolds())
    columns = [_column(table, field) for field in schema()]
    _judge_texts(columns, most)
    table = pa.table([*columns, pa.array(range(len(table)), pa.int64())], names=[*schema().names, NUMBER])
    table.validate(full=True)
    return table, tuple(sorted(set(found.names) - set(COLUMNS))[:_MOST_TOLD]), _origins(found.metadata)


def _delta_coded(metadata: Any) -> set[str]:
    """Return the names of columns whose texts are stored as differences: the library cannot read those as dictionaries."""
    columns = (
        metadata.row_group(group).column(at)
        for group in range(metadata.num_row_groups)
        for at in range(metadata.num_columns)
    )
    return {
        column.path_in_schema
        for column in columns
        if {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}.intersection(column.encodings)
    }


def _judge_footer(metadata: Any, size: int, most: int) -> None:
    """Raise Fault where the footer claims more than a file of the store has; no page was read until then."""
    if not 0 <= metadata.num_rows <= MOST_ROWS:
        raise Fault(f"it claims {metadata.num_rows} rows, {MOST_ROWS} at most")
    if metadata.num_columns > MOST_COLUMNS:
        raise Fault(f"it has {metadata.num_columns} columns, {MOST_COLUMNS} at most")
    packed = unpacked = values = 0
    for group in range(metadata.num_row_groups):
        for at in range(metadata.num_columns):
            column = metadata.row_group(group).column(at)
            if min(column.total_compressed_size, column.total_uncompressed_size, column.num_values) < 0:
                raise Fault("it is not a whole Parquet file")
            packed += column.total_compressed_size
            unpacked += column.total_uncompressed_size
            values += column.num_values
    if packed > size:
        raise Fault("it is not a whole Parquet file")
    if unpacked > most or 4 * values > most:
        raise Fault(_unfolds())


def _judge_columns(found: "pa.Schema") -> None:
    """Raise Fault for columns that no rows of the store have, or that have other types."""
    for field in schema():
        at = found.get_all_field_indices(field.name)
        if not at and field.name in REQUIRED:
            raise Fault(f"it has no column {field.name!r}")
        if len(at) > 1:
            raise Fault(f"it has several columns {field.name!r}")
        if at and not means(found.field(at[0]).type, field.type):
            raise Fault(f"its column {field.name!r} is {_kind(found.field(at[0]).type)}, not {field.type}")


def _kind(kind: "pa.DataType") -> str:
    """The name of a type as a message has it: that of a nested one may hold names of a stranger's fields."""
    import pyarrow as pa

    said = str(kind)
    return "nested" if pa.types.is_nested(kind) or not said.isprintable() else said[:60]


def means(kind: "pa.DataType", ours: "pa.DataType") -> bool:
    """Whether values of a type can be those of one of the store's: text of any form, numbers, times of any unit.

    >>> import pyarrow as pa
    >>> means(pa.large_string(), pa.string()), means(pa.int16(), pa.int64()), means(pa.int64(), pa.string())
    (True, True, False)
    """
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_dictionary(kind):
        return means(kind.value_type, ours)
    if types.is_list(ours):
        lists = (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
        return any(is_kind(kind) for is_kind in lists) and means(kind.value_type, ours.value_type)
    if types.is_string(ours):
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
    if types.is_timestamp(ours):
        return bool(types.is_timestamp(kind))
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _column(table: "pa.Table", field: "pa.Field") -> "pa.Array":
    """A column in the type of checked rows; one that is missing as nulls. What no such type holds breaks a rule of rows."""
    import pyarrow as pa

    ours = checked_schema().field(field.name).type
    if field.name not in table.column_names:
        return pa.nulls(len(table), ours)
    column = table[field.name]
    if pa.types.is_null(column.type):
        return pa.nulls(len(table), ours)
    if pa.types.is_dictionary(column.type) and not pa.types.is_string(field.type):
        column = column.cast(column.type.value_type)
    whole = (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()
    one = pa.array([], column.type) if isinstance(whole, pa.ChunkedArray) else whole
    try:
        if pa.types.is_string(field.type):
            return _as_text(one)
        if pa.types.is_timestamp(field.type):
            return _as_time(one)
        if pa.types.is_integer(field.type):
            return _as_whole_number(one)
        if pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            lists = one.cast(pa.list_(one.type.value_type)).cast(ours)
            return pa.ListArray.from_arrays(lists.offsets, _in_utf8(lists.values), mask=lists.is_null())
        return one.cast(ours)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Fault(f"its column {field.name!r} has a value that is no {field.type}") from None


def _as_text(one: "pa.Array") -> "pa.Array":
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_dictionary(one.type) or one.dictionary.null_count:
        one = one.cast(pa.string()).dictionary_encode()
    bounds = pc.min_max(one.indices).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(one.dictionary):
        raise Fault("it is not a whole Parquet file")
    return pa.DictionaryArray.from_arrays(one.indices.cast(pa.int32()), _in_utf8(one.dictionary.cast(pa.string())))


def _in_utf8(texts: "pa.Array") -> "pa.Array":
    """Texts as they are, and NO_TEXT for each that is not UTF-8."""
    import pyarrow as pa

    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        fixed = []
        for raw in texts.cast(pa.binary()).to_pylist():
            try:
                fixed.append(None if raw is None else raw.decode())
            except UnicodeDecodeError:
                fixed.append(NO_TEXT)
        return pa.array(fixed, pa.string())
    return texts


_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _as_time(one: "pa.Array") -> "pa.Array":
    """Times in microseconds, without a zone as UTC; those that are no date as the one before FIRST_TIME."""
    import numpy as np
    import pyarrow as pa

    unit = _PER_SECOND[one.type.unit]
    first, last = (int(at.timestamp()) * unit for at in (FIRST_TIME, LAST_TIME))
    raw = one.view(pa.int64()).fill_null(first).to_numpy(zero_copy_only=False)
    fit = (raw >= first) & (raw < last)
    at = np.where(fit, raw, first)
    micro = np.where(fit, at * (10**6 // unit) if unit < 10**6 else at // (unit // 10**6), -1)
    return pa.array(micro, pa.int64(), mask=one.is_null().to_numpy(zero_copy_only=False)).cast(
        schema().field("started").type
    )


def _as_whole_number(one: "pa.Array") -> "pa.Array":
    """Whole numbers, as programs that know no null of them have them too: as floating-point numbers. -1 for another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(one.type):
        return one.cast(pa.int64(), safe=False)  # one that does not fit is below 0 then
    one = one.cast(pa.float64())
    fit = pc.and_(pc.equal(pc.floor(one), one), pc.less(pc.abs(one), 2.0**53))
    return pc.if_else(pc.fill_null(fit, True), one, -1.0).cast(pa.int64())


def _judge_texts(columns: "Sequence[pa.Array]", most: int) -> None:
    """Raise Fault where the texts of all rows, written out, would take more than `most` bytes."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for column in columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
            at = column.indices.drop_null().to_numpy()
            total += int(np.dot(np.bincount(at, minlength=len(lengths)).astype(np.int64), lengths.astype(np.int64)))
    if total > most:
        raise Fault(_unfolds())


def _origins(metadata: Mapping[bytes, bytes] | None) -> tuple[str, ...]:
    """What a file says that it was merged from; nothing where that is no list of digests."""
    try:
        told = json.loads((metadata or {}).get(MERGED_FROM, b"[]"))
    except (ValueError, RecursionError):
        return ()
    fit = isinstance(told, list) and len(told) <= _MOST_ORIGINS
    return tuple(told) if fit and all(isinstance(it, str) and _DIGEST.fullmatch(it) for it in told) else ()


def _answer(data: bytes) -> bytes:
    """The rows of a file as an Arrow stream whose schema has the facts."""
    import pyarrow as pa

    table, facts = check(data)
    table = table.replace_schema_metadata({FACTS: facts.as_json()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


FACTS = b"roofbook.facts"
"""By this name the schema of an answer has what is known of the file."""


def _limit() -> None:
    """Take no more memory than MEMORY beside what the libraries have by now, and write no file."""
    import resource

    taken = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    for which, most in [*limits, *[(resource.RLIMIT_AS, taken + MEMORY)] * bool(taken)]:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(which, (most, most))


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more: each is a line with a number of bytes, and a file of so many."""
    while line := requests.readline():
        data = requests.read(int(line))
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # its signal ends the process
        answer = _answer(data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(len(answer).to_bytes(8, "little") + answer)
        answers.flush()


def main() -> None:
    """Check files as they come on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for who started it, and this one ends with that
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what a library says is no answer
        import pyarrow.compute  # before memory is limited
        import pyarrow.parquet  # noqa: F401

        _rules_ready()
        _limit()
        serve(sys.stdin.buffer, answers)


def _rules_ready() -> None:
    """Import all that rules need, as long as there is memory for it."""
    wrong_rows(checked_schema().empty_table())


if __name__ == "__main__":
    main()
