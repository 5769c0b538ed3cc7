"""The page of all measurements of a lab on a device, without a script: each card with its dots, facts, runs and command.

Sphinx does not build it: a thousand cards would take it minutes. book/_assets/card.js shows the same cards in a dialog.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.history import CODE, DRIVER, MACHINE
from ..devices import checkout
from ..escaping import escape
from ..measure.stats import CONFIDENCE
from .html import html_page, with_code

KINDS = {CODE: "code", DRIVER: "driver or libraries", MACHINE: "machine"}
"""Names of the kinds of change."""
COMMIT = "COMMIT/"
"""Placeholder before a commit's name; the site puts the address of the repository's commits there."""
THEME = """let mode = "auto";
try { mode = localStorage.getItem("mode") || mode; } catch { /* a browser that keeps nothing */ }
if (mode == "auto") mode = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
document.documentElement.dataset.theme = mode;"""
"""Script that sets light or dark as the reader chose on other pages, else as the system has it."""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 520, 210, 62, 10, 30
"""Size of the drawing of samples and margins of its plot, in pixels."""


def page(
    cards: Sequence[Mapping[str, Any]], machines: Sequence[Sequence[Sequence[str]]], lab: str, title: str, on: str
) -> str:
    """Return the whole page. lab: its name. title: the lab's title. device: its name in words."""
    by_case: dict[str, list[str]] = {}
    for measurement in cards:
        link = f'<a href="#{escape(measurement["id"])}">{escape(measurement["variant"])}</a>'
        by_case.setdefault(measurement["case"], []).append(link)
    index = "".join(f"<dt>{escape(case)}</dt><dd>{', '.join(links)}</dd>" for case, links in by_case.items())
    machines_html = "".join(_machine(number, facts) for number, facts in enumerate(machines, 1))
    head = f"{escape(title)}: measurements on {escape(on)}"
    links = f"""<script>{THEME}</script>
<link rel="icon" href="../../../_static/favicon.svg" type="image/svg+xml">
<link rel="stylesheet" href="../../../_static/card.css">
<script src="../../../_static/measurements.js" defer></script>"""
    body = f"""<header><a href="../../{"../" if lab == "peaks" else ""}{escape(lab)}.html">{escape(title)}</a>
<a href="../../../history.html">What changed, and why</a></header>
<main>
<h1>{head}</h1>
<p>{len(cards)} measurements, each with all of its samples. Dots are samples, run by run, the oldest first. A bar is the
median of a run, a whisker its {CONFIDENCE} interval, and a band that of a version over its runs. A version is what was measured
by equal code in an equal environment. Samples are rounded to four digits here; <a href="../../../data.html">the rows</a> have
all.</p>
<details><summary>All measurements, by case</summary><dl>{index}</dl></details>
{"".join(card(measurement, f"{title}, {on}") for measurement in cards)}
<section id="machines"><h2>Machines</h2>{machines_html}</section>
</main>"""
    return html_page(head, links, body)


def card(measurement: Mapping[str, Any], subject: str) -> str:
    """Return one measurement as a section. subject: its lab and device in words."""
    time = measurement["time"] or f"no time: {measurement['why']}"
    description = f"<p>{with_code(measurement['what'])}</p>" if measurement["what"] else ""
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in measurement["facts"])
    name = f"{escape(measurement['variant'])} on {escape(measurement['case'])}"
    versions = "".join(
        _version(number, version, measurement) for number, version in enumerate(measurement["versions"], 1)
    )
    return f"""<section class=measured id="{escape(measurement["id"])}">
<h2>{name}</h2>
<p class=card-time>{escape(time)}</p><p class=card-on>{escape(subject)}</p>{description}<p>{escape(measurement["answer"])}</p>
{drawing(measurement) if "axis" in measurement else ""}<p class=card-again>Measure it again: \
<code>{escape(measurement["command"])}</code></p>
<div class=card-runs tabindex=0 role=region aria-label="Runs of {name}">
<table><thead><tr><th scope=col>{"</th><th scope=col>".join(HEADS)}</th></tr></thead>
<tbody>{versions}</tbody></table></div>
<dl>{facts}</dl></section>
"""


HEADS = ("Run", "When (UTC)", "Commit", "Time", "Samples", "Clock, MHz", "°C", "Throttled", "Machine")


def _version(number: int, version: Mapping[str, Any], measurement: Mapping[str, Any]) -> str:
    """Return the rows of a version: a row for its changes, if there are several versions, and a row for each run."""
    heads = list[str]()
    if len(measurement["versions"]) > 1:
        because = [f"{KINDS[kind]}: {change}" for kind, change in version["changes"]]
        ratio = [f"{version['word']}: {version['ratio']}, {version['how']}"] if "ratio" in version else []
        heads = [f"Version {number}", *because, *ratio]
    line = (
        f"<tr class=change><th scope=rowgroup colspan={len(HEADS)}><div>{escape('; '.join(heads))}</div></th></tr>"
        if heads
        else ""
    )
    return line + "".join(_run(run, measurement["unit"]) for run in version["runs"])


def _run(run: Mapping[str, Any], unit: str) -> str:
    commit = str(run["commit"])
    link = f"<code>{escape(commit[:10])}</code>" if commit else ""
    if checkout.COMMIT.fullmatch(commit):  # any other text is shown without a link
        link = f'<a href="{COMMIT}{commit}">{link}</a>'
    link += f" ({escape(run['fault'])})" if run["fault"] else ""
    number = run["machine"] + 1
    changes = f"; {escape('; '.join(change for _, change in run['changes']))}" if "changes" in run else ""
    machine = f'<a href="#machine-{number}">{number}</a>{changes}' if number else ""
    left_out = f" ({run['left_out']} left out)" if "left_out" in run else ""
    cells = (
        f"<code>{escape(run['run'])}</code>", escape(run["started"]), link,
        escape(f"{run['time']} {unit}") if "time" in run else "failed", f"{len(run.get('samples', ()))}{left_out}",
        range_text(run.get("clock")), range_text(run.get("temperature")),
        escape(", ".join(run.get("throttle", ["no"]))), machine,
    )  # fmt: skip
    return f"<tr><td>{'<td>'.join(cells)}</tr>"


def range_text(numbers: Sequence[float] | None) -> str:
    """Return the least and the greatest number, once if they are equal."""
    return "–".join(f"{number:.0f}" for number in dict.fromkeys(numbers or ())) or "not known"


def _machine(number: int, facts: Sequence[Sequence[str]]) -> str:
    facts_html = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in facts)
    return f"<div class=machine id=machine-{number}><h3>Machine {number}</h3><dl>{facts_html}</dl></div>"


def drawing(measurement: Mapping[str, Any]) -> str:
    """Return the samples run by run as inline SVG in the page's own colours."""
    axis, runs = measurement["axis"], [(version, run) for version in measurement["versions"] for run in version["runs"]]
    step = (WIDTH - LEFT) / len(runs)
    low, high = (_axis_position(axis, axis[end]) for end in ("low", "high"))

    def y(seconds: float) -> str:
        return f"{TOP + (HEIGHT - TOP - BOTTOM) * (high - _axis_position(axis, seconds)) / (high - low):.1f}"

    parts = [
        f'<path class=grid d="M{LEFT} {y(tick)}H{WIDTH}"/><text x={LEFT - 6} y={float(y(tick)) + 4:.1f}>{escape(text)}</text>'
        for tick, text in axis["ticks"]
    ]
    end = 0
    for version in measurement["versions"]:
        first, end = end, end + len(version["runs"])
        if first:
            parts.append(f'<path class=new d="M{LEFT + first * step:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        if "seconds" in version:
            _, least, most = version["seconds"]
            box = f"x={LEFT + first * step + 3:.1f} y={y(most)} width={(end - first) * step - 6:.1f}"
            parts.append(f"<rect class=band {box} height={max(1.0, float(y(least)) - float(y(most))):.1f} />")
    for index, (_, run) in enumerate(runs):
        middle = LEFT + (index + 0.5) * step
        if "samples" in run:
            spacing = min(0.6 * step, 90.0) / len(run["samples"])
            start = middle - spacing * (len(run["samples"]) - 1) / 2
            dots = "".join(f"M{start + n * spacing:.1f} {y(sample)}h0" for n, sample in enumerate(run["samples"]))
            median, least, most = run["seconds"]
            half = min(0.4 * step, 55.0)
            line = f"M{middle - half:.1f} {y(median)}h{2 * half:.1f}M{middle:.1f} {y(least)}V{y(most)}"
            parts.append(f'<path class=dots d="{dots}"/><path class=middle d="{line}"/>')
        if len(runs) <= 4 or index in (0, len(runs) - 1):
            parts.append(
                f"<text class=when x={min(middle, WIDTH - 28.0):.1f} y={HEIGHT - 10}>{escape(run['started'][2:10])}</text>"
            )
    label = f"Samples in {measurement['unit']}, {len(runs)} run{'s' * (len(runs) > 1)}{', logarithmic' * axis['log']}"
    return (
        f'<figure><svg viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{escape(label)}">{"".join(parts)}</svg>'
        f"<figcaption>{escape(label)}. A bar is the median of a run, a whisker its interval, a band that of a version over its "
        "runs.</figcaption></figure>\n"
    )


def _axis_position(axis: Mapping[str, Any], seconds: float) -> float:
    return math.log(seconds) if axis["log"] else seconds
