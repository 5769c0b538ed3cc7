"""Time and space for a run of a lab: minutes on each device that has run it, and the size of packages and rows on the disk."""

import re
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from ..analysis import format as show
from ..analysis.campaign_time import cost_of
from ..devices.backends import HOST, label
from ..report.html import Cell, Row, Table
from ..spec.lab import Lab
from ..store.files import StorePart
from ..store.parquet import Store
from ..store.schema import PROFILE

PACKAGE = "roofbook"
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[([^]]*)\])?")
_EXTRA = re.compile(r"\bextra\s*==\s*['\"]([\w.-]+)")
_PLACES = """
select device, backend, any_value(device_name) as name, scale, max(started) as newest from cells
where lab = ? and role <> ? and backend <> ? group by device, backend, scale order by name, backend, scale
"""
HEADS = ("Where", "Sizes", "Measurements", "Time")


def run_needs(lab: Lab, results: Path) -> Table:
    """Return the time that a lab took on each recorded device and on this machine, over its cases.

    The time of a case is that of the run with most measurements, from its first check to its last row, by the rows' own clocks.
    """
    rows, records = list[Row](), list[dict[str, object]]()
    parts: dict[StorePart, str] = {"recorded": "", "local": ", this machine"}
    for part, suffix in parts.items():
        store = Store(results, (part,))
        for place in store.arrow(_PLACES, [lab.name, PROFILE, HOST]).to_pylist():
            cost = cost_of(store, lab.name, place["device"], place["backend"], place["scale"])
            if not cost.seconds:
                continue
            seconds, count = sum(cost.seconds.values()), sum(cost.rows.values())
            where = f"{place['name']}, {label(place['backend'])}{suffix}"
            texts = (where, place["scale"], str(count), minutes(seconds))
            rows.append(Row([Cell(text, "num" * (column > 1)) for column, text in enumerate(texts)]))
            records.append({"where": where, "sizes": place["scale"], "measurements": count, "seconds": seconds})
    heads = [Cell(head, "num" * (column > 1)) for column, head in enumerate(HEADS)]
    return Table(f"{lab.title}: time of a whole run", heads, rows, records)


def stored_bytes(lab: Lab, results: Path) -> int:
    """Return the size of the files of all recorded measurements of a lab."""
    return sum(path.stat().st_size for path in Store(results, ("recorded",)).files(lab.name))


def minutes(seconds: float) -> str:
    """Return a time for planning: whole minutes, hours from a hundred minutes on, and less than a minute in seconds.

    >>> minutes(12.3), minutes(150), minutes(60 * 150)
    ('12\\u202fs', '3\\u202fmin', '2.5\\u202fh')
    """
    if seconds < 60:
        return f"{seconds:.0f}{show.THIN}s"
    if seconds < 6000:
        return f"{-(-seconds // 60):.0f}{show.THIN}min"
    return f"{seconds / 3600:.1f}{show.THIN}h"


@cache
def installed_bytes(package: str = PACKAGE) -> int:
    """Return the size of the files of an installed package and of all packages that it needs, as their lists of files say.

    Python's caches of compiled modules are not in these lists.
    """
    sizes: dict[str, int] = {}
    due = [(package, frozenset[str]())]
    while due:
        name, extras = due.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in sizes and not extras:
            continue
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # one for another system
            continue
        if key not in sizes:
            sizes[key] = sum(file.size or 0 for file in installed.files or ())
        due += [
            (named[1], frozenset(re.findall(r"[\w-]+", named[2] or "")))
            for requirement in installed.requires or ()
            if {*_EXTRA.findall(requirement)} <= extras and (named := _REQUIREMENT.match(requirement))
            if (named[2] or re.sub(r"[-_.]+", "-", named[1]).lower() not in sizes)
        ]
    return sum(sizes.values())
