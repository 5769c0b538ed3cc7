"""Each kind of evidence on rows that are made up: the number, and why there is none. The lab is made up as well."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofbook.analysis.claim_data import ClaimData, MissingData, NotApplicable
from roofbook.analysis.evidence import (
    AboveMost,
    Bandwidth,
    Best,
    Counterexample,
    Evidence,
    Fact,
    FactSpread,
    Finding,
    Intensity,
    NotTestable,
    OrElse,
    Pair,
    Share,
    SumOfParts,
)
from roofbook.analysis.publication import publication
from roofbook.spec.lab import Lab, Sweep, Work
from roofbook.spec.plan import Case, Variant

from ..plain_plan import PlainPlan

CASE = "small"
STARTED = pd.Timestamp("2026-01-01T10:00:00Z")


class Never(PlainPlan):
    """Nothing runs here."""

    def __init__(self, *_: Any) -> None:
        pytest.fail("nothing runs here")

    reset = run = outputs = __init__  # type: ignore[assignment]


def variant(name: str, **fields: Any) -> Variant:
    return Variant(name, None, None, Never, "", "", **fields)


class MadeUp(Lab):
    name = "made-up"
    ladder = (
        *(variant(name) for name in ("slow", "quick", "quicker", "other")),
        variant("cuda-only", needs=frozenset({"cuda-c++"})),
        variant("on-host", needs=frozenset({"host"})),
        variant("sequential", needs=frozenset({"cpu"}), options={"device": "host"}),
    )

    def __init__(self) -> None:
        self.sweeps = (Sweep("width", "?", tuple(self.variant("slow").at("width", point) for point in (1, 2, 4, 8))),)

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case(CASE, scale, {}, 1)]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def check(self, case: Case, variant: Variant, outputs: Any, reference: Any) -> tuple[float, float, str]:
        return 0.0, 0.0, ""

    def work(self, case: Case) -> Work:
        return Work(1, 1, 1)


LAB = MadeUp()


def row(name: str, seconds: float, *, parts: Mapping[str, float] | None = None, **fields: Any) -> dict[str, Any]:
    """A verified row of 20 samples of 10 units around `seconds` a unit; rows drift together, each with its own small noise."""
    facts = fields.pop("facts", {})
    drift = 1 + 0.1 * np.sin(np.arange(20)) + 0.002 * np.cos(7.0 * np.arange(20) + len(name))
    extra = {
        "parts": {part: (10 * part_seconds * drift).tolist() for part, part_seconds in (parts or {}).items()},
        **facts,
    }
    return {
        "run": "20260101T100000Z-aaaaaa", "started": STARTED, "variant": name, "case": CASE, "role": "step", "parent": None,
        "device": "some-gpu", "units": 10, "status": "ok", "reason": None, "samples_s": (10 * seconds * drift).tolist(),
        "rounds": list(range(20)), "error": 0.0, "bound": 1.0, "policy": "{}", "timed": "kernel", "flops": 40.0, "bytes": 20.0,
        "extra": json.dumps(extra),
    } | fields  # fmt: skip


def moved(amount: float) -> str:
    return json.dumps({"amount": amount})


def ceilings(gigabytes: float = 100.0, gigaflops: float = 1000.0) -> pd.DataFrame:
    """A slow copy of a small working set, `gigabytes` a second of a large one, and `gigaflops`."""
    one = {
        "status": "ok",
        "units": 1,
        "cell_key": "of today",
        "env_key": "here",
        "extra": json.dumps({"amount": 1e9 * gigaflops}),
    }
    return pd.DataFrame([
        one | {"variant": "copy", "case": "1 KiB", "bytes": 1e3, "extra": moved(1e3), "samples_s": [1.0]},
        one
        | {"variant": "copy", "case": "1 GiB", "bytes": 1e9 * gigabytes, "extra": moved(1e9 * gigabytes)}
        | {"samples_s": [1.0, 2.0]},
        one | {"variant": "fma-float32", "dtype": "float32", "case": "registers", "bytes": 0.0, "samples_s": [1.0]},
    ])  # fmt: skip


def cells(
    *rows: dict[str, Any], backend: str = "opencl", kind: str = "gpu", peaks: pd.DataFrame | None = None
) -> ClaimData:
    """No row at all is a frame with columns, as the store hands it over."""
    frame = pd.DataFrame(list(rows), columns=None if rows else list(row("slow", 1)))
    timed, counted = (frame[(frame["role"] == "profile") == profiled] for profiled in (False, True))
    return ClaimData(LAB, timed, ceilings() if peaks is None else peaks, counted, backend=backend, kind=kind)


def sweep(*seconds: float, **fields: Any) -> list[dict[str, Any]]:
    """Rows of the points 1, 2, 4, 8."""
    return [row(f"slow@width={2**at}", width_seconds, **fields) for at, width_seconds in enumerate(seconds)]


def test_a_pair_is_a_ratio_of_rounds() -> None:
    pair = Pair("slow", "quick", CASE)
    finding = pair.find(cells(row("slow", 3.0), row("quick", 1.0)))
    assert finding.estimate == pytest.approx(3, rel=0.01) and (finding.turn, finding.below, finding.how) == (
        1,
        False,
        "in one run",
    )
    assert 2.98 < finding.low < finding.high < 3.02, "the drift of 10 % is that of both and cancels"
    assert pair.variants(LAB) == ("slow", "quick") and pair.scope == CASE
    across = pair.find(cells(row("slow", 3.0), row("quick", 1.0, run="another")))
    assert across.how == "across these runs" and across.low < 2.9 < 3.1 < across.high


def test_a_pair_is_of_the_newest_run_that_has_both_though_one_of_them_is_newer() -> None:
    """Runs with both variants count more than newer ones; a variant that fails today has no time.

    A run without one of the variants is no common run.
    """
    older, newer = (
        {"run": f"run {day}", "started": STARTED + pd.Timedelta(days=day), "cell_key": f"of day {day}"}
        for day in (1, 2)
    )
    rows = [row("slow", 9.0), row("quick", 1.0), row("slow", 4.0, **older), row("quick", 2.0, **older)]
    alone = row("quick", 1.0, **newer)
    pair = Pair("slow", "quick", CASE)
    finding = pair.find(cells(*rows, alone))
    assert finding.estimate == pytest.approx(2.0, rel=0.01) and "across" not in finding.how
    apart = pair.find(cells(row("slow", 9.0), alone))
    assert apart.estimate == pytest.approx(9.0, rel=0.01) and "across these runs" in apart.how
    wrong = row("slow", 4.0, **older) | {"error": 2.0}
    assert pair.find(cells(rows[0], wrong, rows[3], row("slow", 6.0, **newer))).how == "across these runs"
    with pytest.raises(MissingData, match=r"^quick failed: "):
        pair.find(cells(*rows, alone | {"status": "failed", "reason": "it does not build"}))


def test_a_pair_without_a_common_newest_run_takes_all_runs_that_it_had_together() -> None:
    """As where peers were measured again: the three runs of before tell more than the last of them."""
    together = [
        row(
            name,
            seconds * (1 + day / 10),
            run=f"run {day}",
            started=STARTED + pd.Timedelta(days=day),
            cell_key=name,
            env_key="here",
        )
        for day in range(3)
        for name, seconds in (("slow", 6.0), ("quick", 2.0))
    ]
    alone = row("quick", 1.0, run="run 9", started=STARTED + pd.Timedelta(days=9), cell_key="other", env_key="here")
    finding = Pair("slow", "quick", CASE).find(cells(*together, alone))
    assert finding.estimate == pytest.approx(3.0, rel=0.01) and finding.how == "of an earlier measurement", "paired"
    in_two = Pair("slow", "quick", CASE).find(cells(*together[:4], alone))
    assert in_two.how == "in two runs, of an earlier measurement"


def test_a_pair_may_be_said_to_stay_below_a_factor() -> None:
    finding = Pair("slow", "quick", CASE, below=2.0).find(cells(row("slow", 3.0), row("quick", 1.0)))
    assert (finding.turn, finding.below) == (2.0, True) and finding.estimate == pytest.approx(3, rel=0.01)


def test_a_pair_takes_parts_of_runs() -> None:
    pair = Pair(SumOfParts("slow", ("copy", "free")), SumOfParts("quick", ("copy",)), CASE)
    rows = row("slow", 9.0, parts={"copy": 3.0, "free": 1.0}), row("quick", 1.0, parts={"copy": 2.0})
    assert pair.find(cells(*rows)).estimate == pytest.approx(2, rel=0.01)
    assert pair.scope == "small, copy + free" and pair.variants(LAB) == ("slow", "quick")
    same = Pair(SumOfParts("slow", ("copy",)), SumOfParts("slow", ("free",)), CASE)
    assert same.variants(LAB) == ("slow",) and same.find(cells(*rows)).estimate == pytest.approx(3, rel=0.01)
    with pytest.raises(MissingData, match="quick has no part 'copy'"):
        pair.find(cells(rows[0], row("quick", 1.0)))
    with pytest.raises(MissingData, match="copy of quick took less time"):
        pair.find(cells(rows[0], row("quick", 1.0, parts={"copy": 0.0})))


def test_a_pair_of_a_kind_of_device_is_tested_on_no_other() -> None:
    pair = Pair("slow", "on-host", CASE, kind="cpu")
    rows = row("slow", 3.0), row("on-host", 1.0)
    with pytest.raises(NotApplicable, match="about a CPU"):
        pair.find(cells(*rows))
    assert pair.find(cells(*rows, kind="cpu")).estimate == pytest.approx(3, rel=0.01)


def test_a_variant_of_another_backend_is_not_missing_but_not_for_here() -> None:
    pair = Pair("slow", "cuda-only", CASE)
    with pytest.raises(NotApplicable, match="cuda-only is not for opencl"):
        pair.find(cells(row("slow", 3.0)))
    assert pair.find(cells(row("slow", 3.0), row("cuda-only", 1.0), backend="cuda")).estimate > 2.9
    for hosted in ("on-host", "sequential"):
        finding = Pair(hosted, "cuda-only", CASE).find(
            cells(row(hosted, 3.0, device="a-cpu"), row("cuda-only", 1.0), backend="cuda")
        )
        assert finding.how == "across devices in these runs"


KINDS: list[tuple[Evidence, list[dict[str, Any]]]] = [
    (Pair("slow", "quick", CASE), [row("slow", 2.0), row("quick", 1.0)]),
    (Best("width", ("2",), CASE), sweep(2.0, 1.0, 3.0, 4.0)),
    (
        AboveMost("slow", "quick", (("quick", "quicker"),), CASE),
        [row("slow", 4.0), row("quick", 2.0), row("quicker", 1.9)],
    ),
    (Share("slow", "copy", ("copy", "free"), CASE), [row("slow", 4.0, parts={"copy": 1.0, "free": 3.0})]),
    (Fact("registers", "slow", "quick", CASE), [row(name, 1, facts={"registers": 32}) for name in ("slow", "quick")]),
    (FactSpread("slow", ("a", "b"), CASE, "share"), [row("slow", 1, facts={"a": 0.5, "b": 0.5})]),
    (
        Counterexample("full", ("slow", "quick"), CASE),
        [row("slow", 2, facts={"full": 1.0}), row("quick", 1, facts={"full": 0.5})],
    ),
    (Intensity("slow", CASE), [row("slow", 1)]),
    (Bandwidth("slow", CASE), [row("slow", 1)]),
]


@pytest.mark.parametrize(("evidence", "rows"), KINDS, ids=lambda evidence: type(evidence).__name__)
def test_every_kind_finds_its_cells_and_says_which_one_is_missing(
    evidence: Evidence, rows: list[dict[str, Any]]
) -> None:
    names = {fields["variant"] for fields in rows}
    assert set(evidence.variants(LAB)) == names, "what it says it needs is what it reads"
    finding = evidence.find(cells(*rows))
    assert finding.low <= finding.estimate <= finding.high and math.isfinite(finding.estimate)
    plain = isinstance(evidence, Pair) and not any(
        isinstance(side, SumOfParts) for side in (evidence.slower, evidence.faster)
    )
    assert plain == (not evidence.compared), "what is compared is said, unless the variants' names say it"
    with pytest.raises(MissingData):
        evidence.find(cells())
    for at, left_out in enumerate(rows):
        with pytest.raises(MissingData, match=left_out["variant"]) as caught:
            evidence.find(cells(*rows[:at], *rows[at + 1 :]))
        assert not isinstance(caught.value, NotApplicable)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"status": "failed", "reason": "does not build", "samples_s": []}, "does not build"),
        ({"error": 2.0}, "not verified: error 2"),
        ({"error": float("nan")}, "not verified: error nan"),
    ],
)
@pytest.mark.parametrize(("evidence", "rows"), KINDS, ids=lambda evidence: type(evidence).__name__)
def test_no_kind_takes_a_number_from_a_row_that_failed_or_was_not_verified(
    evidence: Evidence, rows: list[dict[str, Any]], broken: dict[str, Any], reason: str
) -> None:
    for at in range(len(rows)):
        if not isinstance(evidence, Best | Counterexample):  # of these, one that failed is left out
            with pytest.raises(MissingData, match=reason):
                evidence.find(cells(*rows[:at], rows[at] | broken, *rows[at + 1 :]))
    with pytest.raises(MissingData):
        evidence.find(cells(*(fields | broken for fields in rows)))


def test_the_newest_row_counts_also_where_it_failed() -> None:
    later = {"started": STARTED + pd.Timedelta(days=1)}
    pair, rows = Pair("slow", "quick", CASE), [row("slow", 2.0), row("quick", 1.0)]
    assert pair.find(cells(*rows, row("quick", 0.5, **later))).estimate == pytest.approx(4, rel=0.01)
    with pytest.raises(MissingData, match="wrong result"):
        pair.find(cells(*rows, row("quick", 0.5, **later, status="failed", reason="wrong result")))


def test_the_best_point_is_held_against_the_quickest_of_the_others() -> None:
    best = Best("width", ("2",), CASE)
    finding = best.find(cells(*sweep(2.0, 1.0, 3.0, 4.0)))
    assert finding.estimate == pytest.approx(2, rel=0.01) and finding.how == "2 beside 1, in one run"
    assert best.find(cells(*sweep(2.0, 1.0, 0.5, 4.0))).estimate == pytest.approx(0.5, rel=0.01)
    two = Best("width", ("1", "2"), CASE, other_points=("8",))
    assert two.find(cells(*sweep(2.0, 1.0, 0.5, 4.0))).how == "2 beside 8, in one run"
    assert set(two.variants(LAB)) == {f"slow@width={point}" for point in (1, 2, 8)}


def test_a_point_with_a_run_on_a_quicker_machine_is_no_rival_of_one_that_is_faster_in_shared_rounds() -> None:
    """Only point 1 ran on the quicker machine too, and its median is the shortest."""
    runs = [
        fields | {"run": f"run-{at}", "started": STARTED + pd.Timedelta(days=at)}
        for at, seconds in enumerate([(2.0, 3.0, 1.8, 9.0), (2.0, 3.0, 1.8, 9.0), (1.3,), (1.3,), (1.3,)])
        for fields in sweep(*seconds)
    ]
    finding = Best("width", ("2",), CASE).find(cells(*runs))
    assert finding.how.startswith("2 beside 4") and finding.estimate == pytest.approx(0.6, rel=0.01)


def test_a_point_that_failed_is_no_rival_but_the_best_itself_must_run() -> None:
    best = Best("width", ("2",), CASE)
    rows = sweep(2.0, 1.0, 3.0, 4.0)
    failed = [fields | {"status": "failed", "reason": "no memory"} for fields in rows]
    assert best.find(cells(failed[0], *rows[1:])).how == "2 beside 4, in one run"
    with pytest.raises(MissingData, match="all of 2 failed"):
        best.find(cells(rows[0], failed[1], *rows[2:]))
    with pytest.raises(MissingData, match="all of others failed"):
        best.find(cells(failed[0], rows[1], *failed[2:]))


@pytest.mark.parametrize(("seconds", "turn"), [((8.0, 1.0, 4.0), 1.5), ((8.0, 9.0, 9.1), 1.0)])
def test_a_step_is_held_against_the_median_of_others_but_never_below_one(
    seconds: tuple[float, ...], turn: float
) -> None:
    names = ("other", "quicker", "sequential")
    rows = [row("slow", 18.0), row("quick", 6.0), *(row(*pair) for pair in zip(names, seconds, strict=True))]
    other_steps = (("quick", "other"), ("quick", "quicker"), ("quick", "sequential"))
    finding = AboveMost("slow", "quick", other_steps, CASE).find(cells(*rows))
    assert finding.estimate == pytest.approx(3, rel=0.01) and finding.turn == pytest.approx(turn, rel=0.01)
    assert "median of the other steps" in finding.how


def test_what_is_not_known_of_the_other_steps_widens_the_interval() -> None:
    evidence = AboveMost("slow", "quick", (("quick", "quicker"),), CASE)
    rows = [row("slow", 12.0), row("quick", 6.0)]
    noise = 1 + 0.3 * np.sin(3.0 * np.arange(20))
    sure, unsure = (
        evidence.find(cells(*rows, row("quicker", 5.0) | {"samples_s": (50.0 * shape).tolist()}))
        for shape in (np.ones(20), noise)
    )
    assert sure.turn == pytest.approx(1.2, rel=0.1) and sure.low > 1.8
    assert unsure.low < 0.95 * sure.low and unsure.high > sure.high and unsure.low <= unsure.estimate <= unsure.high


def test_a_share_is_of_each_sample() -> None:
    share = Share("slow", "copy", ("copy", "free"), CASE, 0.5)
    finding = share.find(cells(row("slow", 9.0, parts={"copy": 1.0, "free": 3.0})))
    assert finding.estimate == pytest.approx(0.25) and finding.turn == 0.5 and finding.high - finding.low < 1e-6


def test_facts_are_exact_numbers() -> None:
    fact = Fact("registers", "slow", "quick", CASE)

    def of(slow: Any, quick: Any) -> Finding:
        return fact.find(cells(row("slow", 1, facts={"registers": slow}), row("quick", 1, facts={"registers": quick})))

    assert of(32, 48) == Finding(1.5, 1.5, 1.5, "32 with slow, 48 with quick")
    assert of(0, 8).estimate == math.inf and of(8, 0).estimate == 0
    with pytest.raises(NotApplicable, match="registers is reported as 0 for both"):
        of(0, 0)
    for untold in (None, "32", True, float("nan")):
        with pytest.raises(NotApplicable, match="slow does not report 'registers' by this backend"):
            of(untold, 48)


def test_numbers_that_are_alike_are_held_against_one() -> None:
    even = FactSpread("slow", ("a", "b", "c"), CASE, "share")
    finding = even.find(cells(row("slow", 1, facts={"a": 0.3, "b": 0.4, "c": 0.3})))
    assert finding.estimate == pytest.approx(4 / 3) and even.effect == 1 and "0.4" in finding.how
    assert (finding.low, finding.high) == (0.0, math.inf), "one run tells nothing of how much runs differ"
    runs = [
        row(
            "slow",
            1,
            facts={"a": 0.3, "b": share, "c": 0.3},
            run=f"run {share}",
            started=STARTED + pd.Timedelta(days=day),
        )
        for day, share in enumerate((0.3, 0.33, 0.36))
    ]
    several = even.find(
        cells(*runs, row("slow", 1, run="failed", started=STARTED - pd.Timedelta(days=1)) | {"error": 2.0})
    )
    assert (several.estimate, several.low, several.high) == pytest.approx((1.1, 1.0, 1.2)) and "n = 3" in several.how
    with pytest.raises(MissingData, match="share of slow is 0"):
        even.find(cells(row("slow", 1, facts={"a": 0.3, "b": 0.0, "c": 0.3})))


def test_a_counterexample_is_the_pair_that_speaks_most_for_it() -> None:
    evidence = Counterexample("full", ("slow", "quick", "quicker"), CASE)

    def of(**traffic: tuple[float, float]) -> Finding:
        return evidence.find(cells(*(row(name, time, facts={"full": full}) for name, (time, full) in traffic.items())))

    finding = of(slow=(4.0, 1.0), quick=(2.0, 0.5), quicker=(1.0, 0.25))
    assert (
        finding.estimate == pytest.approx(4, rel=0.01) and finding.how == "quicker with 0.25, slow with 1, in one run"
    )
    assert of(slow=(4.0, 0.25), quick=(2.0, 0.5), quicker=(1.0, 1.0)).high < 1, "more of it is always faster"
    with pytest.raises(MissingData, match="the same for all"):
        of(slow=(4.0, 1.0), quick=(2.0, 1.0), quicker=(1.0, 1.0))


def test_intensity_turns_at_the_ridge_and_bandwidth_is_of_the_largest_working_set() -> None:
    held = cells(row("slow", 4e-10), peaks=ceilings(100, 1000))
    assert Intensity("slow", CASE).find(held) == Finding(2.0, 2.0, 2.0, "the ridge point is at 10", 10.0)
    finding = Bandwidth("slow", CASE).find(held)
    assert finding.estimate == pytest.approx(0.5, rel=0.02) and finding.low < finding.estimate < finding.high
    assert finding.turn == 0
    for evidence in (Intensity("slow", CASE), Bandwidth("slow", CASE)):
        with pytest.raises(MissingData, match="no peaks"):
            evidence.find(cells(row("slow", 4e-10), peaks=ceilings()[:0]))


def test_what_is_not_testable_says_why() -> None:
    evidence = NotTestable("needs a counter")
    assert evidence.variants(LAB) == () and evidence.case == ""
    with pytest.raises(NotApplicable, match="needs a counter"):
        evidence.find(cells())


def test_what_stands_in_is_named_and_only_where_the_first_is_missing() -> None:
    own, other = Pair("slow", "quick", CASE, below=3.0), Pair("slow", "cuda-only", CASE, below=3.0)
    evidence = OrElse(own, other, "by another kernel")
    assert evidence.variants(LAB) == ("slow", "quick", "cuda-only") and evidence.case == CASE and evidence.unit == "x"
    assert evidence.scope == own.scope and evidence.compared == "otherwise by another kernel"
    slow, quick, cuda_only = row("slow", 4.0), row("quick", 2.0), row("cuda-only", 1.0)
    first = evidence.find(cells(slow, quick, cuda_only, backend="cuda"))
    assert first.estimate == pytest.approx(2, rel=0.01) and first.turn == 3 and first.variants == ()
    stand_in = evidence.find(cells(slow, cuda_only, backend="cuda"))
    assert stand_in.estimate == pytest.approx(4, rel=0.01) and stand_in.how.startswith("by another kernel")
    assert stand_in.variants == ("slow", "cuda-only")
    with pytest.raises(MissingData, match="quick"):
        evidence.find(cells(slow, backend="cuda"))


def test_the_quickest_point_of_a_sweep_is_told_in_work_items_a_core() -> None:
    from roofbook.spec import registry

    lab = registry.get("cnn")
    (evidence,) = publication(lab).evidence["more-than-cores"]
    names = evidence.variants(lab)
    assert (
        all(lab.skip_reason(lab.variant(name), lab.case(evidence.case)) is None for name in names) and len(names) > 30
    )

    def held(items: Mapping[str, float]) -> pd.DataFrame:
        rows = [
            row(name, 2e-3 if name != names[0] else 1e-3)
            | {"case": evidence.case, "extra": json.dumps({"work_items": items.get(name, 4000), "cores": 1000})}
            for name in names
        ]
        return pd.DataFrame(rows)

    def crowded(items: Mapping[str, float], **fields: Any) -> Any:
        claim_data = ClaimData(
            lab, held(items).assign(**fields), ceilings(), pd.DataFrame(), backend="opencl", kind="gpu"
        )
        return evidence.find(claim_data)

    finding = crowded({names[0]: 2500, names[-1]: 500})
    assert (finding.estimate, finding.low, finding.high, finding.turn) == (
        2.5,
        2.5,
        2.5,
        1.0,
    ) and "0.5 per core" in finding.how
    assert crowded({names[0]: 250, names[-1]: 500}).estimate == 0.25
    near = {names[0]: 2500, names[1]: 800, names[-1]: 500}
    alike = crowded(near, samples_s=[[10e-3] * 20] * len(names))
    assert (alike.low, alike.high) == (0.5, 4.0), "each of them may be the fastest"
    with pytest.raises(NotApplicable, match=r"as few work-items as this device has cores: at least 2\.5 per core"):
        crowded({names[0]: 2500})
    with pytest.raises(MissingData, match="all points of the sweep failed"):
        crowded({names[-1]: 500}, status="failed", reason="no memory")
