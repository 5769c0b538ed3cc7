"""Names that a shell completes, and the sections of the help."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from roofbook import cli
from roofbook.cli.app import COMPLETED, SECTIONS
from roofbook.devices.find import devices

from .conftest import Command


def completed(line: str) -> list[str]:
    """Return what bash would offer at the end of a line."""
    words = line.split(" ")
    environment = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_ROOFBOOK_COMPLETE": "bash_complete"}
    done = subprocess.run(
        [sys.executable, "-c", "from roofbook.cli import run; run()"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert not done.stderr
    return [offered.partition(",")[2] for offered in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("roofbook sh", ["show"]),
        ("roofbook show l", ["lbm", "lenet"]),
        ("roofbook show lbm fus", ["fused"]),
        ("roofbook show nosuch fus", []),
        ("roofbook rerun stencil fused 7", ["7x48"]),
        ("roofbook gate --lab st", ["stencil"]),
        ("roofbook history lbm --on nvidia-h2", ["nvidia-h200"]),
        ("roofbook run lbm --dev", ["--device"]),
    ],
)
def test_names_are_completed(line: str, names: list[str]) -> None:
    assert completed(line) == names


def test_devices_are_completed_by_those_of_this_machine() -> None:
    assert completed("roofbook run lbm --device ") == ["auto", *(device.spec for device in devices())]


def test_each_parameter_of_a_completed_name_is_completed_everywhere() -> None:
    named = [
        parameter
        for command in cli.app.commands.values()
        for parameter in command.params
        if parameter.name in COMPLETED and parameter.type.name == "text"
    ]
    assert len(named) > 30 and all(hasattr(type(parameter.type), "shell_complete") for parameter in named)
    assert {type(parameter.type).__name__ for parameter in named} == {"Completed"}


def test_the_help_has_each_command_in_one_section(command: Command) -> None:
    _, out, _ = command("--help")
    headings = re.findall(r"^(\S.*):$", out, re.M)
    assert headings[: len(SECTIONS) + 1] == ["Options", *SECTIONS.values()] and set(headings[len(SECTIONS) + 1 :]) <= {
        "More"
    }
    assert sorted(re.findall(r"^  ([a-z]+) ", out.partition("Measure:")[2], re.M)) == sorted(cli.app.commands)
