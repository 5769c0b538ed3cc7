"""Runs of the lattice in a browser: three of the course's grids, some time steps from a state off equilibrium."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...devices.launch_recorder import RecordedRead
from ...spec.browser_run import Arrays, BrowserRun, Drawn, Reads
from ...spec.plan import Case
from .lattice import problem_of
from .problem import WEIGHTS, Params, initial

STEPS = 48
"""Number of time steps of a run: whole walks, after an even number of which the state is in the first grid."""


def sizes(case: Case) -> dict[str, int]:
    """Return the number of drawn numbers: one for each population."""
    return {"disturbance": 9 * int(case.params["nx"] * case.params["ny"])}


def inputs(case: Case, drawn: Drawn) -> dict[str, Any]:
    """Return `params`, `obstacles` and a state off equilibrium, as the lab's inputs have them."""
    params, obstacles = problem_of(case.name)
    f = initial(params, np.float32)
    f *= np.float32(1) + drawn["disturbance"].reshape(f.shape)
    return {"params": params, "obstacles": obstacles, "f": f}


def halves(params: Params, f: NDArray[Any]) -> NDArray[np.uint16]:
    """Return the bits of populations as `Grid` stores them in fp16: scaled differences from rest."""
    return ((f - (WEIGHTS * params.density)[:, None, None]) * 1024).astype(np.float16).view(np.uint16)


def arrays(inputs: Mapping[str, Any]) -> Arrays:
    """Return what plans put in buffers: the state in each layout, and the map of obstacles in each type."""
    f, obstacles = inputs["f"], inputs["obstacles"]
    return {
        "f": f,
        "f by cells": np.ascontiguousarray(f.transpose(1, 2, 0)),
        "f in halves": halves(inputs["params"], f),
        "obstacles": obstacles.astype(np.int32),
        "obstacle bytes": obstacles.astype(np.int8),
    }


def layout_of(params: Params, f: NDArray[Any], stored: NDArray[Any]) -> str | None:
    """Return the name of the layout in which populations (9, ny, nx) are stored; None for an unknown one."""
    if stored.dtype == np.float16:
        return "f in halves" if np.array_equal(stored.view(np.uint16), halves(params, f).ravel()) else None
    layouts = {"f": f.ravel(), "f by cells": f.transpose(1, 2, 0).ravel()}
    return next((name for name, array in layouts.items() if np.array_equal(stored, array)), None)


def raw_outputs(inputs: Mapping[str, Any], outputs: Arrays, reads: Sequence[RecordedRead]) -> Reads | None:
    """Return the reads of the state, and those of the sums of |u|: the steps' `totals`, or `sums` of groups in each step.

    If the device counts the fluid cells, `counts` has the reads of their numbers.
    """
    state = next((read for read in reads if read.marks.size == outputs["f"].size), None)
    layout = None if state is None else layout_of(inputs["params"], outputs["f"], state.marks)
    if state is None or layout is None:
        return None
    output_reads: dict[str, list[RecordedRead]] = {layout: [state]}
    speeds, cells = outputs["av_vels"], float((~inputs["obstacles"]).sum())
    if totals := [read for read in reads if np.array_equal(read.marks, np.rint(speeds * cells))]:
        return {**output_reads, "totals": totals}
    by_buffer: dict[int, list[RecordedRead]] = {}
    for read in reads:
        by_buffer.setdefault(read.buffer, []).append(read)
    of_steps = [parts for parts in by_buffer.values() if len(parts) == len(speeds)]
    for parts in of_steps:
        output_reads["counts" if parts[0].dtype == "int32" else "sums"] = parts
    by_reads = [
        sum(sums.marks.astype(float)) / (sum(counts.marks.astype(float)) if counts else cells)
        for sums, counts in zip(
            output_reads.get("sums", []), output_reads.get("counts", [None] * len(speeds)), strict=False
        )
    ]
    return output_reads if len(by_reads) == len(speeds) and np.allclose(by_reads, speeds, rtol=1e-5) else None


BROWSER = BrowserRun(
    cases=("128x128", "256x256", "1024x1024"),
    ranges={"disturbance": (-3 / 32, 3 / 32)},
    script=Path(__file__).with_name("browser.js"),
    sizes=sizes,
    inputs=inputs,
    arrays=arrays,
    raw_outputs=raw_outputs,
    units=STEPS,
)
