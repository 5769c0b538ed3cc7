"""The Sphinx extension behind the site, for Jupyter Book and plain Sphinx alike.

It keeps pages off the network, makes wide tables scroll and inline figures coexist, shows a run card in place of a
notebook's parameters, and links terms to the glossary (terms.py). It gives pages the directives `fragments`, which includes
what `roofbook build` generated, and `in-a-browser`, which links to where a lab runs in one.
"""

from __future__ import annotations

import ast
import datetime
import json
import re
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ..escaping import escape, raw_html
from . import card_links, device_switch, extension_code, lab_page_files, lab_pages, table_files
from .case_markup import without_others
from .notebook_cells import has_parameters, outputs_of
from .page_html import on_site, one_legend, scroll_tables, unique_svg_ids
from .page_weight import mathml, pages

GENERATED = "_generated"
FOUND = "fragments"
"""Of a page's metadata: by pattern the fragments that it was made from."""


class Fragments(SphinxDirective):
    """`{fragments} PATTERN`: the files of book/_generated that match, in order of name, as raw HTML.

    The body of the directive is shown where none matches, as on a book that has measured nothing yet.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        pattern = self.arguments[0]
        found = matching_fragments(self.env, pattern)
        self.env.metadata[self.env.docname].setdefault(FOUND, {})[pattern] = [path.name for path in found]
        for path in found:
            self.env.note_dependency(str(path))
        if not found:
            return self.parse_content_to_nodes()
        return [nodes.raw("", path.read_text(encoding="utf-8"), format="html") for path in found]


def matching_fragments(env: Any, pattern: str) -> list[Path]:
    """The fragments that match, in order of name."""
    return sorted((Path(env.srcdir) / GENERATED).glob(pattern))


def pages_with_changed_fragments(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Pages of which a fragment has come or gone. One that is another text now is a file that Sphinx watches itself."""
    known = {name: env.metadata[name].get(FOUND, {}) for name in env.found_docs if name in env.metadata}
    return [
        name
        for name, patterns in known.items()
        if any(
            [path.name for path in matching_fragments(env, pattern)] != before for pattern, before in patterns.items()
        )
    ]


class InABrowser(SphinxDirective):
    """`{in-a-browser} LAB`: links that open the lab's notebook in Google Colab and by Binder.

    The body of the directive is shown where `repository_url` in _config.yml names no repository of GitHub.
    """

    required_arguments = 1
    has_content = True

    def run(self) -> list[nodes.Node]:
        found = browser_links(self.config.repository_url, self.arguments[0])
        if not found:
            return self.parse_content_to_nodes()
        items = [nodes.list_item("", nodes.paragraph("", "", _link(name, to))) for name, to in found.items()]
        return [nodes.bullet_list("", *items)]


def browser_links(repository: str, lab: str) -> dict[str, str]:
    """By what a link says, where a lab's notebook on the branch `main` runs; none without a repository of GitHub."""
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
    """Of an executed notebook, replace the cells of parameters by one card that says what was run, and when.

    Output that shows nothing, as a progress bar leaves it that has erased itself, goes too.
    """
    if not app.env.doc2path(docname).endswith(".ipynb"):
        return
    notebook = json.loads(source[0])
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = outputs_of(cell)
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
    device_switch.add_device_bar(app, docname, notebook)
    source[0] = json.dumps(notebook)


def list_of_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Below the title of each page of a lab, the list of them all."""
    if not lab_pages.of_lab(docname):
        return
    more = lab_pages.page_list(app, docname)
    if app.env.doc2path(docname).endswith(".ipynb"):
        notebook = json.loads(source[0])
        title = notebook["cells"][0]
        title["source"] = lab_pages.below_title("".join(title["source"]), more)
        source[0] = json.dumps(notebook)
    else:
        source[0] = lab_pages.below_title(source[0], more)


def _literals(code: str) -> dict[str, Any]:
    """The `name = literal` and `name: type = literal` lines of a cell, in order."""
    found: dict[str, Any] = {}
    for line in ast.parse(code).body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and line.value is not None:
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            found[ast.unparse(target)] = ast.literal_eval(line.value)
    return found


def _card(values: dict[str, Any], papermill: dict[str, Any]) -> str:
    when = f" on {papermill['start_time'][:10]}" if papermill.get("start_time") else ""
    took = f" in {papermill['duration']:.0f} s" if papermill.get("duration") else ""
    pairs = ((escape(name), escape(_plain(value))) for name, value in values.items())
    rows = "\n".join(f"<div><dt>{name}</dt> <dd>{value}</dd></div>" for name, value in pairs)  # as words for a search
    said = f"<p>Run{when}{took} with</p>\n<dl>{rows}</dl>"
    card = f'<aside class="run-parameters of-this-machine" aria-label="Parameters">{said}</aside>'
    return raw_html(card)


def _plain(value: Any) -> str:
    """A parameter as a reader would say it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return "all" if value is None else str(value)


def polish(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Mend the HTML of a page: one legend of standing notes, scroll regions for tables and files of their CSV, and ids of
    inline figures made unique."""
    body = context.get("body")
    if body and doctree is not None:
        body = body.replace('role="list" class="citation-list"', 'class="citation-list"')  # of no list items
        body, files = table_files.apart(
            one_legend(scroll_tables(unique_svg_ids(without_others(on_site(body))))), *pagename.split("/")
        )
        table_files.write(Path(app.outdir, table_files.FOLDER, *pagename.split("/")), files)
        to_root = "../" * pagename.count("/")
        context["body"] = card_links.linked(table_files.at(body, to_root), to_root, Path(app.srcdir).parent, pagename)


def set_options(app: Sphinx, config: Any) -> None:
    """Formulas as MathML, pages that load what they use, and the year of the build."""
    config.html_math_renderer = mathml.NAME
    config.template_bridge = "roofbook.book.page_weight.pages.Templates"
    config.copyright = str(config.copyright).replace("%Y", str(datetime.date.today().year))


DOWNLOADS = "data"
"""Of book/_generated and of the site: the folder of what readers download."""


def copy_downloads(app: Sphinx, error: Exception | None) -> None:
    """Copy what readers download, and scripts of fragments; a download that is gone from the sources goes from the site."""
    if error or app.builder.format != "html":
        return
    source, target = Path(app.srcdir) / GENERATED / DOWNLOADS, Path(app.outdir) / DOWNLOADS
    shutil.rmtree(target, ignore_errors=True)
    if source.is_dir():
        shutil.copytree(source, target)
    for script in (Path(app.srcdir) / GENERATED).glob("*.js"):
        shutil.copy(script, Path(app.outdir) / "_static")


class Repository(SphinxDirective):
    """`{repository}`: a link to the address that `repository_url` in _config.yml names; the body where it names none."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        address = repository(self.config)
        if not address:
            return self.parse_content_to_nodes()
        return [nodes.paragraph("", "", nodes.reference("", address, refuri=address))]


def repository(config: Any) -> str:
    """The address of the repository; '' where nobody has named one."""
    return str(config.repository_url or "")


def add_footer(app: Sphinx, pagename: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Below each page a link to the page on data, licence and citation, one to the repository, and a button that prints it."""
    if "data" not in app.env.found_docs:
        return
    links = [f'<a href="{context["pathto"]("data")}">Data, licence, how to cite</a>']
    if address := repository(app.config):
        links.append(f'<a href="{escape(address)}">Repository</a>')
    links.append('<button type="button" class="print-page" onclick="print()">Print, or save as PDF</button>')
    context["theme_extra_footer"] = f"<p>{' · '.join(links)}</p>"


def copy_kernels(app: Sphinx, error: Exception | None) -> None:
    """The texts of kernels join the site."""
    from . import kernels_page

    if error is None and app.builder.format == "html":
        kernels_page.copy(Path(app.srcdir).parent, Path(app.outdir))


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry point."""
    # Jupyter Book sets this for an extension that asks something of the network; we load none, so accept it in silence.
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
    app.connect("builder-inited", lab_page_files.write_before_reading)
    app.connect("env-get-outdated", lab_pages.pages_with_changed_list)
    app.connect("env-get-outdated", device_switch.pages_with_changed_choice)
    app.connect("source-read", run_card)
    app.connect("source-read", list_of_pages, priority=600)
    app.connect("html-page-context", polish, priority=900)
    app.connect("html-page-context", add_footer)
    app.connect("build-finished", copy_downloads)
    app.connect("build-finished", copy_kernels)
    app.connect("build-finished", device_switch.copy_device_files)
    app.connect("build-finished", pages.write_style_sheet, priority=900)  # the theme writes the colours of code then
    app.connect("build-finished", pages.remove_unused, priority=900)
    # Which style sheets the pages ask for is collected over all of them.
    version = int(extension_code.version()[:8], 16)
    return {"parallel_read_safe": True, "parallel_write_safe": False, "env_version": version}
