"""The work of reading grows with the files and rows, no faster; and how long a large store takes, in a folder and in a bucket.

ROOFBOOK_STORE_FILES=10000 makes the store that the limits are meant for.
"""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from roofbook import paths
from roofbook.store import files, parquet, row_cache
from roofbook.store.parquet import Store
from roofbook.store.transfer import copy

from .object_store import server, variables
from .test_bucket import row
from .test_parquet import cell

FILES = int(os.environ.get("ROOFBOOK_STORE_FILES", "60"))
ROWS, SAMPLES = 10, 100
MEANS = 'select lab, variant, "case", device, avg(list_avg(samples_s)) as mean from cells group by all order by all'
ROWS_S, MEANS_S, REMOTE = 0.1, 0.6, 3
"""Promised seconds at 10 000 files, and the factor by which a server on this machine may be slower."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Return a store of FILES files of ROWS rows of SAMPLES samples, of five labs on two devices."""
    store, chance = Store(tmp_path_factory.mktemp("scale")), np.random.default_rng(0)
    for number in range(FILES):
        at = {"lab": f"lab{number % 5}", "device": f"device{number // 5 % 2}", "run": f"r{number}"}
        at["case"] = f"{128 << number // 10 % 4}x128"
        at["provenance"] = f'{{"environment": {{"libraries": {{"x": "{"x" * 600}"}}}}, "run": {number}}}'
        samples = chance.normal(1e-3, 1e-5, (ROWS, SAMPLES))
        store.append([row(f"v{index}", number) | at | {"samples_s": taken} for index, taken in enumerate(samples)])
    return store


@pytest.fixture
def remote(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    with server(tmp_path) as endpoint:
        for name, value in variables(endpoint, tmp_path / "cache").items():
            monkeypatch.setenv(name, value)
        yield Store("s3://team/scale")


def seconds(ask: Callable[[], object], times: int = 5) -> float:
    """Return the shortest of several times in seconds, without cached answers."""
    taken = []
    for _ in range(times):
        Store._answers.clear()
        begin = time.perf_counter()
        ask()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def test_a_merged_store_answers_at_once_also_from_a_server(store: Store, remote: Store) -> None:
    """The limits are for the large store on an idle machine; for a small store they only detect a query that hangs."""
    wide = 1 if FILES >= 1000 else 1000
    means, latest = store.query(MEANS), store.rows("lab1")
    before = seconds(lambda: store.query(MEANS), 1)
    assert len(store.compact()) == 10
    assert store.query(MEANS).round(15).equals(means.round(15)) and store.rows("lab1").equals(latest)
    assert copy(store.storage, remote.storage).new == 10
    cold = seconds(lambda: remote.rows("lab1"), 1)
    cold_means = seconds(lambda: remote.query(MEANS), 1)
    assert remote.query(MEANS).round(15).equals(means.round(15)) and remote.rows("lab1").equals(latest)
    local, local_means = seconds(lambda: store.rows("lab1")), seconds(lambda: store.query(MEANS))
    warm, warm_means = seconds(lambda: remote.rows("lab1")), seconds(lambda: remote.query(MEANS))
    print(f"\n{FILES} files: means {before:.3f} s; merged: {local_means:.3f} s, latest {local:.3f} s")
    print(f"from a server: means {cold_means:.3f} s, then {warm_means:.3f} s; latest {cold:.3f} s, then {warm:.3f} s")
    assert local < ROWS_S * wide and local_means < MEANS_S * wide
    assert max(cold, warm) < REMOTE * ROWS_S * wide and max(cold_means, warm_means) < REMOTE * MEANS_S * wide


class Work:
    """Counts of the work of reading: files checked, files of the cache read, and files whose stamp was read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts = Counter[str]()
        monkeypatch.setattr(row_cache, "write_cached", paths.write_cached)
        monkeypatch.setattr(row_cache, "read_cached", paths.read_cached)
        for module, name in ((row_cache, "check_file"), (row_cache, "read_cached"), (files, "stamp")):
            monkeypatch.setattr(module, name, self._counting(name, getattr(module, name)))

    def _counting(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            answer = function(*arguments)
            self.counts[name] += answer is not None
            return answer

        return counted

    def of(self, question: Callable[[], object]) -> Counter[str]:
        """Return the work of a question asked in a new process."""
        self.counts = Counter()
        row_cache._memory.clear()
        Store._answers.clear()
        question()
        return self.counts


@pytest.mark.parametrize(
    "number",
    [2 * row_cache._FILES_PER_GROUP, pytest.param(8 * row_cache._FILES_PER_GROUP, marks=pytest.mark.thorough)],
)
def test_a_file_is_checked_once_and_work_grows_with_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The limits are multiples of the number of files, so they hold for a large store too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, work = Store(tmp_path / "results"), Work(monkeypatch)
    for at in range(number):
        store.append([row("fused", at % 60, run=f"r{at:04}"), row("soa", at % 60, run=f"r{at:04}", device="other")])
    questions: list[Callable[[], object]] = [
        lambda: store.states([cell(device="device")]),
        lambda: store.rows("lbm"),
        lambda: list(store.by_device("lbm")),
        lambda: store.query("select count(*) from cells"),
    ]
    assert work.of(questions[0])["check_file"] == number, "the other device's files are not opened"
    assert work.of(questions[1])["check_file"] == number, "those that were checked are not checked again"
    for question in questions:
        counts = work.of(question)
        assert counts["check_file"] == 0 and counts["read_cached"] <= 2 * number / row_cache._FILES_PER_GROUP
        assert counts["stamp"] <= 4 * number
    store.append([row("soa", run="r9999")])
    assert work.of(questions[1])["check_file"] == 1


def test_many_files_are_told_how_to_merge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parquet, "_MANY_FILES", 3)
    store = Store(tmp_path)
    for at in range(3):
        store.append([row(run=f"r{at}")])
        store.append([row(run=f"r{at}")], "recorded")
        assert len(store.rows("lbm")) == at + 1
    store.rows("lbm")
    advice = f"warning: {tmp_path}/local has 3 files to read; `roofbook compact` merges them\n"
    assert capsys.readouterr().err == advice, "once"
    store.compact()
    files._warned.clear()
    assert len(store.rows("lbm")) == 3 and not capsys.readouterr().err


def test_merging_rewrites_no_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adding rows and merging them again and again writes each row a few times, not once for each merge."""
    monkeypatch.setattr(parquet, "_MERGED_ROWS", 8)
    store, written = Store(tmp_path), list[int]()
    encoded = files.encoded

    def counted(table: pa.Table, *origins: Any) -> bytes:
        written.append(len(table))
        return encoded(table, *origins)

    monkeypatch.setattr(files, "encoded", counted)
    for at in range(32):
        store.append([row(run=f"r{at:02}")])
        if at % 2:
            store.compact()
    merged_rows = sum(written) - 32
    assert merged_rows <= 3 * 32 and len(store.files()) <= 8 and len(store.rows("lbm")) == 32
