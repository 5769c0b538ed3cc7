"""Measure labs on the devices of a machine and leave the runs in a folder: `python -m roofbook.record OUT`.

Serves whoever brings a new device into the book. Goes on where it stopped: what OUT holds already is not measured again.
"""

import sys
import time
from pathlib import Path

import click

from . import labs, peaks, run
from .errors import UsageError
from .experiment import Experiment


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--lab", "names", multiple=True, help="A lab; may be repeated. All without it.")
@click.option("--device", "devices", multiple=True, default=("auto",), help="A device; may be repeated.")
@click.option("--scale", "scales", multiple=True, default=("published",), help="A scale; may be repeated.")
@click.option("--case", "cases", multiple=True, help="A case; may be repeated. All without it.")
@click.option("--variant", "variants", multiple=True, help="A variant; may be repeated. All without it.")
@click.option("--budget", default=0.5, show_default=True, help="Seconds of samples a cell.")
@click.option("--remeasure", is_flag=True, help="Measure also what OUT holds already.")
def main(
    out: Path,
    names: tuple[str, ...],
    devices: tuple[str, ...],
    scales: tuple[str, ...],
    cases: tuple[str, ...],
    variants: tuple[str, ...],
    budget: float,
    remeasure: bool,
) -> None:
    """Measure the ceilings and labs of each device, print the ladders, and leave the Parquet files under OUT."""
    out.mkdir(parents=True, exist_ok=True)
    for device in devices:
        for scale in scales:
            for name in names or labs.names():
                parameters = {
                    "device": device, "scale": scale, "budget_s": budget, "results": str(out.resolve()),
                    "cases": list(cases) or None, "variants": list(variants) or None,
                }  # fmt: skip
                _record(Experiment(name, parameters), remeasure)


def _record(experiment: Experiment, remeasure: bool) -> None:
    start = time.perf_counter()
    device, store, policy = experiment.device, experiment.store, experiment.policy
    print(f"{experiment.lab.name} on {device.spec}, {device.name}", flush=True)
    ceilings = run.plan(
        peaks.LAB, peaks.LAB.cases(experiment.parameters["scale"]), peaks.LAB.ladder, device, store, run.warm(policy)
    )
    run.bring_up_to_date(ceilings, device, store, run.warm(policy))
    print(experiment.ceilings().text, end="\n\n")
    done = run.bring_up_to_date(experiment.plan(), device, store, policy, remeasure=remeasure, progress=_say)
    for case in experiment.cases:
        print(experiment.ladder(case.name).text, end="\n\n")
        for sweep in experiment.lab.sweeps:
            if any(v in experiment.variants and not experiment.lab.excuse(v, case) for v in sweep.variants):
                print(experiment.sweep_table(sweep.axis, case.name).text, end="\n\n")
    print(f"{done}, {time.perf_counter() - start:.0f} s\n", flush=True)


_said = {"": ""}


def _say(variant: str, what: str) -> None:
    """A word to the terminal when a case begins, so that a long run is seen to live."""
    case = variant.split()[0]
    if _said.get("case") != case:
        _said["case"] = case
        print(f"  {case}", flush=True)


if __name__ == "__main__":
    try:
        main(standalone_mode=True)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
