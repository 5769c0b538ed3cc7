"""Stored rows that match today's code: measured with today's kernels, and with the traffic that the labs model today."""

from functools import cache
from typing import TYPE_CHECKING, Any

from ..spec.lab import Lab
from ..spec.source import hashes_of
from .schema import MEASUREMENT

if TYPE_CHECKING:
    import pandas as pd

    from .parquet import Store


def matching_source(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows whose kernel text equals that of today's code, with today's traffic (`with_current_traffic`)."""
    is_current = rows["variant"].map(source_hashes(lab)) == rows["source_sha256"].fillna("")
    return with_current_traffic(lab, rows[is_current]) if len(rows) else rows


def rows_of_today(lab: Lab, store: "Store", **filters: Any) -> "pd.DataFrame":
    """Return `matching_source` of the store's rows. filters: as of `Store.rows`. Rows of older kernels are not even copied."""
    hashes = [*dict.fromkeys(digest or None for digest in source_hashes(lab).values()), ""]
    return matching_source(lab, store.rows(lab.name, source_sha256=hashes, **filters))


def source_hashes(lab: Lab) -> dict[str, str]:
    """Return the SHA-256 of each variant's kernel, read from its file now; '' for a variant without a kernel."""
    variants = lab.all_variants()
    with_kernels = [variant for variant in variants if variant.source]
    hashes = hashes_of(variant.text for variant in with_kernels)
    by_name = {variant.name: digest for variant, digest in zip(with_kernels, hashes, strict=True)}
    return {variant.name: by_name.get(variant.name, "") for variant in variants}


def newest_measurements(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return, for each variant and case, all runs that share `cell_key` and `env_key` with its newest row.

    rows: of one device and backend, oldest first.
    """
    if rows.empty:
        return rows
    keys = list(MEASUREMENT)
    newest = rows.groupby(["variant", "case"])[keys].transform("last")
    return rows[(rows[keys] == newest).all(axis=1)]


def with_current_traffic(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows with `bytes` as the lab models it today; a row whose variant or case is gone keeps its stored bytes."""
    variants = {variant.name: variant for variant in lab.all_variants()}
    case_or_none = cache(lab.case_or_none)

    @cache
    def modelled_bytes(variant: str, name: str, scale: str) -> float | None:
        case = case_or_none(name, scale)
        return lab.traffic(case, variants[variant]) if case and variant in variants else None

    columns = [rows[name].tolist() for name in ("variant", "case", "scale", "bytes")]
    pairs = [(modelled_bytes(*row[:3]), row[3]) for row in zip(*columns, strict=True)]
    return rows.assign(bytes=[stored if modelled is None else modelled for modelled, stored in pairs])
