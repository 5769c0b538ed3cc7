"""A lab in a reader's browser: the links, where the repository has an address, and Colab's notebook, elsewhere and as there.

As in Colab: the first cell clones a repository of this disk, and pip says what it would install without asking a network.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
import yaml

from roofbook import cli
from roofbook.book.sphinx_ext import browser_links
from roofbook.devices.find import open_device
from roofbook.spec import registry

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "experiments" / "colab" / "stencil.ipynb"
ADDRESS = "https://github.com/somebody/some.book"


def address() -> str:
    found: str = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["repository_url"]
    return found


@pytest.mark.parametrize("written", [ADDRESS, f"{ADDRESS}.git", f"{ADDRESS}/"])
def test_the_links_lead_to_notebooks_that_are_there(written: str) -> None:
    links = browser_links(written, "stencil")
    assert list(links) == ["Run in Colab", "Open in Binder"]
    colab, binder = links.values()
    start = "https://colab.research.google.com/github/somebody/some.book/blob/main/"
    assert colab.startswith(start) and ROOT / colab.removeprefix(start) == NOTEBOOK
    start = "https://mybinder.org/v2/gh/somebody/some.book/main?labpath="
    assert binder.startswith(start) and (ROOT / binder.removeprefix(start).replace("%2F", "/")).is_file()


@pytest.mark.parametrize("other", ["", "https://example.org/somebody/some.book", "https://github.com/somebody"])
def test_without_a_repository_of_github_there_are_no_links(other: str) -> None:
    assert browser_links(other, "stencil") == {}


def test_what_the_project_says_of_its_address_is_nothing_or_an_address_that_colab_can_open() -> None:
    assert not address() or browser_links(address(), "stencil")


@pytest.mark.parametrize("written", ["", ADDRESS])
def test_the_page_has_the_links_or_says_why_not(tmp_path: Path, written: str) -> None:
    text = (ROOT / "book" / "your-device.md").read_text()
    (section,) = re.findall(r"^## Nothing installed\n.*?(?=^## )", text, re.M | re.S)
    (tmp_path / "index.md").write_text(f"# A page\n\n{section}")
    settings = ["extensions=myst_parser,roofbook.book.sphinx_ext", f"repository_url={written}"]
    command = [sys.executable, "-m", "sphinx", "-C", "-q", "-W", "-b", "html", *(f"-D{each}" for each in settings)]
    subprocess.run([*command, tmp_path, tmp_path / "out"], check=True)
    html = (tmp_path / "out" / "index.html").read_text()
    assert html.count('href="https://colab.') == html.count("/v2/gh/") == bool(written)
    assert ("This copy does not say where its repository is" in html) == (not written)


def source() -> str:
    """The notebook's one cell of code."""
    (cell,) = (cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code")
    assert not cell.outputs and not cell.execution_count
    return str(cell.source)


def run(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """What a kernel of this interpreter, started in `folder`, says to a cell."""
    from nbclient import NotebookClient

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    client = NotebookClient(book, timeout=1500, kernel_name="python3", resources={"metadata": {"path": str(folder)}})
    outputs: list[Any] = client.execute().cells[0].outputs
    return "".join(each.text for each in outputs if each.output_type == "stream")


def test_outside_colab_it_installs_nothing_and_gives_its_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell as it stands. A stand-in says what the command was given; tests/test_cli.py runs `roofbook run` itself."""
    python = Path(sys.executable).parent
    for name, script in (("roofbook", 'echo "given: $@"'), ("git", "echo FETCHED"), ("pip", "echo INSTALLED")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    said = run(source(), tmp_path, monkeypatch, PATH=os.pathsep.join(map(str, (tmp_path, python, os.environ["PATH"]))))
    device = open_device("auto", registry.get("stencil").preferred_backend)
    which = "A GPU:" if device.kind == "gpu" else "No GPU, so the CPU:"
    line, given = said.splitlines()
    assert line == f"{which} {device.name} ({device.spec})"
    assert given.startswith("given: run ")
    assert cli.app.commands["run"].make_context("run", given.split()[2:]).params["lab"] == "stencil"


def test_in_colab_it_says_what_is_missing_where_it_has_no_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbclient.exceptions import CellExecutionError

    text = re.sub(r'^REPOSITORY = ".*?"', 'REPOSITORY = ""', source(), flags=re.M)
    with pytest.raises(CellExecutionError, match="this copy does not say where its repository is"):
        run(text, tmp_path, monkeypatch, COLAB_RELEASE_TAG="release")


@pytest.mark.parametrize("gpu", [False, True])
def test_in_colab_it_fetches_the_book_and_installs_it_with_cuda_where_there_is_a_gpu(
    gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to the one command, which a test above runs. pip says what it would install, and asks no network."""
    remote, place, programs, report = (tmp_path / name for name in ("remote", "roofbook", "bin", "report.json"))
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", remote], check=True)
    programs.mkdir()
    if gpu:
        (programs / "nvidia-smi").touch(0o755)
    text = re.sub(r'^REPOSITORY = ".*?"', f'REPOSITORY = "{remote}"', source(), flags=re.M)
    # pip reads the last of its settings as of the option's effect: no isolation.
    text = text.replace("/content/roofbook", str(place)).partition("# One command.")[0]
    pip = {"PIP_DRY_RUN": "1", "PIP_REPORT": str(report), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    said = run(text, tmp_path, monkeypatch, COLAB_RELEASE_TAG="release", PATH=path, PIP_NO_INDEX="1", **pip)
    assert open_device("auto", registry.get("stencil").preferred_backend).name in said.splitlines()[-1]
    (asked,) = json.loads(report.read_text())["install"]
    assert asked["metadata"]["name"] == "roofbook" and asked["download_info"]["url"] == f"file://{place}"
    with_gpu = gpu or shutil.which("nvidia-smi")
    assert asked.get("requested_extras") == (["cuda12"] if with_gpu else None)


def test_colabs_notebook_names_the_repository_that_the_settings_name() -> None:
    (named,) = re.findall(r'^REPOSITORY = "(.*?)"', source(), re.M)
    assert named == address(), f"write {address()!r} into REPOSITORY in {NOTEBOOK.relative_to(ROOT)}"
