"""Whether each claim of the reports can fail: rows are made up until its verdict is against it. And, for those whose evidence a
sceptic would doubt most, which rows make which verdict.
"""

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofbook.analysis import evidence, verdicts
from roofbook.analysis.between_devices import ConsumerCard
from roofbook.analysis.claim_data import ClaimData
from roofbook.analysis.evidence import Evidence, SumOfParts
from roofbook.analysis.publication import publication
from roofbook.analysis.store_devices import of_host
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.store import published_results

RESULTS = project_root() / "results"
AGAINST = {"reversed", "a difference"}
TRIES = 60

PIECES = [
    pytest.param(registry.get(lab), piece, effects, id=f"{lab}: {claim['id']} {at}")
    for lab in published_results.labs_with_claims(RESULTS)
    for claim in published_results.claims(lab, RESULTS).to_dict("records")
    for pieces in [publication(registry.get(lab)).evidence[claim["id"]]]
    for at, (piece, effects) in enumerate(zip(pieces, verdicts.effects_of(pieces, claim["effects"]), strict=True))
    if not isinstance(piece, evidence.NotTestable)
]


def row(variant: str, case: str, seconds: float, noise: float = 0.001, **fields: Any) -> dict[str, Any]:
    """A verified row of 12 samples of one unit around `seconds`."""
    parts, facts = fields.pop("parts", {}), fields.pop("facts", {})
    drift = 1 + noise * np.sin(2.0 * np.arange(12) + len(variant))
    extra = {"parts": {name: (seconds_ * drift).tolist() for name, seconds_ in parts.items()}, **facts}
    return {
        "run": "run", "started": pd.Timestamp("2026-01-01T10:00:00Z"), "variant": variant, "case": case, "role": "step",
        "parent": None, "device": "a-gpu", "units": 1, "status": "ok", "reason": None, "samples_s": (seconds * drift).tolist(),
        "rounds": list(range(12)), "error": 0.0, "bound": 1.0, "policy": "{}", "timed": "t", "flops": 4e9, "bytes": 2e9,
        "extra": json.dumps(extra),
    } | fields  # fmt: skip


def peaks(bandwidth: float = 1e12, flops: float = 1e13) -> pd.DataFrame:
    """Return rows of the lab `peaks` of a device with this bandwidth (bytes/s) and these operations per second."""
    one = {"status": "ok", "units": 1, "samples_s": [1.0]}
    keys = {"cell_key": "of today", "env_key": "here"}
    moved = keys | {"bytes": bandwidth, "extra": json.dumps({"amount": bandwidth})}
    done = keys | {"bytes": 0.0, "extra": json.dumps({"amount": flops})}
    return pd.DataFrame([
        one | moved | {"variant": "copy", "case": "1 GiB"},
        one | done | {"variant": "fma-float32", "dtype": "float32", "case": "registers"},
    ])  # fmt: skip


def cells(lab: Lab, rows: list[dict[str, Any]], kind: str = "gpu", ceilings: pd.DataFrame | None = None) -> ClaimData:
    frame = pd.DataFrame(rows)
    timed, counted = (frame[(frame["role"] == "profile") == profiled] for profiled in (False, True))
    return ClaimData(lab, timed, peaks() if ceilings is None else ceilings, counted, backend="cuda", kind=kind)


def parts_of(piece: Evidence) -> set[str]:
    """The parts of a run that a piece reads."""
    if isinstance(piece, evidence.Share):
        return {piece.part, *piece.of}
    sides = (piece.slower, piece.faster) if isinstance(piece, evidence.Pair) else ()
    return {part for side in sides if isinstance(side, SumOfParts) for part in side.parts}


def facts_of(piece: Evidence, some: random.Random) -> dict[str, Any]:
    """The numbers besides times that a piece reads, at random."""
    if isinstance(piece, evidence.ItemsPerCore):
        return {"work_items": some.choice((10, 1000, 100000)), "cores": 1000}
    if isinstance(piece, evidence.FactSpread):
        return {name: some.uniform(0.1, 0.2) for name in piece.facts}
    if isinstance(piece, evidence.CounterRatio):
        return {"kernels": [{"kernel": piece.kernel, piece.counter: 10 ** some.uniform(-2, 0)}] * piece.number}
    return {piece.fact: 10 ** some.uniform(0, 2)} if isinstance(piece, evidence.Fact | evidence.Counterexample) else {}


def made_up(lab: Lab, piece: Evidence) -> Iterator[ClaimData]:
    """Yield measurements of every variant that a piece needs: times, parts, facts and peaks between far ends."""
    some = random.Random(0)
    runs = 3 if isinstance(piece, evidence.FactSpread) else 1
    role = "profile" if isinstance(piece, evidence.CounterRatio) else "step"
    kind = getattr(piece, "kind", None) or "gpu"
    for _ in range(TRIES):
        rows = [
            row(
                name, piece.case, 10 ** some.uniform(-5, 1), run=f"run {run}", role=role, device="a-cpu" if hosted else "a-gpu",
                parts={part: 10 ** some.uniform(-5, 1) for part in parts_of(piece)}, facts=facts_of(piece, some),
            )
            for name in piece.variants(lab)
            for hosted in [of_host(lab.variant(name))]
            for run in range(runs)
        ]  # fmt: skip
        held = cells(lab, rows, kind, peaks(flops=10 ** some.uniform(10, 14)))
        if isinstance(piece, ConsumerCard):
            held.name, other_data = (
                "NVIDIA GeForce RTX 4090",
                cells(lab, [row(piece.variant, piece.case, 1e-3, device="b")]),
            )
            other_data.name, held.other_devices = "NVIDIA H200", [other_data]
        yield held


@pytest.mark.parametrize(("lab", "piece", "effects"), PIECES)
def test_some_rows_are_against_the_claim(lab: Lab, piece: Evidence, effects: tuple[float, ...]) -> None:
    outcomes = (verdicts.verdict_on(effects, piece, data) for data in made_up(lab, piece))
    assert any(outcome.verdict in AGAINST for outcome in outcomes)


# -- those that a sceptic would doubt most -----------------------------------------------------------------------------


def pieces_of(lab: str, claim: str) -> list[tuple[tuple[float, ...], Evidence]]:
    """The published numbers of a claim, with the evidence that each is judged by."""
    pieces = publication(registry.get(lab)).evidence[claim]
    (effects,) = published_results.claims(lab, RESULTS).set_index("id").loc[[claim], "effects"]
    return list(zip(verdicts.effects_of(pieces, effects), pieces, strict=True))


def judged(lab: str, claim: str, at: int, seconds: Mapping[str, float], noise: float = 0.001, **fields: Any) -> str:
    """The verdict on a claim's piece of evidence by rows with these times. `parts` and `facts`: of each variant."""
    effects, piece = pieces_of(lab, claim)[at]
    facts, parts = fields.pop("facts", {}), fields.pop("parts", {})
    rows = [
        row(name, piece.case, case_seconds, noise, facts=facts.get(name, {}), parts=parts.get(name, {}), **fields)
        for name, case_seconds in seconds.items()
    ]
    return verdicts.verdict_on(effects, piece, cells(registry.get(lab), rows)).verdict


@pytest.mark.parametrize(
    ("python", "noise", "right"),
    [
        (1.0, 0.001, "holds"),
        (0.995, 0.001, "holds"),
        (1.03, 0.001, "a difference"),
        (1.2, 0.001, "a difference"),
        (0.8, 0.001, "a difference"),
        (1.0, 0.3, "undecided"),
    ],
)
def test_a_python_host_is_as_fast_as_c_or_it_is_not(python: float, noise: float, right: str) -> None:
    assert judged("lbm", "python-host", 2, {"c-host": 1.0, "flat-grid": python}, noise) == right


@pytest.mark.parametrize(
    ("at", "share", "noise", "right"),
    [
        (0, 0.26, 0.001, "holds"),
        (0, 0.02, 0.001, "a difference"),
        (0, 0.7, 0.001, "a difference"),
        (0, 0.3, 0.4, "undecided"),
        (1, 0.61, 0.001, "holds"),
        (1, 0.09, 0.001, "reversed"),
        (1, 0.53, 0.001, "holds weaker"),
        (2, 0.8, 0.001, "holds"),
        (2, 0.95, 0.001, "holds stronger"),
        (2, 0.3, 0.001, "reversed"),
        (2, 0.52, 0.4, "undecided"),
    ],
)
def test_a_grid_reaches_its_share_of_the_bandwidth_or_another(at: int, share: float, noise: float, right: str) -> None:
    assert judged("lbm", "bandwidth", at, {"flat-grid@wg=32x1": 2e9 / 1e12 / share}, noise) == right


@pytest.mark.parametrize(("share", "right"), [(0.6, "holds"), (0.02, "reversed"), (0.5, "no difference")])
def test_what_is_memory_bound_spends_its_time_on_memory(share: float, right: str) -> None:
    """The intensity alone says nothing of it, and the published number is of the intensity."""
    assert [effects for effects, _ in pieces_of("lbm", "memory-bound")] == [(2.2,), (), (), ()]
    time = {"flat-grid@wg=32x1": 2e9 / 1e12 / share}
    assert [judged("lbm", "memory-bound", at, time) for at in (1, 2, 3)] == [right] * 3
    assert judged("lbm", "memory-bound", 0, time) == "holds"


@pytest.mark.parametrize(
    ("unroll", "noise", "right"),
    [
        (0.355, 0.001, "holds"),
        (0.3, 0.001, "holds"),
        (0.15, 0.001, "a difference"),
        (0.6, 0.001, "a difference"),
    ],
)
def test_unrolling_takes_its_share_or_another(unroll: float, noise: float, right: str) -> None:
    parts = {"unrolled-constant": {"unroll": unroll, "op": 1.0}}
    assert judged("lenet", "unroll-share", 0, {"unrolled-constant": 1.0}, noise, parts=parts) == right


def test_a_share_whose_samples_differ_decides_nothing() -> None:
    ((effects, piece),) = pieces_of("lenet", "unroll-share")
    one = row("unrolled-constant", piece.case, 1.0)
    parts = {"unroll": np.linspace(0.1, 0.6, 12).tolist(), "op": [1.0] * 12}
    held = cells(registry.get("lenet"), [one | {"extra": json.dumps({"parts": parts})}])
    assert verdicts.verdict_on(effects, piece, held).verdict == "undecided"


@pytest.mark.parametrize(
    ("before", "after", "right"),
    [
        (0.25, 0.999, "holds"),
        (0.5, 1.0, "holds weaker"),
        (0.1, 1.0, "holds stronger"),
        (1.0, 0.5, "reversed"),
        (1.0, 1.0, "no difference"),
    ],
)
def test_occupancy_rises_as_much_as_published(before: float, after: float, right: str) -> None:
    facts = {"row-groups": {"occupancy": before}, "filter-groups": {"occupancy": after}}
    assert judged("convpool", "occupancy", 0, dict.fromkeys(facts, 1.0), facts=facts) == right


@pytest.mark.parametrize(
    ("registers", "local", "right"),
    [
        ((37, 48), (2050, 512), ("holds", "holds")),
        ((48, 37), (512, 2050), ("reversed", "reversed")),
        ((32, 64), (2050, 2050), ("holds stronger", "no difference")),
        ((32, 40), (0, 0), ("holds", "not testable")),
    ],
)
def test_the_joint_kernel_takes_more_registers_and_less_memory(
    registers: tuple[int, int], local: tuple[int, int], right: tuple[str, str]
) -> None:
    names = ("fused-constant", "joint")
    facts = {
        name: {"registers": count, "local_bytes": size}
        for name, count, size in zip(names, registers, local, strict=True)
    }
    outcomes = tuple(judged("lenet", "joint-resources", at, dict.fromkeys(names, 1.0), facts=facts) for at in (0, 1))
    assert outcomes == right


@pytest.mark.parametrize(
    ("unrolled", "noise", "right"),
    [
        (0.9, 0.001, ("holds", "holds")),
        (0.45, 0.001, ("holds", "reversed")),
        (1.3, 0.001, ("reversed", "holds")),
        (0.99, 0.001, ("no difference", "holds")),
        (0.8, 0.4, ("undecided", "undecided")),
    ],
)
def test_what_gains_a_little_gains_and_not_much(unrolled: float, noise: float, right: tuple[str, str]) -> None:
    seconds = {"filter-groups": 1.0, "unrolled": unrolled}
    assert tuple(judged("convpool", "unroll", at, seconds, noise) for at in (0, 1)) == right


@pytest.mark.parametrize(
    ("gain", "noise", "right"),
    [
        (60, 0.001, "holds"),
        (5, 0.001, "holds weaker"),
        (90, 0.001, "holds stronger"),
        (0.5, 0.001, "reversed"),
        (1, 0.5, "undecided"),
    ],
)
def test_the_first_dimension_matters_as_between_the_published_points(gain: float, noise: float, right: str) -> None:
    seconds = {"fissioned@split=896x32": gain, "fissioned@split=1792x64": 1.0}
    assert judged("cnn", "first-dimension", 0, seconds, noise) == right


@pytest.mark.parametrize(
    ("bits", "noise", "right"),
    [
        (0.99, 0.001, "holds"),
        (1.02, 0.001, "a difference"),
        (0.9, 0.001, "a difference"),
        (1.1, 0.001, "a difference"),
        (1.0, 0.3, "undecided"),
    ],
)
def test_bit_operations_gain_as_good_as_nothing(bits: float, noise: float, right: str) -> None:
    for at in range(3):
        assert judged("lbm", "bit-ops", at, {"accelerate-fused": 1.0, "bit-neighbours": bits}, noise) == right


@pytest.mark.parametrize(
    ("many", "noise", "right"),
    [
        (1.0, 0.001, "holds"),
        (0.995, 0.001, "holds"),
        (0.97, 0.001, "reversed"),
        (1.4, 0.001, "holds"),
        (0.9, 0.001, "reversed"),
        (0.95, 0.3, "undecided"),
    ],
)
def test_more_elements_gain_nothing_to_speak_of(many: float, noise: float, right: str) -> None:
    assert judged("stencil", "tasks-8", 0, {"tasks-8": 1.0, "tasks-16": many}, noise) == right


@pytest.mark.parametrize(
    ("spread", "right"),
    [
        ((1.0, 1.02, 1.03), "holds"),
        ((1.2, 1.3, 1.4), "a difference"),
        ((1.0, 1.1, 1.3), "undecided"),
        ((1.0,), "undecided"),
    ],
)
def test_streams_share_the_device_evenly_in_several_runs(spread: tuple[float, ...], right: str) -> None:
    effects, piece = pieces_of("lenet", "streams-even")[0]
    assert isinstance(piece, evidence.FactSpread)
    rows = [
        row(
            "rotating-linear",
            piece.case,
            1.0,
            run=f"run {ratio}",
            facts=dict(zip(piece.facts, (ratio, 1.0, 1.0), strict=True)),
        )
        for ratio in spread
    ]
    assert verdicts.verdict_on(effects, piece, cells(registry.get("lenet"), rows)).verdict == right


@pytest.mark.parametrize(("claim", "step"), [("port", "ported"), ("total", "flat-grid@wg=32x1")])
@pytest.mark.parametrize(("times", "right"), [(1.0, "no difference"), (1 / 5, "reversed"), (2.0, "holds weaker")])
def test_a_port_is_judged_over_the_reports_first_program(claim: str, step: str, times: float, right: str) -> None:
    assert judged("lbm", claim, 0, {"sequential": 1e3, "partly-ported": times, step: 1.0}) == right


def test_a_port_without_a_time_of_the_first_program_is_not_measured_and_names_it() -> None:
    effects, piece = pieces_of("lbm", "port")[0]
    held = cells(registry.get("lbm"), [row(name, piece.case, 1.0) for name in ("sequential", "ported")])
    assert verdicts.verdict_on(effects, piece, held) == verdicts.Verdict("not measured", reason="partly-ported")


def test_the_numbers_of_a_claim_go_to_what_they_are_of() -> None:
    pair, bandwidth = evidence.Pair("a", "b", "c"), evidence.Bandwidth("a", "c", numbered=False)
    assert verdicts.effects_of((pair, pair), (2.0, 3.0)) == [(2.0,), (3.0,)]
    assert verdicts.effects_of((pair, pair), (2.0,)) == [(2.0,), (2.0,)]
    assert verdicts.effects_of((pair, bandwidth), (2.0,)) == [(2.0,), ()]
    assert verdicts.effects_of((pair,), ()) == [()]
