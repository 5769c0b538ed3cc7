"""Promises of the package and its repository: declared imports, releases cut from the changelog, hooks that can run."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "lib" / "roofbook"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGE_OF = {
    "IPython": "ipython", "cuda": "cuda-bindings", "cupy_backends": "cupy", "cutlass": "nvidia-cutlass-dsl",
    "dask_jobqueue": "dask-jobqueue",
    "markdown_it": "markdown-it-py", "numba": "numba-cuda", "pynvml": "nvidia-ml-py", "yaml": "pyyaml",
}  # fmt: skip
"""Packages by the modules that they bring, where the names differ."""


def imported(path: Path) -> Iterator[str]:
    """Yield the packages that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def declared(requirements: list[str]) -> set[str]:
    """Return the names of packages, CuPy's without the version of CUDA."""
    return {re.sub(r"-cuda1\dx$", "", re.split(r"[\s<>=\[;]", text)[0].lower()) for text in requirements}


def test_every_import_is_a_declared_package() -> None:
    modules = {name for path in LIBRARY.rglob("*.py") for name in imported(path)} - {"roofbook"}
    needed = {PACKAGE_OF.get(name, name) for name in modules - sys.stdlib_module_names}
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    assert not needed - declared(PROJECT["dependencies"]) - declared(extras)


def test_a_wheel_of_an_unchanged_checkout_names_its_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setuptools.setup", lambda **_: None)
    setup = runpy.run_path(str(ROOT / "setup.py"))

    def git(*words: str) -> str:
        identity = ("-c", "user.name=A", "-c", "user.email=a@b.c")
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    assert setup["commit_of"](tmp_path) is None, "no checkout"
    git("init")
    assert setup["commit_of"](tmp_path) is None, "no commit yet"
    named = tmp_path / "archived.txt"
    named.write_text("$Format:%H$\n")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setitem(setup["name_commit"].__globals__, "COMMIT", setup["commit_of"](tmp_path))
    package = tmp_path.with_name("package")
    package.mkdir()
    (package / "archived.txt").hardlink_to(named)
    setup["name_commit"](package)
    assert (package / "archived.txt").read_text() == git("rev-parse", "HEAD")
    assert named.read_text() == "$Format:%H$\n", "the checkout's own file stays"
    named.write_text("changed")
    assert setup["commit_of"](tmp_path) is None


def test_a_declared_package_is_in_the_lock_of_its_name() -> None:
    """So the locks hold although names were added that other packages brought before."""
    locked = {
        path.stem: {line.partition("==")[0] for line in path.read_text().splitlines() if "==" in line}
        for path in (ROOT / "locks").glob("*.txt")
    }
    assert declared(PROJECT["dependencies"]) <= locked["book"]
    for extra, texts in PROJECT["optional-dependencies"].items():
        if extra in locked:
            assert declared(texts) <= {re.sub(r"-cuda1\dx$", "", name) for name in locked[extra]}, extra


def test_addresses_are_those_that_the_site_names() -> None:
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    address = settings["sphinx"]["config"]["repository_url"]
    assert all(url.startswith(address) for url in PROJECT.get("urls", {}).values())
    assert bool(address) == bool(PROJECT.get("urls")), "pyproject.toml has the addresses once _config.yml has one"


CHANGELOG = """# Changelog

## 0.3.0, unreleased

- later

## 0.2.0, 2026-03-04

- this

## 0.1.0, 2026-01-02
"""


@pytest.mark.parametrize(
    ("tag", "version", "reason"),
    [
        ("v0.1.1", "0.1.0", "the tag is v0.1.1, but pyproject.toml has version 0.1.0, whose tag is v0.1.0"),
        ("v0.3.0", "0.3.0", "'## 0.3.0, unreleased' needs the day of the release"),
        ("v0.1.0", "0.1.0", "the section '## 0.1.0, 2026-01-02' is empty"),
        ("v0.2", "0.2", "CHANGELOG.md has no section '## 0.2, YYYY-MM-DD'"),
        ("v0.2.0", "0.2.0", ""),
    ],
)
def test_a_release_is_cut_from_its_section_of_the_changelog(
    tmp_path: Path, tag: str, version: str, reason: str
) -> None:
    script = tmp_path / ".github" / "release_notes.py"
    script.parent.mkdir()
    script.write_text((ROOT / ".github" / "release_notes.py").read_text())
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    done = subprocess.run([sys.executable, script, tag], capture_output=True, text=True)
    if reason:
        assert (done.returncode, done.stdout) == (2, "") and reason in done.stderr and done.stderr.count("\n") == 1
    else:
        assert (done.returncode, done.stdout, done.stderr) == (0, "- this\n", "")


def test_the_changelog_has_a_section_of_the_package_s_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[?{re.escape(PROJECT['version'])}\]?\b", changelog, re.M)


def test_hooks_before_a_commit_run_what_is_installed() -> None:
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["repo"] == "local", "others would be installed by versions of their own"
    programs = [hook["entry"].split()[0] for hook in repository["hooks"] if hook["language"] == "system"]
    assert programs and all(Path(program).parent == Path(".venv/bin") for program in programs)
    (outputs,) = (hook for hook in repository["hooks"] if hook["language"] == "pygrep")
    pattern = re.compile(outputs["entry"])
    for path in (ROOT / "experiments").rglob("*.ipynb"):
        assert not pattern.search(path.read_text(encoding="utf-8")), path
    assert pattern.search('   "execution_count": 3,') and pattern.search('"output_type": "stream"')
