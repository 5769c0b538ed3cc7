"""Kernels are compiled ahead where that pays, by processes that fail in silence, and the measuring finds them compiled."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.devices.find import devices
from roofbook.measure import precompile
from roofbook.process_tree import PatientClock
from roofbook.spec import registry
from roofbook.spec.plan import Case, Variant

LAB = registry.get("stencil")
DONE = '{"done": true}'


def cells(scale: str = "test") -> list[tuple[Case, Variant]]:
    return [(case, variant) for case in LAB.cases(scale)[:1] for variant in LAB.ladder if "opencl" in variant.backends]


@pytest.fixture
def cpu() -> Any:
    cpus = [device for device in devices() if device.backend == "opencl" and device.kind == "cpu"]
    return cpus[0] if cpus else pytest.skip("no OpenCL CPU device: `pip install 'pyopencl[pocl]'` brings one")


@pytest.fixture
def pays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the smallest scale, with few kernels, on two cores, of which none is compiled."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "pocl"))
    monkeypatch.setattr(precompile, "SCALES", ("test",))
    monkeypatch.setattr(precompile, "LEAST_KERNELS", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 2)


@pytest.mark.parametrize(
    ("change", "count"),
    [({"backend": "cuda"}, 9), ({"kind": "gpu"}, 9), ({}, 1), ({"cores": 1}, 9), ({"scale": "published"}, 9)],
)
@pytest.mark.usefixtures("pays")
def test_no_process_starts_if_compiling_ahead_would_not_pay(
    change: dict[str, Any], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    monkeypatch.setattr("os.cpu_count", lambda: change.get("cores", 2))
    device: Any = SimpleNamespace(
        **{"backend": "opencl", "kind": "cpu", "spec": "opencl:0", "identity": dict, **change}
    )
    messages: list[str] = []
    order_cells = cells(change.get("scale", "test"))[:count]
    assert precompile.prebuild(LAB, order_cells, device, 20, messages.append) == 0 and messages == []


@pytest.mark.usefixtures("pays")
def test_each_kernel_is_compiled_by_one_of_the_processes(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's cache on disk, which is all that they leave."""
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path))
    messages: list[str] = []
    order_cells = cells()[:3]
    assert precompile.prebuild(LAB, order_cells, cpu, 20, messages.append) == 3 and messages == ["compiling 3 kernels"]
    compiled = [path for path in tmp_path.rglob("*.so")]
    different = {variant.source.sha256 for _, variant in order_cells if variant.source}
    assert len(compiled) >= len(different) >= 2
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process was started"))
    assert precompile.prebuild(LAB, order_cells, cpu, 20, messages.append) == 0 and len(messages) == 1, (
        "they are compiled"
    )
    monkeypatch.undo()
    monkeypatch.setattr(precompile, "LEAST_KERNELS", 2)
    monkeypatch.setenv("POCL_CACHE_DIR", str(tmp_path / "another"))
    monkeypatch.setattr("sys.executable", "false")
    assert precompile.prebuild(LAB, order_cells, cpu, 20, messages.append) == 3, "each cache has its own"


@pytest.mark.usefixtures("pays")
def test_errors_of_compiling_ahead_are_left_to_the_measurement(
    cpu: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "false")
    assert precompile.prebuild(LAB, cells()[:3], cpu, 20, lambda _: None) == 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.usefixtures("pays")
def test_no_thread_that_compiles_is_bound_to_a_processor(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\necho "$POCL_AFFINITY" >> {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setenv("POCL_AFFINITY", "1")
    precompile.prebuild(LAB, cells()[:3], cpu, 20, lambda _: None)
    assert set((tmp_path / "told").read_text().split()) == {"0"}


@pytest.mark.usefixtures("pays")
def test_compiling_during_a_measurement_begins_with_the_last_and_leaves_a_core(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tell"
    program.write_text(f'#!/bin/sh\nread -r order\necho "$order" >> {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    order_cells = cells()[:3]
    assert precompile.prebuild(LAB, order_cells, cpu, 20, lambda _: None, from_last=True) == 3
    (order,) = map(json.loads, (tmp_path / "told").read_text().splitlines())
    assert [name for _, name, _ in order["cells"]] == [variant.name for _, variant in reversed(order_cells)]


@pytest.mark.usefixtures("pays", "listens")
def test_ctrl_c_ends_the_processes_too(cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sleep"
    program.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))

    def interrupt() -> None:
        while not (tmp_path / "pids").exists() or len((tmp_path / "pids").read_text().split()) < 2:
            time.sleep(0.01)
        time.sleep(0.5)  # whoever started them waits for them now
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        precompile.prebuild(LAB, cells()[:4], cpu, 20, lambda _: None)
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path("/proc", pid).exists()


def test_one_of_several_equal_kernels_is_launched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`same` and `chunks` have one text for all cases, the text of `sized` contains the size, `grouped` has other groups.

    A step is launched on the awkward size that its check needs, once, and `chunks`, a point of a sweep, is not.
    """
    device, launched = SimpleNamespace(programs_built=0), list[str]()
    texts = set[str]()

    def plan(at: Any, variant: Any, case: Any, inputs: Any) -> Any:
        texts.add(f"{variant.source.sha256} {case.name}" if variant.name == "sized" else variant.source.sha256)
        device.programs_built = len(texts)
        ran = lambda: launched.append(f"{variant.name} {case.name}")  # noqa: E731
        return SimpleNamespace(reset=lambda: None, run=ran, close=lambda: None)

    def variant(name: str) -> Any:
        options = {"grouped": {"group": (8, 8)}, "chunks": {"chunk": 4}}.get(name, {})
        text = "b" if name == "sized" else "a"
        role = "sweep" if name == "chunks" else "step"
        return SimpleNamespace(name=name, role=role, plan=plan, source=SimpleNamespace(sha256=text), options=options)

    def case_named(name: str, scale: str) -> Any:
        return SimpleNamespace(name=name, scale=scale)

    lab = SimpleNamespace(
        preferred_backend="opencl",
        prepare=lambda: None,
        inputs=lambda case, seed: {},
        case=case_named,
        variant=variant,
        verification_case=lambda case, variant: case,
        awkward_runs=lambda case, variant: [(variant, case_named("odd", "test"))],
    )
    monkeypatch.setattr("roofbook.spec.registry.get", lambda name: lab)
    monkeypatch.setattr("roofbook.measure.gpu_claim.open_device", lambda *_: device)
    names = ("same", "chunks", "grouped", "sized")
    orders = [(case, name, str(tmp_path / name / case)) for name in names for case in ("one", "two")]
    precompile.launch("lab", "test", "opencl:0", 20, orders)
    assert launched == ["same one", "same odd", "grouped one", "grouped odd", "sized one", "sized odd", "sized two"]
    assert all(Path(mark).exists() for *_, mark in orders)


@pytest.mark.usefixtures("pays")
def test_several_labs_have_the_same_processes_and_one_that_died_is_replaced(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "serve"
    died = "case $order in *local-memory*) [ -e died ] || { touch died; exit 1; };; esac"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}\necho $$ >> pids\nwhile read -r order; do {died}; echo '{{\"done\": true}}'; done\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    with precompile.Compilers() as compilers:
        for first in (0, 3, 0, 3):
            order_cells = [cell for cell in cells() if cell[1].name != "local-memory"][first : first + 2]
            order_cells += [cell for cell in cells() if cell[1].name == "local-memory"] if first else []
            assert precompile.prebuild(LAB, order_cells, cpu, 20, lambda _: None, compilers=compilers) == len(
                order_cells
            )
    assert (tmp_path / "died").exists()
    assert len((tmp_path / "pids").read_text().split()) <= 3, "two for four labs, and one in place of that which died"
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path("/proc", pid).exists()


@pytest.mark.usefixtures("pays")
@pytest.mark.parametrize(
    "fault", ["touch hangs; exec sleep 600", "kill -9 $$", "exit 0", "echo '{\"cell\": 99}'", "echo what"]
)
def test_a_kernel_that_never_ends_or_ends_its_process_is_left_out_of_its_share(
    cpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Another process does the others, unless the kernel hangs: then they are left to the measurement.

    The watchdog barks as soon as the kernel hangs, and not before.
    """
    program = tmp_path / "serve"
    first = "echo '{\"cell\": 0}'; case $order in *no-ifs*) " + fault + ";; esac"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}\nwhile read -r order; do echo \"$order\" >> orders; {first}; echo '{DONE}'; done\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    monkeypatch.setattr(PatientClock, "is_over", lambda clock: (tmp_path / "hangs").exists())
    monkeypatch.setattr(PatientClock, "SLICE_S", 0.05)
    order = {"lab_name": "stencil", "cells": [["a", "no-ifs", "m"], ["a", "fused", "m"], ["a", "tree", "m"]]}
    with precompile.Compilers() as compilers:
        compilers.compile([order])
    orders = [json.loads(line)["cells"] for line in (tmp_path / "orders").read_text().splitlines()]
    retried = [] if "hangs" in fault else [order["cells"][1:]]
    assert orders == [order["cells"], *retried]
