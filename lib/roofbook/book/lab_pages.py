"""Division of a lab's notebook into pages of the site: the story, and pages for reference. For the builder and Sphinx.

A notebook stays one file that runs from top to bottom. From a cell with the tag `page-NAME` on, cells belong to the page
labs/LAB/NAME; the tag `page-story` leads back to the story. Other pages in the folder labs/LAB join the lab's list
automatically.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of
from ..escaping import escape, raw_html
from ..paths import write_whole

if TYPE_CHECKING:
    from sphinx.application import Sphinx

STORY = "story"
PAGES = {
    STORY: "Story",
    "lesson": "Lesson",
    "results": "Results",
    "roofline": "Roofline and resources",
    "sweeps": "Sweeps",
    "published": "Published figures",
    "devices": "Devices",
    "kernels": "Kernels",
    "measurements": "Measurements",
}
"""Pages of a lab with their titles, in the order of the lab's list."""
SPREAD = ("results", "roofline", "sweeps", "published")
"""Pages that cells of a notebook can belong to."""

PREPARED = "ROOFBOOK_PREPARED"
"""Environment variable of a builder whose parent process writes the reference pages before the build begins."""

_BOOK = "../book/"
"""Prefix of links to written pages in a notebook, for JupyterLab; on the site these pages are in `../`."""
_TAG = "page-"
_LIKE_A_PAGE = re.compile(r"\s*pages?([-_\s:.]|$)", re.IGNORECASE)
_HEADING = re.compile(r"\A#{1,6} +(.+)")
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")


def pages_of(cells: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return (page, cell) for each cell of a notebook. Raise UsageError for the tag of an unknown page."""
    cells_by_page, page, tags = [], STORY, [f"{_TAG}{name}" for name in (STORY, *SPREAD)]
    for number, cell in enumerate(cells, 1):
        for tag in cell["metadata"].get("tags", []):
            if tag in tags:
                page = tag.removeprefix(_TAG)
            elif _LIKE_A_PAGE.match(tag):
                raise UsageError(f"cell {number}: {one_of('tag of a page', tag, tags)}")
        cells_by_page.append((page, cell))
    return cells_by_page


def write_pages(book: Path) -> None:
    """Write the reference pages of each lab, as notebooks, where they change."""
    for story in sorted((book / "labs").glob("*.ipynb")):
        try:
            texts = side_pages(json.loads(story.read_text(encoding="utf-8")), story.stem)
        except (ValueError, KeyError, TypeError):
            continue  # reading the story raises a better error
        for name in SPREAD:
            path = book / "labs" / story.stem / f"{name}.ipynb"
            if name not in texts:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_text(encoding="utf-8") != texts[name]:
                write_whole(path, texts[name])


def side_pages(notebook: Mapping[str, Any], lab: str) -> dict[str, str]:
    """Return the text of each reference page of a lab by its name: a notebook without traces of a run."""
    spread = pages_of(notebook["cells"])
    targets, texts = _anchors(spread), {}
    about = _heading(notebook["cells"][0]).partition(":")[0] if notebook["cells"] else ""
    for name in SPREAD:
        own_cells = [cell for page, cell in spread if page == name]
        if own_cells:
            title = {"source": f"# {about}: {PAGES[name].lower()}"} | (
                {"id": f"{name}-title"} if "id" in own_cells[0] else {}
            )
            cells = [{"cell_type": "markdown", "metadata": {}, **title}]
            cells += [_without_run(_linked(cell, name, targets, lab)) for cell in own_cells]
            metadata = {
                key: notebook["metadata"][key] for key in ("kernelspec", "language_info") if key in notebook["metadata"]
            }
            texts[name] = json.dumps({**notebook, "cells": cells, "metadata": metadata}, indent=1) + "\n"
    return texts


def keep_story(notebook: dict[str, Any], lab: str) -> None:
    """Reduce a lab's notebook to its story, with a link in place of each section that belongs to another page."""
    spread = pages_of(notebook["cells"])
    targets = _anchors(spread)
    cells: list[Any] = []
    moved_sections: dict[str, list[str]] = {}
    for page, cell in [*spread, (STORY, None)]:
        if page != STORY:
            moved_sections.setdefault(page, [])
            if heading := _heading(cell):
                moved_sections[page].append(f"[{heading}]({_address(STORY, page, lab)}#{_slug(heading)})")
            continue
        if moved_sections:
            cell_id = {"id": f"gone-{len(cells)}"} if "id" in notebook["cells"][0] else {}
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _pointer(moved_sections), **cell_id})
            moved_sections = {}
        if cell is not None:
            cells.append(_linked(cell, STORY, targets, lab))
    notebook["cells"] = cells


def lab_and_page(docname: str) -> tuple[str, str]:
    """Return the lab and the page of a document: ('lbm', 'results') for labs/lbm/results, ('peaks', 'story') for peaks."""
    parts = docname.split("/")
    return (parts[1], parts[2]) if parts[0] == "labs" and len(parts) == 3 else (parts[-1], STORY)


def of_lab(docname: str) -> bool:
    """Return whether a document is a page of a lab, the story or a reference page."""
    return bool(re.fullmatch(r"labs/[^/]+(/[^/]+)?", docname))


def page_list(app: Sphinx, docname: str) -> str:
    """Return Markdown for below the title of a lab's page: the list of the lab's pages, and a table of contents entry for
    each.
    """
    lab, page = lab_and_page(docname)
    story = f"labs/{lab}"
    other_pages = _in_order(name for name in app.env.found_docs if name.startswith(f"{story}/"))
    docnames = [story, *other_pages]
    if story not in app.env.found_docs and page != STORY:
        app.env.metadata[docname]["orphan"] = True  # no table of contents lists it
        return ""
    if not other_pages:
        return ""

    def list_item(document: str) -> str:
        name = lab_and_page(document)[1]
        title = escape(PAGES.get(name, name.capitalize()))
        if name == page:
            return f'<li><span aria-current="page">{title}</span></li>'
        return f'<li><a href="{escape(app.builder.get_relative_uri(docname, document))}">{title}</a></li>'

    items = "".join(map(list_item, docnames))
    navigation = raw_html(f'<nav class="lab-pages" aria-label="Pages of this lab"><ul>{items}</ul></nav>')
    if page != STORY:
        return navigation
    return (
        navigation
        + "\n```{toctree}\n:hidden:\n:glob:\n\n"
        + "".join(f"/{page_name}\n" for page_name in other_pages)
        + "```\n"
    )


def below_title(text: str, addition: str) -> str:
    """Return Markdown with `addition` inserted after its first line, the title."""
    title, _, following = text.partition("\n")
    return f"{title}\n\n{addition}\n{following}" if _HEADING.match(text) and addition else text


def pages_with_changed_list(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """Return all pages of each lab that has gained or lost a page."""
    labs = {lab_and_page(name)[0] for name in added | removed if of_lab(name)}
    return [name for name in env.found_docs if of_lab(name) and lab_and_page(name)[0] in labs]


def _in_order(docnames: Iterable[str]) -> list[str]:
    order = list(PAGES)
    return sorted(
        docnames, key=lambda name: (order.index(p) if (p := lab_and_page(name)[1]) in order else len(order), name)
    )


def _heading(cell: Mapping[str, Any] | None) -> str:
    match = _HEADING.match(_source(cell)) if cell and cell["cell_type"] == "markdown" else None
    return match[1].strip() if match else ""


def _source(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])


def _slug(heading: str) -> str:
    """Return the anchor that MyST gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _anchors(spread: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[str, str]]:
    """Return link target within a notebook -> (page, anchor) of that heading in the site."""
    headings = [(page, heading) for page, cell in spread if (heading := _heading(cell))]
    return {f"#{heading.replace(' ', '-')}": (page, _slug(heading)) for page, heading in headings}


def _address(from_page: str, to_page: str, lab: str) -> str:
    """Return the address of one page of a lab as seen from another."""
    if to_page == STORY:
        return f"../{lab}.ipynb"
    return f"{lab}/{to_page}.ipynb" if from_page == STORY else f"{to_page}.ipynb"


def _linked(cell: Mapping[str, Any], page: str, targets: Mapping[str, tuple[str, str]], lab: str) -> Mapping[str, Any]:
    """Return a cell with its links adapted to `page`, which is a folder further down than the story."""

    def adapt(match: re.Match[str]) -> str:
        target = match[1].replace(_BOOK, "../", 1) if match[1].startswith(_BOOK) else match[1]
        if target in targets:
            target_page, anchor = targets[target]
            return f"](#{anchor})" if target_page == page else f"]({_address(page, target_page, lab)}#{anchor})"
        return f"]({target})" if target.startswith("#") or page == STORY else f"](../{target})"

    return {**cell, "source": _LINK.sub(adapt, _source(cell))} if cell["cell_type"] == "markdown" else cell


def _without_run(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell without outputs and execution times."""
    metadata = {name: value for name, value in cell["metadata"].items() if name != "papermill"}
    run: dict[str, Any] = {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
    return {**cell, "metadata": metadata, **run}


def _pointer(sections: Mapping[str, Sequence[str]]) -> str:
    lists = "\n\n".join(f"{PAGES[page]}: {', '.join(links)}" for page, links in sections.items() if links)
    return f":::{{div}} lab-more\n{lists}\n:::\n"
