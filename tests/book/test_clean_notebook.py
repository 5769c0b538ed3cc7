"""A notebook that was run and saved in an editor leaves git nothing to commit; a change of its text does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import clean_notebook

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "experiments").rglob("*.ipynb"))


def run_and_saved(text: str) -> dict[str, Any]:
    """Return a notebook as JupyterLab saves it after a run."""
    notebook = json.loads(text)
    notebook["metadata"] = {
        "kernelspec": {"display_name": "My Python", "language": "python", "name": "mine"},
        "language_info": {"name": "python", "version": "3.99.1", "pygments_lexer": "ipython3"},
        "widgets": {"state": {}},
    }
    notebook["nbformat_minor"] = 4
    for number, cell in enumerate(notebook["cells"]):
        cell["metadata"] |= {"scrolled": True, "execution": {"iopub.execute_input": "2026-01-01T00:00:00Z"}}
        if cell["cell_type"] == "code":
            cell["execution_count"] = number
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["done\n"]}]
    return dict(notebook)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_committed_notebook_is_clean(path: Path) -> None:
    text = path.read_text()
    assert clean_notebook.cleaned(text) == text
    assert clean_notebook.cleaned(json.dumps(run_and_saved(text))) == text


def test_git_has_nothing_to_commit_of_a_notebook_that_was_run_and_each_edit(tmp_path: Path) -> None:
    program = ROOT / "lib" / "roofbook" / "book" / "clean_notebook.py"
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "filter.roofbook-notebook.clean", f'"{sys.executable}" "{program}"')
    (tmp_path / ".gitattributes").write_bytes((ROOT / ".gitattributes").read_bytes())
    notebook = tmp_path / "lab.ipynb"
    notebook.write_bytes((ROOT / "experiments" / "stencil.ipynb").read_bytes())
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "all")
    saved = run_and_saved(notebook.read_text())
    notebook.write_text(json.dumps(saved, indent=1))
    assert git(tmp_path, "diff", "HEAD") == ""
    git(tmp_path, "add", "--all")
    assert git(tmp_path, "status", "--porcelain") == "", "nothing is staged"
    saved["cells"][-1]["source"] = ["lab.summary()"]
    notebook.write_text(json.dumps(saved, indent=1))
    assert git(tmp_path, "status", "--porcelain") == " M lab.ipynb\n"
    changed = [line for line in git(tmp_path, "diff", "--unified=0").splitlines() if line[:2] in ("+ ", "- ")]
    assert [line for line in changed if line.startswith("+")] == ['+    "lab.summary()"']


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', '{"cells": [3]}', '{"cells": [{}]}'])
def test_text_that_is_no_notebook_stays_as_it_is(text: str) -> None:
    assert clean_notebook.cleaned(text) == text


def test_the_makefile_tells_git_to_use_the_filter_that_the_attributes_name() -> None:
    attributes = (ROOT / ".gitattributes").read_text()
    (name,) = [line.split("filter=")[1] for line in attributes.splitlines() if line.startswith("*.ipynb ")]
    assert f"git config filter.{name}.clean" in (ROOT / "Makefile").read_text()
