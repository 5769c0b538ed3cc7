"""What the first page shows of all labs, as HTML: ladders on a recorded device, and the fastest kernel on every device."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from .. import report
from ..analysis.conclusions import about_bases, fastest_step_sentence, peer_comparison
from ..analysis.lab_data import LabData, Measured
from ..analysis.recorded import RecordedData, recorded
from ..analysis.store_devices import StoreDevice, card_of
from ..escaping import escape
from ..report.html import number_of
from ..report.ladder_descent import GlanceRow, LadderOnDevice, glance_row
from ..spec import registry
from .device_choices import HERE

if TYPE_CHECKING:
    from ..store.parquet import Store
    from .experiment import Experiment


def all_recorded(store: "Store") -> list[RecordedData]:
    """Each lab on each recorded device, GPUs first."""
    found = [data for name in registry.names() for data in recorded(registry.get(name), store)]
    return sorted(found, key=lambda data: (data.store_device.kind != "gpu", data.store_device.id))


def ladders(found: Sequence[RecordedData]) -> str:
    """A card a lab: its descent on one recorded device, and what came of it in words. '' where nothing is recorded."""
    made = "".join(_card(data) for data in on_one_place(found) if _timed(data))
    return f'<div class="descents">\n{made}</div>\n' if made else ""


def on_one_place(found: Sequence[RecordedData]) -> list[RecordedData]:
    """Those of one place: a GPU before a CPU, with most labs, and of such that with most measurements, as it has the peers."""
    by_place: dict[StoreDevice, list[RecordedData]] = {}
    for data in found:
        by_place.setdefault(data.store_device, []).append(data)

    def extent(place: StoreDevice) -> tuple[bool, int, int]:
        return place.kind == "gpu", len(by_place[place]), sum(len(data.rows) for data in by_place[place])

    return by_place[max(by_place, key=extent)] if found else []


def _card(data: RecordedData) -> str:
    from markdown_it import MarkdownIt

    lab, case = data.lab, data.case().name
    measured = Measured(data, lambda text, of: number_of(text, card_of(lab.name, data.store_device.id, data.scale, of)))
    beside = peer_comparison(measured, case)
    over = about_bases(lab, measured, [case])
    words = " ".join([fastest_step_sentence(lab, measured, case), *over, *[f"{beside}."] * bool(beside)])
    head = f'<h3><a href="labs/{lab.name}.html">{escape(lab.title)}</a></h3>'
    drawn = report.descent(data.on(), title=f"{case}, {data.store_device}").html
    return f'<section class="descent">{head}\n{drawn}\n{MarkdownIt().render(words)}</section>\n'


def recorded_ends(found: Iterable[RecordedData]) -> list[GlanceRow]:
    """Baseline and fastest kernel of a lab on each recorded device."""
    return [_ends(data, str(data.store_device), data.store_device.id, data.scale) for data in found if _timed(data)]


def own_ends(here: "Experiment") -> list[GlanceRow]:
    """The same on this machine; none where no step was measured."""
    return [_ends(here.data, f"{here.device.name}, this machine", HERE.name)] if _timed(here.data) else []


def _ends(data: LabData, place: str, device: str, scale: str = "published") -> GlanceRow:
    """device: that of the cards of its measurements."""
    found = glance_row(LadderOnDevice(data.lab.title, place, data.on().over(data.lab.headline)))
    named = [
        replace(each, card_id=each.card_id and card_of(data.lab.name, device, scale, each.card_id))
        for each in found.cells
    ]
    return replace(found, cells=named)


def ends(lines: Sequence[GlanceRow]) -> str:
    """The table of these lines, those of a lab together. '' for none."""
    return report.glance(lines, "Baseline and fastest kernel of each lab").html if lines else ""


def _timed(data: LabData) -> bool:
    """Whether any step has a verified time on the case that is shown."""
    return data.on().ranked()[1] is not None
