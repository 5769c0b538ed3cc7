"""Samples of an interrupted case, kept until the case is measured again, which continues with them.

They are in one JSON file per case under results/unfinished, not in the store: a measurement becomes a row when all its samples
are taken. Samples are used only if their keys show that code and machine are the same.
"""

import contextlib
import json
import math
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from ..escaping import file_name
from ..paths import write_whole
from ..store.schema import SLUG
from .measurement import Measurement, Samples


def checkpoint_key(cell_key: str, env_key: str, role: str) -> str:
    """Return the key of a measurement's samples in a checkpoint."""
    return f"{cell_key} {env_key} {role}"


def is_sound(samples: Any, like: Samples) -> bool:
    """Return whether a measurement can continue with these samples: the file may be of an older version, or edited."""
    try:
        times = [samples["samples"], samples["walls"], *samples["parts"].values()]
        clocks = [(read["clock_mhz"], read["temperature_c"]) for read in samples["clocks"]]
        return bool(
            samples.keys() == like.keys()
            and {len(numbers) for numbers in (*times, samples["rounds"])} == {len(clocks)}
            and all(
                math.isfinite(number) and number >= 0
                for numbers in (*times, [samples["emptying"]])
                for number in numbers
            )
            and all(number > 0 for number in (*samples["samples"], *samples["walls"]))
            and all(type(number) is int and number >= 0 for number in (*samples["rounds"], *samples["poisoned"]))
            and all(number < len(clocks) for number in samples["poisoned"])
            and all(number is None or math.isfinite(number) for read in clocks for number in read)
            and all(isinstance(reason, str) for read in samples["clocks"] for reason in read["throttle"])
            and SLUG.fullmatch(samples["run"])
            and datetime.fromisoformat(samples["started"]).tzinfo
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return False


class Checkpoint:
    """Samples of a case that are no rows yet, so that an interrupted case continues where it was, in the run that it began.

    finished: for each run, the keys of the measurements that are rows of it already, with their last round.
    """

    EVERY_S = 30
    """Seconds between two writes: samples of at most that time are lost if the process is killed."""

    def __init__(self, path: Path | None = None, *, resume: bool = True) -> None:
        """path: the file; None for a checkpoint that keeps nothing. resume: whether samples of the file are used."""
        self.path, self.may_resume, self.last = path, resume, time.perf_counter()
        self.finished: Mapping[str, Mapping[str, int]] = {}
        self.run = ""
        self.measurements: Mapping[str, Measurement] = {}
        self.samples: dict[str, Samples] = {}
        if path:
            with contextlib.suppress(
                OSError, ValueError, TypeError, RecursionError
            ):  # no samples, or an unreadable file
                self.samples = dict(json.loads(path.read_text()))

    @classmethod
    def of_case(cls, folder: Path, lab: str, case: str, *, resume: bool = True) -> "Checkpoint":
        return cls(folder / f"{lab}.{file_name(case)}.json", resume=resume)

    def runs(self) -> set[str]:
        """Return the runs to which the samples belong."""
        return {
            str(samples["run"]) for samples in self.samples.values() if isinstance(samples, dict) and "run" in samples
        }

    def resume(self, measurements: Mapping[str, Measurement], run: str) -> None:
        """Give measurements, by their keys, the samples of the latest interrupted run, and set `self.run` to that run.

        Without such samples, `self.run` becomes `run`.
        """
        self.measurements, self.last = measurements, time.perf_counter()
        resumable = {
            key: samples
            for key, samples in self.samples.items()
            if self.may_resume and key in measurements and is_sound(samples, measurements[key].samples_so_far(run))
        }
        self.run = max((samples["run"] for samples in resumable.values()), default=run)
        for key, samples in resumable.items():
            if samples["run"] == self.run:
                measurements[key].resume(samples)

    def due(self) -> list[Measurement]:
        """Return the measurements that are no rows of the run yet, in their order."""
        rows = self.finished.get(self.run, {})
        for key, measurement in self.measurements.items():
            measurement.is_complete = (
                measurement.is_complete or key in rows
            )  # a process was killed between storing rows and dropping samples: drop them now
        return [m for key, m in self.measurements.items() if key not in rows]

    def first_round(self, group: Sequence[Measurement]) -> int:
        """Return the first round of a group: after all rounds of other measurements, since only a group shares rounds."""
        other_measurements = (m for m in self.measurements.values() if not any(m is member for member in group))
        rows = self.finished.get(self.run, {}).values()
        return 1 + max((*rows, *(number for m in other_measurements for number in m.rounds)), default=-1)

    def save_if_due(self) -> None:
        if time.perf_counter() - self.last > self.EVERY_S:
            self.save()

    def save(self, *, are_rows: bool = False) -> None:
        """Write the samples of incomplete measurements. are_rows: whether complete measurements are stored by now."""
        self.last = time.perf_counter()
        done = {key for key, m in self.measurements.items() if m.reason or (m.is_complete and are_rows)}
        done |= {key for key in self._of_this_run() if not self.measurements[key].clocks}  # it was reset
        left = {key: m for key, m in self.measurements.items() if key not in done and m.clocks}
        self.write({key: m.samples_so_far(self.run) for key, m in left.items()}, done)

    def _of_this_run(self) -> set[str]:
        """Return the keys of measurements with kept samples of this run."""
        samples_by_key = {
            key: samples
            for key, samples in self.samples.items()
            if isinstance(samples, dict) and key in self.measurements
        }
        return {key for key, samples in samples_by_key.items() if samples.get("run") == self.run}

    def write(self, new_samples: Mapping[str, Samples], done: Collection[str]) -> None:
        """Write the file with `new_samples` added and those of the keys `done` dropped; remove it if none are left."""
        self.samples = {key: samples for key, samples in {**self.samples, **new_samples}.items() if key not in done}
        if self.path is None:
            return
        if self.samples:
            write_whole(self.path, json.dumps(self.samples, default=float), durable=True)
        else:
            self.path.unlink(missing_ok=True)
