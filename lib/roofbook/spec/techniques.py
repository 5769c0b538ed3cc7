"""The list of techniques: all changes that a step can make to its parent. Serves the steps' tags and the pages about them.

A lab has the techniques of its steps in the file `techniques.py` of its folder, as TAGS: step -> keys of `TECHNIQUES`. A minus
before a key says that the step takes the technique away. A step without a technique is in UNTAGGED, with the reason. Tags are
no part of a step's identity: they can change, and no measurement becomes stale.
"""

import importlib
import inspect
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .lab import Lab

START = "the start of a ladder"
"""Reason: the step has no parent."""
OTHER_COMPILER = "the same loops by another compiler"
"""Reason: the step is a baseline that changes no line of the algorithm."""
PROBE = "a probe, which shows a cost and gives no result of the lab"
"""Reason: the step's result is no result of the lab."""

MEMORY, WORK, ARITHMETIC, LAUNCHES = "Data and memory", "Work and loops", "Arithmetic", "Launches and waits"
GROUPS = (MEMORY, WORK, ARITHMETIC, LAUNCHES)
"""Headings of the list of techniques, in its order."""


class Technique(NamedTuple):
    """A kind of change."""

    key: str
    """Its name in addresses and in tags."""
    group: str
    """One of GROUPS."""
    name: str
    about: str
    """A sentence that says what it is."""
    term: str = ""
    """Term of the glossary that explains it further; '' for none."""


class Tag(NamedTuple):
    """A technique in a step."""

    technique: Technique
    taken_away: bool
    """Whether the parent has the technique, and the step does without it."""


_LIST = (
    Technique(
        "staging",
        MEMORY,
        "Staging in local memory",
        "The work-items of a group copy data that several of them read to local memory, and read it from there.",
        "local memory",
    ),
    Technique(
        "vectors",
        MEMORY,
        "Vector loads",
        "A work-item loads, stores or computes several neighbouring values at once.",
        "vector",
    ),
    Technique(
        "layout",
        MEMORY,
        "Data layout",
        "The same values lie elsewhere in memory: in another order, aligned, padded or packed.",
        "structure of arrays",
    ),
    Technique(
        "prepared",
        MEMORY,
        "Operands laid out beforehand",
        "Operands are converted and reordered before the time begins, as the user of a library would keep them.",
    ),
    Technique(
        "narrow-types",
        MEMORY,
        "Smaller types without loss",
        "Values take fewer bytes, and each of them still fits exactly.",
    ),
    Technique(
        "constant-memory",
        MEMORY,
        "Constant memory",
        "Operands that all work-items read are declared in constant memory.",
        "constant memory",
    ),
    Technique("textures", MEMORY, "Textures", "An operand is an image, which the texture units read.", "texture"),
    Technique("cache-hints", MEMORY, "Cache hints", "A load names the cache that it goes through, or passes by.", "L1"),
    Technique(
        "double-buffering",
        MEMORY,
        "Double buffering",
        "The next data are loaded while the last ones are used.",
        "double buffering",
    ),
    Technique(
        "bulk-copies",
        MEMORY,
        "Bulk copies (TMA)",
        "One thread orders the copy of a whole box of data, and the copy engine of a multiprocessor makes it.",
        "TMA",
    ),
    Technique(
        "clusters",
        MEMORY,
        "Clusters of blocks",
        "Blocks of a cluster share what they load, or exchange results, from one shared memory to the other.",
        "cluster",
    ),
    Technique(
        "in-place",
        MEMORY,
        "In-place update",
        "Results overwrite the data that they are computed from, so that one grid is enough.",
    ),
    Technique(
        "transfers",
        MEMORY,
        "Fewer or faster transfers",
        "Data stay on the device between kernels, or travel faster between host and device.",
        "pinned memory",
    ),
    Technique(
        "mapping",
        WORK,
        "Mapping and occupancy",
        "Other work-items, groups or cores compute the same outputs; that decides how many of them run at once.",
        "occupancy",
    ),
    Technique(
        "register-tiling",
        WORK,
        "Several outputs per work-item",
        "A work-item computes several outputs, and keeps them, and values that they share, in registers.",
        "register",
    ),
    Technique("several-devices", WORK, "Several devices", "Each of several devices computes a part of the problem."),
    Technique(
        "fusion",
        WORK,
        "Fusion",
        "One kernel or loop does the work of several, so that values between them never go to memory.",
        "kernel fusion",
    ),
    Technique("fission", WORK, "Fission", "Several kernels or loops do the work of one."),
    Technique(
        "loop-order",
        WORK,
        "Loop order and cache blocking",
        "Loops are nested in another order, or work on a part of the data that a cache holds.",
    ),
    Technique(
        "unrolling",
        WORK,
        "Unrolling",
        "The body of a loop stands several times in the code, once for each pass.",
        "loop unrolling",
    ),
    Technique(
        "branches",
        WORK,
        "Fewer branches",
        "A kernel decides by selection, by a smaller range or by an index, without a branch.",
        "divergence",
    ),
    Technique(
        "time-blocking",
        WORK,
        "Several time steps in a pass",
        "Data stay on the chip for several time steps, and cells at the edges are computed twice or wait.",
    ),
    Technique(
        "halo",
        WORK,
        "Halo exchange",
        "Each part of a grid has copies of its neighbours' outermost cells, and gets new ones as time goes on.",
    ),
    Technique("reductions", WORK, "Reductions", "Sums over all work-items are taken in another way, or less often."),
    Technique(
        "atomics",
        WORK,
        "Atomic operations",
        "Several work-items add to one value in memory by atomic operations.",
        "atomic operation",
    ),
    Technique(
        "sparsity",
        WORK,
        "Lists of non-zeros",
        "A kernel walks lists of the values that are not zero, and skips the others.",
    ),
    Technique(
        "matrix-product",
        WORK,
        "Convolution as a matrix product",
        "Windows of the input become columns of a matrix, in memory or as they are read.",
        "implicit matrix product",
    ),
    Technique("indexing", ARITHMETIC, "Index arithmetic", "The place of a value is computed in another way."),
    Technique(
        "initial-values",
        ARITHMETIC,
        "Initial values of sums",
        "A sum starts from another value, or gets it in another place.",
    ),
    Technique(
        "constants", ARITHMETIC, "Sizes known to the compiler", "Sizes are constants of the kernel, not arguments."
    ),
    Technique(
        "less-arithmetic", ARITHMETIC, "Less arithmetic", "The same result takes fewer operations, or cheaper ones."
    ),
    Technique(
        "native-functions",
        ARITHMETIC,
        "Native functions, fast arithmetic",
        "Functions or options of the compiler give up digits, or special values, for speed.",
        "native function",
    ),
    Technique(
        "precision",
        ARITHMETIC,
        "Other precision",
        "Values are rounded to another type, in memory or in products.",
        "fp16",
    ),
    Technique(
        "tensor-cores",
        ARITHMETIC,
        "Tensor cores",
        "Matrix units multiply tiles of small types, and sum in larger ones.",
        "tensor core",
    ),
    Technique(
        "dot-products",
        ARITHMETIC,
        "Dot products of a CPU",
        "An instruction multiplies small types and adds several products to each lane of a vector.",
    ),
    Technique(
        "warpgroup-products",
        ARITHMETIC,
        "Products of a warpgroup",
        "Four warps multiply together, with operands straight from shared memory.",
        "wgmma",
    ),
    Technique(
        "split-operands",
        ARITHMETIC,
        "Split operands",
        "Each operand is a sum of two small ones, so that three products are nearly as exact as fp32.",
        "split operands",
    ),
    Technique(
        "transformation",
        ARITHMETIC,
        "Transformed operands",
        "Operands are transformed so that fewer products are needed, and the results are transformed back.",
    ),
    Technique(
        "synchronisation",
        LAUNCHES,
        "Cheaper synchronisation",
        "Work-items, queues or the host wait less often, for fewer others, or by cheaper means.",
        "barrier",
    ),
    Technique("graphs", LAUNCHES, "CUDA graphs", "Launches are recorded once, and submitted together.", "CUDA graph"),
    Technique(
        "early-launch",
        LAUNCHES,
        "Programmatic dependent launch",
        "A kernel is launched before the one before it has ended, and waits for that end itself, once it needs its results.",
        "launch",
    ),
    Technique(
        "persistent",
        LAUNCHES,
        "Persistent launches",
        "One launch stays on the device for many tiles or time steps.",
        "persistent kernel",
    ),
    Technique(
        "streams",
        LAUNCHES,
        "Streams and overlap",
        "Copies, launches and parts of the work overlap in several queues.",
        "stream",
    ),
    Technique(
        "warp-roles", LAUNCHES, "Roles for warps", "Some warps of a block fetch data, and others compute.", "warp"
    ),
    Technique(
        "shuffles",
        LAUNCHES,
        "Warp shuffles",
        "Work-items of a warp exchange values in registers, without local memory.",
        "lane",
    ),
    Technique(
        "arguments",
        LAUNCHES,
        "Fewer kernel arguments",
        "A launch hands over fewer arguments, such as one buffer for nine.",
        "launch",
    ),
    Technique("host-language", LAUNCHES, "Language of the host", "Another language drives the same launches.", "host"),
)

TECHNIQUES: Mapping[str, Technique] = {technique.key: technique for technique in _LIST}
"""The techniques by their keys, in the order of the list."""


@lru_cache
def step_tags(lab: "Lab") -> Mapping[str, tuple[Tag, ...]]:
    """Return the techniques of each of a lab's steps with some, by its `techniques.py`; none without that file.

    Raise ValueError for an unknown key.
    """
    if not Path(inspect.getfile(type(lab))).with_name("techniques.py").is_file():
        return {}
    module = importlib.import_module(f"{lab.package}.techniques")
    return {step: parsed(step, keys) for step, keys in module.TAGS.items()}


def parsed(step: str, keys: str) -> tuple[Tag, ...]:
    """Return the tags of a step from its keys, which are separated by blanks. Raise ValueError for an unknown key.

    >>> [(tag.technique.name, tag.taken_away) for tag in parsed("strips", "layout -staging")]
    [('Data layout', False), ('Staging in local memory', True)]
    """
    names = [(key.removeprefix("-"), key.startswith("-")) for key in keys.split()]
    if unknown := [name for name, _ in names if name not in TECHNIQUES]:
        raise ValueError(f"step {step}: {', '.join(unknown)} is no technique; there are {', '.join(TECHNIQUES)}")
    return tuple(Tag(TECHNIQUES[name], taken_away) for name, taken_away in names)
