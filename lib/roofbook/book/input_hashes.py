"""Hashes of all inputs of pages, fragments, sections and the site, by the names that messages use when one changes.

The hash of code ignores comments, docstrings and blank lines. The hash of a kernel covers its text, which pages show. The
inputs of a lab's page leave out the other labs.
"""

import hashlib
import json
import platform
import re
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from ..devices import provenance
from ..devices.contract import Device
from ..devices.find import open_device
from ..measure import placement
from ..measure.sanitizer_record import FOLDER, MOST_BYTES
from ..paths import LIBRARY, read_regular
from ..spec import registry
from ..spec.host_code import hash_of_code
from ..store.parquet import Store
from ..store.storage import located
from . import extension_code

KERNELS = (".k", ".cu", ".cl", ".h", ".c")


class InputHashes:
    """Input hashes of everything the build makes. Reads each file once: create one per build."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._hashes: dict[str, tuple[str, str]] = {}

    def page(self, notebook: Path, parameters: Mapping[str, Any]) -> dict[str, str]:
        """Return the inputs of the page that executing `notebook` with `parameters` makes.

        Raise UsageError for an absent device.
        """
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
        """Return a hash of the names of all runs of `lab`, and of the peaks that its page shows.

        Names suffice: a run never changes. Peaks of another device or backend do not count.
        """
        store = Store(located(self.root, str(parameters.get("results") or "results")))
        peaks = store.names(registry.PEAKS, ("recorded",))
        names = sorted(set(peaks + (store.names(lab) if lab != registry.PEAKS else [])))
        if lab in registry.names_with_peaks():
            device = open_device(str(parameters.get("device") or "auto"), registry.get(lab).preferred_backend)
            sql = "select distinct run from cells where lab = ? and device = ? and backend = ? order by run"
            arguments = [registry.PEAKS, device.slug, device.backend]
            names += Store(store.address, ("local",)).column(sql, arguments, registry.PEAKS, device.slug)
        return _hash_of(names)

    def recorded(self, lab: str, store: Store) -> dict[str, str]:
        """Return the inputs of a lab's output on recorded devices."""
        runs = _runs(store.root, *(f"recorded/lab={name}" for name in (lab, registry.PEAKS)))
        return {**self._code(lab), "published": self._published(lab), "store": _hash_of(runs)}

    def story(self, notebook: Path, store: Store) -> dict[str, str]:
        """Return the inputs of a lab's page on recorded devices."""
        return {"notebook": _hash(notebook.read_bytes()), **self.recorded(notebook.stem, store)}

    def study(self, notebook: Path) -> dict[str, str]:
        """Return the inputs of a study's tables, with all recorded runs and tuned spaces."""
        tuned = _runs(self.root / "results", "tuning/recorded/lab=*")
        return {"notebook": _hash(notebook.read_bytes()), "tuned": _hash_of(tuned), **self.downloads()}

    def lesson(self, lab: str, store: Store) -> dict[str, str]:
        """Return the inputs of a lab's lesson: its recorded runs, all devices, its runs here, and the installed packages."""
        runs = {
            "devices": _runs(store.root, "recorded/lab=*"),
            "runs of this machine": _runs(store.root, f"local/lab={lab}"),
        }
        packages = Path(sysconfig.get_path("purelib")).stat().st_mtime_ns
        hashes = {name: _hash_of(names) for name, names in runs.items()}
        return {**self.citation(), **hashes, "packages": str(packages), **self.recorded(lab, store)}

    def kernels(self, lab: str | None = None) -> dict[str, str]:
        """Return the inputs of the page of a lab's kernels, or of a page about the code of all labs."""
        return self._code(lab)

    def demonstration(self, lab: str, device: Device) -> dict[str, str]:
        """Return the inputs of a lab's demonstration on a device."""
        return {**self._code(lab), "device": _hash_of(provenance.environment(device))}

    def verdicts(self, lab: str) -> dict[str, str]:
        """Return the inputs of the fragment with verdicts on a lab's claims, with its runs and peaks at the scales compared."""
        from ..analysis.comparison import SCALES

        runs = [run for run in self._measured if run[0] in (lab, registry.PEAKS) and run[3] in SCALES]
        return {**self._code(lab), "published": self._published(lab), "store": _hash_of(runs)}

    def comparison(self) -> dict[str, str]:
        """Return the inputs of the fragments that compare devices, with all runs at the scales compared."""
        from ..analysis.comparison import QUICK, SCALES, at_quick

        quick = at_quick(
            (lab, device, kind, backend) for lab, device, kind, scale, _, backend, _ in self._measured if scale == QUICK
        )
        runs = [run for run in self._measured if run[3] in SCALES or (run[3] == QUICK and run[0] in quick)]
        return {**self._code(), "published": self._published(), "store": _hash_of(runs)}

    def ladders(self) -> dict[str, str]:
        """Return the inputs of the first page's ladders, with all recorded runs."""
        runs = _runs(self.root / "results", "recorded/lab=*")
        return {**self._code(), "published": self._published(), "store": _hash_of(runs)}

    def downloads(self) -> dict[str, str]:
        """Return the inputs of downloads, with all recorded runs."""
        runs = _runs(self.root / "results", "recorded/lab=*")
        return {**self.library(), "published": self._published(), "store": _hash_of(runs)}

    def checks(self) -> dict[str, str]:
        """Return the inputs of the tables of compute-sanitizer, with its files and the labs' kernels."""
        files: list[tuple[str, bytes]] = []
        for path in (self.root / "results" / FOLDER).glob("*.json"):
            try:
                files.append((path.name, read_regular(path, MOST_BYTES)))
            except OSError as error:
                files.append((path.name, str(error.errno).encode()))
        return {**self._code(), "checks": _hash_of_files(files)}

    def texts_of_labs(self) -> dict[str, str]:
        """Return the hashes of all labs' code and kernels, for what needs no record."""
        return self._code()

    def library(self) -> dict[str, str]:
        """Return the hash of the code that all labs share."""
        return {"library": self._own_hashes("")[0]}

    def cards(self, files: Iterable[Path]) -> dict[str, str]:
        """Return the inputs of a page about measurements: their cards, in these files."""
        return {**self.library(), "cards": _hash_of_files((str(path), path.read_bytes()) for path in files)}

    def citation(self) -> dict[str, str]:
        """Return the inputs of the citations of the book and its labs."""
        references = self.root / "book" / "references.bib"
        return {
            **self._code(),
            "settings": _hash((self.root / "_config.yml").read_bytes()),
            "references": _hash(references.read_bytes()) if references.exists() else "",
        }

    def ends(self, pages: Mapping[str, Any]) -> dict[str, str]:
        """Return the inputs of the first page's table: all runs, and the inputs of the executed pages."""
        runs = _runs(self.root / "results", "*/lab=*")
        return {**self._code(), "published": self._published(), "store": _hash_of(runs), "pages": _hash_of(pages)}

    def site(self) -> dict[str, str]:
        """Return the inputs of the site: pages, executed notebooks, generated fragments, settings, the extension and the
        builder.
        """
        from importlib.metadata import version

        kinds: dict[str, list[tuple[str, bytes]]] = {"pages": [], "fragments": [], "assets": [], "settings": []}
        folder = self.root / "book"
        for path in _files(folder):
            relative = path.relative_to(folder)
            kind = {"_generated": "fragments", "_assets": "assets"}.get(relative.parts[0], "pages")
            kind = "settings" if path.suffix in (".yml", ".py") else kind
            kinds[kind].append((relative.as_posix(), path.read_bytes()))
        kinds["settings"].append(("_config.yml", (self.root / "_config.yml").read_bytes()))
        patterns = [("recorded", "*.json"), ("measurements", "*.js")]
        paths = sorted(path for folder, pattern in patterns for path in (self.root / "_build" / folder).rglob(pattern))
        stats = {path: path.stat() for path in paths}
        kinds["devices"] = [  # megabytes, and written atomically: size and time suffice
            (path.relative_to(self.root).as_posix(), f"{stat.st_size} {stat.st_mtime_ns}".encode())
            for path, stat in stats.items()
        ]
        builder = [version("jupyter-book"), version("sphinx"), list(sys.version_info)]
        return {
            **{kind: _hash_of_files(files) for kind, files in kinds.items()},
            "extension": extension_code.version(),
            "builder": _hash_of(builder),
        }

    def _published(self, lab: str | None = None) -> str:
        """Return a hash of the published figures and claims of a lab, or of all labs."""
        folder = self.root / "results" / "published"
        paths = [folder / f"{lab}.csv", folder / "claims" / f"{lab}.csv"]
        files = (
            [path for path in paths if path.is_file()] if lab in registry.names_with_peaks() else folder.rglob("*.csv")
        )
        return _hash_of_files((path.relative_to(folder).as_posix(), path.read_bytes()) for path in files)

    @cached_property
    def _measured(self) -> list[list[Any]]:
        """(lab, device, kind of device, scale, run, backend, number of rows) of each run: an interrupted one may have grown."""
        cells = "select lab, device, device_kind, scale, run, backend, count(*) from cells group by all order by all"
        return [list(row.values()) for row in Store(self.root / "results").arrow(cells).to_pylist()]

    @cached_property
    def _library(self) -> dict[str, dict[str, bytes]]:
        """Contents of files by name, for each lab wherever it lies, and under '' for the rest of the library."""
        files_by_lab: dict[str, dict[str, bytes]] = {"": {}}
        for path in _files(LIBRARY):
            relative = path.relative_to(LIBRARY)
            lab = relative.parts[1] if relative.parts[0] == "labs" and len(relative.parts) > 2 else ""
            files_by_lab.setdefault(lab, {})[relative.as_posix()] = path.read_bytes()
        for lab, folder in registry.folders().items():
            if lab not in files_by_lab:  # a lab outside the library
                files_by_lab[lab] = {
                    f"labs/{lab}/{path.relative_to(folder)}": path.read_bytes() for path in _files(folder)
                }
        return files_by_lab

    def _code(self, lab: str | None = None) -> dict[str, str]:
        """Return hashes of the library, of a lab's code with the labs that it imports (all labs without one), and of their
        kernels.
        """
        labs = sorted(self.with_imported(lab) if lab in self._library else self._library.keys() - {""})
        hashes = {name: self._own_hashes(name) for name in labs}
        library, shared = self._own_hashes("")
        return {
            "library": library,
            "lab": _hash_of({name: code for name, (code, _) in hashes.items()}),
            "kernels": _hash_of([shared, {name: kernels for name, (_, kernels) in hashes.items()}]),
        }

    def _own_hashes(self, lab: str) -> tuple[str, str]:
        """Return the hash of a lab's own code, and that of its kernels."""
        if lab not in self._hashes:
            files = self._library.get(lab, {}).items()
            code = hash_of_code((name, text) for name, text in files if not name.endswith(KERNELS))
            self._hashes[lab] = code, _hash_of_files((name, text) for name, text in files if name.endswith(KERNELS))
        return self._hashes[lab]

    def with_imported(self, lab: str) -> frozenset[str]:
        """Return a lab, the peaks, and all labs that their import lines name, recursively."""
        names: set[str] = set()
        due = {lab, registry.PEAKS}
        while due:
            names.add(name := due.pop())
            text = b"\n".join(text for name, text in self._library.get(name, {}).items() if name.endswith(".py"))
            imports = set(re.findall(r"\w+", " ".join(re.findall(r"^\s*(?:from|import)\b.*", text.decode(), re.M))))
            due |= (imports & self._library.keys()) - names
        return frozenset(names)


def lasting(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that change a page: all but `remeasure`."""
    return {name: value for name, value in parameters.items() if name != "remeasure"}


def environment(lab: str, device: str) -> dict[str, Any]:
    """Return the environment in which a lab's notebook would run now; for other notebooks, the version of Python."""
    if lab not in registry.names_with_peaks():
        return {"python": platform.python_version()}
    described = registry.get(lab)
    compilers = {variant.plan: placement.compilers_of(variant) for variant in described.all_variants()}
    named = sorted(
        {f"{compiler} {version}" for versions in compilers.values() for compiler, version in versions.items()}
    )
    return {**provenance.environment(open_device(device, described.preferred_backend)), "compilers": named}


def _runs(results: Path, *folders: str) -> list[str]:
    """Return the names of the runs in these folders of a store. They suffice: a run never changes."""
    paths = {path for folder in folders for path in results.glob(f"{folder}/**/*.parquet")}
    return sorted(str(path.relative_to(results)) for path in paths)


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files except hidden ones and compiled Python."""
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
