"""One line for every mistake on the command line, with the remedy, from papermill too."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.often import often

from roofbook.book.experiment import PARAMETERS
from roofbook.devices import checkout
from roofbook.spec import registry

from .commands import Cli, process

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
    (["compact", "--part", "recordd"], "did you mean 'recorded'?"),
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
    (["import", "new\nline.json"], "new\\nline.json: No such file or directory"),
    (["pull", "new\nline"], "results cannot be kept in new\\nline: its name has a control character"),
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    often(PAPERMILL, lambda mistake: mistake == PAPERMILL[0]),
    ids=[" ".join(arguments) for arguments, _ in PAPERMILL],
)
def test_plain_papermill_stops_at_a_mistake_with_one_line(
    place: Path, tmp_path: Path, arguments: list[str], words: str
) -> None:
    """Papermill itself only warns of a parameter that the notebook does not have, and its own stack is its own."""
    out = tmp_path / "out.ipynb"
    options = ["--no-progress-bar", "--start-timeout", "1000"]
    run = process("experiments/lbm.ipynb", str(out), *options, *arguments, cwd=place, module="papermill")
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
