"""Looks of marks and lines: colours for effects alone, markers and dashes for names."""

import numpy as np
from matplotlib.colors import to_hex

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.report import figure as figure_module
from roofbook.report import variant_style
from roofbook.report.bars import THICK
from roofbook.report.effect_style import EFFECT_COLOURS, effect_of, shown_effect
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


def test_28_lines_are_told_apart_without_colour() -> None:
    styles = variant_style.styles_in_order([str(at) for at in range(28)])
    assert len({(style.marker, style.hollow, style.dashes) for style in styles.values()}) == 28


def test_a_bar_has_the_colour_of_its_effect_over_its_parent() -> None:
    data = CaseData(lab_rows(), ORDER, "256x256")
    for chart in (data, data.with_order(["sequential", "fused", "peer"])):
        bars = [bar for bar in axes(report.ladder_chart(chart)).patches if bar.get_height() == THICK]
        names = [name for name in chart.order if name in chart.readings and chart.readings[name].ok]
        effects = {name: effect_of(chart.readings[name], chart.readings) for name in names}
        assert [to_hex(bar.get_facecolor()) for bar in bars] == [EFFECT_COLOURS[effects[name]] for name in names]
        assert effects["peer"] == "peer" and effects["sequential"] == "start"
    (dots,) = axes(report.descent(data)).collections
    assert [to_hex(colour) for colour in dots.get_facecolor()] == [
        EFFECT_COLOURS[effects_of] for effects_of in ("start", "faster", "faster")
    ]


def test_an_undecided_step_has_the_colour_of_no_effect_and_a_kernel_of_another_language_that_of_a_peer() -> None:
    others = [row("c", 1e-6, parent="a", role="dsl"), row("d", 1e-6, parent="a", role="base")]
    rows = frame(row("a", 1e-5), row("b", 1e-5, parent="a"), *others)
    readings = CaseData(rows, ["a", "b", "c", "d"], "256x256").readings
    assert [effect_of(readings[name], readings) for name in "abcd"] == ["start", "same", "peer", "start"]
    assert shown_effect("undecided") == "same" and shown_effect("slower") == "slower"


def test_the_lines_of_a_series_are_of_ink_and_those_of_peers_of_theirs() -> None:
    over = Series("n", "Which?", "n", ((1.0, "one"), (2.0, "two")), ("fused", "peer"))
    peer = {"role": "peer"}
    rows = frame(
        *(
            row(name, 1e-4, case=case, **more)
            for name, more in (("fused", {}), ("peer", peer))
            for case in ("one", "two")
        )
    )
    figure = report.series(rows, over)
    drawn = [container[0] for container in axes(figure).containers]
    assert [line.get_color() for line in drawn] == [figure_module.INK, EFFECT_COLOURS["peer"]]
    assert len({line.get_marker() for line in drawn}) == 2 and "Purple: peers." in figure.notes
    assert [record["n"] for record in figure.records] == [1.0, 2.0] * 2
