"""Tables of the steps that compute-sanitizer checked, for the page on the method, from the files of `roofbook check --out`."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..devices.backends import CUDA, HOST
from ..errors import UsageError
from ..measure import sanitizer_record
from ..measure.sanitize import smallest_case
from ..measure.sanitizer_record import FOLDER, SCALE
from ..spec import registry
from ..spec.plan import Variant
from .columns import Column, count_column, table, text_column

LABS_CAPTION = "CUDA steps under compute-sanitizer"
REPORTS_CAPTION = "What compute-sanitizer reports, and what did not end"


class Report(NamedTuple):
    """A finding of a tool, or the reason why the tool or the variant failed."""

    lab: str
    variant: str
    tool: str
    text: str


@dataclass(frozen=True)
class CheckedLab:
    """A lab's file, read with the lab's steps of today."""

    name: str
    record: Mapping[str, Any]
    steps: Sequence[Variant]
    """Today's variants with a CUDA kernel."""

    @property
    def checked(self) -> list[str]:
        """Names of the steps that were checked with the kernel and on the case of today."""
        return [v.name for v in self.steps if self._is_checked(v)]

    def _is_checked(self, step: Variant) -> bool:
        result, lab = self.record["variants"].get(step.name), registry.get(self.name)
        if result is None or step.source is None or result["source_sha256"] != step.source.sha256:
            return False
        case = smallest_case(lab, step, lab.cases(SCALE))
        return case is not None and result["case"] == case.name

    @property
    def without_case(self) -> list[str]:
        """Names of the steps that no case at scale test fits."""
        cases = registry.get(self.name).cases(SCALE)
        return [v.name for v in self.steps if all(v.plan.refusal(case, v) for case in cases)]

    @property
    def reports(self) -> list[Report]:
        """Reports on the checked steps, each once."""
        reports = [Report(self.name, name, *report) for name in self.checked for report in self._reports_of(name)]
        return list(dict.fromkeys(reports))

    def _reports_of(self, name: str) -> Iterator[tuple[str, str]]:
        variant = self.record["variants"][name]
        for tool, outcome in variant["tools"].items():
            if isinstance(outcome, str):
                yield tool, outcome
            else:
                for finding in outcome:
                    yield tool, finding["kind"] + (f", in kernel {finding['kernel']}" if finding["kernel"] else "")
        if variant["wrong"] is not None:
            yield "", variant["wrong"]

    @property
    def clean(self) -> int:
        """Number of the checked steps without a report."""
        return len(self.checked) - len({report.variant for report in self.reports})

    @property
    def origin(self) -> str:
        """Commit, device, version of the tool and day."""
        git, device = self.record["git"] or {}, self.record["device"]
        commit = ((git.get("commit") or "")[:10] or "unknown commit") + " with changes" * bool(git.get("dirty"))
        return f"{commit}, {device.get('model', '')}, {self.record['sanitizer']}, {self.record['time'][:10]}"


def read(results: Path) -> tuple[list[CheckedLab], list[str]]:
    """Return the labs with a record, in the order of the book, and the names of files that are none."""
    labs, others = [], []
    for name in registry.names_with_peaks():
        path = results / FOLDER / f"{name}.json"
        if not os.path.lexists(path):
            continue
        try:
            record = sanitizer_record.read(path)
        except UsageError:
            others.append(path.name)
            continue
        steps = [
            v for v in registry.get(name).ladder if v.source and CUDA.name in v.backends and HOST not in v.backends
        ]
        labs.append(CheckedLab(name, record, steps))
    return labs, others


def checks(results: Path) -> str:
    """Return the tables as HTML; '' if no file is there."""
    labs, others = read(results)
    if not (labs or others):
        return ""
    notes = [
        "Checked: by memcheck, racecheck, synccheck and initcheck, on the smallest case at scale test that fits the step, with "
        "the kernel's text as it is today. Clean: no tool reported anything, and the result was right."
    ]
    notes += [f"Left out, as `roofbook check --out` did not write it: {', '.join(others)}."] * bool(others)
    for lab in labs:
        without_case, unchecked = lab.without_case, [v.name for v in lab.steps if v.name not in lab.checked]
        for reason, names in (
            ("on a case at scale test, as none fits", [name for name in unchecked if name in without_case]),
            ("with the kernel and on the case of today", [name for name in unchecked if name not in without_case]),
        ):
            notes += [f"Not checked in {lab.name} {reason}: {', '.join(names)}."] * bool(names)
    columns: list[Column[CheckedLab]] = [
        text_column("Lab", "lab", lambda lab: lab.name),
        count_column("CUDA steps", "steps", lambda lab: len(lab.steps)),
        count_column("Checked", "checked", lambda lab: len(lab.checked)),
        count_column("Clean", "clean", lambda lab: lab.clean),
        text_column("Commit, device, version, day", "origin", lambda lab: lab.origin, "wrap"),
    ]
    tables = [table(LABS_CAPTION, columns, labs, notes)]
    reports = [report for lab in labs for report in lab.reports]
    if reports:
        report_columns: list[Column[Report]] = [
            text_column("Lab", "lab", lambda report: report.lab),
            text_column("Step", "variant", lambda report: report.variant),
            text_column("Tool", "tool", lambda report: report.tool),
            text_column("Report", "report", lambda report: report.text, "wrap"),
        ]
        tables.append(table(REPORTS_CAPTION, report_columns, reports, []))
    return "".join(part.html for part in tables)
