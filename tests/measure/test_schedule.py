"""Which measurements are due, and that finished ones are stored: case by case, whole ones only, also on an interrupt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.often import often

from roofbook import paths
from roofbook.devices.contract import Device
from roofbook.devices.find import open_device
from roofbook.labs.lbm.lattice import Lattice
from roofbook.measure import sampling, schedule
from roofbook.measure.case_run import StoredRow
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.spec.plan import Case, Variant
from roofbook.store import todays_code
from roofbook.store.parquet import Store

POLICY = Policy(budget_s=1e-6)
NAMES = ("sequential", "fused", "select")


@pytest.fixture(scope="module")
def auto() -> Device:
    return open_device()


@pytest.fixture(autouse=True)
def no_awkward_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are verified on the cases themselves: test_awkward_sizes.py has the small runs, each of which is compiled."""
    monkeypatch.setattr(Lattice, "awkward", ())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


def lbm() -> tuple[Lattice, list[Case], list[Variant]]:
    """The lab with two small cases, and three of its steps."""
    lab = registry.get("lbm")
    assert isinstance(lab, Lattice)
    (case,) = lab.cases("test")
    return (
        lab,
        [case, replace(case, name="16x16", params={**case.params, "nx": 16, "ny": 16})],
        [lab.variant(name) for name in NAMES],
    )


def planned(auto: Device, store: Store, policy: Policy = POLICY) -> list[schedule.Planned]:
    lab, cases, variants = lbm()
    return schedule.plan(lab, cases, variants, auto, store, policy)


def test_a_plan_has_a_cell_for_each_variant_that_runs_on_each_case(auto: Device, store: Store) -> None:
    lab, cases, _ = lbm()
    cells = schedule.plan(lab, cases, lab.all_variants(), auto, store, POLICY)
    planned_pairs = {(cell.case.name, cell.variant.name) for cell in cells}
    assert ("40x24", "bit-neighbours") not in planned_pairs and ("16x16", "bit-neighbours") in planned_pairs
    assert all(lab.skip_reason(cell.variant, cell.case) is None for cell in cells)
    assert {cell.backend for cell in cells} <= {auto.backend, "host", "opencl"}
    assert len({cell.cell_key for cell in cells}) == len(cells)
    assert {cell.state for cell in cells} == {"missing"}
    assert cells[0].row().keys() == {"lab", "variant", "case", "backend", "device", "state", "why"}


def test_only_due_measurements_run_and_are_stored_case_by_case(auto: Device, store: Store) -> None:
    stages: list[str] = []
    done = schedule.bring_up_to_date(
        planned(auto, store), auto, store, POLICY, progress=lambda cell_name, _: stages.append(cell_name)
    )
    assert (done.measured, done.fresh, done.failed) == (6, 0, 0), "the control is no cell of its own"
    assert stages[0].startswith("40x24 ") and stages[-1].startswith("16x16 ")
    rows = store.rows("lbm")
    assert list(rows.groupby("case", sort=False)["role"].agg(list)) == [["step", "step", "step", "again"]] * 2
    assert set(rows["run"]) == {done.run} and rows["source_sha256"].notna().all()
    again = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY)
    assert (again.measured, again.fresh) == (0, 6)
    forced = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, remeasure=True)
    assert (forced.measured, forced.fresh) == (6, 0)
    assert len(store.rows("lbm")) == 2 * len(rows)


@pytest.mark.parametrize(
    "moment",
    often(
        ["16x16 select check", "16x16 fused sample 2 ", "16x16 fused sample 5 "], lambda moment: "sample 2" in moment
    ),
)
def test_an_interrupt_keeps_whole_cells_and_the_next_call_goes_on(auto: Device, store: Store, moment: str) -> None:
    policy = replace(POLICY, budget_s=60.0, noise=0.0, maximum=6)  # each cell takes all six samples

    def press_ctrl_c(cell_name: str, now: str) -> None:
        if f"{cell_name} {now} ".startswith(moment):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        schedule.bring_up_to_date(planned(auto, store), auto, store, policy, progress=press_ctrl_c)
    stored = store.rows("lbm")
    assert set(stored["case"]) == {"40x24"} and set(stored["samples_s"].map(len)) == {6}
    assert {cell.case.name: cell.state for cell in planned(auto, store)} == {"40x24": "fresh", "16x16": "missing"}
    done = schedule.bring_up_to_date(planned(auto, store), auto, store, policy)
    assert (done.measured, done.fresh) == (3, 3)
    assert {cell.state for cell in planned(auto, store)} == {"fresh"}


def test_an_interrupt_in_the_midst_of_a_case_keeps_the_samples_of_all_its_cells(
    auto: Device, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "enough", lambda cell, *_: cell.variant.name == "select" and len(cell.samples) == 2)

    def press_ctrl_c(cell_name: str, now: str) -> None:
        if now.startswith("sample 5 "):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, progress=press_ctrl_c)
    assert store.rows("lbm").empty, "none was verified again"
    monkeypatch.setattr(sampling, "enough", lambda cell, *_: len(cell.samples) >= 2)
    done = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY)
    rows = store.rows("lbm", case="40x24").set_index(["variant", "role"])
    assert len(set(rows["run"])) == 1 and set(rows["run"]) < set(done.run.split(", ")), "that in which the case began"
    assert list(rows.loc[("select", "step"), "rounds"]) == [0, 1], "it had all of its samples"
    assert list(rows.loc[("fused", "step"), "rounds"])[:4] == [0, 1, 2, 3]
    assert not list((store.root / "unfinished").iterdir())


@pytest.mark.parametrize(
    ("limit_s", "left"),
    [(POLICY.limit_s, ["fused", "select"]), (2 * POLICY.limit_s, ["fused", "select", "sequential", "sequential"])],
)
def test_measuring_again_skips_variants_finished_under_the_same_policy(
    auto: Device, store: Store, monkeypatch: pytest.MonkeyPatch, limit_s: float, left: list[str]
) -> None:
    """Else each part of a long recording would begin with the same failures, and end with the same times."""
    schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY)
    before, checked = len(store.rows("lbm")), list[str]()
    names = {cell.case.name for cell in planned(auto, store)}

    def check(self: Lattice, case: Case, variant: Variant, *_: object) -> tuple[float, float, str]:
        if case.name in names:  # not its small runs of awkward sizes
            checked.append(variant.name)
        return (2.0 if variant.name == "sequential" else 0.5), 1.0, "of something"

    def press_ctrl_c(cell_name: str, now: str) -> None:
        if now.startswith("sample 5 "):
            raise KeyboardInterrupt

    monkeypatch.setattr(Lattice, "check", check)
    monkeypatch.setattr(sampling, "enough", lambda cell, *_: cell.variant.name == "select" and len(cell.samples) == 2)
    with pytest.raises(KeyboardInterrupt):
        schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, remeasure=True, progress=press_ctrl_c)
    assert sorted(checked) == ["fused", "select", "sequential", "sequential"], "the first case, with the control"
    (first,) = set(store.rows("lbm")["run"].iloc[before:])
    monkeypatch.setattr(sampling, "enough", lambda cell, *_: len(cell.samples) >= 2)
    checked.clear()
    policy = replace(POLICY, limit_s=limit_s)
    done = schedule.bring_up_to_date(planned(auto, store), auto, store, policy, remeasure=True)
    assert sorted(checked[: len(left)]) == left and len(checked) == len(left) + 4, "then the other case, all of it"
    assert (done.measured, done.failed) == (len([*dict.fromkeys(left)]) + 3, 1 + ("sequential" in left))
    assert done.measured + done.earlier == 6 and done.fresh == 0 and not list((store.root / "unfinished").iterdir())
    rows = store.rows("lbm", case="40x24", run=first)
    outcomes = zip(rows["variant"], rows["role"], rows["status"], strict=True)
    assert set(outcomes) == {
        ("sequential", "step", "failed"), ("sequential", "again", "failed"), ("fused", "step", "ok"), ("select", "step", "ok"),
    }  # fmt: skip


def test_a_failure_is_stored_with_its_reason_and_due_again(
    auto: Device, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Lattice, "check", lambda *_: (2.0, 1.0, "of something"))
        done = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY)
    assert (done.measured, done.failed) == (6, 6) and ", 6 of them failed" in str(done)
    cells = planned(auto, store)
    assert {cell.state for cell in cells} == {"failed"}
    assert all("wrong result: error 2, allowed 1 (of something)" in cell.why for cell in cells)
    assert schedule.bring_up_to_date(cells, auto, store, POLICY).failed == 0
    assert {cell.state for cell in planned(auto, store)} == {"fresh"}


@pytest.mark.thorough
def test_each_requested_run_covers_all_cases_before_the_next(auto: Device, store: Store) -> None:
    cells = planned(auto, store)
    schedule.bring_up_to_date(cells[:1], auto, store, POLICY)
    done = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, runs=3)
    rows = store.rows("lbm")
    rows = rows[rows["role"] != "again"]
    assert {len(group) for _, group in rows.groupby(["case", "variant"])} == {3}
    assert (
        done.run.count(",") == 2
        and done.measured == 3 * len(cells) - 1
        and str(done).startswith("17 measurements taken; runs ")
    )
    first = {name: set(group["run"]) for name, group in rows.groupby("case")}
    assert all(len(runs & set(done.run.split(", "))) == 3 for runs in first.values()), "the cases of a run are one run"
    assert {cell.runs for cell in planned(auto, store)} == {3}
    assert schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, runs=3).measured == 0
    again = schedule.bring_up_to_date(planned(auto, store)[:1], auto, store, POLICY, runs=2, remeasure=True)
    assert again.measured == 2 and planned(auto, store)[0].runs == 5


@pytest.mark.thorough
def test_an_interrupted_run_of_several_is_gone_on_with_and_the_others_follow(auto: Device, store: Store) -> None:
    class Cut(BaseException):
        pass

    cases = list(dict.fromkeys(cell.case.name for cell in planned(auto, store)))
    seen = []

    def press(variant: str, stage: str) -> None:
        seen.append(variant)
        if variant.startswith(cases[1]) and stage.startswith("sample 2"):
            raise Cut

    with pytest.raises(Cut):
        schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, runs=2, progress=press)
    schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, runs=2)
    rows = store.rows("lbm")
    rows = rows[rows["role"] != "again"]
    assert {group["run"].nunique() for _, group in rows.groupby(["case", "variant"])} == {2}
    assert not (store.root / "unfinished").exists() or not list((store.root / "unfinished").iterdir())


def test_a_failed_variant_is_not_measured_in_further_runs(
    auto: Device, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lattice, "check", lambda *_: (2.0, 1.0, "of something"))
    done = schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, runs=3)
    assert (done.measured, done.failed) == (6, 6)


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((0, 0, 0), "0 measurements taken, 0 were fresh"),
        ((0, 2, 0), "0 measurements taken, 2 were fresh"),
        ((1, 0, 0), "1 measurement taken; run R"),
        ((2, 1, 1), "2 measurements taken, 1 of them failed, 1 was fresh; run R"),
        ((4, 0, 1, 2), "4 measurements taken, 1 of them failed, 2 before the interrupt; run R"),
    ],
)
def test_a_summary_counts_measured_fresh_and_failed_ones(counts: tuple[int, ...], text: str) -> None:
    assert str(schedule.Done("R", *counts)) == text


def test_ceilings_are_measured_warm_and_in_bounded_time() -> None:
    assert Policy(budget_s=9).warm() == replace(Policy(), cache="warm", budget_s=0.5)
    assert Policy(budget_s=0.1).warm().budget_s == 0.1


def test_the_checkout_is_found_from_any_folder_in_it(
    unmeasured: Callable[[], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = unmeasured()
    monkeypatch.chdir(root / "results" / "published")
    assert paths.project_root() == root.resolve()
    assert paths.project_root(root) == root.resolve()
    assert paths.project_root(tmp_path) == paths.LIBRARY.parents[1], "outside any, the library's own"
    monkeypatch.setattr(paths, "LIBRARY", tmp_path / "lib" / "roofbook")
    assert paths.project_root(tmp_path) == tmp_path, "of an installed library it is the folder itself"


def test_modelled_bytes_are_those_of_todays_model(auto: Device, store: Store) -> None:
    """A row has the bytes of the traffic model of its day; today's model replaces them in old rows too."""
    cells = planned(auto, store)
    schedule.bring_up_to_date(cells, auto, store, POLICY)
    lab = cells[0].lab
    rows = store.rows("lbm", case="40x24")
    old = rows.assign(bytes=1.0)
    bytes_by_variant = todays_code.matching_source(lab, old).drop_duplicates("variant").set_index("variant")["bytes"]
    assert all(bytes_by_variant[name] == lab.traffic(lab.case("40x24"), lab.variant(name)) for name in NAMES)
    foreign = old.assign(case="a case of another day")
    assert set(todays_code.with_current_traffic(lab, foreign)["bytes"]) == {1.0}
    assert set(todays_code.with_current_traffic(lab, old.iloc[:0])) == set(old)
    removed_step = old.assign(variant="a step of another day")
    assert set(todays_code.with_current_traffic(lab, removed_step)["bytes"]) == {1.0} and set(old["bytes"]) == {1.0}


def test_each_lattice_step_moves_the_bytes_of_its_data_flow() -> None:
    lab = registry.get("lbm")
    case = lab.case("128x128")
    a_cell = {name: lab.traffic(case, lab.variant(name)) / 128**2 for name in (
        "sequential", "ported", "fused", "byte-obstacles", "in-place", "half-storage", "persistent", "tagged-halo", "openmp",
    )}  # fmt: skip
    assert a_cell == {
        "sequential": 5 * 36 + 12, "ported": 5 * 36 + 12, "fused": 76, "byte-obstacles": 73, "in-place": 73,
        "half-storage": 37, "persistent": 24, "tagged-halo": 48, "openmp": 73,
    }  # fmt: skip
    assert lab.traffic(lab.case("1024x1024"), lab.variant("persistent")) == lab.work(lab.case("1024x1024")).bytes


@pytest.mark.parametrize("apart", [False, True])
def test_a_case_is_measured_in_its_own_process_on_request(
    auto: Device, store: Store, monkeypatch: pytest.MonkeyPatch, apart: bool
) -> None:
    measured_by: list[str] = []

    def stand_in(name: str) -> Callable[..., list[StoredRow]]:
        def measure(at: Setting, variants: list[Variant], **options: object) -> list[StoredRow]:
            measured_by.append(name)
            return []

        return measure

    for name in ("measure_isolated", "measure_and_store"):
        monkeypatch.setattr(schedule, name, stand_in(name))
    schedule.bring_up_to_date(planned(auto, store), auto, store, POLICY, isolated=apart)
    assert set(measured_by) == {"measure_isolated" if apart else "measure_and_store"}
