"""Commands that look for the fastest kernel: over the values of a step's knobs, and in the store."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import Failed, UsageError, warn
from ..terminal import say
from .app import DEVICE, KNOWN_LAB, RESULTS, SCALE, VARIANT, UserPath, app, to_write, writing

if TYPE_CHECKING:
    from ..measure.space_search import PointResult
    from ..spec.lab import Lab


def _values(settings: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return knob -> values. Raise UsageError for a setting that is not NAME=VALUE,VALUE, and for a knob named twice."""
    values: dict[str, tuple[str, ...]] = {}
    for setting in settings:
        knob, equals, texts = setting.partition("=")
        named = tuple(dict.fromkeys(text.strip() for text in texts.split(",")))
        if not equals or knob in values or "" in named:
            reason = "names a knob twice" if knob in values else "is no NAME=VALUE,VALUE, such as GROUP=32,64,128"
            raise UsageError(f"--knob {setting} {reason}")
        values[knob] = named
    return values


@app.command()
@KNOWN_LAB
@VARIANT
@click.option("--case", help="The case to tune for.  [default: the first of the scale]")
@click.option(
    "--knob", "knobs", multiple=True, metavar="NAME=VALUE,VALUE", help="A knob with its values; may be repeated."
)
@click.option(
    "--where", "restrictions", multiple=True, metavar="EXPRESSION", help="A restriction on the points; may be repeated."
)
@click.option(
    "--minutes", type=click.FloatRange(0, 10_000), default=10.0, show_default=True,
    help="Minutes after which no further point begins.",
)  # fmt: skip
@click.option(
    "--strategy",
    default="exhaustive",
    show_default=True,
    help="exhaustive, random, or of Optuna: tpe, nsga2, cmaes or gp.",
)
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="Seed of the strategy.")
@click.option(
    "--best", "count", type=click.IntRange(1, 50), default=5, show_default=True, help="Points to measure again."
)
@click.option(
    "--import", "imported_file", type=UserPath(exists=True), metavar="FILE",
    help="Begin with the points of a file of Kernel Tuner (T4 or cache), the fastest first.",
)  # fmt: skip
@to_write("--t4", help="Write all results as T4, the JSON format of auto-tuners.")
@to_write("--cache", help="Write all results as a cache of Kernel Tuner, whose simulation mode replays it.")
@SCALE
@DEVICE
@RESULTS
def tune(
    lab: "Lab",
    variant: str,
    case: str | None,
    knobs: tuple[str, ...],
    restrictions: tuple[str, ...],
    minutes: float,
    strategy: str,
    seed: int,
    count: int,
    imported_file: Path | None,
    t4: Path | None,
    cache: Path | None,
    scale: str,
    device: str,
    results: str,
) -> None:
    """Find the fastest values of a step's knobs.

    Each point is compiled, checked and timed once, and kept at once, a failed one with its reason. The best few are then
    measured in the same rounds as the step: the answer is the fastest with all within its noise. After Ctrl-C the same
    command continues. Without --knob the values are those of the lab's sweeps of the step. A restriction compares knobs, and
    sizes of the case, as Python does:

    \b
      roofbook tune lbm tree --knob GROUP_SIZE=32,64,128 --minutes 2
      roofbook tune cnn fissioned --where 'group[0]*group[1]*group[2] <= 256'
    """
    from ..analysis import format as show
    from ..analysis import kernel_tuner_files
    from ..analysis.tuned_set import command_of, tuned_set
    from ..book.experiment import Experiment
    from ..book.sources import pages_root
    from ..measure.progress import PlanShare, Reporter
    from ..measure.search_strategy import strategy as strategy_named
    from ..measure.space_search import Search, tuning_store
    from ..paths import project_root
    from ..spec.search_space import search_space, values_of

    root = pages_root(project_root(), lab.name)
    options = {"scale": scale, "device": device, "results": results, "cases": [case] if case else None}
    of_step = Experiment(lab.name, options | {"variants": [variant]}, root)
    step, chosen_case = of_step.variants[0], of_step.cases[0]
    known_points = kernel_tuner_files.read(imported_file) if imported_file else []
    space = search_space(lab, step, chosen_case, _values(knobs) or values_of(known_points), restrictions)
    points = space.points()
    of_space = {frozenset(point.items()): point for point in points}
    first = [of_space[key] for point in known_points if (key := frozenset(point.items())) in of_space]
    if imported_file and not first:
        raise UsageError(f"no point of {imported_file} is in the space of {', '.join(space.values)}")
    search_strategy = strategy_named(strategy, points, seed, first)
    results_by_point: list[PointResult] = []
    reporter, share = Reporter(), PlanShare(len(points), 60 * minutes)

    def report(result: "PointResult") -> None:
        results_by_point.append(result)
        share.done += 1

    def progress(name: str, stage: str) -> None:
        fastest = min((r for r in results_by_point if r.seconds), key=lambda r: r.seconds or 0, default=None)
        best = f"best {show.duration(fastest.seconds or 0)} {fastest.variant.name}" if fastest else "no right point yet"
        reporter(best, f"{share}; {name}: {stage}")

    with reporter, Search(space, of_step.device, of_step.policy, tuning_store(of_step.store)) as search:
        is_whole = search.go(search_strategy, minutes, report, progress)
        reporter.end()
        search.store.compact()  # each point has left a file
        for layout, path in (("t4", t4), ("cache", cache)):
            if path:
                with writing(f"--{layout}", path):
                    kernel_tuner_files.write(path, layout, step.text.path.stem, search.rows())
    for line in _summary(results_by_point, len(points), is_whole, minutes):
        say(line)
    right = sorted((r for r in results_by_point if r.seconds), key=lambda r: r.seconds or 0)
    if not right:
        raise Failed(f"no point of {variant} is right on {chosen_case.name}, so there is nothing to choose from")
    finals = {str(r.variant.fingerprint()): r.variant for r in right}  # two points may be the same code
    names = [v.name for v in [*finals.values()][:count]]
    chosen = list(dict.fromkeys([step.name, *names]))
    again = Experiment(
        lab.name,
        options | {"cases": [chosen_case.name], "variants": chosen, "remeasure": True, "budget_s": 0.5},
        root,
    )
    with reporter:
        done = again.take(reporter)
    rows = again.store.rows(lab.name, case=chosen_case.name, run=done.run.split(", "), variant=chosen)
    answer = tuned_set(rows, again.variants, step.name, chosen_case.name)
    for line in answer.lines():
        say(line)
    fastest = answer.fastest.variant
    point_again = command_of(lab.name, step.name, chosen_case.name, fastest, scale, again.device.spec, results)
    say(f"Again: `{point_again}`")


def _summary(results: "list[PointResult]", total: int, is_whole: bool, minutes: float) -> list[str]:
    """Return how many points have a result, and the most frequent reasons of those that failed."""
    new, failed = sum(r.is_new for r in results), [r for r in results if r.seconds is None]
    earlier = f", {len(results) - new} of them before" if new < len(results) else ""
    over = "" if is_whole else f"; time is over after {minutes:g} min, and the same command continues"
    reasons = Counter(r.reason.partition(":")[0] for r in failed)
    lines = [f"{len(results)} of {total} points measured{earlier}, {len(failed)} of them failed{over}"]
    for reason, times in reasons.most_common(3):
        example = next(r for r in failed if r.reason.partition(":")[0] == reason)
        lines.append(f"  {times} failed, as {example.variant.name}: {example.reason}")
    return lines


@app.command()
@KNOWN_LAB
@click.argument("case")
@click.option(
    "--as",
    "form",
    type=click.Choice(["file", "cupy", "pyopencl", "torch"]),
    help="Print the fastest as a file, or a call on arrays.",
)
@to_write("--out", help="Write the file or the call here; a file by default.")
@DEVICE
@RESULTS
def best(lab: "Lab", case: str, form: str | None, out: Path | None, device: str, results: str) -> None:
    """Show the fastest verified kernels for a device.

    Lists those of the store that no other beats in both time and exactness, with the error that each was verified to. As a
    file, a kernel has its launch in the head, and `roofbook judge` accepts it. If the fastest cannot be said so, the next
    one is given. A call runs it from Python on arrays of CuPy, PyOpenCL or PyTorch:

    \b
      roofbook best stencil 1024x1026
      roofbook best stencil 1024x1026 --as file --out best.cl
    """
    from ..analysis.best_kernels import front, judged_file, ranking
    from ..devices.find import open_device
    from ..measure.kernel_call import example
    from ..paths import project_root, write_whole
    from ..store.parquet import Store

    lab.prepare()
    target, size = open_device(device, lab.preferred_backend), lab.case(case)
    store = Store.of_project(project_root(), results)
    ranked = ranking(lab, store, target, size)
    if form is None and out is None:
        say(f"{lab.name} on {size.name}, {target.spec}, {target.name}, of {len(ranked)} kernels:")
        for kernel in front(ranked):
            say(str(kernel), hang=2)
        return
    if form in (None, "file"):
        _, text, reasons = judged_file(lab, target, size, ranked)
        for reason in reasons:
            warn(reason)
    else:
        text = example(lab, size, target, str(form))
    if out is None:
        print(text, end="")
        return
    with writing("--out", out):
        write_whole(out, text)
