"""Draws the outputs of each lab's notebook on each recorded device: once, and again if code, notebook or records change.

They are in _build/recorded as device_choices.py says; device_pages.py makes the site's pages from them.
"""

import contextlib
import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .. import memory
from ..analysis.recorded import recorded
from ..analysis.store_devices import by_extent
from ..measure.background_group import end_with_parent
from ..paths import write_whole
from ..spec import registry
from ..store.parquet import Store
from . import card_links, device_times, execute, measurements, replay_notebook
from .device_choices import FOLDER, LARGE, DeviceChoice, cells_file, recorded_choices
from .input_hashes import InputHashes
from .manifest import Manifest
from .notebook_cells import without_outputs

SCALES = ("published", "large")


def stale(root: Path, now: InputHashes | None = None) -> list[str]:
    """Return the labs whose outputs on recorded devices do not match the current code, notebook and records."""
    manifest, now, store = Manifest(root), now or InputHashes(root), Store(root / "results")
    labs = registry.names_with_peaks()
    return [
        notebook.stem
        for notebook in execute.notebooks(root)
        if notebook.stem in labs
        if manifest.stale(root / FOLDER / notebook.stem / "index.json", now.story(notebook, store))
        or not all(_is_drawn(root, notebook.stem, choice) for choice in recorded_choices(root, notebook.stem))
    ]


def _is_drawn(root: Path, lab: str, choice: DeviceChoice) -> bool:
    return cells_file(root, lab, choice).exists() and card_links.has_cards(root, lab, choice.stem)


def draw(root: Path, *, best_only: bool = False) -> None:
    """Draw all stale outputs, on all cores. best_only: of each lab, draw only the device that its pages show first."""
    if not (due := stale(root)):
        return
    store, now, manifest = Store(root / "results"), InputHashes(root), Manifest(root)
    made_from = {lab: now.story(root / "experiments" / f"{lab}.ipynb", store) for lab in due}

    def is_current(lab: str, choice: DeviceChoice) -> bool:
        return _is_drawn(root, lab, choice) and not manifest.stale(cells_file(root, lab, choice), made_from[lab])

    with _processes() as submit:
        extent_tasks = {lab: submit(extents, root, lab) for lab in due}
        extents_by_lab = {lab: task.result() for lab, task in extent_tasks.items()}
        extents_due = {lab: listed[: 1 if best_only else None] for lab, listed in extents_by_lab.items()}
        to_draw = [(lab, extent) for lab in due for extent in extents_due[lab] if not is_current(lab, extent.choice)]
        longest_first = sorted(to_draw, key=lambda pair: -pair[1].rows)
        tasks = {(lab, extent): submit(_draw, root, lab, extent) for lab, extent in longest_first}
        for (lab, extent), task in tasks.items():
            task.result()
            manifest.record(cells_file(root, lab, extent.choice), made_from[lab])
    for lab in due:
        devices, index = [extent.choice for extent in extents_due[lab]], root / FOLDER / lab / "index.json"
        for path in index.parent.glob("*.json"):
            if path not in (index, *(cells_file(root, lab, choice) for choice in devices)):
                path.unlink()
        card_links.keep_only(root, lab, [choice.stem for choice in devices])
        device_times.keep_only(root, lab, [choice.stem for choice in devices])
        text = json.dumps(devices, indent=1) + "\n"
        if len(devices) == len(extents_by_lab[lab]):
            manifest.write(index, text, made_from[lab])
        else:  # it stays stale until the other devices are drawn
            write_whole(index, text)
            manifest.forget(index)


def unexecuted(root: Path, notebooks: Iterable[Path]) -> None:
    """Write pages without outputs for notebooks that this machine has not executed yet."""
    for notebook in notebooks:
        page = without_outputs(json.loads(notebook.read_text(encoding="utf-8")))
        write_whole(execute.page_of(root, notebook), json.dumps(page, indent=1) + "\n")


class Extent(NamedTuple):
    """A recorded device at a scale, and its number of rows of a lab, which decides how long it takes to draw."""

    scale: str
    place: str
    device: str
    rows: int

    @property
    def choice(self) -> DeviceChoice:
        """The device as readers choose it."""
        is_large = self.scale != SCALES[0]
        return DeviceChoice(
            f"{self.place}{LARGE}" if is_large else self.place,
            f"{self.device}, {self.scale} sizes" if is_large else self.device,
        )


def extents(root: Path, lab: str) -> list[Extent]:
    """List the lab's recorded devices at each scale: GPUs first, then by `by_extent`, as on all pages."""
    store = Store(root / "results", ("recorded",))
    ranks, listed = by_extent(store), []
    for scale in SCALES:
        records = recorded(registry.get(lab), store, scale)
        records.sort(
            key=lambda data: (
                data.store_device.kind != "gpu",
                -ranks.get(data.store_device.id, 0),
                data.store_device.id,
            )
        )
        listed += [Extent(scale, data.store_device.id, str(data.store_device), len(data.rows)) for data in records]
    return listed


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


def _draw(root: Path, lab: str, extent: Extent) -> None:
    """Write the outputs of a lab's notebook on a device, and the cards of its measurements."""
    store, choice = Store(root / "results"), extent.choice
    (data,) = (
        record for record in recorded(registry.get(lab), store, extent.scale) if record.store_device.id == extent.place
    )
    notebook = json.loads((root / "experiments" / f"{lab}.ipynb").read_text(encoding="utf-8"))
    measurements.draw_recorded(root, data, choice.stem, choice.label, store)
    cells = replay_notebook.replay(notebook, data, store)
    write_whole(cells_file(root, lab, choice), json.dumps(cells))
