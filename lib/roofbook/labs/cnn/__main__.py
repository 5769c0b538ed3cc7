"""The course's program with the lab's kernels: python -m roofbook.labs.cnn DIR reads and writes the course's files."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence

from ..course_program import Parser, exit_code
from . import course
from .problem import course_wrong, error_over_bound, reference


def _parser() -> Parser:
    parser = Parser(
        prog="python -m roofbook.labs.cnn",
        description="Run a convolution layer, with bias, ReLU and 2x2 maximum pool, from the course's files on one device.",
        epilog="Writes DIR/output.bin, in the format of the course's own program.",
    )
    parser.add_argument("folder", metavar="DIR", help="a folder with input.bin, weight.bin and bias.bin")
    parser.add_argument("--device", default="auto", help="auto, opencl:0, cuda:0, ... (default: %(default)s)")
    parser.add_argument("--variant", help="a variant of the lab's ladder (default: the fastest known for the device)")
    parser.add_argument("--kernel", type=int, default=5, help="side of the kernel in weight.bin (default: %(default)s)")
    parser.add_argument(
        "--check", action="store_true", help="compare with a float64 reference and by the course's check"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code, as `exit_code` does."""
    return exit_code(_parser, _run, argv)


def _run(arguments: argparse.Namespace) -> None:
    layer, x, weight, bias = course.read(arguments.folder, arguments.kernel)

    from . import forward

    start = time.perf_counter()
    out = forward(arguments.device, arguments.variant, layer, x, weight, bias)
    elapsed = time.perf_counter() - start
    print(f"Layer:    {layer.name}, {layer.flops / 1e9:.4g} GFLOP")
    print(f"Time:     {elapsed:.6f} s, one cold call with copies and build")
    print(f"Rate:     {layer.flops / 1e9 / elapsed:.4g} GFLOP/s, of that call")
    if arguments.check:
        right = reference(layer, x, weight, bias)
        print(f"Error:    {error_over_bound(out, right, layer):.3g} of the tolerance for fp32, at most")
        print(f"Course:   {course_wrong(out, right['out'])} of {out.size} outputs wrong by its check")
    print(f"Written:  {course.write_output(arguments.folder, out)}")


if __name__ == "__main__":
    os._exit(main())  # a Ctrl-C while Python shuts down would change the exit code
