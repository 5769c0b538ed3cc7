"""Orders for workers of a Dask cluster, one at a time each: a whole case, never a single measurement. Used by campaigns.

A Dask worker starts a process for each order (`run_order`) and touches no device itself. So it may live for days: each order
runs the code of that moment. Dask carries orders and answers, and knows which workers live; the process stores its rows itself.
dask and distributed are imported on first use.
"""

import contextlib
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import own_python
from ..ctrl_c import ctrl_c_waits
from ..errors import Failed, UsageError
from ..escaping import printable
from ..paths import installing, scratch_folder
from . import gpu_claim, host_locks, messages
from .background_group import parent_environment
from .checked_runnable import plain_text
from .progress import Progress
from .worker_process import WorkerFailed, WorkerProcess

if TYPE_CHECKING:
    from distributed import Client, Future

Order = Mapping[str, Any]
"""Task of a process on a worker, as JSON; `module` is the module that runs it."""
Answer = dict[str, Any]

TOPIC = "roofbook"
ANSWER_TIMEOUT_S = 3600.0
"""Seconds in which a process must answer an order, except the kinds of OWN_TIMEOUT."""
OWN_TIMEOUT = ("measure",)
"""Kinds of orders (`do`) whose process limits its own time."""
MOST_ANSWER = 64 << 20
"""Largest number of bytes of an answer."""
POLL_S = 0.5
REPORT_EVERY_S = 1.0
"""Seconds between two progress messages: each wakes two processes, and one may be on the host that is measured."""
MOST_DEATHS = 2
"""Number of workers that may die of an order before it fails."""
LOOPBACK = "127.0.0.1"
"""Interface that other hosts cannot reach."""
CONNECT_TIMEOUT_S = 20.0
"""Seconds within which a scheduler must answer."""
_SILENT = "it is silent"
_RIGHT = (
    "the address must be one that `dask scheduler` prints, such as tcp://HOST:8786, or tls://HOST:8786 with the certificates"
    " that Dask's settings name"
)
WORKERS_TIMEOUT_S = 60.0
"""Seconds without any worker of our own after which we give up."""
QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",  # it samples its threads 100 times a second
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
}


def require_dask() -> None:
    """Raise UsageError if a package is missing, with the command that installs it, or if Dask cannot read its settings."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise UsageError(f"a cluster needs the package {error.name}: {installing('cluster')}") from None
    except Exception as error:  # Dask reads the user's files at import
        raise UsageError(
            f"Dask cannot read its settings: {_in_one_line(error)}; they are in ~/.config/dask, in /etc/dask, and where"
            " DASK_CONFIG says: mend or remove that file"
        ) from None


# -- on a worker -------------------------------------------------------------------------------------------------------


def run_order(order: Order, environment: Mapping[str, str]) -> Answer:
    """Start the process of an order, pass on its progress, and return its answer.

    Dask runs this on a worker. An answer may be an error: the keys `error`, and `usage`, whether the user caused it.
    """
    from distributed import get_worker

    folder = host_locks.host_folder()
    gpu_claim.claim(folder)
    temporary = get_worker().local_directory  # files of a killed process vanish with its worker
    environment = {**environment, host_locks.VARIABLE: str(folder), "TMPDIR": temporary}
    limit_s = None if order["do"] in OWN_TIMEOUT else ANSWER_TIMEOUT_S
    last = 0.0
    with contextlib.ExitStack() as resources, contextlib.ExitStack() as start_lock:
        start_lock.enter_context(host_locks.HostLocks(folder).working())  # starting uses a processor
        command = [sys.executable, "-m", order["module"]]
        worker = WorkerProcess(command, environment=environment, line_bytes=MOST_ANSWER)
        resources.callback(worker.end)
        worker.tell(order)
        try:
            while "what" in (message := worker.receive(limit_s)):
                start_lock.close()
                if time.monotonic() - last > REPORT_EVERY_S:
                    last = time.monotonic()
                    _report(messages.expect(message, {"variant": str, "what": str}))
            return message
        except (WorkerFailed, messages.BadMessage) as failed:
            return {"error": f"the process {failed}", "usage": False}


def _report(message: Answer) -> None:
    from distributed import get_worker

    get_worker().log_event(TOPIC, message)


# -- for campaigns -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(address: str | None, workers: int | None) -> Iterator["Client"]:
    """Yield a client of the scheduler at `address`; if None, of a scheduler and workers on this host, which end with the block.

    Dask runs any code that is sent to it, so our own scheduler and workers listen on the loopback interface alone.
    Errors: UsageError for a missing package, or if no scheduler answers at the address within CONNECT_TIMEOUT_S.
    """
    require_dask()
    import dask
    from distributed import Client, LocalCluster

    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    dask.config.refresh()
    with contextlib.ExitStack() as resources:
        if address is None:
            scratch = resources.enter_context(scratch_folder())
            resources.enter_context(dask.config.set({"temporary-directory": str(scratch)}))
            cluster = resources.enter_context(
                LocalCluster(
                    n_workers=0, processes=True, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0", silence_logs=50
                )
            )
            address = cluster.scheduler_address
            resources.enter_context(_own_workers(address, workers or 1, scratch))
        elif reason := _no_scheduler(address):
            raise UsageError(f"no Dask scheduler answers at {address!r}: {reason}; {_RIGHT}")
        try:
            client = resources.enter_context(Client(address, timeout=CONNECT_TIMEOUT_S))
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise UsageError(f"no Dask scheduler answers at {address!r}: {_in_one_line(error)}; {_RIGHT}") from None
        yield client


def _no_scheduler(address: str) -> str:
    """Return why no scheduler can be reached at an address; '' if it answers.

    A thread of its own asks. It is left behind if the look-up of the name or the server never ends.
    """
    outcome: list[str] = []

    def ask() -> None:
        import asyncio

        try:
            kind = asyncio.run(asyncio.wait_for(_identity(address), CONNECT_TIMEOUT_S / 2))
            outcome.append("" if kind == "Scheduler" else f"it is the address of a {kind or 'program without a name'}")
        except TimeoutError:
            outcome.append(_SILENT)
        except Exception as error:  # a stranger's answer can break any reader
            outcome.append(_in_one_line(error))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(CONNECT_TIMEOUT_S)
    return outcome[0] if outcome else _SILENT


async def _identity(address: str) -> str:
    """Return the kind of Dask's server at an address, such as `Scheduler`."""
    from distributed.core import rpc
    from distributed.security import Security

    connection = Security().get_connection_args("client")
    async with rpc(address, connection_args=connection, timeout=CONNECT_TIMEOUT_S / 2) as server:
        identity = await server.identity()
    return str(identity.get("type", ""))[:40]


def _in_one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()) or type(error).__name__)[:160]


def is_open(address: str) -> bool:
    """Return whether anybody who reaches a scheduler at this address may send it code: all protocols but TLS."""
    return address.partition("://")[0] not in ("tls", "wss", "inproc")


def has_dashboard() -> bool:
    """Return whether Dask can serve its dashboard, which needs another package."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


@contextlib.contextmanager
def _own_workers(address: str, number: int, scratch: Path) -> Iterator[None]:
    """Run workers with one thread each in this block, with their files in `scratch`. `dask worker` restarts one that dies."""
    import psutil

    command = [sys.executable, "-m", "roofbook.measure.cluster_worker", address, "--nworkers", "1", "--nthreads", "1"]
    command += ["--host", LOOPBACK, "--dashboard-address", f"{LOOPBACK}:0"]
    command += ["--memory-limit", "0", "--no-dashboard", "--death-timeout", "60", "--local-directory", str(scratch)]
    null, environment = subprocess.DEVNULL, {**own_python.environment(), **parent_environment()}
    started: list[subprocess.Popen[bytes]] = []
    try:
        with ctrl_c_waits():
            started.extend(
                subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True, env=environment)
                for _ in range(number)
            )
        yield
    finally:
        with ctrl_c_waits():
            family = [psutil.Process(process.pid) for process in started]
            for relative in [*family, *(child for parent in family for child in parent.children(recursive=True))]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    relative.kill()  # they have nothing to clean up
            for process in started:
                process.wait()


@dataclass
class ClusterWorker:
    """Worker that can take orders, with the facts of its device."""

    address: str
    host: str
    facts: Answer

    def __str__(self) -> str:
        card = self.facts.get("card")
        return f"{self.host}, card {card}" if card else self.host


@dataclass(eq=False)
class Job:
    """Order for a worker, with the handler of its answer, and the workers that died of it."""

    name: str
    order: Callable[[ClusterWorker], Order | None]
    """Return the order for a worker; None if nothing is left to do."""
    done: Callable[[ClusterWorker, Answer], None]
    replacement: Callable[[Sequence[str]], "Job | None"]
    """Return the job to do instead once MOST_DEATHS workers died of it, given their names."""
    host: str | None = None
    """Host on which it must run; None for any."""
    dead_workers: list[str] = field(default_factory=list)
    began: float = 0.0
    order_sent: Order = field(default_factory=dict)
    """Order that was sent last."""


class WorkerPool:
    """Workers of a client's cluster, which may come and go."""

    def __init__(
        self,
        client: "Client",
        environment: Mapping[str, str],
        query: Order,
        reason_unfit: Callable[[Answer], str],
        progress: Progress,
        *,
        ours: bool,
        check: Callable[[Order, Answer], Any] = lambda order, answer: None,
    ) -> None:
        """environment: added to that of a worker for its processes. query: order that returns a worker's `host` and device.
        reason_unfit: maps its answer to the reason why the worker cannot take part; '' if it can. ours: whether this process
        started the workers. check: raises BadMessage for an invalid answer; a worker that gives one is dropped.
        """
        self.client, self.environment, self.ours = client, dict(environment), ours
        self._query, self._reason_unfit, self._check = query, reason_unfit, check
        self._progress = progress
        self.workers: dict[str, ClusterWorker] = {}
        self.refused: dict[str, str] = {}
        """Reasons why workers cannot take these orders, by address."""
        self._queried: dict[Future[Answer], str] = {}
        self._running: dict[Future[Answer], tuple[ClusterWorker, Job]] = {}
        client.subscribe_topic(TOPIC, self._report_event)

    def _report_event(self, event: Any) -> None:
        """Pass on a worker's progress. Anybody who reaches the scheduler can send events, so others are ignored."""
        if isinstance(event, tuple | list) and len(event) == 2:
            message = event[1]
            if messages.has_shape(message, {"variant": str, "what": str}):
                self._progress(plain_text(message["variant"]), plain_text(message["what"]))

    def alive(self) -> Collection[str]:
        """Return the addresses of the scheduler's present workers. Raises Failed if the scheduler is gone."""
        from distributed import CancelledError

        try:
            return set(self.client.nthreads())
        except (OSError, TimeoutError, RuntimeError, CancelledError):
            advice = "the Dask scheduler is gone; what was measured is in the store, and the same command continues from there"
            raise Failed(advice) from None

    def submit(self, address: str, order: Order) -> "Future[Answer]":
        """Send an order to a worker."""
        return self.client.submit(
            run_order,
            order,
            self.environment,
            workers=[address],
            pure=False,
            retries=0,
            key=f"{order['do']}-{time.time_ns()}",
        )

    def ask_new_workers(self) -> list[ClusterWorker]:
        """Query new workers without waiting, and return those that have answered since the last call."""
        alive = self.alive()
        for address in self.workers.keys() - alive:
            del self.workers[address]
        known_addresses = {*self.workers, *self.refused, *self._queried.values()}
        self._queried |= {self.submit(new, self._query): new for new in alive if new not in known_addresses}
        new_workers = []
        for future in [pending for pending in self._queried if pending.done() or self._queried[pending] not in alive]:
            address = self._queried.pop(future)
            answer = _answer(future) if future.done() else None
            if answer is None:
                future.cancel()
                continue
            try:
                self._check_answer(self._query, answer)
            except messages.BadMessage as bad:
                self.refused[address] = f"{address}: it gave no answer: {bad}"
                continue
            if reason := answer.get("error") or self._reason_unfit(answer):
                self.refused[address] = plain_text(f"{answer.get('host', address)}: {reason}")
            else:
                self.workers[address] = ClusterWorker(address, answer["host"], answer)
                new_workers.append(self.workers[address])
        return new_workers

    def wait_for_workers(self, patience: float, report_waiting: Callable[[], object]) -> None:
        """Wait until all present workers have answered, and at least one can take orders.

        patience: seconds to wait for slow workers. report_waiting: called while there is no worker. Raises UsageError if no
        worker can take orders.
        """
        began = time.monotonic()
        while not self.workers or (self._queried and time.monotonic() - began < patience):
            self.ask_new_workers()
            if not self.workers and self.refused and not self._queried:
                raise UsageError("; ".join(dict.fromkeys(self.refused.values())))
            if not self.workers and not self._queried:
                self._check_patience(began)
                report_waiting()
            time.sleep(POLL_S / 5)

    def _check_patience(self, since: float) -> None:
        if self.ours and time.monotonic() - since > WORKERS_TIMEOUT_S:
            reasons = "".join(f" ({reason})" for reason in dict.fromkeys(self.refused.values()))
            raise Failed(f"no worker is left{reasons}; the same command continues from what is in the store")

    def run_anywhere(self, order: Order) -> Answer:
        """Return any worker's answer to an order; another worker gets it if one dies. Errors: those of the order."""
        answers: list[Answer] = []
        self.run_jobs([Job(order["do"], lambda _: order, lambda _, answer: answers.append(answer), _fail_dead_workers)])
        return answers[0]

    def run_jobs(
        self, jobs: Sequence[Job], first_job_on: Callable[[ClusterWorker], Job | None] = lambda worker: None
    ) -> None:
        """Run jobs, in their order as far as workers allow.

        first_job_on: returns the job that a host does first, given one of its workers. A job whose worker dies goes to another
        worker; once MOST_DEATHS workers died of it, its `replacement` runs instead.
        """
        from distributed import CancelledError, wait

        left, last_work, ready = list(jobs), time.monotonic(), set[str]()
        while left or self._running:
            self._requeue_lost(left)
            self.ask_new_workers()
            for worker in self.workers.values():
                if worker.host not in ready and (job := first_job_on(worker)):
                    job.host = worker.host
                    left.insert(0, job)
                ready.add(worker.host)
            self._assign(left)
            if self._running:
                last_work = time.monotonic()
                with contextlib.suppress(TimeoutError, CancelledError):  # workers or the scheduler died
                    wait(list(self._running), timeout=POLL_S, return_when="FIRST_COMPLETED")
                self._collect(left)
            elif left:
                self._check_patience(last_work)
                time.sleep(POLL_S)

    def stop(self) -> None:
        """Cancel all orders. A worker finishes the order that it is running."""
        for future in (*self._running, *self._queried):
            with contextlib.suppress(Exception):
                future.cancel()

    def _assign(self, left: list[Job]) -> None:
        """Give a job to each idle worker. Workers of a host wait while it runs a job that only it may do."""
        busy = {worker.address for worker, _ in self._running.values()}
        for worker in [w for w in self.workers.values() if w.address not in busy]:
            if any(job.host == worker.host for _, job in self._running.values()):
                continue
            for job in [waiting for waiting in left if waiting.host in (None, worker.host)]:
                left.remove(job)
                order = job.order(worker)
                if order is not None:
                    job.began, job.order_sent = time.monotonic(), order
                    self._running[self.submit(worker.address, order)] = worker, job
                    break
        hosts = {worker.host for worker in self.workers.values()}
        left[:] = [job for job in left if job.host is None or job.host in hosts]

    def _collect(self, left: list[Job]) -> None:
        for future in [running for running in self._running if running.done()]:
            worker, job = self._running[future]
            answer = _answer(future)
            if answer is None:
                continue  # its worker died: `_requeue_lost` handles it
            del self._running[future]
            try:
                self._check_answer(job.order_sent, answer)
            except messages.BadMessage as bad:
                self.refused[worker.address] = f"{worker}: it gave no answer: {bad}"
                self._drop_worker(worker, job, left)
                continue
            if "error" in answer:
                error = plain_text(f"{job.name} on {worker}: {answer['error']}")
                raise (UsageError if answer["usage"] else Failed)(error)
            job.done(worker, answer)

    def _check_answer(self, order: Order, answer: Any) -> None:
        """Raise BadMessage unless an answer is an error or passes `check`."""
        if not isinstance(answer, dict):
            raise messages.BadMessage(f"a {type(answer).__name__}")
        if "error" in answer:
            messages.expect(answer, {"error": str, "usage": bool}, {"error": str, "usage": bool, "host": str})
        else:
            self._check(order, answer)

    def _requeue_lost(self, left: list[Job]) -> None:
        """Put jobs of workers that died back, before all others."""
        alive = self.alive()
        for future, (worker, job) in list(self._running.items()):
            lost = future.done() and _answer(future) is None
            if worker.address in alive and not lost:
                continue
            del self._running[future]
            future.cancel()
            self._drop_worker(worker, job, left)

    def _drop_worker(self, worker: ClusterWorker, job: Job, left: list[Job]) -> None:
        """Drop a worker, and put its job, or the job's replacement, back."""
        self.workers.pop(worker.address, None)
        job.dead_workers.append(str(worker))
        replacement = job if len(job.dead_workers) < MOST_DEATHS else job.replacement(job.dead_workers)
        if replacement:
            left.insert(0, replacement)


def _fail_dead_workers(dead_workers: Sequence[str]) -> Job | None:
    raise Failed(f"each of {len(dead_workers)} workers died of it: {', '.join(dead_workers)}")


def _answer(future: "Future[Answer]") -> Answer | None:
    """Return a future's answer; None if its worker died. An error of Dask's own, such as a missing package, is an answer."""
    from distributed import CancelledError, KilledWorker

    try:
        answer: Answer = future.result(timeout=10)
        return answer
    except (KilledWorker, CancelledError):
        return None
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", "usage": False}
