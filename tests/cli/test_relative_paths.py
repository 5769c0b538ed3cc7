"""A path on the command line is relative to the current folder, also in a folder below the project."""

import os
from pathlib import Path
from typing import Any

import click
import pytest

from roofbook.book import experiment
from roofbook.cli.app import _opened, _there, addressed, app
from roofbook.errors import UsageError

from ..conftest import Command

RERUN = ["rerun", "stencil", "checked", "7x48", "--scale", "test", "--no-page"]


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which is below a project with an empty store."""
    folder = tmp_path / "project" / "below"
    folder.mkdir(parents=True)
    (tmp_path / "project" / "roofbook.toml").touch()
    (tmp_path / "project" / "results" / "local").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.parquet"))


def test_all_commands_take_one_store_from_one_folder(below: Path, command: Command) -> None:
    code, _, err = command(*RERUN, "--results", "rows")
    assert (code, err) == (0, "") and len(names := files(below / "rows")) >= 1
    assert not (below.parent / "rows").exists() and not files(below.parent / "results")
    assert command("push", "pushed", "--results", "rows")[0] == 0 and files(below / "pushed") == names
    assert command("pull", "pushed", "--results", "../pulled")[0] == 0 and files(below.parent / "pulled") == names
    code, out, _ = command("export", "select count(*) as n from cells", "--results", "rows")
    assert code == 0 and int(out.split()[-1]) > 0
    code, out, _ = command("compact", "--results", "rows")
    assert code == 0 and "nothing to merge" in out


def test_without_a_path_the_store_is_that_of_the_project(below: Path, command: Command) -> None:
    assert command("pull", "../results")[2].count("both where the files come from and where they go to")
    (below / "rows" / "local").mkdir(parents=True)
    code, out, _ = command("pull", "rows")
    assert code == 0 and str(below.parent / "results") in out and os.listdir(below) == ["rows"]


def test_a_store_that_is_missing_is_named_with_its_folder(below: Path, command: Command) -> None:
    (below.parent / "elsewhere").mkdir()
    for words in (["push", "copy"], ["export"], ["explain", "stencil"], ["compact"]):
        code, _, err = command(*words, "--results", "elsewhere")
        assert (code, err) == (
            2,
            f"error: there is no store in elsewhere, which is {below / 'elsewhere'}; "
            "`roofbook run LAB --results FOLDER` makes one\n",
        ), words


@pytest.mark.parametrize("option", [["--results", "rows"], ["-p", "results", "rows"]])
def test_the_parameter_of_a_notebook_is_the_folder_that_the_command_means(
    below: Path, command: Command, monkeypatch: pytest.MonkeyPatch, option: list[str]
) -> None:
    def refuse(lab: str, parameters: dict[str, Any], root: Path) -> None:
        raise UsageError(f"results: {parameters['results']}")

    monkeypatch.setattr(experiment, "Experiment", refuse)
    assert command("run", "stencil", *option)[2] == f"error: results: {below / 'rows'}\n"
    assert command("run", "stencil", option[0], *option[1:-1], "../results")[2] == "error: results: results\n"
    assert command("run", "stencil", option[0], *option[1:-1], "s3://a/b")[2] == "error: results: s3://a/b\n"


def test_each_option_for_a_store_is_read_by_this_rule() -> None:
    rules = {addressed, _there, _opened}
    options = [
        (command.name, parameter.callback)
        for command in app.commands.values()
        for parameter in command.params
        if isinstance(parameter, click.Option) and "--results" in parameter.opts
    ]
    assert len(options) > 10 and {name for name, callback in options if callback not in rules} == set()
