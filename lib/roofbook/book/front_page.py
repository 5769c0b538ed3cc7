"""What the first page shows of all labs, as HTML: their ladders on a device on record, and the ends of them on every device."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from ..analysis.verdicts import Place
from ..spec import registry
from .recorded import Record, records

if TYPE_CHECKING:
    from ..report.descent import Line
    from ..store.parquet import Store
    from .experiment import Experiment
    from .view import View


def recorded(store: "Store") -> list[Record]:
    """Each lab on each device on record, GPUs first."""
    found = [record for name in registry.names() for record in records(registry.get(name), store)]
    return sorted(found, key=lambda record: (record.place.kind != "gpu", record.place.id))


def ladders(found: Sequence[Record]) -> str:
    """A card a lab: its descent on one device on record, and what came of it in words. '' where nothing is on record."""
    made = "".join(_card(record) for record in on_one_place(found) if _timed(record))
    return f'<div class="descents">\n{made}</div>\n' if made else ""


def on_one_place(found: Sequence[Record]) -> list[Record]:
    """Those of one place: a GPU before a CPU, with most labs, and of such that with most cells, as it has the peers."""
    by_place: dict[Place, list[Record]] = {}
    for record in found:
        by_place.setdefault(record.place, []).append(record)

    def extent(place: Place) -> tuple[bool, int, int]:
        return place.kind == "gpu", len(by_place[place]), sum(len(record.rows) for record in by_place[place])

    return by_place[max(by_place, key=extent)] if found else []


def _card(record: Record) -> str:
    from markdown_it import MarkdownIt

    from ..report.prose import beside_base, beside_peer

    lab, case = record.lab, record.case().name
    beside = beside_peer(record, case)
    words = " ".join([beside_base(lab, record, case), *[f"{beside}."] * bool(beside)])
    head = f'<h3><a href="labs/{lab.name}.html">{escape(lab.title)}</a></h3>'
    drawn = record.descent(title=f"{case}, {record.place}").html
    return f'<section class="descent">{head}\n{drawn}\n{MarkdownIt().render(words)}</section>\n'


def ends(found: Sequence[Record], here: Iterable["Experiment"]) -> str:
    """The first and the fastest rung of each lab on each device on record, and on this machine where it was executed."""
    from ..report import glance

    mine = list(here)
    lines = []
    for name in registry.names():
        views: list[tuple[View, str]] = [(each, str(each.place)) for each in found if each.lab.name == name]
        views += [(each, f"{each.device.name}, this machine") for each in mine if each.lab.name == name]
        lines += [_line(view, place) for view, place in views if _timed(view)]
    return glance(lines, "The first and the fastest rung of each lab").html if lines else ""


def _line(view: "View", place: str) -> "Line":
    from ..report.descent import Line

    case = view.case()
    return Line(view.lab.title, place, view.rows, view.order(), case.name, view.lab.base, view.bounds(case))


def _timed(view: "View") -> bool:
    """Whether any rung has a verified time on the case that is shown."""
    case = view.case().name
    return view.seconds(view.fastest(case), case) is not None
