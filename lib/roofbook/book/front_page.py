"""Overview of all labs on the first page, as HTML: ladders on a recorded device, and the fastest kernel on every device."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import report
from ..analysis import format as show
from ..analysis import predictions
from ..analysis.conclusions import baseline_notes, fastest_step_sentence, peer_comparison
from ..analysis.lab_data import LabData, Measured
from ..analysis.readings import Speedup, faster
from ..analysis.recorded import RecordedData, recorded
from ..analysis.store_devices import StoreDevice, card_of
from ..escaping import escape
from ..measure import stats
from ..report.figure import STEP_LINK
from ..report.html import csv_link, csv_of, number_of
from ..report.ladder_descent import GlanceRow, glance_row
from ..spec import registry
from .device_choices import HERE

if TYPE_CHECKING:
    from ..store.parquet import Store
    from .experiment import Experiment


def all_recorded(store: "Store") -> list[RecordedData]:
    """Return each lab on each recorded device, GPUs first."""
    records = [data for name in registry.names_of_site() for data in recorded(registry.get(name), store)]
    return sorted(records, key=lambda data: (data.store_device.kind != "gpu", data.store_device.id))


def ladders(records: Sequence[RecordedData], ranks: Mapping[str, int]) -> str:
    """Return a card for each lab: its descent on one recorded device, and sentences about it; '' if nothing is recorded.

    ranks: number of measurements by device, as `by_extent`.
    """
    cards = "".join(_card(data) for data in on_one_device(records, ranks) if _timed(data))
    return f'<div class="descents">\n{cards}</div>\n' if cards else ""


def found(records: Sequence[RecordedData], ranks: Mapping[str, int]) -> str:
    """Return what the labs found on the device with which all pages open: a picture and three sentences; '' without records.

    The picture has a bar for each lab: how many times as fast as the baseline its fastest kernel is, and its fastest peer.
    """
    import pandas as pd

    chosen = [data for data in on_one_device(records, ranks) if _timed(data)]
    lines, counts = [line for data in chosen if (line := _found_line(data))], Counter[str]()
    for data in chosen:
        counts.update(predictions.counted(data))
    if not lines:
        return ""
    most = max(math.log(line.to_base.estimate) for line in lines)
    bars = "".join(_found_bar(line, most) for line in lines)
    plain = [line.to_base.estimate for line in lines if line.is_plain]
    ends = list(dict.fromkeys(show.factor(end(plain)) for end in (min, max))) if plain else []
    judged = counts.total()
    sentences = [
        f"On {chosen[0].store_device}, the fastest kernels are {' to '.join(ends)} times as fast as plain loops on one "
        "core of its host." * bool(plain),
        _about_peers([line.to_peer.word for line in lines if line.to_peer]),
        f"Before measuring we predicted what each step would bring: of {judged} predictions {counts['confirmed']} came true, "
        f"{counts['refuted']} did not, and the others are undecided." * bool(judged),
    ]
    key = "<small>Bars are logarithmic. The line across a bar is the fastest peer.</small>"
    text = " ".join(escape(sentence) for sentence in sentences if sentence)
    csv = csv_link("what the labs found", csv_of(pd.DataFrame([_found_record(line) for line in lines]), {}))
    return f'<figure class="found">\n<ul>{bars}</ul>\n{key}\n<figcaption>{text}{csv}</figcaption></figure>\n'


def _about_peers(relations: Sequence[stats.Relation]) -> str:
    """Return in how many labs the fastest kernel is faster than the fastest peer, and in how many as fast; '' without peers."""
    if not relations:
        return ""
    level = f", and in {relations.count('same')} as fast as the fastest of them" if "same" in relations else ""
    return (
        f"In {relations.count('faster')} of {len(relations)} labs the fastest kernel is faster than every library and program "
        f"that we measured beside it{level}."
    )


class _FoundLine(NamedTuple):
    """A lab in the picture of the first page: its fastest kernel beside a baseline and the fastest peer."""

    data: LabData
    fastest: str
    base: str
    is_plain: bool
    """Whether the base is the lab's own for sentences: plain loops. Else it is the first step with a time."""
    to_base: Speedup
    to_peer: Speedup | None


def _found_line(data: LabData) -> _FoundLine | None:
    """Return a lab's line; None if no step but the fastest has a time on this device."""
    case = data.on()
    steps, fastest, peer = case.ranked()
    plain = next(iter(case.verified(data.lab.headline)), None)
    base = plain or steps[0]
    to_base = faster(base, fastest) if fastest and base is not fastest else None
    if fastest is None or to_base is None:
        return None
    return _FoundLine(data, fastest.variant, base.variant, plain is not None, to_base, faster(peer, fastest))


def _found_record(line: _FoundLine) -> dict[str, Any]:
    """Return the numbers of a lab's bar."""
    data, to_base = line.data, line.to_base
    return {
        "lab": data.lab.name, "case": data.case().name, "device": data.device.name, "backend": data.device.backend,
        "fastest": line.fastest, "baseline": line.base, "times_as_fast_as_baseline": to_base.estimate, "low": to_base.low,
        "high": to_base.high,
        "fastest_peer_times_as_fast": to_base.estimate / line.to_peer.estimate if line.to_peer else math.nan,
    }  # fmt: skip


def _found_bar(line: _FoundLine, most: float) -> str:
    """Return a lab's bar on a logarithmic axis from 1 to the largest factor. most: its logarithm.

    A lab whose baseline has no time names the step that stands in, and its bar is pale.
    """

    def percent(factor: float) -> float:
        return max(0.0, 100 * math.log(factor) / most) if most > 0 else 0.0

    to_base, lab = line.to_base.estimate, line.data.lab
    peer = to_base / line.to_peer.estimate if line.to_peer else 0.0
    mark = f'<u style="left:{percent(peer):.1f}%"></u>' if peer > 1 and most > 0 else ""
    peer_text = f"; the fastest peer {show.factor(peer)}\u00d7" if peer else ""
    stands_in = "" if line.is_plain else f" as <code>{escape(line.base)}</code>, its first step with a time here"
    pale = ' class="stand-in"' * (not line.is_plain)
    return (
        f'<li><a href="labs/{lab.name}.html">{escape(lab.title)}</a>'
        f'<span class="found-track"><b{pale} style="width:{percent(to_base):.1f}%"></b>{mark}</span>'
        f"<small><strong>{show.factor(to_base)}\u00d7</strong> <code>{escape(line.fastest)}</code>{stands_in}{peer_text}"
        "</small></li>"
    )


def on_one_device(records: Sequence[RecordedData], ranks: Mapping[str, int]) -> list[RecordedData]:
    """Return the records of the device with which all pages open: a GPU before a CPU, then by number of measurements."""

    def rank(device: StoreDevice) -> tuple[bool, int, str]:
        return device.kind == "gpu", ranks.get(device.id, 0), device.id

    first = max((data.store_device for data in records), key=rank, default=None)
    return [data for data in records if data.store_device == first]


def _card(data: RecordedData) -> str:
    from markdown_it import MarkdownIt

    lab, case = data.lab, data.case().name
    measured = Measured(
        data,
        lambda text, measurement: number_of(text, card_of(lab.name, data.store_device.id, data.scale, measurement)),
    )
    comparison = peer_comparison(measured, case)
    bases = baseline_notes(lab, measured, [case])
    words = " ".join([fastest_step_sentence(lab, measured, case), *bases, *[f"{comparison}."] * bool(comparison)])
    head = f'<h3><a href="labs/{lab.name}.html">{escape(lab.title)}</a></h3>'
    chart = report.descent(data.on(), title=f"{case}, {data.store_device}").html
    chart = chart.replace(f'href="{STEP_LINK}', f'href="labs/{lab.name}.html{STEP_LINK}')
    return f'<section class="descent">{head}\n{chart}\n{MarkdownIt().render(words)}</section>\n'


def recorded_ends(records: Iterable[RecordedData]) -> list[GlanceRow]:
    """Return baseline and fastest kernel of a lab on each recorded device."""
    return [_ends(data, str(data.store_device), data.store_device.id, data.scale) for data in records if _timed(data)]


def own_ends(experiment: "Experiment") -> list[GlanceRow]:
    """Return baseline and fastest kernel of a lab on this machine; empty if no step was measured."""
    return (
        [_ends(experiment.data, f"{experiment.device.name}, this machine", HERE.name)]
        if _timed(experiment.data)
        else []
    )


def _ends(data: LabData, label: str, device: str, scale: str = "published") -> GlanceRow:
    """Return baseline and fastest kernel. device: the device in the names of the cards of its measurements."""
    summary = glance_row(data.lab.title, label, data.on().over(data.lab.headline))
    cells = [
        replace(cell, card_id=cell.card_id and card_of(data.lab.name, device, scale, cell.card_id))
        for cell in summary.cells
    ]
    return replace(summary, cells=cells)


def ends(lines: Sequence[GlanceRow]) -> str:
    """Return a table of these lines, those of a lab together; '' for none."""
    return report.glance(lines, "Baseline and fastest kernel of each lab").html if lines else ""


def _timed(data: LabData) -> bool:
    """Return whether any step has a verified time on the default case."""
    return data.on().ranked()[1] is not None
