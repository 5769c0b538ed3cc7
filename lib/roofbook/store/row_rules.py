"""Rules for a row of the store: which types, lengths and values its columns may have, whoever wrote it.

Serves the process that checks Parquet files (file_check.py) and whoever adds rows. A row that breaks a rule is left out, or
refused before it is written. What a rule says of a value never repeats that value: it may be hostile.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from .schema import COLUMNS, JSON, PROFILE, REQUIRED, ROLES, SLUG, TIMES

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

MOST_LETTERS = {"file": 120, "name": 200, "text": 1 << 20}
"""Letters of a name that names a file or folder, of another name, and of a longer text (a reason, JSON)."""
MOST_DEPTH = 20
"""Levels of objects and lists within one another in a JSON text."""
FIRST_TIME, LAST_TIME = datetime(1970, 1, 1, tzinfo=UTC), datetime(2262, 1, 1, tzinfo=UTC)
"""Between these lies when a row was started: other times are no dates to pandas."""
NO_TEXT = "\ufffe\uffff"
"""What stands for a text that is not UTF-8: both are no characters."""
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_GROUP = re.compile(r"[0-9]{1,10}(x[0-9]{1,10}){0,2}")
_UNFIT_CATEGORIES = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
"""Unicode categories of letters that steer a terminal or a page, or that no encoding has."""


def wrong_rows(table: "pa.Table") -> dict[int, str]:
    """Return why each row that breaks a rule does so, by its number in the table.

    table: has the columns of `schema()` and their types; text may be dictionary-encoded.
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


def _mark(wrong: dict[int, str], more: Mapping[int, str]) -> None:
    for row, why in more.items():
        wrong.setdefault(row, why)


def _texts(table: "pa.Table", name: str) -> tuple[list[str | None], "NDArray[np.int64]"]:
    """The distinct texts of a column, and for each row which of them it has, -1 for null."""
    import numpy as np
    import pyarrow as pa

    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # without any chunk
        return [], np.array([], np.int64)
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.dictionary.to_pylist(), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)


def _wrong_texts(table: "pa.Table", name: str) -> dict[int, str]:
    texts, at = _texts(table, name)
    wrong: dict[int, str] = {}
    if name in REQUIRED or name == "status":
        wrong |= {int(row): f"{name} is null" for row in (at < 0).nonzero()[0]}
    rule = _rules()[name]
    for number, text in enumerate(texts):
        if text is not None and (why := rule(text)):
            wrong |= {int(row): f"{name} {why}" for row in (at == number).nonzero()[0]}
    return wrong


def _slug(text: str) -> str:
    if len(text) > MOST_LETTERS["file"]:
        return f"has {len(text)} letters, {MOST_LETTERS['file']} at most"
    return "" if SLUG.fullmatch(text) else "names a file: letters, digits and . _ + - only"


def _words(text: str) -> str:
    import unicodedata

    if text == NO_TEXT:
        return "is not UTF-8"
    if len(text) > MOST_LETTERS["name"]:
        return f"has {len(text)} letters, {MOST_LETTERS['name']} at most"
    if not text.isprintable() and any(unicodedata.category(letter) in _UNFIT_CATEGORIES for letter in text):
        return "has a control character"
    return ""


def _name(text: str) -> str:
    if not text.strip():
        return "is empty"
    if "\\" in text or any(not part or part.startswith(".") for part in text.split("/")):
        return "is no name but a path"
    return _words(text)


def _long(text: str) -> str:
    most = MOST_LETTERS["text"]
    if text == NO_TEXT:
        return "is not UTF-8"
    return f"has {len(text)} letters, {most} at most" if len(text) > most else ""


def _one_of(values: Sequence[str]) -> Callable[[str], str]:
    return lambda text: "" if text in values else f"is none of {', '.join(values)}"


@cache
def _rules() -> dict[str, Callable[[str], str]]:
    """By each column of text, what says why a text is not fit for it; '' for one that is."""
    from ..spec.lab import SCALES

    return {
        **dict.fromkeys(("run", "lab", "device", "backend"), _slug),
        **dict.fromkeys(("variant", "case", "parent"), _name),
        **dict.fromkeys(("axis", "point", "dtype", "device_name", "timed", "unit"), _words),
        **dict.fromkeys(("cell_key", "env_key", "source_sha256"), _words),
        **dict.fromkeys(("reason", *JSON), _long),
        "role": _one_of(ROLES),
        "status": _one_of(("ok", "failed")),
        "scale": _one_of(SCALES),
        "device_kind": _one_of(("cpu", "gpu")),
    }


def _lists(table: "pa.Table", name: str) -> tuple["NDArray[np.int64]", "pa.Array", "NDArray[np.int64]"]:
    """The length of each row's list, -1 for null; all values; and of each value its row."""
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

    _, values, row_of = _lists(table, name)
    wrong: dict[int, str] = {}
    nulls = pc.is_null(values).to_numpy(zero_copy_only=False)
    wrong |= {int(row): f"{name} has a null" for row in row_of[nulls]}
    if pa.types.is_string(values.type):
        unfit = {text for text in pc.unique(values).to_pylist() if text is not None and _words(text)}
        if unfit:
            told = pc.is_in(values, pa.array(sorted(unfit), values.type)).to_numpy(zero_copy_only=False)
            wrong |= {int(row): f"{name} has a text with control characters, or a long one" for row in row_of[told]}
        return wrong
    numbers = pc.fill_null(values, 1).to_numpy(zero_copy_only=False)
    if name == "rounds":
        return wrong | {int(row): "rounds has a number below 0" for row in row_of[numbers < 0]}
    fit = np.isfinite(numbers) & (numbers > 0 if name in TIMES else numbers > -1e9)
    what = "no time: finite seconds above 0 are" if name in TIMES else "no finite number"
    return wrong | {int(row): f"{name} has a value that is {what}" for row in row_of[~fit]}


def _wrong_times(table: "pa.Table") -> dict[int, str]:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table["started"]
    first, last = (pa.scalar(at, column.type) for at in (FIRST_TIME, LAST_TIME))
    fit = pc.fill_null(pc.and_(pc.greater_equal(column, first), pc.less(column, last)), True)
    return {int(row): "started is no date" for row in (~fit.to_numpy()).nonzero()[0]}


def _numbers(table: "pa.Table", name: str) -> "NDArray[np.float64]":
    """The numbers of a column, NaN for null."""
    import numpy as np
    import pyarrow as pa

    return np.asarray(table[name].cast(pa.float64(), safe=False).to_numpy(), float)


def _is(table: "pa.Table", name: str, text: str) -> "NDArray[np.bool_]":
    """Which rows have this text in a column."""
    import numpy as np

    texts, at = _texts(table, name)
    return np.isin(at, [number for number, known in enumerate(texts) if known == text])


def verified(table: "pa.Table") -> "NDArray[np.bool_]":
    """Which rows a reader takes a time from: those that are `ok` and whose error is within its bound, and all such probes."""
    import numpy as np

    error, bound = _numbers(table, "error"), _numbers(table, "bound")
    probe: NDArray[np.bool_] = _is(table, "role", "probe") & np.isnan(bound)
    fit: NDArray[np.bool_] = _is(table, "status", "ok") & ((error <= bound) | probe)
    return fit


def _wrong_numbers(table: "pa.Table") -> dict[int, str]:
    """Judge numbers where a reader takes them: of a row that failed, an error may be anything."""
    import numpy as np

    wrong: dict[int, str] = {}

    def mark(rows: "NDArray[np.bool_]", why: str) -> None:
        _mark(wrong, {int(row): why for row in rows.nonzero()[0]})

    units = table["units"]
    unknown, count = units.is_null().to_numpy(), _numbers(table, "units")
    mark(~unknown & ~((count >= 1) & (count <= 2.0**53)), "units is no whole number above 0")
    mark(verified(table) & unknown, "units is null")
    ok = _is(table, "status", "ok")
    for name in ("flops", "bytes", "error", "bound"):
        null, number = table[name].is_null().to_numpy(), _numbers(table, name)
        fit = null | (np.isfinite(number) & (number >= 0))
        if name in ("error", "bound"):
            fit |= ~ok & ~(number < 0)
        mark(~fit, f"{name} is no finite number of at least 0")
    return wrong


def _wrong_lengths(table: "pa.Table") -> dict[int, str]:
    """Judge lists that go by samples: of a row that is ok, each has as many values as there are samples, or none."""
    wrong: dict[int, str] = {}
    samples, count = _lists(table, "samples_s")[0], verified(table)
    _mark(wrong, {int(row): "samples_s is empty" for row in (count & (samples < 1)).nonzero()[0]})
    ok, profile = _is(table, "status", "ok"), _is(table, "role", PROFILE)
    for name in ("rounds", "wall_s", "sample_throttle"):
        length = _lists(table, name)[0]
        needed = (count & ~profile) if name == "rounds" else False
        unequal = ok & (length != samples) & ((length > 0) | needed)
        why = f"{name} and samples_s have different lengths"
        _mark(wrong, {int(row): why for row in unequal.nonzero()[0]})
    return wrong


def _wrong_json(table: "pa.Table", known: set[int]) -> dict[int, str]:
    """Judge policy, extra and provenance of the rows that are not `known` to be wrong."""
    wrong: dict[int, str] = {}
    ok, samples = _is(table, "status", "ok"), _lists(table, "samples_s")[0]
    texts, at = _texts(table, "role")
    roles = [texts[number] if number >= 0 else "" for number in at]
    for name, kind in zip(JSON, (_POLICY, _EXTRA, _PROVENANCE), strict=True):
        texts, at = _texts(table, name)
        read: dict[int, _Told | str] = {}
        for row, number in enumerate(at.tolist()):
            if number < 0 or row in known or row in wrong:
                continue
            if number not in read:
                read[number] = _parsed(texts[number] or "", kind)
            found = read[number]
            if isinstance(found, str):
                wrong[row] = f"{name} {found}"
            elif why := _within_row(name, found, bool(ok[row]), int(samples[row]), str(roles[row])):
                wrong[row] = f"{name}{why}"
    return wrong


_NEEDED = {"peak": ("amount", "rate"), PROFILE: ("tool", "counters")}
"""What `extra` of a verified row of this role must tell."""


def _within_row(column: str, told: "_Told", ok: bool, samples: int, role: str) -> str:
    """Return what of a JSON object does not fit the rest of its row: '' where all does."""
    if column == "extra" and ok:
        for name in _NEEDED.get(role, ()):
            if told.value.get(name) is None:
                return f" lacks {name!r}"
        for values in (told.value.get("parts") or {}).values():
            if samples > 0 and len(values) != samples:
                return ".parts and samples_s have different lengths"
    return "" if not ok or told.finite else " has NaN or an infinite number"


class _Told(NamedTuple):
    """A JSON object of a row, and whether all its numbers are finite."""

    value: dict[str, Any]
    finite: bool


class _Unfit(ValueError):
    """Why a text is no fit JSON."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _Unfit("has a name twice in one object")
    return found


_SUSPECT = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{19}|NaN|Infinity|\\")
"""What a JSON text has that holds a number out of range, or a letter written by its code."""


def _parsed(text: str, kind: "Kind") -> "_Told | str":
    """Return the JSON object of a text, or why it is none of this kind."""
    finite = True
    try:
        value = json.loads(text, object_pairs_hook=_pairs)
        if not isinstance(value, dict):
            return "is not the JSON of an object"
        finite = _plain(value, MOST_DEPTH, bool(_SUSPECT.search(text)))
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except _Unfit as error:
        return str(error)
    except UnicodeEncodeError:
        return "has half a surrogate pair"
    except (ValueError, RecursionError):
        return "is not the JSON of an object"
    where = _differs(value, kind)
    return f"has a value of a wrong type at {where}" if where else _Told(value, finite)


_SCALARS = {str, int, float, bool, type(None)}


def _plain(value: Any, depth: int, suspect: bool) -> bool:
    """Return whether all numbers are finite. Raise _Unfit for what nests deeper, and for a whole number of over 64 bits.

    suspect: whether there may be such numbers, or names with control characters, at all.
    """
    if type(value) not in (dict, list):
        if type(value) is int and abs(value) >= 1 << 63:
            raise _Unfit("has a whole number of more than 64 bits")
        return type(value) is not float or math.isfinite(value)
    if not depth:
        raise _Unfit(f"has more than {MOST_DEPTH} levels")
    names = value if type(value) is dict else ()
    if (suspect or max(map(len, names), default=0) > MOST_LETTERS["name"]) and any(map(_words, names)):
        raise _Unfit("has a name with control characters, or a long one")
    inner = value.values() if type(value) is dict else value
    if not suspect and set(map(type, inner)) <= _SCALARS:
        return True
    return all([_plain(each, depth - 1, suspect) for each in inner if suspect or type(each) in (dict, list)])


Kind = Callable[[Any], bool] | dict[str, Any]
"""What a JSON value has to be: a test of it, or the kinds of an object's values by their names. Other names may be there."""


def _differs(value: Any, kind: Kind) -> str:
    """Return at which of the names of `kind` a value is of another kind: '' where none is. Null is of any kind."""
    if value is None:
        return ""
    if not isinstance(kind, dict):
        return "" if kind(value) else "it"
    if not isinstance(value, dict):
        return "it"
    for name, inner in value.items():
        rule = kind.get(name) or kind.get(_unnumbered(name))
        if rule and inner is not None and (where := _differs(inner, rule)):
            return f"{name}.{where}".removesuffix(".it")
    return ""


@lru_cache(maxsize=1024)
def _unnumbered(name: str) -> str:
    """A fact's name without the number of the kernel that it is of, as `registers_1` has."""
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
    """Whether it is a list of numbers of at least 0."""
    return type(value) is list and set(map(type, value)) <= {int, float} and not any(number < 0 for number in value)


def _texts_of(value: Any) -> bool:
    """Whether it is a list of texts."""
    return type(value) is list and set(map(type, value)) <= {str}


def _parts(value: Any) -> bool:
    return type(value) is dict and all(map(_counts, value.values()))


def _scalars(value: Any) -> bool:
    """Whether it is an object of texts, numbers and nulls."""
    return type(value) is dict and all(inner is None or _scalar(inner) for inner in value.values())


def _counted(value: Any) -> bool:
    """Whether it is a list of what counters say of each kernel."""
    return type(value) is list and all(type(inner) is dict and not _differs(inner, _COUNTERS) for inner in value)


def _timeline(value: Any) -> bool:
    """Whether it is a list of spans: [queue, what, start, end]."""
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
    **dict.fromkeys(("target", "theory_is", "tool", "torch", "jax", "lbmpy", "pystencils"), _text),
    "group": _group,
    "threads_bound": _flag,
    "parts": _parts,
    "checks": {"before": _CHECK, "after": _CHECK, "seed": _number},
    "counters": _COUNTERS,
    "kernels": _counted,
    "timeline": _timeline,
    "took_part": _texts_of,
    "rows": _counts,
}
_CLOCKS = ("application_clock_default_mhz", "application_clock_mhz", "highest_clock_mhz")
_PROVENANCE: Kind = {
    "environment": {"device": _scalars, "libraries": _scalars, "python": _text},
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
