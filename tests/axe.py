"""What axe finds in a page of a browser, one element of each look."""

from __future__ import annotations

from typing import Any

ONE_OF_EACH_LOOK = """() => {
    const known = new Map(), looks = new Map(), seen = new Set();
    const look = element => {
        if (!looks.has(element)) {
            const { color, backgroundColor, opacity, fontSize, fontWeight } = getComputedStyle(element);
            const named = element.getAttributeNames().filter(name => !name.startsWith("data-")).sort();
            const own = [element === document.body ? "" : look(element.parentElement), element.localName,
                named.map(name => element.getAttribute(name) ? name : name + " is empty"), element.getAttribute("class"),
                element.getAttribute("role"), color, backgroundColor, opacity, fontSize, fontWeight].join(";");
            if (!known.has(own)) known.set(own, known.size);
            looks.set(element, known.get(own));
        }
        return looks.get(element);
    };
    for (const element of document.body.querySelectorAll("*")) {
        const text = [...element.childNodes].some(each => each.nodeType === Node.TEXT_NODE && each.data.trim());
        const kind = `${look(element)}, ${text}`;
        if (!seen.has(kind)) element.dataset.look = text ? "text" : "other";
        seen.add(kind);
    }
    const plain = each => !each.matches("[data-look]") && !each.querySelector("[data-look]");
    for (const row of document.querySelectorAll("tbody tr"))
        if (plain(row)) { row.replaceChildren(); row.style.display = "none"; } // those below it keep their stripes
    for (const each of document.querySelectorAll("pre span, svg *:not(title, desc, defs, defs *)"))
        if (plain(each)) each.remove();
}"""
"""Leaves of the rows of tables, the words of sources and the marks of figures one of each look, and marks it: axe takes a
millisecond an element, and a lab's page has thousands that differ in their numbers alone. A look is the element's name,
class, role and colours, which attributes it has and which of them are empty, whether it has a text, and all of that of what
it lies in."""


def violations(tab: Any, options: dict[str, Any], **more: Any) -> list[str]:
    """What axe finds in the page of `tab` that is serious or critical."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab, options={"preload": False, "resultTypes": ["violations"], **options}, **more)
    return [
        f"{each['id']}: {'; '.join(str(node['target']) for node in each['nodes'][:3])}"
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


def unreadable(tab: Any) -> list[str]:
    """Texts that stand out too little from what is behind them, one of each look."""
    return violations(tab, {"runOnly": ["color-contrast"]}, context={"include": [["[data-look=text]"]]})
