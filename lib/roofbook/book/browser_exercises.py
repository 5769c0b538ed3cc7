"""Kernels with a hole in WGSL, which a reader fills in the page of a lab's exercises and runs in the browser.

The hole is where the exercise has it: the lines between two marks that go through the translation with the rest of the text.
"""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..devices.backends import WEBGPU
from ..escaping import script_json
from ..paths import scratch_folder
from ..spec.browser_run import BrowserRun
from ..spec.exercise import HOLE, WIDTH, Answer, Write, exercises, marked
from ..spec.lab import Lab
from ..spec.plan import Case
from ..spec.source import translate
from .browser_runs import DrawnInputs, drawn_inputs, recorded_case

BEGINS, ENDS = "roofbook_hole_begins", "roofbook_hole_ends"
"""Names of the two variables that mark a hole."""
WORDS = {"BARRIER": "workgroupBarrier", "NATIVE_RSQRT": "inverseSqrt", "float4": "vec4<f32>"}
"""Words of the neutral dialect in WGSL, for hints that have them."""

_LINE = re.compile(r"^#line .*\n", re.M)
"""A directive that says of which file the next lines are."""


class _InWgsl(Answer):
    """A text in place of a step's kernel, as a page gets it."""

    def render(self, dialect: str) -> str:
        # A directive names a temporary file: with it no translation is found in the cache.
        return translate(_LINE.sub("", super().render(dialect)), WEBGPU.translator)


def scripts(lab: Lab, run: BrowserRun, steps: Mapping[str, str]) -> dict[str, str]:
    """Return exercise -> the script that brings its kernel on each case. steps: step -> its own script, of those that have one.

    An exercise whose hole is none in WGSL has no script.
    """
    with_script = [exercise for exercise in exercises(lab).write if exercise.step in steps]
    texts: dict[str, dict[str, str]] = {exercise.name: {} for exercise in with_script}
    for case in map(lab.case, run.cases) if with_script else ():
        operands = drawn_inputs(lab, case)
        for exercise in with_script:
            if text := holed(lab, exercise, case, operands):
                texts[exercise.name][case.name] = text
    return {
        name: f"roofbookRunHere.takeHoled({script_json(name, by_case)});\n"
        for name, by_case in texts.items()
        if by_case
    }


def holed(lab: Lab, exercise: Write, case: Case, operands: DrawnInputs) -> str:
    """Return the text of an exercise's kernel on a case in WGSL, with a comment in the hole; '' if it has no such text.

    operands: result of `drawn_inputs` on the case.
    """
    step = lab.variant(exercise.step)
    if step.source is None or not step.is_for(WEBGPU.name, "gpu"):
        return ""
    with scratch_folder() as folder:
        file = Path(folder) / "marked.k"
        file.write_text(marked(lab, exercise, f"int {BEGINS} = 0;", f"int {ENDS} = 0;"), encoding="utf-8")
        source = _InWgsl.to(exercise, step.source, file)
        recorded = recorded_case(lab, replace(step, source=source), case, operands)
    sizes = [f"{name} is {value}" for name, value in lab.sizes(case).items() if name in exercise.plan_knobs]
    words = [f"{word} is {in_wgsl}" for word, in_wgsl in WORDS.items() if re.search(rf"\b{word}\b", exercise.hint)]
    wgsl_hint = f"In WGSL, {', '.join([*words, *sizes])}." * bool(words or sizes)
    return _cut(recorded["texts"][recorded["own"]], [exercise.hint, wgsl_hint]) if recorded else ""


def _cut(text: str, hints: Sequence[str]) -> str:
    """Return a text with a comment in place of the lines from the first mark to the last; '' if these are no whole block."""
    lines = text.splitlines()
    begins, ends = ([number for number, line in enumerate(lines) if mark in line] for mark in (BEGINS, ENDS))
    if not begins or len(begins) != len(ends):
        return ""
    first, last = begins[0], ends[-1]
    depths = np.cumsum([line.count("{") - line.count("}") for line in lines[first : last + 1]])
    if depths[-1] or depths.min() < 0:
        return ""
    indent = " " * (len(lines[first]) - len(lines[first].lstrip()))
    wrapped = [line for hint in hints for line in textwrap.wrap(hint, WIDTH)]
    comment = [f"{indent}// {line}" for line in (f"{HOLE}:", *wrapped)]
    return "\n".join([*lines[:first], *comment, *lines[last + 1 :]]) + "\n"
