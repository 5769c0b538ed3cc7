"""Cells that run in this process give a page the same outputs as a kernel."""

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from roofbook.book import inprocess_engine

CELLS = (
    "from IPython.display import HTML, display\nprint('printed')\ndisplay(HTML('<b>shown</b>'))\nHTML('<i>last</i>')",
    "x = scale * 2",
    "f'{x}'",
)


def run(folder: Path, *cells: str, **options: Any) -> Any:
    source = new_notebook(cells=[new_markdown_cell("# A page")])
    source.cells.append(new_code_cell("scale: int = 1", metadata={"tags": ["parameters"]}))
    source.cells += [new_code_cell(cell) for cell in cells]
    source.metadata["kernelspec"] = {"name": "python3", "language": "python", "display_name": "Python 3"}
    nbformat.write(source, folder / "in.ipynb")
    return papermill.execute_notebook(
        folder / "in.ipynb",
        folder / "out.ipynb",
        parameters={"scale": 21},
        progress_bar=False,
        start_timeout=1000,
        **options,
    )


def outputs(notebook: nbformat.NotebookNode) -> list[list[dict[str, Any]]]:
    """Return the outputs of each cell of code."""
    return [[dict(output) for output in cell.outputs] for cell in notebook.cells if cell.cell_type == "code"]


def test_a_page_is_the_same_as_by_a_kernel(tmp_path: Path) -> None:
    in_process = run(tmp_path, *CELLS, engine_name=inprocess_engine.NAME)
    nbformat.validate(nbformat.read(tmp_path / "out.ipynb", as_version=4))
    kernel = run(tmp_path, *CELLS)
    assert outputs(in_process) == outputs(kernel)
    assert [cell.get("execution_count") for cell in in_process.cells] == [
        cell.get("execution_count") for cell in kernel.cells
    ]
    assert in_process.metadata.papermill.parameters == kernel.metadata.papermill.parameters == {"scale": 21}


def test_packages_of_another_activated_environment_are_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    monkeypatch.setattr(sys, "path", list(sys.path))
    paths_before = list(sys.path)
    run(tmp_path, "x = 1", engine_name=inprocess_engine.NAME)
    assert sys.path == paths_before


def test_an_error_of_a_cell_stops_the_notebook_and_later_cells_have_no_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(papermill.exceptions.PapermillExecutionError) as raised:
        run(tmp_path, "1 / 0", "never = True", engine_name=inprocess_engine.NAME)
    assert (raised.value.ename, raised.value.evalue) == ("ZeroDivisionError", "division by zero")
    notebook = nbformat.read(tmp_path / "out.ipynb", as_version=4)
    assert [cell.source for cell in notebook.cells if cell.cell_type == "code"][-1] == "never = True"
    assert not notebook.cells[-1].outputs and capsys.readouterr().out == ""
    with pytest.raises(papermill.exceptions.PapermillExecutionError) as raised:
        run(tmp_path, "1 /", engine_name=inprocess_engine.NAME)
    assert raised.value.ename == "SyntaxError"


RAISES = """\
class Drawing:
    def _repr_html_(self):
        raise KeyError("a bug in drawing")

Drawing()
"""


@pytest.mark.parametrize("engine", [{"engine_name": inprocess_engine.NAME}, {}])
def test_an_output_that_raises_while_it_is_drawn_stops_the_notebook(tmp_path: Path, engine: dict[str, str]) -> None:
    with pytest.raises(papermill.exceptions.PapermillExecutionError) as raised:
        run(tmp_path, "'before'", RAISES, "never = True", **engine)
    lines = re.sub(r"\x1b\[[\d;]*m", "", "".join(raised.value.traceback))
    assert raised.value.ename == "KeyError" and re.search(r"Cell In\[\d\], line 3", lines)


def test_ctrl_c_ends_the_notebook(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, "raise KeyboardInterrupt", engine_name=inprocess_engine.NAME)


def test_a_second_notebook_knows_nothing_of_the_first(tmp_path: Path) -> None:
    run(tmp_path, "name = 1", engine_name=inprocess_engine.NAME)
    second = run(tmp_path, "'name' in globals()", engine_name=inprocess_engine.NAME)
    assert outputs(second)[-1][0]["data"]["text/plain"] == "False"
