"""Cards of all measurements that the book shows.

_build/measurements/LAB holds the cards of each device as a script, which a browser loads when a number is clicked, and as a
page, to which the number links without JavaScript. The site has them in labs/LAB/measurements.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.history import Row, by_measurement, key_of, versions
from ..analysis.lab_data import LabData
from ..analysis.readings import Reading, Speedup, cases_of, faster, newest, records
from ..analysis.recorded import RecordedData
from ..devices.backends import BACKENDS
from ..devices.find import spec_of
from ..escaping import script_json
from ..paths import write_whole
from ..report.cards_page import page
from ..report.measured_card import Machines, card
from ..store.parquet import Store
from . import device_times
from .card_links import CALL, FOLDER
from .device_choices import HERE

if TYPE_CHECKING:
    from .experiment import Experiment


def draw(root: Path, data: LabData, name: str, label: str, history: Iterable[Row], device: str | None) -> set[str]:
    """Write the cards and the times of a lab on a device; return the ids of the measurements that have a card.

    name: name of the files. label: the device in words. history: rows of the lab, including old versions. device: argument of
    the command that measures again; None for the device of the lab's page.
    """
    history_by_key, machines = by_measurement(list(history)), Machines()
    changes = {variant.name: variant.change for variant in data.lab.all_variants()}
    cards = [
        card(
            versions(history_by_key.get(key_of(reading.row), ()), reading),
            machines,
            changes.get(str(reading.row["variant"]), ""),
            data.scale,
            _device_for(reading, data, device),
            over_parent,
        )
        for reading, over_parent in measured_with_ratios(data)
    ]
    lab, title = data.lab.name, data.lab.title
    contents = {"lab": lab, "title": title, "name": name, "on": label, "machines": machines.listed, "cards": cards}
    folder = root / FOLDER / lab
    write_whole(folder / f"{name}.js", f"{CALL}({script_json(contents)});\n")
    write_whole(folder / f"{name}.html", page(cards, machines.listed, lab, title, label))
    device_times.write(root, data, name)
    return {measured["id"] for measured in cards}


def _device_for(reading: Reading, data: LabData, device: str | None) -> str | None:
    """Return the device argument of the command that repeats a measurement: a peer may need another backend."""
    backend = str(reading.row["backend"])
    is_peer_of_device = reading.role == "peer" and reading.row["device"] == data.device.slug
    return f"{backend}:0" if is_peer_of_device and backend in BACKENDS and backend != data.device.backend else device


def measured_with_ratios(data: LabData) -> list[tuple[Reading, Speedup | None]]:
    """Return all measurements that a lab's page may show, case by case, each with its ratio to its parent."""
    rows = data.rows_with_peers
    return [
        (reading, faster(by_name.get(reading.parent or ""), reading))
        for by_name in (newest(rows, case) for case in cases_of(rows))
        for reading in by_name.values()
    ]


def draw_recorded(root: Path, data: RecordedData, name: str, label: str, store: Store) -> set[str]:
    """Write the cards of a lab on a recorded device; return the ids of the measurements."""
    rows = store.rows(data.lab.name, parts=("recorded",), scale=data.scale)
    return draw(root, data, name, label, records(rows), spec_of(data.device))


def draw_here(root: Path, experiment: "Experiment", label: str) -> set[str]:
    """Write the cards of a lab on this machine; return the ids of the measurements."""
    rows = experiment.store.rows(experiment.lab.name, scale=experiment.scale)
    return draw(root, experiment.data, HERE.name, label, records(rows), None)
