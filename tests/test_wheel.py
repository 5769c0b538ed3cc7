"""The wheel: it carries the book, stays small, and gives the whole command line in an empty folder."""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UV = Path(sys.executable).with_name("uv")
MOST_BYTES = 20_000_000
SHIPPED = ("_config.yml", "pyproject.toml", "book", "experiments", "lib", "results/published", "results/recorded",
           "results/tuning/recorded")  # fmt: skip
PYTHONS = ("3.11", "3.12", "3.13")
COMMANDS = (
    (["devices"], "opencl"),
    (["labs"], "stencil"),
    (["show", "lbm", "fused"], "__kernel"),
    (["diff", "lbm", "fused"], "+"),
    (["claims", "--lab", "lbm"], "verdict"),
    (["compare", "lbm", "128x128"], "H200"),
    (["history", "stencil"], "Rsqrt stencil on"),
    (["export", "select count(*) > 0 as any from cells where device = 'nvidia-h200'"], "True"),
    (["export", "select count(*) > 0 as any from published"], "True"),
    (["chart", "lbm", "128x128", "--scale", "published", "--out", "ladder.svg"], ""),
    (["exercise", "stencil"], "fused"),
    (["explain", "stencil", "--scale", "test"], "never measured"),
    (["run", "stencil", "--scale", "test", "-p", "variants", "[checked]"], "checked"),
    (["rerun", "stencil", "checked", "5x13", "--scale", "test"], "checked on 5x13"),
    (["compact"], "hold"),
    (["push", "elsewhere"], "files copied"),
)
"""Commands for an empty folder, in their order, each with a part of what it prints."""


def run(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built from a copy: a build leaves files beside the source."""
    if not UV.exists():
        pytest.skip("no uv beside this Python")
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for name in SHIPPED:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name)
    (folder / "lib").unlink()
    shutil.copytree(ROOT / "lib", folder / "lib", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    options = ("--quiet", "--offline", "--wheel", "--no-build-isolation", "--python", sys.executable)
    done = run(UV, "build", *options, folder, "-o", folder / "dist")
    assert done.returncode == 0, done.stderr
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_it_carries_the_book_as_it_is_committed(names: set[str]) -> None:
    listed = run("git", "ls-files", "-z", *SHIPPED, cwd=ROOT)
    if listed.returncode:
        pytest.skip("this is no checkout")
    committed = [name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]
    missing = {
        name.removeprefix("lib/") if name.startswith("lib/") else f"roofbook/shipped/{name}" for name in committed
    } - names
    assert not missing and len(committed) > 500
    made = [
        name
        for name in names
        if re.search(r"shipped/book/(labs/|_generated/|\w+\.ipynb)|results/local|__pycache__", name)
    ]
    assert not made


def test_it_is_small_enough_to_install_in_a_moment(wheel: Path) -> None:
    assert wheel.stat().st_size < MOST_BYTES


def test_it_says_its_licence_its_types_and_what_it_needs(wheel: Path, names: set[str]) -> None:
    assert "roofbook/py.typed" in names
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = email.message_from_bytes(archive.read(name))
    assert metadata["License-Expression"] == "MIT" and metadata.get_all("License-File") == ["LICENSE"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert {f"Programming Language :: Python :: {version}" for version in PYTHONS} <= set(project["classifiers"])


def test_an_index_takes_it(wheel: Path) -> None:
    if not shutil.which("twine"):
        pytest.skip("no twine on PATH: the workflow of a release asks it")
    done = run("twine", "check", "--strict", wheel)
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module", params=PYTHONS)
def program(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The command, installed from the wheel into an environment of its own with what the lock names."""
    version: str = request.param
    folder = tmp_path_factory.mktemp(f"python{version}")
    python = (
        sys.executable
        if f"{sys.version_info.major}.{sys.version_info.minor}" == version
        else shutil.which(f"python{version}")
    )
    if python is None or run(python, "-c", "import venv").returncode:
        pytest.skip(f"no Python {version}")
    steps: tuple[list[str | Path], ...] = (
        ["venv", "--python", python, folder / "env"],
        ["pip", "install", "--python", folder / "env", "--require-hashes", "-r", ROOT / "locks" / "book.txt"],
        ["pip", "install", "--python", folder / "env", "--offline", "--no-deps", wheel],
        ["pip", "check", "--python", folder / "env"],
    )
    for words in steps:
        done = run(UV, *words)
        if done.returncode and "--require-hashes" in words:
            pytest.skip(f"the packages of the lock cannot be installed for Python {version}: {done.stderr[-300:]}")
        assert done.returncode == 0, done.stderr
    yield folder / "env" / "bin" / "roofbook"
    shutil.rmtree(folder)


@pytest.mark.thorough
def test_every_command_works_in_an_empty_folder(program: Path, tmp_path: Path) -> None:
    for arguments, part in COMMANDS:
        done = subprocess.run(
            [program, *arguments], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stdout, done.stderr)
        assert part in done.stdout, (arguments, done.stdout)
    assert {path.name for path in tmp_path.iterdir()} == {"results", "ladder.svg", "elsewhere"}


@pytest.mark.thorough
def test_what_an_empty_folder_cannot_give_is_one_line(program: Path, tmp_path: Path) -> None:
    for arguments in (
        ["gate", "--against", "HEAD"],
        ["check", "stencil", "no-ifs"],
        ["serve"],
        ["pdf", "lbm"],
        ["show", "nosuch"],
    ):
        done = run(program, *arguments, cwd=tmp_path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and "checkout" not in done.stderr, done.stderr
    assert not list(tmp_path.iterdir())
