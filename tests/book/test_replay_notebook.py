"""A lab's notebook replayed for a recorded device: each cell shows recorded rows, independent of runs on this machine."""

import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

from roofbook.analysis.recorded import RecordedData
from roofbook.analysis.recorded import recorded as records
from roofbook.book import replay_notebook
from roofbook.book.device_choices import HERE
from roofbook.book.notebook_cells import cells_of, executed_cells, key_of, without_outputs
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_comparison import CUDA, row, store


def notebook(*sources: str, lab: str = "lbm") -> dict[str, Any]:
    cells: list[Any] = [{"cell_type": "markdown", "metadata": {}, "source": ["# A lab"]}]
    cells.append({"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ['scale = "quick"']})
    for source in (f"import roofbook\nlab = roofbook.open('{lab}', globals())\nlab", *sources):
        cells.append({"cell_type": "code", "metadata": {}, "source": source.splitlines(keepends=True), "outputs": []})
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[RecordedData, Store]:
    (tmp_path / "results").mkdir()
    store(tmp_path / "results", row("sequential", 1e-2), row("fused", 1e-4))
    whole_store = Store(tmp_path / "results")
    return records(registry.get("lbm"), whole_store)[0], whole_store


def replayed(recorded: tuple[RecordedData, Store], *sources: str) -> list[str]:
    """Replay a notebook with these cells, and return the HTML of each, that of the cell that opens the lab first."""
    lab_notebook = notebook(*sources, lab=recorded[0].lab.name)
    cell_html = replay_notebook.replay(lab_notebook, *recorded)
    return [cell_html[key_of(cell)] for cell in cells_of(lab_notebook)]


def test_each_cell_shows_the_rows_of_a_device_and_names_the_device(
    recorded: tuple[RecordedData, Store],
) -> None:
    intro, measured, ladder, steps, demonstration, summary = replayed(
        recorded,
        "lab.measure()",
        "for case in lab.cases:\n    display(lab.ladder(case.name))",
        "lab.steps('fused')",
        "lab.demonstration()",
        "lab.summary()",
    )
    assert str(CUDA) in intro and "2 measurements, the newest of " in intro and "at scale published" in intro
    assert measured == "" and f"Choose another device above: {HERE.label}" in demonstration
    assert "fused" in ladder and "100" in ladder, "the recorded time"
    assert '<ul class="effect">' in steps and "100" in steps and summary.startswith("<p>"), "sentences are Markdown"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("lab.plan()", "<code>lab.plan</code> needs a device to measure on"),
        ("print(lab.parameters)", "<code>lab.parameters</code> needs a device to measure on"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import nosuch as ns\nns.zeros(3)", "No module named"),
        ("from nosuch.far import pi\nlab.ladder(str(pi))", "No module named"),
        ("from math import nosuch\nnosuch + 1", "cannot import name"),
        ("scale.upper()", "<code>scale</code> is known only"),
        ("get_ipython()", "<code>get_ipython</code> is known only"),
        ("%matplotlib inline\nlab.ladder()", "line 1 is no plain Python"),
        ("x = 1\nreturn x", "line 2 is no plain Python"),
        ("other = roofbook.open('cnn', globals())", "it opens another lab, cnn"),
    ],
)
def test_a_cell_that_cannot_be_replayed_says_so_and_later_cells_are(
    recorded: tuple[RecordedData, Store], source: str, reason: str
) -> None:
    intro, cell, failed = replayed(recorded, source, "lab.failed()")
    assert intro and failed and "This cell is not repeated for a recorded device: " in cell and reason in cell


OWN_TABLE = """
from roofbook.analysis.lab_data import LabData
from roofbook.report.html import Html

def own(data: LabData, word: str) -> Html:
    return Html(f"<p>{data.lab.name} {word} {len(data.cases)}</p>")
"""


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("import math\nmath.pi", "3.14159"),
        ("import roofbook.paths\nroofbook.paths.LIBRARY.name", "<pre>&#x27;roofbook&#x27;</pre>"),
        ("import math as m, statistics\nm.floor(statistics.mean([2, 3.2]))", "<pre>2</pre>"),
        ("import numpy as np\nnp.arange(3).tolist()", "<pre>[0, 1, 2]</pre>"),
        ("from math import pi\nround(pi, 2)", "<pre>3.14</pre>"),
        ("from math import *\nround(tau, 2)", "<pre>6.28</pre>"),
        ("import xml.dom\nxml.dom.__name__", "<pre>&#x27;xml.dom&#x27;</pre>"),
        ("import os.path as paths\npaths.basename('a/b')", "<pre>&#x27;b&#x27;</pre>"),
        ("from IPython.display import display as show\nshow(lab.failed())", "<table"),
        ("from IPython.display import Markdown, display\ndisplay(Markdown('*a*'))", "<em>a</em>"),
        ("import roofbook.analysis.format as text\ntext.number(2.0)", "2.00"),
        (
            "from roofbook.labs.lbm.scaling_table import scaling\nlab.draw(scaling, 'rows', 'devices')",
            "has a verified time",
        ),
        ("from roofbook.labs.stencil.bandwidth import bandwidth_chart\nlab.draw_case(bandwidth_chart)", "bandwidth"),
        (f"{OWN_TABLE}\nlab.draw(own, 'has')", "<p>lbm has "),
    ],
)
def test_a_cell_may_import_what_it_needs_and_draw_the_labs_own(
    recorded: tuple[RecordedData, Store], source: str, shown: str
) -> None:
    _, cell, failed = replayed(recorded, source, "lab.failed()")
    assert shown in cell and "not repeated" not in cell and failed


def test_an_import_of_the_book_that_fails_ends_the_build(recorded: tuple[RecordedData, Store]) -> None:
    for source in ("from roofbook.labs.lbm.nosuch import chart", "from roofbook.analysis.format import nosuch"):
        with pytest.raises(replay_notebook.ReplayFailed, match=r"^lbm\.ipynb, cell 4, line 1, .*Error: .*nosuch"):
            replayed(recorded, source)


def test_a_cell_that_needs_one_that_cannot_be_replayed_says_so_too(recorded: tuple[RecordedData, Store]) -> None:
    _, first, second, missing_case = replayed(
        recorded, "cells = lab.plan()\nnumber = len(cells)", "number + 1", "lab.ladder('512x512')"
    )
    assert "lab.plan" in first and "<code>number</code> is known only" in second and "512x512" in missing_case


def test_a_notebook_may_give_the_lab_and_the_library_other_names(recorded: tuple[RecordedData, Store]) -> None:
    source = "import roofbook as rb\nmine = rb.open('lbm')\nfrom roofbook import open as open_lab\nopen_lab('lbm')"
    _, intro, ladder, text, hidden = replayed(recorded, source, "mine.ladder()", "print('a < b')\n1 + 1", "2 + 2;")
    assert str(CUDA) in intro and "fused" in ladder and hidden == ""
    assert text == "<pre>a &lt; b</pre>\n<pre>2</pre>"


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("lab.tabel()", 1, "AttributeError"),
        ("# of all\n\nlab.ladder(colour='red')", 3, "TypeError"),
        ("for case in lab.cases:\n    display(lab.ladder(case.nmae))", 2, "AttributeError"),
        ("lba.ladder()", 1, "NameError: name 'lba' is not defined"),
        ("def all_of(lab):\n    return lab.peers(3)\n\nall_of(lab)", 2, "UsageError|TypeError|AttributeError"),
    ],
)
def test_an_error_of_a_line_with_the_lab_ends_the_build_with_notebook_cell_and_line(
    recorded: tuple[RecordedData, Store], source: str, line: int, message: str
) -> None:
    try:
        *_, html = replayed(recorded, "lab.ladder()", source)
    except replay_notebook.ReplayFailed as error:
        assert re.match(rf"lbm\.ipynb, cell 5, line {line}, on {CUDA}: ({message})", str(error)) and "\n" not in str(
            error
        )
    else:
        assert "UsageError" in message and "3" in html, "the page reports a missing case"


@pytest.mark.parametrize("drawing", ["ladder", "ladder_chart", "summary", "steps"])
def test_an_error_while_something_is_drawn_ends_the_build(
    recorded: tuple[RecordedData, Store], drawing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def _repr_html_(self) -> str:
            raise KeyError("a bug in drawing")

    monkeypatch.setattr(replay_notebook.RecordedPage, drawing, lambda *_: Broken())
    with pytest.raises(
        replay_notebook.ReplayFailed, match=rf"^lbm\.ipynb, cell 4, line 2, on {CUDA}: KeyError: 'a bug in drawing'"
    ):
        replayed(recorded, f"# drawn\ndisplay(lab.{drawing}())\nlab.failed()")


def test_an_error_in_the_library_names_its_own_line_too(
    recorded: tuple[RecordedData, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roofbook.report.ladder_table._library_note", lambda *_: 1 / 0)
    with pytest.raises(
        replay_notebook.ReplayFailed,
        match=r"ZeroDivisionError: division by zero \(report/ladder_table\.py, line \d+\)$",
    ):
        replayed(recorded, "lab.ladder()")


def test_failures_on_a_recorded_device_are_listed_with_the_device(tmp_path: Path) -> None:
    """So `Nothing failed` on one device is not read as true of another."""
    (tmp_path / "results").mkdir()
    failed_row = row("soa", 1e-3) | {"status": "failed", "reason": "out of time: a run would take 80 s"}
    store(tmp_path / "results", row("fused", 1e-4), failed_row)
    whole_store = Store(tmp_path / "results")
    _, html = replayed((records(registry.get("lbm"), whole_store)[0], whole_store), "lab.failed()")
    assert f"What failed on {CUDA.name} by CUDA, scale published" in html and "out of time" in html


def test_outputs_that_this_machine_executed_are_returned_as_html() -> None:
    lab_notebook = notebook("lab.ladder()", "print(1)", "lab.summary()", "1 + 1")
    assert executed_cells(lab_notebook) == {}, "no cell has run"
    outputs: list[dict[str, Any]] = [
        {"data": {"text/html": ["<p>a</p>", "<p>b</p>"], "text/plain": "ab"}},
        {"text": ["1 < 2\n"]},
        {"data": {"text/markdown": "*so*"}},
        {"data": {"text/plain": "2"}},
    ]
    for cell, output in zip(cells_of(lab_notebook)[1:], outputs, strict=True):
        cell["outputs"] = [output]
    outputs_shown = list(executed_cells(lab_notebook).values())
    assert outputs_shown == ["", "<p>a</p><p>b</p>", "<pre>1 &lt; 2</pre>", "<p><em>so</em></p>\n", "<pre>2</pre>"]


def test_a_page_that_this_machine_has_not_executed_has_no_outputs_and_no_parameters() -> None:
    lab_notebook = notebook("lab.ladder()")
    cells_of(lab_notebook)[1]["outputs"] = [{"data": {"text/plain": "2"}}]
    unexecuted = without_outputs(lab_notebook)
    nbformat.validate(nbformat.from_dict(unexecuted))
    assert not any("parameters" in cell["metadata"].get("tags", []) for cell in unexecuted["cells"])
    assert executed_cells(unexecuted) == {}
    assert len(unexecuted["cells"]) == len(lab_notebook["cells"]) - 1


@pytest.mark.parametrize("name", ["cnn", "peaks"])
def test_each_cell_of_a_real_notebook_shows_recorded_rows(name: str) -> None:
    root = project_root()
    all_rows = Store(root / "results")
    lab_notebook = json.loads((root / "experiments" / f"{name}.ipynb").read_text())
    cell_html = replay_notebook.replay(lab_notebook, records(registry.get(name), all_rows)[0], all_rows)
    assert len(cell_html) == len(cells_of(lab_notebook))
    silent = [cell["source"] for cell in cells_of(lab_notebook) if not cell_html[key_of(cell)]]
    assert silent in ([], [["lab.measure()"]])


def test_series_and_sweeps_without_a_row_of_the_device_are_noted_once(tmp_path: Path) -> None:
    """Check a series in which only a library on the host was measured, and a sweep without a measured point."""
    (tmp_path / "results").mkdir()
    sparse = registry.get("convpool").series("published")[0].points[0][1]
    lenet = [row("tensor", 1e-4, lab="lenet", case="batch-100")]
    store(
        tmp_path / "results", row("lists", 1e-3, lab="convpool", case="512x512x32x32-k3"),
        row("torch-cpu", 2e-3, lab="convpool", case=sparse), *lenet,
    )  # fmt: skip
    whole_store = Store(tmp_path / "results")
    page = (records(registry.get("convpool"), whole_store)[0], whole_store)
    (chart, *_) = replayed(page, "display(lab.series_chart('weight zeros'), lab.crossings('weight zeros'))")[1:]
    question = registry.get("convpool").series("published")[0].question
    assert chart.count("<p") == 1 and f"{question} It was not measured on this device." in chart and "svg" not in chart
    page = (records(registry.get("lenet"), whole_store)[0], whole_store)
    (table,) = replayed(page, "display(lab.sweep_table('segment'), lab.line_sweep('segment'))")[1:]
    assert table.count("it was not measured") == 1


def test_a_library_that_this_machine_lacks_is_no_reason_on_a_recorded_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = registry.get("convpool")
    data = records(lab, store(tmp_path, row("lists", 1e-3, lab="convpool", case="512x512x32x32-k3")))[0]
    monkeypatch.setattr(type(lab), "skip_reason", lambda *_: "PyTorch is not installed")
    case = data.case()
    assert data.skip_reason(lab.variant("torch-fp32"), case) == "" and "torch-fp32" not in data.skip_reasons(case)
    assert data.skip_reason(lab.variant("lists"), case) == "PyTorch is not installed", "a step that lacks no library"
