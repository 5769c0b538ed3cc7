"""The store: every cell ever measured, one Parquet file a run, append only; and which of today's cells it holds.

Serves measure, which appends, and all that read. A file comes into being whole or not at all and never changes. pyarrow,
DuckDB and pandas are imported on first use.
"""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..devices.checkout import fault
from ..errors import UsageError, ctrl_c_waits, one_of
from . import files, published
from .files import EVERYWHERE, Stamp, Where
from .gathered import AT, Gathered, gathered
from .identity import new_run_id
from .schema import COLUMNS, IDENTITY, NEWEST_FIRST, OLDEST_FIRST, PROFILE, REQUIRED, SLUG, TEXT, check, table
from .states import PLACE, State, place_of, state_of
from .storage import digest, keep, lease, storage_of

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

_KEPT = 32  # answers
_GATHERED = "_gathered"
_IN_ORDER = f"{OLDEST_FIRST}, {', '.join(AT)}"
"""Oldest first, and rows of one moment as they stand in their file."""
_ALONE = """set global TimeZone = 'UTC'; set global parquet_metadata_cache = true;
set global python_enable_replacements = false; set global autoinstall_known_extensions = false;
set global autoload_known_extensions = false; set global enable_external_access = false;
set global lock_configuration = true"""
"""What SQL is given beside the files that it may read."""
_VIEWS_OF_CSV = {"published": published.view_of_figures, "claims": published.view_of_claims}


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
        local. Raises UsageError for an unknown field, a missing required one or a value of a wrong type, before anything is
        written.
        """
        groups: dict[tuple[Where, str, str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            check(row)
            part: Where = "local" if _untraced(row) else where
            groups.setdefault((part, row["lab"], row["device"], row["run"]), []).append(row)
        tables = {names: table(group) for names, group in groups.items()}
        return [
            self.root
            / keep(self.storage, files.folder_of(part, lab, device), once or run, files.encoded(each), once=bool(once))
            for (part, lab, device, run), each in tables.items()
        ]

    def files(
        self,
        lab: str = "*",
        device: str = "*",
        where: Sequence[Where] | None = None,
        columns: Collection[str] | None = None,
    ) -> list[Path]:
        """The Parquet files, sorted by part and name; of a bucket copies, which may lack other columns than these."""
        return self.storage.files([files.pattern(each, lab, device) for each in where or self.parts], columns)

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
        return self._ask(sql, params)[0].to_pandas()

    def arrow(self, sql: str, params: Sequence[Any] = ()) -> "pa.Table":
        """What `query` gives, with the types of the store: lists stay lists, nulls stay nulls."""
        return self._ask(sql, params)[0]

    def column(self, sql: str, params: Sequence[Any] = (), lab: str = "*", device: str = "*") -> list[Any]:
        """The first column of what `query` gives, from the files of a lab and a device alone, and without pandas, whose import
        takes longer than the answer.
        """
        return list(self._ask(sql, params, lab, device)[0].column(0).to_pylist())

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
            if len(self._files_of(lab, device, [where])) < 2:
                continue
            with lease(self.storage, folder) as mine:
                if not mine:
                    busy(folder)
                    continue
                sql = f"select * exclude ({_listed(AT)}) from _once order by {_IN_ORDER}"
                whole, old = self._ask(sql, (), lab, device, [where], every=True)
                if whole.num_rows > files.MOST_ROWS:
                    continue  # such a file would be left out
                origins = [each for path in old for each in (digest(path.read_bytes()), *files.merged_from(path))]
                made = keep(self.storage, folder, f"{files.MERGED}{new_run_id()}", files.encoded(whole, origins))
                merged.append(self.root / made)
                self.storage.remove(map(self.storage.name, old))
        return merged

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

    def _files_of(
        self, lab: str, device: str, where: Sequence[Where] | None, columns: Collection[str] | None = None
    ) -> list[Path]:
        """Those that may hold cells of these names; a name that no folder can have is looked for in all."""
        lab, device = (name if SLUG.fullmatch(name) else "*" for name in (lab, device))
        found = self.files(lab, device, where, columns)
        return files.readable(found, gathered(found).newest)

    def _columns(self, sql: str) -> list[str] | None:
        """Those that are read for this SQL; all where it may mean them, or where they cost nothing."""
        known = named_columns(sql) if self.storage.is_remote else None
        return None if known is None else [name for name in COLUMNS if name in known or name in IDENTITY]

    def _answer(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str,
        device: str = "*",
        where: Sequence[Where] | None = None,
    ) -> "pa.Table":
        """As `_ask`, of cells alone. The last answers are kept: a page asks the same many times, and files do not change."""
        found = self._files_of(lab, device, where, self._columns(sql))
        asked = (sql, repr(params), *((path, files.stamp(path)) for path in found))
        if asked not in Store._answers:
            answer = self._ask(sql, params, lab, device, where)[0]
            Store._answers = dict([*Store._answers.items(), (asked, answer)][-_KEPT:])
        return Store._answers[asked]

    def _ask(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str = "*",
        device: str = "*",
        where: Sequence[Where] | None = None,
        every: bool = False,
    ) -> tuple["pa.Table", list[Path]]:
        """The result and the files it was read from; reads again where a merge took a file away meanwhile.

        every: with the rows that are left out for what they hold.
        """
        with ctrl_c_waits():
            import duckdb

        named, columns = set(re.findall(r"\w+", sql.lower())), self._columns(sql)
        while True:
            found = self._files_of(lab, device, where, columns)
            try:
                known = Gathered(None, {}) if every else gathered(found)
                apart = [path for path in found if path not in known.newest]
                with _database(apart) if apart else _without_files(os.getpid()).cursor() as database:
                    # Making a view opens its files, so only those that the query names are made.
                    if named & {"_rows", "_once", "cells"}:
                        if known.rows is not None:
                            database.register(_GATHERED, known.rows)
                        for name, selected in _views(found, apart, every, columns).items():
                            database.execute(f"create temp view {name} as {selected}")
                    for name, view in _VIEWS_OF_CSV.items():
                        if name in named:
                            database.register(name, view(self.root))
                    kinds = {statement.type.name for statement in database.extract_statements(sql)}
                    if kinds - {"SELECT", "MULTI"} or ("MULTI" in kinds and "copy" in named):  # a pivot is several
                        raise UsageError(f"this SQL does more than to select: {' '.join(sql.split())[:80]!r}")
                    relation = database.sql(sql, params=list(params))
                    if relation is None:
                        raise UsageError(f"this SQL selects nothing: {' '.join(sql.split())[:80]!r}")
                    return relation.to_arrow_table(), found
            except RuntimeError as error:  # so DuckDB passes Ctrl-C on
                if str(error) == "Query interrupted":
                    raise KeyboardInterrupt from error
                raise
            except duckdb.Error as error:
                if isinstance(error, duckdb.InvalidInputException) and "KeyboardInterrupt" in str(error):
                    raise KeyboardInterrupt from error  # it came to Python that DuckDB had called
                if found == self._files_of(lab, device, where, columns) and not files.blame(found):
                    said = " ".join(str(error).split())[:300]
                    raise UsageError(f"the store cannot answer: {said}") from error


def _database(paths: Iterable[Path]) -> "duckdb.DuckDBPyConnection":
    """A database whose SQL may read these files and no other, and changes no setting."""
    import duckdb

    database = duckdb.connect()
    allowed = [name for path in paths for name in (str(path.absolute()), _as_pattern(path))]
    database.execute("set allowed_paths = ?", [allowed])
    database.execute(_ALONE)
    return database


@cache
def _without_files(process: int) -> "duckdb.DuckDBPyConnection":
    """One that reads no file, for all questions of a process whose rows are gathered: to open it takes as long as an answer.

    Each question has a cursor of its own, and what it registers and names is gone with that.
    """
    return _database([])


def _untraced(row: Mapping[str, Any]) -> bool:
    """Whether a row says of its checkout that it cannot be traced. One that says nothing of it is none of `measure`."""
    told = json.loads(row.get("provenance") or "{}")
    return "git" in told and bool(fault(told["git"]))


def _newest(*names: str) -> str:
    return f"qualify row_number() over (partition by {_named(names)} order by {NEWEST_FIRST}) = 1"


def _named(columns: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)


def _nothing(columns: Mapping[str, str]) -> str:
    """SQL of an empty table."""
    return "(select " + ", ".join(f'null::{kind} as "{name}"' for name, kind in columns.items()) + " where false)"


def _as_pattern(path: Path) -> str:
    """The path, its own `*`, `?` and `[` taken as letters."""
    return re.sub(r"([*?\[])", r"[\1]", str(path.absolute()))


def _read(paths: Iterable[Path]) -> str:
    """SQL that reads files: their columns, and AT."""
    listed = "[" + ", ".join("'" + _as_pattern(path).replace("'", "''") + "'" for path in paths) + "]"
    how = "union_by_name = true, hive_partitioning = false, filename = true, file_row_number = true"
    return f"read_parquet({listed}, {how})"


def named_columns(sql: str) -> set[str] | None:
    """The columns that SQL names; None where it may mean all without naming them, as by a `*`, or by a row as a whole.

    >>> sorted(named_columns('select lab, count(*) from cells where "case" = ? group by lab'))
    ['case', 'lab']
    """
    text = re.sub(r"count\(\s*\*\s*\)", "", sql.lower())
    words = re.findall(r"\w+", text)
    plain = re.findall(r"\bfrom\s+cells\s*(?=$|[);]|(?:where|group|order|limit|qualify|having)\b)", text)
    whole = {"columns", "unpivot", "pivot", "summarize", "describe", "show"} & set(words)
    if "*" in text or whole or not plain or len(plain) != words.count("cells"):
        return None
    return set(words) & set(COLUMNS) if words.count("select") == words.count("from") else None


def _views(
    found: Sequence[Path], apart: Sequence[Path], every: bool, columns: Sequence[str] | None = None
) -> dict[str, str]:
    """SQL by the names of views, each of those before it: all rows with their places in files; those of them that count, each
    once; and these without their places, as `cells`.

    apart: those of the files that are read by themselves; the rows of the others are in _GATHERED.
    every: with the rows that are left out for what they hold.
    columns: those that files have for certain, if not all.

    Rows are compared only where a merge or a copy can have left some twice, and by what identifies them alone: to carry their
    samples along takes ten times as long.
    """
    rows = [f"select * from {_GATHERED}"] if len(apart) < len(found) else []
    if apart or not rows:  # files may lack columns, or have them as other types
        rows.insert(0, f"select * from {_nothing(COLUMNS | dict(zip(AT, ('VARCHAR', 'BIGINT'), strict=True)))}")
    unfit = {path: numbers for path in apart if not every and (numbers := files.unfit_rows(path))}
    if whole := [path for path in apart if path not in unfit]:
        rows.append(f"select * from {_read(whole)}")
    for path, numbers in unfit.items():
        rows.append(f"select * from {_read([path])} where file_row_number not in ({_listed(numbers)})")
    twice = len({path.parts[-3:] for path in found}) < len(found)
    once, shown = "select * from _rows", _named(columns) if columns else f"* exclude ({_listed(AT)})"
    if twice or any(path.name.startswith(files.MERGED) for path in found):
        once += f" semi join (select distinct on ({_named(IDENTITY)}) {_listed(AT)} from _rows) using ({_listed(AT)})"
    return {"_rows": " union all by name ".join(rows), "_once": once, "cells": f"select {shown} from _once"}


def _listed(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
