"""Hashes that say what something was made from: a page, the fragments of pages, what is on record of a lab.

Who keeps what was made keeps its key beside it, and makes it again only when the key is another.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..devices import provenance
from ..devices.find import open_device
from ..paths import LIBRARY
from ..spec import registry
from ..store.parquet import Store


def source_key(root: Path, notebook: Path, parameters: Mapping[str, Any]) -> str:
    """Hash of what computes a page: notebook, parameters, library, published figures, the device with its driver."""
    where = _environment(notebook.stem, str(parameters.get("device") or "auto"))
    return _hashed([lasting(parameters), where], [notebook, *_library(root)])


def fragments_keys(root: Path) -> dict[str, str]:
    """Hashes of what the pages' fragments are made from: the library, the published figures, and of the store

    - compared (verdicts, devices side by side): the runs that it holds at the scales that are compared;
    - ladders: which are on record;
    - ends: which it holds at all.
    """
    from ..analysis.comparison import SCALES

    store = Store(root / "results")
    cells = "select lab, device, run, count(*) from cells where list_contains(?, scale) group by all order by all"
    runs = store.query(cells, [SCALES])  # an interrupted one may have gone on: its cells are counted
    held = {
        "compared": runs.to_numpy().tolist(),
        "ladders": _names(store.root, "recorded/lab=*"),
        "ends": _names(store.root, "*/lab=*"),
    }
    library = _hashed(None, _library(root))
    return {name: _hashed([library, which], []) for name, which in held.items()}


def records_key(store: Store, lab: str) -> str:
    """Hash of what a lab's sections on record are made from: library, and its recorded runs and those of the ceilings."""
    return _hashed(_names(store.root, *(f"recorded/lab={each}" for each in (lab, registry.PEAKS))), _files(LIBRARY))


def _names(results: Path, *folders: str) -> list[str]:
    """The names of the runs in these folders of a store: enough, since a run never changes."""
    found = {path for folder in folders for path in results.glob(f"{folder}/**/*.parquet")}
    return sorted(str(path.relative_to(results)) for path in found)


def _library(root: Path) -> list[Path]:
    return [*_files(LIBRARY), *_files(root / "results" / "published")]


def _hashed(told: Any, files: Iterable[Path]) -> str:
    digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
    for path in files:
        digest.update(f"\0{path.name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def lasting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that say what a page shows; `remeasure` says only what to do this time."""
    return {name: value for name, value in parameters.items() if name != "remeasure"}


def _environment(lab: str, device: str) -> dict[str, Any]:
    """Where a lab's notebook would run now; of any other notebook, the interpreter."""
    if lab not in (*registry.names(), registry.PEAKS):
        return {"python": platform.python_version()}
    return provenance.environment(open_device(device, registry.get(lab).preferred_backend))


def store_key(root: Path, lab: str, parameters: Mapping[str, Any]) -> str:
    """Hash of which runs the store holds for `lab`, and of ceilings those that its page shows: the names alone, since a run
    never changes. What was measured of another device or backend leaves the page as it is."""
    results = root / str(parameters.get("results") or "results")
    names = _names(results, f"recorded/lab={registry.PEAKS}", *([f"*/lab={lab}"] if lab != registry.PEAKS else []))
    if lab in (*registry.names(), registry.PEAKS):
        device = open_device(str(parameters.get("device") or "auto"), registry.get(lab).preferred_backend)
        only = {"device": device.slug, "backend": device.backend}
        names += sorted(set(Store(results).rows(registry.PEAKS, where=("local",), **only)["run"]))
    return hashlib.sha256("\n".join(names).encode()).hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    return (p for p in sorted(folder.rglob("*")) if p.is_file() and "__pycache__" not in p.parts and p.name[0] != ".")
