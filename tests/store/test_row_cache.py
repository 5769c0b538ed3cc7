"""Files are checked once and read as one, and say what they say by themselves; what is kept follows what happens to them."""

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
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("read_cached", "write_cached"):
        monkeypatch.setattr(row_cache, name, getattr(paths, name))
    return Store(tmp_path / "results")


def fill(kept: Store, first: int, last: int, **fields: Any) -> list[Path]:
    made = []
    for at in range(first, last):
        made += kept.append([row(f"v{at}", at, run=f"r{at:03}", samples_s=[0.5, at + 1], **fields)])
    return made


def read(kept: Store) -> list[dict[str, Any]]:
    return list(kept.arrow("select * from cells order by run, variant").to_pylist())


def by_themselves(kept: Store) -> list[dict[str, Any]]:
    """What the files say where none is kept."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "_memory", {})
        patch.setattr(row_cache, "read_cached", lambda kind, key: None)
        patch.setattr(row_cache, "write_cached", lambda kind, key, content: None)
        return read(kept)


def of_another_process() -> None:
    row_cache._memory.clear()


def in_the_cache(tmp_path: Path) -> int:
    return len(list((tmp_path / "cache").rglob("rows/*")))


def test_rows_of_files_of_all_kinds(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """Older ones without a column, newer ones with one more, one twice, merged ones, broken ones, rows that do not count."""
    fill(kept, 0, 5)
    kept.compact()
    (first, *_, last) = fill(kept, 5, 25, provenance='{"git": {}}', throttle=["power"])
    fill(kept, 25, 27, device="other")
    table = pq.ParquetFile(first).read()
    pq.write_table(table.drop_columns(["throttle"]), first)
    newer = table.set_column(0, "run", pa.array(["newer"])).append_column("new", table["variant"])
    pq.write_table(newer, first.with_name("new.parquet"))
    pq.write_table(table.set_column(0, "run", pa.nulls(1, pa.string())), first.with_name("null.parquet"))
    first.with_name("broken.parquet").write_bytes(first.read_bytes()[:-9])
    (copy := kept.root / "recorded" / last.relative_to(kept.root / "local")).parent.mkdir(parents=True)
    copy.write_bytes(last.read_bytes())
    future = datetime.now(UTC) + timedelta(days=1)
    kept.append([{**row("future", run="r9"), "started": future}, row("now", run="r9", extra="{}")])
    kept.append([row("odd", run="odd"), row("even", run="odd")])
    odd = kept.root / "local/lab=lbm/device=some-cpu/odd.parquet"
    texts = pa.array(["no JSON", "{}"])
    table = pq.ParquetFile(odd).read()
    pq.write_table(table.set_column(table.column_names.index("extra"), "extra", texts), odd)
    facts = row_cache.read_rows(kept.files()).facts
    assert {path.name for path in facts if not facts[path].whole} == {
        *("new.parquet", "null.parquet", "broken.parquet", "odd.parquet")
    }
    assert read(kept) == by_themselves(kept) and len(read(kept)) == 5 + 20 + 2 + 1 + 2 + 1
    files._warned.clear()
    capsys.readouterr()
    of_another_process()
    assert read(kept) == by_themselves(kept)
    said = capsys.readouterr().err
    assert all(f"{name}.parquet" in said for name in ("null", "broken", "odd", "r9")) and said.count("warning") == 4


def test_what_is_known_opens_no_file(kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(kept, 0, 2 * row_cache._FILES_PER_GROUP + 3)
    before = read(kept)
    assert in_the_cache(tmp_path) == 2 + 3
    of_another_process()
    opened: list[Path] = []
    opens = paths.read_regular

    def noted(path: Path, most: int) -> bytes:
        opened.append(path)
        return opens(path, most)

    monkeypatch.setattr(row_cache, "read_regular", noted)
    assert read(kept) == before and not opened
    (new,) = fill(kept, 90, 91)
    assert len(read(kept)) == len(before) + 1 and set(opened) == {new}
    fill(kept, 91, 90 + row_cache._FILES_PER_GROUP)
    assert len(read(kept)) == len(before) + row_cache._FILES_PER_GROUP


def test_it_follows_what_happens_to_files(kept: Store, tmp_path: Path) -> None:
    made = fill(kept, 0, row_cache._FILES_PER_GROUP + 2)
    read(kept)
    made[3].unlink()
    assert read(kept) == by_themselves(kept) and len(read(kept)) == len(made) - 1
    made[4].write_bytes(made[5].read_bytes())
    assert read(kept) == by_themselves(kept)
    kept.compact()
    assert read(kept) == by_themselves(kept)
    for path in (tmp_path / "cache").rglob("rows/*"):
        path.write_bytes(path.read_bytes()[:-7])
    of_another_process()
    assert read(kept) == by_themselves(kept), "a kept file that is torn is made again"


def test_it_is_read_where_nothing_can_be_kept(kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("no folder")
    fill(kept, 0, row_cache._FILES_PER_GROUP + 1)
    assert len(read(kept)) == row_cache._FILES_PER_GROUP + 1


def test_a_file_at_which_the_process_was_killed_is_tried_again(
    kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process did, such as the system for lack of memory, is not kept as if the file were to blame."""
    fill(kept, 0, 2)
    empty = checked_schema().empty_table()
    monkeypatch.setattr(row_cache, "check_file", lambda data: CheckedFile(empty, Facts("killed"), lasting=False))
    assert read(kept) == [] and in_the_cache(tmp_path) == 0
    monkeypatch.setattr(row_cache, "check_file", check_file)
    assert len(read(kept)) == 2
