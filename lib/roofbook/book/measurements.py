"""Draws the cards of all measurements that the book shows.

Of each lab on each device _build/measurements/LAB has the cards as a script, which a browser loads when a number is clicked,
and as a page, to which the number links where there is no JavaScript. The site has them in labs/LAB/measurements.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.history import Row, by_measurement, key_of, versions
from ..analysis.lab_data import LabData
from ..analysis.readings import Reading, cases_of, newest, records
from ..analysis.recorded import RecordedData
from ..devices.backends import BACKENDS
from ..devices.find import spec_of
from ..escaping import script_json
from ..paths import write_whole
from ..report.cards_page import page
from ..report.measured_card import Machines, card
from ..store.parquet import Store
from .card_links import CALL, FOLDER
from .device_choices import HERE

if TYPE_CHECKING:
    from .experiment import Experiment


def draw(root: Path, data: LabData, name: str, on: str, history: Iterable[Row], device: str | None) -> set[str]:
    """Write the cards of a lab on a device, and return the ids of the measurements that have one.

    name: of its files. on: the device in words. history: rows of the lab, old versions among them. device: what the command
    that measures again is given; None for the device of the lab's page.
    """
    past, machines = by_measurement(list(history)), Machines()
    changes = {variant.name: variant.change for variant in data.lab.all_variants()}
    cards = [
        card(
            versions(past.get(key_of(each.row), ()), each),
            machines,
            changes.get(str(each.row["variant"]), ""),
            data.scale,
            _device_for(each, data, device),
        )
        for each in readings(data)
    ]
    lab, title = data.lab.name, data.lab.title
    made = {"lab": lab, "title": title, "name": name, "on": on, "machines": machines.listed, "cards": cards}
    folder = root / FOLDER / lab
    write_whole(folder / f"{name}.js", f"{CALL}({script_json(made)});\n")
    write_whole(folder / f"{name}.html", page(cards, machines.listed, lab, title, on))
    return {each["id"] for each in cards}


def _device_for(reading: Reading, data: LabData, device: str | None) -> str | None:
    """Return what the command that repeats a measurement is given as its device: a peer may need another backend."""
    backend = str(reading.row["backend"])
    is_peer_of_device = reading.role == "peer" and reading.row["device"] == data.device.slug
    return f"{backend}:0" if is_peer_of_device and backend in BACKENDS and backend != data.device.backend else device


def readings(data: LabData) -> list[Reading]:
    """All measurements that a lab's page may show, case by case."""
    rows = data.rows_with_peers
    return [reading for case in cases_of(rows) for reading in newest(rows, case).values()]


def draw_recorded(root: Path, data: RecordedData, name: str, on: str, store: Store) -> set[str]:
    """The same of a lab on a recorded device."""
    rows = store.rows(data.lab.name, parts=("recorded",), scale=data.scale)
    return draw(root, data, name, on, records(rows), spec_of(data.device))


def draw_here(root: Path, experiment: "Experiment", on: str) -> set[str]:
    """The same of a lab on this machine, as its page was executed."""
    rows = experiment.store.rows(experiment.lab.name, scale=experiment.scale)
    return draw(root, experiment.data, HERE.name, on, records(rows), None)
