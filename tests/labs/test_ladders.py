"""Every lab's ladder is well-formed: names, parents, sweeps, cases; a step differs in the change it names, nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.devices.contract import Device
from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.spec.kernel_constants import constants
from roofbook.spec.lab import SCALES, Lab, Variant
from roofbook.store import published_results

from ..naming import naming

RESULTS = Path(__file__).parents[2] / "results"
LABS = [pytest.param(registry.get(name), id=name) for name in registry.names()]


def of_roles(lab: Lab, *roles: str) -> list[Variant]:
    return [variant for variant in lab.all_variants() if variant.role in roles]


class Timed:
    """Stand-in for measurements: every variant took the same time, or none was measured."""

    def __init__(self, time: float | None) -> None:
        self.time = time

    def seconds(self, variant: str, case: str) -> float | None:
        return self.time

    def fastest_point(self, axis: str, case: str) -> str | None:
        return None if self.time is None else "1"

    def counted(self, variant: str, case: str) -> dict[str, Any] | None:
        layers = [{"kernel": kernel, "memory": 0.5} for kernel in ("linear", "tiled_halo") for _ in range(2)]
        return None if self.time is None else {"kernels": layers}


def machine(kind: str) -> Device:
    """Return a stand-in for a device, as a lab's mapping needs it."""
    return cast(Device, SimpleNamespace(kind=kind))


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS)
def test_names_are_unique_and_parents_come_first(lab: Lab) -> None:
    seen: set[str] = set()
    for variant in lab.all_variants():
        assert variant.name not in seen, f"{variant.name} is there twice"
        assert variant.parent is None or variant.parent in seen, f"{variant.name} comes before its parent"
        seen.add(variant.name)


@pytest.mark.parametrize("lab", LABS)
def test_pairs_are_of_variants_and_each_is_told_once(lab: Lab) -> None:
    pairs = [pair for _, pairs in publication(lab).pairs for pair in pairs]
    assert len(set(pairs)) == len(pairs) and all(first != second for first, second in pairs)
    for name in {name for pair in pairs for name in pair}:
        assert lab.variant(name).role in ("step", "peer")


@pytest.mark.parametrize("lab", LABS)
def test_there_is_one_base_and_the_best_is_a_rung(lab: Lab) -> None:
    starts = [variant.name for variant in lab.ladder if variant.parent is None]
    assert starts[0] == lab.ladder[0].name and {*starts} <= {*lab.bases, *lab.headline}
    for names in (lab.bases, lab.headline):
        assert {*names} & {*starts} and {*names} <= {variant.name for variant in lab.ladder}
        assert len({*names}) == len(names)
    assert lab.best in {variant.name for variant in lab.ladder if variant.role == "step"}
    assert {variant.role for variant in lab.ladder} <= {"step", "base", "probe"}
    assert {variant.role for variant in lab.peers} <= {"peer"}


@pytest.mark.parametrize("lab", LABS)
def test_a_rung_says_what_it_changes_and_what_is_expected(lab: Lab) -> None:
    for variant in of_roles(lab, "step", "base", "probe", "peer"):
        with naming(variant.name):
            for text in (variant.change, variant.expect):
                assert text.endswith(".") and len(text) > 12 and "\n" not in text
            assert variant.backends and variant.backends <= {"opencl", "cuda", "host"}
            assert not {"@", "=", "/", " "} & set(variant.name)


@pytest.mark.parametrize("lab", LABS)
def test_lookup_by_name(lab: Lab) -> None:
    for variant in lab.all_variants():
        assert lab.variant(variant.name) is variant
    with pytest.raises(UsageError, match=rf"^unknown variant '{lab.best}s' .did you mean '{lab.best}'"):
        lab.variant(f"{lab.best}s")
    with pytest.raises(UsageError, match=r"^unknown case 'none'; valid: "):
        lab.case("none")


# -- a step differs from its parent in what it names -------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS)
def test_a_rung_differs_in_what_it_names_and_nothing_else(lab: Lab) -> None:
    for variant in of_roles(lab, "step", "base", "probe", "sweep"):
        with naming(variant.name):
            if variant.parent is None:
                continue
            parent = lab.variant(variant.parent)
            assert variant.source and parent.source
            differs = {
                "source": variant.source.resolve() != parent.source.resolve(),
                "plan": variant.plan is not parent.plan,
                "options": dict(variant.options) != dict(parent.options),
            }
            unchanged = variant.role == "sweep" and not any(differs.values())  # the point at which its parent stands
            assert unchanged or set(variant.differs) == {name for name, is_so in differs.items() if is_so}
            assert len(set(variant.differs)) == len(variant.differs) >= 1
            if variant.source.path != parent.source.path:
                assert "plan" in variant.differs, "another data flow has a plan of its own"
            elif differs["source"]:
                changed = {
                    name for name, _ in set(variant.source.settings.items()) ^ set(parent.source.settings.items())
                }
                assert 1 <= len(changed) <= 3, changed


@pytest.mark.parametrize("lab", LABS)
def test_every_variant_renders_where_it_says_it_runs(lab: Lab) -> None:
    for variant in of_roles(lab, "step", "base", "probe", "sweep"):
        with naming(variant.name):
            assert variant.source
            assert variant.source.with_knobs() == variant.source, "its knobs are those of its text"
            for backend, word in (("opencl", "__kernel"), ("cuda", "__global__")):
                if backend in variant.backends:
                    assert f"{word} void " in variant.source.render(backend) or f"{word} __" in variant.source.render(
                        backend
                    )


# -- sweeps and series -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS)
def test_the_scale_test_has_of_a_sweep_the_ends_and_of_a_rung_each_part_that_is_left_out(lab: Lab) -> None:
    for sweep in lab.sweeps:
        telling = sweep.at_scale("quick")
        ends = (telling[0], telling[-1])
        assert sweep.at_scale("test") == (sweep.variants if sweep.axis == "without" else ends)
        assert sweep.at_scale("published") == sweep.variants
        quick = [v.point for v in sweep.at_scale("quick")]
        assert quick == [v.point for v in sweep.variants if not sweep.quick or v.point in sweep.quick]
        assert set(sweep.quick) <= set(quick), "a point of `quick` is none of the sweep"
        one = replace(sweep, variants=sweep.variants[:1], quick=())
        assert one.at_scale("test") == one.variants
    few = [v.name for v in lab.at_scale("test")]
    assert len(few) == len({*few}) and {v.name for v in (*lab.ladder, *lab.peers)} <= {*few}
    assert {*few} <= {v.name for v in lab.all_variants()}


@pytest.mark.parametrize("lab", LABS)
def test_sweeps_ask_a_question_and_vary_one_thing(lab: Lab) -> None:
    assert len({sweep.axis for sweep in lab.sweeps}) == len(lab.sweeps)
    for sweep in lab.sweeps:
        assert sweep.question.endswith("?") and len(sweep.variants) >= 2
        (swept,) = {variant.name.partition("@")[0] for variant in sweep.variants}
        for variant in sweep.variants:
            assert (variant.role, variant.axis) == ("sweep", sweep.axis)
            assert variant.name == f"{swept}@{sweep.axis}={variant.point}"
            first = sweep.variants[0]
            assert variant.parent in (swept, None if variant is first else first.name)
            assert not variant.shows and variant.published is None, "what the swept step shows need not be there"


@pytest.mark.parametrize("lab", LABS)
def test_series_ask_a_question_and_go_up_in_one_thing(lab: Lab) -> None:
    for scale in SCALES:
        all_series = lab.series(scale)
        assert len({series.axis for series in all_series}) == len(all_series)
        for series in all_series:
            assert series.question.endswith("?") and len(series.points) >= 2
            xs, cases = zip(*series.points, strict=True)
            assert list(xs) == sorted(set(xs)) and len(set(cases)) == len(cases)
            assert all(lab.case(name, scale).name == name for name in cases)
            assert all(lab.variant(name).name == name for name in series.variants)
            assert {name for pair in series.against for name in pair} <= set(series.variants)


@pytest.mark.parametrize("lab", LABS)
def test_what_is_left_out_of_the_best_rung_is_as_another_rung_has_it(lab: Lab) -> None:
    best = lab.variant(lab.best)
    assert best.source
    arms = {item for variant in lab.ladder if variant.source for item in variant.source.settings.items()}
    for variant in (v for sweep in lab.sweeps if sweep.axis == "without" for v in sweep.variants):
        assert variant.parent == lab.best and variant.source
        back = set(variant.source.settings.items()) - set(best.source.settings.items())
        assert back and back <= arms, back - arms


# -- cases and published figures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS)
def test_cases_have_work_and_a_rate_at_every_scale(lab: Lab) -> None:
    for scale in SCALES:
        cases = lab.cases(scale)
        assert cases and len({case.name for case in cases}) == len(cases)
        for case in cases:
            assert case.scale == scale and case.units >= 1 and lab.case(case.name, scale) == case
            work, (amount, unit) = lab.work(case), lab.rate(case)
            assert min(work.flops, work.bytes, work.footprint, amount) > 0 and unit
            assert all(lab.traffic(case, variant) > 0 for variant in lab.ladder)


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
@pytest.mark.parametrize("lab", LABS)
def test_published_names_are_published_and_ours_are_ours(lab: Lab, kind: str) -> None:
    report = lab.name in published_results.labs(RESULTS)
    figures = published_results.figures(lab.name, RESULTS).to_dict("records") if report else []
    names = {row["variant"] for row in figures} | {(row["variant"], row["device"]) for row in figures}
    ours = {variant.name for variant in lab.all_variants()}
    for variant in lab.all_variants():
        assert variant.published is None or variant.published in names, variant.name
    for published, mapped in publication(lab).mapping(machine(kind)).items():
        assert published in names
        assert {mapped} <= ours if isinstance(mapped, str) else set(mapped) <= ours
    assert {row["case"] for row in figures} <= {
        *publication(lab).cases,
        *(case.name for case in lab.cases("published")),
        "",
    }
    rows = {(row["variant"], row["case"], row["metric"]) for row in figures}
    assert set(publication(lab).counted(cast(Measured, Timed(0.5)))) <= rows
    publication(lab).counted(cast(Measured, Timed(None)))


def test_what_splits_its_operands_counts_as_fp32_and_nothing_else_does() -> None:
    exact_otherwise = {
        name: {v.name for v in lab.all_variants() if lab.exact_as(v) != v.dtype}
        for name, lab in ((name, registry.get(name)) for name in registry.names())
    }
    for name, by_library in (("cnn", {"cudnn-split"}), ("lenet", set())):
        sources = {v.name: v.source for v in registry.get(name).all_variants() if v.source and v.dtype == "float16"}
        split = {variant for variant, source in sources.items() if constants(source).get("PARTS") == 2}
        assert exact_otherwise.pop(name) == split | by_library and split
    assert not any(exact_otherwise.values()), "integers are exact in each type of convpool"
