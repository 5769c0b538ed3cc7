"""One side of a gate: a process that takes samples of a lab's variants when it is told to, by the library that it finds.

`measure.side_by_side` starts this file twice, with the source of a commit on PYTHONPATH and with that of the checkout. So it
imports by full names, and little: what a commit lacks of that, its side cannot measure. Messages are a line of JSON each.
"""

import contextlib
import importlib
import json
import os
import random
import resource
import signal
import sys
import time
from typing import Any

LOST = 70
"""Exit code of a process whose device answers no more."""


def main() -> int:
    """Answer order after order from standard input, until it ends."""
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a driver prints is no message

    def tell(**message: Any) -> None:
        print(json.dumps(message), file=told)

    try:
        for module in (
            "background_group",
            "beside",
        ):  # its name in older commits; a still older one ends when its orders do
            with contextlib.suppress(ImportError):
                importlib.import_module(f"roofbook.measure.{module}").end_with_parent()
        side = Side(tell)
        for line in sys.stdin:
            order = json.loads(line)
            getattr(side, order.pop("do"))(**order)
    except Exception as error:
        if type(error).__name__ == "DeviceLost":
            return LOST
        said = next((line for line in str(error).splitlines() if line.strip()), "")
        tell(error=f"{type(error).__name__}: {said}"[:300])
    return 0


def preempted() -> int:
    """How often the system took a core from a thread of this process that would have gone on, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Side:
    """What it has ready, by the names of variants."""

    def __init__(self, tell: Any) -> None:
        self.tell, self.ready = tell, dict[str, Any]()

    def fingerprints(self, labs: list[str]) -> None:
        """Tell of each variant of each lab what decides its result."""
        from roofbook.spec import registry

        known = [name for name in labs if name in registry.folders()]
        found = {
            name: {variant.name: variant.fingerprint() for variant in registry.get(name).all_variants()}
            for name in known
        }
        self.tell(fingerprints=found)

    def prepare(
        self, lab: str, case: str, scale: str, device: str, variants: list[str], policy: dict[str, Any], seed: int
    ) -> None:
        """Verify these variants and make what will be timed, in an order drawn by `seed`; tell which are ready, which not."""
        from roofbook.devices.find import open_device
        from roofbook.measure.measurement import Measurement
        from roofbook.measure.placement import Setting, target_of
        from roofbook.measure.policy import Policy
        from roofbook.measure.verify import References, prepare
        from roofbook.spec import registry

        known = registry.get(lab)
        known.prepare()
        try:
            size = known.case(case, scale)
        except Exception as error:
            for name in variants:
                self.tell(absent=name, why=str(error))
            self.tell(ready=True)
            return
        self.at = Setting(known, size, open_device(device, known.preferred_backend), Policy(**policy))
        self.references = References(self.at)
        drawn = random.Random(seed).sample(variants, len(variants))
        for name in drawn:
            variant = known.variant(name)
            target = target_of(variant, self.at.device)
            why = known.skip_reason(variant, self.at.case)
            if target is None or why:
                self.tell(absent=name, why=why or f"it does not run on {device}")
                continue
            it = Measurement(variant, variant.role, *target)
            prepare(self.at, it, self.references, self._progress)
            if it.reason is None:
                self._warm_up(it)
            if it.reason is not None or it.runnable is None:
                self.tell(failed=name, why=it.reason or "it made nothing to run")
                continue
            self.ready[name] = it
            self.tell(made=name, units=it.runnable.units, on=it.device.slug, backend=it.backend, device=it.device.name)
        self.references.timing()
        self.tell(ready=True)

    def sample(self, variant: str) -> None:
        """Take one and tell its seconds."""
        from roofbook.devices.provenance import Clocks, slowed
        from roofbook.measure.sampling import flush_of

        it, start = self.ready[variant], time.perf_counter()
        if self.at.policy.cache == "cold":
            flush_of(it.device)()
        try:
            before, begin = preempted(), time.perf_counter()
            own = it.runnable.run()
            wall = time.perf_counter() - begin
            disturbed = it.device.kind == "cpu" and preempted() > before
        except Exception as error:
            self._fail(it, error)
            return
        read = Clocks(it.device.kind, it.device.pci_bus_id).read()
        spent = time.perf_counter() - start
        seconds, slow = wall if own is None else own, slowed(read["throttle"])
        self.tell(sample=variant, seconds=seconds, spent=spent, slowed=slow, disturbed=disturbed)

    def verify(self, variant: str) -> None:
        """Verify what was timed once more; tell what is wrong with it, if anything is, and give its memory back."""
        from roofbook.measure.verify import verify_again

        it = self.ready.pop(variant)
        verify_again(self.at, it, self.references, self._progress)
        it.release()
        self.tell(verified=variant, why=it.reason)

    def _warm_up(self, it: Any) -> None:
        from roofbook.measure.verify import check_alive, reason_of

        self._progress(it.variant.name, "warm up")
        try:
            it.runnable.run()
        except Exception as error:
            it.reason = reason_of(error)
            check_alive(error, it.device)

    def _fail(self, it: Any, error: Exception) -> None:
        from roofbook.measure.verify import check_alive, reason_of

        why = reason_of(error)
        check_alive(error, it.device)
        self.ready.pop(it.variant.name)
        self.tell(failed=it.variant.name, why=why)

    def _progress(self, variant: str, what: str) -> None:
        self.tell(variant=variant, what=what)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever waits, who ends this process
    code = main()
    sys.stderr.flush()
    os._exit(code)  # whoever waits need not wait for Python and a driver to tidy up
