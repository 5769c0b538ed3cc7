"""Recording of labs on the devices of a machine into a folder. Serves `roofbook record OUT`.

It continues after an interruption: measurements in OUT are not repeated, and samples of an interrupted case count.
"""

import itertools
import re
import resource
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..devices import checkout
from ..devices.contract import Device
from ..devices.find import devices as all_devices
from ..devices.find import open_device
from ..errors import Failed, UsageError, one_of
from ..measure import schedule
from ..measure.placement import target_of, why_not
from ..measure.schedule import Done
from ..paths import expanded
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case
from ..store.files import StorePart
from ..terminal import say
from . import campaign
from .experiment import Experiment, check


def record(
    out: Path,
    *,
    labs: Sequence[str],
    devices: Sequence[str],
    scales: Sequence[str],
    cases: Sequence[str],
    variants: Sequence[str],
    sweeps: bool,
    host: bool,
    runs: int | None,
    budget: float,
    limit: float,
    remeasure: bool,
    uncommitted: bool = False,
    together: bool = False,
    cluster: str | None = None,
    workers: int | None = None,
) -> None:
    """Measure peaks, labs and peers on each device, print the ladders, and leave the Parquet files under OUT/recorded.

    runs: fresh processes for each figure; None for `Lab.recorded_runs`.

    Empty labs, devices, scales, cases or variants mean all that the book shows. uncommitted: accept a checkout with changes,
    and leave the rows in OUT/local. together: measure the devices in the same rounds, by one process. cluster: address of a
    Dask scheduler whose workers measure. workers: number of own workers that do. Raise UsageError for a checkout with changes
    without `uncommitted`, if OUT lies among the checkout's files, and if nothing of what was asked for runs on the devices.
    Raise Failed, once all is stored, if no measurement of those asked for has a time.
    """
    labs, scales, cases, variants = (list(dict.fromkeys(names)) for names in (labs, scales, cases, variants))
    try:
        if re.match(r"\w+:/", str(out)):
            raise UsageError("OUT is a folder; afterwards `roofbook push URL --results OUT` copies it to a bucket")
        out = Path(expanded(str(out)))
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise UsageError(f"OUT {out} is no folder, or lies in a file: name a folder; a new one is made") from None
    except OSError as error:
        raise UsageError(f"OUT {out} cannot be made: {error.strerror}") from None
    checkout.ignore(out)
    where: StorePart = "local" if uncommitted else "recorded"
    if where == "recorded" and (fault := checkout.no_place(out)):
        raise UsageError(fault)
    selections = chosen_cases(labs, scales, cases, variants)
    if not (cluster or workers):  # a device may be named in several ways
        devices = list({open_device(spec).spec: spec for spec in reversed(devices)}.values())[::-1]
    if together and (cluster or workers or len(devices) < 2):
        raise UsageError("--together takes two or more --device of this host, such as one GPU by two backends")
    began, done = time.perf_counter(), list[tuple[str, Done, float]]()
    with campaign.opened(cluster, workers, out) if cluster or workers else nullcontext() as crew:
        specs = devices or (crew.specs() if crew else [device.spec for device in one_of_each_kind(all_devices())])
        for spec, *further_devices in [list(specs)] if together else [[spec] for spec in specs]:
            for name, scale, known_cases, known_variants in selections:
                start = time.perf_counter()
                parameters = {
                    "device": spec, "scale": scale, "budget_s": budget, "results": str(out.resolve()),
                    "cases": known_cases or None, "variants": known_variants or variants_to_measure(name, sweeps),
                    "runs": runs or registry.get(name).recorded_runs,
                }  # fmt: skip
                options: dict[str, Any] = {
                    "sweeps": sweeps,
                    "host": host,
                    "limit_s": limit,
                    "remeasure": remeasure,
                    "where": where,
                }
                summary = (
                    _by_cluster(crew, name, parameters, **options)
                    if crew
                    else _on_this_host(name, parameters, further_devices, **options)
                )
                seconds = time.perf_counter() - start
                say(f"{summary}, {seconds:.0f} s\n")
                done.append((f"{name} {scale} {' '.join((spec, *further_devices))}", summary, seconds))
    _check_commit(where)  # the checkout may have changed during the last lab
    for title, summary, seconds in done:
        say(f"{title}: {summary}, {seconds:.0f} s", hang=2)
    say(resources_used(time.perf_counter() - began))
    if not any(summary.measured or summary.fresh for _, summary, _ in done):
        raise UsageError(f"nothing was measured: {_why_nothing(selections, [] if crew else specs)}")
    failed = sum(summary.failed for _, summary, _ in done)
    if failed and not any(summary.fresh or summary.measured > summary.failed for _, summary, _ in done):
        raise Failed(
            f"{'the only measurement' if failed == 1 else f'all {failed} measurements'} failed: the tables say why"
        )


Selection = tuple[str, str, list[str], list[str]]
"""(lab, scale, cases, variants): empty cases or variants mean all."""


def chosen_cases(
    labs: Sequence[str], scales: Sequence[str], cases: Sequence[str], variants: Sequence[str]
) -> list[Selection]:
    """Return selections of labs, scales, cases and variants: each case at the scales that list it, each variant in its labs.

    A case of a size that no scale lists is measured at the first scale, in the labs named or if no lab lists it. Empty labs
    mean all. Raise UsageError for a name that no lab knows, before anything is measured.
    """
    selections, matched = list[Selection](), set[str]()
    names_of_labs = labs or [registry.PEAKS, *registry.names()]
    listed_by_any = (
        {case for name in names_of_labs for case in _names_of("case", [name], scales)} if not labs else set()
    )
    for name in names_of_labs:
        lab = registry.get(name)
        lab_scales = scales or (("published",) if name == registry.PEAKS else ("published", "large"))
        lab_variants = [
            variant for variant in variants if variant in {known_variant.name for known_variant in lab.all_variants()}
        ]
        listed_cases = {scale: [case.name for case in _cases_of(lab, scale)] for scale in lab_scales}
        lab_cases = {scale: [case for case in cases if case in listed_cases[scale]] for scale in lab_scales}
        for case in cases:
            is_listed = case in listed_by_any or any(case in names for names in lab_cases.values())
            if not is_listed and lab.sized(case, lab_scales[0]):
                for scale in scales or lab_scales[:1]:
                    lab_cases[scale].append(case)
        matched |= {*lab_variants, *(case for names in lab_cases.values() for case in names)}
        if not variants or lab_variants:
            selections += [
                (name, scale, lab_cases[scale], lab_variants) for scale in lab_scales if lab_cases[scale] or not cases
            ]
    for kind, names in (("case", cases), ("variant", variants)):
        for name in names:
            if name not in matched:
                raise one_of(kind, name, _names_of(kind, names_of_labs, scales))
    if not selections:
        raise UsageError("none of these labs has both a case and a variant of those that --case and --variant name")
    return selections


def _cases_of(lab: Lab, scale: str) -> list[Case]:
    """Return the cases of a scale, including those of its series."""
    series = [lab.case(name, scale) for series_of_lab in lab.series(scale) for _, name in series_of_lab.points]
    return [*lab.cases(scale), *series]


def _names_of(kind: str, labs: Sequence[str], scales: Sequence[str]) -> list[str]:
    """Return the names that would be right, of cases or of variants. kind: 'case' or 'variant'."""
    known_labs = [registry.get(name) for name in labs]
    if kind == "variant":
        names = [variant.name for lab in known_labs for variant in lab.all_variants() if variant.role != "sweep"]
    else:
        names = [
            case.name for lab in known_labs for scale in scales or ("published", "large") for case in lab.cases(scale)
        ]
        names += [lab.other_sizes for lab in known_labs if lab.other_sizes]
    return list(dict.fromkeys(names))


def _why_nothing(selections: Sequence[Selection], specs: Sequence[str]) -> str:
    """Return why none of the selections runs on the devices: the reason of the first variant that was named."""
    for name, scale, cases, variants in selections:
        lab = registry.get(name)
        for spec, variant in itertools.product(specs, map(lab.variant, variants)):
            case = lab.case(cases[0], scale) if cases else lab.cases(scale)[0]
            device = open_device(spec, lab.preferred_backend)
            if target_of(variant, device) and not lab.skip_reason(variant, case):
                return f"{variant.name} is left out by --no-host or --no-sweeps"
            return f"{variant.name} does not run on {spec}: {why_not(lab, case, variant, device)}"
    return "the labs have no step that runs there"


def _check_commit(where: StorePart) -> None:
    """Raise UsageError if rows to be recorded would not name a commit. Called before each lab and at the end."""
    if where == "recorded" and (refusal := checkout.refusal()):
        raise UsageError(refusal)


def variants_to_measure(lab: str, sweeps: bool) -> list[str] | None:
    """Return the names of the variants to measure: without sweeps, the ladder and peers; None for all."""
    lab_spec = registry.get(lab)
    return None if sweeps else [variant.name for variant in (*lab_spec.ladder, *lab_spec.peers)]


def one_of_each_kind(devices: list[Device]) -> list[Device]:
    """Return the first device of each backend and kind: a GPU by CUDA and by OpenCL, and the CPU."""
    return list({(device.backend, device.kind): device for device in reversed(devices)}.values())[::-1]


def _by_cluster(
    crew: campaign.Campaign, lab: str, parameters: dict[str, Any], *, where: StorePart, **options: Any
) -> Done:
    """Measure with the workers of a cluster, print the tables and return the counts."""
    _check_commit(where)
    summary, _, texts = crew.bring_up_to_date(
        lab, check(parameters), runs=parameters["runs"], peaks=False, parts=[where], where=where, **options
    )
    for text in texts:
        print(text, end="\n\n")
    return summary


def _on_this_host(
    lab: str,
    parameters: dict[str, Any],
    further_devices: Sequence[str] = (),
    *,
    sweeps: bool,
    host: bool,
    limit_s: float,
    remeasure: bool,
    where: StorePart,
) -> Done:
    """Measure everything that is not fresh into one part of the store, print the tables and return the counts.

    further_devices: specs of further devices, which are measured in the same rounds.
    """
    experiment = Experiment(lab, parameters, parts=[where])
    beside = [Experiment(lab, parameters | {"device": spec}, parts=[where]) for spec in further_devices]
    _check_commit(where)
    store, policy = experiment.store, replace(experiment.policy, limit_s=limit_s)
    for planned in (experiment, *beside):
        device = planned.device
        say(f"{planned.lab.title} at scale {planned.scale} on {device.spec}, {device.name}")
    cells = [
        cell
        for planned in (experiment, *beside)
        for cell in planned.plan()
        if (sweeps or cell.case in planned.cases)
        and (cell.device is planned.device or (host and planned is experiment))
    ]
    summary = schedule.bring_up_to_date(
        cells, experiment.device, store, policy, runs=experiment.parameters["runs"], remeasure=remeasure, where=where,
        further_devices=[planned.device for planned in beside], progress=CasePrinter(), isolated=True,
    )  # fmt: skip
    for planned in (experiment, *beside):
        for table in planned.tables():
            print(table.text, end="\n\n")
    return summary


def resources_used(seconds: float) -> str:
    """Return the time and the largest memory use of the run as text for the terminal."""
    processes = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # each case is measured in a process of its own
    peak = max(resource.getrusage(process).ru_maxrss for process in processes) * 1024
    return f"In all {seconds:.0f} s, at most {peak / 2**30:.1f} GiB of the host's memory"


QUIET_S = 10
"""Seconds after which a long run reports its current step again."""


class CasePrinter:
    """Progress on the terminal: a line for each case, and one now and then, so that a long run is seen to work."""

    def __init__(self) -> None:
        self.case, self.last = "", 0.0

    def __call__(self, variant: str, step: str) -> None:
        case, _, name = variant.partition(" ")
        now = time.perf_counter()
        if case != self.case:
            say(f"  {case}", hang=4)
        elif now - self.last > QUIET_S:
            say(f"    {name}: {step}", hang=6)
        else:
            return
        self.case, self.last = case, now
