"""Accessibility violations that axe reports on a page, one element of each look, in the light and the dark theme."""

from __future__ import annotations

from typing import Any

MARK = """([scheme, known]) => {
    const before = new Set(known), looks = new Map(), seen = new Set(), fresh = [];
    const hash = text => {
        let one = 0xdeadbeef, other = 0x41c6ce57; // two of 32 bits: 53 bits of them are a number of JavaScript
        for (let at = 0; at < text.length; at++) {
            const code = text.charCodeAt(at);
            one = Math.imul(one ^ code, 2654435761);
            other = Math.imul(other ^ code, 1597334677);
        }
        return 4294967296 * (2097151 & (other ^ one >>> 16)) + (one >>> 0);
    };
    const look = element => {
        if (!looks.has(element)) {
            const { color, backgroundColor, opacity, fontSize, fontWeight } = getComputedStyle(element);
            const named = element.getAttributeNames().filter(name => !name.startsWith("data-")).sort();
            looks.set(element, hash([element === document.body ? "" : look(element.parentElement), element.localName,
                named.map(name => element.getAttribute(name) ? name : name + " is empty"), element.getAttribute("class"),
                element.getAttribute("role"), color, backgroundColor, opacity, fontSize, fontWeight].join(";")));
        }
        return looks.get(element);
    };
    for (const element of document.body.querySelectorAll("*")) {
        const text = [...element.childNodes].some(each => each.nodeType === Node.TEXT_NODE && each.data.trim());
        const kind = hash(`${scheme}, ${look(element)}, ${text}`);
        if (!seen.has(kind)) {
            element.dataset.look = "";
            if (text && !before.has(kind)) {
                element.setAttribute(`data-${scheme}`, "");
                fresh.push(kind);
            }
        }
        seen.add(kind);
    }
    return fresh;
}"""
"""JavaScript that marks the first element of each look, and returns the looks with a text that are not yet `known`. A look is
the element's name, class, role and colours, which attributes it has and which of them are empty, whether it has a text, and
the look of its parent."""

ONE_OF_EACH_LOOK = """() => {
    const plain = each => !each.matches("[data-look]") && !each.querySelector("[data-look]");
    for (const row of document.querySelectorAll("tbody tr"))
        if (plain(row)) { row.replaceChildren(); row.style.display = "none"; } // those below it keep their stripes
    for (const each of document.querySelectorAll("pre span, svg *:not(title, desc, defs, defs *)"))
        if (plain(each)) each.remove();
}"""
"""JavaScript that removes table rows, words of sources and marks of figures but for one of each look: axe takes a millisecond
an element, and a lab's page has thousands that differ only in their numbers."""

PAINT = """scheme => {
    if (!document.getElementById("still")) {
        const still = document.head.appendChild(document.createElement("style"));
        still.id = "still"; // no colour fades in
        still.textContent = "*, *::before, *::after { transition: none !important; animation: none !important }";
    }
    document.documentElement.dataset.theme = scheme;
}"""
SCHEMES = ("light", "dark")


def violations(tab: Any, options: dict[str, Any], context: Any = None) -> list[str]:
    """Return the serious and critical violations that axe reports on the page of `tab`, one line for each broken rule."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not tab.evaluate("'axe' in window"):
        tab.evaluate(AXE_SCRIPT)
    options = {"preload": False, "resultTypes": ["violations"], **options}
    broken_rules = tab.evaluate("async ([context, options]) => (await axe.run(context ?? document, options)).violations",
                         [context, options])  # fmt: skip
    return [
        f"{rule['id']}: {'; '.join(str(node['target']) for node in rule['nodes'][:3])}"
        for rule in broken_rules
        if rule["impact"] in ("serious", "critical")
    ]


class Eyes:
    """Checks pages of one style one after another, and the contrast of each look of a text once in each colour scheme."""

    def __init__(self) -> None:
        self.known: list[float] = []

    def reduced(self, tab: Any) -> list[str]:
        """Return texts with too little contrast to their background, in the light and the dark theme, as `scheme: text`.

        The page keeps one element of each look, in the light theme.
        """
        fresh = {}
        for scheme in reversed(SCHEMES):
            self._paint(tab, scheme)
            fresh[scheme] = tab.evaluate(MARK, [scheme, self.known])
            self.known += fresh[scheme]
        tab.evaluate(ONE_OF_EACH_LOOK)
        wrong = []
        for scheme in SCHEMES:
            self._paint(tab, scheme)
            if fresh[scheme]:
                include = {"include": [[f"[data-{scheme}]"]]}
                unreadable = violations(tab, {"runOnly": ["color-contrast"]}, include)
                wrong += [f"{scheme}: {text}" for text in unreadable]
        self._paint(tab, SCHEMES[0])
        return wrong

    def violations(self, tab: Any) -> list[str]:
        """Return all violations that axe reports on a page, for one element of each look and in both themes."""
        return self.reduced(tab) + violations(tab, {"rules": {"color-contrast": {"enabled": False}}})

    def _paint(self, tab: Any, scheme: str) -> None:
        """Switch the page to a colour scheme, as a reader does who changes the theme."""
        tab.emulate_media(color_scheme=scheme)
        tab.evaluate(PAINT, scheme)
