"""Causes of effects that refuted a step's prediction, by step and by scope, as `predictions.Whys` has them.

They belong to the predictions of ladder.py: a test names each refuted step of the default view without a cause.
"""

from collections.abc import Mapping

WHYS: Mapping[str, Mapping[str, str]] = {
    "tiled-halo-atomic": {
        "cuda": (
            "with a hundred images the parent's groups fill an H200 four times, and a few are left for a fifth round "
            "in which the chip is mostly idle. Four times as many groups leave a smaller remainder. On larger batches "
            "the step is slower, as predicted. A trace of when groups end would confirm it"
        ),
    },
    "tiled": {
        "cuda": (
            "local memory is part of the L1. On an H200 counters show that unit busy all the time in both kernels: a "
            "read from local memory costs it as much as a read from the cache, and copying the tile comes on top"
        ),
    },
    "fused-pool": {
        "cuda": (
            "a work-item that owns whole pooling windows has more sums: its kernel of layer 1 takes more registers, "
            "and fewer warps fit than before. Counters on an H200 show the parent limited by its instructions, so "
            "fewer bytes gain nothing"
        ),
    },
    "whole": {
        "cuda": (
            "the dense layers take not much longer for a thousand images than for a hundred. On a small batch that is "
            "most of the time. On the largest it is a few per cent, as predicted"
        ),
    },
    "whole-tensor": {
        "cuda": (
            "the dense layers take as long as in `whole`, in plain arithmetic. The convolutions now take a fraction "
            "of their time, so the same work is a larger share"
        ),
    },
    "graph": {
        "cuda": (
            "there were no gaps to close. Launches do not wait for kernels, and each kernel takes longer than a "
            "launch, so the next one was already in the queue"
        ),
    },
    "warps": {
        "cuda batch-100": (
            "the prediction is for a full chip. A hundred images are fewer than an H200 has multiprocessors, so the time is "
            "that of one image's way through a block, and of a launch for each layer"
        ),
    },
    "warpgroup": {
        "cuda": (
            "a hundred images are fewer than an H200 has multiprocessors. Each block has one image, so there is no "
            "next one to load while it multiplies"
        ),
    },
    "split-pool": {
        "cuda": (
            "with few images a block has one or a few, and probably waits most for the first load and the last store, "
            "which are no more work than before. On the largest batch the step takes about twice as long. A trace of "
            "a block would tell"
        ),
    },
    "split-producer": {
        "cuda": (
            "waiting for input was not the limit. The step after it, `split-boxes`, changes only the stores, and is "
            "faster. With few images a block has little to fetch ahead, and the warpgroup that fetches multiplies "
            "nothing"
        ),
    },
    "whole-fused": {
        "cuda": (
            "one block fits on a multiprocessor, so nothing hides the time between its layers. `whole-roles` lets layers "
            "of different images overlap, and gains more than the products that it saves. Counters of the units, by "
            "`roofbook profile`, would tell how much of the time is waits"
        ),
    },
    "whole-roles": {
        "cuda batch-100": (
            "it gains more than predicted. The estimate counted the launch that is saved and the layers that overlap. "
            "With a hundred images a block has one, and once its layers are done all warps of the block share the dense "
            "layers, which a few blocks of a second kernel computed before"
        ),
    },
}
