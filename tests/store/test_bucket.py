"""A store in a bucket, by a real server that speaks S3: nothing is lost and nothing is there twice, whatever dies or breaks."""

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
    named = {name: name for name in ("case", "device", "cell_key", "env_key")}
    at = {"run": "20260101T000000Z-0a1b2c", "started": START + timedelta(minutes=minute)}
    return {
        **named,
        **at,
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
def at(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of an empty store, and the credentials for it."""
    for name, value in variables(endpoint, tmp_path / "cache").items():
        monkeypatch.setenv(name, value)
    return f"s3://team/{tmp_path.name}"


def variants(kept: Store) -> list[str]:
    return sorted(kept.column("select variant from cells"))


def test_a_store_in_a_bucket_is_one_in_a_folder(at: str, tmp_path: Path) -> None:
    here, there = Store(tmp_path / "results"), Store(at)
    assert there.files() == [] and there.latest("lbm").empty and there.compact() == []
    for minute in range(3):
        for kept in (here, there):
            kept.append([row(minute=minute), row("soa", minute, lab="stencil", device="gpu")])
            kept.append([row("ours", minute)], "recorded")
    assert there.names() == here.names()
    whole = "select * from cells order by started, variant"
    assert there.arrow(whole).equals(here.arrow(whole))
    for kept in (here, there):
        assert len(kept.compact()) == 2 and kept.compact() == []
    assert there.arrow(whole).equals(here.arrow(whole))
    assert there.latest("lbm").equals(here.latest("lbm")) and len(there.latest("lbm")) == 2


def test_a_file_is_fetched_once_and_only_where_it_is_asked_for(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, fetched = Store(at), list[str]()
    for lab in ("lbm", "stencil"):
        kept.append([row(lab=lab)])
    fetch = Bucket._fetch

    def noted(self: Bucket, due: tuple[Entry, Path]) -> bool:
        fetched.append(due[0].name)
        return fetch(self, due)

    monkeypatch.setattr(Bucket, "_fetch", noted)
    assert len(kept.rows("lbm")) == 1 and len(fetched) == 1 and "lab=lbm" in fetched[0]
    assert len(Store(at).rows("lbm")) == 1 and len(fetched) == 1
    assert len(kept.query("select * from cells")) == 2 and len(fetched) == 2
    kept.append([row(minute=1)])
    kept.compact()
    copies = [path for path in kept.root.rglob("*.parquet") if "lab=lbm" in str(path)]
    assert len(kept.rows("lbm")) == 2
    assert [path for path in copies if path.exists() and "merged" not in path.name] == [], "copies of what is gone stay"


def test_push_and_pull_bring_each_row_once(at: str, tmp_path: Path) -> None:
    mine, team, other = (Store(each) for each in (tmp_path / "mine", at, tmp_path / "other"))
    for minute in range(4):
        mine.append([row(f"v{minute}", minute)], "recorded" if minute % 2 else "local")
    assert copy(mine.storage, team.storage) == (4, 0, 0)
    assert copy(mine.storage, team.storage) == (0, 4, 0)
    team.compact()
    assert copy(mine.storage, team.storage) == (0, 4, 0), "what was merged there meanwhile came again"
    mine.append([row("v4", 4)])
    mine.compact()
    assert copy(mine.storage, team.storage) == (1, 2, 0)
    assert copy(mine.storage, team.storage) == (0, 3, 0)
    other.append([row("theirs", 9)])  # of the same name as one of mine
    assert copy(team.storage, other.storage).new == 4
    assert variants(team) == variants(mine) == ["v0", "v1", "v2", "v3", "v4"]
    assert variants(other) == ["theirs", *variants(mine)]


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


def writer(at: str, name: str, count: int) -> "subprocess.Popen[str]":
    plain = json.dumps({**row(), "started": None})
    return subprocess.Popen([sys.executable, "-c", APPENDING, LIB, plain, at, name, str(count)], stdout=-1, text=True)


@pytest.mark.thorough
def test_writers_readers_and_merges_at_once_and_one_is_killed(at: str) -> None:
    """All under one run's name, so that they compete for each name. ROOFBOOK_STORE_STRESS=16x1000 makes it a long test."""
    writers = [writer(at, f"w{number}", ROWS) for number in range(WRITERS)]
    victim, promised, seen = writer(at, "killed", 10**6), set[str](), 0
    assert victim.stdout
    promised.add(victim.stdout.readline().strip())
    time.sleep(random.Random(1).uniform(0, 0.1))
    victim.kill()
    promised |= {line.strip() for line in victim.stdout}
    kept = Store(at)
    while any(each.poll() is None for each in writers):
        kept.compact()
        found = variants(kept)
        assert len(set(found)) == len(found) >= seen
        seen = len(found)
    assert [each.returncode for each in writers] == [0] * WRITERS and victim.wait() == -signal.SIGKILL
    promised |= {f"w{number}-{each}" for number in range(WRITERS) for each in range(ROWS)}
    found = variants(kept)
    assert len(set(found)) == len(found)
    assert promised <= set(found) and len(found) <= len(promised) + 1  # one append was cut before it could say so
    kept.compact()
    assert variants(kept) == found and len(kept.names()) == 1


@pytest.mark.parametrize("bytes_sent", [1, 300, 4000])
def test_a_connection_that_is_cut_leaves_no_half_file(
    at: str, endpoint: str, monkeypatch: pytest.MonkeyPatch, bytes_sent: int
) -> None:
    """Within the head, within the file: it is sent again, or the append says that it failed. Never is there a part of it."""
    proxy = Proxy(endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    kept = Store(at)
    kept.append([row("before")])
    proxy.cut = bytes_sent
    done = 0
    for _ in range(2):
        try:
            kept.append([row("cut", 1, samples_s=[random.random() for _ in range(2000)])])
            done += 1
            break
        except UsageError as error:
            assert "\n" not in str(error) and SECRET not in str(error)
    assert proxy.spoilt == 1 and done == 1
    assert variants(kept) == ["before", "cut"]


def test_an_answer_that_is_lost_makes_no_second_row(at: str, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy(endpoint)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    kept, rows = Store(at), [row("once")]
    proxy.deaf = True
    try:
        kept.append(rows)
    except UsageError:
        kept.append(rows)  # as whoever measured would
    assert proxy.spoilt == 1
    assert variants(kept) == ["once"] and len(kept.names()) == 1


def test_one_of_many_takes_a_lease(at: str) -> None:
    place = storage.storage_of(at)
    taken, start, left = list[bool](), threading.Barrier(8), threading.Barrier(8)

    def take() -> None:
        start.wait()
        with storage.lease(place, "local/lab=lbm/device=x") as mine:
            taken.append(mine)
            left.wait()

    for _ in range(2):
        threads = [threading.Thread(target=take) for _ in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert sum(taken) == 2 and len(taken) == 16
    assert len(place.entries(f"{storage.LEASES}/local/lab=lbm/device=x/*")) == 1


def ended(*arguments: str, **env: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "roofbook.cli", *arguments]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([LIB, *sys.path]), **env}
    done = subprocess.run(command, capture_output=True, text=True, env=known, check=False, timeout=1000)
    return done.returncode, done.stdout + done.stderr


WRONG = "wrongbutsecret"


@pytest.mark.parametrize(
    ("env", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": WRONG}, "AWS_SECRET_ACCESS_KEY is not that of this AWS_ACCESS_KEY_ID"),
        ({"AWS_ACCESS_KEY_ID": WRONG}, "the server does not know this AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}, "the server cannot be reached"),
    ],
)
def test_what_is_wrong_is_one_line_without_secrets(at: str, tmp_path: Path, env: dict[str, str], said: str) -> None:
    mine = Store(tmp_path / "mine")
    mine.append([row()])
    for command in (("export", "--results", at), ("push", at, "--results", str(mine.root))):
        code, text = ended(*command, **env)
        assert (code, text.count("\n")) == (2, 1) and said in text, text
        assert not any(secret in text for secret in (SECRET, WRONG, KEY))
    assert len(mine.rows("lbm")) == 1


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
@pytest.mark.parametrize(
    "wrong", ["nonsense", "http://", "127.0.0.1:9000", "http://127.0.0.1:99999", "http://a b", "http://["]
)
def test_an_endpoint_that_is_no_address_is_refused_and_not_repeated(
    at: str, monkeypatch: pytest.MonkeyPatch, name: str, wrong: str
) -> None:
    monkeypatch.setenv(name, wrong)
    with pytest.raises(UsageError, match=r"^AWS_ENDPOINT_URL is the address of a server, such as https://HOST or http"):
        Store(at)


def test_what_the_library_panics_at_is_told(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://999.1.1.1")
    with pytest.raises(UsageError, match="no server has such an address"):
        Store(at).names()
    with pytest.raises(UsageError, match="names no bucket: the URL of results is s3://BUCKET/NAME"):
        Store("s3://a b/x")


def test_a_bucket_that_is_not_there(at: str) -> None:
    with pytest.raises(UsageError, match="s3://nobodys/x: the bucket does not exist"):
        Store("s3://nobodys/x").rows("lbm")
