"""Devices side by side: a table for each case, a summary for each pair of devices, and the form that picks devices to compare.

All is readable without a script. book/_assets/devices.js draws the form from data in the page.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

from ..analysis import format as show
from ..analysis.comparison import QUICK, CaseComparison, DevicePair, PairSummary, Time, summaries
from ..analysis.readings import TOO_FEW, Speedup
from ..analysis.store_devices import StoreDevice
from ..escaping import escape, script_json
from ..measure import stats
from ..measure.stats import CONFIDENCE
from .cell_format import INTERVAL_WORDS, ratio_text
from .columns import Column, count_column, number_column, table
from .html import Cell, Html, StandingNote, Table

COLUMNS = ("variant", "device", "backend", "seconds", "low", "high", "note")
NOTES = (
    f"Times are medians with the {CONFIDENCE} interval of the median.",
    f"Ratios: how many times as fast, with the {CONFIDENCE} interval, across runs or devices; {INTERVAL_WORDS}. With"
    f" {stats.ENOUGH_RUNS} runs or more of each it holds between runs, with fewer in these runs, and says so.",
)
USUAL_HOWS = ("", "across runs", "across devices")
"""Ways to take a ratio that the note already says, so that cells do not repeat them."""
STANDING_NOTES = [StandingNote(note_text) for note_text in NOTES]


def comparison(case: CaseComparison) -> Table:
    """Return a table with a line for each variant: the time on each device, the shortest published one, each pair's ratio."""
    unit, size = _time_unit(case)

    def time(device: StoreDevice, name: str) -> Cell:
        timed = case.times[name].get(device)
        return _time_cell(timed, size) if timed else Cell(case.lacks[name][device], "absent wrap")

    def ratio(pair: DevicePair, name: str) -> Cell:
        return _ratio_cell(case.ratios[pair].get(name), case.times[name].get(pair.compared))

    columns: list[Column[str]] = [Column("Variant", str)]
    columns += [Column(str(device), partial(time, device), "num") for device in case.devices]
    if case.published:
        columns.append(
            Column(
                "Shortest published",
                lambda name: _published_cell(case.published.get(name, {}), size),
                "num published",
            )
        )
    columns += [Column(str(pair), partial(ratio, pair), "num") for pair in case.ratios]
    caption = f"{case.lab.title}, {case.case}: time per {case.lab.unit} in {unit}"
    units = dict.fromkeys(("seconds", "low", "high"), f"s per {case.lab.unit}")
    records = [_record(name, device, case) for name in case.times for device in case.devices]
    return table(
        caption, columns, case.times, STANDING_NOTES, "comparison", records=records, fields=COLUMNS, units=units
    )


def overview(comparisons: Sequence[CaseComparison]) -> list[Table]:
    """Return a table for each pair of devices: per lab the geometric mean of the ratios, their range, and verdicts."""
    return [_overview(pair, lines) for pair, lines in summaries(comparisons).items()]


def _overview(pair: DevicePair, lines: Sequence[PairSummary]) -> Table:
    columns: list[Column[PairSummary]] = [
        Column("Lab", lambda line: line.lab.title, fields={"lab": lambda line: line.lab.name}),
        count_column("Measurements", "cells", lambda line: line.measurements),
        number_column("Geometric mean", "mean", lambda line: line.mean),
        number_column("Least", "least", lambda line: line.least),
        number_column("Greatest", "greatest", lambda line: line.greatest),
    ]
    columns += [count_column(word.capitalize(), word, partial(_verdict_count, word)) for word in lines[0].verdicts]
    return table(f"{pair}: how many times as fast", columns, lines, STANDING_NOTES[1:])


def _verdict_count(word: str, line: PairSummary) -> int:
    return line.verdicts[word]


def cases(comparisons: Sequence[CaseComparison]) -> Html:
    """Return the tables of all cases, each collapsed."""
    parts = []
    for case in comparisons:
        summary = f"{case.case}, {case.scale} size: {len(case.times)} variants"
        parts.append(f"<details><summary>{escape(summary)}</summary>\n{comparison(case).html}</details>")
    return Html("\n".join(parts) + "\n")


def picker_script(comparisons: Sequence[CaseComparison]) -> str:
    """Return the script with the form's data, which the page loads last."""
    return f"roofbookDevices({script_json(picker_data(comparisons))});\n"


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
<figure class="picked"><figcaption role="status"></figcaption><p class="table-note pick-legend"></p>
<div class="pick-chart" aria-hidden="true"></div></figure>
<div class="table-scroll" tabindex="0" role="region" aria-label="The measurements picked"></div>
</form>
<script src="_static/devices.js" defer></script>
"""
"""The form, hidden until it has its data."""


def picker_data(comparisons: Sequence[CaseComparison]) -> dict[str, Any]:
    """Return the form's data as JSON.

    bands: the factors beyond which two times differ, and within which they are equal. places: [id, name], our devices before
    the published ones. labs: name, title, names of the peers, and cases. A case has its unit, the variants to begin with, and
    cells: variant -> number of the device -> [text, time, low, high, the wide low and high of `Time`, and the host if it ran
    there], or [reason] without a time. cards: number of the device -> [address of its page of cards, variant -> id of the
    card]. ratios: variant -> `own/reference`, both devices' numbers -> [verdict, text, how it was taken].
    """
    store_devices = dict.fromkeys(store_device for comparison in comparisons for store_device in comparison.devices)
    published_devices = dict.fromkeys(
        device for comparison in comparisons for times in comparison.published.values() for device in times
    )
    numbers = {any_device: number for number, any_device in enumerate([*store_devices, *published_devices])}
    labs: dict[str, dict[str, Any]] = {}
    for comparison in comparisons:
        lab = labs.setdefault(
            comparison.lab.name,
            {
                "name": comparison.lab.name,
                "title": comparison.lab.title,
                "peers": [peer.name for peer in comparison.lab.peers],
                "cases": [],
            },
        )
        lab["cases"].append(_picker_case(comparison, numbers))
    names = [[store_device.id, str(store_device)] for store_device in store_devices]
    names += [[f"published/{device}", f"{device}, published"] for device in published_devices]
    return {"bands": [stats.LEAST, stats.EQUAL], "places": names, "labs": list(labs.values())}


def _picker_case(case: CaseComparison, numbers: Mapping[Any, int]) -> dict[str, Any]:
    unit, size = _time_unit(case)
    cells: dict[str, dict[int, list[Any]]] = {}
    cards: dict[int, tuple[str, dict[str, str]]] = {}
    for name in case.times:
        row = cells[name] = {}
        for store_device in case.devices:
            time = case.times[name].get(store_device)
            row[numbers[store_device]] = _picker_cell(time, size) if time else [case.lacks[name][store_device]]
            if time and time.card and case.scale != QUICK:
                device, _, id = time.card.partition("#")
                address = "labs/{}/measurements/{}.html".format(*device.split("/"))
                cards.setdefault(numbers[store_device], (address, {}))[1][name] = id
        for device, time in case.published.get(name, {}).items():
            row[numbers[device]] = _picker_cell(time, size)
    ratios: dict[str, dict[str, list[str]]] = {}
    for pair, by_variant in case.ratios.items():
        for name, ratio in by_variant.items():
            ratios.setdefault(name, {})[f"{numbers[pair.compared]}/{numbers[pair.reference]}"] = [
                ratio.word,
                _ratio_text(ratio),
                ratio.how,
            ]
    heads = {f"{numbers[pair.compared]}/{numbers[pair.reference]}": str(pair) for pair in case.ratios}
    id, name = f"{case.scale}/{case.case}", f"{case.case} ({case.scale})"
    timed = (name for name in case.lab.headline if case.times.get(name) or case.published.get(name))
    start = [name for name in dict.fromkeys((*islice(timed, 1), *_fastest(case), case.lab.best)) if name in cells]
    return {
        "id": id, "name": name, "unit": f"{unit} per {case.lab.unit}", "start": start, "cells": cells, "cards": cards,
        "pairs": heads, "ratios": ratios,
    }  # fmt: skip


def _fastest(case: CaseComparison) -> list[str]:
    """Return the variant with the shortest time on each device."""
    best = []
    for device in case.devices:
        timed = {name: times[device].seconds for name, times in case.times.items() if device in times}
        best += [min(timed, key=lambda name: timed[name])] if timed else []
    return best


def _picker_cell(time: Time, size: float) -> list[Any]:
    text = show.interval(*(seconds / size for seconds in (time.seconds, time.low, time.high)))
    has_ends = time.low == time.low
    ends = [_rounded(end / size) if end == end else None for end in (time.low, time.high, *time.wide)] * has_ends
    host = [time.host] if time.host else []
    return [f"{text} ({time.note})" if time.note else text, _rounded(time.seconds / size), *ends, *host]


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def _time_unit(case: CaseComparison) -> tuple[str, float]:
    return show.time_unit(time.seconds for times in case.times.values() for time in times.values())


def _time_cell(time: Time, size: float) -> Cell:
    text = show.interval(*(seconds / size for seconds in (time.seconds, time.low, time.high)))
    return Cell(text, "num", small=f"({time.note})" if time.note else "", card_id=time.card)


def _published_cell(times: Mapping[str, Time], size: float) -> Cell:
    if not times:
        return Cell(show.DASH, "num published")
    device = min(times, key=lambda device: times[device].seconds)
    small = f"({', '.join(filter(None, [device, times[device].note]))})"
    return Cell(show.number(times[device].seconds / size), "num published", small=small)


def _ratio_text(ratio: Speedup) -> str:
    text = show.number(ratio.estimate)
    if TOO_FEW not in ratio.how:
        text = ratio_text(ratio.estimate, ratio.low, ratio.high, ratio.word)
    return text if ratio.how in USUAL_HOWS else f"{text} ({ratio.how})"


def _ratio_cell(ratio: Speedup | None, time: Time | None) -> Cell:
    if ratio is None:
        return Cell(show.DASH, "num")
    card_id = time.card if time else ""
    return Cell(ratio.word, f"num verdict {ratio.word}", small=_ratio_text(ratio), card_id=card_id)


def _record(name: str, device: StoreDevice, case: CaseComparison) -> dict[str, Any]:
    identity = {"variant": name, "device": device.slug, "backend": device.backend}
    if time := case.times[name].get(device):
        return identity | {"seconds": time.seconds, "low": time.low, "high": time.high, "note": time.note}
    return identity | {"note": case.lacks[name][device]}
