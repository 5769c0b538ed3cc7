"""Where a store lies: addresses, copies between folders, the lease of who merges. What a bucket adds is in test_bucket.py."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from roofbook import paths
from roofbook.book import experiment
from roofbook.errors import UsageError
from roofbook.store import parquet, storage
from roofbook.store.checker import CheckedFile
from roofbook.store.file_check import Facts
from roofbook.store.parquet import Store
from roofbook.store.transfer import copy

from .test_bucket import row, variants

LIB = str(Path(parquet.__file__).parents[2])


def test_a_url_stays_one_and_a_folder_is_seen_from_the_checkout(tmp_path: Path) -> None:
    url = "s3://team/roofbook"
    assert experiment.check({"results": url})["results"] == url == storage.located(tmp_path, url)
    assert storage.located(tmp_path, "results") == tmp_path / "results" == storage.located(tmp_path, Path("results"))
    assert storage.located(tmp_path, "/elsewhere") == Path("/elsewhere")
    kept = Store(f"file://{tmp_path}/results")
    kept.append([row()])
    assert kept.root == tmp_path / "results" and Store(kept.address).root == kept.root and variants(kept) == ["fused"]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("s3:/team/x", "no such URL as s3:/team/x: after the colon there are two slashes"),
        (Path("/checkout") / "s3://team/x", "no such URL as s3:/team/x"),
        ("ftp://host/x", "s3://BUCKET/NAME"),
        ("s3://", "s3://BUCKET/NAME"),
        ("file://x", "file:///FOLDER"),
    ],
)
def test_an_address_that_is_none(address: str | Path, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Store(address)


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    """Found before anything is measured, not when the first row is kept."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    for folder in ("loop", "loop/results", "gone"):
        with pytest.raises(UsageError, match=f"cannot be kept in .*{folder}: it is a link that leads nowhere"):
            Store(tmp_path / folder)
    with pytest.raises(UsageError, match="its name is not UTF-8"):
        Store(tmp_path / os.fsdecode(b"r\xff"))


def test_a_file_whose_name_is_not_utf_8_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, ours = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    (path,) = mine.append([row("odd")])
    path.rename(path.with_name(os.fsdecode(b"r\xff.parquet")))
    mine.append([row("good", 1)])
    assert variants(mine) == ["good"] and mine.compact() == []
    assert copy(mine.storage, ours.storage) == (1, 0, 1)
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all("r\\udcff.parquet' is left out: its name is not UTF-8" in line for line in said)


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    pytest.importorskip("obstore", reason="needs obstore: .venv/bin/pip install obstore")
    with pytest.raises(UsageError) as caught:
        Store("s3://AKID:topsecret@team/x")
    assert "credentials belong into the environment" in str(caught.value) and "topsecret" not in str(caught.value)


def test_without_obstore_one_line_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['obstore'] = None; from roofbook.cli import main; main()"
    command = [sys.executable, "-c", code, "export", "--results", "s3://team/x"]
    known = {**os.environ, "PYTHONPATH": os.pathsep.join([LIB, *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=known, check=False)
    assert done.returncode == 2 and done.stderr == (
        "error: results at s3:// need the package obstore: `make book WITH=bucket` installs it\n"
    )


def test_copies_between_folders_bring_each_row_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine, yours, ours = (Store(tmp_path / name) for name in ("mine", "yours", "ours"))
    for minute in range(3):
        mine.append([row(f"m{minute}", minute)])
        yours.append([row(f"y{minute}", minute)], "recorded")
    (mine.files()[0].with_name("broken.parquet")).write_bytes(b"PAR1")
    assert copy(mine.storage, ours.storage) == (3, 0, 1) and "broken.parquet is left out" in capsys.readouterr().err
    assert copy(yours.storage, ours.storage) == (3, 0, 0)
    ours.compact()
    assert copy(mine.storage, ours.storage) == (0, 3, 1) and copy(yours.storage, ours.storage) == (0, 3, 0)
    mine.files()[-1].with_name("broken.parquet").unlink()
    assert copy(ours.storage, yours.storage) == (1, 3, 0)
    assert variants(ours) == variants(yours) == ["m0", "m1", "m2", "y0", "y1", "y2"]
    assert variants(mine) == ["m0", "m1", "m2"]


def test_what_cannot_be_read_stops_no_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, ours = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    for minute in range(3):
        mine.append([row(f"m{minute}", minute)])
    secret = mine.files()[0]
    secret.with_name("folder.parquet").mkdir()
    read = paths.read_regular

    def refused(path: Path, *how: Any, **more: Any) -> bytes:
        if path == secret:
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, *how, **more)

    monkeypatch.setattr(storage, "read_regular", refused)  # root may read all
    assert copy(mine.storage, ours.storage) == (2, 0, 2)
    said = capsys.readouterr().err
    assert f"{secret} is left out: Permission denied" in said
    assert "folder.parquet is left out: it is no regular file" in said
    assert copy(ours.storage, mine.storage) == (0, 2, 0), "nor where it is in the way"


def test_what_is_no_file_of_a_store_is_left_out_of_a_copy_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, ours = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    (good,) = mine.append([row("good")])
    os.mkfifo(good.with_name("pipe.parquet"))
    good.with_name("link.parquet").symlink_to(good)
    for name in ("x" * 247, "a\x1b[2J", "line\nbreak"):
        good.with_name(f"{name}.parquet").write_bytes(good.read_bytes())
    assert copy(mine.storage, ours.storage) == (1, 0, 5)
    said = capsys.readouterr().err
    for why in ("it is no regular file", "it is a link", "its name has 255 bytes", "its name has a control character"):
        assert why in said
    assert "\x1b" not in said and said.count("\n") == 5 and variants(ours) == ["good"]


def test_a_lease_is_one_s_until_it_is_given_back_or_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, folder = storage.Folder(tmp_path), "local/lab=lbm/device=x"
    with storage.lease(place, folder) as first, storage.lease(place, folder) as second:
        assert first and not second
    dead = storage.lease(place, folder)
    assert dead.__enter__()
    with storage.lease(place, folder) as mine:
        assert not mine
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + storage.LEASE_S + 1)
    with storage.lease(place, folder) as mine:
        assert mine
    assert [entry.name[-1] for entry in place.entries(f"{storage.LEASES}/{folder}/*")] == ["3"]
    dead.__exit__(None, None, None)
    with storage.lease(place, folder) as mine:
        assert mine, "what came late closed the way"


@pytest.mark.usefixtures("listens")
@pytest.mark.parametrize("at", ["add", "replace"])
def test_ctrl_c_gives_a_lease_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """As it is taken, or a second one as it is given back."""
    place, folder = storage.Folder(tmp_path), "local/lab=lbm/device=x"
    asked = getattr(place, at)

    def interrupted(name: str, data: bytes) -> object:
        if at == "replace":
            signal.raise_signal(signal.SIGINT)
        done = asked(name, data)
        if at == "add":
            signal.raise_signal(signal.SIGINT)
        return done

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(place, at, interrupted)
        with storage.lease(place, folder) as mine:
            assert mine
    with storage.lease(place, folder) as mine:
        assert mine


def test_a_file_that_is_no_lease_keeps_nobody_from_merging(tmp_path: Path) -> None:
    place, folder = storage.Folder(tmp_path), tmp_path / storage.LEASES / "local"
    folder.mkdir(parents=True)
    for name in (".000000001-0a1b2c.tmp", "notes.txt", "000000001.part"):
        (folder / name).write_text('{"until": 1e99}')
    for number in (1, 2):
        with storage.lease(place, "local") as mine:
            assert mine and (folder / f"{number:09d}").exists()


def test_no_merge_makes_a_file_too_large_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Store(tmp_path)
    for minute in range(4):
        kept.append([row(f"v{minute}", minute)])
    monkeypatch.setattr(parquet, "check_file", lambda data: CheckedFile(pa.table({}), Facts("it has too many rows")))
    assert kept.compact() == [] and len(variants(kept)) == 4


def test_merging_waits_for_who_merges(tmp_path: Path) -> None:
    kept, busy = Store(tmp_path), list[str]()
    for minute in range(2):
        kept.append([row(minute=minute)])
    with storage.lease(kept.storage, "local/lab=lbm/device=device"):
        assert kept.compact(busy=busy.append) == [] and busy == ["local/lab=lbm/device=device"]
    assert len(kept.compact(busy=busy.append)) == 1 and len(busy) == 1
