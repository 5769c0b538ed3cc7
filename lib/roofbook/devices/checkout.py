"""The code that a measurement runs: the commit of this checkout, and whether it was changed since.

Serves provenance, which writes it into every row, the store, which does not record rows of changed code, and reports.
`python -m roofbook.devices.checkout OUT` prints a line if runs of this checkout may not be recorded in the folder OUT, and
exits with code 2.
"""

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import git
from ..errors import warn
from ..paths import LIBRARY

PROJECT = LIBRARY.parents[1]
UNKNOWN, CHANGED, ABSENT = "unknown commit", "changed checkout", "commit not in the history"
"""Reasons why a row cannot be traced to its code."""
_CODE = (".", ":(exclude)results/recorded")
"""Files whose changes count, as arguments of git: all that git does not ignore, without recorded runs."""
_LARGE = 1 << 20
"""Bytes from which on a new file counts by its size."""
_MEASURED = ("lib", "experiments")
"""Folders with measured code: in them only the project's own .gitignore hides a new file."""
_SUFFIXES = (".py", ".k", ".cu", ".h", ".inc", ".c", ".hs", ".npz", ".ipynb", ".so", ".pth")
"""Endings of files that take part in a measurement; others in those folders, such as an editor's, do not."""


@lru_cache(maxsize=8)
def state(project: Path = PROJECT) -> dict[str, Any] | None:
    """Return `commit` (None before the first), `dirty`, and a digest of the `change`; None outside a repository.

    Only the project's own repository counts, not one around an installed copy. An archive of a commit has the commit's name,
    and `dirty` and `change` are None. The result is cached in the process until `state.cache_clear()`.
    """
    if not (project / ".git").exists():
        commit = _archived()
        return {"commit": commit, "dirty": None, "change": None} if commit else None
    try:
        return _state(project)
    except git.GitRefused:
        return None


def _state(project: Path) -> dict[str, Any]:
    """Return the state of a repository. Raise git.GitRefused if git does not answer."""
    lines = git.answer(project, "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--", *_CODE)
    status = lines.decode(errors="replace").splitlines()
    oid = dict(line[2:].split(" ", 1) for line in status if line.startswith("# ")).get("branch.oid")
    commit = None if oid == "(initial)" else oid
    hidden = sorted({*_hidden_new_files(project), *_hidden_changes(project)})
    dirty = bool(hidden) or any(not line.startswith("# ") for line in status)
    return {"commit": commit, "dirty": dirty, "change": _change(project, hidden) if dirty and commit else None}


def _hidden_new_files(project: Path) -> list[bytes]:
    """Return new files of measured code that the user's own settings hide, such as core.excludesFile or .git/info/exclude."""
    exclusions = [f"--exclude-from={project / '.gitignore'}"] if (project / ".gitignore").is_file() else []
    names = git.answer(project, "ls-files", "--others", *exclusions, "-z", "--", *_MEASURED)
    return [name for name in names.split(b"\0") if name.endswith(tuple(map(str.encode, _SUFFIXES)))]


def _hidden_changes(project: Path) -> list[bytes]:
    """Return changed files that git is set to assume unchanged, such as by `git update-index --assume-unchanged`."""
    listed = git.answer(project, "ls-files", "-v", "-z", "--", *_CODE).split(b"\0")
    # A small letter marks an assumption, S a file outside of a sparse checkout.
    marked = [entry[2:] for entry in listed if entry[:1].islower() or entry[:1] == b"S"]
    present = [name for name in marked if (project / os.fsdecode(name)).is_file()]
    if not present:
        return []
    stored = git.answer(project, "ls-files", "--stage", "-z", "--", *_CODE).split(b"\0")
    blobs = {name: facts.split()[1] for facts, _, name in (entry.partition(b"\t") for entry in stored if entry)}
    now = git.answer(project, "hash-object", "--stdin-paths", given=b"\n".join(present) + b"\n").split()
    return [name for name, blob in zip(present, now, strict=True) if blobs.get(name) != blob]


def fault(git: Mapping[str, Any] | None) -> str:
    """Return why a row with this `state` of its checkout cannot be traced to its code: UNKNOWN or CHANGED; '' if it can."""
    if not git or not git.get("commit"):
        return UNKNOWN
    return CHANGED if git.get("dirty") else ""


def refusal(project: Path = PROJECT) -> str:
    """Return why measurements of this checkout may not be recorded, with the remedy; '' if they may."""
    state.cache_clear()
    reason = fault(state(project))
    if not reason:
        return ""
    remedy = "commit the changes first" if reason == CHANGED else "measure from a clone or from an archive of a commit"
    if reason == UNKNOWN and (complaint := refused_by_git(project)):
        reason, remedy = f"{reason}: {complaint}", remedy_of(complaint, project)
    return f"{reason}: {remedy}, so that each row names its code; --uncommitted measures all the same, into OUT/local"


def refused_by_git(project: Path = PROJECT) -> str:
    """Return git's own message where the project is a repository that git does not read; '' otherwise."""
    if not (project / ".git").exists():
        return ""
    try:
        commit = _state(project)["commit"]
    except git.GitRefused as why:
        return f"git says: {why}"
    return "" if commit else "the repository has no commit yet"


def remedy_of(complaint: str, folder: Path) -> str:
    """Return the remedy for one of git's messages."""
    if "dubious ownership" in complaint:
        return f"measure as the owner of the files, or let git trust them (git config --global --add safe.directory {folder})"
    if "not installed" in complaint:
        return "install git, or measure from an archive of a commit"
    if "no commit yet" in complaint:
        return "commit first"
    if "did not answer" in complaint:
        return "measure from a clone on a faster disk"
    return "mend the repository (`git status` says the same), or measure from a fresh clone"


COMMIT = re.compile(r"[0-9a-f]{7,64}")
"""The hash of a commit, or how it begins."""


@lru_cache(maxsize=1024)
def absent(commit: str, project: Path = PROJECT) -> bool:
    """Return whether the project's history lacks a commit. False if it is unknown: without git, or in a shallow clone.

    A text that is no hash counts as absent, and git is not asked: a row may hold any text.
    """
    if not COMMIT.fullmatch(commit):
        return True
    if not (project / ".git").exists():
        return False
    if git.text(project, "rev-parse", "--is-shallow-repository") != "false":
        return False
    return git.text(project, "cat-file", "-e", f"{commit}^{{commit}}") is None


def ignore(folder: Path, project: Path = PROJECT) -> None:
    """Let git pass over a folder of measurements in the project, as virtual environments do, unless it tracks files there."""
    inside = project.resolve() in folder.resolve().parents
    if inside and (project / ".git").exists() and git.text(project, "ls-files", "--", str(folder.resolve())) == "":
        (folder / ".gitignore").write_text("*\n")


def no_place(folder: Path, project: Path = PROJECT) -> str:
    """Return why runs may not be recorded in a folder, if files there would be a change of the checkout; '' if they may."""
    file = folder.resolve() / "recorded" / "run.parquet"
    inside = project.resolve() in file.parents and (project / ".git").exists()
    if not inside or project.resolve() / "results" / "recorded" in file.parents or refused_by_git(project):
        return ""
    if git.text(project, "check-ignore", "--quiet", "--", str(file)) is not None:
        return ""
    return f"runs in {folder} would be a change of the checkout, which has files there: name a new folder"


def _archived() -> str | None:
    try:
        commit = (LIBRARY / "archived.txt").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    return None if not commit or commit.startswith("$") else commit


def _change(project: Path, hidden: list[bytes]) -> str:
    """Return a digest of a change: of the difference from the commit and of new files, in twelve digits.

    hidden: further files that count, though git does not list them.
    """
    diff = git.answer(project, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--", *_CODE)
    new = git.answer(project, "ls-files", "--others", "--exclude-standard", "-z", "--", *_CODE)
    digest = hashlib.sha256(diff)
    for name in dict.fromkeys(filter(None, [*new.split(b"\0"), *hidden])):
        path = project / os.fsdecode(name)
        try:
            size = path.stat().st_size
            content = path.read_bytes() if size < _LARGE else str(size).encode()
        except OSError:  # gone meanwhile, or no file
            continue
        digest.update(name + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    ignore(Path(sys.argv[1]))
    if objection := no_place(Path(sys.argv[1])) or refusal():
        warn(f"error: {objection}")
        sys.exit(2)
