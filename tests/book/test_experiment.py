"""What a notebook talks to: parameters, the states of cells as code and machine change, what it shows of failures."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import roofbook
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.roofline import Peaks
from roofbook.book import experiment as module
from roofbook.book.experiment import PARAMETERS, Experiment
from roofbook.book.page import Note
from roofbook.devices import provenance
from roofbook.errors import UsageError
from roofbook.labs import peaks
from roofbook.labs.lbm.lattice import HERE, Lattice
from roofbook.measure import case_run
from roofbook.measure import row as to_row
from roofbook.report.html import Table
from roofbook.spec import registry
from roofbook.spec.lab import Lab, Series
from roofbook.spec.source import Source

QUICKLY = {"scale": "test", "budget_s": 1e-6}
Open = Callable[..., Experiment]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The LBM lab, in an instance that a test may change."""
    own = Lattice()
    known = registry.get
    monkeypatch.setattr(registry, "get", lambda name: own if name == own.name else known(name))
    return own


@pytest.fixture
def opened(lab: Lab, tmp_path: Path) -> Open:
    """Opens the lab on a store of the test's own; other parameters by name."""
    return lambda **given: Experiment("lbm", {**QUICKLY, "results": str(tmp_path), **given})


def itself(shown: Any) -> Any:
    """A table, figure or note, not what stands in for it until somebody asks for more than its text."""
    return getattr(shown, "drawn", shown)


def states(experiment: Experiment) -> dict[str, str]:
    return {cell.variant.name: cell.state for cell in experiment.plan()}


def change(lab: Lab, name: str, **fields: Any) -> None:
    """Replace a step of the ladder by another of the same name."""
    lab.ladder = tuple(replace(each, **fields) if each.name == name else each for each in lab.ladder)


def edited(tmp_path: Path, source: Source, old: str, new: str) -> Source:
    """The same source, from a copy of the lab's folder in which a kernel's text is changed."""
    folder = tmp_path / "kernels"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"), dirs_exist_ok=True)
    touched = [path for path in folder.iterdir() if path.suffix in (".k", ".inc") and old in path.read_text()]
    assert touched
    for path in touched:
        path.write_text(path.read_text().replace(old, new))
    return Source(folder / source.path.name, source.knobs)


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scael": "test"}, r"unknown parameter 'scael' \(did you mean 'scale'\?\); valid: device, scale, "),
        ({"scale": "quik"}, r"unknown scale 'quik' \(did you mean 'quick'\?\); valid: quick, published, large, test"),
        ({"scale": None}, "unknown scale 'None'"),
        ({"scale": ["test"]}, "unknown scale"),
        ({"device": 0}, "device must be a string such as 'auto', 'opencl:0' or 'cuda:0', not 0"),
        ({"results": ""}, "results must be the name of a folder, or a URL such as s3:.* not ''"),
        ({"results": None}, "results must be the name of a folder, or a URL such as s3:.* not None"),
        ({"budget_s": 0}, "budget_s must be seconds, a number above 0, not 0"),
        ({"budget_s": float("nan")}, "budget_s must be seconds"),
        ({"budget_s": "1"}, "budget_s must be seconds, a number above 0, not '1'"),
        ({"budget_s": True}, "budget_s must be seconds"),
        ({"seed": -1}, "seed must be a whole number, 0 or more, not -1"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"remeasure": "no"}, "remeasure must be True or False, not 'no'"),
        ({"remeasure": 1}, "remeasure must be True or False, not 1"),
        ({"variants": "fused"}, "variants must be a list such as .* not 'fused'"),
        ({"variants": "['fused"}, "variants must be a list such as .* not"),
        ({"variants": [1]}, "variants must be a list such as"),
        ({"cases": "40x24"}, "cases must be a list such as"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_right(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        module.check(given)
    assert "\n" not in str(caught.value)


def test_parameters_have_defaults() -> None:
    assert module.check({}) == PARAMETERS
    assert module.check({"scale": "test"}) == {**PARAMETERS, "scale": "test"}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"variants": ["fused", "fusd"]}, r"unknown variant 'fusd' \(did you mean 'fused'\?\); valid: sequential, "),
        ({"variants": ["flat-grid@wg=16x2"]}, r"did you mean '[\w-]+@wg=16x\d+'.*valid: .*@wg=1x16\|1x64\|"),
        ({"cases": ["128x128"]}, "unknown case at scale test '128x128'; valid: 40x24"),
        ({"device": "cuda:77"}, "unknown device 'cuda:77'; valid: auto, "),
    ],
)
def test_an_unknown_name_is_named_with_those_that_are_known(opened: Open, given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        opened(**given)


def test_a_results_folder_that_is_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: it is a file, not a folder"):
        Experiment("lbm", {**QUICKLY, "results": str(tmp_path / "file")})


def test_names_given_twice_count_once(opened: Open) -> None:
    experiment = opened(variants=["fused", "fused"], cases=["40x24", "40x24"])
    assert [cell.variant.name for cell in experiment.plan()] == ["fused"]


def test_a_notebook_hands_over_its_own_names(tmp_path: Path) -> None:
    names: dict[str, Any] = {
        **{"__name__": "__main__", "_": 3, "_i1": "x", "In": [""], "Out": {}, "_dh": ["/"]},
        **{"exit": lambda: None, "get_ipython": lambda: None, "open": open, "roofbook": roofbook, "json": json},
        **{"scale": "test", "results": str(tmp_path), "budget_s": 0.01},
    }
    first = roofbook.open("lbm", names)
    assert first.parameters == {**PARAMETERS, "scale": "test", "results": str(tmp_path), "budget_s": 0.01}
    with pytest.raises(UsageError, match="unknown parameter 'scael'"):
        roofbook.open("lbm", {**names, "scael": "test"})
    # The cell is run again after the reader has worked on: variables of theirs are no parameters.
    again = roofbook.open("lbm", {**names, "lab": first, "case": first.cases[0], "n": 3, "scale": "quick"})
    assert again.parameters["scale"] == "quick"


# -- states ------------------------------------------------------------------------------------------------------------


def test_what_is_fresh_is_not_measured_again_unless_asked(opened: Open) -> None:
    experiment = opened(variants=["sequential", "fused"])
    assert states(experiment) == {"sequential": "missing", "fused": "missing"}
    assert "2 measurements taken; run " in experiment.measure()
    assert states(experiment) == {"sequential": "fresh", "fused": "fresh"}
    assert {cell.state for cell in experiment.plan_of_peaks()} == {"fresh"}
    before = len(experiment.store.query("select 1 from cells"))
    assert "0 measurements taken, 2 were fresh" in opened(variants=["sequential", "fused"]).measure()
    assert len(experiment.store.query("select 1 from cells")) == before
    assert "1 measurement taken; run " in opened(variants=["fused"], remeasure=True).measure()
    assert len(experiment.store.query("select 1 from cells where variant = 'fused'")) == 2
    assert states(opened(variants=["fused"], seed=21)) == {"fused": "stale-code"}, "other inputs, another cell"
    assert states(opened(variants=["fused"], budget_s=1.0)) == {"fused": "fresh"}, "a budget says only when to stop"


def test_a_touched_kernel_is_stale_and_what_shares_nothing_with_it_is_not(
    opened: Open, lab: Lab, tmp_path: Path
) -> None:
    opened(variants=["sequential", "fused"]).measure()
    source = lab.variant("fused").source
    assert source
    change(lab, "fused", source=edited(tmp_path, source, "omega * (EQ", "1.0f * omega * (EQ"))
    experiment = opened(variants=["sequential", "fused"])
    assert states(experiment) == {"sequential": "fresh", "fused": "stale-code"}
    assert "kernel source changed since" in experiment.plan()[1].why
    assert set(experiment.data.rows["variant"]) == {"sequential"}, "a time of other code is not shown"
    experiment.measure()
    assert states(experiment) == {"sequential": "fresh", "fused": "fresh"}


def test_another_environment_makes_all_stale(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    opened(variants=["fused"]).measure()
    was = provenance.environment

    def updated(device: Any) -> dict[str, Any]:
        now = was(device)
        return {**now, "device": {**now["device"], "driver": "99.9"}}

    monkeypatch.setattr(provenance, "environment", updated)
    experiment = opened(variants=["fused"])
    assert states(experiment) == {"fused": "stale-env"}
    assert "the driver changed: " in experiment.plan()[0].why and "-> 99.9" in experiment.plan()[0].why
    assert "1 measurement taken" in experiment.measure()
    assert states(experiment) == {"fused": "fresh"}
    monkeypatch.undo()


def test_peaks_measured_at_one_scale_do_not_hide_those_of_another(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scales share cases: the arithmetic's is the same cell, a copy's has the same name but other repeats."""
    registers = type(peaks.LAB).cases(peaks.LAB, "test")[1]
    monkeypatch.setattr(
        peaks.LAB, "cases", lambda scale: [peaks.LAB.working_set(scale, 256), replace(registers, scale=scale)]
    )
    first = opened(variants=["fused"], scale="test")
    first.measure()
    second = opened(variants=["fused"], scale="quick", cases=["128x128"])
    second.measure()
    for experiment in (first, opened(variants=["fused"], scale="test"), second):
        assert experiment.data.peaks and len(experiment.data.peak_rows) == 4
        assert experiment.data.bounds(experiment.cases[0]).get("float32")


def test_each_dtype_of_the_lab_has_its_bound_where_its_roof_was_measured(
    opened: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(lab, "soa", dtype="float16")
    change(lab, "fused", dtype="bfloat16")
    experiment = opened(variants=["fused", "soa"])
    measured = Peaks([(1e9, 1e12)], {"float32": 1e6, "float16": 4e6, "int8": 8e6})
    monkeypatch.setattr(module.MeasuredData, "peaks", measured)
    case = experiment.data.case()
    bounds = experiment.data.bounds(case)
    assert list(bounds)[:2] == ["float32", "float16"], "of the lab's dtypes, those with a roof"
    assert bounds["float32"].seconds == 4 * bounds["float16"].seconds == lab.work(case).flops / 1e6
    assert experiment.data.bounds(case).get("float32") == bounds["float32"]
    experiment.measure()
    shares = experiment.ladder().frame.set_index("variant").share
    assert shares["soa"] > 0 and shares["fused"] != shares["fused"], "no share of a roof that was not measured"
    assert "soa (float16)" not in (html := experiment.roofline().html) and "fused (bfloat16)" in html
    assert "float16: 4.00" in html and "float32: " not in html, "roofs of the dtypes drawn"
    assert "bytes counted" not in html
    monkeypatch.delitem(experiment.__dict__, "data")  # it keeps what it knows of a case
    monkeypatch.setattr(
        module.MeasuredData, "_counted_bytes", lambda data, name: {"soa": 1e9} if name == case.name else {}
    )
    assert "bytes counted" in experiment.roofline().html


def test_what_moves_fewer_bytes_has_a_bound_of_its_own(opened: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Populations in fp16 are half the bytes: by the bound of fp32 they would run above the roof."""
    experiment = opened(variants=["flat-grid", "half-storage"])
    monkeypatch.setattr(module.MeasuredData, "peaks", Peaks([(1e4, 1e9), (1e12, 1e6)], {"float32": 1e15}))
    case = experiment.data.case()
    bounds, halves = experiment.data.bounds(case), lab.variant("half-storage")
    part = lab.traffic(case, halves) / lab.work(case).bytes
    assert part == pytest.approx(37 / 73)
    assert bounds["half-storage"].seconds == pytest.approx(part * bounds["float32"].seconds)
    assert "flat-grid" not in bounds, "it has the bound of its dtype"
    experiment.measure()
    frame = experiment.ladder().frame.set_index("variant")
    for name, floor in (("flat-grid", bounds["float32"]), ("half-storage", bounds["half-storage"])):
        assert frame.share[name] == pytest.approx(floor.seconds / frame.seconds[name])
    assert any("move fewer bytes: half-storage" in note for note in experiment.ladder().notes)


def test_several_gpus_have_the_bound_of_all_of_them_and_parts_of_a_cpu_that_of_the_cpu(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = opened(variants=["halo-direct"])
    monkeypatch.setattr(module.MeasuredData, "peaks", Peaks([(4e4, 4e9), (1e12, 1e6)], {"float32": 1e15}))
    case = experiment.data.case()
    assert "halo-direct" not in experiment.data.bounds(case)
    monkeypatch.setattr(experiment.data.device, "kind", "gpu")
    bounds = experiment.data.bounds(case)
    assert bounds["halo-direct"].seconds < bounds["float32"].seconds / 2, (
        "half of the grid each, which a faster memory holds"
    )
    assert "slab" not in bounds and "halo-stored-overlapped@devices=8" in bounds


# -- what fails --------------------------------------------------------------------------------------------------------


def test_a_kernel_that_does_not_build_or_is_wrong_is_shown_with_its_reason_and_no_time(
    opened: Open, lab: Lab, tmp_path: Path
) -> None:
    fused, soa = lab.variant("fused").source, lab.variant("soa").source
    assert fused and soa
    change(lab, "soa", source=edited(tmp_path / "a", soa, "KERNEL", "nonsense KERNEL"))
    change(lab, "fused", source=edited(tmp_path / "b", fused, "omega * (EQ", "0.9f * omega * (EQ"))
    experiment = opened(variants=["sequential", "no-finish", "fused", "soa"])
    assert "4 measurements taken, 2 of them failed" in experiment.measure()
    assert states(experiment) == {"sequential": "fresh", "no-finish": "fresh", "fused": "failed", "soa": "failed"}
    rows = experiment.data.rows.set_index("variant")
    assert rows.loc["fused", "reason"].startswith("wrong result: error ")
    assert rows.loc["soa", "reason"].startswith("does not build: ")
    assert [len(rows.loc[name, "samples_s"]) for name in ("fused", "soa")] == [0, 0]
    assert experiment.data.measured.seconds("fused", "40x24") is None and experiment.data.measured.seconds(
        "no-finish", "40x24"
    )

    ladder = experiment.ladder().html
    lines = {name: line for line in ladder.split("<tr") for name in ("fused", "soa") if f">{name}<" in line}
    for name, reason in (("fused", "wrong result"), ("soa", "does not build")):
        assert 'class="failed"' in lines[name] and f"failed: {reason}" in lines[name]
        assert "num" not in lines[name], "no figure in the line of a failure"
        assert f"Failed: {reason}" in experiment.steps(name)
        assert reason in experiment.failed().html
    chart = experiment.ladder_chart()
    for figure in (chart, experiment.bandwidth_chart()):
        assert (
            "failed" in figure.html
            and "bit-neighbours – not on this case: a side is not a power of two." in figure.html
        )
        assert "no-compute" not in figure.html, "a probe is no step"
    assert "(not measured)" in experiment.data.measured.value(
        "fused"
    ) and "(not measured)" in experiment.data.measured.times("soa", "sequential")

    del lab.ladder  # the mended lab, the class's own
    mended = opened(variants=["sequential", "no-finish", "fused", "soa"])
    assert states(mended)["fused"] == states(mended)["soa"] == "stale-code"
    assert "2 measurements taken" in mended.measure()


def test_a_failed_cell_is_tried_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Lattice, "check", lambda *_: (float("nan"), 1.0, "nothing"))
        experiment = opened(variants=["fused"])
        experiment.measure()
    assert states(experiment) == {"fused": "failed"}
    assert "1 measurement taken; run " in experiment.measure()
    assert states(experiment) == {"fused": "fresh"}
    assert f"Nothing failed on {experiment.device.name} by OpenCL, scale test." in experiment.failed().html


def test_a_page_stands_without_peaks(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(peaks.LAB), "check", lambda *_: (1.0, 0.5, "nothing"))
    experiment = opened(variants=["sequential", "fused"])
    experiment.measure()
    assert experiment.data.peaks is None and experiment.data.bounds(experiment.data.case()).get("float32") is None
    assert "Of the bound" not in experiment.ladder().html
    assert experiment.peak_table().html.count(">failed: wrong result") == 4
    assert "No roofline: a peak of this device has no verified time." in experiment.roofline().html
    assert "No bandwidths: a peak of this device has no verified time." in experiment.bandwidth_chart().html


def test_papermill_hands_lists_over_as_text(opened: Open) -> None:
    """`papermill -p variants '["fused"]'` injects a string."""
    assert [variant.name for variant in opened(variants='["fused", "soa"]').variants] == ["fused", "soa"]
    assert [case.name for case in opened(cases="[40x24]").cases] == ["40x24"]


def test_a_page_stands_with_nothing_measured(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every cell of the notebook has something to say, in an empty store too."""
    monkeypatch.setattr(case_run, "measure_case", lambda *_, **__: None)
    experiment = opened()
    experiment.measure()
    shown: list[Any] = [
        *(experiment.peak_table(), experiment.steps("fused"), experiment.ladder(), experiment.leave_one_out()),
        *(experiment.ladder_chart(), experiment.roofline(), experiment.heat_map("wg"), experiment.sweep_table("wg")),
        *(experiment.line_sweep("buffers"), experiment.bandwidth_chart()),
        *(experiment.parts(), experiment.resources(), experiment.timeline("fused")),
        *(experiment.pairs(), experiment.published(), experiment.failed(), experiment.card(), experiment),
    ]
    assert [type(itself(each)) for each in shown[4:14]] == [Note] * 10
    for each in shown:
        assert each._repr_html_().startswith("<")
    assert "(not measured)" in experiment.summary().data
    with pytest.raises(UsageError, match="unknown sweep 'gw'; valid: without, wg, buffers, integers"):
        experiment.line_sweep("gw")


def test_a_heat_map_says_what_its_sides_are(opened: Open, lab: Lab) -> None:
    wg = next(sweep for sweep in lab.sweeps if sweep.axis == "wg")
    lab.sweeps = (replace(wg, sides=("sticks", "stones")),)
    experiment = opened(variants=[variant.name for variant in wg.variants[:2]])
    experiment.measure()
    drawn = experiment.heat_map("wg").html
    assert ">sticks<" in drawn and ">stones<" in drawn


def test_peers_stand_beside_the_best_step(opened: Open, lab: Lab) -> None:
    experiment = opened(variants=["fused", "openmp"])
    experiment.measure()
    table = itself(experiment.peers())
    assert isinstance(table, Table)
    found = table.frame.set_index("variant")
    assert list(found.index) == [peer.name for peer in lab.peers]
    assert (found.fastest["openmp"], found.status["openmp"]) == ("fused", "ok")


def test_what_runs_tell_of_themselves_is_shown(opened: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [[0, "to device", 0.0, 1e-4], [0, "kernel", 1e-4, 3e-4]]
    told = {"timeline": spans, "registers": 32}
    whole = to_row.row

    def row(*given: Any) -> dict[str, Any]:
        made = whole(*given)
        parts = {"copy": [1e-4] * len(made["samples_s"])}
        return made | {"extra": json.dumps({**json.loads(made["extra"]), **told, "parts": parts})}

    monkeypatch.setattr(case_run, "row", row)
    experiment = opened(variants=["fused"])
    experiment.measure()
    assert "No parts to show" in experiment.parts().html
    lab.parts, lab.facts_shown = ("copy",), {"registers": "Registers"}
    cells = experiment.lab.cases("test")[0].units
    parts = itself(experiment.parts())
    assert isinstance(parts, Table) and parts.frame.set_index("variant").loc["fused", "copy"] == pytest.approx(
        1e-4 / cells
    )
    assert ">32<" in parts.html and "not on this case: a side is not a power of two" in parts.html
    assert ">32<" in experiment.resources().html
    assert "kernels during 0.00" in experiment.timeline("fused").html
    with pytest.raises(UsageError, match="did you mean 'fused'"):
        experiment.timeline("fusd")


# -- series ------------------------------------------------------------------------------------------------------------

WIDTHS = Series(
    "width", "From which width on?", "width, cells", ((24, "24x24"), (40, "40x24"), (56, "56x24")),
    ("fused", "soa", "bit-neighbours"), (("soa", "fused"), ("bit-neighbours", "fused")),
)  # fmt: skip


@pytest.fixture
def widened(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """The lab with a series over cases that no scale lists, but one."""
    (case,) = lab.cases("test")
    widths = {"24x24": 24, "56x24": 56}

    def sized(name: str, scale: str) -> Any:
        return replace(case, name=name, params={**case.params, "nx": widths[name]}) if name in widths else None

    monkeypatch.setattr(lab, "sized", sized)
    monkeypatch.setattr(
        lab, "series", lambda scale: (WIDTHS, replace(WIDTHS, axis="again", variants=("soa",), against=()))
    )
    return lab


def planned(experiment: Experiment) -> list[tuple[str, str]]:
    return [(cell.case.name, cell.variant.name) for cell in experiment.plan()]


def test_cells_of_a_series_are_planned_once_after_those_of_the_ladder(opened: Open, widened: Lab) -> None:
    ladder = [("40x24", name) for name in ("sequential", "fused", "soa")]
    everything = opened(variants=["sequential", "fused", "soa", "bit-neighbours"])
    beside = [("24x24", "fused"), ("24x24", "soa"), ("56x24", "fused"), ("56x24", "soa")]
    assert planned(everything) == ladder + beside and [case.name for case in everything.cases] == ["40x24"]
    assert planned(opened(variants=["soa"])) == [("40x24", "soa"), ("24x24", "soa"), ("56x24", "soa")]
    assert planned(opened(variants=["sequential"])) == [("40x24", "sequential")]
    assert planned(opened(variants=["sequential", "soa"], cases=["56x24"])) == [
        ("56x24", "sequential"), ("56x24", "soa")
    ]  # fmt: skip


def test_a_series_is_measured_and_shown_and_leaves_the_ladder_as_it_is(opened: Open, widened: Lab) -> None:
    experiment = opened(variants=["sequential", "fused", "soa"])
    assert "7 measurements taken" in experiment.measure()
    assert {cell.state for cell in experiment.plan()} == {"fresh"} and "0 measurements taken" in experiment.measure()
    assert set(experiment.data.rows["case"]) == {"40x24", "24x24", "56x24"}
    chart = experiment.series_chart("width").html
    assert ">fused<" in chart and ">soa<" in chart and ">width, cells<" in chart and WIDTHS.question in chart
    assert "bit-neighbours – not on this case: a side is not a power of two." in chart
    table = cast(Table, experiment.crossings("width"))
    assert table.frame["first"].tolist() == ["soa", "bit-neighbours"] and table.frame.at_start.notna().tolist() == [
        True,
        False,
    ]
    assert any("a side is not a power of two" in note for note in table.notes)
    assert "24x24" not in experiment.ladder().html and "24x24" not in experiment.steps("fused")
    assert experiment.data.case().name == "40x24" and experiment.data.case("24x24").params["nx"] == 24
    assert experiment.data.measured.value("soa", "56x24") != "(not measured)" and experiment.data.measured.seconds(
        "soa", "56x24"
    )
    assert (
        experiment.data.measured.seconds("sequential", "56x24") is None
        and experiment.data.measured.seconds("soa", "elsewhere") is None
    )
    with pytest.raises(UsageError, match="unknown series 'height'; valid: width, again"):
        experiment.series_chart("height")
    with pytest.raises(UsageError, match=r"unknown case of this experiment '48x24' .*; valid: 40x24, 24x24, 56x24"):
        experiment.data.case("48x24")


def test_a_cell_of_a_series_that_is_measured_by_itself_is_found_on_the_page(opened: Open, widened: Lab) -> None:
    one = opened(variants=["soa"], cases=["56x24"])
    assert "1 measurement taken" in one.measure()
    page = opened(variants=["fused", "soa"])
    fresh = [(cell.case.name, cell.variant.name) for cell in page.plan() if cell.state == "fresh"]
    assert fresh == [("56x24", "soa")] and one.plan()[0].cell_key in {cell.cell_key for cell in page.plan()}
    assert page.data.measured.seconds("soa", "56x24")


def test_a_series_stands_with_nothing_measured(opened: Open, widened: Lab) -> None:
    experiment = opened()
    assert isinstance(itself(experiment.series_chart("width")), Note)
    assert [row.cells[2].text for row in cast(Table, experiment.crossings("width")).rows] == ["\u2013", "\u2013"]


def test_a_sweep_s_figure_has_the_cases_of_the_ladder_alone(
    opened: Open, widened: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [variant.name for variant in widened.sweeps[1].variants[:2]]
    monkeypatch.setattr(widened, "series", lambda scale: (replace(WIDTHS, variants=tuple(points), against=()),))
    experiment = opened(variants=points)
    experiment.measure()
    assert "24x24" in set(experiment.data.rows["case"])
    assert ">24x24<" not in experiment.line_sweep("wg").html


def test_conclusions_may_ask_for_seconds_and_the_fastest_point(
    opened: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = lab.sweeps[1].variants[:3]
    experiment = opened(variants=[variant.name for variant in points])
    assert (
        experiment.data.measured.fastest_point("wg", "40x24") is None
        and experiment.data.measured.seconds(points[0].name, "40x24") is None
    )
    assert experiment.data.measured.fact(points[0].name, "40x24", "group") is None
    experiment.measure()
    assert experiment.data.measured.fact(points[0].name, "40x24", "group") == points[0].point
    assert experiment.data.measured.fact(points[0].name, "40x24", "no such thing") is None
    times = {variant.point: experiment.data.measured.seconds(variant.name, "40x24") or 1e9 for variant in points}
    assert experiment.data.measured.fastest_point("wg", "40x24") == min(times, key=lambda point: times[point])
    key = ("operational intensity", "128x128", "intensity")

    def counted(asked: Measured) -> dict[tuple[str, str, str], str]:
        return {key: f"point {asked.fastest_point('wg', '40x24')}"}

    monkeypatch.setattr(publication(lab), "counted", counted)
    assert f"point {min(times, key=lambda point: times[point])}" in experiment.published().html


def test_a_terminal_shows_the_variants_that_were_asked_for_alone(opened: Open) -> None:
    experiment = opened(variants=["fused", "soa"])
    experiment.measure()
    (table, *_) = experiment.tables()
    assert [name.removesuffix(" (A/A control)") for name in table.frame["variant"]] in (
        ["fused", "fused", "soa"],
        ["fused", "soa"],
    )
    assert "not measured" not in table.text


def test_a_lab_without_a_report_says_so_in_place_of_published_figures(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = opened()
    monkeypatch.setattr(experiment.lab, "name", "sgemm")
    for scale in ("quick", "published"):
        monkeypatch.setattr(experiment, "scale", scale)
        shown = experiment.published()
        assert isinstance(shown, Note) and shown.text.startswith("Sgemm has no published figures")


def test_the_lab_says_which_part_or_fact_a_published_figure_is_held_against(
    opened: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = set()

    def part(*key: str) -> str | None:
        asked.add(("part", *key))
        return "nothing of the kind" if key[-1] == "time" else None

    def fact(*key: str) -> None:
        asked.add(("fact", *key))

    def lack(*key: str) -> str:
        asked.add(("lack", *key))
        return "needs another machine"

    experiment = opened(variants=["fused"])
    monkeypatch.setattr(publication(lab), "part", part)
    monkeypatch.setattr(publication(lab), "fact", fact)
    monkeypatch.setattr(publication(lab), "lack", lack)
    assert "needs another machine" in experiment.published().html
    assert {(each, "optimised, work-group 32x1", "128x128", "time") for each in ("part", "fact", "lack")} <= asked


def test_shown_source_is_in_the_language_of_the_device(opened: Open) -> None:
    experiment = opened()
    assert {"opencl": "__kernel", "cuda": "__global__"}[experiment.device.backend] in experiment.source("fused")
    assert "__global__" in experiment.source("fused", "cuda")
    with pytest.raises(UsageError, match="it is a program of the host"):
        experiment.source("openmp")


def test_the_card_says_what_ran_where(opened: Open, tmp_path: Path) -> None:
    experiment = opened()
    card = experiment.card()
    assert isinstance(card, Table) and ">commit<" in experiment._repr_html_()
    assert experiment.device.name in card.html and ">commit<" in card.html
    assert str(tmp_path) not in card.html, "no path of this machine on a page"


def test_where_all_is_quick_sweeps_are_measured_on_the_first_case_unless_more_is_asked_for(tmp_path: Path) -> None:
    def swept(**given: Any) -> set[str]:
        cells = Experiment("lbm", {"results": str(tmp_path), **given}).plan()
        of_series = {name for each in registry.get("lbm").series("quick") for name in each.variants}
        return {cell.case.name for cell in cells if cell.variant.role == "sweep" and cell.variant.name not in of_series}

    assert swept(scale="quick") == {"128x128"}
    assert swept(scale="quick", cases=["1024x1024"]) == {"1024x1024"}
    assert swept(scale="quick", variants=["flat-grid@wg=64x1"]) == {"128x128", "1024x1024"}
    assert len(swept(scale="published")) == 4
    experiment = Experiment("lbm", {"results": str(tmp_path), "scale": "quick"})
    note = experiment.heat_map("wg", "1024x1024")._repr_html_()
    assert "At the scale quick sweeps are measured on 128x128 alone, unless variants are asked for.<" in note


def test_a_case_that_no_chosen_variant_is_for_is_left_out_unless_it_is_named(tmp_path: Path) -> None:
    def cases(**given: Any) -> list[str]:
        known = Experiment("stencil", {"scale": "test", "results": str(tmp_path), "variants": ["fused"], **given})
        return [case.name for case in known.cases]

    assert cases() == ["6x1024", "7x48"] and cases(variants=["fused", "checked"]) == ["6x1024", "7x48", "5x13"]
    assert cases(cases=["5x13"]) == ["5x13"]
