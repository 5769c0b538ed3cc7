"""Runs of the stencil in a browser: sizes for a laptop, a phone and a large GPU; the ranges of the grids."""

from pathlib import Path

from ...spec.browser_run import BrowserRun

BROWSER = BrowserRun(
    cases=("1024x1024", "66x2048", "2050x2048"),
    ranges={"r": (0.25, 4.0), "b": (0.25, 4.0), "g": (-2.0, 2.0)},
    script=Path(__file__).with_name("browser.js"),
)
