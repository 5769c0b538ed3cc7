"""The exercises of lattice Boltzmann: the cost of waiting for each step, the shape of groups, and three kernels to write."""

from ...spec.exercise import BODY, Exercises, Predict, Turn, Write

EXERCISES = Exercises(
    predict=(
        Predict(
            "kept-partials", "tree",
            "The host no longer waits for the sums of every step: they stay on the device until the end.",
        ),
    ),
    turn=(
        Turn(
            "wg", "Which shape of work-group suits a grid that is stored row by row?",
            "Neighbouring work-items should read neighbouring cells: a narrow group uses only a part of each fetched line.",
        ),
    ),
    write=(
        Write(
            "propagate", "no-finish",
            "Let the populations of all cells move to their neighbours, on a grid without edges.",
            "Cell i at (x, y) has nine populations, from[i * 9] to from[i * 9 + 8]: at rest; moving east, north, west, "
            "south; moving north-east, north-west, south-west, south-east. Write to[] what arrives in this cell: "
            "population 1 comes from the cell to the west, and so on. Behind the last column or row follows the first.",
            cut=("const int north = (y + 1)", "= from[(north * nx + west)"),
            cases=("40x24", "128x128"),
        ),
        Write(
            "rebound", "no-finish",
            "Send the populations that have arrived in a solid cell back to where they came from.",
            "Find this work-item's cell (x, y) = (GLOBAL_ID(0), GLOBAL_ID(1)) of nx by ny cells, number y * nx + x. If "
            "obstacles[] is not zero there, write to to[] the populations of from[] with opposite directions exchanged: 1 "
            "and 3, 2 and 4, 5 and 7, 6 and 8. A cell has nine populations, one after another. Other cells stay as they "
            "are.",
            cut=("KERNEL void rebound(", BODY),
            cases=("40x24", "128x128"),
        ),
        Write(
            "tree", "tree",
            "Add up the speeds of a work-group as a tree, in local memory.",
            "speeds[0] to speeds[GROUP_SIZE - 1] hold a number of each work-item, and all have been written. Leave their "
            "sum in speeds[0]. GROUP_SIZE is a power of two. All work-items of a group must reach every BARRIER().",
            cut=("for (int reach =", ""),
            plan_knobs=("GROUP_SIZE",),
            cases=("40x24", "128x128"),
        ),
    ),
)  # fmt: skip
