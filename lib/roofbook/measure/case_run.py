"""Measurement of one case of a lab on one device: variants are verified, sampled in turns, and stored as rows."""

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..devices.contract import Device
from ..errors import UserFacingError
from ..spec.plan import Variant
from ..store.schema import CONTROL
from .background_group import paused
from .checkpoint import Checkpoint, checkpoint_key
from .host_locks import HostLocks
from .measurement import Measurement
from .placement import Setting, Target, control_of, keys, target_of
from .policy import UNTIMED
from .progress import Progress, silent
from .row import row
from .sampling import flush_of, sample
from .verify import References, TooLittleMemory, check_sample, describe_error, prepare, too_long, verify_again

if TYPE_CHECKING:  # a case is measured without a store too, on systems whose processes it does not know
    from ..store.files import StorePart
    from ..store.parquet import Store

WAITING = "waits for its turn"
"""Stage in which a process waits for others of this host, which hold the processors or the device."""

Keep = Callable[[list[dict[str, Any]]], Any]
"""Function that stores rows."""


class StoredRow(NamedTuple):
    """Key columns and status of a row that was stored; sent to the process that waits for the measurement."""

    case: str
    variant: str
    role: str
    status: str
    run: str


def measure_and_store(
    setting: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    store: "Store",
    where: "StorePart",
    resume: bool = True,
    once: str = "",
    further_devices: Sequence[Device] = (),
    progress: Progress = silent,
    report_stored: Callable[[list[StoredRow]], Any] = lambda rows: None,
) -> list[StoredRow]:
    """Measure variants of a case, store their rows, and return what was stored.

    An interrupted case continues with its samples (`resume`). A variant that has a row of that run by this policy, also a
    failed one, is not measured again.

    once: a name of this case in this run, if several workers may measure it. Its rows are stored under that name, all at the
    end or none, and the first worker wins. No samples are put aside then: the next worker may be on another machine.
    further_devices: as of `measure_case`. Each variant is measured on all of them and stored, one by one: a run that is
    interrupted has lost one variant only.
    report_stored: called with the rows that were just stored.
    """
    stored: list[StoredRow] = []

    def keep(rows: list[dict[str, Any]]) -> None:
        store.append(rows, where, once)
        new_rows = [StoredRow(*(new_row[column] for column in StoredRow._fields)) for new_row in rows]
        stored.extend(new_rows)
        report_stored(new_rows)

    if once:
        rows_at_end: list[dict[str, Any]] = []
        measure_case(
            setting,
            variants,
            run=run,
            keep=rows_at_end.extend,
            progress=progress,
            further_devices=further_devices,
            one_by_one=bool(further_devices),
        )
        if rows_at_end:
            keep(rows_at_end)
        return stored
    checkpoint = Checkpoint.of_case(store.root / "unfinished", setting.lab.name, setting.case.name, resume=resume)
    checkpoint.finished = _finished(store, setting, checkpoint.runs())
    measure_case(
        setting, variants, run=run, keep=keep, progress=progress, checkpoint=checkpoint, further_devices=further_devices,
        one_by_one=bool(further_devices),
    )  # fmt: skip
    return stored


def _finished(store: "Store", setting: Setting, runs: set[str]) -> dict[str, dict[str, int]]:
    """Return, for each interrupted run, the keys of the case's stored measurements by this policy, with their last round.

    The last round is -1 for a failed row.
    """
    rounds_by_run: dict[str, dict[str, int]] = {run: {} for run in runs}
    if not rounds_by_run:
        return {}
    rows = store.rows(
        setting.lab.name, case=setting.case.name, run=list(rounds_by_run), policy=setting.policy.as_json()
    )
    for record in rows.itertuples():
        key = checkpoint_key(record.cell_key, record.env_key, record.role)
        rounds_by_run[record.run][key] = int(max(record.rounds, default=-1))
    return rounds_by_run


def measure_case(
    setting: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    keep: Keep,
    progress: Progress = silent,
    checkpoint: Checkpoint | None = None,
    further_devices: Sequence[Device] = (),
    one_by_one: bool = False,
) -> None:
    """Verify, time and verify again `variants`, and pass the rows to `keep`; after an interrupt, those that are complete.

    A variant that fails to build, is wrong, or runs out of memory or time becomes a failed row with its reason. Variants that
    do not fit into the memory together with the others are timed after them, in rounds of their own. Samples of incomplete
    measurements go to `checkpoint`, every half minute and at the end. Rows belong to the run that the checkpoint resumes.

    further_devices: such as the same GPU by other backends. Those of one model are timed in the same rounds. Programs
    of the host run once, for the setting's own device.
    one_by_one: each variant is a set of its own, measured on all devices and passed to `keep` before the next one begins.
    """
    checkpoint = checkpoint or Checkpoint()
    settings = [replace(setting, device=device) for device in (setting.device, *further_devices)]
    planned = [
        measurement
        for at in settings
        for measurement in measurements(at, variants)
        if (at is settings[0] or measurement.device is at.device) and not (one_by_one and measurement.role == CONTROL)
    ]
    checkpoint.resume(_by_key(setting, planned), run)
    due = checkpoint.due()
    references: References | None = None
    for number, measured_set in enumerate(sets := _sets(due, one_by_one), 1):
        stages, are_stored = _Stages(progress), False
        try:
            # The parent holds the processors until this process reports a stage.
            references = references or References(setting)
            _measure_set(setting, measured_set, references, stages, checkpoint, is_last=number == len(sets))
            stages("", "rows")
        finally:
            stages.end()
            rows = [_row(setting, m, checkpoint.run) for m in measured_set if m.reason or m.is_complete]
            for m in measured_set:
                m.release()
            try:
                if rows:
                    keep(rows)
                are_stored = True
            finally:
                checkpoint.save(are_rows=are_stored)


def _sets(due: Sequence[Measurement], one_by_one: bool) -> list[list[Measurement]]:
    """Return the sets of measurements that are timed and stored together: a single one, or one for each variant."""
    if not one_by_one:
        return [list(due)]
    names = dict.fromkeys(measurement.variant.name for measurement in due)
    return [[measurement for measurement in due if measurement.variant.name == name] for name in names]


def _measure_set(
    setting: Setting,
    due: Sequence[Measurement],
    references: References,
    stages: Progress,
    checkpoint: Checkpoint,
    *,
    is_last: bool,
) -> None:
    """Prepare, time and verify again the measurements of a set. is_last: whether no other set of the case follows."""
    timed, locks = setting.case.scale != UNTIMED, HostLocks.from_environment()
    # Addresses of buffers are no part of a variant: a drawn order makes them part of the variation between runs.
    order = random.Random(references.seed).sample(due, len(due)) if timed else due
    if due and timed and setting.policy.cache == "cold":
        flush_of(setting.device)  # takes its memory before the variants do
    while order:
        order = _prepare_fitting(setting, order, references, stages, locks, len(due))
        if is_last:
            references.timing()
        for group in _groups(due, setting.device):
            judge = partial(check_sample, setting, references, stages)
            if locks.folder:
                stages(group[0].variant.name, WAITING)
            with paused() if timed else contextlib.nullcontext(), locks.timing(group[0].device):
                sample(group, setting.policy, stages, checkpoint, judge)
            checkpoint.save()
            order += [m for m in group if not (m.runnable or m.reason)]  # it did not fit into the memory
            _verify_again(setting, group, references, stages, locks)


def measure_alone(
    setting: Setting, variant: Variant, references: References, *, run: str, progress: Progress = silent
) -> dict[str, Any]:
    """Verify one variant, time it and verify it again, beside no other, and return its row.

    references: of the case; those of one process serve all its variants. A variant that does not run gets a failed row.
    The row's `extra` has the seconds of each of PHASES.
    """
    target, progress = target_of(variant, setting.device), _Phases(progress)
    measurement = Measurement(variant, variant.role, *(target or (setting.device, setting.device.backend)))
    try:
        reason = setting.lab.skip_reason(variant, setting.case)
        measurement.reason = reason if target else f"it does not run on {setting.device.spec}"
        measurement.reason = measurement.reason or too_long(setting, measurement, progress)
        if not measurement.reason:
            prepare(setting, measurement, references, progress)
        if measurement.runnable:
            judge = partial(check_sample, setting, references, progress)
            sample([measurement], setting.policy, progress, Checkpoint(), judge)
        if measurement.sampled and not measurement.reason:
            verify_again(setting, measurement, references, progress)
        measurement.facts = {**measurement.facts, "phases_s": progress.seconds()}
        return _row(setting, measurement, run)
    finally:
        measurement.release()


PHASES = ("compilation", "benchmark", "validation")
"""Phases of measuring one variant alone. A driver may compile in the first run."""


class _Phases:
    """Progress of a variant, passed on, with the seconds of each phase."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._seconds = progress, dict.fromkeys(PHASES, 0.0)
        self._phase, self._since = "validation", time.perf_counter()

    def __call__(self, variant: str, stage: str) -> None:
        self._end_phase(
            "compilation" if stage.startswith(("plan", "first run"))
            else "benchmark" if stage.startswith(("warm up", "sample"))
            else "validation"
        )  # fmt: skip
        self._progress(variant, stage)

    def _end_phase(self, following: str) -> None:
        moment = time.perf_counter()
        self._seconds[self._phase] += moment - self._since
        self._phase, self._since = following, moment

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each phase so far."""
        self._end_phase(self._phase)
        return self._seconds


class _Stages:
    """Progress of a case, passed on until it ends: stages of the clean-up must not hide the stage that failed."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __call__(self, variant: str, stage: str) -> None:
        self._progress(variant, stage)

    def end(self) -> None:
        """Stop passing on stages."""
        self._progress = silent


def _row(setting: Setting, measurement: Measurement, run: str) -> dict[str, Any]:
    """Return the row of a measurement; a failed row if the lab's values for it are invalid."""
    try:
        return row(setting, measurement, run)
    except UserFacingError:
        raise
    except Exception as error:
        return row(
            setting,
            Measurement(
                measurement.variant,
                measurement.role,
                measurement.device,
                measurement.backend,
                reason=describe_error(error),
            ),
            run,
        )


def _prepare_fitting(
    setting: Setting,
    pending: Sequence[Measurement],
    references: References,
    progress: Progress,
    locks: HostLocks,
    total: int,
) -> list[Measurement]:
    """Prepare the pending measurements that fit into the memory, and return the others. total: number of all measurements."""
    postponed: list[Measurement] = []
    for number, measurement in enumerate(pending, total - len(pending) + 1):
        progress(measurement.variant.name, f"check, {number} of {total}")
        measurement.reason = None if measurement.samples else too_long(setting, measurement, progress)
        if measurement.reason:
            continue
        try:
            if locks.folder:
                progress(measurement.variant.name, WAITING)
            with locks.working():
                prepare(
                    setting,
                    measurement,
                    references,
                    progress,
                    others_hold_memory=any(other.runnable for other in pending),
                )
        except TooLittleMemory:
            postponed.append(measurement)
    return postponed


def _verify_again(
    setting: Setting, group: Sequence[Measurement], references: References, progress: Progress, locks: HostLocks
) -> None:
    """Verify and release the sampled measurements of a group. Those that lack memory wait until the others are released."""
    postponed = list[Measurement]()
    for batch, others_hold_memory in ((group, True), (postponed, False)):
        for measurement in batch:
            try:
                if measurement.sampled and not measurement.reason:
                    if locks.folder:
                        progress(measurement.variant.name, WAITING)
                    with locks.working():
                        verify_again(setting, measurement, references, progress, others_hold_memory=others_hold_memory)
                measurement.release()
            except TooLittleMemory:
                postponed.append(measurement)


def measurements(setting: Setting, variants: Sequence[Variant]) -> Iterator[Measurement]:
    """Yield a measurement of each variant that runs on this case and device, then the A/A control of the device's own steps.

    There is a control if a step can be compared with another variant of the device.
    """
    steps, compared = list[Variant](), 0
    for variant in variants:
        target = target_of(variant, setting.device)
        if target is None or setting.lab.skip_reason(variant, setting.case):
            continue
        yield Measurement(variant, variant.role, *target)
        if target.device is setting.device:
            steps += [variant] * (variant.role == "step")
            compared += variant.role != "step"
    if len(steps) > 1 or (steps and compared):
        yield Measurement(control_of(steps), CONTROL, setting.device, setting.device.backend)


def _by_key(setting: Setting, group: Iterable[Measurement]) -> dict[str, Measurement]:
    """Return measurements by their key in a checkpoint."""
    measurements_by_key = {}
    for measurement in group:
        variant, target = measurement.variant, Target(measurement.device, measurement.backend)
        units = setting.lab.units(setting.case, variant, target.device)
        measurements_by_key[checkpoint_key(*keys(setting, variant, target, units), measurement.role)] = measurement
    return measurements_by_key


def _groups(due: Sequence[Measurement], device: Device) -> Iterator[list[Measurement]]:
    """Yield groups of measurements to interleave: those of one device, so that a GPU does not idle while the CPU works.

    `device` comes first, so that an interrupted run has measured the device that it was called for.
    """
    ready = [m for m in due if m.runnable and not m.reason]
    for slug in sorted({m.device.slug for m in ready}, key=lambda slug: slug != device.slug):
        yield [m for m in ready if m.device.slug == slug]
