"""The Parquet store: every cell ever measured, one file a run, append only; and which of today's cells it holds.

Serves measure, which appends, and run, report and claims, which read. A file comes into being whole or not at all and
never changes. pyarrow, DuckDB and pandas are imported on first use.
"""

import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..devices.provenance import difference
from ..errors import UsageError, one_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Where = Literal["recorded", "local"]

_TEXT = [
    *("run", "lab", "variant", "case", "parent", "scale", "role", "axis", "point", "dtype"),
    *("device", "device_name", "device_kind", "backend", "policy", "timed", "unit"),
    *("cell_key", "env_key", "source_sha256", "status", "reason", "extra", "provenance"),
]
COLUMNS = dict.fromkeys(_TEXT, "VARCHAR") | {
    "started": "TIMESTAMPTZ",
    "units": "BIGINT",
    "rounds": "INTEGER[]",
    "throttle": "VARCHAR[]",
    **dict.fromkeys(("flops", "bytes", "error", "bound"), "DOUBLE"),
    **dict.fromkeys(("samples_s", "wall_s", "clock_mhz", "temperature_c"), "DOUBLE[]"),
}
"""The columns of a row with their SQL types."""

PROFILE = "profile"
"""The role of a row of hardware counters. Its time is under a profiler, so only those get the row who ask for this role."""

REQUIRED = ("run", "started", "lab", "variant", "case", "role", "device", "backend", "policy", "cell_key", "env_key")
_IDENTITY = (*REQUIRED, "scale", "dtype", "timed")  # rows equal in these are one measurement in two files
_EMPTY = (
    "samples_s",
    "wall_s",
    "rounds",
    "clock_mhz",
    "temperature_c",
    "throttle",
)  # lists that are empty rather than null
_PLACE = ("lab", "variant", "case", "backend", "device")
_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_STALE_S = 24 * 3600
_KEPT = 32  # answers

_PUBLISHED = ("table", "variant", "case", "device", "metric", "unit", "trial", "value")
_CLAIMS = ("lab", "id", "claim", "published_effect", "shown_by")


class State(NamedTuple):
    """`state` is fresh, stale-env, stale-code, failed or missing; `why` is one clause."""

    state: str
    why: str


def __getattr__(name: str) -> Any:
    """SCHEMA, the pyarrow schema of a row, is made on first use: pyarrow takes longer to import than all else here."""
    if name == "SCHEMA":
        return _schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _schema() -> "pa.Schema":
    import pyarrow as pa

    plain = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64()}
    types = {f"{name}[]": pa.list_(kind) for name, kind in plain.items()} | plain
    types["TIMESTAMPTZ"] = pa.timestamp("us", tz="UTC")
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def cell_key(identity: Mapping[str, Any]) -> str:
    """sha256 over canonical JSON (sorted keys, no spaces) of what decides a cell. Raises ValueError on NaN."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def env_key(environment: Mapping[str, Any]) -> str:
    """The same over `provenance.environment(device)`."""
    return cell_key(environment)


def new_run_id() -> str:
    """UTC time and 6 random hex digits: sorts by time, and two runs of one second still differ."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class Store:
    """The folder `results`: recorded/ (committed runs), local/ (yours) and published/ (the literature, as CSV).

    The folder need not exist: an empty store reads as empty tables, and the first append makes it.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self._answers: dict[tuple[Any, ...], pa.Table] = {}
        if self.root.exists() and not self.root.is_dir():
            raise UsageError(f"results cannot be kept in {self.root}: it is a file, not a folder")

    def append(self, rows: Sequence[Mapping[str, Any]], where: Where = "local") -> list[Path]:
        """Keep rows: one new file for each lab, device and run. Returns the files, which are on the disk by then.

        A field that is not given is null, a list empty. Raises UsageError for an unknown field, a missing required one
        or a value of a wrong type, before anything is written.
        """
        groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
        for row in rows:
            _check(row)
            groups.setdefault((row["lab"], row["device"], row["run"]), []).append(row)
        tables = {names: _table(group) for names, group in groups.items()}
        written = []
        for (lab, device, run), table in tables.items():
            folder = self._folder(where) / f"lab={lab}" / f"device={device}"
            _make(folder)
            _remove_stale(folder)
            written.append(_write(table, folder, run))
        return written

    def files(self, lab: str = "*", device: str = "*", where: Sequence[Where] = ("recorded", "local")) -> list[Path]:
        """The Parquet files, sorted. Listed until two listings agree: a single one can miss what a merge just moved."""
        before: list[Path] | None = None
        while True:
            folders = [self._folder(each) for each in where]
            found = [p for f in folders for p in sorted(f.glob(f"lab={lab}/device={device}/[!.]*.parquet"))]
            if found == before:
                return found
            before = found

    def query(self, sql: str, params: Sequence[Any] = ()) -> "pd.DataFrame":
        """The result of DuckDB SQL over the views `cells`, `published` and `claims`; `?` takes the params in order.

        `published` has lab, table, variant, case, device, metric, unit, trial, value (as printed), number (a double).
        `case` and `table` are words of SQL: write "case", "table". Raises UsageError for SQL that fails.
        """
        return self._ask(sql, params)[0].to_pandas()

    def rows(
        self, lab: str, *, where: Sequence[Where] = ("recorded", "local"), **only: str | Sequence[str] | None
    ) -> "pd.DataFrame":
        """All rows of a lab, oldest first. A filter names a column and what to keep of it, such as case="128x128".

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
        place = dict(zip(_PLACE, (lab, variant, case, backend, device), strict=True))
        return self.states([{**place, "cell_key": cell_key, "env_key": env_key, **more}])[0]

    def states(self, cells: Iterable[Mapping[str, Any]]) -> list[State]:
        """The state of each cell, from one reading of the store.

        A cell has lab, variant, case, backend, device, cell_key and env_key. It may have a role (without one, any
        counts but `again`, a parent's twin, and PROFILE) and, for a better `why`, today's environment and source_sha256.
        """
        wanted = list(cells)
        labs = sorted({cell["lab"] for cell in wanted})
        if not labs:
            return []
        columns = ", ".join(f'"{name}"' for name in (*REQUIRED, "status", "reason", "source_sha256", "provenance"))
        newest = _newest(*_PLACE, "role", "cell_key", "env_key", "status")
        sql = f"select {columns} from cells where list_contains(?, lab) {newest} order by started, run"
        known: dict[tuple[str, ...], list[dict[str, Any]]] = {}
        for row in self._answer(sql, [labs], labs[0] if len(labs) == 1 else "*").to_pylist():
            known.setdefault(_place(row), []).append(row)
        return [_state(cell, known.get(_place(cell), [])) for cell in wanted]

    def compact(self, where: Where = "local") -> list[Path]:
        """Merge the files of each lab and device into one; returns the new files. Safe to kill and to run twice.

        The new file is there before the old ones go, so for a moment rows are there twice: readers count them once.
        """
        merged = []
        for folder in sorted(self._folder(where).glob("lab=*/device=*")):
            _remove_stale(folder)
            lab, device = (part.name.partition("=")[2] for part in (folder.parent, folder))
            if len(self.files(lab, device, [where])) < 2:
                continue
            table, old = self._ask("select * from cells order by started, run", (), lab, device, [where])
            merged.append(_write(table, folder, f"merged-{new_run_id()}"))
            for path in old:
                path.unlink(missing_ok=True)
            _sync(folder)
        return merged

    def _folder(self, where: Where) -> Path:
        if where not in ("recorded", "local"):
            raise one_of("place", where, ["recorded", "local"])
        return self.root / where

    def _select(
        self, lab: str, only: Mapping[str, Any], newest: str = "", where: Sequence[Where] = ("recorded", "local")
    ) -> "pd.DataFrame":
        wanted = {name: [v] if isinstance(v, str) else list(v) for name, v in only.items() if v is not None}
        for name in wanted:
            if COLUMNS.get(name) != "VARCHAR":
                raise one_of("column to filter by", name, _TEXT)
        conditions = "".join(f' and list_contains(?::VARCHAR[], "{name}")' for name in wanted)
        conditions += f" and role <> '{PROFILE}'" * ("role" not in wanted)
        sql = f"select * from cells where lab = ?{conditions} {newest} order by started, run"
        device = wanted.get("device", [])
        place = device[0] if len(device) == 1 else "*"
        return self._answer(sql, [lab, *wanted.values()], lab, place, where).to_pandas()

    def _files_of(self, lab: str, device: str, where: Sequence[Where]) -> list[Path]:
        """Those that may hold cells of these names; a name that no folder can have is looked for in all."""
        lab, device = (name if _SLUG.fullmatch(name) else "*" for name in (lab, device))
        return self.files(lab, device, where)

    def _answer(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str,
        device: str = "*",
        where: Sequence[Where] = ("recorded", "local"),
    ) -> "pa.Table":
        """As `_ask`, of cells alone. The last answers are kept: a page asks the same many times, and files do not change."""
        files = self._files_of(lab, device, where)
        asked = (sql, repr(params), *((path, stamp(path)) for path in files))
        if asked not in self._answers:
            answer = self._ask(sql, params, lab, device, where)[0]
            self._answers = dict([*self._answers.items(), (asked, answer)][-_KEPT:])
        return self._answers[asked]

    def _ask(
        self,
        sql: str,
        params: Sequence[Any],
        lab: str = "*",
        device: str = "*",
        where: Sequence[Where] = ("recorded", "local"),
    ) -> tuple["pa.Table", list[Path]]:
        """The result and the files it was read from; reads again where a merge took a file away meanwhile."""
        import duckdb

        views = {"cells": _cells, "published": self._published, "claims": self._claims}
        while True:
            files = self._files_of(lab, device, where)
            try:
                with duckdb.connect() as database:
                    database.execute("set TimeZone = 'UTC'; set python_enable_replacements = false")
                    for name, view in views.items():
                        # Making a view opens its files, so only those that the query names are made.
                        if re.search(rf"\b{name}\b", sql, re.IGNORECASE):
                            database.execute(f"create view {name} as {view(files)}")
                    relation = database.sql(sql, params=list(params))
                    if relation is None:
                        raise UsageError(f"this SQL selects nothing: {' '.join(sql.split())[:80]!r}")
                    return relation.to_arrow_table(), files
            except RuntimeError as error:  # so DuckDB passes Ctrl-C on
                if str(error) == "Query interrupted":
                    raise KeyboardInterrupt from error
                raise
            except duckdb.Error as error:
                if files == self._files_of(lab, device, where):
                    raise _explained(error, files) from error

    def _published(self, _: list[Path]) -> str:
        files = [path for path in sorted(self.root.glob("published/*.csv")) if path.name != "claims.csv"]
        columns = ", ".join(f'"{name}"' for name in _PUBLISHED if name not in ("trial", "value"))
        return (
            f"select parse_filename(filename, true) as lab, {columns}, try_cast(trial as INTEGER) as trial, value, "
            f"try_cast(value as DOUBLE) as number from {_csv(files, (*_PUBLISHED, 'filename'))}"
        )

    def _claims(self, _: list[Path]) -> str:
        columns = ", ".join(f'"{name}"' for name in _CLAIMS)
        return f"select {columns} from {_csv(sorted(self.root.glob('published/claims.csv')), _CLAIMS)}"


def stamp(path: Path) -> tuple[int, int] | None:
    """What tells a file from another of its name; None where it is gone."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _newest(*names: str) -> str:
    columns = ", ".join(f'"{name}"' for name in names)
    return f"qualify row_number() over (partition by {columns} order by started desc, run desc) = 1"


def _nothing(columns: Mapping[str, str]) -> str:
    """SQL of an empty table."""
    return "(select " + ", ".join(f'null::{kind} as "{name}"' for name, kind in columns.items()) + " where false)"


def _list(files: Iterable[Path]) -> str:
    """Paths as an SQL list, their own `*`, `?` and `[` taken as letters."""
    quoted = (re.sub(r"([*?\[])", r"[\1]", str(path.absolute())).replace("'", "''") for path in files)
    return "[" + ", ".join(f"'{path}'" for path in quoted) + "]"


def _cells(files: list[Path]) -> str:
    """SQL of all rows. Rows are compared only where a merge or a copy can have left some twice: it takes its time."""
    sql = f"select * from {_nothing(COLUMNS)}"
    if not files:
        return sql
    read = f"read_parquet({_list(files)}, union_by_name = true, hive_partitioning = false)"
    sql += f" union all by name select * from {read}"
    twice = len({path.parts[-3:] for path in files}) < len(files)
    if twice or any(path.name.startswith("merged-") for path in files):
        keys = ", ".join(f'"{name}"' for name in _IDENTITY)
        sql = f"select distinct on ({keys}) * from ({sql})"
    return sql


def _csv(files: list[Path], columns: Iterable[str]) -> str:
    if not files:
        return _nothing(dict.fromkeys(columns, "VARCHAR"))
    return f"read_csv({_list(files)}, header = true, delim = ',', quote = '\"', all_varchar = true, filename = true)"


def _explained(error: Exception, files: list[Path]) -> UsageError:
    """The one line for a failed query: the file that is broken, else what DuckDB says."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in files:
        try:
            pq.ParquetFile(path).read()
        except (pa.ArrowException, OSError):
            return UsageError(f"{path} is not a whole Parquet file: restore it, or move it out of the store")
    return UsageError(f"the store cannot answer: {' '.join(str(error).split())[:300]}")


def _check(row: Mapping[str, Any]) -> None:
    for name in row:
        if name not in COLUMNS:
            raise one_of("field of a row", name, list(COLUMNS))
    for name in (*REQUIRED, "status"):
        if row.get(name) is None:
            raise UsageError(f"a row lacks {name!r}; every row has {', '.join((*REQUIRED, 'status'))}")
    for name in ("lab", "device", "run"):
        if not _SLUG.fullmatch(str(row[name])):
            raise UsageError(f"{name} {row[name]!r} names a file: letters, digits and . _ + - only")
    if row["status"] not in ("ok", "failed"):
        raise one_of("status", row["status"], ["ok", "failed"])
    if not isinstance(row["started"], datetime) or row["started"].tzinfo is None:
        raise UsageError(f"started {row['started']!r} is not a datetime with its time zone")


def _table(rows: list[Mapping[str, Any]]) -> "pa.Table":
    import pyarrow as pa

    seen = {tuple(str(row.get(name)) for name in _IDENTITY) for row in rows}
    if len(seen) < len(rows):
        raise UsageError(f"two rows of one append are the same measurement: give each its own {', '.join(_IDENTITY)}")
    arrays = []
    for field in _schema():
        values = [row.get(field.name) for row in rows]
        if field.name in _EMPTY:
            values = [[] if value is None else value for value in values]
        try:
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"field {field.name!r} must be {field.type}: {str(error).splitlines()[0]}") from error
    return pa.table(arrays, schema=_schema())


def _make(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"results cannot be kept in {folder}: {error.strerror}") from error
    for path in missing:
        _sync(path.parent)


def _write(table: "pa.Table", folder: Path, name: str) -> Path:
    """The table as NAME.parquet, or NAME.2.parquet and so on where that exists: whole or not at all, over no other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd")
    part = folder / f".{name}-{secrets.token_hex(6)}.tmp"
    try:
        with part.open("xb") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())
        number, final = 1, folder / f"{name}.parquet"
        while not _linked(part, final):
            number += 1
            final = folder / f"{name}.{number}.parquet"
    finally:
        part.unlink(missing_ok=True)
    _sync(folder)
    return final


def _linked(part: Path, final: Path) -> bool:
    """Give the file its name; False where another has it."""
    try:
        os.link(part, final)
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{final.parent} must allow hard links to hold results: {error.strerror}") from error
    return True


def _sync(folder: Path) -> None:
    """Put the folder's names on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_stale(folder: Path) -> None:
    """Remove what writers that were killed more than a day ago left; a younger dot-file may still be written."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > _STALE_S:
                path.unlink()
        except FileNotFoundError:
            continue


def _place(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in _PLACE)


def _state(cell: Mapping[str, Any], rows: list[dict[str, Any]]) -> State:
    """The state of a cell, given the rows of its place, oldest first."""
    role = cell.get("role")
    rows = [row for row in rows if (row["role"] == role if role else row["role"] not in ("again", PROFILE))]
    if not rows:
        return State("missing", f"never measured on {cell['device']} by {cell['backend']}")
    same = [row for row in rows if row["cell_key"] == cell["cell_key"]]
    newest = (same or rows)[-1]
    since = f"{newest['run']} ({newest['started']:%Y-%m-%d})"
    if not same:
        today = cell.get("source_sha256")
        what = "kernel source or plan"
        if today and newest["source_sha256"]:
            what = "kernel source" if today != newest["source_sha256"] else "plan, build options or policy"
        return State("stale-code", f"{what} changed since {since}")
    if newest["status"] == "failed":
        return State("failed", f"failed in {since}: {newest['reason'] or 'no reason recorded'}")
    if any(row["env_key"] == cell["env_key"] and row["status"] == "ok" for row in same):
        return State("fresh", f"measured in {since}")
    was, now = json.loads(newest["provenance"] or "{}").get("environment"), cell.get("environment")
    named = difference(was, now) if was and now else None
    return State("stale-env", f"{named or 'the environment changed'}, since {since}")
