"""Program that checks Parquet files of any origin, and returns the rows that keep the rules of row_rules.py.

A file may be cut, forged or made to exhaust memory, and the library that reads it has had bugs. So this runs as a process that
may die (`python -m roofbook.store.file_check`), with limits of memory and time, and cannot write files. It gets files as bytes
on standard input, one after another, and answers each with an Arrow stream on standard output. Serves checker.py.
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
"""Largest size of a file in bytes: a run of thousands of rows has a few million."""
MOST_ROWS = 100_000
"""Largest number of rows in a file."""
MOST_COLUMNS = 1_000
MOST_UNPACKED, MOST_UNPACKED_TIMES = 1 << 25, 200
"""Largest size of a file's rows in memory, in bytes and as a multiple of the file's size: the larger of the two applies."""
MEMORY = 3 << 29
"""Bytes of memory that the process may take for a file."""
CPU_S = 30
"""Seconds of CPU time that a file may take."""
MERGED_FROM = b"roofbook.merged_from"
"""Metadata key of a merged file for the digests of the files that were merged, as JSON."""
_DIGEST = re.compile(r"[0-9a-f]{32}")
_MOST_ORIGINS = 100_000
_MOST_LISTED = 20
"""Largest number of invalid rows that are listed with a reason, and of unknown columns: further rows are only counted."""
_FOOTER_LIMIT = 1 << 24
"""Bytes and elements that Thrift may take for a footer."""


class Facts(NamedTuple):
    """Facts on a checked file, which accompany its rows."""

    fault: str = ""
    """Reason why the file is no file of the store; '' if it is one."""
    left_out: tuple[tuple[int, str], ...] = ()
    """First invalid rows: the number in the file, and the reason."""
    wrong: int = 0
    """Number of invalid rows, which are left out."""
    unknown: tuple[str, ...] = ()
    """Columns that the store does not have."""
    newest: str = ""
    """Start of the newest row, as ISO 8601; '' without rows."""
    merged_from: tuple[str, ...] = ()
    """Digests of the files that were merged into this one, directly or in several merges."""

    @property
    def whole(self) -> bool:
        """Whether no part of the file is left out."""
        return not (self.fault or self.wrong or self.unknown)

    def newest_at(self) -> datetime | None:
        """Return the start of the newest row; None without rows."""
        return datetime.fromisoformat(self.newest) if self.newest else None

    def as_json(self) -> str:
        return json.dumps(self._asdict())

    @classmethod
    def of_json(cls, text: str | bytes) -> "Facts":
        decoded: dict[str, Any] = json.loads(text)
        left_out = tuple((int(row), str(reason)) for row, reason in decoded.pop("left_out"))
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in decoded.items()
        }
        return cls(**fields, left_out=left_out)


class Fault(Exception):
    """Reason why a file is no file of the store."""


NUMBER = "file_row_number"
"""Column that is added to the rows: a row's number in its file, from 0."""


@cache
def checked_schema() -> "pa.Schema":
    """Return the schema of checked rows: the store's columns, with text dictionary-encoded, and NUMBER."""
    import pyarrow as pa

    text = pa.dictionary(pa.int32(), pa.string())
    columns = [(field.name, text if pa.types.is_string(field.type) else field.type) for field in schema()]
    return pa.schema([*columns, (NUMBER, pa.int64())])


def check(data: bytes) -> "tuple[pa.Table, Facts]":
    """Return the valid rows of a Parquet file, and facts on the file."""
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
    left_out = tuple(itertools.islice(wrong.items(), _MOST_LISTED))
    if wrong:
        table = table.filter(pa.array([row not in wrong for row in range(len(table))]))
    newest = max(table["started"].to_pylist(), default=None)
    facts = Facts("", left_out, len(wrong), unknown, newest.isoformat() if newest else "", origins)
    return table.select(checked_schema().names).cast(checked_schema()), facts


def _unfolds() -> str:
    """Return the fault of a file whose rows take too much memory."""
    return f"it unfolds to more than {MOST_UNPACKED >> 20} MB and {MOST_UNPACKED_TIMES} times its size"


def _read(data: bytes) -> "tuple[pa.Table, tuple[str, ...], tuple[str, ...]]":
    """Return a file's rows with the store's columns and types, the names of other columns, and the digests of its origins."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if len(data) > MOST_BYTES:
        raise Fault(f"it has {len(data)} bytes, {MOST_BYTES} at most")
    most = max(MOST_UNPACKED, MOST_UNPACKED_TIMES * len(data))
    limits: dict[str, Any] = {"thrift_string_size_limit": _FOOTER_LIMIT, "thrift_container_size_limit": _FOOTER_LIMIT}
    with pq.ParquetFile(pa.BufferReader(data), **limits) as file:
        file_schema, metadata = file.schema_arrow, file.metadata
    _judge_footer(metadata, len(data), most)
    _judge_columns(file_schema)
    names = [name for name in COLUMNS if name in file_schema.names]
    # Texts are read as dictionaries if possible: a long text of many rows would take too much memory.
    delta_coded = _delta_coded(metadata)
    texts = [name for name in names if COLUMNS[name] == "VARCHAR" and name not in delta_coded]
    with pq.ParquetFile(pa.BufferReader(data), read_dictionary=texts, memory_map=False, **limits) as file:
        table = file.read(names, use_threads=False)
    if len(table) > MOST_ROWS:
        raise Fault(f"it has {len(table)} rows, {MOST_ROWS} at most")
    if table.nbytes > most:
        raise Fault(_unfolds())
    columns = [_column(table, field) for field in schema()]
    _judge_texts(columns, most)
    table = pa.table([*columns, pa.array(range(len(table)), pa.int64())], names=[*schema().names, NUMBER])
    table.validate(full=True)
    unknown = sorted(set(file_schema.names) - set(COLUMNS))
    return table, tuple(unknown[:_MOST_LISTED]), _origins(file_schema.metadata)


def _delta_coded(metadata: Any) -> set[str]:
    """Return the names of columns whose texts are stored as differences: the library cannot read those as dictionaries."""
    columns = (
        metadata.row_group(group).column(index)
        for group in range(metadata.num_row_groups)
        for index in range(metadata.num_columns)
    )
    return {
        column.path_in_schema
        for column in columns
        if {"DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"}.intersection(column.encodings)
    }


def _judge_footer(metadata: Any, size: int, most: int) -> None:
    """Raise Fault if the footer claims more than a file of the store may have. Call it before any page is read.

    size: of the file in bytes. most: largest number of bytes of its rows in memory.
    """
    if not 0 <= metadata.num_rows <= MOST_ROWS:
        raise Fault(f"it claims {metadata.num_rows} rows, {MOST_ROWS} at most")
    if metadata.num_columns > MOST_COLUMNS:
        raise Fault(f"it has {metadata.num_columns} columns, {MOST_COLUMNS} at most")
    packed = unpacked = values = 0
    for group in range(metadata.num_row_groups):
        for index in range(metadata.num_columns):
            column = metadata.row_group(group).column(index)
            if min(column.total_compressed_size, column.total_uncompressed_size, column.num_values) < 0:
                raise Fault("it is not a whole Parquet file")
            packed += column.total_compressed_size
            unpacked += column.total_uncompressed_size
            values += column.num_values
    if packed > size:
        raise Fault("it is not a whole Parquet file")
    if unpacked > most or 4 * values > most:
        raise Fault(_unfolds())


def _judge_columns(file_schema: "pa.Schema") -> None:
    """Raise Fault if a required column is missing, or one of the store's columns is there twice or has another type."""
    for field in schema():
        indices = file_schema.get_all_field_indices(field.name)
        if not indices and field.name in REQUIRED:
            raise Fault(f"it has no column {field.name!r}")
        if len(indices) > 1:
            raise Fault(f"it has several columns {field.name!r}")
        if indices and not is_convertible(file_schema.field(indices[0]).type, field.type):
            raise Fault(
                f"its column {field.name!r} is {_type_name(file_schema.field(indices[0]).type)}, not {field.type}"
            )


def _type_name(kind: "pa.DataType") -> str:
    """Return the name of a type for a message: just "nested" for a nested type, since its fields may have hostile names."""
    import pyarrow as pa

    name = str(kind)
    return "nested" if pa.types.is_nested(kind) or not name.isprintable() else name[:60]


def is_convertible(kind: "pa.DataType", target: "pa.DataType") -> bool:
    """Return whether values of a type may be converted to a type of the store: all forms of text, numbers, units of time.

    >>> import pyarrow as pa
    >>> is_convertible(pa.large_string(), pa.string()), is_convertible(pa.int64(), pa.string())
    (True, False)
    """
    import pyarrow as pa

    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_dictionary(kind):
        return is_convertible(kind.value_type, target)
    if types.is_list(target):
        lists = (
            types.is_list,
            types.is_large_list,
            types.is_fixed_size_list,
            types.is_list_view,
            types.is_large_list_view,
        )
        return any(is_list(kind) for is_list in lists) and is_convertible(kind.value_type, target.value_type)
    if types.is_string(target):
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
    if types.is_timestamp(target):
        return bool(types.is_timestamp(kind))
    return bool(types.is_integer(kind) or types.is_floating(kind))


def _column(table: "pa.Table", field: "pa.Field") -> "pa.Array":
    """Return a column with the type of checked rows: nulls if it is missing; invalid times and numbers as row_rules.py rejects.

    Fault for a value that the type cannot hold.
    """
    import pyarrow as pa

    target = checked_schema().field(field.name).type
    if field.name not in table.column_names:
        return pa.nulls(len(table), target)
    column = table[field.name]
    if pa.types.is_null(column.type):
        return pa.nulls(len(table), target)
    if pa.types.is_dictionary(column.type) and not pa.types.is_string(field.type):
        column = column.cast(column.type.value_type)
    combined = (column.unify_dictionaries() if pa.types.is_dictionary(column.type) else column).combine_chunks()
    array = pa.array([], column.type) if isinstance(combined, pa.ChunkedArray) else combined
    try:
        if pa.types.is_string(field.type):
            return _as_text(array)
        if pa.types.is_timestamp(field.type):
            return _as_time(array)
        if pa.types.is_integer(field.type):
            return _as_whole_number(array)
        if pa.types.is_list(field.type) and pa.types.is_string(field.type.value_type):
            lists = array.cast(pa.list_(array.type.value_type)).cast(target)
            return pa.ListArray.from_arrays(lists.offsets, _in_utf8(lists.values), mask=lists.is_null())
        return array.cast(target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Fault(f"its column {field.name!r} has a value that is no {field.type}") from None


def _as_text(array: "pa.Array") -> "pa.Array":
    """Return texts, dictionary-encoded, with NO_TEXT for those that are not UTF-8. Fault for indices beyond the dictionary."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if (
        not pa.types.is_dictionary(array.type)
        or array.dictionary.null_count
        or len(pc.unique(array.dictionary)) < len(array.dictionary)
    ):
        array = array.cast(pa.string()).dictionary_encode()
    bounds = pc.min_max(array.indices).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(array.dictionary):
        raise Fault("it is not a whole Parquet file")
    return pa.DictionaryArray.from_arrays(array.indices.cast(pa.int32()), _in_utf8(array.dictionary.cast(pa.string())))


def _in_utf8(texts: "pa.Array") -> "pa.Array":
    """Return the texts, with NO_TEXT for each that is not UTF-8."""
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


def _as_time(array: "pa.Array") -> "pa.Array":
    """Return times in microseconds, read as UTC if they have no zone, with one before FIRST_TIME for each out of range."""
    import numpy as np
    import pyarrow as pa

    per_second = _PER_SECOND[array.type.unit]
    first, last = (int(bound.timestamp()) * per_second for bound in (FIRST_TIME, LAST_TIME))
    raw = array.view(pa.int64()).fill_null(first).to_numpy(zero_copy_only=False)
    fit = (raw >= first) & (raw < last)
    times = np.where(fit, raw, first)
    micro = np.where(fit, times * (10**6 // per_second) if per_second < 10**6 else times // (per_second // 10**6), -1)
    return pa.array(micro, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False)).cast(
        schema().field("started").type
    )


def _as_whole_number(array: "pa.Array") -> "pa.Array":
    """Return whole numbers, also from floating-point ones (pandas writes those if some are null); -1 for other numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(array.type):
        return array.cast(pa.int64(), safe=False)  # a number that does not fit becomes negative
    numbers = array.cast(pa.float64())
    fit = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), 2.0**53))
    return pc.if_else(pc.fill_null(fit, True), numbers, -1.0).cast(pa.int64())


def _judge_texts(columns: "Sequence[pa.Array]", most: int) -> None:
    """Raise Fault if the texts of all rows would take more than `most` bytes without dictionaries."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for column in columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).to_numpy(zero_copy_only=False)
            counts = np.bincount(column.indices.drop_null().to_numpy(), minlength=len(lengths))
            total += int(np.dot(counts.astype(np.int64), lengths.astype(np.int64)))
    if total > most:
        raise Fault(_unfolds())


def _origins(metadata: Mapping[bytes, bytes] | None) -> tuple[str, ...]:
    """Return the digests of the files that were merged into a file, from its metadata; () if there is no list of digests."""
    try:
        digests = json.loads((metadata or {}).get(MERGED_FROM, b"[]"))
    except (ValueError, RecursionError):
        return ()
    if not isinstance(digests, list) or len(digests) > _MOST_ORIGINS:
        return ()
    return tuple(digests) if all(isinstance(text, str) and _DIGEST.fullmatch(text) for text in digests) else ()


def _answer(data: bytes) -> bytes:
    """Return the valid rows of a file as an Arrow stream, with its facts in the schema's metadata."""
    import pyarrow as pa

    table, facts = check(data)
    table = table.replace_schema_metadata({FACTS: facts.as_json()})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


FACTS = b"roofbook.facts"
"""Metadata key of an answer's schema for the file's facts."""


def _limit() -> None:
    """Limit this process to MEMORY more bytes than the libraries have taken so far, and forbid it to write files."""
    import resource

    used = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0)]
    for limit, most in [*limits, *[(resource.RLIMIT_AS, used + MEMORY)] * bool(used)]:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until the input ends. A request is a line with a number of bytes, then a file of so many bytes."""
    while line := requests.readline():
        data = requests.read(int(line))
        signal.setitimer(signal.ITIMER_PROF, CPU_S)  # its signal ends the process
        answer = _answer(data)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(len(answer).to_bytes(8, "little") + answer)
        answers.flush()


def main() -> None:
    """Check the files on standard input."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C: this process ends with its input
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # messages of libraries must not mix with answers
        import pyarrow.compute  # before memory is limited
        import pyarrow.parquet  # noqa: F401

        wrong_rows(checked_schema().empty_table())  # imports the modules that the rules need
        _limit()
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
