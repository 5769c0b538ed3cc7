"""A store in a bucket of an object store, by the package obstore: S3 and what speaks its protocol, or Google's.

Files are fetched whole, once: none ever changes, so the cache on this machine stays right. Credentials come from the usual
environment variables, and no message repeats what a server says, since that may hold parts of them.
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
from ..paths import cache_dir, cache_key, write_whole
from .file_check import MOST_BYTES
from .files import shown, unnamed, warn_once
from .storage import Entry, digest

_AT_ONCE = 16
"""Requests: more gain nothing on one connection's bandwidth."""
_WITHIN_S = 15
"""For how long a request that fails by the server's or the network's fault is tried again."""
_SILENT_S = 20
"""After which a connection that says nothing counts as broken. Until then Ctrl-C waits: the library does not look for it."""
_ENDPOINT = r"https?://(?:[\w.:%-]+@)?(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[\w.~%/-]*)?"
"""What is no such address makes the library panic."""
_HEAD = 1 << 16
"""Bytes of an answer that are looked at for the name of the protocol's answer."""
_NO_OBJECT_STORE = "what answers there is no object store: AWS_ENDPOINT_URL is to be the address of one that speaks S3"
_SAYS = {
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
"""Codes of S3, and what to do about them."""


class Bucket:
    """What lies under s3://BUCKET/NAME or gs://BUCKET/NAME. Opening it asks for nothing yet."""

    is_remote = True

    def __init__(self, address: str) -> None:
        """UsageError where the package obstore is missing, or for an address that holds more than a bucket and a name."""
        try:
            import obstore
            from obstore.store import from_url
        except ImportError:
            raise UsageError(
                f"results at {address.partition('://')[0]}:// need the package obstore: `make book WITH=bucket` installs it"
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
        retry: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=_WITHIN_S)}
        client: Any = {
            "timeout": "1h",
            "read_timeout": f"{_SILENT_S}s",
            "connect_timeout": "5s",
            "allow_http": endpoint.startswith("http://"),
        }
        try:
            with self._told():
                self._store = from_url(self.address, client_options=client, retry_config=retry)
        except ValueError:
            raise UsageError(f"{address} names no bucket: the URL of results is s3://BUCKET/NAME") from None

    def entries(self, pattern: str) -> list[Entry]:
        under = PurePosixPath(re.split(r"[*?\[]", pattern, maxsplit=1)[0] + "x").parent
        depth, found, is_empty = pattern.count("/"), [], True
        with self._told():
            for chunk in self._obstore.list(self._store, str(under), chunk_size=1000):
                for each in chunk:
                    is_empty = False
                    name = each["path"]
                    if name.count("/") == depth and PurePosixPath(name).match(pattern):
                        if why := _left_out(name, each["size"]):
                            warn_once(self.root / cache_key(name), f"{self.address}/{shown(name)} is left out: {why}")
                        else:
                            found.append(Entry(name, each["size"], _tag(each)))
        if is_empty:
            self._check_protocol()
        return sorted(found)

    def _check_protocol(self) -> None:
        """Raise a UsageError where the endpoint is a plain web server, whose pages obstore reads as a list of nothing."""
        if self._is_checked or not self._endpoint.startswith("http") or not self.address.startswith("s3://"):
            return
        bucket = self.address.partition("://")[2].partition("/")[0]
        request = f"{self._endpoint.rstrip('/')}/{bucket}?list-type=2&max-keys=0"
        answer = (
            b"<ListBucketResult"  # the library was answered: what else is wrong with the server, requests will tell
        )
        with contextlib.suppress(OSError, ValueError, HTTPException), urlopen(request, timeout=_SILENT_S) as response:
            answer = response.read(_HEAD)
        if b"<ListBucketResult" not in answer:
            raise UsageError(f"{self.address}: {_NO_OBJECT_STORE}")
        self._is_checked = True

    def files(self, patterns: Sequence[str]) -> list[Path]:
        while True:
            found = [entry for each in patterns for entry in self.entries(each)]
            there = {path: path.stat().st_size for each in patterns for path in self._copies(each)}
            paths = [self._cached(entry) for entry in found]
            due = [(entry, path) for entry, path in zip(found, paths, strict=True) if there.get(path) != entry.size]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                if not all(list(pool.map(self._fetch, due))):
                    continue  # a merge took one away
            for path in there.keys() - set(paths):
                path.unlink(missing_ok=True)
            return paths

    def _copies(self, pattern: str) -> Iterator[Path]:
        for path in self.root.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                path.stat()
                yield path

    def _cached(self, entry: Entry) -> Path:
        """Another file may have the name after a merge, so a copy is named by its content too."""
        path = self.root / entry.name
        return path.with_name(f"{path.stem}~{entry.tag}{path.suffix}")

    def name(self, path: Path) -> str:
        return re.sub(r"~[^/]*(\.[^./]*)$", r"\1", path.relative_to(self.root).as_posix())

    def _fetch(self, due: tuple[Entry, Path]) -> bool:
        """Whether the file was still there."""
        entry, path = due
        try:
            with self._told():
                got = self._obstore.get(self._store, entry.name)
                data, tag = bytes(got.bytes()), _tag(got.meta)
        except FileNotFoundError:
            return False
        if tag == entry.tag:
            write_whole(path, data)
        return tag == entry.tag

    def read(self, name: str) -> bytes:
        with self._told():
            return bytes(self._obstore.get(self._store, name).bytes())

    def digest(self, entry: Entry) -> str:
        return entry.tag if re.fullmatch("[0-9a-f]{32}", entry.tag) else digest(self.read(entry.name))

    def add(self, name: str, data: bytes) -> bool:
        try:
            with self._told(missing_is_bucket=True):
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except FileExistsError:
            return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        with self._told(missing_is_bucket=True):
            self._obstore.put(self._store, name, data, use_multipart=False)

    def remove(self, names: Iterable[str]) -> None:
        if gone := list(names):
            with self._told(), contextlib.suppress(FileNotFoundError):
                self._obstore.delete(self._store, gone)

    @contextlib.contextmanager
    def _told(self, *, missing_is_bucket: bool = False) -> Iterator[None]:
        """Errors of the object store as one line each; FileNotFoundError and FileExistsError stay what they are."""
        from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError

        try:
            yield
        except AlreadyExistsError as error:
            raise FileExistsError(self.address) from error
        except (NotFoundError, BaseError) as error:
            code = re.search(r"<Code>(\w{1,60})</Code>", str(error))
            if isinstance(error, NotFoundError) and not missing_is_bucket and (not code or code[1] != "NoSuchBucket"):
                raise FileNotFoundError(self.address) from None
            raise UsageError(f"{self.address}: {_said(error, code[1] if code else '')}") from None
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # of the library, which is no Exception
                raise
            raise UsageError(
                f"{self.address}: no server has such an address as AWS_ENDPOINT_URL or AWS_REGION make"
            ) from None


def _left_out(name: str, size: int) -> str:
    """Why an object is not even fetched; '' for one that is."""
    return unnamed(name) or (f"it has {size} bytes, {MOST_BYTES} at most" if size > MOST_BYTES else "")


def _tag(meta: Any) -> str:
    """What an object store says that changes with the content, as part of a file's name."""
    return re.sub(r"\W", "", meta["e_tag"] or meta["version"] or f"{meta['last_modified']:%Y%m%dT%H%M%S%f}")[:40]


def _said(error: Exception, code: str) -> str:
    text = str(error)
    if code:
        return _SAYS.get(code, f"the server refuses it: {code}")
    if "169.254.169.254" in text:
        return "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if re.search(r"kind: Timeout|TimedOut|timed out", text):
        return f"the server answers too slowly: nothing came for {_SILENT_S} s, each time that it was asked"
    if re.search(
        r"invalid list response|InvalidListResponse|InvalidResponse|Unexpected(End)?Event|Malformed", text, re.I
    ):
        return _NO_OBJECT_STORE
    if status := re.search(r"non-2xx status code: (\d{3})", text):
        return f"the server answers with status {status[1]}"
    if "HTTP error" in text:
        return "the server cannot be reached; AWS_ENDPOINT_URL is its address, where it is not Amazon's"
    return f"it cannot be used ({type(error).__name__})"
