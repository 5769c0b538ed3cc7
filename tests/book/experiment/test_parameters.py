"""The parameters of an experiment: checks with clear messages, defaults, and the variants and cases that they choose."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import roofbook
from roofbook.book import experiment as module
from roofbook.book.experiment import PARAMETERS, Experiment
from roofbook.errors import UsageError
from roofbook.spec import registry

from .opening import QUICKLY, Open


@pytest.mark.parametrize(
    ("parameters", "words"),
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
def test_a_wrong_parameter_is_named_with_a_right_one(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        module.check(parameters)
    assert "\n" not in str(caught.value)


def test_parameters_have_defaults() -> None:
    assert module.check({}) == PARAMETERS
    assert module.check({"scale": "test"}) == {**PARAMETERS, "scale": "test"}


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"variants": ["fused", "fusd"]}, r"unknown variant 'fusd' \(did you mean 'fused'\?\); valid: sequential, "),
        ({"variants": ["flat-grid@wg=16x2"]}, r"did you mean '[\w-]+@wg=16x\d+'.*valid: .*@wg=1x16\|1x64\|"),
        ({"cases": ["128x128"]}, "unknown case at scale test '128x128'; valid: 40x24"),
        ({"device": "cuda:77"}, "unknown device 'cuda:77'; valid: auto, "),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(open_lab: Open, parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        open_lab(**parameters)


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file: it is a file, not a folder"):
        Experiment("lbm", {**QUICKLY, "results": str(tmp_path / "file")})


def test_names_given_twice_count_once(open_lab: Open) -> None:
    experiment = open_lab(variants=["fused", "fused"], cases=["40x24", "40x24"])
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
    # The cell is run again later: the variables that the reader made since are no parameters.
    again = roofbook.open("lbm", {**names, "lab": first, "case": first.cases[0], "n": 3, "scale": "quick"})
    assert again.parameters["scale"] == "quick"


def test_names_that_the_notebook_assigns_are_its_own_and_those_that_papermill_adds_are_parameters(
    tmp_path: Path,
) -> None:
    cells = ["", "scale = 'test'\nheight: float = 3.5\n(left, right), *others = (1, 2), 3", "%matplotlib inline"]
    names = {
        "scale": "test",
        "results": str(tmp_path),
        "height": 4.0,
        "left": 1,
        "right": 2,
        "others": [3],
        "In": cells,
    }
    assert roofbook.open("lbm", names).parameters["scale"] == "test"
    injected = "# Parameters\nscael = 'test'\nheight = 4.0\n"
    with pytest.raises(UsageError, match=r"unknown parameter 'scael' \(did you mean 'scale'\?\)"):
        roofbook.open("lbm", names | {"scael": "test", "In": [*cells, injected]})
    del names["height"]
    with pytest.raises(UsageError, match="unknown parameter 'heigth'"):
        roofbook.open("lbm", names | {"heigth": 4.0, "In": [*cells, "# Parameters\nheigth = 4.0\n"]})


def test_lists_may_be_text_as_papermill_passes_them(open_lab: Open) -> None:
    """`papermill -p variants '["fused"]'` injects a string."""
    assert [variant.name for variant in open_lab(variants='["fused", "soa"]').variants] == ["fused", "soa"]
    assert [case.name for case in open_lab(cases="[40x24]").cases] == ["40x24"]


def test_at_scale_quick_sweeps_are_measured_on_the_first_case_unless_variants_or_cases_are_chosen(
    tmp_path: Path,
) -> None:
    def sweep_cases(**parameters: Any) -> set[str]:
        cells = Experiment("lbm", {"results": str(tmp_path), **parameters}).plan()
        series_variants = {name for series in registry.get("lbm").series("quick") for name in series.variants}
        return {
            cell.case.name
            for cell in cells
            if cell.variant.role == "sweep" and cell.variant.name not in series_variants
        }

    assert sweep_cases(scale="quick") == {"128x128"}
    assert sweep_cases(scale="quick", cases=["1024x1024"]) == {"1024x1024"}
    assert sweep_cases(scale="quick", variants=["flat-grid@wg=64x1"]) == {"128x128", "1024x1024"}
    assert len(sweep_cases(scale="published")) == 4
    experiment = Experiment("lbm", {"results": str(tmp_path), "scale": "quick"})
    note = experiment.heat_map("wg", "1024x1024")._repr_html_()
    assert "At the scale quick sweeps are measured on 128x128 alone, unless variants are asked for.<" in note


def test_a_case_without_a_chosen_variant_is_left_out_unless_it_is_chosen_itself(tmp_path: Path) -> None:
    def case_names(**parameters: Any) -> list[str]:
        experiment = Experiment(
            "stencil", {"scale": "test", "results": str(tmp_path), "variants": ["fused"], **parameters}
        )
        return [case.name for case in experiment.cases]

    assert case_names() == ["6x1024", "7x48"] and case_names(variants=["fused", "checked"]) == [
        "6x1024",
        "7x48",
        "5x13",
    ]
    assert case_names(cases=["5x13"]) == ["5x13"]
