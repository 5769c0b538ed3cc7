"""A store in a bucket of a real S3 server: no row is lost or duplicated if processes die or connections break."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roofbook.errors import UsageError
from roofbook.store import parquet, storage
from roofbook.store.bucket import Bucket
from roofbook.store.parquet import Store
from roofbook.store.storage_interface import Entry
from roofbook.store.transfer import copy

from .object_store import KEY, SECRET, Proxy, server, variables

LIB = str(Path(parquet.__file__).parents[2])
WRITERS, ROWS = (int(number) for number in os.environ.get("ROOFBOOK_STORE_STRESS", "4x25").split("x"))
START = datetime(2026, 1, 1, tzinfo=UTC)


def row(variant: str = "fused", minute: int = 0, **fields: Any) -> dict[str, Any]:
    columns = {name: name for name in ("case", "device", "cell_key", "env_key")}
    run = {"run": "20260101T000000Z-0a1b2c", "started": START + timedelta(minutes=minute)}
    return {
        **columns,
        **run,
        "lab": "lbm",
        "variant": variant,
        "role": "step",
        "backend": "opencl",
        "policy": "{}",
        "status": "ok",
        "samples_s": [1.0] * 50,
        **fields,
    }


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server(tmp_path_factory.mktemp("seaweedfs")) as url:
        yield url


@pytest.fixture
def address(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set the credentials for the server, and return the URL of an empty store."""
    for name, value in variables(endpoint, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    return f"s3://team/{tmp_path.name}"


def variants(store: Store) -> list[str]:
    return sorted(store.column("select variant from cells"))


def test_a_store_in_a_bucket_is_one_in_a_folder(address: str, tmp_path: Path) -> None:
    local_store, remote_store = Store(tmp_path / "results"), Store(address)
    assert remote_store.files() == [] and remote_store.rows("lbm").empty and remote_store.compact() == []
    for minute in range(3):
        for store in (local_store, remote_store):
            store.append([row(minute=minute), row("soa", minute, lab="stencil", device="gpu")])
            store.append([row("ours", minute)], "recorded")
    assert remote_store.names() == local_store.names()
    all_rows = "select * from cells order by started, variant"
    assert remote_store.arrow(all_rows).equals(local_store.arrow(all_rows))
    for store in (local_store, remote_store):
        assert len(store.compact()) == 2 and store.compact() == []
    assert remote_store.arrow(all_rows).equals(local_store.arrow(all_rows))
    assert remote_store.rows("lbm").equals(local_store.rows("lbm")) and len(remote_store.rows("lbm")) == 6


def test_a_file_is_fetched_once_and_only_where_it_is_asked_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, fetched = Store(address), list[str]()
    for lab in ("lbm", "stencil"):
        store.append([row(lab=lab)])
    fetch = Bucket._fetch

    def noting(self: Bucket, due: tuple[Entry, Path]) -> bool:
        fetched.append(due[0].name)
        return fetch(self, due)

    monkeypatch.setattr(Bucket, "_fetch", noting)
    assert len(store.rows("lbm")) == 1 and len(fetched) == 1 and "lab=lbm" in fetched[0]
    assert len(Store(address).rows("lbm")) == 1 and len(fetched) == 1
    assert len(store.query("select * from cells")) == 2 and len(fetched) == 2
    store.append([row(minute=1)])
    store.compact()
    copies = [path for path in store.root.rglob("*.parquet") if "lab=lbm" in str(path)]
    assert len(store.rows("lbm")) == 2
    assert [path for path in copies if path.exists() and "merged" not in path.name] == [], (
        "copies of what is removed files stay"
    )


def test_push_and_pull_bring_each_row_once(address: str, tmp_path: Path) -> None:
    own_store, team_store, other_store = (Store(root) for root in (tmp_path / "mine", address, tmp_path / "other"))
    for minute in range(4):
        own_store.append([row(f"v{minute}", minute)], "recorded" if minute % 2 else "local")
    assert copy(own_store.storage, team_store.storage) == (4, 0, 0)
    assert copy(own_store.storage, team_store.storage) == (0, 4, 0)
    team_store.compact()
    assert copy(own_store.storage, team_store.storage) == (0, 4, 0), "files that were merged in the target came again"
    own_store.append([row("v4", 4)])
    own_store.compact()
    assert copy(own_store.storage, team_store.storage) == (1, 2, 0)
    assert copy(own_store.storage, team_store.storage) == (0, 3, 0)
    other_store.append([row("theirs", 9)])  # of the same name as one of mine
    assert copy(team_store.storage, other_store.storage).new == 4
    assert variants(team_store) == variants(own_store) == ["v0", "v1", "v2", "v3", "v4"]
    assert variants(other_store) == ["theirs", *variants(own_store)]


APPENDING = """
import json, os, sys
from datetime import UTC, datetime
sys.path.insert(0, sys.argv[1])
from roofbook.store.parquet import Store
plain, kept = json.loads(sys.argv[2]), Store(sys.argv[3])
for number in range(int(sys.argv[5])):
    kept.append([{**plain, "variant": f"{sys.argv[4]}-{number}", "started": datetime.now(UTC)}])
    os.write(1, f"{sys.argv[4]}-{number}\\n".encode())
"""


def writer(address: str, name: str, count: int) -> "subprocess.Popen[str]":
    plain = json.dumps({**row(), "started": None})
    return subprocess.Popen(
        [sys.executable, "-c", APPENDING, LIB, plain, address, name, str(count)], stdout=-1, text=True
    )


@pytest.mark.thorough
def test_writers_readers_and_merges_at_once_and_one_is_killed(address: str) -> None:
    """All writers use one run's name, so they compete for file names. ROOFBOOK_STORE_STRESS=16x1000 makes it a long test."""
    writers = [writer(address, f"w{number}", ROWS) for number in range(WRITERS)]
    victim, promised, seen = writer(address, "killed", 10**6), set[str](), 0
    assert victim.stdout
    promised.add(victim.stdout.readline().strip())
    time.sleep(random.Random(1).uniform(0, 0.1))
    victim.kill()
    promised |= {line.strip() for line in victim.stdout}
    store = Store(address)
    while any(process.poll() is None for process in writers):
        store.compact()
        stored = variants(store)
        assert len(set(stored)) == len(stored) >= seen
        seen = len(stored)
    assert [process.returncode for process in writers] == [0] * WRITERS and victim.wait() == -signal.SIGKILL
    promised |= {f"w{number}-{index}" for number in range(WRITERS) for index in range(ROWS)}
    stored = variants(store)
    assert len(set(stored)) == len(stored)
    assert promised <= set(stored) and len(stored) <= len(promised) + 1  # one append was cut before it could say so
    store.compact()
    assert variants(store) == stored and len(store.names()) == 1


@pytest.mark.parametrize("bytes_sent", [1, 300, 4000])
def test_a_connection_that_is_cut_leaves_no_half_file(
    address: str, endpoint: str, monkeypatch: pytest.MonkeyPatch, bytes_sent: int
) -> None:
    """A request cut within its head or its file is sent again, or the append fails. No part of the file is ever stored."""
    proxy = Proxy(endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    store = Store(address)
    store.append([row("before")])
    proxy.cut = bytes_sent
    done = 0
    for _ in range(2):
        try:
            store.append([row("cut", 1, samples_s=[random.random() for _ in range(2000)])])
            done += 1
            break
        except UsageError as error:
            assert "\n" not in str(error) and SECRET not in str(error)
    assert proxy.spoilt == 1 and done == 1
    assert variants(store) == ["before", "cut"]


def test_an_answer_that_is_lost_makes_no_second_row(
    address: str, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Proxy(endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    store, rows = Store(address), [row("once")]
    proxy.deaf = True
    try:
        store.append(rows)
    except UsageError:
        store.append(rows)  # as whoever measured would
    assert proxy.spoilt == 1
    assert variants(store) == ["once"] and len(store.names()) == 1


def test_one_of_many_takes_a_lease(address: str) -> None:
    bucket = storage.storage_of(address)
    taken, start, left = list[bool](), threading.Barrier(8), threading.Barrier(8)

    def take() -> None:
        start.wait()
        with storage.lease(bucket, "local/lab=lbm/device=x") as is_holder:
            taken.append(is_holder)
            left.wait()

    for _ in range(2):
        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(taken) == 2 and len(taken) == 16
    assert len(bucket.entries(f"{storage.LEASES}/local/lab=lbm/device=x/*")) == 1


def ended(*arguments: str, **env: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "roofbook.cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([LIB, *sys.path]), **env}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=1000)
    return done.returncode, done.stdout + done.stderr


WRONG = "wrongbutsecret"


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"AWS_SECRET_ACCESS_KEY": WRONG}, "AWS_SECRET_ACCESS_KEY is not that of this AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": WRONG}, "the server does not know this AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "the server cannot be reached"),
    ],
)
def test_an_error_is_one_line_without_secrets(address: str, tmp_path: Path, env: dict[str, str], message: str) -> None:
    own_store = Store(tmp_path / "mine")
    own_store.append([row()])
    for command in (("export", "--results", address), ("push", address, "--results", str(own_store.root))):
        code, text = ended(*command, **env)
        assert (code, text.count("\n")) == (2, 1) and message in text, text
        assert not any(secret in text for secret in (SECRET, WRONG, KEY))
    assert len(own_store.rows("lbm")) == 1


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize(
    "wrong", ["nonsense", "http://", "127.0.0.1:9000", "http://127.0.0.1:99999", "http://a b", "http://["]
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_repeated(
    address: str, monkeypatch: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(UsageError, match=r"^AWS_ENDPOINT_URL is the address of a server, such as https://HOST or http"):
        Store(address)


def test_a_panic_of_the_library_is_a_usage_error(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://999.1.1.1")
    with pytest.raises(UsageError, match="no server has such an address"):
        Store(address).names()
    with pytest.raises(UsageError, match="names no bucket: the URL of results is s3://BUCKET/NAME"):
        Store("s3://a b/x")


def test_a_bucket_that_is_not_there(address: str) -> None:
    with pytest.raises(UsageError, match="s3://nobodys/x: the bucket does not exist"):
        Store("s3://nobodys/x").rows("lbm")
