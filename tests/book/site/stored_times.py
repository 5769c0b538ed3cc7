"""Answers to the tasks of readers, computed from the files of the store by SQL alone: none of the book's own analysis."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

import duckdb

RECORDED = Path(__file__).parents[3] / "results" / "recorded"
H200 = "nvidia-h200"
UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


class Place(NamedTuple):
    """Where a measurement was taken."""

    device: str
    backend: str
    scale: str
    case: str


class Times(NamedTuple):
    """The runs of the newest version of a measurement."""

    seconds: float
    """Median of the runs' medians, per unit of the lab."""
    runs: tuple[str, ...]


@cache
def without_idle_variables(environment: str) -> str:
    """Return the JSON of an environment without a variable that decides nothing that the labs measure."""
    facts = json.loads(environment)
    facts.get("settings", {}).pop("TORCH_SYMM_MEM_DISABLE_MULTICAST", None)
    return json.dumps({name: value for name, value in facts.items() if value}, sort_keys=True)


@cache
def times(lab: str) -> dict[Place, dict[str, Times]]:
    """Return the times of a lab's steps, peers and points of sweeps by place and variant."""
    rows = (
        duckdb.connect()
        .execute(
            f"""select device, backend, scale, "case", variant, cell_key, run, samples_s, units, provenance -> '$.environment'
        from read_parquet('{RECORDED}/lab={lab}/**/*.parquet', union_by_name = true)
        where status = 'ok' and role not in ('control', 'profile') order by started"""
        )
        .fetchall()
    )
    versions: dict[tuple[Place, str], dict[tuple[str, str], list[tuple[str, list[float], int]]]] = defaultdict(dict)
    for device, backend, scale, case, variant, cell_key, run, samples, units, environment in rows:
        of_variant = versions[Place(device, backend, scale, case), variant]
        version = cell_key, without_idle_variables(environment)
        of_variant[version] = [*of_variant.pop(version, []), (run, samples, units)]  # the newest last
    by_place: dict[Place, dict[str, Times]] = defaultdict(dict)
    for (place, variant), of_variant in versions.items():
        runs = list(of_variant.values())[-1]
        medians = [statistics.median(samples) / units for _, samples, units in runs]
        names = tuple(dict.fromkeys(name for name, _, _ in runs))
        by_place[place][variant] = Times(statistics.median(medians), names)
    return dict(by_place)


def on_h200(lab: str, case: str, backend: str = "cuda") -> dict[str, Times]:
    """Return the times on the device with which all pages open."""
    return times(lab)[Place(H200, backend, "published", case)]


def duration_of_longest_run(lab: str, place: Place) -> float:
    """Return the seconds of the run with most rows at a place, from the start of its first row to the time of its last."""
    (row,) = (
        duckdb.connect()
        .execute(
            f"""select epoch(max(cast(provenance ->> '$.time' as timestamptz))) - epoch(min(started)), count(*) as row_count
        from read_parquet('{RECORDED}/lab={lab}/**/*.parquet', union_by_name = true)
        where device = ? and backend = ? and scale = ? and "case" = ? and role <> 'profile'
        group by run order by row_count desc limit 1""",
            list(place),
        )
        .fetchall()
    )
    return float(row[0])


def number(text: str) -> float:
    """Return the first number of a text, whose thousands have thin spaces."""
    digits = "".join(text.replace("\u202f", "").split(maxsplit=1)[:1])
    return float("".join(letter for letter in digits if letter.isdigit() or letter == "."))


def seconds(text: str) -> float:
    """Return the time that a text begins with, such as 10.7 µs."""
    unit = next(word for word in text.replace("\u202f", " ").split() if word in UNITS)
    return number(text) * UNITS[unit]
