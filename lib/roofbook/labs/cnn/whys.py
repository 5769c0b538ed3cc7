"""Causes of effects that refuted a step's prediction, by step and by scope, as `predictions.Whys` has them.

They belong to the predictions of ladder.py: a test names each refuted step of the default view without a cause.
"""

from collections.abc import Mapping

WHYS: Mapping[str, Mapping[str, str]] = {
    "zeroed": {
        "cuda": (
            "we do not know. NVRTC's loop over the taps has the same loads and multiply-adds for both, and as many "
            "groups fit. The counters for the reasons of stalls, by `roofbook profile`, would tell where the one per "
            "cent comes from"
        ),
    },
    "bf16-dots": {
        "cpu": (
            "on the processor on record the instruction is slow: among its peaks, dot products of bf16 have fewer FLOP/s "
            "than multiply-adds in fp32. `amx-bf16` has the rate that is missing here"
        ),
    },
    "tensor-turns-bf16": {
        "cuda": (
            "we do not know. Grid, registers, shared memory and the recorded clock are those of fp16. The multipliers "
            "have fewer digits to switch, so they may draw less power, and the clock may fall less within a kernel "
            "than a reading between kernels shows. A clock that is read inside the kernel would tell"
        ),
    },
    "tensor-bf16": {
        "cuda": (
            "we do not know. Grid, registers and shared memory are those of fp16. A clock that is read inside the "
            "kernel would tell whether it falls less, since the multipliers have fewer digits to switch"
        ),
    },
    "tensor-persistent": {
        "cuda": (
            "we do not know. It saves starting groups; on this larger layer each group has more to do, so the saving "
            "is a smaller share. A trace of when groups start and end would tell how large it is"
        ),
    },
    "tensor-window": {
        "cuda": (
            "we do not know. Counters of the bytes that arrive in shared memory, by `roofbook profile`, would tell "
            "whether the step before it still waited for any"
        ),
    },
}
