"""A row's commit: named where it is known, marked where the checkout was changed; and checkouts that may be recorded."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import checkout

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    for cached in (checkout.state, checkout.absent):
        cached.cache_clear()
    yield
    for cached in (checkout.state, checkout.absent):
        cached.cache_clear()


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def now(project: Path) -> dict[str, Any] | None:
    checkout.state.cache_clear()
    return checkout.state(project)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with a kernel and a recorded run, all committed."""
    folder = tmp_path / "project"
    (folder / "results" / "recorded").mkdir(parents=True)
    (folder / "kernel.k").write_text("a")
    (folder / "results" / "recorded" / "one.parquet").write_text("rows")
    git(tmp_path, "init", "-q", "project")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "a")
    return folder


def test_commit_and_dirty_flag(tmp_path: Path) -> None:
    assert now(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert now(tmp_path) == {"commit": None, "dirty": False, "change": None}
    (tmp_path / "kernel.k").write_text("a")
    git(tmp_path, "add", "kernel.k")
    git(tmp_path, "commit", "-q", "-m", "a")
    clean = now(tmp_path)
    assert clean == {"commit": git(tmp_path, "rev-parse", "HEAD"), "dirty": False, "change": None}
    (tmp_path / "new.k").write_text("b")
    assert checkout.state(tmp_path) is clean, "asked once a process"
    changed = now(tmp_path)
    assert changed and changed["dirty"] and changed["commit"] == clean["commit"]
    inner = tmp_path / "site-packages"
    inner.mkdir()
    assert now(inner) is None, "installed inside somebody's repository, not ours"


def test_one_change_is_told_from_another_and_known_again(project: Path) -> None:
    def change() -> Any:
        return (now(project) or {})["change"]

    (project / "kernel.k").write_text("b")
    first = change()
    assert len(first) == 12 and change() == first
    (project / "kernel.k").write_text("c")
    second = change()
    (project / "new.k").write_text("d")
    third = change()
    (project / "new.k").write_text("e")
    fourth = change()
    assert len({first, second, third, fourth}) == 4
    (project / "new.k").unlink()
    (project / "kernel.k").write_text("b")
    assert change() == first


def test_runs_that_are_added_to_what_is_recorded_change_no_code(project: Path) -> None:
    (project / "results" / "recorded" / "two.parquet").write_text("rows")
    (project / "results" / "recorded" / "one.parquet").write_text("other rows")
    assert now(project) == {"commit": git(project, "rev-parse", "HEAD"), "dirty": False, "change": None}
    (project / "results" / "claims.csv").write_text("a claim")
    assert (now(project) or {})["dirty"]


def test_a_folder_of_measurements_in_the_project_is_no_change(project: Path, tmp_path: Path) -> None:
    out, outside = project / "out", tmp_path / "elsewhere"
    for folder in (out, outside):
        folder.mkdir()
        (folder / "rows").write_text("rows")
        checkout.ignore(folder, project)
    assert (now(project) or {})["dirty"] is False
    assert not (outside / ".gitignore").exists()
    checkout.ignore(project / "results", project)
    assert not (project / "results" / ".gitignore").exists(), "it has files of the project"


def test_runs_among_the_files_of_the_project_are_refused(project: Path, tmp_path: Path) -> None:
    """The first lab's rows would be a change to the checkout, and the next lab would find it."""
    results = project / "mine"
    results.mkdir()
    checkout.ignore(results, project)
    for folder in (results, results / "new", project / "results", tmp_path / "elsewhere", project.parent):
        assert checkout.no_place(folder, project) == "", folder
    for folder in (project, project / "lib", project / "results" / "new"):
        assert "would be a change of the checkout" in checkout.no_place(folder, project), folder


def test_what_may_not_be_recorded_is_one_line_that_says_what_would_be_right(project: Path, tmp_path: Path) -> None:
    assert checkout.refusal(project) == ""
    (project / "kernel.k").write_text("b")
    assert checkout.refusal(project).startswith("changed checkout: commit the changes first")
    assert checkout.refusal(tmp_path).startswith("unknown commit: measure from a clone")
    assert all("--uncommitted" in checkout.refusal(folder) for folder in (project, tmp_path))
    git(project, "commit", "-q", "-a", "-m", "b")
    assert checkout.refusal(project) == "", "asked anew"


def test_a_commit_that_the_history_lacks_is_known_as_such(project: Path, tmp_path: Path) -> None:
    assert not checkout.absent(git(project, "rev-parse", "HEAD"), project)
    assert checkout.absent("0123456789" * 4, project)
    assert not checkout.absent("0123456789" * 4, tmp_path), "nobody can say"
    git(project, "commit", "-q", "--allow-empty", "-m", "b")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{project}", "part")
    assert not checkout.absent("0123456789" * 4, tmp_path / "part"), "it may be in the part that is not here"


def test_no_git_is_null(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert now(tmp_path) is None, "a broken repository"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert now(tmp_path) is None and checkout.refusal(tmp_path)


def test_an_archive_of_a_commit_names_it(tmp_path: Path) -> None:
    """An archive by `git archive` or a host of repositories: nobody knows whether it was changed, so it may be recorded."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    subprocess.run("git archive HEAD lib | tar -x -C " + shlex.quote(str(tmp_path)), shell=True, cwd=ROOT, check=True)
    commit = (tmp_path / "lib" / "roofbook" / "archived.txt").read_text().strip()
    assert commit == git(ROOT, "rev-parse", "HEAD")
    ask = "from roofbook.devices import checkout; print(checkout.state(), repr(checkout.refusal()))"
    answer = subprocess.run(
        [sys.executable, "-c", ask], env={**os.environ, "PYTHONPATH": str(tmp_path / "lib")}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert answer.strip() == f"{ {'commit': commit, 'dirty': None, 'change': None} } ''"
