"""The backend WebGPU: it is found only where it is named, keeps the contract of a backend, and its steps are verified.

All but the first tests need an adapter; Debian's mesa-vulkan-drivers is one for the CPU.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices import find, webgpu
from roofbook.devices.backends import BACKENDS, ON_REQUEST, WEBGPU
from roofbook.devices.contract import BuildFailed, OutOfMemory, Unsupported
from roofbook.devices.launch_recorder import USUAL, LaunchRecorder
from roofbook.devices.provenance import environment
from roofbook.errors import UsageError
from roofbook.measure import placement, schedule
from roofbook.measure.case_run import measure_case
from roofbook.measure.placement import Setting, Target, target_of
from roofbook.measure.policy import Policy
from roofbook.paths import LIBRARY
from roofbook.spec import registry, source
from roofbook.spec.host_code import hash_of_text
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case, Variant
from roofbook.store.parquet import Store

Command = Callable[..., tuple[Any, str, str]]
ADD = """override group_x: u32;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
struct Arguments { added: f32, count: i32 }
@group(0) @binding(2) var<uniform> arguments: Arguments;
// Kernel add of one axis, with the arguments x (binding 0), added (f32), count
// (i32), y (binding 1).
@compute @workgroup_size(group_x, 1, 1)
fn add(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
       @builtin(local_invocation_id) lane: vec3<u32>) {
  let i = i32((group.x + group.y * groups.x) * group_x + lane.x);
  if (i < arguments.count) { y[i] = x[i] + arguments.added; }
}
"""
"""A kernel as the translation writes one, with its arguments in another order than their bindings."""


def test_nothing_imports_wgpu_before_it_is_named() -> None:
    code = (
        "import sys; from roofbook.devices import find; find.devices(); find.why_auto()\n"
        "try: find.open_device('auto')\n"
        "except Exception: pass\n"
        "assert not {'wgpu', 'pycparser'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_auto_and_the_list_of_devices_leave_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(WEBGPU), "devices", lambda backend: [] if backend in BACKENDS.values() else 1 / 0)
    assert find.devices() == [] and find.why_auto() == ""
    with pytest.raises(UsageError, match="no device"):
        find.open_device("auto", "opencl")


def test_a_machine_without_an_adapter_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(WEBGPU), "devices", lambda backend: [])
    with pytest.raises(UsageError, match=r"no WebGPU adapter: `pip install 'roofbook\[webgpu\]'`"):
        find.open_device("webgpu:0")


def test_the_kernel_is_shown_as_wgsl_or_the_reason_why_not(command: Command) -> None:
    code, out, _ = command("show", "lbm", "fused", "--as", "wgsl")
    assert not code and "@compute @workgroup_size(" in out and "var<storage, read> fused_from: array<f32>;" in out
    code, _, error = command("show", "stencil", "streams", "--as", "wgsl")
    assert code and "streams has no wgsl form: WebGPU lacks: devices that are the host's own CPU" in error


def test_the_list_of_devices_has_them_on_request(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    info = {
        "device": "Made-up GPU",
        "adapter_type": "IntegratedGPU",
        "backend_type": "Metal",
        "vendor_id": 1,
        "description": "",
    }
    adapter = types.SimpleNamespace(
        info=info, limits=dict.fromkeys(webgpu.LIMITS, 1 << 20), features={"timestamp-query"}
    )
    monkeypatch.setattr(webgpu, "devices", lambda: [webgpu.WebGPUDevice(adapter, 0)])
    pytest.importorskip("wgpu")
    _, out, _ = command("devices", "webgpu")
    assert (
        out.startswith("webgpu:0   gpu  Made-up GPU")
        and "Metal, wgpu-native" in out
        and not re.search("auto takes|units", out)
    )
    assert "webgpu" not in command("devices")[1]
    code, _, error = command("devices", "vulkan")
    assert code and "valid: cuda, opencl, webgpu, webgpu-unchecked" in error
    monkeypatch.setattr(webgpu, "devices", list)
    code, _, error = command("devices", "webgpu")
    assert code and "no WebGPU adapter" in error


@pytest.fixture(scope="module")
def adapter() -> Any:
    """The first adapter of WebGPU."""
    if not (present := ON_REQUEST["webgpu"].devices()):
        pytest.skip(WEBGPU.absent)
    return present[0]


def test_an_adapter_is_opened_by_its_name_and_says_what_it_is(adapter: Any) -> None:
    assert find.open_device("webgpu:0") is adapter is find.open_device(f"webgpu:{adapter.name.split()[0]}")
    with pytest.raises(UsageError, match=r"webgpu:77.*valid: auto, webgpu:0"):
        find.open_device("webgpu:77")
    known = environment(adapter)
    assert {"backend", "model", "device", "platform", "driver", "limits", "timer"} == set(known["device"])
    assert {"wgpu", "pycparser"} <= set(known["libraries"]) and "wgpu-native" in known["device"]["platform"]


def test_an_adapter_without_checks_runs_the_same_text_and_has_rows_of_its_own(adapter: Any) -> None:
    unchecked = find.open_device("webgpu-unchecked:0")
    assert unchecked.slug == adapter.slug and environment(unchecked) != environment(adapter)
    lab = registry.get("stencil")
    case, step = lab.cases("test")[0], lab.variant("flat")
    rows: list[dict[str, Any]] = []
    setting = Setting(lab, case, adapter, Policy(budget_s=1e-6))
    measure_case(setting, [step], run="20260101T000000Z-abcdef", keep=rows.extend, further_devices=[unchecked])
    assert [(row["backend"], row["status"]) for row in rows] == [("webgpu", "ok"), ("webgpu-unchecked", "ok")]
    assert set(rows[0]["rounds"]) & set(rows[1]["rounds"]), "in the same rounds"
    assert rows[0]["cell_key"] != rows[1]["cell_key"] and rows[0]["source_sha256"] == rows[1]["source_sha256"]


def test_a_step_is_stored_with_all_its_backends_before_the_next_one_begins(adapter: Any) -> None:
    lab, kept = registry.get("stencil"), list[list[tuple[str, str]]]()
    setting = Setting(lab, lab.cases("test")[0], adapter, Policy(budget_s=1e-6))

    def keep(rows: list[dict[str, Any]]) -> None:
        kept.append([(row["variant"], row["backend"]) for row in rows])
        if len(kept) == 2:
            raise KeyboardInterrupt

    steps, others = (
        [lab.variant(name) for name in ("flat", "float4", "fused")],
        [find.open_device("webgpu-unchecked:0")],
    )
    with pytest.raises(KeyboardInterrupt):
        measure_case(setting, steps, run="20260101T000000Z-abcdef", keep=keep, further_devices=others, one_by_one=True)
    backends = ("webgpu", "webgpu-unchecked")
    assert kept == [[(name, backend) for backend in backends] for name in ("flat", "float4")]


def test_a_wrong_text_is_an_error_without_checks_too(adapter: Any) -> None:
    with pytest.raises(BuildFailed):
        find.open_device("webgpu-unchecked:0").build("@compute @workgroup_size(1) fn f() { let x: u32 = 1.5; }")


def test_the_card_of_an_adapter_is_known_where_there_is_only_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml: Any = types.ModuleType("pynvml")
    pynvml.NVMLError, pynvml.nvmlInit = OSError, lambda: None
    pynvml.nvmlDeviceGetHandleByIndex = lambda at: at
    pynvml.nvmlDeviceGetPciInfo = lambda handle: types.SimpleNamespace(busId=b"0000:06:00.0")
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    for count, bus_id in ((1, "0000:06:00.0"), (2, None)):
        pynvml.nvmlDeviceGetCount = lambda count=count: count
        info = {"device": "NVIDIA H200", "adapter_type": "DiscreteGPU", "vendor_id": 0x10DE}
        limits = dict.fromkeys(webgpu.LIMITS, 1 << 20)
        adapter = types.SimpleNamespace(info=info, limits=limits, features={"timestamp-query"})
        device = webgpu.WebGPUDevice(adapter, 0)
        assert (device.kind, device.slug, device.pci_bus_id) == ("gpu", "nvidia-h200", bus_id)


def added(adapter: Any, count: int, group: int = 64) -> tuple[np.ndarray, Any]:
    """Return x + 2 by ADD, and the queue."""
    kernel, queue = adapter.build(ADD).kernel("add"), adapter.queue()
    size = -(-count // group) * group
    x = np.arange(size, dtype=np.float32) % 1000
    buffers = adapter.upload(x), adapter.upload(np.full(size, np.nan, np.float32))
    queue.launch(kernel, (size,), (group,), buffers[0], np.float32(2), np.int32(count), buffers[1])
    y = queue.read(buffers[1], np.empty(count, np.float32))
    np.testing.assert_array_equal(y, x[:count] + 2)
    return y, queue


def test_arguments_are_bound_by_the_comment_of_a_kernel(adapter: Any) -> None:
    added(adapter, 100)
    with pytest.raises(BuildFailed, match="no kernel in it is named nothing"):
        adapter.build(ADD).kernel("nothing")
    with pytest.raises(RuntimeError, match="add was not launched: it takes 4 arguments, and 1 are given"):
        adapter.queue().launch(adapter.build(ADD).kernel("add"), (64,), (64,), np.float32(1))
    with pytest.raises(RuntimeError, match="groups do not divide the range"):
        adapter.queue().launch(adapter.build(ADD).kernel("add"), (65,), (64,), *[np.float32(1)] * 4)


def test_numbers_are_converted_to_the_types_of_a_kernel() -> None:
    text = ADD.replace("(i32), y", "(u32), y").replace("count: i32", "count: u32")
    kernel = LaunchRecorder().build(text).kernel("add")
    given: dict[tuple[Any, Any], tuple[float, int]] = {
        (2, 3): (2, 3),
        (np.float64(2.5), np.int32(-1)): (2.5, 2**32 - 1),
        (np.float32(2), np.bool_(1)): (2, 1),
        (1e300, 3.0): (np.inf, 3),
    }
    for (by, n), (real, whole) in given.items():
        with np.errstate(over="ignore"):
            numbers = kernel.numbers_of([None, by, n, None])
        assert numbers == np.float32(real).tobytes() + np.uint32(whole).tobytes(), (by, n)


def test_the_bytes_of_local_arrays_are_those_of_their_types() -> None:
    kinds = {"f32": 4, "vec4<f32>": 16, "vec2<f16>": 4, "f16": 2, "atomic<u32>": 4}
    for kind, nbytes in kinds.items():
        text = f"var<workgroup> tile: array<{kind}, 100>;\n{ADD.replace('let i =', 'tile[0]; let i =')}"
        assert LaunchRecorder().build(text).kernel("add").local_bytes == 100 * nbytes, kind


def test_a_long_range_of_one_axis_is_folded(adapter: Any) -> None:
    most = adapter.limits["max-compute-workgroups-per-dimension"]
    added(adapter, 2 * (most + 1), group=2)
    with pytest.raises(Unsupported, match=rf"groups along an axis: {most} at most"):
        adapter.queue().launch(adapter.build(ADD).kernel("add"), (2147483647,), (1,), *[np.float32(1)] * 4)


def test_launches_with_many_numbers_are_kept_apart(adapter: Any) -> None:
    """More sets of numbers than their buffer holds, all before the host waits."""
    kernel, queue = adapter.build(ADD).kernel("add"), adapter.queue()
    buffers = [adapter.upload(np.zeros(64, np.float32)) for _ in range(2)]
    for step in range(5000):
        queue.launch(
            kernel, (64,), (64,), buffers[step % 2], np.float32(step % 4099), np.int32(64), buffers[1 - step % 2]
        )
    total = queue.read(buffers[0], np.empty(64, np.float32))
    assert set(total) == {float(sum(step % 4099 for step in range(5000)))}


def test_many_launches_are_submitted_together_and_a_lap_as_a_whole(
    adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, queue, count = adapter.build(ADD).kernel("add"), adapter.queue(), 3 * webgpu.SUBMITTED_TOGETHER + 1
    buffers = [adapter.upload(np.zeros(64, np.float32)) for _ in range(2)]
    kind, submitted = type(adapter.handle.queue), list[Any]()
    submit = kind.submit

    def noted(self: Any, commands: Any) -> None:
        submitted.extend(commands)
        submit(self, commands)

    def launch() -> int:
        """Launch it, and return the number of submissions meanwhile."""
        before = len(submitted)
        for step in range(count):
            queue.launch(kernel, (64,), (64,), buffers[step % 2], np.float32(1), np.int32(64), buffers[1 - step % 2])
        return len(submitted) - before

    monkeypatch.setattr(kind, "submit", noted)
    assert launch() == 3
    assert set(queue.read(buffers[1], np.empty(64, np.float32))) == {count}
    if adapter.has_timestamps:
        within_laps: list[int] = []
        queue.laps(*[lambda: within_laps.append(launch())] * 2)
        assert within_laps == [0, 0]


def test_launches_that_wait_still_find_a_buffer_that_is_released(adapter: Any) -> None:
    kernel, queue = adapter.build(ADD).kernel("add"), adapter.queue()
    one, two, three = (adapter.upload(np.full(64, value, np.float32)) for value in (1, 0, 0))
    queue.launch(kernel, (64,), (64,), one, np.float32(1), np.int32(64), two)
    queue.launch(kernel, (64,), (64,), two, np.float32(1), np.int32(64), three)
    one.release()
    two.release()
    assert set(queue.read(three, np.empty(64, np.float32))) == {3.0}


def test_reads_and_writes_of_any_bytes(adapter: Any) -> None:
    queue, data = adapter.queue(), np.arange(37, dtype=np.uint8)
    buffer, other = adapter.upload(data), adapter.empty(37)
    for offset, count in ((0, 37), (1, 5), (6, 31)):
        np.testing.assert_array_equal(
            queue.read(buffer, np.empty(count, np.uint8), offset), data[offset : offset + count]
        )
    queue.copy(other, buffer)
    queue.send(other, np.array([200, 201, 202], np.uint8), 8)
    right = data.copy()
    right[8:11] = 200, 201, 202
    np.testing.assert_array_equal(queue.read(other, np.empty(37, np.uint8)), right)
    for byte in (0, 7):
        queue.fill(other, byte)
        assert set(queue.read(other, np.empty(37, np.uint8))) == {byte}


def test_laps_are_times_of_the_device(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, queue = added(adapter, 64)
    kernel, count = adapter.build(ADD).kernel("add"), 1 << 18
    buffers = [adapter.upload(np.zeros(count, np.float32)) for _ in range(2)]

    def launch(times: int) -> Callable[[], None]:
        def submit() -> None:
            for _ in range(times):
                queue.launch(kernel, (count,), (64,), buffers[0], np.float32(1), np.int32(count), buffers[1])
                queue.copy(buffers[0], buffers[1])  # ends the pass: a lap may have several

        return submit

    for timestamps in (True, False):
        monkeypatch.setattr(type(adapter), "has_timestamps", timestamps)
        laps = [queue.laps(launch(1), launch(30)) for _ in range(5)]
        few, many = (min(lap) for lap in zip(*laps, strict=True))
        assert 0 < few < many < 100 * 30 * few, "the quietest of five, on a busy machine"


def test_cooperative_matrices_are_refused_as_the_page_says(adapter: Any) -> None:
    """Once a version of the package grants them, a step can use tensor cores."""
    if "cooperative-matrix" not in adapter.adapter.features:
        pytest.skip("this adapter has no cooperative matrices")
    with pytest.raises(RuntimeError, match="experimental features are not enabled") as refused:
        adapter.adapter.request_device_sync(required_features=["cooperative-matrix"])
    page = " ".join((LIBRARY.parents[1] / "book" / "webgpu.md").read_text(encoding="utf-8").split())
    assert str(refused.value).strip().splitlines()[-1].strip() in page


def test_more_than_an_adapter_has_is_refused(adapter: Any) -> None:
    with pytest.raises(OutOfMemory, match="at most in one buffer"):
        adapter.empty(adapter.limits["max-buffer-size"] + 16)
    with pytest.raises(BuildFailed, match="nowhere"):
        adapter.build("@compute @workgroup_size(1) fn made() { nowhere(); }")
    big = f"var<workgroup> big: array<f32, {adapter.local_bytes}>;\n"
    text = ADD.replace("@group(0) @binding(0)", f"{big}@group(0) @binding(0)", 1).replace(
        "let i =", "big[0] = 1.0f; let i ="
    )
    with pytest.raises(Unsupported, match=f"{4 * adapter.local_bytes} bytes of local memory"):
        adapter.build(text).kernel("add").pipeline((64,))


FEW = [
    ("stencil", "checked"), ("stencil", "local-memory"), ("stencil", "float4"), ("cnn", "unrolled"), ("cnn", "double-buffered"),
    ("lbm", "flat-grid"), ("lbm", "in-place"), ("lbm", "half-storage"), ("convpool", "atomic-pool"),
    ("lbm", "walk-down"), ("convpool", "both-sparse"), ("lenet", "linear-atomic"), ("lenet", "joint"),
    ("lenet", "halves"),
]  # fmt: skip
PLAN_SETS_KNOBS = {("lbm", "walk-down"), ("lenet", "halves")}
"""Steps whose plan sets further knobs, by the device or by its options."""


def verified(adapter: Any, lab: Lab, case: Case, variant: Variant) -> str:
    """Run a step once; return the lab's verdict, or why the adapter cannot run it."""
    inputs = lab.inputs(case, 1)
    try:
        runnable = variant.plan(adapter, variant, case, inputs)
        runnable.reset()
        runnable.run()
    except Unsupported as reason:
        return str(reason)
    outputs = runnable.outputs()
    runnable.close()
    error, tolerance, compared = lab.check(case, variant, outputs, lab.reference(case, inputs))
    return "right" if error <= tolerance else f"{error} {compared}"


@pytest.mark.parametrize(("lab", "step"), FEW)
def test_a_step_is_right_by_its_labs_own_check(adapter: Any, lab: str, step: str) -> None:
    chosen = registry.get(lab)
    variant = chosen.variant(step)
    assert target_of(variant, adapter) == (adapter, "webgpu")
    assert verified(adapter, chosen, chosen.cases("test")[0], variant) == "right"


@pytest.mark.thorough
@pytest.mark.parametrize("lab", ["stencil", "cnn", "lbm", "convpool", "lenet"])
def test_each_step_is_right_or_too_large_for_this_adapter(adapter: Any, lab: str) -> None:
    chosen = registry.get(lab)
    steps = [v for v in chosen.ladder if target_of(v, adapter) == (adapter, "webgpu") and v.name != "whole-program"]
    assert steps
    for case in chosen.cases("test"):
        for step in steps:
            if not chosen.skip_reason(step, case):
                verdict = verified(adapter, chosen, case, step)
                assert verdict == "right" or "of local memory" in verdict, f"{step.name} on {case.name}: {verdict}"


@pytest.mark.parametrize(("lab", "step"), [pair for pair in FEW if pair not in PLAN_SETS_KNOBS])
def test_a_row_names_the_wgsl_that_its_plan_builds(lab: str, step: str) -> None:
    chosen = registry.get(lab)
    variant, case, texts = chosen.variant(step), chosen.cases("test")[0], list[str]()

    class Recorder(LaunchRecorder):
        def build(self, text: str, options: Any = ()) -> webgpu.Program:
            texts.append(text)
            return super().build(text, options)

    device = Recorder(USUAL)
    variant.plan(device, variant, case, chosen.inputs(case, 1))
    named = placement.wgsl_sha256(chosen, case, variant, Target(device, "webgpu"))
    assert named in {hash_of_text(text) for text in texts}
    assert named == placement.wgsl_sha256(chosen, case, variant, Target(device, "webgpu-unchecked"))
    assert placement.wgsl_sha256(chosen, case, variant, Target(device, "cuda")) == ""


def test_a_row_is_stale_once_its_kernel_is_translated_otherwise(
    adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, store, policy = registry.get("stencil"), Store(tmp_path), Policy(budget_s=1e-6)
    case, steps = lab.cases("test")[0], [lab.variant("flat")]

    def planned() -> schedule.Planned:
        (cell,) = schedule.plan(lab, [case], steps, adapter, store, policy)
        return cell

    schedule.bring_up_to_date([planned()], adapter, store, policy)
    assert planned().state == "fresh"
    translate, named = source.translate, steps[0].text.of_size(lab.sizes(case)).translation_sha256("webgpu")
    monkeypatch.setattr(source, "translate", lambda *texts: translate(*texts) + "// a comment\n")
    assert planned().state == "fresh", "the code is the same"
    monkeypatch.setattr(source, "translate", lambda *texts: translate(*texts) + "const unused = 0;\n")
    assert planned().state == "stale-code" and planned().why.startswith("translation to WGSL changed since 20")
    (row,) = store.rows("stencil").query("role == 'step'").to_dict("records")
    assert json.loads(row["extra"])["wgsl_sha256"] == named != ""


def test_a_measurement_of_a_step_is_a_row(adapter: Any, tmp_path: Path) -> None:
    lab, store, policy = registry.get("stencil"), Store(tmp_path), Policy(budget_s=0.01)
    case = lab.cases("test")[0]
    steps = [lab.variant(name) for name in ("checked", "flat", "streams")]
    cells = schedule.plan(lab, [case], steps, adapter, store, policy)
    assert [(cell.variant.name, cell.backend) for cell in cells] == [("checked", "webgpu"), ("flat", "webgpu")]
    done = schedule.bring_up_to_date(cells, adapter, store, policy)
    assert (done.measured, done.failed) == (2, 0)
    assert {row.backend for row in store.rows("stencil").itertuples()} == {"webgpu"}
