"""The source of a commit in a folder of its own, and the environment in which a process finds the library there.

Serves the gate. What lies in the repository is the commit's in that process: the library, if the project is Roofbook, and the
folders of labs that ROOFBOOK_LABS names. What lies outside of it stays what it is.
"""

import os
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import Failed, UsageError
from ..paths import LIBRARY
from ..spec import registry


@dataclass(frozen=True)
class SourceTree:
    """A folder with the project's source, and what a process needs to import from it."""

    folder: Path
    environment: Mapping[str, str]
    commit: str | None = None
    """None of a checkout as it is."""


@dataclass(frozen=True)
class Project:
    """A project that measures by this library, in its git repository."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> "Project":
        """That in which `folder` lies. Errors: UsageError where there is none, or where it holds nothing that is measured."""
        try:
            found = _git(folder, "rev-parse", "--show-toplevel")
        except FileNotFoundError:
            raise UsageError("git is not installed; the gate needs it to find the source of a commit") from None
        if found is None:
            raise UsageError(f"{folder} is in no git repository: the gate compares with the source of a commit")
        here = cls(Path(found).resolve())
        if not any(here.holds(path) for path in (LIBRARY, *_labs())):
            raise UsageError(
                f"the library {LIBRARY} is not in the repository {here.folder}, and no folder of ROOFBOOK_LABS is: nothing of a"
                " commit would be measured"
            )
        return here

    def holds(self, path: Path) -> bool:
        return self.folder in path.resolve().parents

    def commit(self, ref: str) -> str:
        """The commit that a name of git means. UsageError for one that means none."""
        found = (
            None if ref.startswith("-") else _git(self.folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        )
        if found:
            return found
        shallow = _git(self.folder, "rev-parse", "--is-shallow-repository") == "true"
        more = "; this clone has a part of the history alone: `git fetch --unshallow --tags`" if shallow else ""
        raise UsageError(f"{ref!r} is no commit, tag or branch of {self.folder}, and no file or folder of rows{more}")

    def checkout(self) -> SourceTree:
        """The source as it is, with all changes that are not committed."""
        return SourceTree(
            self.folder, _environment(list(map(str, (LIBRARY.parent, *_paths()))), list(map(str, _labs())))
        )

    def extract(self, commit: str, folder: Path) -> SourceTree:
        """The source of a commit, written into an empty folder."""
        with tempfile.TemporaryFile() as archive:
            command = ["git", "-C", str(self.folder), "archive", "--format=tar", commit]
            done = subprocess.run(command, stdout=archive, stderr=subprocess.PIPE)
            if done.returncode:
                raise Failed(f"git cannot write the source of {commit[:10]}: {_last_line(done.stderr)}")
            archive.seek(0)
            with tarfile.open(fileobj=archive) as tar:
                tar.extraction_filter = getattr(
                    tarfile, "data_filter", None
                )  # the first releases of Python 3.11 lack it
                tar.extractall(folder)
        moved = [self._moved(path, folder) for path in (LIBRARY.parent, *_paths())]
        labs = [self._moved(path, folder) for path in _labs()]
        if self.holds(LIBRARY) and not self._moved(LIBRARY, folder).is_dir():
            where = LIBRARY.relative_to(self.folder)
            raise UsageError(f"commit {commit[:10]} has no {where}: there is nothing to compare with")
        return SourceTree(
            folder, _environment(list(map(str, moved)), [str(path) for path in labs if path.is_dir()]), commit
        )

    def changed_line(self, path: Path, commit: str) -> int | None:
        """The first line of a file of the checkout that is other than in a commit; None where none is."""
        if not self.holds(path):
            return None
        said = _git(self.folder, "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", str(path)) or ""
        hunk = next((line for line in said.splitlines() if line.startswith("@@ ")), None)
        if hunk is None:
            return None
        return max(1, int(hunk.split("+")[1].split(" ")[0].split(",")[0]))

    def _moved(self, path: Path, folder: Path) -> Path:
        """Where the commit's own stands; the path itself of what is not the repository's."""
        return folder / path.resolve().relative_to(self.folder) if self.holds(path) else path


def _labs() -> list[Path]:
    return [Path(each) for each in registry.environment()["ROOFBOOK_LABS"].split(os.pathsep) if each]


def _paths() -> list[Path]:
    return [Path(each) for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]


def _environment(paths: list[str], labs: list[str]) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "ROOFBOOK_LABS": os.pathsep.join(labs)}


def _git(folder: Path, *command: str) -> str | None:
    """What it prints; None where it fails."""
    done = subprocess.run(["git", "-C", str(folder), *command], capture_output=True)
    return done.stdout.decode(errors="replace").strip() if done.returncode == 0 else None


def _last_line(said: bytes) -> str:
    return (said.decode(errors="replace").strip().splitlines() or ["no reason given"])[-1]
