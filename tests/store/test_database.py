"""The sandboxed database: a query reads the given tables alone, and always ends."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest

from roofbook.errors import UsageError
from roofbook.store import database
from roofbook.store.parquet import Store

from .test_parquet import row

ENDLESS = (
    "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
    "select sum(a.range * b.range) from range(100000000000) a, range(100000000000) b",
)


@pytest.mark.parametrize("sql", ENDLESS)
def test_an_endless_query_is_ended_and_the_next_is_answered(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "LIMIT_S", 0.5)
    with pytest.raises(UsageError, match=r"the store cannot answer (within 0\.5 s|: Out of Memory Error)"):
        database.ask(sql, (), {})
    monkeypatch.undo()
    assert database.ask("select 1 as n", (), {}).to_pylist() == [{"n": 1}]


@pytest.mark.usefixtures("listens")
def test_sigterm_ends_a_query_too(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # as commands set it
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGTERM])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            database.ask(ENDLESS[0], (), {})
    finally:
        timer.join()
        signal.signal(signal.SIGTERM, before)


def test_a_query_that_ignores_interrupts_does_not_block_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller of a function that takes minutes for one value goes on; the thread ends with the process."""
    monkeypatch.setattr(database, "LIMIT_S", 0.2)
    monkeypatch.setattr(database, "_GRACE_S", 0.2)
    monkeypatch.setattr(database, "_unstoppable", [])
    registered: list[object] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    with pytest.raises(UsageError, match="within"):
        database.ask("select levenshtein(repeat('a', 40000), repeat('b', 40000))", (), {})
    for thread in database._unstoppable:
        thread.join()
    assert len(registered) <= 1


def test_settings_are_locked() -> None:
    names = ("enable_external_access", "lock_configuration", "temp_directory", "python_enable_replacements", "TimeZone")
    columns = ", ".join(f"current_setting('{name}')::varchar" for name in names)
    (settings,) = database.ask(f"select {columns}", (), {}).to_pylist()
    assert list(settings.values()) == ["false", "true", "", "false", "UTC"]
    for sql in (
        "set memory_limit = '1TB'",
        "reset lock_configuration",
        "pragma enable_progress_bar",
        "use memory.main",
    ):
        with pytest.raises(UsageError):
            database.ask(sql, (), {})


def test_queries_see_their_own_tables_alone() -> None:
    first, second = ({"numbers": pa.table({"a": [number]})} for number in (1, 2))
    assert database.ask("select a from numbers", (), first)["a"].to_pylist() == [1]
    assert database.ask("select a from numbers", (), second)["a"].to_pylist() == [2]
    with pytest.raises(UsageError, match="numbers"):
        database.ask("select a from numbers", (), {})


def test_reading_writes_nothing(tmp_path: Path) -> None:
    """SQL can neither write nor read a file of the store by its path."""
    store = Store(tmp_path / "results")
    (path,) = store.append([row()])
    before = path.read_bytes(), sorted(tmp_path.rglob("*"))
    for sql in (
        f"copy cells to '{path}'",
        f"select * from '{path}'",
        f"from read_parquet('{path}')",
        f"from read_blob('{path}')",
    ):
        with pytest.raises(UsageError):
            store.query(sql)
    assert (path.read_bytes(), sorted(tmp_path.rglob("*"))) == before
