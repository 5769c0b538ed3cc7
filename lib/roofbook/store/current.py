"""The rows of the store that still count: of kernels that are what they were, with the traffic that is modelled today."""

from functools import cache
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..spec.lab import Case, Lab
from .schema import MEASUREMENT

if TYPE_CHECKING:
    import pandas as pd


def matching_source(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Those rows of a lab whose kernel is, letter for letter, that of today's code, by `with_current_traffic`."""
    same = rows["variant"].map(sources(lab)) == rows["source_sha256"].fillna("")
    return with_current_traffic(lab, rows[same]) if len(rows) else rows


def sources(lab: Lab) -> dict[str, str]:
    """The kernel of each variant, as a row names it: as its file is now, should it have been edited since; '' of none."""
    return {variant.name: variant.source.sha256 if variant.source else "" for variant in lab.all_variants()}


def of_newest(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Of rows of one device and backend, oldest first: by variant and case, all runs of the newest measurement."""
    if rows.empty:
        return rows
    keys = list(MEASUREMENT)
    newest = rows.groupby(["variant", "case"])[keys].transform("last")
    return rows[(rows[keys] == newest).all(axis=1)]


def with_current_traffic(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of a lab with bytes by today's model of what its variants move: a row's own are those of the day it was measured."""
    known = {variant.name: variant for variant in lab.all_variants()}

    @cache
    def case_of(name: str, scale: str) -> Case | None:
        try:
            return lab.case(name, scale)
        except UsageError:
            return None

    @cache
    def bytes_of(variant: str, name: str, scale: str) -> float | None:
        case = case_of(name, scale)
        return lab.traffic(case, known[variant]) if case and variant in known else None

    columns = [rows[name].tolist() for name in ("variant", "case", "scale", "bytes")]
    modelled = [(bytes_of(*row[:3]), row[3]) for row in zip(*columns, strict=True)]
    return rows.assign(bytes=[own if today is None else today for today, own in modelled])
