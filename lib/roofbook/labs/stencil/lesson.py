"""The lesson of the stencil: while everything waits for memory, only fewer bytes and more loads in flight help."""

from ...spec.lab import Work
from ...spec.lesson import COUNT, LADDER, LAST_ACT, ROOFLINE, Act, Lesson, Question
from ...spec.plan import Case
from . import BYTES_AN_ELEMENT, FLOPS_AN_ELEMENT


def one_pass(case: Case) -> Work:
    """Return the least work of a pass by itself, before the lesson finds out what all passes can share."""
    elements = (case.params["height"] - 2) * case.params["width"]
    return Work(elements * (FLOPS_AN_ELEMENT + 1), elements * BYTES_AN_ELEMENT, elements * BYTES_AN_ELEMENT * 3 / 4)


LESSON = Lesson(
    aims=(
        "count operations and bytes of a loop, and say what bounds it before anything is measured",
        "tell an optimisation that saves instructions from one that saves bytes",
        "write a prediction that a measurement can refute",
    ),
    needs="loops over arrays in C, and that a GPU runs many work-items at once",
    acts=(
        Act(
            4, "The question and the loop",
            "Three grids. In each pass every element of g grows by a root of its neighbours in r and b. Let the class find "
            "out which grids change. The question of the lesson: which usual hints matter for such a loop?",
            "Which grids are read, and which are written? What changes from one pass to the next?",
            "Only g changes. Remember that for the last step.",
            code=(
                "for (pass = 0; pass < PASSES; pass++)\n"
                "  for (i = 1; i < height - 1; i++)\n"
                "    for (j = 0; j < width; j++)\n"
                "      g[i][j] += 1 / sqrt(r[i-1][j] + b[i+1][j]);"
            ),
        ),
        Act(
            8, "Count first",
            "Count together, for one element of one pass: the floats that are read and written, and the operations. Then "
            "show the peaks that we measured on the device.",
            "How many bytes and how many operations does an element take? Does memory or arithmetic bound the pass?",
            "Memory bounds it, and by far. Cheaper arithmetic cannot help, unless the code is much worse than the count.",
            figures=(COUNT,),
        ),
        Act(
            6, "Fewer instructions",
            "The first kernel tests in each work-item whether it is inside the grid. This step removes the test, because the "
            "range covers only inner rows. The report calls it one of its most effective steps.",
            "How many times as fast is the kernel without the test? Write down a number, and why.",
            "Two comparisons hide behind three loads. A hint from another device, or another year, is a hypothesis.",
            step="no-ifs",
        ),
        Act(
            6, "Local memory",
            "Local memory is on the chip and close to the work-items. This step copies the three elements there first. A "
            "barrier makes the copies visible to the group.",
            "Faster, slower or the same? How often is each element read in one pass?",
            "No element is read twice in a pass, so there is nothing to share. Local memory pays only for reuse.",
            step="local-memory",
        ),
        Act(
            7, "More loads in flight",
            "Memory answers late, but it can answer many requests at once. It reaches its full rate only if enough bytes are "
            "under way. Now a work-item has two elements in place of one.",
            "The bytes are the same. Can the kernel still become faster?",
            "On a GPU each work-item now has twice the loads under way. Ask what happens with four, eight and sixteen "
            "elements.",
            step="tasks-2",
        ),
        Act(
            8, "Fewer bytes",
            "Go back to the first answer: r and b never change. Then the root is the same in every pass. This step computes "
            "it once, and adds it once for each pass, in one kernel.",
            "How many times as fast is one kernel for all passes? Name an upper limit first.",
            "The limit is the number of passes, since each pass moves the same bytes. The additions stay, and stay in order.",
            step="fused",
        ),
        Act(
            6, "The whole way",
            "Show the ladder as a descent, then the roofline. Each point is a step.",
            "Which steps moved the point on the roofline upwards, and which moved it to the right?",
            "Steps with more loads in flight go up to the roof. The fused step goes right: it does more for each byte.",
            figures=(LADDER, ROOFLINE),
        ),
        LAST_ACT,
    ),
    questions=(
        Question(
            "Why does a cheaper root hardly matter here?",
            "Its instructions run while the kernel waits for memory. It matters only as far as the code for the root was so "
            "long that memory was not yet the limit.",
            "native-rsqrt",
        ),
        Question(
            "When would local memory pay in a stencil?",
            "If neighbouring work-items read the same elements, and no cache serves them already. A stencil that adds five "
            "neighbours of one grid has such reuse.",
        ),
        Question(
            "Wider types load more with each instruction. Why do the widest ones lose on a GPU?",
            "A work-item then needs more registers, and neighbouring work-items no longer read neighbouring addresses in one "
            "request.",
            "float16",
        ),
        Question(
            "Could the passes be fused if r changed in each pass?",
            "Not like this: the root would differ in each pass. One would need tiles with a halo, and compute some elements "
            "twice.",
        ),
        Question(
            "A friend reports that a kernel reaches more than the measured bandwidth. What do you ask?",
            "Whether the grids fit into a cache, and whether all bytes are still moved. A fused kernel moves fewer bytes "
            "than the count for single passes.",
        ),
    ),
    work=one_pass,
)  # fmt: skip
