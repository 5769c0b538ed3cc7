"""The output of commands fits the terminal: no line is wider, no word is lost, commands can be pasted."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from roofbook import cli, terminal
from roofbook.book.experiment import Experiment
from roofbook.report.html import Cell, Row, Table
from roofbook.report.layout import ABOVE
from roofbook.spec import registry
from roofbook.terminal import command, pieces, prose, width

from .often import often

RESULTS = Path(__file__).parents[1] / "results"

words = st.text("abz019µ漢é-/@=[]().,✓×", min_size=1, max_size=12)
texts = st.lists(words, max_size=8).map(" ".join)
numbers = st.sampled_from(["12.3 [12.1, 12.6]", "–", "1\u202f230 [1\u202f200, 1\u202f260]", "4 × 100", "✓ 0.01"])
arguments = st.text("abz019-/", min_size=1, max_size=12) | st.lists(words, min_size=1, max_size=9).map(
    lambda parts: shlex.quote(" ".join(parts))
)
commands = st.lists(arguments, min_size=1, max_size=8).map(lambda parts: " ".join(["run", *parts]))


@st.composite
def tables(draw: st.DrawFn) -> Table:
    kinds = draw(st.lists(st.sampled_from(["", "num", "wrap", "key", "below", "num key"]), min_size=1, max_size=9))
    columns = [Cell(draw(texts), kind) for kind in kinds]
    rows = []
    for _ in range(draw(st.integers(0, 5))):
        cells: list[Cell] = []
        at = 0
        while at < len(kinds):
            span = draw(st.integers(1, len(kinds) - at)) if draw(st.integers(0, 3)) == 0 else 1
            text = draw(numbers) if "num" in kinds[at] and span == 1 else draw(texts)
            cells.append(Cell(text, kinds[at], span=span, small=draw(texts)))
            at += span
        rows.append(Row(cells))
    return Table(draw(texts), columns, rows, pd.DataFrame(), draw(st.lists(texts, max_size=2)))


def cells_of(table: Table) -> Iterator[str]:
    for line in (table.columns, *(row.cells for row in table.rows)):
        for cell in line:
            yield " ".join(part for part in (cell.text, cell.small) if part)


@settings(max_examples=2 * settings().max_examples)
@given(tables(), st.integers(10, 120))
def test_no_line_of_a_table_is_wider_than_the_terminal_and_no_word_is_lost(table: Table, most: int) -> None:
    texts = [table.caption, *table.notes, *cells_of(table)]
    parts = [part for text in texts for part in pieces(text)]
    most = max([most, *map(width, parts)])
    fitted = table.fitted(most)
    assert max(map(width, fitted.splitlines())) <= most
    words = fitted.split()
    printed_words = Counter(words) + Counter(
        word[:-1] for word in words if word.endswith(":")
    )  # a head before what all rows say
    for part in set(parts):
        assert part in fitted
    alike = [cell for cell, count in Counter(cells_of(table)).items() if count > 2]  # may be said once
    expected_words = Counter(word for text in texts if text not in alike for word in text.split())
    assert not expected_words - printed_words


def test_a_head_as_wide_as_the_terminal_has_no_colon_before_what_all_rows_say() -> None:
    columns, rows = [Cell("Step"), Cell("0123456789")], [Row([Cell(name), Cell("same")]) for name in "abc"]
    lines = Table("", columns, rows, pd.DataFrame()).fitted(10).splitlines()
    assert lines[-2:] == ["0123456789", "same"]
    assert Table("", columns, rows, pd.DataFrame()).fitted(11).splitlines()[-2:] == ["0123456789:", "same"]


@given(tables())
def test_a_table_that_fits_is_one_line_a_row(table: Table) -> None:
    assume(all(cell.span == 1 for row in table.rows for cell in row.cells))  # else it wraps within the columns it spans
    lines = table.fitted(10_000).split("\n")
    assert len(lines) == 1 + 3 + 1 + len(table.rows) + len(table.notes)


@settings(max_examples=3 * settings().max_examples)
@given(commands, st.integers(24, 100), st.integers(0, 4))
def test_a_command_over_several_lines_is_the_same_to_the_shell(text: str, most: int, indent: int) -> None:
    lines = command(text, most, indent)
    assert all(line.endswith("\\") for line in lines[:-1]) and not lines[-1].endswith("\\")
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(text)
    assert max(map(width, lines)) <= max(most, *(width(word) + 4 for word in re.split(r" ", text)))


def test_a_wrapped_command_can_be_pasted_into_a_shell() -> None:
    text = f"printf '%s|' --scale published -p variants '[{', '.join(f'queue@buffers={n}' for n in range(24))}]' -p a b"
    lines = command(text, 60, 4)
    assert len(lines) > 6 and max(map(len, lines)) <= 60
    outputs = [
        subprocess.run(["sh", "-c", pasted], capture_output=True, text=True).stdout
        for pasted in (text, "\n".join(lines))
    ]
    assert outputs[0] == outputs[1] and outputs[0].count("|") == 8


def test_a_table_too_wide_becomes_blocks_that_repeat_the_names_of_its_rows() -> None:
    columns = [Cell("Variant"), Cell("Case", "key"), *(Cell(f"On device {n}", "num") for n in range(4))]
    columns += [Cell("Why", "below"), Cell("Backend")]
    rows = [
        Row([Cell("one"), Cell("8x8"), *[Cell("12.3 [12.1, 12.6]", "num", small="(n = 3, range)")] * 4, Cell("a remark"),
             Cell("cuda")]),
        Row([Cell("two"), Cell("8x8"), Cell("failed: out of memory, and more was asked for", span=4), Cell(""), Cell("cuda")]),
        Row([Cell("three"), Cell("8x8"), *[Cell("1.2", "num")] * 4, Cell("another"), Cell("cuda")]),
    ]  # fmt: skip
    table = Table("Caption", columns, rows, pd.DataFrame(), ["A note that is much longer than the terminal is wide."])
    fitted = table.fitted(46)
    assert fitted.count("Variant  Case") == fitted.count("\none ") == 4
    assert fitted.count("out of memory") == 1 and fitted.count(ABOVE) == 3
    assert "\n    a remark\n" in fitted and "\nBackend: cuda\n" in fitted
    assert table.fitted(300).count("\n") == 8


def test_prose_keeps_a_command_whole() -> None:
    assert prose("one `two three` four", 12) == ["one", "`two three`", "four"]
    assert prose("  one `two three` four", 8, hang=2) == ["  one", "  `two", "  three`", "  four"]


@settings(max_examples=2 * settings().max_examples)
@given(commands, st.integers(30, 100), st.integers(0, 4), *[st.text("abz019.,()é", min_size=1, max_size=12)] * 2)
@example("run 0 0 0 0 0 0 0 0", 30, 2, "0", "0")  # a name, and nothing else before the command
def test_a_command_in_prose_can_be_pasted_where_it_takes_several_lines(
    text: str, most: int, hang: int, before: str, after: str
) -> None:
    text = f"roofbook {text}"
    lines = "\n".join(prose(f"{before} `{text}` {after}", most, hang))
    start, pasted, end = lines.split("`")
    assert (start.strip(), end.strip()) == (before, after)
    assert "\n" not in pasted.replace("\\\n", "") and shlex.split(pasted.replace("\\\n", "")) == shlex.split(text)


# -- the commands ------------------------------------------------------------------------------------------------------

PRINTED = [
    ["labs"],
    ["devices"],
    ["claims"],
    ["claims", "--lab", "cnn", "--on", "nvidia-h200"],
    ["compare", "cnn", "256ch-224x224-k5"],
    ["compare", "lbm", "128x128", "--on", "nvidia-h200/opencl", "--on", "nvidia-h200/cuda"],
    *(["explain", name, "--scale", "published"] for name in (*registry.names(), registry.PEAKS)),
    ["diff", "lbm", "no-finish"],
    *([name, "--help"] for name in cli.app.commands),
]


def is_often(arguments: list[str]) -> bool:
    """Return whether the short suite has a command: the tables of one lab and of the peaks stand for those of all labs."""
    return arguments != ["claims"] and (arguments[0] != "explain" or arguments[1] in ("stencil", registry.PEAKS))


@pytest.mark.parametrize(
    ("arguments", "columns"),
    often(
        [*((command_words, 80) for command_words in PRINTED), (PRINTED[-1], 110), (["diff", "lbm", "no-finish"], 110)],
        lambda values: is_often(values[0]),
    ),
)
def test_output_of_a_command_fits_the_terminal(
    command: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, arguments: list[str], columns: int
) -> None:
    monkeypatch.chdir(RESULTS.parent)
    if columns == 80:
        monkeypatch.delenv("COLUMNS", raising=False)
    else:
        monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = command(*arguments)
    assert (code, err) == (0, "") and out
    assert [line for line in out.splitlines() if width(line) > columns] == []


@pytest.mark.thorough
@pytest.mark.parametrize("name", [*registry.names(), registry.PEAKS])
def test_the_tables_of_a_record_fit(name: str) -> None:
    """Tables that `roofbook run` and `roofbook record` print fit 80 columns, for the recorded rows."""
    experiment = Experiment(name, {"scale": "published", "results": str(RESULTS)}, RESULTS.parent)
    recorded_tables: list[Any] = [experiment.peak_table()] if name == registry.PEAKS else [
        experiment.ladder(case.name) for case in experiment.cases
    ]  # fmt: skip
    for table in recorded_tables:
        assert max(map(width, table.fitted(80).splitlines())) <= 80


def test_a_pipe_has_80_columns_and_a_variable_sets_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.terminal_width() == 80
    monkeypatch.setenv("COLUMNS", "132")
    assert terminal.terminal_width() == 132


def test_say_wraps_what_it_prints(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    terminal.say("name       one two three\n", hang=11)
    assert capsys.readouterr().out == "name       one two\n           three\n\n"
