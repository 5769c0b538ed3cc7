"""Rows come out as they were appended, invalid rows are refused, and the store gives the state of each measurement."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
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
from roofbook.store import identity, parquet, row_rules, schema
from roofbook.store.parquet import Store

LIB = str(Path(parquet.__file__).parents[2])
PUBLISHED = Path(__file__).parents[2] / "results" / "published"
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(variant: str = "fused", minute: int = 0, **fields: Any) -> dict[str, Any]:
    """Return a row with all required fields."""
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
    """Return today's cell for `Store.states`."""
    names = ("lab", "variant", "case", "backend", "device", "cell_key", "env_key")
    return {name: row()[name] for name in names} | fields


def variants(store: Store) -> list[str]:
    return sorted(store.query("select variant from cells")["variant"])


@pytest.fixture
def store(tmp_path: Path) -> Store:
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
    assert all(datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ") and len(run) == 23 for run in ids)


def test_import_is_light() -> None:
    heavy = "('pandas', 'duckdb', 'pyarrow', 'numpy')"
    text = f"import sys, roofbook.store.parquet; print([m for m in {heavy} if m in sys.modules])"
    child = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": LIB}
    )
    assert child.stdout.strip() == "[]"


def test_empty_store_has_empty_tables(store: Store) -> None:
    assert list(store.query("select * from cells").columns) == list(schema.SCHEMA.names)
    assert store.query('select lab, "table", "case", trial, value, number from published').empty
    assert store.query("select id, published_effect from claims").empty
    assert store.rows("lbm").empty
    assert store.rows("lbm", device="x").empty
    assert not any((store.files(), store.compact(), store.append([]), store.states([])))
    assert store.states([cell()])[0][:2] == ("missing", "never measured on some-cpu by opencl")
    assert not store.root.exists()


def test_layout_and_defaults(store: Store) -> None:
    one = row(samples_s=[1.0, 2.0], rounds=np.array([0, 1]), parent=None, units=200)
    paths = store.append([one, row("other", device="gpu")]) + store.append([row("later", 1)])
    assert [str(path.relative_to(store.root)) for path in paths] == [
        "local/lab=lbm/device=some-cpu/20260101T000000Z-0a1b2c.parquet",
        "local/lab=lbm/device=gpu/20260101T000000Z-0a1b2c.parquet",
        "local/lab=lbm/device=some-cpu/20260101T000000Z-0a1b2c.2.parquet",
    ]
    assert store.append([row("recorded")], "recorded")[0].parts[-4] == "recorded"
    assert variants(store) == ["fused", "later", "other", "recorded"]
    read = store.rows("lbm", variant="fused").iloc[0]
    assert list(read.index) == list(schema.SCHEMA.names)
    assert list(read["samples_s"]) == [1, 2]
    assert (list(read["rounds"]), list(read["throttle"]), read["units"]) == ([0, 1], [], 200)
    assert list(read["wall_s"]) == [] and read["started"] == START
    assert not [path for path in store.root.rglob(".*")]


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
def test_untraceable_rows_stay_local(store: Store, provenance: dict[str, Any], part: str) -> None:
    files = store.append([row(provenance=json.dumps(provenance)), row("other", device="gpu")], "recorded")
    assert [path.parts[-4] for path in files] == [part, "recorded"]


def test_a_store_of_one_part_reads_that_alone(store: Store) -> None:
    store.append([row("mine")])
    store.append([row("ours", 1)], "recorded")
    ours = Store(store.root, ["recorded"])
    assert variants(ours) == ["ours"] and variants(store) == ["mine", "ours"]
    assert (
        ours.states([cell(variant="mine")])[0].state == "missing"
        and store.states([cell(variant="mine")])[0].state != "missing"
    )
    assert variants(ours) == list(ours.query("select variant from cells")["variant"])
    assert list(ours.rows("lbm", parts=["local"])["variant"]) == ["mine"]


letters = st.characters(exclude_categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"], exclude_characters="/\\")
names = st.text(letters, min_size=1, max_size=20).filter(lambda name: name.strip() and not name.startswith("."))
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
times = st.floats(row_rules.SHORTEST_S, row_rules.LONGEST_S)
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
        "extra": st.none() | text.map(lambda t: json.dumps({"said": t}, ensure_ascii=False)),
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
            row(minute=minute)
            | given_fields
            | {name: [sample[index] for sample in drawn] for index, name in enumerate(columns)}
        )
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        store.append(rows)
        read = store.arrow("select * from cells order by started").to_pylist()
    for was, now in zip(rows, read, strict=True):
        lists = ("samples_s", "wall_s", "rounds", "clock_mhz", "temperature_c", "throttle", "sample_throttle")
        empty: dict[str, Any] = {name: [] for name in lists}
        assert now["started"] == was["started"]
        expected = dict.fromkeys(schema.SCHEMA.names) | empty | was | {"started": now["started"]}
        assert repr(now) == repr({name: expected[name] for name in now})  # repr, since NaN is not equal to itself


@pytest.mark.parametrize(
    ("fields", "message"),
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
        (
            {"provenance": '{"environment": {"settings": []}}'},
            "provenance has a value of a wrong type at environment.settings",
        ),
        ({"samples_s": "1.0"}, "field 'samples_s' must be list"),
        ({"samples_s": [None, "x"]}, "field 'samples_s' must be list"),
        ({"flops": "many"}, "field 'flops' must be double"),
        ({"rounds": [2**31]}, "field 'rounds' must be list"),
        ({"variant": 3}, "field 'variant' must be string"),
        ({"variant": "\ud800"}, "field 'variant' must be string"),
    ],
)
def test_wrong_rows_are_refused_whole(store: Store, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        store.append([row("good"), row("bad", lab="stencil") | fields])
    assert "\n" not in str(caught.value)
    assert not store.root.exists()


def test_one_measurement_is_one_row(store: Store) -> None:
    with pytest.raises(UsageError, match="same measurement"):
        store.append([row(), row()])
    store.append([row(), row(role="again"), row(policy='{"cache": "warm"}'), row(minute=1)])
    assert len(store.rows("lbm")) == 4


@pytest.mark.usefixtures("listens")
@pytest.mark.thorough
def test_ctrl_c_within_a_query_is_ctrl_c(store: Store) -> None:
    """DuckDB turns Ctrl-C into an error of its own. The query ends after some seconds even if it is not interrupted."""
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        store.query("select sum(a.range * b.range) as total from range(10000000) a, range(150) b")
    timer.join()


def test_ctrl_c_in_python_that_duckdb_calls_is_ctrl_c(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB turns Ctrl-C into another error while it fetches rows from Python."""
    from pyarrow import RecordBatchReader, table

    def claims(_: Path) -> Any:
        batches = iter(Mock(side_effect=KeyboardInterrupt), None)
        return RecordBatchReader.from_batches(table({"lab": ["lbm"]}).schema, batches)

    monkeypatch.setitem(parquet._VIEWS_OF_CSV, "claims", claims)
    with pytest.raises(KeyboardInterrupt):
        store.query("select lab from claims")
    with pytest.raises(UsageError, match=r"the store cannot answer: Binder Error: .*KeyboardInterrupt"):
        store.query("select KeyboardInterrupt from cells")


def test_an_answer_is_cached_until_a_file_is_added_removed_or_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = 0
    read = Store.table

    def counted(*arguments: Any) -> Any:
        nonlocal queries
        queries += 1
        return read(*arguments)

    monkeypatch.setattr(Store, "table", counted)

    def rows_read() -> tuple[int, int]:
        rows = store.rows("lbm", case="128x128")
        rows["variant"] = "mine"  # a reader may write to the rows
        return queries, len(rows)

    (first,) = store.append([row()])
    assert rows_read() == rows_read() == (1, 1) and list(store.rows("lbm", case="128x128")["variant"]) == ["fused"]
    (second,) = store.append([row(run="20260101T000000Z-0a1b2d", minute=1)])
    assert rows_read() == rows_read() == (2, 2)
    second.unlink()
    assert rows_read() == (2, 1), "as before"
    store.append([row("soa", run="20260101T000000Z-0a1b2e", minute=2)])
    moved = store.files("lbm")[-1]
    os.replace(moved, first)
    assert rows_read() == rows_read() == (3, 1), "a file of the same name and other content"
    for case in map(str, range(parquet._MOST_ANSWERS)):
        store.rows("lbm", case=case)
    assert len(store._answers) == parquet._MOST_ANSWERS and rows_read() == (4 + parquet._MOST_ANSWERS, 1)
    before = queries
    for _ in range(2):
        assert store.query("select count(*) as n from cells")["n"][0] == 1
    assert queries == before + 2, "a reader's query may depend on the clock, or on other files"


def test_unknown_parts_columns_and_sql_are_refused(store: Store, tmp_path: Path) -> None:
    store.append([row()])
    for call in (
        lambda: store.append([row()], "nowhere"),  # type: ignore[arg-type]
        lambda: store.compact("nowhere"),  # type: ignore[arg-type]
        lambda: store.rows("lbm", dev="x"),
        lambda: store.rows("lbm", samples_s="x"),
        lambda: store.query("select nope from cells"),
        lambda: store.query("selec"),
        lambda: store.query("-- nothing"),
    ):
        with pytest.raises(UsageError) as caught:
            call()
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
def test_sql_reads_the_views_alone_and_writes_nothing(store: Store, tmp_path: Path, sql: str) -> None:
    (own_file,) = store.append([row()])
    other_file = tmp_path / "other.csv"
    other_file.write_text("a,b\n1,2\n")
    before = own_file.read_bytes(), sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as refused:
        store.query(sql.format(own=own_file, other=other_file, folder=tmp_path))
    assert "\n" not in str(refused.value)
    assert (own_file.read_bytes(), sorted(tmp_path.rglob("*"))) == before
    assert len(store.query("from (pivot cells on variant using count(*))")) == 1, (
        "a pivot is several statements to DuckDB"
    )


def test_odd_folder_names(tmp_path: Path) -> None:
    store = Store(tmp_path / "it's [a] *store*?")
    store.append([row()])
    shutil.copytree(PUBLISHED, store.root / "published")
    assert variants(store) == ["fused"]
    assert len(store.query("select * from published")) > 500


def test_columns_of_other_versions(store: Store) -> None:
    """A file that lacks a column and has another one is read together with the others, without the unknown column."""

    (path,) = store.append([row()])
    old = pq.ParquetFile(path).read().drop_columns(["throttle"])
    pq.write_table(old.append_column("new", old["variant"]), path.with_name("old.parquet"))
    store.append([row("now", 1)])
    path.unlink()
    read = store.query("select variant, throttle from cells order by started")
    assert read["throttle"].iloc[0] is None and variants(store) == ["fused", "now"]
    store.append([row("last", 2)])
    (merged,) = store.compact()
    old = path.with_name("old.parquet")
    assert set(store.files()) == {old, merged} and "new" in pq.ParquetFile(old).schema_arrow.names, (
        "nothing of it is lost"
    )


def test_published_figures(store: Store) -> None:
    shutil.copytree(PUBLISHED, store.root / "published")
    read = store.query('select * from published where lab = ? and "case" = ?', ["lbm", "128x128"])
    header = (PUBLISHED / "lbm.csv").read_text().splitlines()[0].split(",")
    assert list(read.columns) == ["lab", *header, "number"]
    first = read[read["variant"] == "given program, some kernels in OpenCL"].iloc[0]
    assert (first["value"], first["number"]) == ("45.633", 45.633)
    counts = store.query("select count(*) as n, count(number) as numbers from published").iloc[0]
    lines = sum(len(path.read_text().splitlines()) - 1 for path in PUBLISHED.glob("*.csv"))
    assert counts["n"] == counts["numbers"] == lines
    claims = store.query("select lab, id, claim, published_effect, shown_by from claims")
    for lab, claims_of_lab in claims.groupby("lab"):
        assert len(claims_of_lab) == len((PUBLISHED / "claims" / f"{lab}.csv").read_text().splitlines()) - 1
    assert set(claims["lab"]) == {path.stem for path in (PUBLISHED / "claims").glob("*.csv")}


def test_rows_are_filtered_and_the_oldest_first(store: Store) -> None:
    store.append([row(minute=5, reason="new"), row("tiled", 1), row(minute=5, case="odd"), row(role="again")])
    store.append([row(minute=3, reason="old"), row("tiled", 9, status="failed"), row(lab="stencil")])
    fused = store.rows("lbm", variant="fused", case="128x128", role="step")
    assert fused["reason"].tolist() == ["old", "new"]
    assert store.rows("lbm", variant="tiled")["status"].tolist() == ["ok", "failed"]
    assert len(store.rows("lbm")) == 6 and store.rows("lbm")["started"].is_monotonic_increasing
    assert len(store.rows("lbm", variant="tiled", device="some-cpu")) == 2
    assert len(store.rows("lbm", case=["odd", "none"], backend=None)) == 1
    assert store.rows("lbm", case=[]).empty
    assert store.rows("no/**such").empty


def test_a_row_from_the_future_counts_as_the_oldest(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A row of a wrong clock is never the newest; one warning names its file."""
    measured: dict[str, Any] = {"units": 1, "error": 0.0, "bound": 1.0, "samples_s": [1.0], "rounds": [0]}
    store.append([row(**measured)])
    far = datetime.now(UTC) + timedelta(days=900)
    (path,) = store.append([row(run="wrong", started=far, status="failed", reason="a wrong clock")])
    assert store.rows("lbm")["status"].tolist() == ["failed", "ok"]
    assert store.rows("lbm")["run"].tolist() == ["wrong", row()["run"]]
    assert store.states([cell()])[0].state == "fresh"
    assert readings.newest(store.rows("lbm").iloc[::-1])["fused"].ok
    assert [timed.run for timed in fastest_variant.timed(registry.get("lbm"), store)] == [row()["run"]]
    message = f"warning: {path} has rows of {far:%Y-%m-%d %H:%M} UTC, which is in the future: a clock was wrong"
    assert capsys.readouterr().err == f"{message}; they count as older than all others\n"
    store.append([row(run="last", started=far + timedelta(days=1), status="failed")])
    assert store.rows("lbm")["run"].tolist() == ["wrong", "last", row()["run"]], "rows of the future in their order"


def test_append_changes_no_file(store: Store) -> None:
    def facts() -> dict[Path, tuple[int, int, str]]:
        return {
            path: (path.stat().st_ino, path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in store.files()
        }

    before: dict[Path, tuple[int, int, str]] = {}
    for minute in range(5):
        store.append([row(minute=minute), row(minute=minute, device="other", samples_s=[1.0] * minute)])
        store.rows("lbm")
        store.states([cell()])[0]
        assert before.items() <= facts().items()
        before = facts()
    assert len(before) == 10


ENVIRONMENT = {"device": {"driver": "570.1"}, "python": "3.11.1"}
PROVENANCE = json.dumps({"environment": ENVIRONMENT})
WHEN = "20260101T000000Z-0a1b2c (2026-01-01)"
NEW_DRIVER = {"device": {"driver": "580.2"}, "python": "3.11.1"}


@pytest.mark.parametrize(
    ("rows", "today", "state", "reason"),
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
        (
            [row(cell_key="then", source_sha256="a", extra='{"wgsl_sha256": "w"}')],
            {"source_sha256": "a", "wgsl_sha256": "v"},
            "stale-code",
            f"translation to WGSL changed since {WHEN}",
        ),
        (
            [row(cell_key="then", source_sha256="a", extra='{"wgsl_sha256": "w"}')],
            {"source_sha256": "a", "wgsl_sha256": "w"},
            "stale-code",
            "plan, build options or",
        ),
        (
            [row(cell_key="then", source_sha256="a")],
            {"source_sha256": "a", "wgsl_sha256": "v"},
            "stale-code",
            f"its WGSL is unknown: it was measured in {WHEN}",
        ),
        ([row(status="failed", reason="NaN")], {}, "failed", f"failed in {WHEN}: NaN"),
        ([row(), row(minute=1, status="failed")], {}, "failed", "no reason recorded"),
        ([row(status="failed"), row(minute=1)], {}, "fresh", "measured"),
        ([row(status="failed", env_key="then"), row(minute=1, cell_key="then")], {}, "failed", "failed"),
    ],
)
def test_states(store: Store, rows: list[dict[str, Any]], today: dict[str, Any], state: str, reason: str) -> None:
    store.append(rows)
    state_now = store.states([cell(**today)])[0]
    assert state_now.state == state
    assert reason in state_now.why


def test_states_of_many_cells(store: Store) -> None:
    store.append([row(), row("tiled", status="failed"), row("tiled", lab="stencil")])
    cells = [cell(variant=variant, lab=lab) for lab in ("lbm", "stencil") for variant in ("fused", "tiled")]
    assert [s.state for s in store.states(cells)] == ["fresh", "failed", "missing", "fresh"]


def test_compact_keeps_every_row_once(store: Store) -> None:
    for minute in range(6):
        store.append([row(minute=minute, samples_s=[minute + 1, 0.5]), row("tiled", minute, device="gpu")])
    before = store.query("select * from cells order by started, variant").to_json(date_format="iso")
    merged = store.compact()
    assert store.files() == sorted(merged) and len(merged) == 2
    assert store.query("select * from cells order by started, variant").to_json(date_format="iso") == before
    assert store.compact() == []
    store.append([row(minute=9)])
    assert len(store.rows("lbm")) == 13
    store.compact()
    assert len(store.rows("lbm")) == 13


def test_compact_merges_one_part_of_the_store(store: Store) -> None:
    for minute in range(3):
        store.append([row(minute=minute)])
    shutil.copytree(store.root / "local", store.root / "recorded")
    local = store.files(parts=["local"])
    assert store.compact("recorded") == store.files(parts=["recorded"]) and len(local) == 3
    assert store.files(parts=["local"]) == local
    assert len(store.rows("lbm")) == 3


def test_compact_leaves_the_installed_book_alone_and_copies_none_of_its_rows(tmp_path: Path) -> None:
    book, own = Store(tmp_path / "book"), Store(tmp_path / "own", book=tmp_path / "book")
    for minute in range(3):
        book.append([row("of-the-book", minute)], part="recorded")
        Store(own.root).append([row("own", minute)], part="recorded")
    before = {path: path.read_bytes() for path in book.files()}
    assert len(before) == 3 and len(own.compact("recorded")) == 1 and own.compact("recorded") == []
    assert {path: path.read_bytes() for path in book.files()} == before
    assert set(Store(own.root).rows("lbm")["variant"]) == {"own"} and len(own.rows("lbm")) == 6


def test_a_copy_in_recorded_counts_once(store: Store) -> None:
    store.append([row(), row("tiled")])
    shutil.copytree(store.root / "local", store.root / "recorded")
    assert variants(store) == ["fused", "tiled"]


@pytest.mark.parametrize("removed", range(4))
def test_compact_that_dies(store: Store, monkeypatch: pytest.MonkeyPatch, removed: int) -> None:
    """Killed after the merged file has its name and some of the old files are gone: each row still counts once."""
    for minute in range(4):
        store.append([row(f"v{minute}", minute)])
    unlink, left = Path.unlink, [removed]

    def dying(path: Path, missing_ok: bool = False) -> None:
        if not path.name.endswith(".tmp"):
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
        unlink(path, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", dying)
        store.compact()
    assert len(store.files()) == 5 - removed
    assert variants(store) == ["v0", "v1", "v2", "v3"]
    store.compact()
    assert len(store.files()) == 1
    assert variants(store) == ["v0", "v1", "v2", "v3"]
