"""Commands that judge kernels of others."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import strict_json
from ..errors import UsageError
from ..terminal import say
from .app import DEVICE, KNOWN_LAB, LIMIT, MEMORY, RESULTS, SANDBOX, UserPath, app, seconds, writing
from .app import memory as memory_limit

if TYPE_CHECKING:
    from ..spec.lab import Lab

MEMORY_ON_CPU = 8.0
"""GiB that the process of a kernel of a class may take on a CPU. A GPU's driver may ask for more."""


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
@click.option("--against", metavar="STEP", help="Time it beside this step alone.  [default: the fastest known]")
@click.option("--time/--no-time", default=True, show_default=True, help="Time a right one beside others.")
@click.option("--log", "with_log", is_flag=True, help="Print the compiler's messages too, on standard error.")
@SANDBOX
@LIMIT
@MEMORY
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
    against: str | None,
    time: bool,
    with_log: bool,
    sandbox: bool | None,
    limit: float,
    memory: float | None,
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
    from ..measure.answer import Limits, Mark, task_of_submission
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
    try:
        submission = submission_of(kernel_text.text, [(name, words) for name in options for words in options[name]])
    except UsageError as error:
        if not as_json:
            raise
        refused = Mark((), sandbox_if(sandbox), does_not_compile=str(error))
        print(strict_json.dumps(judgement.as_json([refused], lab, kernel_text.name), indent=2))
        sys.exit(refused.code)
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
        step, rivals = opponents(lab, store, target, timed, against)
        bounds = least_seconds(lab, store, target, timed)
        task = task_of_submission(lab, submission, timed, suffix, step, *rivals, bounds=bounds)
        if marks:
            task = replace(task, cases=())  # the small cases are judged already
        if case and not time:
            task = replace(task, cases=(*task.cases, timed))
        limits = Limits(limit, memory)
        marks.append(judge_kernel(lab, task, kernel_text, target, sandbox_if(sandbox), take_time=time, limits=limits))
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


@app.command()
@KNOWN_LAB
@click.argument("folder", type=UserPath())
@click.option("--out", required=True, type=UserPath(), metavar="DIR", help="A folder for the results.")
@click.option(
    "--case", multiple=True, help="A case that is timed; may be repeated.  [default: the first of the scale quick]"
)
@click.option("--exercise", metavar="NAME", help="The submissions are answers to this exercise.")
@click.option("--points", type=UserPath(), metavar="FILE", help="Points for partial credit, as a TOML file.")
@click.option("--time/--no-time", default=True, show_default=True, help="Time the right ones beside a step.")
@SANDBOX
@seconds("--limit", default=300.0, help="Seconds that the judgement of a submission on a case may take.")
@memory_limit(
    help=f"Memory that a kernel's process may take.  [default: {MEMORY_ON_CPU:g} on a CPU, no limit on a GPU]"
)
@DEVICE
@RESULTS
def grade(
    lab: "Lab",
    folder: Path,
    out: Path,
    case: tuple[str, ...],
    exercise: str | None,
    points: Path | None,
    time: bool,
    sandbox: bool | None,
    limit: float,
    memory: float | None,
    device: str,
    results: str,
) -> None:
    """Grade the kernels of a class.

    FOLDER has a file for each student, or a folder for each with one kernel file in it. Each is judged as by `roofbook judge`,
    or with --exercise as by `roofbook exercise --check`, in a process of its own with limits. A crash stops no other. If you
    stop the command, the same one goes on. DIR gets grades.csv, index.html with ranks and like sources, and for each submission
    results.json for Gradescope and result.json for Classroom 50.

    The page "For a course", book/for-a-course.md, has the points, the whole way from handout to grade, and the dangers.

    \b
      roofbook grade stencil submissions --out grades
    """
    from ..analysis.class_grades import grade_of, ranks
    from ..analysis.likeness import pairs_of_class
    from ..analysis.opponents import steps_of_class
    from ..devices.backends import with_features
    from ..devices.find import open_device
    from ..measure.grading import ClassTask, Judgements, judge_class
    from ..measure.sandbox import sandbox as sandbox_if
    from ..paths import project_root
    from ..report import grades as grade_files
    from ..spec.class_folder import ClassSubmission, submissions_in
    from ..spec.credit import Credit, read_credit
    from ..spec.source import Source
    from ..spec.submission import SUFFIXES
    from ..store.parquet import Store
    from ..store.storage import located

    if out.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"--out {out} is in the folder of the submissions: name another one")
    credit = read_credit(points) if points else Credit()
    lab.prepare()
    target, used_sandbox = open_device(device, lab.preferred_backend), sandbox_if(sandbox)
    languages = [ending for ending in SUFFIXES if target.backend in with_features(Source(Path(f"file{ending}")).needs)]
    submissions = submissions_in(folder, languages if exercise is None else [".k"])
    store = Store(located(project_root(), results))
    steps = steps_of_class(lab, case, exercise, credit, store, target)
    options = ["--sandbox" if used_sandbox.is_used else "--no-sandbox"]
    options += ["--results", store.address] if exercise is None else []
    if memory is None and target.kind != "gpu":
        memory = MEMORY_ON_CPU
    class_task = ClassTask(lab, target.spec, target.name, steps, exercise, time, limit, memory, tuple(options))

    def folder_of(submission: ClassSubmission) -> Path:
        return grade_files.folder_of(out, submission)

    def report(number: int, submission: ClassSubmission, judgements: Judgements) -> None:
        graded = grade_of(submission, judgements, steps, credit, take_time=time)
        verdict = "right" if graded.is_right else graded.reasons[0]
        say(f"{number}/{len(submissions)} {submission.name}: {verdict}")

    with writing("--out", out):
        judgements = judge_class(class_task, submissions, folder_of, report)
        grades = [
            grade_of(submission, judgements[submission.key], steps, credit, take_time=time)
            for submission in submissions
        ]
        pairs = pairs_of_class(lab, submissions, exercise, folder_of)
        task = lab.name if exercise is None else f"{lab.name} {exercise}"
        facts = grade_files.facts(len(submissions), target.name, steps if time else (), used_sandbox)
        grade_files.write_all(
            out, grades, ranks(grades), pairs, credit, task, [name for name, _ in steps] * time, facts, os.environ
        )
    right = sum(graded.is_right for graded in grades)
    say(f"{right} of {len(grades)} right; {len(pairs)} pairs of like sources; {out / 'index.html'}")
    sys.exit(int(not all(graded.is_judged for graded in grades)))
