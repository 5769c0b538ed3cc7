"""Figures fit any page: valid XML, no id twice, steady bytes, legible on a phone, on light and on dark grounds."""

import re
import resource
import xml.etree.ElementTree as ElementTree
from functools import cache
from pathlib import Path

import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Peaks
from roofbook.errors import UsageError
from roofbook.labs.lenet.timeline import timeline_chart
from roofbook.report import figure as svg

from .inspection import bandwidths
from .rows import ORDER, ZEROS, lab_rows, series_rows, shapes, sweep_rows, traced_rows


@cache
def figures() -> dict[str, report.Figure]:
    rows = lab_rows()
    grid, reasons = report.sweep_grid(CaseData(sweep_rows(), [], "256x256"), "wg")
    many, note = report.sweep_grid(CaseData(shapes(columns=9, rows=9), [], "256x256"), "size")
    return {
        "bandwidth": bandwidths(),
        "heat of 81": report.heat_map(many, reasons=note),
        "ladder": report.ladder_chart(CaseData(rows, ORDER, "256x256")),
        "roofline": report.roofline_chart(CaseData(rows, ORDER, "256x256", peaks=PEAKS, working_set=4.7e6)),
        "roofs": report.roofline_chart(
            CaseData(
                rows.assign(dtype=["float32", "tfloat32", "float16", "int8", "float16", "bfloat16"]),
                ORDER,
                "256x256",
                peaks=ROOFS,
                working_set=4.7e6,
                counted_bytes={"port": 9e6},
            )
        ),
        "heat": report.heat_map(grid, reasons=reasons),
        "line": report.line_sweep(sweep_rows(), "wg"),
        "series": report.series(series_rows(), ZEROS),
        "timeline": timeline_chart(CaseData(traced_rows(), ["serial", "streams"], "256x256"), ["serial", "streams"]),
    }


PEAKS = Peaks([(2**20, 9e12), (2**23, 8.7e12), (2**30, 4.2e12)], {"float32": 6e13})
ROOFS = Peaks(PEAKS.bandwidth, {"float32": 6e13, "tfloat32": 4e14, "float16": 8e14, "bfloat16": 8e14, "int8": 1.5e15})


def test_figures_are_xml_with_unique_ids_and_no_hard_ink() -> None:
    by_name = figures()
    page = ElementTree.fromstring(f"<body>{''.join(figure.html for figure in by_name.values())}</body>")
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert ids and len(ids) == len(set(ids))
    for name, figure in by_name.items():
        assert not re.search(r"#(0{3}|0{6}|f{3}|f{6}|010203)\b|\b(black|white)\b", figure.svg, re.IGNORECASE), name
        assert "currentColor" in figure.svg and "<style" not in figure.svg and "<text" in figure.svg
        refers = re.findall(r'(?:href="#|url\(#)([^")]+)', figure.svg)
        assert {name for name in refers if not name.startswith("step-")} <= set(ids)
        root = ElementTree.fromstring(figure.svg)
        assert root.get("role") == "img" and root.findtext("title") == figure.title
        assert root.find("title") is not None and root.get("width") == "100%" and root.get("viewBox")


def test_a_description_says_what_is_drawn_and_not_what_the_caption_says() -> None:
    """The label has axes, lines and words of the figure; of bars it has each name with its value."""
    by_name = figures()
    labels = {name: str(ElementTree.fromstring(figure.svg).get("aria-label")) for name, figure in by_name.items()}
    for name, figure in by_name.items():
        assert figure.title not in labels[name] and re.match(r"Across: |Heat map; |in it: ", labels[name]), name
        assert len(labels[name]) <= svg.LONGEST_DESCRIPTION
    assert "fastest: " in labels["heat"]
    bars = labels["ladder"]
    assert re.search(r"bars, as many times as fast as sequential: sequential base, [\d.]+\sms; port [\d.]+×, ", bars), (
        bars
    )


@pytest.mark.thorough
def test_figures_are_the_same_bytes_each_time() -> None:
    first, second = figures.__wrapped__(), figures.__wrapped__()
    assert all(first[name].svg == second[name].svg for name in first)


def test_letters_stay_legible_at_360_pixels() -> None:
    for name, figure in figures().items():
        width = float(ElementTree.fromstring(figure.svg).get("viewBox", "").split()[2])
        sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", figure.svg)]
        assert sizes and min(sizes) * 360 / width >= 6.5, name


def test_colours_show_on_light_and_dark_grounds() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in svg.COLOURS.values():
        light, dark = 1.05 / (luminance(colour) + 0.05), (luminance(colour) + 0.05) / (luminance("#14181e") + 0.05)
        assert min(light, dark) >= 3, colour


def test_each_figure_has_its_numbers_as_csv() -> None:
    for name, figure in figures().items():
        lines = figure.csv.splitlines()
        assert len(lines) == len(figure.records) + 1 > 1, name
        assert figure.html.count('<a class="csv" download="') == 1 + bool(figure.more), name


def test_figures_save(tmp_path: Path) -> None:
    figure = figures()["ladder"]
    assert "#step-" in figure.svg and "#step-" not in figure.save(tmp_path / "a.svg").read_text(encoding="utf-8")
    assert figure.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(figure.save(tmp_path / "a.svg")).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    with pytest.raises(UsageError, match="png"):
        figure.save(tmp_path / "a.gif")


@pytest.mark.parametrize("name", ["a.svg", "a.png"])
@pytest.mark.thorough
def test_a_disk_that_is_full_leaves_the_picture_that_was_there(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("older")
    figure = figures()["line"]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            figure.save(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["older"]


def test_a_dollar_in_a_name_is_a_dollar() -> None:
    """A compiler's message, a variant of one's own: none is a formula."""
    rows = lab_rows().replace({"variant": {"port": "$1 {x_$"}})
    drawn = report.ladder_chart(CaseData(rows, ["serial", "$1 {x_$"], "256x256")).svg
    assert "$1 {x_$" in drawn
    assert not [name for name, figure in figures().items() if "math" in figure.svg]


def test_a_slim_drawing_keeps_what_shows() -> None:
    drawing = (
        '<g>\n<path d="M 0 1 \nL 2 3 \nz\n" style="fill: none"/>\n</g>\n<g id="a">\n<g>\n'
        '<path d="M 12.345678 -0.001 \nL 2 3 \n" style="fill: none; stroke: currentColor"/>\n</g>\n</g>\n'
        '<text style="font-size: 10px; font-family: \'A B\', sans-serif; fill: currentColor" x="1.239" '
        'transform="rotate(-0 1.2 3.4)">1.23456 and 1.23456</text>\n<g/><g clip-path="url(#b)"></g>'
    )
    assert svg.slim(drawing).splitlines() == [
        '<g id="a">',
        '<path d="M12.35 -0L2 3" style="fill: none; stroke: currentColor"/>',
        "</g>",
        '<text style="font-size: 10px" x="1.24">1.23456 and 1.23456</text>',
    ]
