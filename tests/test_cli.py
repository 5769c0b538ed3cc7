"""The command line as a user meets it: its help, its output, and one line for every mistake.

Most commands run in this process; those with pipes and papermill run in a process of their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pandas as pd
import pytest

from roofbook import cli
from roofbook.book import execute, render_recorded, site
from roofbook.book.experiment import PARAMETERS, Experiment
from roofbook.devices import checkout, nvrtc
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import devices
from roofbook.spec import registry
from roofbook.spec.plan import SCALES
from roofbook.store.parquet import Store
from roofbook.terminal import width

Cli = Callable[..., tuple[int, str, str]]
ROOT = Path(__file__).parents[1]
DIALECT = Path(cli.__file__).parents[1] / "spec" / "dialect"


@pytest.fixture(scope="module")
def place(unmeasured: Callable[[], Path]) -> Path:
    """The checkout in which this module's commands run."""
    return unmeasured()


@pytest.fixture
def roofbook(place: Path, command: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in that checkout."""
    monkeypatch.chdir(place)
    return command


def process(*arguments: str, cwd: Path, module: str = "roofbook.cli", **options: Any) -> subprocess.Popen[str]:
    """Start the command as a process in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job would ignore it
        **options,
    )


def rows(place: Path, sql: str = "select * from cells order by started") -> pd.DataFrame:
    return Store(place / "results").query(sql)


# -- help --------------------------------------------------------------------------------------------------------------


def test_the_help_lists_every_command_with_its_whole_summary(roofbook: Cli) -> None:
    code, out, err = roofbook("--help")
    assert (code, err) == (0, "")
    for name, command in cli.app.commands.items():
        summary = (command.help or "").split("\n")[0]
        assert re.search(rf"^  {name} +{re.escape(summary)}$", out, re.M), f"{name}: {summary}"
    assert roofbook("-h") == roofbook() == (0, out, "")


@pytest.mark.parametrize("name", cli.app.commands)
def test_the_help_of_a_command_names_every_option_and_fits_a_terminal(roofbook: Cli, name: str) -> None:
    code, out, err = roofbook(name, "--help")
    assert (code, err) == (0, "")
    for parameter in cli.app.commands[name].params:
        assert isinstance(parameter, click.Argument) or parameter.help or "[default" in out
        for word in parameter.opts if isinstance(parameter, click.Option) else [str(parameter.human_readable_name)]:
            assert word in out
    assert max(map(len, out.splitlines())) <= 100 and "\b" not in out
    for command in re.findall(r"^    roofbook (.*)$", out, re.M):
        assert command.split()[0] == name


# -- reading -----------------------------------------------------------------------------------------------------------


def test_devices_are_listed_by_the_names_that_open_them(roofbook: Cli) -> None:
    code, out, _ = roofbook("devices")
    assert code == 0
    specs = [line.split()[0] for line in out.splitlines() if line[0] != " "]
    assert specs == [*(device.spec for device in devices()), *["auto"] * (len(devices()) > 1)]


def test_no_device_says_how_to_get_one(roofbook: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofbook.devices.find.devices", lambda of=None: [])
    code, out, err = roofbook("devices")
    assert (code, out) == (2, "") and "pyopencl[pocl]" in err


def test_labs_are_listed_with_the_cases_of_each_scale(roofbook: Cli) -> None:
    code, out, _ = roofbook("labs")
    assert code == 0
    for name in registry.names():
        assert re.search(rf"^{name} ", out, re.M)
        for scale in SCALES:
            cases = ", ".join(case.name for case in registry.get(name).cases(scale))
            assert re.search(rf"^ +{scale} +{re.escape(cases)}$", out, re.M)


def test_diff_shows_what_the_compiler_sees(roofbook: Cli) -> None:
    code, out, _ = roofbook("diff", "lbm", "select")
    assert code == 0 and out.startswith("--- kept-partials\n+++ select\n@@")
    assert not re.search(r"^[+-]\s*#", out, re.M), "a macro that is not expanded"
    code, out, _ = roofbook("diff", "lbm", "no-finish")
    assert code == 0 and "Same kernel as ported" in out and "options" in out


@pytest.mark.parametrize("variant", ["fused", "half-storage", "flat-grid@wg=16x16", "graph"])
@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_show_prints_plain_source_that_compiles(roofbook: Cli, variant: str, dialect: str) -> None:
    code, out, err = roofbook("show", "lbm", variant, "--as", dialect)
    if dialect not in registry.get("lbm").variant(variant).backends:
        assert (code, out) == (2, "") and "--as cuda" in err
        assert roofbook("show", "lbm", variant)[:2] == (0, registry.get("lbm").variant(variant).source.render("cuda"))  # type: ignore[union-attr]
        return
    assert code == 0
    words = set(re.findall(r"#define (\w+)", (DIALECT / f"{dialect}.h").read_text()))
    assert words and not words & set(re.findall(r"\w+", re.sub(r"//.*", "", out)))
    if dialect == "cuda":
        try:
            assert ".visible .entry" in nvrtc.compile_cuda(out, 90).ptx
        except Unsupported as why:
            pytest.skip(str(why))
    else:
        opencl = [device for device in devices() if device.backend == "opencl"]
        if not opencl:
            pytest.skip("no OpenCL device")
        opencl[0].build(out)


# -- mistakes ----------------------------------------------------------------------------------------------------------

READING = [
    ["explain", "lbm"], ["history", "lbm"], ["claims"], ["compare", "lbm", "128x128"], ["export"], ["compact"],
    ["chart", "lbm", "128x128", "--out", "x.svg"], ["push", "elsewhere"],
]  # fmt: skip
"""All commands that read a store."""
WRITING = [
    ["chart", "lbm", "128x128", "--out"], ["export", "--out"], ["pdf", "lbm", "--out"], ["gate", "--against", "HEAD", "--json"],
]  # fmt: skip
"""All commands that write a file that a user names."""
OF_SCALE = [
    ["run", "lbm"], ["build"], ["check", "lbm", "fused"], ["chart", "lbm", "40x24", "--out", "x.svg"],
    ["gate", "--against", "HEAD"], ["record", "OUT", "--scale", "test"],
]  # fmt: skip
EMPTY = [
    ("TO", ["push"]), ("OUT", ["record"]), ("FROM", ["pull"]), ("--against", ["gate", "--against"]),
    ("--cluster", ["run", "lbm", "--cluster"]), ("--cluster", ["record", "OUT", "--cluster"]),
    *(("--results", [*words_before, "--results"]) for words_before in (["run", "lbm"], ["pull", "elsewhere"], *READING)),
    ("--data-dir", ["train", "lenet", "--data-dir"]),
]  # fmt: skip
"""Options and arguments for a folder or an address, left empty."""
MISTAKES = [
    (["nothing"], "No such command"),
    (["explain"], "Missing argument 'LAB'"),
    (["explain", "lmb"], f"unknown lab 'lmb' (did you mean 'lbm'?); valid: {', '.join(registry.names())}, peaks"),
    (["run", "lmb"], "(did you mean 'lbm'?)"),
    (
        ["explain", "lbm", "--scale", "quik"],
        "unknown scale 'quik' (did you mean 'quick'?); valid: quick, published, large, test",
    ),
    *(
        ([*command_words, "--scale", "quik"], "(did you mean 'quick'?); valid: quick, published, large, test")
        for command_words in OF_SCALE
    ),
    (["run", "lbm", "--device", "opencl:99"], "unknown device 'opencl:99' (did you mean 'opencl:0'?); valid: auto, "),
    (["build", "--device", "opencl:99"], "unknown device 'opencl:99' (did you mean 'opencl:0'?); valid: auto, "),
    (["rerun", "lbm", "fusd", "40x24", "--scale", "test"], "partly-ported, ported, no-finish, fused"),
    (["rerun", "lbm", "flat-grid@wg=16x2", "40x24", "--scale", "test"], "flat-grid@wg=1x16|1x64|4x1"),
    (["rerun", "lbm", "fused", "128x128", "--scale", "test"], "unknown case at scale test '128x128'; valid: 40x24"),
    (["rerun", "lbm", "bit-neighbours", "40x24", "--scale", "test"], "a side is not a power of two"),
    (
        ["run", "lbm", "-p", "scal", "test"],
        "unknown parameter 'scal' (did you mean 'scale'?); valid: " + ", ".join(PARAMETERS),
    ),
    (["run", "lbm", "-p", "scale"], "requires 2 arguments. (`roofbook run --help` says more)"),
    (["run", "lbm", "-p", "variants", "[fusd]"], "(did you mean 'fused'?)"),
    (["run", "lbm", "-p", "variants", "fused"], "must be a list such as ['name'], or None for all, not 'fused'"),
    (
        ["run", "lbm", "-p", "cases", "[1x1]"],
        "unknown case at scale quick '1x1' (did you mean '128x128'?); valid: 128x128, 1024x1024",
    ),
    (["run", "lbm", "-p", "budget_s", "long"], "parameter budget_s must be seconds, a number above 0, not 'long'"),
    (["run", "lbm", "-p", "seed", "-1"], "parameter seed must be a whole number, 0 or more, not -1"),
    (["run", "lbm", "-p", "remeasure", "1"], "parameter remeasure must be True or False, not 1"),
    (["run", "lbm", "-p", "device", "0"], "parameter device must be a string such as 'auto'"),
    (["run", "lbm", "--results", "_config.yml"], "_config.yml: it is a file, not a folder"),
    (["explain", "lbm", "--results", "_config.yml"], "_config.yml: it is a file, not a folder"),
    (["export", "--results", "_config.yml"], "_config.yml: it is a file, not a folder"),
    (["run", "lbm", "--results", "s3:/team"], "no such URL as s3:/team: after the colon there are two slashes"),
    (["record", "s3://team/x"], "OUT is a folder"),
    (["record", str(checkout.PROJECT / "lib")], "would be a change of the checkout, which has files there"),
    (["push", "results"], "both where the files come from and where they go to"),
    *(([*command_words, ""], f"Invalid value for '{name}': it is empty") for name, command_words in EMPTY),
    (["pull", "no/such/store"], "there is no store in no/such/store"),
    *(
        ([*command_words, "--results", "no/such/store"], "there is no store in no/such/store")
        for command_words in READING
    ),
    (["compact", "--results", "ftp://x/y"], "results are in a folder, or at s3://BUCKET/NAME"),
    (["diff", "lbm", "fusd"], "did you mean 'fused'?"),
    (["diff", "lbm", "sequential"], "`roofbook show lbm sequential` prints its kernel"),
    (["diff", "lbm", "openmp"], "openmp has no parent; it is a program of the host"),
    (["show", "lbm", "openmp"], "it is a program of the host"),
    (["show", "lbm", "fused", "--as", "hip"], "'hip' is not one of 'c', 'cuda', 'opencl'"),
    (["export", "selec 1"], "syntax error"),
    (["export", "select * from runs"], "the views are cells, published and claims"),
    *(
        (["export", f"select {expression} as a", *options], f"a {file} cannot hold this answer: ")
        for expression, file, options in (
            ("interval 1 day", "Parquet file", ["--out", "a.parquet"]),
            ("date '-4000-01-01'", "CSV", []),
            ("[date '-4000-01-01']", "CSV", ["--out", "a.csv"]),
            ("timestamptz '20000-01-01 00:00:00+00'", "CSV", ["--out", "a.csv"]),
        )
    ),
    (["export", "--out", "cells.xls"], "--out must end in .csv or .parquet, not 'cells.xls'"),
    *(
        ([*command_words, wrong], f"{command_words[-1]} {wrong or repr(wrong)} cannot be written: {reason}")
        for command_words in WRITING
        for wrong, reason in (
            ("no/such/a.svg", "there is no folder no/such"),
            ("book", "it is a folder"),
            ("", "a file has"),
        )
    ),
    *(
        ([*command, option, "nan"], f"Invalid value for '{option}': nan is not a number")
        for command, options in (
            (["gate", "--against", "HEAD"], ("--tolerance", "--budget")),
            (["record", "OUT"], ("--budget", "--limit")),
        )
        for option in options
    ),
    (["record", "OUT", "--budget", "-1"], "-1.0 is not in the range x>0"),
    (["serve"], "`roofbook build` makes one"),
    (["serve", "--port", "99999"], "0<=x<=65535"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=[" ".join(arguments) for arguments, _ in MISTAKES])
def test_a_mistake_gets_one_line_with_the_remedy(roofbook: Cli, arguments: list[str], words: str) -> None:
    code, out, err = roofbook(*arguments)
    assert (code, out) == (2, "")
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    assert words in err


@pytest.mark.parametrize("writing", WRITING, ids=" ".join)
def test_a_place_that_may_not_be_written_is_refused_before_the_work(
    roofbook: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writing: list[str]
) -> None:
    (tmp_path / "link.svg").symlink_to(tmp_path / "closed" / "a.svg")
    (tmp_path / "closed").mkdir()
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, *how: Path(path).name != "closed" and may(path, *how))  # root may
    code, out, err = roofbook(*writing, str(tmp_path / "link.svg"))
    assert (code, out) == (2, "")
    assert (
        err.endswith(f"link.svg cannot be written: you may not write to {tmp_path / 'closed'}\n")
        and err.count("\n") == 1
    )


PAPERMILL = [
    (["-p", "scael", "test"], "unknown parameter 'scael' (did you mean 'scale'?); valid: "),
    (["-y", "{scale: test, variants: [fusd]}"], "(did you mean 'fused'?)"),
]


@pytest.mark.parametrize(("arguments", "words"), PAPERMILL, ids=[" ".join(arguments) for arguments, _ in PAPERMILL])
def test_plain_papermill_stops_at_a_mistake_with_one_line(
    place: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    """Papermill itself only warns of a parameter that the notebook does not have, and its own stack is its own."""
    out = tmp_path / "out.ipynb"
    run = process("experiments/lbm.ipynb", str(out), "--no-progress-bar", *arguments, cwd=place, module="papermill")
    _, err = run.communicate()
    assert run.returncode == 1
    last = err.strip().splitlines()[-1]
    assert last.startswith("UsageError: ") and words in last
    cells = json.loads(out.read_text())["cells"]
    errors = [
        cell_output
        for cell in cells
        for cell_output in cell.get("outputs", [])
        if cell_output["output_type"] == "error"
    ]
    assert [error["traceback"] for error in errors] == [[last]], "the notebook shows the line, and no stack"
    assert not (place / "results" / "local").exists()


# -- measuring ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(place: Path) -> Path:
    """The checkout with one lab's notebook, two variants measured by `roofbook run`."""
    for notebook in (place / "experiments").glob("*.ipynb"):
        if notebook.stem != "lbm":
            notebook.unlink()
    arguments = ["-p", "variants", '["sequential", "fused"]', "-p", "budget_s", "0.000001"]
    run = process("run", "lbm", "--scale", "test", *arguments, cwd=place)
    out, err = run.communicate()
    assert (run.returncode, err) == (0, "")
    assert "The ladder on 40x24" in out and "_build/of-variants/lbm.ipynb" in out
    assert max(map(width, out.splitlines())) <= 80, "what a pipe is taken to hold"
    assert re.search(r"^fused .* \d", out, re.M) and "soa" not in out
    parameters = {"scale": "test", "variants": ["sequential", "fused"], "budget_s": 1e-6}
    execute.execute(place, place / "experiments" / "lbm.ipynb", parameters)  # a page that shows some variants alone
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


def test_rerun_makes_the_page_again_only_if_it_shows_the_measurement(
    measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[Any] = []
    monkeypatch.setattr(execute, "execute", lambda root, notebook, parameters, in_process: executed.append(parameters))
    monkeypatch.setattr(site, "build", lambda root, builder: executed.append("site"))
    code, out, _ = roofbook("rerun", "lbm", "soa", "40x24")
    assert (
        code == 0 and "The page of lbm does not show this measurement" in out and "scale test" in out and not executed
    )
    code, out, _ = roofbook("rerun", "lbm", "fused", "40x24")
    assert code == 0 and "Rebuilding the page\n" in out
    assert [executed[0]["variants"], executed[1]] == [["sequential", "fused"], "site"]
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


# -- the book ----------------------------------------------------------------------------------------------------------


def test_build_executes_stale_notebooks_only(measured: Path, roofbook: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
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
