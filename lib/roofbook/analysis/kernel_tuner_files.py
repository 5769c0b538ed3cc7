"""Files of Kernel Tuner: results as T4, and its cache, which its simulation mode replays.

T4 is the results format of the auto-tuning community. Both are JSON; times are in milliseconds. A file that is read here comes
from a stranger: its shape is checked, and its times only decide in which order points are measured.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import strict_json
from ..errors import UsageError, of_system
from ..escaping import printable, read_json
from ..measure.messages import above_zero, has_shape
from ..measure.space_search import seconds_of
from ..paths import write_whole
from ..spec.search_space import Point, number_or_text

PointRow = tuple[Point, Mapping[str, Any]]
"""A point of a space with its row of the store."""

T4_VERSION = "1.0.0"
LARGEST = 64 << 20
"""Most bytes of a file that is read."""
INVALIDITY = {
    "does not build": "compile", "wrong result": "correctness", "not accepted": "correctness", "out of time": "timeout",
    "did not answer": "timeout", "not on this case": "constraints", "not supported here": "constraints",
}  # fmt: skip
"""Beginning of the reason of a failed row -> T4's word for it. Any other reason is `runtime`."""
_ERRORS = {"compile": "CompilationFailedConfig", "constraints": "InvalidConfig"}
"""T4's word -> Kernel Tuner's name of the error in its cache. Any other is RuntimeFailedConfig."""
_KNOB, _VALUE = re.compile(r"[A-Za-z]\w{0,63}", re.ASCII), re.compile(r"[\w.+-]{1,64}", re.ASCII)


def write(path: Path, layout: str, kernel: str, points: Sequence[PointRow]) -> None:
    """Write the results of points. layout: `t4` or `cache`. kernel: its name in a cache."""
    content = t4(points) if layout == "t4" else cache(kernel, points)
    write_whole(path, strict_json.dumps(content, indent=1) + "\n")


def t4(points: Sequence[PointRow]) -> dict[str, Any]:
    """Return the results of points in the format T4."""
    return {
        "schema_version": T4_VERSION,
        "metadata": {"timeunit": "milliseconds"},
        "results": [_t4(*pair) for pair in points],
    }


def _t4(point: Point, row: Mapping[str, Any]) -> dict[str, Any]:
    invalidity, seconds, phases = _invalidity(row), seconds_of(row), _phases(row)
    times = [] if seconds is None else [1e3 * seconds]
    return {
        "timestamp": row["started"].isoformat(),
        "configuration": _values(point),
        "times": {**phases, "framework": 0.0, "search_algorithm": 0.0, "runtimes": times},
        "invalidity": invalidity,
        "correctness": float(invalidity == "correct"),
        "measurements": [{"name": "time", "value": value, "unit": "ms"} for value in times],
        "objectives": ["time"],
    }


def cache(kernel: str, points: Sequence[PointRow]) -> dict[str, Any]:
    """Return the results of points as a cache of Kernel Tuner. Its problem size is 1, as all points are of one case."""
    values = [_values(point) for point, _ in points]
    knobs = list(values[0]) if values else []
    entries = {}
    for configuration, (_, row) in zip(values, points, strict=True):
        phases, seconds, invalidity = _phases(row), seconds_of(row), _invalidity(row)
        error = _ERRORS.get(invalidity, "RuntimeFailedConfig")
        outcome = (
            {"time": error, "__error__": error}
            if seconds is None
            else {"time": 1e3 * seconds, "times": [1e3 * seconds]}
        )
        entries[",".join(map(str, configuration.values()))] = {
            **configuration, **outcome, "compile_time": phases["compilation"], "benchmark_time": phases["benchmark"],
            "verification_time": phases["validation"], "strategy_time": 0.0, "framework_time": 0.0,
            "timestamp": row["started"].isoformat(),
        }  # fmt: skip
    return {
        "device_name": points[0][1]["device_name"] if points else "", "kernel_name": kernel, "problem_size": 1,
        "tune_params_keys": knobs, "objective": "time",
        "tune_params": {knob: list(dict.fromkeys(configuration[knob] for configuration in values)) for knob in knobs},
        "cache": entries,
    }  # fmt: skip


def _values(point: Point) -> dict[str, int | float | str]:
    """Return the values of a point for JSON: numbers, and texts such as `16x4`."""
    numbers = {knob: number_or_text(value) for knob, value in point.items()}
    return {knob: point[knob] if isinstance(value, tuple) else value for knob, value in numbers.items()}


def _invalidity(row: Mapping[str, Any]) -> str:
    if row["status"] == "ok":
        return "correct"
    reason = str(row["reason"])
    return next((word for begin, word in INVALIDITY.items() if reason.startswith(begin)), "runtime")


def _phases(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the milliseconds of each phase of a point; 0 for a point that ended its process."""
    seconds = read_json(row["extra"] or "{}").get("phases_s", {})
    return {phase: 1e3 * seconds.get(phase, 0.0) for phase in ("compilation", "benchmark", "validation")}


def read(path: Path) -> list[Point]:
    """Return the points of a file of Kernel Tuner, the fastest first, those that failed last.

    Raise UsageError, in one line, for a file that is neither T4 nor a cache, and for one whose points have different knobs.
    """
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            raise UsageError(f"{path} is no file of at most {LARGEST >> 20} MiB")
        text = path.read_text("utf-8").rstrip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(of_system(error) if isinstance(error, OSError) else f"{path} is no text in UTF-8") from None
    try:
        content = json.loads(
            text if text.endswith("}") and not text.endswith(",") else text.rstrip(",") + "}\n}"
        )  # an open cache
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no JSON") from None
    if not isinstance(content, dict) or not ({"results", "cache"} & content.keys()):
        raise UsageError(
            f"{path} is no file of Kernel Tuner: an object with `results`, as T4 has, or `cache` is needed"
        )
    timed = _of_t4(content["results"], path) if "results" in content else _of_cache(content, path)
    if not timed:
        raise UsageError(f"{path} has no points")
    knobs = list(timed[0][0])
    if any(list(point) != knobs for point, _ in timed):
        raise UsageError(f"{path}: its points have different knobs; the first has {', '.join(knobs)}")
    return [point for point, _ in sorted(timed, key=lambda pair: pair[1])]


def _of_t4(results: Any, path: Path) -> list[tuple[Point, float]]:
    """Return the points of T4's results, each with its time."""
    if not has_shape(results, [dict]):
        raise UsageError(f"{path}: `results` must be a list of objects")
    timed = []
    for result in results:
        entries = measured if has_shape(measured := result.get("measurements"), [dict]) else ()
        times = [entry.get("value") for entry in entries if entry.get("name") == "time"]
        is_right = result.get("invalidity") == "correct"
        timed.append((_point(result.get("configuration"), path), _time(times[0] if times and is_right else None)))
    return timed


def _of_cache(content: Mapping[str, Any], path: Path) -> list[tuple[Point, float]]:
    """Return the points of a cache, each with its time."""
    knobs, entries = content.get("tune_params_keys"), content["cache"]
    if not (isinstance(knobs, list) and isinstance(entries, dict) and has_shape([*entries.values()], [dict])):
        raise UsageError(f"{path}: a cache has `tune_params_keys`, a list, and `cache`, an object of objects")
    return [
        (_point({str(knob): entry.get(str(knob)) for knob in knobs}, path), _time(entry.get("time")))
        for entry in entries.values()
    ]


def _time(value: Any) -> float:
    """Return a time of a file; infinity for what is none."""
    return float(value) if above_zero(value) else math.inf


def _point(configuration: Any, path: Path) -> Point:
    """Return a point of a file. Raise UsageError for a knob or value that no command could name."""
    if not isinstance(configuration, dict) or not configuration:
        raise UsageError(f"{path}: each result has a `configuration`, an object of knobs and values")
    point = {}
    for knob, value in configuration.items():
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        if not _KNOB.fullmatch(knob) or isinstance(value, bool | None) or not _VALUE.fullmatch(text):
            shown = printable(f"{knob}={value}")[:80]
            raise UsageError(f"{path}: {shown} is no knob with a number or word as its value")
        point[knob] = text
    return point
