"""The exercises of the small network: the gain of registers, the number of queues, and three kernels to write."""

from ...spec.exercise import Exercises, Predict, Turn, Write

EXERCISES = Exercises(
    predict=(
        Predict(
            "registers", "joint",
            "A work-item keeps a block of outputs in registers, so that each number that it reads from local memory is used "
            "for several of them.",
        ),
    ),
    turn=(
        Turn(
            "queues", "Over how many queues should copies and kernels be spread?",
            "Copies of one queue overlap kernels of another. Once the link is always busy, one more queue gains nothing.",
        ),
    ),
    write=(
        Write(
            "direct", "constant",
            "Convolve directly: one work-item computes one pixel of a filter's map.",
            "Add to sum, over all channels c and taps p, q of 7 x 7, weights[m][c][p][q] times x[image][c][h + p][w + q]. "
            "x has SIZE rows and columns, and CHANNELS channels an image. The arrays lie in the order of these indices, "
            "the last one fastest.",
            cut=("for (int c = 0; c <=", ""),
            plan_knobs=("CHANNELS", "FILTERS", "SIZE"),
            cases=("batch-3", "batch-1", "batch-17"),
        ),
        Write(
            "tiled", "tiled-constant",
            "Copy a tile of the input and its halo to local memory, together with the other work-items of the group.",
            "tile has 2 * 17 + 7 - 1 rows of as many columns. Its first element is x[image][c][h0][w0], and what lies "
            "outside of the SIZE x SIZE input is zero. The group has 17 x 17 work-items; this one is at (row, column). All "
            "elements must be written; each work-item takes every seventeenth row and column.",
            cut=("for (int h = row; h <", ""),
            plan_knobs=("CHANNELS", "FILTERS", "SIZE"),
            cases=("batch-3", "batch-1"),
        ),
        Write(
            "fused", "fused-constant",
            "Multiply tile by tile, and read the unrolled input from the input itself: its matrix is never written.",
            "sum is row m of the weights, FILTERS x (CHANNELS * 7 * 7), times column `pixel` of the unrolled input. A group "
            "goes through the products 16 at a time. Work-item (row, column) copies one number of each: to left the weight of "
            "filter m at k0 + column, to right x[image][c][h + p][w + q], and 0 where m, k0 + column, k or pixel lies outside. "
            "Wait for the others, then add 16 products to sum. x has SIZE rows and columns.",
            cut=("left[row * 16 + column] =", "for (int i = 0; i < 16; i++) sum"),
            plan_knobs=("CHANNELS", "FILTERS", "SIZE"),
            cases=("batch-3", "batch-1", "batch-17"),
        ),
    ),
)  # fmt: skip
