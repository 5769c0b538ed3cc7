"""Drafts: the page of a lab that this machine has not run shows what is recorded, or says that nothing is."""

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest

from roofbook.book import draft, recorded_html
from roofbook.paths import project_root

from ..analysis.test_comparison import CUDA, row, store


def notebook(*sources: str) -> dict[str, Any]:
    cells: list[Any] = [{"cell_type": "markdown", "metadata": {}, "source": ["# A lab"]}]
    cells.append({"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ['scale = "quick"']})
    for source in ("import roofbook\nlab = roofbook.open('lbm', globals())\nlab", *sources):
        cells.append({"cell_type": "code", "metadata": {}, "source": source.splitlines(keepends=True), "outputs": []})
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}


def outputs(made: dict[str, Any]) -> list[str]:
    """Of each cell of code, its outputs as one text."""
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    return ["".join("".join(each["data"].values()) for each in cell["outputs"]) for cell in code]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "results").mkdir()
    store(tmp_path / "results", row("sequential", 1e-2), row("fused", 1e-4))
    monkeypatch.setattr(recorded_html, "shown", lambda lab, store, root: f"<p>all of {lab.name}</p>")
    return tmp_path


def test_a_draft_has_the_story_over_recorded_rows_and_says_whose_they_are(recorded: Path) -> None:
    cells = (
        "display(lab.measure(), lab.recorded())",
        "for case in lab.cases:\n    display(lab.ladder(case.name))",
        "lab.steps('fused')",
        "lab.demonstration()",
    )
    made = draft.draft(notebook(*cells), "lbm", recorded)
    nbformat.validate(nbformat.from_dict(made))
    assert not any("parameters" in cell["metadata"].get("tags", []) for cell in made["cells"])
    opened, measured, ladder, steps, shown = outputs(made)
    assert "has not run the lab yet" in opened and str(CUDA) in opened
    assert draft.WAITS in measured and "all of lbm" in measured and draft.WAITS in shown
    assert "fused" in ladder and "100" in ladder, "the recorded time"
    assert "Effect of fused" in steps


def test_a_cell_that_needs_this_machine_has_no_output_and_stops_nothing(recorded: Path) -> None:
    made = draft.draft(notebook("lab.plan()", "1 / 0", "lab.ladder('512x512')", "lab.failed()"), "lbm", recorded)
    opened, plan, wrong, unknown, failed = outputs(made)
    assert opened and plan == wrong == "" and "512x512" in unknown and failed


def test_where_nothing_is_recorded_a_draft_says_so(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    made = draft.draft(notebook("lab.ladder()"), "lbm", tmp_path)
    assert outputs(made) == [] and "no device is recorded" in "".join(cell["source"] for cell in made["cells"][1:2])


@pytest.mark.parametrize("name", ["cnn", "peaks"])
def test_each_cell_of_a_real_notebook_has_an_output_from_what_is_recorded(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_html, "shown", lambda lab, store, root: "<p>all</p>")
    root = project_root()
    made = draft.draft(json.loads((root / "experiments" / f"{name}.ipynb").read_text()), name, root)
    assert all(outputs(made)), "the recorded device shows what the page of this machine will"
