"""Programs beside the ladder, as rows of its tables: C with OpenMP and with OpenACC, the course's own, lbmpy and JAX."""

from ...spec.lab import Variant
from . import openacc, peers, plans, sharded

PEERS = (
    Variant(
        "openmp", None, None, plans.Native, "C + OpenMP, fused and vectorised, all cores.", "What a CPU can do without OpenCL.",
        needs=frozenset({"host"}), role="peer", options={"program": "OpenMP"}, published="OpenMP on CPU",
    ),
    Variant(
        "given-c", None, None, plans.Native, "The course's own program in C, one thread.",
        "Where the course starts. The report began a step further.",
        needs=frozenset({"host"}), role="peer", options={"program": "Given"},
    ),
    Variant(
        "openacc", None, None, openacc.OpenAcc,
        "C with OpenACC, by GCC: on the GPU where the device is one, on one core where it is a CPU.",
        "What directives on plain loops bring, without a kernel.",
        role="peer", published="OpenACC",
    ),
    Variant(
        "lbmpy-cpu", None, None, peers.OnCpu, "lbmpy on the CPU: two grids, explicit vectors, all cores.",
        "The same time step from a generator of lattice Boltzmann kernels.",
        needs=frozenset({"host"}), role="peer",
    ),
    Variant(
        "lbmpy", None, None, peers.OnGpu, "lbmpy: one grid (esoteric push), all time steps as one CUDA graph.",
        "The same time step from a generator of lattice Boltzmann kernels.",
        needs=frozenset({"cupy"}), role="peer", options={"pattern": "esopush", "block": (64, 4)},
    ),
    Variant(
        "lbmpy-bare", None, None, peers.OnGpu,
        "lbmpy, one grid (AA pattern), a CUDA graph: stream and collide only, no obstacles, no drive, no mean speeds.",
        "Less than the problem, but what such libraries are usually timed on.",
        needs=frozenset({"cupy"}), role="peer", options={"pattern": "aa", "block": (512, 1), "bare": True},
    ),
    Variant(
        "jax-cpu", None, None, sharded.Jax, "JAX on the CPU: array operations, compiled by XLA as one program.",
        "The same time step as a physicist writes it down.",
        needs=frozenset({"host"}), role="peer",
    ),
    Variant(
        "jax", None, None, sharded.Jax, "JAX: array operations, all time steps as one program, compiled by XLA.",
        "The same time step as a physicist writes it down.",
        needs=frozenset({"cupy"}), role="peer", options={"devices": 1},
    ),
    Variant(
        "jax-sharded", None, None, sharded.Jax,
        "JAX on two devices, half of the rows each: XLA exchanges their outermost rows in each step.",
        "What a library for several devices makes of it.",
        needs=frozenset({"cupy", "several"}), role="peer", options={"devices": 2},
    ),
)  # fmt: skip
