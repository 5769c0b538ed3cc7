"""The command `try`: verify and time steps in this process, without a store, a notebook or a page.

It is what runs on systems whose processes and locks the other commands do not know, such as Windows.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..devices.backends import WEBGPU, label
from ..errors import Failed, UsageError, one_of
from ..terminal import say
from .app import KNOWN_LAB, SCALES, app, number, of_scale, to_write, writing

if TYPE_CHECKING:
    from ..spec.lab import Lab

Row = Mapping[str, Any]


@app.command("try")
@KNOWN_LAB
@click.argument("variants", nargs=-1)
@click.option(
    "--device",
    "devices",
    multiple=True,
    help=f"A device; may be repeated, to compare backends.  [default: {WEBGPU.name}:0]",
)
@click.option("--case", help="A case of the lab.  [default: the first of the scale]")
@of_scale(default="quick", show_default=True, help=f"{SCALES}.")
@click.option(
    "--budget",
    type=click.FloatRange(0, min_open=True),
    callback=number,
    default=0.2,
    show_default=True,
    help="Seconds a step.",
)
@to_write("--json", "out", help="A file for the rows, with all samples and the environment.")
def try_steps(
    lab: "Lab",
    variants: tuple[str, ...],
    devices: tuple[str, ...],
    case: str | None,
    scale: str,
    budget: float,
    out: Path | None,
) -> None:
    """Verify and time steps of LAB in this process.

    All steps that run on the device are taken, or VARIANTS alone.

    It keeps no rows, so it needs no project, and it runs on macOS and Windows too. Steps are timed in turns. Each is compared
    with its parent, if that is among them. The exit code is 1 if a step is wrong. With several devices each step is compared
    with itself on the first of them: the backends of one GPU are timed in the same rounds.

    \b
      roofbook try stencil
      roofbook try stencil float4 --device cuda:0 --device webgpu:0
      roofbook try lbm flat-grid in-place --case 256x256 --scale published
    """
    import json

    from ..devices.find import open_device
    from ..measure.case_run import measure_case
    from ..measure.placement import Setting, why_not
    from ..measure.policy import Policy
    from ..measure.progress import Reporter
    from ..store.identity import new_run_id

    opened = [open_device(spec, lab.preferred_backend) for spec in devices or (f"{WEBGPU.name}:0",)]
    chosen_case = next((candidate for candidate in lab.cases(scale) if case in (None, candidate.name)), None)
    if chosen_case is None:
        raise one_of(f"case at scale {scale}", str(case), [candidate.name for candidate in lab.cases(scale)])
    names = variants or tuple(step.name for step in lab.ladder if step.options.get("device") != "host")
    chosen = [lab.variant(name) for name in names]
    reasons = {
        (step.name, device.spec): why_not(lab, chosen_case, step, device) for step in chosen for device in opened
    }
    runnable = [step for step in chosen if not all(reasons[step.name, device.spec] for device in opened)]
    if not runnable:
        raise UsageError(f"none of these steps runs on {opened[0].spec}: {next(iter(reasons.values()))}")
    rows: list[dict[str, Any]] = []
    setting = Setting(lab, chosen_case, opened[0], Policy(budget_s=budget))
    with Reporter() as reporter:
        measure_case(
            setting, runnable, run=new_run_id(), keep=rows.extend, progress=reporter, further_devices=opened[1:]
        )
    for device in opened:
        identity = device.identity()
        say(f"{lab.title}, {chosen_case.name}, on {device.name}: {identity['platform']}, driver {identity['driver']}")
        for line in results(rows, device.backend, opened[0].backend):
            say(line, hang=4)
        for step in chosen:
            if reason := reasons[step.name, device.spec]:
                say(f"{step.name}: not run: {reason}", hang=4)
    if out is not None:
        with writing("--json", out):
            out.write_text(json.dumps(rows, default=str, indent=1), encoding="utf-8")
    if any(row["status"] == "failed" and not _is_refused(row) for row in rows):
        raise Failed("a step failed: the lines above say which, and why")


def results(rows: Sequence[Row], backend: str, first: str) -> Iterator[str]:
    """Yield a line for each row of a backend: its time with the interval, and the ratios to other rows of its rounds.

    These are its parent or A/A control, and the same step by the backend `first`.
    """
    from ..analysis import format as show
    from ..measure.stats import median_ci
    from ..store.schema import CONTROL

    steps = {(row["variant"], row["backend"]): row for row in rows if row["role"] != CONTROL}
    controls = [row for row in rows if row["role"] == CONTROL and row["backend"] == backend]
    times = {key: [s / row["units"] for s in row["samples_s"]] for key, row in steps.items()}
    unit, seconds = show.time_unit(time for samples in times.values() for time in samples)
    for (name, by), row in steps.items():
        if by == backend and row["status"] == "failed":
            yield f"{name}: {row['reason'] if _is_refused(row) else 'failed: ' + row['reason']}"
        elif by == backend:
            median = median_ci(times[name, by])
            text = show.interval(*(value / seconds for value in (median.estimate, median.low, median.high)))
            parent, same = steps.get((row["parent"], by)), steps.get((name, first)) if by != first else None
            ratios = _beside(row, parent, str(row["parent"])) + _beside(row, same, f"by {label(first)}")
            yield f"{name}: {text} {unit} a {row['unit']}, verified{ratios}"
    for control in controls:
        row = steps[control["variant"], backend]
        if row["status"] == control["status"] == "ok":
            yield f"{control['variant']}, measured twice{_beside(row, control, 'its control')}"


def _is_refused(row: Row) -> bool:
    """Return whether a device is too small for a step of a failed row, which is then not wrong."""
    from ..measure.verify import NOT_SUPPORTED

    return str(row["reason"]).startswith(NOT_SUPPORTED)


def _beside(row: Row, compared: Row | None, name: str) -> str:
    """Return by how much a row is faster than another of its rounds, in words; '' without another."""
    from ..analysis import format as show
    from ..measure.stats import by_round, paired_ratio

    if compared is None or compared["status"] == "failed":
        return ""
    compared_s, own_s = by_round(compared["samples_s"], compared["rounds"], row["samples_s"], row["rounds"])
    if len(own_s) < 2:
        return ""
    ratio = paired_ratio(compared_s / compared["units"], own_s / row["units"])
    return f"; {show.factor(ratio.estimate, ratio.low, ratio.high)} times as fast as {name}, in one run"
