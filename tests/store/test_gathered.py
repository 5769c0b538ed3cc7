"""Small files are read as one, and say what they say by themselves; what is kept of them follows what happens to them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofbook import paths
from roofbook.store import files, gathered
from roofbook.store.parquet import Store

from .test_parquet import row


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store whose files are gathered in a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(gathered, "cached", paths.cached)
    return Store(tmp_path / "results")


def fill(kept: Store, first: int, last: int, **fields: Any) -> list[Path]:
    made = []
    for at in range(first, last):
        made += kept.append([row(f"v{at}", at, run=f"r{at:03}", samples_s=[0.5, at], **fields)])
    return made


def read(kept: Store) -> list[dict[str, Any]]:
    return list(kept.arrow("select * from cells order by run, variant").to_pylist())


def by_themselves(kept: Store) -> list[dict[str, Any]]:
    """What the files say where none is gathered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathered, "_MOST_FILES", 0)
        return read(kept)


def of_another_process() -> None:
    gathered._gathered.cache_clear()


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
    gathers = gathered.gathered(kept.files())
    assert {"new.parquet", "null.parquet", "broken.parquet", "odd.parquet"}.isdisjoint(
        path.name for path in gathers.newest
    )
    assert len(gathers.newest) == len(kept.files()) - 4
    assert read(kept) == by_themselves(kept) and len(read(kept)) == 5 + 20 + 2 + 1 + 2 + 1
    files._warned.clear()
    capsys.readouterr()
    of_another_process()
    assert read(kept) == by_themselves(kept)
    said = capsys.readouterr().err
    assert all(f"{name}.parquet" in said for name in ("null", "broken", "odd", "r9")) and said.count("warning") == 4


def test_what_is_known_opens_no_file(kept: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(kept, 0, 2 * gathered._TOGETHER + 3)
    before = read(kept)
    assert in_the_cache(tmp_path) == 2 + 3
    of_another_process()
    opened: list[Path] = []
    opens = pq.ParquetFile

    def told(path: Path) -> pq.ParquetFile:
        opened.append(path)
        return opens(path)

    monkeypatch.setattr(pq, "ParquetFile", told)
    assert read(kept) == before and not opened
    (new,) = fill(kept, 90, 91)
    opened.clear()
    assert len(read(kept)) == len(before) + 1 and set(opened) == {new}
    fill(kept, 91, 90 + gathered._TOGETHER)
    read(kept)
    assert in_the_cache(tmp_path) == 3 + 3, "those that are kept together are kept once"


def test_it_follows_what_happens_to_files(kept: Store, tmp_path: Path) -> None:
    made = fill(kept, 0, gathered._TOGETHER + 2)
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
    fill(kept, 0, gathered._TOGETHER + 1)
    assert len(read(kept)) == gathered._TOGETHER + 1


@pytest.mark.parametrize(("limit", "value"), (("_MOST_FILES", 3), ("_MOST_BYTES", 100)))
def test_what_is_large_is_left_to_duckdb(kept: Store, limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, limit, value)
    fill(kept, 0, 4)
    assert gathered.gathered(kept.files()).rows is None and len(read(kept)) == 4
