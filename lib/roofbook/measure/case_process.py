"""Measurement of a case in a process of its own: a kernel that breaks the process costs only its own row.

A kernel may crash the process, write outside its buffers, poison the GPU's context, or never end; a library may end the process
with exit code 0. The parent starts `python -m roofbook.measure.case_worker` and reads its messages, one line of JSON each.
A case is complete only with its closing record. Without one, another process measures the variants that did not end it.
"""

import contextlib
import sys
from collections.abc import Collection, Generator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..spec.plan import Variant
from ..store.files import StorePart
from ..store.parquet import Store
from . import background_group, messages
from .case_run import WAITING, StoredRow
from .measurement import Measurement
from .placement import Setting, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row
from .worker_process import WorkerFailed, WorkerProcess

COMPILE_ALLOWANCE_S = 60.0
"""Seconds that a driver may compile in a run, in addition to twice the limit of a run."""
READ_LIMIT_S = 300.0
"""Seconds in which a plan must return its outputs or facts, or release its memory."""
REFERENCE_LIMIT_S = 7200.0
"""Seconds in which a lab must prepare, compute its reference or compare outputs with it."""
START = "start"
"""Stage of a process before its first variant."""


class Workers(AbstractContextManager["Workers"]):
    """Processes for the cases of a lab on a device, one after the other. The next one starts while one measures.

    The next one is paused while samples are taken. As a context manager, it ends a process that is not needed.
    """

    def __init__(self, lab: str, device: str, cases: int) -> None:
        """cases: their number; no process starts ahead for further ones."""
        self._command = [sys.executable, "-m", "roofbook.measure.case_worker", lab, device]
        self._left = cases
        self._ready: WorkerProcess | None = None

    def __exit__(self, *_: object) -> None:
        if self._ready:
            self._ready.end()

    def prepare(self) -> None:
        """Start the process for the next case now."""
        self._ready = self._ready or WorkerProcess(self._command)

    def take(self) -> WorkerProcess:
        """Return the process for the next case."""
        worker, self._ready = self._ready, None
        self._left -= 1
        if worker and worker.process.poll() is None:
            worker.tree.resume()
            return worker
        if worker:
            worker.end()
        return WorkerProcess(self._command)

    def follow(self, stage: str) -> None:
        """Start, pause or resume the next process, now that the measuring one has reached a stage."""
        sampling = stage.startswith(("warm up", "sample"))
        if self._ready and sampling:
            self._ready.tree.pause()
        elif self._ready:
            self._ready.tree.resume()
        elif self._left > 0 and not sampling:
            self.prepare()


@dataclass
class WorkerEnded(Exception):
    """A worker ended or hung before it had measured everything."""

    reason: str
    """Reason in a few words, such as `crashed by SIGSEGV`."""
    variant: str
    """Variant that it was measuring; '' before the first."""
    stage: str
    hung: bool = False
    """Whether it did not answer in time."""


def measure_isolated(
    setting: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    store: Store,
    where: StorePart,
    resume: bool = True,
    once: str = "",
    further_devices: Sequence[Device] = (),
    progress: Progress = silent,
    workers: Workers | None = None,
) -> list[StoredRow]:
    """Measure variants of a case in a process of its own, one of `workers`, store their rows, and return what was stored.

    A variant during which the process ended is tried once more alone, since a launch of another variant may crash late. If
    that fails too, or if the process hangs, the variant becomes a failed row. The others continue in another process; with
    `resume` they keep their samples. Errors: Failed for a process that died before its first variant; UsageError if the
    process reports one.

    further_devices: as of `measure_case`. A variant during which the process ended is tried once more on each device
    alone, since it is not known on which of them it failed.
    """
    workers = workers or Workers(setting.lab.name, setting.device.spec, 1)
    every_device = (setting.device, *further_devices)
    stored, groups = list[StoredRow](), [_Group(list(variants), every_device)]
    while groups:
        left, devices = groups.pop(0)
        at = replace(setting, device=devices[0])
        is_alone = (len(left), len(devices)) == (1, 1) != (len(variants), len(every_device))
        name = f"{once}.{left[0].name}" if once and is_alone else once  # rows are stored once per name
        stored_now: list[StoredRow] = []
        try:
            conversation = _messages(workers, at, left, run, store, where, resume, name, devices[1:])
            with contextlib.closing(conversation):
                for message in conversation:
                    if "kept" in message:
                        stored_now += [StoredRow(*fields) for fields in message["kept"]]
                    else:
                        progress(message["variant"], message["what"])
        except WorkerEnded as end:
            stored_names = {stored_row.variant for stored_row in stored_now}
            due = [variant for variant in left if variant.name not in stored_names]
            guilty = next((variant for variant in due if variant.name == end.variant), None)
            if end.stage == START and not end.variant:
                raise Failed(f"{setting.lab.name} {setting.case.name}: the measuring process {end.reason}") from None
            if len(left) == 1 or (guilty and end.hung):
                guilty = guilty or next(iter(due), None)
                if guilty and len(devices) > 1:
                    groups += [
                        _Group([guilty], (device,))
                        for device in devices
                        if device is at.device or _runs_on(guilty, device)
                    ]
                elif guilty:
                    measurement = failed_measurement(at, guilty, f"{end.reason}; it was at: {end.stage}")
                    store.append([row(at, measurement, run)], where, once and f"{once}.{guilty.name}")
                    stored_now.append(StoredRow(setting.case.name, guilty.name, measurement.role, "failed", run))
                groups.insert(0, _Group([variant for variant in due if variant is not guilty], devices))
            elif guilty:
                groups.insert(0, _Group([variant for variant in due if variant is not guilty], devices))
                groups.append(_Group([guilty], devices))
            elif end.variant in stored_names:  # such as a variant that poisoned the device: its row is stored
                groups.insert(0, _Group(due, devices))
            else:
                groups += [_Group([variant], devices) for variant in due]
            groups = [group for group in groups if group.variants]
        stored += stored_now
    return stored


class _Group(NamedTuple):
    """Variants that one process measures, and the devices on which it measures each of them."""

    variants: list[Variant]
    devices: tuple[Device, ...]


def _runs_on(variant: Variant, device: Device) -> bool:
    """Return whether a variant runs on a device itself, and not on the host beside it."""
    target = target_of(variant, device)
    return target is not None and target.device is device


def failed_measurement(setting: Setting, variant: Variant, reason: str) -> Measurement:
    """Return a measurement that was ended before it had a time."""
    target = target_of(variant, setting.device)
    assert target is not None  # it ran on a target
    return Measurement(variant, variant.role, *target, reason=reason)


def _messages(
    workers: Workers,
    setting: Setting,
    variants: Sequence[Variant],
    run: str,
    store: Store,
    where: StorePart,
    resume: bool,
    once: str,
    further_devices: Sequence[Device],
) -> Generator[dict[str, Any]]:
    """Send an order to a worker, and yield its messages up to the closing record.

    Raises WorkerEnded if the process ends without one, hangs, loses its device, or sends an invalid message.
    """
    variant, stage = "", START
    names = [variant.name for variant in variants]
    devices = [setting.device.spec, *(device.spec for device in further_devices)]
    shapes = message_shapes(setting.case.name, names, len(devices))
    worker = workers.take()
    try:
        worker.tell({
            "case": setting.case.name, "scale": setting.case.scale, "run": run, "policy": asdict(setting.policy),
            "variants": names, "root": store.address, "where": where,
            "resume": resume, "once": once, "devices": devices,
        })  # fmt: skip
        stored_count = 0
        for _ in range(message_limit(setting.policy, len(names) * len(devices))):
            message = worker.receive(seconds_allowed(setting.policy, stage), *shapes)
            if "what" in message:
                variant, stage = message["variant"], message["what"]
                workers.follow(stage)
            elif "kept" in message:
                stored_count += len(message["kept"])
            elif "error" in message and message["usage"]:
                raise UsageError(message["error"])
            elif "error" in message:
                raise WorkerEnded(message["error"], variant, stage)
            elif message["closed"] != stored_count:
                closing = f"a closing record of {message['closed']} rows after {stored_count}"
                raise WorkerEnded(f"sent an invalid message: {closing}", variant, stage)
            else:
                return
            yield message
        raise WorkerEnded("sent messages without end", variant, stage)
    except WorkerFailed as failed:
        raise WorkerEnded(str(failed), variant, stage, failed.hung) from None
    except (KeyboardInterrupt, GeneratorExit):  # here, or while the caller handles a message
        worker.interrupt()
        raise
    finally:
        worker.end()
        background_group.resume()


def message_shapes(case: str, variants: Collection[str], devices: int = 1) -> tuple[dict[str, messages.Shape], ...]:
    """Return the shapes of messages of a process that measures these variants of a case, on a number of devices."""
    return (
        {"variant": messages.one_of({"", *variants}), "what": str},
        {"kept": messages.stored_rows(case, variants, devices)},
        {"closed": int},
        {"error": str, "usage": bool},
    )


def message_limit(policy: Policy, variants: int) -> int:
    """Return the number of messages that a process may send about so many variants; measuring them takes fewer."""
    return 1000 + 20 * (variants + 1) * (policy.maximum + 50)


def seconds_allowed(policy: Policy, stage: str) -> float | None:
    """Return the seconds after which a process counts as hung, by its last stage; None while it waits for others."""
    if stage == WAITING:
        return None
    if stage.startswith(("plan", "first run", "warm up", "sample", "last run")):
        return 2 * policy.limit_s + COMPILE_ALLOWANCE_S
    return READ_LIMIT_S if stage in ("outputs", "facts", "close") else REFERENCE_LIMIT_S
