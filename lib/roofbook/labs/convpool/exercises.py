"""The exercises of the sparse convolution: the gain of skipping zeros, the number of maps a filter, three kernels to write."""

from ...spec.exercise import Exercises, Predict, Turn, Write

EXERCISES = Exercises(
    predict=(
        Predict(
            "lists", "filter-groups",
            "The lists skip every product with a zero weight. Building them and reading at their addresses costs some of it.",
        ),
    ),
    turn=(
        Turn(
            "parts", "Among how many maps should the work of a filter be divided, if weights and input are both sparse?",
            "More maps mean more work at a time, until adding them up costs more than it gains.",
        ),
    ),
    write=(
        Write(
            "dense", "filter-groups",
            "Convolve with all weights, zeros included: one group a filter, one work-item a pixel.",
            "Add to sum, over all channels j and taps p, q, weight[first + (j * TAPS + p) * TAPS + q] times x[j][h + p][w "
            "+ q]. x has DEPTH channels of SIZE + TAPS - 1 rows and columns. Sums are exact.",
            cut=("for (int j = 0; j < DEPTH", ""),
            plan_knobs=("DEPTH", "SIZE", "TAPS"),
            cases=("5x7x9x9-k3", "3x2x7x7-k5"),
        ),
        Write(
            "walk", "built-lists",
            "Walk the list of a filter's non-zero weights, and add to the four sums of a pooling window.",
            "Entry n of this slice stands at entries[(slice * TAPS * TAPS + n) * 2]: first how far its input lies behind "
            "that of tap (0, 0), then the weight. The input of tap (0, 0) is x[j][h][w] for upper0; upper1 is one column "
            "on, lower0 one row of SIZE + TAPS - 1, lower1 both.",
            cut=("for (int n = 0; n < count", ""),
            plan_knobs=("DEPTH", "FILTERS", "SIZE", "TAPS"),
            cases=("5x7x9x9-k3", "3x2x7x7-k5", "4x130x6x6-k3"),
        ),
        Write(
            "lists", "lists",
            "Turn a filter's weights into lists of those that are not zero, in local memory.",
            "Of channel turn + k of filter i, look at all TAPS x TAPS weights, which lie one after another in "
            "weight[filter][channel][p][q]. Write each that is not zero to values, from k * TAPS * TAPS on; to places, how far "
            "its input lies behind that of tap (0, 0), in rows of SIZE + TAPS - 1. Write to counts[k] how many there are.",
            cut=("int count = 0;", "counts[k] = count;"),
            plan_knobs=("DEPTH", "SIZE", "TAPS", "LAYERS"),
            cases=("5x7x9x9-k3", "3x2x7x7-k5", "4x130x6x6-k3"),
        ),
    ),
)  # fmt: skip
