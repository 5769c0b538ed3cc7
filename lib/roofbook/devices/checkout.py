"""Which code a measurement is of: the commit of this checkout, and whether it was changed since.

Serves provenance, which puts it into every row, the store, which keeps rows of changed code out of what is recorded, and
reports. `python -m roofbook.devices.checkout OUT` says in one line why no run of this checkout may be recorded in the folder
OUT, and ends with 2.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..paths import LIBRARY

PROJECT = LIBRARY.parents[1]
UNKNOWN, CHANGED, ABSENT = "unknown commit", "changed checkout", "commit not in the history"
"""Why a row cannot be traced to the code that it is of."""
_CODE = (".", ":(exclude)results/recorded")
"""What counts as changed: all that git does not ignore, but the runs that are added here."""
_LARGE = 1 << 20
"""Bytes from which on a new file counts by its size."""


@lru_cache(maxsize=8)
def state(project: Path = PROJECT) -> dict[str, Any] | None:
    """Commit (null before the first), `dirty`, and what tells one `change` from another; None outside a repository.

    Only the project's own repository counts, not one that an installed copy happens to lie in. An archive of a commit names
    it, and cannot tell whether it was changed since. Asked once a process: `state.cache_clear()` forgets.
    """
    if not (project / ".git").exists():
        commit = _archived()
        return {"commit": commit, "dirty": None, "change": None} if commit else None
    said = _git(project, "status", "--porcelain=v2", "--branch", "--", *_CODE)
    if said is None:
        return None
    lines = said.decode(errors="replace").splitlines()
    commit = dict(line[2:].split(" ", 1) for line in lines if line.startswith("# ")).get("branch.oid")
    dirty = any(not line.startswith("# ") for line in lines)
    known = None if commit == "(initial)" else commit
    return {"commit": known, "dirty": dirty, "change": _change(project) if dirty and known else None}


def fault(git: Mapping[str, Any] | None) -> str:
    """Why a row with this state of its checkout cannot be traced to its code: UNKNOWN or CHANGED; '' where it can."""
    if not git or not git.get("commit"):
        return UNKNOWN
    return CHANGED if git.get("dirty") else ""


def refusal(project: Path = PROJECT) -> str:
    """Why what is measured now may not be recorded, and what would be right; '' where it may."""
    state.cache_clear()
    why = fault(state(project))
    if not why:
        return ""
    remedy = "commit the changes first" if why == CHANGED else "measure from a clone or from an archive of a commit"
    return f"{why}: {remedy}, so that each row names its code; --uncommitted measures all the same, into OUT/local"


@lru_cache(maxsize=1024)
def absent(commit: str, project: Path = PROJECT) -> bool:
    """Whether the project's history lacks a commit. False where nobody can say: without git, or with a part of the history."""
    if not (project / ".git").exists():
        return False
    if (_git(project, "rev-parse", "--is-shallow-repository") or b"").strip() != b"false":
        return False
    return _git(project, "cat-file", "-e", f"{commit}^{{commit}}") is None


def ignore(folder: Path, project: Path = PROJECT) -> None:
    """Let git pass over a folder of measurements in the project, as virtual environments do, unless it tracks files there."""
    inside = project.resolve() in folder.resolve().parents
    if inside and (project / ".git").exists() and _git(project, "ls-files", "--", str(folder.resolve())) == b"":
        (folder / ".gitignore").write_text("*\n")


def no_place(folder: Path, project: Path = PROJECT) -> str:
    """Why runs may not be recorded in a folder: files there would be a change of the checkout. '' where they may."""
    file = folder.resolve() / "recorded" / "run.parquet"
    inside = project.resolve() in file.parents and (project / ".git").exists()
    if not inside or project.resolve() / "results" / "recorded" in file.parents:
        return ""
    if _git(project, "check-ignore", "--quiet", "--", str(file)) is not None:
        return ""
    return f"runs in {folder} would be a change of the checkout, which has files there: name a new folder"


def _archived() -> str | None:
    try:
        commit = (LIBRARY / "archived.txt").read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return None
    return None if not commit or commit.startswith("$") else commit


def _change(project: Path) -> str | None:
    """Twelve digits that are the same for the same change: of the difference from the commit, and of files that are new."""
    diff = _git(project, "diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv", "--", *_CODE)
    new = _git(project, "ls-files", "--others", "--exclude-standard", "-z", "--", *_CODE)
    if diff is None or new is None:
        return None
    whole = hashlib.sha256(diff)
    for name in filter(None, new.split(b"\0")):
        path = project / os.fsdecode(name)
        try:
            size = path.stat().st_size
            content = path.read_bytes() if size < _LARGE else str(size).encode()
        except OSError:  # gone meanwhile, or no file
            continue
        whole.update(name + b"\0" + hashlib.sha256(content).digest())
    return whole.hexdigest()[:12]


def _git(project: Path, *words: str) -> bytes | None:
    """What git answers; None where it does not."""
    quiet = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
    try:
        return subprocess.run(
            ["git", "-C", str(project), *words], capture_output=True, timeout=10, check=True, env=quiet
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


if __name__ == "__main__":
    ignore(Path(sys.argv[1]))
    if said := no_place(Path(sys.argv[1])) or refusal():
        print(f"error: {said}", file=sys.stderr)
        sys.exit(2)
