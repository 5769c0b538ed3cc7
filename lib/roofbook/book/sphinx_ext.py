"""Sphinx extension of the site, for Jupyter Book and plain Sphinx alike.

It keeps pages off the network, makes wide tables scroll and inline figures coexist, shows a run card in place of a notebook's
parameters, and links terms to the glossary (terms.py). It adds the directives `fragments`, which includes files that `roofbook
build` generated, and `in-a-browser`, which links to services that run a lab's notebook in a browser.
"""

from __future__ import annotations

import ast
import datetime
import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ..escaping import escape, raw_html
from . import card_links, device_pages, device_times, extension_code, lab_pages, slide_files, terms
from .notebook_cells import has_parameters
from .page_html import TABLES, on_site, one_legend, scroll_tables, split_files, unique_svg_ids, write_files
from .page_weight import mathml, pages

GENERATED = "_generated"
INCLUDED = "fragments"
"""Key in a page's metadata: the names of the fragments that it includes, by pattern."""


class Fragments(SphinxDirective):
    """`{fragments} PATTERN`: the files of book/_generated that match, in order of name, as raw HTML.

    If none matches, as in a book without measurements, the body of the directive is shown.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        pattern = self.arguments[0]
        paths = matching_fragments(self.env, pattern)
        self.env.metadata[self.env.docname].setdefault(INCLUDED, {})[pattern] = [path.name for path in paths]
        for path in paths:
            self.env.note_dependency(str(path))
        if not paths:
            return self.parse_content_to_nodes()
        return [nodes.raw("", path.read_text(encoding="utf-8"), format="html") for path in paths]


def matching_fragments(env: Any, pattern: str) -> list[Path]:
    """Return the fragments that match, in order of name."""
    return sorted((Path(env.srcdir) / GENERATED).glob(pattern))


def pages_with_changed_fragments(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Return the pages that would include other fragments than before. Sphinx itself watches the contents."""
    included = {name: env.metadata[name].get(INCLUDED, {}) for name in env.found_docs if name in env.metadata}
    return [
        name
        for name, patterns in included.items()
        if any(
            [path.name for path in matching_fragments(env, pattern)] != before for pattern, before in patterns.items()
        )
    ]


class InABrowser(SphinxDirective):
    """`{in-a-browser} LAB`: links that open the lab's notebook in Google Colab and by Binder.

    If `repository_url` in _config.yml names no GitHub repository, the body of the directive is shown.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        links = browser_links(self.config.repository_url, self.arguments[0])
        if not links:
            return self.parse_content_to_nodes()
        items = [nodes.list_item("", nodes.paragraph("", "", _link(name, to))) for name, to in links.items()]
        return [nodes.bullet_list("", *items)]


def browser_links(repository: str, lab: str) -> dict[str, str]:
    """Return the address that runs a lab's notebook of the branch `main`, by the link's text; empty without a GitHub
    repository.
    """
    named = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)(?:\.git)?/?", repository)
    if not named:
        return {}
    return {
        "Run in Colab": f"https://colab.research.google.com/github/{named[1]}/blob/main/experiments/colab/{lab}.ipynb",
        "Open in Binder": f"https://mybinder.org/v2/gh/{named[1]}/main?labpath=experiments%2F{lab}.ipynb",
    }


def _link(name: str, to: str) -> nodes.reference:
    return nodes.reference("", name, refuri=to, internal=False)


def run_card(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the parameter cells of an executed notebook by one card with the parameters, date and duration."""
    if not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    hidden = [i for i, cell in enumerate(notebook["cells"]) if has_parameters(cell)]
    if hidden:
        values: dict[str, Any] = {}
        for i in hidden:
            values |= _literals("".join(notebook["cells"][i]["source"]))
        first = notebook["cells"][hidden[0]]
        card = {
            "cell_type": "markdown",
            "metadata": {},
            "source": _card(values, notebook["metadata"].get("papermill", {})),
        }
        notebook["cells"][hidden[0]] = card | ({"id": first["id"]} if "id" in first else {})
        notebook["cells"] = [cell for i, cell in enumerate(notebook["cells"]) if i not in hidden[1:]]
    lab, page = lab_pages.lab_and_page(docname)
    if page == lab_pages.STORY:
        lab_pages.keep_story(notebook, lab)
    device_pages.add_places(app, docname, notebook)
    source[0] = json.dumps(notebook)


def terms_of_notebooks(app: Sphinx, docname: str, source: list[str]) -> None:
    """Turn a notebook's links to terms of the glossary into roles, so that they look and behave like all others."""
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        for cell in notebook["cells"]:
            if cell["cell_type"] == "markdown":
                cell["source"] = terms.with_roles("".join(cell["source"]))
        source[0] = json.dumps(notebook)


def list_of_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Add the list of a lab's pages below the title of each of them."""
    if not lab_pages.of_lab(docname):
        return
    page_list = lab_pages.page_list(app, docname)
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        title = notebook["cells"][0]
        title["source"] = lab_pages.below_title("".join(title["source"]), page_list)
        source[0] = json.dumps(notebook)
    else:
        source[0] = lab_pages.below_title(source[0], page_list)


def _literals(code: str) -> dict[str, Any]:
    """Return the values of the lines `name = literal` and `name: type = literal` of a cell, in order."""
    literals: dict[str, Any] = {}
    for line in ast.parse(code).body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            literals[ast.unparse(target)] = ast.literal_eval(line.value)
    return literals


def _card(values: dict[str, Any], papermill: dict[str, Any]) -> str:
    when = f" on {papermill['start_time'][:10]}" if papermill.get("start_time") else ""
    took = f" in {papermill['duration']:.0f} s" if papermill.get("duration") else ""
    pairs = ((escape(name), escape(_plain(value))) for name, value in values.items())
    rows = "\n".join(
        f"<div><dt>{name}</dt> <dd>{value}</dd></div>" for name, value in pairs
    )  # spaces separate the words for the search
    text = f"<p>Run{when}{took} with</p>\n<dl>{rows}</dl>"
    card = f'<aside class="run-parameters of-this-machine" aria-label="Parameters">{text}</aside>'
    return raw_html(card)


def _plain(value: Any) -> str:
    """Return a parameter as text for readers."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "all" if value is None else str(value)


_END_OF_BAR = '<span class="device-said"'


def has_bar(app: Sphinx, pagename: str) -> bool:
    """Return whether a page has a bar below its title: a lab's pages, and others that offer devices."""
    return lab_pages.of_lab(pagename) or bool(app.env.metadata.get(pagename, {}).get(device_pages.OFFERED))


def without_sidebar(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the contents at the right of a page with a bar, which has them."""
    if has_bar(app, pagename):
        context["theme_secondary_sidebar_items"] = []


def _with_contents(body: str, toc: str) -> str:
    """Return a page with its contents in its bar, or below the list of the lab's pages. toc: as Sphinx makes it."""
    inner = re.search(r"<ul>(.*)</ul>", toc, re.S)
    sections = re.search(r"<ul>.*</ul>", inner[1], re.S) if inner else None  # without the title
    if not sections:
        return body
    contents = f'<details class="on-this-page"><summary>On this page</summary>{sections[0]}</details>'
    if _END_OF_BAR in body:
        return body.replace(_END_OF_BAR, contents + _END_OF_BAR, 1)
    return re.sub(r'(<nav class="lab-pages".*?</nav>)', lambda nav: nav[1] + contents, body, count=1, flags=re.S)


def polish(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Finish the HTML of a page: one legend of standing notes, scroll regions and CSV files for tables, unique ids in
    figures.
    """
    body = context.get("body")
    if body and doctree is not None:
        body = body.replace(
            'role="list" class="citation-list"', 'class="citation-list"'
        )  # these lists have no list items
        if has_bar(app, pagename):
            body = _with_contents(body, context.get("toc") or "")
        to_root, folders = "../" * pagename.count("/"), pagename.split("/")
        body, files = split_files(
            scroll_tables(unique_svg_ids(on_site(body))), f"{to_root}{TABLES}/{pagename}/", "-".join(folders)
        )
        write_files(Path(app.outdir, TABLES, *folders), files)
        body = card_links.linked("".join(one_legend(body)), to_root, Path(app.srcdir).parent)
        context["body"] = body


def set_options(app: Sphinx, config: Any) -> None:
    """Set options: formulas as MathML, pages that load only assets they use, and the year of the build."""
    config.html_math_renderer = mathml.NAME
    config.template_bridge = "roofbook.book.page_weight.pages.Templates"
    config.copyright = str(config.copyright).replace("%Y", str(datetime.date.today().year))


DOWNLOADS = "data"
"""Folder of downloads, in book/_generated and in the site."""


def copy_downloads(app: Sphinx, error: Exception | None) -> None:
    """Copy downloads and scripts of fragments into the site, and remove downloads without a source."""
    if error or app.builder.format != "html":
        return
    source, target = Path(app.srcdir) / GENERATED / DOWNLOADS, Path(app.outdir) / DOWNLOADS
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target)
    for script in (Path(app.srcdir) / GENERATED).glob("*.js"):
        shutil.copy(script, Path(app.outdir) / "_static")


class Repository(SphinxDirective):
    """`{repository}`: a link to the address in `repository_url` of _config.yml; the directive's body if it is empty."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        address = repository(self.config)
        if not address:
            return self.parse_content_to_nodes()
        return [nodes.paragraph("", "", nodes.reference("", address, refuri=address))]


def repository(config: Any) -> str:
    """Return the address of the repository; '' if none is set."""
    return str(config.repository_url or "")


def add_footer(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add a footer: links to the page on data, licence and citation and to the repository, and a print button."""
    if "data" not in app.env.found_docs:
        return
    links = [f'<a href="{context["pathto"]("data")}">Data, licence, how to cite</a>']
    if address := repository(app.config):
        links.append(f'<a href="{escape(address)}">Repository</a>')
    links.append('<button type="button" class="print-page" onclick="print()">Print, or save as PDF</button>')
    context["theme_extra_footer"] = f"<p>{' · '.join(links)}</p>"


def copy_kernels(app: Sphinx, error: Exception | None) -> None:
    """Copy the texts of kernels into the site."""
    from . import kernels_page

    if error is None and app.builder.format == "html":
        kernels_page.copy_texts(Path(app.srcdir).parent, Path(app.outdir))


def copy_slides(app: Sphinx, error: Exception | None) -> None:
    """Copy the slides of lessons into the site, before the style sheet is made for all pages."""
    if error is None and app.builder.format == "html":
        slide_files.copy_slides(Path(app.srcdir) / GENERATED, Path(app.outdir))


def copy_cards(app: Sphinx, error: Exception | None) -> None:
    """Copy the cards of measurements, and the times of each device, into the site."""
    if error is None and app.builder.format == "html":
        root, site = Path(app.srcdir).parent, Path(app.outdir)
        card_links.copy_cards(root, site, repository(app.config))
        device_times.copy(root, site)


def write_lab_pages(app: Sphinx) -> None:
    """Write the reference pages of labs when plain Sphinx builds, unless the parent process does: two writers would remove
    each other's files.
    """
    if not os.environ.get(lab_pages.PREPARED):
        lab_pages.write_pages(Path(app.srcdir))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the extension to Sphinx."""
    # Jupyter Book sets this option for an extension that we do not load: accept it without a warning.
    app.add_config_value("comments_config", {}, "", dict)
    app.setup_extension("roofbook.book.terms")
    app.add_config_value("repository_url", "", "env", str)
    app.add_directive("fragments", Fragments)
    app.add_directive("in-a-browser", InABrowser)
    app.add_directive("repository", Repository)
    app.add_html_math_renderer(mathml.NAME, (mathml.inline, None), (mathml.block, None))
    app.connect("config-inited", set_options)
    app.connect("env-get-outdated", pages_with_changed_fragments)
    app.connect("env-get-outdated", pages.page_for_changed_assets)
    app.connect("builder-inited", write_lab_pages)
    app.connect("env-get-outdated", lab_pages.pages_with_changed_list)
    app.connect("env-get-outdated", device_pages.pages_with_changed_devices)
    app.connect("source-read", run_card)
    app.connect("source-read", list_of_pages, priority=600)
    app.connect("source-read", terms_of_notebooks, priority=700)
    app.connect("html-page-context", without_sidebar, priority=400)  # before the theme looks
    app.connect("html-page-context", polish, priority=900)
    app.connect("html-page-context", add_footer)
    app.connect("build-finished", copy_downloads)
    app.connect("build-finished", copy_kernels)
    app.connect("build-finished", copy_slides)
    app.connect("build-finished", device_pages.write_scripts)
    app.connect("build-finished", copy_cards)
    app.add_post_transform(device_pages.FillPlaces)
    app.connect(
        "build-finished", pages.write_style_sheet, priority=900
    )  # after the theme has written the colours of code
    app.connect("build-finished", pages.remove_unused, priority=900)
    # Not safe for parallel writing: the style sheets that pages load are collected in one process.
    version = int(extension_code.version()[:8], 16)
    return {"parallel_read_safe": True, "parallel_write_safe": False, "env_version": version}
