"""Pages of a lab's notebook on the site, for each device that readers can choose. Part of the site's Sphinx extension.

Sphinx reads such a page with an empty place for each cell's output. `finish` turns the outputs on any device, this machine or a
recorded one, into the HTML of the page: it links terms and numbers, moves standing notes to a legend, and takes out the cases
that come later. `FillPlaces` puts the HTML of the first device into the page, so that it reads without JavaScript and the
search finds it. `write_scripts` writes a script for each device, which book/_assets/devices-of-page.js loads on demand.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from ..analysis.store_devices import RULE
from ..escaping import escape, raw_html
from ..paths import cache_key, write_whole
from ..report.figure import STEP_LINK
from ..report.html import html_source
from . import card_links, device_times, extension_code, lab_pages, page_html, run_buttons, terms
from .case_markup import case_options, mark_sentences, split_cases
from .device_choices import HERE, LARGE, SCRIPTS, DeviceChoice, cells_file, cells_script, choices, raw_cells
from .lab_pages import STORY, lab_and_page
from .notebook_cells import cells_of, compact, key_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LEGEND, CASES = "legend", "cases"
"""Places of a page besides its cells: the legend, and the options of the cases."""
OFFERED = "devices"
"""Key in a page's metadata: the names of the devices that it offers."""
_BAR = '<div class="device-bar"></div>'
_PLACE = '<div class="on-device" data-cell="{}">{}</div>'
_PLACE_KEY = re.compile(_PLACE.format('([^"]*)', ""))
_SEPARATOR = f"<!-- {secrets.token_hex(16)} -->"
"""Text between two cells, which no cell can hold."""
_RECORDS = "device-pages"
"""Folder among Sphinx's doctrees with a file for each page: its name, and the terms that are linked before each cell."""


def add_places(app: Sphinx, docname: str, notebook: dict[str, Any]) -> None:
    """Replace the outputs in a lab's notebook by empty places, and add a bar below the title.

    A notebook that has run nowhere stays as it is.
    """
    root, (lab, page) = Path(app.srcdir).parent, lab_and_page(docname)
    devices = choices(root, lab)
    app.env.metadata[docname][OFFERED] = [device.name for device in devices]
    if not devices or not cells_of(notebook):
        return
    devices_of_page = [devices[0], *(without_script(devices) if page == STORY else [])]
    app.env.dependencies[docname].update(str(cells_file(root, lab, device)) for device in devices_of_page)
    app.env.dependencies[docname].add(str(root / run_buttons.RUNS / lab / run_buttons.INDEX))
    code = "\n\n".join(compact("".join(cell["source"])) for cell in cells_of(notebook))
    for cell in cells_of(notebook):
        cell["metadata"] = {**cell["metadata"], "tags": [*cell["metadata"].get("tags", []), "remove-input"]}
        data = {"text/html": _PLACE.format(key_of(cell), ""), "text/plain": ""}
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    title = notebook["cells"][0]
    notebook["cells"][0] = title | {"source": lab_pages.below_title("".join(title["source"]), raw_html(_BAR))}
    end = {"cell_type": "markdown", "metadata": {}, "source": _code_of_page(code)} | (
        {"id": "code"} if "id" in title else {}
    )
    notebook["cells"].append(end)


def _code_of_page(code: str) -> str:
    """Return Markdown of a fold with the code of a page's notebook cells."""
    return raw_html(
        '<details class="notebook-code"><summary>The code of this page, as the notebook runs it</summary>'
        f"{html_source(code, 'python')}</details>"
    )


def pages_with_changed_devices(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Return the pages that must offer other devices than when Sphinx read them."""
    root = Path(app.srcdir).parent
    offered = {name: env.metadata[name][OFFERED] for name in env.found_docs if OFFERED in env.metadata.get(name, ())}
    return [
        name
        for name, devices in offered.items()
        if devices != [choice.name for choice in choices(root, lab_and_page(name)[0])]
    ]


class Finished(NamedTuple):
    """Outputs of a page's cells on a device as a browser gets them."""

    places: dict[str, str]
    """HTML by place: the key of a cell, LEGEND or CASES."""
    scripts: dict[str, dict[str, str]]
    """HTML by place of the cases that come later, by the name of their script."""
    tables: dict[str, str]
    """CSV files by name."""


def finish(
    outputs: Mapping[str, str],
    choice: DeviceChoice,
    root: Path,
    docname: str,
    link_terms: Callable[[str, str], str] = lambda key, html: html,
) -> Finished:
    """Return the outputs of a page's cells on a device, which are HTML by the cell's key, as the site shows them.

    link_terms: links the terms in the HTML of the cell with a key.
    """
    (lab, page), to_root = lab_and_page(docname), "../" * docname.count("/")
    html = page_html.on_site(_SEPARATOR.join(outputs.values()))
    if page != STORY:
        html = html.replace(f'href="{STEP_LINK}', f'href="../{lab}.html{STEP_LINK}')
    html = _with_targets(html, lab, page)
    html = mark_sentences(page_html.scroll_tables(page_html.unique_svg_ids(html, "d")))
    address = f"{to_root}{page_html.TABLES}/{lab}/{page}/{choice.stem}/"
    html, tables = page_html.split_files(html, address, f"{lab}-{choice.stem}")
    html, legend = page_html.one_legend(html)
    html = card_links.linked(html, to_root, root, f"{lab}/{choice.stem}")
    cells, html_by_case = split_cases(
        {key: link_terms(key, cell) for key, cell in zip(outputs, html.split(_SEPARATOR), strict=True)}
    )
    script_by_case = {case: choice.script_of(case) for case in html_by_case}
    options = case_options("".join(cells.values()), script_by_case)
    scripts = {script_by_case[case]: places for case, places in html_by_case.items()}
    return Finished({**cells, LEGEND: legend, CASES: options}, scripts, tables)


_TO_STEP, _STEP_ID = re.compile(r' href="#step-([^"]+)"'), re.compile(r' id="step-([^"]+)"')
_TO_KERNEL = re.compile(r' href="[\w-]+/kernels\.html#')


def _with_targets(html: str, lab: str, page: str) -> str:
    """Return a page's outputs in which links to steps lead somewhere: to the kernels' page for steps that this page lacks."""
    kernels, ids = f"{f'{lab}/' * (page == STORY)}kernels.html", set(_STEP_ID.findall(html))
    html = _TO_KERNEL.sub(f' href="{kernels}#', html)
    return _TO_STEP.sub(lambda link: link[0] if link[1] in ids else f' href="{kernels}#{link[1]}"', html)


def _outputs(root: Path, lab: str, choice: DeviceChoice, keys: Iterable[str]) -> dict[str, str]:
    outputs = raw_cells(root, lab, choice)
    return {key: outputs.get(key, "") for key in keys}


def _term_linker(app: Sphinx, docname: str, terms_before: Mapping[str, list[str]]) -> Callable[[str, str], str]:
    """Return the function `link_terms` for a page. terms_before: by cell, terms that its section links before it."""
    link_html = terms.html_linker(app, docname)
    return lambda key, html: link_html(html, set(terms_before[key]))


class FillPlaces(SphinxPostTransform):
    """Fills the places of a lab's page with the outputs on its first device, and the bar with all devices."""

    formats = ("html",)
    default_priority = terms.LinkTerms.default_priority + 1

    def run(self, **kwargs: Any) -> None:
        docname = self.env.docname
        root, (lab, page) = Path(self.app.srcdir).parent, lab_and_page(docname)
        raw_nodes = list(self.document.findall(nodes.raw))
        keys = {node: match[1] for node in raw_nodes if (match := _PLACE_KEY.search(node.astext()))}
        record, devices = Path(self.app.doctreedir, _RECORDS, f"{lab}.{page}.json"), choices(root, lab) if keys else []
        if not devices:
            return
        terms_before = {key: node.get(terms.BEFORE, []) for node, key in keys.items()}
        outputs = _outputs(root, lab, devices[0], terms_before)
        if page == STORY:
            outputs = with_other_devices(
                outputs, {device.label: raw_cells(root, lab, device) for device in without_script(devices)}
            )
        link_terms = _term_linker(self.app, docname, terms_before)
        places = finish(outputs, devices[0], root, docname, link_terms).places
        to_root = "../" * docname.count("/")
        scripts = f"{to_root}{SCRIPTS}/{lab}/{page}/"
        for node in raw_nodes:
            if node in keys:
                _fill(node, _PLACE.format(keys[node], places[keys[node]]))
            elif _BAR in node.astext():
                buttons = run_buttons.buttons_of(run_buttons.run_index(root, lab), lab, to_root)
                bar_html = bar(lab, scripts, devices, places[CASES], own_runs=bool(buttons))
                _fill(node, bar_html + (buttons if page == STORY else ""))
        self.document.append(nodes.raw("", _PLACE.format(LEGEND, places[LEGEND]), format="html"))
        write_whole(record, json.dumps([docname, terms_before]))


def _fill(node: nodes.Element, html: str) -> None:
    node[:] = [nodes.Text(html)]
    node.rawsource = html


def bar(lab: str, scripts: str, devices: list[DeviceChoice], cases: str, *, own_runs: bool = False) -> str:
    """Return the bar in which a reader chooses a device and a case.

    scripts: address of the folder with the page's scripts. cases: options of the cases on the first device. own_runs: whether
    steps of the lab run in a browser, whose runs are then one more device to compare with.
    """
    first = devices[0]
    label = "this machine" if first == HERE else escape(first.label)
    choice = "another device and a case" if len(devices) > 1 else "a case"
    noscript = f"All numbers of this page are of {label}. With JavaScript you can choose {choice}."
    options = "".join(
        f'<option value="{escape(device.name)}" data-script="{escape(device.script)}">{escape(device.label)}</option>'
        for device in devices
    )
    other_devices = f'<option value="">no other device</option>{options}'
    against = (
        f'<label hidden>Against <select name="against" {device_times.BANDS}>{other_devices}</select></label>'
        '<small class="against-said" role="status"></small>'
    ) * (own_runs or len(devices) > 1)
    static = f"{escape(scripts.partition('_static/')[0])}_static"
    script = f' data-against="{static}/against.js?v="' * bool(against)
    script += f' data-own="{static}/own-runs.js?v=" data-run-here="{static}/run-here.js?v="' * own_runs
    return (
        f'<div class="device-bar" data-lab="{escape(lab)}" data-scripts="{escape(scripts)}"{script} '
        f'data-chosen="{escape(first.name)}" data-device="{escape(first.label)}" role="region" '
        f'aria-label="Device and case of this page"><noscript>{noscript}</noscript>'
        f'<label hidden>Device <select name="device">{options}</select></label>'
        f'<label hidden>Case <select name="case">{cases}</select></label>{against}'
        f'<small class="device-rule">{escape(RULE)}.</small>'
        '<span class="device-said" role="status"></span></div>'
    )


def without_script(devices: list[DeviceChoice]) -> list[DeviceChoice]:
    """Return the devices whose results a story lists for readers who cannot choose one: each recorded one, at one scale."""
    names = {device.name for device in devices}
    return [
        device
        for device in devices[1:]
        if device != HERE and device.name.removesuffix(LARGE) not in names - {device.name}
    ]


_STEP = re.compile(
    r'(<div class="step" id="step-([^"]+)">(?:(?!<div class="step").)*?)(<ul class="effect">.*?</ul>)', re.S
)
_LINE = re.compile(r"<li[^>]*>(.*?)</li>", re.S)
_BARS = re.compile(r'<div class="step-bars .*?</div>', re.S)
_NUMBER = re.compile(r'<span data-of="[^"]*">([^<]*)</span>')
"""A number with a card, which belongs to the page's own device."""


def with_other_devices(cells: Mapping[str, str], cells_by_device: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the cells of a page with each step's effect on other devices, for browsers without JavaScript."""
    effects = {device: _effects(device_cells) for device, device_cells in cells_by_device.items()}

    def add_devices(step: re.Match[str]) -> str:
        lines = [
            f"<li>{escape(device)}: {line_by_step[step[2]]}</li>"
            for device, line_by_step in effects.items()
            if step[2] in line_by_step
        ]
        noscript = f'<noscript><ul class="effect other-devices">{"".join(lines)}</ul></noscript>' if lines else ""
        return step[0] + noscript

    return {key: _STEP.sub(add_devices, html) for key, html in cells.items()}


def _effects(cells: Mapping[str, str]) -> dict[str, str]:
    """Return the line of the largest case by step."""
    return {
        step[2]: _NUMBER.sub(r"\1", _BARS.sub("", lines[-1]))
        for html in cells.values()
        for step in _STEP.finditer(html)
        if (lines := _LINE.findall(step[3]))
    }


def write_scripts(app: Sphinx, error: Exception | None) -> None:
    """Write the scripts and tables of all lab pages on all devices, where they change, and remove those of other devices.

    The first line of a script is a hash of everything that it is made from.
    """
    if error or app.builder.format != "html":
        return
    root, site = Path(app.srcdir).parent, Path(app.outdir)
    shared = (extension_code.version(), getattr(app.env, terms.ENV_ATTRIBUTE))
    for record in Path(app.doctreedir, _RECORDS).glob("*.json"):
        text = record.read_text(encoding="utf-8")
        docname, terms_before = json.loads(text)
        (lab, page), stamps = lab_and_page(docname), {}
        devices = choices(root, lab) if docname in app.env.found_docs else []
        for choice in devices:
            sources = (cells_file(root, lab, choice), root / card_links.FOLDER / lab / choice.script)
            written = [str(path.stat().st_mtime_ns) if path.exists() else "" for path in sources]
            stamps[choice] = f"// {cache_key(choice.name, *written, text, *shared)}\n"
        scripts, tables = site / SCRIPTS / lab / page, site / page_html.TABLES / lab / page
        for path in scripts.glob("*.js"):
            with path.open(encoding="utf-8") as script:
                is_current = script.readline() in stamps.values()
            if not is_current:
                path.unlink()
        for folder in tables.glob("*/"):
            if folder.name not in {choice.stem for choice in devices}:
                shutil.rmtree(folder)
        link_terms = _term_linker(app, docname, terms_before)
        for choice, stamp in stamps.items():
            if not (scripts / choice.script).exists():
                finished = finish(_outputs(root, lab, choice, terms_before), choice, root, docname, link_terms)
                page_html.write_files(tables / choice.stem, finished.tables)
                for name, places in (*finished.scripts.items(), (choice.script, finished.places)):
                    write_whole(scripts / name, stamp + cells_script(name, places))
