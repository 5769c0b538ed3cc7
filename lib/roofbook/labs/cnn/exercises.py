"""The exercises of the convolution layer: the gain of a shared tile, the size of work-groups, and the reordered loops."""

from ...spec.exercise import Exercises, Predict, Turn, Write

EXERCISES = Exercises(
    predict=(
        Predict(
            "implicit-gemm", "fissioned",
            "On a GPU, a group reads each operand into local memory once for a whole tile; in the other kernel each work-item "
            "reads its own. A CPU's cache shares operands anyway, and barriers cost it time.",
        ),
    ),
    turn=(
        Turn(
            "space", "Which local size suits a fixed global size? A point is the global size, a slash, and the local size.",
            "On a GPU a group of one work-item leaves the other lanes of its warp idle.",
            at="64x112x16/.*",
        ),
    ),
    write=(
        Write(
            "permuted", "permuted",
            "Convolve with the loops over channels and filter taps outside, so that the inner loops run over the sub-tile.",
            "c[i][h][w] holds the sums of the sub-tile at i0, h0, w0. To each of them add, over all channels j and taps p, q, "
            "weight[filter][channel][p][q] times x[channel][row + p][column + q]. x has HEIGHT + TAPS - 1 rows of "
            "WIDTH + TAPS - 1 columns.",
            cut=("for (int j = 0; j < CHANNELS", ""),
            plan_knobs=("CHANNELS", "HEIGHT", "WIDTH", "TAPS"),
            cases=("16ch-16x28-k5", "3to16ch-32x28-k3", "5to32ch-16x56-k1"),
        ),
    ),
)  # fmt: skip
