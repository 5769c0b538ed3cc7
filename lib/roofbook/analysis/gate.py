"""The gate: variants that differ from a commit or from stored rows, and the comparison of their times before and now.

Serves `roofbook gate`. With a commit, its own source is measured next to the checkout's, in turns. Stored rows are of another
time, so that comparison is the weaker one: it knows only medians of runs, and needs several on both sides.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..devices.contract import Device
from ..devices.find import open_device, spec_of
from ..errors import UsageError, of_system, one_of
from ..measure import side_by_side, stats
from ..measure.placement import target_of
from ..measure.policy import Policy
from ..measure.progress import Progress, silent
from ..measure.schedule import Planned, bring_up_to_date, plan
from ..measure.side_by_side import Rule, SourceComparison, VariantRuns, Verdict
from ..measure.source_tree import Project
from ..paths import read_regular, scratch_folder, write_whole
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..store.parquet import Store
from .history import changes
from .readings import Reading, newest

FAILING = ("slower", "broken")
"""The verdicts that fail a gate."""


@dataclass(frozen=True)
class Selection:
    """The variants and cases that a gate compares. An empty tuple selects all; cases are those of the scale."""

    labs: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    scale: str = "quick"
    device: str = "auto"
    budget_s: float = 0.5
    """Seconds of samples of a variant, on each side, in each run."""
    unchanged: bool = False
    """Whether variants that have not changed are compared too."""


@dataclass(frozen=True)
class Gated:
    """The comparison of a variant on a case, before and now."""

    lab: str
    variant: str
    case: str
    unit: str
    verdict: Verdict
    device: str = ""
    backend: str = ""
    ratio: stats.RatioEstimate | None = None
    """Time now / time before, over the runs."""
    seconds: tuple[float, float] | None = None
    """Seconds per unit before and now: the middle of the runs' medians."""
    runs: int = 0
    """Number of runs on the side that has fewer."""
    ratios: tuple[float, ...] = ()
    """Time now / time before of each run; empty if rows were compared."""
    reason: str = ""
    file: str = ""
    """Path of the changed file, or of the kernel, in the repository."""
    line: int = 1


@dataclass
class Findings:
    """All results of a gate."""

    against: str
    """The other side of the comparison, in words."""
    commit: str | None = None
    outcomes: list[Gated] = field(default_factory=list)
    same: int = 0
    """Number of variants that have not changed."""
    new: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """`lab variant` of those that only one side has: the checkout (new), or the other (removed)."""

    elsewhere: list[str] = field(default_factory=list)
    """`lab variant` of those that have changed and do not run on this device."""
    lack: str = ""
    """Reason why stored rows could not be compared; '' for a commit."""

    @property
    def compared(self) -> int:
        """Number of comparisons: of times, and of code that turned out to be the same."""
        return self.same + sum(outcome.verdict != "not compared" for outcome in self.outcomes)

    @property
    def failing(self) -> list[Gated]:
        return [outcome for outcome in self.outcomes if outcome.verdict in FAILING]


def against_commit(ref: str, selection: Selection, rule: Rule, progress: Progress = silent) -> Findings:
    """Compare the checkout with a commit, whose source is built and measured next to the checkout's.

    Errors: UsageError for an unknown commit, lab, case, variant or device, or a commit whose source this gate cannot drive.
    """
    repository = Project.of(Path.cwd())
    commit = repository.commit(ref)
    labs = _labs(selection)
    _check(labs, selection)
    with scratch_folder() as folder:
        trees = repository.extract(commit, folder), repository.checkout()
        progress(ref, "comparing the code of both")
        before = side_by_side.fingerprints(trees[0], "before", [lab.name for lab in labs])
        findings = Findings(f"{ref} ({commit[:10]})" if not commit.startswith(ref) else commit[:10], commit)
        for lab in labs:
            due = _changed(lab, selection, before.get(lab.name, {}), findings)
            if not due:
                continue
            device = open_device(selection.device, lab.preferred_backend)
            policy = Policy(cache=lab.cache, budget_s=selection.budget_s)
            cases = _cases(lab, selection)
            findings.elsewhere += [
                f"{lab.name} {variant.name}"
                for variant in due
                if not any(_runs_here(lab, variant, case, device) for case in cases)
            ]
            for case in cases:
                names = tuple(variant.name for variant in due if _runs_here(lab, variant, case, device))
                if names:
                    comparison = SourceComparison(
                        lab.name, case.name, case.scale, spec_of(device), names, trees, policy
                    )
                    for runs in side_by_side.compare(comparison, rule, progress):
                        file, line = _code_line(lab.variant(runs.variant), repository, commit)
                        findings.outcomes.append(_gated(runs, lab, rule, file, line))
    return findings


def _labs(selection: Selection) -> list[Lab]:
    labs = [registry.get(name) for name in selection.labs or registry.names()]
    names = {variant.name for lab in labs for variant in lab.all_variants()}
    for name in selection.variants:
        if len(labs) == 1:
            labs[0].variant(name)  # its error names similar variants
        elif name not in names:
            steps = [variant.name for lab in labs for variant in (*lab.ladder, *lab.peers)]
            raise one_of("variant", name, list(dict.fromkeys(steps)), near=sorted(names))
    return labs


def _check(labs: Sequence[Lab], selection: Selection) -> None:
    """Raise UsageError for a case or a device that does not exist, even if nothing has changed."""
    open_device(selection.device, labs[0].preferred_backend)
    for name in selection.cases:
        if not any(lab.case_or_none(name, selection.scale) for lab in labs):
            labs[-1].case(name, selection.scale)  # its error names the cases


def _cases(lab: Lab, selection: Selection) -> list[Case]:
    """Return the selected cases that a lab has; by default all of the scale."""
    if not selection.cases:
        return list(lab.cases(selection.scale))
    return [case for name in selection.cases if (case := lab.case_or_none(name, selection.scale))]


def _selected(lab: Lab, selection: Selection) -> list[Variant]:
    if not selection.variants:
        return [*lab.ladder, *lab.peers]
    return [variant for variant in lab.all_variants() if variant.name in selection.variants]


def _changed(lab: Lab, selection: Selection, before: Mapping[str, object], findings: Findings) -> list[Variant]:
    """Return the variants whose fingerprints differ, and add the new, removed and equal ones to the findings.

    before: fingerprints by the names of the variants of the other side.
    """
    selected = _selected(lab, selection)
    findings.new += [f"{lab.name} {variant.name}" for variant in selected if variant.name not in before]
    if not selection.variants:
        names = {variant.name for variant in lab.all_variants()}
        findings.removed += [f"{lab.name} {name}" for name in before if name not in names]
    common = [variant for variant in selected if variant.name in before]
    due = [variant for variant in common if selection.unchanged or variant.fingerprint() != before[variant.name]]
    findings.same += len(common) - len(due)
    return due


def _runs_here(lab: Lab, variant: Variant, case: Case, device: Device) -> bool:
    return target_of(variant, device) is not None and not lab.skip_reason(variant, case)


def _gated(runs: VariantRuns, lab: Lab, rule: Rule, file: str, line: int) -> Gated:
    word, seconds = runs.verdict(rule), None
    if runs.medians:
        before, now = (stats.median_ci(side).estimate for side in zip(*runs.medians, strict=True))
        seconds = before, now
    reason = runs.absent or "; ".join(f"{side}: {failure}" for side, failure in sorted(runs.failed.items()))
    return Gated(
        runs.lab, runs.variant, runs.case, lab.unit, word, runs.device, runs.backend, runs.ratio, seconds,
        len(runs.ratios), tuple(ratio.estimate for ratio in runs.ratios), reason, file, line,
    )  # fmt: skip


def _code_line(variant: Variant, repository: Project, commit: str | None) -> tuple[str, int]:
    """Return file and line of the first difference from the commit in a variant's kernel, its includes or its plan.

    Without a commit or a difference: the start of the kernel, else of the plan.
    """
    driver = inspect.unwrap(variant.plan)
    plan_file = Path(inspect.getfile(driver))
    candidates = [*(variant.source.files if variant.source else ()), plan_file]
    for path in candidates if commit else ():
        line = repository.changed_line(path, str(commit))
        if line:
            return str(path.resolve().relative_to(repository.folder)), line
    path, line = (candidates[0], 1) if variant.source else (plan_file, inspect.getsourcelines(driver)[1])
    return str(path.resolve().relative_to(repository.folder) if repository.holds(path) else path), line


# -- stored rows -------------------------------------------------------------------------------------------------------


def against_rows(ref: str, selection: Selection, rule: Rule, progress: Progress = silent) -> Findings:
    """Compare with stored rows of the same device: of a Parquet file, of all those below a folder, or of a store's URL.

    The variants whose rows are of other code or of another environment are measured, in as many runs as the rule names as the
    first. Errors: UsageError for a file without rows of the store.
    """
    findings, labs = Findings(f"the rows of {ref}"), _labs(selection)
    _check(labs, selection)
    with scratch_folder() as folder:
        stored, scratch = stored_rows(ref, folder / "stored"), Store(folder / "measured")
        for lab in labs:
            device = open_device(selection.device, lab.preferred_backend)
            policy = Policy(cache=lab.cache, budget_s=selection.budget_s)
            planned = plan(lab, _cases(lab, selection), _selected(lab, selection), device, stored, policy)
            findings.new += [f"{lab.name} {' on '.join(reversed(p.name))}" for p in planned if p.state == "missing"]
            common = [p for p in planned if p.state != "missing"]
            due = [p for p in common if selection.unchanged or p.state not in ("fresh", "failed")]
            findings.same += sum(p.state == "fresh" for p in common) if not selection.unchanged else 0
            if due:
                now = plan(lab, _cases(lab, selection), _selected(lab, selection), device, scratch, policy)
                names = {p.name for p in due}
                to_measure = [p for p in now if p.name in names]
                bring_up_to_date(to_measure, device, scratch, policy, runs=rule.runs, progress=progress, isolated=True)
                findings.outcomes += [_of_rows(p, stored, scratch, rule) for p in due]
        if not findings.compared:
            findings.lack = _lack(stored, labs, selection)
    return findings


def _lack(stored: Store, labs: Sequence[Lab], selection: Selection) -> str:
    """Return the reason why nothing could be compared: no rows of the labs in the store, or none of the device."""
    names = ", ".join(lab.name for lab in labs)
    if not any(len(stored.rows(lab.name)) for lab in labs):
        return f"there is no row of {names}: the store is empty, or it is not there"
    devices = dict.fromkeys(open_device(selection.device, lab.preferred_backend) for lab in labs)
    described = ", ".join(f"{device.name} by {device.backend}" for device in devices)
    return f"there is no verified row of {described} for what was asked of {names}"


def stored_rows(ref: str, folder: Path) -> Store:
    """Return a store to read: the one of a URL or folder; else one in `folder` with copies of the Parquet files at `ref`."""
    import pyarrow.compute as pc

    from ..store import files
    from ..store.checker import check_file
    from ..store.file_check import MOST_BYTES
    from ..store.schema import schema

    if "://" in ref:
        return Store(ref)
    path = Path(ref)
    if path.is_dir() and any((path / part).is_dir() for part in files.STORE_PARTS):
        return Store(path)
    sources = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not sources:
        raise UsageError(f"{path} holds no Parquet file: --against takes one, or a folder of them")
    for number, source in enumerate(sources):
        try:
            checked = check_file(read_regular(source, MOST_BYTES))
        except OSError as error:
            raise UsageError(of_system(error)) from None
        if checked.facts.fault:
            raise UsageError(f"{files.printable(source)} holds no rows of the store: {checked.facts.fault}")
        if not len(checked.rows):
            problem = files.left_out_rows(checked.facts) if checked.facts.wrong else "it is empty"
            raise UsageError(f"{files.printable(source)} holds no rows of the store: {problem}")
        files.warn_of(source, checked.facts)
        table = checked.rows.select(schema().names).cast(schema())
        for lab, device in set(zip(table["lab"].to_pylist(), table["device"].to_pylist(), strict=True)):
            device_rows = table.filter(pc.and_(pc.equal(table["lab"], lab), pc.equal(table["device"], device)))
            target = folder / files.folder_of("local", lab, device) / f"rows-{number}.parquet"
            write_whole(target, files.encoded(device_rows))
    return Store(folder)


def _of_rows(planned: Planned, stored: Store, scratch: Store, rule: Rule) -> Gated:
    before, now = (_reading(planned, store) for store in (stored, scratch))
    common = (planned.lab.name, planned.variant.name, planned.case.name, planned.lab.unit)
    file, line = _code_line_without_commit(planned.variant)
    if now is None or not now.ok:
        verdict: Verdict = "broken" if before and before.ok else "not compared"
        return Gated(*common, verdict, reason=now.reason if now else "it was not measured", file=file, line=line)
    if before is None or not before.ok:
        reason = before.reason if before else "it has no rows"
        return Gated(*common, "not compared", reason=reason, file=file, line=line)
    ratio = stats.unpaired_ratio(now.side, before.side)
    notes = [change.text for change in changes(before.row, now.row)]
    word = side_by_side.verdict(ratio, rule)
    fewest = min(len(before.runs), len(now.runs))
    if fewest < stats.ENOUGH_RUNS:
        word = "undecided"
        notes.insert(0, f"{'one run' if fewest == 1 else 'two runs'} on a side cannot show how far runs differ")
    return Gated(
        *common, word, planned.device.slug, planned.backend, ratio, (before.median, now.median), fewest,
        reason="; ".join(notes), file=file, line=line,
    )  # fmt: skip


def _code_line_without_commit(variant: Variant) -> tuple[str, int]:
    try:
        return _code_line(variant, Project.of(Path.cwd()), None)
    except UsageError:
        return "", 1


def _reading(planned: Planned, store: Store) -> Reading | None:
    """Return the newest measurement of a variant on a case in a store, over its runs; None if it has no rows."""
    rows = store.rows(
        planned.lab.name,
        case=planned.case.name,
        variant=planned.variant.name,
        device=planned.device.slug,
        backend=planned.backend,
    )
    rows = rows[rows["role"] == planned.variant.role]
    return newest(rows, planned.case.name).get(planned.variant.name) if len(rows) else None
