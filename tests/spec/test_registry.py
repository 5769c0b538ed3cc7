"""Labs by name: a slip in a user's lab is one line that names its place, and all other labs still work."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roofbook import labs
from roofbook.errors import UsageError
from roofbook.spec import registry

from ..conftest import Command

WHOLE = """
from pathlib import Path
from roofbook.labs.stencil import LAB as OTHER
from roofbook.labs.stencil.ladder import LADDER
from dataclasses import replace
from copy import copy

LAB = copy(OTHER)
LAB.name = "mine"
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Function that writes a lab `mine`, in a folder of its own."""

    def write(text: str) -> None:
        folder = tmp_path / "mine"
        folder.mkdir()
        (folder / "__init__.py").write_text(text)
        monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, "roofbook.labs.mine", raising=False)
        registry.get.cache_clear()

    return write


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nosuch", r"__init__\.py, line 1: ModuleNotFoundError: No module named 'nosuch'"),
        ("\nx = (", r"__init__\.py, line 2: SyntaxError: '\(' was never closed"),
        (
            WHOLE + "LAB.ladder = (replace(LADDER[0], plan=print),)",
            "print, the plan of sequential, is no class that derives from roofbook.spec.plan.Plan",
        ),
        (WHOLE + "LAB.name = 'sgemm'", "it calls itself 'sgemm'; a lab is named as its folder is, 'mine'"),
        (WHOLE + "LAB.name = 'stencil'", "it calls itself 'stencil'; a lab is named as its folder is, 'mine'"),
        ("", "AttributeError: module 'roofbook.labs.mine' has no attribute 'LAB'"),
        (WHOLE + "LADDER[0].source.with_knobs(PASES=3)", r"__init__\.py, line 10: \w+\.k has no knob PASES"),
        (WHOLE + "replace(LADDER[0], kind='cpuu')", "line 10: variant sequential: kind is 'cpuu'; it must be cpu, gpu or None"),
        (WHOLE + "replace(LADDER[0], differs=('sauce',))", "differs in sauce; only source, plan and options can differ"),
        (WHOLE + "replace(LADDER[0], predicts={'gpuu': None})", "variant sequential: predicts for gpuu; there are cpu, cuda"),
        (WHOLE + "replace(LADDER[0], predicts='NO_GAIN')", "predicts 'NO_GAIN', which is no Prediction"),
        (WHOLE + "LAB.ladder = (*LADDER, LADDER[0])", "two variants are named sequential"),
        (WHOLE + "LAB.ladder = (*LADDER, replace(LADDER[0], name='n', parent='fuzed'))", "no variant is the parent 'fuzed'"),
    ],
)  # fmt: skip
def test_a_slip_is_one_line(lab: Callable[[str], None], text: str, reason: str) -> None:
    lab(text)
    with pytest.raises(UsageError) as caught:
        registry.get("mine")
    assert (
        re.match("lab mine", str(caught.value))
        and re.search(reason, str(caught.value))
        and "\n" not in str(caught.value)
    )


def test_the_other_labs_are_listed_all_the_same(lab: Callable[[str], None], command: Command) -> None:
    lab("import nosuch")
    code, out, err = command("labs")
    assert code == 2 and all(name in out for name in ("cnn", "stencil")) and err.startswith("error: lab mine in ")


def test_a_folder_of_labs_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, "/nowhere"])
    with pytest.raises(UsageError, match=r"^there is no lab 'mine'; ROOFBOOK_LABS names no folder: /nowhere$"):
        registry.get("mine")


def test_the_list_of_labs_names_folders_that_are_not_there_or_hold_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Wrong names include a file in place of a folder, and a lab's folder in place of its parent."""
    (tmp_path / "file").touch()
    lab_itself = registry.folders()["stencil"]
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, "/nowhere", str(tmp_path / "file"), str(lab_itself)])
    code, out, err = command("labs")
    assert code == 2 and "stencil" in out and "\n" not in err.strip()
    assert f"ROOFBOOK_LABS names no folder: /nowhere, {tmp_path / 'file'}; " in err
    assert f"ROOFBOOK_LABS names a folder without labs: {lab_itself}; it is to hold" in err
