"""A program of the host names its compilers in key and row, and how many threads of OpenMP ran; older rows stay fresh."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.devices.host import processors
from roofbook.measure import placement
from roofbook.measure.case_run import measure_and_store
from roofbook.measure.placement import Setting, target_of
from roofbook.measure.policy import Policy
from roofbook.measure.schedule import plan
from roofbook.peers import cc, compilers
from roofbook.spec import registry
from roofbook.store.parquet import Store

pytestmark = pytest.mark.skipif(cc.missing() is not None, reason=str(cc.missing()))

FAST = Policy(cache="warm", budget_s=1e-3, minimum=5, maximum=6)
STENCIL = registry.get("stencil")
CASE = STENCIL.cases("test")[0]


def other(folder: Path, name: str = "othercc", flags: str = "") -> str:
    """Write a wrapper that acts as a compiler of another version, and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    real = shutil.which("cc") or shutil.which("gcc")
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "{name} 99.0"; exit; }}\nexec {real} "$@" {flags}\n')
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def cpu() -> object:
    try:
        return host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))


@pytest.mark.parametrize(
    ("lab", "variant"),
    [
        ("stencil", "sequential-c"), ("cnn", "sequential-c"), ("convpool", "sequential-c"), ("lbm", "sequential-c"),
        ("lenet", "sequential-c"), ("stencil", "openmp"), ("lbm", "openmp"), ("lbm", "c-host"), ("lbm", "partly-ported"),
    ],
)  # fmt: skip
def test_the_compiler_is_part_of_the_key(
    lab: str, variant: str, cpu: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab_of_peer = registry.get(lab)
    chosen = next(v for v in lab_of_peer.all_variants() if v.name == variant)
    target = target_of(chosen, cpu)  # type: ignore[arg-type]
    assert target
    at = Setting(lab_of_peer, lab_of_peer.cases("test")[0], target.device, FAST)
    keys = []
    for command in (None, other(tmp_path), f"{other(tmp_path)} -O1", other(tmp_path / "slow", flags="-O1")):
        compilers.described.cache_clear()
        if command:
            monkeypatch.setenv("CC", command)
        keys.append(placement.keys(at, chosen, target, 1))
    assert len({key for key, _ in keys}) == 1 and len({environment for _, environment in keys}) == 4
    named = placement.environment(chosen, target)["compilers"]
    assert named["C compiler"] == "othercc 99.0" and named["C compiler's wrapper"]
    compilers.described.cache_clear()


def test_a_kernel_of_the_driver_names_no_compiler_of_the_host(cpu: object) -> None:
    fused = STENCIL.variant("fused")
    assert "compilers" not in placement.environment(fused, target_of(fused, cpu))  # type: ignore[arg-type]


def test_rows_that_do_not_name_their_compiler_stay_fresh_until_one_names_another(
    cpu: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant, store = STENCIL.variant("sequential-c"), Store(tmp_path / "results")

    def state() -> str:
        compilers.described.cache_clear()
        (cell,) = plan(STENCIL, [CASE], [variant], cpu, store, FAST)  # type: ignore[arg-type]
        return cell.state

    def measure(run: str) -> None:
        at = Setting(STENCIL, CASE, cpu, FAST)  # type: ignore[arg-type]
        measure_and_store(at, [variant], run=run, store=store, where="local")

    with monkeypatch.context() as patch:
        patch.setattr(compilers, "described", lambda language, command: {})
        measure("20260101T000000Z-000001")
    older = store.rows("stencil").iloc[-1]
    assert "compilers" not in json.loads(older["provenance"])["environment"]
    assert state() == "fresh"
    monkeypatch.setenv("CC", other(tmp_path))
    assert state() == "fresh", "nobody knows by which compiler it was"
    measure("20260101T000000Z-000002")
    assert state() == "fresh"
    monkeypatch.delenv("CC")
    assert state() == "stale-env"


@pytest.mark.skipif(processors() < 2 or not cc.openmp_flags()[0], reason="one processor, or no OpenMP")
@pytest.mark.parametrize(
    ("variable", "value", "ran"),
    [("OMP_THREAD_LIMIT", "1", 1), ("OMP_NUM_THREADS", "1", 2), ("OMP_MAX_ACTIVE_LEVELS", "0", 1), ("HOME", "/", 2)],
)
def test_a_row_says_how_many_threads_ran(variable: str, value: str, ran: int) -> None:
    """OpenMP reads its settings when it is loaded, so each case runs in a process of its own."""
    code = "from roofbook.peers import compilers; print(compilers.threads_of_a_team(2))"
    environment = {name: content for name, content in os.environ.items() if not name.startswith("OMP_")}
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env={**environment, "PYTHONPATH": str(paths.LIBRARY.parent), "XDG_CACHE_HOME": cache, variable: value},
    )  # fmt: skip
    assert done.stdout.strip() == str(ran)
