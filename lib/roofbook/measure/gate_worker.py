"""One side of a gate: a process that takes samples of a lab's variants on order, with the library on its path.

`measure.side_by_side` starts this file twice: with the source of a commit on PYTHONPATH, and with that of the checkout. So it
must run with older versions of the library: it imports few modules, by full names, which should not change. Messages are JSON
lines.
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

DEVICE_LOST = 70
"""Exit code of a process whose device no longer works."""


def main() -> int:
    """Answer orders from standard input, until it ends. Return an exit code."""
    messages_out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # output of a driver is no message

    def tell(**message: Any) -> None:
        print(json.dumps(message), file=messages_out)

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
            return DEVICE_LOST
        first_line = next((line for line in str(error).splitlines() if line.strip()), "")
        tell(error=f"{type(error).__name__}: {first_line}"[:300])
    return 0


def preemptions() -> int:
    """Return how often the system has taken a core from a running thread of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class Side:
    """One side of a comparison, with its measurements by variant. Each public method answers one order."""

    def __init__(self, tell: Any) -> None:
        self.tell, self.ready = tell, dict[str, Any]()

    def fingerprints(self, labs: list[str]) -> None:
        """Send the fingerprint of each variant of each lab."""
        from roofbook.spec import registry

        known = [name for name in labs if name in registry.folders()]
        fingerprints = {
            name: {variant.name: variant.fingerprint() for variant in registry.get(name).all_variants()}
            for name in known
        }
        self.tell(fingerprints=fingerprints)

    def prepare(
        self, lab: str, case: str, scale: str, device: str, variants: list[str], policy: dict[str, Any], seed: int
    ) -> None:
        """Verify these variants and plan their timed runs, in an order drawn by `seed`; send which are ready."""
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
        order = random.Random(seed).sample(variants, len(variants))
        for name in order:
            variant = known.variant(name)
            target = target_of(variant, self.at.device)
            why = known.skip_reason(variant, self.at.case)
            if target is None or why:
                self.tell(absent=name, why=why or f"it does not run on {device}")
                continue
            measurement = Measurement(variant, variant.role, *target)
            prepare(self.at, measurement, self.references, self._progress)
            if measurement.reason is None:
                self._warm_up(measurement)
            if measurement.reason is not None or measurement.runnable is None:
                self.tell(failed=name, why=measurement.reason or "it made nothing to run")
                continue
            self.ready[name] = measurement
            self.tell(
                made=name,
                units=measurement.runnable.units,
                on=measurement.device.slug,
                backend=measurement.backend,
                device=measurement.device.name,
            )
        self.references.timing()
        self.tell(ready=True)

    def sample(self, variant: str) -> None:
        """Take one sample, on poisoned outputs, and send its seconds."""
        from roofbook.devices.provenance import Clocks, slowed
        from roofbook.measure.sampling import flush_of

        measurement, start = self.ready[variant], time.perf_counter()
        try:
            self._poison(measurement)
            if self.at.policy.cache == "cold":
                flush_of(measurement.device)()
            before, begin = preemptions(), time.perf_counter()
            own_seconds = measurement.runnable.run()
            wall = time.perf_counter() - begin
            disturbed = measurement.device.kind == "cpu" and preemptions() > before
        except Exception as error:
            self._fail(measurement, error)
            return
        clocks = Clocks(measurement.device.kind, measurement.device.pci_bus_id).read()
        spent = time.perf_counter() - start
        seconds, was_slowed = wall if own_seconds is None else own_seconds, slowed(clocks["throttle"])
        self.tell(sample=variant, seconds=seconds, spent=spent, slowed=was_slowed, disturbed=disturbed)

    def verify(self, variant: str) -> None:
        """Verify a timed variant once more, send the reason if it is wrong, and release it."""
        from roofbook.measure.verify import verify_again

        measurement = self.ready.pop(variant)
        verify_again(self.at, measurement, self.references, self._progress)
        measurement.release()
        self.tell(verified=variant, why=measurement.reason)

    def _poison(self, measurement: Any) -> None:
        """Run on other operands, then reset on poisoned outputs: a kernel that keeps results has to compute them again."""
        from roofbook.measure import verify

        if hasattr(verify, "run_on_other_operands"):
            verify.run_on_other_operands(measurement)
            measurement.ledger.reset(measurement.runnable)
        else:  # an older commit
            measurement.runnable.reset()

    def _warm_up(self, measurement: Any) -> None:
        from roofbook.measure.verify import check_alive, reason_of

        self._progress(measurement.variant.name, "warm up")
        try:
            measurement.runnable.run()
        except Exception as error:
            measurement.reason = reason_of(error)
            check_alive(error, measurement.device)

    def _fail(self, measurement: Any, error: Exception) -> None:
        from roofbook.measure.verify import check_alive, reason_of

        why = reason_of(error)
        check_alive(error, measurement.device)
        self.ready.pop(measurement.variant.name)
        self.tell(failed=measurement.variant.name, why=why)

    def _progress(self, variant: str, what: str) -> None:
        self.tell(variant=variant, what=what)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    code = main()
    sys.stderr.flush()
    os._exit(code)  # the parent need not wait for the clean-up of Python and a driver
