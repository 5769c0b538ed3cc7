"""The lesson of lattice Boltzmann: copies, waits of the host, layout, and at last bytes."""

from ...spec.lesson import ANSWER, COUNT, LADDER, ROOFLINE, Act, Lesson, Question

LESSON = Lesson(
    aims=(
        "tell apart three costs of a step in time: bytes, waits of the host, and launches",
        "predict on which grids an optimisation shows, and on which it does not",
        "read a ladder in which a step can be right on one grid and wrong on another",
    ),
    needs="loops over arrays in C, and that a GPU has a memory of its own",
    acts=(
        Act(
            4, "The question and the loop",
            "A box of fluid on a grid. Nine numbers for each cell travel to its neighbours, bounce off obstacles and relax. "
            "The course's program runs two of five functions on the GPU, and copies the grid there and back in each time "
            "step.",
            "Name everything that costs time in one time step of this program.",
            "Keep the list. Each step of today removes one line of it.",
            code=(
                "for (step = 0; step < steps; step++) {\n"
                "  copy the grid to the device;\n"
                "  accelerate_flow(); propagate();   // on the device\n"
                "  copy the grid back;\n"
                "  rebound(); collision();           // on the host\n"
                "  speeds[step] = av_velocity();     // a sum over all cells\n"
                "}"
            ),
        ),
        Act(
            7, "Count first",
            "Count for one cell: nine floats in, nine floats out, and the operations. Then show the peaks that we measured.",
            "What bounds a large grid? What bounds a grid that fits into a cache, where a step takes microseconds?",
            "Memory bounds the large grid. On the small one the host is slower than the device: launches, arguments, reads.",
            figures=(COUNT,),
        ),
        Act(
            7, "Leave the grid on the device",
            "All five functions become kernels. The grid is copied once, at the start. The host still waits after each "
            "kernel.",
            "How many times as fast is a time step of the largest grid? And of the smallest?",
            "The copies are gone, and all cores work. On the small grid the waits remain, so it gains less.",
            step="ported",
        ),
        Act(
            7, "One kernel, and another layout",
            "A step in between merged four kernels into one. Now the layout changes: one array for each direction, in place "
            "of one structure for each cell. Draw which addresses neighbouring work-items read in both layouts.",
            "Does the new layout pay on each grid?",
            "On a large grid whole cache lines are used. On a small one the host sets more arguments, and that can cost "
            "more.",
            step="soa",
        ),
        Act(
            7, "Stop asking",
            "After each time step the host reads a sum, to record a speed. To read it, the host must wait. This step leaves "
            "the sums on the device until the end.",
            "What does the host do in the meantime, and how much does that bring?",
            "Without the read the host runs ahead, and the queue never is empty. Waits often hide in such harmless reads.",
            step="kept-partials",
        ),
        Act(
            7, "Take the host out of the loop",
            "The launches of many time steps are recorded once, as a graph, and submitted together. Each kernel stays as it "
            "is.",
            "For which grids does this matter? Use the list of the first act.",
            "It matters where a time step is shorter than a launch. On the large grid the kernel already hides the launch.",
            step="graph",
        ),
        Act(
            6, "The whole way",
            "Show the ladder as a descent, then the roofline. Each point is a step.",
            "Where does the descent cross the bound of one pass over memory, and what had to change for that?",
            "Steps below that line take several time steps with each pass over memory, or keep the grid on the chip.",
            figures=(LADDER, ROOFLINE),
        ),
        Act(
            5, "Answer and questions",
            "Read the computed answer together. It gives the share of each step for each grid.",
            "Answer one of these questions on a slip of paper, and hand it in.",
            "Collect the slips. The next lesson can start with the answer that most got wrong.",
            figures=(ANSWER,),
        ),
    ),
    questions=(
        Question(
            "A tree adds the cells of a group in a few rounds, where one work-item needed many additions. Why is that hardly "
            "faster?",
            "The sum was not what the time step waited for. It ran beside loads and launches that take longer.",
            "tree",
        ),
        Question(
            "Why is an in-order queue enough, without a wait after each kernel?",
            "The queue starts a kernel only when the one before it has ended. A wait of the host adds nothing but its own "
            "cost.",
            "no-finish",
        ),
        Question(
            "Why can the same step be faster on a large grid and slower on a small one?",
            "It saves bytes, which the large grid waits for, and it costs the host time, which the small grid waits for.",
            "soa",
        ),
        Question(
            "How can a kernel be faster than the memory bound?",
            "The bound is for one pass over memory in each time step. A kernel that keeps cells on the chip for several time "
            "steps moves fewer bytes, and so has a lower bound.",
        ),
        Question(
            "Storing the populations in half precision halves the bytes. Why can it bring less than a factor of two?",
            "Once the bytes are halved, something else can be the limit: instructions that convert, or the cache.",
            "half-storage",
        ),
        Question(
            "The fastest step of each grid moves few bytes, and its launches are few. What bounds it?",
            "Take one thing out of a kernel and time the rest. Its results are then wrong, so such a kernel is a probe, not a "
            "step. In `deep-halo-no-waits` and `on-chip-no-waits` no group waits for its neighbours: the time that is left is "
            "that of the cells and of sending. In `deep-halo-exchange` no cell is computed: the time that is left is that of "
            "the exchanges. The larger of the two is what to work on.",
            probes=("deep-halo-no-waits", "deep-halo-exchange", "on-chip-no-waits"),
        ),
    ),
)  # fmt: skip
