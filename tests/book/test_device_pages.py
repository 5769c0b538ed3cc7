"""Pages of a lab on all devices, built by Sphinx; and lines with a step's effect on devices that nobody can choose
without JavaScript.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from roofbook.book.device_choices import FOLDER, SCRIPTS, DeviceChoice, cells_file, cells_script, script_places
from roofbook.book.device_pages import CASES, LEGEND, finish, with_other_devices
from roofbook.book.notebook_cells import key_of

from ..sphinx_build import build_site


def step(name: str, *lines: str) -> str:
    lines_of_effect = "".join(f'<li data-case="c">{line}</li>' for line in lines)
    return f'<div class="step" id="step-{name}"><h3>{name}</h3><ul class="effect">{lines_of_effect}</ul><p>After.</p></div>'


def test_each_step_has_one_line_for_each_device_on_its_largest_case() -> None:
    first = {"a": step("one", "1.0") + step("two", "2.0"), "b": "<p>No step.</p>"}
    cells_by_device = {
        "GPU & Co": {"a": step("one", "3.0 small", '<span data-of="one~c">3.5</span> large') + step("two", "4.0")},
        "CPU": {"a": step("two", "5.0")},
    }
    cells = with_other_devices(first, cells_by_device)
    one, two = cells["a"].split('id="step-two"')
    assert "<noscript><ul" in one and "<li>GPU &amp; Co: 3.5 large</li>" in one and "CPU" not in one
    assert "<li>GPU &amp; Co: 4.0</li><li>CPU: 5.0</li></ul></noscript><p>After.</p>" in two
    assert cells["b"] == first["b"]


def test_a_step_without_other_devices_is_unchanged() -> None:
    first = {"a": step("one", "1.0")}
    assert with_other_devices(first, {"CPU": {"a": step("two", "5.0")}}) == first == with_other_devices(first, {})


def test_a_step_without_lines_takes_none_of_the_next_step() -> None:
    first = {"a": '<div class="step" id="step-none"><p>Nothing.</p></div>' + step("two", "2.0")}
    cell = with_other_devices(first, {"CPU": {"a": step("none", "9.0") + step("two", "5.0")}})["a"]
    assert "9.0" not in cell and "CPU: 5.0" in cell


SETTINGS = """extensions = ["myst_nb", "sphinx_external_toc", "roofbook.book.sphinx_ext"]
html_theme, nb_execution_mode, external_toc_path, comments_config = "sphinx_book_theme", "off", "_toc.yml", {}
html_static_path = ["_assets"]
suppress_warnings = ["etoc.toctree"]
"""
GLOSSARY = "# Glossary\n\n```{glossary}\nwarp\n  Threads.\n\nblock\n  Warps.\n```\n"
SOURCES = ("show(1)", "show(2)", "show(3)")
GPU = DeviceChoice("gpu/cuda", "A GPU, CUDA")
NOTE = '<p class="table-note standing">Times are medians.</p>'


def outputs(device: str) -> list[str]:
    """Return the outputs of the three cells on a device."""
    case = f'<div data-case="small">\n<p>small of {device}</p>\n</div><!-- of a case -->'
    main = case.replace("small", "large").replace(">", " data-main>", 1)
    return [f"<p>A warp of a block on {device}.</p>{NOTE}", f"<p>Another warp on {device}.</p>{NOTE}", case + main]


def lab_notebook(device: str = "") -> dict[str, object]:
    """Return a lab's notebook, executed on a device, of which one cell has a page of its own."""
    cells: list[dict[str, object]] = [{"cell_type": "markdown", "metadata": {}, "source": "# A lab\n\nThis block."}]
    for source, html in zip(SOURCES, outputs(device), strict=True):
        shown = [{"output_type": "display_data", "metadata": {}, "data": {"text/html": html}}] if device else []
        tags = {"tags": ["page-results"]} if source == SOURCES[2] else {}
        cells.append(
            {"cell_type": "code", "metadata": tags, "source": source, "outputs": shown, "execution_count": None}
        )
    metadata = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 4}


KEYS = [key_of({"source": source}) for source in SOURCES]


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """Write a book with one lab that this machine has executed, and whose outputs on a GPU are recorded."""
    folder, recorded = tmp_path / "book", tmp_path / FOLDER / "a"
    (folder / "labs").mkdir(parents=True)
    recorded.mkdir(parents=True)
    (folder / "_assets").mkdir()
    (folder / "_assets" / "against.js").write_text("")  # a page with two devices names it
    (folder / "conf.py").write_text(SETTINGS)
    (folder / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n- file: glossary\n- glob: labs/*\n")
    (folder / "index.md").write_text("# A book\n")
    (folder / "glossary.md").write_text(GLOSSARY)
    (folder / "labs" / "a.ipynb").write_text(json.dumps(lab_notebook("here")))
    (recorded / "index.json").write_text(json.dumps([GPU]))
    cells_file(tmp_path, "a", GPU).write_text(json.dumps(dict(zip(KEYS, outputs("a GPU"), strict=True))))
    return folder


def build(book: Path) -> tuple[dict[str, int], Path]:
    """Build the book by Sphinx; return the time of the last write of each script, and the folder of the site."""
    site = book.parent / "site"
    build_site(book, site, "-W")
    scripts = site / SCRIPTS / "a"
    return {str(path.relative_to(scripts)): path.stat().st_mtime_ns for path in scripts.rglob("*.js")}, site


def words(html: str) -> str:
    """Return HTML with its links to terms as [words] and without other tags."""
    return re.sub(r"<[^>]*>", "", re.sub(r"<a [^>]*#term-[^>]*>(.*?)</a>", r"[\1]", html))


@pytest.mark.thorough
def test_each_device_gets_the_same_page_and_only_changed_scripts_are_written(book: Path) -> None:
    before, site = build(book)
    story, results = ((site / "labs" / name).read_text(encoding="utf-8") for name in ("a.html", "a/results.html"))
    assert set(before) == {
        *("story/gpu.cuda.js", "story/here.js"),
        *(f"results/{name}.js" for name in ("gpu.cuda", "gpu.cuda.small", "here", "here.small")),
    }
    places = {name: script_places(site / SCRIPTS / "a" / "story" / f"{name}.js") for name in ("gpu.cuda", "here")}
    for name, device in (("gpu.cuda", "a GPU"), ("here", "here")):
        assert words(places[name][KEYS[0]]).startswith(f"A [warp] of a block on {device}."), "its section has the block"
        assert "How to read" in places[name][KEYS[0]] and "How to read" not in places[name][KEYS[1]]
        assert words(places[name][KEYS[1]]) == f"Another [warp] on {device}."
        assert places[name][LEGEND].count("Times are medians.") == 1
    for key, html in places["gpu.cuda"].items():
        assert key == CASES or f'<div class="on-device" data-cell="{key}">{html}</div>' in story, "the first device"
    assert "small of a GPU" not in results and "large of a GPU" in results
    assert '"anoth"' in (site / "searchindex.js").read_text(), "the search finds the first device's outputs"

    assert build(book)[0] == before
    (book / "labs" / "a.ipynb").write_text(json.dumps(lab_notebook("there")))
    after, _ = build(book)
    assert {name for name in before if after[name] != before[name]} == {name for name in before if "here" in name}
    cells_file(book.parent, "a", GPU).unlink()
    (book.parent / FOLDER / "a" / "index.json").unlink()
    assert set(build(book)[0]) == {name for name in before if "here" in name}
    assert "Another" in (text := (site / "labs" / "a.html").read_text()) and "on there" in text and "a GPU" not in text


def test_a_book_that_has_run_nowhere_has_no_device_to_choose(book: Path) -> None:
    (book / "labs" / "a.ipynb").write_text(json.dumps(lab_notebook()))
    (book.parent / FOLDER / "a" / "index.json").unlink()
    scripts, site = build(book)
    assert not scripts and "device-bar" not in (site / "labs" / "a.html").read_text()


def test_ids_of_figures_are_unique_over_all_cells_and_tables_scroll(tmp_path: Path) -> None:
    svg = '<svg><defs><path id="a"/></defs><use href="#a"/></svg>'
    cells = {"one": svg, "two": f"{svg}<table><tr><th>x</th></tr></table>", "none": ""}
    places = finish(cells, GPU, tmp_path, "labs/a").places
    assert 'id="d1-1"' in places["one"] and 'href="#d2-1"' in places["two"] and places["none"] == ""
    assert 'class="table-scroll"' in places["two"]


def test_a_comment_in_a_cell_divides_no_cell(tmp_path: Path) -> None:
    cells = {"one": "<p>a</p><!-- a cell --><p>b</p>", "two": "<!-- --><p>c</p>"}
    places = finish(cells, GPU, tmp_path, "labs/a").places
    assert "<p>a</p>" in places["one"] and "<p>b</p>" in places["one"] and "<p>c</p>" in places["two"]


def test_a_script_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    assert script_places(path) == {}
    path.write_text("// hash" + os.linesep + cells_script("a.js", {"x": "<p>(a)</p>"}))
    assert script_places(path) == {"x": "<p>(a)</p>"}
