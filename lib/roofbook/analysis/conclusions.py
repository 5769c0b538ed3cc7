"""A lab's conclusions as sentences: its fastest steps, its baselines and its peers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..escaping import markdown_code
from . import format as show
from .sentences import joined, without_missing

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from .lab_data import Measured


def conclusions(lab: "Lab", measured: "Measured") -> str:
    """Return one paragraph a case: the fastest step against the baseline and a peer. Missing figures are left out."""
    paragraphs = []
    for case in [case.name for case in measured.cases]:
        peer = peer_comparison(measured, case)
        sentences = [fastest_step_sentence(lab, measured, case), *[f"{peer}."] * bool(peer)]
        paragraphs.append(f"**{case}.** " + " ".join(sentences))
    return "\n\n".join([*paragraphs, *about_bases(lab, measured)])


def fastest_step_sentence(lab: "Lab", measured: "Measured", case: str) -> str:
    """Return one sentence with the fastest step of a case, its time, and its speedup over the baseline if that is known."""
    fastest = measured.fastest(case)
    base = measured.base(case)
    against = without_missing([f", which is {measured.times(fastest, base, case)} {markdown_code(base)}"])
    time = f"{measured.value(fastest, case)} per {lab.unit}"
    scope = measured.runs_phrase(fastest, case)
    return f"The fastest kernel {scope} is {markdown_code(fastest)}: {time}{against}."


def finding_of_measured(finding: str, measured: "Measured") -> str:
    """Return a lab's finding, and that steps have no measurement on the largest case of this device, if some have none."""
    lacking, steps = measured.steps_without_measurement(measured.main_case)
    if not (finding and lacking):
        return finding
    return (
        f"{finding} This is of the steps measured on this device: on {measured.main_case}, {lacking} of {steps} "
        f"{'has' if lacking == 1 else 'have'} no measurement."
    )


def what_probes_leave(measured: "Measured", step: str, case: str, probes: Mapping[str, str]) -> str:
    """Return the share of a step's time that each of its probes takes, or that it is not measured; '' without the step's time.

    probes: name of a probe -> words for its kernel, such as `without products`.
    """
    whole = measured.seconds(step, case)
    if not whole:
        return ""
    known, unknown = list[str](), list[str]()
    for probe, words in probes.items():
        if seconds := measured.seconds(probe, case):
            known.append(f"{measured.value(probe, case)}, {show.percent(seconds / whole)} of it, {words} (`{probe}`)")
        else:
            unknown.append(f"{words} (`{probe}`)")
    taken = f"On {case} `{step}` takes {measured.value(step, case)}, and {joined(known)}. " if known else ""
    lacking = f"What `{step}` takes on {case} {joined(unknown)} is not measured here." if unknown else ""
    return f"{taken}{lacking}".strip()


def about_machines(measured: "Measured", case: str) -> str:
    """Return the runs and machines of the fastest step, beside those of the nearest step of more machines; '' without such."""
    fastest = measured.fastest(case)
    runs, machines = measured.spread(fastest, case)
    for rival in measured.near_fastest(case):
        rival_runs, rival_machines = measured.spread(rival, case)
        if rival_machines > machines:
            return (
                f"`{fastest}` has {show.several(runs, 'run')} and `{rival}` {rival_runs}, which ran on {machines} and on "
                f"{rival_machines} machines or GPUs."
            )
    return ""


def about_bases(lab: "Lab", measured: "Measured", cases: Iterable[str] | None = None) -> list[str]:
    """Return a sentence on each baseline of the speedups in sentences: its description, and the baseline that it replaces.

    cases: by default all. Without a time of any of the lab's baselines the list is empty.
    """
    notes = []
    first = lab.headline[0]
    for base in dict.fromkeys(map(measured.base, cases or [case.name for case in measured.cases])):
        if any(measured.seconds(base, case.name) is not None for case in measured.cases):
            description = lab.variant(base).description
            parts = [f"is {description}"] * bool(description)
            parts += [f"stands in for `{first}`, which has no time here"] * (base != first)
            notes += [f"`{base}` {', and '.join(parts)}."] * bool(parts)
    return notes


def peer_comparison(measured: "Measured", case: str) -> str:
    """Return how fast the fastest step of a case is compared with the best peer under equal conditions, and the conditions.

    If no peer has the same conditions: with the nearest peer, and the differences. If another peer is the fastest, a second
    sentence compares with that. Without the last full stop; '' if nothing is known.
    """
    fastest, sentences = measured.fastest(case), list[str]()
    kernel = markdown_code(fastest)
    for rival in measured.rivals(case):
        peer = markdown_code(rival.reading.variant) + f" (called by {rival.called_by})" * bool(rival.called_by)
        times = measured.times(fastest, rival.reading.variant, case)
        alone = f", while {kernel} {joined(rival.only_kernel)}" if rival.only_kernel else ""
        differences = f"{which('', rival.only_rival)}{alone}"
        if sentences:
            sentences.append(f"{kernel} is {times} the fastest peer, {peer}{differences}")
        elif rival.alike:
            sentences.append(
                f"Under equal conditions {kernel} is {times} the best peer, {peer}{which('also ', rival.shared)}"
            )
        else:
            sentences.append(f"{kernel} is {times} the nearest peer, {peer}{differences}")
    return without_missing(sentences, ". ")


def which(how: str, conditions: Sequence[str]) -> str:
    """Return a relative clause of conditions as in `Lab.conditions`: ', which rounds results to fp16 and ...'; '' for none."""
    return f", which {how}{joined(conditions)}" if conditions else ""
