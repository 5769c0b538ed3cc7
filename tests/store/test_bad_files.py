"""Invalid files and rows in a store are left out with a warning, and the rest is read."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.store import file_check
from roofbook.store.parquet import Store
from roofbook.store.schema import REQUIRED

from .test_parquet import cell, row, text, variants


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def put(store: Store, name: str, rows: list[dict[str, Any]], **columns: pa.Array) -> Path:
    """Write a file that `append` would not write: the rows, with these columns replaced. Return its path."""
    (path,) = store.append(rows)
    stored = pq.ParquetFile(path).read()
    for column, values in columns.items():
        stored = stored.set_column(stored.schema.get_field_index(column), column, values)
    pq.write_table(stored, path.with_name(f"{name}.parquet"))
    path.unlink()
    return path.with_name(f"{name}.parquet")


@pytest.mark.parametrize(
    ("at", "reason"),
    [(None, "started is null"), *((at, "started is no date") for at in (4 * 10**17, -(10**17), 2**63 - 1))],
)
def test_a_row_of_no_date_is_left_out(
    store: Store, capsys: pytest.CaptureFixture[str], at: int | None, reason: str
) -> None:
    path = put(store, "odd", [row("odd")], started=pa.array([at], pa.timestamp("us", tz="UTC")))
    store.append([row()])
    assert store.rows("lbm")["variant"].tolist() == ["fused"]
    assert f"{path}: row 0 ({reason}) is left out" in capsys.readouterr().err


NO_JSON = [
    "",
    "nope",
    "{",
    '{"a": 1,}',
    "[1]",
    "null",
    "[" * 5000,
    '{"environment": 3}',
    '{"git": "x"}',
    '{"environment": {"device": []}}',
]


@settings(max_examples=15)
@given(st.lists(text.filter(lambda t: not t.startswith("{")) | st.sampled_from(NO_JSON), min_size=1, max_size=5))
def test_a_row_without_its_json_is_left_out_and_stays_in_its_file(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        rows = [row(f"v{number}") for number in range(len(texts))]
        put(store, "odd", [*rows, row("sound")], provenance=pa.array([*texts, '{"environment": {"device": {}}}']))
        store.append([row("good", run="good", extra='{"a": null}')])
        assert variants(store) == ["good", "sound"]
        assert {state.state for state in store.states([cell(variant=r["variant"]) for r in rows])} == {"missing"}
        odd = store.files()[0].with_name("odd.parquet")
        before = odd.read_bytes()
        store.append([row("again", run="again")])
        (merged,) = store.compact()
        assert odd.read_bytes() == before and set(store.files()) == {odd, merged}
        assert variants(store) == ["again", "good", "sound"]


def test_rows_without_json_are_counted_in_one_warning(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(store, "odd", [row("a"), row("b"), row("c")], extra=pa.array(["nope", "{}", "[]"]))
    assert variants(store) == variants(store) == ["b"] and not store.rows("lbm", variant=["a", "c"]).size
    message = "row 0 (extra is not the JSON of an object) and row 2 (extra is not the JSON of an object) are left out"
    assert capsys.readouterr().err == f"warning: {path}: {message}\n"


def test_a_bad_file_among_good_ones_is_left_out_and_named_once(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store.append([row()])
    (good,) = store.files()
    stored = good.read_bytes()
    middle = bytearray(stored)
    middle[4:200] = b"\xff" * 196
    cut = "it is not a whole Parquet file"

    def holding(content: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(content)

    broken = (b"", b"PAR1", stored[:-20], b"not parquet at all" * 50, bytes(middle))
    bad = {f"broken{number}": (holding(content), cut) for number, content in enumerate(broken)}
    strings = pa.table({**{name: ["x"] for name in REQUIRED}})
    bomb = pa.table({name: pa.array(np.zeros(file_check.MOST_ROWS + 1, np.int8)) for name in ("units",)})
    bad |= {
        "folder": (Path.mkdir, "it is no file"),
        "fifo": (os.mkfifo, "it is no file"),
        "gone": (lambda path: path.symlink_to("nowhere"), "it cannot be reached"),
        "loop": (lambda path: path.symlink_to(path.name), "it cannot be reached"),
        "text": (
            lambda path: pq.write_table(strings, path),
            "its column 'started' is string, not timestamp[us, tz=UTC]",
        ),
        "other": (lambda path: pq.write_table(pa.table({"a": [1]}), path), "it has no column 'run'"),
        "bomb": (
            lambda path: pq.write_table(bomb, path),
            f"it claims {file_check.MOST_ROWS + 1} rows, {file_check.MOST_ROWS} at most",
        ),
    }
    for name, (make, reason) in bad.items():
        path = good.with_name(f"{name}.parquet")
        make(path)
        assert len(store.rows("lbm")) == len(store.query("select * from cells")) == 1, name
        assert store.compact() == [] and good.exists() and os.path.lexists(path)
        message = capsys.readouterr().err
        assert message == f"warning: {path} is left out: {reason}; restore it, or move it out of the store\n"
    assert len(store.rows("lbm")) == 1 and capsys.readouterr().err == ""
    good.with_name("folder.parquet").rmdir()
    good.with_name("folder.parquet").write_bytes(stored)
    assert len(store.query("select run from cells")) == 2, "a repaired file counts again"


def test_a_folder_that_may_not_be_read_is_named_once(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store.append([row()])
    store.append([row("closed", device="closed")])
    (closed,) = {path.parent for path in store.files(device="closed")}
    scan = os.scandir

    def refused(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)  # root may read all
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    assert variants(store) == variants(store) == ["fused"] and len(store.names()) == 1
    assert capsys.readouterr().err == f"warning: {closed} is left out: it may not be read\n"


def test_dot_files_are_ignored_and_removed_when_stale(store: Store) -> None:
    (path,) = store.append([row()])
    young, stale, foreign = (path.with_name(name) for name in (".a.tmp", ".b.tmp", ".c.parquet"))
    for file in (young, stale, foreign):
        file.write_bytes(b"half")
    os.utime(stale, (time.time() - 90_000,) * 2)
    assert variants(store) == ["fused"]
    store.append([row("next")])
    assert (young.exists(), stale.exists()) == (True, False)
    assert variants(store) == ["fused", "next"]
