"""What a reader without JavaScript, who cannot choose a device, sees of the others: below each step a line a device."""

import re
from collections.abc import Mapping

from ..escaping import escape

_STEP = re.compile(
    r'(<div class="step" id="step-([^"]+)">(?:(?!<div class="step").)*?)(<ul class="effect">.*?</ul>)', re.S
)
_LINE = re.compile(r"<li[^>]*>(.*?)</li>", re.S)
_NUMBER = re.compile(r'<span data-of="[^"]*">([^<]*)</span>')
"""A number with a card, which is that of the page's own device."""


def with_other_devices(cells: Mapping[str, str], others: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Cells of a page with what each step brought on other devices, for who has no JavaScript; others: by a device's name."""
    brought = {device: _brought(shown) for device, shown in others.items()}

    def more(step: re.Match[str]) -> str:
        lines = [
            f"<li>{escape(device)}: {found[step[2]]}</li>" for device, found in brought.items() if step[2] in found
        ]
        told = f'<noscript><ul class="effect other-devices">{"".join(lines)}</ul></noscript>' if lines else ""
        return step[0] + told

    return {key: _STEP.sub(more, html) for key, html in cells.items()}


def _brought(cells: Mapping[str, str]) -> dict[str, str]:
    """By step its line of the largest case."""
    return {
        step[2]: _NUMBER.sub(r"\1", lines[-1])
        for html in cells.values()
        for step in _STEP.finditer(html)
        if (lines := _LINE.findall(step[3]))
    }
