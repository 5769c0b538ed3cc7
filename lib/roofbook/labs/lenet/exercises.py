"""The exercises of the small network: the gain of registers, the number of queues, and a product without its matrix."""

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
