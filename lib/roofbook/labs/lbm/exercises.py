"""The exercises of lattice Boltzmann: the cost of waiting for each step, the shape of work-groups, and the sum of a group."""

from ...spec.exercise import Exercises, Predict, Turn, Write

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
