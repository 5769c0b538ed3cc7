"""Programs that the LBM report measured beside its OpenCL in C: its first program, a host in Haskell, and OpenACC."""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from roofbook.analysis.recorded import recorded
from roofbook.devices.contract import Device, DriverFailed, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.lbm import LAB, haskell, openacc
from roofbook.labs.lbm.partly_ported import PartlyPorted
from roofbook.labs.lbm.problem import bound, box, error, initial, reference
from roofbook.measure.measurement import Measurement
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.measure.verify import References, prepare
from roofbook.paths import project_root
from roofbook.peers import cc, compiled
from roofbook.spec.plan import Case
from roofbook.store.parquet import Store

needs_openacc = pytest.mark.skipif(openacc.OpenAcc.missing() is not None, reason=str(openacc.OpenAcc.missing()))
needs_ghc = pytest.mark.skipif(haskell.missing() is not None, reason=str(haskell.missing()))


def problem_of(nx: int, ny: int, steps: int) -> tuple[Case, dict[str, Any]]:
    params, obstacles = box(nx, ny)
    noise = np.random.default_rng(7).uniform(0.9, 1.1, (9, ny, nx))
    start = (initial(params) * noise).astype(np.float32)
    return Case(f"{nx}x{ny}", "test", asdict(params), steps), {"params": params, "obstacles": obstacles, "f": start}


# -- optional compilers ------------------------------------------------------------------------------------------------


def test_without_their_compilers_the_rows_say_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    openacc.compiler.cache_clear()
    case = LAB.cases("test")[0]
    reasons = {name: LAB.skip_reason(LAB.variant(name), case) for name in ("partly-ported", "haskell-host", "openacc")}
    openacc.compiler.cache_clear()
    assert reasons == {
        "partly-ported": "no C compiler: none of cc, gcc, clang is on the PATH; install one or set CC",
        "haskell-host": "not here: no ghc, which compiles Haskell (Debian: apt-get install ghc)",
        "openacc": "not here: no C compiler with OpenACC (Debian: apt-get install gcc)",
    }


def test_what_compilers_this_machine_lacks_is_not_said_of_a_recorded_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for plan in (PartlyPorted, haskell.HaskellHost, openacc.OpenAcc):
        monkeypatch.setattr(plan, "missing", staticmethod(lambda: "not here"))
    assert LAB.skip_reason(LAB.variant("haskell-host"), LAB.cases("published")[0]) == "not here"
    on_record = recorded(LAB, Store(project_root() / "results"))
    assert on_record
    for data in on_record:
        reasons = data.skip_reasons(data.cases[0])
        assert "not here" not in reasons.values()
        expected = {
            "cuda": "not on this device",
            "webgpu": "WebGPU lacks: OpenCL's functions, for a host in another language",
        }
        assert reasons.get("haskell-host") == expected.get(data.store_device.backend)


def test_a_compiler_that_skips_directives_is_none_for_openacc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("cc", "gcc"):
        (tmp_path / name).write_text("#!/bin/sh\necho '#define __STDC__ 1'\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.delenv("CC", raising=False)
    openacc.compiler.cache_clear()
    assert openacc.compiler() is None
    openacc.compiler.cache_clear()


def test_what_is_built_is_kept_by_all_that_decides_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source, count = tmp_path / "one.txt", tmp_path / "count"
    source.write_text("one")
    maker = tmp_path / "maker"
    maker.write_text(f'#!/bin/sh\necho x >> {count}\nfor last; do :; done\ncat "$2" > "$last"\n')
    maker.chmod(0o755)

    def build(version: str = "1", **options: Any) -> str:
        return compiled.build([str(maker), "-x"], [source], version, **{"suffix": ".txt", **options}).read_text()

    assert build() == build() == "one" and count.read_text() == "x\n"
    build("2"), build(last=["-l"]), build(suffix=".so")
    source.write_text("two")
    assert build() == "two" and count.read_text() == "x\n" * 4 + "x\n"
    with pytest.raises(cc.BuildFailed, match="exited with 1"):
        compiled.build(["false"], [source], "")


# -- OpenACC -----------------------------------------------------------------------------------------------------------


@needs_openacc
def test_openacc_goes_on_from_run_to_run_and_begins_again_at_a_reset() -> None:
    case, inputs = problem_of(33, 20, 5)
    peer = openacc.OpenAcc(host_cpu(), LAB.variant("openacc"), case, inputs)
    want, av_want = reference(inputs["params"], inputs["obstacles"], 10, inputs["f"])
    first = None
    for _ in range(2):
        peer.reset()
        assert np.isnan(peer.outputs()["av_vels"]).all() and error(peer.outputs()["f"], inputs["f"]) < 1e-7
        for _ in range(2):
            start = time.perf_counter()
            assert 0 < peer.run() < time.perf_counter() - start
        outputs = peer.outputs()
        assert error(outputs["f"], want) <= bound(10)
        np.testing.assert_allclose(outputs["av_vels"], av_want[5:], rtol=1e-5)
        assert first is None or (first == outputs["f"]).all()
        first = outputs["f"]
    assert peer.facts()["ran on"] == "host" and peer.facts()["threads"] == 1
    peer.close()
    assert peer.process.returncode == 0


@needs_openacc
def test_gcc_makes_no_loop_parallel_in_the_form_kernels(tmp_path: Path) -> None:
    text = openacc.OpenAcc.sources[0].read_text()
    assert text.count("acc parallel loop") == 2
    command = openacc.compiler()
    assert command
    reports = {}
    for form in ("parallel", "kernels"):
        path = tmp_path / f"{form}.c"
        path.write_text(text.replace("acc parallel loop", f"acc {form} loop"))
        words = [*command, *openacc.FLAGS, "-O3", "-fopt-info-omp", "-c", str(path), "-o", str(tmp_path / "object")]
        reports[form] = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    if "OpenACC" not in reports["parallel"]:
        pytest.skip("this GCC does not report its loops")
    assert "gang" in reports["parallel"]
    assert "seq loop" in reports["kernels"] and "gang" not in reports["kernels"]


@needs_openacc
def test_an_openacc_program_that_dies_is_told_in_one_line() -> None:
    case, inputs = problem_of(8, 8, 2)
    peer = openacc.OpenAcc(host_cpu(), LAB.variant("openacc"), case, inputs)
    peer.reset()
    peer.process.send_signal(signal.SIGKILL)
    with pytest.raises(DriverFailed, match=r"^the OpenACC program ended: exit code -9$"):
        peer.run()
    peer.close()


def gpu(maker: str) -> Device:
    """Return a stand-in for a GPU, as the program needs it."""
    return cast(Device, SimpleNamespace(kind="gpu", pci_bus_id=None, identity=lambda: {"platform": maker}))


@needs_openacc
def test_openacc_says_what_a_gpu_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    case, inputs = problem_of(8, 8, 2)
    variant = LAB.variant("openacc")
    with pytest.raises(Unsupported, match="offloads to NVIDIA GPUs here, and this is none"):
        openacc.OpenAcc(gpu("AMD"), variant, case, inputs)
    outputs = {
        "-dumpversion": "13.2.0\n",
        "-print-prog-name=accel/nvptx-none/mkoffload": "accel/nvptx-none/mkoffload\n",
    }
    monkeypatch.setattr(compiled, "output_of", lambda command: outputs[command[-1]])
    with pytest.raises(Unsupported, match=r"GCC 13 lacks its .*apt-get install gcc-13-offload-nvptx\)$"):
        openacc.OpenAcc(gpu("NVIDIA CUDA"), variant, case, inputs)


@needs_openacc
@pytest.mark.parametrize("default", ["", "-fcf-protection=full"], ids=["debian", "ubuntu"])
def test_openacc_compiles_for_a_gpu_and_says_where_there_is_none(monkeypatch: pytest.MonkeyPatch, default: str) -> None:
    command = openacc.compiler()
    assert command
    monkeypatch.setattr(openacc, "compiler", lambda: (*command, *default.split()))
    try:
        openacc.program("nvidia")
    except Unsupported as lacking:
        pytest.skip(str(lacking))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    case, inputs = problem_of(8, 8, 2)
    with pytest.raises(Unsupported, match="does not start: OpenACC's runtime finds no NVIDIA GPU"):
        openacc.OpenAcc(gpu("NVIDIA CUDA"), LAB.variant("openacc"), case, inputs)


@needs_openacc
def test_openacc_is_verified_and_timed_by_its_own_clock() -> None:
    at = Setting(LAB, LAB.cases("test")[0], host_cpu(), Policy())
    measurement = Measurement(LAB.variant("openacc"), "peer", at.device, at.device.backend)
    prepare(at, measurement, References(at, 3))
    assert measurement.reason is None and measurement.runnable
    start = time.perf_counter()
    seconds = measurement.runnable.run()
    assert isinstance(seconds, float) and 0 < seconds < time.perf_counter() - start
    measurement.runnable.close()


# -- the Haskell host --------------------------------------------------------------------------------------------------


@needs_ghc
@pytest.mark.usefixtures("listens")
def test_a_haskell_loop_tells_the_drivers_error_and_leaves_ctrl_c_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    device = host_cpu()
    program, queue = (
        device.build("kernel void one(global int *out, int s) { out[get_global_id(0)] += s; }"),
        device.queue(),
    )
    buffer = device.upload(np.zeros(64, np.int32))
    kernels = [program.kernel("one") for _ in range(2)]
    arguments = [[buffer, np.int32(0)]] * 2
    haskell.loop(queue, kernels, (64,), (16,), arguments, 5, 1)
    assert queue.read(buffer, np.empty(64, np.int32)).tolist() == [0 + 1 + 2 + 3 + 4] * 64
    with pytest.raises(DriverFailed, match=r"^the Haskell host's OpenCL loop stopped with error -54$"):
        haskell.loop(queue, kernels, (64,), (48,), arguments, 1, 1)
    with pytest.raises(DriverFailed, match="error -49"):
        haskell.loop(queue, kernels, (64,), (16,), arguments, 1, 9)
    assert signal.getsignal(signal.SIGINT) is before
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


# -- the first program -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(cc.compiler() is None, reason="no C compiler")
def test_the_first_program_copies_the_whole_grid_both_ways_in_each_step(monkeypatch: pytest.MonkeyPatch) -> None:
    case, inputs = problem_of(17, 9, 3)
    run = PartlyPorted(host_cpu(), LAB.variant("partly-ported"), case, inputs)
    run.reset()
    moved: list[tuple[str, int]] = []
    for name in ("write", "read"):
        transfer = getattr(run.queue, name)

        def noted(buffer: Any, array: Any, *arguments: Any, name: str = name, transfer: Any = transfer) -> Any:
            moved.append((name, array.nbytes))
            return transfer(buffer, array, *arguments)

        monkeypatch.setattr(run.queue, name, noted)
    run.run()
    assert moved == [("write", 4 * 9 * 17 * 9), ("read", 4 * 9 * 17 * 9)] * 3
    run.close()
