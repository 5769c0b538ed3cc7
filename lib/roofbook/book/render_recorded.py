"""What the page of each lab shows on each recorded device: drawn once, and again where code, notebook or records changed.

It lies in _build/recorded: a folder a lab, with `index.json`, which lists the devices, and a folder for each of its pages.
In that is a script for each device, which a browser loads when a reader chooses it. The site's extension takes it from there.
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
from .device_switch import finished
from .input_hashes import InputHashes
from .lab_pages import STORY
from .manifest import Manifest

SCALES = ("published", "large")
_BEST = {"devices": "the best one alone"}
"""What a lab was made from of which only the best device is drawn: it is stale until the others are."""


def stale(root: Path, now: InputHashes | None = None) -> list[str]:
    """The labs whose pages on recorded devices are not of today's code, notebook and records."""
    manifest, now, store = Manifest(root), now or InputHashes(root), Store(root / "results")

    def gone(lab: str) -> bool:
        folders = [path for path in (root / FOLDER / lab).iterdir() if path.is_dir()] or [root / FOLDER / lab]
        listed = choices(root, lab)
        undrawn = any(not (folder / each.script).exists() for folder in folders for each in listed)
        return undrawn or not all(card_links.drawn(root, lab, each.stem) for each in listed)

    return [
        notebook.stem
        for notebook in execute.notebooks(root)
        if _of_lab(notebook.stem)
        if manifest.stale(root / FOLDER / notebook.stem / "index.json", now.story(notebook, store))
        or gone(notebook.stem)
    ]


def draw(root: Path, *, best_only: bool = False) -> None:
    """Draw what is stale, on all cores. best_only: of each lab the device that its pages show first, and no other yet."""
    if not (due := stale(root)):
        return
    store, now, manifest = Store(root / "results"), InputHashes(root), Manifest(root)
    notebooks = {path.stem: path for path in execute.notebooks(root)}
    made_from = {lab: now.story(notebooks[lab], store) for lab in due}
    begun = {lab: _best_drawn(root, lab, manifest, made_from[lab]) for lab in due}
    with _processes() as submit:
        counted = {lab: submit(extents, root, lab) for lab in due}
        found = {lab: each.result() for lab, each in counted.items()}
        wanted = {lab: each[len(begun[lab]) : 1 if best_only else None] for lab, each in found.items()}
        longest = sorted(((lab, each) for lab in due for each in wanted[lab]), key=lambda one: -one[1].rows)
        drawn = {one: submit(_draw, root, one[0], one[1].scale, one[1].place) for one in longest}
        for lab in due:
            done, folder = [*begun[lab], *(drawn[lab, each].result() for each in wanted[lab])], root / FOLDER / lab
            made = made_from[lab] | (_BEST if len(done) < len(found[lab]) else {})
            kept = {path for _, paths in done for path in paths}
            for old in set(folder.rglob("*.js")) - kept:
                if not old.name.startswith(f"{HERE.stem}."):  # whoever renews the site beside this may be writing one
                    old.unlink()
            for page in folder.glob("*/"):
                if not any(page.iterdir()):
                    page.rmdir()
            listed = [choice for choice, _ in done]
            card_links.keep_only(root, lab, [each.stem for each in listed])
            table_files.only(root, lab, {HERE.name, *(each.stem for each in listed)})
            manifest.write(folder / "index.json", json.dumps(listed, indent=1) + "\n", made)


def _best_drawn(
    root: Path, lab: str, manifest: Manifest, made_from: Mapping[str, str]
) -> list[tuple[DeviceChoice, list[Path]]]:
    """The best device and its scripts, where it alone is drawn, and as it would be now."""
    folder, listed = root / FOLDER / lab, choices(root, lab)
    if len(listed) != 1 or manifest.stale(folder / "index.json", {**made_from, **_BEST}):
        return []
    scripts = [path for path in folder.glob("*/*.js") if not path.name.startswith(f"{HERE.stem}.")]
    if (folder / STORY / listed[0].script) not in scripts or not card_links.drawn(root, lab, listed[0].stem):
        return []
    return [(listed[0], scripts)]


def unexecuted(root: Path, notebooks: Iterable[Path]) -> None:
    """Write the pages of these notebooks for a machine that has not executed them yet."""
    for notebook in notebooks:
        made = replay_notebook.unmeasured(json.loads(notebook.read_text(encoding="utf-8")))
        write_whole(execute.page_of(root, notebook), json.dumps(made, indent=1) + "\n")


def _of_lab(name: str) -> bool:
    return name in (*registry.names(), registry.PEAKS)


class Extent(NamedTuple):
    """A recorded device at a scale, and how many rows a lab has of it: so long it takes to draw."""

    scale: str
    place: str
    rows: int


def extents(root: Path, lab: str) -> list[Extent]:
    """Of a lab at each scale, a GPU before a CPU, and of such the one with most measurements, as it has the libraries.

    Where several have nearly as many, that comes first of which most is recorded in all labs: most pages open with one device.
    """
    store = Store(root / "results", ("recorded",))
    found = []
    for scale in SCALES:
        there = recorded(registry.get(lab), store, scale)
        number = {data.store_device.id: len(data.rows.drop_duplicates(["variant", "case"])) for data in there}
        gpus = [data.store_device.id for data in there if data.store_device.kind == "gpu"]
        near = [place for place in gpus if number[place] >= NEARLY * max(map(number.__getitem__, gpus))]
        ranks = _in_all_labs(store) if len(near) > 1 else {}
        there.sort(key=lambda data: -number[data.store_device.id])
        there.sort(key=lambda data: -ranks.get(data.store_device.id, 0) if data.store_device.id in near else 1)
        there.sort(key=lambda data: data.store_device.kind != "gpu")
        found += [Extent(scale, data.store_device.id, len(data.rows)) for data in there]
    return found


NEARLY = 0.9
"""Of the most measurements, from which on a device has as good as all of them."""


def _in_all_labs(store: Store) -> dict[str, int]:
    """By `StoreDevice.id`, the variants on cases of which a place has a measurement, in all labs together."""
    sql = 'SELECT device, backend, count(DISTINCT (lab, variant, "case")) FROM cells GROUP BY ALL'
    return {StoreDevice(device, backend, "", "").id: count for device, backend, count in store.query(sql).to_numpy()}


@contextlib.contextmanager
def _processes() -> Iterator[Callable[..., Future[Any]]]:
    """Submits work to a process for each core. Ctrl-C is for whoever waits for them, who ends them: they never get it."""

    def submit(work: Callable[..., Any], *of_what: Any) -> Future[Any]:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a process that starts inherits this
        try:
            return pool.submit(work, *of_what)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), initializer=_draws) as pool:
        try:
            yield submit
        except BaseException:
            pool.shutdown(wait=False)
            for process in multiprocessing.active_children():
                process.kill()
            raise


def _draws() -> None:
    """For a process that draws."""
    end_with_parent()
    memory.collect_seldom()


def _draw(root: Path, lab: str, scale: str, place: str) -> tuple[DeviceChoice, list[Path]]:
    """Write what each page of a lab shows of a device; return where."""
    store = Store(root / "results")
    (data,) = (each for each in recorded(registry.get(lab), store, scale) if each.store_device.id == place)
    notebook = json.loads((root / "experiments" / f"{lab}.ipynb").read_text(encoding="utf-8"))
    apart = scale != SCALES[0]
    choice = DeviceChoice(
        f"{place}{LARGE}" if apart else place,
        f"{data.store_device}, {scale} sizes" if apart else str(data.store_device),
    )
    shown, files = table_files.of_cells(finished(replay_notebook.told(notebook, data, store)), lab, choice.stem)
    table_files.write(root / table_files.DRAWN / lab / choice.stem, files)
    shown = card_links.known(shown, measurements.draw_recorded(root, data, choice.stem, choice.label, store))
    return choice, write_scripts(root, lab, choice, notebook, shown)
