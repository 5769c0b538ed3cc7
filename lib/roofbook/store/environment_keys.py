"""Keys of the environment of stored rows, by what counts today: every reader that groups runs uses them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..devices import provenance
from ..escaping import read_json
from .identity import env_key
from .selection import coded

if TYPE_CHECKING:
    import pyarrow as pa

MOST_MISMATCHES = 100
"""Number of rows with one key, and with environments of other keys, after which no further ones are read."""


def with_current_environment(table: "pa.Table") -> "pa.Table":
    """Return the rows with `env_key` as today's code makes it.

    A row may name a variable or a library that no longer counts (`provenance.counted`). Then its key is that of its
    environment without it.
    A row whose key is not that of its environment says nothing about other rows with this key, and keeps it. The table needs
    the columns `env_key` and `provenance`.
    """
    import numpy as np
    import pyarrow as pa

    keys, key_of_row = coded(table, "env_key")
    texts, text_of_row = coded(table, "provenance")
    stored = keys.to_pylist()

    def read(rows: Iterable[int]) -> dict[str, dict[str, Any]]:
        at = ((stored[key_of_row[row]], text_of_row[row]) for row in rows if key_of_row[row] >= 0)
        return _environments((key, texts[number].as_py() if number >= 0 else None) for key, number in at)

    first_rows = np.unique(key_of_row, return_index=True)[1]
    environments = read(first_rows.tolist())
    if len(environments) < len(stored):
        is_unread = np.array([key not in environments for key in stored], bool)
        environments |= read(np.flatnonzero(is_unread[key_of_row]).tolist())
    current_keys = {key: current for key, environment in environments.items() if (current := _current_key(environment))}
    if not current_keys:
        return table
    column = pa.array([current_keys.get(key, key) for key in stored], pa.string())
    column = column.take(pa.array(key_of_row, mask=key_of_row < 0))
    kind = table.schema.field("env_key").type
    column = column.dictionary_encode() if pa.types.is_dictionary(kind) else column
    return table.set_column(table.schema.get_field_index("env_key"), "env_key", column.cast(kind))


def _environments(pairs: Iterable[tuple[str, str | None]]) -> dict[str, dict[str, Any]]:
    """Return the environment of each key, from its first provenance with an environment of this key.

    pairs: (key, provenance as JSON) of rows.
    """
    environments = dict[str, dict[str, Any]]()
    mismatches = Counter[str]()
    for key, text in pairs:
        if key not in environments and mismatches[key] < MOST_MISMATCHES:
            environment = read_json(text or "{}").get("environment") or {}
            if _key(environment) == key:
                environments[key] = environment
            else:
                mismatches[key] += 1
    return environments


def _key(environment: Mapping[str, Any]) -> str | None:
    """Return the key of an environment; None if it has a number that JSON lacks, as a failed row may."""
    try:
        return env_key(environment)
    except ValueError:
        return None


def _current_key(environment: Mapping[str, Any]) -> str | None:
    """Return the key of the parts of an environment that count; None if all of them count."""
    remaining = provenance.counted(environment)
    return None if remaining == environment else _key(remaining)
