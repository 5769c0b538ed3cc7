"""Puts the book into a wheel: pages, notebooks, published and recorded rows, which lie beside lib/ in the checkout.

An editable install finds them in the checkout and takes no copy. A wheel and an archive of the source name the commit that
they were built from, for the rows that they measure. Everything else is in pyproject.toml.
"""

import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
SHIPPED = ("_config.yml", "pyproject.toml", "book", "experiments", "results/published", "results/recorded",
           "results/tuning/recorded")  # fmt: skip
"""Files and folders of the checkout that a wheel carries in roofbook/shipped."""
MADE = shutil.ignore_patterns("labs", "techniques", "_generated", "__pycache__", ".*")
"""Files that a build or a tool leaves in them."""


def commit_of(checkout: Path) -> str | None:
    """Return the commit of a checkout; None if files differ from it, or if this is no checkout."""
    if not (checkout / ".git").exists() or not shutil.which("git"):
        return None
    answers = []
    for command in (["rev-parse", "HEAD"], ["status", "--porcelain"]):
        done = subprocess.run(["git", "-C", checkout, *command], capture_output=True, text=True)
        if done.returncode:
            return None
        answers.append(done.stdout.strip())
    commit, changes = answers
    return None if changes else commit


COMMIT = commit_of(ROOT)
"""The commit of this checkout, before a build leaves folders in it."""


def name_commit(package: Path) -> None:
    """Write the commit into a copy of the package, if it is known, as `git archive` does."""
    if COMMIT:
        named = package / "archived.txt"
        named.unlink(missing_ok=True)  # it may be a link to the checkout's
        named.write_text(f"{COMMIT}\n", encoding="utf-8")


class SourceWithCommit(sdist):
    """Names the commit in an archive of the source."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        name_commit(Path(base_dir, "lib", "roofbook"))


class BuildWithBook(build_py):
    """Copies the book beside the library's modules."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        name_commit(Path(self.build_lib, "roofbook"))
        shipped = Path(self.build_lib, "roofbook", "shipped")
        shutil.rmtree(shipped, ignore_errors=True)  # an earlier build's
        for name in SHIPPED:
            source, target = ROOT / name, shipped / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=MADE)
            else:
                shutil.copy(source, target)
        for notebook in (shipped / "book").glob("*.ipynb"):  # executed ones
            notebook.unlink()


setup(cmdclass={"build_py": BuildWithBook, "sdist": SourceWithCommit})
