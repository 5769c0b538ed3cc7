"""Servers that are no object store, or answer too slowly: commands fail with one line, and never report an empty store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from roofbook.store import bucket

from ..conftest import Command

pytest.importorskip("obstore", reason="needs obstore: .venv/bin/pip install obstore")
Serve = Callable[[str, bytes], None]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that starts a server and makes it the endpoint: it answers every request with one page, or never."""
    servers, ended = list[ThreadingHTTPServer](), threading.Event()

    def start(kind: str, page: bytes) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not page:
                    ended.wait(60)
                    return
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{servers[-1].server_address[1]}")

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-tests")
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3", raising=False)
    yield start
    ended.set()
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("kind", "page"),
    [
        ("text/html", b"<!DOCTYPE html><html><body><h1>It works</h1></body></html>"),
        ("text/plain", b"plain words"),
        ("application/json", b'{"ok": true}'),
        ("application/xml", b"<?xml version='1.0'?><feed><entry/></feed>"),
    ],
)
def test_a_server_that_is_no_object_store_is_reported(
    serve: Serve, command: Command, tmp_path: Path, kind: str, page: bytes
) -> None:
    serve(kind, page)
    code, out, err = command("pull", "s3://team/store", "--results", str(tmp_path / "results"))
    assert code == 2 and "copied" not in out and err.count("\n") == 1
    assert err.startswith("error: s3://team/store: the server is no object store: AWS_ENDPOINT_URL is to be")


def test_an_empty_bucket_is_empty(serve: Serve, command: Command, tmp_path: Path) -> None:
    listing = (
        b"<?xml version='1.0' encoding='UTF-8'?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
    )
    serve("application/xml", listing)
    code, out, err = command("pull", "s3://team/store", "--results", str(tmp_path / "results"))
    assert (code, err) == (0, "") and out.startswith("0 files copied")


def test_a_server_that_never_answers_is_too_slow(
    serve: Serve, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "_SILENT_S", 1)
    monkeypatch.setattr(bucket, "_RETRY_S", 1)
    serve("", b"")
    code, _, err = command("pull", "s3://team/store", "--results", str(tmp_path / "results"))
    assert code == 2 and err == (
        "error: s3://team/store: the server answers too slowly: each request got no answer for 1 s\n"
    )
