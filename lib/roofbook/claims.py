"""What was published: the figures and statements of the original reports, read from results/published and checked.

Serves the tables that set them beside our own cells. A file with a broken row is refused with its line number.
"""

import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roofbook.errors import UsageError, one_of

if TYPE_CHECKING:
    import pandas as pd

FIGURES = ("table", "variant", "case", "device", "metric", "unit", "trial", "value")
CLAIMS = ("lab", "id", "claim", "published_effect", "shown_by")
SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def published(lab: str, results: str | Path) -> "pd.DataFrame":
    """Every published figure of `lab`, in the order of the file.

    results: the folder that holds published/LAB.csv. Returns the file's columns as text, but `value` as float64, plus
    `seconds` (float64: the value in seconds where the unit is a time, else NaN) and `line` (of the file).
    Errors: UsageError for an unknown lab, a missing column, an empty field or a value that is no finite number.
    """
    import pandas as pd

    folder = Path(results) / "published"
    path = folder / f"{lab}.csv"
    known = sorted(file.stem for file in folder.glob("*.csv") if file.stem != "claims")
    if lab not in known:
        raise one_of("lab with published figures", lab, known) if known else UsageError(f"no CSV files in {folder}")
    rows = _read(path, FIGURES, needed=("table", "variant", "device", "metric", "value"))
    for row in rows:
        row["value"] = _number(row["value"], path, row["line"])
        row["seconds"] = row["value"] * SECONDS.get(row["unit"], math.nan)
    return pd.DataFrame(rows, columns=[*FIGURES, "seconds", "line"])


def speedups(table: "pd.DataFrame") -> "pd.DataFrame":
    """The published speedups out of `published(...)`: one row each, columns table, variant, case, device, speedup."""
    rows = table[table["metric"] == "speedup"]
    return rows[["table", "variant", "case", "device"]].assign(speedup=rows["value"]).reset_index(drop=True)


def best(table: "pd.DataFrame", case: str, metric: str = "time") -> "pd.Series[Any]":
    """The row of the shortest published time of `case` on any device; UsageError where there is none."""
    rows = table[(table["case"] == case) & (table["metric"] == metric) & table["seconds"].notna()]
    if rows.empty:
        raise one_of(f"case with a published {metric}", case, sorted(set(table[table["metric"] == metric]["case"])))
    return rows.loc[rows["seconds"].idxmin()]


def claims(lab: str, results: str | Path) -> "pd.DataFrame":
    """The statements of the lab's report: lab, id, claim, published_effect, shown_by, and `effects`, the tuple of
    factors that published_effect names (one, or one a case; empty for a statement without a number)."""
    import pandas as pd

    path = Path(results) / "published" / "claims.csv"
    rows = _read(path, CLAIMS, needed=CLAIMS)
    for row in rows:
        text = row["published_effect"].split(" ")[0]
        row["effects"] = () if text == "true" else tuple(_number(part, path, row["line"]) for part in text.split(";"))
    mine = [row for row in rows if row["lab"] == lab]
    if not mine:
        raise one_of("lab with claims", lab, sorted({row["lab"] for row in rows}))
    return pd.DataFrame(mine, columns=[*CLAIMS, "effects", "line"])


def _read(path: Path, columns: tuple[str, ...], needed: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of a CSV file as text, each with its `line`; the header must be `columns` and `needed` fields not empty."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; it should hold the columns {', '.join(columns)}")
    rows: list[dict[str, Any]] = []
    with path.open(newline="", encoding="utf-8") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        if tuple(header) != columns:
            raise UsageError(f"{path}, line 1: columns are {','.join(header)!r}; expected {','.join(columns)!r}")
        for fields in lines:
            where = f"{path}, line {lines.line_num}"
            if len(fields) != len(columns):
                raise UsageError(f"{where}: {len(fields)} fields; expected {len(columns)} ({','.join(columns)})")
            row: dict[str, Any] = dict(zip(columns, fields, strict=True))
            for name in needed:
                if not row[name].strip():
                    raise UsageError(f"{where}: {name} is empty; every figure needs one")
            rows.append(row | {"line": lines.line_num})
    return rows


def _number(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{path}, line {line}: value is {text!r}; expected a finite number")
    return value
