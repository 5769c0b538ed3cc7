"""The published figures: every one loads, SQL sees the same, and a broken file is refused by line."""

import csv
from pathlib import Path

import numpy as np
import pytest

from roofbook.errors import UsageError
from roofbook.store import published_results
from roofbook.store.parquet import Store

RESULTS = Path(__file__).parents[2] / "results"
LABS = sorted(path.stem for path in (RESULTS / "published").glob("*.csv"))
HEADER = ",".join(published_results.FIGURES)


def test_all_published_figures_load_as_numbers() -> None:
    total = 0
    for lab in LABS:
        with (RESULTS / "published" / f"{lab}.csv").open(newline="") as file:
            lines = sum(1 for _ in csv.reader(file)) - 1
        table = published_results.figures(lab, RESULTS)
        assert len(table) == lines and table["value"].dtype == np.float64
        assert np.isfinite(table["value"]).all()
        timed = table["unit"].isin(list(published_results.SECONDS))
        assert (table["seconds"].notna() == timed).all()
        total += lines
    assert total >= 517, "those of the first five labs"


def test_text_fields_stay_text_and_times_become_seconds() -> None:
    table = published_results.figures("lenet", RESULTS)
    assert "" in set(table["unit"]) and set(table["table"]) >= {"1", "2-3"}
    first = table.iloc[0]
    assert first["unit"] == "ms" and first["seconds"] == pytest.approx(first["value"] / 1000)
    assert first["line"] == 2


def test_claims_have_effects() -> None:
    claimed = published_results.labs_with_claims(RESULTS)
    assert set(claimed) <= set(LABS)
    assert sum(len(published_results.claims(lab, RESULTS)) for lab in claimed) >= 80, "those of the first five labs"
    by_id = published_results.claims("lbm", RESULTS).set_index("id")["effects"]
    assert by_id["port"] == (9.45, 18.30, 16.34) and by_id["shape"] == () and by_id["bandwidth"] == (0.26, 0.61, 0.7)


def test_unknown_lab_lists_the_valid_ones() -> None:
    for read in (published_results.figures, published_results.claims):
        with pytest.raises(UsageError, match=rf"did you mean 'lbm'.*{', '.join(LABS)}"):
            read("lbn", RESULTS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("table,variant,case\n", "line 1: columns are"),
        (f"{HEADER}\n1,a,c,d,time,s,,1.0\n1,a,c,d,time,s,,fast\n", "line 3: value is 'fast'; expected a finite number"),
        (f"{HEADER}\n1,a,c,d,time,s,,nan\n", "line 2: value is 'nan'"),
        (f"{HEADER}\n1,a,c,d,time,s,,\n", "line 2: value is empty"),
        (f"{HEADER}\n1,,c,d,time,s,,1\n", "line 2: variant is empty"),
        (f"{HEADER}\n1,a,c,d,time,s,1\n", "line 2: 7 fields; expected 8"),
        ("", "line 1: columns are ''"),
    ],
)
def test_a_broken_file_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "lbm.csv").write_text(text)
    with pytest.raises(UsageError, match=message) as caught:
        published_results.figures("lbm", tmp_path)
    assert "\n" not in str(caught.value) and "lbm.csv" in str(caught.value)


@pytest.mark.parametrize("raw", [b"table,\xff\n", f"{HEADER}\n".encode() + b"x" * 200_000])
def test_a_file_that_is_no_csv_is_named(tmp_path: Path, raw: bytes) -> None:
    for file, read in (("lbm.csv", published_results.figures), ("claims/lbm.csv", published_results.claims)):
        path = tmp_path / "published" / file
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(
            raw.replace(HEADER.encode(), ",".join(published_results.CLAIMS).encode()) if "/" in file else raw
        )
        with pytest.raises(UsageError, match=rf"{file} is no CSV file in UTF-8: [^\n]+$"):
            read("lbm", tmp_path)


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "lbm.csv").write_text(f"\ufeff{HEADER}\n1,a,c,d,time,s,,1.0\n", encoding="utf-8")
    assert len(published_results.figures("lbm", tmp_path)) == 1


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no CSV files"):
        published_results.figures("lbm", tmp_path)
    with pytest.raises(UsageError, match="no CSV files"):
        published_results.claims("lbm", tmp_path)


def test_sql_sees_what_the_tables_see_and_an_empty_field_as_null(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    folder.mkdir()
    (folder / "lbm.csv").write_text(f"{HEADER}\n1,a,,d,speedup,,2,1e3\n1,b,c,d,time,ms,,2.50\n")
    figures = Store(tmp_path).query("select * from published").to_dict("records")
    assert [list(row.values()) for row in figures][1][:7] == ["lbm", "1", "b", "c", "d", "time", "ms"]
    assert [(row["value"], row["number"]) for row in figures] == [("1e3", 1000.0), ("2.50", 2.5)]
    absent = Store(tmp_path).query(
        'select count(*) as n from published where "case" is null and unit is null and trial = 2'
    )
    assert absent["n"][0] == 1, "an empty field is null, and a trial is an integer"
    (folder / "lbm.csv").write_text(f"{HEADER}\n1,a,c,d,time,s,,fast\n")
    with pytest.raises(UsageError, match="line 2: value is 'fast'"):
        Store(tmp_path).query("select * from published")
