"""Runs of a lab's steps in a browser: the sizes, the ranges of the operands, and a check in JavaScript.

A lab has them in the file `browser.py` of its folder, as BROWSER. Operands are drawn here and in book/_assets/run-here.js.
"""

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .lab import Lab

Words = NDArray[np.uint32]


@dataclass(frozen=True)
class BrowserRun:
    """Runs of a lab's steps in a browser."""

    cases: tuple[str, ...]
    """Names of the cases, of which a reader chooses one. The first one that runs is chosen at first."""
    ranges: Mapping[str, tuple[float, float]]
    """Input -> range [low, high) from which its numbers are drawn, in the order of their streams. Both ends, and their
    difference, are numbers of float32."""
    check: Path
    """JavaScript: a function of the case's params with its units, and of flat inputs. It returns a function of flat outputs,
    which returns ratios of error to tolerance by their names."""


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
