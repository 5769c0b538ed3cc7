"""DuckDB as the store uses it: it reads tables in memory and nothing else, writes nothing, and ends.

No file, no setting, no extension is in reach of SQL, a user's neither. A question has a limit of memory and of time; Ctrl-C and
SIGTERM end it at once. Serves the store. DuckDB is imported on first use.
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, ctrl_c_waits

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LIMIT_S = 300.0
"""Seconds that a question may take: those of the book take less than one."""
MOST_MEMORY = 1 << 33
"""Bytes of memory that questions may take, where the machine has twice as much."""
_GRACE_S = 5.0
"""Seconds in which a question that is interrupted has to end: DuckDB looks between two batches of rows."""
_ALONE = """set global TimeZone = 'UTC'; set global python_enable_replacements = false;
set global autoinstall_known_extensions = false; set global autoload_known_extensions = false;
set global allow_community_extensions = false; set global enable_external_access = false;
set global lock_configuration = true"""
"""What SQL is given: no file, no extension, no setting."""


def ask(sql: str, params: Sequence[Any], tables: "Mapping[str, pa.Table]", views: Mapping[str, str] = {}) -> "pa.Table":
    """Return what a SELECT gives over these tables and views, each of which may name those before it.

    Errors: UsageError for SQL that fails, does more than to select, or takes too long or too much memory.
    """
    with ctrl_c_waits():
        import duckdb

    cursor = _database(os.getpid()).cursor()
    try:
        for name, table in tables.items():
            cursor.register(name, table)
        for name, selected in views.items():
            cursor.execute(f"create temp view {name} as {selected}")
        kinds = {statement.type.name for statement in cursor.extract_statements(sql)}
        if kinds - {"SELECT", "MULTI"} or ("MULTI" in kinds and "copy" in sql.lower()):  # a pivot is several
            raise UsageError(f"this SQL does more than to select: {_brief(sql)!r}")
        return _Question(cursor, sql, params).answer()
    except RuntimeError as error:  # so DuckDB passes Ctrl-C on
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        if isinstance(error, duckdb.InvalidInputException) and "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error  # it came to Python that DuckDB had called
        raise UsageError(f"the store cannot answer: {_brief(str(error), 300)}") from error
    finally:
        if not _unstoppable:
            with contextlib.suppress(duckdb.Error):
                cursor.close()


def _brief(text: str, most: int = 80) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split())[:most])


@cache
def _database(process: int) -> "duckdb.DuckDBPyConnection":
    """The database of a process, for all its questions: to open one takes as long as an answer.

    Each question has a cursor of its own, and what it registers and names is gone with that.
    """
    import duckdb
    import psutil

    memory = min(MOST_MEMORY, psutil.virtual_memory().total // 2)
    database = duckdb.connect(config={"memory_limit": f"{memory >> 20}MiB", "temp_directory": ""})
    database.execute(_ALONE)
    return database


_unstoppable: list[threading.Thread] = []
"""Threads of questions that went on after they were interrupted: they end with the process."""


class _Question:
    """SQL that is answered in a thread of its own, so that a signal reaches whoever waits."""

    def __init__(self, cursor: "duckdb.DuckDBPyConnection", sql: str, params: Sequence[Any]) -> None:
        self._cursor, self._sql, self._params = cursor, sql, params
        self._answer: pa.Table | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="DuckDB")

    def _run(self) -> None:
        try:
            relation = self._cursor.sql(self._sql, params=list(self._params))
            if relation is None:
                raise UsageError(f"this SQL selects nothing: {_brief(self._sql)!r}")
            self._answer = relation.to_arrow_table()
        except BaseException as error:
            self._error = error

    def answer(self) -> "pa.Table":
        try:
            self._thread.start()
            self._thread.join(LIMIT_S)
        except BaseException:
            self._stop()
            raise
        if self._thread.is_alive():
            self._stop()
            raise UsageError(f"the store cannot answer within {LIMIT_S:g} s: ask for less")
        if self._error:
            raise self._error
        assert self._answer is not None
        return self._answer

    def _stop(self) -> None:
        with ctrl_c_waits():
            self._cursor.interrupt()
            if self._thread.ident is not None:
                self._thread.join(_GRACE_S)
        if self._thread.is_alive():
            if not _unstoppable:
                atexit.register(_be_silent)
            _unstoppable.append(self._thread)


def _be_silent() -> None:
    """Let the library complain to nobody of objects that a thread still has as the process ends."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
