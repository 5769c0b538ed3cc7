"""Output for readers without JavaScript, who cannot choose a device: one line for each other device below each step."""

import re
from collections.abc import Mapping

from ..escaping import escape

_STEP = re.compile(
    r'(<div class="step" id="step-([^"]+)">(?:(?!<div class="step").)*?)(<ul class="effect">.*?</ul>)', re.S
)
_LINE = re.compile(r"<li[^>]*>(.*?)</li>", re.S)
_NUMBER = re.compile(r'<span data-of="[^"]*">([^<]*)</span>')
"""A number with a card, which belongs to the page's own device."""


def with_other_devices(cells: Mapping[str, str], cells_by_device: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the cells of a page with each step's effect on other devices. cells_by_device: cells by device name."""
    effects = {device: _effects(device_cells) for device, device_cells in cells_by_device.items()}

    def add_devices(step: re.Match[str]) -> str:
        lines = [
            f"<li>{escape(device)}: {lines_by_step[step[2]]}</li>"
            for device, lines_by_step in effects.items()
            if step[2] in lines_by_step
        ]
        noscript = f'<noscript><ul class="effect other-devices">{"".join(lines)}</ul></noscript>' if lines else ""
        return step[0] + noscript

    return {key: _STEP.sub(add_devices, html) for key, html in cells.items()}


def _effects(cells: Mapping[str, str]) -> dict[str, str]:
    """Return the line of the largest case by step."""
    return {
        step[2]: _NUMBER.sub(r"\1", lines[-1])
        for html in cells.values()
        for step in _STEP.finditer(html)
        if (lines := _LINE.findall(step[3]))
    }
