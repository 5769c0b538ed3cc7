"""Lets the reader of a lab's page choose the device and the case that it is about. Part of the site's Sphinx extension.

The page is written for the best recorded device; what it shows on the others lies in scripts that a browser loads when one is
chosen (book/_assets/devices-of-page.js). What is of one case says so (case_markup.py), and that script hides the other cases.
Without JavaScript the page says which device it is of, shows all cases, and below each step what it brought on the others.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..escaping import escape, raw_html
from . import lab_pages, table_files
from .device_choices import FOLDER, LARGE, choices, copy_scripts, on_this_machine, shown
from .noscript import with_other_devices
from .notebook_cells import cells_of, key_of
from .page_html import on_site, scroll_tables, unique_svg_ids

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from .device_choices import DeviceChoice

SCRIPTS = "_static/on-devices"
RAN_HERE = "ran-here"
"""Of a page's metadata: whether the machine that executed its notebook can be chosen."""
WIDTH = 88
"""Letters of a line of code that need no scrolling on a page."""
_SENTENCES = re.compile(r"<p><strong>([^<]+)\.</strong>")
"""A paragraph of a lab's summary that is of one case."""


def put(app: Sphinx, docname: str, notebook: dict[str, Any]) -> None:
    """Let the cells of a lab's page show the best recorded device, and have the others at hand; nothing of a page of no lab.

    The bar stands below the title, so that it stays in sight on all of the page.
    """
    root, (lab, page) = Path(app.srcdir).parent, lab_pages.place(docname)
    listed = choices(root, lab)
    if not listed or not cells_of(notebook):
        return
    told = listed if page == lab_pages.STORY else listed[:1]
    made_of = [root / FOLDER / lab / "index.json", *(root / FOLDER / lab / page / each.script for each in told)]
    app.env.dependencies[docname].update(map(str, made_of))
    to_root = "../" * docname.count("/")
    first, here = shown(root, lab, listed[0], page), on_this_machine(root, lab, page)
    if page == lab_pages.STORY:
        names = {each.name for each in listed}
        others = [each for each in listed[1:] if each.name.removesuffix(LARGE) not in names - {each.name}]
        first = with_other_devices(first, {each.label: shown(root, lab, each) for each in others})
    app.env.metadata[docname][RAN_HERE] = bool(here)
    for cell in cells_of(notebook):
        key = key_of(cell)
        html = f'<div class="on-device" data-cell="{key}">{table_files.at(first.get(key, ""), to_root)}</div>'
        data = {"text/html": html, "text/plain": ""}
        cell["source"] = compact("".join(cell["source"]))
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    scripts = f"{to_root}{SCRIPTS}/{lab}/{page}/"
    bar = raw_html(_bar(lab, scripts, [*listed, *([here] if here else [])]))
    first_cell = notebook["cells"][0]
    notebook["cells"][0] = first_cell | {"source": lab_pages.below_title("".join(first_cell["source"]), bar)}


def reread_where_a_lab_has_run(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Pages whose bar lacks the machine that executed the notebook, or has it for one that nobody has executed."""
    root = Path(app.srcdir).parent
    ran = {name: env.metadata[name][RAN_HERE] for name in env.found_docs if RAN_HERE in env.metadata.get(name, ())}
    return [name for name, before in ran.items() if bool(on_this_machine(root, *lab_pages.place(name))) != before]


def _bar(lab: str, scripts: str, listed: list[DeviceChoice]) -> str:
    without = (
        f"All of this page is of {escape(listed[0].label)}. With JavaScript you can choose another device and a case."
    )
    options = "".join(
        f'<option value="{escape(each.name)}" data-script="{escape(each.script)}">{escape(each.label)}</option>'
        for each in listed
    )
    return (
        f'<div class="device-bar" data-lab="{escape(lab)}" data-scripts="{escape(scripts)}" '
        f'data-device="{escape(listed[0].label)}" role="region" aria-label="Device and case of this page">'
        f"<noscript>{without}</noscript>"
        f'<label hidden>Device <select name="device">{options}</select></label>'
        '<label hidden>Case <select name="case"></select></label>'
        '<span class="device-said" role="status"></span></div>'
    )


def compact(code: str) -> str:
    """A cell that is one call with a list of names, on few lines: a notebook has a name a line.

    >>> print(compact('lab.steps(\\n    "fused",\\n    "soa",\\n)'))
    lab.steps("fused", "soa")
    """
    try:
        (line,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return code
    call = line.value if isinstance(line, ast.Expr) else None
    if not (isinstance(call, ast.Call) and call.args and all(isinstance(each, ast.Constant) for each in call.args)):
        return code
    called = f"{ast.unparse(call.func)}("
    names = ", ".join(json.dumps(each.value) for each in call.args if isinstance(each, ast.Constant))
    if call.keywords or len(called) + len(names) < WIDTH:
        return code if call.keywords else f"{called}{names})"
    wrapped = textwrap.fill(names, WIDTH - 4, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{called}\n{wrapped}\n)"


def finished(cells: dict[str, str]) -> dict[str, str]:
    """Cells' HTML as the extension leaves that of a page: links of the site, tables that scroll, ids of figures that no other
    cell has, and the summary's sentences with the case that they are of."""
    between = "<!-- a cell -->"
    whole = scroll_tables(unique_svg_ids(on_site(between.join(cells.values())), "d"))
    cases = set(re.findall(r'data-case="([^"]+)"', whole))
    of_case = '<p data-case="{0}"><strong>{0}.</strong>'.format
    whole = _SENTENCES.sub(lambda said: of_case(said[1]) if said[1] in cases else said[0], whole)
    return dict(zip(cells, whole.split(between), strict=True))


def copy(app: Sphinx, error: Exception | None) -> None:
    """The recorded devices' scripts and tables join the site."""
    from . import card_links

    if error is None and app.builder.format == "html":
        root = Path(app.srcdir).parent
        copy_scripts(root, Path(app.outdir, SCRIPTS))
        table_files.copy(root, Path(app.outdir))
        card_links.copy(root, Path(app.outdir), str(app.config.repository_url or ""))
