"""Every lab's ladder is well-formed: names, parents, sweeps, cases; a step differs in the change it names, nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.book import lint
from roofbook.devices.contract import Device
from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.spec.kernel_constants import constants
from roofbook.spec.lab import Lab
from roofbook.store import published_results

RESULTS = Path(__file__).parents[2] / "results"
LABS = [pytest.param(registry.get(name), id=name) for name in registry.names()]


class Timed:
    """Stand-in for measurements: every variant took the same time, or none was measured."""

    def __init__(self, time: float | None) -> None:
        self.time = time

    def seconds(self, variant: str, case: str) -> float | None:
        return self.time

    def peak_bandwidth(self) -> float | None:
        return None if self.time is None else 1e12

    def fastest_point(self, axis: str, case: str) -> str | None:
        return None if self.time is None else "1"

    def counted(self, variant: str, case: str) -> dict[str, Any] | None:
        layers = [{"kernel": kernel, "memory": 0.5} for kernel in ("linear", "tiled_halo") for _ in range(2)]
        return None if self.time is None else {"kernels": layers}


def machine(kind: str) -> Device:
    """Return a stand-in for a device, as a lab's mapping needs it."""
    return cast(Device, SimpleNamespace(kind=kind))


# -- rules of the library, and names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", lint.LADDER, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("lab", LABS)
def test_a_lab_keeps_the_rules(lab: Lab, rule: lint.Rule) -> None:
    assert not list(rule(lab))


@pytest.mark.parametrize("lab", LABS)
def test_pairs_are_of_variants_and_each_is_told_once(lab: Lab) -> None:
    pairs = [pair for _, pairs in publication(lab).pairs for pair in pairs]
    assert len(set(pairs)) == len(pairs) and all(first != second for first, second in pairs)
    for name in {name for pair in pairs for name in pair}:
        assert lab.variant(name).role in ("step", "peer")


@pytest.mark.parametrize("lab", LABS)
def test_lookup_by_name(lab: Lab) -> None:
    for variant in lab.all_variants():
        assert lab.variant(variant.name) is variant
    with pytest.raises(UsageError, match=rf"^unknown variant '{lab.best}s' .did you mean '{lab.best}'"):
        lab.variant(f"{lab.best}s")
    for name in (lab.cases("test")[0].name, lab.cases("published")[-1].name):
        with pytest.raises(UsageError, match=rf"^'{name}' is a case of {lab.name}; a variant is meant here, such as '"):
            lab.variant(name)
    with pytest.raises(UsageError, match=r"^unknown case 'none'; valid: "):
        lab.case("none")


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
def test_what_is_left_out_of_the_best_rung_is_as_another_rung_has_it(lab: Lab) -> None:
    best = lab.variant(lab.best)
    assert best.source
    arms = {item for variant in lab.ladder if variant.source for item in variant.source.settings.items()}
    for variant in (v for sweep in lab.sweeps if sweep.axis == "without" for v in sweep.variants):
        assert variant.parent == lab.best and variant.source
        back = set(variant.source.settings.items()) - set(best.source.settings.items())
        assert back and back <= arms, back - arms


# -- cases and published figures ---------------------------------------------------------------------------------------


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
        name: {v.name for v in lab.all_variants() if lab.exact_as()[v.name] != v.dtype}
        for name, lab in ((name, registry.get(name)) for name in registry.names())
    }
    for name, by_library in (("cnn", {"cudnn-split", "triton-split"}), ("lenet", set())):
        sources = {v.name: v.source for v in registry.get(name).all_variants() if v.source and v.dtype == "float16"}
        split = {variant for variant, source in sources.items() if constants(source).get("PARTS") == 2}
        assert exact_otherwise.pop(name) == split | by_library and split
    assert not any(exact_otherwise.values()), "integers are exact in each type of convpool"


@pytest.mark.parametrize("lab", LABS)
def test_no_step_is_turned_into_a_probe(lab: Lab) -> None:
    """Its result would be accepted, as that of a probe is, and its time would be the fastest."""
    probes = {variant.name for variant in lab.ladder if lab.is_probe(variant)}
    assert probes == {variant.name for variant in lab.ladder if variant.role == "probe"}
    knobs = lab.probe_knobs()
    assert {name for names in knobs.values() for name in names} <= probes
    for step in (step for step in lab.ladder if step.source):
        for knob in knobs.keys() & step.text.settings.keys():
            for value in {str(lab.variant(probe).text.settings.get(knob)) for probe in knobs[knob]} | {"0", "7"}:
                with pytest.raises(UsageError, match=f"^{knob} makes a probe, whose result is not right: measure "):
                    lab.turned(step, {knob: value}, must_differ=True)
    for variant in lab.all_variants():
        changed = {
            name for name in knobs if variant.source and variant.role != "probe" and name in dict(variant.source.knobs)
        }
        assert not changed or lab.is_probe(variant), variant.name
