"""Schema of the store's rows: columns, required fields, roles, and the checks before rows are written.

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
"""Columns of text: readers may filter by these."""
COLUMNS = dict.fromkeys(TEXT, "VARCHAR") | {
    "started": "TIMESTAMPTZ",
    "units": "BIGINT",
    "rounds": "INTEGER[]",
    **dict.fromkeys(("throttle", "sample_throttle"), "VARCHAR[]"),
    **dict.fromkeys(("flops", "bytes", "error", "bound"), "DOUBLE"),
    **dict.fromkeys(("samples_s", "wall_s", "clock_mhz", "temperature_c"), "DOUBLE[]"),
}
"""Columns of a row with their SQL types. `throttle` lists each reason once; `sample_throttle` has one text of reasons for each
sample, or is empty if no sample was throttled."""

TIMES = ("samples_s", "wall_s")
"""Columns of times: hardly any value occurs twice."""
REASONS = ", "
"""Separator between the throttle reasons of one sample."""

PROFILE = "profile"
"""Role of a row of hardware counters. Its time was taken under a profiler, so readers get such rows only on request."""
CONTROL = "again"
"""Role of the A/A control: a second measurement of a variant in the same run."""

ROLES = ("step", "base", "peer", "dsl", "sweep", "probe", "peak", CONTROL, PROFILE)
"""Roles of rows: the purpose for which a variant was measured."""

REQUIRED = ("run", "started", "lab", "variant", "case", "role", "device", "backend", "policy", "cell_key", "env_key")
IDENTITY = (*REQUIRED, "scale", "dtype", "timed")
"""Columns that identify a row: two rows equal in these are copies of one."""
MEASUREMENT = ("cell_key", "env_key")
"""Columns that all runs of one measurement share: hashes of code, policy and device, and of the environment."""
_LISTS = tuple(name for name, kind in COLUMNS.items() if kind.endswith("[]"))
"""Columns of lists: a missing one is written as an empty list, not as null."""
JSON = ("policy", "extra", "provenance")
"""Columns of text that is a JSON object."""
SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
"""Pattern of the names of labs, devices and runs, which also name folders and files."""


def __getattr__(name: str) -> Any:
    """Return SCHEMA, the pyarrow schema of a row, on first use."""
    if name == "SCHEMA":
        return schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def age(started: datetime) -> tuple[bool, datetime]:
    """Return a sort key for rows by their `started`, oldest first. A start in the future, by a wrong clock, counts as oldest.

    Otherwise a row that failed under a wrong clock would stay the newest for years.
    """
    return started <= datetime.now(UTC), started


@cache
def schema() -> "pa.Schema":
    """Return the pyarrow schema of COLUMNS."""
    import pyarrow as pa

    plain = {"VARCHAR": pa.string(), "BIGINT": pa.int64(), "INTEGER": pa.int32(), "DOUBLE": pa.float64()}
    types = {f"{name}[]": pa.list_(kind) for name, kind in plain.items()} | plain
    types["TIMESTAMPTZ"] = pa.timestamp("us", tz="UTC")
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def check(row: Mapping[str, Any]) -> None:
    """Raise UsageError for an unknown field, a missing required one or a start without a time zone. row_rules.py has more."""
    for name in row:
        if name not in COLUMNS:
            raise one_of("field of a row", name, list(COLUMNS))
    for name in (*REQUIRED, "status"):
        if row.get(name) is None:
            raise UsageError(f"a row lacks {name!r}; every row has {', '.join((*REQUIRED, 'status'))}")
    if not isinstance(row["started"], datetime) or row["started"].tzinfo is None:
        raise UsageError(f"started {row['started']!r} is not a datetime with its time zone")


def table(rows: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Return the rows as one table. A missing list is empty, another missing field null. UsageError for a wrong type."""
    import pyarrow as pa

    identities = {tuple(str(row.get(name)) for name in IDENTITY) for row in rows}
    if len(identities) < len(rows):
        raise UsageError(f"two rows of one append are the same measurement: give each its own {', '.join(IDENTITY)}")
    arrays = []
    for field in schema():
        values = [row.get(field.name) for row in rows]
        if field.name in _LISTS:
            values = [[] if value is None else value for value in values]
        try:
            arrays.append(pa.array(values, field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise UsageError(f"field {field.name!r} must be {field.type}: {str(error).splitlines()[0]}") from error
    return pa.table(arrays, schema=schema())
