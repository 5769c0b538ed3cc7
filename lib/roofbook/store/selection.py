"""Selection of rows in Arrow tables: by the texts of columns, oldest first, the newest of a group, each row once.

Texts are compared by their numbers in a dictionary, so the samples and long texts of rows are neither read nor copied. Serves
parquet.py and the history of measurements.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .file_check import NUMBER
from .row_cache import FILE

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


def coded(table: "pa.Table", name: str) -> "tuple[pa.Array, NDArray[np.int64]]":
    """Return the distinct values of a column, and for each row the index of its value, -1 for null."""
    import numpy as np
    import pyarrow as pa

    column = table.select([name]).unify_dictionaries().column(0).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # without any chunk
        column = pa.array([], column.type)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.dictionary, encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def group_numbers(table: "pa.Table", names: Iterable[str]) -> "NDArray[np.int64]":
    """Return for each row the number of its group, from 0 by first rows: a group is equal in these columns, nulls included."""
    import numpy as np
    import pyarrow as pa

    groups = np.zeros(len(table), np.int64)
    for name in names:
        values, indices = coded(table, name)
        encoded = pa.array(groups * (len(values) + 1) + indices + 1).dictionary_encode()
        groups = encoded.indices.to_numpy().astype(np.int64)
    return groups


def with_texts(table: "pa.Table", allowed: "Mapping[str, Sequence[str | None]]") -> "pa.Table":
    """Return the rows whose texts are among those allowed for each column; None stands for null."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    fit = np.ones(len(table), bool)
    for name, texts in allowed.items():
        values, indices = coded(table, name)
        fits = pc.is_in(values, pa.array([text for text in texts if text is not None], pa.string()))
        fit &= np.append(fits.to_numpy(zero_copy_only=False), None in texts)[indices]
    return table if fit.all() else table.filter(pa.array(fit))


def texts_of(table: "pa.Table", name: str) -> set[str]:
    """Return the texts that a column has."""
    import numpy as np

    values, indices = coded(table, name)
    return set(values.take(np.unique(indices[indices >= 0])).to_pylist())


def oldest_first(table: "pa.Table") -> "NDArray[np.int64]":
    """Return the row numbers by `schema.age`, rows of one moment by run, and those of one run as in their file."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    def ranks(name: str) -> "NDArray[np.int64]":
        values, indices = coded(table, name)
        return np.argsort(pc.sort_indices(values).to_numpy())[indices]

    started = table["started"].cast(pa.int64()).to_numpy()
    is_past = started <= time.time_ns() // 1000
    return np.lexsort((table[NUMBER].to_numpy(), ranks(FILE), ranks("run"), started, is_past))


def each_once(table: "pa.Table", identity: Iterable[str]) -> "pa.Table":
    """Return the table without copies of a row: the first of each group that is equal in the columns `identity`."""
    import numpy as np

    first = np.unique(group_numbers(table, identity), return_index=True)[1]
    return table if len(first) == len(table) else table.take(np.sort(first))


def with_several(groups: "NDArray[np.int64]", values: "NDArray[np.int64]") -> "NDArray[np.int64]":
    """Return the number of a row of each group whose rows have several values. groups, values: numbers from 0, of each row."""
    import numpy as np

    first = np.unique(groups * (values.max(initial=0) + 1) + values, return_index=True)[1]
    return first[np.bincount(groups[first])[groups[first]] > 1]


class Newest(NamedTuple):
    """The newest row of each group, oldest first, and for each the number of runs in its group."""

    rows: "pa.Table"
    runs: list[int]


def newest(table: "pa.Table", key: Sequence[str]) -> Newest:
    """Return the newest row of each group of rows that are equal in the columns `key`."""
    import numpy as np

    order = oldest_first(table)
    groups = group_numbers(table, key)
    last = np.zeros(groups.max(initial=-1) + 1, np.int64)
    last[groups[order]] = np.arange(len(order))  # of several rows of a group the last one stays
    chosen = order[np.sort(last)]
    first_of_runs = np.unique(group_numbers(table, (*key, "run")), return_index=True)[1]
    runs = np.bincount(groups[first_of_runs], minlength=len(last))
    return Newest(table.take(chosen), runs[groups[chosen]].tolist())
