"""The techniques of each step of the sparse layer: what it changes over its parent."""

from ...spec.techniques import OTHER_COMPILER, PROBE, START

TAGS = {
    "row-groups": "mapping fission",
    "filter-groups": "mapping",
    "atomic-pool": "atomics fusion",
    "cached": "cache-hints",
    "uncached": "cache-hints",
    "fast-math": "native-functions",
    "unrolled": "unrolling",
    "shared-index": "indexing",
    "lists": "sparsity",
    "input-in-local": "staging",
    "images": "textures",
    "line-image": "textures",
    "built-lists": "fission fusion register-tiling",
    "vectors": "vectors mapping",
    "cached-channels": "loop-order",
    "vnni-lists": "dot-products narrow-types layout",
    "vnni-lists-prepared": "prepared",
    "strips": "register-tiling staging narrow-types",
    "strips-prepared": "prepared",
    "both-sparse": "sparsity",
    "tiles": "register-tiling staging mapping",
    "tensor-int8": "tensor-cores narrow-types",
    "tensor-prepared": "prepared",
    "tensor-window": "warpgroup-products clusters",
    "tensor-split-k": "clusters mapping",
    "tensor-tall": "mapping",
    "tensor-parts": "clusters mapping layout",
    "tensor-multicast": "clusters",
    "warps-int8": "tensor-cores narrow-types prepared",
    "vnni": "register-tiling -sparsity",
    "amx": "tensor-cores layout",
}

PROBES = ("tensor-no-products", "tensor-launch", "initialisation", "whole-program")
UNTAGGED = {"sequential": START, "sequential-c": OTHER_COMPILER, **dict.fromkeys(PROBES, PROBE)}
