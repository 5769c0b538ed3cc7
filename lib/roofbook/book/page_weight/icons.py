"""The icons of the theme's pages as inline SVG: those that a page shows, in place of a font and a script that hold all of them.

For pages.py. The outlines are Font Awesome's, read at build time from the script that the theme's package ships.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

from ...escaping import escape

PACKS = {"fas": "fas", "fa-solid": "fas", "far": "far", "fa-regular": "far", "fab": "fab", "fa-brands": "fab"}
_ICON = re.compile(r'<(i|span)\s+class="((?:[^"]*\s)?(?:fa[srb]?\s|fa-)[^"]*)"([^>]*)>\s*</\1>')


def drawn(page: str) -> str:
    """The page with an SVG in place of each empty `<i class="fa-solid fa-NAME">` or `<span>` of that kind.

    Errors: LookupError for an icon that is not shipped.
    """
    return _ICON.sub(lambda found: _svg(found[2].split(), found[3]), page)


def _svg(classes: list[str], attributes: str) -> str:
    pack = next((PACKS[each] for each in classes if each in PACKS), "fas")
    names = [each for each in classes if each not in PACKS]
    found = [_outlines()[pack, each[3:]] for each in names if (pack, each[3:]) in _outlines()]
    if not found:
        raise LookupError(f"no outline of the icon {' '.join(classes)!r} in {_script()}")
    width, height, path = found[0]
    kept = re.sub(r'\s+(?:title="[^"]*"|aria-hidden="[^"]*")', "", " " + " ".join(attributes.split())).rstrip()
    return (
        f'<svg class="icon {escape(" ".join(names))}" viewBox="0 0 {width} {height}" aria-hidden="true"{kept}>'
        f'<path d="{path}"/></svg>'
    )


def _script() -> Path:
    spec = importlib.util.find_spec("pydata_sphinx_theme")
    assert spec and spec.origin, "sphinx-book-theme stands on it"
    return Path(spec.origin).parent / "theme" / "pydata_sphinx_theme" / "static" / "scripts" / "fontawesome.js"


@cache
def _outlines() -> dict[tuple[str, str], tuple[str, str, str]]:
    """By pack and name: width, height and path. In the script the icons of a pack come before the call that defines it."""
    text = _script().read_text(encoding="utf-8")
    icon = r'[,{]"?([\w-]+)"?:\[(\d+),(\d+),\[[^]]*\],"[0-9a-f]+","([^"]+)"\]'
    found: dict[tuple[str, str], tuple[str, str, str]] = {}
    waiting: list[re.Match[str]] = []
    for each in re.finditer(rf'{icon}|\w\("(fa[srb])",\w\)', text):
        if pack := each[5]:
            found |= {(pack, one[1]): (one[2], one[3], one[4]) for one in waiting}
            waiting.clear()
        else:
            waiting.append(each)
    return found
