"""Storage in a bucket of an object store, by the package obstore: S3 and servers of its protocol, or Google Cloud Storage.

Each file is fetched whole and once: files never change, so the cache on this machine stays valid. Credentials come from the
usual environment variables. No message repeats an answer of a server, since it may contain parts of them.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.client import HTTPException
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.request import urlopen

from ..errors import UsageError
from ..paths import cache_dir, cache_key, installing, write_whole
from .files import file_fault, printable, warn_once
from .storage_interface import Entry, digest

_REQUESTS = 16
"""Number of concurrent requests: more gain nothing on one connection's bandwidth."""
_RETRY_S = 15
"""Seconds for which a request is retried if the server or the network fails."""
_SILENT_S = 20
"""Seconds after which a silent connection counts as broken. Until then Ctrl-C waits, since the library does not look for it."""
_ENDPOINT = r"https?://(?:[\w.:%-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[\w.~%/-]*)?"
"""Pattern of a server's address: the library panics at any other text."""
_HEAD = 1 << 16
"""Number of bytes of an answer in which the root element of S3's protocol is searched."""
_NO_OBJECT_STORE = "the server is no object store: AWS_ENDPOINT_URL is to be the address of one that speaks S3"
_MESSAGES = {
    "NoSuchBucket": "the bucket does not exist",
    "InvalidAccessKeyId": "the server does not know this AWS_ACCESS_KEY_ID",
    "SignatureDoesNotMatch": "AWS_SECRET_ACCESS_KEY is not that of this AWS_ACCESS_KEY_ID",
    "AccessDenied": "these credentials may not do this",
    "ExpiredToken": "AWS_SESSION_TOKEN has expired",
    "InvalidToken": "AWS_SESSION_TOKEN is not valid",
    "RequestTimeTooSkewed": "this machine's clock differs too much from the server's",
    "PermanentRedirect": "the bucket is in another region: set AWS_REGION",
    "AuthorizationHeaderMalformed": "the bucket is in another region: set AWS_REGION",
}
"""Messages to the user by S3's error codes."""


class Bucket:
    """Storage at s3://BUCKET/NAME or gs://BUCKET/NAME. Creating this object sends no request."""

    is_remote = True

    def __init__(self, address: str) -> None:
        """Raise UsageError if the package obstore is missing, or if the address holds more than a bucket and a name."""
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise UsageError(
                f"results at {address.partition('://')[0]}:// need the package obstore: {installing('bucket')}"
            ) from None
        bare = address.partition("://")[2]
        if re.search(r"[@?#]", bare):
            raise UsageError(
                "the URL of results is s3://BUCKET/NAME; credentials belong into the environment's variables"
            )
        self.address, self._obstore, self._is_checked = address.rstrip("/"), obstore, False
        endpoint = self._endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        port = re.fullmatch(_ENDPOINT, endpoint) if endpoint else None
        if endpoint and (not port or int(port[1] or 0) > 65535):
            raise UsageError("AWS_ENDPOINT_URL is the address of a server, such as https://HOST or http://HOST:PORT")
        self.root = cache_dir() / "stores" / cache_key(endpoint, self.address)[:24]
        retry: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=_RETRY_S)}
        client: Any = {
            "timeout": "1h",
            "read_timeout": f"{_SILENT_S}s",
            "connect_timeout": "5s",
            "allow_http": endpoint.startswith("http://"),
        }
        try:
            with self._plain_errors():
                self._store = from_url(self.address, client_options=client, retry_config=retry)
        except ValueError:
            raise UsageError(f"{address} names no bucket: the URL of results is s3://BUCKET/NAME") from None

    def entries(self, pattern: str) -> list[Entry]:
        prefix = PurePosixPath(re.split(r"[*?\[]", pattern, maxsplit=1)[0] + "x").parent
        depth, entries, is_empty = pattern.count("/"), [], True
        with self._plain_errors():
            for chunk in self._obstore.list(self._store, str(prefix), chunk_size=1000):
                for meta in chunk:
                    is_empty = False
                    name = meta["path"]
                    if name.count("/") == depth and PurePosixPath(name).match(pattern):
                        if fault := file_fault(name, meta["size"]):
                            warn_once(
                                self.root / cache_key(name), f"{self.address}/{printable(name)} is left out: {fault}"
                            )
                        else:
                            entries.append(Entry(name, meta["size"], _tag(meta)))
        if is_empty:
            self._check_protocol()
        return sorted(entries)

    def _check_protocol(self) -> None:
        """Raise UsageError if the endpoint is a plain web server: obstore reads its pages as an empty listing."""
        if self._is_checked or not self._endpoint.startswith("http") or not self.address.startswith("s3://"):
            return
        bucket = self.address.partition("://")[2].partition("/")[0]
        request = f"{self._endpoint.rstrip('/')}/{bucket}?list-type=2&max-keys=0"
        answer = b"<ListBucketResult"  # if this request fails, no complaint: the library did get an answer
        with contextlib.suppress(OSError, ValueError, HTTPException), urlopen(request, timeout=_SILENT_S) as response:
            answer = response.read(_HEAD)
        if b"<ListBucketResult" not in answer:
            raise UsageError(f"{self.address}: {_NO_OBJECT_STORE}")
        self._is_checked = True

    def files(self, patterns: Sequence[str]) -> list[Path]:
        while True:
            entries = [entry for pattern in patterns for entry in self.entries(pattern)]
            sizes = {path: path.stat().st_size for pattern in patterns for path in self._copies(pattern)}
            paths = [self._cached(entry) for entry in entries]
            due = [(entry, path) for entry, path in zip(entries, paths, strict=True) if sizes.get(path) != entry.size]
            with ThreadPoolExecutor(_REQUESTS) as pool:
                if not all(list(pool.map(self._fetch, due))):
                    continue  # a merge removed a file
            for path in sizes.keys() - set(paths):
                path.unlink(missing_ok=True)
            return paths

    def _copies(self, pattern: str) -> Iterator[Path]:
        """Yield the files in the cache that match, without those that another process removes meanwhile."""
        for path in self.root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                path.stat()
                yield path

    def _cached(self, entry: Entry) -> Path:
        """Return the path of a file's copy. It contains the tag, since another file may get the name after a merge."""
        path = self.root / entry.name
        return path.with_name(f"{path.stem}~{entry.tag}{path.suffix}")

    def name(self, path: Path) -> str:
        return re.sub(r"~[^/]*(\.[^./]*)$", r"\1", path.relative_to(self.root).as_posix())

    def _fetch(self, due: tuple[Entry, Path]) -> bool:
        """Fetch a file to a path. Return False if it was removed or replaced since it was listed."""
        entry, path = due
        try:
            with self._plain_errors():
                answer = self._obstore.get(self._store, entry.name)
                content, tag = bytes(answer.bytes()), _tag(answer.meta)
        except FileNotFoundError:
            return False
        if tag == entry.tag:
            write_whole(path, content)
        return tag == entry.tag

    def read(self, name: str) -> bytes:
        with self._plain_errors():
            return bytes(self._obstore.get(self._store, name).bytes())

    def digest(self, entry: Entry) -> str:
        return entry.tag if re.fullmatch("[0-9a-f]{32}", entry.tag) else digest(self.read(entry.name))

    def add(self, name: str, data: bytes) -> bool:
        try:
            with self._plain_errors(missing_is_bucket=True):
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._plain_errors(missing_is_bucket=True):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def remove(self, names: Iterable[str]) -> None:
        if removed := list(names):
            with self._plain_errors(), contextlib.suppress(FileNotFoundError):
                self._obstore.delete(self._store, removed)

    @contextlib.contextmanager
    def _plain_errors(self, *, missing_is_bucket: bool = False) -> Iterator[None]:
        """Turn errors of the object store into UsageErrors of one line, or FileNotFoundError and FileExistsError.

        missing_is_bucket: a request that finds nothing means that the bucket does not exist.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

        try:
            yield
        except AlreadyExistsError as error:
            raise FileExistsError(self.address) from error
        except (NotFoundError, BaseError) as error:
            code = re.search(r"<Code>(\w{1,60})</Code>", str(error))
            if isinstance(error, NotFoundError) and not missing_is_bucket and (not code or code[1] != "NoSuchBucket"):
                raise FileNotFoundError(self.address) from None
            raise UsageError(f"{self.address}: {_message(error, code[1] if code else '')}") from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # the library's own, which is no Exception
                raise
            raise UsageError(
                f"{self.address}: no server has such an address as AWS_ENDPOINT_URL or AWS_REGION make"
            ) from None


def _tag(meta: Any) -> str:
    """Return text that changes with an object's content and is fit for a file name, from the metadata that obstore returns."""
    return re.sub(r"\W", "", meta["e_tag"] or meta["version"] or f"{meta['last_modified']:%Y%m%dT%H%M%S%f}")[:40]


def _message(error: Exception, code: str) -> str:
    """Return the message for an error of obstore, without the server's words. code: the error code of S3, or ''."""
    text = str(error)
    if code:
        return _MESSAGES.get(code, f"the server refuses it: {code}")
    if "169.254.169.254" in text:
        return "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if re.search(r"kind: Timeout|TimedOut|timed out", text):
        return f"the server answers too slowly: each request got no answer for {_SILENT_S} s"
    if re.search(
        r"invalid list response|InvalidListResponse|InvalidResponse|Unexpected(End)?Event|Malformed", text, re.I
    ):
        return _NO_OBJECT_STORE
    if status := re.search(r"non-2xx status code: (\d{3})", text):
        return f"the server answers with status {status[1]}"
    if "HTTP error" in text:
        return "the server cannot be reached; set AWS_ENDPOINT_URL to its address if it is not Amazon's"
    return f"it cannot be used ({type(error).__name__})"
