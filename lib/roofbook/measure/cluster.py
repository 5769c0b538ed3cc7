"""Workers of a Dask cluster that take orders, one at a time each: a whole case, never a single measurement. Serves sweeps.

A worker of Dask starts a process for each order, `asked`, and touches no device itself. So it may live for days: each order
meets the code as it is then. Dask carries orders and answers, and says who lives; rows go from the process to the store.
dask and distributed are imported on first use.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import own_python
from ..errors import Failed, UsageError, ctrl_c_waits
from ..escaping import printable
from ..paths import scratch_folder
from ..process_tree import BadLine, Lines, ProcessTree, how_ended
from . import gpu_claim, host_locks, messages
from .background_group import parent_environment
from .checked_runnable import plain_text
from .progress import Progress

if TYPE_CHECKING:
    from distributed import Client, Future

Order = Mapping[str, Any]
"""What a process on a worker is to do: JSON, `module` names the module that does it."""
Answer = dict[str, Any]

TOPIC = "roofbook"
SILENT_S = 3600.0
"""Seconds in which a process answers an order..."""
WATCHED = ("measure",)
"""...but for those that watch over what they do themselves."""
MOST_ANSWER = 64 << 20
"""Bytes of an answer."""
POLL_S = 0.5
TELL_EVERY_S = 1.0
"""An order's progress is sent no more often: a message wakes two processes, and one may be on the host that is measured."""
DEATHS = 2
"""Workers that an order may end before it counts as failed."""
LOOPBACK = "127.0.0.1"
"""The interface that other hosts do not reach."""
ANSWERS_S = 20.0
"""Seconds within which a scheduler answers, or is none."""
_SILENT = "it is silent"
_RIGHT = (
    "the address must be one that `dask scheduler` prints, such as tcp://HOST:8786, or tls://HOST:8786 with the certificates"
    " that Dask's settings name"
)
GONE_S = 60.0
"""Seconds after which workers that we started ourselves do not come back."""
QUIET = {
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",  # it looks at its threads 100 times a second, beside our samples
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error",
}


def need() -> None:
    """Raise UsageError where a package is missing, with the command that brings it, and where Dask takes no settings."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise UsageError(f"a cluster needs the package {error.name}: `make book WITH=cluster` installs it") from None
    except Exception as error:  # it reads the user's files when it is imported
        raise UsageError(
            f"Dask cannot read its settings: {_in_one_line(error)}; they are in ~/.config/dask, in /etc/dask, and where"
            " DASK_CONFIG says: mend or remove that file"
        ) from None


# -- on a worker -------------------------------------------------------------------------------------------------------


def asked(order: Order, environment: Mapping[str, str]) -> Answer:
    """Start the process that does an order, pass on what it says of its progress, and return its answer.

    Dask runs this on a worker. An answer may be an error: `error`, and whether it is the user's, `usage`.
    """
    from distributed import get_worker

    folder = host_locks.host_folder()
    gpu_claim.claim(folder)
    temporary = get_worker().local_directory  # so that what a process leaves that is killed goes with its worker
    environment = {
        **own_python.environment(),
        **parent_environment(),
        **environment,
        host_locks.VARIABLE: str(folder),
        "TMPDIR": temporary,
    }
    last = 0.0
    with contextlib.ExitStack() as starting, tempfile.TemporaryFile() as complaints:
        starting.enter_context(host_locks.HostLocks(folder).working())  # to start takes a processor
        tree = ProcessTree(
            [sys.executable, "-m", order["module"]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=environment,
        )  # fmt: skip
        process = tree.process
        assert process.stdin and process.stdout
        why = ""
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            lines = Lines(process.stdout)
            lines.MOST_BYTES = MOST_ANSWER
            while line := lines.next(None if order["do"] in WATCHED else SILENT_S):
                said = messages.parse(line)
                if "what" not in said:
                    return said
                said = messages.expect(said, {"variant": str, "what": str})
                starting.close()
                if time.monotonic() - last > TELL_EVERY_S:
                    last = time.monotonic()
                    _tell(said)
            why = how_ended(process.wait())
        except BrokenPipeError:
            why = how_ended(tree.end())
        except TimeoutError:
            why = f"did not answer for {SILENT_S:.0f} s"
        except (messages.BadMessage, BadLine) as bad:
            why = f"said what is no message: {bad}"
        finally:
            tree.end()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        complaints.seek(0)
        words = [line for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
        last_words = plain_text(words[-1]) if words else "without a word"
        return {"error": f"the process {why}: {last_words}", "usage": False}


def _tell(said: Answer) -> None:
    from distributed import get_worker

    get_worker().log_event(TOPIC, said)


# -- for whoever sweeps ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def connected(address: str | None, workers: int | None) -> Iterator["Client"]:
    """A client of the scheduler at `address`, or of one of our own with so many workers on this host, which end with the block.

    Dask runs whatever anybody sends to it, so all that we start ourselves listens on the loopback interface alone.
    Errors: UsageError for a missing package, or an address where no scheduler answers within ANSWERS_S.
    """
    need()
    import dask
    from distributed import Client, LocalCluster

    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    dask.config.refresh()
    with contextlib.ExitStack() as until:
        if address is None:
            scratch = until.enter_context(scratch_folder())
            until.enter_context(dask.config.set({"temporary-directory": str(scratch)}))
            cluster = until.enter_context(
                LocalCluster(
                    n_workers=0, processes=True, host=LOOPBACK, dashboard_address=f"{LOOPBACK}:0", silence_logs=50
                )
            )
            address = cluster.scheduler_address
            until.enter_context(_own_workers(address, workers or 1, scratch))
        elif why := _no_scheduler(address):
            raise UsageError(f"no Dask scheduler answers at {address!r}: {why}; {_RIGHT}")
        try:
            client = until.enter_context(Client(address, timeout=ANSWERS_S))
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise UsageError(f"no Dask scheduler answers at {address!r}: {_in_one_line(error)}; {_RIGHT}") from None
        yield client


def _no_scheduler(address: str) -> str:
    """Return why the scheduler at an address cannot be had; '' if it answers.

    A thread of its own asks, and is left behind where the look-up of a name, or whoever listens there, comes to no end.
    """
    said: list[str] = []

    def ask() -> None:
        import asyncio

        try:
            kind = asyncio.run(asyncio.wait_for(_identity(address), ANSWERS_S / 2))
            said.append("" if kind == "Scheduler" else f"it is the address of a {kind or 'program without a name'}")
        except TimeoutError:
            said.append(_SILENT)
        except Exception as error:  # what a stranger answers can break whatever reads it
            said.append(_in_one_line(error))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(ANSWERS_S)
    return said[0] if said else _SILENT


async def _identity(address: str) -> str:
    """Return the kind of Dask's server at an address, such as `Scheduler`."""
    from distributed.core import rpc
    from distributed.security import Security

    connection = Security().get_connection_args("client")
    async with rpc(address, connection_args=connection, timeout=ANSWERS_S / 2) as server:
        identity = await server.identity()
    return str(identity.get("type", ""))[:40]


def _in_one_line(error: BaseException) -> str:
    return printable(" ".join(str(error).split()) or type(error).__name__)[:160]


def is_open(address: str) -> bool:
    """Whether anybody who reaches a scheduler at this address may give it orders: all but TLS by certificates."""
    return address.partition("://")[0] not in ("tls", "wss", "inproc")


def has_dashboard() -> bool:
    """Whether Dask can draw its own page of what its workers do: it needs a package for that."""
    from importlib.util import find_spec

    return find_spec("bokeh") is not None


@contextlib.contextmanager
def _own_workers(address: str, number: int, scratch: Path) -> Iterator[None]:
    """Workers with one thread each, as `dask worker` starts them; one that dies comes again. They keep all in `scratch`."""
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
            for each in [*family, *(child for parent in family for child in parent.children(recursive=True))]:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()  # there is nothing to tidy up
            for process in started:
                process.wait()


@dataclass
class Berth:
    """A worker that can take orders, with what it said of its device."""

    address: str
    host: str
    facts: Answer

    def __str__(self) -> str:
        card = self.facts.get("card")
        return f"{self.host}, card {card}" if card else self.host


@dataclass(eq=False)
class Job:
    """An order, what is done with its answer, and the workers that died of it."""

    name: str
    order: Callable[[Berth], Order | None]
    """None: there is nothing left to do."""
    done: Callable[[Berth, Answer], None]
    killed: Callable[[Sequence[str]], "Job | None"]
    """What is to be done in its place where it ended DEATHS workers, given who they were."""
    host: str | None = None
    """The one host where it is to be done; None for any."""
    died: list[str] = field(default_factory=list)
    began: float = 0.0
    given: Order = field(default_factory=dict)
    """The order that was handed out last."""


class Crew:
    """The workers of a client's cluster, as they come and go."""

    def __init__(
        self,
        client: "Client",
        environment: Mapping[str, str],
        who: Order,
        unfit: Callable[[Answer], str],
        progress: Progress,
        *,
        ours: bool,
        check: Callable[[Order, Answer], Any] = lambda order, answer: None,
    ) -> None:
        """environment: what processes on workers need beside their worker's own. who: asks a worker for its `host` and its
        device. unfit: why one that answers so cannot take part; '' where it can. ours: the workers are of this process.
        check: raises BadMessage for an answer that an order cannot have. Who gives one takes no further part.
        """
        self.client, self.environment, self.ours = client, dict(environment), ours
        self._who, self._unfit, self._check = who, unfit, check
        self._progress = progress
        self.places: dict[str, Berth] = {}
        self.refused: dict[str, str] = {}
        """Workers that cannot take these orders, with the reasons."""
        self._asked: dict[Future[Answer], str] = {}
        self._at_work: dict[Future[Answer], tuple[Berth, Job]] = {}
        client.subscribe_topic(TOPIC, self._follow)

    def _follow(self, event: Any) -> None:
        """Pass on what a worker is at. Whoever reaches the scheduler can send such events: others are none."""
        if isinstance(event, tuple | list) and len(event) == 2:
            said = event[1]
            if messages.has_shape(said, {"variant": str, "what": str}):
                self._progress(plain_text(said["variant"]), plain_text(said["what"]))

    def alive(self) -> Collection[str]:
        """The addresses of those that the scheduler has now. Failed where the scheduler is gone."""
        from distributed import CancelledError

        try:
            return set(self.client.nthreads())
        except (OSError, TimeoutError, RuntimeError, CancelledError):
            said = "the Dask scheduler is gone; what was measured is in the store, and the same command continues from there"
            raise Failed(said) from None

    def ask(self, address: str, order: Order) -> "Future[Answer]":
        """Let a worker do an order."""
        return self.client.submit(
            asked,
            order,
            self.environment,
            workers=[address],
            pure=False,
            retries=0,
            key=f"{order['do']}-{time.time_ns()}",
        )

    def meet(self) -> list[Berth]:
        """Ask workers that are new what they have, without waiting for them. Returns those that have answered since."""
        alive = self.alive()
        for address in self.places.keys() - alive:
            del self.places[address]
        known = {*self.places, *self.refused, *self._asked.values()}
        self._asked |= {self.ask(each, self._who): each for each in alive if each not in known}
        met = []
        for future in [each for each in self._asked if each.done() or self._asked[each] not in alive]:
            address = self._asked.pop(future)
            answer = _answer(future) if future.done() else None
            if answer is None:
                future.cancel()
                continue
            try:
                self._checked(self._who, answer)
            except messages.BadMessage as bad:
                self.refused[address] = f"{address}: it gave no answer: {bad}"
                continue
            if why := answer.get("error") or self._unfit(answer):
                self.refused[address] = plain_text(f"{answer.get('host', address)}: {why}")
            else:
                self.places[address] = Berth(address, answer["host"], answer)
                met.append(self.places[address])
        return met

    def gather(self, patience: float, tell: Callable[[], object]) -> None:
        """Wait until all workers that are there have answered, and one at least can take orders; `tell` while there is none.

        patience: seconds for which those that are slow to answer are waited for. UsageError where none can.
        """
        began = time.monotonic()
        while not self.places or (self._asked and time.monotonic() - began < patience):
            self.meet()
            if not self.places and self.refused and not self._asked:
                raise UsageError("; ".join(dict.fromkeys(self.refused.values())))
            if not self.places and not self._asked:
                self._patient(began)
                tell()
            time.sleep(POLL_S / 5)

    def _patient(self, since: float) -> None:
        if self.ours and time.monotonic() - since > GONE_S:
            why = "".join(f" ({reason})" for reason in dict.fromkeys(self.refused.values()))
            raise Failed(f"no worker is left{why}; the same command continues from what is in the store")

    def do(self, order: Order) -> Answer:
        """The answer of any worker to an order; another one's where it dies. Errors: as the order has them."""
        found: list[Answer] = []
        self.work([Job(order["do"], lambda _: order, lambda _, answer: found.append(answer), _give_up)])
        return found[0]

    def work(self, jobs: Sequence[Job], first_on: Callable[[Berth], Job | None] = lambda place: None) -> None:
        """Have jobs done, in their order as far as workers allow.

        first_on: what a host does before all else, given one of its workers. A job whose worker dies goes to another; one that
        ended DEATHS workers is replaced by what it says itself.
        """
        from distributed import CancelledError, wait

        left, since, ready = list(jobs), time.monotonic(), set[str]()
        while left or self._at_work:
            self._bury(left)
            self.meet()
            for place in self.places.values():
                if place.host not in ready and (job := first_on(place)):
                    job.host = place.host
                    left.insert(0, job)
                ready.add(place.host)
            self._hand_out(left)
            if self._at_work:
                since = time.monotonic()
                with contextlib.suppress(TimeoutError, CancelledError):  # of workers that died, or of the scheduler
                    wait(list(self._at_work), timeout=POLL_S, return_when="FIRST_COMPLETED")
                self._collect(left)
            elif left:
                self._patient(since)
                time.sleep(POLL_S)

    def stop(self) -> None:
        """Take back what was handed out. What a worker is at it finishes."""
        for future in (*self._at_work, *self._asked):
            with contextlib.suppress(Exception):
                future.cancel()

    def _hand_out(self, left: list[Job]) -> None:
        """A job for each worker that has none. Where a host has something to do first, its other workers wait for that."""
        busy = {place.address for place, _ in self._at_work.values()}
        for place in [each for each in self.places.values() if each.address not in busy]:
            if any(job.host == place.host for _, job in self._at_work.values()):
                continue
            for job in [each for each in left if each.host in (None, place.host)]:
                left.remove(job)
                order = job.order(place)
                if order is not None:
                    job.began, job.given = time.monotonic(), order
                    self._at_work[self.ask(place.address, order)] = place, job
                    break
        hosts = {place.host for place in self.places.values()}
        left[:] = [job for job in left if job.host is None or job.host in hosts]

    def _collect(self, left: list[Job]) -> None:
        for future in [each for each in self._at_work if each.done()]:
            place, job = self._at_work[future]
            answer = _answer(future)
            if answer is None:
                continue  # its worker died: `_bury` is for that
            del self._at_work[future]
            try:
                self._checked(job.given, answer)
            except messages.BadMessage as bad:
                self.refused[place.address] = f"{place}: it gave no answer: {bad}"
                self._lose(place, job, left)
                continue
            if "error" in answer:
                said = plain_text(f"{job.name} on {place}: {answer['error']}")
                raise (UsageError if answer["usage"] else Failed)(said)
            job.done(place, answer)

    def _checked(self, order: Order, answer: Any) -> None:
        """Check an answer to an order: an error, or what `check` accepts. Raises BadMessage."""
        if not isinstance(answer, dict):
            raise messages.BadMessage(f"a {type(answer).__name__}")
        if "error" in answer:
            messages.expect(answer, {"error": str, "usage": bool}, {"error": str, "usage": bool, "host": str})
        else:
            self._check(order, answer)

    def _bury(self, left: list[Job]) -> None:
        """Jobs of workers that died are due again, before all others."""
        alive = self.alive()
        for future, (place, job) in list(self._at_work.items()):
            lost = future.done() and _answer(future) is None
            if place.address in alive and not lost:
                continue
            del self._at_work[future]
            future.cancel()
            self._lose(place, job, left)

    def _lose(self, place: Berth, job: Job, left: list[Job]) -> None:
        """Do without a worker; its job is due again."""
        self.places.pop(place.address, None)
        job.died.append(str(place))
        again = job if len(job.died) < DEATHS else job.killed(job.died)
        if again:
            left.insert(0, again)


def _give_up(died: Sequence[str]) -> Job | None:
    raise Failed(f"each of {len(died)} workers died of it: {', '.join(died)}")


def _answer(future: "Future[Answer]") -> Answer | None:
    """What a future holds; None for one whose worker died. An error of Dask's own, such as a missing package, is an answer."""
    from distributed import CancelledError, KilledWorker

    try:
        found: Answer = future.result(timeout=10)
        return found
    except (KilledWorker, CancelledError):
        return None
    except Exception as error:
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:200]}", "usage": False}
