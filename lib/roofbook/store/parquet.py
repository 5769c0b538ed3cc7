"""The store: all measurements as Parquet files, one for each lab, device and run; append, queries, merging, and today's states.

Serves measure, which appends rows, and everything that reads them. A file is created whole or not at all, and never changes.
pyarrow, DuckDB and pandas are imported on first use.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from ..devices.checkout import fault
from ..errors import UsageError, one_of
from ..paths import installed_book, is_book
from . import files, published_results, selection
from .checker import check_file
from .database import ask
from .environment_keys import with_current_environment
from .files import STORE_PARTS, Stamp, StorePart
from .identity import new_run_id
from .row_cache import AT, FILE, CheckedRows, read_rows
from .row_rules import wrong_rows
from .schema import COLUMNS, IDENTITY, PROFILE, REQUIRED, ROLES, SLUG, TEXT, check, schema, table
from .states import COORDINATES, State, coordinates_of, state_of
from .storage import Folder, keep, lease, located, storage_of
from .storage_interface import digest

Answer = TypeVar("Answer")

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MOST_ANSWERS = 32
"""Largest number of answers about rows that this process caches."""
_MERGED_ROWS = 50_000
"""Rows of a merged file: a file of half as many stays as it is, so that adding rows and merging never rewrites all of them."""
_MANY_FILES = 1000
"""Number of the user's own files in one reading from which a line names the command that merges them."""
_VIEWS_OF_CSV = {"published": published_results.view_of_figures, "claims": published_results.view_of_claims}


class Store:
    """Rows in a folder or bucket `results`: recorded/ (committed runs), local/ (yours) and published/ (the literature, as CSV).

    The folder need not exist: an empty store reads as empty tables, and the first append creates it.
    """

    _answers: ClassVar[dict[tuple[Any, ...], Any]] = {}

    def __init__(self, root: str | Path, parts: Sequence[StorePart] = STORE_PARTS, book: Path | None = None) -> None:
        """Open a store. root: a folder, or the URL of a bucket. parts: those that are read if a call names no other.

        book: the results of an installed book. Their recorded rows and published figures are read as well.
        """
        self.storage, self.parts = storage_of(root), parts
        self.root = self.storage.root
        self._book = book and Folder(book)

    @classmethod
    def of_project(cls, root: Path, results: str | Path, parts: Sequence[StorePart] = STORE_PARTS) -> "Store":
        """Open the store that a user's `results` means in the project `root`.

        That in the project's own folder `results` reads the installed book's rows as well, unless the project is a book.
        """
        address = located(root, results)
        is_own = address == root / "results" and not is_book(root)
        return cls(address, parts, installed_book() / "results" if is_own else None)

    @property
    def address(self) -> str:
        """Absolute path or URL that opens this store in any process."""
        return self.storage.address

    def append(self, rows: Sequence[Mapping[str, Any]], part: StorePart = "local", once: str = "") -> list[Path]:
        """Add rows: one new file for each lab, device and run. Return the files' paths; they are on the disk by then.

        once: a name for the files in place of the run; only the first append under such a name adds files.
        A missing field becomes null, a missing list empty. Rows that name no commit, or a changed checkout, are added to
        `local`. UsageError for an unknown field, a missing required one or a value that row_rules.py forbids, before
        anything is written.
        """
        for row in rows:
            check(row)
        arrow_rows = table(rows)
        for index, reason in wrong_rows(arrow_rows).items():
            raise UsageError(f"a row of {str(rows[index]['variant'])!r} is refused: {reason}")
        groups: dict[tuple[StorePart, str, str, str], list[int]] = {}
        for index, row in enumerate(rows):
            its_part: StorePart = "local" if _is_untraceable(row) else part
            groups.setdefault((its_part, row["lab"], row["device"], row["run"]), []).append(index)
        contents = {names: files.encoded(arrow_rows.take(group)) for names, group in groups.items()}
        return [
            self.root
            / keep(self.storage, files.folder_of(its_part, lab, device), once or run, content, once=bool(once))
            for (its_part, lab, device, run), content in contents.items()
        ]

    def files(self, lab: str = "*", device: str = "*", parts: Sequence[StorePart] | None = None) -> list[Path]:
        """Return the paths of the Parquet files, sorted by part and name; of a bucket, local copies."""
        patterns = [files.pattern(part, lab, device) for part in parts or self.parts]
        of_book = self._book.files([name for name in patterns if name.startswith("recorded/")]) if self._book else []
        return of_book + self.storage.files(patterns)

    def checked(self, lab: str = "*", device: str = "*", parts: Sequence[StorePart] | None = None) -> CheckedRows:
        """Return the valid rows of the files, without SQL, and facts on each file. A row in two files appears twice."""
        while True:
            stamps = self.stamps(lab, device, parts)
            own = sum(path.parts[-4] == "local" for path, _ in stamps)
            if own >= _MANY_FILES:
                folder = self.root / "local"
                files.warn_once(folder, f"{folder} has {own} files to read; `roofbook compact` merges them")
            rows = read_rows(stamps)
            if not rows.gone or stamps == self.stamps(lab, device, parts):
                return rows  # otherwise a merge removed a file meanwhile

    def table(self, lab: str = "*", device: str = "*", parts: Sequence[StorePart] | None = None) -> "pa.Table":
        """Return the rows of the files of a lab and device, each once, with the columns AT; texts are dictionary-encoded.

        Copies are searched only if a merge or a copied file can have left some.
        """
        rows = self.checked(lab, device, parts)
        has_copies = len({path.parts[-3:] for path in rows.facts}) < len(rows.facts)
        if has_copies or any(path.name.startswith(files.MERGED) for path in rows.facts):
            return selection.each_once(rows.table, IDENTITY)
        return rows.table

    def all_rows(self) -> "pa.Table":
        """Return the view `cells` with dictionary-encoded texts, which take a fraction of the memory of plain ones."""
        return self.table().select(schema().names)

    def by_device(self, lab: str) -> "Iterator[pa.Table]":
        """Yield `table` for each device in turn, with `with_current_environment`: all devices at once may take much memory."""
        for device in sorted({path.parent.name.partition("=")[2] for path in self.files(lab)}):
            yield with_current_environment(self.table(lab, device))

    def names(self, lab: str = "*", parts: Sequence[StorePart] | None = None) -> list[str]:
        """Return the names of the Parquet files in the storage, without reading the files."""
        return [entry.name for part in parts or self.parts for entry in self.storage.entries(files.pattern(part, lab))]

    def stamps(
        self, lab: str = "*", device: str = "*", parts: Sequence[StorePart] | None = None
    ) -> list[tuple[Path, Stamp]]:
        """Return the paths of the files that may hold rows of a lab and device, each with its stamp.

        The stamp changes if another file takes the name. A name that no folder can have stands for all files.
        """
        lab, device = (name if SLUG.fullmatch(name) else "*" for name in (lab, device))
        return [(path, files.stamp(path)) for path in self.files(lab, device, parts)]

    def query(self, sql: str, params: Sequence[Any] = ()) -> "pd.DataFrame":
        """Return the result of DuckDB SQL over the views `cells`, `published` and `claims`; `?` takes the params in order.

        `published` has lab, table, variant, case, device, metric, unit, trial, value (as printed), number (a double).
        `case` and `table` are words of SQL: write "case", "table". SQL reads these views alone, and writes nothing. UsageError
        for SQL that fails.
        """
        return self._ask(sql, params).to_pandas()

    def arrow(self, sql: str, params: Sequence[Any] = ()) -> "pa.Table":
        """Return the result of `query` as an Arrow table with the store's types: lists stay lists, nulls stay nulls."""
        return self._ask(sql, params)

    def column(self, sql: str, params: Sequence[Any] = (), lab: str = "*", device: str = "*") -> list[Any]:
        """Return the first column of a query over the files of a lab and device, without pandas, which is slow to import."""
        return list(self._ask(sql, params, lab, device).column(0).to_pylist())

    def rows(
        self, lab: str, *, parts: Sequence[StorePart] | None = None, **filters: str | Sequence[str | None] | None
    ) -> "pd.DataFrame":
        """Return the rows of a lab, oldest first by `age`. A filter names a column and its allowed texts: `case="128x128"`.

        None among them stands for null. Rows of role PROFILE are left out unless a filter names that role. Keys of
        the environment are today's (`with_current_environment`).
        """
        allowed: dict[str, list[str | None]] = {
            name: [v] if isinstance(v, str) else list(v) for name, v in filters.items() if v is not None
        }
        for name in allowed:
            if COLUMNS.get(name) != "VARCHAR":
                raise one_of("column to filter by", name, TEXT)
        devices = allowed.get("device", [])
        device = devices[0] or "*" if len(devices) == 1 else "*"

        def select() -> "pa.Table":
            without_profiles = {"role": [role for role in ROLES if role != PROFILE]}
            table = with_current_environment(self.table(lab, device, parts))
            table = selection.with_texts(table, without_profiles | allowed | {"lab": [lab]})
            return table.take(selection.oldest_first(table)).select(schema().names).cast(schema())

        return self._cached(("rows", repr(allowed)), select, lab, device, parts).to_pandas()

    def states(self, cells: Iterable[Mapping[str, Any]]) -> list[State]:
        """Return the states of measurements, from one reading of the store.

        Each cell stands for a measurement. It has lab, variant, case, backend, device, cell_key and env_key. It may have a role
        (without one, any role matches but those of the A/A control and PROFILE) and, for a better `why`, today's environment,
        source_sha256 and wgsl_sha256.
        """
        cells = list(cells)
        labs, devices = (sorted({cell[name] for cell in cells}) for name in ("lab", "device"))
        lab, device = (names[0] if len(names) == 1 else "*" for names in (labs, devices))

        def newest() -> dict[tuple[str, ...], list[dict[str, Any]]]:
            columns = (*REQUIRED, "status", "reason", "source_sha256", "extra", "provenance", *AT)
            table = with_current_environment(self.table(lab, device).select(columns))
            table = selection.with_texts(table, {"lab": labs, "device": devices})
            rows, runs = selection.newest(table, (*COORDINATES, "role", "cell_key", "env_key", "status"))
            rows_by_coordinates: dict[tuple[str, ...], list[dict[str, Any]]] = {}
            for row, number in zip(rows.to_pylist(), runs, strict=True):
                rows_by_coordinates.setdefault(coordinates_of(row), []).append(row | {"runs": number})
            return rows_by_coordinates

        rows = self._cached(("states", repr(labs), repr(devices)), newest, lab, device) if cells else {}
        return [state_of(cell, rows.get(coordinates_of(cell), [])) for cell in cells]

    def compact(self, part: StorePart = "local", busy: Callable[[str], object] = lambda folder: None) -> list[Path]:
        """Merge the files of each lab and device; return the new files. It may be killed, and run again.

        Those of an installed book stay as they are, and their rows are not copied.

        The new file is added before the old ones are removed. In between, rows exist twice; readers count them once.

        busy: called with each folder that another process is merging.
        """
        merged = []
        for folder in sorted({entry.name.rpartition("/")[0] for entry in self.storage.entries(files.pattern(part))}):
            lab, device = (name.partition("=")[2] for name in folder.split("/")[1:])
            if not (SLUG.fullmatch(lab) and SLUG.fullmatch(device)):
                continue  # no row has such names
            with lease(self.storage, folder) as is_holder:
                if not is_holder:
                    busy(folder)
                    continue
                for paths in self._mergeable(lab, device, part):
                    merged += self._merge(folder, paths)
        return merged

    def _mergeable(self, lab: str, device: str, part: StorePart) -> list[list[Path]]:
        """Return the files of a folder that are merged together: whole ones of few rows, up to _MERGED_ROWS in a group."""
        groups, rows_of_last = list[list[Path]](), _MERGED_ROWS
        paths = self.storage.files([files.pattern(part, lab, device)])  # none of an installed book, as `files` has
        rows = read_rows([(path, files.stamp(path)) for path in paths])
        counts = Counter(rows.table[FILE].to_pylist())
        for path, facts in rows.facts.items():
            count = counts[str(path.absolute())]
            if facts.whole and count < _MERGED_ROWS // 2:
                if rows_of_last + count > _MERGED_ROWS:
                    groups.append([])
                    rows_of_last = 0
                groups[-1].append(path)
                rows_of_last += count
        return [paths for paths in groups if len(paths) > 1]

    def _merge(self, folder: str, paths: Sequence[Path]) -> list[Path]:
        """Merge files. Return the new one; [] if it would be too large, or if somebody changed a file meanwhile."""
        stamps = [(path, files.stamp(path)) for path in paths]
        rows = read_rows(stamps)
        if not all(facts.whole for facts in rows.facts.values()):
            return []
        table = selection.each_once(rows.table, IDENTITY)
        table = table.take(selection.oldest_first(table)).select(schema().names).cast(schema())
        origins = [origin for path in paths for origin in (digest(path.read_bytes()), *rows.facts[path].merged_from)]
        content = files.encoded(table, origins)
        checked = check_file(content)
        if not checked.facts.whole or len(checked.rows) != len(table):
            return []
        if any(files.stamp(path) != stamp for path, stamp in stamps):
            return []
        name = keep(self.storage, folder, f"{files.MERGED}{new_run_id()}", content)
        self.storage.remove(map(self.storage.name, paths))
        return [self.root / name]

    def _cached(
        self,
        question: tuple[str, ...],
        answer: Callable[[], "Answer"],
        lab: str,
        device: str = "*",
        parts: Sequence[StorePart] | None = None,
    ) -> "Answer":
        """Return the answer about the rows of a lab and device, cached as long as the files stay: pages repeat questions."""
        key = (*question, lab, *self.stamps(lab, device, parts))
        if key not in Store._answers:
            Store._answers = dict([*Store._answers.items(), (key, answer())][-_MOST_ANSWERS:])
        cached: Answer = Store._answers[key]
        return cached

    def _ask(self, sql: str, params: Sequence[Any], lab: str = "*", device: str = "*") -> "pa.Table":
        """Return the answer to SQL over the views that it names, from the files of a lab and device alone."""
        words = set(re.findall(r"\w+", sql.lower()))
        folders = [self.root, *([self._book.root] if self._book else [])]
        tables = {name: view(folders) for name, view in _VIEWS_OF_CSV.items() if name in words}
        if "cells" in words:
            tables["cells"] = self.table(lab, device).drop_columns(list(AT))
        return ask(sql, params, tables)


def _is_untraceable(row: Mapping[str, Any]) -> bool:
    """Return whether a row's checkout cannot be traced to a commit; False for a row without any (not by `measure`)."""
    provenance = json.loads(row.get("provenance") or "{}")
    return "git" in provenance and bool(fault(provenance["git"]))
