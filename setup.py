"""Puts the book into a wheel: pages, notebooks, published and recorded rows, which lie beside lib/ in the checkout.

An editable install finds them in the checkout and takes no copy. Everything else is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
SHIPPED = ("_config.yml", "pyproject.toml", "book", "experiments", "results/published", "results/recorded")
"""Files and folders of the checkout that a wheel carries in roofbook/shipped."""
MADE = shutil.ignore_patterns("labs", "_generated", "__pycache__", ".*")
"""Files that a build or a tool leaves in them."""


class BuildWithBook(build_py):
    """Copies the book beside the library's modules."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
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


setup(cmdclass={"build_py": BuildWithBook})
