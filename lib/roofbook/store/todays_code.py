"""Stored rows that match today's code: measured with today's kernels, with the traffic that the labs model today, and with keys
of the environment as today's code makes them.
"""

from collections import Counter
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ..devices import settings
from ..errors import UsageError
from ..escaping import read_json
from ..spec.lab import Lab
from ..spec.plan import Case
from .identity import env_key
from .schema import MEASUREMENT

if TYPE_CHECKING:
    import pandas as pd

    from .parquet import Store


MOST_MISMATCHES = 100
"""Number of rows with one key, and with environments of other keys, after which no further ones are read."""


def matching_source(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows whose kernel text equals that of today's code, with today's traffic and keys of the environment."""
    is_current = rows["variant"].map(source_hashes(lab)) == rows["source_sha256"].fillna("")
    return with_current_environment(with_current_traffic(lab, rows[is_current])) if len(rows) else rows


def rows_of_today(lab: Lab, store: "Store", **filters: Any) -> "pd.DataFrame":
    """Return `matching_source` of the store's rows. filters: as of `Store.rows`. Rows of older kernels are not even copied."""
    hashes = [*dict.fromkeys(digest or None for digest in source_hashes(lab).values()), ""]
    return matching_source(lab, store.rows(lab.name, source_sha256=hashes, **filters))


def source_hashes(lab: Lab) -> dict[str, str]:
    """Return the SHA-256 of each variant's kernel, read from its file now; '' for a variant without a kernel."""
    return {variant.name: variant.source.sha256 if variant.source else "" for variant in lab.all_variants()}


def newest_measurements(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return, for each variant and case, all runs that share `cell_key` and `env_key` with its newest row.

    rows: of one device and backend, oldest first.
    """
    if rows.empty:
        return rows
    keys = list(MEASUREMENT)
    newest = rows.groupby(["variant", "case"])[keys].transform("last")
    return rows[(rows[keys] == newest).all(axis=1)]


def with_current_environment(rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows with `env_key` as today's code counts variables of the environment.

    A row may name a variable that no longer counts (`settings.counted`). Then its key is that of its environment without it.
    A row whose key is not that of its environment says nothing about other rows with this key, and keeps it.
    """
    first_rows = rows.drop_duplicates("env_key")
    environments = _environments(first_rows)
    if len(environments) < len(first_rows):
        environments |= _environments(rows[~rows["env_key"].isin(list(environments))])
    current_keys = {key: current for key, environment in environments.items() if (current := _current_key(environment))}
    if not current_keys:
        return rows
    return rows.assign(env_key=[current_keys.get(key, key) for key in rows["env_key"].tolist()])


def _environments(rows: "pd.DataFrame") -> dict[str, dict[str, Any]]:
    """Return the environment of each key, from the first row whose key is that of its environment."""
    environments = dict[str, dict[str, Any]]()
    mismatches = Counter[str]()
    for key, provenance in zip(rows["env_key"].tolist(), rows["provenance"].tolist(), strict=True):
        if key not in environments and mismatches[key] < MOST_MISMATCHES:
            environment = read_json(provenance or "{}").get("environment") or {}
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
    """Return the key of an environment without the variables that no longer count; None if all of them count."""
    variables = environment.get("settings") or {}
    remaining = settings.counted(variables)
    others = {name: value for name, value in environment.items() if name != "settings"}
    return None if remaining == variables else _key({**others, **({"settings": remaining} if remaining else {})})


def with_current_traffic(lab: Lab, rows: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows with `bytes` as the lab models it today; a row whose variant or case is gone keeps its stored bytes."""
    variants = {variant.name: variant for variant in lab.all_variants()}

    @cache
    def case_of(name: str, scale: str) -> Case | None:
        try:
            return lab.case(name, scale)
        except UsageError:
            return None

    @cache
    def modelled_bytes(variant: str, name: str, scale: str) -> float | None:
        case = case_of(name, scale)
        return lab.traffic(case, variants[variant]) if case and variant in variants else None

    columns = [rows[name].tolist() for name in ("variant", "case", "scale", "bytes")]
    pairs = [(modelled_bytes(*row[:3]), row[3]) for row in zip(*columns, strict=True)]
    return rows.assign(bytes=[stored if modelled is None else modelled for modelled, stored in pairs])
