"""A lab's notebook spread over pages of the site: the page of each cell, the links between them, and when they are written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from roofbook.analysis.publication import publication
from roofbook.book import lab_pages
from roofbook.errors import UsageError
from roofbook.paths import project_root
from roofbook.spec import registry

from ..sphinx_build import build_site

SETTINGS = """
extensions = ["myst_nb", "sphinx_design", "sphinx_external_toc", "roofbook.book.sphinx_ext"]
html_theme = "basic"
nb_execution_mode = "off"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["etoc.toctree"]
"""


PYTHON = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


def markdown(text: str, *tags: str) -> dict[str, Any]:
    return {
        "cell_type": "markdown",
        "id": text[:6].strip("# ") or "x",
        "metadata": {"tags": list(tags)},
        "source": text,
    }


def code(text: str) -> dict[str, Any]:
    outputs = [{"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}]
    times = {"papermill": {"start_time": "2026-01-01T00:00:00"}}
    return {
        "cell_type": "code", "id": text, "metadata": times, "source": text, "outputs": outputs, "execution_count": 7,
    }  # fmt: skip


def notebook() -> dict[str, Any]:
    cells = [
        markdown("# A lab: what it asks\n\n[Exercises](../book/exercises/a.md), [times](#The-times,-all-of-them)."),
        code("open"),
        markdown(
            "## The times, all of them\n\n[Its course](../index.md), [limits](#Limits), [shapes](#Shapes).",
            "page-results",
        ),
        code("times"),
        markdown("## Shapes\n\n[Times](#The-times,-all-of-them)", "page-sweeps"),
        code("shapes"),
        markdown("## Peaks", "page-results"),
        code("peaks"),
        markdown("## Limits", "page-story"),
        code("limits"),
    ]
    return {"cells": cells, "metadata": {**PYTHON, "papermill": {"duration": 1}}, "nbformat": 4, "nbformat_minor": 5}


def sources(cells: list[Any]) -> list[str]:
    return [cell["source"] for cell in cells]


def test_a_tag_sends_a_cell_and_those_after_it_to_a_page_until_the_next_tag() -> None:
    pages_by_cell = lab_pages.pages_of(notebook()["cells"])
    pages = [page for page, _ in pages_by_cell]
    assert pages == [*["story"] * 2, *["results"] * 2, *["sweeps"] * 2, *["results"] * 2, *["story"] * 2]


@pytest.mark.parametrize(
    "tag", ["page-kernel", "page-devices", "page-", "Page-results", "page_results", "page results", "page"]
)
def test_a_tag_of_no_page_is_refused_with_its_cell(tag: str) -> None:
    with pytest.raises(
        UsageError, match=rf"^cell 2: unknown tag of a page '{tag}'.*; valid: page-story, page-results, "
    ):
        lab_pages.pages_of([markdown("# A"), markdown("## B", tag)])
    assert lab_pages.pages_of([markdown("# A", "pagebreak", "remove-input")])[0][0] == "story", "a tag of another tool"


def test_each_page_has_its_cells_a_title_and_links_that_work_from_its_folder() -> None:
    pages = {name: json.loads(text) for name, text in lab_pages.side_pages(notebook(), "a").items()}
    assert set(pages) == {"results", "sweeps"}, "a lab without published figures has no page of them"
    for page in pages.values():
        nbformat.validate(nbformat.from_dict(page))
    title, times, output_cell, *last_cells = pages["results"]["cells"]
    assert title["source"] == "# A lab: results" and output_cell["outputs"] == []
    assert sources(last_cells) == ["## Peaks", "peaks"]
    assert "[Its course](../../index.md)" in times["source"]
    assert "[limits](../a.ipynb#limits), [shapes](sweeps.ipynb#shapes)" in times["source"]
    assert "[Times](results.ipynb#the-times-all-of-them)" in pages["sweeps"]["cells"][1]["source"]


def test_the_story_keeps_its_cells_and_links_to_those_that_were_moved() -> None:
    story = notebook()
    lab_pages.keep_story(story, "a")
    first, opening, pointer, limits, limits_code = sources(story["cells"])
    assert "(../exercises/a.md), [times](a/results.ipynb#the-times-all-of-them)" in first
    assert (opening, limits, limits_code) == ("open", "## Limits", "limits")
    assert (
        "Results: [The times, all of them](a/results.ipynb#the-times-all-of-them), [Peaks](a/results.ipynb#peaks)"
        in pointer
    )
    assert "Sweeps: [Shapes](a/sweeps.ipynb#shapes)" in pointer
    plain = {"cells": [markdown("# A"), code("b")], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    unchanged = json.loads(json.dumps(plain))
    lab_pages.keep_story(plain, "a")
    assert plain == unchanged and not lab_pages.side_pages(plain, "a"), "a notebook without marks is one page"


def test_pages_are_written_if_they_changed_and_removed_with_their_cells(tmp_path: Path) -> None:
    story, folder = tmp_path / "labs" / "a.ipynb", tmp_path / "labs" / "a"
    story.parent.mkdir()
    story.write_text(json.dumps(notebook()))
    lab_pages.write_pages(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"results.ipynb", "sweeps.ipynb"}
    kernels = folder / "kernels.md"
    kernels.write_text("# Kernels")
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    again = notebook()
    again["cells"][1]["outputs"], again["cells"][3]["execution_count"] = [], 8
    again["cells"][3]["metadata"]["papermill"]["start_time"] = "2026-01-02"
    story.write_text(json.dumps(again))
    lab_pages.write_pages(tmp_path)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before, "another run that shows the same"
    again["cells"][5]["source"] = "other"
    story.write_text(json.dumps(again))
    lab_pages.write_pages(tmp_path)
    changed = {path.name for path in folder.iterdir() if path.stat().st_mtime_ns != before[path]}
    assert changed == {"sweeps.ipynb"}
    again["cells"] = again["cells"][:4]
    story.write_text(json.dumps(again))
    lab_pages.write_pages(tmp_path)
    assert {path.name for path in folder.iterdir()} == {"results.ipynb", "kernels.md"}
    story.write_text("{")
    lab_pages.write_pages(tmp_path)
    assert (folder / "results.ipynb").exists(), "Sphinx reports the broken story"


@pytest.mark.thorough
def test_the_site_lists_a_labs_pages_on_each_of_them_and_in_its_contents(tmp_path: Path) -> None:
    """Build by plain Sphinx, which finds the pages itself, and once more after a page was added."""
    book, out = tmp_path / "book", tmp_path / "out"
    (book / "labs").mkdir(parents=True)
    (book / "exercises").mkdir()
    (book / "labs" / "a.ipynb").write_text(json.dumps(notebook()))
    (book / "exercises" / "a.md").write_text("# Exercises")
    (book / "index.md").write_text("# A book")
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n- glob: labs/*\n- glob: exercises/*\n")
    (book / "conf.py").write_text(SETTINGS)
    build_site(book, out, "-W")
    story, results = ((out / "labs" / name).read_text() for name in ("a.html", "a/results.html"))
    assert '<a href="a/results.html">Results</a>' in story and '<span aria-current="page">Story</span>' in story
    assert '<a href="../a.html">Story</a>' in results and '<a href="sweeps.html">Sweeps</a>' in results
    assert 'href="a/results.html#the-times-all-of-them"' in story and 'id="the-times-all-of-them"' in results
    assert "Kernels" not in story
    (book / "labs" / "a" / "kernels.md").write_text("# A lab: kernels")
    build_site(book, out, "-W")
    for name, link in (("a.html", "a/kernels.html"), ("a/results.html", "kernels.html")):
        assert f'<a href="{link}">Kernels</a>' in (out / "labs" / name).read_text()
    assert '<span aria-current="page">Kernels</span>' in (out / "labs" / "a" / "kernels.html").read_text()


@pytest.mark.parametrize("name", registry.names())
def test_a_labs_story_does_not_hold_its_results_sweeps_and_published_figures(name: str) -> None:
    cells = json.loads((project_root() / "experiments" / f"{name}.ipynb").read_text())["cells"]
    code_by_page: dict[str, str] = {}
    for page, cell in lab_pages.pages_of(cells):
        if cell["cell_type"] == "code":
            code_by_page[page] = code_by_page.get(page, "") + "".join(cell["source"])
    has_report = bool(publication(registry.get(name)).evidence)
    assert set(code_by_page) == {"story", "results", "roofline", "sweeps", *["published"] * has_report}
    assert code_by_page["story"].count("lab.opening()") == 1, "one figure of the ladder, on the first screen"
    assert "lab.descent(" not in code_by_page["story"], "the pages of results have one of each case"
    for call, page_of_call in (
        ("lab.ladder(", "results"), ("ladder_chart", "results"),
        ("peers(", "results"), ("lab.failed", "results"), ("peak_table", "roofline"), ("roofline", "roofline"),
        ("counters", "roofline"), ("timeline", "roofline"), ("resources", "roofline"), ("lab.parts", "roofline"),
        ("lab.sweep(", "sweeps"), ("lab.published(", "published"),
        ("summary", "story"),
    ):  # fmt: skip
        assert [page for page, text in code_by_page.items() if call in text] in ([page_of_call], []), call


def test_links_of_the_committed_notebooks_lead_to_files() -> None:
    """Follow the links as JupyterLab does; a notebook links to no page that only the site has, such as a lab's kernels."""
    root = project_root()
    links = 0
    for notebook in (root / "experiments").glob("*.ipynb"):
        for cell in json.loads(notebook.read_text())["cells"]:
            for link in re.findall(
                r"\]\((\.\./[^)\s#]+)", "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
            ):
                assert (notebook.parent / link).is_file(), f"{notebook.name}: {link}"
                links += 1
    assert links >= 5


def test_a_story_leaves_the_description_of_the_c_program_to_its_step() -> None:
    texts = {lab: notebook_texts(lab) for lab in registry.names()}
    with_step = [lab for lab, (_, code) in texts.items() if 'lab.steps("sequential-c")' in code]
    assert sorted(with_step) == ["cnn", "convpool", "lbm", "stencil"]
    assert [lab for lab in with_step if "C compiler" in texts[lab][0]] == []


def notebook_texts(lab: str) -> tuple[str, str]:
    """Return the prose and the code of a lab's notebook."""
    cells = json.loads((project_root() / "experiments" / f"{lab}.ipynb").read_text(encoding="utf-8"))["cells"]
    by_type = {kind: ["".join(c["source"]) for c in cells if c["cell_type"] == kind] for kind in ("markdown", "code")}
    return "\n".join(by_type["markdown"]), "\n".join(by_type["code"])
