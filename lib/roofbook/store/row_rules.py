"""Rules for rows of the store, whoever wrote them: the types, lengths and values that columns may have.

Serves the process that checks Parquet files (file_check.py), which leaves out rows that break a rule, and `Store.append`, which
refuses them. A message on a value never repeats the value: it may be hostile.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import strict_json
from .schema import COLUMNS, JSON, PROFILE, REQUIRED, ROLES, SLUG, TIMES

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_LETTERS = {"file": 120, "name": 200, "text": 1 << 20}
"""Largest numbers of letters: of names that also name a file or folder, of other names, and of long texts (reasons, JSON)."""
MOST_DEPTH = 20
"""Largest number of nested objects and lists in a JSON text."""
SHORTEST_S, LONGEST_S = 1e-15, 1e9
"""Range of a time in seconds: the ratio of times beyond it would be infinite or no number."""
FIRST_TIME, LAST_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""Range of `started`: pandas has no dates beyond."""
NO_TEXT = "\ufffe\uffff"
"""Replacement for a text that is not UTF-8: two code points that are no characters."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GROUP = re.compile(r"[0-9]{1,10}(x[0-9]{1,10}){0,2}")
_UNFIT_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories of letters that control a terminal or a page, or that cannot be encoded."""


def wrong_rows(table: "pa.Table") -> dict[int, str]:
    """Return the rows that break a rule: {row number: reason}.

    table: with the columns and types of `schema()`; text may be dictionary-encoded.
    """
    wrong: dict[int, str] = {}
    for name in COLUMNS:
        if COLUMNS[name] == "VARCHAR":
            _mark(wrong, _wrong_texts(table, name))
    for name, kind in COLUMNS.items():
        if kind.endswith("[]"):
            _mark(wrong, _wrong_lists(table, name))
    _mark(wrong, {int(row): "started is null" for row in table["started"].is_null().to_numpy().nonzero()[0]})
    _mark(wrong, _wrong_times(table))
    _mark(wrong, _wrong_numbers(table))
    _mark(wrong, _wrong_lengths(table))
    _mark(wrong, _wrong_json(table, set(wrong)))
    return dict(sorted(wrong.items()))


def _mark(wrong: dict[int, str], reasons: Mapping[int, str]) -> None:
    """Add the reasons of rows that have none yet."""
    for row, reason in reasons.items():
        wrong.setdefault(row, reason)


def _texts(table: "pa.Table", name: str) -> tuple[list[str | None], "NDArray[np.int64]"]:
    """Return the distinct texts of a column, and for each row the index of its text, -1 for null."""
    import numpy as np
    import pyarrow as pa

    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # without any chunk
        return [], np.array([], np.int64)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _wrong_texts(table: "pa.Table", name: str) -> dict[int, str]:
    texts, indices = _texts(table, name)
    wrong: dict[int, str] = {}
    if name in REQUIRED or name == "status":
        wrong |= {int(row): f"{name} is null" for row in (indices < 0).nonzero()[0]}
    fault_of = _text_rules()[name]
    for index, text in enumerate(texts):
        if text is not None and (fault := fault_of(text)):
            wrong |= {int(row): f"{name} {fault}" for row in (indices == index).nonzero()[0]}
    return wrong


def _slug_fault(text: str) -> str:
    """Return why a text may not name a file or folder; '' if it may."""
    if len(text) > MOST_LETTERS["file"]:
        return f"has {len(text)} letters, {MOST_LETTERS['file']} at most"
    return "" if SLUG.fullmatch(text) else "names a file: letters, digits and . _ + - only"


def _word_fault(text: str) -> str:
    """Return why a text is no short text on one line; '' if it is."""
    import unicodedata

    if text == NO_TEXT:
        return "is not UTF-8"
    if len(text) > MOST_LETTERS["name"]:
        return f"has {len(text)} letters, {MOST_LETTERS['name']} at most"
    if not text.isprintable() and any(unicodedata.category(letter) in _UNFIT_CATEGORIES for letter in text):
        return "has a control character"
    return ""


def _name_fault(text: str) -> str:
    """Return why a text is no name of a variant or case; '' if it is."""
    if not text.strip():
        return "is empty"
    if "\\" in text or any(not part or part.startswith(".") for part in text.split("/")):
        return "is no name but a path"
    return _word_fault(text)


def _long_text_fault(text: str) -> str:
    """Return why a text is no long text; '' if it is."""
    most = MOST_LETTERS["text"]
    if text == NO_TEXT:
        return "is not UTF-8"
    return f"has {len(text)} letters, {most} at most" if len(text) > most else ""


def _one_of(values: Sequence[str]) -> Callable[[str], str]:
    return lambda text: "" if text in values else f"is none of {', '.join(values)}"


@cache
def _text_rules() -> dict[str, Callable[[str], str]]:
    """Return a function for each column of text that returns the fault of a text; '' for a valid one."""
    from ..spec.plan import SCALES

    return {
        **dict.fromkeys(("run", "lab", "device", "backend"), _slug_fault),
        **dict.fromkeys(("variant", "case", "parent"), _name_fault),
        **dict.fromkeys(("axis", "point", "dtype", "device_name", "timed", "unit"), _word_fault),
        **dict.fromkeys(("cell_key", "env_key", "source_sha256"), _word_fault),
        **dict.fromkeys(("reason", *JSON), _long_text_fault),
        "role": _one_of(ROLES),
        "status": _one_of(("ok", "failed")),
        "scale": _one_of(SCALES),
        "device_kind": _one_of(("cpu", "gpu")),
    }


def lists_of(table: "pa.Table", name: str) -> tuple["NDArray[np.int64]", "pa.Array", "NDArray[np.int64]"]:
    """Return the length of each row's list, -1 for null; the values of all lists; and the row of each value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.array([], column.type)
    lengths = pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False)
    return lengths, column.flatten(), pc.list_parent_indices(column).to_numpy(zero_copy_only=False)


def _wrong_lists(table: "pa.Table", name: str) -> dict[int, str]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    _, values, row_of = lists_of(table, name)
    wrong: dict[int, str] = {}
    nulls = pc.is_null(values).to_numpy(zero_copy_only=False)
    wrong |= {int(row): f"{name} has a null" for row in row_of[nulls]}
    if pa.types.is_string(values.type):
        unfit = {text for text in pc.unique(values).to_pylist() if text is not None and _word_fault(text)}
        if unfit:
            is_unfit = pc.is_in(values, pa.array(sorted(unfit), values.type)).to_numpy(zero_copy_only=False)
            wrong |= {int(row): f"{name} has a text with control characters, or a long one" for row in row_of[is_unfit]}
        return wrong
    numbers = pc.fill_null(values, 1).to_numpy(zero_copy_only=False)
    if name == "rounds":
        return wrong | {int(row): "rounds has a number below 0" for row in row_of[numbers < 0]}
    if name in TIMES:
        fit, fault = is_time(numbers), f"no time: {SHORTEST_S:g} to {LONGEST_S:g} s are"
    else:
        fit, fault = np.isfinite(numbers) & (numbers > -1e9), "no finite number"
    return wrong | {int(row): f"{name} has a value that is {fault}" for row in row_of[~fit]}


def is_time(seconds: Any) -> Any:
    """Return whether numbers of seconds are times, not NaN: a boolean for each."""
    return (seconds >= SHORTEST_S) & (seconds <= LONGEST_S)


def _wrong_times(table: "pa.Table") -> dict[int, str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table["started"]
    first, last = (pa.scalar(bound, column.type) for bound in (FIRST_TIME, LAST_TIME))
    fit = pc.fill_null(pc.and_(pc.greater_equal(column, first), pc.less(column, last)), True)
    return {int(row): "started is no date" for row in (~fit.to_numpy()).nonzero()[0]}


def _numbers(table: "pa.Table", name: str) -> "NDArray[np.float64]":
    """Return the numbers of a column, with NaN for null."""
    import numpy as np
    import pyarrow as pa

    return np.asarray(table[name].cast(pa.float64(), safe=False).to_numpy(), float)


def _is(table: "pa.Table", name: str, text: str) -> "NDArray[np.bool_]":
    """Return for each row whether it has this text in a column."""
    import numpy as np

    texts, indices = _texts(table, name)
    return np.isin(indices, [index for index, candidate in enumerate(texts) if candidate == text])


def verified(table: "pa.Table") -> "NDArray[np.bool_]":
    """Return for each row whether its times count: it is `ok`, and its error is within its bound or it is a boundless probe."""
    import numpy as np

    error, bound = _numbers(table, "error"), _numbers(table, "bound")
    probe: NDArray[np.bool_] = _is(table, "role", "probe") & np.isnan(bound)
    fit: NDArray[np.bool_] = _is(table, "status", "ok") & ((error <= bound) | probe)
    return fit


def _wrong_numbers(table: "pa.Table") -> dict[int, str]:
    """Return the rows with invalid numbers that a reader would use. The error of a failed row may be NaN or infinite."""
    import numpy as np

    wrong: dict[int, str] = {}

    def mark(rows: "NDArray[np.bool_]", reason: str) -> None:
        _mark(wrong, {int(row): reason for row in rows.nonzero()[0]})

    is_null, count = table["units"].is_null().to_numpy(), _numbers(table, "units")
    mark(~is_null & ~((count >= 1) & (count <= 2.0**53)), "units is no whole number above 0")
    mark(verified(table) & is_null, "units is null")
    ok = _is(table, "status", "ok")
    for name in ("flops", "bytes", "error", "bound"):
        is_null, number = table[name].is_null().to_numpy(), _numbers(table, name)
        fit = is_null | (np.isfinite(number) & (number >= 0))
        if name in ("error", "bound"):
            fit |= ~ok & ~(number < 0)
        mark(~fit, f"{name} is no finite number of at least 0")
    return wrong


def _wrong_lengths(table: "pa.Table") -> dict[int, str]:
    """Return the ok rows in which a list with one value for each sample has another length. Most such lists may be empty."""
    wrong: dict[int, str] = {}
    samples, is_verified = lists_of(table, "samples_s")[0], verified(table)
    _mark(wrong, {int(row): "samples_s is empty" for row in (is_verified & (samples < 1)).nonzero()[0]})
    ok, profile = _is(table, "status", "ok"), _is(table, "role", PROFILE)
    for name in ("rounds", "wall_s", "sample_throttle"):
        length = lists_of(table, name)[0]
        is_required = (is_verified & ~profile) if name == "rounds" else False
        unequal = ok & (length != samples) & ((length > 0) | is_required)
        reason = f"{name} and samples_s have different lengths"
        _mark(wrong, {int(row): reason for row in unequal.nonzero()[0]})
    return wrong


def _wrong_json(table: "pa.Table", skipped: set[int]) -> dict[int, str]:
    """Return the rows with an invalid policy, extra or provenance. skipped: rows that are not checked."""
    wrong: dict[int, str] = {}
    ok, samples = _is(table, "status", "ok"), lists_of(table, "samples_s")[0]
    texts, indices = _texts(table, "role")
    roles = [texts[index] if index >= 0 else "" for index in indices]
    for name, kind in zip(JSON, (_POLICY, _EXTRA, _PROVENANCE), strict=True):
        texts, indices = _texts(table, name)
        parsed: dict[int, _JsonObject | str] = {}
        for row, index in enumerate(indices.tolist()):
            if index < 0 or row in skipped or row in wrong:
                continue
            if index not in parsed:
                parsed[index] = _parse(texts[index] or "", kind)
            outcome = parsed[index]
            if isinstance(outcome, str):
                wrong[row] = f"{name} {outcome}"
            elif fault := _mismatch(name, outcome, bool(ok[row]), int(samples[row]), str(roles[row])):
                wrong[row] = f"{name}{fault}"
    return wrong


_NEEDED = {"peak": ("amount", "rate"), PROFILE: ("tool", "counters")}
"""Names that `extra` of a verified row must have, by role."""


def _mismatch(column: str, json_object: "_JsonObject", ok: bool, samples: int, role: str) -> str:
    """Return why a JSON object does not match the rest of its row; '' if it does. samples: length of the row's `samples_s`."""
    if column == "extra" and ok:
        for name in _NEEDED.get(role, ()):
            if json_object.values.get(name) is None:
                return f" lacks {name!r}"
        for times in (json_object.values.get("parts") or {}).values():
            if samples > 0 and len(times) != samples:
                return ".parts and samples_s have different lengths"
    return "" if not ok or json_object.finite else " has NaN or an infinite number"


class _JsonObject(NamedTuple):
    """A JSON object of a row, and whether all its numbers are finite."""

    values: dict[str, Any]
    finite: bool


class _Unfit(ValueError):
    """Reason why a JSON text is invalid."""


_SUSPECT = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{19}|NaN|Infinity|\\")
"""Pattern in every JSON text that has a number out of range, or an escaped letter."""


def _parse(text: str, kind: "Kind") -> "_JsonObject | str":
    """Return the JSON object of a text, or why the text is no object of this kind."""
    finite = True
    try:
        value = json.loads(text, object_pairs_hook=strict_json.unique_pairs)
        if not isinstance(value, dict):
            return "is not the JSON of an object"
        finite = _is_finite(value, MOST_DEPTH, bool(_SUSPECT.search(text)))
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except strict_json.RepeatedName:
        return "has a name twice in one object"
    except _Unfit as error:
        return str(error)
    except UnicodeEncodeError:
        return "has half a surrogate pair"
    except (ValueError, RecursionError):
        return "is not the JSON of an object"
    path = _wrong_type(value, kind)
    return f"has a value of a wrong type at {path}" if path else _JsonObject(value, finite)


_SCALARS = {str, int, float, bool, type(None)}


def _is_finite(value: Any, depth: int, suspect: bool) -> bool:
    """Return whether all numbers in a JSON value are finite.

    depth: largest number of nested levels. suspect: whether the text matches _SUSPECT; if not, much need not be checked. _Unfit
    for deeper levels, for whole numbers of more than 64 bits, and for names that are long or have control characters.
    """
    if type(value) not in (dict, list):
        if type(value) is int and abs(value) >= 1 << 63:
            raise _Unfit("has a whole number of more than 64 bits")
        return type(value) is not float or math.isfinite(value)
    if not depth:
        raise _Unfit(f"has more than {MOST_DEPTH} levels")
    names = value if type(value) is dict else ()
    if (suspect or max(map(len, names), default=0) > MOST_LETTERS["name"]) and any(map(_word_fault, names)):
        raise _Unfit("has a name with control characters, or a long one")
    members = value.values() if type(value) is dict else value
    if not suspect and set(map(type, members)) <= _SCALARS:
        return True
    return all(
        [_is_finite(member, depth - 1, suspect) for member in members if suspect or type(member) in (dict, list)]
    )


Kind = Callable[[Any], bool] | dict[str, Any]
"""Type of a JSON value: a function that tests it, or the kinds of an object's members by name. Further members are allowed."""


def _wrong_type(value: Any, kind: Kind) -> str:
    """Return the path of the first member that is not of its kind; 'it' for the value itself, '' if there is none.

    Null is of any kind.
    """
    if value is None:
        return ""
    if not isinstance(kind, dict):
        return "" if kind(value) else "it"
    if not isinstance(value, dict):
        return "it"
    for name, member in value.items():
        member_kind = kind.get(name) or kind.get(_unnumbered(name))
        if member_kind and member is not None and (path := _wrong_type(member, member_kind)):
            return f"{name}.{path}".removesuffix(".it")
    return ""


@lru_cache(maxsize=1024)
def _unnumbered(name: str) -> str:
    """Return a member's name without the number of its kernel, such as `registers` for `registers_1`."""
    return re.sub(r"_[0-9]{1,3}$", "", name)


def _number(value: Any) -> bool:
    return type(value) in (int, float)


def _count(value: Any) -> bool:
    return type(value) in (int, float) and not value < 0


def _text(value: Any) -> bool:
    return type(value) is str


def _flag(value: Any) -> bool:
    return type(value) is bool


def _scalar(value: Any) -> bool:
    return type(value) in (str, int, float)


def _commit(value: Any) -> bool:
    return type(value) is str and bool(_COMMIT.fullmatch(value))


def _group(value: Any) -> bool:
    return type(value) is str and bool(_GROUP.fullmatch(value))


def _time(value: Any) -> bool:
    try:
        return type(value) is str and FIRST_TIME <= datetime.fromisoformat(value).replace(tzinfo=UTC) < LAST_TIME
    except ValueError:
        return False


def _counts(value: Any) -> bool:
    """Return whether a value is a list of numbers of at least 0."""
    return type(value) is list and set(map(type, value)) <= {int, float} and not any(number < 0 for number in value)


def _texts_of(value: Any) -> bool:
    """Return whether a value is a list of texts."""
    return type(value) is list and set(map(type, value)) <= {str}


def _parts(value: Any) -> bool:
    return type(value) is dict and all(map(_counts, value.values()))


def _scalars(value: Any) -> bool:
    """Return whether a value is an object of texts, numbers and nulls."""
    return type(value) is dict and all(member is None or _scalar(member) for member in value.values())


def _counters_by_kernel(value: Any) -> bool:
    """Return whether a value is a list of objects of _COUNTERS, one for each kernel."""
    return type(value) is list and all(
        type(counters) is dict and not _wrong_type(counters, _COUNTERS) for counters in value
    )


def _timeline(value: Any) -> bool:
    """Return whether a value is a list of spans: [queue, name, start, end]."""
    return type(value) is list and all(
        type(span) is list and len(span) == 4 and type(span[1]) is str and _counts([span[0], span[2], span[3]])
        for span in value
    )


_CHECK = {"compared": _text, "error": _number, "tolerance": _number}
_COUNTERS: Kind = {
    **dict.fromkeys(("dram", "l1", "l2", "memory", "occupancy", "sm", "launches", "seconds"), _number),
    **dict.fromkeys(("dram_bytes", "l1_bytes", "l2_bytes", "fadd", "ffma", "fmul", "flops"), _number),
    **dict.fromkeys(("instructions", "tensor_instructions"), _number),
    **dict.fromkeys(("block", "grid", "kernel", "limit"), _text),
}
_POLICY: Kind = {
    **dict.fromkeys(("budget_s", "limit_s", "noise", "seed"), _number),
    **dict.fromkeys(("few", "maximum", "minimum", "scarce", "swept"), _number),
    "cache": _text,
}
_EXTRA: Kind = {
    **dict.fromkeys(("accuracy", "amount", "footprint", "occupancy", "rate_amount", "theory"), _count),
    **dict.fromkeys(("constant_bytes", "local_bytes", "private_bytes", "spill_bytes", "registers"), _count),
    **dict.fromkeys(("groups", "groups_by_local_memory", "groups_by_registers", "groups_by_work_items"), _count),
    **dict.fromkeys(("work_items", "work_group_limit", "cores", "cudnn", "devices", "images", "threads"), _count),
    **dict.fromkeys(("error_is", "flags", "mode", "note", "occupancy_by", "rate", "rate_unit", "source"), _text),
    **dict.fromkeys(("target", "theory_is", "tool", "torch", "jax", "lbmpy", "openvino", "pystencils"), _text),
    "wgsl_sha256": _text,
    "group": _group,
    "threads_bound": _flag,
    "parts": _parts,
    "checks": {"before": _CHECK, "after": _CHECK, "seed": _number},
    "counters": _COUNTERS,
    "kernels": _counters_by_kernel,
    "timeline": _timeline,
    "took_part": _texts_of,
    "rows": _counts,
}
_CLOCKS = ("application_clock_default_mhz", "application_clock_mhz", "highest_clock_mhz")
_PROVENANCE: Kind = {
    "environment": {"device": _scalars, "libraries": _scalars, "python": _text, "settings": _scalars},
    "git": {"commit": _commit, "dirty": _flag, "change": _text},
    "gpu": {
        **dict.fromkeys((*_CLOCKS, "power_limit_default_w", "power_limit_w", "numa_node"), _number),
        **dict.fromkeys(("compute_mode", "driver", "pci_bus_id", "uuid", "vbios"), _text),
        **dict.fromkeys(("ecc", "mig", "persistence"), _flag),
    },
    "neighbours": {"before": _counts, "after": _counts},
    "time": _time,
    **dict.fromkeys(("cores", "sockets", "threads", "threads_usable", "numa_nodes", "load_1min"), _count),
    **dict.fromkeys(("memory_bytes", "memory_available_bytes"), _count),
    **dict.fromkeys(("cpu", "cpu_flags", "cpu_id", "kernel", "machine", "os"), _text),
    "cpu_simd": _texts_of,
}
