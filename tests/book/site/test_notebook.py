"""The labs' notebooks: short, without outputs or typed figures, with equal parameters, and without errors when executed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest

from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.book import execute, lint
from roofbook.book.experiment import PARAMETERS
from roofbook.spec import registry
from roofbook.store.parquet import Store

ROOT = Path(__file__).parents[3]
NOTEBOOKS = sorted((ROOT / "experiments").glob("*.ipynb"))


def cells(path: Path, kind: str = "code") -> list[Any]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == kind]


def outputs(path: Path) -> list[Any]:
    return [output for cell in cells(path) for output in cell.outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_and_keeps_the_rules(path: Path) -> None:
    nbformat.validate(nbformat.read(path, 4))
    assert path.stem in [*registry.names(), registry.PEAKS], "a notebook is a lab's, or that of the peaks"
    faults = lint.notebook_faults(path, registry.get(path.stem), lint.permitted_digits(ROOT, path.stem))
    named = "in lab.source(...)"  # the peaks have no story of steps
    assert not [fault for fault in faults if path.stem != registry.PEAKS or named not in fault]


def test_every_measurement_is_verified(executed: dict[str, Path]) -> None:
    store = Store(executed["lbm"].parents[2] / "results")
    for lab in executed:
        assert set(store.rows(lab)["status"]) == {"ok"}, lab


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_papermill_reads_the_parameters(path: Path) -> None:
    import papermill

    parameters = papermill.inspect_notebook(path)
    assert list(parameters) == list(PARAMETERS)
    assert all(
        parameter["help"] and parameter["inferred_type_name"] not in ("None", "") for parameter in parameters.values()
    )


def test_the_executed_notebook_shows_tables_and_figures_and_no_error(executed_lbm: Path) -> None:
    assert {output.output_type for output in outputs(executed_lbm)} <= {"display_data", "execute_result"}
    html = [output.data.get("text/html", "") for output in outputs(executed_lbm)]
    assert sum("<table" in text for text in html) >= 7 and sum("<svg" in text for text in html) >= 4
    empty = [output for output in outputs(executed_lbm) if not any(str(text).strip() for text in output.data.values())]
    assert not empty, "the progress line has left nothing"
    assert len([cell for cell in cells(executed_lbm) if cell.outputs]) == len(cells(executed_lbm)) - 2


def test_the_executed_notebook_shows_the_numbers_of_the_store(executed_lbm: Path) -> None:
    """A new query of the store gives the conclusions and the ladder of the notebook, to the letter."""
    from roofbook.book.experiment import Experiment

    root = executed_lbm.parents[2]
    notebook = root / "experiments" / "lbm.ipynb"
    experiment = Experiment("lbm", execute.parameters_of(root, notebook), root)
    summaries = [output.data["text/markdown"] for output in outputs(executed_lbm) if "text/markdown" in output.data]
    assert summaries == [experiment.summary().data]
    assert NOT_MEASURED not in summaries[0]
    ladder = experiment.ladder(experiment.cases[0].name).html
    assert ladder in [output.data.get("text/html") for output in outputs(executed_lbm)]


def test_executed_again_it_measures_nothing_and_says_so(executed_lbm: Path) -> None:
    root = executed_lbm.parents[2]
    notebook = root / "experiments" / "lbm.ipynb"
    parameters = execute.parameters_of(root, notebook)
    assert not execute.stale(root, notebook, parameters)
    before = sorted((root / "results").rglob("*.parquet"))
    page = execute.execute(root, notebook, parameters, page=root / "again" / "lbm.ipynb")
    assert sorted((root / "results").rglob("*.parquet")) == before
    fresh = len(Store(root / "results").query("select 1 from cells where lab = 'lbm' and role <> 'again'"))
    text = "".join(output.data.get("text/html", "") for output in outputs(page))
    assert f"<p>0 measurements taken, {fresh} were fresh.</p>" in text


def test_plain_papermill_leaves_no_trace_of_the_progress(unmeasured: Callable[[], Path], tmp_path: Path) -> None:
    """Under papermill the progress is an output of the measuring cell. With one step measured, most cells show nothing."""
    out = tmp_path / "out.ipynb"
    parameters = "{scale: test, budget_s: 0.01, variants: [fused]}"
    command = [
        sys.executable,
        "-m",
        "papermill",
        "experiments/lbm.ipynb",
        str(out),
        "--no-progress-bar",
        "--start-timeout",
        "1000",
        "-y",
        parameters,
    ]
    done = subprocess.run(command, cwd=unmeasured(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not re.search(r"sample \d+|check, \d", json.dumps([cell.outputs for cell in cells(out)]))
    (measuring,) = [cell for cell in cells(out) if "measure()" in cell.source]
    assert measuring.outputs[0].data["text/html"].startswith("<p>1 measurement taken; run ")
    assert "What does a buffer argument cost? On 40x24: it was not measured." in json.dumps(
        [cell.outputs for cell in cells(out)]
    )
