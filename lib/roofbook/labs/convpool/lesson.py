"""The lesson of sparse convolution: fewer products are not always faster."""

from ...spec.lesson import COUNT, LADDER, LAST_ACT, ROOFLINE, Act, Lesson, Question

LESSON = Lesson(
    aims=(
        "say what it costs to leave out a product: a list, an address, a branch",
        "compare a sparse and a dense kernel by what each of them waits for",
        "explain why hardware for dense products can beat a few scattered ones",
    ),
    needs="convolution as a sum over taps, and that work-items of a group run in step",
    acts=(
        Act(
            4, "The question and the loop",
            "A layer of a network whose weights are mostly zero: each slice of a filter has one weight that is not. The "
            "plain loops multiply by all of them. When is it faster to leave out the zeros?",
            "What share of the products is useful? What must a program know to skip the others?",
            "It must know where the other weights are. Somebody has to find that out, store it, and read it.",
            code=(
                "for (f = 0; f < filters; f++)\n"
                "  for (y = 0; y < height; y++)\n"
                "    for (x = 0; x < width; x++) {\n"
                "      sum = 0;\n"
                "      for (c = 0; c < channels; c++)\n"
                "        for (p = 0; p < K; p++)\n"
                "          for (q = 0; q < K; q++)\n"
                "            sum += weight[f][c][p][q] * input[c][y+p][x+q];   // the weight is mostly 0\n"
                "      ...            // ReLU, pooling\n"
                "    }"
            ),
        ),
        Act(
            7, "Count first",
            "Count the products with and without the zeros, and the bytes. Then show the peaks that we measured.",
            "If only products counted, how many times as fast would lists be? What else will count?",
            "The bytes are the same, and each entry of a list is read, decoded and used as an address.",
            figures=(COUNT,),
        ),
        Act(
            6, "The compiler's share",
            "Still every product, zeros included. The step only unrolls the loops over the taps.",
            "The products are the same. How many times as fast is it?",
            "Comparisons and indices took much of the time. So the base was not bound by its products.",
            step="unrolled",
        ),
        Act(
            8, "Lists of weights",
            "A group writes position and value of each useful weight into a list in local memory. Then all work-items walk "
            "the same list, each for its own pixel.",
            "How many times as fast as the kernel with all products? Give a number, and its upper limit.",
            "The gain is less than the share of zeros promises. The list is built by each group again, and every entry costs "
            "an address.",
            step="lists",
        ),
        Act(
            7, "The input, too?",
            "The report then tried to copy the input to local memory as well, one channel at a time. Two barriers for each "
            "channel are new.",
            "How often is an input used by one group? Faster, slower or the same?",
            "With one product for each pixel and channel there is little to share. The report gave this step up, and so do "
            "we.",
            step="input-in-local",
        ),
        Act(
            7, "All products again",
            "Tensor cores multiply whole tiles of bytes, zeros included. The sums are exact integers. The step before it "
            "multiplies all products one by one, from registers.",
            "Every product, also those with zeros, on hardware that is made for products. Who wins?",
            "The tensor cores do many times more products in a second. Dense and regular wins over few and scattered, here.",
            step="tensor-int8",
        ),
        Act(
            6, "The whole way",
            "Show the ladder as a descent, then the roofline. Each point is a step.",
            "Find the fastest kernel that leaves out zeros, and the fastest that does not.",
            "Both kinds gained much where operands came into registers. The share of zeros decides who is ahead.",
            figures=(LADDER, ROOFLINE),
        ),
        LAST_ACT,
    ),
    questions=(
        Question(
            "Why do all work-items of a group walk the same list?",
            "So they run in step: each has the same number of products, and no lane waits for another. Lists of different "
            "length for each lane would leave lanes idle.",
        ),
        Question(
            "The lists can be built once, by a kernel of its own. When does that not pay?",
            "If the layer is small. The kernel is one more launch, and each work-item then owns more outputs, so fewer of "
            "them fill the chip.",
            "built-lists",
        ),
        Question(
            "Why does a list's kernel gain so much from sixteen outputs in registers?",
            "Each entry is read and decoded once, and then used for sixteen products.",
            "strips",
        ),
        Question(
            "Is it worth while to skip zero inputs as well?",
            "Products become fewer still, but each is added at its own address. It depends on the share of zeros and on what "
            "one entry costs.",
            "both-sparse",
        ),
        Question(
            "The results are integers. Why does the book accept no error at all here?",
            "Sums of integers are exact in any order, unless they overflow. So any difference is a mistake.",
        ),
        Question(
            "On a small layer `tensor-parts` takes a few microseconds. What would faster products bring?",
            "Take the products out and time the rest. `tensor-no-products` still fetches all operands and exchanges sums; "
            "`tensor-launch` starts the same blocks, which only store zeros. Faster products bring no more than the first "
            "probe saves. The second shows what these blocks cost before any work: most of what it takes is a launch, which "
            "an empty kernel needs as well.",
            probes=("tensor-no-products", "tensor-launch"),
        ),
    ),
)  # fmt: skip
