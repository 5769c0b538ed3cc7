"""What a row of the store has: its columns, what every row needs, and what is refused before anything is written.

pyarrow is imported on first use: it takes longer to import than all else here.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of

if TYPE_CHECKING:
    import pyarrow as pa

TEXT = [
    *("run", "lab", "variant", "case", "parent", "scale", "role", "axis", "point", "dtype"),
    *("device", "device_name", "device_kind", "backend", "policy", "timed", "unit"),
    *("cell_key", "env_key", "source_sha256", "status", "reason", "extra", "provenance"),
]
"""The columns that hold text: a reader may filter by these."""
COLUMNS = dict.fromkeys(TEXT, "VARCHAR") | {
    "started": "TIMESTAMPTZ",
    "units": "BIGINT",
    "rounds": "INTEGER[]",
    **dict.fromkeys(("throttle", "sample_throttle"), "VARCHAR[]"),
    **dict.fromkeys(("flops", "bytes", "error", "bound"), "DOUBLE"),
    **dict.fromkeys(("samples_s", "wall_s", "clock_mhz", "temperature_c"), "DOUBLE[]"),
}
"""The columns of a row with their SQL types. `throttle` has each reason once, `sample_throttle` those of each sample as a text:
it is empty where no sample has any."""

TIMES = ("samples_s", "wall_s")
"""The columns in which hardly any value is there twice."""
REASONS = ", "
"""What stands between two throttle reasons of one sample."""

PROFILE = "profile"
"""The role of a row of hardware counters. Its time is under a profiler, so only those get the row who ask for this role."""
CONTROL = "again"
"""The role of the A/A control: a variant that is measured a second time beside itself."""

ROLES = ("step", "base", "peer", "sweep", "probe", "peak", CONTROL, PROFILE)
"""What a row is measured as."""

REQUIRED = ("run", "started", "lab", "variant", "case", "role", "device", "backend", "policy", "cell_key", "env_key")
IDENTITY = (*REQUIRED, "scale", "dtype", "timed")
"""Rows equal in these are one measurement in two files."""
MEASUREMENT = ("cell_key", "env_key")
"""What the runs of one measurement have in common: code, policy and device, and the environment."""
_EMPTY = (
    "samples_s",
    "wall_s",
    "rounds",
    "clock_mhz",
    "temperature_c",
    "throttle",
    "sample_throttle",
)  # rather than null
JSON = ("policy", "extra", "provenance")
"""The columns of text that is the JSON of an object."""
OLDEST_FIRST, NEWEST_FIRST = "started <= now(), started, run", "started <= now() desc, started desc, run desc"
"""The order of rows in SQL, as `age` has it."""
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""What a lab, a device and a run are named by: they name folders and files."""


def __getattr__(name: str) -> Any:
    """SCHEMA, the pyarrow schema of a row, is made on first use."""
    if name == "SCHEMA":
        return schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def age(started: datetime) -> tuple[bool, datetime]:
    """What sorts rows by their `started`, oldest first: one from the future, of a wrong clock, is older than all others.

    Else a row that failed under a wrong clock would be the newest for ever. When its time has come it counts by it.
    """
    return started <= datetime.now(UTC), started


@cache
def schema() -> "pa.Schema":
    import pyarrow as pa

    plain = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64()}
    types = {f"{name}[]": pa.list_(kind) for name, kind in plain.items()} | plain
    types["TIMESTAMPTZ"] = pa.timestamp("us", tz="UTC")
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def check(row: Mapping[str, Any]) -> None:
    """Raise UsageError for an unknown field, a missing required one or a time without its zone; row_rules.py has more."""
    for name in row:
        if name not in COLUMNS:
            raise one_of("field of a row", name, list(COLUMNS))
    for name in (*REQUIRED, "status"):
        if row.get(name) is None:
            raise UsageError(f"a row lacks {name!r}; every row has {', '.join((*REQUIRED, 'status'))}")
    if not isinstance(row["started"], datetime) or row["started"].tzinfo is None:
        raise UsageError(f"started {row['started']!r} is not a datetime with its time zone")


def table(rows: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """The rows as one table; a list that is not given is empty, another field null. UsageError for a wrong type."""
    import pyarrow as pa

    seen = {tuple(str(row.get(name)) for name in IDENTITY) for row in rows}
    if len(seen) < len(rows):
        raise UsageError(f"two rows of one append are the same measurement: give each its own {', '.join(IDENTITY)}")
    arrays = []
    for field in schema():
        values = [row.get(field.name) for row in rows]
        if field.name in _EMPTY:
            values = [[] if value is None else value for value in values]
        try:
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"field {field.name!r} must be {field.type}: {str(error).splitlines()[0]}") from error
    return pa.table(arrays, schema=schema())
