"""A case in a process of its own, which is watched: what a kernel does to the process costs its own row, and no other.

A kernel may crash the process, write where it must not, poison the GPU's context or never end. Whoever measures starts
`python -m roofbook.measure.worker`, follows what it says, a line of JSON each, and goes on without the variant that it died of.
"""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from .. import own_python
from ..errors import Failed, UsageError
from ..peers import threads
from ..process_tree import Lines, how_ended
from ..spec import registry
from ..spec.lab import Variant
from ..store.files import Where
from ..store.parquet import Store
from . import beside
from .case_run import Kept
from .measurement import Measurement
from .placement import Setting, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row
from .worker import GRACE_S, POISONED

COMPILING_S = 60.0
"""Seconds that a driver may compile in a run, over twice the limit of a run."""


class Workers:
    """Processes for the cases of a lab on a device, one after the other. The next gets ready while one is at work.

    What gets ready rests while samples are taken. As a context it ends what has got ready for nothing.
    """

    def __init__(self, lab: str, device: str, cases: int) -> None:
        """cases: how many there are; for further ones nothing gets ready."""
        self._command = [sys.executable, "-m", "roofbook.measure.worker", lab, device]
        self._left = cases
        self._ready: Worker | None = None

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, *_: object) -> None:
        if self._ready:
            self._ready.end()

    def prepare(self) -> None:
        """Let the process for the next case get ready now."""
        self._ready = self._ready or Worker(self._command)

    def take(self) -> "Worker":
        """The process for the next case."""
        worker, self._ready = self._ready, None
        self._left -= 1
        if worker and worker.process.poll() is None:
            worker.process.send_signal(signal.SIGCONT)
            return worker
        if worker:
            worker.end()
        return Worker(self._command)

    def follow(self, what: str) -> None:
        """Do what can be done now that the process at work is at `what`."""
        sampling = what.startswith(("warm up", "sample"))
        if self._ready:
            self._ready.process.send_signal(signal.SIGSTOP if sampling else signal.SIGCONT)
        elif self._left > 0 and not sampling:
            self.prepare()


class Worker:
    """A process that measures a case, once it is told which."""

    def __init__(
        self, command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """folder, environment: of the process; this one's, and what it needs to find the same labs, without them."""
        own = registry.environment() if environment is None else environment
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints, start_new_session=True,
            cwd=folder, env={**threads.QUIET, **own_python.environment(), **beside.as_parent(), **own},
        )  # fmt: skip

    def tell(self, order: Mapping[str, Any]) -> None:
        """What to measure. Says nothing where it has died: who reads on finds that out."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.complaints):
            assert pipe
            with contextlib.suppress(BrokenPipeError):  # of what it was not there to read
                pipe.close()


@dataclass
class Ended(Exception):
    """A process that did not measure all that it was to."""

    why: str
    """In a few words, such as `crashed by SIGSEGV`."""
    variant: str
    """What it was at; '' before the first."""
    what: str


def measure_apart(
    at: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    store: Store,
    where: Where,
    go_on: bool = True,
    once: str = "",
    progress: Progress = silent,
    workers: Workers | None = None,
) -> list[Kept]:
    """As `case_run.measure_and_keep`, in a process of its own, one of `workers`.

    A variant that ends it becomes a failed row with the reason. The others go on in another process, with `go_on` with the
    samples that they had. Errors: Failed for a process that died before it was at any variant; UsageError as the process itself
    had it; what the process raised beside that, as Failed.
    """
    workers = workers or Workers(at.lab.name, at.device.spec, 1)
    left, kept = list(variants), list[Kept]()
    while left:
        try:
            for said in _said(workers, at, left, run, store, where, go_on, once):
                if "kept" in said:
                    kept += [Kept(*each) for each in said["kept"]]
                else:
                    progress(said["variant"], said["what"])
            break
        except Ended as end:
            known = {each.variant for each in kept}
            guilty = next((each for each in left if each.name == end.variant), None)
            if guilty is None:
                raise Failed(f"{at.lab.name} {at.case.name}: the measuring process {end.why}") from None
            if guilty.name not in known:
                it = failed(at, guilty, f"{end.why}; it was at: {end.what}")
                store.append([row(at, it, run)], where, once and f"{once}.{guilty.name}")
                kept.append(Kept(at.case.name, guilty.name, it.role, "failed", run))
            left = [each for each in left if each.name not in {*known, guilty.name}]
    return kept


def failed(at: Setting, variant: Variant, reason: str) -> Measurement:
    """One that was ended before it had a time."""
    target = target_of(variant, at.device)
    assert target is not None  # it ran
    return Measurement(variant, variant.role, *target, reason=reason)


def _said(
    workers: Workers,
    at: Setting,
    variants: Sequence[Variant],
    run: str,
    store: Store,
    where: Where,
    go_on: bool,
    once: str,
) -> Iterator[dict[str, Any]]:
    """What the process says, message by message. Raises Ended where it dies, hangs, or loses its device."""
    variant, what = "", "start"
    worker = workers.take()
    process = worker.process
    assert process.stdout
    try:
        worker.tell({
            "case": at.case.name, "scale": at.case.scale, "run": run, "policy": asdict(at.policy),
            "variants": [each.name for each in variants], "root": store.address, "where": where,
            "go_on": go_on, "once": once,
        })  # fmt: skip
        lines = Lines(process.stdout)
        while line := lines.next(seconds_allowed(at.policy, what)):
            said = json.loads(line)
            if "error" in said:
                raise (UsageError if said["usage"] else Failed)(said["error"])
            if "what" in said:
                variant, what = said["variant"], said["what"]
                workers.follow(what)
            yield said
        code = process.wait()
        if code:
            raise Ended(why_ended(code, worker.complaints), variant, what)
    except TimeoutError:
        raise Ended(f"did not answer for {seconds_allowed(at.policy, what):.0f} s", variant, what) from None
    except KeyboardInterrupt:
        _interrupt(process)
        raise
    finally:
        worker.end()
        beside.go_on()


def seconds_allowed(policy: Policy, what: str) -> float | None:
    """Seconds after which a process that was last at `what` hangs. None where no kernel runs: a reference takes its time."""
    return 2 * policy.limit_s + COMPILING_S if what.startswith(("first run", "warm up", "sample", "last run")) else None


def why_ended(code: int, complaints: IO[bytes]) -> str:
    """Why a process ended, with its last words."""
    if code == POISONED:
        return "left the device in an error that it does not leave"
    complaints.seek(0)
    words = [line.strip() for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
    last = f" ({words[-1][:200]})" if words else ""
    return f"{how_ended(code)}{last}"


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C for the process: it puts its samples aside and ends. One whose kernel does not end is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
