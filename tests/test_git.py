"""Git answers for the folder that it is asked about, and its error messages reach the user."""

import os
import subprocess
from pathlib import Path

import pytest

from roofbook import git
from roofbook.devices import checkout
from roofbook.errors import UsageError
from roofbook.measure.source_tree import Project

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@b")


def run(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *IDENTITY, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a kernel, committed."""
    folder = tmp_path / "mine"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "kernel.k").write_text("a\n" * 20)
    (folder / ".gitignore").write_text("__pycache__/\n")
    run(tmp_path, "init", "-q", "-b", "main", "mine")
    run(folder, "add", ".")
    run(folder, "commit", "-q", "-m", "a")
    checkout.state.cache_clear()
    return folder


@pytest.fixture
def foreign_repository(tmp_path: Path) -> Path:
    """Another repository, to which a hook's variables point."""
    folder = tmp_path / "theirs"
    run(tmp_path, "init", "-q", "theirs")
    run(folder, "commit", "-q", "--allow-empty", "-m", "theirs")
    return folder


def commit_of(folder: Path) -> str:
    done = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("GIT_DIR", ".git"),
        ("GIT_COMMON_DIR", ".git"),
        ("GIT_OBJECT_DIRECTORY", ".git/objects"),
        ("GIT_INDEX_FILE", ".git/no-index"),
        ("GIT_WORK_TREE", "."),
        ("GIT_LITERAL_PATHSPECS", None),
        ("GIT_NAMESPACE", None),
        ("GIT_SHALLOW_FILE", ".git/none"),
    ],
)
def test_no_variable_of_a_hook_makes_git_answer_for_another_repository(
    repository: Path, foreign_repository: Path, monkeypatch: pytest.MonkeyPatch, name: str, path: str | None
) -> None:
    expected = {"commit": commit_of(repository), "dirty": False, "change": None}
    monkeypatch.setenv(name, str(foreign_repository / path) if path else "1")
    assert checkout.state(repository) == expected
    assert Project(repository).commit("HEAD") == expected["commit"]


def test_whose_repositories_are_trusted_stays() -> None:
    trusted = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*", "GIT_DIR": "x"}
    environment = git.environment({**trusted, "HOME": "/home/a"})
    assert (
        trusted.items() - {("GIT_DIR", "x")} <= environment.items()
        and "GIT_DIR" not in environment
        and environment["HOME"] == "/home/a"
    )


def test_these_tests_run_without_the_variables_of_a_hook() -> None:
    """A hook that ran the tests made a commit of deletions on the reader's branch."""
    left = {name for name in os.environ if name.startswith("GIT_") and not name.startswith("GIT_CONFIG_")}
    assert not left
    hooks = subprocess.run(["git", "config", "core.hooksPath"], capture_output=True, text=True).stdout.strip()
    assert hooks == os.devnull


@pytest.mark.parametrize(
    "settings",
    [
        ["status.showUntrackedFiles=no"],
        ["core.excludesFile=IGNORE"],
        ["core.fsmonitor=true", "status.showUntrackedFiles=no"],
    ],
)
def test_no_setting_hides_code_that_no_commit_has(
    repository: Path, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GIT_CONFIG_COUNT")
    ignore = tmp_path / "ignore"
    ignore.write_text("*.py\n*.k\n*.swp\n")
    for setting in settings:
        run(repository, "config", *setting.replace("IGNORE", str(ignore)).split("=", 1))
    (repository / "lib" / "kernel.k.swp").write_text("an editor's")
    if "IGNORE" in settings[0]:
        assert checkout.state(repository) == {"commit": commit_of(repository), "dirty": False, "change": None}
    changes = []
    for number in range(2):
        (repository / "lib" / "new.k").write_text(str(number))
        checkout.state.cache_clear()
        state = checkout.state(repository)
        assert state and state["dirty"]
        changes.append(state["change"])
    assert changes[0] != changes[1]


def test_a_file_that_only_this_clone_ignores_counts_as_new(repository: Path) -> None:
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "exclude").write_text("mine/\n")
    (repository / "lib" / "mine").mkdir()
    (repository / "lib" / "mine" / "__init__.py").write_text("LAB = None\n")
    assert (checkout.state(repository) or {})["dirty"]
    (repository / "lib" / "mine" / "__init__.py").rename(repository / "lib" / "mine" / "notes.txt")
    checkout.state.cache_clear()
    assert not (checkout.state(repository) or {})["dirty"], "no code"


@pytest.mark.parametrize("option", ["--assume-unchanged", "--skip-worktree"])
def test_a_change_that_git_is_set_to_ignore_counts(repository: Path, option: str) -> None:
    run(repository, "update-index", option, "lib/kernel.k")
    assert checkout.state(repository) == {"commit": commit_of(repository), "dirty": False, "change": None}
    (repository / "lib" / "kernel.k").write_text("b\n" * 20)
    checkout.state.cache_clear()
    state = checkout.state(repository)
    assert state and state["dirty"] and len(state["change"]) == 12


@pytest.mark.parametrize(
    "setting",
    ["diff.noprefix=true", "diff.mnemonicPrefix=true", "diff.context=0", "color.ui=always", "diff.external=false"],
)
def test_a_change_has_the_same_name_whatever_diff_is_set_to(repository: Path, setting: str) -> None:
    lines = (repository / "lib" / "kernel.k").read_text().splitlines()
    (repository / "lib" / "kernel.k").write_text("\n".join([*lines[:10], "b", *lines[11:]]) + "\n")
    before = checkout.state(repository)
    run(repository, "config", *setting.split("="))
    checkout.state.cache_clear()
    assert before and checkout.state(repository) == before


def test_the_user_reads_the_error_message_of_git(
    repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    index = (repository / ".git" / "index").read_bytes()
    (repository / ".git" / "index").write_bytes(index[:8])
    assert "git says: " in checkout.refusal(repository) and "index" in checkout.refusal(repository)
    (repository / ".git" / "index").write_bytes(index)
    head = (repository / ".git" / "HEAD").read_text()
    (repository / ".git" / "HEAD").write_text("nonsense\n")
    assert "not a git repository" in checkout.refusal(repository) and "fresh clone" in checkout.refusal(repository)
    (repository / ".git" / "HEAD").write_text(head)
    assert checkout.refusal(repository) == ""
    with (repository / ".git" / "config").open("a") as file:
        file.write("[bad\n")
    with pytest.raises(UsageError, match=r"git says: fatal: bad config line \d+ in file"):
        Project.of(repository)
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    with pytest.raises(git.GitRefused, match="git status did not answer within 0 s"):
        git.answer(repository, "status", patience_s=0.2)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "git is not installed" in checkout.refusal(repository) and "install git" in checkout.refusal(repository)


def test_a_repository_of_another_user_is_named_with_the_remedy() -> None:
    message = "git says: fatal: detected dubious ownership in repository at '/x'"
    assert "safe.directory /x" in checkout.remedy_of(message, Path("/x"))


def test_a_branch_that_only_a_remote_has_is_named(repository: Path, tmp_path: Path) -> None:
    run(repository, "branch", "feature/walk")
    run(tmp_path, "clone", "-q", str(repository), "ci")
    clone = tmp_path / "ci"
    run(clone, "checkout", "-q", "--detach")
    run(clone, "branch", "-q", "-D", "main")
    for branch in ("main", "feature/walk"):
        with pytest.raises(UsageError, match=f"a remote has it: --against origin/{branch}$"):
            Project(clone).commit(branch)
    assert Project(clone).commit("origin/main") == commit_of(repository)
    with pytest.raises(UsageError) as lost:
        Project(clone).commit("mian")
    assert "remote" not in str(lost.value)


def test_a_shallow_clone_gets_the_command_that_fetches_the_branches(repository: Path, tmp_path: Path) -> None:
    """`git fetch --unshallow` alone brings the one branch that such a clone follows."""
    run(repository, "checkout", "-q", "-b", "change")
    run(repository, "commit", "-q", "--allow-empty", "-m", "b")
    run(tmp_path, "clone", "-q", "--depth", "1", f"file://{repository}", "part")
    part = tmp_path / "part"
    with pytest.raises(UsageError) as refusal:
        Project(part).commit("main")
    hint = str(refusal.value).partition("`git ")[2].partition("`")[0]
    subprocess.run(f"git {hint}", shell=True, cwd=part, check=True, capture_output=True)
    with pytest.raises(UsageError, match=r"a remote has it: --against origin/main$"):
        Project(part).commit("main")
    assert Project(part).commit("origin/main") != commit_of(part)
