"""The techniques of each step of the stencil: what it changes over its parent."""

from ...spec.techniques import OTHER_COMPILER, START

TAGS = {
    "checked": "mapping",
    "no-ifs": "branches",
    "compiled-sizes": "constants",
    "rsqrt": "less-arithmetic",
    "native-rsqrt": "native-functions",
    "local-memory": "staging",
    "local-memory-tasks-2": "register-tiling",
    "tasks-2": "register-tiling",
    "tasks-4": "register-tiling",
    "tasks-8": "register-tiling",
    "tasks-16": "register-tiling",
    "flat": "indexing",
    "float2": "vectors",
    "float4": "vectors",
    "float8": "vectors",
    "float16": "vectors",
    "fused": "fusion",
    "fused-float16": "vectors",
    "streams": "mapping vectors",
}

UNTAGGED = {"sequential": START, "sequential-c": OTHER_COMPILER}
