"""Fixtures that several tests share (devices, a checkout, the command line, a browser), and the order of the tests."""

from __future__ import annotations

import os

# A hook of git, or `git rebase -x`, exports which repository and which index git is to use: tests that made one of their own
# would write into that of the reader. Nor do the reader's settings of git take part: hooks, signatures, ends of lines.
for name in [name for name in os.environ if name.startswith("GIT_") and not name.startswith("GIT_CONFIG_")]:
    del os.environ[name]
for name, value in {
    "commit.gpgSign": "false",
    "core.autocrlf": "false",
    "core.excludesFile": os.devnull,
    "core.hooksPath": os.devnull,
    "init.templateDir": "",
    "tag.gpgSign": "false",
}.items():
    number = int(os.environ.get("GIT_CONFIG_COUNT", "0"))
    os.environ |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    os.environ["GIT_CONFIG_COUNT"] = str(number + 1)
os.environ.pop("GIT_CONFIG_PARAMETERS", None)

# Before NumPy is there, and for each process that a test starts. The processes of pytest-xdist keep all cores at work; with
# more threads than cores a matrix product, and a loop of OpenMP, mostly waits in a loop for a thread that is not running.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("POCL_AFFINITY", "0")  # bound, those of several processes share a core while another idles

import gc
import hashlib
import inspect
import pickle
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from roofbook import cli
from roofbook.book import browser_runs, kernels_page
from roofbook.devices.backends import BACKENDS
from roofbook.devices.find import devices
from roofbook.measure import schedule
from roofbook.measure.case_run import measure_and_store
from roofbook.paths import LIBRARY, write_whole
from roofbook.spec import browser_run, registry
from roofbook.spec.lab import Lab
from roofbook.store import checker, row_cache

from .pocl_builtins import few_builtins
from .tabs import Tabs

ROOT = Path(__file__).parents[1]

# On a machine that is busy or slow a right example takes long, too. The short suite draws fewer of them, and the same ones each
# time: whoever changes something else meets no example that nobody has seen. `make test-all` draws new ones.
AT_ANY_PACE: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("short", max_examples=25, derandomize=True, **AT_ANY_PACE)
settings.register_profile("thorough", **AT_ANY_PACE)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("short" if "not thorough" in config.option.markexpr else "thorough")
    gc.disable()  # until all tests are collected: they stay, so each search for garbage among them is for nothing


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


# Headless, and quiet: a browser that asks nothing of the network by itself.
CHROMIUM_FLAGS = [f"--{flag}" for flag in (
    "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
    "disable-component-update", "disable-sync",
)]  # fmt: skip
BROWSER_PATIENCE_MS = 180_000
"""Milliseconds in which a page loads and an element appears. On a busy machine 30 s, Playwright's own, are too few."""
WEBGPU_FLAGS = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"]


def every_device() -> list[Any]:
    """Return one parameter for each device that is present; a backend without a device is a skipped test, with the reason."""
    present = devices()
    params = [
        pytest.param(
            present_device,
            id=present_device.spec.replace(":", ""),
            marks=[pytest.mark.gpu] if present_device.kind == "gpu" else [],
        )
        for present_device in present
    ]
    for backend in BACKENDS.values():
        if not any(present_device.backend == backend.name for present_device in present):
            marks = [] if "cpu" in backend.features else [pytest.mark.gpu]
            skip = pytest.mark.skip(reason=backend.absent)
            params.append(pytest.param(None, id=backend.name, marks=[*marks, skip]))
    return params


ABSENT = frozenset(backend.absent for backend in BACKENDS.values())
"""Reasons why a backend has no device here."""

LARGE_FILE = 10_000
"""Bytes of a Parquet file from which on it is checked once for all tests: each recorded one has more."""

MADE = shutil.ignore_patterns("labs", "techniques", "*.ipynb", "_generated", "_build", "__pycache__")
"""Files that a build makes in book/ and that belong to no checkout."""


TOGETHER = {
    "tests/book/site/": "book",  # one process executes the book and builds its site
    "tests/devices/test_nvrtc.py": "nvrtc",  # and one compiles each text for both of these
    "tests/devices/test_same_code.py": "nvrtc",
}
"""Tests that run in one process, by the beginnings of their names: they share outputs that take long to make."""
FIRST = (
    "tests/book/site/", "tests/labs/test_races.py", "tests/devices/test_nvrtc.py", "tests/devices/test_same_code",
    "tests/measure/test_judged_kernels.py", "tests/measure/test_answer.py", "tests/measure/test_judge.py",
    "tests/measure/test_case_process.py", "tests/labs/test_corpus.py", "tests/measure/test_gate.py",
    "tests/test_ctrl_c.py", "tests/cli/", "tests/labs/", "tests/measure/", "tests/book/test_browser_runs.py",
    "tests/book/test_", "tests/book/experiment/", "tests/test_", "tests/store/", "tests/analysis/",
)  # fmt: skip
"""Beginnings of test names in the order in which they run. The longest files come first, so short ones fill both processes at
the end. Tests of pages come late: the site's process has cached by then what each page has of all kernels' texts."""


def rank(nodeid: str) -> int:
    """Return the position of a test in the order of FIRST."""
    return next((at for at, begin in enumerate(FIRST) if nodeid.startswith(begin)), len(FIRST))


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each process of pytest-xdist whole files, those of TOGETHER to one, in the order of FIRST."""

    def _split_scope(self, nodeid: str) -> str:
        return next((scope for begin, scope in TOGETHER.items() if nodeid.startswith(begin)), nodeid.split("::")[0])


@pytest.hookimpl(optionalhook=True)  # also without pytest-xdist at work
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByFile:
    config.option.loadscopereorder = False  # not those with most tests first
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by file. For an absent device, one skipped test a file stands for all and counts them."""
    absent: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        for mark in item.iter_markers("skip"):
            if mark.kwargs.get("reason") in ABSENT:
                absent.setdefault((item.nodeid.split("::")[0], mark.kwargs["reason"]), []).append(item)
    for (_, reason), (first, *repeated) in absent.items():
        if repeated:
            first.add_marker(pytest.mark.skip(reason=f"{reason}: {len(repeated) + 1} tests"), append=False)
            left = set(repeated)
            items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: rank(item.nodeid))


@pytest.fixture(scope="session", autouse=True)
def in_this_process() -> Iterator[None]:
    """Measure in this process instead of a separate one, so that tests can replace parts of the library. Commands run as ever,
    and tests/measure/test_case_process.py covers separate processes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedule, "measure_isolated", lambda *at, workers, **how: measure_and_store(*at, **how))
        yield


@pytest.fixture(scope="session", autouse=True)
def programs_are_built_quickly() -> Iterator[None]:
    """Build this process's programs on PoCL without reading the declarations of all functions of OpenCL C."""
    with few_builtins():
        yield


@pytest.fixture(scope="session", autouse=True)
def rows_of_tests_are_not_kept() -> Iterator[None]:
    """Keep rows that tests read out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "read_cached", lambda kind, key: None)
        patch.setattr(row_cache, "write_cached", lambda kind, key, content: None)
        yield


@pytest.fixture(scope="session", params=every_device())
def device(request: pytest.FixtureRequest) -> Any:
    """Each device in turn: a test that takes it is the same test body on every backend."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def a_file_is_checked_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check a large Parquet file once for all processes of the tests, and for all folders that link or copy it.

    The recorded files take seconds to check. Tests of the check itself call `checker.check_file`.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "checked"

    def check(data: bytes) -> checker.CheckedFile:
        if len(data) < LARGE_FILE:
            return checker.check_file(data)
        file = folder / hashlib.sha256(data).hexdigest()
        if file.exists():
            return checker.CheckedFile(*pickle.loads(file.read_bytes()))
        checked = checker.check_file(data)
        if checked.lasting:
            write_whole(file, pickle.dumps(tuple(checked)))
        return checked

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_cache, "check_file", check)
        yield


@pytest.fixture(scope="session", autouse=True)
def browser_scripts_are_made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Make the scripts that run a lab's steps in a browser once for all processes of the tests: all labs take eight seconds.

    Only those of the library's labs as they are. Tests that change a lab, or what a browser runs of it, make their own.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "browser-scripts"
    make = kernels_page.browser_scripts

    def made_once(lab: Lab) -> Any:
        is_own = Path(inspect.getfile(type(lab))).is_relative_to(LIBRARY) and registry.get(lab.name) is lab
        if not is_own or browser_runs.__dict__["browser_run"] is not browser_run.browser_run:
            return make(lab)
        file = folder / lab.name
        if not file.exists():
            write_whole(file, pickle.dumps(make(lab)))
        return pickle.loads(file.read_bytes())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels_page, "browser_scripts", made_once)
        yield


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


Command = Callable[..., tuple[Any, str, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `roofbook ARGUMENTS` in this process: (exit code, standard output, standard error)."""

    def run(*arguments: str) -> tuple[Any, str, str]:
        monkeypatch.setattr(sys, "argv", ["roofbook", *arguments])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def listens() -> Iterator[None]:
    """Ctrl-C reaches this process: a shell's background job ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def playing() -> Iterator[Any]:
    """Playwright, of which a process has one."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        yield playwright


def chromium() -> str:
    """Return the path of the system's Chromium; skip the test where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    path = next((program for name in names if (program := shutil.which(name))), None)
    if path is None:
        pytest.skip("no Chromium on PATH; to look at the site: apt-get install chromium (or your system's like)")
    return path


@contextmanager
def launched(playing: Any, flags: list[str]) -> Iterator[Any]:
    """Run the system's Chromium, whose pages and contexts wait for BROWSER_PATIENCE_MS; skip the test where there is none."""
    running = playing.chromium.launch(executable_path=chromium(), args=flags, timeout=BROWSER_PATIENCE_MS)

    def patient(make: Callable[..., Any]) -> Callable[..., Any]:
        def made(**options: Any) -> Any:
            page_or_context = make(**options)
            page_or_context.set_default_timeout(BROWSER_PATIENCE_MS)
            return page_or_context

        return made

    running.new_page, running.new_context = patient(running.new_page), patient(running.new_context)
    yield running
    running.close()


@pytest.fixture(scope="session")
def browser(playing: Any) -> Iterator[Any]:
    """A headless Chromium, the system's own; the test is skipped where there is none."""
    with launched(playing, CHROMIUM_FLAGS) as running:
        yield running


@pytest.fixture(scope="session")
def tabs_of_all_tests(browser: Any) -> Tabs:
    return Tabs(browser)


@pytest.fixture
def tabs(tabs_of_all_tests: Tabs) -> Iterator[Tabs]:
    """Tabs for one test, which fails on any error of a page's script."""
    with tabs_of_all_tests.of_one_test():
        yield tabs_of_all_tests


@pytest.fixture(scope="session")
def browser_with_webgpu(playing: Any) -> Iterator[Any]:
    """A headless Chromium with WebGPU, on a GPU of software."""
    with launched(playing, [*CHROMIUM_FLAGS, *WEBGPU_FLAGS]) as running:
        yield running
