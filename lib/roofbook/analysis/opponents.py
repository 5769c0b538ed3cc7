"""Opponents of a submitted kernel: the fastest steps and library, and the least time by the device's measured peaks."""

from collections.abc import Iterable, Sequence

from ..devices.contract import Device
from ..errors import UsageError, one_of
from ..measure.answer import task_of
from ..measure.placement import target_of
from ..spec import registry
from ..spec.credit import Credit
from ..spec.exercise import exercises
from ..spec.lab import Lab
from ..spec.plan import ONE_WORK_ITEM, Case, Variant
from ..store.parquet import Store
from ..store.todays_code import newest_measurements, rows_of_today
from .readings import cases_of, newest
from .roofline import bound, read_peaks


def opponents(
    lab: Lab, store: Store, device: Device, case: Case, against: str | None = None
) -> tuple[Variant, tuple[Variant, ...]]:
    """Return the step whose tolerance holds for a submitted kernel, and the further variants that it is timed beside.

    against: name of a plain step, which is then the only opponent.

    The first is the fastest plain step, one without conditions. The others are the fastest step of all and the fastest
    library on this very device. Times of the store decide; without any, the first is the lab's `best`, or its last plain
    step, and there are no others. Errors: UsageError if no plain step, or not the one asked for, runs
    the case on the device.
    """
    times = _times(lab, store, device, case)

    def here(variants: Iterable[Variant]) -> list[Variant]:
        return [variant for variant in variants if is_here(lab, variant, device, case)]

    steps = here(variant for variant in lab.ladder if variant.role == "step" and variant.source)
    plain = [step for step in steps if not lab.conditions(step)]
    if not plain:
        raise UsageError(
            f"no plain step of {lab.name} runs {case.name} on {device.spec}, so no kernel can be judged there"
        )
    if against is not None:
        named = next((step for step in plain if step.name == against), None)
        if named is None:
            raise one_of(f"plain step of {lab.name} on {device.spec}", against, [step.name for step in plain])
        return named, ()
    many = [step for step in plain if step.description != ONE_WORK_ITEM] or plain
    default = next((step for step in many if step.name == lab.best), many[-1])
    step = _fastest(many, times) or default
    further = [_fastest(steps, times), _fastest(here(peer for peer in lab.peers if peer.role == "peer"), times)]
    return step, tuple(variant for variant in further if variant is not None and variant is not step)


def least_seconds(lab: Lab, store: Store, device: Device, case: Case) -> dict[str, float]:
    """Return the least seconds of a unit by dtype, for dtypes of the lab's steps whose peak the store has for the device."""
    rows = rows_of_today(registry.get(registry.PEAKS), store, device=device.slug, backend=device.backend)
    try:
        peaks = read_peaks(newest_measurements(rows))
    except ValueError:
        return {}
    work = lab.work(case)
    dtypes = {variant.dtype for variant in lab.ladder} & set(peaks.flops)
    return {dtype: bound(work, peaks, work.footprint, dtype).seconds for dtype in sorted(dtypes)}


def steps_of_class(
    lab: Lab, cases: Sequence[str], exercise: str | None, credit: Credit, store: Store, device: Device
) -> tuple[tuple[str, str], ...]:
    """Return (case, step) for each case that a class is timed on: by default the first of the scale quick.

    An exercise has its own case and step. Errors: UsageError for an unknown name, and for credit that cannot be given here.
    """
    if exercise is not None:
        if cases or credit.against or credit.bound:
            raise UsageError(
                "an exercise has its own case and step: no --case, and neither against nor bound in --points"
            )
        task = task_of(lab, exercises(lab).named(lab.name, exercise))
        return ((task.timed.name, task.step.name),)
    steps = []
    for case in [lab.case(name) for name in dict.fromkeys(cases)] or lab.cases("quick")[:1]:
        lab.output_arrays(case)
        step, _ = opponents(lab, store, device, case, credit.against)
        if credit.bound and step.dtype not in least_seconds(lab, store, device, case):
            raise UsageError(
                "the points for the share of the bound need the peaks of this device: `roofbook run peaks` measures them"
            )
        steps.append((case.name, step.name))
    return tuple(steps)


def is_here(lab: Lab, variant: Variant, device: Device, case: Case) -> bool:
    """Return whether a variant runs the case on this very device, not on its host."""
    target = target_of(variant, device)
    return target is not None and target.device is device and not lab.skip_reason(variant, case)


def _times(lab: Lab, store: Store, device: Device, case: Case) -> dict[str, float]:
    """Return the median seconds of each variant with a verified time of today's code on the device and case."""
    rows = rows_of_today(lab, store, device=device.slug, backend=device.backend, case=case.name)
    if case.name not in cases_of(rows):
        return {}
    return {name: reading.median for name, reading in newest(rows, case.name).items() if reading.ok}


def _fastest(variants: Sequence[Variant], times: dict[str, float]) -> Variant | None:
    return min((variant for variant in variants if variant.name in times), key=lambda v: times[v.name], default=None)
