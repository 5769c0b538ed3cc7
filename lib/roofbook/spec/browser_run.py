"""Runs of a lab's steps in a browser: the sizes, the ranges of the operands, and a check in JavaScript.

A lab has them in the file `browser.py` of its folder, as BROWSER. Operands are drawn here and in book/_assets/run-here.js.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..devices.launch_recorder import RecordedRead
from .plan import Case, Variant

if TYPE_CHECKING:
    from .lab import Lab

Words = NDArray[np.uint32]


Drawn = Mapping[str, NDArray[np.float32]]
Arrays = Mapping[str, NDArray[Any]]


Reads = Mapping[str, Sequence[RecordedRead]]


def same_arrays(inputs: Mapping[str, Any]) -> Arrays:
    """Return the lab's inputs, for plans that put them in buffers as they are."""
    return inputs


def whole_reads(inputs: Mapping[str, Any], outputs: Arrays, reads: Sequence[RecordedRead]) -> Reads | None:
    """Return output -> the read whose marks it holds; None if an output holds those of no read."""
    by_output = {
        name: [read] for name, array in outputs.items() for read in reads if np.array_equal(array.ravel(), read.marks)
    }
    return by_output if by_output.keys() == outputs.keys() else None


def no_more(variant: Variant) -> dict[str, float]:
    """Return nothing: all steps of a lab have the same tolerance."""
    return {}


@dataclass(frozen=True)
class BrowserRun:
    """Runs of a lab's steps in a browser."""

    cases: tuple[str, ...]
    """Names of the cases, of which a reader chooses one. The first one that runs is chosen at first."""
    ranges: Mapping[str, tuple[float, float]]
    """Name -> range [low, high) from which numbers are drawn, in the order of their streams. Both ends, and their difference,
    are numbers of float32."""
    script: Path
    """JavaScript: an object with the function `check` of the case's params with its units, and of flat arrays. It returns a
    function of flat outputs and of what `allowed` returns, which returns ratios of error to tolerance by their names. `arrays`,
    with the params and the drawn numbers, returns what plans put in buffers; without it, that is the drawn numbers. `unusual`,
    like `arrays`, returns arrays on which mistakes show, for the check before the first sample."""
    sizes: Callable[[Case], Mapping[str, int]] | None = None
    """Number of drawn numbers by name; None: those of the elements of the lab's inputs."""
    inputs: Callable[[Case, Drawn], Mapping[str, Any]] | None = None
    """The lab's inputs from the drawn numbers; None: they are the drawn numbers in the shapes of the lab's inputs."""
    arrays: Callable[[Mapping[str, Any]], Arrays] = same_arrays
    """Returns the arrays that plans put in buffers, from the lab's inputs, by the names that the JavaScript gives them."""
    raw_outputs: Callable[[Mapping[str, Any], Arrays, Sequence[RecordedRead]], Reads | None] = whole_reads
    """Returns what the JavaScript checks, by name: the reads in which the host finds it, in order. It is called with the lab's
    inputs, with a recorded plan's outputs, and with its reads; None if an output is not made of reads in a known way."""
    allowed: Callable[[Variant], Mapping[str, float] | str] = no_more
    """Returns what a step's errors may have beyond those of plain fp32, by names in JavaScript; or why no page judges it."""
    units: int = 0
    """Number of units of a run, if it is the same for all cases; otherwise 0, and each plan has its own."""


@lru_cache
def browser_run(lab: "Lab") -> BrowserRun | None:
    """Return the BROWSER of a lab's `browser.py`; None without it."""
    if not Path(inspect.getfile(type(lab))).with_name("browser.py").is_file():
        return None
    of_lab: BrowserRun = importlib.import_module(f"{lab.package}.browser").BROWSER
    return of_lab


def drawn(run: BrowserRun, sizes: Mapping[str, int], seed: int) -> dict[str, NDArray[np.float32]]:
    """Draw the inputs of a size, flat, as a page draws them.

    sizes: number of elements of each input. Element i depends on the seed, on the position of its input and on i alone.
    """
    inputs = {}
    for stream, (name, (low, high)) in enumerate(run.ranges.items()):
        key = _mixed(np.array([(seed + (stream + 1) * 0x9E3779B9) & 0xFFFFFFFF], np.uint32))
        words = _mixed(_mixed(np.arange(sizes[name], dtype=np.uint32)) ^ key)
        fraction = (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        inputs[name] = np.float32(low) + np.float32(high - low) * fraction
    return inputs


def _mixed(words: Words) -> Words:
    """Return words whose bits each depend on all bits of the argument's."""
    words = (words ^ words >> np.uint32(16)) * np.uint32(0x7FEB352D)
    words = (words ^ words >> np.uint32(15)) * np.uint32(0x846CA68B)
    mixed: Words = words ^ words >> np.uint32(16)
    return mixed
