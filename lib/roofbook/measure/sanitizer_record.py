"""Results of compute-sanitizer for a lab's steps as a file, `results/checks/LAB.json`. Serves `roofbook check --out`.

report/sanitizer_checks.py reads the files for the page on the method.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..devices import checkout
from ..devices.contract import Device
from ..paths import LIBRARY, write_whole
from ..spec.lab import Lab
from .findings import SourceLine
from .sanitize import CheckedVariant, ToolOutcome

FOLDER = "checks"
"""Folder of these files in `results`."""


def write(
    folder: Path, lab: Lab, checks: Sequence[CheckedVariant], device: Device, *, version: str, limit_s: float
) -> None:
    """Write the results of a lab's variants, with the commit, the device and the tool. version: of compute-sanitizer."""
    record = {
        "lab": lab.name,
        "sanitizer": version,
        "device": device.identity(),
        "git": checkout.state(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "limit_s": limit_s,
        "variants": {check.variant.name: _variant(check) for check in checks},
    }
    write_whole(folder / f"{lab.name}.json", json.dumps(record, indent=1) + "\n")


def _variant(check: CheckedVariant) -> dict[str, Any]:
    """Return the results of a variant. Each tool that ran to its end has the list of its findings, others have a reason."""
    source = check.variant.source
    return {
        "case": check.case.name,
        "scale": check.case.scale,
        "source_sha256": source.sha256 if source else "",
        "wrong": None if check.failure else check.reason,
        "tools": {tool: outcome.failure or _findings(outcome) for tool, outcome in check.tools.items()},
    }


def _findings(outcome: ToolOutcome) -> list[dict[str, Any]]:
    return [
        {"kind": defect.kind, "kernel": defect.kernel, "lines": [_line(line) for line in defect.places], "count": count}
        for defect, count in outcome.defects.items()
    ]


def _line(line: SourceLine) -> str:
    """Return `labs/lbm/deep_halo.inc:97`; of a file outside the library its name alone."""
    path = Path(line.file).resolve()
    return f"{path.relative_to(LIBRARY) if path.is_relative_to(LIBRARY) else path.name}:{line.line}"
