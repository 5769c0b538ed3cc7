"""A vector plus a multiple of another (made up for the tests): from one work-item to one an element."""

from roofbook.spec.kernel_lab import KernelLab, Step
from roofbook.spec.prediction import FASTER


class Saxpy(KernelLab):
    scales = {"test": [1000], "published": [1 << 22]}
    reads = {"x": "n", "y": "n"}
    writes = {"out": "n"}
    scalars = {"a": 1.5}
    varies = {"group": [32, 128, 256]}
    steps = (
        Step("sequential", None, "One work-item walks all elements.", "The baseline: one core."),
        Step("parallel", "sequential", "A work-item for each element.", "All cores work, until memory is full.", FASTER,
             defines={"WALK": "EACH"}, work_items="n", published="one thread an element"),
    )  # fmt: skip

    def compute(self, x, y, a):
        return {"out": a * x + y}

    def operations(self, n):
        return 2 * n


LAB = Saxpy()
