"""Causes of effects that refuted a step's prediction, by step and by scope, as `predictions.Whys` has them.

They belong to the predictions of ladder.py: a test names each refuted step of the default view without a cause.
"""

from collections.abc import Mapping

FOUR_CELLS = (
    "on this grid a thread has four cells, not sixteen. Their operations are too few to fill the wait for the reciprocal, "
    "for which all of them now wait"
)
WHYS: Mapping[str, Mapping[str, str]] = {
    "sequential-c": {
        "": (
            "we do not know. PoCL and GCC may use other vector instructions, or order loads otherwise. The machine "
            "code of both on that host, or its counters by `perf`, would tell"
        ),
    },
    "no-finish": {
        "cuda": (
            "the waits are a fixed cost, as predicted: they take about as many microseconds on the smallest grid. But "
            "a time step of the large grid is short enough on this device that the cost shows there too"
        ),
    },
    "bit-neighbours": {
        "cuda": (
            "the parent takes far longer than its bound on this grid, so memory is not the limit, and instructions "
            "count. NVRTC's code has a twentieth fewer of them, and the time falls by about as much"
        ),
    },
    "hoisted": {
        "cuda large": (
            "the parent takes far longer than its bound on this grid, so instructions count, as in `bit-neighbours`"
        ),
    },
    "compared-neighbours": {
        "cuda": (
            "the step is faster in each run, but by less than counts as a difference. In NVRTC's code the two remainders of "
            "a cell stand side by side, in some 40 instructions, so their waits overlap. The counters for the reasons of "
            "stalls, of both steps, would tell how long these waits are"
        ),
    },
    "early-launch": {
        "cuda 4096x4096": (
            "the gap between two kernels is a fixed cost. A time step of this grid takes hundreds of times as long"
        ),
    },
    "fours-momentum": {
        "cuda 4096x4096": "memory is the bound, and better arithmetic moves no fewer bytes",
    },
    "fours-graph": {
        "cuda 4096x4096": (
            "the host was no limit. Python's loop launches a step in a small part of the time that this grid's kernel takes, "
            "so the queue is never empty"
        ),
    },
    "fours-warps": {
        "cuda 4096x4096": (
            "memory is the bound. While a group of the parent waits at a barrier, other groups of the multiprocessor have "
            "loads under way"
        ),
    },
    "in-place": {
        "cuda large": (
            "we do not know. It moves the same bytes in an order in which one of two time steps scatters its writes. "
            "Counters of both kinds of time step, by `roofbook profile`, would tell which of them is slower"
        ),
    },
    "half-storage": {
        "cuda": (
            "bytes were not the bound. On an H200 counters of `in-place-graph`, the same kernel, show the memory busy "
            "for less than half of the time at this size, and the L2 for three quarters. The conversions add "
            "instructions: a tenth more in NVRTC's code"
        ),
    },
    "persistent": {
        "cuda": (
            "a block waits for its neighbours' flags in each time step, and a flag takes its way through the L2. "
            "Counters on an H200 show no unit busy for more than a twentieth of the time. So one wait took the place "
            "of another: `tagged-halo`, which sends no flags, is faster"
        ),
    },
    "walk-momentum": {
        "cuda": (
            "we do not know. Fewer operations wait for the reciprocal in NVRTC's code, as intended, so the warps wait "
            "for something else: barriers, or local memory. The counters for the reasons of stalls would tell"
        ),
    },
    "walk-warps": {
        "cuda 1024x1024": (
            "a warp's piece has 22 rows on this grid, and 316 on 4096x4096. The warp reads six rows before a piece and six "
            "behind it. So in half of its turns it begins or ends a piece, and these turns run the longer code, which checks "
            "each row"
        ),
    },
    "walk-velocity": {
        "cuda 128x128": (
            "this grid has 48 warps, fewer than an H200 has multiprocessors. So no other warp fills the wait for the reciprocal"
        ),
    },
    "walk-shared": {
        "cuda 1024x1024": (
            "half as many warps again divide this grid, so a piece has 16 rows instead of 22. A warp reads 14 rows around it "
            "instead of 12. So in two thirds of its turns it begins or ends a piece, and these turns run the longer code"
        ),
    },
    "on-chip-velocity": {
        "cuda 128x256": FOUR_CELLS,
        "cuda 256x256": FOUR_CELLS,
    },
    "deep-halo-pause": {
        "cuda": (
            "the pause has one length for all grids. On this one a round is the shortest, so the data may be there before "
            "the pause ends. On larger grids the step gains, as predicted. A sweep over the pause would tell"
        ),
    },
}
