"""Files of a new lab that runs at once, for an author to change: module, kernel, notebook and page of exercises.

Serves `roofbook new lab`. Every step does the same sum with another number of elements for a work-item.
"""

import json
import keyword
import re
from collections.abc import Sequence
from pathlib import Path

from ..errors import UsageError
from ..paths import LIBRARY, write_whole
from ..spec import registry
from .clean_notebook import cleaned
from .experiment import PARAMETERS

MOST_STEPS = 8
"""Number of steps that the template has a change for."""

MODULE = '''"""{title}: out = a x + y, from one work-item to several elements for each."""

from roofbook.spec.kernel_lab import KernelLab, Step
{imports}

class {class_name}(KernelLab):
    reads = {{"x": "n", "y": "n"}}
    writes = {{"out": "n"}}
    scalars = {{"a": 1.5}}
{varies}    steps = (
{steps}    )  # fmt: skip

    def compute(self, x, y, a):
        return {{"out": a * x + y}}

    def operations(self, n):
        return 2 * n


LAB = {class_name}()
'''
KERNEL = """// out = a x + y. Each work-item has so many elements in a row.
//
// Knob ELEMENTS: elements of a work-item, by default all of them
#ifndef ELEMENTS
#define ELEMENTS n
#endif

KERNEL void compute(GLOBAL const float *RESTRICT x, GLOBAL const float *RESTRICT y, GLOBAL float *RESTRICT out, float a,
                    int n) {
  const int first = GLOBAL_ID(0) * ELEMENTS;
  for (int i = first; i < first + ELEMENTS && i < n; i++) {
    out[i] = FMA(a, x[i], y[i]);
  }
}
"""
EXERCISES = """# Exercises: {title}

Pick before you look: a prediction is worth something only if it can fail. All times are recorded ones.

## Predict

````{{fragments}} exercise-{name}-predict.html
Nothing is recorded of this lab yet: `roofbook record OUT --lab {name}` measures it.
````

## Turn a knob

````{{fragments}} exercise-{name}-turn.html
No sweep of this lab is recorded yet.
````

## Write the kernel

````{{fragments}} exercise-{name}-write.html
`roofbook exercise {name}` lists the kernels to write.
````
"""
COMMENTS = {
    "device": "auto, or as `roofbook devices` lists them: opencl:0, opencl:NVIDIA, cuda:0",
    "scale": "quick, published, large or test",
    "variants": "names of variants to measure, None for all",
    "cases": "names of cases, None for all of the scale",
    "budget_s": "seconds of samples per measurement and run, unless the noise falls below its limit first",
    "runs": "runs of each measurement, in processes of their own: from 3 on, intervals are between runs",
    "remeasure": "measure also what is fresh",
    "results": "folder of the store",
    "seed": "of the inputs",
}
"""Comment of each parameter of a notebook."""


def write_lab(root: Path, name: str, steps: Sequence[str]) -> list[Path]:
    """Write the files of a new lab into the project `root`, and return their paths.

    Raise UsageError, before anything is written, for a bad name of the lab or a step, and for a file that exists.
    """
    _check_names(name, steps)
    folder = (LIBRARY / "labs" if LIBRARY.is_relative_to(root.resolve()) else root / "labs") / name
    words = {"name": name, "title": name.replace("_", " ").capitalize()}
    texts = {
        folder / "__init__.py": MODULE.format(
            **words,
            class_name="".join(map(str.capitalize, name.split("_"))),
            imports=_imports(len(steps)),
            varies='    varies = {"ELEMENTS": [1, 2, 4, 8]}\n' if len(steps) > 1 else "",
            steps=_rows(steps),
        ),
        folder / f"{name}.k": KERNEL,
        root / "experiments" / f"{name}.ipynb": notebook_text(name, words["title"], steps),
    }
    if (exercises := root / "book" / "exercises").is_dir():
        texts[exercises / f"{name}.md"] = EXERCISES.format(**words)
    if existing := [path for path in texts if path.exists()]:
        raise UsageError(f"{existing[0]} exists, and nothing was written: choose another name, or move it")
    for path, text in texts.items():
        write_whole(path, text)
    return list(texts)


def _check_names(name: str, steps: Sequence[str]) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise UsageError(
            f"{name!r} cannot name a lab: small letters, digits and _ make a name, such as tree_sum; no word of Python"
        )
    if folder := registry.folders().get(name):
        raise UsageError(f"there is a lab {name} already, in {folder}: choose another name")
    for step in steps:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", step):
            raise UsageError(f"{step!r} cannot name a step: small letters, digits and - make a name, such as two-rows")
    if len(set(steps)) < len(steps) or not 1 <= len(steps) <= MOST_STEPS:
        raise UsageError(f"--steps names from 1 to {MOST_STEPS} steps, each once, such as --steps plain,parallel,pairs")


def _imports(steps: int) -> str:
    """Return the line that imports the words of the predictions of so many steps; '' for a baseline alone."""
    words = ", ".join(["FASTER", "NO_GAIN"][: steps - 1])
    return f"from roofbook.spec.prediction import {words}\n" if words else ""


def _rows(steps: Sequence[str]) -> str:
    """Return the rows of the ladder as Python: the first step is one work-item, and each further one doubles its elements."""
    first, *others = steps
    rows = [f'        Step("{first}", None, "One work-item walks all elements.", "The baseline: one core."),\n']
    for number, (parent, step) in enumerate(zip(steps, others, strict=False)):
        change = "A work-item for each element." if number == 0 else f"{2**number} elements for each work-item."
        expect = "Memory is as busy as before: little to gain." if number else "All cores work, until memory is full."
        word = "NO_GAIN" if number else "FASTER"
        items = "" if number else ', work_items="n / ELEMENTS"'
        rows.append(
            f'        Step("{step}", "{parent}", "{change}", "{expect}", {word},\n'
            f'             defines={{"ELEMENTS": {2**number}}}{items}),\n'
        )
    return "".join(rows)


def notebook_text(name: str, title: str, steps: Sequence[str]) -> str:
    """Return the notebook of a new lab, without outputs."""
    return notebook_of(
        name,
        [
            f"# {title}: from one work-item to many\n\n**The question:** how many elements for a work-item?",
            "## The prediction\n\nMemory bounds it: two values read and one written, for a product and a sum.",
            "## The baseline\n\nOne work-item: one core of the host's CPU.",
        ],
        steps,
    )


def notebook_of(name: str, prose: Sequence[str], steps: Sequence[str]) -> str:
    """Return a plain notebook of a lab, without outputs. prose: its title, its prediction, and words on the baseline."""
    first, *others = steps
    title, prediction, baseline = prose
    parameters = "\n".join(
        f"{parameter}: {'list' if default is None else type(default).__name__} = {_literal(default)}  # {COMMENTS[parameter]}"
        for parameter, default in PARAMETERS.items()
    )
    story: list[tuple[str, str, str]] = [
        ("markdown", "", title),
        ("code", "parameters", parameters),
        ("code", "remove-input", f'import roofbook\n\nlab = roofbook.open("{name}", globals())\nlab'),
        ("markdown", "", "## The answer"),
        ("code", "", "display(lab.measure(), lab.answer())"),
        *([("markdown", "", prediction)] if prediction else []),
        ("markdown", "", baseline),
        ("code", "", f'lab.source("{first}")'),
        *([
            ("markdown", "", "## Step by step"),
            ("code", "", f"lab.steps({', '.join(map(json.dumps, others))})"),
        ] if others else []),
        ("markdown", "", "## The ladder as a whole"),
        ("code", "", "for case in lab.cases:\n    display(lab.descent(case.name))\nlab.summary()"),
        ("markdown", "page-results", "## Case by case"),
        ("code", "", "for case in lab.cases:\n    display(lab.ladder_chart(case.name), lab.ladder(case.name))\nlab.failed()"),
        *([
            ("markdown", "page-sweeps", "## How many elements?\n\nThe last step, with other numbers of elements."),
            ("code", "", 'lab.sweep_table("ELEMENTS")'),
        ] if others else []),
        ("markdown", "page-roofline", "## How near to the bound?"),
        ("code", "", "display(lab.roofline(), lab.peak_table())"),
    ]  # fmt: skip
    cells = [
        {"cell_type": kind, "id": f"{name}-{number:02}", "metadata": {"tags": [tag]} if tag else {}, "source": source}
        for number, (kind, tag, source) in enumerate(story)
    ]
    return cleaned(json.dumps({"cells": cells}))


def _literal(value: object) -> str:
    """Return a parameter as Python, a text in double quotes."""
    return json.dumps(value) if isinstance(value, str) else repr(value)
