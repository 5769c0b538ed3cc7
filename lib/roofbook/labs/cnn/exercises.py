"""The exercises of the convolution layer: the gain of a shared tile, the size of work-groups, and three kernels to write."""

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
            "pool", "fissioned",
            "Pool the sub-tile: each output is the largest of a window of 2 by 2 values.",
            "c[i][h][w] holds the values of filter i0 + i, row h0 + h and column w0 + w, after ReLU. Of each window of two "
            "rows and two columns write the largest to out[filter][row / 2][column / 2], whose maps have HEIGHT / 2 rows "
            "of WIDTH / 2 columns.",
            cut=("h += 2)", ""),
            plan_knobs=("CHANNELS", "HEIGHT", "WIDTH", "TAPS"),
            cases=("16ch-16x28-k5", "3to16ch-32x28-k3"),
        ),
        Write(
            "local-tile", "local-tile",
            "Copy a channel's part of the input to local memory, together with the other work-items of the group.",
            "The tile has 14 * LOCAL_2 + TAPS - 1 columns, and begins in row GROUP_ID(1) * LOCAL_1 * 2 and column "
            "GROUP_ID(2) * LOCAL_2 * 14 of channel j. x[channel][row][column] has HEIGHT + TAPS - 1 rows of WIDTH + TAPS - "
            "1 columns. The group has LOCAL_0 * LOCAL_1 * LOCAL_2 work-items, of which this one is number lane.",
            cut=("for (int k = lane; k <", ""),
            plan_knobs=("CHANNELS", "HEIGHT", "WIDTH", "TAPS", "LOCAL_0", "LOCAL_1", "LOCAL_2"),
            cases=("3to16ch-32x28-k3", "16ch-16x28-k5"),
        ),
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
