"""The store: every cell ever measured, one Parquet file a run, append only; and which of today's cells it holds.

Serves measure, which appends, and all that read. A file comes into being whole or not at all and never changes. pyarrow,
DuckDB and pandas are imported on first use.
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
from .files import EVERYWHERE, Stamp, Where
from .identity import new_run_id
from .row_cache import AT, CheckedRows, read_rows
from .row_rules import wrong_rows
from .schema import COLUMNS, IDENTITY, NEWEST_FIRST, OLDEST_FIRST, PROFILE, REQUIRED, SLUG, TEXT, check, table
from .states import PLACE, State, place_of, state_of
from .storage import keep, lease, storage_of
from .storage_interface import digest

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_KEPT = 32  # answers
_CHECKED = "_checked"
"""The table of checked rows in SQL."""
_IN_ORDER = f"{OLDEST_FIRST}, {', '.join(AT)}"
"""Oldest first, and rows of one moment as they stand in their file."""
_VIEWS_OF_CSV = {"published": published_results.view_of_figures, "claims": published_results.view_of_claims}


class Store:
    """The folder `results`: recorded/ (committed runs), local/ (yours) and published/ (the literature, as CSV).

    The folder need not exist: an empty store reads as empty tables, and the first append makes it.
    """

    _answers: ClassVar[dict[tuple[Any, ...], "pa.Table"]] = {}

    def __init__(self, root: str | Path, parts: Sequence[Where] = EVERYWHERE) -> None:
        """root: a folder, or the URL of a bucket. parts: those that are read where a call names no other."""
        self.storage, self.parts = storage_of(root), parts
        self.root = self.storage.root

    @property
    def address(self) -> str:
        """What opens this store in another process, whatever folder that is in."""
        return self.storage.address

    def append(self, rows: Sequence[Mapping[str, Any]], where: Where = "local", once: str = "") -> list[Path]:
        """Keep rows: one new file for each lab, device and run. Returns the files, seen from the root; they last by then.

        once: what the files are named by in place of the run; of several who append under one such name the first is kept.
        A field that is not given is null, a list empty. Rows that name no commit, or a checkout that was changed since, stay
        local. Raises UsageError for an unknown field, a missing required one or a value that row_rules.py forbids, before
        anything is written.
        """
        for row in rows:
            check(row)
        whole = table(rows)
        for at, why in wrong_rows(whole).items():
            raise UsageError(f"a row of {str(rows[at]['variant'])!r} is refused: {why}")
        groups: dict[tuple[Where, str, str, str], list[int]] = {}
        for at, row in enumerate(rows):
            part: Where = "local" if _untraced(row) else where
            groups.setdefault((part, row["lab"], row["device"], row["run"]), []).append(at)
        made = {names: files.encoded(whole.take(group)) for names, group in groups.items()}
        return [
            self.root / keep(self.storage, files.folder_of(part, lab, device), once or run, data, once=bool(once))
            for (part, lab, device, run), data in made.items()
        ]

    def files(
        self,
        lab: str = "*",
        device: str = "*",
        where: Sequence[Where] | None = None,
    ) -> list[Path]:
        """The Parquet files, sorted by part and name; of a bucket copies."""
        return self.storage.files([files.pattern(each, lab, device) for each in where or self.parts])

    def checked(self, lab: str = "*", device: str = "*", where: Sequence[Where] | None = None) -> CheckedRows:
        """The rows that may count, each as often as files have it, and what there is to say of the files; without SQL."""
        while True:
            found = self._files_of(lab, device, where)
            rows = read_rows(found)
            if not rows.gone or found == self._files_of(lab, device, where):
                return rows  # else a merge took a file away meanwhile

    def names(self, lab: str = "*", where: Sequence[Where] | None = None) -> list[str]:
        """The names of the Parquet files, without reading them."""
        return [entry.name for each in where or self.parts for entry in self.storage.entries(files.pattern(each, lab))]

    def stamps(self, where: Sequence[Where] | None = None) -> list[tuple[Path, Stamp]]:
        """The Parquet files, each with what changes where another takes its name."""
        return [(path, files.stamp(path)) for path in self.files(where=where)]

    def query(self, sql: str, params: Sequence[Any] = ()) -> "pd.DataFrame":
        """The result of DuckDB SQL over the views `cells`, `published` and `claims`; `?` takes the params in order.

        `published` has lab, table, variant, case, device, metric, unit, trial, value (as printed), number (a double).
        `case` and `table` are words of SQL: write "case", "table". SQL reads these views alone, and writes nothing. Raises
        UsageError for SQL that fails.
        """
        return self._ask(sql, params).to_pandas()

    def arrow(self, sql: str, params: Sequence[Any] = ()) -> "pa.Table":
        """What `query` gives, with the types of the store: lists stay lists, nulls stay nulls."""
        return self._ask(sql, params)

    def column(self, sql: str, params: Sequence[Any] = (), lab: str = "*", device: str = "*") -> list[Any]:
        """The first column of what `query` gives, from the files of a lab and a device alone, and without pandas, whose import
        takes longer than the answer.
        """
        return list(self._ask(sql, params, lab, device).column(0).to_pylist())

    def rows(
        self, lab: str, *, where: Sequence[Where] | None = None, **only: str | Sequence[str] | None
    ) -> "pd.DataFrame":
        """All rows of a lab, oldest first by `age`. A filter names a column and what to keep of it: `case="128x128"`.

        Those of role PROFILE only where the filter names that role.
        """
        return self._select(lab, only, where=where)

    def latest(self, lab: str, **only: str | Sequence[str] | None) -> "pd.DataFrame":
        """The newest row, failed or not, of each variant, case, backend, device, role, policy; filters as in rows."""
        return self._select(lab, only, _newest("variant", "case", "backend", "device", "role", "policy"))

    def state(
        self, lab: str, variant: str, case: str, backend: str, device: str, cell_key: str, env_key: str, **more: Any
    ) -> State:
        """The state of one cell; `more` is what `states` takes beside these."""
        place = dict(zip(PLACE, (lab, variant, case, backend, device), strict=True))
        return self.states([{**place, "cell_key": cell_key, "env_key": env_key, **more}])[0]

    def states(self, cells: Iterable[Mapping[str, Any]]) -> list[State]:
        """The state of each cell, from one reading of the store.

        A cell has lab, variant, case, backend, device, cell_key and env_key. It may have a role (without one, any
        counts but those of the A/A control and PROFILE) and, for a better `why`, today's environment and source_sha256.
        """
        wanted = list(cells)
        labs = sorted({cell["lab"] for cell in wanted})
        if not labs:
            return []
        columns = ", ".join(f'"{name}"' for name in (*REQUIRED, "status", "reason", "source_sha256", "provenance"))
        alike = (*PLACE, "role", "cell_key", "env_key", "status")
        runs = f"count(distinct run) over (partition by {_named(alike)}) as runs"
        sql = (
            f"select {columns}, {runs} from cells where list_contains(?, lab) {_newest(*alike)} order by {OLDEST_FIRST}"
        )
        known: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self._answer(sql, [labs], labs[0] if len(labs) == 1 else "*").to_pylist():
            known.setdefault(place_of(row), []).append(row)
        return [state_of(cell, known.get(place_of(cell), [])) for cell in wanted]

    def compact(self, where: Where = "local", busy: Callable[[str], object] = lambda folder: None) -> list[Path]:
        """Merge the files of each lab and device into one; returns the new files. Safe to kill and to run twice.

        The new file is there before the old ones go, so for a moment rows are there twice: readers count them once. busy is
        told of folders that somebody else merges at this moment.
        """
        merged = []
        for folder in sorted({entry.name.rpartition("/")[0] for entry in self.storage.entries(files.pattern(where))}):
            lab, device = (part.partition("=")[2] for part in folder.split("/")[1:])
            if not (SLUG.fullmatch(lab) and SLUG.fullmatch(device)):
                continue  # no row is of such names
            if len(self._files_of(lab, device, [where])) < 2:
                continue
            with lease(self.storage, folder) as mine:
                if not mine:
                    busy(folder)
                    continue
                if made := self._merged(folder, self.checked(lab, device, [where])):
                    merged.append(made)
        return merged

    def _merged(self, folder: str, rows: CheckedRows) -> Path | None:
        """Merge the files of which nothing is left out; None where there are not two, or they would be too large as one."""
        old = [path for path, facts in rows.facts.items() if facts.whole]
        if len(old) < 2:
            return None
        sql = f"select * exclude ({_listed(AT)}) from _once order by {_IN_ORDER}"
        whole = ask(sql, (), {_CHECKED: read_rows(old).table}, _views(old))
        origins = [each for path in old for each in (digest(path.read_bytes()), *rows.facts[path].merged_from)]
        data = files.encoded(whole, origins)
        checked = check_file(data)
        if not checked.facts.whole or len(checked.rows) != len(whole):
            return None
        made = keep(self.storage, folder, f"{files.MERGED}{new_run_id()}", data)
        self.storage.remove(map(self.storage.name, old))
        return self.root / made

    def _select(
        self, lab: str, only: Mapping[str, Any], newest: str = "", where: Sequence[Where] | None = None
    ) -> "pd.DataFrame":
        wanted = {name: [v] if isinstance(v, str) else list(v) for name, v in only.items() if v is not None}
        for name in wanted:
            if COLUMNS.get(name) != "VARCHAR":
                raise one_of("column to filter by", name, TEXT)
        conditions = "".join(f' and list_contains(?::VARCHAR[], "{name}")' for name in wanted)
        conditions += f" and role <> '{PROFILE}'" * ("role" not in wanted)
        # What is chosen by its names is read alone: most of a row is samples. Of rows that are there twice, one is the newest.
        chosen = f"select {_listed(AT)} from {'_rows' if newest else '_once'} where lab = ?{conditions} {newest}"
        rows = f"select * exclude ({_listed(AT)}) from _rows semi join ({chosen}) using ({_listed(AT)})"
        sql = f"{rows} order by {_IN_ORDER}"
        device = wanted.get("device", [])
        place = device[0] if len(device) == 1 else "*"
        return self._answer(sql, [lab, *wanted.values()], lab, place, where).to_pandas()

    def _files_of(self, lab: str, device: str, where: Sequence[Where] | None) -> list[Path]:
        """Those that may hold cells of these names; a name that no folder can have is looked for in all."""
        lab, device = (name if SLUG.fullmatch(name) else "*" for name in (lab, device))
        return self.files(lab, device, where)

    def _answer(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str,
        device: str = "*",
        where: Sequence[Where] | None = None,
    ) -> "pa.Table":
        """As `_ask`, of cells alone. The last answers are kept: a page asks the same many times, and files do not change."""
        found = self._files_of(lab, device, where)
        asked = (sql, repr(params), *((path, files.stamp(path)) for path in found))
        if asked not in Store._answers:
            answer = self._ask(sql, params, lab, device, where)
            Store._answers = dict([*Store._answers.items(), (asked, answer)][-_KEPT:])
        return Store._answers[asked]

    def _ask(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str = "*",
        device: str = "*",
        where: Sequence[Where] | None = None,
    ) -> "pa.Table":
        """The answer to SQL over the views that it names, from the files of a lab and a device alone."""
        named = set(re.findall(r"\w+", sql.lower()))
        tables = {name: view(self.root) for name, view in _VIEWS_OF_CSV.items() if name in named}
        if not named & {"_rows", "_once", "cells"}:
            return ask(sql, params, tables)
        rows = self.checked(lab, device, where)
        return ask(sql, params, {**tables, _CHECKED: rows.table}, _views(list(rows.facts)))


def _untraced(row: Mapping[str, Any]) -> bool:
    """Whether a row says of its checkout that it cannot be traced. One that says nothing of it is none of `measure`."""
    told = json.loads(row.get("provenance") or "{}")
    return "git" in told and bool(fault(told["git"]))


def _newest(*names: str) -> str:
    return f"qualify row_number() over (partition by {_named(names)} order by {NEWEST_FIRST}) = 1"


def _named(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _views(found: Sequence[Path]) -> dict[str, str]:
    """SQL by the names of views, each of those before it: all rows with their places in files; those of them that count, each
    once; and these without their places, as `cells`.

    Rows are compared only where a merge or a copy can have left some twice, and by what identifies them alone: to carry their
    samples along takes ten times as long.
    """
    twice = len({path.parts[-3:] for path in found}) < len(found)
    once = "select * from _rows"
    if twice or any(path.name.startswith(files.MERGED) for path in found):
        once += f" semi join (select distinct on ({_named(IDENTITY)}) {_listed(AT)} from _rows) using ({_listed(AT)})"
    cells = f"select * exclude ({_listed(AT)}) from _once"
    return {"_rows": f"select * from {_CHECKED}", "_once": once, "cells": cells}


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
