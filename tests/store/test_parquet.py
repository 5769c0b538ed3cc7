"""Rows go in and come out whole, what is bad is left out and named, and the store tells each cell's state."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.analysis import fastest_variant, readings
from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.store import identity, parquet, schema
from roofbook.store.parquet import Store

LIB = str(Path(parquet.__file__).parents[2])
PUBLISHED = Path(__file__).parents[2] / "results" / "published"
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(variant: str = "fused", minute: int = 0, **fields: Any) -> dict[str, Any]:
    """A row with all that is required."""
    return {
        "run": "20260101T000000Z-0a1b2c",
        "started": START + timedelta(minutes=minute),
        "lab": "lbm",
        "variant": variant,
        "case": "128x128",
        "role": "step",
        "device": "some-cpu",
        "backend": "opencl",
        "policy": "{}",
        "cell_key": "cell",
        "env_key": "env",
        "status": "ok",
        **fields,
    }


def cell(**fields: Any) -> dict[str, Any]:
    """Today's cell, for states."""
    names = ("lab", "variant", "case", "backend", "device", "cell_key", "env_key")
    return {name: row()[name] for name in names} | fields


def variants(kept: Store) -> list[str]:
    return sorted(kept.query("select variant from cells")["variant"])


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def test_keys_are_canonical() -> None:
    assert identity.cell_key({"b": [1, "x"], "a": None}) == identity.cell_key({"a": None, "b": (1, "x")})
    assert identity.cell_key({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest() == identity.env_key({"a": 1})
    assert identity.cell_key({"a": "1"}) != identity.cell_key({"a": 1})
    with pytest.raises(ValueError, match="JSON"):
        identity.cell_key({"a": float("nan")})


def test_run_ids_sort_by_time_and_differ() -> None:
    ids = {identity.new_run_id() for _ in range(20)}  # of 2^24: 200 would collide once in 800 times
    assert len(ids) == 20
    assert all(datetime.strptime(each[:16], "%Y%m%dT%H%M%SZ") and len(each) == 23 for each in ids)


def test_import_is_light() -> None:
    heavy = "('pandas', 'duckdb', 'pyarrow', 'numpy')"
    text = f"import sys, roofbook.store.parquet; print([m for m in {heavy} if m in sys.modules])"
    child = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": LIB}
    )
    assert child.stdout.strip() == "[]"


def test_empty_store_has_empty_tables(kept: Store) -> None:
    assert list(kept.query("select * from cells").columns) == list(schema.SCHEMA.names)
    assert kept.query('select lab, "table", "case", trial, value, number from published').empty
    assert kept.query("select id, published_effect from claims").empty
    assert kept.latest("lbm").empty
    assert kept.rows("lbm", device="x").empty
    assert not any((kept.files(), kept.compact(), kept.append([]), kept.states([])))
    assert kept.state(**cell())[:2] == ("missing", "never measured on some-cpu by opencl")
    assert not kept.root.exists()


def test_layout_and_defaults(kept: Store) -> None:
    one = row(samples_s=[1.0, 2.0], rounds=np.array([0, 1]), parent=None, units=200)
    paths = kept.append([one, row("other", device="gpu")]) + kept.append([row("later", 1)])
    assert [str(path.relative_to(kept.root)) for path in paths] == [
        "local/lab=lbm/device=some-cpu/20260101T000000Z-0a1b2c.parquet",
        "local/lab=lbm/device=gpu/20260101T000000Z-0a1b2c.parquet",
        "local/lab=lbm/device=some-cpu/20260101T000000Z-0a1b2c.2.parquet",
    ]
    assert kept.append([row("recorded")], "recorded")[0].parts[-4] == "recorded"
    assert variants(kept) == ["fused", "later", "other", "recorded"]
    read = kept.latest("lbm", variant="fused").iloc[0]
    assert list(read.index) == list(schema.SCHEMA.names)
    assert list(read["samples_s"]) == [1, 2]
    assert (list(read["rounds"]), list(read["throttle"]), read["units"]) == ([0, 1], [], 200)
    assert list(read["wall_s"]) == [] and read["started"] == START
    assert not [path for path in kept.root.rglob(".*")]


@pytest.mark.parametrize(
    ("provenance", "part"),
    [
        ({"git": {"commit": "1" * 40, "dirty": False}}, "recorded"),
        ({"git": {"commit": "1" * 40, "dirty": None}}, "recorded"),
        ({"git": {"commit": "1" * 40, "dirty": True}}, "local"),
        ({"git": None}, "local"),
        ({}, "recorded"),
    ],
)
def test_rows_that_no_commit_stands_for_stay_local(kept: Store, provenance: dict[str, Any], part: str) -> None:
    files = kept.append([row(provenance=json.dumps(provenance)), row("other", device="gpu")], "recorded")
    assert [path.parts[-4] for path in files] == [part, "recorded"]


def test_a_store_of_one_part_reads_that_alone(kept: Store) -> None:
    kept.append([row("mine")])
    kept.append([row("ours", 1)], "recorded")
    ours = Store(kept.root, ["recorded"])
    assert variants(ours) == ["ours"] and variants(kept) == ["mine", "ours"]
    assert (
        ours.state(**cell(variant="mine")).state == "missing" and kept.state(**cell(variant="mine")).state != "missing"
    )
    assert variants(ours) == list(ours.query("select variant from cells")["variant"])
    assert list(ours.rows("lbm", parts=["local"])["variant"]) == ["mine"]


letters = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"], exclude_characters="/\\")
names = st.text(letters, min_size=1, max_size=20).filter(lambda said: said.strip() and not said.startswith("."))
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
times = st.floats(min_value=0, exclude_min=True, allow_infinity=False)
sampled = st.lists(st.tuples(times, times, st.integers(0, 2**31 - 1)), max_size=30)
rows_of_any_kind = st.fixed_dictionaries(
    {"variant": names, "case": names, "sampled": sampled},
    optional={
        "policy": st.sampled_from(["{}", '{"cache": "warm", "seed": 20}']),
        "parent": st.none() | names,
        "reason": st.none() | text,
        "throttle": st.lists(names, max_size=3),
        "units": st.none() | st.integers(1, 2**53),
        "flops": st.none() | st.floats(0, allow_infinity=False),
        "extra": st.none() | text.map(lambda said: json.dumps({"said": said}, ensure_ascii=False)),
    },
)


@settings(max_examples=40)
@given(st.lists(rows_of_any_kind, min_size=1, max_size=5))
def test_round_trip(fields: list[dict[str, Any]]) -> None:
    columns = ("samples_s", "wall_s", "rounds")
    rows = []
    for minute, given_fields in enumerate(fields):
        drawn = given_fields.pop("sampled")
        rows.append(
            row(minute=minute) | given_fields | {name: [each[at] for each in drawn] for at, name in enumerate(columns)}
        )
    with tempfile.TemporaryDirectory() as folder:
        kept = Store(folder)
        kept.append(rows)
        read = kept.arrow("select * from cells order by started").to_pylist()
    for was, now in zip(rows, read, strict=True):
        lists = ("samples_s", "wall_s", "rounds", "clock_mhz", "temperature_c", "throttle", "sample_throttle")
        empty: dict[str, Any] = {name: [] for name in lists}
        assert now["started"] == was["started"]
        whole = dict.fromkeys(schema.SCHEMA.names) | empty | was | {"started": now["started"]}
        assert repr(now) == repr({name: whole[name] for name in now})  # repr, since NaN is not equal to itself


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"vairant": "x"}, "did you mean 'variant'"),
        ({"cell_key": None}, "lacks 'cell_key'"),
        ({"lab": "../lbm"}, "names a file"),
        ({"device": ""}, "names a file"),
        ({"run": ".hidden"}, "names a file"),
        ({"status": "fine"}, "status is none of ok, failed"),
        ({"role": "guest"}, "role is none of step,"),
        ({"scale": "huge"}, "scale is none of quick,"),
        ({"backend": "an/abacus"}, "backend names a file"),
        ({"policy": "warm"}, "policy is not the JSON of an object"),
        ({"variant": "a\x1b[2J"}, "variant has a control character"),
        ({"variant": "../../etc"}, "variant is no name but a path"),
        ({"case": "x" * 201}, "case has 201 letters, 200 at most"),
        ({"samples_s": [1.0, 0.0]}, "samples_s has a value that is no time"),
        ({"samples_s": [1.0, 2.0], "rounds": [0]}, "rounds and samples_s have different lengths"),
        ({"provenance": '{"git": {"commit": 7}}'}, "provenance has a value of a wrong type at git.commit"),
        ({"started": datetime(2026, 1, 1)}, "time zone"),
        ({"started": "now"}, "time zone"),
        ({"extra": "none"}, "extra is not the JSON of an object"),
        ({"provenance": '{"environment": []}'}, "provenance has a value of a wrong type at environment"),
        ({"samples_s": "1.0"}, "field 'samples_s' must be list"),
        ({"samples_s": [None, "x"]}, "field 'samples_s' must be list"),
        ({"flops": "many"}, "field 'flops' must be double"),
        ({"rounds": [2**31]}, "field 'rounds' must be list"),
        ({"variant": 3}, "field 'variant' must be string"),
        ({"variant": "\ud800"}, "field 'variant' must be string"),
    ],
)
def test_wrong_rows_are_refused_whole(kept: Store, fields: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        kept.append([row("good"), row("bad", lab="stencil") | fields])
    assert "\n" not in str(caught.value)
    assert not kept.root.exists()


def test_one_measurement_is_one_row(kept: Store) -> None:
    with pytest.raises(UsageError, match="same measurement"):
        kept.append([row(), row()])
    kept.append([row(), row(role="again"), row(policy='{"cache": "warm"}'), row(minute=1)])
    assert len(kept.rows("lbm")) == 4


@pytest.mark.usefixtures("listens")
def test_ctrl_c_within_a_query_is_ctrl_c(kept: Store) -> None:
    """DuckDB makes an error of its own of it. The query ends after some seconds even where it is not interrupted."""
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        kept.query("select sum(a.range * b.range) as total from range(10000000) a, range(150) b")
    timer.join()


def test_ctrl_c_in_python_that_duckdb_calls_is_ctrl_c(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB makes another error of it: rows that are in memory it asks Python for."""
    from pyarrow import RecordBatchReader, table

    def claims(_: Path) -> Any:
        batches = iter(Mock(side_effect=KeyboardInterrupt), None)
        return RecordBatchReader.from_batches(table({"lab": ["lbm"]}).schema, batches)

    monkeypatch.setitem(parquet._VIEWS_OF_CSV, "claims", claims)
    with pytest.raises(KeyboardInterrupt):
        kept.query("select lab from claims")
    with pytest.raises(UsageError, match=r"the store cannot answer: Binder Error: .*KeyboardInterrupt"):
        kept.query("select KeyboardInterrupt from cells")


def test_an_answer_is_kept_until_a_file_comes_goes_or_changes(kept: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    ask = Store._ask

    def counted(*given: Any) -> Any:
        nonlocal asked
        asked += 1
        return ask(*given)

    monkeypatch.setattr(Store, "_ask", counted)

    def known() -> tuple[int, int]:
        found = kept.rows("lbm", case="128x128")
        found["variant"] = "mine"  # a reader may write to what it got
        return asked, len(found)

    (first,) = kept.append([row()])
    assert known() == known() == (1, 1) and list(kept.rows("lbm", case="128x128")["variant"]) == ["fused"]
    (second,) = kept.append([row(run="20260101T000000Z-0a1b2d", minute=1)])
    assert known() == known() == (2, 2)
    second.unlink()
    assert known() == (2, 1), "as before"
    kept.append([row("soa", run="20260101T000000Z-0a1b2e", minute=2)])
    moved = kept.files("lbm")[-1]
    os.replace(moved, first)
    assert known() == known() == (3, 1), "a file of the same name and other content"
    for case in map(str, range(parquet._MOST_ANSWERS)):
        kept.rows("lbm", case=case)
    assert len(kept._answers) == parquet._MOST_ANSWERS and known() == (4 + parquet._MOST_ANSWERS, 1)
    before = asked
    for _ in range(2):
        assert kept.query("select count(*) as n from cells")["n"][0] == 1
    assert asked == before + 2, "what a reader asks may be of the clock, or of files that are not ours"


def test_wrong_places_columns_and_sql(kept: Store, tmp_path: Path) -> None:
    kept.append([row()])
    for wrong in (
        lambda: kept.append([row()], "nowhere"),  # type: ignore[arg-type]
        lambda: kept.compact("nowhere"),  # type: ignore[arg-type]
        lambda: kept.latest("lbm", dev="x"),
        lambda: kept.rows("lbm", samples_s="x"),
        lambda: kept.query("select nope from cells"),
        lambda: kept.query("selec"),
        lambda: kept.query("-- nothing"),
    ):
        with pytest.raises(UsageError) as caught:
            wrong()
        assert "\n" not in str(caught.value)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be kept"):
        Store(tmp_path / "file").append([row()])


@pytest.mark.parametrize(
    "sql",
    [
        "select * from read_csv('{other}')",
        "select * from '{other}'",
        "select content from read_text('{other}')",
        "select * from glob('{folder}/*')",
        "select * from sniff_csv('{other}')",
        "select * from read_parquet('https://example.org/a.parquet')",
        "copy (select 1) to '{folder}/new.csv'",
        "copy (select 1) to '{own}'",
        "copy (pivot cells on variant using count(*)) to '{own}'",
        "explain analyze copy (select 1) to '{own}'",
        "select 1; copy (select 1) to '{own}'",
        "attach '{folder}/new.db'",
        "export database '{folder}/new'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set allowed_paths = ['{other}']",
    ],
)
def test_sql_reads_the_views_alone_and_writes_nothing(kept: Store, tmp_path: Path, sql: str) -> None:
    (own,) = kept.append([row()])
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    before = own.read_bytes(), sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as refused:
        kept.query(sql.format(own=own, other=other, folder=tmp_path))
    assert "\n" not in str(refused.value)
    assert (own.read_bytes(), sorted(tmp_path.rglob("*"))) == before
    assert len(kept.query("from (pivot cells on variant using count(*))")) == 1, "which is several statements to DuckDB"


def test_odd_folder_names(tmp_path: Path) -> None:
    kept = Store(tmp_path / "it's [a] *store*?")
    kept.append([row()])
    shutil.copytree(PUBLISHED, kept.root / "published")
    assert variants(kept) == ["fused"]
    assert len(kept.query("select * from published")) > 500


def test_columns_of_other_versions(kept: Store) -> None:
    """A file with a column less and one more is read beside the others, without what only another version knows."""

    (path,) = kept.append([row()])
    old = pq.ParquetFile(path).read().drop_columns(["throttle"])
    pq.write_table(old.append_column("new", old["variant"]), path.with_name("old.parquet"))
    kept.append([row("now", 1)])
    path.unlink()
    read = kept.query("select variant, throttle from cells order by started")
    assert read["throttle"].iloc[0] is None and variants(kept) == ["fused", "now"]
    kept.append([row("last", 2)])
    (merged,) = kept.compact()
    old = path.with_name("old.parquet")
    assert set(kept.files()) == {old, merged} and "new" in pq.ParquetFile(old).schema_arrow.names, (
        "nothing of it is lost"
    )


def test_published_figures(kept: Store) -> None:
    shutil.copytree(PUBLISHED, kept.root / "published")
    read = kept.query('select * from published where lab = ? and "case" = ?', ["lbm", "128x128"])
    header = (PUBLISHED / "lbm.csv").read_text().splitlines()[0].split(",")
    assert list(read.columns) == ["lab", *header, "number"]
    first = read[read["variant"] == "given program, some kernels in OpenCL"].iloc[0]
    assert (first["value"], first["number"]) == ("45.633", 45.633)
    whole = kept.query("select count(*) as n, count(number) as numbers from published").iloc[0]
    lines = sum(len(path.read_text().splitlines()) - 1 for path in PUBLISHED.glob("*.csv"))
    assert whole["n"] == whole["numbers"] == lines
    claims = kept.query("select lab, id, claim, published_effect, shown_by from claims")
    for lab, mine in claims.groupby("lab"):
        assert len(mine) == len((PUBLISHED / "claims" / f"{lab}.csv").read_text().splitlines()) - 1
    assert set(claims["lab"]) == {path.stem for path in (PUBLISHED / "claims").glob("*.csv")}


def test_latest_and_rows(kept: Store) -> None:
    kept.append([row(minute=5, reason="new"), row("tiled", 1), row(minute=5, case="odd"), row(role="again")])
    kept.append([row(minute=3, reason="old"), row("tiled", 9, status="failed"), row(lab="stencil")])
    newest = kept.latest("lbm")
    assert len(newest) == 4
    assert newest[(newest["role"] == "step") & (newest["case"] == "128x128")]["reason"].dropna().tolist() == ["new"]
    assert newest[newest["variant"] == "tiled"]["status"].tolist() == ["failed"]
    assert len(kept.rows("lbm")) == 6 and kept.rows("lbm")["started"].is_monotonic_increasing
    assert len(kept.rows("lbm", variant="tiled", device="some-cpu")) == 2
    assert len(kept.latest("lbm", case=["odd", "none"], backend=None)) == 1
    assert kept.latest("lbm", case=[]).empty
    assert kept.latest("no/**such").empty


def test_a_row_from_the_future_is_older_than_all_others(kept: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong clock's row does not rule for ever, wherever the newest is taken; one warning names its file."""
    here: dict[str, Any] = {"units": 1, "error": 0.0, "bound": 1.0, "samples_s": [1.0], "rounds": [0]}
    kept.append([row(**here)])
    far = datetime.now(UTC) + timedelta(days=900)
    (wrong,) = kept.append([row(run="wrong", started=far, status="failed", reason="a wrong clock")])
    assert kept.latest("lbm")["status"].tolist() == ["ok"]
    assert kept.rows("lbm")["run"].tolist() == ["wrong", row()["run"]]
    assert kept.state(**cell()).state == "fresh"
    assert readings.newest(kept.rows("lbm").iloc[::-1])["fused"].ok
    assert [each.run for each in fastest_variant.timed(registry.get("lbm"), kept)] == [row()["run"]]
    said = f"warning: {wrong} has rows of {far:%Y-%m-%d %H:%M} UTC, which is in the future: a clock was wrong"
    assert capsys.readouterr().err == f"{said}; they count as older than all others\n"
    kept.append([row(run="last", started=far + timedelta(days=1), status="failed")])
    assert kept.rows("lbm")["run"].tolist() == ["wrong", "last", row()["run"]], "those of the future among themselves"


def test_append_changes_no_file(kept: Store) -> None:
    def facts() -> dict[Path, tuple[int, int, str]]:
        return {
            path: (path.stat().st_ino, path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in kept.files()
        }

    before: dict[Path, tuple[int, int, str]] = {}
    for minute in range(5):
        kept.append([row(minute=minute), row(minute=minute, device="other", samples_s=[1.0] * minute)])
        kept.latest("lbm")
        kept.state(**cell())
        assert before.items() <= facts().items()
        before = facts()
    assert len(before) == 10


ENVIRONMENT = {"device": {"driver": "570.1"}, "python": "3.11.1"}
PROVENANCE = json.dumps({"environment": ENVIRONMENT})
WHEN = "20260101T000000Z-0a1b2c (2026-01-01)"
NEW_DRIVER = {"device": {"driver": "580.2"}, "python": "3.11.1"}


@pytest.mark.parametrize(
    ("rows", "today", "state", "why"),
    [
        ([], {}, "missing", "never measured on some-cpu by opencl"),
        ([row(device="other"), row(case="odd"), row("else"), row(backend="cuda")], {}, "missing", "never measured"),
        ([row(role="again")], {}, "missing", "never measured"),
        ([row(role="again")], {"role": "again"}, "fresh", "measured"),
        ([row()], {"role": "again"}, "missing", "never measured"),
        ([row()], {}, "fresh", f"measured in {WHEN}"),
        ([row(), row(minute=1, env_key="then")], {}, "fresh", "measured"),
        ([row(env_key="then")], {}, "stale-env", f"the environment changed, since {WHEN}"),
        (
            [row(env_key="then", provenance=PROVENANCE)],
            {"environment": NEW_DRIVER},
            "stale-env",
            f"the driver changed: 570.1 -> 580.2, since {WHEN}",
        ),
        ([row(env_key="then", provenance=PROVENANCE)], {"environment": ENVIRONMENT}, "stale-env", "the environment"),
        ([row(cell_key="then")], {}, "stale-code", f"kernel source or plan changed since {WHEN}"),
        ([row(cell_key="then", status="failed")], {}, "stale-code", "kernel source or plan"),
        ([row(cell_key="then", source_sha256="a")], {"source_sha256": "b"}, "stale-code", "kernel source changed"),
        ([row(cell_key="then", source_sha256="a")], {"source_sha256": "a"}, "stale-code", "plan, build options or"),
        ([row(status="failed", reason="NaN")], {}, "failed", f"failed in {WHEN}: NaN"),
        ([row(), row(minute=1, status="failed")], {}, "failed", "no reason recorded"),
        ([row(status="failed"), row(minute=1)], {}, "fresh", "measured"),
        ([row(status="failed", env_key="then"), row(minute=1, cell_key="then")], {}, "failed", "failed"),
    ],
)
def test_states(kept: Store, rows: list[dict[str, Any]], today: dict[str, Any], state: str, why: str) -> None:
    kept.append(rows)
    found = kept.state(**cell(**today))
    assert found.state == state
    assert why in found.why


def test_states_of_many_cells(kept: Store) -> None:
    kept.append([row(), row("tiled", status="failed"), row("tiled", lab="stencil")])
    asked = [cell(variant=variant, lab=lab) for lab in ("lbm", "stencil") for variant in ("fused", "tiled")]
    assert [found.state for found in kept.states(asked)] == ["fresh", "failed", "missing", "fresh"]


def test_compact_keeps_every_row_once(kept: Store) -> None:
    for minute in range(6):
        kept.append([row(minute=minute, samples_s=[minute + 1, 0.5]), row("tiled", minute, device="gpu")])
    before = kept.query("select * from cells order by started, variant").to_json(date_format="iso")
    merged = kept.compact()
    assert kept.files() == sorted(merged) and len(merged) == 2
    assert kept.query("select * from cells order by started, variant").to_json(date_format="iso") == before
    assert kept.compact() == []
    kept.append([row(minute=9)])
    assert len(kept.rows("lbm")) == 13
    kept.compact()
    assert len(kept.rows("lbm")) == 13


def test_a_copy_in_recorded_counts_once(kept: Store) -> None:
    kept.append([row(), row("tiled")])
    shutil.copytree(kept.root / "local", kept.root / "recorded")
    assert variants(kept) == ["fused", "tiled"]


@pytest.mark.parametrize("removed", range(4))
def test_compact_that_dies(kept: Store, monkeypatch: pytest.MonkeyPatch, removed: int) -> None:
    """Killed after the merged file has its name and some of the old files are gone: each row still counts once."""
    for minute in range(4):
        kept.append([row(f"v{minute}", minute)])
    unlink, left = Path.unlink, [removed]

    def dying(path: Path, missing_ok: bool = False) -> None:
        if not path.name.endswith(".tmp"):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", dying)
        kept.compact()
    assert len(kept.files()) == 5 - removed
    assert variants(kept) == ["v0", "v1", "v2", "v3"]
    kept.compact()
    assert len(kept.files()) == 1
    assert variants(kept) == ["v0", "v1", "v2", "v3"]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """100 files of 50 rows of 30 samples."""
    kept = Store(tmp_path_factory.mktemp("large"))
    samples = np.random.default_rng(0).random(30)
    for number in range(100):
        kept.append(
            [
                row(f"v{each}", number, run=f"r{number}", samples_s=samples, rounds=range(30), provenance=PROVENANCE)
                for each in range(50)
            ]
        )
    yield kept


def best(ask: Callable[[], object]) -> float:
    """The shortest of five times in seconds."""
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        ask()
        times.append(time.perf_counter() - begin)
    return min(times)


def test_reading_is_quick(large: Store) -> None:
    assert len(large.latest("lbm")) == 50
    assert best(lambda: large.latest("lbm")) < 30, "a tenth of a second on an idle machine"
    asked = [cell(variant=f"v{each}") for each in range(50)]
    assert best(lambda: large.states(asked)) < 30
