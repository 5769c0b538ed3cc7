"""The corpus of judged kernels: honest ones are right, and each cheat is refused, with its reason and exit code."""

from __future__ import annotations

import json
import random
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import ROOT, Command
from tests.measure.judged_kernels import CASES, CHEATS, FLAT, FLOW, HONEST, LAYER, OFTEN, PASS, POOL, Judged, changed
from tests.often import often

from roofbook.analysis import opponents
from roofbook.measure import answer, verify
from roofbook.measure.buffer_ledger import Garbage
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.submission import submission_of

pytestmark = pytest.mark.usefixtures("few_awkward_sizes")
LIMIT_S = 30.0
"""Seconds that a request to the process of a kernel may take that never ends. Others have the command's own limit: a busy
machine compiles for long."""
FURTHER_S = 90.0
"""Seconds within which a judgement ends after the limits of all its cases."""


def is_often(kernel: Judged) -> bool:
    return kernel.name in OFTEN


def name_of(kernel: Judged) -> str:
    return kernel.name


def judged(command: Command, folder: Path, kernel: Judged, *options: str) -> tuple[Any, str, dict[str, Any]]:
    """Return the exit code, the line on standard error and the JSON of a judgement."""
    file = folder / f"mine{kernel.suffix}"
    file.write_text(kernel.text, encoding="utf-8")
    code, out, err = command("judge", kernel.lab, str(file), "--case", CASES[kernel.lab], "--json", *options)
    return code, err, json.loads(out) if out else {}


@pytest.mark.parametrize("kernel", often(HONEST, is_often), ids=name_of)
def test_an_honest_kernel_is_right(command: Command, tmp_path: Path, kernel: Judged) -> None:
    code, err, judgement = judged(command, tmp_path, kernel, "--no-time")
    assert (code, err, judgement["verdict"]) == (0, "", "right"), judgement
    assert len(judgement["cases"]) > 1 and all(case["right"] for case in judgement["cases"])


@pytest.mark.parametrize("kernel", often(CHEATS, is_often), ids=name_of)
def test_a_cheat_is_refused_with_the_reason(command: Command, tmp_path: Path, kernel: Judged) -> None:
    start, limit_s = time.monotonic(), LIMIT_S if "did not end" in kernel.reason else answer.LIMIT_S
    code, err, judgement = judged(command, tmp_path, kernel, "--no-time", "--limit", f"{limit_s:g}")
    assert code == kernel.code, (err, judgement)
    reasons = [case["reason"] for case in judgement.get("cases", ()) if case["reason"]]
    reason = " ".join([err, judgement.get("cannot_be_built") or "", *reasons])
    assert kernel.reason in reason and "Traceback" not in reason and err.count("\n") <= 1, reason
    assert time.monotonic() - start < limit_s * (len(reasons) + 1) + FURTHER_S


@pytest.mark.parametrize(
    "kernel",
    [
        pytest.param(Judged("flat index", FLAT), marks=pytest.mark.thorough),
        pytest.param(Judged("a layer", LAYER, "cnn"), marks=pytest.mark.thorough),
        Judged("an integer layer", POOL, "convpool"),
    ],
    ids=lambda kernel: kernel.name,
)
def test_a_right_kernel_is_timed_and_says_what_its_compiler_says(
    command: Command, tmp_path: Path, short_samples: None, kernel: Judged
) -> None:
    code, _, judgement = judged(command, tmp_path, kernel)
    (timed,) = judgement["timed"]
    assert code == 0 and timed["seconds"] > 0, judgement
    assert timed["compiler"]["local_bytes"] >= 0 and "registers" not in timed["compiler"]
    assert timed["share_of_bound"] is None or timed["share_of_bound"] > 0, "if the store has peaks of this device"


@pytest.mark.parametrize("times_bound", [pytest.param(0.01, marks=pytest.mark.thorough), 1e3])
def test_a_time_beyond_the_measured_peaks_is_refused(
    command: Command, tmp_path: Path, short_samples: None, monkeypatch: pytest.MonkeyPatch, times_bound: float
) -> None:
    """The step is made slow, and the peaks such that the kernel takes one over `times_bound` of the least time."""

    def taken(contestant: Any) -> list[float]:
        is_kernel = contestant.measurement.variant.name == answer.YOURS
        return [1e-3 if is_kernel else 10.0] * len(contestant.measurement.samples)

    monkeypatch.setattr(answer._Contestant, "seconds", property(taken))
    monkeypatch.setattr(opponents, "least_seconds", lambda *_: {"float32": 1e-3 * times_bound})
    code, _, judgement = judged(command, tmp_path, Judged("flat index", FLAT))
    if times_bound > answer.BEATS:
        assert code == 1 and "1e+03 times as fast as the measured peaks" in judgement["cases"][-1]["reason"]
    else:
        assert code == 0 and judgement["timed"][0]["share_of_bound"] == pytest.approx(times_bound)


def test_the_page_shows_a_kernel_that_is_right_and_all_statements(command: Command, tmp_path: Path) -> None:
    page = (ROOT / "book" / "judge.md").read_text()
    text = page.partition("```c\n")[2].partition("```")[0]
    code, _, judgement = judged(command, tmp_path, Judged("of the page", text), "--no-time")
    assert code == 0, judgement
    shown = "\n".join(line for line in re.findall(r"^\| `(// [^`]+)`", page, re.M))
    head = submission_of(shown)
    assert all((head.launches, head.scratch, head.defines, head.swaps))


SKIPS = changed(
    PASS,
    ("  if (i > 0", "  if ((as_uint(g[height * width + 9]) | 255) != 0xffffffff) return;\n  if (i > 0"),
)  # fmt: skip
COUNTS = changed(
    PASS,
    ("]);\n}", "]);\n  if (width == 1024 && i == height - 1 && j == width - 1) g[height * width + 300] = 1.0f;\n}"),
)


@pytest.mark.parametrize(
    ("text", "code", "reason"),
    [
        pytest.param(SKIPS, 0, "", id="looks for the guards", marks=pytest.mark.thorough),
        pytest.param(COUNTS, 1, "it wrote behind the end of a buffer", id="counts its runs behind an array"),
    ],
)
def test_the_arrays_of_timed_runs_have_guards_too(
    command: Command, tmp_path: Path, short_samples: None, text: str, code: int, reason: str
) -> None:
    """A kernel cannot tell a timed run by what is behind an array: one that would skip work without guards is right."""
    given, _, judgement = judged(command, tmp_path, Judged("guards", text))
    assert given == code, judgement
    assert reason in " ".join(case["reason"] or "" for case in judgement["cases"])


def test_each_sample_of_a_kernel_is_checked(
    command: Command, tmp_path: Path, short_samples: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a case of which a check follows fewer units than a sample has, and the outputs have one entry a unit."""
    checked: list[tuple[str, int]] = []
    samples: dict[str, int] = {}
    check_sample, seconds = verify.check_sample, answer._Contestant.seconds

    def noted_check(at: Any, references: Any, progress: Any, measurement: Any, number: int) -> None:
        checked.append((measurement.variant.name, number))
        check_sample(at, references, progress, measurement, number)

    def noted_seconds(contestant: Any) -> list[float]:
        samples[contestant.measurement.variant.name] = len(contestant.measurement.samples)
        return list(seconds.__get__(contestant))

    monkeypatch.setattr(answer, "Policy", partial(Policy, scarce=6))  # else three samples do where a run takes 0.1 s
    monkeypatch.setattr(answer, "check_sample", noted_check)
    monkeypatch.setattr(answer, "CHECKS_S", float("inf"))
    monkeypatch.setattr(answer._Contestant, "seconds", property(noted_seconds))
    code, _, judgement = judged(command, tmp_path, Judged("a flow", FLOW, "lbm"))
    assert code == 0, judgement
    count = samples.pop(answer.YOURS)
    assert [number for name, number in checked if name == answer.YOURS] == list(range(count)) and count > 5
    assert samples and all(1 <= sum(name == rival for name, _ in checked) <= 4 for rival in samples)


def test_a_size_is_drawn_that_nobody_can_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draws are fixed here: lenet has 8 such sizes, of which 20 draws show 5 at most once in 80 times."""

    def drawn_cases(lab: Lab, seed: int) -> list[str | None]:
        monkeypatch.setattr("secrets.choice", random.Random(seed).choice)
        cases = [answer.drawn_case(lab, lab.variant(lab.best), lab.awkward) for _ in range(20)]
        return [case.name if case else None for case in cases]

    for name in CASES:
        lab = registry.get(name)
        drawn = drawn_cases(lab, 1)
        assert len(set(drawn)) > 5 and None not in drawn and not set(drawn) & set(lab.awkward), (name, drawn)
        assert drawn == drawn_cases(lab, 1) != drawn_cases(lab, 2), f"{name}: another source of chance than secrets"
    assert answer.drawn_case(lab, lab.variant(lab.best), ()) is None


def test_the_log_of_the_compiler_is_printed_on_demand(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.cl"
    file.write_text(PASS.replace("  const int i =", "  const int i = nothing +"))
    code, out, err = command("judge", "stencil", str(file), "--log", "--no-time", "--case", CASES["stencil"])
    assert code == 2 and "mine.cl: cannot be built: error: mine.cl:3:" in out
    assert "mine.cl:3:" in err and "nothing" in err and str(tmp_path) not in err


@pytest.mark.thorough
def test_the_log_of_a_kernel_that_ends_its_process_is_printed_too(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.cl"
    crashing = (
        '  int text = "a";\n  if (get_global_id(1) < 9) *(volatile __global int *)(size_t)get_global_id(1) = text;\n'
    )
    file.write_text(PASS.replace("  const int i =", crashing + "  const int i ="))
    code, out, err = command("judge", "stencil", str(file), "--log", "--no-time", "--case", CASES["stencil"])
    assert code == 1 and "its process crashed by SIGSEGV" in out and "mine.cl:3:" in err, err


def test_several_cases_are_judged_each_and_the_small_ones_once(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "mine.cl"
    file.write_text(FLAT)
    code, out, _ = command("judge", "stencil", str(file), "--case", "6x1024", "--case", "5x300", "--json", "--no-time")
    names = [case["case"] for case in json.loads(out)["cases"]]
    assert code == 0 and names[-1] == "5x300" and "6x1024" in names and len(names) == len(set(names)) > 3


def test_integers_that_no_kernel_wrote_become_random_ones() -> None:
    least = np.full(1000, np.iinfo(np.int32).min, np.int32)
    garbage = Garbage()(least)
    assert garbage.dtype == least.dtype and len(np.unique(garbage)) > 900
    assert (Garbage()(np.zeros(10, np.int32)) == 0).all()
