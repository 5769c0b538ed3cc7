"""Steps are verified on small cases of awkward sizes before they are timed, whatever the size that is measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Unsupported
from roofbook.devices.find import open_device
from roofbook.measure.buffer_ledger import GUARD, BufferLedger
from roofbook.measure.measurement import Measurement
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.measure.verify import References, prepare
from roofbook.peers import one_thread
from roofbook.spec import registry
from roofbook.spec.lab import AWKWARD_RUNS, Lab
from roofbook.spec.plan import SCALES, Case, Variant

from .test_judged_samples import Chained, Chains

DOUBLED = (
    "__kernel void f(__global float *x, __global float *y, __global float *s, __global int *c) {{ int i = {}; {} }}"
)
RIGHT = DOUBLED.format("get_global_id(0)", "y[i] = 2 * x[i];")
ONLY_EVEN = DOUBLED.format("get_global_id(0)", "if (i < N / 2 * 2) y[i] = 2 * x[i];")


class Doubled(Chains):
    """Twice each of `count` numbers."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.units, self.queue, self.count = case.units, device.queue(profiling=True), len(inputs["x"])
        if self.count > variant.options.get("most", 1000):
            raise Unsupported("too many")
        self.kernel = device.build(f"#define N {self.count}\n{variant.options['text']}").kernel("f")
        self.x = device.upload(inputs["x"])
        self.y, self.s, self.c, self.n = (device.empty(4 * self.count) for _ in range(4))

    def reset(self) -> None:
        self.queue.write(self.y, np.full(self.count, np.nan, np.float32))

    def run(self) -> float:
        size = (self.count,)
        return self.queue.timed(lambda: self.queue.launch(self.kernel, size, (1,), self.x, self.y, self.s, self.c))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"y": self.queue.read(self.y, np.empty(self.count, np.float32)).astype(np.float64)}


class Doubling(Chained):
    """A lab whose only case is even, and whose awkward ones are odd."""

    awkward = ("small", "7", "901", "13")

    def case(self, name: str, scale: str | None = None) -> Case:
        return Case(name, scale or "test", {"count": 64 if name == "small" else int(name)}, 1)

    def cases(self, scale: str) -> Sequence[Case]:
        return [self.case("small", scale)]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"x": np.random.default_rng(seed).random(case.params["count"], np.float32)}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"y": 2.0 * inputs["x"]}

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        return "too large" if case.params["count"] > variant.options.get("at_most", 1000) else None


def reason(text: str, role: str = "step", **options: Any) -> str | None:
    variant = Variant("a", None, None, Doubled, "", "", options={"text": text, **options}, role=role)
    lab, device = Doubling(variant), open_device("opencl:0")
    measurement = Measurement(variant, role, device, "opencl")
    at = Setting(lab, lab.cases("published")[0], device, Policy())
    prepare(at, measurement, References(at))
    assert (measurement.runnable is None) == (measurement.reason is not None)
    measurement.release()
    return measurement.reason


def test_a_step_that_is_wrong_on_odd_sizes_alone_is_refused_and_the_reason_names_the_size() -> None:
    assert reason(RIGHT) is None
    refusal = reason(ONLY_EVEN)
    assert refusal and re.fullmatch(r"wrong result: error \S+, allowed 0.001 \(largest difference, on 7\)", refusal)


BEFORE = RIGHT.replace("y[i] =", "if (i == 0) y[i - 1] = 1; y[i] =")
READ_BEFORE = RIGHT.replace("2 * x[i]", "i ? 2 * x[i] : x[i] + x[i - 1]")
BEYOND = RIGHT.replace("y[i] =", "if (i == N - 1) y[N] = 1; y[i] =")
READ_BEYOND = RIGHT.replace("2 * x[i]", "i < N - 1 ? 2 * x[i] : x[i] + x[i + 1]")


def test_a_write_outside_of_a_buffer_is_detected_and_a_read_there_gets_no_zeros() -> None:
    assert reason(BEFORE) == "not accepted: it wrote before the start of a buffer of 256 bytes"
    assert str(reason(READ_BEFORE)).startswith("wrong result: error nan")
    assert reason(BEYOND) == "not accepted: it wrote behind the end of a buffer of 256 bytes"
    assert str(reason(READ_BEYOND)).startswith("wrong result: error nan")


def test_buffers_of_timed_runs_have_no_guards() -> None:
    for device in (open_device("opencl:0"), one_thread.OneThread(open_device("opencl:0"))):
        for guarded in (False, True):
            ledger, buffers = BufferLedger(guarded=guarded), list[Any]()
            ledger.plan(lambda device=device, buffers=buffers: buffers.append(device.empty(100)))  # type: ignore[misc]
            assert buffers[0].nbytes == buffers[0].memory.size == 100
            (record,) = ledger._records.values()
            assert record.allocation.nbytes == 100 + 2 * GUARD * guarded
            ledger.check_guards()
            buffers[0].release()
            ledger.check_guards()


def test_another_role_is_not_verified_there() -> None:
    assert reason(ONLY_EVEN, role="sweep") is None


def test_sizes_that_a_step_refuses_or_the_device_cannot_hold_are_left_out() -> None:
    lab, step = Doubling(), Variant("a", None, None, Doubled, "", "")
    case = lab.cases("large")[0]
    assert [small.name for _, small in lab.awkward_runs(case, step)] == ["7", "901"]
    at_most = replace(step, options={"at_most": 20})
    assert [small.name for _, small in lab.awkward_runs(case, at_most)] == ["7", "13"]
    assert reason(RIGHT, most=500) is None


def names_of(lab: Lab, variant: Variant, scale: str) -> list[list[str]]:
    cases = [case for case in lab.cases(scale) if lab.skip_reason(variant, case) is None]
    return [[small.name for _, small in lab.awkward_runs(case, variant)] for case in cases]


@pytest.mark.parametrize("name", ["stencil", "convpool", "cnn", "lbm", "lenet"])
def test_each_step_has_awkward_sizes_at_each_scale(name: str) -> None:
    lab = registry.get(name)
    for variant in lab.ladder:
        if variant.role == "step" and variant.is_for("opencl", "cpu"):
            for scale in SCALES:
                for names in names_of(lab, variant, scale):
                    assert 1 <= len(set(names)) == len(names) <= AWKWARD_RUNS, f"{variant.name} at {scale}: {names}"


def test_steps_that_cut_their_work_in_pieces_have_several_pieces_there() -> None:
    lbm, lenet = registry.get("lbm"), registry.get("lenet")
    for lab, variant, option in (
        (lbm, "chunks-1792", "chunk"),
        (lenet, "unrolled-constant", "minibatch"),
        (lenet, "segment=60", "segment"),
    ):
        full_variant = lab.variant(variant if "=" not in variant else f"streams@{variant}")
        for changed, small in lab.awkward_runs(lab.cases("quick")[0], full_variant):
            pieces = int(small.params.get("batch", small.units)) / int(changed.options[option])
            assert pieces > 2 and pieces != int(pieces)
