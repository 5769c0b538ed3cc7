"""Icons of the theme's pages as inline SVG, in place of a font and a script that hold all icons.

For pages.py. The outlines are Font Awesome's, read at build time from the script that the theme's package ships.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

from ...escaping import escape

PACKS = {"fas": "fas", "fa-solid": "fas", "far": "far", "fa-regular": "far", "fab": "fab", "fa-brands": "fab"}
_ICON = re.compile(r'<(i|span)\s+class="((?:[^"]*\s)?(?:fa[srb]?\s|fa-)[^"]*)"([^>]*)>\s*</\1>')


def inline_icons(page: str) -> str:
    """Return the page with an SVG in place of each empty `<i class="fa-solid fa-NAME">` or `<span>` of that kind.

    Raise LookupError for an icon that is not shipped.
    """
    return _ICON.sub(lambda match: _svg(match[2].split(), match[3]), page)


def _svg(classes: list[str], attributes: str) -> str:
    pack = next((PACKS[name] for name in classes if name in PACKS), "fas")
    names = [name for name in classes if name not in PACKS]
    outlines = [_outlines()[pack, name[3:]] for name in names if (pack, name[3:]) in _outlines()]
    if not outlines:
        raise LookupError(f"no outline of the icon {' '.join(classes)!r} in {_script()}")
    width, height, path = outlines[0]
    kept_attributes = re.sub(
        r'\s+(?:title="[^"]*"|aria-hidden="[^"]*")', "", " " + " ".join(attributes.split())
    ).rstrip()
    return (
        f'<svg class="icon {escape(" ".join(names))}" viewBox="0 0 {width} {height}" aria-hidden="true"{kept_attributes}>'
        f'<path d="{path}"/></svg>'
    )


def _script() -> Path:
    spec = importlib.util.find_spec("pydata_sphinx_theme")
    assert spec and spec.origin, "sphinx-book-theme stands on it"
    return Path(spec.origin).parent / "theme" / "pydata_sphinx_theme" / "static" / "scripts" / "fontawesome.js"


@cache
def _outlines() -> dict[tuple[str, str], tuple[str, str, str]]:
    """Return (pack, name) -> (width, height, path). In the script the icons of a pack precede the call that defines it."""
    text = _script().read_text(encoding="utf-8")
    icon = r'[,{]"?([\w-]+)"?:\[(\d+),(\d+),\[[^]]*\],"[0-9a-f]+","([^"]+)"\]'
    outlines: dict[tuple[str, str], tuple[str, str, str]] = {}
    waiting: list[re.Match[str]] = []
    for match in re.finditer(rf'{icon}|\w\("(fa[srb])",\w\)', text):
        if pack := match[5]:
            outlines |= {(pack, icon_match[1]): (icon_match[2], icon_match[3], icon_match[4]) for icon_match in waiting}
            waiting.clear()
        else:
            waiting.append(match)
    return outlines
