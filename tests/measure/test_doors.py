"""Ports and shared folders: which of them strangers can reach, and harmful files that they might put there."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from roofbook.errors import UsageError
from roofbook.measure import cluster, host_locks
from roofbook.paths import not_private, open_lock

from ..conftest import Command
from ..tls import tls_settings


@pytest.fixture(scope="module")
def dask() -> None:
    pytest.importorskip("distributed", reason="distributed is not installed: pip install 'roofbook[cluster]'")


@pytest.fixture(scope="module")
def own_cluster(dask: None) -> Iterator[tuple[Any, list[str]]]:
    """Yield the client of a cluster of this host with one worker, and the interfaces on which this process listened before."""
    before = listening(psutil.Process())
    with cluster.connected(None, 1) as client:
        client.wait_for_workers(1)
        yield client, before


def listening(process: psutil.Process) -> list[str]:
    """Return the interfaces on which a process and all that it started listen."""
    family = [process, *process.children(recursive=True)]
    connections = (connection for member in family for connection in member.net_connections("inet"))
    return [connection.laddr.ip for connection in connections if connection.status == psutil.CONN_LISTEN]


def test_workers_of_this_host_are_reached_from_this_host_alone(own_cluster: tuple[Any, list[str]]) -> None:
    client, before = own_cluster
    opened = listening(psutil.Process())
    assert len(opened) >= len(before) + 2 + 3, "a scheduler with its page, a worker with its page, and its nanny"
    assert {*(Counter(opened) - Counter(before))} == {cluster.LOOPBACK}
    addresses = [*client.scheduler_info()["workers"], client.scheduler_info()["address"]]
    assert all(address.startswith(f"tcp://{cluster.LOOPBACK}:") for address in addresses)


def test_the_address_of_a_worker_is_no_scheduler(own_cluster: tuple[Any, list[str]]) -> None:
    (worker,) = own_cluster[0].scheduler_info()["workers"]
    with pytest.raises(UsageError, match="it is the address of a Worker"), cluster.connected(worker, None):
        pass


@contextmanager
def answering(words: bytes | None) -> Iterator[str]:
    """The address of a server that says this to whoever connects, or nothing at all."""
    with socket.create_server((cluster.LOOPBACK, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                held.append(connection)
                if words is not None:
                    connection.sendall(words)

        held: list[socket.socket] = []
        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://{cluster.LOOPBACK}:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in held:
            connection.close()


@pytest.mark.parametrize(
    "words", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 8, b"SSH-2.0-OpenSSH_9.2\r\n" * 9, b"\x1b[2J" * 99]
)
def test_an_address_of_no_scheduler_is_one_line_in_the_end(
    dask: None, monkeypatch: pytest.MonkeyPatch, words: bytes | None
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_S", 1.0)
    with answering(words) as address, pytest.raises(UsageError) as refused, cluster.connected(address, None):
        pass
    assert str(refused.value).startswith(f"no Dask scheduler answers at {address!r}: ") and "\n" not in str(
        refused.value
    )


def test_a_command_that_waits_for_no_scheduler_ends(
    dask: None, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cluster.CONNECT_TIMEOUT_S < 30
    monkeypatch.setattr(cluster, "CONNECT_TIMEOUT_S", 1.0)
    with answering(None) as address:
        code, _, err = command("run", "stencil", "--cluster", address)
    assert code == 2 and err.startswith("error: no Dask scheduler answers")


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    return tls_settings(tmp_path)


@contextmanager
def scheduler(protocol: str) -> Iterator[str]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=0, processes=True, host=cluster.LOOPBACK, protocol=protocol, dashboard_address=None, silence_logs=50
    ) as local_cluster:
        yield local_cluster.scheduler_address


def test_a_cluster_by_tls_is_connected_to_and_one_without_certificates_is_not(
    dask: None, monkeypatch: pytest.MonkeyPatch, certificates: dict[str, str]
) -> None:
    import dask as settings

    with monkeypatch.context() as named:
        for name, value in certificates.items():
            named.setenv(name, value)
        settings.config.refresh()
        with scheduler("tls://") as address:
            assert address.startswith("tls://") and not cluster.is_open(address)
            with cluster.connected(address, None) as client:
                assert client.scheduler_info()["address"] == address
            with cluster.connected(None, 1) as client:  # workers of our own take part in the user's settings
                client.wait_for_workers(1)
                assert client.scheduler_info()["address"].startswith(f"tls://{cluster.LOOPBACK}:")
            for name in certificates:
                named.delenv(name)
            named.setattr(cluster, "CONNECT_TIMEOUT_S", 2.0)
            for scheduler_address in (address, address.replace("tls://", "tcp://")):
                with (
                    pytest.raises(UsageError, match="no Dask scheduler answers"),
                    cluster.connected(scheduler_address, None),
                ):
                    pass
    settings.config.refresh()


def test_whoever_uses_a_cluster_without_tls_is_warned(
    dask: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from roofbook.book import campaign

    with scheduler("tcp://") as address, campaign.opened(address, None, tmp_path):
        pass
    assert "whoever reaches its port runs programs as you" in " ".join(capsys.readouterr().out.split())
    with campaign.opened(None, 1, tmp_path):
        pass
    assert "Warning" not in capsys.readouterr().out


# -- folders ----------------------------------------------------------------------------------------------------------


def test_the_target_of_a_link_is_neither_locked_nor_changed(tmp_path: Path) -> None:
    thesis, lock = tmp_path / "thesis.tex", tmp_path / "gate"
    thesis.write_text("years of work")
    lock.symlink_to(thesis)
    for private in (True, False):
        with pytest.raises(UsageError, match="is a link or no file"):
            open_lock(lock, private=private)
    with pytest.raises(UsageError), host_locks.HostLocks(tmp_path).working():
        pass
    assert thesis.read_text() == "years of work"


@pytest.mark.parametrize("kind", ["folder", "pipe", "dangling link"])
def test_a_lock_that_is_no_file_is_refused_without_waiting(tmp_path: Path, kind: str) -> None:
    lock = tmp_path / "gate"
    {"folder": lock.mkdir, "pipe": lambda: os.mkfifo(lock), "dangling link": lambda: lock.symlink_to("nowhere")}[kind]()
    with pytest.raises(UsageError):
        open_lock(lock)
    assert not (tmp_path / "nowhere").exists()


def test_a_lock_leaves_the_content_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b"kept")
    with open_lock(tmp_path / "lock", private=True), open_lock(tmp_path / "new", private=True):
        pass
    assert (tmp_path / "lock").read_bytes() == b"kept" and stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_folder_that_others_can_write_is_no_place_for_locks(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(UsageError, match="can be written by others"):
        open_lock(folder / "gate", private=True)
    assert not list(folder.iterdir())


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UsageError):
        open_lock(tmp_path / "link" / "gate", private=True)
    assert not list((tmp_path / "real").iterdir()) and not_private((tmp_path / "link").lstat())


STRANGER = 12346


@pytest.mark.skipif(os.name != "posix" or os.getuid() != 0, reason="only root can make a folder of another user")
@pytest.mark.parametrize("laid", ["folder", "link", "file"])
def test_a_folder_laid_by_another_user_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, laid: str
) -> None:
    name, memory, temporary = f"roofbook-{os.getuid()}", tmp_path / "memory", tmp_path / "tmp"
    for place in (memory, temporary):
        place.mkdir()
    trap, victim = memory / name, tmp_path / "victim"
    victim.mkdir(mode=0o700)
    {"folder": trap.mkdir, "link": lambda: trap.symlink_to(victim), "file": trap.touch}[laid]()
    os.chown(trap, STRANGER, STRANGER, follow_symlinks=False)
    monkeypatch.setattr(host_locks, "candidate_folders", lambda: (memory, temporary))
    assert host_locks.host_folder() == temporary / name
    with host_locks.HostLocks(host_locks.host_folder()).working():
        assert not list(victim.iterdir())
    os.chown(temporary / name, STRANGER, STRANGER)
    with pytest.raises(UsageError, match=rf"belongs to the user {STRANGER}|is no folder"):
        host_locks.host_folder()


@pytest.mark.parametrize("content", ["a text\n", "a: [1\n", "- 1\n", "a: caf\xe9\n", "\0"])
def test_settings_of_dask_that_are_none_are_named(dask: None, content: str, tmp_path: Path) -> None:
    (tmp_path / "dask.yaml").write_bytes(content.encode("latin-1"))
    say = "from roofbook import errors; from roofbook.measure import cluster; exit(errors.program(cluster.require_dask, ''))"
    environment = {**os.environ, "DASK_CONFIG": str(tmp_path / "dask.yaml")}
    done = subprocess.run([sys.executable, "-c", say], env=environment, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: Dask cannot read its settings: "), done.stderr
    assert done.stderr.count("\n") == 1 and "DASK_CONFIG" in done.stderr
