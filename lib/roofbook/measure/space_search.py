"""Tuning of a step: points of its search space are measured one by one, and each is a row before the next one begins.

The rows are those of points of sweeps, with one sample each, in a store of their own: `tuning` beside the others, since a page
shows measurements with enough samples to compare.
"""

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..spec.plan import Variant
from ..spec.search_space import Point, SearchSpace
from ..store.identity import new_run_id
from ..store.parquet import Store
from . import messages
from .case_process import COMPILE_ALLOWANCE_S, START, failed_measurement, seconds_allowed
from .placement import Setting, keys, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row
from .search_strategy import Strategy
from .worker_process import WorkerFailed, WorkerProcess

FOLDER = "tuning"
"""Folder of the store of points, in the folder of the store of all other measurements."""
SLOWEST_S = 20.0
"""Seconds of a run above which a point is not timed."""


def policy_of_points(policy: Policy) -> Policy:
    """Return a policy of one sample a point."""
    return replace(policy, minimum=1, few=1, scarce=1, maximum=1, limit_s=SLOWEST_S)


def tuning_store(store: Store) -> Store:
    """Return the store of the points that were measured while tuning, beside a store of measurements."""
    return Store(f"{store.address.rstrip('/')}/{FOLDER}", store.parts)


@dataclass(frozen=True)
class PointResult:
    """Result of one point of a search space."""

    point: Point
    variant: Variant
    seconds: float | None
    """Seconds per unit of its sample; None if it failed."""
    reason: str = ""
    """Why it failed."""
    is_new: bool = True
    """Whether it was measured now, not taken from the store."""


class Search(AbstractContextManager["Search"]):
    """Measurement of the points that a strategy proposes, on one device. As a context manager, it ends its process."""

    def __init__(self, space: SearchSpace, device: Device, policy: Policy, store: Store) -> None:
        """store: of points, see `tuning_store`."""
        self.space, self.store, self.run = space, store, new_run_id()
        self.setting = Setting(space.lab, space.case, device, policy_of_points(policy))
        self._rows = stored_points(store, self.setting)
        self._worker: WorkerProcess | None = None

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._worker:
            if kind is KeyboardInterrupt:
                self._worker.interrupt()
            self._worker.end()

    def go(
        self, strategy: Strategy, minutes: float, report: Callable[[PointResult], object], progress: Progress = silent
    ) -> bool:
        """Measure points until none is left or the time is over. Return whether none is left.

        A point with a stored row of today's code is not measured again. report: called with each result.
        """
        end = time.monotonic() + 60 * minutes
        while (point := strategy.propose()) is not None:
            result = self._stored(point)
            if result is None and time.monotonic() >= end:
                return False
            result = result or self._measured(point, progress)
            strategy.learn(point, result.seconds)
            report(result)
        return True

    def _stored(self, point: Point) -> PointResult | None:
        variant = self.space.variant(point)
        stored_row = self._rows.get(variant.name)
        if stored_row is None or (stored_row["cell_key"], stored_row["env_key"]) != self._keys(variant):
            return None
        return PointResult(point, variant, seconds_of(stored_row), stored_row["reason"] or "", is_new=False)

    def rows(self) -> list[tuple[Point, Mapping[str, Any]]]:
        """Return the points that have a row of today's code by now, each with this row."""
        self._rows = stored_points(self.store, self.setting)
        stored = [(point, self._stored(point)) for point in self.space.points()]
        return [(point, self._rows[result.variant.name]) for point, result in stored if result]

    def _keys(self, variant: Variant) -> tuple[str, str] | None:
        if (target := target_of(variant, self.setting.device)) is None:
            return None
        units = self.setting.lab.units(self.setting.case, variant, target.device)
        return keys(self.setting, variant, target, units)

    def _measured(self, point: Point, progress: Progress) -> PointResult:
        """Measure a point. If its process ends, it is tried once more in a new one, as another point may have broken it."""
        variant, reason = self.space.variant(point), ""
        for _ in range(2):
            is_fresh = self._worker is None
            try:
                return self._conversation(point, variant, progress)
            except WorkerFailed as failed:
                reason = str(failed)
                self._end_worker()
                if is_fresh or failed.hung:
                    break
        measurement = failed_measurement(self.setting, variant, reason)
        self.store.append([row(self.setting, measurement, self.run)])
        return PointResult(point, variant, None, reason)

    def _conversation(self, point: Point, variant: Variant, progress: Progress) -> PointResult:
        worker = self._worker or self._start(progress)
        worker.tell(dict(point))
        shapes: tuple[dict[str, messages.Shape], ...] = (
            {"variant": messages.one_of({"", variant.name}), "what": str},
            {"stored": messages.one_of([variant.name]), "seconds": float, "reason": str},
            {"error": str, "usage": bool},
        )
        stage = START
        while True:
            message = worker.receive(seconds_allowed(self.setting.policy, stage) or COMPILE_ALLOWANCE_S, *shapes)
            if "what" in message:
                stage = message["what"]
                progress(variant.name, stage)
            elif "error" in message:
                raise UsageError(message["error"]) if message["usage"] else WorkerFailed(message["error"])
            else:
                return PointResult(point, variant, message["seconds"] or None, message["reason"])

    def _start(self, progress: Progress) -> WorkerProcess:
        """Start the process, and return it once it is ready. Raise Failed if it cannot begin."""
        lab, case = self.setting.lab, self.setting.case
        self._worker = WorkerProcess(
            [sys.executable, "-m", f"{__package__}.point_worker", lab.name, self.setting.device.spec]
        )
        self._worker.tell({
            "case": case.name, "scale": case.scale, "run": self.run, "policy": asdict(self.setting.policy),
            "step": self.space.step.name, "root": self.store.address,
        })  # fmt: skip
        try:
            while True:
                shapes = ({"variant": str, "what": str}, {"ready": bool}, {"error": str, "usage": bool})
                message = self._worker.receive(seconds_allowed(self.setting.policy, START), *shapes)
                if "ready" in message:
                    return self._worker
                if "error" in message:
                    raise (UsageError if message["usage"] else Failed)(message["error"])
                progress(self.space.step.name, message["what"])
        except WorkerFailed as failed:
            raise Failed(f"{lab.name} {case.name}: the measuring process {failed}") from None

    def _end_worker(self) -> None:
        if self._worker:
            self._worker.end()
        self._worker = None


def stored_points(store: Store, setting: Setting) -> dict[str, Mapping[str, Any]]:
    """Return the newest stored row of each point of a case on a device, by the name of its variant."""
    rows = store.rows(
        setting.lab.name, case=setting.case.name, device=setting.device.slug, backend=setting.device.backend
    )
    names = (
        "variant",
        "cell_key",
        "env_key",
        "status",
        "reason",
        "samples_s",
        "units",
        "started",
        "device_name",
        "extra",
    )
    columns = [rows[name].tolist() for name in names]
    return {values[0]: dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)}


def seconds_of(stored_row: Mapping[str, Any]) -> float | None:
    """Return the seconds per unit of a row's first sample; None of a failed row."""
    is_timed = stored_row["status"] == "ok" and len(stored_row["samples_s"])
    return float(stored_row["samples_s"][0]) / int(stored_row["units"]) if is_timed else None
