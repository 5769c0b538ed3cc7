"""What was published: the figures and statements of the original reports, read from results/published and checked.

Figures are in published/LAB.csv, statements in published/claims/LAB.csv. This is the one reader of these files: of the
tables that set them beside our own cells, and of the views that SQL asks. A file with a broken row is refused with its
line number.
"""

import csv
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FIGURES = ("table", "variant", "case", "device", "metric", "unit", "trial", "value")
CLAIMS = ("id", "claim", "published_effect", "shown_by")
SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def labs(results: str | Path) -> list[str]:
    """The labs with a file of figures under results/published, in alphabetical order."""
    return _labs(Path(results) / "published")


def labs_with_claims(results: str | Path) -> list[str]:
    """The labs with a file of statements, in alphabetical order."""
    return _labs(Path(results) / "published" / "claims")


def _labs(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.csv"))


def figures(lab: str, results: str | Path) -> "pd.DataFrame":
    """Every published figure of `lab`, in the order of the file.

    results: the folder that holds published/LAB.csv. Returns the file's columns as text, but `value` as float64, plus
    `printed` (the value as it was printed), `seconds` (float64: the value in seconds where the unit is a time, else NaN) and
    `line` (of the file). Errors: UsageError for an unknown lab, a missing column, an empty field or a value that is no
    finite number.
    """
    import pandas as pd

    path = _file(Path(results) / "published", lab, "lab with published figures")
    rows = _read(path, FIGURES, needed=("table", "variant", "device", "metric", "value"))
    for row in rows:
        row["printed"] = row["value"]
        row["value"] = _number(row["value"], path, row["line"])
        row["seconds"] = row["value"] * SECONDS.get(row["unit"], math.nan)
    return pd.DataFrame(rows, columns=[*FIGURES, "printed", "seconds", "line"])


def claims(lab: str, results: str | Path) -> "pd.DataFrame":
    """The statements of the lab's report, in the order of the file.

    results: the folder that holds published/claims/LAB.csv. Returns CLAIMS, and `effects`, the tuple of factors that
    published_effect names (one, or one a case; empty for a statement without a number). Errors: as of `figures`.
    """
    import pandas as pd

    path = _file(Path(results) / "published" / "claims", lab, "lab with claims")
    rows = _read(path, CLAIMS, needed=CLAIMS)
    for row in rows:
        text = row["published_effect"].split(" ")[0]
        row["effects"] = () if text == "true" else tuple(_number(part, path, row["line"]) for part in text.split(";"))
    return pd.DataFrame(rows, columns=[*CLAIMS, "effects", "line"])


def _file(folder: Path, lab: str, what: str) -> Path:
    """The file of a lab. UsageError where there is none, with the labs that have one."""
    known = _labs(folder)
    if lab not in known:
        raise one_of(what, lab, known) if known else UsageError(f"no CSV files in {folder}")
    return folder / f"{lab}.csv"


def view_of_figures(results: Path) -> "pa.Table":
    """What SQL sees as `published`: lab, FIGURES with `trial` as an integer and `value` as printed, and `number`, a double.

    An empty field is null. Empty where nothing is published.
    """
    import pandas as pd
    import pyarrow as pa

    names = ("lab", *FIGURES, "number")
    frames = [figures(lab, results).assign(lab=lab) for lab in labs(results)]
    if not frames:
        return _table({name: [] for name in names}, number=pa.float64(), trial=pa.int32())
    found = pd.concat(frames, ignore_index=True)
    columns = {name: [text or None for text in found[name]] for name in ("lab", *FIGURES[:-2])}
    columns["trial"] = [int(text) if text.isdecimal() else None for text in found["trial"]]
    columns |= {"value": list(found["printed"]), "number": list(found["value"])}
    return _table({name: columns[name] for name in names}, number=pa.float64(), trial=pa.int32())


def view_of_claims(results: Path) -> "pa.Table":
    """What SQL sees as `claims`: lab and CLAIMS, all text. Empty where there is no such file."""
    import pandas as pd

    names = ("lab", *CLAIMS)
    frames = [claims(lab, results).assign(lab=lab) for lab in labs_with_claims(results)]
    found = pd.concat(frames, ignore_index=True) if frames else {name: [] for name in names}
    return _table({name: list(found[name]) for name in names})


def _table(columns: Mapping[str, list[Any]], **types: Any) -> "pa.Table":
    """Columns as text, but those whose type is given."""
    import pyarrow as pa

    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})


def _read(path: Path, columns: tuple[str, ...], needed: tuple[str, ...]) -> list[dict[str, Any]]:
    """Rows of a CSV file as text, each with its `line`; the header must be `columns` and `needed` fields not empty."""
    rows: list[dict[str, Any]] = []
    with path.open(newline="", encoding="utf-8-sig") as file, _as_csv(path):
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


@contextmanager
def _as_csv(path: Path) -> Iterator[None]:
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV file in UTF-8: {error}") from None


def _number(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{path}, line {line}: value is {text!r}; expected a finite number")
    return value
