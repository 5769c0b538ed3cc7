"""Samples of a case that was interrupted, kept until the same cells are measured again, which then goes on with them.

One JSON file a case under results/unfinished. They are no rows of the store: a measurement becomes one when its samples are
all taken. Samples are found again only by the keys that say that code and machine are the same.
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


def key_of(cell_key: str, env_key: str, role: str) -> str:
    """What a measurement is found again by."""
    return f"{cell_key} {env_key} {role}"


def is_sound(taken: Any, like: Samples) -> bool:
    """Whether a measurement can go on with these samples: a file may be of an older version, or edited."""
    try:
        times = [taken["samples"], taken["walls"], *taken["parts"].values()]
        clocks = [(read["clock_mhz"], read["temperature_c"]) for read in taken["clocks"]]
        return bool(
            taken.keys() == like.keys()
            and {len(each) for each in (*times, taken["rounds"])} == {len(clocks)}
            and all(math.isfinite(number) and number >= 0 for each in (*times, [taken["emptying"]]) for number in each)
            and all(number > 0 for number in (*taken["samples"], *taken["walls"]))
            and all(type(number) is int and number >= 0 for number in (*taken["rounds"], *taken["poisoned"]))
            and all(number < len(clocks) for number in taken["poisoned"])
            and all(number is None or math.isfinite(number) for read in clocks for number in read)
            and all(isinstance(reason, str) for read in taken["clocks"] for reason in read["throttle"])
            and SLUG.fullmatch(taken["run"])
            and datetime.fromisoformat(taken["started"]).tzinfo
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
        return False


class Checkpoint:
    """Keeps samples until they are rows, so that an interrupted case goes on where it was, in the run that it began in.

    finished: by each run, the keys of those measurements that are rows of it already, each with its last round. go_on: what
    the file has counts.
    """

    EVERY_S = 30
    """Seconds of samples that are lost at most where nothing tells the process that it ends."""

    def __init__(self, path: Path | None = None, *, go_on: bool = True) -> None:
        """By the file `path`, or keeping nothing without one."""
        self.path, self.go_on, self.last = path, go_on, time.perf_counter()
        self.finished: Mapping[str, Mapping[str, int]] = {}
        self.run = ""
        self.measurements: Mapping[str, Measurement] = {}
        self.samples: dict[str, Samples] = {}
        if path:
            with contextlib.suppress(
                OSError, ValueError, TypeError, RecursionError
            ):  # there are none, or none that could be read
                self.samples = dict(json.loads(path.read_text()))

    @classmethod
    def of_case(cls, folder: Path, lab: str, case: str, *, go_on: bool = True) -> "Checkpoint":
        return cls(folder / f"{lab}.{file_name(case)}.json", go_on=go_on)

    def runs(self) -> set[str]:
        """Those that the samples are of."""
        return {str(taken["run"]) for taken in self.samples.values() if isinstance(taken, dict) and "run" in taken}

    def resume(self, measurements: Mapping[str, Measurement], run: str) -> None:
        """Give measurements, by their keys, what was taken of them. `self.run`: that of these samples, `run` without any."""
        self.measurements, self.last = measurements, time.perf_counter()
        begun = {
            key: taken
            for key, taken in self.samples.items()
            if self.go_on and key in measurements and is_sound(taken, measurements[key].taken(run))
        }
        self.run = max((taken["run"] for taken in begun.values()), default=run)
        for key, taken in begun.items():
            if taken["run"] == self.run:
                measurements[key].go_on(taken)

    def due(self) -> list[Measurement]:
        """Those of the measurements that are no rows of the run yet, in their order."""
        rows = self.finished.get(self.run, {})
        for key, it in self.measurements.items():
            it.whole = it.whole or key in rows  # one that was killed before its samples were dropped drops them now
        return [it for key, it in self.measurements.items() if key not in rows]

    def first_round(self, group: Sequence[Measurement]) -> int:
        """After all that others of the run have had: samples that are not taken side by side share no round."""
        others = (it for it in self.measurements.values() if not any(it is each for each in group))
        rows = self.finished.get(self.run, {}).values()
        return 1 + max((*rows, *(number for it in others for number in it.rounds)), default=-1)

    def now_and_then(self) -> None:
        if time.perf_counter() - self.last > self.EVERY_S:
            self.save()

    def save(self, *, are_rows: bool = False) -> None:
        """are_rows: of measurements that are whole or failed there are rows by now."""
        self.last = time.perf_counter()
        done = {key for key, it in self.measurements.items() if it.reason or (it.whole and are_rows)}
        done |= {key for key in self._of_this_run() if not self.measurements[key].clocks}  # it starts over
        left = {key: it for key, it in self.measurements.items() if key not in done and it.clocks}
        self.keep({key: it.taken(self.run) for key, it in left.items()}, done)

    def _of_this_run(self) -> set[str]:
        """Keys of measurements of which samples of this run are kept."""
        kept = {
            key: taken for key, taken in self.samples.items() if isinstance(taken, dict) and key in self.measurements
        }
        return {key for key, taken in kept.items() if taken.get("run") == self.run}

    def keep(self, begun: Mapping[str, Samples], done: Collection[str]) -> None:
        """Keep the samples `begun` and drop those of the keys `done`. No file is left of nothing."""
        self.samples = {key: taken for key, taken in {**self.samples, **begun}.items() if key not in done}
        if self.path is None:
            return
        if self.samples:
            write_whole(self.path, json.dumps(self.samples, default=float), durable=True)
        else:
            self.path.unlink(missing_ok=True)
