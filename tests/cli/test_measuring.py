"""Commands in a checkout with measurements: run, explain, rerun, history, export, chart and build."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import nullcontext
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from roofbook.book import execute, render_recorded, site
from roofbook.book.experiment import Experiment
from roofbook.devices.find import devices
from roofbook.spec import registry
from roofbook.terminal import width

from .commands import Cli, in_this_process, process, rows

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured(place: Path) -> Path:
    """The checkout with one lab's notebook, two variants measured by `roofbook run`."""
    for notebook in (place / "experiments").glob("*.ipynb"):
        if notebook.stem != "lbm":
            notebook.unlink()
    arguments = ["-p", "variants", '["sequential", "fused"]', "-p", "budget_s", "0.000001"]
    code, out, err = in_this_process("run", "lbm", "--scale", "test", *arguments, cwd=place)
    assert (code, err) == (0, "")
    assert "The ladder on 40x24" in out and "_build/of-variants/lbm.ipynb" in out
    assert max(map(width, out.splitlines())) <= 80, "what a pipe is taken to hold"
    assert re.search(r"^fused .* \d", out, re.M) and "soa" not in out
    (place / "book" / "labs").mkdir()
    shutil.copy(
        place / "_build" / "of-variants" / "lbm.ipynb", place / "book" / "labs"
    )  # a page of some variants alone
    return place


def test_run_measures_the_requested_variants(measured: Path) -> None:
    stored = rows(measured)
    assert list(stored[stored["lab"] == "lbm"].groupby("variant").size()) == [1, 2], "the parent has its twin"
    assert set(stored["status"]) == {"ok"}


def test_run_of_the_peaks_prints_them_and_no_ladder(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(execute, "execute", lambda root, notebook, parameters, **_: root / "page")
    code, out, err = roofbook("run", "peaks", "--scale", "test")
    assert (code, err) == (0, "") and "Measured peaks of" in out and "The ladder" not in out


def test_explain_says_the_state_of_every_cell_and_why(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = roofbook("explain", "lbm", "--scale", "test")
    assert code == 0
    states = {line.split()[0]: line for line in out.splitlines() if " 40x24 " in line}
    stored = rows(measured)
    run = stored[stored["variant"] == "fused"].iloc[-1]["run"]
    assert re.search(rf" fresh +measured in {run}", states["fused"])
    assert re.search(r" missing +never measured on", states["soa"])
    assert re.search(r"2 fresh: .*; \d+ missing: ", out)


def test_rerun_appends_the_step_its_parent_and_the_control_and_touches_no_other_row(
    measured: Path, roofbook: Cli
) -> None:
    files = {path: path.read_bytes() for path in (measured / "results").rglob("*.parquet")}
    before = rows(measured)
    page = (measured / "book" / "labs" / "lbm.ipynb").read_bytes()
    code, out, err = roofbook("rerun", "lbm", "fused", "40x24", "--no-page")
    assert (code, err) == (0, "")
    assert re.search(r"^2 measurements taken; run \S+\nfused on 40x24: [\d.]+\s.?s per step$", out, re.M)
    joined = " ".join(out.split())
    assert re.search(r"per step \S.*\] \S.*no-finish \([\d.]+ .?s\), in one run ", joined)
    assert "] : no-finish over itself, the A/A control of the same rounds".replace("] ", "]") in joined
    assert "`roofbook rerun lbm fused 40x24 --no-page --runs 3` measures 3" in joined
    assert max(map(width, out.splitlines())) <= 80
    after = rows(measured)
    new = after[~after["run"].isin(before["run"])]
    assert sorted(zip(new["variant"], new["case"], new["role"], new["scale"], strict=True)) == [
        ("fused", "40x24", "step", "test"),
        ("no-finish", "40x24", "again", "test"),
        ("no-finish", "40x24", "step", "test"),
    ], "the scale is that of the page"
    assert len(after) == len(before) + 3
    assert {path: path.read_bytes() for path in files} == files
    assert (measured / "book" / "labs" / "lbm.ipynb").read_bytes() == page


def test_history_lists_the_measured_versions(measured: Path, roofbook: Cli) -> None:
    code, out, err = roofbook("history", "lbm")
    assert (code, err) == (0, "") and "No measurement changed beyond its noise." in out
    code, out, err = roofbook("history", "lbm", "fused", "--case", "40x24")
    assert (code, err) == (0, "") and re.search(r"^fused on 40x24  +\d{4}-", out, re.M)
    assert max(map(width, out.splitlines())) <= 80
    for wrong, message in (
        (["history", "lbn"], "unknown lab 'lbn'"),
        (
            ["history", "lbm", "fusd"],
            "unknown variant with measurements of lbm 'fusd' (did you mean 'fused'?); valid: ",
        ),
        (["history", "lbm", "--case", "9x9"], "unknown case with measurements of lbm '9x9'; valid: 40x24"),
        (["history", "stencil"], "stencil was not measured yet; `roofbook run stencil` does it"),
    ):
        code, out, err = roofbook(*wrong)
        assert (code, out) == (2, "") and message in err and err.count("\n") == 1


@pytest.mark.thorough
def test_rerun_makes_the_page_again_only_if_it_shows_the_measurement(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[Any] = []
    monkeypatch.setattr(execute, "execute", lambda root, notebook, parameters: executed.append(parameters))
    started = SimpleNamespace(kill=lambda: None)
    monkeypatch.setattr(site, "start", lambda root: nullcontext(started))
    monkeypatch.setattr(site, "build", lambda root, builder: executed.append(builder))
    code, out, _ = roofbook("rerun", "lbm", "soa", "40x24")
    assert (
        code == 0 and "The page of lbm does not show this measurement" in out and "scale test" in out and not executed
    )
    code, out, _ = roofbook("rerun", "lbm", "fused", "40x24")
    assert code == 0 and "Rebuilding the page\n" in out
    assert [executed[0]["variants"], executed[1]] == [["sequential", "fused"], started], "started beside the last runs"
    executed.clear()
    code, out, _ = roofbook("rerun", "lbm", "fused", "40x24", "--results", "elsewhere")
    assert code == 0 and "does not show this measurement" in out and not executed
    (measured / "book" / "labs" / "lbm.ipynb").rename(measured / "kept.ipynb")
    try:
        code, out, _ = roofbook("rerun", "lbm", "fused", "40x24", "--scale", "test")
    finally:
        (measured / "kept.ipynb").rename(measured / "book" / "labs" / "lbm.ipynb")
    assert code == 0 and "`roofbook build` makes one" in out and not executed


def test_rerun_of_a_cell_that_fails_says_why(measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(registry.get("lbm")), "check", lambda *_: (float("nan"), 1.0, "a check that found NaN"))
    code, out, err = roofbook("rerun", "lbm", "tree", "40x24", "--no-page")
    assert code == 1 and "2 of them failed" in out, "its parent as well"
    assert re.fullmatch(r"error: tree on 40x24: failed in \S+ .*: wrong result: error nan, allowed 1 \(.*\)\n", err)
    assert rows(measured).iloc[-1]["status"] == "failed"


def test_rerun_with_a_knob_is_a_point_of_a_sweep_beside_the_step(measured: Path, roofbook: Cli) -> None:
    code, out, err = roofbook(
        "rerun", "stencil", "checked", "7x48", "--scale", "test", "--no-page", "--knob", "ROOT=ACCURATE"
    )
    assert (code, err) == (0, "") and "checked@ROOT=ACCURATE on 7x48: " in out
    new = rows(measured, "select * from cells where lab = 'stencil' order by role")
    assert [(row.variant, row.role, row.axis, row.point) for row in new.fillna("").itertuples()] == [
        ("checked", "again", "", ""), ("checked", "step", "", ""), ("checked@ROOT=ACCURATE", "sweep", "ROOT", "ACCURATE"),
    ]  # fmt: skip
    code, out, _ = roofbook(
        "rerun", "stencil", "checked", "7x48", "--scale", "test", "--no-page", "--knob", "ROOT=ACCURATE"
    )
    assert code == 0 and re.search(r"before, on \d{4}-\d\d-\d\d: .* checked, in", " ".join(out.split()))


@pytest.mark.parametrize(
    ("step", "settings", "message"),
    [
        ("tasks-4", ["TASKS"], "--knob TASKS is no NAME=VALUE"),
        ("tasks-4", ["TASKS=2", "TASKS=3"], "--knob TASKS=3 sets a knob twice"),
        ("tasks-4", ["TASKS=2;x"], "'TASKS=2;x' is no knob of tasks-4: write NAME=VALUE"),
        ("tasks-4", ["TASK=2"], "has no knob TASK; its knobs: BOUNDS, "),
        ("tasks-4", ["STAGING=TWICE"], ": knob STAGING has no choice TWICE"),
        ("tasks-4", ["TASKS=4"], " is the same code with TASKS=4"),
        ("tasks-4", ["WIDTH=4"], "WIDTH is a size of the case: choose another case"),
        ("tasks-4@OFFSET=1", ["TASKS=2"], "is no knob of tasks-4@OFFSET=1"),
        ("lbm tree 40x24", ["GROUP_SIZE=32"], "GROUP_SIZE cannot be turned: the launch or the case sets it, here to "),
    ],
)
def test_a_knob_that_cannot_be_turned_is_refused_before_anything_is_measured(
    measured: Path, roofbook: Cli, step: str, settings: list[str], message: str
) -> None:
    before = len(rows(measured))
    options = [option for setting in settings for option in ("--knob", setting)]
    measurement = step.split() if " " in step else ["stencil", step, "7x48"]
    code, out, err = roofbook("rerun", *measurement, "--scale", "test", "--no-page", *options)
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert len(rows(measured)) == before


def test_export_writes_the_rows_of_a_query(measured: Path, roofbook: Cli, tmp_path: Path) -> None:
    sql = "select variant, samples_s, extra from cells where lab = 'lbm' order by started"
    code, out, _ = roofbook("export", sql)
    assert code == 0
    frame = pd.read_csv(StringIO(out))
    expected = rows(measured, sql)
    assert list(frame["variant"]) == list(expected["variant"])
    assert [json.loads(samples) for samples in frame["samples_s"]] == [
        list(samples) for samples in expected["samples_s"]
    ]
    for name in ("cells.csv", "cells.parquet"):
        assert roofbook("export", "--out", str(tmp_path / name)) == (0, "", "")
    assert (
        len(pd.read_csv(tmp_path / "cells.csv"))
        == len(pd.read_parquet(tmp_path / "cells.parquet"))
        == len(rows(measured))
    )
    code, out, _ = roofbook("export", "select count(*) as n from published where lab = 'lbm'")
    assert code == 0 and int(out.split()[1]) > 0


def test_export_writes_nested_values_as_json(roofbook: Cli) -> None:
    nested = "[date '2026-01-01', null] as a, [[1.5], []] as b, {'x': timestamp '2026-01-01'} as c, map {'y': 2} as d"
    code, out, _ = roofbook("export", f"select {nested}, null::int[] as e")
    assert code == 0
    (row,) = pd.read_csv(StringIO(out)).to_dict("records")
    assert [json.loads(row[name]) for name in "abcd"] == [
        ["2026-01-01", None], [[1.5], []], {"x": "2026-01-01 00:00:00"}, [["y", 2]],
    ]  # fmt: skip
    assert pd.isna(row["e"])


def test_chart_draws_the_ladder_of_a_device_in_the_store(measured: Path, roofbook: Cli, tmp_path: Path) -> None:
    arguments = ["chart", "lbm", "40x24", "--scale", "test"]
    device = rows(measured)["device"].iloc[-1]
    assert roofbook(*arguments, "--out", str(tmp_path / "a.svg"), "--on", device) == (0, "", "")
    assert roofbook(*arguments, "--out", str(tmp_path / "a.png")) == (0, "", "")
    drawn = (tmp_path / "a.svg").read_text()
    assert f"on {devices()[0].name}" in drawn and "sequential" in drawn and "fused" in drawn
    assert "prefers-color-scheme: dark" in drawn and (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert roofbook(*arguments, "--out", str(tmp_path / "b.svg"), "--only", "fused") == (0, "", "")
    assert ">sequential<" not in (tmp_path / "b.svg").read_text()
    for options, words in (
        (["--out", "a.gif"], "use .svg or .png"),
        (["--out", str(tmp_path / "no" / "a.svg")], "cannot be written"),
        (["--out", "a.svg", "--on", "moon"], f"unknown device in the store 'moon'; valid: {device}"),
        (["--out", "a.svg", "--only", "fusd"], "did you mean 'fused'?"),
        (["--out", "a.svg", "--results", "nowhere"], "there is no store in nowhere"),
    ):
        code, out, err = roofbook(*arguments, *options)
        assert (code, out) == (2, "") and words in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("on", "title", "has"),
    [("nvidia-h200/cuda", "NVIDIA H200, CUDA", True), ("nvidia-h200/opencl", "NVIDIA H200, OpenCL", False)],
)
@pytest.mark.thorough
def test_chart_keeps_the_backends_of_a_device_apart(
    roofbook: Cli, tmp_path: Path, on: str, title: str, has: bool
) -> None:
    """A step that is CUDA's alone is in no picture of OpenCL."""
    arguments = ["chart", "lbm", "128x128", "--scale", "published", "--results", str(ROOT / "results")]
    only = ["--only", "fused", "--only", "deep-halo-pause"]
    assert roofbook(*arguments, *only, "--on", on, "--out", str(tmp_path / "a.svg")) == (0, "", "")
    drawn = (tmp_path / "a.svg").read_text()
    assert f"on {title}" in drawn and "fused" in drawn and ("deep-halo-pause" in drawn) == has


@pytest.mark.parametrize("arguments", [["labs"], ["export", "select * from cells, range(2000)"]])
def test_a_reader_who_has_had_enough_is_no_error(measured: Path, arguments: list[str]) -> None:
    """Also of a text so short that it is written when the command ends."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    run = process(*arguments, cwd=measured, env=buffered)
    assert run.stdout and run.stderr
    if arguments[0] == "export":
        assert run.stdout.readline().startswith("run,lab,")
    run.stdout.close()
    assert run.stderr.read() == ""
    assert run.wait() == 1


@pytest.mark.thorough
def test_build_executes_stale_notebooks_only(measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {"scale": "test", "variants": ["sequential", "fused"], "budget_s": 1e-6}
    execute.execute(measured, measured / "experiments" / "lbm.ipynb", shown)
    Experiment("lbm", {"scale": "test", "variants": ["fused"], "budget_s": 1e-6, "remeasure": True}, measured).measure()
    executed: list[Any] = []
    true_execute = execute.execute

    def recorded(root: Path, notebook: Path, parameters: dict[str, Any], **how: Any) -> Path:
        executed.append(parameters)
        return true_execute(root, notebook, parameters, **how)

    monkeypatch.setattr(execute, "execute", recorded)
    monkeypatch.setattr(site, "build", lambda root, **_: root / "index.html")
    first, again = roofbook("build"), roofbook("build")
    assert max(map(width, first[1].replace(f"{measured}/index.html", "").splitlines())) <= 80
    assert first[0] == again[0] == 0
    assert [parameters["variants"] for parameters in executed] == [["sequential", "fused"]], "rows were added: once"
    printed = " ".join(first[1].split())
    assert (
        re.search(r"executing lbm\.ipynb with .*variants .*: .*\bstore changed", printed)
        and "executing" not in again[1]
    )
    ends = measured / "book" / "_generated" / "glance-ends.html"
    assert "this machine" in ends.read_text()

    notebook = measured / "experiments" / "lbm.ipynb"
    parameters = execute.parameters_of(measured, notebook)
    with monkeypatch.context() as patch:
        patch.setattr("roofbook.devices.provenance._version", lambda name: "another")
        stale = execute.stale(measured, notebook, parameters)
    assert stale == ["device"], "another driver or library has come: the page's figures are not of this machine"
    notebook.write_text(notebook.read_text() + "\n")
    monkeypatch.setattr(execute, "execute", lambda root, notebook, parameters, **how: executed.append(parameters))
    assert ": notebook changed" in " ".join(roofbook("build")[1].split())
    assert len(executed) == 2


@pytest.mark.thorough
def test_a_book_is_read_while_its_first_labs_run(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where a page is missing, the site comes first, and again at the end; else at the end alone."""
    copy = shutil.copytree(measured, tmp_path / "copy")
    monkeypatch.chdir(copy)
    notebook = copy / "experiments" / "lbm.ipynb"
    (copy / "experiments" / "cnn.ipynb").write_text(notebook.read_text().replace('"lbm"', '"cnn"'))
    happened: list[str] = []

    def executed(root: Path, notebook: Path, parameters: dict[str, Any], **how: Any) -> None:
        happened.append(notebook.stem)
        execute.page_of(root, notebook).write_text(notebook.read_text())

    def built(root: Path, **_: Any) -> Path:
        happened.append("site")
        return root / "index.html"

    monkeypatch.setattr(execute, "execute", executed)
    monkeypatch.setattr(site, "build", built)
    monkeypatch.setattr(
        render_recorded,
        "unexecuted",
        lambda root, pages: happened.extend(notebook.stem for notebook in pages),
    )
    code, out, _ = roofbook("build", "--execute")
    assert code == 0 and happened == ["cnn", "site", "cnn", "lbm", "site"]
    printed = " ".join(out.split())
    assert (
        printed.index("It can be read: file://")
        < printed.index("1 of 2: executing cnn.ipynb")
        < printed.index("2 of 2")
    )
    assert "; then lbm 2 of 2: executing lbm.ipynb" in printed, "what is left"
    happened.clear()
    assert roofbook("build", "--execute")[0] == 0 and happened == ["cnn", "lbm", "site"]


@pytest.mark.thorough
def test_build_takes_its_own_parameters_before_those_of_the_page(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[Any] = []
    monkeypatch.setattr(execute, "execute", lambda root, notebook, parameters, **how: executed.append(parameters))
    monkeypatch.setattr(site, "build", lambda root, **_: root / "index.html")
    assert roofbook("build", "--scale", "test")[0] == 0
    assert roofbook("build", "--execute")[0] == 0
    monkeypatch.setattr(execute, "parameters_of", lambda root, notebook: {})
    assert roofbook("build")[0] == 0
    assert executed[0] == {"scale": "test", "device": "auto"}
    assert executed[1]["variants"] == ["sequential", "fused"]
    assert executed[2] == {"scale": "quick", "device": "auto"}
    monkeypatch.setattr("roofbook.book.build.why_auto", lambda: "auto takes opencl:0: so it is")
    assert "auto takes opencl:0: so it is\n" in roofbook("build", "--execute")[1]
    assert "auto takes" not in roofbook("build", "--execute", "--device", devices()[0].spec)[1]
