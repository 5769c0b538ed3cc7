"""HTML fragments that written pages take from the store; each is made again only if its inputs change.

The fragments are in book/_generated: verdicts on claims, comparisons of devices, the overview of all labs, exercises. The pages
of the labs' kernels (kernels_page.py) are made with them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..analysis.publication import publication
from ..analysis.recorded import RecordedData, recorded
from ..analysis.roofline import COSTS
from ..analysis.store_devices import by_extent
from ..analysis.verdicts import Judged, command, judged, only
from ..escaping import escape, markdown, raw_html
from ..paths import cache_key, cached_text
from ..report import sanitizer_checks
from ..report.html import Cell
from ..report.ladder_descent import GlanceRow
from ..report.peaks_table import peak_times
from ..report.webgpu_lacks import lacks
from ..spec import registry
from ..spec.exercise import exercises
from ..spec.lab import Lab
from ..store.parquet import Store
from . import (
    card_links,
    downloads,
    execute,
    exercises_page,
    front_page,
    history_page,
    kernels_page,
    lesson_page,
    measurements,
    my_gpu,
    report_differences,
    studies,
    techniques_page,
)
from .device_choices import HERE
from .experiment import Experiment, known
from .input_hashes import InputHashes
from .manifest import Manifest
from .run_buttons import run_index

if TYPE_CHECKING:
    from ..report import Table

CLAIMS = ("{}-claims.html", "claims-failed-{}.html")
"""Names of a lab's fragments on the page of claims: all verdicts, and the claims that did not hold."""


def update(root: Path) -> None:
    """Make the stale fragments of the checkout `root`. An empty fragment has no file."""
    folder, store = root / "book" / "_generated", Store(root / "results")
    manifest, now = Manifest(root), InputHashes(root)
    folder.mkdir(exist_ok=True)

    def renew(paths: Sequence[Path], made_from: Mapping[str, str], make: Callable[[], str | Sequence[str]]) -> None:
        if any(manifest.stale(path, made_from) for path in paths):
            texts = make()
            for path, text in zip(paths, [texts] if isinstance(texts, str) else texts, strict=True):
                manifest.write(path, text, made_from)

    kernels_page.update(root, manifest, now)
    names = ("devices-pick.html", "devices-data.js", "devices-overview.html", "devices-labs.html")
    devices = [root / "book" / "labs" / lab / "devices.md" for lab in registry.names_of_site()]
    renew([*(folder / name for name in names), *devices], now.comparison(), partial(_devices_compared, store))
    for lab in map(registry.get, registry.names_of_site()):
        if publication(lab).evidence:
            paths = [folder / name.format(lab.name) for name in CLAIMS]
            renew(paths, now.verdicts(lab.name), partial(_verdicts, lab, store))
        if exercises(lab).write:
            paths = [folder / f"exercise-{lab.name}-{part}.html" for part in exercises_page.PARTS]
            renew(
                paths,
                now.recorded(lab.name, store),
                partial(exercises_page.parts, lab, store, run_index(root, lab.name)),
            )

    @cache
    def all_recorded() -> tuple[list[RecordedData], Mapping[str, int]]:
        ranks = by_extent(Store(root / "results", ("recorded",)))
        return front_page.all_recorded(store), ranks

    def gpu_parts() -> list[str]:
        return [make(*all_recorded()) for make in (my_gpu.form, my_gpu.script)]

    def unlike() -> str:
        return report_differences.unlike_published(front_page.on_one_device(*all_recorded()), store)

    made_from = now.ladders()
    renew([folder / "glance-found.html"], made_from, lambda: front_page.found(*all_recorded()))
    renew([folder / "my-gpu.html", folder / "my-gpu-data.js"], made_from, gpu_parts)
    renew([folder / "published-unlike.html"], made_from, unlike)
    renew([folder / "glance-ladders.html"], made_from, lambda: front_page.ladders(*all_recorded()))

    renew(
        [folder / "webgpu-languages.html"],
        now.ladders(),
        partial(_gpu_languages, Store(root / "results", ("recorded",))),
    )

    renew([folder / "sanitizer-checks.html"], now.checks(), partial(sanitizer_checks.checks, root / "results"))
    renew([folder / "webgpu-lacks.html"], now.texts_of_labs(), lambda: lacks().html)

    executed = {notebook.stem: notebook for notebook in execute.notebooks(root) if _has_page_of_lab(root, notebook)}
    pages = {lab: manifest.made_from(execute.page_of(root, notebook)) for lab, notebook in executed.items()}
    path, made_from = folder / "glance-ends.html", now.ends(pages)
    if manifest.stale(path, made_from):
        lines = []
        for lab in map(registry.get, registry.names_of_site()):
            lines += _cached_rows(now.recorded(lab.name, store), partial(_recorded_ends, lab, store))
            if page_inputs := pages.get(lab.name):
                parameters = execute.parameters_of(root, executed[lab.name])
                code = {"library of the lines": made_from["library"]}  # the page may have been made by an older library
                lines += _cached_rows({**page_inputs, **code}, partial(_own_ends, lab, parameters, root))
        manifest.write(path, front_page.ends(lines), made_from)

    _renew_cards(root, manifest, now)
    history_page.update(root, manifest, now)
    _renew_downloads(root, manifest, now)
    made_from = now.downloads()
    renew([folder / "devices-costs.html"], made_from, partial(costs, root / "results"))
    for notebook in studies.notebooks(root):
        paths = [folder / name for name in studies.fragment_names(notebook)]
        results = str(root / "results")
        renew(paths, now.study(notebook), partial(studies.fragments, notebook, results=results))
    lesson_page.update(root, manifest, now, store)
    techniques_page.update(root, manifest, now, store)


def _renew_cards(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Draw the cards of this machine's measurements, for each executed page."""
    for notebook in execute.notebooks(root):
        lab, page = notebook.stem, execute.page_of(root, notebook)
        if lab not in registry.names_with_peaks() or not page.exists():
            continue
        path, made_from = root / card_links.FOLDER / lab / HERE.script, {**manifest.made_from(page), **now.library()}
        if manifest.stale(path, made_from):
            measurements.draw_here(
                root, Experiment(lab, known(execute.parameters_of(root, notebook)), root), HERE.label
            )
            manifest.record(path, made_from)


def costs(results: Path) -> str:
    """Return a table of the cost of a launch, a barrier and a fence on each recorded device; '' if no device has them."""
    peaks = registry.get(registry.PEAKS)
    changes = {variant.name: variant.change for variant in peaks.ladder if variant.options["group"] == COSTS}
    rows_by_device = {str(record.store_device): record.rows for record in recorded(peaks, Store(results))}
    rows = {device: rows[rows["variant"].isin(list(changes))] for device, rows in rows_by_device.items()}
    measured = {device: device_rows for device, device_rows in rows.items() if len(device_rows)}
    caption = "What a launch, a barrier and a fence cost"
    return peak_times(measured, COSTS, changes, caption=caption).html if measured else ""


def _renew_downloads(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Make the files that the page on data offers, its list of them, and the citation of the book."""
    folder = root / "book" / "_generated"
    path, made_from = folder / "data-files.html", now.downloads()
    rows_at = folder / downloads.FOLDER / downloads.ROWS
    if manifest.stale(path, made_from) or manifest.stale(rows_at, made_from):
        rows, extent = downloads.recorded_rows(root / "results")
        files = ({downloads.ROWS: rows} if rows else {}) | downloads.published(root / "results")
        for obsolete in rows_at.parent.glob("*"):
            if obsolete.name not in files:
                obsolete.unlink()
        for name, content in {downloads.ROWS: rows, **files}.items():
            manifest.write(rows_at.parent / name, content, made_from)
        manifest.write(path, downloads.file_list(files, extent), made_from)
    path, made_from = folder / "data-cite.html", now.citation()
    if manifest.stale(path, made_from):
        manifest.write(path, downloads.cite(root), made_from)


def _has_page_of_lab(root: Path, notebook: Path) -> bool:
    return notebook.stem in registry.names() and execute.page_of(root, notebook).exists()


def _recorded_ends(lab: Lab, store: Store) -> list[GlanceRow]:
    return front_page.recorded_ends(recorded(lab, store))


def _own_ends(lab: Lab, parameters: Mapping[str, Any], root: Path) -> list[GlanceRow]:
    return front_page.own_ends(Experiment(lab.name, known(parameters), root))


def _cached_rows(made_from: Mapping[str, str], make: Callable[[], Sequence[GlanceRow]]) -> list[GlanceRow]:
    """Return the lines of `make`, cached by their inputs: a change to one lab makes only that lab's lines again."""
    text = cached_text(
        "ends", cache_key(json.dumps(made_from, sort_keys=True)), lambda: json.dumps(list(map(asdict, make())))
    )
    return [GlanceRow(**line | {"cells": [Cell(**cell) for cell in line["cells"]]}) for line in json.loads(text)]


def verdicts(lab: Lab, lines: Sequence[Judged], on: str | None = None) -> "tuple[Table, Table]":
    """Return tables of the verdicts on the claims of a lab's report, on one device or on all, and of the measurements behind
    them.
    """
    from ..report import claim_measurements, claims

    chosen = only(lines, on) if on else lines
    return claims(chosen, lab.title, lab.name), claim_measurements(lines, _commands(lab, lines), lab.title)


def _commands(lab: Lab, lines: Sequence[Judged]) -> dict[str, str]:
    """Return the command that measures a claim's variants again, by the claim's id."""
    return {line.id: command(lab, publication(lab).evidence.get(line.id, ())) for line in lines}


def _verdicts(lab: Lab, store: Store) -> tuple[str, str]:
    """Return a lab's fragments on the page of claims, in the order of CLAIMS."""
    from ..report import failed_claims

    lines = judged(lab, store)
    verdict_table, cells = verdicts(lab, lines)
    content = f"{verdict_table.html}<details><summary>{escape(cells.caption)}</summary>\n{cells.html}</details>"
    return (
        f'<details class="verdicts"><summary>{escape(verdict_table.caption)}</summary>\n{content}</details>\n',
        failed_claims(lines, lab.name, lab.title, _commands(lab, lines)),
    )


def _gpu_languages(store: Store) -> str:
    """Return the tables of each GPU that WebGPU was measured on beside its main backend; '' without one."""
    from ..analysis.gpu_languages import steps_by_gpu
    from ..report.gpu_languages_table import of_lab, overview

    parts = list[str]()
    for steps in steps_by_gpu(store).values():
        parts.append(overview(steps).html)
        for lab in dict.fromkeys(step.lab for step in steps):
            steps_of_lab = [step for step in steps if step.lab is lab]
            summary = f"{lab.title}, step by step: {len(steps_of_lab)} measurements"
            parts.append(f"<details><summary>{escape(summary)}</summary>\n{of_lab(steps_of_lab).html}</details>")
    return "\n".join(parts)


def _devices_compared(store: Store) -> Sequence[str]:
    """Return the fragments of the page that compares devices: form, script, overview, links to the labs; then each lab's
    page.

    All are '' if nothing is recorded.
    """
    from ..analysis.comparison import compared, scales
    from ..report.comparison_table import PICKER, cases, overview, picker_script

    scales_of = scales(store)
    labs = [registry.get(name) for name in registry.names_of_site()]
    by_lab = {
        lab: [comparison for scale in scales_of(lab) for comparison in compared(lab, store, scale)] for lab in labs
    }
    comparisons = [comparison for of_lab in by_lab.values() for comparison in of_lab]
    if not comparisons:
        return [""] * (4 + len(labs))
    pages = [
        f"""# {markdown(lab.title)}: devices

Each case with all of its variants, on every recorded device. The page on [devices side by side](../../devices.md)
explains the tables, and compares any devices that you choose.

{raw_html(cases(of_lab).html)}"""
        if of_lab
        else ""
        for lab, of_lab in by_lab.items()
    ]
    links = "".join(
        f'<li><a href="labs/{lab.name}/devices.html">{escape(lab.title)}</a></li>'
        for lab, of_lab in by_lab.items()
        if of_lab
    )
    overviews = "".join(table.html for table in overview(comparisons))
    return [PICKER, picker_script(comparisons), overviews, f"<ul>{links}</ul>\n", *pages]
