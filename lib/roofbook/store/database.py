"""DuckDB database in a sandbox: a query reads tables in memory, and is limited in memory and time.

SQL, even a user's, can reach no file, setting or extension. Ctrl-C and SIGTERM end a query at once. Serves the store. DuckDB is
imported on first use.
"""

import atexit
import contextlib
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ..ctrl_c import ctrl_c_waits
from ..errors import UsageError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

LIMIT_S = 300.0
"""Seconds that a query may take: those of the book take less than one."""
MOST_MEMORY = 1 << 33
"""Bytes of memory that queries may take, if the machine has twice as much; otherwise half of its memory."""
_GRACE_S = 5.0
"""Seconds that an interrupted query has to end: DuckDB checks for interrupts between two batches of rows."""
_SETTINGS = """set global TimeZone = 'UTC'; set global python_enable_replacements = false;
set global autoinstall_known_extensions = false; set global autoload_known_extensions = false;
set global allow_community_extensions = false; set global enable_external_access = false;
set global lock_configuration = true"""
"""Statements that deny SQL all files, extensions and settings."""


def ask(sql: str, params: Sequence[Any], tables: "Mapping[str, pa.Table]") -> "pa.Table":
    """Return the result of a SELECT over these tables.

    Errors: UsageError for SQL that fails, is no SELECT, or takes too long or too much memory.
    """
    with ctrl_c_waits():
        import duckdb

    cursor = _database(os.getpid()).cursor()
    try:
        for name, table in tables.items():
            cursor.register(name, table)
        kinds = {statement.type.name for statement in cursor.extract_statements(sql)}
        if kinds - {"SELECT", "MULTI"} or ("MULTI" in kinds and "copy" in sql.lower()):  # a pivot is several statements
            raise UsageError(f"this SQL does more than to select: {_brief(sql)!r}")
        return _Query(cursor, sql, params).result()
    except RuntimeError as error:  # DuckDB's form of Ctrl-C
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise
    except duckdb.Error as error:
        if isinstance(error, duckdb.InvalidInputException) and "KeyboardInterrupt" in str(error):
            raise KeyboardInterrupt from error  # Ctrl-C reached Python code that DuckDB had called
        raise UsageError(f"the store cannot answer: {_brief(str(error), 300)}") from error
    finally:
        if not _unstoppable:
            with contextlib.suppress(duckdb.Error):
                cursor.close()


def _brief(text: str, most: int = 80) -> str:
    """Return the first `most` letters of a text on one line, without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(text.split())[:most])


@cache
def _database(process: int) -> "duckdb.DuckDBPyConnection":
    """Return the database of the process with this id. It serves all queries: to open one takes as long as a query.

    Each query has its own cursor; its tables vanish with the cursor.
    """
    import duckdb
    import psutil

    memory = min(MOST_MEMORY, psutil.virtual_memory().total // 2)
    database = duckdb.connect(config={"memory_limit": f"{memory >> 20}MiB", "temp_directory": ""})
    database.execute(_SETTINGS)
    return database


_unstoppable: list[threading.Thread] = []
"""Threads of queries that went on after an interrupt: they end with the process."""


class _Query:
    """A query that runs in its own thread, so that signals reach the thread that waits for it."""

    def __init__(self, cursor: "duckdb.DuckDBPyConnection", sql: str, params: Sequence[Any]) -> None:
        self._cursor, self._sql, self._params = cursor, sql, params
        self._table: pa.Table | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="DuckDB")

    def _run(self) -> None:
        try:
            relation = self._cursor.sql(self._sql, params=list(self._params))
            if relation is None:
                raise UsageError(f"this SQL selects nothing: {_brief(self._sql)!r}")
            self._table = relation.to_arrow_table()
        except BaseException as error:
            self._error = error

    def result(self) -> "pa.Table":
        """Run the query and return its rows. UsageError after LIMIT_S seconds."""
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
        assert self._table is not None
        return self._table

    def _stop(self) -> None:
        """Interrupt the query. A thread that does not end within _GRACE_S is left alone."""
        with ctrl_c_waits():
            self._cursor.interrupt()
            if self._thread.ident is not None:
                self._thread.join(_GRACE_S)
        if self._thread.is_alive():
            if not _unstoppable:
                atexit.register(_silence_stderr)
            _unstoppable.append(self._thread)


def _silence_stderr() -> None:
    """Discard DuckDB's complaints on standard error about objects that a thread holds as the process ends."""
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
