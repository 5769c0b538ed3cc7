"""Causes of effects that refuted a step's prediction, by step and by scope, as `predictions.Whys` has them.

They belong to the predictions of ladder.py: a test names each refuted step of the default view without a cause.
"""

from collections.abc import Mapping

WHYS: Mapping[str, Mapping[str, str]] = {
    "rsqrt": {
        "cuda": (
            "memory was not yet the bound. NVRTC's code for the root and the division has three times as many "
            "instructions, with branches between the loads and the store. Even after this step, counters on an H200 "
            "show the memory busy for two thirds of the time"
        ),
    },
    "local-memory": {
        "cuda": (
            "the additional instructions hide. Counters on an H200 show the parent waiting for memory, with its "
            "instructions issued in two fifths of the time. The copies fit into the rest"
        ),
    },
    "tasks-2": {
        "cuda": (
            "too few loads were in flight. Counters on an H200 show the parent's memory busy for two thirds of the "
            "time; in `float4`, where a work-item has four elements, it is busy for nine tenths"
        ),
    },
    "float4": {
        "cuda": (
            "counters on an H200 show the memory busy for nine tenths of the time: `float2` has enough loads in "
            "flight already, and fewer instructions then save nothing"
        ),
    },
}
