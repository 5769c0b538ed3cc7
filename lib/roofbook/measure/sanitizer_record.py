"""Results of compute-sanitizer for a lab's steps as a file, `results/checks/LAB.json`. Serves `roofbook check --out`.

report/sanitizer_checks.py reads the files for the page on the method.
"""

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .. import strict_json
from ..devices import checkout
from ..devices.contract import Device
from ..errors import UsageError
from ..paths import LIBRARY, read_regular, write_whole
from ..spec.lab import Lab
from . import messages
from .checked_runnable import plain_text
from .findings import Defect, SourceLine
from .messages import has_shape
from .sanitize import TOOLS, CheckedVariant, ToolOutcome

FOLDER = "checks"
"""Folder of these files in `results`."""
SCALE = "test"
"""Scale whose smallest cases are checked."""
MOST_BYTES = 8 << 20
"""Largest size of a file."""
MOST_FINDINGS, MOST_LINES = 20, 4
"""Largest numbers of findings of a tool on a variant, and of lines of a finding: one variant cannot fill the file."""


def _is_reason(value: Any) -> bool:
    """Return whether a value is a text of `_reason`: one printable line, which is not empty."""
    return has_shape(value, str) and value == _reason(value)


def _is_sha256(value: Any) -> bool:
    """Return whether a value is the hash of a kernel's text."""
    return has_shape(value, str) and re.fullmatch(r"[0-9a-f]{64}", value) is not None


_FINDING = {"kind": _is_reason, "kernel": str, "lines": [str], "count": messages.whole_above_zero}
_VARIANT = {
    "case": _is_reason,
    "scale": messages.one_of([SCALE]),
    "source_sha256": _is_sha256,
    "wrong": (_is_reason, None),
    "tools": {tool: (_is_reason, [_FINDING]) for tool in TOOLS},
}


def _are_texts(value: Any) -> bool:
    """Return whether a value is an object whose values are texts, with a `model`."""
    return isinstance(value, dict) and "model" in value and all(has_shape(text, str) for text in value.values())


def _is_time(value: Any) -> bool:
    """Return whether a value is a time with its zone, as text."""
    try:
        return has_shape(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _is_commit(value: Any) -> bool:
    """Return whether a value is the name of a commit."""
    return has_shape(value, str) and re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", value) is not None


_GIT = {"commit": (_is_commit, None), "dirty": (bool, None), "change": (str, None)}
_RECORD = {
    "lab": str,
    "sanitizer": str,
    "device": _are_texts,
    "git": (_GIT, None),
    "time": _is_time,
    "limit_s": (messages.above_zero, None),
    "variants": dict,
}
"""Shape of a file's content; each of its variants has the shape `_VARIANT`."""


def read(path: Path) -> dict[str, Any]:
    """Return the content of a lab's file. Raise UsageError, with the reason, if it is none that `write` wrote."""
    try:
        record = json.loads(read_regular(path, MOST_BYTES), object_pairs_hook=strict_json.unique_pairs)
    except OSError as error:
        raise UsageError(f"{path} is no record of checks: {error.strerror}") from None
    except strict_json.RepeatedName as error:
        raise UsageError(f"{path} is no record of checks: {error}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no record of checks: it is no JSON in UTF-8") from None
    reason = _fault(record, path.name.partition(".")[0])
    if reason:
        raise UsageError(f"{path} is no record of checks: {reason}")
    return dict(record)


def _fault(record: Any, lab: str) -> str:
    """Return why a file's content is not that of a lab's record; '' if it is. Values are not repeated: they may be hostile."""
    if not isinstance(record, dict) or record.keys() != _RECORD.keys():
        return "it has other fields"
    wrong = [name for name, shape in _RECORD.items() if not has_shape(record[name], shape)]
    if wrong:
        return f"wrong value of {', '.join(wrong)}"
    if record["lab"] != lab:
        return f"it is not of the lab {lab}"
    wrong_variants = sum(not has_shape(variant, _VARIANT) for variant in record["variants"].values())
    return f"{wrong_variants} of its variants have other fields, or wrong values" if wrong_variants else ""


@contextlib.contextmanager
def writing(folder: Path, labs: Sequence[Lab]) -> Iterator[None]:
    """Make a folder for records, which no other process writes to until the block ends.

    Errors: UsageError if it cannot be written, if another process writes there, or if the file of a lab is no record, which
    would be lost.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reason = "it is no folder" if isinstance(error, FileExistsError | NotADirectoryError) else error.strerror
        raise UsageError(f"--out {folder} cannot be written: {reason}") from None
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"--out {folder} cannot be written: you may not write to it")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another check writes to {folder}: wait for its end, or name another folder") from None
        for lab in labs:
            if os.path.lexists(path := folder / f"{lab.name}.json"):
                try:
                    read(path)
                except UsageError as error:
                    raise UsageError(f"{error}; remove it, or name another folder") from None
        yield
    finally:
        os.close(handle)


def write(
    folder: Path,
    lab: Lab,
    checks: Sequence[CheckedVariant],
    device: Device,
    *,
    version: str,
    limit_s: float,
    is_whole: bool,
) -> None:
    """Write the results of a lab's variants, with the commit, the device and the tool.

    version: of compute-sanitizer. is_whole: whether these are all results of a check. Until they are, a record with other
    variants stays, and the results are in `LAB.unfinished.json` beside it.
    """
    record: dict[str, Any] = {
        "lab": lab.name,
        "sanitizer": version,
        "device": device.identity(),
        "git": checkout.state(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "limit_s": limit_s,
        "variants": {check.variant.name: _variant(check) for check in checks},
    }
    path, unfinished = folder / f"{lab.name}.json", folder / f"{lab.name}.unfinished.json"
    is_kept = not is_whole and bool(_variants(path) - record["variants"].keys())
    write_whole(unfinished if is_kept else path, strict_json.dumps(record, indent=1) + "\n")
    if not is_kept:
        unfinished.unlink(missing_ok=True)


def _variants(path: Path) -> set[str]:
    """Return the names of the variants in a lab's file; none if it is no record."""
    try:
        return set(read(path)["variants"])
    except UsageError:
        return set()


def _variant(check: CheckedVariant) -> dict[str, Any]:
    """Return the results of a variant. Each tool that ran to its end has the list of its findings, others have a reason."""
    source = check.variant.source
    return {
        "case": check.case.name,
        "scale": check.case.scale,
        "source_sha256": source.sha256 if source else "",
        "wrong": _reason(check.reason) if check.reason and not check.failure else None,
        "tools": {
            tool: _reason(outcome.failure) if outcome.failure else _findings(outcome)
            for tool, outcome in check.tools.items()
        },
    }


def _reason(text: str) -> str:
    """Return a reason, or the kind of a finding, as one printable line, which is never empty."""
    return plain_text(text) or "no message"


def _findings(outcome: ToolOutcome) -> list[dict[str, Any]]:
    """Return the findings of a tool. A last one stands for those beyond MOST_FINDINGS."""
    first = list(outcome.defects.items())[:MOST_FINDINGS]
    further = outcome.defects.total() - sum(count for _, count in first)
    left_out = {"kind": "further reports, which are left out", "kernel": "", "lines": [], "count": further}
    return [*(_finding(defect, count) for defect, count in first), *([left_out] if further else [])]


def _finding(defect: Defect, count: int) -> dict[str, Any]:
    return {
        "kind": _reason(defect.kind),
        "kernel": plain_text(defect.kernel),
        "lines": [_line(line) for line in defect.places[:MOST_LINES]],
        "count": count,
    }


def _line(line: SourceLine) -> str:
    """Return `labs/lbm/deep_halo.inc:97`; of a file outside the library its name alone."""
    path = Path(plain_text(line.file))
    with contextlib.suppress(OSError, ValueError, RuntimeError):  # the name is any text that a kernel printed
        path = path.resolve()
    return f"{path.relative_to(LIBRARY) if path.is_relative_to(LIBRARY) else path.name}:{line.line}"
