"""Runs of the convolution layer in a browser: sizes for a laptop, a phone and a large GPU; the ranges of the operands."""

from pathlib import Path

from ...spec.browser_run import BrowserRun

BROWSER = BrowserRun(
    cases=("32ch-112x112-k5", "16ch-32x56-k5", "64ch-112x112-k5"),
    ranges={"x": (-2.0, 2.0), "weight": (-2.0, 2.0), "bias": (-2.0, 2.0)},
    script=Path(__file__).with_name("browser.js"),
)
