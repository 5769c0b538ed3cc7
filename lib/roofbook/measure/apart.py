"""A case in a process of its own, which is watched: what a kernel does to the process costs its own row, and no other.

A kernel may crash the process, write where it must not, poison the GPU's context or never end. Whoever measures starts
`python -m roofbook.measure.apart`, follows what it says, a line of JSON each, and goes on without the variant that it died of.
"""

import json
import math
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ..errors import Failed, UsageError, of_system
from ..spec import registry
from ..spec.lab import Variant
from ..store.files import Where
from ..store.parquet import Store
from . import case_run, verify
from .case_run import Kept
from .measurement import Measurement
from .placement import Setting, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row

GRACE_S = 10.0
"""Seconds that a process has to put its samples aside after Ctrl-C."""
COMPILING_S = 60.0
"""Seconds that a driver may compile in a run, over twice the limit of a run."""
POISONED = 70
"""Exit code of a process whose device answers no more."""


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
    progress: Progress = silent,
) -> list[Kept]:
    """As `case_run.measure_and_keep`, in a process of its own. A variant that ends it becomes a failed row with the reason.

    The others go on in another process, with `go_on` with the samples that they had. Errors: Failed for a process that died
    before it was at any variant; UsageError as the process itself had it; what the process raised beside that, as Failed.
    """
    left, kept = list(variants), list[Kept]()
    while left:
        try:
            for said in _said(at, left, run, store, where, go_on):
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
                it = _failed(at, guilty, f"{end.why}; it was at: {end.what}")
                store.append([row(at, it, run)], where)
                kept.append(Kept(at.case.name, guilty.name, it.role, "failed", run))
            left = [each for each in left if each.name not in {*known, guilty.name}]
    return kept


def _failed(at: Setting, variant: Variant, reason: str) -> Measurement:
    target = target_of(variant, at.device)
    assert target is not None  # it ran
    return Measurement(variant, variant.role, *target, reason=reason)


def _said(
    at: Setting, variants: Sequence[Variant], run: str, store: Store, where: Where, go_on: bool
) -> Iterator[dict[str, Any]]:
    """What the process says, message by message. Raises Ended where it dies, hangs, or loses its device."""
    order = {
        "lab": at.lab.name, "case": at.case.name, "scale": at.case.scale, "device": at.device.spec, "run": run,
        "policy": asdict(at.policy), "variants": [each.name for each in variants], "root": str(store.root.resolve()),
        "where": where, "go_on": go_on,
    }  # fmt: skip
    variant, what = "", "start"
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True,
            env={**os.environ, **registry.environment()},
        )  # fmt: skip
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps(order).encode() + b"\n")
            process.stdin.flush()
            lines = _lines(process.stdout)
            while line := lines.next(_allowed(at.policy, what)):
                said = json.loads(line)
                if "error" in said:
                    raise (UsageError if said["usage"] else Failed)(said["error"])
                if "what" in said:
                    variant, what = said["variant"], said["what"]
                yield said
            code = process.wait()
            if code:
                raise Ended(_of(code, complaints), variant, what)
        except TimeoutError:
            raise Ended(f"did not answer for {_allowed(at.policy, what):.0f} s", variant, what) from None
        except KeyboardInterrupt:
            _interrupt(process)
            raise
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()


def _allowed(policy: Policy, what: str) -> float | None:
    """Seconds after which a process that was last at `what` hangs. None where no kernel runs: a reference takes its time."""
    return 2 * policy.limit_s + COMPILING_S if what.startswith(("first run", "warm up", "sample", "last run")) else None


class _lines:
    """Lines of a pipe, each waited for so long and no longer."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.pipe, self.held = pipe, b""
        self.ready = selectors.DefaultSelector()
        self.ready.register(pipe, selectors.EVENT_READ)

    def next(self, seconds: float | None) -> bytes:
        """The next one; empty at the end. Raises TimeoutError."""
        until = math.inf if seconds is None else time.monotonic() + seconds
        while b"\n" not in self.held:
            if not self.ready.select(
                min(1.0, max(0.0, until - time.monotonic()))
            ):  # a signal may come to another thread
                if time.monotonic() >= until:
                    raise TimeoutError
                continue
            more = os.read(self.pipe.fileno(), 1 << 16)
            if not more:
                return b""
            self.held += more
        line, _, self.held = self.held.partition(b"\n")
        return line


def _of(code: int, complaints: IO[bytes]) -> str:
    """Why a process ended, with its last words."""
    if code == POISONED:
        return "left the device in an error that it does not leave"
    complaints.seek(0)
    words = [line.strip() for line in complaints.read().decode(errors="replace").splitlines() if line.strip()]
    last = f" ({words[-1][:200]})" if words else ""
    if code >= 0:
        return f"ended with exit code {code}{last}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"crashed by {name}{last}"


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C for the process: it puts its samples aside and ends. One whose kernel does not end is killed."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()


# -- the process itself ------------------------------------------------------------------------------------------------


class _WithoutPandas(Store):
    """A store whose rows are written without pandas. pyarrow imports it if it can: longer than many a case is sampled."""

    def append(self, rows: Sequence[Mapping[str, Any]], where: Where = "local") -> list[Path]:
        sys.meta_path.insert(0, self)
        try:
            return super().append(rows, where)
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, *_: Any) -> None:
        """As Python asks for a module that it is to import."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main() -> int:
    """Measure what the line on standard input says, and tell of it on standard output."""
    from ..devices.find import open_device

    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a driver prints is no message
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    lock = threading.Lock()

    def tell(**message: Any) -> None:
        with lock:
            print(json.dumps(message), file=told)

    try:
        lab = registry.get(order["lab"])
        lab.prepare()
        device = open_device(order["device"], lab.preferred_backend)
        case = lab.case(order["case"], order["scale"])
        at = Setting(lab, case, device, Policy(**order["policy"]))
        case_run.measure_and_keep(
            at, [lab.variant(name) for name in order["variants"]], run=order["run"], store=_WithoutPandas(order["root"]),
            where=order["where"], go_on=order["go_on"], progress=lambda variant, what: tell(variant=variant, what=what),
            tell=lambda kept: tell(kept=[list(each) for each in kept]),
        )  # fmt: skip
    except KeyboardInterrupt:
        return 130
    except verify.DeviceLost:
        return POISONED
    except OSError as error:
        tell(error=of_system(error), usage=True)
    except Exception as error:
        usage = isinstance(error, UsageError)
        tell(error=str(error) if usage else verify.told(error), usage=usage)
    return 0


def _end_with_the_other() -> None:
    """Standard input ends where whoever reads the messages has died: as by Ctrl-C, samples are put aside."""
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    sys.exit(main())
