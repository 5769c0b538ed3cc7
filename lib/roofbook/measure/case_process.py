"""Measurement of a case in a process of its own: a kernel that breaks the process costs only its own row.

A kernel may crash the process, write outside its buffers, poison the GPU's context, or never end; a library may end the process
with exit code 0. The parent starts `python -m roofbook.measure.case_worker` and reads its messages, one line of JSON each.
A case is complete only with its closing record. Without one, another process measures the variants that did not end it.
"""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from .. import own_python
from ..errors import Failed, UsageError
from ..peers import threads
from ..process_tree import BadLine, Lines, ProcessTree, how_ended
from ..spec import registry
from ..spec.lab import Variant
from ..store.files import StorePart
from ..store.parquet import Store
from . import background_group, messages
from .case_run import WAITING, StoredRow
from .case_worker import GRACE_S, POISONED
from .checked_runnable import plain_text
from .measurement import Measurement
from .messages import BadMessage
from .placement import Setting, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row

COMPILING_S = 60.0
"""Seconds that a driver may compile in a run, over twice the limit of a run."""
READING_S = 300.0
"""Seconds in which a plan hands over its outputs, tells its facts or gives its memory back."""
REFERENCE_S = 7200.0
"""Seconds that a lab may compute its reference, compare outputs with it, or get ready."""
START = "start"
"""Stage of a process before it is at any variant."""
MOST_COMPLAINTS = 1 << 16
"""Bytes at the end of what a process complained that are read for its last words."""


class Workers:
    """Processes for the cases of a lab on a device, one after the other. The next gets ready while one is at work.

    What gets ready rests while samples are taken. As a context it ends what has got ready for nothing.
    """

    def __init__(self, lab: str, device: str, cases: int) -> None:
        """cases: how many there are; for further ones nothing gets ready."""
        self._command = [sys.executable, "-m", "roofbook.measure.case_worker", lab, device]
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
            worker.tree.resume()
            return worker
        if worker:
            worker.end()
        return Worker(self._command)

    def follow(self, what: str) -> None:
        """Do what can be done now that the process at work is at `what`."""
        sampling = what.startswith(("warm up", "sample"))
        if self._ready and sampling:
            self._ready.tree.pause()
        elif self._ready:
            self._ready.tree.resume()
        elif self._left > 0 and not sampling:
            self.prepare()


class Worker:
    """A process that measures a case, once it is told which, with all processes that its kernels start."""

    def __init__(
        self, command: Sequence[str], folder: Path | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """folder, environment: of the process; this one's, and what it needs to find the same labs, without them."""
        own = registry.environment() if environment is None else environment
        self.complaints = tempfile.TemporaryFile()  # noqa: SIM115 - `end` closes it
        self.tree = ProcessTree(
            command, grace_s=GRACE_S + 2.0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.complaints,
            cwd=folder, env={**threads.QUIET, **own_python.environment(), **background_group.parent_environment(), **own},
        )  # fmt: skip
        self.process = self.tree.process

    def tell(self, order: Mapping[str, Any]) -> None:
        """What to measure. Says nothing where it has died: who reads on finds that out."""
        assert self.process.stdin
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill it, if it has not ended, and all that it started."""
        self.tree.end()
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
    hung: bool = False
    """Whether it did not answer in time."""


def measure_isolated(
    at: Setting,
    variants: Sequence[Variant],
    *,
    run: str,
    store: Store,
    where: StorePart,
    resume: bool = True,
    once: str = "",
    progress: Progress = silent,
    workers: Workers | None = None,
) -> list[StoredRow]:
    """Measure variants of a case in a process of its own, one of `workers`, store their rows, and return what was stored.

    A variant that ends it is tried once more alone, since what crashes late may have been started by another one; where that
    fails, and where it hangs, it becomes a failed row with the reason. The others go on in another process, with `resume` with
    the samples that they had. Errors: Failed for a process that died before it was at any variant; UsageError as the process
    itself had it.
    """
    workers = workers or Workers(at.lab.name, at.device.spec, 1)
    kept, groups = list[StoredRow](), [list(variants)]
    while groups:
        left = groups.pop(0)
        is_alone = len(left) == 1 < len(variants)
        name = f"{once}.{left[0].name}" if once and is_alone else once  # rows of each name are kept once
        try:
            with contextlib.closing(_said(workers, at, left, run, store, where, resume, name)) as conversation:
                for said in conversation:
                    if "kept" in said:
                        kept += [StoredRow(*kept_row) for kept_row in said["kept"]]
                    else:
                        progress(said["variant"], said["what"])
        except Ended as end:
            known = {kept_row.variant for kept_row in kept}
            due = [variant for variant in left if variant.name not in known]
            guilty = next((variant for variant in due if variant.name == end.variant), None)
            if end.what == START and not end.variant:
                raise Failed(f"{at.lab.name} {at.case.name}: the measuring process {end.why}") from None
            if len(left) == 1 or (guilty and end.hung):
                guilty = guilty or next(iter(due), None)
                if guilty:
                    measurement = failed(at, guilty, f"{end.why}; it was at: {end.what}")
                    store.append([row(at, measurement, run)], where, once and f"{once}.{guilty.name}")
                    kept.append(StoredRow(at.case.name, guilty.name, measurement.role, "failed", run))
                groups.insert(0, [variant for variant in due if variant is not guilty])
            elif guilty:
                groups.insert(0, [variant for variant in due if variant is not guilty])
                groups.append([guilty])
            elif end.variant in known:  # such as one that poisoned the device, whose row is there
                groups.insert(0, due)
            else:
                groups += [[variant] for variant in due]
            groups = [group for group in groups if group]
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
    where: StorePart,
    resume: bool,
    once: str,
) -> Generator[dict[str, Any]]:
    """Yield the messages of the process, up to its closing record.

    Raises Ended where it ends without one, hangs, loses its device, or says what no process of ours says.
    """
    variant, what = "", START
    names = [variant.name for variant in variants]
    worker = workers.take()
    process = worker.process
    assert process.stdout
    try:
        worker.tell({
            "case": at.case.name, "scale": at.case.scale, "run": run, "policy": asdict(at.policy),
            "variants": names, "root": store.address, "where": where,
            "resume": resume, "once": once,
        })  # fmt: skip
        lines, kept, count = Lines(process.stdout), 0, 0
        while line := lines.next(seconds_allowed(at.policy, what)):
            said = checked_message(line, at.case.name, names)
            count += 1
            if count > most_messages(at.policy, len(names)):
                raise BadMessage("messages without end")
            if "what" in said:
                variant, what = said["variant"], said["what"]
                workers.follow(what)
            elif "kept" in said:
                kept += len(said["kept"])
            elif "error" in said and said["usage"]:
                raise UsageError(plain_text(said["error"]))
            elif "error" in said:
                raise Ended(plain_text(said["error"]), variant, what)
            elif said["closed"] != kept:
                raise BadMessage(f"a closing record of {said['closed']} rows after {kept}")
            else:
                return
            yield said
        raise Ended(why_ended(process.wait(), worker.complaints), variant, what)
    except TimeoutError:
        raise Ended(f"did not answer for {seconds_allowed(at.policy, what):.0f} s", variant, what, hung=True) from None
    except (BadMessage, BadLine) as bad:
        raise Ended(f"said what is no message: {bad}", variant, what) from None
    except (KeyboardInterrupt, GeneratorExit):  # here, or in the midst of what is done with a message
        _interrupt(worker)
        raise
    finally:
        worker.end()
        background_group.resume()


def checked_message(line: bytes, case: str, variants: Collection[str]) -> dict[str, Any]:
    """Return a message of a process that measures these variants of a case. Raises BadMessage."""
    said = messages.expect(
        messages.parse(line),
        {"variant": messages.one_of({"", *variants}), "what": str},
        {"kept": list},
        {"closed": int},
        {"error": str, "usage": bool},
    )
    if "kept" in said:
        said["kept"] = messages.kept_rows(said["kept"], case, variants)
    elif "what" in said:
        said["what"] = plain_text(said["what"])
    return said


def most_messages(policy: Policy, variants: int) -> int:
    """Return how many messages a process may send about so many variants: more than any that measures them does."""
    return 1000 + 20 * (variants + 1) * (policy.maximum + 50)


def seconds_allowed(policy: Policy, what: str) -> float | None:
    """Seconds after which a process that was last at `what` hangs. None where it waits for others."""
    if what == WAITING:
        return None
    if what.startswith(("plan", "first run", "warm up", "sample", "last run")):
        return 2 * policy.limit_s + COMPILING_S
    return READING_S if what in ("outputs", "facts", "close") else REFERENCE_S


def why_ended(code: int, complaints: IO[bytes]) -> str:
    """Why a process ended without its closing record, with its last words."""
    if code == POISONED:
        return "left the device in an error that it does not leave"
    complaints.seek(0, os.SEEK_END)
    complaints.seek(max(0, complaints.tell() - MOST_COMPLAINTS))
    words = [line.strip() for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
    return how_ended(code) + (f" ({plain_text(words[-1][:200])})" if words else "")


def _interrupt(worker: Worker) -> None:
    """Ctrl-C for the process: it puts its samples aside and ends. One whose kernel does not end is killed."""
    worker.tree.interrupt()
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.process.wait(GRACE_S)
