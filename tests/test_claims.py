"""The published figures: every one loads, and a broken file is refused by line."""

import csv
from pathlib import Path

import numpy as np
import pytest

from roofbook import claims
from roofbook.errors import UsageError

RESULTS = Path(__file__).parents[1] / "results"
LABS = sorted(path.stem for path in (RESULTS / "published").glob("*.csv") if path.stem != "claims")
HEADER = ",".join(claims.FIGURES)


def test_all_published_figures_load_as_numbers() -> None:
    total = 0
    for lab in LABS:
        with (RESULTS / "published" / f"{lab}.csv").open(newline="") as file:
            lines = sum(1 for _ in csv.reader(file)) - 1
        table = claims.published(lab, RESULTS)
        assert len(table) == lines and table["value"].dtype == np.float64
        assert np.isfinite(table["value"]).all()
        timed = table["unit"].isin(list(claims.SECONDS))
        assert (table["seconds"].notna() == timed).all()
        total += lines
    assert total == 517


def test_text_fields_stay_text_and_times_become_seconds() -> None:
    table = claims.published("lenet", RESULTS)
    assert "" in set(table["unit"]) and set(table["table"]) >= {"1", "2-3"}
    first = table.iloc[0]
    assert first["unit"] == "ms" and first["seconds"] == pytest.approx(first["value"] / 1000)
    assert first["line"] == 2


def test_speedups_and_best() -> None:
    table = claims.published("lbm", RESULTS)
    faster = claims.speedups(table)
    assert list(faster.columns) == ["table", "variant", "case", "device", "speedup"]
    assert faster[faster["table"] == "17"]["speedup"].tolist() == [176.2, 384.5, 426.1]
    best = claims.best(table, "256x256")
    assert best["seconds"] == 0.52 and best["device"] == "Tesla V100"
    with pytest.raises(UsageError, match="256x256"):
        claims.best(table, "256 squared")


def test_claims_have_effects() -> None:
    everything = [claims.claims(lab, RESULTS) for lab in LABS]
    assert sum(map(len, everything)) == sum(1 for _ in (RESULTS / "published" / "claims.csv").open()) - 1
    by_id = claims.claims("lbm", RESULTS).set_index("id")["effects"]
    assert by_id["port"] == (9.45, 18.30, 16.34) and by_id["shape"] == () and by_id["bandwidth"] == (0.26, 0.61, 0.7)


def test_unknown_lab_lists_the_valid_ones() -> None:
    for read in (claims.published, claims.claims):
        with pytest.raises(UsageError, match=r"cnn.*lbm.*did you mean 'lbm'"):
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
        claims.published("lbm", tmp_path)
    assert "\n" not in str(caught.value) and "lbm.csv" in str(caught.value)


def test_no_folder_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no CSV files"):
        claims.published("lbm", tmp_path)
    with pytest.raises(UsageError, match="no such file"):
        claims.claims("lbm", tmp_path)
