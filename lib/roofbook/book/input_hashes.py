"""What pages, fragments, sections and the site are made from: hashes by the names that a user is told when one changes.

Of code the hash is of what it does: comments, docstrings and blank lines change none. Of kernels it is of the text, which pages
show. What a lab's page is made from leaves out the other labs.
"""

import hashlib
import json
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ..devices import provenance
from ..devices.contract import Device
from ..devices.find import open_device
from ..measure import placement
from ..paths import LIBRARY
from ..spec import registry
from ..spec.host_code import hash_of_code
from ..store.parquet import Store
from ..store.storage import located
from . import extension_code

KERNELS = (".k", ".cu", ".cl", ".h", ".c")


class InputHashes:
    """Those of things in the checkout `root`. Each file is read once: have one of these for one question."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[str, tuple[str, str]] = {}

    def page(self, notebook: Path, parameters: Mapping[str, Any]) -> dict[str, str]:
        """Of the page that executing `notebook` with `parameters` makes. UsageError for a device that is not here."""
        device = str(parameters.get("device") or "auto")
        return {
            "notebook": _hash(notebook.read_bytes()),
            "parameters": _hash_of(lasting(parameters)),
            **self._code(notebook.stem),
            "published": self._published(notebook.stem),
            "device": _hash_of(environment(notebook.stem, device)),
            "store": self.runs_of_page(notebook.stem, parameters),
        }

    def runs_of_page(self, lab: str, parameters: Mapping[str, Any]) -> str:
        """Of which runs the store holds of `lab`, and of peaks those that its page shows: the names alone, since a run never
        changes. What was measured of another device or backend leaves the page as it is."""
        store = Store(located(self.root, str(parameters.get("results") or "results")))
        peaks = store.names(registry.PEAKS, ("recorded",))
        names = sorted(set(peaks + (store.names(lab) if lab != registry.PEAKS else [])))
        if _is_lab(lab):
            device = open_device(str(parameters.get("device") or "auto"), registry.get(lab).preferred_backend)
            sql = "select distinct run from cells where lab = ? and device = ? and backend = ? order by run"
            here = [registry.PEAKS, device.slug, device.backend]
            names += Store(store.address, ("local",)).column(sql, here, registry.PEAKS, device.slug)
        return _hash_of(names)

    def recorded(self, lab: str, store: Store) -> dict[str, str]:
        """Of what a lab has on recorded devices."""
        runs = _runs(store.root, *(f"recorded/lab={each}" for each in (lab, registry.PEAKS)))
        return {**self._code(lab), "published": self._published(lab), "store": _hash_of(runs)}

    def story(self, notebook: Path, store: Store) -> dict[str, str]:
        """Of a lab's page on recorded devices."""
        return {"notebook": _hash(notebook.read_bytes()), **self.recorded(notebook.stem, store)}

    def kernels(self, lab: str) -> dict[str, str]:
        """Of the page of a lab's kernels."""
        return self._code(lab)

    def demonstration(self, lab: str, device: Device) -> dict[str, str]:
        """Of what a lab shows on a device beyond times."""
        return {**self._code(lab), "device": _hash_of(provenance.environment(device))}

    def verdicts(self, lab: str) -> dict[str, str]:
        """Of the fragment with the verdicts on a lab's claims: of the store, its runs and those of peaks at these scales."""
        from ..analysis.comparison import SCALES

        runs = [run for run in self._measured if run[0] in (lab, registry.PEAKS) and run[3] in SCALES]
        return {**self._code(lab), "published": self._published(lab), "store": _hash_of(runs)}

    def comparison(self) -> dict[str, str]:
        """Of the fragments that set devices side by side: of the store, the runs at the scales that are compared."""
        from ..analysis.comparison import QUICK, SCALES, at_quick

        quick = at_quick(
            (lab, device) for lab, device, kind, scale, _, _ in self._measured if (kind, scale) == ("cpu", QUICK)
        )
        runs = [run for run in self._measured if run[3] in SCALES or (run[3] == QUICK and run[0] in quick)]
        return {**self._code(), "published": self._published(), "store": _hash_of(runs)}

    def ladders(self) -> dict[str, str]:
        """Of the first page's ladders: of the store, what is recorded."""
        runs = _runs(self.root / "results", "recorded/lab=*")
        return {**self._code(), "published": self._published(), "store": _hash_of(runs)}

    def downloads(self) -> dict[str, str]:
        """Of what readers download: of the store, what is recorded."""
        runs = _runs(self.root / "results", "recorded/lab=*")
        return {"library": self._of("")[0], "published": self._published(), "store": _hash_of(runs)}

    def library(self) -> dict[str, str]:
        """Of the code that all labs share."""
        return {"library": self._of("")[0]}

    def cards(self, files: Iterable[Path]) -> dict[str, str]:
        """Of what is told of measurements: their cards, in these files."""
        return {**self.library(), "cards": _hash_of_files((str(path), path.read_bytes()) for path in files)}

    def citation(self) -> dict[str, str]:
        """Of how to cite the book."""
        return {"library": self._of("")[0], "settings": _hash((self.root / "_config.yml").read_bytes())}

    def ends(self, pages: Mapping[str, Any]) -> dict[str, str]:
        """Of the first page's table: of the store, all; and what the executed pages were made from."""
        runs = _runs(self.root / "results", "*/lab=*")
        return {**self._code(), "published": self._published(), "store": _hash_of(runs), "pages": _hash_of(pages)}

    def site(self) -> dict[str, str]:
        """Of the site: pages, executed notebooks, generated fragments, settings, the extension and the builder."""
        from importlib.metadata import version

        kinds: dict[str, list[tuple[str, bytes]]] = {"pages": [], "fragments": [], "assets": [], "settings": []}
        folder = self.root / "book"
        for path in _files(folder):
            place = path.relative_to(folder)
            kind = {"_generated": "fragments", "_assets": "assets"}.get(place.parts[0], "pages")
            kind = "settings" if path.suffix in (".yml", ".py") else kind
            kinds[kind].append((place.as_posix(), path.read_bytes()))
        kinds["settings"].append(("_config.yml", (self.root / "_config.yml").read_bytes()))
        made = [("recorded", "*.js*"), ("measurements", "*.js")]
        paths = sorted(path for folder, names in made for path in (self.root / "_build" / folder).rglob(names))
        drawn = {path: path.stat() for path in paths}
        kinds["devices"] = [  # megabytes, each written whole: to read them takes longer than all the rest
            (path.relative_to(self.root).as_posix(), f"{found.st_size} {found.st_mtime_ns}".encode())
            for path, found in drawn.items()
        ]
        builder = [version("jupyter-book"), version("sphinx"), list(sys.version_info)]
        return {
            **{kind: _hash_of_files(files) for kind, files in kinds.items()},
            "extension": extension_code.version(),
            "builder": _hash_of(builder),
        }

    def _published(self, lab: str | None = None) -> str:
        """Of the published figures and claims: a lab's own, or all of them without one."""
        folder = self.root / "results" / "published"
        own = [folder / f"{lab}.csv", folder / "claims" / f"{lab}.csv"]
        files = [path for path in own if path.is_file()] if _is_lab(lab) else folder.rglob("*.csv")
        return _hash_of_files((path.relative_to(folder).as_posix(), path.read_bytes()) for path in files)

    @cached_property
    def _measured(self) -> list[list[Any]]:
        """Lab, device, its kind, scale, run and how many cells it has, as one that was interrupted may have gone on."""
        cells = "select lab, device, device_kind, scale, run, count(*) from cells group by all order by all"
        return [list(row.values()) for row in Store(self.root / "results").arrow(cells).to_pylist()]

    @cached_property
    def _library(self) -> dict[str, dict[str, bytes]]:
        """Files by name: those of each lab, wherever it lies, and under '' the library's others."""
        found: dict[str, dict[str, bytes]] = {"": {}}
        for path in _files(LIBRARY):
            place = path.relative_to(LIBRARY)
            lab = place.parts[1] if place.parts[0] == "labs" and len(place.parts) > 2 else ""
            found.setdefault(lab, {})[place.as_posix()] = path.read_bytes()
        for lab, folder in registry.folders().items():
            if lab not in found:  # a lab that lies elsewhere
                found[lab] = {f"labs/{lab}/{path.relative_to(folder)}": path.read_bytes() for path in _files(folder)}
        return found

    def _code(self, lab: str | None = None) -> dict[str, str]:
        """Of the library, the code of a lab with what it needs of others (of all labs without one), and their kernels."""
        labs = sorted(self.with_imported(lab) if lab in self._library else self._library.keys() - {""})
        own = {name: self._of(name) for name in labs}
        library, shared = self._of("")
        return {
            "library": library,
            "lab": _hash_of({name: code for name, (code, _) in own.items()}),
            "kernels": _hash_of([shared, {name: kernels for name, (_, kernels) in own.items()}]),
        }

    def _of(self, lab: str) -> tuple[str, str]:
        """Of a lab's own files: the hash of its code, and that of its kernels."""
        if lab not in self._hashes:
            files = self._library.get(lab, {}).items()
            code = hash_of_code((name, text) for name, text in files if not name.endswith(KERNELS))
            self._hashes[lab] = code, _hash_of_files((name, text) for name, text in files if name.endswith(KERNELS))
        return self._hashes[lab]

    def with_imported(self, lab: str) -> frozenset[str]:
        """A lab, that of the peaks, and all labs that a line of import in one of these names."""
        found: set[str] = set()
        due = {lab, registry.PEAKS}
        while due:
            found.add(each := due.pop())
            text = b"\n".join(text for name, text in self._library.get(each, {}).items() if name.endswith(".py"))
            imports = set(re.findall(r"\w+", " ".join(re.findall(r"^\s*(?:from|import)\b.*", text.decode(), re.M))))
            due |= (imports & self._library.keys()) - found
        return frozenset(found)


def lasting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that say what a page shows; `remeasure` says only what to do this time."""
    return {name: value for name, value in parameters.items() if name != "remeasure"}


def _is_lab(name: str | None) -> bool:
    return name in (*registry.names(), registry.PEAKS)


def environment(lab: str, device: str) -> dict[str, Any]:
    """Where a lab's notebook would run now; of any other notebook, the interpreter."""
    if not _is_lab(lab):
        return {"python": platform.python_version()}
    known = registry.get(lab)
    compilers = {variant.plan: placement.compilers_of(variant) for variant in known.all_variants()}
    named = sorted({f"{what} {version}" for each in compilers.values() for what, version in each.items()})
    return {**provenance.environment(open_device(device, known.preferred_backend)), "compilers": named}


def _runs(results: Path, *folders: str) -> list[str]:
    """The names of the runs in these folders of a store: enough, since a run never changes."""
    found = {path for folder in folders for path in results.glob(f"{folder}/**/*.parquet")}
    return sorted(str(path.relative_to(results)) for path in found)


def _files(folder: Path) -> Iterator[Path]:
    """All files but hidden ones and what Python compiled."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith((".", "__pycache__")) for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash_of(data: Any) -> str:
    return _hash(json.dumps(data, sort_keys=True, default=str).encode())


def _hash_of_files(files: Iterable[tuple[str, bytes]]) -> str:
    return _hash_of(sorted((name, _hash(text)) for name, text in files))
