"""`roofbook profile`: which variants it counts, which it does not count again, and that each mistake is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofbook.measure import ncu
from roofbook.spec import registry

from .made_up import PERMISSION, RIGHT, Cli, Gpu, Ncu, kept


@pytest.fixture
def no_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "NCU_PATHS", (str(tmp_path / "*" / "ncu"),))


def test_a_counted_variant_is_not_counted_again(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    roofbook("lbm", "fused", "40x24")
    code, out, _ = roofbook("lbm", "fused", "40x24")
    assert code == 0 and "0 measurements taken, 1 was fresh" in out and len(kept(results)) == len(fake.calls) == 1
    roofbook("lbm", "fused", "40x24", "--remeasure")
    assert len(kept(results)) == len(fake.calls) == 2
    fake.says(answer={"reason": "out of memory: 3 bytes"})
    roofbook("lbm", "soa", "40x24")
    fake.says()
    assert "1 measurement taken" in roofbook("lbm", "soa", "40x24")[1], "what failed is tried again"


@pytest.mark.thorough
def test_all_are_the_steps_and_peers_that_run_there(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    code, out, _ = roofbook("lbm", "all", "40x24")
    names = {call[call.index("roofbook.measure.profiler_worker") + 2] for call in fake.calls}
    lab = registry.get("lbm")
    assert code == 0 and len(names) == len(fake.calls) == len(kept(results)) > 10
    assert {"fused", "soa", "graph"} <= names
    assert not names & {"sequential", "no-compute", "openmp", "bit-neighbours"}, (
        "of the host, probes, not for this case"
    )
    assert names <= {known_variant.name for known_variant in (*lab.ladder, *lab.peers)} and "soa" in out


@pytest.mark.parametrize("answer", [RIGHT, None])
def test_a_machine_that_may_not_count_stops_with_one_line_and_loses_nothing(
    gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path, answer: Any
) -> None:
    roofbook("lbm", "fused", "40x24")
    fake.says(PERMISSION, answer)
    code, out, err = roofbook("lbm", "all", "40x24")
    assert (
        (code, out) == (2, "")
        and err.startswith("error: ncu may not read the GPU's counters: ")
        and err.count("\n") == 1
    )
    assert kept(results)["variant"].tolist() == ["fused"] and len(fake.calls) == 2


def test_without_ncu_one_line_says_so(gpu: Gpu, no_ncu: None, roofbook: Cli, results: Path, tmp_path: Path) -> None:
    code, out, err = roofbook("lbm", "fused", "40x24")
    assert (
        (code, out) == (2, "") and err.startswith("error: no ncu, which reads the counters: ") and err.count("\n") == 1
    )
    assert not results.exists()
    for version in ("2024.1", "2025.3"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    assert ncu.find_ncu() == str(tmp_path / "2025.3" / "ncu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm", "fused", "40x24"], "no CUDA device; hardware counters need one, with an NVIDIA driver"),
        (["lbm", "fused", "40x24", "--device", "opencl:0"], "opencl:0 is not a CUDA device; hardware counters"),
        (["lbm", "fused", "40x24", "--device", "cuda:7"], "unknown device 'cuda:7'"),
        (["lmb", "fused", "40x24"], "did you mean 'lbm'?"),
        (["lbm", "fusd", "40x24"], "did you mean 'fused'?"),
    ],
)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, roofbook: Cli, results: Path, arguments: list[str], words: str
) -> None:
    monkeypatch.setattr("roofbook.devices.cuda.devices", list)
    code, out, err = roofbook(*arguments)
    assert (code, out) == (2, "") and words in err and err.startswith("error: ") and err.count("\n") == 1
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm", "sequential", "40x24"], "sequential on 40x24 cannot be profiled: it does not run on cuda:0"),
        (["lbm", "bit-neighbours", "40x24"], "cannot be profiled: not on this case: a side is not a power of two"),
        (["lbm", "fused", "128x128"], "unknown case at scale test '128x128'; valid: 40x24"),
    ],
)
def test_a_variant_that_cannot_be_profiled_has_its_reason(
    gpu: Gpu, fake: Ncu, roofbook: Cli, arguments: list[str], words: str
) -> None:
    code, out, err = roofbook(*arguments)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1 and not fake.calls
