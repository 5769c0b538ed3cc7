"""A lab's conclusions as sentences: its fastest steps, its baselines and its peers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..escaping import markdown_code
from . import format as show
from .sentences import joined, shorter_medians, without_missing

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
    return "\n\n".join([*paragraphs, *baseline_notes(lab, measured)])


PARAGRAPH = "\n\n"
"""Separator of paragraphs in Markdown."""


def fastest_step_sentence(lab: "Lab", measured: "Measured", case: str) -> str:
    """Return the fastest step of a case, its time, and its speedup over the baseline if that is known.

    Sentences follow on the steps whose medians are shorter, though the fastest step is faster where both ran.
    """
    fastest = measured.fastest(case)
    base = measured.base(case)
    against = without_missing([f", which is {measured.ratio_text(fastest, base, case)} {markdown_code(base)}"])
    time = f"{measured.time_text(fastest, case)} per {lab.unit}"
    scope = measured.runs_phrase(fastest, case)
    kernel = markdown_code(fastest)
    shorter = [
        (markdown_code(step), measured.time_text(step, case), measured.ratio_text(fastest, step, case))
        for step in measured.shorter_elsewhere(case)
    ]
    sentences = [f"The fastest kernel {scope} is {kernel}: {time}{against}.", shorter_medians(kernel, shorter)]
    return " ".join(filter(None, sentences))


def finding_of_measured(finding: str, measured: "Measured") -> str:
    """Return a lab's finding, and how many steps it leaves out, since they have no measurement on this device's main case."""
    lacking, steps = measured.steps_without_measurement(measured.main_case)
    if not (finding and lacking):
        return finding
    separator = PARAGRAPH if PARAGRAPH in finding else " "
    has, them = ("has", "it") if lacking == 1 else ("have", "them")
    return (
        f"{finding}{separator}On {measured.main_case}, {lacking} of the {show.several(steps, 'step')} that can run here {has} "
        f"no measurement, so this answer leaves {them} out."
    )


def probe_shares(measured: "Measured", step: str, case: str, probes: Mapping[str, str]) -> str:
    """Return the share of a step's time that each of its probes takes; '' without a time of the step or of any probe.

    probes: name of a probe -> words for its kernel, such as `without products`. Shares are of shared runs, if there are any.
    """
    ratios = {probe: measured.ratio(probe, step, case) for probe in probes}
    shares = [
        f"{show.percent(1 / ratio.estimate)} {probes[probe]} "
        f"(`{probe}`: {measured.time_text(probe, case)}{f' {ratio.how}' * bool(ratio.how)})"
        for probe, ratio in ratios.items()
        if ratio
    ]
    if not shares:
        return ""
    lacking = joined([f"`{probe}`" for probe, ratio in ratios.items() if not ratio])
    sentence = (
        f"On {case} `{step}` takes {measured.time_text(step, case)}. What remains of that time is {joined(shares)}."
    )
    return f"{sentence} Not measured here: {lacking}." if lacking else sentence


def machine_note(measured: "Measured", cases: Iterable[str]) -> str:
    """Return a sentence for each fastest step with a near rival that ran on more machines, and the doubt that this leaves.

    It is '' without such a step.
    """
    cases_by_sentence: dict[str, list[str]] = {}
    for case in cases:
        if sentence := _rival_on_more_machines(measured, case):
            cases_by_sentence.setdefault(sentence, []).append(case)
    if not cases_by_sentence:
        return ""
    sentences = [f"On {joined(names)} {sentence}." for sentence, names in cases_by_sentence.items()]
    return " ".join([*sentences, "Other machines may reverse the order of two such steps."])


def _rival_on_more_machines(measured: "Measured", case: str) -> str:
    """Return the runs and machines of the fastest step and of the nearest step of more machines; '' without such a step."""
    fastest = measured.fastest(case)
    runs, machines = measured.spread(fastest, case)
    for rival in measured.near_fastest(case):
        rival_runs, rival_machines = measured.spread(rival, case)
        if rival_machines > machines:
            return (
                f"`{fastest}` has {show.several(runs, 'run')} on {machines} and `{rival}` {rival_runs} on {rival_machines} "
                "machines or GPUs"
            )
    return ""


def baseline_notes(lab: "Lab", measured: "Measured", cases: Iterable[str] | None = None) -> list[str]:
    """Return a sentence on each baseline of the speedups that stands in for the lab's first: its description, and the first.

    The answer at the top of a page describes the first, as does its step. cases: by default all. A baseline without a time
    has no sentence.
    """
    notes = []
    first = lab.headline[0]
    for base in dict.fromkeys(map(measured.base, cases or [case.name for case in measured.cases])):
        if base != first and any(measured.seconds(base, case.name) is not None for case in measured.cases):
            description = lab.variant(base).description
            is_described = f"is {description}, and " * bool(description)
            notes.append(f"`{base}` {is_described}stands in for `{first}`, which has no time here.")
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
        times = measured.ratio_text(fastest, rival.reading.variant, case)
        alone = f", while {kernel} {joined(rival.only_kernel)}" if rival.only_kernel else ""
        differences = f"{conditions_clause('', rival.only_rival)}{alone}"
        if sentences:
            sentences.append(f"{kernel} is {times} the fastest peer, {peer}{differences}")
        elif rival.alike:
            sentences.append(
                f"Under equal conditions {kernel} is {times} the best peer, {peer}{conditions_clause('also ', rival.shared)}"
            )
        else:
            sentences.append(f"{kernel} is {times} the nearest peer, {peer}{differences}")
    return without_missing(sentences, ". ")


def conditions_clause(how: str, conditions: Sequence[str]) -> str:
    """Return a relative clause of conditions as in `Lab.conditions`: ', which rounds results to fp16 and ...'; '' for none."""
    return f", which {how}{joined(conditions)}" if conditions else ""
