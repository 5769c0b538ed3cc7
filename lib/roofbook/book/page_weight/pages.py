"""Reduction of each page of the site to the files that it uses, for readers on slow lines; for Jupyter Book and plain
Sphinx.

Themes load everything on every page: all icons, all rules of a framework, the index of the search. Here a page is changed after
its template has made it: icons become inline SVG, scripts wait until the page is read, and unused scripts are dropped. After
all pages are written, one style sheet holds the rules that they use, and each page those of its first screen.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.jinja2glue import BuiltinTemplateLoader

from ...paths import write_whole
from . import first_screen, icons, style_sheet

SHEET = "site.css"

SEARCH = ("searchtools.js", "language_data.js", "searchindex.js")
USED_BY = {
    "copybutton.js": 'class="highlight',
    "clipboard.min.js": 'class="highlight',
    "design-tabs.js": "sd-tab-",
    "card.js": 'class="(?:of|device-bar)"',
    "figures.js": 'class="(?:device-bar|found|picked)"|data-tip=|class="roofbook animation"',
    "story.js": 'class="opening',
    "animations.js": 'class="roofbook animation"',
    "bootstrap.js": r'data-bs-toggle="(?!tooltip")|id="pst-collapse-sidebar-button"',
    **{name: 'id="search-results"' for name in SEARCH},
}
"""Pattern in pages that use a script, by script; other scripts are on all pages. Tooltips are the browser's own."""
DROPPED = ("fontawesome.js",)

UNNAMED = '<summary><span class="toctree-toggle"'
"""Element that unfolds a lab's pages in the side bar: the theme gives it no label."""

_LINK = re.compile(r'[ \t]*<link\b[^>]*?\bhref="([^"?#]*\.css)[^"]*"[^>]*>\n?')
_SCRIPT = re.compile(r'<script\b([^>]*?)\bsrc="([^"]*)"([^>]*)></script>\n?')
_LATER = re.compile(r' data-[\w-]+="([^"]*_static/[\w.-]+\.js\?v=[0-9a-f]*)"')
"""Address of a script that another one loads on demand."""
_NAMED_WITH_HASH = re.compile(r"_static/([\w./-]+)\?v=[0-9a-f]*")
_VERSION = re.compile(r"\?v=[0-9a-f]*")


class Templates(BuiltinTemplateLoader):
    """Sphinx's own template loader, with changes to each page."""

    def init(self, builder: Any, theme: Any = None, dirs: list[str] | None = None) -> None:
        """Initialise as Sphinx demands. `sheets`: addresses of the style sheets that pages load, below _static."""
        super().init(builder, theme, dirs)
        self.sheets: tuple[str, ...] = ()

    def render(self, template: str, context: dict[str, Any]) -> str:  # type: ignore[override]
        """Return the reduced page. Raise ExtensionError if it loads other style sheets than the page before."""
        page = super().render(template, context)
        if "</head>" not in page:
            return page
        page, sheets = reduce_page(page)
        if self.sheets not in ((), sheets):
            raise ExtensionError(
                f"{context.get('pagename')}: pages load different style sheets: {sheets}, {self.sheets}"
            )
        self.sheets = sheets
        return shorten_links(page, context.get("pagename", ""))

    def newest_template_mtime(self) -> float:
        """Return the time of the newest template or of this package's code, so that a change of code makes pages outdated."""
        code_files = [*Path(__file__).parent.glob("*.py"), *Path(__file__).parents[1].glob("*.py")]
        return max(super().newest_template_mtime(), *(path.stat().st_mtime for path in code_files))


def reduce_page(page: str) -> tuple[str, tuple[str, ...]]:
    """Return a page of the theme, reduced, and the style sheets that it loaded: their addresses below _static, in order."""
    head, end, body = page.partition("</head>")
    sheets = tuple(match[1].partition("_static/")[2] for match in _LINK.finditer(head))
    root = re.search(r'data-content_root="([^"]*)"', head)
    sheet_links = first_screen.sheet_links(f"{root[1] if root else ''}_static/{SHEET}?v=")
    head = _LINK.sub(lambda match: sheet_links if match.start() == _first(head) else "", head)
    head = _without_repeated_names(re.sub(r"<link rel=\"preload\"[^>]*>\n?", "", head))
    head = _in_readers_colours(head)
    page = icons.inline_icons(head + end + body)
    page = page.replace(UNNAMED, UNNAMED.replace("<summary", '<summary aria-label="Its pages"'))
    page = _SCRIPT.sub(lambda match: _script(match, page), page)
    page = page.replace("<script>DOCUMENTATION_OPTIONS", '<script type="module">DOCUMENTATION_OPTIONS')
    if "bootstrap.js" not in page:
        page = re.sub(r' data-bs-(?:toggle|placement)="[^"]*"', "", page).replace("data-bs-title=", "title=")
    return page, sheets


def shorten_links(page: str, name: str) -> str:
    """Return the page `name` with shorter links into its own folder: in labs/a/results, ../../labs/a/x.html becomes x.html."""
    folder = name.rpartition("/")[0]
    back = "../" * (folder.count("/") + 1)
    return page.replace(f'href="{back}{folder}/', 'href="') if folder else page


def _first(head: str) -> int:
    match = _LINK.search(head)
    return match.start() if match else -1


def _script(match: re.Match[str], page: str) -> str:
    """Return a script that waits until the page is read, or '' if the page does not use it."""
    before, address, after = match.groups()
    name = address.partition("?")[0].rpartition("/")[2]
    if name in DROPPED or not re.search(USED_BY.get(name, ""), page):
        return ""
    attributes = f"{before} {after}"
    waits = "" if re.search(r"\b(?:defer|async|module)\b", attributes) else "defer "
    return match[0].replace("<script", f"<script {waits}".rstrip(), 1)


def _without_repeated_names(head: str) -> str:
    """Return the head with each `<meta name=...>` once: layout, theme and extension each state the width of the screen."""
    seen: set[str] = set()

    def once(match: re.Match[str]) -> str:
        is_repeated = match[1] in seen
        seen.add(match[1])
        return "" if is_repeated else match[0]

    return re.sub(r'<meta name="([^"]*)"[^>]*>', once, head)


def _in_readers_colours(head: str) -> str:
    """Choose light or dark as the reader's system does, before the first paint; the theme waits for its script.

    Without JavaScript the page is light.
    """
    head = re.sub(r'(<html\b[^>]*data-theme=)"auto"', r'\1"light"', head)
    script = (
        'document.documentElement.dataset.theme = document.documentElement.dataset.mode != "auto" '
        '? document.documentElement.dataset.mode : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
    )
    return re.sub(r"document\.documentElement\.dataset\.theme = [^;]*;", script, head)


def page_for_changed_assets(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """Return a page to write again if an asset has changed: Sphinx copies assets only if it writes a page."""
    if app.builder.format != "html":
        return []
    static = Path(app.outdir, "_static")
    folders = [Path(app.confdir, name) for name in app.config.html_static_path]
    assets = [
        (path, static / path.relative_to(folder)) for folder in folders for path in folder.rglob("*") if path.is_file()
    ]
    unchanged = all(copied.is_file() and copied.read_bytes() == asset.read_bytes() for asset, copied in assets)
    return [] if unchanged else [app.config.root_doc]


def write_style_sheet(app: Sphinx, error: Exception | None) -> None:
    """Write the one style sheet after all pages are written.

    The addresses of files that pages load end in a hash of their text, so that browsers load changed files again.
    """
    templates = getattr(app.builder, "templates", None)
    if error or not isinstance(templates, Templates) or not templates.sheets:
        return
    folder = Path(app.outdir)
    static = folder / "_static"
    pages = {path: path.read_text(encoding="utf-8") for path in _pages(folder)}
    sheets: dict[str, str] = {}
    due = list(templates.sheets)
    for name in due:  # grows by imported sheets
        sheets[name] = (static / name).read_text(encoding="utf-8")
        due += [
            import_address for import_address, _ in style_sheet.imports(name, sheets[name]) if import_address not in due
        ]
    late = {path: path.read_text(encoding="utf-8") for path in sorted(static.rglob("on-devices/**/*.js"))}
    cache_of_names = _NameCache(Path(app.doctreedir, "style-sheet.json"))
    names_of_files = [cache_of_names.named(path, text) for path, text in (*pages.items(), *late.items())]
    attributes, inline, names = (sorted({name for names in names_of_files for name in names[kind]}) for kind in NAMED)
    scripts = [(static / name).read_text(encoding="utf-8") for name in names]
    own_sheets = [str(css_file if isinstance(css_file, str) else css_file[0]) for css_file in app.config.html_css_files]
    made_from = json.dumps([sheets, attributes, scripts, inline, own_sheets], sort_keys=True)
    if not (cache_of_names.made_from(made_from) and (static / SHEET).exists()):
        used = style_sheet.words(*attributes, *scripts, *inline)
        text = style_sheet.combine(sheets, used, "\n".join([*attributes, *scripts, *inline]), own_sheets)
        (static / SHEET).write_text(text, encoding="utf-8")
    cache_of_names.keep()
    sheet = (static / SHEET).read_text(encoding="utf-8")
    version = _hash(sheet)[:8]

    @cache
    def address(name: str) -> str:
        return f"_static/{name}?v={hashlib.sha256((static / name).read_bytes()).hexdigest()[:8]}"

    for path, page in pages.items():
        named = _NAMED_WITH_HASH.sub(lambda match: address(match[1]), page)
        if (filled := first_screen.with_rules(named, version, sheet)) != page:
            path.write_text(filled, encoding="utf-8")


NAMED = ("attributes", "inline", "scripts")
"""Kinds of names that a page uses: values of `class`, `id` and `style`; scripts in it; addresses of other scripts."""


class _NameCache:
    """Names that each page used at the last build, and the inputs of the style sheet: most pages do not change."""

    def __init__(self, path: Path) -> None:
        self.path, self.now = path, dict[str, Any]()
        self.code = _hash(
            "".join(
                path_of_code.read_text(encoding="utf-8") for path_of_code in sorted(Path(__file__).parent.glob("*.py"))
            )
        )
        try:
            self.before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.before = {}
        if self.before.get("code") != self.code:
            self.before = {}

    def named(self, path: Path, text: str) -> dict[str, list[str]]:
        """Return the names used by a page, or by a script with HTML in its strings."""
        key = _hash(_VERSION.sub("", first_screen.without_rules(text)))
        names: dict[str, list[str]] | None = self.before.get(key)
        self.now[key] = names = names or (_of_page(text) if path.suffix == ".html" else _of_script(text))
        return names

    def made_from(self, text: str) -> bool:
        """Return whether the style sheet was made from the same inputs."""
        self.now["made from"] = _hash(text)
        return bool(self.before.get("made from") == self.now["made from"])

    def keep(self) -> None:
        write_whole(self.path, json.dumps({"code": self.code, **self.now}))


def _of_page(text: str) -> dict[str, list[str]]:
    loaded = [
        address for _, address, _ in _SCRIPT.findall(text) if not address.startswith("http") and "_static/" in address
    ]
    loaded += _LATER.findall(text)
    return {
        "attributes": sorted(set(re.findall(r'\b(?:class|id|style)="([^"]*)"', text))),
        "inline": re.findall(r"<script>(.*?)</script>", text, re.S),
        "scripts": sorted({address.partition("?")[0].rpartition("_static/")[2] for address in loaded}),
    }


def _of_script(text: str) -> dict[str, list[str]]:
    attributes = set(re.findall(r'\b(?:class|id|style)=\\?"([^"\\]*)', text))
    return {"attributes": sorted(attributes), "inline": [], "scripts": []}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pages(folder: Path) -> list[Path]:
    """Return the pages that the theme made. The cards of measurements have a style sheet of their own."""
    excluded = {"_static", "measurements"}
    return sorted(path for path in folder.rglob("*.html") if not excluded & {*path.relative_to(folder).parts})


def remove_unused(app: Sphinx, error: Exception | None) -> None:
    """Remove files from the site that no page loads: all icons, as script and as fonts, and sources of scripts."""
    static = Path(app.outdir) / "_static"
    if error or app.builder.format != "html":
        return
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)
    for name in DROPPED:
        for path in (static / "scripts").glob(f"{name}*"):
            path.unlink()
    for path in static.rglob("*.map"):
        path.unlink()
