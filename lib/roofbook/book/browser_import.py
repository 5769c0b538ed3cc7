"""Rows that a page of the book measured in a reader's browser and saved as JSON, read as a stranger's file.

book/_assets/run-here.js writes such a file; `roofbook import` adds its rows to a store. Each field is checked. What a row says
of its step is compared with the lab, and its kernel by the fingerprint of its text. A file is taken whole or refused.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from .. import strict_json
from ..devices.backends import BROWSER, WEBGPU
from ..errors import UsageError, one_of
from ..escaping import printable
from ..spec import registry
from ..spec.browser_run import browser_run
from ..spec.lab import Lab
from ..spec.plan import Case
from ..store.identity import cell_key, env_key
from ..store.row_rules import FIRST_TIME
from ..store.schema import CONTROL
from .browser_runs import DrawnInputs, drawn_inputs, fingerprint, recorded_case

MOST_BYTES = 1 << 23
"""Largest size of a file: the rows of a whole ladder have some 100 kB."""
MOST_ROWS, MOST_SAMPLES = 1000, 1000
MOST_LETTERS = {"line": 200, "text": 1 << 17}
"""Largest numbers of letters: of names, and of a kernel that a reader changed."""
MOST_RUNS = 1 << 20
"""Largest number of runs in a sample."""
LONGEST_S = 3600.0
"""Most seconds of a sample."""
NOT_TOLD = ("driver", "clocks", "temperature", "power", "other programs on the GPU")
"""Facts of its machine that a browser tells no page; a row's provenance lists them."""

Row = Mapping[str, Any]


class BrowserRows(NamedTuple):
    """Rows of a file, as the store has them."""

    rows: list[dict[str, Any]]
    changed: int
    """Number of further rows, whose kernel is a reader's own: they belong to no step of a ladder."""


class _Wrong(ValueError):
    """Fault of a row."""


def read(content: bytes) -> BrowserRows:
    """Return the rows of a file. Raise UsageError for anything that a page does not write; the message names the row."""
    rows = _parsed(content)
    taken: list[Row] = []
    for number, row in enumerate(rows, 1):
        try:
            _check_fields(row)
            if "changed_text" not in row["extra"]:
                _check_step(row)
                taken.append(row)
        except _Wrong as wrong:
            raise UsageError(f"row {number}: {wrong}") from None
        except UsageError as error:
            raise UsageError(f"row {number}: {error}") from None
    names = [tuple(row[name] for name in ("run", "lab", "case", "variant", "role")) for row in taken]
    if len(set(names)) < len(names):
        raise UsageError("two rows of one run are the same measurement")
    by_run: dict[str, list[Row]] = {}
    for row in taken:
        by_run.setdefault(row["run"], []).append(row)
    store_rows = [_store_row(row, _run_name(of_run)) for of_run in by_run.values() for row in of_run]
    return BrowserRows(store_rows, len(rows) - len(taken))


# -- the file ----------------------------------------------------------------------------------------------------------


def _parsed(content: bytes) -> list[Any]:
    if len(content) > MOST_BYTES:
        raise UsageError(f"it has {len(content)} bytes, {MOST_BYTES} at most")
    try:
        rows = json.loads(content.decode(), object_pairs_hook=strict_json.unique_pairs, parse_constant=_no_number)
    except (_Wrong, strict_json.RepeatedName) as wrong:
        raise UsageError(str(wrong)) from None
    except (ValueError, RecursionError):
        raise UsageError("it is no JSON, as the page saves it") from None
    if not isinstance(rows, list) or not rows:
        raise UsageError("it is no list of rows, as the page saves it")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"it has {len(rows)} rows, {MOST_ROWS} at most")
    return rows


def _no_number(_: str) -> Any:
    raise _Wrong("it has a number that is not finite")


# -- fields ------------------------------------------------------------------------------------------------------------


def _line(value: Any) -> bool:
    """Return whether a value is a text on one line, without control characters."""
    return _text(value) and len(value) <= MOST_LETTERS["line"] and value.isprintable()


def _name(value: Any) -> bool:
    """Return whether a value names something, and is no path."""
    return _line(value) and bool(value.strip()) and not re.search(r"\\|(^|/)(\.|/|$)|^/", value)


def _text(value: Any) -> bool:
    return type(value) is str and len(value) <= MOST_LETTERS["text"] and printable(value) == value


def _number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < 1e300


def _count(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 53


def _hash(value: Any) -> bool:
    return type(value) is str and bool(re.fullmatch(r"[0-9a-f]{64}", value))


def _time(value: Any) -> bool:
    return type(value) is str and bool(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", value))


def _samples(value: Any) -> bool:
    return (
        type(value) is list
        and 0 < len(value) <= MOST_SAMPLES
        and all(_number(sample) and 0 < sample <= LONGEST_S for sample in value)
    )


def _rounds(value: Any) -> bool:
    return (
        type(value) is list
        and all(type(number) is int and 0 <= number < 1 << 31 for number in value)
        and all(first < second for first, second in itertools.pairwise(value))
    )


def _or_none(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or kind(value)


def _in(*values: Any) -> Callable[[Any], bool]:
    return lambda value: any(type(value) is type(allowed) and value == allowed for allowed in values)


FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("run", "started"), (_time, "no time in UTC, such as 2026-01-31T12:00:00.000Z")),
    **dict.fromkeys(("lab", "variant", "case"), (_name, "no name")),
    "parent": (_or_none(_name), "no name"),
    "role": (_in("step", CONTROL), f"neither 'step' nor '{CONTROL}'"),
    **dict.fromkeys(("dtype", "device", "device_name", "unit"), (_line, "no text on one line")),
    "device_kind": (_in("cpu", "gpu"), "neither 'cpu' nor 'gpu'"),
    "backend": (_in(WEBGPU.name), f"not '{WEBGPU.name}'"),
    "timed": (_in("kernels"), "not 'kernels'"),
    "units": (_count, "no whole number above 0"),
    "source_sha256": (_or_none(_hash), "no SHA-256"),
    "samples_s": (_samples, f"no list of up to {MOST_SAMPLES} times above 0 and up to {LONGEST_S:g} s"),
    "rounds": (_rounds, "no list of rising whole numbers"),
    "status": (_in("ok"), "not 'ok'"),
    "reason": (_in(""), "not empty"),
    "error": (lambda value: _number(value) and 0 <= value <= 1, "no number from 0 to 1"),
    "bound": (_in(1), "not 1"),
    "extra": (lambda value: type(value) is dict, "no object"),
    "provenance": (lambda value: type(value) is dict, "no object"),
}
"""Field of a row -> (a test of its value, what a wrong one is)."""
EXTRA: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "seed": (lambda value: type(value) is int and 0 <= value < 1 << 32, "no whole number of 32 bits"),
    "runs": (lambda value: _count(value) and value <= MOST_RUNS, f"no whole number from 1 to {MOST_RUNS}"),
    "cache": (_in("warm"), "not 'warm'"),
    "wgsl_sha256": (_hash, "no SHA-256"),
    "timer": (_line, "no text on one line"),
}
CHANGED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "changed_text": (lambda value: type(value) is str, "no text")
}
PROVENANCE: Mapping[str, tuple[Callable[[Any], bool], str]] = dict.fromkeys(
    ("browser", "vendor", "architecture", "device", "description", "page"), (_line, "no text on one line")
)


def _check_fields(row: Any) -> None:
    """Raise _Wrong unless the row has the fields of a page's row, with values of their kinds."""
    if type(row) is not dict:
        raise _Wrong("it is no object")
    _check_object(row, FIELDS, "")
    is_changed = "changed_text" in row["extra"]
    _check_object(row["extra"], {**EXTRA, **(CHANGED if is_changed else {})}, "extra.")
    _check_object(row["provenance"], PROVENANCE, "provenance.")
    if len(row["rounds"]) != len(row["samples_s"]):
        raise _Wrong("rounds and samples_s have different lengths")
    started = _datetime(row["started"])
    if not FIRST_TIME <= started <= datetime.now(UTC) + timedelta(days=1):
        raise _Wrong("started is no time of the past: the clock of that machine was wrong")
    if not _device(row):
        raise _Wrong("device_name has no letter or digit")


def _check_object(values: Row, fields: Mapping[str, tuple[Callable[[Any], bool], str]], prefix: str) -> None:
    for name, (is_fit, fault) in fields.items():
        if name not in values:
            raise _Wrong(f"it lacks {prefix}{name}")
        if not is_fit(values[name]):
            raise _Wrong(f"{prefix}{name} is {fault}")
    if values.keys() - fields.keys():
        raise _Wrong(
            f"it has a field {prefix}{printable(min(values.keys() - fields.keys()))[:40]}, which no page writes"
        )


def _datetime(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _Wrong("started is no time") from None


# -- steps -------------------------------------------------------------------------------------------------------------


def _check_step(row: Row) -> None:
    """Raise UsageError or _Wrong unless the row is of a step and a case that run in a browser, with today's kernel."""
    lab = registry.get(row["lab"])
    run = browser_run(lab)
    if run is None:
        raise _Wrong(f"the lab {lab.name} does not run in a browser")
    if row["case"] not in run.cases:
        raise one_of(f"case of {lab.name} in a browser", row["case"], list(run.cases))
    variant, case = lab.variant(row["variant"]), lab.case(row["case"])
    today = _step_today(lab, variant.name, case.name)
    if variant.role != "step" or today is None:
        raise _Wrong(f"{variant.name} does not run in a browser on {case.name}")
    for name, value in (("parent", variant.parent), ("dtype", variant.dtype), ("unit", lab.unit)):
        if row[name] != value:
            raise _Wrong(f"{name} is {row[name]!r}; that of {variant.name} is {value!r}")
    if row["extra"]["wgsl_sha256"] != today.fingerprint:
        raise _Wrong(f"its kernel is another text than {variant.name} on {case.name} has in this version of the book")
    if row["units"] != row["extra"]["runs"] * today.units:
        raise _Wrong(f"units is not {today.units} for each of its {row['extra']['runs']} runs")


class _Step(NamedTuple):
    """A step on a case, as a page of this version of the book runs it."""

    fingerprint: str
    units: int
    """Units of one run."""


@cache
def _step_today(lab: Lab, variant: str, case: str) -> _Step | None:
    """Return a step on a case as today's page runs it; None if it does not."""
    if not (step := lab.variant(variant)).is_for(WEBGPU.name, "gpu"):
        return None
    recorded = recorded_case(lab, step, lab.case(case), _inputs(lab, case))
    return _Step(fingerprint(recorded["texts"]), recorded["params"]["units"]) if recorded else None


@cache
def _inputs(lab: Lab, case: str) -> DrawnInputs:
    return drawn_inputs(lab, lab.case(case))


# -- rows of the store -------------------------------------------------------------------------------------------------


def _device(row: Row) -> str:
    """Return the name of a row's device in the store. No device that Python names has such a name."""
    name = re.sub(r"[^a-z0-9]+", "-", row["device_name"].lower()).strip("-")
    return f"{BROWSER}-{name[:80].rstrip('-')}" if name else ""


def _run_name(rows: Sequence[Row]) -> str:
    """Return the name of a run: its time, and a hash of its rows. The same rows have the same name in any file."""
    texts = sorted(json.dumps(row, sort_keys=True) for row in rows)
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    return f"{_datetime(rows[0]['started']):%Y%m%dT%H%M%SZ}-{digest[:6]}"


def _store_row(row: Row, run: str) -> dict[str, Any]:
    """Return a row as the store has it. What the lab knows of the step is taken from the lab."""
    lab = registry.get(row["lab"])
    variant, case = lab.variant(row["variant"]), lab.case(row["case"])
    extra, provenance, name = row["extra"], row["provenance"], row["device_name"]
    environment = {
        "device": {"backend": BROWSER, "device": name, "browser": provenance["browser"], "timer": extra["timer"]}
    }
    identity = {"backend": BROWSER, "lab": lab.name, "variant": variant.name, "case": case.name}
    return {
        "run": run,
        "started": _datetime(row["started"]),
        **{"lab": lab.name, "variant": variant.name, "case": case.name, "scale": case.scale, "role": row["role"]},
        "parent": variant.parent,
        **{"dtype": variant.dtype, "device": _device(row), "device_name": name, "device_kind": row["device_kind"]},
        **{"backend": BROWSER, "policy": json.dumps({"cache": extra["cache"]}), "timed": row["timed"]},
        **{"unit": lab.unit, "units": row["units"]},
        "cell_key": cell_key({**identity, "wgsl_sha256": extra["wgsl_sha256"], "cache": extra["cache"]}),
        "env_key": env_key(environment),
        "source_sha256": variant.source.sha256 if variant.source else None,
        **{"status": "ok", "samples_s": list(map(float, row["samples_s"])), "rounds": row["rounds"]},
        **{"flops": lab.work(case).flops, "bytes": lab.traffic(case, variant)},
        **{"error": float(row["error"]), "bound": float(row["bound"])},
        "extra": strict_json.dumps(_facts(lab, case, extra)),
        "provenance": strict_json.dumps(
            {
                "source": BROWSER,
                "adapter": {field: provenance[field] for field in ("vendor", "architecture", "device", "description")},
                "browser": provenance["browser"],
                "page": provenance["page"],
                "not told": NOT_TOLD,
                "environment": environment,
                "time": row["started"],
            }
        ),
    }


def _facts(lab: Lab, case: Case, extra: Row) -> dict[str, Any]:
    amount, rate = lab.rate(case)
    facts = {"rate_amount": amount, "rate_unit": rate, "footprint": lab.work(case).footprint}
    facts |= {
        "error_is": "largest ratio of an error to its tolerance, by the page's own check",
        "checks": {"seed": extra["seed"]},
    }
    return facts | {name: extra[name] for name in ("runs", "timer", "wgsl_sha256")}
