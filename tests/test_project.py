"""A project of one's own: `roofbook init`, labs in its folder labs/ and in installed packages, and a site of these alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.book import sources
from roofbook.errors import UsageError
from roofbook.spec import registry

from .conftest import Command

LAB = '''"""Twice: each element twice (made up for the tests)."""

from roofbook.spec.kernel_lab import KernelLab, Step


class Twice(KernelLab):
    scales = {"test": [65]}
    reads = {"x": "n"}
    writes = {"out": "n"}
    steps = (Step("plain", None, "A work-item for each element.", "The baseline.", work_items="n"),)

    def compute(self, x):
        return {"out": 2 * x}

    def operations(self, n):
        return n


LAB = Twice()
'''
KERNEL = """KERNEL void twice(GLOBAL const float *RESTRICT x, GLOBAL float *RESTRICT out, int n) {
  const int i = GLOBAL_ID(0);
  if (i < n) out[i] = 2.0f * x[i];
}
"""
Roofbook = Callable[..., "subprocess.CompletedProcess[str]"]


def write_lab(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(LAB)
    (folder / f"{folder.name}.k").write_text(KERNEL)


def run(folder: Path, *arguments: str, packages: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder, with the packages of another folder beside the installed ones."""
    search = os.pathsep.join(map(str, filter(None, (paths.LIBRARY.parent, packages))))
    return subprocess.run(
        [sys.executable, "-m", "roofbook", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": search, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


@pytest.fixture
def project(tmp_path: Path, command: Command) -> Path:
    """A project with the lab `twice`, which has neither a notebook nor a report."""
    assert command("init", str(tmp_path / "mine"))[0] == 0
    write_lab(tmp_path / "mine" / "labs" / "twice")
    return tmp_path / "mine"


def test_init_writes_a_project_and_nothing_twice(tmp_path: Path, command: Command) -> None:
    folder = tmp_path / 'my "kernels"'
    folder.mkdir()
    (folder / "README.md").write_text("mine\n")
    code, out, err = command("init", str(folder))
    assert (code, " ".join(out.split()), err) == (0, f"{folder}: wrote roofbook.toml, labs/", "")
    assert (folder / "README.md").read_text() == "mine\n" and sources.title(folder) == 'my "kernels"'
    assert "is a project already: nothing was written" in " ".join(command("init", str(folder))[1].split())
    assert paths.project_root(folder / "labs") == folder.resolve()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("file", "file"),
        ("file/below", "file"),
        ("book", "is a checkout of Roofbook"),
        ("closed/new", "Permission denied"),
    ],
)
def test_init_says_in_one_line_why_it_cannot(tmp_path: Path, command: Command, name: str, reason: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "book" / "experiments").mkdir(parents=True)
    (tmp_path / "book" / "_config.yml").touch()
    (tmp_path / "closed").mkdir(mode=0o500)
    if name.startswith("closed") and os.access(tmp_path / "closed", os.W_OK):
        pytest.skip("root may write anywhere")
    code, out, err = command("init", str(tmp_path / name))
    assert (code, out) == (2, "") and err.count("\n") == 1 and reason in err


def test_a_project_is_the_nearest_folder_with_settings_or_labs(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner"
    write_lab(inner / "labs" / "twice")
    (tmp_path / "outer" / paths.SETTINGS).touch()
    (inner / "deep").mkdir()
    assert paths.project_root(inner / "deep") == inner.resolve()
    assert paths.project_root(inner.parent) == inner.parent.resolve()
    assert paths.project_root(inner / paths.GATHERED) == inner.resolve()
    assert paths.project_root(paths.LIBRARY / "labs") == paths.LIBRARY.parents[1]


@pytest.mark.thorough
def test_a_lab_without_notebook_and_report_is_measured_and_read(project: Path) -> None:
    for arguments, part in (
        (["labs"], "twice      Twice: 1 variants"),
        (["run", "twice", "--scale", "test", "-p", "budget_s", "0.000001"], "The ladder on n65"),
        (["rerun", "twice", "plain", "n65", "--scale", "test", "--no-page"], "plain on n65"),
        (["show", "twice", "plain"], "__kernel void twice"),
        (["explain", "twice", "--scale", "test"], "fresh"),
        (["history", "twice"], "1 measurement"),
        (["claims", "--lab", "twice"], "twice has no report whose claims are tested"),
        (["export", "select distinct variant from cells where lab = 'twice'"], "plain"),
        (["export", "select count(*) > 500 as any from published"], "True"),
        (["chart", "twice", "n65", "--scale", "test", "--out", "ladder.svg"], ""),
        (["check", "twice", "plain"], "nothing found"),
        (["show", "stencil", "fused"], "__kernel"),
    ):
        done = run(project, *arguments)
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stdout, done.stderr)
        assert part in done.stdout, (arguments, done.stdout)
    assert list((project / "results" / "local" / "lab=twice").rglob("*.parquet"))
    assert {path.name for path in project.iterdir()} == {"README.md", "labs", "ladder.svg", "results", paths.SETTINGS}


BROKEN = {
    "broken": "import nosuch",
    "unfinished": "x = (",
    "misnamed": LAB + "LAB.name = 'other'",
    "stencil": LAB,
}
"""Labs with a mistake by their folders; the last has a name of the book's."""


def test_labs_with_mistakes_are_named_and_the_others_stay_usable(project: Path) -> None:
    for name, text in BROKEN.items():
        write_lab(project / "labs" / name)
        (project / "labs" / name / "__init__.py").write_text(text)
    listed = run(project, "labs")
    assert listed.returncode == 2 and listed.stderr.count("\n") == 1
    assert "twice" in listed.stdout and "lbm" in listed.stdout
    for name in BROKEN:
        assert f"lab {name} in {project / 'labs' / name}" in listed.stderr
        done = run(project, "run", name)
        assert done.returncode == 2 and done.stderr.startswith(f"error: lab {name} in "), done.stderr
        assert done.stderr.count("\n") == 1
    assert run(project, "build").returncode == 2
    assert not (project / "results").exists(), "nothing was measured"
    assert run(project, "show", "twice", "plain").returncode == 0


def test_labs_of_installed_packages_are_found(project: Path, tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    write_lab(packages / "my_package" / "thrice")
    (packages / "my_package" / "__init__.py").touch()
    (packages / "my_package" / "no_lab").mkdir()
    (packages / "my_package" / "no_lab" / "__init__.py").touch()
    kernel = packages / "my_package" / "thrice" / "thrice.k"
    kernel.write_text(KERNEL.replace("twice", "thrice"))
    information = packages / "my_package-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1\n")
    entries = "[roofbook.labs]\nthrice = my_package.thrice\ngone = my_package.gone\n"
    (information / "entry_points.txt").write_text(entries)
    listed = run(project, "labs", packages=packages)
    assert listed.returncode == 2 and "thrice     " in listed.stdout and "twice" in listed.stdout
    assert listed.stderr == (
        "error: lab gone: ModuleNotFoundError: 'my_package.gone', which its entry point names, is no installed package\n"
    )
    done = run(project, "rerun", "thrice", "plain", "n65", "--scale", "test", "--no-page", packages=packages)
    assert done.returncode == 0 and re.search(r"^plain on n65: \d", done.stdout, re.M), done.stdout + done.stderr
    assert "__kernel void thrice" in run(project, "show", "thrice", "plain", packages=packages).stdout


@pytest.mark.parametrize("text", ["title = 3", "title = [", "title = ' '"])
def test_settings_of_another_form_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / paths.SETTINGS).write_text(text)
    with pytest.raises(UsageError, match=r'roofbook\.toml.*such .*title = "My kernels"') as caught:
        sources.title(tmp_path)
    assert "\n" not in str(caught.value)


def test_sources_of_an_installed_book_are_gathered_beside_links_to_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    gathered = sources.gather(tmp_path)
    book = paths.installed_book()
    assert (gathered / "_config.yml").read_bytes() == (book / "_config.yml").read_bytes()
    assert {path.name for path in (gathered / "experiments").glob("*.ipynb")} == {
        *(f"{name}.ipynb" for name in (*registry.names(), registry.PEAKS))
    }
    assert (gathered / "results" / "recorded").resolve() == book / "results" / "recorded"
    (gathered / "results" / "local" / "mine").touch()
    assert (tmp_path / "results" / "local" / "mine").exists()
    page, obsolete, made = (gathered / "book" / name for name in ("method.md", "obsolete.md", "labs/lbm.ipynb"))
    before = page.stat().st_mtime_ns
    made.parent.mkdir()
    made.touch()
    obsolete.touch()
    (gathered / "book" / "data.md").write_text("edited")
    assert sources.gather(tmp_path) == gathered
    assert page.stat().st_mtime_ns == before and made.exists() and not obsolete.exists()
    assert (gathered / "book" / "data.md").read_bytes() == (book / "book" / "data.md").read_bytes()


@pytest.mark.thorough
def test_the_site_of_a_project_has_its_own_labs_alone(project: Path) -> None:
    done = run(project, "build", "--scale", "test")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    site = project / paths.GATHERED / "_build" / "html"
    assert {path.name for path in (site / "labs").glob("*.html")} == {"twice.html"}
    assert "<title>mine" in (site / "index.html").read_text()
    text = "".join(path.read_text() for path in site.glob("*.html"))
    assert "labs/twice.html" in text and "lbm" not in text
    assert run(project, "build").stdout.endswith(f"{site / 'index.html'}\n")
