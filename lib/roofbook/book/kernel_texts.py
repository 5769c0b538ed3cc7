"""Texts of a lab's kernels: one for each language, the difference from the parent's, and programs of the host.

Serves the page labs/LAB/kernels (kernels_page.py). File names end in .txt, so that a browser shows them without a script.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..devices.backends import C, languages
from ..escaping import file_name, script_json
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..spec.source import Knob

SUFFIXES = {"cuda": "cu", "opencl": "cl"}
"""File ending of a language's kernels, where it is not the language's name."""
PROGRAMS = {".c": C.name, ".hs": "haskell"}
"""Language of host programs by file ending; the files of a kernel in a language of Python are in Python."""


@dataclass(frozen=True)
class Text:
    """One text of a variant, as a tab shows it."""

    name: str
    """Name of the tab: `cuda`, `cuda-difference`, `openmp.c`."""
    language: str
    label: str
    file: str
    text: str


def size_of(lab: Lab) -> Case:
    """Return the case whose sizes are constants in the texts: the largest published one, otherwise the largest quick one."""
    return max(lab.cases("published") or lab.cases("quick"), key=lambda case: lab.work(case).footprint)


def texts(lab: Lab, variant: Variant) -> list[Text]:
    """Return the texts of a variant: its kernel in each language, differences from its parent's kernel, host programs.

    Empty differences are left out. A library call has no texts.
    """
    kernels, differences = [], []
    if variant.source:
        sizes = lab.sizes(size_of(lab))
        source, parent = variant.source.of_size(sizes), lab.variant(variant.parent) if variant.parent else None
        for name in (name for name in languages() if name in variant.languages):
            label = languages()[name].label
            file = f"{file_name(variant.name)}.{SUFFIXES.get(name, name)}.txt"
            kernels.append(Text(name, name, label, file, source.render(name)))
            if parent and parent.source and name in parent.languages:
                difference = source.diff(parent.source.of_size(sizes), (parent.name, variant.name), name)
                file, label = f"{file_name(variant.name)}.{name}.diff.txt", f"Difference in {label}"
                if difference:
                    differences.append(Text(f"{name}-difference", name, label, file, f"{difference}\n"))
    files: Sequence[Path] = getattr(variant.plan, "sources", ())
    languages_by_suffix = PROGRAMS | ({".py": "python"} if variant.role == "dsl" else {})
    programs = [
        Text(
            path.name,
            languages_by_suffix[path.suffix],
            path.name,
            f"{file_name(variant.name)}.{path.name}.txt",
            path.read_text("utf-8"),
        )
        for path in files
        if path.suffix in languages_by_suffix
    ]
    return kernels + differences + programs


def tab_script(lab: Lab, variant: Variant, kernel_texts: Sequence[Text]) -> str:
    """Return the script that brings the texts of a variant. A page opened as a file can load scripts, but no data."""
    by_name = {text.name: text.text for text in kernel_texts}
    return f"roofbookKernel({script_json(lab.name, variant.name, by_name)});\n"


def constants(lab: Lab, variant: Variant) -> dict[str, Knob]:
    """Return the knobs that are the case's size and appear in a kernel as constants, with their values."""
    if not variant.source:
        return {}
    sizes = lab.sizes(size_of(lab))
    text = variant.source.of_size(sizes).resolve()
    size_knobs = {name: value for name, value in variant.source.of_size(sizes).settings.items() if name in sizes}
    return {name: value for name, value in size_knobs.items() if re.search(rf"\b{re.escape(str(value))}\b", text)}


def knob_changes(variant: Variant, parent: Variant | None) -> Iterator[tuple[str, Knob, Knob | None]]:
    """Yield (knob, value, the parent's value if it differs) for each knob of a kernel."""
    if not variant.source:
        return
    same_file = parent and parent.source and parent.source.path == variant.source.path
    parent_settings = parent.source.settings if parent and parent.source and same_file else {}
    for name, value in variant.source.settings.items():
        parent_value = parent_settings.get(name, value)
        yield name, value, parent_value if parent_value != value else None


def host_description(variant: Variant) -> str:
    """Return how the host drives a kernel, from the first words of its plan; '' if the plan has no docstring."""
    doc = vars(variant.plan).get("__doc__") if isinstance(variant.plan, type) else ""
    return " ".join((doc or "").partition("\n\n")[0].partition(" Raises ")[0].split())
