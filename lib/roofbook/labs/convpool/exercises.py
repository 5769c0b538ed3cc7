"""The exercises of the sparse convolution: the gain of skipping zeros, the number of maps a filter, and the lists."""

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
