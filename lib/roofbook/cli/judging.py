"""Commands that judge kernels of others."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import strict_json
from ..errors import UsageError
from ..terminal import say
from .app import DEVICE, KNOWN_LAB, RESULTS, SANDBOX, UserPath, app

if TYPE_CHECKING:
    from ..spec.lab import Lab


@app.command()
@KNOWN_LAB
@click.argument("file", required=False, type=UserPath(allow_dash=True))
@click.option(
    "--case",
    multiple=True,
    help="A case that is judged and timed; may be repeated.  [default: the first of the scale quick]",
)
@click.option("--launch", multiple=True, metavar="WORDS", help="A launch, in the words of the head; may be repeated.")
@click.option("--scratch", multiple=True, metavar="WORDS", help="An array of the kernels' own; may be repeated.")
@click.option("--define", multiple=True, metavar="NAME=VALUE", help="A macro; may be repeated.")
@click.option("--swap", multiple=True, metavar="ARRAY,ARRAY", help="Arrays that each unit exchanges; may be repeated.")
@click.option("--time/--no-time", default=True, show_default=True, help="Time a right one beside others.")
@click.option("--log", "with_log", is_flag=True, help="Print the compiler's messages too, on standard error.")
@SANDBOX
@click.option("--json", "as_json", is_flag=True, help="Print the judgement as JSON.")
@DEVICE
@RESULTS
def judge(
    lab: "Lab",
    file: Path | None,
    case: tuple[str, ...],
    launch: tuple[str, ...],
    scratch: tuple[str, ...],
    define: tuple[str, ...],
    swap: tuple[str, ...],
    time: bool,
    with_log: bool,
    sandbox: bool | None,
    as_json: bool,
    device: str,
    results: str,
) -> None:
    """Judge a kernel of yours: is it right, and how fast?

    FILE is OpenCL C (.cl), CUDA C++ (.cu) or the book's dialect (.k). Its head, or options, say how it is launched; without
    FILE, the command prints the arrays and numbers that a kernel may use, and a head. The kernel runs on secret inputs of
    several sizes. A right one is timed in turns with the fastest step and library that the store knows for the device. The exit
    code is 0 if it is right, 1 if it is wrong on any case, and 2 if it cannot be built.

    A kernel runs with the rights of your account: see the page "A stranger's kernel", book/strangers-kernel.md.

    \b
      roofbook judge stencil
      roofbook judge stencil my.cl
    """
    from ..analysis.opponents import least_seconds, opponents
    from ..devices.backends import with_features
    from ..devices.find import open_device
    from ..measure.answer import Mark, task_of_submission
    from ..measure.answer import judge as judge_kernel
    from ..measure.sandbox import sandbox as sandbox_if
    from ..paths import project_root
    from ..report import judgement
    from ..spec.answer_file import read_answer
    from ..spec.submission import SUFFIXES, SubmittedText, head_for, submission_of
    from ..store.parquet import Store
    from ..store.storage import located

    lab.prepare()
    timed_cases = [lab.case(name) for name in dict.fromkeys(case)] or lab.cases("quick")[:1]
    if file is None:
        print(head_for(lab, timed_cases[0]))
        return
    kernel_text = read_answer(file)
    suffix = file.suffix if str(file) != "-" else ".k"
    if suffix not in SUFFIXES:
        endings = ", ".join(f"{ending} for {language}" for ending, language in SUFFIXES.items())
        raise UsageError(f"{kernel_text.name}: the ending names the language: {endings}")
    options = {"launch": launch, "scratch": scratch, "define": define, "swap": swap}
    submission = submission_of(kernel_text.text, [(name, words) for name in options for words in options[name]])
    languages = with_features(SubmittedText(Path(f"file{suffix}")).needs)
    target = open_device(device, lab.preferred_backend if lab.preferred_backend in languages else min(languages))
    if target.backend not in languages:
        raise UsageError(
            f"{kernel_text.name}: {SUFFIXES[suffix]} does not run on {target.spec}; --device names another device"
        )
    store = Store(located(project_root(), results))
    marks: list[Mark] = []
    for timed in timed_cases:
        lab.output_arrays(timed)
        step, rivals = opponents(lab, store, target, timed)
        bounds = least_seconds(lab, store, target, timed)
        task = task_of_submission(lab, submission, timed, suffix, step, *rivals, bounds=bounds)
        if marks:
            task = replace(task, cases=())  # the small cases are judged already
        if case and not time:
            task = replace(task, cases=(*task.cases, timed))
        marks.append(judge_kernel(lab, task, kernel_text, target, sandbox_if(sandbox), take_time=time))
        if marks[-1].does_not_compile:
            break
    if with_log:
        print(marks[0].log or "the compiler has no messages", file=sys.stderr)
    if as_json:
        print(strict_json.dumps(judgement.as_json(marks, lab, kernel_text.name), indent=2))
    else:
        for line in judgement.as_text(marks, lab, kernel_text.name).splitlines():
            say(line)
    sys.exit(max(mark.code for mark in marks))
