"""The source of a commit in a folder of its own, and the environment in which a process finds the library there.

Serves the gate. What lies in the repository is the commit's in that process: the library, if the project is Roofbook, and the
folders of labs that ROOFBOOK_LABS names. What lies outside of it stays what it is.
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
            found = git.answer(folder, "rev-parse", "--show-toplevel").decode(errors="replace").strip()
        except git.GitRefused as why:
            if "not a git repository" in str(why):
                raise UsageError(
                    f"{folder} is in no git repository: the gate compares with the source of a commit"
                ) from None
            remedy = remedy_of(str(why), folder)
            raise UsageError(f"the gate needs git to find the source of a commit; git says: {why}: {remedy}") from None
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
        """The source as it is, with all changes that are not committed."""
        return SourceTree(
            self.folder, _environment(list(map(str, (LIBRARY.parent, *_paths()))), list(map(str, _labs())))
        )

    def extract(self, commit: str, folder: Path) -> SourceTree:
        """The source of a commit, written into an empty folder. Links that lead out of the repository lead where they did."""
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
                tar.extractall(folder, members=[each for each in members if not each.issym()])
            for member in members:
                if member.issym():  # once all files are written: nothing is written through a link
                    (folder / member.name).symlink_to(self._target(member.name, member.linkname, folder))
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
        said = (
            git.text(self.folder, "diff", "--unified=0", "--no-color", "--no-ext-diff", commit, "--", str(path)) or ""
        )
        hunk = next((line for line in said.splitlines() if line.startswith("@@ ")), None)
        if hunk is None:
            return None
        return max(1, int(hunk.split("+")[1].split(" ")[0].split(",")[0]))

    def _target(self, name: str, target: str, folder: Path) -> str:
        """Return where a link of the commit leads: into the commit's source in `folder`, or out of the repository as ever."""
        place = os.path.normpath(self.folder / Path(name).parent / target)
        inside = os.path.commonpath([place, self.folder]) == str(self.folder)
        if os.path.isabs(target):
            return str(folder / os.path.relpath(place, self.folder)) if inside else target
        return target if inside else place

    def _moved(self, path: Path, folder: Path) -> Path:
        """Where the commit's own stands; the path itself of what is not the repository's."""
        return folder / path.resolve().relative_to(self.folder) if self.holds(path) else path


def _labs() -> list[Path]:
    return [Path(each) for each in registry.environment()["ROOFBOOK_LABS"].split(os.pathsep) if each]


def _paths() -> list[Path]:
    return [Path(folder) for folder in own_python.packages()]


def _environment(paths: list[str], labs: list[str]) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "ROOFBOOK_LABS": os.pathsep.join(labs)}
