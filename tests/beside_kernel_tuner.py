"""Kernel Tuner beside `roofbook tune`: one kernel, one space and one budget, a table of what each best_by_tuner.

    python -m tests.beside_kernel_tuner DEVICE CASE MINUTES

The kernel is the tiled layer of the lab cnn. Both draw points of the same space at random, and verify the results. Kernel Tuner
gets each point's text from this library. The best points of both are timed in the same rounds. Needs kernel_tuner.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import kernel_tuner
import numpy as np

from roofbook import cli
from roofbook.analysis import format as show
from roofbook.analysis.kernel_tuner_files import read
from roofbook.analysis.readings import faster, newest
from roofbook.book.experiment import Experiment
from roofbook.labs.cnn import plans
from roofbook.spec.search_space import SearchSpace, search_space

STEP = "fissioned"
KNOBS = {
    "sub": ("1x2x14", "2x2x14", "4x2x14", "8x2x14", "4x4x14", "2x4x14", "4x2x28", "2x2x28", "4x2x8", "8x2x8"),
    "group": ("1x1x1", "1x4x1", "2x2x1", "2x4x2", "4x4x2", "4x8x2", "8x4x2", "8x8x1", "8x2x4", "32x2x1"),
    "STAGES": ("SEPARATE", "FUSED", "ZEROED"),
    "ORDER": ("OUTERMOST",),
}
FITS = [f"{side} % sub[{n}] == 0 and {side} // sub[{n}] % group[{n}] == 0"
        for n, side in enumerate(("FILTERS", "HEIGHT", "WIDTH"))]  # fmt: skip


def by_kernel_tuner(
    experiment: Experiment, space: SearchSpace, seconds: float, scratch: Path
) -> tuple[int, dict[str, str]]:
    """Let Kernel Tuner search. Return the number of points that it measured, and the values of its best."""
    device, lab, case = experiment.device, experiment.lab, experiment.cases[0]
    layer, inputs = plans.layer(case), lab.inputs(case, 20)
    points = {(p["sub"], p["group"], p["STAGES"]) for p in space.points()}
    sides = sorted({tuple(group.split("x")) for group in KNOBS["group"]})
    knobs: dict[str, list[Any]] = {"sub": list(KNOBS["sub"]), "STAGES": list(KNOBS["STAGES"])}
    knobs |= {f"g{axis}": sorted({int(group[axis]) for group in sides}) for axis in range(3)}

    def of_space(values: dict[str, Any]) -> bool:
        return (values["sub"], "x".join(str(values[f"g{axis}"]) for axis in range(3)), values["STAGES"]) in points

    def text(values: dict[str, Any]) -> str:
        sub = dict(zip(("SUB_I", "SUB_H", "SUB_W"), map(int, values["sub"].split("x")), strict=True))
        source = space.step.text.with_knobs(STAGES=values["STAGES"], **lab.sizes(case), **sub)
        return source.render(device.backend)

    def size(values: dict[str, Any]) -> tuple[int, ...]:
        sub = map(int, values["sub"].split("x"))
        return tuple(side // part for side, part in zip((layer.filters, layer.height, layer.width), sub, strict=True))

    right = lab.reference(case, inputs)["out"].astype(np.float32)
    of_backend: dict[str, Any] = {"lang": "CUPY"} if device.backend == "cuda" else _of_opencl(device)
    results, _ = kernel_tuner.tune_kernel(
        "tiled", text, size, [inputs["x"], inputs["weight"], inputs["bias"], np.zeros_like(right)], knobs,
        restrictions=of_space, answer=[None, None, None, right], atol=1e-2, block_size_names=["g0", "g1", "g2"],
        grid_div_x=["g0"], grid_div_y=["g1"], grid_div_z=["g2"], strategy="random_sample",
        strategy_options={"max_fevals": len(points), "time_limit": seconds}, quiet=True, cache=str(scratch / "kt.json"),
        **of_backend,
    )  # fmt: skip
    timed = [result for result in results if "__error__" not in result]
    best = min(timed, key=lambda result: result["time"])
    return len(results), {
        "sub": best["sub"], "STAGES": best["STAGES"], "group": "x".join(str(best[f"g{axis}"]) for axis in range(3)),
    }  # fmt: skip


def _of_opencl(device: Any) -> dict[str, Any]:
    """Return the options by which Kernel Tuner uses an OpenCL device of ours; its launches are flushed, as PoCL needs."""
    import pyopencl as cl
    from kernel_tuner.backends.opencl import OpenCLFunctions

    OpenCLFunctions.stop_event = lambda self: self.queue.flush()
    device.build("__kernel void nothing() {}")  # names the CPU that PoCL compiles for, in all of its contexts
    platform = device.device.platform
    number = platform.get_devices().index(device.device)
    return {"lang": "OpenCL", "platform": cl.get_platforms().index(platform), "device": number}


def by_roofbook(experiment: Experiment, seconds: float, scratch: Path) -> tuple[int, dict[str, str]]:
    """Let `roofbook tune` search. Return the number of points that it measured, and the values of its best."""
    options = [word for knob, values in KNOBS.items() for word in ("--knob", f"{knob}={','.join(values)}")]
    options += [word for restriction in FITS for word in ("--where", restriction)]
    sys.argv = [
        "roofbook", "tune", "cnn", STEP, "--case", experiment.cases[0].name, "--scale", experiment.scale, *options,
        "--strategy", "random", "--minutes", str(seconds / 60), "--device", experiment.device.spec,
        "--results", str(scratch / "results"), "--cache", str(scratch / "ours.json"),
    ]  # fmt: skip
    cli.main()
    best = read(scratch / "ours.json")[0]
    return len(json.loads((scratch / "ours.json").read_text())["cache"]), dict(best)


def main(device: str, case: str, minutes: str) -> None:
    """Search by both, time the best of both side by side, and print the table."""
    scale = "published" if case.startswith("256") else "quick"
    parameters = {"device": device, "scale": scale, "cases": [case], "variants": [STEP]}
    with tempfile.TemporaryDirectory() as folder:
        scratch, seconds = Path(folder), 60 * float(minutes)
        os.environ |= {"POCL_CACHE_DIR": str(scratch), "CUPY_CACHE_DIR": str(scratch)}  # both compile each kernel
        experiment = Experiment("cnn", parameters | {"results": str(scratch / "results")})
        space = search_space(experiment.lab, experiment.variants[0], experiment.cases[0], KNOBS, FITS)
        best_by_tuner, spent = {}, {}
        for name, search in (
            ("roofbook tune", lambda: by_roofbook(experiment, seconds, scratch)),
            ("Kernel Tuner", lambda: by_kernel_tuner(experiment, space, seconds, scratch)),
        ):
            start = time.monotonic()
            best_by_tuner[name] = search()
            spent[name] = time.monotonic() - start
        variants = {name: space.variant(point) for name, (_, point) in best_by_tuner.items()}
        names = list(dict.fromkeys([STEP, *(variant.name for variant in variants.values())]))
        both = Experiment(
            "cnn", experiment.parameters | {"variants": names, "remeasure": True, "budget_s": 1.0, "runs": 3}
        )
        done = both.take(lambda variant, stage: None)
        readings = newest(both.store.rows("cnn", case=case, run=done.run.split(", ")), case)
        first, second = (readings[variants[name].name] for name in best_by_tuner)
        print(f"{experiment.device.name}, {case}, {len(space.points())} points, {minutes} min each")
        for name, (count, _) in best_by_tuner.items():
            reading = readings[variants[name].name]
            print(f"{name}: {count} points in {spent[name]:.0f} s, {reading.variant}, {show.duration(reading.median)}")
        ratio = faster(second, first)
        print(
            f"{show.factor(ratio.estimate, ratio.low, ratio.high) if ratio and first is not second else 'the same point'}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
