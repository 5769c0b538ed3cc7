"""A backend is one module, one dialect header and one record: a third one, in NumPy, is measured and comes to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.store_devices import StoreDevice
from roofbook.devices import backends
from roofbook.devices.backends import BACKENDS, CUDA, FEATURES, HOST, OPENCL
from roofbook.devices.contract import BuildFailed, Device
from roofbook.devices.find import devices, open_device
from roofbook.errors import UsageError
from roofbook.measure import schedule
from roofbook.measure.placement import target_of
from roofbook.measure.policy import Policy
from roofbook.spec.kernel_run import KernelRun
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Variant
from roofbook.spec.source import Source
from roofbook.store.parquet import Store

from ..plain_plan import PlainPlan
from .numpy_backend import KERNELS, NUMPY

N = 4096
CASE = Case("4096", "test", {"n": N}, 1)
KERNEL = """
KERNEL void NAME(GLOBAL float *RESTRICT out, GLOBAL const float *RESTRICT x, int n) {
  const int i = GLOBAL_ID(0);
  if (i < n) out[i] = FMA(x[i], 2, 1);
}
"""


class Doubled(PlainPlan, KernelRun):
    """Plan that computes 2 x + 1 by the kernel that the knob NAME names."""

    group, size = (64,), (N,)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source
        super().__init__(device, case.units)
        program = device.build(variant.source.render(device.backend))
        self.kernel = program.kernel(str(dict(variant.source.knobs)["NAME"]))
        self.out = np.empty(N, np.float32)
        self.buffers = [device.empty(self.out.nbytes), device.upload(inputs["x"])]

    def reset(self) -> None:
        self.queue.write(self.buffers[0], np.full(N, np.nan, np.float32))

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, *self.buffers, np.int32(N))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.buffers[0], self.out).astype(float)}


class Doubling(Lab):
    name, title, preferred_backend, unit, timed, bases, best = (
        "doubling",
        "Doubling",
        "numpy",
        "call",
        "kernel",
        ("loop",),
        "array",
    )

    def __init__(self, folder: Path) -> None:
        path = folder / "doubling.k"
        path.write_text(KERNEL)
        source = Source.of(path, NAME="loop")
        loop = Variant("loop", None, source, Doubled, "An element after the other.", "The base.")
        tensor = Variant("tensor", "array", source, Doubled, "On tensor cores.", "", frozenset({"wgmma"}))
        wrong = replace(
            loop, name="wrong", parent="loop", source=source.with_knobs(NAME="wrong"), change="One is missing."
        )
        array = replace(
            loop, name="array", parent="loop", source=source.with_knobs(NAME="array"), change="All at once."
        )
        self.ladder = (loop, array, wrong, tensor)

    def cases(self, scale: str) -> Sequence[Case]:
        return [CASE]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"x": np.random.default_rng(seed).random(N, np.float32)}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"out": 2.0 * inputs["x"].astype(float) + 1}

    def check(self, case: Case, variant: Variant, outputs: Any, reference: Any) -> tuple[float, float, str]:
        return float(np.abs(outputs["out"] - reference["out"]).max()), 1e-6, "largest error"

    def work(self, case: Case) -> Work:
        return Work(2 * N, 8 * N, 8 * N)


def loop(out: np.ndarray, x: np.ndarray, n: int) -> None:
    for i in range(n):
        out[i] = x[i] * 2 + 1


def array(out: np.ndarray, x: np.ndarray, n: int) -> None:
    np.add(2 * x[:n], 1, out=out[:n])


def wrong(out: np.ndarray, x: np.ndarray, n: int) -> None:
    array(out, x, n - 1)


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the backend, its dialect and its kernels."""
    monkeypatch.setitem(BACKENDS, NUMPY.name, NUMPY)
    for kernel in (loop, array, wrong):
        monkeypatch.setitem(KERNELS, kernel.__name__, kernel)


@pytest.mark.usefixtures("third")
def test_rows_of_a_third_backend_come_to_a_table(tmp_path: Path) -> None:
    lab, device, store = Doubling(tmp_path), open_device("numpy:0"), Store(tmp_path / "results")
    policy = Policy(budget_s=0.01)
    cells = schedule.plan(lab, [CASE], lab.ladder, device, store, policy)
    assert [(cell.variant.name, cell.backend) for cell in cells] == [
        (name, "numpy") for name in ("loop", "array", "wrong")
    ]
    done = schedule.bring_up_to_date(cells, device, store, policy)
    assert (done.measured, done.failed) == (3, 1)
    rows = store.rows("doubling", backend="numpy", device="numpy-on-a-core")
    assert list(rows["role"]) == ["step", "step", "step", "again"]
    order = [variant.name for variant in lab.ladder]
    changes = {variant.name: variant.change for variant in lab.ladder}
    lacking = {"tensor": "not on this device"}
    data = CaseData(rows, order, CASE.name, lab.bases, changes=changes, skip_reasons=lacking)
    table = report.ladder(data)
    shown_rows = table.frame.set_index("variant")
    assert shown_rows.loc["array", "vs_base"] > 1 and shown_rows.loc["wrong", "status"] == "failed"
    assert "All at once." in table.text and "not on this device" in table.text
    assert "NumPy: no compiler tells" in report.resources(data).text
    assert StoreDevice("numpy-on-a-core", "numpy", "NumPy on a core", "cpu").backend_label == "NumPy"
    again = schedule.plan(lab, [CASE], lab.ladder, device, store, policy)
    assert [cell.state for cell in again] == ["fresh", "fresh", "failed"]


@pytest.mark.usefixtures("third")
def test_a_third_backend_is_found_and_offered_as_the_others_are(
    tmp_path: Path, command: Callable[..., tuple[Any, str, str]]
) -> None:
    assert open_device("auto", "numpy").kind == devices()[0].kind and devices()[-1].spec == "numpy:0"
    with pytest.raises(UsageError, match="numpy:0"):
        open_device("numpy:1")
    assert "numpy:0    cpu  NumPy on a core (NumPy)" in command("devices")[1]
    source = Doubling(tmp_path).ladder[0].source
    assert source is not None
    assert source.render("numpy").split()[:3] == ["kernel", "void", "loop("]
    assert source.resolve() == replace(source).resolve(), "what decides a row's identity knows no backend"
    with pytest.raises(BuildFailed, match="no function nowhere"):
        open_device("numpy:0").build("kernel void nowhere() {}")


@pytest.mark.usefixtures("third")
def test_a_dialect_header_that_changes_is_rendered_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, header = Doubling(tmp_path).ladder[0].source, tmp_path / "changed.h"
    assert source is not None and "id[0]" in source.render("numpy")
    header.write_text(NUMPY.dialect.read_text().replace("id[d]", "item[d]"))
    monkeypatch.setitem(BACKENDS, "numpy", replace(NUMPY, dialect=header))
    assert "item[0]" in source.render("numpy")


def test_a_variant_runs_where_all_that_it_needs_is(tmp_path: Path) -> None:
    plain = Doubling(tmp_path).ladder[0]
    assert plain.backends == {CUDA.name, OPENCL.name}
    assert replace(plain, needs=frozenset({"wgmma", "graphs"})).backends == {CUDA.name}
    assert replace(plain, needs=frozenset({"cpu"})).backends == {OPENCL.name}
    assert replace(plain, needs=frozenset({"cpu", "wgmma"})).backends == frozenset()
    assert replace(plain, needs=frozenset({HOST}), source=None).backends == {HOST}
    (tmp_path / "only.cu").write_text('extern "C" __global__ void only() {}\n')
    assert replace(plain, source=Source.of(tmp_path / "only.cu")).backends == {CUDA.name}, "by its source alone"
    device: Any = type("Device", (), {"backend": OPENCL.name, "kind": "gpu"})()
    assert target_of(replace(plain, needs=frozenset({"wgmma"})), device) is None
    assert target_of(plain, device) and target_of(replace(plain, kind="gpu"), device)
    assert target_of(replace(plain, kind="cpu"), device) is None, "whichever backend has it"
    with pytest.raises(ValueError, match="no feature wgma; there are"):
        replace(plain, needs=frozenset({"wgma"}))
    with pytest.raises(ValueError, match="no feature imagse"):
        replace(NUMPY, features=frozenset({"imagse"}))


def test_every_feature_is_one_that_a_backend_has() -> None:
    assert set(FEATURES) == {HOST}.union(*(backend.features for backend in BACKENDS.values()))
    assert list(BACKENDS) == [backend.name for backend in BACKENDS.values()]
    for backend in BACKENDS.values():
        assert backend.dialect.is_file() and all(header.is_file() for header in backend.lacks.values())
    assert (backends.label("cuda"), backends.label(HOST)) == ("CUDA", HOST)
    assert not backends.has(HOST, "cpu") and backends.has("opencl", "cpu")
