"""How long a large store takes to answer, in a folder and in a bucket.

ROOFBOOK_STORE_FILES=10000 makes the store that the limits are meant for.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from roofbook.store.parquet import Store
from roofbook.store.transfer import copy

from .object_store import server, variables
from .test_bucket import row

FILES = int(os.environ.get("ROOFBOOK_STORE_FILES", "60"))
ROWS, SAMPLES = 10, 100
MEANS = 'select lab, variant, "case", device, avg(list_avg(samples_s)) as mean from cells group by all order by all'
LATEST_S, MEANS_S, REMOTE = 0.1, 0.6, 3
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
    means, latest = store.query(MEANS), store.latest("lab1")
    before = seconds(lambda: store.query(MEANS), 1)
    assert len(store.compact()) == 10
    assert store.query(MEANS).round(15).equals(means.round(15)) and store.latest("lab1").equals(latest)
    assert copy(store.storage, remote.storage).new == 10
    cold = seconds(lambda: remote.latest("lab1"), 1)
    cold_means = seconds(lambda: remote.query(MEANS), 1)
    assert remote.query(MEANS).round(15).equals(means.round(15)) and remote.latest("lab1").equals(latest)
    local, local_means = seconds(lambda: store.latest("lab1")), seconds(lambda: store.query(MEANS))
    warm, warm_means = seconds(lambda: remote.latest("lab1")), seconds(lambda: remote.query(MEANS))
    print(f"\n{FILES} files: means {before:.3f} s; merged: {local_means:.3f} s, latest {local:.3f} s")
    print(f"from a server: means {cold_means:.3f} s, then {warm_means:.3f} s; latest {cold:.3f} s, then {warm:.3f} s")
    assert local < LATEST_S * wide and local_means < MEANS_S * wide
    assert max(cold, warm) < REMOTE * LATEST_S * wide and max(cold_means, warm_means) < REMOTE * MEANS_S * wide
