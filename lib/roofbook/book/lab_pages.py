"""Spreads a lab's notebook over pages of the site: its story, and beside it what one looks up. For the builder and Sphinx.

A notebook stays one file that runs from top to bottom. A cell with the tag `page-NAME` says that it and what follows belong to
the page labs/LAB/NAME; the tag `page-story` leads back. Other pages of the folder labs/LAB join the lab's list by being there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of
from ..escaping import escape, raw_html

if TYPE_CHECKING:
    from sphinx.application import Sphinx

STORY = "story"
PAGES = {
    STORY: "Story",
    "results": "Results",
    "roofline": "Roofline and resources",
    "sweeps": "Sweeps",
    "published": "Published figures",
    "devices": "Devices",
    "kernels": "Kernels",
    "measurements": "Measurements",
}
"""The pages of a lab in their order, as the lab's list names them."""
SPREAD = ("results", "roofline", "sweeps", "published")
"""Those that a notebook's cells may go to."""

_BOOK = "../book/"
"""What a notebook's link to a written page begins with, so that JupyterLab finds it too; the site has the page in `../`."""
_TAG = "page-"
_LIKE_A_PAGE = re.compile(r"\s*pages?([-_\s:.]|$)", re.IGNORECASE)
_HEADING = re.compile(r"\A#{1,6} +(.+)")
_LINK = re.compile(r"\]\((?!\w+:)([^)\s]+)\)")


def pages_of(cells: Iterable[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return each cell of a notebook with the page that it belongs to. Errors: UsageError for a tag of no page."""
    found, page, known = [], STORY, [f"{_TAG}{name}" for name in (STORY, *SPREAD)]
    for number, cell in enumerate(cells, 1):
        for tag in cell["metadata"].get("tags", []):
            if tag in known:
                page = tag.removeprefix(_TAG)
            elif _LIKE_A_PAGE.match(tag):
                raise UsageError(f"cell {number}: {one_of('tag of a page', tag, known)}")
        found.append((page, cell))
    return found


def side_pages(notebook: Mapping[str, Any], lab: str, *, outputs: bool = True) -> dict[str, str]:
    """By its name the text of each page beside the story: a notebook that tells of no run, and changes with what it shows."""
    spread = pages_of(notebook["cells"])
    targets, made = _anchors(spread), {}
    about = _heading(notebook["cells"][0]).partition(":")[0] if notebook["cells"] else ""
    for name in SPREAD:
        mine = [cell for page, cell in spread if page == name]
        if mine:
            title = {"source": f"# {about}: {PAGES[name].lower()}"} | (
                {"id": f"{name}-title"} if "id" in mine[0] else {}
            )
            cells = [{"cell_type": "markdown", "metadata": {}, **title}]
            cells += [_plain(_linked(cell, name, targets, lab), outputs) for cell in mine]
            kept = {
                key: notebook["metadata"][key] for key in ("kernelspec", "language_info") if key in notebook["metadata"]
            }
            made[name] = json.dumps({**notebook, "cells": cells, "metadata": kept}, indent=1) + "\n"
    return made


def keep_story(notebook: dict[str, Any], lab: str) -> None:
    """Leave of a lab's notebook its story, with a link in the place of each section that has gone to another page."""
    spread = pages_of(notebook["cells"])
    targets = _anchors(spread)
    cells: list[Any] = []
    gone: dict[str, list[str]] = {}
    for page, cell in [*spread, (STORY, None)]:
        if page != STORY:
            gone.setdefault(page, [])
            if heading := _heading(cell):
                gone[page].append(f"[{heading}]({_address(STORY, page, lab)}#{_slug(heading)})")
            continue
        if gone:
            named = {"id": f"gone-{len(cells)}"} if "id" in notebook["cells"][0] else {}
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _pointer(gone), **named})
            gone = {}
        if cell is not None:
            cells.append(_linked(cell, STORY, targets, lab))
    notebook["cells"] = cells


def lab_and_page(docname: str) -> tuple[str, str]:
    """The lab and the page of a document: ('lbm', 'results') of labs/lbm/results, ('peaks', 'story') of peaks."""
    parts = docname.split("/")
    return (parts[1], parts[2]) if parts[0] == "labs" and len(parts) == 3 else (parts[-1], STORY)


def of_lab(docname: str) -> bool:
    """Whether a document is a page of a lab, the story or one beside it."""
    return bool(re.fullmatch(r"labs/[^/]+(/[^/]+)?", docname))


def page_list(app: Sphinx, docname: str) -> str:
    """What stands below the title of a lab's page, as Markdown: the list of the lab's pages, and what makes it one of them."""
    lab, page = lab_and_page(docname)
    story = f"labs/{lab}"
    others = _in_order(name for name in app.env.found_docs if name.startswith(f"{story}/"))
    listed = [story, *others]
    if story not in app.env.found_docs and page != STORY:
        app.env.metadata[docname]["orphan"] = True  # nothing else would have it in its contents
        return ""
    if not others:
        return ""

    def item(each: str) -> str:
        name = lab_and_page(each)[1]
        said = escape(PAGES.get(name, name.capitalize()))
        if name == page:
            return f'<li><span aria-current="page">{said}</span></li>'
        return f'<li><a href="{escape(app.builder.get_relative_uri(docname, each))}">{said}</a></li>'

    items = "".join(map(item, listed))
    shown = raw_html(f'<nav class="lab-pages" aria-label="Pages of this lab"><ul>{items}</ul></nav>')
    if page != STORY:
        return shown
    return shown + "\n```{toctree}\n:hidden:\n:glob:\n\n" + "".join(f"/{each}\n" for each in others) + "```\n"


def below_title(text: str, more: str) -> str:
    """Markdown with `more` after its first line, which is its title."""
    title, _, rest = text.partition("\n")
    return f"{title}\n\n{more}\n{rest}" if _HEADING.match(text) and more else text


def pages_with_changed_list(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> list[str]:
    """All pages of a lab of which one has come or gone."""
    labs = {lab_and_page(name)[0] for name in added | removed if of_lab(name)}
    return [name for name in env.found_docs if of_lab(name) and lab_and_page(name)[0] in labs]


def _in_order(docnames: Iterable[str]) -> list[str]:
    known = list(PAGES)
    return sorted(
        docnames, key=lambda name: (known.index(p) if (p := lab_and_page(name)[1]) in known else len(known), name)
    )


def _heading(cell: Mapping[str, Any] | None) -> str:
    found = _HEADING.match(_source(cell)) if cell and cell["cell_type"] == "markdown" else None
    return found[1].strip() if found else ""


def _source(cell: Mapping[str, Any]) -> str:
    return "".join(cell["source"])


def _slug(heading: str) -> str:
    """What MyST makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def _anchors(spread: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[str, str]]:
    """What a link within a notebook says -> the page and the anchor of that heading in the site."""
    found = [(page, heading) for page, cell in spread if (heading := _heading(cell))]
    return {f"#{heading.replace(' ', '-')}": (page, _slug(heading)) for page, heading in found}


def _address(here: str, there: str, lab: str) -> str:
    """A file of a lab as a page of it names it."""
    if there == STORY:
        return f"../{lab}.ipynb"
    return f"{lab}/{there}.ipynb" if here == STORY else f"{there}.ipynb"


def _linked(cell: Mapping[str, Any], page: str, targets: Mapping[str, tuple[str, str]], lab: str) -> Mapping[str, Any]:
    """A cell with its links as they must be on `page`, a folder further down than the story."""

    def moved(match: re.Match[str]) -> str:
        to = match[1].replace(_BOOK, "../", 1) if match[1].startswith(_BOOK) else match[1]
        if to in targets:
            there, anchor = targets[to]
            return f"](#{anchor})" if there == page else f"]({_address(page, there, lab)}#{anchor})"
        return f"]({to})" if to.startswith("#") or page == STORY else f"](../{to})"

    return {**cell, "source": _LINK.sub(moved, _source(cell))} if cell["cell_type"] == "markdown" else cell


def _plain(cell: Mapping[str, Any], outputs: bool) -> dict[str, Any]:
    """A cell without when it ran, and without its outputs unless they are asked for."""
    made = {**cell, "metadata": {name: value for name, value in cell["metadata"].items() if name != "papermill"}}
    made |= {"execution_count": None} if "execution_count" in cell else {}
    return made if outputs or "outputs" not in cell else made | {"outputs": []}


def _pointer(gone: Mapping[str, Sequence[str]]) -> str:
    said = "\n\n".join(f"{PAGES[page]}: {', '.join(links)}" for page, links in gone.items() if links)
    return f":::{{div}} lab-more\n{said}\n:::\n"
