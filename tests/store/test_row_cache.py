"""The cache of checked rows gives the same rows as the files, follows their changes, and opens no unchanged file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofbook import paths
from roofbook.store import files, row_cache
from roofbook.store.checker import CheckedFile, check_file
from roofbook.store.file_check import Facts, checked_schema
from roofbook.store.parquet import Store

from .test_parquet import row


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("read_cached", "write_cached"):
        monkeypatch.setattr(row_cache, name, getattr(paths, name))
    return Store(tmp_path / "results")


def fill(store: Store, first: int, last: int, **fields: Any) -> list[Path]:
    paths = []
    for at in range(first, last):
        paths += store.append([row(f"v{at}", at, run=f"r{at:03}", samples_s=[0.5, at + 1], **fields)])
    return paths


def read(store: Store) -> list[dict[str, Any]]:
    return list(store.arrow("select * from cells order by run, variant").to_pylist())


def read_uncached(store: Store) -> list[dict[str, Any]]:
    """Return the rows without any cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "_memory", {})
        patch.setattr(row_cache, "read_cached", lambda kind, key: None)
        patch.setattr(row_cache, "write_cached", lambda kind, key, content: None)
        return read(store)


def forget_memory() -> None:
    row_cache._memory.clear()


def cached_files(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache").rglob("rows/*")))


def test_rows_of_files_of_all_kinds(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Older ones without a column, newer ones with one more, one twice, merged ones, broken ones, rows that do not count."""
    fill(store, 0, 5)
    store.compact()
    (first, *_, last) = fill(store, 5, 25, provenance='{"git": {}}', throttle=["power"])
    fill(store, 25, 27, device="other")
    table = pq.ParquetFile(first).read()
    pq.write_table(table.drop_columns(["throttle"]), first)
    newer = table.set_column(0, "run", pa.array(["newer"])).append_column("new", table["variant"])
    pq.write_table(newer, first.with_name("new.parquet"))
    pq.write_table(table.set_column(0, "run", pa.nulls(1, pa.string())), first.with_name("null.parquet"))
    first.with_name("broken.parquet").write_bytes(first.read_bytes()[:-9])
    (copy := store.root / "recorded" / last.relative_to(store.root / "local")).parent.mkdir(parents=True)
    copy.write_bytes(last.read_bytes())
    future = datetime.now(UTC) + timedelta(days=1)
    store.append([{**row("future", run="r9"), "started": future}, row("now", run="r9", extra="{}")])
    store.append([row("odd", run="odd"), row("even", run="odd")])
    odd = store.root / "local/lab=lbm/device=some-cpu/odd.parquet"
    texts = pa.array(["no JSON", "{}"])
    table = pq.ParquetFile(odd).read()
    pq.write_table(table.set_column(table.column_names.index("extra"), "extra", texts), odd)
    facts = row_cache.read_rows(store.stamps()).facts
    assert {path.name for path in facts if not facts[path].whole} == {
        *("new.parquet", "null.parquet", "broken.parquet", "odd.parquet")
    }
    assert read(store) == read_uncached(store) and len(read(store)) == 5 + 20 + 2 + 1 + 2 + 1
    files._warned.clear()
    capsys.readouterr()
    forget_memory()
    assert read(store) == read_uncached(store)
    warnings = capsys.readouterr().err
    assert (
        all(f"{name}.parquet" in warnings for name in ("null", "broken", "odd", "r9"))
        and warnings.count("warning") == 4
    )


def test_cached_files_are_not_opened(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(store, 0, 2 * row_cache._FILES_PER_GROUP + 3)
    before = read(store)
    assert cached_files(tmp_path) == 2 + 3
    forget_memory()
    opened: list[Path] = []
    opens = paths.read_regular

    def noted(path: Path, most: int) -> bytes:
        opened.append(path)
        return opens(path, most)

    monkeypatch.setattr(row_cache, "read_regular", noted)
    assert read(store) == before and not opened
    (new,) = fill(store, 90, 91)
    assert len(read(store)) == len(before) + 1 and set(opened) == {new}
    fill(store, 91, 90 + row_cache._FILES_PER_GROUP)
    assert len(read(store)) == len(before) + row_cache._FILES_PER_GROUP


def test_the_cache_follows_changes_of_files(store: Store, tmp_path: Path) -> None:
    paths = fill(store, 0, row_cache._FILES_PER_GROUP + 2)
    read(store)
    paths[3].unlink()
    assert read(store) == read_uncached(store) and len(read(store)) == len(paths) - 1
    paths[4].write_bytes(paths[5].read_bytes())
    assert read(store) == read_uncached(store)
    store.compact()
    assert read(store) == read_uncached(store)
    for path in (tmp_path / "cache").rglob("rows/*"):
        path.write_bytes(path.read_bytes()[:-7])
    forget_memory()
    assert read(store) == read_uncached(store), "a damaged file of the cache is written again"


def test_rows_are_read_if_the_cache_cannot_be_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("no folder")
    fill(store, 0, row_cache._FILES_PER_GROUP + 1)
    assert len(read(store)) == row_cache._FILES_PER_GROUP + 1


def test_a_file_at_which_the_process_was_killed_is_tried_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill from outside, as for lack of memory, is not the fault of the file, so the outcome is not cached."""
    fill(store, 0, 2)
    empty = checked_schema().empty_table()
    monkeypatch.setattr(row_cache, "check_file", lambda data: CheckedFile(empty, Facts("killed"), lasting=False))
    assert read(store) == [] and cached_files(tmp_path) == 0
    monkeypatch.setattr(row_cache, "check_file", check_file)
    assert len(read(store)) == 2
