"""Storage of a store: addresses, transfer between folders, and leases for merging. Buckets are in test_bucket.py."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from roofbook import paths
from roofbook.book import experiment
from roofbook.errors import UsageError
from roofbook.store import files, parquet, storage
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
    store = Store(f"file://{tmp_path}/results")
    store.append([row()])
    assert (
        store.root == tmp_path / "results" and Store(store.address).root == store.root and variants(store) == ["fused"]
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("s3:/team/x", "no such URL as s3:/team/x: after the colon there are two slashes"),
        (Path("/checkout") / "s3://team/x", "no such URL as s3:/team/x"),
        ("ftp://host/x", "s3://BUCKET/NAME"),
        ("s3://", "s3://BUCKET/NAME"),
        ("file://x", "file:///FOLDER"),
    ],
)
def test_an_invalid_address_is_refused(address: str | Path, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Store(address)


def test_an_invalid_folder_is_refused(tmp_path: Path) -> None:
    """Opening the store fails, before anything is measured."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("nowhere")
    for folder in ("loop", "loop/results", "gone"):
        with pytest.raises(UsageError, match=f"cannot be kept in .*{folder}: it is a link that leads nowhere"):
            Store(tmp_path / folder)
    with pytest.raises(UsageError, match="its name is not UTF-8"):
        Store(tmp_path / os.fsdecode(b"r\xff"))


def test_a_file_whose_name_is_not_utf_8_is_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_store, team_store = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    (path,) = own_store.append([row("odd")])
    path.rename(path.with_name(os.fsdecode(b"r\xff.parquet")))
    own_store.append([row("good", 1)])
    assert variants(own_store) == ["good"] and own_store.compact() == []
    assert copy(own_store.storage, team_store.storage) == (1, 0, 1)
    messages = capsys.readouterr().err.splitlines()
    assert len(messages) == 2 and all(
        "r\\udcff.parquet' is left out: its name is not UTF-8" in line for line in messages
    )


def test_credentials_in_a_url_are_refused_and_not_repeated() -> None:
    pytest.importorskip("obstore", reason="needs obstore: .venv/bin/pip install obstore")
    with pytest.raises(UsageError) as caught:
        Store("s3://AKID:topsecret@team/x")
    assert "credentials belong into the environment" in str(caught.value) and "topsecret" not in str(caught.value)


def test_without_obstore_one_line_says_how_to_get_it() -> None:
    code = "import sys; sys.modules['obstore'] = None; from roofbook.cli import main; main()"
    command = [sys.executable, "-c", code, "export", "--results", "s3://team/x"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([LIB, *sys.path])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 2 and done.stderr == (
        "error: results at s3:// need the package obstore: `make book WITH=bucket` installs it\n"
    )


def test_copies_between_folders_bring_each_row_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_store, other_store, team_store = (Store(tmp_path / name) for name in ("mine", "yours", "ours"))
    for minute in range(3):
        own_store.append([row(f"m{minute}", minute)])
        other_store.append([row(f"y{minute}", minute)], "recorded")
    (own_store.files()[0].with_name("broken.parquet")).write_bytes(b"PAR1")
    assert (
        copy(own_store.storage, team_store.storage) == (3, 0, 1)
        and "broken.parquet is left out" in capsys.readouterr().err
    )
    assert copy(other_store.storage, team_store.storage) == (3, 0, 0)
    team_store.compact()
    assert copy(own_store.storage, team_store.storage) == (0, 3, 1) and copy(
        other_store.storage, team_store.storage
    ) == (0, 3, 0)
    own_store.files()[-1].with_name("broken.parquet").unlink()
    assert copy(team_store.storage, other_store.storage) == (1, 3, 0)
    assert variants(team_store) == variants(other_store) == ["m0", "m1", "m2", "y0", "y1", "y2"]
    assert variants(own_store) == ["m0", "m1", "m2"]


def test_an_unreadable_file_does_not_stop_a_transfer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_store, team_store = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    for minute in range(3):
        own_store.append([row(f"m{minute}", minute)])
    secret = own_store.files()[0]
    secret.with_name("folder.parquet").mkdir()
    read = paths.read_regular

    def refused(path: Path, *how: Any, **options: Any) -> bytes:
        if path == secret:
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path, *how, **options)

    monkeypatch.setattr(storage, "read_regular", refused)  # root may read all
    assert copy(own_store.storage, team_store.storage) == (2, 0, 2)
    messages = capsys.readouterr().err
    assert f"{secret} is left out: Permission denied" in messages
    assert "folder.parquet is left out: it is no regular file" in messages
    assert copy(team_store.storage, own_store.storage) == (0, 2, 0), "nor if it is in the target"


def test_other_files_are_left_out_of_a_transfer_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_store, team_store = Store(tmp_path / "mine"), Store(tmp_path / "ours")
    (good,) = own_store.append([row("good")])
    os.mkfifo(good.with_name("pipe.parquet"))
    good.with_name("link.parquet").symlink_to(good)
    for name in ("x" * 247, "a\x1b[2J", "line\nbreak"):
        good.with_name(f"{name}.parquet").write_bytes(good.read_bytes())
    assert copy(own_store.storage, team_store.storage) == (1, 0, 5)
    messages = capsys.readouterr().err
    for reason in (
        "it is no regular file",
        "it is a link",
        "its name has 255 bytes",
        "its name has a control character",
    ):
        assert reason in messages
    assert "\x1b" not in messages and messages.count("\n") == 5 and variants(team_store) == ["good"]


def test_a_lease_has_one_holder_until_it_is_given_back_or_expires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_storage, folder = storage.Folder(tmp_path), "local/lab=lbm/device=x"
    with storage.lease(folder_storage, folder) as first, storage.lease(folder_storage, folder) as second:
        assert first and not second
    abandoned = storage.lease(folder_storage, folder)
    assert abandoned.__enter__()
    with storage.lease(folder_storage, folder) as is_holder:
        assert not is_holder
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + storage.LEASE_S + 1)
    with storage.lease(folder_storage, folder) as is_holder:
        assert is_holder
    assert [entry.name[-1] for entry in folder_storage.entries(f"{storage.LEASES}/{folder}/*")] == ["3"]
    abandoned.__exit__(None, None, None)
    with storage.lease(folder_storage, folder) as is_holder:
        assert is_holder, "a holder that came back late blocks the lease"


@pytest.mark.usefixtures("listens")
@pytest.mark.parametrize("at", ["add", "replace"])
def test_ctrl_c_gives_a_lease_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    """Ctrl-C comes as the lease is taken, or a second time as it is given back."""
    folder_storage, folder = storage.Folder(tmp_path), "local/lab=lbm/device=x"
    method = getattr(folder_storage, at)

    def interrupted(name: str, data: bytes) -> object:
        if at == "replace":
            signal.raise_signal(signal.SIGINT)
        done = method(name, data)
        if at == "add":
            signal.raise_signal(signal.SIGINT)
        return done

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(folder_storage, at, interrupted)
        with storage.lease(folder_storage, folder) as is_holder:
            assert is_holder
    with storage.lease(folder_storage, folder) as is_holder:
        assert is_holder


def test_a_file_that_is_no_lease_keeps_nobody_from_merging(tmp_path: Path) -> None:
    folder_storage, folder = storage.Folder(tmp_path), tmp_path / storage.LEASES / "local"
    folder.mkdir(parents=True)
    for name in (".000000001-0a1b2c.tmp", "notes.txt", "000000001.part"):
        (folder / name).write_text('{"until": 1e99}')
    for number in (1, 2):
        with storage.lease(folder_storage, "local") as is_holder:
            assert is_holder and (folder / f"{number:09d}").exists()


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"until": null}', '{"until": NaN}', '{"until": 1e99}', '{"until": 1' + 400 * "0" + "}", 9999 * "["],
    ids=["empty", "list", "null", "nan", "a wrong clock", "huge", "deep"],
)
def test_a_lease_that_cannot_be_keeps_nobody_from_merging(tmp_path: Path, content: str) -> None:
    folder_storage, folder = storage.Folder(tmp_path), tmp_path / storage.LEASES / "local"
    folder.mkdir(parents=True)
    (folder / "000000001").write_text(content)
    with storage.lease(folder_storage, "local") as is_holder:
        assert is_holder


def test_no_merge_makes_a_file_too_large_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)
    for minute in range(4):
        store.append([row(f"v{minute}", minute)])
    monkeypatch.setattr(parquet, "check_file", lambda data: CheckedFile(pa.table({}), Facts("it has too many rows")))
    assert store.compact() == [] and len(variants(store)) == 4


@pytest.mark.parametrize("broken", [True, False])
def test_a_file_that_changes_during_a_merge_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """A checkout or a copy can write over a file, between two readings of it or after the last one."""
    store = Store(tmp_path)
    (path,) = store.append([row("a", 0)])
    store.append([row("b", 1)])
    changed = b"half a file" if broken else Store(tmp_path / "other").append([row("c", 2)])[0].read_bytes()
    encoded, mergeable = files.encoded, store._mergeable

    def change_then(function: Callable[..., Any], *arguments: Any) -> Any:
        path.write_bytes(changed)
        return function(*arguments)

    if broken:
        groups = mergeable("lbm", "device", "local")
        monkeypatch.setattr(store, "_mergeable", lambda *_: change_then(lambda: groups))
    else:
        monkeypatch.setattr(files, "encoded", lambda *arguments: change_then(encoded, *arguments))
    assert store.compact() == [] and path.read_bytes() == changed


def test_a_folder_that_another_process_merges_is_skipped(tmp_path: Path) -> None:
    store, busy = Store(tmp_path), list[str]()
    for minute in range(2):
        store.append([row(minute=minute)])
    with storage.lease(store.storage, "local/lab=lbm/device=device"):
        assert store.compact(busy=busy.append) == [] and busy == ["local/lab=lbm/device=device"]
    assert len(store.compact(busy=busy.append)) == 1 and len(busy) == 1


def test_the_command_says_whether_it_merged_and_whether_another_process_does(
    tmp_path: Path, command: Callable[..., tuple[int, str, str]]
) -> None:
    store, words = Store(tmp_path), ["compact", "--part", "recorded", "--results", str(tmp_path)]
    for minute in range(2):
        store.append([row(minute=minute)], part="recorded")
    with storage.lease(store.storage, "recorded/lab=lbm/device=device"):
        code, out, _ = command(*words)
    assert code == 0 and "somebody else is merging it" in " ".join(out.split()) and "nothing" not in out
    assert command(*words) == (0, "1 file now holds the rows of several\n", "")
    assert command(*words) == (0, "There was nothing to merge\n", "")
