"""Published results: the figures and claims of the original reports, read from results/published and checked.

Figures are in published/LAB.csv, claims in published/claims/LAB.csv. Only this module reads these files. It serves the tables
that compare them with our measurements, and the SQL views `published` and `claims`. A file with an invalid row is refused, with
the line number.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of
from ..paths import installed_book, is_book, project_root

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FIGURES = ("table", "variant", "case", "device", "metric", "unit", "trial", "value")
CLAIMS = ("id", "claim", "published_effect", "shown_by")
SECONDS: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def labs(results: str | Path) -> list[str]:
    """Return the labs with a file of figures, in alphabetical order. results: the folder that holds published/."""
    return _labs(Path(results) / "published")


def labs_with_claims(results: str | Path) -> list[str]:
    """Return the labs with a file of claims, in alphabetical order. results: the folder that holds published/."""
    return _labs(Path(results) / "published" / "claims")


def results_of(lab: str, own: Path) -> Path:
    """Return the folder whose published/ describes the report of a lab: a store's `own` if it has one, else the project's.

    A lab that a project does not describe is the installed book's.
    """
    root = project_root()
    results = own if (own / "published").is_dir() else root / "results"
    if results == root / "results" and not is_book(root) and lab not in (*labs(results), *labs_with_claims(results)):
        return installed_book() / "results"
    return results


def _labs(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*.csv"))


def figures(lab: str, results: str | Path) -> "pd.DataFrame":
    """Return the published figures of a lab, in the order of its file.

    results: the folder that holds published/LAB.csv. Columns are those of the file as text, but `value` as float64, plus
    `printed` (the value as text), `seconds` (float64: the value in seconds; NaN if the unit is no time) and `line` (of the
    file). Errors: UsageError for an unknown lab, a missing column, an empty field or a value that is no finite number.
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
    """Return the claims of a lab's report, in the order of its file.

    results: the folder that holds published/claims/LAB.csv. Columns are CLAIMS, `effects` and `line`. `effects` is the tuple of
    factors in `published_effect`: one, or one for each case; empty for a claim without a number. Errors: see `figures`.
    """
    import pandas as pd

    path = _file(Path(results) / "published" / "claims", lab, "lab with claims")
    rows = _read(path, CLAIMS, needed=CLAIMS)
    for row in rows:
        text = row["published_effect"].split(" ")[0]
        row["effects"] = () if text == "true" else tuple(_number(part, path, row["line"]) for part in text.split(";"))
    return pd.DataFrame(rows, columns=[*CLAIMS, "effects", "line"])


def _file(folder: Path, lab: str, noun: str) -> Path:
    """Return the file of a lab. If there is none, raise a UsageError that lists the labs with files. noun: for its message."""
    valid = _labs(folder)
    if lab not in valid:
        raise one_of(noun, lab, valid) if valid else UsageError(f"no CSV files in {folder}")
    return folder / f"{lab}.csv"


def view_of_figures(folders: Sequence[Path]) -> "pa.Table":
    """Return the SQL view `published`: lab, FIGURES with `trial` as an integer and `value` as printed, and `number`, a double.

    An empty field is null. The view is empty if there are no files. folders: those that may hold published/; of a lab with
    files in two the first counts.
    """
    import pandas as pd
    import pyarrow as pa

    names = ("lab", *FIGURES, "number")
    folder_by_lab = {lab: folder for folder in reversed(folders) for lab in labs(folder)}
    frames = [figures(lab, folder_by_lab[lab]).assign(lab=lab) for lab in sorted(folder_by_lab)]
    if not frames:
        return _table({name: [] for name in names}, number=pa.float64(), trial=pa.int32())
    rows = pd.concat(frames, ignore_index=True)
    columns = {name: [text or None for text in rows[name]] for name in ("lab", *FIGURES[:-2])}
    columns["trial"] = [int(text) if text.isdecimal() else None for text in rows["trial"]]
    columns |= {"value": list(rows["printed"]), "number": list(rows["value"])}
    return _table({name: columns[name] for name in names}, number=pa.float64(), trial=pa.int32())


def view_of_claims(folders: Sequence[Path]) -> "pa.Table":
    """Return the SQL view `claims`: lab and CLAIMS, all text. folders: as for `view_of_figures`."""
    import pandas as pd

    names = ("lab", *CLAIMS)
    folder_by_lab = {lab: folder for folder in reversed(folders) for lab in labs_with_claims(folder)}
    frames = [claims(lab, folder_by_lab[lab]).assign(lab=lab) for lab in sorted(folder_by_lab)]
    columns = pd.concat(frames, ignore_index=True) if frames else {name: [] for name in names}
    return _table({name: list(columns[name]) for name in names})


def _table(columns: Mapping[str, list[Any]], **types: Any) -> "pa.Table":
    """Return a table of columns of text, or of another type if `types` has one for a column."""
    import pyarrow as pa

    return pa.table({name: pa.array(values, types.get(name, pa.string())) for name, values in columns.items()})


def _read(path: Path, columns: tuple[str, ...], needed: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return the rows of a CSV file as text, each with its `line`. UsageError for another header or an empty needed field."""
    rows: list[dict[str, Any]] = []
    with path.open(newline="", encoding="utf-8-sig") as file, _csv_errors(path):
        lines = csv.reader(file)
        header = next(lines, [])
        if tuple(header) != columns:
            raise UsageError(f"{path}, line 1: columns are {','.join(header)!r}; expected {','.join(columns)!r}")
        for fields in lines:
            position = f"{path}, line {lines.line_num}"
            if len(fields) != len(columns):
                raise UsageError(f"{position}: {len(fields)} fields; expected {len(columns)} ({','.join(columns)})")
            row: dict[str, Any] = dict(zip(columns, fields, strict=True))
            for name in needed:
                if not row[name].strip():
                    raise UsageError(f"{position}: {name} is empty; every figure needs one")
            rows.append(row | {"line": lines.line_num})
    return rows


@contextmanager
def _csv_errors(path: Path) -> Iterator[None]:
    """Turn errors of decoding and of the CSV reader into UsageErrors that name the file."""
    try:
        yield
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{path} is no CSV file in UTF-8: {error}") from None


def _number(text: str, path: Path, line: int) -> float:
    """Return the finite number in a text. UsageError for another text."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"{path}, line {line}: value is {text!r}; expected a finite number")
    return value
