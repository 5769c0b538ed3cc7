"""Steps to add a lab: a folder and a notebook, here of a lab that exists in the tests alone.

Its folder lies outside the library; ROOFBOOK_LABS names it. Every command runs as a process of its own, as a user starts it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from roofbook import labs, paths
from roofbook.analysis.publication import publication
from roofbook.book import execute, fragments
from roofbook.book.input_hashes import InputHashes
from roofbook.spec import registry
from roofbook.store.parquet import Store

MADE_UP = Path(__file__).parents[1] / "made_up_lab"
Roofbook = Callable[..., str]


@pytest.fixture(scope="module")
def checkout(unmeasured: Callable[[], Path]) -> Path:
    """A checkout with the lab's notebook and its report's figures."""
    root = unmeasured()
    shutil.rmtree(root / "experiments")
    for folder in ("experiments", "results"):
        shutil.copytree(MADE_UP / folder, root / folder, dirs_exist_ok=True)
    return root


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder with labs, which tests may edit."""
    return shutil.copytree(MADE_UP / "labs", tmp_path_factory.mktemp("elsewhere") / "labs")


@pytest.fixture(scope="module")
def roofbook(checkout: Path, folder: Path) -> Roofbook:
    """Function that runs a command in a folder of the checkout; ROOFBOOK_LABS is relative to that folder."""
    place = checkout / "book"
    environment = {
        "ROOFBOOK_LABS": os.path.relpath(folder, place),
        "PYTHONPATH": str(paths.LIBRARY.parent),
        "COLUMNS": "200",
    }

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "roofbook.cli", *arguments]
        done = subprocess.run(command, cwd=place, env={**os.environ, **environment}, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def measured(checkout: Path, roofbook: Roofbook) -> str:
    """Output of `roofbook run`."""
    return roofbook("run", "saxpy", "--scale", "test", "-p", "budget_s", "0.000001")


@pytest.fixture
def lab_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the lab importable in this process."""
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(folder)])
    yield
    registry.get.cache_clear()
    for name in [name for name in sys.modules if name.startswith("roofbook.labs.saxpy")]:
        del sys.modules[name]


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)


def test_it_is_listed_with_what_it_says_of_itself(roofbook: Roofbook) -> None:
    listed = roofbook("labs")
    assert re.search(
        r"^saxpy +Saxpy: 2 variants, 0 peers\n +A vector plus a multiple of another \(made up", listed, re.M
    )
    assert re.search(r"^ +test +n1000$", listed, re.M)


def test_its_kernels_include_what_lies_beside_them(roofbook: Roofbook) -> None:
    text = roofbook("show", "saxpy", "parallel")
    assert "float element(float a, float x, float y)" in text and "get_global_id(0)" in text
    assert "__global__ void saxpy" in roofbook("show", "saxpy", "parallel", "--as", "cuda")
    assert "+  const int i = GLOBAL_ID(0)" in roofbook("diff", "saxpy", "parallel")


def test_it_is_measured_and_makes_a_page_that_the_book_takes(measured: str, checkout: Path) -> None:
    assert "The ladder on n1000" in measured and re.search(r"^parallel .* \d", measured, re.M)
    rows = Store(checkout / "results").rows("saxpy")
    assert set(rows["variant"]) == {"sequential", "parallel", "parallel@group=32", "parallel@group=256"}
    assert set(rows["status"]) == {"ok"}
    page = checkout / "book" / "labs" / "saxpy.ipynb"
    cells = json.loads(page.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    assert outputs and not [output for output in outputs if output["output_type"] == "error"]
    html = "".join("".join(output["data"].get("text/html", "")) for output in outputs)
    assert "one thread an element" in html and "some GPU" in html, "what was published stands beside what was measured"
    toc = yaml.safe_load((checkout / "book" / "_toc.yml").read_text())
    globs = [chapter["glob"] for part in toc["parts"] for chapter in part["chapters"] if "glob" in chapter]
    assert any(fnmatch("labs/saxpy", pattern) for pattern in globs)


def test_written_pages_tell_of_it(measured: str, checkout: Path, lab_on_path: None) -> None:
    assert execute.page_of(checkout, checkout / "experiments" / "saxpy.ipynb").parent.name == "labs"
    assert list(publication(registry.get("saxpy")).evidence) == ["threads"]
    fragments.update(checkout)
    generated = checkout / "book" / "_generated"
    assert "a thread an element against one thread" in (generated / "saxpy-claims.html").read_text()
    assert "Saxpy" in (generated / "glance-ends.html").read_text()
    views = Store(checkout / "results").query("select id from claims join published using (lab) where lab = 'saxpy'")
    assert views["id"].tolist() == ["threads"]


def test_a_kernel_is_judged_with_the_labs_scalars(roofbook: Roofbook, tmp_path: Path) -> None:
    file = tmp_path / "mine.cl"
    file.write_text(
        "// launch saxpy(a, x, y, out, n): n\n"
        "__kernel void saxpy(float a, __global const float *x, __global const float *y, __global float *out, int n) {\n"
        "  const int i = get_global_id(0);\n  if (i < n) out[i] = a * x[i] + y[i];\n}\n"
    )
    assert "mine.cl: right on n1000" in roofbook("judge", "saxpy", str(file), "--no-time", "--device", "opencl:0")


def test_one_measurement_is_repeated(measured: str, roofbook: Roofbook, checkout: Path) -> None:
    assert "parallel on n1000: " in roofbook("rerun", "saxpy", "parallel", "n1000", "--no-page")
    rows = Store(checkout / "results").rows("saxpy")
    assert set(rows[rows["run"] == rows["run"].max()]["variant"]) == {"sequential", "parallel"}, "with its parent"


def test_its_page_and_no_other_labs_follows_its_files(folder: Path, checkout: Path, lab_on_path: None) -> None:
    shutil.copy(checkout / "experiments" / "saxpy.ipynb", other_page := checkout / "lbm.ipynb")

    def made_from() -> dict[str, dict[str, str]]:
        now = InputHashes(checkout)
        hashes_of_page = now.page(checkout / "experiments" / "saxpy.ipynb", {})
        return {"saxpy": hashes_of_page, "lbm": now.page(other_page, {}), "all": now.comparison()}

    before = made_from()
    for file, text, expected in (
        ("publication.py", "\n# a comment\n", {"saxpy": [], "lbm": [], "all": []}),
        ("publication.py", "\nMORE = 1\n", {"saxpy": ["lab"], "lbm": [], "all": ["lab"]}),
        ("element.h", "// a comment\n", {"saxpy": ["kernels"], "lbm": [], "all": ["kernels"]}),
    ):
        append(folder / "saxpy" / file, text)
        now = made_from()
        assert {page: [k for k in now[page] if now[page][k] != before[page][k]] for page in now} == expected, file
        before = now
    other_page.unlink()


def test_its_measurements_are_fresh_until_its_code_does_something_else(
    measured: str, roofbook: Roofbook, folder: Path
) -> None:
    def states() -> list[str]:
        lines = roofbook("explain", "saxpy", "--scale", "test").splitlines()
        return sorted(re.findall(r"\d+ (?:fresh|stale|missing)", lines[-1]))

    append(folder / "saxpy" / "__init__.py", "\n# a comment\n")
    append(folder / "saxpy" / "element.h", "// a comment\n")
    assert states() == ["4 fresh"]
    host = folder / "saxpy" / "__init__.py"
    host.write_text(host.read_text().replace('"a": 1.5', '"a": 12.5'))
    assert states() == ["4 stale"], "a constant that the host hands over"
