"""Files that another program or version left in a store: what cannot be read is left out and named, and the rest is read."""

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
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def put(kept: Store, name: str, rows: list[dict[str, Any]], **columns: pa.Array) -> Path:
    """A file of the store that `append` would not write: these columns in place of those of the rows."""
    (path,) = kept.append(rows)
    whole = pq.ParquetFile(path).read()
    for column, values in columns.items():
        whole = whole.set_column(whole.schema.get_field_index(column), column, values)
    pq.write_table(whole, path.with_name(f"{name}.parquet"))
    path.unlink()
    return path.with_name(f"{name}.parquet")


@pytest.mark.parametrize(
    ("at", "why"),
    [(None, "started is null"), *((at, "started is no date") for at in (4 * 10**17, -(10**17), 2**63 - 1))],
)
def test_a_row_of_no_date_is_left_out(
    kept: Store, capsys: pytest.CaptureFixture[str], at: int | None, why: str
) -> None:
    path = put(kept, "odd", [row("odd")], started=pa.array([at], pa.timestamp("us", tz="UTC")))
    kept.append([row()])
    assert kept.latest("lbm")["variant"].tolist() == ["fused"]
    assert f"{path}: row 0 ({why}) is left out" in capsys.readouterr().err


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
@given(st.lists(text.filter(lambda some: not some.startswith("{")) | st.sampled_from(NO_JSON), min_size=1, max_size=5))
def test_a_row_without_its_json_is_left_out_and_stays_in_its_file(texts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        kept = Store(folder)
        rows = [row(f"v{number}") for number in range(len(texts))]
        put(kept, "odd", [*rows, row("sound")], provenance=pa.array([*texts, '{"environment": {"device": {}}}']))
        kept.append([row("good", run="good", extra='{"a": null}')])
        assert variants(kept) == ["good", "sound"]
        assert {state.state for state in kept.states([cell(variant=each["variant"]) for each in rows])} == {"missing"}
        odd = kept.files()[0].with_name("odd.parquet")
        before = odd.read_bytes()
        kept.append([row("again", run="again")])
        (merged,) = kept.compact()
        assert odd.read_bytes() == before and set(kept.files()) == {odd, merged}
        assert variants(kept) == ["again", "good", "sound"]


def test_rows_without_json_are_counted_in_one_warning(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(kept, "odd", [row("a"), row("b"), row("c")], extra=pa.array(["nope", "{}", "[]"]))
    assert variants(kept) == variants(kept) == ["b"] and not kept.rows("lbm", variant=["a", "c"]).size
    said = "row 0 (extra is not the JSON of an object) and row 2 (extra is not the JSON of an object) are left out"
    assert capsys.readouterr().err == f"warning: {path}: {said}\n"


def test_a_bad_file_among_good_ones_is_left_out_and_named_once(
    kept: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.append([row()])
    (good,) = kept.files()
    whole = good.read_bytes()
    middle = bytearray(whole)
    middle[4:200] = b"\xff" * 196
    cut = "it is not a whole Parquet file"

    def holding(content: bytes) -> Callable[[Path], object]:
        return lambda path: path.write_bytes(content)

    broken = (b"", b"PAR1", whole[:-20], b"not parquet at all" * 50, bytes(middle))
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
    for name, (make, why) in bad.items():
        path = good.with_name(f"{name}.parquet")
        make(path)
        assert len(kept.latest("lbm")) == len(kept.query("select * from cells")) == 1, name
        assert kept.compact() == [] and good.exists() and os.path.lexists(path)
        said = capsys.readouterr().err
        assert said == f"warning: {path} is left out: {why}; restore it, or move it out of the store\n"
    assert len(kept.rows("lbm")) == 1 and capsys.readouterr().err == ""
    good.with_name("folder.parquet").rmdir()
    good.with_name("folder.parquet").write_bytes(whole)
    assert len(kept.query("select run from cells")) == 2, "a file that is mended counts again"


def test_a_folder_that_may_not_be_read_is_named_once(
    kept: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.append([row()])
    kept.append([row("closed", device="closed")])
    (closed,) = {path.parent for path in kept.files(device="closed")}
    scan = os.scandir

    def refused(path: Any) -> Any:
        if Path(path) == closed:
            raise PermissionError
        return scan(path)

    monkeypatch.setattr(os, "scandir", refused)  # root may read all
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed)
    assert variants(kept) == variants(kept) == ["fused"] and len(kept.names()) == 1
    assert capsys.readouterr().err == f"warning: {closed} is left out: it may not be read\n"


def test_dot_files_are_ignored_and_removed_when_stale(kept: Store) -> None:
    (path,) = kept.append([row()])
    young, stale, other = (path.with_name(name) for name in (".a.tmp", ".b.tmp", ".c.parquet"))
    for each in (young, stale, other):
        each.write_bytes(b"half")
    os.utime(stale, (time.time() - 90_000,) * 2)
    assert variants(kept) == ["fused"]
    kept.append([row("next")])
    assert (young.exists(), stale.exists()) == (True, False)
    assert variants(kept) == ["fused", "next"]
