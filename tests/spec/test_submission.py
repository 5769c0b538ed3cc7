"""The head of a submitted kernel: its statements, and what is refused in one line."""

from __future__ import annotations

import json

import pytest

from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.spec.submission import KernelLaunch, Submission, head_for, submission_of

HEAD = """// A kernel of two launches.
// launch roots(r, b, root): width, height - 2; group 32, 8
//  scratch root: float, height * width
// launch add : COUNT
// define TILE = 16
// define W = width
// swap root, g
__kernel void add(__global float *g) {}
"""


def test_a_head_says_launches_scratch_macros_and_swaps() -> None:
    submission = submission_of(HEAD)
    assert submission == Submission(
        (
            KernelLaunch("roots", ("width", "height - 2"), ("32", "8"), ("r", "b", "root")),
            KernelLaunch("add", ("COUNT",)),
        ),
        (("root", "float", "height * width"),),
        (("TILE", "16"), ("W", "width")),
        (("root", "g"),),
    )
    assert Submission.of_data(json.loads(json.dumps(submission.as_data()))) == submission


def test_a_launch_of_an_option_takes_the_place_of_those_of_the_head() -> None:
    submission = submission_of(HEAD, [("launch", "add(root, g): COUNT; group 256"), ("define", "TILE=8")])
    assert submission.launches == (KernelLaunch("add", ("COUNT",), ("256",), ("root", "g")),)
    assert submission.defines == (("TILE", "16"), ("W", "width"), ("TILE", "8"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__kernel void f() {}", "the file does not say how it is launched: write `// launch KERNEL"),
        ("// launch f(r, b)", "is no statement of a kernel's head: write `launch KERNEL"),
        ("// launch f: a, b, c, d", "launch f: one to three sizes"),
        ("// launch f: a, b; group 64", "launch f: one to three sizes, and as many of a group"),
        ("// launch f: a\n// scratch t: float", "`scratch t: float` is no statement"),
        ("// launch f: a\n// scratch t: string, 3", "scratch t: unknown type string; valid: float, "),
        ("// launch f: a\n// define 3 = x", "`define 3 = x` is no statement"),
        ("// launch f: a\n// define X = a;b", "`define X = a;b` is no statement"),
        ("// launch f: a\n// swap a", "`swap a` is no statement"),
    ],
)
def test_a_head_of_another_form_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        submission_of(text)
    assert message in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize("lab", ["cnn", "convpool", "lbm", "lenet", "stencil"])
def test_the_head_to_start_from_is_one_that_can_be_read(lab: str) -> None:
    described = registry.get(lab)
    head = head_for(described, described.cases("test")[0])
    (launch,) = submission_of(head.replace("SIZE", "units")).launches
    assert launch.kernel == "NAME" and set(launch.arguments) >= set(described.output_arrays(described.cases("test")[0]))


def test_a_lab_that_does_not_say_its_outputs_judges_no_kernel() -> None:
    lab = registry.get("peaks")
    with pytest.raises(UsageError, match="lab peaks does not say which arrays"):
        head_for(lab, lab.cases("test")[0])
