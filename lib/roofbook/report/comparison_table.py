"""Devices side by side: a table a case, a summary a pair of places, and the form in which a reader picks what to compare.

All is readable without a script. The form is drawn by book/_assets/devices.js from data that stands in the page.
"""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from ..analysis import format as show
from ..analysis.comparison import Comparison, DevicePair, PairSummary, Time, summaries
from ..analysis.readings import TOO_FEW, Speedup
from ..analysis.store_devices import StoreDevice
from ..escaping import escape, script_json
from ..measure import stats
from ..measure.stats import CONFIDENCE
from .cell_format import INTERVAL_WORDS
from .html import Cell, Html, Row, Standing, Table

COLUMNS = ("variant", "device", "backend", "seconds", "low", "high", "note")
NOTES = (
    f"Times are medians with the {CONFIDENCE} interval of the median.",
    f"Ratios: how many times as fast, with the {CONFIDENCE} interval, across runs or devices; {INTERVAL_WORDS}. With"
    f" {stats.ENOUGH_RUNS} runs or more of each it holds between runs, with fewer in these runs, and says so.",
)
USUAL = ("across runs", "across devices")
"""How a ratio is taken that the note says of all."""
STANDING = [Standing(each) for each in NOTES]


def comparison(case: Comparison) -> Table:
    """One line a variant: the time of each place, the shortest published one, and the ratio of each pair of places."""
    import pandas as pd

    unit, size = _unit(case)
    columns = [Cell("Variant"), *(Cell(str(place), "num") for place in case.devices)]
    columns += [Cell("Shortest published", "num published")] if case.published else []
    columns += [Cell(str(pair), "num") for pair in case.ratios]
    lines, records = [], []
    for name, times in case.times.items():
        cells = [Cell(name)]
        cells += [
            _time(times[place], size) if place in times else Cell(case.lacks[name][place], "absent wrap")
            for place in case.devices
        ]
        cells += [_published(case.published.get(name, {}), size)] if case.published else []
        cells += [_ratio(ratios.get(name), times.get(pair.compared)) for pair, ratios in case.ratios.items()]
        lines.append(Row(cells))
        records += [_record(name, place, case) for place in case.devices]
    caption = f"{case.lab.title}, {case.case}: time per {case.lab.unit} in {unit}"
    units = dict.fromkeys(("seconds", "low", "high"), f"s per {case.lab.unit}")
    return Table(caption, columns, lines, pd.DataFrame(records, columns=list(COLUMNS)), STANDING, "comparison", units)


def overview(made: Sequence[Comparison]) -> list[Table]:
    """A table a pair of places, a line a lab: the geometric mean of the ratios, their range, and how many are which."""
    return [_overview(pair, lines) for pair, lines in summaries(made).items()]


def _overview(pair: DevicePair, lines: Sequence[PairSummary]) -> Table:
    import pandas as pd

    columns = [
        Cell("Lab"),
        Cell("Measurements", "num"),
        Cell("Geometric mean", "num"),
        Cell("Least", "num"),
        Cell("Greatest", "num"),
    ]
    columns += [Cell(word.capitalize(), "num") for word in lines[0].verdicts]
    rows = []
    for line in lines:
        numbers = [show.number(each) for each in (line.mean, line.least, line.greatest)]
        counts = [show.number(count, places=0) for count in line.verdicts.values()]
        texts = [show.number(line.measurements, places=0), *numbers, *counts]
        rows.append(Row([Cell(line.lab.title), *(Cell(text, "num") for text in texts)]))
    frame = pd.DataFrame(
        {
            "lab": line.lab.name,
            "cells": line.measurements,
            "mean": line.mean,
            "least": line.least,
            "greatest": line.greatest,
        }
        | dict(line.verdicts)
        for line in lines
    )
    return Table(f"{pair}: how many times as fast", columns, rows, frame, STANDING[1:])


def cases(made: Sequence[Comparison]) -> Html:
    """The table of every case, each to open."""
    parts = []
    for case in made:
        summary = f"{case.case}, {case.scale} size: {len(case.times)} variants"
        parts.append(f"<details><summary>{escape(summary)}</summary>\n{comparison(case).html}</details>")
    return Html("\n".join(parts) + "\n")


def picked_from(made: Sequence[Comparison]) -> str:
    """The script with what the form draws, which the page asks for when all else is there."""
    return f"roofbookDevices({script_json(data(made))});\n"


PICKER = """\
<p class="table-note">This form needs JavaScript; the labs' pages below have the same numbers without it.</p>
<form id="devices-pick" class="pick" aria-label="What to compare" hidden>
<div class="pick-line">
<label>Lab <select name="lab"></select></label>
<label>Case <select name="case"></select></label>
<label><input type="checkbox" name="log"> Logarithmic axis</label>
</div>
<fieldset><legend>Devices</legend><div class="pick-list" data-list="devices"></div></fieldset>
<fieldset><legend>Variants</legend>
<div class="pick-line"><input type="search" name="find" aria-label="Find variants" placeholder="Find">
<button type="button" name="all">All found</button><button type="button" name="none">None</button></div>
<div class="pick-list" data-list="variants"></div></fieldset>
<figure><figcaption role="status"></figcaption><div class="pick-chart" aria-hidden="true"></div></figure>
<div class="table-scroll" tabindex="0" role="region" aria-label="The measurements picked"></div>
</form>
<script src="_static/devices.js" defer></script>
"""
"""The form, hidden until it has what it draws."""


def data(made: Sequence[Comparison]) -> dict[str, Any]:
    """What the form draws, as JSON has it.

    places: [id, name], ours before the published devices. labs: name, title and cases; a case has its unit, the variants to
    begin with, and by variant and place's number [text, time, low, high, and the host if it ran there] or, where there is no
    time, [why]. ratios: by variant
    `own/reference`, both places' numbers, and [verdict, text, how it was taken].
    """
    places = dict.fromkeys(place for case in made for place in case.devices)
    devices = dict.fromkeys(device for case in made for times in case.published.values() for device in times)
    at = {each: number for number, each in enumerate([*places, *devices])}
    labs: dict[str, dict[str, Any]] = {}
    for case in made:
        lab = labs.setdefault(case.lab.name, {"name": case.lab.name, "title": case.lab.title, "cases": []})
        lab["cases"].append(_case(case, at))
    named = [[place.id, str(place)] for place in places]
    named += [[f"published/{device}", f"{device}, published"] for device in devices]
    return {"places": named, "labs": list(labs.values())}


def _case(case: Comparison, at: Mapping[Any, int]) -> dict[str, Any]:
    unit, size = _unit(case)
    cells: dict[str, dict[int, list[Any]]] = {}
    for name in case.times:
        mine = cells[name] = {}
        for place in case.devices:
            time = case.times[name].get(place)
            mine[at[place]] = _drawn(time, size) if time else [case.lacks[name][place]]
        for device, time in case.published.get(name, {}).items():
            mine[at[device]] = _drawn(time, size)
    ratios: dict[str, dict[str, list[str]]] = {}
    for pair, found in case.ratios.items():
        for name, ratio in found.items():
            ratios.setdefault(name, {})[f"{at[pair.compared]}/{at[pair.reference]}"] = [
                ratio.word,
                _factor(ratio),
                ratio.how,
            ]
    heads = {f"{at[pair.compared]}/{at[pair.reference]}": str(pair) for pair in case.ratios}
    id, name = f"{case.scale}/{case.case}", f"{case.case} ({case.scale})"
    timed = (name for name in case.lab.headline if case.times.get(name) or case.published.get(name))
    start = [name for name in dict.fromkeys((*islice(timed, 1), *_fastest(case), case.lab.best)) if name in cells]
    return {
        "id": id, "name": name, "unit": f"{unit} per {case.lab.unit}", "start": start, "cells": cells,
        "pairs": heads, "ratios": ratios,
    }  # fmt: skip


def _fastest(case: Comparison) -> list[str]:
    """Of each place the variant with the shortest time."""
    best = []
    for place in case.devices:
        timed = {name: times[place].seconds for name, times in case.times.items() if place in times}
        best += [min(timed, key=lambda name: timed[name])] if timed else []
    return best


def _drawn(time: Time, size: float) -> list[Any]:
    text = show.interval(*(each / size for each in (time.seconds, time.low, time.high)))
    ends = [] if time.low != time.low else [_short(time.low / size), _short(time.high / size)]
    host = [time.host] if time.host else []
    return [f"{text} ({time.note})" if time.note else text, _short(time.seconds / size), *ends, *host]


def _short(value: float) -> float:
    return float(f"{value:.5g}")


def _unit(case: Comparison) -> tuple[str, float]:
    return show.time_unit(time.seconds for times in case.times.values() for time in times.values())


def _time(time: Time, size: float) -> Cell:
    text = show.interval(*(each / size for each in (time.seconds, time.low, time.high)))
    return Cell(text, "num", small=f"({time.note})" if time.note else "", of=time.card)


def _published(times: Mapping[str, Time], size: float) -> Cell:
    if not times:
        return Cell(show.DASH, "num published")
    device = min(times, key=lambda each: times[each].seconds)
    small = f"({', '.join(filter(None, [device, times[device].note]))})"
    return Cell(show.number(times[device].seconds / size), "num published", small=small)


def _factor(ratio: Speedup) -> str:
    text = show.number(ratio.estimate)
    if TOO_FEW not in ratio.how:
        text = show.factor(ratio.estimate, ratio.low, ratio.high)
        if ratio.word == "undecided":
            text = f"{text.partition(' [')[0]} {show.undecided(ratio.estimate, ratio.low, ratio.high)}"
    return text if ratio.how in USUAL else f"{text} ({ratio.how})"


def _ratio(ratio: Speedup | None, own: Time | None) -> Cell:
    if ratio is None:
        return Cell(show.DASH, "num")
    of = own.card if own else ""
    return Cell(ratio.word, f"num verdict {ratio.word}", small=_factor(ratio), of=of)


def _record(name: str, place: StoreDevice, case: Comparison) -> dict[str, Any]:
    told = {"variant": name, "device": place.slug, "backend": place.backend}
    if time := case.times[name].get(place):
        return told | {"seconds": time.seconds, "low": time.low, "high": time.high, "note": time.note}
    return told | {"note": case.lacks[name][place]}
