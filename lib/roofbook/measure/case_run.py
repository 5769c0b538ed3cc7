"""One case of a lab on one device: its variants verified, sampled side by side, and handed over as rows of the store."""

import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from ..devices.contract import Device
from ..errors import UserFacingError
from ..spec.lab import Variant
from ..store.files import Where
from ..store.parquet import Store
from ..store.schema import CONTROL
from .background_group import paused
from .checkpoint import Checkpoint, key_of
from .host_locks import HostLocks
from .measurement import Measurement
from .placement import Setting, Target, control_of, keys, target_of
from .policy import UNTIMED
from .progress import Progress, silent
from .row import row
from .sampling import flush_of, sample
from .verify import NoRoom, References, check_sample, prepare, told, too_long, verify_again

WAITS = "waits for its turn"
"""Stage in which other processes of this host hold the processors or the device."""

Keep = Callable[[list[dict[str, Any]]], Any]
"""Takes rows as soon as there are any."""


class Kept(NamedTuple):
    """What whoever waits is told of a row that the store has."""

    case: str
    variant: str
    role: str
    status: str
    run: str


def measure_and_keep(
    at: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    store: Store,
    where: Where,
    go_on: bool = True,
    once: str = "",
    progress: Progress = silent,
    tell: Callable[[list[Kept]], Any] = lambda kept: None,
) -> list[Kept]:
    """Measure `variants` into the store, with the samples of an interrupted case; what is a row of its run by this policy, a
    failure too, is not measured twice.

    once: a name of this case in this run, for whoever may be measuring it somewhere else as well. Its rows are kept under that
    name, all at the end or none, and the first who does so wins. Nothing is put aside, for the next may be another machine.
    """
    kept: list[Kept] = []

    def keep(measured: list[dict[str, Any]]) -> None:
        store.append(measured, where, once)
        new = [Kept(each["case"], each["variant"], each["role"], each["status"], each["run"]) for each in measured]
        kept.extend(new)
        tell(new)

    if once:
        held: list[dict[str, Any]] = []
        measure_case(at, variants, run=run, keep=held.extend, progress=progress)
        if held:
            keep(held)
        return kept
    checkpoint = Checkpoint.of_case(store.root / "unfinished", at.lab.name, at.case.name, go_on=go_on)
    checkpoint.finished = _finished(store, at, checkpoint.runs())
    measure_case(at, variants, run=run, keep=keep, progress=progress, checkpoint=checkpoint)
    return kept


def _finished(store: Store, at: Setting, runs: set[str]) -> dict[str, dict[str, int]]:
    """By each run that an interrupt left unfinished, the keys of those cells of the case that are rows of it by this policy.

    Each has its last round; -1 without any.
    """
    found: dict[str, dict[str, int]] = {run: {} for run in runs}
    if not found:
        return {}
    rows = store.rows(at.lab.name, case=at.case.name, run=list(found), policy=at.policy.as_json())
    for each in rows.itertuples():
        found[each.run][key_of(each.cell_key, each.env_key, each.role)] = int(max(each.rounds, default=-1))
    return found


def measure_case(
    at: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    keep: Keep,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Verify, time and verify again `variants`, and hand the rows to `keep`; also when interrupted, those that are whole.

    A variant that fails to build, is wrong, or runs out of memory or time becomes a failed row with its reason. Those that do
    not fit into the memory beside the others are timed after them, in rounds of their own. Samples that are no rows yet go to
    `checkpoint`, now and then and at the end; the rows are of the run that it goes on with, if any.
    """
    stages = _Stages(progress)
    checkpoint = checkpoint or Checkpoint()
    checkpoint.resume(_by_key(at, measurements(at, variants)), run)
    due, timed, turns = checkpoint.due(), at.case.scale != UNTIMED, HostLocks.from_environment()
    try:
        references = References(at)  # whoever starts this process holds the processors until it says what it is at
        # Which buffers lie where is no part of a variant: drawn for each run, it is part of what differs between runs.
        order = random.Random(references.seed).sample(due, len(due)) if timed else due
        if due and timed and at.policy.cache == "cold":
            flush_of(at.device)  # takes its memory before the variants do
        while order:
            order = _prepare(at, order, references, stages, turns, len(due))
            references.timing()
            for group in _groups(due, at.device):
                judge = partial(check_sample, at, references, stages)
                if turns.folder:
                    stages(group[0].variant.name, WAITS)
                with paused() if timed else contextlib.nullcontext(), turns.timing(group[0].device):
                    sample(group, at.policy, stages, checkpoint, judge)
                checkpoint.save()
                order += [it for it in group if not (it.runnable or it.reason)]  # no room beside the others
                _verify_again(at, group, references, stages, turns)
        stages("", "rows")
    finally:
        stages.end()
        rows = [_row(at, it, checkpoint.run) for it in due if it.reason or it.whole]
        for it in due:
            it.release()
        kept = False
        try:
            if rows:
                keep(rows)
            kept = True
        finally:
            checkpoint.save(are_rows=kept)


class _Stages:
    """Passes on what a case is at, until it ends: what is tidied up after a failure must not hide where it failed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, variant: str, stage: str) -> None:
        self._progress(variant, stage)

    def end(self) -> None:
        """Pass on nothing more."""
        self._progress = silent


def _row(at: Setting, it: Measurement, run: str) -> dict[str, Any]:
    """Return the row of a measurement; one of a failure where what the lab says of it makes no row."""
    try:
        return row(at, it, run)
    except UserFacingError:
        raise
    except Exception as error:
        return row(at, Measurement(it.variant, it.role, it.device, it.backend, reason=told(error)), run)


def _prepare(
    at: Setting, those: Sequence[Measurement], references: References, progress: Progress, turns: HostLocks, of: int
) -> list[Measurement]:
    """Make ready what fits into the memory, in its order; what is left. of: how many measurements there are in all."""
    left: list[Measurement] = []
    for number, it in enumerate(those, of - len(those) + 1):
        progress(it.variant.name, f"check, {number} of {of}")
        it.reason = None if it.samples else too_long(at, it, progress)
        if it.reason:
            continue
        try:
            if turns.folder:
                progress(it.variant.name, WAITS)
            with turns.working():
                prepare(at, it, references, progress, beside=any(each.runnable for each in those))
        except NoRoom:
            left.append(it)
    return left


def _verify_again(
    at: Setting, group: Sequence[Measurement], references: References, progress: Progress, turns: HostLocks
) -> None:
    """Verify those that were sampled, and give the memory back; at last those for which the others left too little."""
    late = list[Measurement]()
    for those, beside in ((group, True), (late, False)):
        for it in those:
            try:
                if it.sampled and not it.reason:
                    if turns.folder:
                        progress(it.variant.name, WAITS)
                    with turns.working():
                        verify_again(at, it, references, progress, beside=beside)
                it.release()
            except NoRoom:
                late.append(it)


def measurements(at: Setting, variants: Sequence[Variant]) -> Iterator[Measurement]:
    """One for each variant that is for this case and device, and the A/A control of the steps that run on the device itself."""
    steps = []
    for variant in variants:
        target = target_of(variant, at.device)
        if target is None or at.lab.skip_reason(variant, at.case):
            continue
        yield Measurement(variant, variant.role, *target)
        if variant.role == "step" and target.device is at.device:
            steps.append(variant)
    if len(steps) > 1:
        yield Measurement(control_of(steps), CONTROL, at.device, at.device.backend)


def _by_key(at: Setting, those: Iterable[Measurement]) -> dict[str, Measurement]:
    """Measurements by what a checkpoint finds them again by."""
    found = {}
    for it in those:
        units = at.lab.units(at.case, it.variant, it.device)
        found[key_of(*keys(at, it.variant, Target(it.device, it.backend), units), it.role)] = it
    return found


def _groups(due: Sequence[Measurement], device: Device) -> Iterator[list[Measurement]]:
    """Measurements that are interleaved: those of one device, so that a GPU does not idle while the host's CPU works.

    `device` comes first: what an interrupted run keeps is what it was called for.
    """
    ready = [it for it in due if it.runnable and not it.reason]
    for slug in sorted({it.device.slug for it in ready}, key=lambda slug: slug != device.slug):
        yield [it for it in ready if it.device.slug == slug]
