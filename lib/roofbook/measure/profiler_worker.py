"""The process that ncu watches: `python -m roofbook.measure.profiler_worker LAB VARIANT CASE`. ncu.py starts it.

It verifies a run of a variant on the lab's verification case, then lets ncu count a second run: the launches that the plan
times by the device's clock, or the whole run if the plan leaves the timing to the host's clock.
"""

import json
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ..devices import cuda
from ..devices.contract import Device
from ..errors import UserFacingError, warn
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from .checked_runnable import check_of, checked_runnable, closed_after, plain_text
from .ncu import open_cuda
from .verify import reason_if_wrong, reason_of


class Watch:
    """Switch of the profiler. `timed`: a run has used the device's clock, so that only its timed launches are counted."""

    def __init__(self, start: Callable[[], None], stop: Callable[[], None]) -> None:
        self._start, self._stop = start, stop
        self.timed = self.armed = False

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Surround timed launches, which are counted while `armed`."""
        self.timed = True
        if not self.armed:
            yield
            return
        with self._on():
            yield

    @contextmanager
    def run(self) -> Iterator[None]:
        """Surround the run that is counted."""
        if not self.timed:
            with self._on():
                yield
            return
        self.armed = True
        try:
            yield
        finally:
            self.armed = False

    @contextmanager
    def _on(self) -> Iterator[None]:
        self._start()
        try:
            yield
        finally:
            self._stop()


class Queue(cuda.Queue):
    """Queue that reports its timed launches to the watch."""

    def __init__(self, index: int, watch: Watch) -> None:
        super().__init__(index)
        self.watch = watch

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        with self.watch.clock():
            return super().laps(*submits)


class WatchedDevice(cuda.CudaDevice):
    """CUDA device that reports its timed launches to the watch."""

    def __init__(self, index: int, watch: Watch) -> None:
        super().__init__(index)
        self.watch = watch

    def queue(self, profiling: bool = True) -> Queue:
        return Queue(self.index, self.watch)

    def traced(self, queues: Sequence[Any], submit: Callable[[], None]) -> list[Any]:
        with self.watch.clock():
            return super().traced(queues, submit)


def run(
    lab: Lab, variant: Variant, case: Case, device: Device, watch: Watch, *, seed: int, scratch: Path
) -> dict[str, Any]:
    """Verify a variant, count a run by `watch`, and return its `units` and check; or the `reason` of a failure.

    The counted run has the inputs of the verification, which take as many operations as the timed inputs.
    scratch: folder where the reference is kept for the next variant.
    """
    try:
        small, inputs = lab.verification_case(case, variant), lab.inputs(case, seed)
        name = lab.verified_on(variant)
        verification_inputs = lab.verification_inputs(small, name, inputs)
        with closed_after(checked_runnable(variant.plan(device, variant, small, verification_inputs))) as runnable:
            runnable.reset()
            runnable.run()
            right = _reference(lab, small, verification_inputs, scratch / f"{lab.name}-{small.units}{name}.pickle")
            check = check_of(lab.check(small, variant, runnable.outputs(), right))
            if reason := reason_if_wrong(*check):
                return {"reason": reason}
            runnable.reset()
            with watch.run():
                runnable.run()
            return {"units": runnable.units, **check._asdict()}
    except Exception as why:
        return {"reason": plain_text(reason_of(why))}


def _reference(lab: Lab, case: Case, inputs: Mapping[str, Any], cache_file: Path) -> Mapping[str, Any]:
    if cache_file.exists():
        return pickle.loads(cache_file.read_bytes())  # type: ignore[no-any-return]
    right = lab.reference(case, inputs)
    try:
        cache_file.write_bytes(pickle.dumps(right))
    except OSError:  # no space: each variant computes its own
        cache_file.unlink(missing_ok=True)
    return right


@click.command()
@click.argument("lab")
@click.argument("variant")
@click.argument("case")
@click.option("--scale", required=True)
@click.option("--device", required=True)
@click.option("--seed", type=int, required=True)
@click.option("--scratch", type=click.Path(path_type=Path), required=True)
@click.option("--out", type=click.Path(path_type=Path), required=True)
def main(lab: str, variant: str, case: str, scale: str, device: str, seed: int, scratch: Path, out: Path) -> None:
    """Write the result of `run` to OUT as JSON."""
    lab_definition = registry.get(lab)
    lab_definition.prepare()
    chosen, size, place = lab_definition.variant(variant), lab_definition.case(case, scale), open_cuda(device)
    from cupy.cuda import runtime

    watch = Watch(runtime.profilerStart, runtime.profilerStop)
    watched = WatchedDevice(int(place.spec.partition(":")[2]), watch)
    out.write_text(json.dumps(run(lab_definition, chosen, size, watched, watch, seed=seed, scratch=scratch)))


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except UserFacingError as error:
        warn(f"error: {error}")
        sys.exit(2)
