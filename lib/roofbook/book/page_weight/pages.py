"""What a page of the site loads, cut down to what it uses: for readers on a slow line, by Jupyter Book and plain Sphinx alike.

Themes load everything on every page: all icons there are, all rules of a framework, the index of the search. Here a page is
mended after its template has made it. Its icons are drawn, its scripts wait until it is read, and it loads only scripts that
it uses. When all pages are written, one style sheet holds the rules that they use, and each page those of its first screen.
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
WANTED_BY = {
    "copybutton.js": 'class="highlight',
    "clipboard.min.js": 'class="highlight',
    "design-tabs.js": "sd-tab-",
    "card.js": 'class="(?:of|device-bar)"',
    "figures.js": 'class="device-bar"|data-tip=',
    "bootstrap.js": r'data-bs-toggle="(?!tooltip")|id="pst-collapse-sidebar-button"',
    **{name: 'id="search-results"' for name in SEARCH},
}
"""By script a pattern of what stands on the pages that use it; other scripts are on all. Tooltips are the browser's own."""
NEVER = ("fontawesome.js",)

UNNAMED = '<summary><span class="toctree-toggle"'
"""What unfolds the pages of a lab in the side bar: the theme gives it no name."""

_LINK = re.compile(r'[ \t]*<link\b[^>]*?\bhref="([^"?#]*\.css)[^"]*"[^>]*>\n?')
_SCRIPT = re.compile(r'<script\b([^>]*?)\bsrc="([^"]*)"([^>]*)></script>\n?')
_NAMED_WITH_HASH = re.compile(r"_static/([\w./-]+)\?v=[0-9a-f]*")
_VERSION = re.compile(r"\?v=[0-9a-f]*")


class Templates(BuiltinTemplateLoader):
    """Sphinx's own templates, each page mended."""

    def init(self, builder: Any, theme: Any = None, dirs: list[str] | None = None) -> None:
        """As Sphinx asks; `sheets` are the addresses of the style sheets that pages load, below _static."""
        super().init(builder, theme, dirs)
        self.sheets: tuple[str, ...] = ()

    def render(self, template: str, context: dict[str, Any]) -> str:  # type: ignore[override]
        """The page, mended. Errors: ExtensionError where it loads other style sheets than the page before."""
        page = super().render(template, context)
        if "</head>" not in page:
            return page
        page, sheets = slim(page)
        if self.sheets not in ((), sheets):
            raise ExtensionError(
                f"{context.get('pagename')}: pages load different style sheets: {sheets}, {self.sheets}"
            )
        self.sheets = sheets
        return nearer(page, context.get("pagename", ""))

    def newest_template_mtime(self) -> float:
        """Pages are older than their template where the code that mends them is newer."""
        own = [*Path(__file__).parent.glob("*.py"), *Path(__file__).parents[1].glob("*.py")]
        return max(super().newest_template_mtime(), *(path.stat().st_mtime for path in own))


def slim(page: str) -> tuple[str, tuple[str, ...]]:
    """A page of the theme, mended, and the style sheets that it asked for: their addresses below _static, in order."""
    head, end, body = page.partition("</head>")
    sheets = tuple(each[1].partition("_static/")[2] for each in _LINK.finditer(head))
    root = re.search(r'data-content_root="([^"]*)"', head)
    own = first_screen.links(f"{root[1] if root else ''}_static/{SHEET}?v=")
    head = _LINK.sub(lambda found: own if found.start() == _first(head) else "", head)
    head = _without_repeated_names(re.sub(r"<link rel=\"preload\"[^>]*>\n?", "", head))
    head = _in_readers_colours(head)
    page = icons.drawn(head + end + body)
    page = page.replace(UNNAMED, UNNAMED.replace("<summary", '<summary aria-label="Its pages"'))
    page = _SCRIPT.sub(lambda found: _script(found, page), page)
    page = page.replace("<script>DOCUMENTATION_OPTIONS", '<script type="module">DOCUMENTATION_OPTIONS')
    if "bootstrap.js" not in page:
        page = re.sub(r' data-bs-(?:toggle|placement)="[^"]*"', "", page).replace("data-bs-title=", "title=")
    return page, sheets


def nearer(page: str, name: str) -> str:
    """The page `name` with no link that leaves its folder to come back: of labs/a/results, ../../labs/a/x.html is x.html."""
    folder = name.rpartition("/")[0]
    back = "../" * (folder.count("/") + 1)
    return page.replace(f'href="{back}{folder}/', 'href="') if folder else page


def _first(head: str) -> int:
    found = _LINK.search(head)
    return found.start() if found else -1


def _script(found: re.Match[str], page: str) -> str:
    """A script that waits until the page is read; nothing where the page does not use it."""
    before, address, after = found.groups()
    name = address.partition("?")[0].rpartition("/")[2]
    if name in NEVER or not re.search(WANTED_BY.get(name, ""), page):
        return ""
    said = f"{before} {after}"
    waits = "" if re.search(r"\b(?:defer|async|module)\b", said) else "defer "
    return found[0].replace("<script", f"<script {waits}".rstrip(), 1)


def _without_repeated_names(head: str) -> str:
    """Each `<meta name=...>` once: layout, theme and extension each state the width of the screen."""
    seen: set[str] = set()

    def once(found: re.Match[str]) -> str:
        known = found[1] in seen
        seen.add(found[1])
        return "" if known else found[0]

    return re.sub(r'<meta name="([^"]*)"[^>]*>', once, head)


def _in_readers_colours(head: str) -> str:
    """Light or dark from the first paint on, as the reader's system has it, where the theme waits for its script. Light without
    JavaScript.
    """
    head = re.sub(r'(<html\b[^>]*data-theme=)"auto"', r'\1"light"', head)
    chosen = (
        'document.documentElement.dataset.theme = document.documentElement.dataset.mode != "auto" '
        '? document.documentElement.dataset.mode : matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";'
    )
    return re.sub(r"document\.documentElement\.dataset\.theme = [^;]*;", chosen, head)


def page_for_changed_assets(app: Sphinx, env: Any, *_: set[str]) -> list[str]:
    """A page to write again where the site holds another text of an asset: Sphinx copies none unless it has written a page."""
    if app.builder.format != "html":
        return []
    static = Path(app.outdir, "_static")
    folders = [Path(app.confdir, each) for each in app.config.html_static_path]
    assets = [(path, static / path.relative_to(each)) for each in folders for path in each.rglob("*") if path.is_file()]
    same = all(copied.is_file() and copied.read_bytes() == asset.read_bytes() for asset, copied in assets)
    return [] if same else [app.config.root_doc]


def write_style_sheet(app: Sphinx, error: Exception | None) -> None:
    """Write the one style sheet when all pages are there. What pages load has the hash of its text in its address: a browser
    that knows another text of it asks again.
    """
    templates = getattr(app.builder, "templates", None)
    if error or not isinstance(templates, Templates) or not templates.sheets:
        return
    folder = Path(app.outdir)
    static = folder / "_static"
    pages = {path: path.read_text(encoding="utf-8") for path in _pages(folder)}
    sheets: dict[str, str] = {}
    due = list(templates.sheets)
    for name in due:  # which grows by what they import
        sheets[name] = (static / name).read_text(encoding="utf-8")
        due += [each for each, _ in style_sheet.imports(name, sheets[name]) if each not in due]
    late = {path: path.read_text(encoding="utf-8") for path in sorted(static.rglob("on-devices/**/*.js"))}
    known = _Known(Path(app.doctreedir, "style-sheet.json"))
    found = [known.named(path, text) for path, text in (*pages.items(), *late.items())]
    attributes, inline, names = (sorted({each for one in found for each in one[kind]}) for kind in NAMED)
    scripts = [(static / name).read_text(encoding="utf-8") for name in names]
    own = [str(each if isinstance(each, str) else each[0]) for each in app.config.html_css_files]
    made_from = json.dumps([sheets, attributes, scripts, inline, own], sort_keys=True)
    if not (known.made_from(made_from) and (static / SHEET).exists()):
        used = style_sheet.words(*attributes, *scripts, *inline)
        text = style_sheet.joined(sheets, used, "\n".join([*attributes, *scripts, *inline]), own)
        (static / SHEET).write_text(text, encoding="utf-8")
    known.keep()
    sheet = (static / SHEET).read_text(encoding="utf-8")
    version = _hash(sheet)[:8]

    @cache
    def address(name: str) -> str:
        return f"_static/{name}?v={hashlib.sha256((static / name).read_bytes()).hexdigest()[:8]}"

    for path, page in pages.items():
        named = _NAMED_WITH_HASH.sub(lambda found: address(found[1]), page)
        if (filled := first_screen.filled(named, version, sheet)) != page:
            path.write_text(filled, encoding="utf-8")


NAMED = ("attributes", "inline", "scripts")
"""What a page names of a style sheet: values of `class`, `id` and `style`, scripts in it, and the addresses of others."""


class _Known:
    """What the last build found in each page, and what it made the style sheet from: most pages are as they were."""

    def __init__(self, path: Path) -> None:
        self.path, self.now = path, dict[str, Any]()
        self.code = _hash(
            "".join(each.read_text(encoding="utf-8") for each in sorted(Path(__file__).parent.glob("*.py")))
        )
        try:
            self.before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.before = {}
        if self.before.get("code") != self.code:
            self.before = {}

    def named(self, path: Path, text: str) -> dict[str, list[str]]:
        """Of a page, or of a script with HTML in its strings."""
        key = _hash(_VERSION.sub("", first_screen.without(text)))
        found: dict[str, list[str]] | None = self.before.get(key)
        self.now[key] = found = found or (_of_page(text) if path.suffix == ".html" else _of_script(text))
        return found

    def made_from(self, text: str) -> bool:
        """Whether the style sheet was made from the same."""
        self.now["made from"] = _hash(text)
        return bool(self.before.get("made from") == self.now["made from"])

    def keep(self) -> None:
        write_whole(self.path, json.dumps({"code": self.code, **self.now}))


def _of_page(text: str) -> dict[str, list[str]]:
    loaded = [each for _, each, _ in _SCRIPT.findall(text) if not each.startswith("http") and "_static/" in each]
    return {
        "attributes": sorted(set(re.findall(r'\b(?:class|id|style)="([^"]*)"', text))),
        "inline": re.findall(r"<script>(.*?)</script>", text, re.S),
        "scripts": sorted({each.partition("?")[0].rpartition("_static/")[2] for each in loaded}),
    }


def _of_script(text: str) -> dict[str, list[str]]:
    attributes = set(re.findall(r'\b(?:class|id|style)=\\?"([^"\\]*)', text))
    return {"attributes": sorted(attributes), "inline": [], "scripts": []}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pages(folder: Path) -> list[Path]:
    """Those that the theme made: not the cards of measurements, which have a style sheet of their own."""
    own = {"_static", "measurements"}
    return sorted(path for path in folder.rglob("*.html") if not own & {*path.relative_to(folder).parts})


def remove_unused(app: Sphinx, error: Exception | None) -> None:
    """Leave out of the site what no page loads: all icons, as script and as fonts, and what scripts were made from."""
    static = Path(app.outdir) / "_static"
    if error or app.builder.format != "html":
        return
    shutil.rmtree(static / "vendor" / "fontawesome", ignore_errors=True)
    for name in NEVER:
        for path in (static / "scripts").glob(f"{name}*"):
            path.unlink()
    for path in static.rglob("*.map"):
        path.unlink()
