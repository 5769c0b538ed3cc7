"""The lesson of the small network: what a profiler shows, and what a caller waits for."""

from ...spec.lesson import COUNT, LADDER, LAST_ACT, ROOFLINE, Act, Lesson, Question

LESSON = Lesson(
    aims=(
        "tell the time of a kernel from the time that a caller waits",
        "predict which optimisation a cache has already made for you",
        "design a measurement so that it includes the copies",
    ),
    needs="convolution as a sum over taps, and that a GPU has a memory of its own",
    acts=(
        Act(
            4, "The question and the loop",
            "Small images pass through two convolutions. The report measures two times: op time, of the kernels, and layer "
            "time, the whole wait of a caller. Which of the usual optimisations does a caller notice?",
            "Name everything that happens between the call and the result.",
            "Memory is reserved, images are copied, kernels run, maps are copied back. Only one of these is the kernel.",
            code=(
                "layer(images) {\n"
                "  reserve memory on the device;\n"
                "  copy the images to the device;\n"
                "  convolve, ReLU, pool;      // op time\n"
                "  copy the maps back;\n"
                "}                            // layer time"
            ),
        ),
        Act(
            7, "Count first",
            "Count multiply-adds and bytes of the convolutions together. Then show the peaks that we measured.",
            "What bounds the kernels? How long does a copy of the same images take over a link that is much slower than the "
            "memory?",
            "Arithmetic bounds them, once operands come from registers. A caller may wait for the link all the same.",
            figures=(COUNT,),
        ),
        Act(
            6, "Weights in constant memory",
            "All work-items of a group read the same weight at the same time. A constant cache sends it to all of them at "
            "once. By the count of loads this halves the time.",
            "Does halving the loads halve the time? Give a number.",
            "A load that hits the cache was cheap already. Counting loads tells the limit of a gain, not the gain.",
            step="constant",
        ),
        Act(
            7, "Inputs in local memory",
            "Neighbouring work-items read the same inputs. The step copies them to local memory first, channel by channel.",
            "Faster, slower or the same? Who served these reads before?",
            "A cache served them. On this GPU local memory is part of the same cache, so a read from it costs as much.",
            step="tiled",
        ),
        Act(
            8, "Outputs in registers",
            "A work-item now keeps dozens of outputs in registers, in a shape for each layer. An input that it loads is used "
            "for several filters, a weight for several pixels.",
            "How many loads are left for each multiply-add? How many times as fast is the kernel?",
            "Now arithmetic bounds it. The gain is the number of uses of each load, not the place it comes from.",
            step="registers",
        ),
        Act(
            7, "What the caller waits for",
            "Streams let copies of one part of the batch run beside kernels of another. But memory that can move must be "
            "copied twice. This step locks the host's memory in place.",
            "Both variants have the same kernels. How many times as fast is the one with locked memory?",
            "The device copies by itself now, in both directions at once. Only then do copies and kernels overlap.",
            step="pinned",
        ),
        Act(
            6, "The whole way",
            "Show the ladder as a descent, then the roofline. Each point is a step.",
            "Which points are slower although their kernels are the same? What do their times include?",
            "In variants with streams kernels wait for copies, so their op time grows while a caller may wait less.",
            figures=(LADDER, ROOFLINE),
        ),
        LAST_ACT,
    ),
    questions=(
        Question(
            "A profiler says that a kernel is three times as fast. Why may no user notice?",
            "The kernel may be a small part of the wait. The rest, copies and launches, is as long as before.",
        ),
        Question(
            "Unrolling the input into a matrix makes the convolution a matrix product. Why is it slower here?",
            "Each input is written as often as there are taps, and read again. No gain of the product pays for these bytes.",
            "unrolled",
        ),
        Question(
            "Adding channels in parallel needs atomic operations. Why does it lose?",
            "Each output is then read and written several times, and the work-items wait for each other. There was enough "
            "parallel work without it.",
            "linear-atomic",
        ),
        Question(
            "The launches are recorded as a graph here, too. Why does it bring nothing?",
            "Each kernel takes longer than a launch, so the next one is already in the queue.",
            "graph",
        ),
        Question(
            "How would you measure the time that a caller notices?",
            "By the host's clock, from before the first copy to after the last one, with the device idle at the start and "
            "the end.",
        ),
    ),
)  # fmt: skip
