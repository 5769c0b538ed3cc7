"""Rules for a lab: its ladder, its notebook, its kernels and its check. Each rule yields a sentence for each fault.

Serves `roofbook lint` and the tests of this project's own labs.
"""

import ast
import json
import re
import runpy
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..devices import backends, nvrtc
from ..devices.contract import BuildFailed, Unsupported
from ..devices.find import host_cpu
from ..errors import UsageError
from ..measure.wrong_outputs import accepted_mistakes
from ..spec.kernel_launch import LaunchByName
from ..spec.lab import Lab
from ..spec.plan import SCALES, Variant
from .experiment import PARAMETERS
from .lab_pages import STORY, pages_of
from .prose import MOST_WORDS, long_sentences

Rule = Callable[[Lab], Iterator[str]]
MOST_KNOBS = 3
"""Number of knobs in which a step may differ from its parent."""
MOST_CELLS = 45
"""Number of cells of a notebook."""
MOST_STORY_CELLS = 25
"""Number of cells of a notebook that belong to the story."""
MOST_LINES = 100
"""Number of lines of code of a notebook."""
WITH_DIGITS = ("float64", "fp32", "fp16", "bf16", "int8", "TF32", "tf32", "AVX-512", "AVX2")
"""Names with digits that any page may have."""
NO_CELL = (ast.FunctionDef, ast.ClassDef, ast.While, ast.Lambda, ast.With, ast.BinOp)
"""Python that belongs into the library rather than into a cell."""
ARCHITECTURE = "90a"
"""Architecture of NVIDIA GPUs for which kernels are compiled."""


def _of_roles(lab: Lab, *roles: str) -> list[Variant]:
    return [variant for variant in lab.all_variants() if variant.role in roles]


# -- the ladder --------------------------------------------------------------------------------------------------------


def names_and_parents(lab: Lab) -> Iterator[str]:
    """A name occurs once, and a parent stands before its step."""
    earlier: set[str] = set()
    for variant in lab.all_variants():
        if variant.name in earlier:
            yield f"{variant.name} is there twice"
        if variant.parent is not None and variant.parent not in earlier:
            yield f"{variant.name} comes before its parent {variant.parent}"
        if {"@", "=", "/", " "} & set(variant.name) and variant.role != "sweep":
            yield f"{variant.name}: a name has none of @ = / and no blank"
        earlier.add(variant.name)


def bases_and_best(lab: Lab) -> Iterator[str]:
    """Steps without a parent are baselines, and the best step is one of the ladder."""
    ladder = {variant.name for variant in lab.ladder}
    starts = [variant.name for variant in lab.ladder if variant.parent is None]
    if not starts or starts[0] != lab.ladder[0].name:
        yield "the first step has a parent; the ladder begins with a baseline"
    for start in starts:
        if start not in (*lab.bases, *lab.headline):
            yield f"{start} has no parent and is no base"
    for names in (lab.bases, lab.headline):
        if len(set(names)) < len(names) or not set(names) <= ladder or not set(names) & set(starts):
            yield f"the bases {', '.join(names)} must be different variants of the ladder, one of them without a parent"
    if lab.best not in {variant.name for variant in lab.ladder if variant.role == "step"}:
        yield f"best is {lab.best}, which is no step of the ladder"
    for variant, roles in [
        *((variant, ("step", "base", "probe")) for variant in lab.ladder),
        *((variant, ("peer", "dsl")) for variant in lab.peers),
    ]:
        if variant.role not in roles:
            yield f"{variant.name} has the role {variant.role}; here it can be {', '.join(roles)}"


def texts(lab: Lab) -> Iterator[str]:
    """Each variant says in short sentences what it changes and what is expected."""
    for variant in _of_roles(lab, "step", "base", "probe", "peer", "dsl"):
        for field in ("change", "expect"):
            text = getattr(variant, field)
            if not text.endswith(".") or len(text) <= 12 or "\n" in text:
                yield f"{variant.name}: {field} must be a sentence in one line, with a full stop, not {text!r}"
            for _, sentence, count in long_sentences(text):
                yield f"{variant.name}: a sentence of {field} has {count} words, {MOST_WORDS} at most: {sentence}"


def differences(lab: Lab) -> Iterator[str]:
    """A step differs from its parent in what it names, and in few knobs."""
    for variant in _of_roles(lab, "step", "base", "probe", "sweep"):
        if variant.parent is None:
            continue
        parent = lab.variant(variant.parent)
        if not (variant.source and parent.source):
            yield f"{variant.name}: it and its parent must have kernels"
            continue
        differs = {
            "source": variant.source.resolve() != parent.source.resolve(),
            "plan": variant.plan is not parent.plan,
            "options": dict(variant.options) != dict(parent.options),
        }
        is_parent = variant.role == "sweep" and not any(differs.values())  # the point at which its parent stands
        names = [name for name, is_so in differs.items() if is_so]
        if not is_parent and sorted(variant.differs) != sorted(names):
            stated, actual = ", ".join(variant.differs), ", ".join(names) or "nothing"
            yield f"{variant.name} says that it differs from {parent.name} in {stated}; it does in {actual}"
        if variant.source.path != parent.source.path:
            if not differs["plan"] and not issubclass(variant.plan, LaunchByName):
                yield f"{variant.name} has another file than {parent.name}, so it needs a plan of its own"
        elif differs["source"]:
            knobs = {name for name, _ in set(variant.source.settings.items()) ^ set(parent.source.settings.items())}
            if not 1 <= len(knobs) <= MOST_KNOBS:
                yield f"{variant.name} differs from {parent.name} in {len(knobs)} knobs, not in 1 to {MOST_KNOBS}"


def languages(lab: Lab) -> Iterator[str]:
    """A kernel can be written in each language in which it runs."""
    for variant in _of_roles(lab, "step", "base", "probe", "sweep"):
        if not variant.backends or variant.source is None:
            yield f"{variant.name} has no {'kernel' if variant.backends else 'backend that has all it needs'}"
            continue
        if variant.source.with_knobs() != variant.source:
            yield f"{variant.name} sets knobs that its text does not have"
        for backend, word in (("opencl", "__kernel"), ("cuda", "__global__")):
            if backend in variant.backends and not re.search(rf"{word} (void|__)", variant.source.render(backend)):
                yield f"{variant.name} has no {word} function as {backends.label(backend)}"


def sweeps(lab: Lab) -> Iterator[str]:
    """A sweep asks a question and varies one thing."""
    if len({sweep.axis for sweep in lab.sweeps}) < len(lab.sweeps):
        yield "two sweeps have one axis"
    for sweep in lab.sweeps:
        if not sweep.question.endswith("?") or len(sweep.variants) < 2:
            yield f"sweep {sweep.axis}: it needs a question with a question mark, and two points or more"
        if absent := set(sweep.quick) - {str(variant.point) for variant in sweep.variants}:
            yield f"sweep {sweep.axis}: quick names {', '.join(sorted(absent))}, which is no point of it"
        swept = {variant.name.partition("@")[0] for variant in sweep.variants}
        if len(swept) > 1:
            yield f"sweep {sweep.axis}: its points are of {', '.join(sorted(swept))}; they must be of one step"
        for number, variant in enumerate(sweep.variants):
            step = variant.name.partition("@")[0]
            parents = (step, variant.point, sweep.variants[0].name if number else None)
            as_made = (variant.role, variant.axis, variant.name) == (
                "sweep",
                sweep.axis,
                f"{step}@{sweep.axis}={variant.point}",
            )
            if not as_made or variant.parent not in parents or variant.shows or variant.published:
                yield f"sweep {sweep.axis}: {variant.name} must be as `Variant.at` makes it"


def series(lab: Lab) -> Iterator[str]:
    """A series asks a question and goes up in one parameter."""
    for scale in SCALES:
        all_series = lab.series(scale)
        if len({of_case.axis for of_case in all_series}) < len(all_series):
            yield f"two series at scale {scale} have one axis"
        for of_case in all_series:
            xs, cases = [x for x, _ in of_case.points], [case for _, case in of_case.points]
            if not of_case.question.endswith("?") or len(xs) < 2:
                yield f"series {of_case.axis}: it needs a question with a question mark, and two points or more"
            if xs != sorted(set(xs)) or len(set(cases)) < len(cases):
                yield f"series {of_case.axis}: its points must go up, each with a case of its own"
            for case in cases:
                lab.case(case, scale)
            for name in of_case.variants:
                lab.variant(name)
            if absent := {name for pair in of_case.against for name in pair} - set(of_case.variants):
                yield f"series {of_case.axis}: against names {', '.join(sorted(absent))}, which it does not measure"


def cases(lab: Lab) -> Iterator[str]:
    """Each scale has cases, and each case has work, traffic and a rate."""
    for scale in SCALES:
        of_scale = lab.cases(scale)
        if not of_scale or len({case.name for case in of_scale}) < len(of_scale):
            yield f"scale {scale} must have a case, and each case once"
        for case in of_scale:
            if case.scale != scale or case.units < 1 or lab.case(case.name, scale) != case:
                yield f"case {case.name} at scale {scale}: `Lab.case` must return it, with this scale and a unit or more"
            work, (amount, unit) = lab.work(case), lab.rate(case)
            if min(work.bytes, work.footprint, amount) <= 0 or work.flops < 0 or not unit:
                yield f"case {case.name} at scale {scale}: its work and its rate must be above zero"
            for variant in lab.ladder:
                if lab.traffic(case, variant) <= 0:
                    yield f"{variant.name} on {case.name}: its traffic must be above zero"


LADDER: tuple[Rule, ...] = (
    names_and_parents, bases_and_best, texts, differences, languages, sweeps, series, cases,
)  # fmt: skip
"""Rules for the Python of a lab."""


# -- kernels and the check ---------------------------------------------------------------------------------------------


def compiles(lab: Lab) -> Iterator[str]:
    """Each kernel of the ladder compiles for OpenCL on this machine's CPU, and for CUDA, as far as compilers are here."""
    for variant in (variant for variant in lab.ladder if variant.source):
        for backend in sorted(variant.backends & {"opencl", "cuda"}):
            try:
                text = variant.text.render(backend)
                if backend == "cuda":
                    nvrtc.compile_cuda(text, ARCHITECTURE)
                elif variant.is_for(backend, "cpu"):
                    host_cpu().build(text)
            except Unsupported:
                continue
            except BuildFailed as error:
                line = " ".join(str(error).split())[:200]
                yield f"{variant.name} does not compile as {backends.label(backend)}: {line}"


def refuses_mistakes(lab: Lab) -> Iterator[str]:
    """The check accepts the outputs of a step, and none that are wrong in a standard way."""
    try:
        device, case = host_cpu(), lab.cases("test")[-1]
    except Unsupported:  # this machine has no OpenCL for its CPU
        return
    runnable_steps = (v for v in lab.ladder if v.is_for(device.backend, device.kind) and not lab.skip_reason(v, case))
    variant = next(runnable_steps, None)
    if variant is None:
        return
    inputs = lab.inputs(case, 1)
    runnable = variant.plan(device, variant, case, inputs)
    try:
        runnable.reset()
        runnable.run()
        outputs = runnable.outputs()
    finally:
        runnable.close()
    reference = {**lab.reference(case, inputs), **lab.device_losses(device, variant)}
    check = partial(lab.check, case, variant, reference=reference)
    error, limit, words = check(outputs)
    if not error <= limit:
        yield f"{variant.name} is not right on {case.name}: error {error:.3g}, allowed {limit:.3g} ({words})"
    elif accepted := accepted_mistakes(check, outputs):
        yield f"the check accepts outputs of {variant.name} on {case.name} that are wrong: {'; '.join(accepted[:5])}"


KERNELS: tuple[Rule, ...] = (compiles, refuses_mistakes)
"""Rules that compile and run kernels."""


# -- the notebook ------------------------------------------------------------------------------------------------------

Cells = list[dict[str, Any]]


def _sources(cells: Cells, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == kind]


def is_short_and_unexecuted(notebook: Mapping[str, Any]) -> Iterator[str]:
    """A notebook is short, and committed without outputs."""
    all_cells: Cells = notebook["cells"]
    story = sum(page == STORY for page, _ in pages_of(all_cells))
    lines = sum(bool(line.strip()) for source in _sources(all_cells, "code") for line in source.splitlines())
    for count, most, noun in (
        (len(all_cells), MOST_CELLS, "cells"),
        (story, MOST_STORY_CELLS, "cells of its story"),
        (lines, MOST_LINES, "lines of code"),
    ):
        if count > most:
            yield f"it has {count} {noun}, {most} at most"
    if any(cell.get("outputs") or cell.get("execution_count") for cell in all_cells):
        yield "it has outputs; clear them before you commit it"
    metadata = notebook["metadata"]
    if set(metadata) != {"kernelspec", "language_info"} or metadata["kernelspec"]["name"] != "python3":
        yield "its metadata must be kernelspec, named python3, and language_info"
    if len({cell.get("id") for cell in all_cells}) < len(all_cells):
        yield "each cell needs an id of its own"


def only_asks_the_lab(notebook: Mapping[str, Any], lab: str) -> Iterator[str]:
    """The code of a notebook asks the lab and shows its answers: no kernels, loops that measure or figures of its own."""
    for source in _sources(notebook["cells"], "code"):
        for node in ast.walk(ast.parse(source)):
            line = (ast.get_source_segment(source, node) or "").partition("\n")[0] if hasattr(node, "lineno") else ""
            is_import = isinstance(node, ast.Import) and [alias.name for alias in node.names] != ["roofbook"]
            is_foreign = isinstance(node, ast.ImportFrom) and not f"{node.module}.".startswith(f"roofbook.labs.{lab}.")
            if is_import or is_foreign:
                yield f"a cell imports more than roofbook and roofbook.labs.{lab}: {line}"
            if isinstance(node, NO_CELL):
                yield f"a cell computes; that belongs into the lab's folder: {line}"
        if "__kernel" in source or "__global__" in source:
            yield "a cell has a kernel; kernels are files of the lab's folder"


def parameters(notebook: Mapping[str, Any]) -> Iterator[str]:
    """The parameters are literals with type and comment: those of the library, then the notebook's own."""
    tagged = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(tagged) != 1:
        yield f"{len(tagged)} cells have the tag parameters; one must have it"
        return
    source = _sources(tagged, "code")[0]
    values: dict[str, object] = {}
    for line, node in zip(source.splitlines(), ast.parse(source).body, strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name) or node.value is None:
            yield f"a parameter must be a line such as `scale: str = 'quick'  # its meaning`, not {line}"
            continue
        value = values[node.target.id] = ast.literal_eval(node.value)
        if value is not None and type(value).__name__ != ast.unparse(node.annotation):
            yield f"parameter {node.target.id} is no {ast.unparse(node.annotation)}"
        if not re.search(r"  # \S.{4,}", line):
            yield f"parameter {node.target.id} has no comment"
    shared = {name: value for name, value in values.items() if name in PARAMETERS}
    if list(shared.items()) != list(PARAMETERS.items()):
        yield f"the parameters must be those of the library, with its defaults: {', '.join(PARAMETERS)}"


def prose(notebook: Mapping[str, Any], permitted: Collection[str] = ()) -> Iterator[str]:
    """Prose has short sentences, and no figure that the store could give. permitted: words with digits."""
    for source in _sources(notebook["cells"], "markdown"):
        for _, sentence, count in long_sentences(source):
            yield f"a sentence has {count} words, {MOST_WORDS} at most: {sentence}"
        for words in (*permitted, *WITH_DIGITS):
            source = re.sub(r"\s+".join(map(re.escape, words.split())), "", source)
        for line in re.findall(r"^.*\d.*$", source, re.M):
            yield f"a number is typed into the prose, which the store should give: {line.strip()}"


def names_each_step(notebook: Mapping[str, Any], lab: Lab) -> Iterator[str]:
    """The notebook names each step of the ladder once, after the parent that it is compared with."""
    named: list[str] = []
    for source in _sources(notebook["cells"], "code"):
        for node in ast.walk(ast.parse(source)):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("source", "steps")
            ):
                named += [str(argument.value) for argument in node.args if isinstance(argument, ast.Constant)]
    for variant in lab.ladder:
        count = named.count(variant.name)
        if count != 1:
            yield f"{variant.name} is named {count} times in lab.source(...) and lab.steps(...); it must be once"
        elif variant.parent in named and named.index(str(variant.parent)) > named.index(variant.name):
            yield f"{variant.name} comes before its parent {variant.parent}"
    for name in dict.fromkeys(named):
        if name not in {variant.name for variant in lab.ladder}:
            yield f"{name} is no step of the ladder"
    for name in re.findall(r"`([a-z]+(?:-[a-z0-9]+)+)`", "\n".join(_sources(notebook["cells"], "markdown"))):
        if name not in {variant.name for variant in lab.all_variants()}:
            yield f"the prose names `{name}`, which is no variant of the lab"


def permitted_digits(root: Path, lab: str) -> Mapping[str, str]:
    """Return words with digits that the prose of a lab may have, with the reason: DIGITS of tests/labs/LAB/page.py."""
    path = root / "tests" / "labs" / lab / "page.py"
    return runpy.run_path(str(path)).get("DIGITS", {}) if path.is_file() else {}


def notebook_faults(path: Path, lab: Lab, permitted: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each fault of a lab's notebook. permitted: words with digits."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    yield from is_short_and_unexecuted(notebook)
    yield from only_asks_the_lab(notebook, lab.name)
    yield from parameters(notebook)
    yield from prose(notebook, permitted)
    yield from names_each_step(notebook, lab)


def faults(lab: Lab, root: Path) -> Iterator[str]:
    """Yield a sentence for each fault of a lab of the project `root`. A lab may have no notebook."""
    for rule in (*LADDER, *KERNELS):
        try:
            yield from rule(lab)
        except (UsageError, Unsupported, BuildFailed) as error:
            yield f"{rule.__name__.replace('_', ' ')}: {error}"
    path = root / "experiments" / f"{lab.name}.ipynb"
    if path.is_file():
        yield from (f"{path.name}: {fault}" for fault in notebook_faults(path, lab, permitted_digits(root, lab.name)))
