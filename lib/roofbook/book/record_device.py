"""Measure labs on the devices of a machine and leave the runs in a folder: what `roofbook record OUT` does.

Serves whoever brings a device into the book. Goes on where it stopped: what OUT holds already is not measured again, and
samples of an interrupted case count.
"""

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
from ..errors import UsageError, one_of
from ..measure import schedule
from ..measure.schedule import Done
from ..paths import expanded
from ..spec import registry
from ..spec.lab import Case, Lab
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
    cluster: str | None = None,
    workers: int | None = None,
) -> None:
    """Measure peaks, labs and peers on each device, print the ladders, and leave the Parquet files under OUT/recorded.

    runs: processes started afresh that each figure comes from; None: as many as the lab asks for, `Lab.recorded_runs`.

    Of labs, devices, scales, cases and variants, those named; where none is, all, or what the book shows. uncommitted: also of
    a checkout that no commit stands for, into OUT/local. cluster: the address of a Dask scheduler whose workers measure;
    workers: how many of our own do. Errors: UsageError for such a checkout without it, and for a folder of its files.
    """
    try:
        if re.match(r"\w+:/", str(out)):
            raise UsageError("OUT is a folder; afterwards `roofbook push URL --results OUT` copies it to a bucket")
        out = Path(expanded(str(out)))
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"OUT {out} cannot be made: {error.strerror}") from None
    checkout.ignore(out)
    where: StorePart = "local" if uncommitted else "recorded"
    if where == "recorded" and (why := checkout.no_place(out)):
        raise UsageError(why)
    asked = chosen_cases(labs, scales, cases, variants)
    for spec in () if cluster or workers else devices:
        open_device(spec)
    began, done = time.perf_counter(), list[tuple[str, Done, float]]()
    with campaign.opened(cluster, workers, out) if cluster or workers else nullcontext() as crew:
        for spec in devices or (crew.specs() if crew else [each.spec for each in one_of_each_kind(all_devices())]):
            for name, scale, known_cases, known_variants in asked:
                start = time.perf_counter()
                parameters = {
                    "device": spec, "scale": scale, "budget_s": budget, "results": str(out.resolve()),
                    "cases": known_cases or None, "variants": known_variants or chosen(name, sweeps),
                    "runs": runs or registry.get(name).recorded_runs,
                }  # fmt: skip
                how: dict[str, Any] = {
                    "sweeps": sweeps,
                    "host": host,
                    "limit_s": limit,
                    "remeasure": remeasure,
                    "where": where,
                }
                summary = _by_cluster(crew, name, parameters, **how) if crew else _here(name, parameters, **how)
                seconds = time.perf_counter() - start
                say(f"{summary}, {seconds:.0f} s\n")
                done.append((f"{name} {scale} {spec}", summary, seconds))
    _hold_to_commit(where)  # rows of a change during the last lab are local
    for what, summary, seconds in done:
        say(f"{what}: {summary}, {seconds:.0f} s", hang=2)
    say(took(time.perf_counter() - began))


Asked = tuple[str, str, list[str], list[str]]
"""A lab, a scale, and which of the cases and variants that were asked for it has there; none where all are meant."""


def chosen_cases(
    labs: Sequence[str], scales: Sequence[str], cases: Sequence[str], variants: Sequence[str]
) -> list[Asked]:
    """Return what to measure where: each case at the scales that list it, each variant in the labs that have it.

    A case of a size that no scale lists is measured at the first scale: in labs that are named, or where no lab lists it. labs:
    all, if none is named. Errors: UsageError for a name that no lab knows, before anything is measured.
    """
    asked, found = list[Asked](), set[str]()
    names_of_labs = labs or [registry.PEAKS, *registry.names()]
    listed_by_any = (
        {case for name in names_of_labs for case in _names_of("case", [name], scales)} if not labs else set()
    )
    for name in names_of_labs:
        lab = registry.get(name)
        own_scales = scales or (("published",) if name == registry.PEAKS else ("published", "large"))
        own_variants = [variant for variant in variants if variant in {each.name for each in lab.all_variants()}]
        listed = {scale: [case.name for case in _cases_of(lab, scale)] for scale in own_scales}
        own_cases = {scale: [case for case in cases if case in listed[scale]] for scale in own_scales}
        for case in cases:
            is_listed = case in listed_by_any or any(case in names for names in own_cases.values())
            if not is_listed and lab.sized(case, own_scales[0]):
                for scale in scales or own_scales[:1]:
                    own_cases[scale].append(case)
        found |= {*own_variants, *(case for names in own_cases.values() for case in names)}
        if not variants or own_variants:
            asked += [
                (name, scale, own_cases[scale], own_variants) for scale in own_scales if own_cases[scale] or not cases
            ]
    for what, names in (("case", cases), ("variant", variants)):
        for name in names:
            if name not in found:
                raise one_of(what, name, _names_of(what, names_of_labs, scales))
    if not asked:
        raise UsageError("none of these labs has both a case and a variant of those that --case and --variant name")
    return asked


def _cases_of(lab: Lab, scale: str) -> list[Case]:
    """Return the cases of a scale, with those of its series."""
    series = [lab.case(name, scale) for each in lab.series(scale) for _, name in each.points]
    return [*lab.cases(scale), *series]


def _names_of(what: str, labs: Sequence[str], scales: Sequence[str]) -> list[str]:
    """Return the names that would be right, of cases or of variants."""
    known = [registry.get(name) for name in labs]
    if what == "variant":
        names = [variant.name for lab in known for variant in lab.all_variants() if variant.role != "sweep"]
    else:
        names = [case.name for lab in known for scale in scales or ("published", "large") for case in lab.cases(scale)]
        names += [lab.other_sizes for lab in known if lab.other_sizes]
    return list(dict.fromkeys(names))


def _hold_to_commit(where: StorePart) -> None:
    """Raises UsageError where rows that are to be recorded would not name their code: asked before each lab, and at the end."""
    if where == "recorded" and (why := checkout.refusal()):
        raise UsageError(why)


def chosen(lab: str, sweeps: bool) -> list[str] | None:
    """The variants to measure: None for all."""
    found = registry.get(lab)
    return None if sweeps else [variant.name for variant in (*found.ladder, *found.peers)]


def one_of_each_kind(found: list[Device]) -> list[Device]:
    """The first device of each backend and kind: a GPU by CUDA and by OpenCL, and the CPU."""
    return list({(device.backend, device.kind): device for device in reversed(found)}.values())[::-1]


def _by_cluster(
    crew: campaign.ClusterSweep, lab: str, parameters: dict[str, Any], *, where: StorePart, **how: Any
) -> Done:
    """As `_here`, by the workers of a cluster."""
    _hold_to_commit(where)
    summary, _, texts = crew.bring_up_to_date(
        lab, check(parameters), runs=parameters["runs"], peaks=False, parts=[where], where=where, **how
    )
    for text in texts:
        print(text, end="\n\n")
    return summary


def _here(
    lab: str, parameters: dict[str, Any], *, sweeps: bool, host: bool, limit_s: float, remeasure: bool, where: StorePart
) -> Done:
    """Measure what is not fresh, into this part of the store, and print the tables."""
    experiment = Experiment(lab, parameters, parts=[where])
    _hold_to_commit(where)
    device, store, policy = experiment.device, experiment.store, replace(experiment.policy, limit_s=limit_s)
    say(f"{experiment.lab.title} at scale {experiment.scale} on {device.spec}, {device.name}")
    cells = [
        cell
        for cell in experiment.plan()
        if (sweeps or cell.case in experiment.cases) and (host or cell.device.slug == device.slug)
    ]
    summary = schedule.bring_up_to_date(
        cells, device, store, policy, runs=experiment.parameters["runs"], remeasure=remeasure, where=where,
        progress=CasePrinter(), isolated=True,
    )  # fmt: skip
    for table in experiment.tables():
        print(table.text, end="\n\n")
    return summary


def took(seconds: float) -> str:
    """What the run took: time, and the most memory of the host."""
    those = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)  # each case is measured in a process of its own
    peak = max(resource.getrusage(who).ru_maxrss for who in those) * 1024
    return f"In all {seconds:.0f} s, at most {peak / 2**30:.1f} GiB of the host's memory"


QUIET_S = 10
"""Seconds after which a long run says again what it does."""


class CasePrinter:
    """A word to the terminal when a case begins, and one now and then, so that a long run is seen to live."""

    def __init__(self) -> None:
        self.case, self.last = "", 0.0

    def __call__(self, variant: str, what: str) -> None:
        case, _, name = variant.partition(" ")
        now = time.perf_counter()
        if case != self.case:
            say(f"  {case}", hang=4)
        elif now - self.last > QUIET_S:
            say(f"    {name}: {what}", hang=6)
        else:
            return
        self.case, self.last = case, now
