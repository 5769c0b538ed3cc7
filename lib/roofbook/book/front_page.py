"""Overview of all labs on the first page, as HTML: ladders on a recorded device, and the fastest kernel on every device."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import report
from ..analysis.conclusions import about_bases, fastest_step_sentence, peer_comparison
from ..analysis.lab_data import LabData, Measured
from ..analysis.recorded import RecordedData, recorded
from ..analysis.store_devices import StoreDevice, card_of
from ..escaping import escape
from ..report.figure import STEP_LINK
from ..report.html import number_of
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


def ladders(records: Sequence[RecordedData]) -> str:
    """Return a card for each lab: its descent on one recorded device, and sentences about it; '' if nothing is recorded."""
    cards = "".join(_card(data) for data in on_one_device(records) if _timed(data))
    return f'<div class="descents">\n{cards}</div>\n' if cards else ""


def on_one_device(records: Sequence[RecordedData]) -> list[RecordedData]:
    """Return the records of one device: a GPU before a CPU, then by number of labs, then by number of rows, peers included."""
    records_by_device: dict[StoreDevice, list[RecordedData]] = {}
    for data in records:
        records_by_device.setdefault(data.store_device, []).append(data)

    def extent(store_device: StoreDevice) -> tuple[bool, int, int]:
        return (
            store_device.kind == "gpu",
            len(records_by_device[store_device]),
            sum(len(data.rows) for data in records_by_device[store_device]),
        )

    return records_by_device[max(records_by_device, key=extent)] if records else []


def _card(data: RecordedData) -> str:
    from markdown_it import MarkdownIt

    lab, case = data.lab, data.case().name
    measured = Measured(
        data,
        lambda text, measurement: number_of(text, card_of(lab.name, data.store_device.id, data.scale, measurement)),
    )
    comparison = peer_comparison(measured, case)
    bases = about_bases(lab, measured, [case])
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
