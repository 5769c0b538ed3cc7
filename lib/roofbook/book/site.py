"""Build of the site from book/, and its web server. Serves `roofbook build` and `roofbook serve`.

The builder runs as a quiet process of its own; every warning is an error. The manifest records the site's inputs, so that a
build with nothing to do costs next to nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from ..ctrl_c import accept_ctrl_c
from ..errors import Failed, UsageError
from ..spec import registry
from ..terminal import say as tell
from . import lab_pages
from .execute import check_notebook
from .input_hashes import InputHashes
from .manifest import Manifest, reason_text

INDEX = Path("_build", "html", "index.html")


class SiteFailed(Failed):
    """The builder found errors. The message lists each warning on a line of its own."""


class Builder(subprocess.Popen[str]):
    """Process that builds the site. `known` holds the hashes of the inputs that it has read already."""

    inputs_read: Mapping[str, str]


READ_AHEAD = ("settings", "extension", "builder")
"""Inputs of the site that a builder reads before it waits."""


def start(root: Path) -> Builder:
    """Start a builder of the checkout `root`.

    It opens the site in its current state and waits for `build`; it may be killed.
    """
    made_from = InputHashes(root).site()
    command = [sys.executable, "-c", _JUPYTER_BOOK, "build", str(root / "book"), "--path-output", str(root)]
    command += ["-W", "--keep-going", "-q"]
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "NO_COLOR": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    environment[lab_pages.PREPARED] = "1"
    pipe = subprocess.PIPE
    builder = Builder(command, cwd=root, env=environment, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)
    builder.inputs_read = {name: made_from[name] for name in READ_AHEAD}
    return builder


def build(root: Path, *, progress: Callable[[str], None] | None = None, builder: Builder | None = None) -> Path:
    """Build the site of the checkout `root` by Jupyter Book if an input changed; return its index.html.

    builder: a process from `start`, to save time. If its inputs have changed since, it is replaced. Raise SiteFailed with the
    builder's warnings.
    """
    say = progress or (lambda _: None)
    index, manifest = root / INDEX, Manifest(root)
    lab_pages.write_pages(root / "book")
    made_from = InputHashes(root).site()  # a page edited from here on leaves the site stale
    reasons = manifest.stale(index, made_from)
    if not reasons:
        return index
    say(f"Building the site: {reason_text(reasons)}")
    _check_sources(root)
    manifest.forget(index)  # a half-built site matches no sources
    if builder and builder.inputs_read != {name: made_from[name] for name in READ_AHEAD}:
        builder.kill()
        builder = None
    with builder or start(root) as running:
        try:
            output, _ = running.communicate("\n")
        except BaseException:
            running.kill()
            raise
    if running.returncode or not index.exists():
        # Sphinx would not read these pages again, and so forget its warnings about them.
        shutil.rmtree(root / "_build" / ".doctrees", ignore_errors=True)
        raise SiteFailed("the site was not built\n" + _complaints(output, root))
    manifest.record(index, made_from)
    return index


def _check_sources(root: Path) -> None:
    """Raise UsageError for unreadable settings, table of contents or notebooks: the builder's own message has many lines."""
    import yaml

    for path in (root / "_config.yml", root / "book" / "_toc.yml"):
        try:
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"{path} is no YAML: {' '.join(str(error).split())}") from None
        if not isinstance(settings, dict):
            raise UsageError(f"{path} holds a {type(settings).__name__}; expected names, each with its value")
    for path in (root / "book").rglob("*.ipynb"):
        check_notebook(path)
    toc = (root / "book" / "_toc.yml").read_text(encoding="utf-8")
    for page in (root / "book").glob("*.ipynb"):  # pages of labs are in labs/
        if page.stem == registry.PEAKS or page.stem in toc:
            continue
        if (notebook := root / "experiments" / page.name).exists():
            raise UsageError(f"{notebook} is of no lab; ROOFBOOK_LABS names the folder of a lab that lies elsewhere")
        raise UsageError(
            f"{page} is no page of the book, and {notebook} is gone: remove it, or name it in book/_toc.yml"
        )


# The command `jupyter-book`, run by this interpreter: `python -m jupyter_book` does not exist. After Sphinx has opened the
# site, the process compiles its templates (a third of a second), imports modules for pages (as long), and waits for a line. If
# its input ends instead, nothing is built. Of the pages it has then read only the state that the last build stored. After
# writing it exits at once: freeing its memory would take half a second. Garbage collection is off: it would take a quarter of
# the time. Sphinx finds the stems of words page by page; here they are found once for all pages.
_JUPYTER_BOOK = """import contextlib, functools, gc, importlib, os, sys
gc.disable()
from jupyter_book.cli.main import main
from sphinx.application import Sphinx
from sphinx.search.en import SearchEnglish

SearchEnglish.stem = functools.cache(SearchEnglish.stem)

build = Sphinx.build

def build_after_line(app, *args, **kwargs):
    for name in ("docutils.languages.en", "xml.dom.minidom", "pybtex.style.formatting.plain",
                 "pybtex.markup", "pygments.lexers.shell", "roofbook.book.kernels_page", "roofbook.report.cards_page"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):  # the first compilation of the theme's selectors is slow
        importlib.import_module("soupsieve").compile("nav#a.b > ul:not([c='d']) li:has(> e) + f ~ g")
    for loader in app.builder.templates.loaders:
        for name in loader.list_templates():
            if name.endswith(".html"):
                with contextlib.suppress(Exception):
                    app.builder.templates.environment.get_template(name)
    if not sys.stdin.readline():
        sys.exit()
    build(app, *args, **kwargs)

Sphinx.build = build_after_line
try:
    main(prog_name="jupyter-book")
except SystemExit as end:
    if end.code:
        raise
sys.stdout.flush()
os._exit(0)
"""


def stale(root: Path) -> list[str]:
    """Return reasons why the site differs from its sources, as `Manifest.stale` does; empty if it does not."""
    return Manifest(root).stale(root / INDEX, InputHashes(root).site())


def serve(site: Path, port: int = 8000) -> None:
    """Serve the folder `site` on this machine only, until Ctrl-C. Port 0 takes any free one."""
    from functools import partial
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    if not (site / "index.html").exists():
        raise UsageError(f"there is no site in {site}; `roofbook build` makes one")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: readers do not need a line per request."""

        def parse_request(self) -> bool:
            """Refuse a request for another host name that resolves to this machine (DNS rebinding)."""
            if not super().parse_request():
                return False
            host = self.headers.get("Host", "").rpartition(":")[0] or self.headers.get("Host", "")
            if host in ("127.0.0.1", "localhost", ""):
                return True
            self.send_error(421, f"this site is served as 127.0.0.1 and localhost, not as {host}")
            return False

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Log nothing: browsers drop connections at any time."""

    try:
        server = Server(("127.0.0.1", port), partial(Quiet, directory=str(site)))
    except OSError as error:
        raise UsageError(f"port {port} cannot be used ({error.strerror}); choose another by --port") from None
    with server:
        tell(f"Serving on http://127.0.0.1:{server.server_address[1]} (Ctrl-C ends it)")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            accept_ctrl_c()
            print()


def _complaints(output: str, root: Path) -> str:
    """Return the builder's warnings and errors, one per line, or the end of its output if it gave none."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output).replace(f"{root}{os.sep}", "")
    problems = [line.strip() for line in plain.splitlines() if re.search(r"\b(WARNING|ERROR|CRITICAL)\b", line)]
    return "\n".join(f"  {line}" for line in dict.fromkeys(problems)) or plain.strip()[-2000:]
