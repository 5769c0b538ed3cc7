"""Causes of effects that refuted a step's prediction, by step and by scope, as `predictions.Whys` has them.

They belong to the predictions of ladder.py: a test names each refuted step of the default view without a cause.
"""

from collections.abc import Mapping

LOWER_TILES = (
    "two blocks share each of the parent's tiles on this layer. Two such tiles that share weights would make clusters of four "
    "blocks, each with nearly all the shared memory of a multiprocessor, and an H200 does not hold all of these at once. So a "
    "cluster has two tiles of half the height, with a block each. These blocks read about as much from the L2 as the parent's, "
    "and each product reads its weights for half as many outputs"
)
"""Cause on layers where the step's tiles are lower than its parent's."""
WEIGHTS_ASKED_FOR = (
    "on this layer all weights of a block fit its shared memory, and are asked for at the start. Reads from the L2 are fewer, "
    "but they were not the limit. And here a block asks for weights only when all blocks of its cluster have set up their "
    "barriers"
)
"""Cause on layers where the step's tiles are as high as its parent's."""

WHYS: Mapping[str, Mapping[str, str]] = {
    "atomic-pool": {
        "cuda": (
            "in NVRTC's code the maximum is `RED`, a request to the L2 that no work-item waits for, and the innermost "
            "loop has as many instructions as before. So the atomics cost nothing, and a kernel and a map are saved. "
            "That is less than the gain; the counters for the reasons of stalls would tell what the rest is"
        ),
    },
    "cached": {
        "cuda": (
            "the path is the same, the code is not. With `ld.global.ca` NVRTC loads 16-bit numbers that extend their "
            "sign (`LDG.S16`); through the path for read-only data it extends each by an instruction of its own "
            "(`PRMT`). The innermost loop then waits for one instruction less"
        ),
    },
    "images": {
        "cuda 128x96x27x27-k5": (
            "on the layers with taps of three by three an image takes registers, so half as many groups fit. On this "
            "layer it takes none, and the texture units compute addresses for which the parent has instructions: "
            "NVRTC's code has fewer 64-bit additions"
        ),
    },
    "line-image": {
        "cuda 512x512x32x32-k3": (
            "a read of an image takes an index, and the texture units compute the address. In NVRTC's code the parent "
            "computes a 64-bit address for each read (`IMAD.WIDE`); the rest of the innermost loop is the same. On the "
            "smaller layers the step gains nothing, as predicted"
        ),
    },
    "built-lists": {
        "cuda": (
            "a work-item owns a pooling window, so there are a quarter as many. This layer has fewer of them than the "
            "chip has places for, and waits for loads show. On the largest layer the step is faster, as predicted"
        ),
    },
    "tensor-window": {
        "cuda": (
            "counters of the parent on an H200 show no unit busy for more than two fifths of the time, so waits are "
            "the limit, as predicted. But each block here has a third of the warps to hide them, and one chain of "
            "products for all channels. `tensor-split-k`, which cuts that chain, is faster"
        ),
    },
    "tensor-multicast": {
        "cuda 1024x1024x32x32-k3": LOWER_TILES,
        "cuda 512x512x32x32-k3": LOWER_TILES,
        "cuda 256x192x28x28-k3": WEIGHTS_ASKED_FOR,
        "cuda 128x96x27x27-k5": WEIGHTS_ASKED_FOR,
    },
    "warps-int8": {
        "cuda": (
            "this layer has fewer groups than an H200 has multiprocessors, so part of the chip is idle. Then the "
            "launch and the first loads, which do not shrink with the arithmetic, are a larger share"
        ),
    },
}
