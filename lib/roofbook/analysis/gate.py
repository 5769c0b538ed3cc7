"""What a change made slower: which variants differ from a commit or from stored rows, and what measuring both came to.

Serves `roofbook gate`. With a commit, its own source is measured beside the checkout's, in turns. Stored rows are of another
time, so that comparison is the weaker one: it knows only medians of runs, and asks for several on both sides.
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
from ..measure.side_by_side import Bout, Duel, Rule, Verdict
from ..measure.source_tree import Project
from ..paths import read_regular, scratch_folder, write_whole
from ..spec import registry
from ..spec.lab import Case, Lab, Variant
from ..store.parquet import Store
from .history import changes
from .readings import Reading, newest

FAILING = ("slower", "broken")
"""The verdicts that fail a gate."""


@dataclass(frozen=True)
class Asked:
    """What a gate looks at. Without names all of them; cases are those of the scale."""

    labs: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    scale: str = "quick"
    device: str = "auto"
    budget_s: float = 0.5
    """Seconds of samples of a variant, on each side, in each run."""
    unchanged: bool = False
    """Also what has not changed."""


@dataclass(frozen=True)
class Gated:
    """A variant on a case, before and now."""

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
    """Per unit, before and now: the middle of the runs' medians."""
    runs: int = 0
    """How many there are, on the side that has fewer."""
    ratios: tuple[float, ...] = ()
    """That of each run; none where rows were compared."""
    reason: str = ""
    file: str = ""
    """The file of the change, or of the kernel, as the repository names it."""
    line: int = 1


@dataclass
class Findings:
    """All that a gate found."""

    against: str
    """What was compared with, in words."""
    commit: str | None = None
    outcomes: list[Gated] = field(default_factory=list)
    same: int = 0
    """Variants that have not changed."""
    new: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Names `lab variant` of those that one side alone has."""

    elsewhere: list[str] = field(default_factory=list)
    """Names `lab variant` of those that have changed and do not run on this device."""
    lack: str = ""
    """Why stored rows could not be compared with; '' for a commit."""

    @property
    def compared(self) -> int:
        """How many comparisons there were: of times, and of code that turned out to be the same."""
        return self.same + sum(each.verdict != "not compared" for each in self.outcomes)

    @property
    def failing(self) -> list[Gated]:
        return [each for each in self.outcomes if each.verdict in FAILING]


def against_commit(ref: str, asked: Asked, rule: Rule, progress: Progress = silent) -> Findings:
    """Compare with a commit: its source is built and measured beside the checkout's.

    Errors: UsageError for an unknown commit, lab, case, variant or device, or a commit whose source this gate cannot drive.
    """
    repository = Project.of(Path.cwd())
    commit = repository.commit(ref)
    labs = _labs(asked)
    _check(labs, asked)
    with scratch_folder() as folder:
        trees = repository.extract(commit, folder), repository.checkout()
        progress(ref, "comparing the code of both")
        before = side_by_side.fingerprints(trees[0], "before", [lab.name for lab in labs])
        found = Findings(f"{ref} ({commit[:10]})" if not commit.startswith(ref) else commit[:10], commit)
        for lab in labs:
            due = _changed(lab, asked, before.get(lab.name, {}), found)
            if not due:
                continue
            device = open_device(asked.device, lab.preferred_backend)
            policy = Policy(cache=lab.cache, budget_s=asked.budget_s)
            cases = _cases(lab, asked)
            found.elsewhere += [
                f"{lab.name} {each.name}"
                for each in due
                if not any(_runs_here(lab, each, case, device) for case in cases)
            ]
            for case in cases:
                names = tuple(each.name for each in due if _runs_here(lab, each, case, device))
                if names:
                    bout = Bout(lab.name, case.name, case.scale, spec_of(device), names, trees, policy)
                    for duel in side_by_side.fight(bout, rule, progress):
                        place = _place(lab.variant(duel.variant), repository, commit)
                        found.outcomes.append(_of_duel(duel, lab, rule, *place))
    return found


def _labs(asked: Asked) -> list[Lab]:
    labs = [registry.get(name) for name in asked.labs or registry.names()]
    known = {each.name for lab in labs for each in lab.all_variants()}
    for name in asked.variants:
        if len(labs) == 1:
            labs[0].variant(name)  # which says what would be right
        elif name not in known:
            steps = [each.name for lab in labs for each in (*lab.ladder, *lab.peers)]
            raise one_of("variant", name, list(dict.fromkeys(steps)), near=sorted(known))
    return labs


def _check(labs: Sequence[Lab], asked: Asked) -> None:
    """UsageError for a case or a device that was typed wrong, also where nothing has changed."""
    open_device(asked.device, labs[0].preferred_backend)
    for name in asked.cases:
        if not any(_case(lab, name, asked.scale) for lab in labs):
            labs[-1].case(name, asked.scale)  # which says what would be right


def _cases(lab: Lab, asked: Asked) -> list[Case]:
    """Those that are looked at; of names that several labs were given, those that this one has."""
    if not asked.cases:
        return list(lab.cases(asked.scale))
    return [found for name in asked.cases if (found := _case(lab, name, asked.scale))]


def _case(lab: Lab, name: str, scale: str) -> Case | None:
    try:
        return lab.case(name, scale)
    except UsageError:
        return None


def _asked_for(lab: Lab, asked: Asked) -> list[Variant]:
    if not asked.variants:
        return [*lab.ladder, *lab.peers]
    return [each for each in lab.all_variants() if each.name in asked.variants]


def _changed(lab: Lab, asked: Asked, before: Mapping[str, object], found: Findings) -> list[Variant]:
    """The variants whose fingerprint is another; notes those that are new, gone and the same."""
    mine = _asked_for(lab, asked)
    found.new += [f"{lab.name} {each.name}" for each in mine if each.name not in before]
    if not asked.variants:
        known = {each.name for each in lab.all_variants()}
        found.removed += [f"{lab.name} {name}" for name in before if name not in known]
    there = [each for each in mine if each.name in before]
    due = [each for each in there if asked.unchanged or each.fingerprint() != before[each.name]]
    found.same += len(there) - len(due)
    return due


def _runs_here(lab: Lab, variant: Variant, case: Case, device: Device) -> bool:
    return target_of(variant, device) is not None and not lab.skip_reason(variant, case)


def _of_duel(duel: Duel, lab: Lab, rule: Rule, file: str, line: int) -> Gated:
    word, seconds = duel.verdict(rule), None
    if duel.medians:
        before, now = (stats.median_ci(side).estimate for side in zip(*duel.medians, strict=True))
        seconds = before, now
    why = duel.absent or "; ".join(f"{side}: {reason}" for side, reason in sorted(duel.failed.items()))
    return Gated(
        duel.lab, duel.variant, duel.case, lab.unit, word, duel.device, duel.backend, duel.ratio, seconds,
        len(duel.ratios), tuple(each.estimate for each in duel.ratios), why, file, line,
    )  # fmt: skip


def _place(variant: Variant, repository: Project, commit: str | None) -> tuple[str, int]:
    """The file and line to point at: where the kernel, what it includes or its plan differs from the commit, else its start."""
    own = inspect.unwrap(variant.plan)
    plan_file = Path(inspect.getfile(own))
    candidates = [*(variant.source.files if variant.source else ()), plan_file]
    for path in candidates if commit else ():
        line = repository.changed_line(path, str(commit))
        if line:
            return str(path.resolve().relative_to(repository.folder)), line
    path, line = (candidates[0], 1) if variant.source else (plan_file, inspect.getsourcelines(own)[1])
    return str(path.resolve().relative_to(repository.folder) if repository.holds(path) else path), line


# -- stored rows -------------------------------------------------------------------------------------------------------


def against_rows(ref: str, asked: Asked, rule: Rule, progress: Progress = silent) -> Findings:
    """Compare with the rows of a Parquet file, of all those below a folder, or of a store's URL: those of the same device.

    Measured are the variants whose rows there are of other code or of another environment, in as many runs as the rule says at
    first. Errors: UsageError for a file without rows of the store.
    """
    found, labs = Findings(f"the rows of {ref}"), _labs(asked)
    _check(labs, asked)
    with scratch_folder() as folder:
        stored, scratch = stored_rows(ref, folder / "stored"), Store(folder / "measured")
        for lab in labs:
            device = open_device(asked.device, lab.preferred_backend)
            policy = Policy(cache=lab.cache, budget_s=asked.budget_s)
            cells = plan(lab, _cases(lab, asked), _asked_for(lab, asked), device, stored, policy)
            found.new += [f"{lab.name} {' on '.join(reversed(each.name))}" for each in cells if each.state == "missing"]
            there = [each for each in cells if each.state != "missing"]
            due = [each for each in there if asked.unchanged or each.state not in ("fresh", "failed")]
            found.same += sum(each.state == "fresh" for each in there) if not asked.unchanged else 0
            if due:
                now = plan(lab, _cases(lab, asked), _asked_for(lab, asked), device, scratch, policy)
                names = {each.name for each in due}
                mine = [each for each in now if each.name in names]
                bring_up_to_date(mine, device, scratch, policy, runs=rule.runs, progress=progress, apart=True)
                found.outcomes += [_of_rows(each, stored, scratch, rule) for each in due]
        if not found.compared:
            found.lack = _lack(stored, labs, asked)
    return found


def _lack(stored: Store, labs: Sequence[Lab], asked: Asked) -> str:
    """Return what a store lacks with which nothing could be compared."""
    names = ", ".join(lab.name for lab in labs)
    if not any(len(stored.rows(lab.name)) for lab in labs):
        return f"there is no row of {names}: the store is empty, or it is not there"
    devices = dict.fromkeys(open_device(asked.device, lab.preferred_backend) for lab in labs)
    described = ", ".join(f"{device.name} by {device.backend}" for device in devices)
    return f"there is no verified row of {described} for what was asked of {names}"


def stored_rows(ref: str, folder: Path) -> Store:
    """A store to read: that of a URL or folder; else of a Parquet file or of all those below a folder, copied into `folder`."""
    import pyarrow.compute as pc

    from ..store import files
    from ..store.checker import check_file
    from ..store.file_check import MOST_BYTES
    from ..store.schema import schema

    if "://" in ref:
        return Store(ref)
    path = Path(ref)
    if path.is_dir() and any((path / part).is_dir() for part in files.EVERYWHERE):
        return Store(path)
    sources = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not sources:
        raise UsageError(f"{path} holds no Parquet file")
    for number, source in enumerate(sources):
        try:
            checked = check_file(read_regular(source, MOST_BYTES))
        except OSError as error:
            raise UsageError(of_system(error)) from None
        if checked.facts.fault:
            raise UsageError(f"{files.shown(source)} holds no rows of the store: {checked.facts.fault}")
        if not len(checked.rows):
            why = files.of_rows(checked.facts) if checked.facts.wrong else "it is empty"
            raise UsageError(f"{files.shown(source)} holds no rows of the store: {why}")
        files.warn_of(source, checked.facts)
        table = checked.rows.select(schema().names).cast(schema())
        for lab, device in set(zip(table["lab"].to_pylist(), table["device"].to_pylist(), strict=True)):
            mine = table.filter(pc.and_(pc.equal(table["lab"], lab), pc.equal(table["device"], device)))
            place = folder / files.folder_of("local", lab, device) / f"rows-{number}.parquet"
            write_whole(place, files.encoded(mine))
    return Store(folder)


def _of_rows(cell: Planned, stored: Store, scratch: Store, rule: Rule) -> Gated:
    sides = [_reading(cell, store) for store in (stored, scratch)]
    before, now = sides
    common = (cell.lab.name, cell.variant.name, cell.case.name, cell.lab.unit)
    place = _place_without_commit(cell.variant)
    if now is None or not now.ok:
        why = now.reason if now else "it was not measured"
        return Gated(
            *common, "broken" if before and before.ok else "not compared", reason=why, file=place[0], line=place[1]
        )
    if before is None or not before.ok:
        return Gated(
            *common, "not compared", reason=before.reason if before else "it has no rows", file=place[0], line=place[1]
        )
    ratio = stats.unpaired_ratio([each.times for each in now.runs], [each.times for each in before.runs])
    told = [each.text for each in changes(before.row, now.row)]
    word = side_by_side.verdict(ratio, rule)
    fewest = min(len(before.runs), len(now.runs))
    if fewest < stats.ENOUGH_RUNS:
        word = "undecided"
        told.insert(0, f"{'one run' if fewest == 1 else 'two runs'} on a side cannot show how far runs differ")
    return Gated(
        *common, word, cell.device.slug, cell.backend, ratio, (before.median, now.median), fewest,
        reason="; ".join(told), file=place[0], line=place[1],
    )  # fmt: skip


def _place_without_commit(variant: Variant) -> tuple[str, int]:
    try:
        return _place(variant, Project.of(Path.cwd()), None)
    except UsageError:
        return "", 1


def _reading(cell: Planned, store: Store) -> Reading | None:
    """The newest measurement of a cell in a store, over its runs."""
    rows = store.rows(
        cell.lab.name, case=cell.case.name, variant=cell.variant.name, device=cell.device.slug, backend=cell.backend
    )
    rows = rows[rows["role"] == cell.variant.role]
    return newest(rows, cell.case.name).get(cell.variant.name) if len(rows) else None
