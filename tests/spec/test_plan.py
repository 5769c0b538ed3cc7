"""Plans state their traffic and conditions: a new plan without them is refused by name."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofbook import labs
from roofbook.errors import UsageError
from roofbook.labs.cnn import plans as cnn
from roofbook.labs.convpool import plans as convpool
from roofbook.labs.lbm import on_chip
from roofbook.labs.lbm import plans as lbm
from roofbook.labs.lenet import forward as lenet
from roofbook.labs.stencil import plans as stencil
from roofbook.peers.openmp import CProgram
from roofbook.peers.pytorch import Call
from roofbook.spec import registry
from roofbook.spec.host_code import UNTIMED_METHODS, hash_of_plan
from roofbook.spec.kernel_run import KernelRun
from roofbook.spec.plan import CHANNELS_LAST, LAID_OUT, Plan, Variant, stated_conditions

BASES = (
    cnn.Convolution, convpool.Convolution, lbm.Simulation, lbm.ReadEachStep, on_chip.SeveralSteps, on_chip.OneLaunch,
    lenet.Forward, stencil.Stencil, KernelRun, Call, CProgram, Plan,
)  # fmt: skip
"""Bases from which new plans are derived."""

NEW = """
from copy import copy
from dataclasses import replace
from roofbook.labs.{lab} import LAB as OTHER
from roofbook.{module} import {base}

class New({base}):
    "A plan that says nothing of its variants."

LAB = copy(OTHER)
LAB.name = "mine"
LAB.ladder = (*OTHER.ladder, replace(OTHER.ladder[0], name="new", plan=New))
"""


@pytest.mark.parametrize("name", [*registry.names(), registry.PEAKS])
def test_each_plan_states_what_no_default_can(name: str) -> None:
    for variant in registry.get(name).all_variants():
        lacks = sorted(getattr(variant.plan, "__abstractmethods__", ()))
        assert not lacks, f"{variant.plan.__qualname__}, the plan of {name} {variant.name}, lacks {', '.join(lacks)}"


@pytest.mark.parametrize("base", BASES, ids=lambda base: f"{base.__module__}.{base.__name__}")
def test_a_new_plan_inherits_no_traffic(base: Any) -> None:
    new: Any = type("New", (base,), {})
    assert "traffic" in new.__abstractmethods__
    with pytest.raises(TypeError, match=r"Can't instantiate abstract class New .*\btraffic\b"):
        new()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Function that writes a lab `mine`, in a folder of its own."""

    def write(text: str) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "__init__.py").write_text(text)
        monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(tmp_path)])
        monkeypatch.delitem(sys.modules, "roofbook.labs.mine", raising=False)
        registry.get.cache_clear()

    return write


@pytest.mark.parametrize(
    ("name", "module", "base", "lacks"),
    [
        ("cnn", "labs.cnn.plans", "Convolution", "lay_out, traffic"),
        ("convpool", "labs.convpool.plans", "Convolution", "lay_out, submit, traffic"),
        ("lbm", "labs.lbm.on_chip", "OneLaunch", "blocks_for, local_bytes, traffic, words"),
        ("lenet", "labs.lenet.forward", "Forward", "size, traffic"),
        ("stencil", "spec.kernel_run", "KernelRun", "conditions, outputs, reset, submit, traffic"),
    ],
)
def test_a_lab_with_a_plan_that_says_nothing_does_not_load(
    lab: Callable[[str], None], name: str, module: str, base: str, lacks: str
) -> None:
    lab(NEW.format(lab=name, module=module, base=base))
    with pytest.raises(UsageError, match=rf"lab mine in .*: New, the plan of new, lacks {lacks}: roofbook\.spec"):
        registry.get("mine")


def variant(**options: Any) -> Variant:
    return replace(registry.get("cnn").variant("torch-fp16"), options=options)


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ({}, ()),
        ({"precision": "fp32"}, ()),
        ({"operand_roundoff": 2.0**-11}, ("rounds operands to fp16",)),
        ({"precision": "fp16"}, ("rounds results to fp16",)),
        ({"result_roundoff": 2.0**-11}, ("rounds results to fp16",)),
        ({"prepared": True}, (LAID_OUT,)),
        ({"prepared": False, "channels_last": True}, (LAID_OUT, CHANNELS_LAST)),
        (
            {"operand_roundoff": 2.0**-11, "precision": "fp16", "channels_last": True, "prepared": True},
            ("rounds operands to fp16", "rounds results to fp16", LAID_OUT, CHANNELS_LAST),
        ),
    ],
)
def test_options_state_conditions(options: dict[str, Any], conditions: tuple[str, ...]) -> None:
    assert stated_conditions(variant(**options)) == conditions


PLAN = """
class Plan:
    {statement}

    def run(self):
        return {run}
"""


@pytest.fixture
def identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Function that hashes a plan with a statement in its body."""
    monkeypatch.syspath_prepend(tmp_path)

    def identity(statement: str = "pass", run: str = "1") -> str:
        name = f"stated{len(list(tmp_path.iterdir()))}"
        (tmp_path / f"{name}.py").write_text(PLAN.format(statement=statement, run=run))
        return hash_of_plan(__import__(name).Plan)

    return identity


@pytest.mark.parametrize("method", sorted(UNTIMED_METHODS))
def test_what_a_plan_says_of_its_variants_is_no_part_of_its_identity(identity: Callable[..., str], method: str) -> None:
    texts = (f"def {method}(cls): return 1", f"def {method}(cls): return 2", f"{method} = staticmethod(len)")
    assert len({identity(text) for text in texts}) == 1
    assert identity(texts[0], run="2") != identity(texts[0]) != identity(f"def {method}_(cls): return 1")


def test_no_plan_calls_its_own_description_while_it_is_timed() -> None:
    """A method that runs, submits or prepares a run must not depend on a method that is no part of the identity."""
    calls = re.compile(rf"self\.({'|'.join(sorted(UNTIMED_METHODS - {'facts', 'theory', 'refusal'}))})\(")
    for folder in registry.folders().values():
        for path in folder.glob("*.py"):
            assert not calls.search(path.read_text()), path
