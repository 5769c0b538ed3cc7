"""The store: all measurements as Parquet files, one for each lab, device and run; append, queries, merging, and today's states.

Serves measure, which appends rows, and everything that reads them. A file is created whole or not at all, and never changes.
pyarrow, DuckDB and pandas are imported on first use.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..devices.checkout import fault
from ..errors import UsageError, one_of
from . import files, published_results
from .checker import check_file
from .database import ask
from .files import STORE_PARTS, Stamp, StorePart
from .identity import new_run_id
from .row_cache import AT, CheckedRows, read_rows
from .row_rules import wrong_rows
from .schema import COLUMNS, IDENTITY, NEWEST_FIRST, OLDEST_FIRST, PROFILE, REQUIRED, SLUG, TEXT, check, table
from .states import COORDINATES, State, coordinates_of, state_of
from .storage import keep, lease, storage_of
from .storage_interface import digest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_MOST_ANSWERS = 32
"""Largest number of answers to queries that this process caches."""
_CHECKED = "_checked"
"""Name in SQL of the table of checked rows."""
_IN_ORDER = f"{OLDEST_FIRST}, {', '.join(AT)}"
"""SQL order of rows: oldest first, and rows of one moment as in their file."""
_VIEWS_OF_CSV = {"published": published_results.view_of_figures, "claims": published_results.view_of_claims}


class Store:
    """Rows in a folder or bucket `results`: recorded/ (committed runs), local/ (yours) and published/ (the literature, as CSV).

    The folder need not exist: an empty store reads as empty tables, and the first append creates it.
    """

    _answers: ClassVar[dict[tuple[Any, ...], "pa.Table"]] = {}

    def __init__(self, root: str | Path, parts: Sequence[StorePart] = STORE_PARTS) -> None:
        """Open a store. root: a folder, or the URL of a bucket. parts: those that are read if a call names no other."""
        self.storage, self.parts = storage_of(root), parts
        self.root = self.storage.root

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
        return self.storage.files([files.pattern(part, lab, device) for part in parts or self.parts])

    def checked(self, lab: str = "*", device: str = "*", parts: Sequence[StorePart] | None = None) -> CheckedRows:
        """Return the valid rows of the files, without SQL, and facts on each file. A row in two files appears twice."""
        while True:
            paths = self._files_of(lab, device, parts)
            rows = read_rows(paths)
            if not rows.gone or paths == self._files_of(lab, device, parts):
                return rows  # otherwise a merge removed a file meanwhile

    def names(self, lab: str = "*", parts: Sequence[StorePart] | None = None) -> list[str]:
        """Return the names of the Parquet files in the storage, without reading the files."""
        return [entry.name for part in parts or self.parts for entry in self.storage.entries(files.pattern(part, lab))]

    def stamps(self, parts: Sequence[StorePart] | None = None) -> list[tuple[Path, Stamp]]:
        """Return the paths of the Parquet files, each with its stamp, which changes if another file takes the name."""
        return [(path, files.stamp(path)) for path in self.files(parts=parts)]

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
        self, lab: str, *, parts: Sequence[StorePart] | None = None, **filters: str | Sequence[str] | None
    ) -> "pd.DataFrame":
        """Return the rows of a lab, oldest first by `age`. A filter names a column and its allowed texts: `case="128x128"`.

        Rows of role PROFILE are left out unless a filter names that role.
        """
        return self._select(lab, filters, parts=parts)

    def latest(self, lab: str, **filters: str | Sequence[str] | None) -> "pd.DataFrame":
        """Return the newest row, failed or not, of each variant, case, backend, device, role, policy; filters: see `rows`."""
        return self._select(lab, filters, _newest("variant", "case", "backend", "device", "role", "policy"))

    def state(
        self, lab: str, variant: str, case: str, backend: str, device: str, cell_key: str, env_key: str, **optional: Any
    ) -> State:
        """Return the state of one measurement. optional: role, environment and other keys of a cell that `states` accepts."""
        coordinates = dict(zip(COORDINATES, (lab, variant, case, backend, device), strict=True))
        return self.states([{**coordinates, "cell_key": cell_key, "env_key": env_key, **optional}])[0]

    def states(self, cells: Iterable[Mapping[str, Any]]) -> list[State]:
        """Return the states of measurements, from one reading of the store.

        Each cell stands for a measurement. It has lab, variant, case, backend, device, cell_key and env_key. It may have a role
        (without one, any role matches but those of the A/A control and PROFILE) and, for a better `why`, today's environment
        and source_sha256.
        """
        cells = list(cells)
        labs = sorted({cell["lab"] for cell in cells})
        if not labs:
            return []
        columns = ", ".join(f'"{name}"' for name in (*REQUIRED, "status", "reason", "source_sha256", "provenance"))
        key = (*COORDINATES, "role", "cell_key", "env_key", "status")
        runs = f"count(distinct run) over (partition by {_quoted(key)}) as runs"
        sql = f"select {columns}, {runs} from cells where list_contains(?, lab) {_newest(*key)} order by {OLDEST_FIRST}"
        rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self._answer(sql, [labs], labs[0] if len(labs) == 1 else "*").to_pylist():
            rows.setdefault(coordinates_of(row), []).append(row)
        return [state_of(cell, rows.get(coordinates_of(cell), [])) for cell in cells]

    def compact(self, part: StorePart = "local", busy: Callable[[str], object] = lambda folder: None) -> list[Path]:
        """Merge the files of each lab and device into one; return the new files. It may be killed, and run again.

        The new file is added before the old ones are removed. In between, rows exist twice; readers count them once.

        busy: called with each folder that another process is merging.
        """
        merged = []
        for folder in sorted({entry.name.rpartition("/")[0] for entry in self.storage.entries(files.pattern(part))}):
            lab, device = (name.partition("=")[2] for name in folder.split("/")[1:])
            if not (SLUG.fullmatch(lab) and SLUG.fullmatch(device)):
                continue  # no row has such names
            if len(self._files_of(lab, device, [part])) < 2:
                continue
            with lease(self.storage, folder) as is_holder:
                if not is_holder:
                    busy(folder)
                    continue
                if path := self._merge(folder, self.checked(lab, device, [part])):
                    merged.append(path)
        return merged

    def _merge(self, folder: str, rows: CheckedRows) -> Path | None:
        """Merge the files without any fault. Return the new one; None if there were not two, or one would be too large."""
        old = [path for path, facts in rows.facts.items() if facts.whole]
        if len(old) < 2:
            return None
        sql = f"select * exclude ({_comma_separated(AT)}) from _once order by {_IN_ORDER}"
        merged_rows = ask(sql, (), {_CHECKED: read_rows(old).table}, _views(old))
        origins = [origin for path in old for origin in (digest(path.read_bytes()), *rows.facts[path].merged_from)]
        content = files.encoded(merged_rows, origins)
        checked = check_file(content)
        if not checked.facts.whole or len(checked.rows) != len(merged_rows):
            return None
        name = keep(self.storage, folder, f"{files.MERGED}{new_run_id()}", content)
        self.storage.remove(map(self.storage.name, old))
        return self.root / name

    def _select(
        self, lab: str, filters: Mapping[str, Any], newest: str = "", parts: Sequence[StorePart] | None = None
    ) -> "pd.DataFrame":
        """Return the rows of a lab that pass the filters. newest: SQL that keeps the newest row of each group."""
        allowed = {name: [v] if isinstance(v, str) else list(v) for name, v in filters.items() if v is not None}
        for name in allowed:
            if COLUMNS.get(name) != "VARCHAR":
                raise one_of("column to filter by", name, TEXT)
        conditions = "".join(f' and list_contains(?::VARCHAR[], "{name}")' for name in allowed)
        conditions += f" and role <> '{PROFILE}'" * ("role" not in allowed)
        # Select by file and row number first, then read whole rows: most of a row is samples. `newest` drops duplicates itself.
        keys = _comma_separated(AT)
        chosen = f"select {keys} from {'_rows' if newest else '_once'} where lab = ?{conditions} {newest}"
        sql = f"select * exclude ({keys}) from _rows semi join ({chosen}) using ({keys}) order by {_IN_ORDER}"
        devices = allowed.get("device", [])
        device = devices[0] if len(devices) == 1 else "*"
        return self._answer(sql, [lab, *allowed.values()], lab, device, parts).to_pandas()

    def _files_of(self, lab: str, device: str, parts: Sequence[StorePart] | None) -> list[Path]:
        """Return the files that may hold rows of a lab and device; for a name that no folder can have, all files."""
        lab, device = (name if SLUG.fullmatch(name) else "*" for name in (lab, device))
        return self.files(lab, device, parts)

    def _answer(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str,
        device: str = "*",
        parts: Sequence[StorePart] | None = None,
    ) -> "pa.Table":
        """Return the answer to SQL over rows alone, cached as long as the files stay: pages repeat the same queries."""
        key = (sql, repr(params), *((path, files.stamp(path)) for path in self._files_of(lab, device, parts)))
        if key not in Store._answers:
            answer = self._ask(sql, params, lab, device, parts)
            Store._answers = dict([*Store._answers.items(), (key, answer)][-_MOST_ANSWERS:])
        return Store._answers[key]

    def _ask(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str = "*",
        device: str = "*",
        parts: Sequence[StorePart] | None = None,
    ) -> "pa.Table":
        """Return the answer to SQL over the views that it names, from the files of a lab and a device alone."""
        words = set(re.findall(r"\w+", sql.lower()))
        tables = {name: view(self.root) for name, view in _VIEWS_OF_CSV.items() if name in words}
        if not words & {"_rows", "_once", "cells"}:
            return ask(sql, params, tables)
        rows = self.checked(lab, device, parts)
        return ask(sql, params, {**tables, _CHECKED: rows.table}, _views(list(rows.facts)))


def _is_untraceable(row: Mapping[str, Any]) -> bool:
    """Return whether a row's checkout cannot be traced to a commit; False for a row without any (not by `measure`)."""
    provenance = json.loads(row.get("provenance") or "{}")
    return "git" in provenance and bool(fault(provenance["git"]))


def _newest(*columns: str) -> str:
    """Return SQL that keeps the newest row of each group of rows that are equal in these columns."""
    return f"qualify row_number() over (partition by {_quoted(columns)} order by {NEWEST_FIRST}) = 1"


def _quoted(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _views(paths: Sequence[Path]) -> dict[str, str]:
    """Return SQL by the names of views: `_rows` (all rows, with the columns AT), `_once` (no duplicates), `cells` (nor AT).

    Duplicates are searched only if a merge or a copy can have left some, and by the identifying columns alone: carrying the
    samples along takes ten times as long.
    """
    keys = _comma_separated(AT)
    has_copies = len({path.parts[-3:] for path in paths}) < len(paths)
    once = "select * from _rows"
    if has_copies or any(path.name.startswith(files.MERGED) for path in paths):
        once += f" semi join (select distinct on ({_quoted(IDENTITY)}) {keys} from _rows) using ({keys})"
    cells = f"select * exclude ({keys}) from _once"
    return {"_rows": f"select * from {_CHECKED}", "_once": once, "cells": cells}


def _comma_separated(names: Iterable[str]) -> str:
    return ", ".join(names)
