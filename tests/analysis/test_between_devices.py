"""Claims that take two devices, by made-up rows: each verdict, and each reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from roofbook.analysis import verdicts
from roofbook.analysis.between_devices import CONSUMER, DATA_CENTRE, sold_as
from roofbook.analysis.verdicts import Verdict
from roofbook.spec import registry
from roofbook.store.parquet import Store

LAB = registry.get("lbm")
VARIANT, CASE = "flat-grid@wg=32x1", "128x128"


class Device(NamedTuple):
    """A device with its time of a step on the smallest grid."""

    name: str
    seconds: float
    backend: str = "opencl"
    kind: str = "gpu"
    noise: float = 0.001
    status: str = "ok"


def row(device: Device, variant: str = VARIANT) -> dict[str, Any]:
    spec = LAB.variant(variant)
    slug = device.name.lower().replace(" ", "-").replace("(", "").replace(")", "")
    drift = 1 + device.noise * np.sin(np.arange(12) * 2.0 + len(slug))
    return {
        "run": "20260101T100000Z-aaaaaa", "started": datetime(2026, 1, 1, 10, tzinfo=UTC), "lab": "lbm", "variant": variant,
        "parent": spec.parent, "case": CASE, "scale": "published", "role": spec.role, "axis": spec.axis,
        "point": spec.point, "device": slug, "device_name": device.name, "device_kind": device.kind,
        "backend": device.backend, "policy": "{}", "timed": "loop", "unit": "step", "units": 1, "cell_key": slug,
        "env_key": device.backend, "status": device.status, "reason": None if device.status == "ok" else "out of memory",
        "source_sha256": spec.source.sha256 if spec.source else None, "rounds": list(range(12)), "error": 0.0, "bound": 1.0,
        "samples_s": (device.seconds * drift).tolist() if device.status == "ok" else [], "extra": "{}",
        "provenance": json.dumps({"cpu": slug, "threads_usable": 8}),
    }  # fmt: skip


def judged(folder: Path, devices: Sequence[Device]) -> dict[str, Verdict]:
    """The verdict on `consumer-card` of each device, by its name, from a store of these devices' rows."""
    store = Store(folder)
    # Beside them what another claim is judged by: only devices of which some claim has a number are shown.
    shape = [
        row(device._replace(status="ok"), f"flat-grid@wg={points}") for device in devices for points in ("1x16", "16x1")
    ]
    store.append([*map(row, devices), *shape])
    (line,) = (claim for claim in verdicts.judged(LAB, store) if claim.id == "consumer-card")
    return {place.name: outcome for place, outcome in line.outcomes.items()}


GEFORCE, V100, H200 = "NVIDIA GeForce GTX 1660 Ti", "Tesla V100-SXM2-16GB", "NVIDIA H200"


@pytest.mark.parametrize(
    ("name", "right"),
    [
        (GEFORCE, CONSUMER),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", CONSUMER),
        ("NVIDIA TITAN V", CONSUMER),
        ("AMD Radeon RX 7900 XTX", CONSUMER),
        ("Intel(R) Arc(TM) A770 Graphics", CONSUMER),
        (V100, DATA_CENTRE),
        (H200, DATA_CENTRE),
        ("NVIDIA A100-SXM4-80GB", DATA_CENTRE),
        ("NVIDIA L40S", DATA_CENTRE),
        ("NVIDIA GH200 480GB", DATA_CENTRE),
        ("AMD Instinct MI250X", DATA_CENTRE),
        ("NVIDIA RTX A6000", None),
        ("Quadro P1000", None),
        ("Intel(R) Xeon(R) Processor, 16 cores", None),
    ],
)
def test_a_card_s_name_says_what_it_is_sold_as(name: str, right: str | None) -> None:
    assert sold_as(name) == right


@pytest.mark.parametrize(
    ("seconds", "noise", "right"),
    [
        (1 / 1.34, 0.001, "holds"),
        (1 / 1.1, 0.001, "holds weaker"),
        (1 / 3.0, 0.001, "holds stronger"),
        (1.5, 0.001, "reversed"),
        (1.01, 0.001, "no difference"),
        (0.9, 0.6, "undecided"),
    ],
)
def test_a_consumer_card_beats_a_data_centre_card_or_does_not(
    tmp_path: Path, seconds: float, noise: float, right: str
) -> None:
    verdict_by_name = judged(tmp_path, [Device(GEFORCE, seconds * 1e-5, noise=noise), Device(V100, 1e-5, noise=noise)])
    assert {name: verdict.verdict for name, verdict in verdict_by_name.items()} == {GEFORCE: right, V100: right}, (
        "one pair, told by both"
    )
    for name, reference in ((GEFORCE, V100), (V100, GEFORCE)):
        number = verdict_by_name[name].finding
        assert number and reference in number.how and "across devices" in number.how
        assert noise > 0.1 or number.estimate == pytest.approx(1 / seconds, rel=0.01)


def test_of_several_pairs_the_one_counts_that_speaks_most_for_the_claim(tmp_path: Path) -> None:
    verdict_by_name = judged(tmp_path, [Device(GEFORCE, 1e-5), Device(V100, 1.34e-5), Device(H200, 0.5e-5)])
    assert {name: verdict.verdict for name, verdict in verdict_by_name.items()} == {
        GEFORCE: "holds",
        V100: "holds",
        H200: "reversed",
    }
    number = verdict_by_name[GEFORCE].finding
    assert number and V100 in number.how


@pytest.mark.parametrize(
    ("devices", "name", "reason"),
    [
        ([Device(H200, 1e-5)], H200, "no consumer card in the store by this backend"),
        ([Device(GEFORCE, 1e-5)], GEFORCE, "no data-centre card in the store by this backend"),
        ([Device(GEFORCE, 1e-5), Device(H200, 1e-5, "cuda")], H200, "no consumer card in the store by this backend"),
        ([Device("A CPU", 1e-5, kind="cpu"), Device(GEFORCE, 1e-5)], "A CPU", "the claim is about cards"),
        (
            [Device("NVIDIA RTX A6000", 1e-5), Device(H200, 1e-5)],
            "NVIDIA RTX A6000",
            "NVIDIA RTX A6000 is neither a consumer card nor a data-centre card by its name",
        ),
    ],
)
def test_without_a_card_of_each_kind_it_is_not_testable(
    tmp_path: Path, devices: list[Device], name: str, reason: str
) -> None:
    assert judged(tmp_path, devices)[name] == Verdict("not testable", reason=reason)


def test_a_card_that_failed_or_was_not_measured_is_no_evidence(tmp_path: Path) -> None:
    verdict_by_name = judged(tmp_path / "failed", [Device(GEFORCE, 1e-5, status="failed"), Device(H200, 1e-5)])
    assert verdict_by_name[H200] == Verdict("not measured", reason=f"{VARIANT} failed: out of memory on {GEFORCE}")
    failed_cards = [
        Device(GEFORCE, 1e-5, status="failed"),
        Device("AMD Radeon RX 7900 XTX", 1.5e-5),
        Device(H200, 1e-5),
    ]
    assert judged(tmp_path / "one", failed_cards)[H200].verdict == "reversed", "another card tells"
