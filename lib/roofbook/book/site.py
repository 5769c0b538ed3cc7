"""Builds the site from book/ and serves it: what `roofbook build` and `roofbook serve` stand on.

The builder runs as a process of its own, quietly, with every warning an error. A fingerprint of what went in, kept
beside what came out, makes a build that has nothing to do cost nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from ..errors import Failed, UsageError
from ..terminal import say

FINGERPRINT = "fingerprint"


class SiteFailed(Failed):
    """The builder found something wrong: the message lists each warning on a line of its own."""


def build(root: Path, *, out: Path | None = None, progress: Callable[[str], None] | None = None) -> Path:
    """Build the site of the checkout `root` by Jupyter Book; return its index.html.

    `out` is the folder that gets `_build/` (the checkout itself unless given). Nothing is built where nothing changed.
    Raises SiteFailed with the builder's warnings, each of which is an error.
    """
    tell = progress or (lambda _: None)
    build_dir = (out or root) / "_build"
    index = build_dir / "html" / "index.html"
    if not stale(root, out=out):
        tell("The site is up to date")
        return index
    tell("Building the site")
    before = _fingerprint(root)  # a page edited meanwhile leaves the site stale, as it should
    command = [sys.executable, "-c", _JUPYTER_BOOK, "build", str(root / "book"), "--path-output", str(out or root)]
    command += ["-W", "--keep-going", "-q"]
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "NO_COLOR": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    done = subprocess.run(command, cwd=root, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode or not index.exists():
        # Sphinx would not read these pages again, and so forget its warnings about them.
        shutil.rmtree(build_dir / ".doctrees", ignore_errors=True)
        (build_dir / FINGERPRINT).unlink(missing_ok=True)
        raise SiteFailed("the site was not built\n" + _complaints(done.stderr + done.stdout, root))
    (build_dir / FINGERPRINT).write_text(before)
    return index


# `python -m jupyter_book` does not exist; this is what the command `jupyter-book` does, by this very interpreter.
_JUPYTER_BOOK = "from jupyter_book.cli.main import main; main(prog_name='jupyter-book')"


def stale(root: Path, *, out: Path | None = None) -> bool:
    """Whether the site differs from its sources, or was never built. Costs some milliseconds."""
    build_dir = (out or root) / "_build"
    mark = build_dir / FINGERPRINT
    built = mark.exists() and (build_dir / "html" / "index.html").exists()
    return not built or mark.read_text() != _fingerprint(root)


def serve(site: Path, port: int = 8000) -> None:
    """Serve the folder `site` on this machine alone, until Ctrl-C. Port 0 takes any free one."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    if not (site / "index.html").exists():
        raise UsageError(f"there is no site in {site}; `roofbook build` makes one")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: a reader has no use for a line a request."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), partial(Quiet, directory=str(site)))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}); choose another by --port") from None
    with server:
        say(f"Serving on http://127.0.0.1:{server.server_address[1]} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def _sources(root: Path) -> Iterator[Path]:
    """All that the site is made from: settings, pages, executed notebooks, generated fragments, the extension."""
    yield root / "_config.yml"
    yield Path(__file__).with_name("sphinx_ext.py")
    for path in sorted((root / "book").rglob("*")):
        hidden = any(part.startswith((".", "__pycache__")) for part in path.relative_to(root).parts)
        if path.is_file() and not hidden:
            yield path


def _fingerprint(root: Path) -> str:
    from importlib.metadata import version

    digest = hashlib.sha256(f"{version('jupyter-book')} {version('sphinx')} {sys.version_info}".encode())
    for path in _sources(root):
        digest.update(f"\0{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _complaints(output: str, root: Path) -> str:
    """The builder's warnings and errors, a line each; all of its last words where it gave none."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output).replace(f"{root}{os.sep}", "")
    found = [line.strip() for line in plain.splitlines() if re.search(r"\b(WARNING|ERROR|CRITICAL)\b", line)]
    return "\n".join(f"  {line}" for line in dict.fromkeys(found)) or plain.strip()[-2000:]
