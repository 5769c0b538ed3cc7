"""Source of a commit in a folder of its own, and the environment in which a process imports the library from there.

Used by the gate. In that process, all code of the repository is the commit's: the library, if the project is Roofbook, and the
folders of labs that ROOFBOOK_LABS names. Code outside of the repository stays the same.
"""

import os
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .. import git, own_python
from ..devices.checkout import remedy_of
from ..errors import Failed, UsageError
from ..paths import LIBRARY
from ..spec import registry


@dataclass(frozen=True)
class SourceTree:
    """Folder with the project's source, and the environment of a process that imports from it."""

    folder: Path
    environment: Mapping[str, str]
    commit: str | None = None
    """Commit of the source; None for the checkout."""


@dataclass(frozen=True)
class Project:
    """Git repository of a project that measures by this library."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> "Project":
        """Return the project that contains `folder`. Errors: UsageError if there is none, or it has no measured code."""
        try:
            toplevel = git.answer(folder, "rev-parse", "--show-toplevel").decode(errors="replace").strip()
        except git.GitRefused as why:
            if "not a git repository" in str(why):
                raise UsageError(
                    f"{folder} is in no git repository: the gate compares with the source of a commit"
                ) from None
            remedy = remedy_of(str(why), folder)
            raise UsageError(f"the gate needs git to find the source of a commit; git says: {why}: {remedy}") from None
        project = cls(Path(toplevel).resolve())
        if not any(project.holds(path) for path in (LIBRARY, *_labs())):
            raise UsageError(
                f"the library {LIBRARY} is not in the repository {project.folder}, and no folder of ROOFBOOK_LABS is: nothing"
                " of a commit would be measured"
            )
        return project

    def holds(self, path: Path) -> bool:
        return self.folder in path.resolve().parents

    def commit(self, ref: str) -> str:
        """Return the commit of a git reference. Raises UsageError for an unknown one."""
        commit = None if ref.startswith("-") else git.text(self.folder, "rev-parse", "--verify", f"{ref}^{{commit}}")
        if commit:
            return commit
        remote = git.text(self.folder, "for-each-ref", "--format=%(refname:short)", f"refs/remotes/*/{ref}") or ""
        hint = f"; a remote has it: --against {remote.split()[0]}" if remote else ""
        if not hint and git.text(self.folder, "rev-parse", "--is-shallow-repository") == "true":
            hint = (
                "; this clone has a part of the history alone: `git fetch --unshallow --tags origin"
                " '+refs/heads/*:refs/remotes/origin/*'` brings the rest, and a branch is then origin/NAME"
            )
        raise UsageError(f"{ref!r} is no commit, tag or branch of {self.folder}, and no file or folder of rows{hint}")

    def checkout(self) -> SourceTree:
        """Return the source of the checkout, with all uncommitted changes."""
        return SourceTree(
            self.folder, _environment(list(map(str, (LIBRARY.parent, *_paths()))), list(map(str, _labs())))
        )

    def extract(self, commit: str, folder: Path) -> SourceTree:
        """Write the source of a commit into an empty folder, and return it. Links out of the repository keep their targets."""
        with tempfile.TemporaryFile() as archive:
            try:
                git.answer(self.folder, "archive", "--format=tar", commit, into=archive)
            except git.GitRefused as why:
                raise Failed(f"git cannot write the source of {commit[:10]}: {why}") from None
            archive.seek(0)
            with tarfile.open(fileobj=archive) as tar:
                tar.extraction_filter = getattr(
                    tarfile, "data_filter", None
                )  # the first releases of Python 3.11 lack it
                members = tar.getmembers()
                tar.extractall(folder, members=[m for m in members if not m.issym()])
            for member in members:
                if member.issym():  # once all files are written: nothing is written through a link
                    (folder / member.name).symlink_to(self._target(member.name, member.linkname, folder))
        moved = [self._moved(path, folder) for path in (LIBRARY.parent, *_paths())]
        labs = [self._moved(path, folder) for path in _labs()]
        if self.holds(LIBRARY) and not self._moved(LIBRARY, folder).is_dir():
            library_path = LIBRARY.relative_to(self.folder)
            raise UsageError(f"commit {commit[:10]} has no {library_path}: there is nothing to compare with")
        return SourceTree(
            folder, _environment(list(map(str, moved)), [str(path) for path in labs if path.is_dir()]), commit
        )

    def changed_line(self, path: Path, commit: str) -> int | None:
        """Return the first line of a file of the checkout that differs from a commit; None if none does."""
        if not self.holds(path):
            return None
        diff = (
            git.text(self.folder, "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", str(path)) or ""
        )
        hunk = next((line for line in diff.splitlines() if line.startswith("@@ ")), None)
        if hunk is None:
            return None
        return max(1, int(hunk.split("+")[1].split(" ")[0].split(",")[0]))

    def _target(self, name: str, target: str, folder: Path) -> str:
        """Return the target of a link of the commit: within the commit's source in `folder`, or out of the repository."""
        place = os.path.normpath(self.folder / Path(name).parent / target)
        inside = os.path.commonpath([place, self.folder]) == str(self.folder)
        if os.path.isabs(target):
            return str(folder / os.path.relpath(place, self.folder)) if inside else target
        return target if inside else place

    def _moved(self, path: Path, folder: Path) -> Path:
        """Return the path of the commit's copy of a file in `folder`; the path itself if it is outside the repository."""
        return folder / path.resolve().relative_to(self.folder) if self.holds(path) else path


def _labs() -> list[Path]:
    return [Path(folder) for folder in registry.environment()["ROOFBOOK_LABS"].split(os.pathsep) if folder]


def _paths() -> list[Path]:
    return [Path(folder) for folder in own_python.packages()]


def _environment(paths: list[str], labs: list[str]) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "ROOFBOOK_LABS": os.pathsep.join(labs)}
