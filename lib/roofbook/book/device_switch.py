"""Choice of device and case on a lab's page. Part of the site's Sphinx extension.

The page is written for the best recorded device. The outputs of other devices are in scripts that a browser loads when one is
chosen (book/_assets/devices-of-page.js). That script also hides the output of other cases, which names its case
(case_markup.py). Without JavaScript the page names its device, shows all cases, and lists the other devices' results below each
step.
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
from .device_choices import FOLDER, LARGE, choices, copy_scripts, local_choice, page_cells
from .noscript import with_other_devices
from .notebook_cells import cells_of, key_of
from .page_html import on_site, scroll_tables, unique_svg_ids

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from .device_choices import DeviceChoice

SCRIPTS = "_static/on-devices"
RAN_HERE = "ran-here"
"""Key in a page's metadata: whether readers can choose the machine that executed its notebook."""
WIDTH = 88
"""Characters in a line of code that need no scrolling on a page."""
_SENTENCES = re.compile(r"<p><strong>([^<]+)\.</strong>")
"""Paragraph of a lab's summary about one case."""


def add_device_bar(app: Sphinx, docname: str, notebook: dict[str, Any]) -> None:
    """Fill the cells of a lab's page with the best recorded device's output, and add the bar that offers the others.

    Other pages stay as they are. The bar stands below the title, so that it stays in sight on the whole page.
    """
    root, (lab, page) = Path(app.srcdir).parent, lab_pages.lab_and_page(docname)
    devices = choices(root, lab)
    if not devices or not cells_of(notebook):
        return
    devices_of_page = devices if page == lab_pages.STORY else devices[:1]
    sources = [
        root / FOLDER / lab / "index.json",
        *(root / FOLDER / lab / page / device.script for device in devices_of_page),
    ]
    app.env.dependencies[docname].update(map(str, sources))
    to_root = "../" * docname.count("/")
    cell_html, local = page_cells(root, lab, devices[0], page), local_choice(root, lab, page)
    if page == lab_pages.STORY:
        names = {device.name for device in devices}
        other_devices = [
            device for device in devices[1:] if device.name.removesuffix(LARGE) not in names - {device.name}
        ]
        cell_html = with_other_devices(
            cell_html, {device.label: page_cells(root, lab, device) for device in other_devices}
        )
    app.env.metadata[docname][RAN_HERE] = bool(local)
    for cell in cells_of(notebook):
        key = key_of(cell)
        html = (
            f'<div class="on-device" data-cell="{key}">{table_files.with_root(cell_html.get(key, ""), to_root)}</div>'
        )
        data = {"text/html": html, "text/plain": ""}
        cell["source"] = compact("".join(cell["source"]))
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    scripts = f"{to_root}{SCRIPTS}/{lab}/{page}/"
    bar = raw_html(_bar(lab, scripts, [*devices, *([local] if local else [])]))
    first_cell = notebook["cells"][0]
    notebook["cells"][0] = first_cell | {"source": lab_pages.below_title("".join(first_cell["source"]), bar)}


def pages_with_changed_choice(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Return pages whose bar must gain or lose the machine that executed the notebook."""
    root = Path(app.srcdir).parent
    could_choose = {
        name: env.metadata[name][RAN_HERE] for name in env.found_docs if RAN_HERE in env.metadata.get(name, ())
    }
    return [
        name
        for name, before in could_choose.items()
        if bool(local_choice(root, *lab_pages.lab_and_page(name))) != before
    ]


def _bar(lab: str, scripts: str, devices: list[DeviceChoice]) -> str:
    numbers = f"All numbers of this page are of {escape(devices[0].label)}."
    noscript = f"{numbers} With JavaScript you can choose another device and a case."
    options = "".join(
        f'<option value="{escape(device.name)}" data-script="{escape(device.script)}">{escape(device.label)}</option>'
        for device in devices
    )
    return (
        f'<div class="device-bar" data-lab="{escape(lab)}" data-scripts="{escape(scripts)}" '
        f'data-device="{escape(devices[0].label)}" role="region" aria-label="Device and case of this page">'
        f"<noscript>{noscript}</noscript>"
        f'<label hidden>Device <select name="device">{options}</select></label>'
        '<label hidden>Case <select name="case"></select></label>'
        '<span class="device-said" role="status"></span></div>'
    )


def compact(code: str) -> str:
    r"""Return the code of a cell that is one call with a list of names, on few lines: notebooks have one name per line.

    >>> print(compact('lab.steps(\\n    "fused",\\n    "soa",\\n)'))
    lab.steps("fused", "soa")
    """
    try:
        (line,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return code
    call = line.value if isinstance(line, ast.Expr) else None
    if not (
        isinstance(call, ast.Call) and call.args and all(isinstance(argument, ast.Constant) for argument in call.args)
    ):
        return code
    call_start = f"{ast.unparse(call.func)}("
    names = ", ".join(json.dumps(argument.value) for argument in call.args if isinstance(argument, ast.Constant))
    if call.keywords or len(call_start) + len(names) < WIDTH:
        return code if call.keywords else f"{call_start}{names})"
    wrapped = textwrap.fill(names, WIDTH - 4, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{call_start}\n{wrapped}\n)"


def finish_cells(cells: dict[str, str]) -> dict[str, str]:
    """Return cells' HTML as the extension would leave it on a page.

    Links are those of the site, tables scroll, ids of figures are unique over all cells, and sentences of the summary name
    their case.
    """
    separator = "<!-- a cell -->"
    html = scroll_tables(unique_svg_ids(on_site(separator.join(cells.values())), "d"))
    cases = set(re.findall(r'data-case="([^"]+)"', html))
    paragraph = '<p data-case="{0}"><strong>{0}.</strong>'.format
    html = _SENTENCES.sub(lambda match: paragraph(match[1]) if match[1] in cases else match[0], html)
    return dict(zip(cells, html.split(separator), strict=True))


def copy_device_files(app: Sphinx, error: Exception | None) -> None:
    """Copy the recorded devices' scripts, tables and cards into the site."""
    from . import card_links

    if error is None and app.builder.format == "html":
        root = Path(app.srcdir).parent
        copy_scripts(root, Path(app.outdir, SCRIPTS))
        table_files.copy_files(root, Path(app.outdir))
        card_links.copy_cards(root, Path(app.outdir), str(app.config.repository_url or ""))
