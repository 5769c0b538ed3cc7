"""A project with labs of its own in a git repository, for the tests of the gate: kernels into which a slowdown is planted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from roofbook import paths

LABS = Path(__file__).with_name("planted") / "labs"
GIT = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]


class Project:
    """The repository, and `roofbook` as a process that finds its labs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(LABS, folder / "labs", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / ".gitignore").write_text("__pycache__\n")
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
        self.commit()

    def commit(self) -> None:
        for command in (["add", "-A"], ["commit", "-q", "-m", "a change"]):
            subprocess.run([*GIT, *command], cwd=self.folder, check=True)

    def plant(self, **thousandths: int) -> None:
        """Let variants take so much longer: `chain_1=30` is 3 %."""
        planted = {name.replace("_", "-"): extra for name, extra in thousandths.items()}
        self.edit("__init__.py", r"^PLANTED: .*$", f"PLANTED: dict[str, int] = {planted!r}")

    def edit(self, name: str, pattern: str, by: str) -> None:
        path = self.folder / "labs" / "chains" / name
        text, count = re.subn(pattern, by, path.read_text(), count=1, flags=re.M)
        assert count
        path.write_text(text)

    def gate(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        search_path = os.pathsep.join(filter(None, (str(paths.LIBRARY.parent), os.environ.get("PYTHONPATH"))))
        settings = {"ROOFBOOK_LABS": str(self.folder / "labs"), "PYTHONPATH": search_path, "COLUMNS": "120"}
        command = [sys.executable, "-m", "roofbook.cli", "gate", "--lab", "chains", *arguments]
        settings |= environment
        return subprocess.run(command, cwd=self.folder, env={**os.environ, **settings}, capture_output=True, text=True)
