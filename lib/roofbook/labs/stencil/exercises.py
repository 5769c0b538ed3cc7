"""The exercises of the stencil: the gain of fusing all passes, the shape of work-groups, and three kernels to write."""

from ...spec.exercise import Exercises, Predict, Turn, Write

EXERCISES = Exercises(
    predict=(
        Predict(
            "fused", "float4",
            "One launch goes over the grids once instead of once a pass. Each further pass then costs an element only one sum "
            "in a register.",
        ),
    ),
    turn=(
        Turn(
            "wg", "Which shape of work-group suits a row-major grid?",
            "Neighbouring work-items should read neighbouring addresses. In a group that is one column wide, each work-item "
            "reads another cache line.",
        ),
    ),
    write=(
        Write(
            "checked", "checked",
            "Write the first parallel kernel: one work-item adds to one element, and those outside do nothing.",
            "g[i][j] grows by 1 / SQRT(r[i-1][j] + b[i+1][j]) in all rows but the first and the last. The grids lie row by "
            "row, width elements each. The range is rounded up to whole groups, so i and j can lie outside.",
            cut=("if (i > 0 && i <", "if (i > 0 && i <"),
            cases=("5x13", "7x48", "3x4"),
        ),
        Write(
            "local-memory", "local-memory",
            "Move all that a work-item reads through local memory, and measure whether that pays.",
            "Copy the three elements of this work-item to above[lane], below[lane] and here[lane], wait for the group by "
            "BARRIER(), and write g[i][j] from the copies: here + NATIVE_RSQRT(above + below). The grids have WIDTH "
            "columns.",
            cut=("above[lane] =", "= here[lane] +"),
            plan_knobs=("WIDTH", "GROUP_SIZE"),
            cases=("6x1024", "9x384", "34x128"),
        ),
        Write(
            "fused", "fused",
            "Do all passes in one launch, and go over memory once.",
            "g[i][j] grows by rsqrt(r[i-1][j] + b[i+1][j]) in each of PASSES passes. k counts elements from the first row, "
            "so that r is read at k, g is read and written at k + WIDTH, and b is read at k + 2 * WIDTH. r and b never change. "
            "NATIVE_RSQRT takes a float4.",
            cut=("const float4 root", "*(GLOBAL float4 *)(g + k + WIDTH) = sum"),
            plan_knobs=("WIDTH", "COUNT", "PASSES"),
            cases=("6x1024", "7x48", "3x4", "34x100"),
        ),
    ),
)  # fmt: skip
