"""Campaigns on a cluster: plan a lab's cases from the store, have workers measure them case by case, and report progress.

Serves `roofbook run` and `roofbook record`. A worker stores a case's rows as soon as the case is done, under a name derived
from the plan: if two workers measure the same case, the first one counts. If anything dies, the same command continues with the
missing cases.
"""

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..analysis import format as show
from ..devices import checkout
from ..errors import UsageError
from ..escaping import printable
from ..measure import cluster, messages
from ..measure.cluster import Answer, ClusterWorker, Job, Order, WorkerPool
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
"""Seconds to wait for slow workers to report, once one has reported."""
TOKENS = "unfinished/sweep-"
"""Prefix of the file that shows a worker whether it sees the store; git ignores it."""
MODULE = "roofbook.book.campaign_worker"


def check_answer(order: Order, answer: Answer) -> None:
    """Check that an answer has the shape that its order demands. Raise BadMessage before any part of it is used."""
    if order["do"] in ("measure", "fail"):
        messages.expect(answer, {"kept": messages.stored_rows(order["case"], order["variants"])})
    else:
        messages.expect(answer, _ANSWERS[order["do"]])


def _line(value: Any) -> bool:
    return messages.has_shape(value, str) and printable(value) == value and len(value.splitlines()) <= 1


def _text(value: Any) -> bool:
    """Return whether a value is text that a terminal prints unchanged."""
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
    "worker_facts": {
        "host": _line, "spec": _line, "slug": _line, "name": _line, "kind": messages.one_of(["cpu", "gpu"]),
        "card": (_line, None), "env_key": _line, "git": _git,
    },
    "specs": {"specs": [_line]},
    "plan": {"title": _line, "device": _line, "stages": [_STAGE]},
    "compile_ahead": {"compiled": int},
    "tables": {"texts": [_text]},
}  # fmt: skip
"""Shapes of answers, by the name of the order."""


@dataclass
class Campaign:
    """A cluster whose workers measure into one store."""

    client: Any
    owns_workers: bool
    """Whether this process started the workers."""
    storage: Storage

    def specs(self) -> list[str]:
        """Return one device of each kind that a worker has."""
        with self._crew(registry.names()[0], "auto") as crew:
            return list(crew.run_anywhere({"module": MODULE, "do": "specs"})["specs"])

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
    ) -> tuple[Done, ClusterWorker, list[str]]:
        """Measure an experiment where it is not fresh, as `Experiment.measure` and `record` do on one device.

        Return the counts, one of the workers, and the tables as text. peaks: also measure the peaks for the lab's page.
        limit_s: seconds for one run; 0 for the policy's.
        """
        parameters_with_store = {**parameters, "results": self.storage.address}
        with self._crew(lab, str(parameters["device"])) as crew:
            berth = next(iter(crew.workers.values()))
            common = {
                "module": MODULE,
                "lab": lab,
                "parameters": {**parameters_with_store, "device": berth.facts["spec"]},
                "parts": list(parts),
            }
            planned = crew.run_anywhere({
                **common, "do": "plan", "peaks": peaks, "sweeps": sweeps, "host": host, "limit_s": limit_s,
            })  # fmt: skip
            say(f"{planned['title']} at scale {parameters_with_store['scale']}: {_crew_text(crew)}")
            total = Tally()
            for stage in planned["stages"]:
                _Stage(self, stage, crew, runs, remeasure, where, total).measure()
            texts = crew.run_anywhere({**common, "do": "tables"})["texts"]
            return total.done(), berth, texts

    @contextlib.contextmanager
    def _crew(self, lab: str, device: str) -> Iterator[WorkerPool]:
        """Yield workers that have the device, all of one model, environment and code."""
        token, line = f"{TOKENS}{secrets.token_hex(6)}", ProgressLine("measuring")
        self.storage.add(token, b"")
        accepted: list[Answer] = []

        def misfit(answer: Answer) -> str:
            if _code(answer["git"]) != _code(checkout.state()):
                return "its checkout is of another commit, or changed otherwise"
            reference = [*accepted, answer][0]
            accepted.append(answer)
            for fact in ("name", "env_key"):
                if answer[fact] != reference[fact]:
                    return (
                        f"its {'device' if fact == 'name' else 'driver or libraries'} differ from {reference['host']}'s"
                    )
            return ""

        facts_order = {
            "module": MODULE,
            "do": "worker_facts",
            "lab": lab,
            "device": device,
            "root": self.storage.address,
            "token": token,
        }
        crew = WorkerPool(
            self.client, registry.environment(), facts_order, misfit, lambda job, step: line(f"{job}: {step}"),
            ours=self.owns_workers, check=check_answer,
        )  # fmt: skip
        try:
            crew.wait_for_workers(PATIENCE_S, lambda: line("no worker is there yet"))
            line.end()
            for reason in dict.fromkeys(crew.refused.values()):
                say(f"  left out: {reason}", hang=4)
            yield crew
        finally:
            line.end()
            crew.stop()
            self.storage.remove([token])


@contextlib.contextmanager
def opened(address: str | None, workers: int | None, results: str | Path) -> Iterator[Campaign]:
    """Open a campaign on the cluster at `address`, or with a number of own workers, into the store at `results`."""
    if address and workers:
        raise UsageError("--cluster names running workers, --workers starts some: give one of them")
    with cluster.connected(address, workers) as client:
        if address and cluster.is_open(address):
            say(
                f"Warning: {address} asks for no certificate, so whoever reaches its port runs programs as you on every worker;"
                " the page on clusters says how to use TLS",
                hang=4,
            )
        if cluster.has_dashboard():
            say(f"Dask's dashboard: {client.dashboard_link}")
        yield Campaign(client, address is None, storage_of(results))


@dataclass
class Tally:
    """Counts of rows so far."""

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
        campaign: Campaign,
        planned: Answer,
        crew: WorkerPool,
        runs: int,
        remeasure: bool,
        where: StorePart,
        total: Tally,
    ) -> None:
        self.campaign, self.planned, self.crew, self.where, self.total = campaign, planned, crew, where, total
        self.cells = planned["cells"]
        self.left = {
            (cell["case"], cell["variant"]): runs
            if remeasure
            else max(runs - cell["runs"], int(cell["state"] != "fresh"))
            for cell in self.cells
        }
        self.scales = {cell["case"]: cell["scale"] for cell in self.cells}
        self.due = sum(self.left.values())
        total.fresh += sum(not runs_left for runs_left in self.left.values())

    def measure(self) -> None:
        """Measure all cases once before any is repeated, the slowest first, so that no slow case is the last to end."""
        last_seconds, jobs = self.planned["seconds"], list[Job]()
        for number in range(max(self.left.values(), default=0)):
            run = new_run_id()
            cases = {case for (case, _), left in self.left.items() if left > number}
            for case in sorted(cases, key=lambda case: (-last_seconds.get(case, float("inf")), case)):
                jobs.append(self._job(case, number, run))
        self.number, self.finished = len(jobs), 0
        if jobs:
            self.crew.run_jobs(jobs, self._compiling)

    def _job(self, case: str, number: int, run: str) -> Job:
        own_cells = [cell for cell in self.cells if cell["case"] == case]

        def order(berth: ClusterWorker) -> Order | None:
            due = [cell for cell in own_cells if self.left[case, cell["variant"]] > number]
            if not due:
                self.finished += 1
                return None
            # The same plan from the same store gets the same name.
            state = [sorted(cell["key"] for cell in due), self.planned["known"].get(case, 0), number]
            return {
                "module": MODULE, "do": "measure", "lab": self.planned["lab"], "case": case, "scale": self.scales[case],
                "device": berth.facts["spec"], "env_key": berth.facts["env_key"], "policy": self.planned["policy"],
                "variants": [cell["variant"] for cell in due], "run": run, "where": self.where,
                "root": self.campaign.storage.address, "once": f"case-{cell_key({'case': case, 'known': state})[:24]}",
            }  # fmt: skip

        def on_workers_lost(workers: Sequence[str]) -> Job:
            reason = f"it ended {len(workers)} workers: {', '.join(workers)}"

            def fail_order(berth: ClusterWorker) -> Order | None:
                measure_order = order(berth)
                return measure_order and {**measure_order, "do": "fail", "reason": reason}

            say(f"  {case}: {reason}", hang=4)
            return Job(case, fail_order, on_done, lambda _: None)

        def on_done(berth: ClusterWorker, answer: Answer) -> None:
            measured = [row for row in answer["kept"] if row[2] != CONTROL]
            for _, variant, _, status, _ in measured:
                if status == "failed":
                    self.left[case, variant] = 0
            failed = Counter(row[3] for row in measured)["failed"]
            self.total.measured += len(measured)
            self.total.failed += failed
            self.total.runs = (*dict.fromkeys([*self.total.runs, *(row[4] for row in measured)]),)
            self.finished += 1
            seconds = time.monotonic() - job.began
            counts = show.several(len(measured), "measurement") + (f", {failed} failed" if failed else "")
            say(f"  {case}: {counts}, {seconds:.0f} s on {berth} ({self.finished} of {self.number})", hang=4)

        job = Job(case, order, on_done, on_workers_lost)
        return job

    def _compiling(self, berth: ClusterWorker) -> Job | None:
        """Return the job that compiles kernels ahead on a CPU host, with all cores; None for a GPU: a case compiles its own
        there.
        """
        cells = [
            (cell["case"], cell["scale"], cell["variant"])
            for cell in self.cells
            if self.left[cell["case"], cell["variant"]]
        ]
        if berth.facts["kind"] != "cpu" or not cells or cells[0][1] not in SCALES:
            return None
        order = {
            "module": MODULE, "do": "compile_ahead", "lab": self.planned["lab"], "device": berth.facts["spec"],
            "cells": cells, "seed": self.planned["policy"]["seed"],
        }  # fmt: skip
        return Job("compiling", lambda _: order, lambda *_: None, lambda _: None)


def _code(git: Mapping[str, Any] | None) -> tuple[Any, ...]:
    return (git["commit"], git["change"]) if git else ()


def _crew_text(crew: WorkerPool) -> str:
    hosts = Counter(berth.host for berth in crew.workers.values())
    name = next(iter(crew.workers.values())).facts["name"]
    return f"{show.several(hosts.total(), 'worker')} on {show.several(len(hosts), 'host')}, {name}"
