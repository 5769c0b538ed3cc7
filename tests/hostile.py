"""Text that tries to leave the place where it is shown, and rows of the store that are full of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roofbook.store.parquet import Store
from roofbook.store.schema import JSON, TEXT

HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\r\x9b31m\u202e\u2028"  # a terminal's title, its screen, a line begun again, a turned direction
    "\"'><img src=//elsewhere.invalid/x onerror=alert(window.hacked=1)><svg onload=alert(window.hacked=1)>"
    "</title></textarea></style></script>"  # the ends of what HTML takes as it is
    "<img src=//elsewhere.invalid/x onerror=alert(window.hacked=1)><script>window.hacked=1</script><!--<script>"
    "\n```\n\n````\n<script>window.hacked=1</script>\n:::{note}\n:::\n"  # the ends of a fence of MyST, and what is below it
    "{raw}`<b>x</b>` {doc}`nowhere` [a](javascript:window.hacked=1) ![b](//elsewhere.invalid/y) <https://elsewhere.invalid>"
    " $\\frac{$ %s {0} {x!r} `a` |b| ../../../etc/passwd\x00"  # mathtext, formats, a path
    ' font: 1px x; url(#x) id="x" data-of="x" href="#x" ]]> &lt;script&gt; \U000e0041'
)
FORMULA = '=HYPERLINK("//elsewhere.invalid")'
HALF = "\ud800"
"""Half a surrogate pair, which JSON may hold and UTF-8 may not."""
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
"""Control characters and other code points that a terminal must never get; line ends and tabulators are allowed."""
KEYS = ("lab", "scale", "role", "status", "variant", "case", "source_sha256", "axis", "parent", "device_kind")
"""Columns by which rows are chosen: no page shows a row with other text in them."""
LISTS = ("throttle", "sample_throttle")
FAILED = "tasks-4"
"""Name of the variant whose rows have failed in a store in memory."""


def hostile_json(value: Any) -> Any:
    """Return JSON data with hostile text in front of each string, and one more hostile key in each object; all keys stay."""
    if isinstance(value, Mapping):
        return {name: hostile_json(inner) for name, inner in value.items()} | {HOSTILE + HALF: HOSTILE + HALF}
    if isinstance(value, list):
        return [hostile_json(inner) for inner in value]
    return HOSTILE + value if isinstance(value, str) else value


def hostile_value(name: str, value: Any) -> Any:
    """Return the value of a column with hostile text in front of its own; None and NaN stay."""
    if value is None or value != value if not hasattr(value, "__len__") else False:
        return value
    if name in JSON or name == "policy":
        return json.dumps(hostile_json(json.loads(value)))
    return [HOSTILE for _ in value] if name in LISTS else HOSTILE + value


def hostile_frame(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with hostile text in all text columns but KEYS; rows of the variant FAILED have a hostile reason."""
    hostile = rows.copy()
    if {"variant", "status", "reason"} <= {*rows.columns}:
        failed = rows["variant"] == FAILED
        hostile["reason"] = hostile["reason"].astype(object).where(~failed, HOSTILE)
        hostile["status"] = hostile["status"].where(~failed, "failed")
        rows = hostile.copy()
    for name in rows.columns:
        if name in (*TEXT, *LISTS) and name not in KEYS:
            hostile[name] = pd.Series([hostile_value(name, value) for value in rows[name]], rows.index, dtype=object)
    return hostile


def _honest(argument: Any) -> Any:
    """Return an argument of a query without hostile text, as the files of the store have it."""
    if isinstance(argument, str):
        return argument.replace(HOSTILE, "")
    return [_honest(part) for part in argument] if isinstance(argument, list | tuple) else argument


@contextmanager
def hostile_stores(devices: tuple[str, ...], variants: tuple[str, ...]) -> Iterator[None]:
    """Let every store of this process answer with hostile rows, those of these devices and variants alone, as if no check of
    files had left one out.
    """

    def hostile(answer: Any) -> Any:
        is_arrow = isinstance(answer, pa.Table)
        frame = answer.to_pandas() if is_arrow else answer
        for name, allowed in (("device", devices), ("variant", variants)):
            if name in frame:
                chosen = frame[name].isin(allowed)
                frame = (
                    frame[chosen | (frame["lab"] == "peaks")] if name == "variant" and "lab" in frame else frame[chosen]
                )
        hostile_rows = hostile_frame(frame)
        return pa.Table.from_pandas(hostile_rows, preserve_index=False) if is_arrow else hostile_rows

    def wrapped(method: Any) -> Any:
        def ask(store: Store, *arguments: Any, **named: Any) -> Any:
            answer = method(store, *map(_honest, arguments), **{name: _honest(value) for name, value in named.items()})
            return map(hostile, answer) if isinstance(answer, Iterator) else hostile(answer)

        return ask

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rows", "query", "arrow", "all_rows", "by_device"):
            patch.setattr(Store, name, wrapped(getattr(Store, name)))
        yield


def write_hostile_store(recorded: Path, results: Path, lab: str, device: str) -> None:
    """Write a store of a lab's rows on a device: each has hostile text in one of its columns, and each column is in turn.

    So a row is whole but for that, and whatever a check of files leaves out, others remain.
    """
    turns = (*TEXT, *LISTS)
    for source in sorted((recorded / f"lab={lab}" / f"device={device}").glob("*.parquet")):
        table = pq.ParquetFile(source).read()
        rows = table.to_pylist()
        for at, row in enumerate(rows):
            name = turns[at % len(turns)]
            row[name] = hostile_value(name, row.get(name))
            if name == "reason":
                row |= {"status": "failed", "reason": HOSTILE if at // len(turns) % 2 else FORMULA}
        metadata = {HOSTILE.encode(errors="replace"): HOSTILE.encode(errors="replace")}
        kinds = pa.schema([table.schema.field(name) for name in table.column_names]).with_metadata(metadata)
        for part in ("recorded", "local"):
            path = results / part / f"lab={lab}" / f"device={device}" / f"{part}-{source.name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.Table.from_pylist(rows if part == "recorded" else rows[:40], kinds), path)
