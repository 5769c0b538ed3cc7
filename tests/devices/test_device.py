"""Contract of a backend with the rest of the book, on every device present."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices import contract, cuda, opencl
from roofbook.devices.contract import BuildFailed, Device, OutOfMemory, Unsupported
from roofbook.devices.find import open_device
from roofbook.spec.source import Source

AXPY = """
KERNEL void axpy(GLOBAL float *RESTRICT y, GLOBAL const float *RESTRICT x, float a, int n) {
  const int i = GLOBAL_ID(1) * GLOBAL_SIZE(0) + GLOBAL_ID(0);
  if (i < n) {
    y[i] = FMA(a, x[i], y[i]);
  }
}
KERNEL void ids(GLOBAL int *RESTRICT out) {
  LOCAL_ARRAY(int, kept, 8);
  const int lane = LOCAL_ID(1) * LOCAL_SIZE(0) + LOCAL_ID(0);
  kept[7 - lane] = LOCAL_ID(0) + 10 * LOCAL_ID(1) + 100 * GROUP_ID(0) + 1000 * GROUP_ID(1);
  BARRIER();
  out[GLOBAL_ID(1) * GLOBAL_SIZE(0) + GLOBAL_ID(0)] = kept[lane] + 10000 * GROUPS(0) + 100000 * GROUPS(1);
}
KERNEL void work(GLOBAL float *RESTRICT out, int rounds) {
  float x = GLOBAL_ID(0);
  for (int i = 0; i < rounds; i++) {
    x = FMA(x, 0.999f, 0.5f);
  }
  out[GLOBAL_ID(0)] = SQRT(x);
}
KERNEL void halves(GLOBAL HALF *RESTRICT to, GLOBAL const HALF *RESTRICT from) {
  const int i = GLOBAL_ID(0);
  STORE_HALF(to, i, SELECT(2.0f, 3.0f, i % 2 == 1) * LOAD_HALF(from, i));
}
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Device], str]:
    path = tmp_path_factory.mktemp("kernels") / "contract.k"
    path.write_text(AXPY)
    return lambda device: Source.of(path).render(device.backend)


@pytest.fixture(scope="module")
def program(device: Device, text: Callable[[Device], str]) -> contract.Program:
    return device.build(text(device))


# -- the contract, the same body on every device -----------------------------------------------------------------------


def test_a_device_tells_what_it_is(device: Device) -> None:
    assert device.backend in ("opencl", "cuda") and device.kind in ("cpu", "gpu") and device.name == device.name.strip()
    assert device.slug and device.slug == device.slug.strip("-").lower() and " " not in device.slug
    for amount in (device.compute_units, device.memory_bytes, device.local_bytes, device.max_work_group):
        assert isinstance(amount, int) and amount > 0
    identity = device.identity()
    assert {"backend", "model", "device", "platform", "driver"} == set(identity) - {"threads", "compiled for"}
    assert all(isinstance(value, str) and value for value in identity.values()) and identity == device.identity()
    assert open_device(device.spec) is device


def test_write_read_and_copy(device: Device) -> None:
    queue = device.queue()
    values = np.arange(1000, dtype=np.float32)
    one, copy = device.upload(values), device.empty(4000)
    assert one.nbytes == copy.nbytes == 4000
    queue.copy(copy, one)
    got = np.empty(1000, np.float32)
    assert queue.read(copy, got) is got
    np.testing.assert_array_equal(got, values)
    queue.write(one, values[::-1])  # a view that does not lie in one piece
    np.testing.assert_array_equal(queue.read(one, got), values[::-1])
    np.testing.assert_array_equal(queue.read(copy, got), values)
    values[:] = -1  # what was written is the device's own
    assert queue.read(one, got)[0] == 999
    for buffer in (one, copy):
        buffer.release()


def test_a_write_of_a_part_and_a_read_from_an_offset(device: Device) -> None:
    queue = device.queue()
    buffer = device.upload(np.arange(100, dtype=np.int32))
    assert queue.read(buffer, np.empty(5, np.int32), offset=4 * 42).tolist() == [42, 43, 44, 45, 46]
    assert queue.read(buffer, np.empty(1, np.int32), offset=4 * 99).tolist() == [99]
    queue.write(buffer, np.full(3, -7, np.int32))
    assert queue.read(buffer, np.empty(5, np.int32)).tolist() == [-7, -7, -7, 3, 4]


@pytest.mark.parametrize(("size", "local"), [((1024,), (64,)), ((64, 16), (16, 4)), ((8, 128), (1, 128))])
def test_launch_in_one_and_two_dimensions(
    device: Device, program: contract.Program, size: tuple[int, ...], local: tuple[int, ...]
) -> None:
    queue, n = device.queue(), 1000
    x, y = device.upload(np.arange(n, dtype=np.float32)), device.upload(np.full(1024, 0.5, np.float32))
    kernel = program.kernel("axpy")
    if len(size) == 1:
        queue.launch(kernel, size, local, y, x, np.float32(2), np.int32(n))
    else:
        queue.launch(kernel, size, local, y, x, np.float32(2), np.int32(n))
        queue.launch(kernel, size, local, y, x, np.float32(-1), np.int32(1))
    got = queue.read(y, np.empty(1024, np.float32))
    want = np.where(np.arange(1024) < n, 2 * np.arange(1024) + 0.5, 0.5)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("size", "local"), [((100,), (64,)), ((64, 10), (16, 4)), ((1 << 20,), (1 << 20,))])
def test_a_launch_that_opencl_refuses_names_the_kernel_its_groups_and_its_range(
    device: Device, program: contract.Program, size: tuple[int, ...], local: tuple[int, ...]
) -> None:
    if device.backend != "opencl":
        pytest.skip("a refusal of OpenCL")
    y = device.upload(np.zeros(8, np.float32))
    group, items = (" x ".join(map(str, sizes)) for sizes in (local, size))
    words = rf"^axpy was not launched, INVALID_WORK_GROUP_SIZE: groups of {group} in a range of {items}(, which|$)"
    with pytest.raises(RuntimeError, match=words):
        device.queue().launch(program.kernel("axpy"), size, local, y, y, np.float32(2), np.int32(8))


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_launch_with_more_or_fewer_arguments_says_how_many_are_taken(
    device: Device, program: contract.Program, count: int
) -> None:
    if device.backend != "opencl":
        pytest.skip("CUDA does not tell how many arguments a kernel takes")
    y = device.upload(np.zeros(8, np.float32))
    arguments = [y, y, np.float32(2), np.int32(8), np.int32(8)][:count]
    words = f"^axpy was not launched: it takes 4 arguments, and {count} are given$"
    with pytest.raises(RuntimeError, match=words):
        device.queue().launch(program.kernel("axpy"), (64,), (64,), *arguments)


@pytest.mark.parametrize("text", ["{0} ", " {0}", "{0}\n", "{1} : {2}", "{1}: {2}"])
def test_blanks_around_a_device_do_not_count(device: Device, text: str) -> None:
    assert open_device(text.format(device.spec, *device.spec.split(":"))) is device


def test_work_items_groups_local_memory_and_barriers(device: Device, program: contract.Program) -> None:
    queue, out = device.queue(), device.empty(4 * 16 * 6)
    queue.launch(program.kernel("ids"), (16, 6), (4, 2), out)
    got = queue.read(out, np.empty((6, 16), np.int32))
    y, x = np.indices((6, 16))
    lane = 7 - ((y % 2) * 4 + x % 4)
    want = lane % 4 + 10 * (lane // 4) + 100 * (x // 4) + 1000 * (y // 2) + 10000 * 4 + 100000 * 3
    np.testing.assert_array_equal(got, want)


def test_halves_are_rounded_to_nearest_even(device: Device, program: contract.Program) -> None:
    values = np.array([1, 1.0009765625, -0.25, 6.1e-5, 0.1, 20000], np.float16)
    queue, source, target = device.queue(), device.upload(values), device.empty(values.nbytes)
    queue.launch(program.kernel("halves"), (6,), (6,), target, source)
    want = (values.astype(np.float32) * np.tile([2, 3], 3).astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(queue.read(target, np.empty_like(values)), want)


def test_a_queue_is_in_order_and_two_queues_see_what_is_finished(device: Device, program: contract.Program) -> None:
    first, second = device.queue(), device.queue()
    y, x = device.upload(np.zeros(1024, np.float32)), device.upload(np.ones(1024, np.float32))
    kernel = program.kernel("axpy")
    for _ in range(200):
        first.launch(kernel, (1024,), (64,), y, x, np.float32(1), np.int32(1024))
        first.copy(x, y)
        first.launch(kernel, (1024,), (64,), x, y, np.float32(-0.5), np.int32(1024))
    first.finish()
    steps = np.float32(1), np.float32(0)
    for _ in range(200):
        steps = np.float32(0.5) * (steps[0] + steps[1]), steps[0] + steps[1]
    assert set(second.read(y, np.empty(1024, np.float32)).tolist()) == {float(steps[1])}


def test_a_queue_times_its_kernels_by_the_devices_own_clock(device: Device, program: contract.Program) -> None:
    queue, out, kernel = device.queue(profiling=True), device.empty(4 * 4096), program.kernel("work")

    def seconds(rounds: int) -> tuple[float, float]:
        queue.finish()
        began = time.perf_counter()
        timed = queue.timed(lambda: queue.launch(kernel, (4096,), (64,), out, np.int32(rounds)))
        return timed, time.perf_counter() - began

    seconds(1)
    short, (long, wall) = min(seconds(1000)[0] for _ in range(5)), seconds(200_000)
    assert 0 <= short < long <= wall * 1.01
    assert long > wall / 200, "in seconds: on a busy machine the host waits longer than the device works"


def test_laps_cover_the_whole_and_tell_short_from_long(device: Device, program: contract.Program) -> None:
    queue, out, kernel = device.queue(profiling=True), device.empty(4 * 4096), program.kernel("work")

    def work(rounds: int) -> Callable[[], None]:
        return lambda: queue.launch(kernel, (4096,), (64,), out, np.int32(rounds))

    queue.laps(work(1))
    laps = []
    for _ in range(5):
        began = time.perf_counter()
        laps.append(queue.laps(work(1000), work(20_000), work(1000)))
        assert min(laps[-1]) >= 0 and sum(laps[-1]) <= (time.perf_counter() - began) * 1.01
    short, long, again = (min(lap) for lap in zip(*laps, strict=True))
    assert max(short, again) < long, "the quietest of five, on a busy machine"


def test_a_slow_host_is_not_timed_where_it_has_head_start_enough(device: Device, program: contract.Program) -> None:
    """The device is kept busy for so long: the host's work between two launches is over when the first begins."""
    if device.backend != "cuda":
        pytest.skip("events of OpenCL time the kernels themselves")
    queue: Any = device.queue(profiling=True)
    out, kernel = device.empty(4 * 64), program.kernel("work")

    def hesitant() -> None:
        for _ in range(2):
            queue.launch(kernel, (64,), (64,), out, np.int32(1))
            time.sleep(1e-3)

    queue.timed(hesitant)
    assert queue.timed(hesitant) > 8e-4, "the usual head start is shorter"
    queue.head_start_ns = 20_000_000
    assert queue.timed(hesitant) < 5e-4


def test_pinned_memory_goes_both_ways_without_waiting(device: Device) -> None:
    queue = device.queue()
    sent, received = device.pinned((3, 50), np.float32), device.pinned((3, 50), np.float32)
    assert sent.shape == (3, 50) and sent.dtype == np.float32
    sent[...], received[...] = np.arange(150).reshape(3, 50), -1
    buffer = device.empty(sent.nbytes)
    queue.send(buffer, sent[1:], offset=200)
    queue.send(buffer, sent[:1])
    queue.receive(buffer, received[2:], offset=400)
    queue.receive(buffer, received[:2])
    queue.finish()
    np.testing.assert_array_equal(received, sent)


def test_a_trace_tells_what_each_queue_did_when(device: Device, program: contract.Program) -> None:
    queues, kernel = [device.queue(profiling=True) for _ in range(2)], program.kernel("work")
    out, host = device.empty(4 * 4096), np.zeros(4096, np.float32)

    def submit() -> None:
        queues[0].send(out, host)
        queues[0].launch(kernel, (4096,), (64,), out, np.int32(20_000))
        queues[0].receive(out, host)
        queues[0].finish()
        queues[1].launch(kernel, (4096,), (64,), out, np.int32(1))

    device.traced(queues, submit)
    began = time.perf_counter()
    spans = device.traced(queues, submit)
    wall = time.perf_counter() - began
    assert [(span.queue, span.what) for span in spans] == [
        (0, "to device"),
        (0, "kernel"),
        (0, "to host"),
        (1, "kernel"),
    ]
    assert min(span.start for span in spans) == 0 and max(span.end for span in spans) <= wall * 1.01
    for before, after in pairwise(spans):
        assert before.start <= before.end <= after.start + 1e-6
    assert host[0] != 0
    traces = [spans, *(device.traced(queues, submit) for _ in range(2))]
    long, short = (min(trace[at].end - trace[at].start for trace in traces) for at in (1, 3))
    assert long > 2 * short, "the quietest of three, on a busy machine"
    device.traced(queues, lambda: None)  # and nothing is kept from run to run


@pytest.fixture
def pair(device: Device) -> list[Device]:
    """Two devices of a set, or two parts of a CPU, which share its cores if it has only one."""
    try:
        return device.several(2, overlapping=True)
    except Unsupported as fewer:
        pytest.skip(str(fewer))


def test_a_set_is_kept_and_each_of_it_has_a_name(device: Device, pair: list[Device]) -> None:
    assert device.several(1) == [device] and device.several(2, overlapping=True) == pair
    assert len({dev.which for dev in pair}) == 2 and {dev.backend for dev in pair} == {device.backend}
    if device.kind == "cpu":
        assert [dev.spec for dev in pair] == [f"{device.spec}/0", f"{device.spec}/1"]
        assert {dev.compute_units for dev in pair} == {max(1, device.compute_units // 2)}
        (one,) = device.several(1, 1)
        assert one.compute_units == 1 or device.compute_units == 1
        with pytest.raises(Unsupported, match=rf"^2 parts of {device.compute_units}: .* has {device.compute_units}$"):
            device.several(2, device.compute_units)
    with pytest.raises(Unsupported, match=r"^4096 (parts of 1|devices of this model): "):
        device.several(4096)


def test_devices_of_a_set_wait_for_each_other_and_copy_from_each_others_memory(
    pair: list[Device], text: Callable[[Device], str]
) -> None:
    """A value goes to and fro: each device waits for the other's, works for a while on something else, and adds one."""
    queues, programs = [dev.queue() for dev in pair], [dev.build(text(dev)) for dev in pair]
    add, work = ([program.kernel(name) for program in programs] for name in ("axpy", "work"))
    values = [dev.upload(np.zeros(256, np.float32)) for dev in pair]
    ones = [dev.upload(np.ones(256, np.float32)) for dev in pair]
    busy, part = [dev.empty(4 * 256) for dev in pair], pair[0].empty(4 * 128)
    mark: Any = None
    for turn in range(40):
        at = turn % 2
        queue = queues[at]
        queue.use()
        if mark:
            queue.wait_for(mark)
        queue.fetch(values[at], values[1 - at])
        queue.launch(work[at], (256,), (64,), busy[at], np.int32(2000))
        queue.launch(add[at], (256,), (64,), values[at], ones[at], np.float32(1), np.int32(256 - turn))
        mark = queue.mark()
    queues[0].use()
    queues[0].wait_for(mark)
    queues[0].fetch(part, values[1], offset=4 * 128)
    half = queues[0].read(part, np.empty(128, np.float32))
    np.testing.assert_array_equal(half, np.minimum(40, np.arange(128, 0, -1)))


def test_images_constants_and_sums_of_floats(device: Device, tmp_path: Path) -> None:
    path = tmp_path / "memory.k"
    path.write_text("""
CONSTANT_ARRAY(float, weights, 4)
KERNEL void memory(GLOBAL float *RESTRICT sums, IMAGE image, LINE_IMAGE line CONSTANT_ARGUMENT(float, weights)) {
  const int i = GLOBAL_ID(0);
  ATOMIC_ADD(sums + i % 2, weights[i % 4] * READ_IMAGE(image, i % 5, i / 5));
  ATOMIC_ADD(sums + i % 2, 3 * READ_LINE(line, i));
}
""")
    program = device.build(Source.of(path).render(device.backend))
    values = np.arange(-10, 10, dtype=np.int16).reshape(4, 5)
    weights = np.array([1, -2, 0.5, 4], np.float32)
    try:
        image, line = device.image(values), device.image(values.ravel())
    except Unsupported as reason:
        pytest.skip(str(reason))
    constant, arguments = program.constant("weights", weights.nbytes)
    queue, sums = device.queue(), device.upload(np.zeros(2, np.float32))
    queue.write(constant, weights)
    queue.launch(program.kernel("memory"), (20,), (20,), sums, image, line, *arguments)
    terms = (weights[np.arange(20) % 4] + 3) * values.ravel()
    np.testing.assert_array_equal(queue.read(sums, np.empty(2, np.float32)), [terms[::2].sum(), terms[1::2].sum()])


def test_a_kernel_tells_its_name_and_resources(device: Device, program: contract.Program) -> None:
    kernel = program.kernel("ids")
    assert kernel.name == "ids"
    resources = kernel.resources()
    assert resources["work_group_limit"] >= 64
    assert resources["local_bytes"] >= 32 or device.kind == "cpu"  # newer PoCL does not count a kernel's own arrays
    assert all(isinstance(value, int) for value in resources.values())


def test_a_text_that_does_not_compile_is_said_in_one_line(device: Device, text: Callable[[Device], str]) -> None:
    broken = text(device).replace("const int i", "const int j", 1)
    with pytest.raises(BuildFailed, match=r"\A[^\n]*error:[^\n]*\bi\b[^\n]*\Z") as failure:
        device.build(broken)
    assert "tempfile" not in str(failure.value) and "/tmp" not in str(failure.value)


def test_a_kernel_that_the_text_has_not_is_named(device: Device, program: contract.Program) -> None:
    with pytest.raises(BuildFailed, match=r"\Ano kernel in it is named other\Z"):
        program.kernel("other")


def test_a_text_is_built_once_and_options_count(device: Device, text: Callable[[Device], str]) -> None:
    assert device.build(text(device)) is device.build(text(device))
    plain = text(device) + "\n#ifdef MORE\n#error more\n#endif\n"
    device.build(plain)
    with pytest.raises(BuildFailed, match="more"):
        device.build(plain, ["-DMORE"])


def test_an_absurd_size_is_out_of_memory(device: Device) -> None:
    with pytest.raises(OutOfMemory, match=rf"\A{1 << 60} bytes asked for[^\n]*\Z"):
        device.empty(1 << 60)
    assert device.empty(64).nbytes == 64


def test_a_large_buffer_of_a_cpu_is_what_the_host_has_left_at_most(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that grants more than it has ends the process that fills it."""
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=opencl.WEIGHED + 1))
    assert device.empty(opencl.WEIGHED + 1).nbytes == opencl.WEIGHED + 1
    if device.kind == "cpu":
        with pytest.raises(
            OutOfMemory, match=rf"^{opencl.WEIGHED + 2} bytes asked for, the host has {opencl.WEIGHED + 1} left$"
        ):
            device.empty(opencl.WEIGHED + 2)


def test_a_graph_repeats_its_launches_or_is_not_supported(device: Device, program: contract.Program) -> None:
    queue, y = device.queue(), device.upload(np.zeros(64, np.float32))
    x, kernel = device.upload(np.ones(64, np.float32)), program.kernel("axpy")

    def submit() -> None:
        queue.launch(kernel, (64,), (64,), y, x, np.float32(1), np.int32(64))

    if device.backend == "opencl":
        with pytest.raises(Unsupported, match="no graphs"):
            queue.record(submit)
        return
    graph = queue.record(submit)
    assert not queue.read(y, np.empty(64, np.float32)).any(), "recording ran it"
    for _ in range(3):
        graph.launch()
    assert set(queue.read(y, np.empty(64, np.float32)).tolist()) == {3.0}


def test_the_first_error_of_a_log_loses_its_temporary_file() -> None:
    log = "build failed\n/tmp/.x/tempfile-12-ab.cl:7:3: warning: hm\n/tmp/.x/tempfile-12-ab.cl:9:5: error: use of 'x'\n"
    assert opencl._first_error(log) == "line 9:5: error: use of 'x'"
    linking = (
        "clBuildProgram failed\n\nError(s) while linking: \nCannot find symbol _exit in kernel library\nfailed to build"
    )
    assert opencl._first_error(linking) == "Cannot find symbol _exit in kernel library"
    nvrtc_log = "/tmp/ab/cd.cubin.cu(9): warning: hm\n\n/tmp/ab/cd.cubin.cu(11): error: no 'x'\n\n1 error detected\n"
    assert cuda._first_error(nvrtc_log) == "line 11: error: no 'x'"
    for first_error in (opencl._first_error, cuda._first_error):
        assert first_error("\nno luck\n") == "no luck" and first_error("") == "no message"


def test_the_registers_of_a_kernel_are_those_that_nvidias_compiler_reports() -> None:
    log = """
ptxas info    : Compiling entry function 'two_pass' for 'sm_90'
ptxas info    : Function properties for two_pass
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 400 bytes cmem[0]
ptxas info    : Compiling entry function 'one_pass' for 'sm_90'
ptxas info    : Used 16 registers, used 0 barriers
ptxas info    : Compiling entry function 'cut' for 'sm_90'
"""
    assert [opencl.registers_in(log, name) for name in ("one_pass", "two_pass", "cut", "pass")] == [16, 255, None, None]
    assert opencl.registers_in("", "one_pass") is None
