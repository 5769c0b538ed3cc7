"""Lets the reader of a lab's page choose the device and the case that it is about. Part of the site's Sphinx extension.

The page is written for the best recorded device; what it shows on the others lies in scripts that a browser loads when one is
chosen (book/_assets/devices-of-page.js). What is of one case says so (of_case.py), and that script hides the other cases.
Without JavaScript the page says which device it is of, and shows all cases.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..paths import write_whole
from . import lab_pages, table_files

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from .on_devices import DeviceChoice

SCRIPTS = "_static/on-devices"
HERE = "here"


def put(app: Sphinx, docname: str, notebook: dict[str, Any]) -> None:
    """Let the cells of a lab's page show the best recorded device, and have the others at hand; nothing of a page of no lab.

    The bar stands below the title, so that it stays in sight on all of the page.
    """
    from . import card_links, on_devices, story

    root, (lab, page) = Path(app.srcdir).parent, lab_pages.place(docname)
    listed = on_devices.choices(root, lab)
    if not listed or not story.cells_of(notebook):
        return
    app.env.dependencies[docname].add(str(root / on_devices.FOLDER / lab / "index.json"))
    app.env.dependencies[docname].add(str(root / card_links.FOLDER / lab / f"{card_links.HERE}.js"))
    first, here = on_devices.shown(root, lab, listed[0], page), story.executed(notebook)
    to_root = "../" * docname.count("/")
    for cell in story.cells_of(notebook):
        key = story.key_of(cell)
        html = f'<div class="on-device" data-cell="{key}">{table_files.at(first.get(key, ""), to_root)}</div>'
        data = {"text/html": html, "text/plain": ""}
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    if here:
        listed = [*listed, on_devices.DeviceChoice(HERE, story.HERE)]
        mine, files = table_files.of_cells(finished(here), lab, page, HERE)
        table_files.write(Path(app.outdir, table_files.FOLDER, lab, page, HERE), files)
        text = on_devices.script(lab, HERE, card_links.known(mine, card_links.ids(root, lab, HERE)))
        write_whole(Path(app.outdir, SCRIPTS, lab, page, listed[-1].script), text)
    scripts = f"{to_root}{SCRIPTS}/{lab}/{page}/"
    bar = f"```{{raw}} html\n{_bar(lab, scripts, listed)}\n```\n"
    first_cell = notebook["cells"][0]
    notebook["cells"][0] = first_cell | {"source": lab_pages.below_title("".join(first_cell["source"]), bar)}


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


def finished(cells: dict[str, str]) -> dict[str, str]:
    """Cells' HTML as the extension leaves that of a page: links of the site, tables that scroll, ids of figures that no other
    cell has."""
    from .sphinx_ext import on_site, scroll_tables, unique_svg_ids

    between = "<!-- a cell -->"
    whole = scroll_tables(unique_svg_ids(on_site(between.join(cells.values()))))
    return dict(zip(cells, whole.split(between), strict=True))


def copy(app: Sphinx, error: Exception | None) -> None:
    """The recorded devices' scripts and tables join the site."""
    from . import card_links, on_devices

    if error is None and app.builder.format == "html":
        root = Path(app.srcdir).parent
        on_devices.copy_scripts(root, Path(app.outdir, SCRIPTS))
        table_files.copy(root, Path(app.outdir))
        card_links.copy(root, Path(app.outdir), str(app.config.repository_url or ""))
