"""Processes of ours start without the reader's Python: variables, folders, profiles and settings of drawings."""

import json
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook import own_python, paths
from roofbook.book.experiment import _names_of_the_profile
from roofbook.measure import worker_process
from roofbook.report import figure

from .often import often

SAY = """
import json, os, sys
import roofbook
import platform, numpy, readers_package
print(json.dumps({
    "flags": {name: getattr(sys.flags, name) for name in ("optimize", "dev_mode", "safe_path", "utf8_mode", "inspect")},
    "platform": platform.__file__, "numpy": numpy.__file__, "package": readers_package.__file__,
    "library": roofbook.__file__, "warnings": sys.warnoptions,
    "left": sorted(name for name in os.environ if name.startswith(("PYTHON", "MPL", "IPYTHON"))),
}))
"""


@pytest.fixture
def readers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on PYTHONPATH, current too, with a package of the reader's and with modules of Python's own names."""
    folder = tmp_path / "readers"
    folder.mkdir()
    for name in ("platform", "numpy", "sitecustomize", "usercustomize", "json"):
        (folder / f"{name}.py").write_text(f"raise RuntimeError('the reader has a {name}.py')\n")
    (folder / "readers_package.py").write_text("")
    for name, value in {
        "PYTHONOPTIMIZE": "2", "PYTHONINSPECT": "1", "PYTHONDEVMODE": "1", "PYTHONWARNINGS": "error", "PYTHONUTF8": "0",
        "PYTHONHASHSEED": "7", "PYTHONIOENCODING": "latin-1", "IPYTHONDIR": str(folder), "MPLBACKEND": "no-such",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(paths.LIBRARY.parent)]))
    monkeypatch.chdir(folder)
    return folder


def check(report: dict[str, Any], readers: Path) -> None:
    assert report["flags"] == {"optimize": 0, "dev_mode": False, "safe_path": True, "utf8_mode": 1, "inspect": 0}
    assert str(readers) not in report["platform"] and str(readers) not in report["numpy"] and not report["warnings"]
    assert report["package"] == str(readers / "readers_package.py"), "what only the reader has is still found"
    assert Path(report["library"]).parent == paths.LIBRARY
    left = {"MPLBACKEND", "PYTHONNOUSERSITE", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONUTF8"}
    assert set(report["left"]) - {"PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"} == left


def test_a_measuring_process_runs_nothing_of_the_readers(readers: Path) -> None:
    worker = worker_process.WorkerProcess([sys.executable, "-c", SAY])
    assert worker.process.stdout
    report = json.loads(worker.process.stdout.read())
    worker.end()
    check(report, readers)


def test_the_command_is_one_of_ours_too_and_hands_that_on(readers: Path) -> None:
    """As the command settles: modules that it imports afterwards, and processes that it starts."""
    start = (
        "import sys; sys.path = [path for path in sys.path if path not in ('', sys.argv[1])] + [sys.argv[1]]\n"
        "from roofbook import own_python; own_python.settle()\n"
        "import subprocess\n"
        "import numpy, readers_package\n"
        "assert sys.argv[1] not in (numpy.__file__, '') and sys.path[-1] == sys.argv[1]\n"
        "assert own_python.environment() == dict(__import__('os').environ)\n"
        "print(subprocess.run([sys.executable, '-c', sys.argv[2]], capture_output=True, text=True, check=True).stdout)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(paths.LIBRARY.parent), own_python.PACKAGES: str(readers)}
    environment = {
        name: value for name, value in environment.items() if name not in ("PYTHONINSPECT", "PYTHONWARNINGS")
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", start, str(readers), SAY], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout), readers)


def test_twice_is_as_once() -> None:
    environment = {"PYTHONPATH": "/a:/b", "HOME": "/home/a", "PYTHONSTARTUP": "/x", "PYTHONDONTWRITEBYTECODE": "1"}
    once = own_python.environment(environment)
    assert once[own_python.PACKAGES].split(os.pathsep)[:2] == ["/a", "/b"] and "PYTHONSTARTUP" not in once
    assert own_python.environment(once) == once


def test_programs_of_the_system_run_without_a_path() -> None:
    assert own_python.environment({})["PATH"] == os.defpath
    assert own_python.environment({"PATH": ""})["PATH"] == "" and own_python.environment({"PATH": "/x"})["PATH"] == "/x"


def test_the_command_is_the_package_itself_too(tmp_path: Path) -> None:
    listed = [
        subprocess.run(
            [sys.executable, "-m", name, "labs"], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for name in ("roofbook", "roofbook.cli")
    ]
    assert listed[0] == listed[1] and "stencil" in listed[0]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"XDG_CACHE_HOME": ""}, {}),
        ({"XDG_CACHE_HOME": "cache", "POCL_CACHE_DIR": ""}, {}),
        ({"POCL_CACHE_DIR": "pocl", "CUDA_CACHE_PATH": "./x"}, {"POCL_CACHE_DIR": "HERE/pocl", "CUDA_CACHE_PATH": "HERE/x"}),
        ({"CUPY_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"}, {"CUPY_CACHE_DIR": "/x", "XDG_CACHE_HOME": "/y"}),
    ],
)  # fmt: skip
def test_caches_have_whole_names_or_none(
    settings: dict[str, str], expected: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PoCL has no device where its cache has an empty name; a relative one would be a folder in the checkout."""
    monkeypatch.chdir(tmp_path)
    caches = {name: value for name, value in own_python.environment(settings).items() if "CACHE" in name}
    assert caches == {name: value.replace("HERE", str(tmp_path)) for name, value in expected.items()}


def test_exit_codes_are_read_even_if_the_shell_ignores_sigchld(tmp_path: Path) -> None:
    """With SIGCHLD ignored, Python has code 0 for any process that has ended: a refusal of git would look like an answer."""
    start = (
        "import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [17])\n"
        "from roofbook import own_python; own_python.settle()\n"
        "import subprocess; print(subprocess.run(['sh', '-c', 'exit 7']).returncode)\n"
    )
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


@pytest.mark.parametrize(
    ("content", "way"),
    often(
        [
            (b"font.family: caf\xe9\n", "matplotlib.figure"),
            (b"backend: no-such\n", "matplotlib.backends.backend_svg"),
            (b"axes.xmargin: 0.4\n", "matplotlib"),
            (b"\0", "matplotlib.figure"),
        ],
        lambda file: file[1] == "matplotlib",
    ),
)
def test_a_matplotlibrc_of_the_current_folder_is_not_read(content: bytes, way: str, tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_bytes(content)
    say = (
        f"import roofbook, os, {way}, matplotlib\n"
        "print(matplotlib.rcParams['axes.xmargin'], os.path.samefile(os.getcwd(), os.environ['PWD']))\n"
    )
    environment = own_python.environment() | {"PWD": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", say], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "0.05 True\n" and not done.stderr, done.stderr


def test_a_deleted_current_folder_stays_deleted(tmp_path: Path) -> None:
    say = (
        "import os, sys; os.rmdir(os.getcwd()); import roofbook, matplotlib\n"
        "print(matplotlib.rcParams['axes.xmargin'], os.readlink('/proc/self/cwd').endswith(' (deleted)'))\n"
    )
    (tmp_path / "gone").mkdir()
    environment = own_python.environment()
    done = subprocess.run(
        [sys.executable, "-c", say], cwd=tmp_path / "gone", env=environment, capture_output=True, text=True
    )
    assert done.stdout == "0.05 True\n", done.stderr


@pytest.mark.parametrize(
    ("command", "settings"),
    often(
        product(
            [["labs"], ["devices"], ["export", "select 1"]], [{}, {"POCL_CACHE_DIR": "relative", "XDG_CACHE_HOME": ""}]
        ),
        lambda values: (values[0] == ["labs"] and not values[1]) or (values[0] == ["devices"] and values[1]),
    ),
)
def test_a_command_in_a_deleted_folder_says_so(command: list[str], settings: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    start = f'rmdir {tmp_path}/gone; exec {sys.executable} -m roofbook.cli "$@"'
    environment = {**os.environ, **settings, "PYTHONPATH": str(paths.LIBRARY.parent)}
    done = subprocess.run(
        ["sh", "-c", start, "sh", *command], cwd=tmp_path / "gone", env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: the current folder was removed")


def test_names_of_the_readers_profile_are_no_parameters() -> None:
    """As plain papermill runs a notebook, by the reader's own kernel."""
    limits = [1]
    shell = SimpleNamespace(user_ns_hidden={"LIMIT": 3, "mine": limits, "scale": "test", "device": "cuda:7"})
    names = {
        "get_ipython": lambda: shell, "LIMIT": 3, "mine": limits, "scale": "test", "device": "cuda:7", "typo": 3,
        "In": ["", "scale = 'test'", "typo = 3"],
    }  # fmt: skip
    assert _names_of_the_profile(names) == {"LIMIT", "mine", "device"}
    assert _names_of_the_profile({"LIMIT": 3}) == set()


@pytest.mark.parametrize(
    "settings",
    [
        {"text.usetex": True}, {"figure.autolayout": True}, {"axes.xmargin": 0.4, "lines.marker": "x"},
        {"figure.dpi": 300, "savefig.bbox": "tight"}, {"axes.grid": True, "path.simplify": False},
        {"axes.prop_cycle": "cycler('color', ['r'])"}, {"svg.image_inline": False, "font.weight": "bold"},
    ],
)  # fmt: skip
def test_no_setting_of_the_readers_changes_a_figure(settings: dict[str, Any]) -> None:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    def drawn() -> str:
        with figure.style():
            drawing = Figure(figsize=(3, 2))
            axes = drawing.subplots()
            axes.plot([1, 2, 3], [3, 1, 2], label="line")
            axes.legend()
            return figure.finish(drawing, "A line").svg

    with mpl.rc_context():
        mpl.rcdefaults()
        plain = drawn()
        parameters: Any = mpl.rcParams
        parameters.update(settings)
        assert drawn() == plain
        assert parameters["font.size"] != figure.FONT
