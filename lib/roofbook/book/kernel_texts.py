"""The texts of a lab's kernels: each in every language that it has, its difference from its parent's, and programs of the host.

Serves the page labs/LAB/kernels (kernels_page.py). Names of files end in .txt: a browser then shows them without a script.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..devices.backends import C, languages
from ..escaping import file_name, script_json
from ..spec.lab import Case, Lab, Variant
from ..spec.source import Knob

SUFFIXES = {"cuda": "cu", "opencl": "cl"}
"""How a file of kernels in a language ends, where that is not the language's name."""
PROGRAMS = {".c": C.name, ".hs": "haskell"}
"""How files end that hold a program of the host, and their language."""


@dataclass(frozen=True)
class Text:
    """One text of a variant, as a tab shows it."""

    name: str
    """Of the tab: `cuda`, `cuda-difference`, `openmp.c`."""
    language: str
    label: str
    file: str
    text: str


def size_of(lab: Lab) -> Case:
    """The case whose sizes stand in the texts where they are constants: the largest published one, else of the quick."""
    return max(lab.cases("published") or lab.cases("quick"), key=lambda case: lab.work(case).footprint)


def texts(lab: Lab, variant: Variant) -> list[Text]:
    """Those of a variant: its kernel in each language, each difference from its parent's, the host's programs.

    A difference that is empty is left out. A call of a library has no texts.
    """
    found, differences = [], []
    if variant.source:
        sizes = lab.sizes(size_of(lab))
        mine, parent = variant.source.of_size(sizes), lab.variant(variant.parent) if variant.parent else None
        for name in (name for name in languages() if name in variant.languages):
            label = languages()[name].label
            file = f"{file_name(variant.name)}.{SUFFIXES.get(name, name)}.txt"
            found.append(Text(name, name, label, file, mine.render(name)))
            if parent and parent.source and name in parent.languages:
                difference = mine.diff(parent.source.of_size(sizes), (parent.name, variant.name), name)
                file, label = f"{file_name(variant.name)}.{name}.diff.txt", f"Difference in {label}"
                if difference:
                    differences.append(Text(f"{name}-difference", name, label, file, f"{difference}\n"))
    files: Sequence[Path] = getattr(variant.plan, "sources", ())
    programs = [
        Text(
            each.name,
            PROGRAMS[each.suffix],
            each.name,
            f"{file_name(variant.name)}.{each.name}.txt",
            each.read_text("utf-8"),
        )
        for each in files
        if each.suffix in PROGRAMS
    ]
    return found + differences + programs


def script(lab: Lab, variant: Variant, found: Sequence[Text]) -> str:
    """What a browser runs to have the texts of a variant. A page of a folder may load it, unlike data."""
    by_name = {each.name: each.text for each in found}
    return f"roofbookKernel({script_json(lab.name, variant.name, by_name)});\n"


def constants(lab: Lab, variant: Variant) -> dict[str, Knob]:
    """The knobs that are the size of the case and stand in a kernel as constants, with their values."""
    if not variant.source:
        return {}
    sizes = lab.sizes(size_of(lab))
    text = variant.source.of_size(sizes).resolve()
    known = {name: value for name, value in variant.source.of_size(sizes).settings.items() if name in sizes}
    return {name: value for name, value in known.items() if re.search(rf"\b{re.escape(str(value))}\b", text)}


def turned(variant: Variant, parent: Variant | None) -> Iterator[tuple[str, Knob, Knob | None]]:
    """(knob, its value, the parent's where that is another one) of each knob of a kernel."""
    if not variant.source:
        return
    same_file = parent and parent.source and parent.source.path == variant.source.path
    before = parent.source.settings if parent and parent.source and same_file else {}
    for name, value in variant.source.settings.items():
        other = before.get(name, value)
        yield name, value, other if other != value else None


def driven(variant: Variant) -> str:
    """How the host drives a kernel, in the first words of its plan; '' where the plan says nothing."""
    said = vars(variant.plan).get("__doc__") if isinstance(variant.plan, type) else ""
    return " ".join((said or "").partition("\n\n")[0].partition(" Raises ")[0].split())
