"""A lab in Colab or Binder: the links, if the repository has an address, and Colab's notebook, run outside and as if in Colab.

As if in Colab, the first cell clones a repository from this disk, and pip only lists its packages, without a network.
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

from ..sphinx_build import build_site

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "experiments" / "colab" / "stencil.ipynb"
ADDRESS = "https://github.com/somebody/some.book"


def address() -> str:
    repository_url: str = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]["config"]["repository_url"]
    return repository_url


@pytest.mark.parametrize("url", [ADDRESS, f"{ADDRESS}.git", f"{ADDRESS}/"])
def test_the_links_lead_to_notebooks_of_the_repository(url: str) -> None:
    links = browser_links(url, "stencil")
    assert list(links) == ["Run in Colab", "Open in Binder"]
    colab, binder = links.values()
    start = "https://colab.research.google.com/github/somebody/some.book/blob/main/"
    assert colab.startswith(start) and ROOT / colab.removeprefix(start) == NOTEBOOK
    start = "https://mybinder.org/v2/gh/somebody/some.book/main?labpath="
    assert binder.startswith(start) and (ROOT / binder.removeprefix(start).replace("%2F", "/")).is_file()


@pytest.mark.parametrize("url", ["", "https://example.org/somebody/some.book", "https://github.com/somebody"])
def test_without_a_repository_of_github_there_are_no_links(url: str) -> None:
    assert browser_links(url, "stencil") == {}


def test_the_projects_own_address_is_empty_or_one_that_colab_can_open() -> None:
    assert not address() or browser_links(address(), "stencil")


@pytest.mark.parametrize("url", ["", ADDRESS])
def test_the_page_has_the_links_or_says_why_not(tmp_path: Path, url: str) -> None:
    text = (ROOT / "book" / "your-device.md").read_text()
    (section,) = re.findall(r"^## Nothing installed\n.*?(?=^## )", text, re.M | re.S)
    (tmp_path / "index.md").write_text(f"# A page\n\n{section}")
    settings = ["extensions=myst_parser,roofbook.book.sphinx_ext", f"repository_url={url}"]
    build_site(tmp_path, tmp_path / "out", "-C", "-W", *(f"-D{setting}" for setting in settings))
    html = (tmp_path / "out" / "index.html").read_text()
    assert html.count('href="https://colab.') == html.count("/v2/gh/") == bool(url)
    assert ("This copy does not say where its repository is" in html) == (not url)


def source() -> str:
    """Return the source of the notebook's only code cell."""
    (cell,) = (cell for cell in nbformat.read(NOTEBOOK, 4).cells if cell.cell_type == "code")
    assert not cell.outputs and not cell.execution_count
    return str(cell.source)


def run(text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, **environment: str) -> str:
    """Run a cell in a kernel of this interpreter, started in `folder`, and return its printed output."""
    from nbclient import NotebookClient

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text)])
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=1500, startup_timeout=1500, kernel_name="python3", resources=resources)
    outputs: list[Any] = client.execute().cells[0].outputs
    return "".join(output.text for output in outputs if output.output_type == "stream")


def test_outside_colab_it_installs_nothing_and_gives_its_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the unchanged cell with a fake command that prints its arguments; tests of the command run `roofbook run` itself."""
    python = Path(sys.executable).parent
    for name, script in (("roofbook", 'echo "given: $@"'), ("git", "echo FETCHED"), ("pip", "echo INSTALLED")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    output = run(
        source(), tmp_path, monkeypatch, PATH=os.pathsep.join(map(str, (tmp_path, python, os.environ["PATH"])))
    )
    device = open_device("auto", registry.get("stencil").preferred_backend)
    intro = "A GPU:" if device.kind == "gpu" else "No GPU, so the CPU:"
    line, arguments = output.splitlines()
    assert line == f"{intro} {device.name} ({device.spec})"
    assert arguments.startswith("given: run ")
    assert cli.app.commands["run"].make_context("run", arguments.split()[2:]).params["lab"] == "stencil"


def test_in_colab_it_names_the_missing_address_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from nbclient.exceptions import CellExecutionError

    text = re.sub(r'^REPOSITORY = ".*?"', 'REPOSITORY = ""', source(), flags=re.M)
    with pytest.raises(CellExecutionError, match="this copy does not say where its repository is"):
        run(text, tmp_path, monkeypatch, COLAB_RELEASE_TAG="release")


@pytest.mark.parametrize("gpu", [pytest.param(False, marks=pytest.mark.thorough), True])
@pytest.mark.thorough
def test_in_colab_it_fetches_the_book_and_installs_it_with_cuda_if_there_is_a_gpu(
    gpu: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the cell without its last command, which a test above runs; pip lists its packages and uses no network."""
    remote, checkout, programs, report = (tmp_path / name for name in ("remote", "roofbook", "bin", "report.json"))
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", remote], check=True)
    programs.mkdir()
    if gpu:
        (programs / "nvidia-smi").touch(0o755)
    text = re.sub(r'^REPOSITORY = ".*?"', f'REPOSITORY = "{remote}"', source(), flags=re.M)
    # pip reads PIP_NO_BUILD_ISOLATION=0 as `--no-build-isolation`.
    text = text.replace("/content/roofbook", str(checkout)).partition("# One command.")[0]
    pip = {"PIP_DRY_RUN": "1", "PIP_REPORT": str(report), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    output = run(text, tmp_path, monkeypatch, COLAB_RELEASE_TAG="release", PATH=path, PIP_NO_INDEX="1", **pip)
    assert open_device("auto", registry.get("stencil").preferred_backend).name in output.splitlines()[-1]
    (package,) = json.loads(report.read_text())["install"]
    assert package["metadata"]["name"] == "roofbook" and package["download_info"]["url"] == f"file://{checkout}"
    with_gpu = gpu or shutil.which("nvidia-smi")
    assert package.get("requested_extras") == (["cuda12"] if with_gpu else None)


def test_colabs_notebook_names_the_repository_that_the_settings_name() -> None:
    (named,) = re.findall(r'^REPOSITORY = "(.*?)"', source(), re.M)
    assert named == address(), f"write {address()!r} into REPOSITORY in {NOTEBOOK.relative_to(ROOT)}"
