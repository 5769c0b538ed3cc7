"""What several tests need: every device, the executed notebook, the built site, and a browser where there is one."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import devices

ROOT = Path(__file__).parents[1]

# Headless, and quiet: a browser that asks nothing of the network by itself.
CHROMIUM_FLAGS = [f"--{flag}" for flag in (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync",
)]  # fmt: skip


def every_device() -> list[Any]:
    """One parameter a device that is present; a backend without one is a test that is skipped, with the reason."""
    found = devices()
    params = [
        pytest.param(each, id=each.spec.replace(":", ""), marks=[pytest.mark.gpu] if each.kind == "gpu" else [])
        for each in found
    ]
    for backend, reason, marks in (
        ("cuda", "no CUDA device: it takes an NVIDIA driver and CuPy", [pytest.mark.gpu]),
        ("opencl", "no OpenCL device: `pip install 'pyopencl[pocl]'` brings one for the CPU", []),
    ):
        if not any(each.backend == backend for each in found):
            params.append(pytest.param(None, id=backend, marks=[*marks, pytest.mark.skip(reason=reason)]))
    return params


MADE = shutil.ignore_patterns("labs", "*.ipynb", "_generated", "_build", "__pycache__")
"""What is made in book/, and no part of a checkout."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the executed book runs in one process, which executes it once."""
    for item in items:
        if "executed" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("book"))


@pytest.fixture(scope="session", params=every_device())
def device(request: pytest.FixtureRequest) -> Any:
    """Each device in turn: a test that takes it is the same test body on every backend."""
    return request.param


@pytest.fixture(scope="session")
def unmeasured(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a checkout in which nothing is measured yet: settings, notebooks, pages, published figures."""

    def make() -> Path:
        folder = tmp_path_factory.mktemp("unmeasured")
        shutil.copy(ROOT / "_config.yml", folder)
        shutil.copytree(ROOT / "experiments", folder / "experiments")
        shutil.copytree(ROOT / "book", folder / "book", ignore=MADE)
        shutil.copytree(ROOT / "results" / "published", folder / "results" / "published")
        return folder

    return make


@pytest.fixture(scope="session")
def executed(unmeasured: Callable[[], Path]) -> dict[str, Path]:
    """Every notebook, executed at scale `test` in a checkout of their own, by its name."""
    from roofbook import execute

    root = unmeasured()
    parameters = {"scale": "test", "budget_s": 0.01}
    return {book.stem: execute.execute(root, book, parameters) for book in execute.notebooks(root)}


@pytest.fixture(scope="session")
def executed_lbm(executed: dict[str, Path]) -> Path:
    """The LBM notebook among them."""
    return executed["lbm"]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory, executed: dict[str, Path]) -> Path:
    """A copy of what the site is made from, with the executed notebooks and a wide page that strains the layout."""
    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copytree(ROOT / "book", folder / "book", ignore=MADE)
    (folder / "book" / "labs").mkdir()
    (folder / "book" / "_generated").mkdir()
    root = executed["lbm"].parents[2]
    for notebook in executed.values():
        shutil.copy(notebook, folder / notebook.relative_to(root))
    shutil.copy(Path(__file__).parent / "data" / "strain.md", folder / "book" / "labs")
    return folder


@pytest.fixture(scope="session")
def built_site(checkout: Path) -> Path:
    """The folder of the site that Jupyter Book built from `checkout`."""
    from roofbook import site

    return site.build(checkout).parent


@pytest.fixture(scope="session")
def served_site(built_site: Path) -> Iterator[str]:
    """The address of the built site on this machine."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(built_site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A headless Chromium, the system's own; the test is skipped where there is none."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on PATH; to look at the site: apt-get install chromium (or your system's like)")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=CHROMIUM_FLAGS)
        yield running
        running.close()
