"""The variant for a user who names none: the fastest that the store has for the device, or for one like it."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis import fastest_variant
from roofbook.labs.lbm.lattice import _quickest
from roofbook.spec import registry
from roofbook.store.parquet import Store

RESULTS = Path(__file__).parents[2] / "results"
LBM = registry.get("lbm")


@dataclass
class Place:
    """A device that is not here."""

    name: str = "NVIDIA H200"
    slug: str = "nvidia-h200"
    backend: str = "cuda"
    kind: str = "gpu"
    compute_units: int = 132
    ptx: int = 90


def cells(name: str) -> float:
    return math.prod(map(int, name.split("x")))


def row(variant: str, seconds: float, **fields: Any) -> dict[str, Any]:
    day = fields.pop("day", 0)
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=day)
    return {
        "run": f"run-{day}", "started": started, "lab": "lbm", "variant": variant, "case": "128x128", "role": "step",
        "device": "nvidia-h200", "device_name": "NVIDIA H200", "device_kind": "gpu", "backend": "cuda", "policy": "{}",
        "cell_key": variant, "env_key": "e", "status": "ok", "samples_s": [seconds * 10] * 3, "units": 10,
    } | fields  # fmt: skip


def chosen(store: Store | None, place: Place | None = None, case: str = "128x128") -> list[fastest_variant.Choice]:
    device: Any = place or Place()
    variants = [variant for variant in LBM.ladder if variant.role == "step" and device.backend in variant.backends]
    return fastest_variant.choices(LBM, device, case, cells, variants, store)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_runs_of_one_measurement_count_together(tmp_path: Path) -> None:
    """One run in which a variant was lucky does not make it the fastest."""
    store = Store(tmp_path)
    for day, (fused, graph) in enumerate([(2.0, 1.5), (2.0, 1.5), (1.0, 1.5)]):
        store.append([row("fused", fused, day=day), row("graph", graph, day=day)])
    assert [choice.variant.name for choice in chosen(store)[:2]] == ["graph", "fused"]
    store.append([row("fused", 1.0, day=4, cell_key="of newer code")])
    assert chosen(store)[0].variant.name == "fused"


def test_the_fastest_of_the_newest_verified_rows_is_taken(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([row("fused", 3e-6), row("soa", 1e-6), row("tree", 2e-6)], "recorded")
    assert [choice.variant.name for choice in chosen(store)] == ["soa", "tree", "fused", "flat-grid"]
    assert chosen(store)[0].reason == "the fastest of 3 measured on NVIDIA H200 by CUDA at 128x128, run run-0"
    store.append([row("soa", 9e-6, day=1), row("tree", 0, day=1, status="failed", reason="x", samples_s=[])])
    assert [choice.variant.name for choice in chosen(store)] == ["fused", "soa", "flat-grid"], (
        "newer rows count at once"
    )
    further = [row("kept-partials", 1e-9, day=2, role="again"), row("select", 1e-9, day=2, backend="opencl")]
    store.append([*further, row("one-buffer", 1e-9, day=2, device="b", device_name="B")])
    assert chosen(store)[0].variant.name == "fused", "only steps of this backend, on this device"


def test_samples_of_a_device_that_slowed_itself_down_do_not_count(tmp_path: Path) -> None:
    hot = row("soa", 1e-6) | {"samples_s": [9.0] * 8 + [1e-9] * 6, "sample_throttle": ["power brake"] * 8 + [""] * 6}
    Store(tmp_path).append([hot, row("fused", 3e-6)])
    assert chosen(Store(tmp_path))[0].variant.name == "soa"


def test_the_nearest_size_of_the_device_stands_in_and_then_another_device_on_record(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append([row("fused", 1e-6), row("soa", 2e-6, case="1024x1024", day=1), row("fused", 3e-6, case="1024x1024")])
    first = chosen(store, case="700x900")[0]
    assert first.variant.name == "soa" and "at 1024x1024, run run-1, the measured size nearest to 700x900" in str(
        first
    ).replace(";", ",")
    store.append([row("tree", 1e-6, device="cpu", device_name="CPU", device_kind="cpu", backend="opencl")], "recorded")
    a100 = Place("NVIDIA A100", "nvidia-a100")
    assert [str(choice) for choice in chosen(store, a100)] == [
        "flat-grid: the default: no store has a time by CUDA on a GPU"
    ], "what a user measured elsewhere is no record"
    store.append([row("soa", 2e-6, day=3)], "recorded")
    assert str(chosen(store, a100)[0]) == (
        "soa: the fastest of 1 measured on NVIDIA H200 by CUDA at 128x128, run run-3; NVIDIA A100 was not measured"
    )
    cpu = Place("A laptop", "a-laptop", "opencl", "cpu")
    assert chosen(store, cpu)[0].variant.name == "tree"


def test_without_a_store_there_is_a_plain_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        [choice.variant.name for choice in chosen(None)]
        == [LBM.best]
        == [choice.variant.name for choice in chosen(Store(tmp_path))]
    )
    folder = tmp_path / "results" / "recorded" / "lab=lbm" / "device=a"
    folder.mkdir(parents=True)
    (folder / "torn.parquet").write_bytes(b"PAR1")
    assert chosen(Store(tmp_path / "results"))[0].variant.name == LBM.best


@pytest.mark.parametrize("case", ["128x128", "128x256", "256x256", "1024x1024"])
def test_on_the_devices_on_record_it_is_the_fastest_of_single_precision(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the same question in pandas: the median of the medians of all runs of a variant's newest measurement."""
    monkeypatch.chdir(RESULTS.parent)
    frame = Store(RESULTS).rows("lbm", case=case, device="nvidia-h200", backend="cuda", role="step")
    frame = frame[[LBM.variant(name).options.get("unit_roundoff") is None for name in frame["variant"]]]
    newest = frame.groupby("variant").tail(1)
    newest = newest[newest["status"] == "ok"]
    runs = frame.merge(newest[["variant", "cell_key", "env_key"]])
    runs = runs[runs["status"] == "ok"]
    medians = (runs["samples_s"].map(statistics.median) / runs["units"]).groupby(runs["variant"]).median()
    device: Any = Place()
    quickest = _quickest(device, LBM.case(case, "published"))
    assert quickest[0].variant.name == medians.idxmin()
    assert all("unit_roundoff" not in choice.variant.options for choice in quickest)
    small: Any = Place(compute_units=16)
    at_once = {"deep-halo-ptx", *(variant.name for variant in LBM.ladder if "cooperative" in variant.needs)}
    assert len(at_once) > 1 and not at_once & {
        choice.variant.name for choice in _quickest(small, LBM.case(case, "published"))
    }
