"""The lesson of the convolution layer: arithmetic is cheap, feeding it is not."""

from ...spec.lesson import COUNT, LADDER, LAST_ACT, ROOFLINE, Act, Lesson, Question

LESSON = Lesson(
    aims=(
        "count the loads that each multiply-add needs, and say why a kernel misses the arithmetic peak",
        "explain why registers need indices that are known to the compiler",
        "say what a step to tensor cores gains, and what it costs in precision",
    ),
    needs="convolution as a sum over taps, and that registers are faster than any memory",
    acts=(
        Act(
            4, "The question and the loop",
            "One layer of a network: convolution, bias, ReLU, pooling. The loop nest is short, and almost all of its time is "
            "in the innermost line. What keeps it from the arithmetic peak of the device?",
            "How many loads does the innermost line do, and how many multiply-adds?",
            "Two loads for one multiply-add. No device loads as fast as it multiplies.",
            code=(
                "for (f = 0; f < filters; f++)\n"
                "  for (y = 0; y < height; y++)\n"
                "    for (x = 0; x < width; x++) {\n"
                "      sum = 0;\n"
                "      for (c = 0; c < channels; c++)\n"
                "        for (p = 0; p < K; p++)\n"
                "          for (q = 0; q < K; q++)\n"
                "            sum += weight[f][c][p][q] * input[c][y+p][x+q];\n"
                "      ...                               // bias, ReLU, pooling\n"
                "    }"
            ),
        ),
        Act(
            7, "Count first",
            "Count operations and bytes of the layer together. Then show the peaks that we measured, also those of the "
            "tensor cores.",
            "Where does the layer lie on a roofline? What bounds it, and what is the shortest possible time?",
            "It lies far right of the ridge: arithmetic bounds it. So each step has to be about feeding the arithmetic.",
            figures=(COUNT,),
        ),
        Act(
            7, "Into registers",
            "A work-item computes a block of outputs, and should keep them in registers. But one loop selects the register "
            "by a number that is known only at run time. The step unrolls this loop.",
            "Can registers be indexed? How much does it bring to write the loop out?",
            "Registers have no addresses. With constant indices the block moves from memory into registers.",
            step="unrolled",
        ),
        Act(
            7, "Local memory",
            "Neighbouring work-items read the same inputs. The step copies these inputs to local memory and reads them "
            "there. Two barriers for each channel keep the group together.",
            "Faster, slower or the same? Who served these reads before?",
            "A cache served them already. The loads became no fewer, and barriers were added.",
            step="local-tile",
        ),
        Act(
            8, "Let each load serve more",
            "The layer becomes a matrix product that is never written to memory. A work-item has a square of filters by "
            "pixels, so each operand that it loads is used many times.",
            "A work-item keeps a square of outputs. How do loads and multiply-adds grow with the side of the square?",
            "Loads grow with the side, multiply-adds with its square. That ratio decides, far more than where the data lies.",
            step="implicit-gemm",
        ),
        Act(
            6, "Another kind of arithmetic",
            "Tensor cores multiply whole tiles. They take operands of half precision, and add in single precision.",
            "Compare the two peaks: what is the largest possible gain? What will keep the kernel from it?",
            "The tiles do not arrive in time. And the error grows: is the result still good enough for its use?",
            step="tensor-fp16",
        ),
        Act(
            6, "The whole way",
            "Show the ladder as a descent, then the roofline. Each point is a step.",
            "Which steps jump, and what do these steps have in common?",
            "Each jump lets a load serve more multiply-adds, or changes the arithmetic. The other steps polish.",
            figures=(LADDER, ROOFLINE),
        ),
        LAST_ACT,
    ),
    questions=(
        Question(
            "Moving the loops over the taps outside makes each load serve many outputs. Why can that alone be slower?",
            "The block of outputs is then indexed at run time, so it lies in memory. Each multiply-add reads and writes it "
            "there.",
            "permuted",
        ),
        Question(
            "Why do bias, ReLU and pooling hardly matter?",
            "They are a few operations for each output. The convolution does hundreds or thousands for it.",
        ),
        Question(
            "One kernel hides the load of the next channel behind the arithmetic of this one. Why is the gain small?",
            "Several groups share a multiprocessor. While one waits, another already computes.",
            "double-buffered",
        ),
        Question(
            "How can tensor cores compute a product in almost single precision?",
            "Each operand is split into a large and a small part of half precision. The products of these parts are added, "
            "which takes several times the work.",
            "tensor-split",
        ),
        Question(
            "The report searched many sizes of work-groups. Why does no size repair a kernel that loads twice for each "
            "product?",
            "A size changes how many work-items share a cache, but not the number of loads for each multiply-add.",
        ),
    ),
)  # fmt: skip
