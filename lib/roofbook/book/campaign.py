"""Sweeps on a cluster: a lab's cases are planned from the store, measured by workers one whole case at a time, and told of.

Serves `roofbook run` and `roofbook record`. The store is the truth. A worker keeps a case's rows as soon as the case is done,
under a name that two who measured the same case share, so that the first one counts. So whoever dies, the same command goes on
with what is missing.
"""

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..devices import checkout
from ..errors import UsageError
from ..escaping import printable
from ..measure import cluster, messages
from ..measure.cluster import Answer, Berth, Crew, Job, Order
from ..measure.precompile import SCALES
from ..measure.progress import ProgressLine
from ..measure.schedule import Done
from ..spec import registry
from ..store.files import STORE_PARTS, StorePart
from ..store.identity import cell_key, new_run_id
from ..store.schema import CONTROL
from ..store.storage import storage_of
from ..store.storage_interface import Storage
from ..terminal import say

PATIENCE_S = 15.0
"""For which workers that are slow to say what they have are waited for, once one has."""
TOKENS = "unfinished/sweep-"
"""How the file is named by which a worker sees that it sees the store: where git looks for no change."""
MODULE = "roofbook.book.campaign_worker"


def check_answer(order: Order, answer: Answer) -> None:
    """Check that an answer is one to an order: nothing of it is believed before. Raises BadMessage."""
    if order["do"] in ("measure", "fail"):
        messages.expect(answer, {"kept": list})
        messages.kept_rows(answer["kept"], order["case"], order["variants"])
    else:
        messages.expect(answer, _ANSWERS[order["do"]])


def _line(value: Any) -> bool:
    return messages.has_shape(value, str) and printable(value) == value and len(value.splitlines()) <= 1


def _text(value: Any) -> bool:
    """Whether a value is lines that a terminal shows as they are."""
    return isinstance(value, str) and printable(value) == value


def _by_name(shape: Any) -> Callable[[Any], bool]:
    return lambda value: (
        isinstance(value, dict)
        and all(_line(name) and messages.has_shape(inner, shape) for name, inner in value.items())
    )


def _git(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and {"commit", "change"} <= value.keys())


_CELL = {"case": _line, "scale": _line, "variant": _line, "state": _line, "runs": messages.not_below_zero, "key": _line}
_STAGE = {
    "lab": _line, "policy": _by_name((str, float)), "known": _by_name(int), "seconds": _by_name(messages.not_below_zero),
    "cells": [_CELL],
}  # fmt: skip
_ANSWERS: dict[str, dict[str, Any]] = {
    "who": {
        "host": _line, "spec": _line, "slug": _line, "name": _line, "kind": messages.one_of(["cpu", "gpu"]),
        "card": (_line, None), "env_key": _line, "git": _git,
    },
    "specs": {"specs": [_line]},
    "plan": {"title": _line, "device": _line, "stages": [_STAGE]},
    "compile_ahead": {"compiled": int},
    "tables": {"texts": [_text]},
}  # fmt: skip
"""Shapes of answers, by the order that they answer."""


@dataclass
class ClusterSweep:
    """A cluster that measures into one store."""

    client: Any
    ours: bool
    """The workers are of this process."""
    storage: Storage

    def specs(self) -> list[str]:
        """One device of each kind, of a worker."""
        with self._crew(registry.names()[0], "auto") as crew:
            return list(crew.do({"module": MODULE, "do": "specs"})["specs"])

    def bring_up_to_date(
        self,
        lab: str,
        parameters: Mapping[str, Any],
        *,
        runs: int,
        remeasure: bool,
        where: StorePart = "local",
        parts: Sequence[StorePart] = STORE_PARTS,
        peaks: bool = True,
        sweeps: bool = True,
        host: bool = True,
        limit_s: float = 0,
    ) -> tuple[Done, Berth, list[str]]:
        """Measure what is not fresh of an experiment: what was done, a worker of those that did it, and the tables as text.

        As `Experiment.measure` and `record` do on one device. peaks: those of the lab's page too. limit_s: 0 for the policy's.
        """
        given = {**parameters, "results": self.storage.address}
        with self._crew(lab, str(parameters["device"])) as crew:
            place = next(iter(crew.places.values()))
            common = {
                "module": MODULE,
                "lab": lab,
                "parameters": {**given, "device": place.facts["spec"]},
                "parts": list(parts),
            }
            found = crew.do({
                **common, "do": "plan", "peaks": peaks, "sweeps": sweeps, "host": host, "limit_s": limit_s,
            })  # fmt: skip
            say(f"{found['title']} at scale {given['scale']}: {_of(crew)}")
            total = Tally()
            for stage in found["stages"]:
                _Stage(self, stage, crew, runs, remeasure, where, total).measure()
            texts = crew.do({**common, "do": "tables"})["texts"]
            return total.done(), place, texts

    @contextlib.contextmanager
    def _crew(self, lab: str, device: str) -> Iterator[Crew]:
        """Workers that have the device, all of one model, environment and code."""
        token, line = f"{TOKENS}{secrets.token_hex(6)}", ProgressLine("measuring")
        self.storage.add(token, b"")
        first: list[Answer] = []

        def unfit(answer: Answer) -> str:
            if _code(answer["git"]) != _code(checkout.state()):
                return "its checkout is of another commit, or changed otherwise"
            alike = [*first, answer][0]
            first.append(answer)
            for what in ("name", "env_key"):
                if answer[what] != alike[what]:
                    return f"its {'device' if what == 'name' else 'driver or libraries'} differ from {alike['host']}'s"
            return ""

        who = {
            "module": MODULE,
            "do": "who",
            "lab": lab,
            "device": device,
            "root": self.storage.address,
            "token": token,
        }
        crew = Crew(
            self.client, registry.environment(), who, unfit, lambda what, now: line(f"{what}: {now}"), ours=self.ours,
            check=check_answer,
        )  # fmt: skip
        try:
            crew.gather(PATIENCE_S, lambda: line("no worker is there yet"))
            line.end()
            for why in dict.fromkeys(crew.refused.values()):
                say(f"  left out: {why}", hang=4)
            yield crew
        finally:
            line.end()
            crew.stop()
            self.storage.remove([token])


@contextlib.contextmanager
def opened(address: str | None, workers: int | None, results: str | Path) -> Iterator[ClusterSweep]:
    """A sweep by the cluster at `address`, or by so many workers of our own, into the store at `results`."""
    if address and workers:
        raise UsageError("--cluster names workers that are there, --workers starts some: give one of them")
    with cluster.connected(address, workers) as client:
        if address and cluster.is_open(address):
            say(
                f"Warning: {address} asks for no certificate, so whoever reaches its port runs programs as you on every worker;"
                " the page on clusters says how to use TLS",
                hang=4,
            )
        if cluster.has_dashboard():
            say(f"Dask's dashboard: {client.dashboard_link}")
        yield ClusterSweep(client, address is None, storage_of(results))


@dataclass
class Tally:
    """What became rows so far."""

    measured: int = 0
    failed: int = 0
    fresh: int = 0
    runs: tuple[str, ...] = ()

    def done(self) -> Done:
        return Done(", ".join(self.runs), self.measured, self.fresh, self.failed)


class _Stage:
    """The cases of one lab, in as many runs as are due."""

    def __init__(
        self,
        sweep: ClusterSweep,
        planned: Answer,
        crew: Crew,
        runs: int,
        remeasure: bool,
        where: StorePart,
        total: Tally,
    ) -> None:
        self.sweep, self.planned, self.crew, self.where, self.total = sweep, planned, crew, where, total
        self.cells = planned["cells"]
        self.left = {
            (each["case"], each["variant"]): runs
            if remeasure
            else max(runs - each["runs"], int(each["state"] != "fresh"))
            for each in self.cells
        }
        self.scales = {each["case"]: each["scale"] for each in self.cells}
        self.due = sum(self.left.values())
        total.fresh += sum(not each for each in self.left.values())

    def measure(self) -> None:
        """All cases once before any again, those that took longest first: then none of them is the last to end."""
        took, jobs = self.planned["seconds"], list[Job]()
        for number in range(max(self.left.values(), default=0)):
            run = new_run_id()
            cases = {case for (case, _), left in self.left.items() if left > number}
            for case in sorted(cases, key=lambda case: (-took.get(case, float("inf")), case)):
                jobs.append(self._job(case, number, run))
        self.number, self.finished = len(jobs), 0
        if jobs:
            self.crew.work(jobs, self._compiling)

    def _job(self, case: str, number: int, run: str) -> Job:
        mine = [each for each in self.cells if each["case"] == case]

        def order(place: Berth) -> Order | None:
            due = [each for each in mine if self.left[case, each["variant"]] > number]
            if not due:
                self.finished += 1
                return None
            # Whoever plans the same from the same store has the same name for it.
            known = [sorted(each["key"] for each in due), self.planned["known"].get(case, 0), number]
            return {
                "module": MODULE, "do": "measure", "lab": self.planned["lab"], "case": case, "scale": self.scales[case],
                "device": place.facts["spec"], "env_key": place.facts["env_key"], "policy": self.planned["policy"],
                "variants": [each["variant"] for each in due], "run": run, "where": self.where,
                "root": self.sweep.storage.address, "once": f"case-{cell_key({'case': case, 'known': known})[:24]}",
            }  # fmt: skip

        def killed(died: Sequence[str]) -> Job:
            why = f"it ended {len(died)} workers: {', '.join(died)}"

            def failing(place: Berth) -> Order | None:
                given = order(place)
                return given and {**given, "do": "fail", "reason": why}

            say(f"  {case}: {why}", hang=4)
            return Job(case, failing, done, lambda _: None)

        def done(place: Berth, answer: Answer) -> None:
            kept = [each for each in answer["kept"] if each[2] != CONTROL]
            for _, variant, _, status, _ in kept:
                if status == "failed":
                    self.left[case, variant] = 0
            failed = Counter(each[3] for each in kept)["failed"]
            self.total.measured += len(kept)
            self.total.failed += failed
            self.total.runs = (*dict.fromkeys([*self.total.runs, *(each[4] for each in kept)]),)
            self.finished += 1
            took = time.monotonic() - job.began
            said = f"{len(kept)} measurement{'s' * (len(kept) != 1)}{f', {failed} failed' if failed else ''}"
            say(f"  {case}: {said}, {took:.0f} s on {place} ({self.finished} of {self.number})", hang=4)

        job = Job(case, order, done, killed)
        return job

    def _compiling(self, place: Berth) -> Job | None:
        """On a CPU kernels are compiled ahead, by all processors of a host; a case that runs on a card compiles its own."""
        cells = [
            (each["case"], each["scale"], each["variant"])
            for each in self.cells
            if self.left[each["case"], each["variant"]]
        ]
        if place.facts["kind"] != "cpu" or not cells or cells[0][1] not in SCALES:
            return None
        order = {
            "module": MODULE, "do": "compile_ahead", "lab": self.planned["lab"], "device": place.facts["spec"],
            "cells": cells, "seed": self.planned["policy"]["seed"],
        }  # fmt: skip
        return Job("compiling", lambda _: order, lambda *_: None, lambda _: None)


def _code(git: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return (git["commit"], git["change"]) if git else ()


def _of(crew: Crew) -> str:
    hosts = Counter(place.host for place in crew.places.values())
    name = next(iter(crew.places.values())).facts["name"]
    number = sum(hosts.values())
    return f"{number} worker{'s' * (number != 1)} on {len(hosts)} host{'s' * (len(hosts) != 1)}, {name}"
