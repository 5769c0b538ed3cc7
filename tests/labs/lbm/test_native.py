"""The C peers against the float64 reference, the build cache, and the C host loops on a real queue and a double."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import DriverFailed
from roofbook.labs.lbm import native
from roofbook.labs.lbm.problem import (
    Params,
    bound,
    bound_av_vels,
    box,
    error,
    error_av_vels,
    initial,
    mass,
    published,
    reference,
    reynolds,
)
from roofbook.peers import cc

needs_compiler = pytest.mark.skipif(cc.compiler() is None, reason="no C compiler: none of CC, cc, gcc, clang")

Peer = native.OpenMP | native.Given
PEERS: dict[str, Callable[..., Peer]] = {
    "openmp-1": partial(native.OpenMP, threads=1),
    "openmp-2": partial(native.OpenMP, threads=2),
    "openmp-5": partial(native.OpenMP, threads=5),
    "given": native.Given,
    "given-fast": partial(native.Given, flags=cc.FAST),
}


@needs_compiler
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(("nx", "ny", "steps"), [(64, 64, 100), (33, 17, 51), (18, 130, 20)])
def test_peers_lie_within_the_bounds(name: str, nx: int, ny: int, steps: int) -> None:
    params, obstacles = box(nx, ny)
    peer = PEERS[name](params, obstacles)
    av = np.concatenate([peer.run(steps - 7), peer.run(7)])
    want, av_want = reference(params, obstacles, steps)
    assert 3 <= bound(steps) / error(peer.state(), want) <= 100
    assert error_av_vels(av, av_want) <= bound_av_vels(av_want, int((~obstacles).sum()))
    assert mass(peer.state()) == pytest.approx(params.density * nx * ny, rel=1e-6 * steps)


@needs_compiler
@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize(("nx", "ny"), [(1, 2), (1, 5), (2, 2), (3, 3), (5, 40), (16, 3), (17, 4)])
def test_peers_wrap_small_grids_with_scattered_obstacles(name: str, nx: int, ny: int) -> None:
    draw = np.random.default_rng(nx * 100 + ny)
    obstacles = draw.random((ny, nx)) < 0.3
    obstacles[ny - 2, 0] = False
    params = Params(nx, ny, 1, 10, 0.1, 0.2, 1.2)
    start = initial(params) * draw.uniform(0.8, 1.2, (9, ny, nx))
    peer = PEERS[name](params, obstacles, start)
    assert error(peer.state(), start) < 1e-6
    for done in range(1, 6):
        peer.run(1)
        want, _ = reference(params, obstacles, done, start)
        assert error(peer.state(), want) <= bound(done)


@needs_compiler
def test_openmp_on_the_published_channel() -> None:
    params, obstacles = published()["128x256"]
    peer = native.OpenMP(params, obstacles, threads=2)
    want, av_want = reference(params, obstacles, 30)
    assert error_av_vels(peer.run(30), av_want) <= bound_av_vels(av_want, 32130)
    assert error(peer.state(), want) <= bound(30)


@needs_compiler
def test_a_whole_published_run_gives_the_published_reynolds_number() -> None:
    params, obstacles = published()["128x128"]
    peer = native.OpenMP(params, obstacles, threads=1)
    av_vels = peer.run(params.iterations)
    assert reynolds(av_vels[-1], params) == pytest.approx(9.751927, rel=3e-3)  # float32 itself is 0.12 % off
    assert mass(peer.state()) == pytest.approx(params.density * 128 * 128, rel=1e-3)


@needs_compiler
def test_peers_refuse_what_they_cannot_run() -> None:
    params, obstacles = box(6, 5)
    for make in (native.OpenMP, native.Given):
        with pytest.raises(ValueError, match="no fluid cell"):
            make(params, np.ones_like(obstacles))
        with pytest.raises(ValueError, match="expected obstacles"):
            make(params, obstacles.T)


@needs_compiler
def test_the_fast_build_leaves_subnormals_alone() -> None:
    native.OpenMP(*box(6, 5)).run(1)
    assert np.float32(1e-40) * np.float32(0.5) != 0


def source(folder: Path, text: str) -> Path:
    path = folder / "answer.c"
    path.write_text(text)
    return path


@needs_compiler
def test_build_is_cached_by_source_and_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = "int answer(void) { return ANSWER; }"
    assert cc.build(source(tmp_path, text), ["-DANSWER=42"]).answer() == 42
    libraries = set((tmp_path / "cache" / "roofbook").glob("*.so"))
    calls: list[list[str]] = []
    run = subprocess.run

    def counted(words: list[str], **options: Any) -> Any:
        calls.append(words)
        return run(words, **options)

    monkeypatch.setattr(subprocess, "run", counted)
    assert cc.build(source(tmp_path, text), ["-DANSWER=42"]).answer() == 42
    assert not calls and set((tmp_path / "cache" / "roofbook").glob("*.so")) == libraries
    assert cc.build(source(tmp_path, text), ["-DANSWER=43"]).answer() == 43
    assert cc.build(source(tmp_path, text + "\n"), ["-DANSWER=42"]).answer() == 42
    assert calls and all(path.suffix in (".so", ".sha256") for path in (tmp_path / "cache" / "roofbook").iterdir())


@needs_compiler
def test_build_says_in_one_line_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(cc.BuildFailed, match=r"exited with 1: .*error: [^\n]*$"):
        cc.build(source(tmp_path, "int answer(void) { return nothing; }"))
    assert not list((tmp_path / "cache" / "roofbook").iterdir())
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(cc.BuildFailed, match="cannot build or load"):
        cc.build(source(tmp_path, "int answer(void) { return 42; }"))


def test_no_compiler_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    assert cc.compiler() is None
    with pytest.raises(cc.NoCompiler, match="CC=no-such-compiler -m64 is not on the PATH"):
        cc.build(source(tmp_path, ""))
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cc.compiler() is None
    with pytest.raises(cc.NoCompiler, match="none of cc, gcc, clang"):
        cc.openmp_flags()


@needs_compiler
def test_a_compiler_without_openmp_gives_one_thread_and_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = tmp_path / "cc"
    refuse = 'case "$*" in *-fopenmp*) echo "error: no OpenMP here" >&2; exit 1;; esac'
    lacking.write_text(f'#!/bin/sh\n{refuse}\nexec {cc.compiler()} "$@"\n')
    lacking.chmod(0o755)
    monkeypatch.setenv("CC", str(lacking))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    native._library.cache_clear()
    params, obstacles = box(20, 12)
    peer = native.OpenMP(params, obstacles, threads=4)
    assert peer.threads == 1 and "-fopenmp" not in peer.flags
    assert peer.reason == "without OpenMP, one thread: cc exited with 1: error: no OpenMP here"
    peer.run(10)
    assert error(peer.state(), reference(params, obstacles, 10)[0]) <= bound(10)
    native._library.cache_clear()


# -- the C host --------------------------------------------------------------------------------------------------------

KERNELS = """
kernel void even(global int *out, int s) { out[get_global_id(0)] = 3 * out[get_global_id(0)] + s; }
kernel void odd(global int *out, int s) { out[get_global_id(0)] = 5 * out[get_global_id(0)] - s; }
"""


def after(first: int, steps: int) -> int:
    value = 1
    for s in range(first, first + steps):
        value = 5 * value - s if s % 2 else 3 * value + s
    return value


@needs_compiler
def test_opencl_loop_runs_even_and_odd_kernels_in_order() -> None:
    device_module = pytest.importorskip("roofbook.devices.find")
    cl = pytest.importorskip("pyopencl")
    try:
        device = device_module.open_device("opencl:0")
    except Exception as reason:
        pytest.skip(f"no OpenCL device: {reason}")
    program, queue = device.build(KERNELS), device.queue()
    values = np.ones(64, np.int32)
    buffer = device.upload(values)
    kernels = [program.kernel(name).kernel for name in ("even", "odd")]
    for kernel in kernels:
        kernel.set_args(buffer.memory, np.int32(0))
    native.opencl_loop(queue.queue, kernels, (64,), (16,), steps=7, first_step=3, step_arg=1)
    queue.read(buffer, values)
    assert values.tolist() == [after(3, 7)] * 64
    native.opencl_loop(queue.queue, kernels, (64,), None, steps=0)
    with pytest.raises(DriverFailed, match=f"error {cl.status_code.INVALID_WORK_GROUP_SIZE}"):
        native.opencl_loop(queue.queue, kernels, (64,), (48,), steps=1)
    with pytest.raises(DriverFailed, match=f"error {cl.status_code.INVALID_ARG_INDEX}"):
        native.opencl_loop(queue.queue, kernels, (64,), (16,), steps=1, step_arg=9)


def test_the_driver_is_not_the_runtime_whose_name_begins_like_its_own() -> None:
    """JAX's runtime is loaded first, and has no cuLaunchKernel."""
    for path, right in {
        "libcuda.so.1": True,
        "libcuda.so.580.159.04": True,
        "libcudart.so.13": False,
        "libcudadebugger.so.1": False,
    }.items():
        assert native._is("libcuda", f"7f2a r-xp 0 fe:01 42    /usr/lib/{path}") == right, path
    assert native._is("libOpenCL", "/site-packages/pyopencl.libs/libOpenCL-83fd16a5.so.1.0.0")


class Array:
    """Stand-in for a device array of CuPy: `data.ptr`."""

    def __init__(self, address: int) -> None:
        self.data = type("Memory", (), {"ptr": address})


@needs_compiler
def test_cuda_loop_launches_with_the_arguments_of_each_step() -> None:
    seen: list[Any] = []
    sizes = [ctypes.c_uint] * 7
    launch_type = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, *sizes, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
    )

    def launch(function: int, *arguments: Any) -> int:
        grid_block_shared, stream, params = arguments[:7], arguments[7], arguments[8]
        pointer = ctypes.c_void_p.from_address(params[0]).value
        scalar = ctypes.c_float.from_address(params[1]).value
        number = ctypes.c_int.from_address(params[2]).value
        seen.append((function, grid_block_shared, stream, pointer, scalar, number))
        return 700 if number == 6 else 0

    def synchronize(stream: int) -> int:
        seen.append("sync")
        return 0

    calls = launch_type(launch), ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(synchronize)
    driver = ctypes.cast(calls[0], ctypes.c_void_p).value, ctypes.cast(calls[1], ctypes.c_void_p).value

    def run(first: int, steps: int) -> None:
        even, odd = ([Array(address), np.float32(address / 2), np.int32(-1)] for address in (100, 200))
        native.cuda_loop((11, 22), (4, 3), (32,), (even, odd), steps, first, 2, shared=8, stream=9, driver=driver)

    run(2, 3)
    shape = (4, 3, 1, 32, 1, 1, 8)
    assert seen == [(11, shape, 9, 100, 50, 2), (22, shape, 9, 200, 100, 3), (11, shape, 9, 100, 50, 4), "sync"]
    seen.clear()
    with pytest.raises(DriverFailed, match="error 700"):
        run(5, 9)
    assert [entry if entry == "sync" else entry[-1] for entry in seen] == [5, 6, "sync"]


@needs_compiler
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_threads_default_to_what_the_process_may_use() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from roofbook.labs.lbm import native, problem\n"
        "print(native.OpenMP(*problem.box(6, 5)).threads)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "1", done.stderr
