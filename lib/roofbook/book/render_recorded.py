"""Draws each lab's pages for each recorded device: once, and again if code, notebook or records change.

The output is in _build/recorded: one folder for each lab, with `index.json`, the list of devices, and one folder for each of
its pages. That folder has a script for each device, which a browser loads when a reader chooses the device. The site's
extension copies the scripts.
"""

import contextlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .. import memory
from ..analysis.recorded import recorded
from ..analysis.store_devices import StoreDevice
from ..measure.background_group import end_with_parent
from ..paths import write_whole
from ..spec import registry
from ..store.parquet import Store
from . import card_links, execute, measurements, replay_notebook, table_files
from .device_choices import FOLDER, HERE, LARGE, DeviceChoice, choices, write_scripts
from .device_switch import finish_cells
from .input_hashes import InputHashes
from .lab_pages import STORY
from .manifest import Manifest

SCALES = ("published", "large")
_BEST = {"devices": "the best one alone"}
"""Mark in the inputs of a lab of which only the best device is drawn: it is stale until the others are."""


def stale(root: Path, now: InputHashes | None = None) -> list[str]:
    """Return the labs whose pages on recorded devices do not match the current code, notebook and records."""
    manifest, now, store = Manifest(root), now or InputHashes(root), Store(root / "results")

    def is_incomplete(lab: str) -> bool:
        folders = [path for path in (root / FOLDER / lab).iterdir() if path.is_dir()] or [root / FOLDER / lab]
        devices = choices(root, lab)
        undrawn = any(not (folder / device.script).exists() for folder in folders for device in devices)
        return undrawn or not all(card_links.has_cards(root, lab, device.stem) for device in devices)

    return [
        notebook.stem
        for notebook in execute.notebooks(root)
        if _of_lab(notebook.stem)
        if manifest.stale(root / FOLDER / notebook.stem / "index.json", now.story(notebook, store))
        or is_incomplete(notebook.stem)
    ]


def draw(root: Path, *, best_only: bool = False) -> None:
    """Draw all stale pages, on all cores. best_only: of each lab, draw only the device that its pages show first."""
    if not (due := stale(root)):
        return
    store, now, manifest = Store(root / "results"), InputHashes(root), Manifest(root)
    notebooks = {path.stem: path for path in execute.notebooks(root)}
    made_from = {lab: now.story(notebooks[lab], store) for lab in due}
    done_before = {lab: _best_drawn(root, lab, manifest, made_from[lab]) for lab in due}
    with _processes() as submit:
        extent_tasks = {lab: submit(extents, root, lab) for lab in due}
        extents_by_lab = {lab: task.result() for lab, task in extent_tasks.items()}
        to_draw = {
            lab: lab_extents[len(done_before[lab]) : 1 if best_only else None]
            for lab, lab_extents in extents_by_lab.items()
        }
        longest = sorted(((lab, extent) for lab in due for extent in to_draw[lab]), key=lambda pair: -pair[1].rows)
        drawn = {pair: submit(_draw, root, pair[0], pair[1].scale, pair[1].place) for pair in longest}
        for lab in due:
            done, folder = (
                [*done_before[lab], *(drawn[lab, extent].result() for extent in to_draw[lab])],
                root / FOLDER / lab,
            )
            inputs = made_from[lab] | (_BEST if len(done) < len(extents_by_lab[lab]) else {})
            current = {path for _, paths in done for path in paths}
            for old in set(folder.rglob("*.js")) - current:
                if not old.name.startswith(f"{HERE.stem}."):  # a parallel build of the site may be writing one
                    old.unlink()
            for page in folder.glob("*/"):
                if not any(page.iterdir()):
                    page.rmdir()
            devices = [choice for choice, _ in done]
            card_links.keep_only(root, lab, [device.stem for device in devices])
            table_files.keep_only(root, lab, {HERE.name, *(device.stem for device in devices)})
            manifest.write(folder / "index.json", json.dumps(devices, indent=1) + "\n", inputs)


def _best_drawn(
    root: Path, lab: str, manifest: Manifest, made_from: Mapping[str, str]
) -> list[tuple[DeviceChoice, list[Path]]]:
    """Return the best device and its scripts if it alone is drawn and up to date; otherwise nothing."""
    folder, devices = root / FOLDER / lab, choices(root, lab)
    if len(devices) != 1 or manifest.stale(folder / "index.json", {**made_from, **_BEST}):
        return []
    scripts = [path for path in folder.glob("*/*.js") if not path.name.startswith(f"{HERE.stem}.")]
    if (folder / STORY / devices[0].script) not in scripts or not card_links.has_cards(root, lab, devices[0].stem):
        return []
    return [(devices[0], scripts)]


def unexecuted(root: Path, notebooks: Iterable[Path]) -> None:
    """Write pages without outputs for notebooks that this machine has not executed yet."""
    for notebook in notebooks:
        page = replay_notebook.unmeasured(json.loads(notebook.read_text(encoding="utf-8")))
        write_whole(execute.page_of(root, notebook), json.dumps(page, indent=1) + "\n")


def _of_lab(name: str) -> bool:
    return name in (*registry.names(), registry.PEAKS)


class Extent(NamedTuple):
    """A recorded device at a scale, and its number of rows of a lab, which decides how long it takes to draw."""

    scale: str
    place: str
    rows: int


def extents(root: Path, lab: str) -> list[Extent]:
    """List the lab's recorded devices at each scale: GPUs first, then by number of measurements.

    Devices with nearly as many measurements are ordered by measurements over all labs, so that most pages open with one device.
    """
    store = Store(root / "results", ("recorded",))
    listed = []
    for scale in SCALES:
        records = recorded(registry.get(lab), store, scale)
        measurements_of = {
            data.store_device.id: len(data.rows.drop_duplicates(["variant", "case"])) for data in records
        }
        gpus = [data.store_device.id for data in records if data.store_device.kind == "gpu"]
        near_ties = [
            place for place in gpus if measurements_of[place] >= NEARLY * max(map(measurements_of.__getitem__, gpus))
        ]
        ranks = _in_all_labs(store) if len(near_ties) > 1 else {}
        records.sort(key=lambda data: -measurements_of[data.store_device.id])
        records.sort(key=lambda data: -ranks.get(data.store_device.id, 0) if data.store_device.id in near_ties else 1)
        records.sort(key=lambda data: data.store_device.kind != "gpu")
        listed += [Extent(scale, data.store_device.id, len(data.rows)) for data in records]
    return listed


NEARLY = 0.9
"""Share of the largest number of measurements from which on a device counts as a near-tie."""


def _in_all_labs(store: Store) -> dict[str, int]:
    """Return `StoreDevice.id` -> number of measured (lab, variant, case), over all labs."""
    sql = 'SELECT device, backend, count(DISTINCT (lab, variant, "case")) FROM cells GROUP BY ALL'
    return {StoreDevice(device, backend, "", "").id: count for device, backend, count in store.query(sql).to_numpy()}


@contextlib.contextmanager
def _processes() -> Iterator[Callable[..., Future[Any]]]:
    """Yield a function that submits work to one process for each core. Ctrl-C never reaches them: the caller ends them."""

    def submit(work: Callable[..., Any], *args: Any) -> Future[Any]:
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # new processes inherit this mask
        try:
            return pool.submit(work, *args)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)

    with ProcessPoolExecutor(
        os.cpu_count(), multiprocessing.get_context("spawn"), initializer=_prepare_process
    ) as pool:
        try:
            yield submit
        except BaseException:
            pool.shutdown(wait=False)
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _prepare_process() -> None:
    """Prepare a process that draws: it ends with its parent, and collects garbage seldom."""
    end_with_parent()
    memory.collect_seldom()


def _draw(root: Path, lab: str, scale: str, place: str) -> tuple[DeviceChoice, list[Path]]:
    """Write each page of a lab for a device; return the choice and its scripts."""
    store = Store(root / "results")
    (data,) = (record for record in recorded(registry.get(lab), store, scale) if record.store_device.id == place)
    notebook = json.loads((root / "experiments" / f"{lab}.ipynb").read_text(encoding="utf-8"))
    is_large = scale != SCALES[0]
    choice = DeviceChoice(
        f"{place}{LARGE}" if is_large else place,
        f"{data.store_device}, {scale} sizes" if is_large else str(data.store_device),
    )
    html_by_key, files = table_files.split_files_of_cells(
        finish_cells(replay_notebook.replay(notebook, data, store)), lab, choice.stem
    )
    table_files.write_files(root / table_files.DRAWN / lab / choice.stem, files)
    html_by_key = card_links.unlink_missing_cards(
        html_by_key, measurements.draw_recorded(root, data, choice.stem, choice.label, store)
    )
    return choice, write_scripts(root, lab, choice, notebook, html_by_key)
