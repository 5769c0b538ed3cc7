"""One look a variant: the same in all figures of its lab, told apart also by who sees no red or no green."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.report import figure, variant_style
from roofbook.spec.lab import Series

from .inspection import axes
from .rows import ORDER, frame, lab_rows, row

SEEN = {
    "all colours": np.eye(3),
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
"""Machado, Oliveira and Fernandes (2009), severity 1, of linear RGB."""
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def lab(colour: str, seen: str) -> np.ndarray:
    """CIE L*a*b* of a colour as it is seen."""
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(np.array(SEEN[seen]) @ linear, 0, 1) / (0.95047, 1.0, 1.08883))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("seen", SEEN)
def test_colours_are_told_apart(seen: str) -> None:
    def apart(first: str, second: str) -> float:
        return float(np.linalg.norm(lab(first, seen) - lab(second, seen)))

    assert min(apart(*pair) for pair in combinations(variant_style.COLOURS, 2)) >= 20
    assert (
        min(
            apart(colour, reserved)
            for colour in variant_style.COLOURS
            for reserved in (variant_style.FIRST, figure.COLOURS["failed"])
        )
        >= 12
    )


def test_forty_variants_are_told_apart_and_the_first_is_grey() -> None:
    styles = variant_style.styles_in_order([str(at) for at in range(43)])
    assert (
        len({(style.colour, style.marker) for style in styles.values()}) == 43
        and styles["0"].colour == variant_style.FIRST
    )


def test_a_variant_has_its_colour_in_every_figure_however_few_are_drawn() -> None:
    data = CaseData(lab_rows(), ORDER, "256x256", lab_order=ORDER)
    styles = variant_style.styles_of(data)
    assert variant_style.styles_of(data.with_order(["fused", "peer", "new"])) == styles | {
        "new": variant_style.style_at(len(ORDER) - 1)
    }
    for chart in (data, data.with_order(["sequential", "fused", "peer"])):
        bars = [bar for bar in axes(report.ladder_chart(chart)).patches if bar.get_height() == 0.36]
        names = [name for name in chart.order if name in chart.readings and chart.readings[name].ok]
        assert [to_hex(bar.get_facecolor()) for bar in bars] == [styles[name].colour for name in names]
        assert [bar.get_hatch() for bar in bars] == [None] * (len(names) - 1) + ["////"], "a library's is hatched"
    (dots,) = axes(report.descent(data)).collections
    assert [to_hex(colour) for colour in dots.get_facecolor()] == [
        styles[name].colour for name in ("sequential", "port", "fused")
    ]


def test_a_series_has_the_colours_of_its_lab() -> None:
    over = Series("n", "Which?", "n", ((1.0, "one"), (2.0, "two")), ("fused", "peer"))
    rows = frame(*(row(name, 1e-4, case=case) for name in ("fused", "peer") for case in ("one", "two")))
    drawn = [container[0] for container in axes(report.series(rows, over, lab_order=ORDER)).containers]
    styles = variant_style.styles_in_order(ORDER)
    assert [(line.get_color(), line.get_marker()) for line in drawn] == [
        (styles[name].colour, styles[name].marker) for name in ("fused", "peer")
    ]
