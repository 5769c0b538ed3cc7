"""The check of Parquet files: invalid rows, or a whole file, are left out with a reason, whatever a file holds.

Equivalent files are read alike.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from roofbook.store import checker, file_check
from roofbook.store.checker import check_file
from roofbook.store.file_check import MERGED_FROM, check
from roofbook.store.parquet import Store
from roofbook.store.row_rules import MOST_DEPTH, NO_TEXT
from roofbook.store.schema import COLUMNS, REQUIRED, schema, table

from .test_parquet import row

RECORDED = Path(__file__).parents[2] / "results" / "recorded"
REAL = min(RECORDED.rglob("*.parquet"), key=lambda path: path.stat().st_size)


def packed(rows: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, **options)
    return bytes(sink.getvalue())


def with_column(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.column_names.index(name), name, values)


def verified(variant: str = "fused", **fields: Any) -> dict[str, Any]:
    times: dict[str, Any] = {"samples_s": [1.0, 2.0], "wall_s": [1.5, 2.5], "rounds": [0, 1]}
    return row(variant, **times, units=1, error=0.0, bound=1.0, **fields)


WHOLE = table([verified("a"), verified("b", throttle=["power"], extra='{"parts": {"kernel": [0.5, 1.0]}}')])


def unchanged(rows: pa.Table) -> dict[str, list[Any]]:
    return {name: rows[name].to_pylist() for name in COLUMNS}


# -- files that mean the same ------------------------------------------------------------------------------------------


def as_lists(kind: Callable[[Any], Any]) -> Callable[[pa.Table], pa.Table]:
    names = [name for name, sql_type in COLUMNS.items() if sql_type.endswith("[]")]

    def changed(rows: pa.Table) -> pa.Table:
        for name in names:
            rows = with_column(rows, name, rows[name].cast(kind(rows.schema.field(name).type.value_type)))
        return rows

    return changed


def as_type(kind: pa.DataType, *names: str) -> Callable[[pa.Table], pa.Table]:
    def changed(rows: pa.Table) -> pa.Table:
        for name in names:
            rows = with_column(rows, name, rows[name].cast(kind))
        return rows

    return changed


def as_dictionaries(rows: pa.Table) -> pa.Table:
    for name in ("variant", "policy", "started", "units", "error"):
        rows = with_column(rows, name, rows[name].dictionary_encode())
    return rows


def as_pandas_has_it(rows: pa.Table) -> pa.Table:
    return pa.Table.from_pandas(rows.to_pandas())


TEXTS = ("variant", "policy", "extra", "reason")
ALIKE = {
    "large text": as_type(pa.large_string(), *TEXTS),
    "views of text": as_type(pa.string_view(), *TEXTS),
    "dictionaries": as_dictionaries,
    "short numbers": as_type(pa.int16(), "units"),
    "numbers without a sign": as_type(pa.uint64(), "units"),
    "numbers with a point": as_type(pa.float64(), "units"),
    "seconds": as_type(pa.timestamp("s", "UTC"), "started"),
    "milliseconds": as_type(pa.timestamp("ms", "Europe/Berlin"), "started"),
    "nanoseconds": as_type(pa.timestamp("ns", "UTC"), "started"),
    "no zone": as_type(pa.timestamp("us"), "started"),
    "single precision": as_type(pa.float32(), "error", "bound"),
    "large lists": as_lists(pa.large_list),
    "pandas": as_pandas_has_it,
}


@pytest.mark.parametrize("form", ALIKE)
@pytest.mark.parametrize("compression", ["zstd", "gzip"])
def test_files_that_mean_the_same_are_read_alike(form: str, compression: str) -> None:
    rows, facts = check(packed(ALIKE[form](WHOLE), compression=compression))
    assert facts.whole, facts
    assert unchanged(rows) == unchanged(WHOLE)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_texts_of_any_encoding_are_read_alike(encoding: str) -> None:
    rows, facts = check(packed(WHOLE, use_dictionary=False, column_encoding=dict.fromkeys(TEXTS, encoding)))
    assert facts.whole, facts
    assert unchanged(rows) == unchanged(WHOLE)


def test_a_long_text_that_is_stored_once_as_a_prefix_is_left_out() -> None:
    rows = table([row(f"v{n}", reason="A" * 1_000_000, samples_s=[1.0]) for n in range(50)])
    _, facts = check(packed(rows, use_dictionary=False, column_encoding={"reason": "DELTA_BYTE_ARRAY"}))
    assert "unfolds" in facts.fault


def test_numbers_of_rows_that_lack_some_are_read_as_pandas_writes_them() -> None:
    rows = table([row("a", units=7, samples_s=[1.0]), row("b", samples_s=[1.0])])
    read, facts = check(packed(as_pandas_has_it(rows)))
    assert facts.whole and read["units"].to_pylist() == [7, None]


def test_every_recorded_file_is_whole() -> None:
    """The checking process, with its limits of memory and time, accepts the three largest recorded files."""
    for path in sorted(RECORDED.rglob("*.parquet"), key=lambda path: path.stat().st_size)[-3:]:
        checked = check_file(path.read_bytes())
        assert checked.facts.whole and len(checked.rows) == pq.ParquetFile(path).metadata.num_rows, path


# -- rows that break a rule --------------------------------------------------------------------------------------------

DEEP = '{"a": ' * (MOST_DEPTH + 1) + "1" + "}" * (MOST_DEPTH + 1)
BAD_VALUES: list[tuple[str, Any, str]] = [
    *(
        ("samples_s", [1.0, bad], "samples_s has a value that is no time")
        for bad in (0.0, -1.0, np.inf, np.nan, 1e308, 5e-324)
    ),
    *(("wall_s", [1.0, bad], "wall_s has a value that is no time") for bad in (0.0, -np.inf)),
    ("samples_s", [1.0, None], "samples_s has a null"),
    ("samples_s", [], "samples_s is empty"),
    ("samples_s", [1.0, 2.0, 3.0], "rounds and samples_s have different lengths"),
    ("rounds", [0], "rounds and samples_s have different lengths"),
    ("rounds", [0, -1], "rounds has a number below 0"),
    ("sample_throttle", ["x"], "sample_throttle and samples_s have different lengths"),
    ("throttle", ["\x1b[2J"], "throttle has a text with control characters"),
    ("temperature_c", [np.inf], "temperature_c has a value that is no finite number"),
    *(("units", bad, "units is no whole number above 0") for bad in (0, -5)),
    ("units", None, "units is null"),
    *(("flops", bad, "flops is no finite number of at least 0") for bad in (-1.0, np.inf, np.nan)),
    ("bound", np.inf, "bound is no finite number"),
    *(("policy", bad, "policy is not the JSON of an object") for bad in ("", "warm", "[]", "null", "{", "[" * 5000)),
    ("policy", '{"budget_s": "long"}', "policy has a value of a wrong type at budget_s"),
    ("policy", '{"seed": 1, "seed": 2}', "policy has a name twice"),
    ("extra", '{"a": "\\ud83d"}', "extra has half a surrogate pair"),
    ("extra", '{"a\\u001b": 1}', "extra has a name with control characters"),
    ("extra", '{"a": NaN}', "extra has NaN"),
    ("extra", '{"a": 1e999}', "extra has NaN or an infinite number"),
    ("extra", '{"a": 18446744073709551616}', "extra has a whole number of more than 64 bits"),
    ("extra", DEEP, f"extra has more than {MOST_DEPTH} levels"),
    ("extra", '{"parts": {"kernel": [1.0]}}', "extra.parts and samples_s have different lengths"),
    ("extra", '{"parts": {"kernel": ["x", "y"]}}', "extra has a value of a wrong type at parts"),
    ("extra", '{"wgsl_sha256": ["a"]}', "extra has a value of a wrong type at wgsl_sha256"),
    ("extra", '{"registers_1": "many"}', "extra has a value of a wrong type at registers_1"),
    ("extra", '{"timeline": [[1, 2, 3, 4]]}', "extra has a value of a wrong type at timeline"),
    *(
        ("provenance", json.dumps({"git": {"commit": bad}}), "provenance has a value of a wrong type at git.commit")
        for bad in (7, True, "main", "--help", "c" * 39, "C" * 40, ["c" * 40])
    ),
    *(
        ("provenance", json.dumps({"time": bad}), "provenance has a value of a wrong type at time")
        for bad in ("yesterday", 3, "9999-99-99", "1900-01-01T00:00:00")
    ),
    ("provenance", '{"gpu": {"power_limit_w": "much"}}', "provenance has a value of a wrong type at gpu.power_limit_w"),
    *((name, "a/../b", f"{name} is no name but a path") for name in ("variant", "case", "parent")),
    *((name, "a\x1b[2J", f"{name} has a control character") for name in ("variant", "device_name", "cell_key", "unit")),
    *((name, "a\u202eb", f"{name} has a control character") for name in ("case", "axis", "point", "dtype", "timed")),
    *((name, "x" * 201, f"{name} has 201 letters, 200 at most") for name in ("variant", "device_name", "env_key")),
    *((name, "../x", f"{name} names a file") for name in ("lab", "device", "run")),
    *((name, "x" * 121, f"{name} has 121 letters, 120 at most") for name in ("lab", "device", "run")),
    *((name, "other", f"{name} is none of") for name in ("role", "status", "scale", "device_kind")),
    ("backend", "no/slug", "backend names a file"),
    *((name, None, f"{name} is null") for name in ("status", *REQUIRED)),
    ("reason", NO_TEXT, "reason is not UTF-8"),
]


@pytest.mark.parametrize(("name", "value", "reason"), BAD_VALUES)
def test_a_row_that_breaks_a_rule_is_left_out_with_its_number_and_the_others_stay(
    name: str, value: Any, reason: str
) -> None:
    kind = schema().field(name).type
    values = [WHOLE[name][0].as_py(), value, WHOLE[name][0].as_py()]
    rows = with_column(WHOLE.take([0, 0, 0]), name, pa.array(values, kind))
    read, facts = check(packed(rows))
    assert read[file_check.NUMBER].to_pylist() == [0, 2] and facts.wrong == 1 and not facts.fault
    ((at, message),) = facts.left_out
    assert at == 1 and message.startswith(reason)


def test_a_text_that_is_not_utf_8_is_its_rows_fault_alone() -> None:
    raw = pa.array([b"a", b"\xff\xfe", b"\xed\xa0\x80"], pa.binary())
    rows = with_column(WHOLE.take([0, 0, 0]), "variant", pa.Array.from_buffers(pa.string(), 3, raw.buffers()))
    read, facts = check(packed(rows))
    assert read["variant"].to_pylist() == ["a"] and facts.left_out == (
        (1, "variant is not UTF-8"),
        (2, "variant is not UTF-8"),
    )


@pytest.mark.parametrize("at", [-1, 2**62, -(2**62), 2**63 - 1])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])  # a file has no seconds
def test_a_time_that_is_no_date_is_its_rows_fault_alone(unit: str, at: int) -> None:
    per_second = file_check._PER_SECOND[unit]
    good = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * per_second
    if unit == "ns" and at == 2**62:
        pytest.skip("a date in 2116")
    rows = with_column(WHOLE, "started", pa.array([good, at], pa.timestamp(unit, "UTC")))
    read, facts = check(packed(rows))
    assert read["variant"].to_pylist() == ["a"] and facts.left_out == ((1, "started is no date"),)


def test_what_failed_may_have_any_error_and_no_samples() -> None:
    rows = [
        row(error=bad, status="failed", reason="wrong\x1b", extra='{"a": NaN}', rounds=[3]) for bad in (np.nan, np.inf)
    ]
    read, facts = check(packed(table([failed_row | {"case": f"c{at}"} for at, failed_row in enumerate(rows)])))
    assert facts.whole and len(read) == 2


# -- files that are hostile --------------------------------------------------------------------------------------------

MANY = file_check.MOST_ROWS


def repeated(value: str, count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([value]))


def bomb_of_text() -> pa.Table:
    """Return rows that share one long text through a dictionary."""
    rows = WHOLE.take([0] * MANY)
    return with_column(rows, "extra", repeated('{"a": "' + "x" * 400_000 + '"}', MANY))


def bomb_of_lists() -> pa.Table:
    values = pa.ListArray.from_arrays(
        np.arange(0, 20_000_001, 10_000_000, dtype=np.int32), pa.array(np.ones(20_000_000))
    )
    return with_column(WHOLE, "samples_s", values)


def bomb_of_rows() -> pa.Table:
    return pa.table({"units": np.zeros(MANY + 1, np.int8)})


@pytest.mark.parametrize("bomb", [bomb_of_text, bomb_of_lists, bomb_of_rows])
@pytest.mark.parametrize("compression", ["zstd", pytest.param("gzip", marks=pytest.mark.thorough)])
def test_a_small_file_that_unfolds_is_left_out(bomb: Callable[[], pa.Table], compression: str) -> None:
    data = packed(bomb(), compression=compression, store_schema=False)
    assert len(data) < 1 << 20
    checked = check_file(data)
    assert not len(checked.rows) and checked.facts.fault.startswith(("it unfolds to more", "it claims"))
    assert checked.lasting and check_file(packed(WHOLE)).facts.whole, "the next file is read as usual"


def test_a_file_that_takes_too_long_or_ends_the_process_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal decides whether the fault lasts: one that another process sent is not the fault of the file."""
    process_checker = checker._Checker()
    monkeypatch.setattr(checker, "_checker", lambda process: process_checker)
    for number, lasting, message in (
        (signal.SIGPROF, True, "to check it takes more than"),
        (signal.SIGSEGV, True, "the process that read it was ended by SIGSEGV"),
        (signal.SIGKILL, False, "the process that read it was ended by SIGKILL"),
    ):
        assert check_file(packed(WHOLE)).facts.whole
        assert process_checker._process
        started, ended = process_checker._started, process_checker._process
        monkeypatch.setattr(process_checker, "_started", lambda ended=ended: ended)
        ended.send_signal(number)
        ended.wait()
        checked = check_file(packed(WHOLE))
        monkeypatch.setattr(process_checker, "_started", started)
        assert checked.facts.fault.startswith(message) and checked.lasting == lasting and not len(checked.rows)
    monkeypatch.setattr(checker, "WALL_S", 0.0)
    checked = check_file(packed(WHOLE))
    assert checked.facts.fault.startswith("to check it takes") and not checked.lasting
    process_checker._end()


@pytest.mark.parametrize(
    "text", [b"5", b"{}", b"[[]]", b"nope", b'["x"]', b"\xff", b'["0) union all select 1 --"]', b"[" * 9999]
)
@pytest.mark.parametrize("key", [MERGED_FROM, b"roofbook.unfit_rows", b"roofbook.facts", b"pandas"])
def test_what_metadata_says_is_no_more_than_digests(key: bytes, text: bytes) -> None:
    read, facts = check(packed(WHOLE.replace_schema_metadata({key: text})))
    assert facts.whole and facts.merged_from == () and unchanged(read) == unchanged(WHOLE)


def test_digests_of_a_merge_are_read() -> None:
    facts = check(packed(WHOLE.replace_schema_metadata({MERGED_FROM: json.dumps(["ab" * 16])})))[1]
    assert facts.merged_from == ("ab" * 16,)


some_metadata = st.dictionaries(st.binary(max_size=20), st.binary(max_size=40), max_size=3)


@settings(max_examples=settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), some_metadata)
def test_a_real_file_that_is_cut_or_changed_is_left_out_or_read_by_the_rules(
    data: st.DataObject, metadata: dict[bytes, bytes]
) -> None:
    """The checking process returns valid rows or a reason for any damaged file."""
    source = REAL.read_bytes() if data.draw(st.booleans()) else packed(WHOLE.replace_schema_metadata(metadata))
    content = bytearray(source)
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.none(), st.integers(0, len(content))))
    checked = check_file(bytes(content[:cut]))
    assert isinstance(checked.facts.fault, str) and (not checked.facts.fault or not len(checked.rows))
    again, facts = check(packed(checked.rows.select(list(COLUMNS)).cast(schema())))
    assert len(again) == len(checked.rows) and facts.whole, "rows that passed the check pass it again"


kinds = st.sampled_from([
    pa.int8(), pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.large_string(), pa.binary(), pa.bool_(), pa.date32(),
    pa.timestamp("ns"), pa.decimal128(9, 2), pa.list_(pa.float64()), pa.list_(pa.string()), pa.struct([("a", pa.int8())]),
])  # fmt: skip
names = st.sampled_from([*COLUMNS, "new", "a\x1b[2J", "x" * 300])


@settings(max_examples=settings().max_examples, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(names, kinds, max_size=6), st.booleans())
def test_tables_of_any_types_are_left_out_or_read_by_the_rules(changed: dict[str, pa.DataType], nulls: bool) -> None:
    rows = WHOLE
    for name, kind in changed.items():
        values = pa.nulls(2, kind) if nulls else pa.array([default(kind)] * 2, kind)
        rows = with_column(rows, name, values) if name in rows.column_names else rows.append_column(name, values)
    read, facts = check(packed(rows))
    assert "\x1b" not in facts.fault
    assert bool(facts.fault) or facts.wrong + len(read) == 2
    if set(changed) - set(COLUMNS):
        assert not facts.whole and not set(changed) - set(COLUMNS) & set(read.column_names)


def default(kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return [default(kind.value_type)]
    if pa.types.is_struct(kind):
        return {"a": 1}
    if pa.types.is_boolean(kind):
        return True
    if pa.types.is_binary(kind):
        return b"x"
    if pa.types.is_temporal(kind):
        return datetime(2026, 1, 1)
    return "x" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else 1


# -- in a store --------------------------------------------------------------------------------------------------------


def test_commands_go_on_beside_files_of_all_kinds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(tmp_path / "results")
    (good,) = store.append([verified()])
    os.mkfifo(good.with_name("pipe.parquet"))
    good.with_name("link.parquet").symlink_to("/dev/zero")
    good.with_name("x" * 200 + ".parquet").write_bytes(good.read_bytes())
    good.with_name("new\nline.parquet").write_bytes(good.read_bytes())
    good.with_name("cut.parquet").write_bytes(good.read_bytes()[:-5])
    assert len(store.rows("lbm")) == 1 and store.compact() == []
    messages = capsys.readouterr().err.splitlines()
    assert len(messages) == 5 and all(" is left out: " in line for line in messages)
    assert any("its name has 208 bytes" in line for line in messages) and any(
        "'" in line and "\\n" in line for line in messages
    )
