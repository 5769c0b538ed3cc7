"""Verdicts on the statements of the original reports: our measurements judge them by a written rule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..devices.backends import BROWSER
from ..measure import stats
from ..store.published_results import claims, results_of
from ..store.schema import PROFILE
from ..store.todays_code import rows_of_today
from .claim_data import ClaimData, MissingData, NotApplicable
from .evidence import CounterRatio, Evidence, Finding, NotTestable
from .publication import publication
from .store_devices import StoreDevice, peers_by_other_backends, rows_by_device

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from ..store.parquet import Store

SCALE = "published"
"""The scale of the published sizes, at which statements are judged; no other scale counts."""
NEAR = 1.25
"""Factor around the published effect within which ours is the same effect."""
NONE_PUBLISHED = stats.LEAST
"""Factor around 1 within which a published effect says that there is no difference, as within it ours is none."""
VERDICTS = (
    *("holds", "holds weaker", "holds stronger", "reversed", "no difference", "a difference", "undecided"),
    *("not measured", "not testable"),
)


def verdict(effect: float | None, finding: Finding) -> str:
    """Return our measurement's verdict on a published statement: one of the first seven of VERDICTS.

    effect: the published number f; None for a statement without one. finding: ours, with its 95 % interval [low, high]. Both
    are relative to the number t at which the statement would turn into its opposite: `finding.turn`, which is 1 for a ratio.
    The rule is the same for f and 1/f, as if both were turned round together. Whether ours differs from t is decided as in
    every table, by `stats.relation`: faster, slower, the same, or undecided.

    If f is within 1 % of t, the statement is that there is no difference:
    - holds: ours is the same as t;
    - a difference: ours is faster or slower;
    - undecided: else.

    Otherwise f says which side of t is meant, and how far from it. Ours is the same effect from f/1.25 to 1.25 f and, so that a
    small effect is not taken for none, from half of it to twice as much on a logarithmic scale:
    - holds: ours differs from t on the side of f, and its estimate is the same effect;
    - holds weaker, holds stronger: ours differs on that side, and the estimate lies below the same effect, or beyond it;
    - reversed: ours differs from t on the other side;
    - no difference: ours is the same as t, and its estimate is not the same effect;
    - undecided: else.

    A statement without a number says on which side of t ours is. It holds, is reversed, shows no difference, or is undecided.
    One that ours is less than t, such as that a step gains little, has no band, with a number or without: it holds below t, is
    reversed above, and is undecided if the interval has both. If a table calls a step faster, the statement that it gains
    nothing is reversed.

    If t is 0, the statement is a quantity, which has no opposite. It holds if all of the interval lies within f/1.25 and 1.25
    f, shows a difference if none of it does, and is undecided else. Errors: ValueError for one without a number.
    """
    if finding.turn == 0:
        return _quantity(effect, finding)
    if finding.below:
        gains = finding.turn <= stats.EQUAL and stats.relation(finding.low, finding.high) == "faster"
        if gains or finding.low > finding.turn:
            return "reversed"
        return "holds" if finding.high < finding.turn else "undecided"
    estimate, low, high, turn = finding.estimate, finding.low, finding.high, finding.turn
    if effect is not None and effect < turn:
        estimate, low, high, turn = _inverse(estimate), _inverse(high), _inverse(low), _inverse(turn)
        effect = _inverse(effect)
    relation = stats.relation(low / turn, high / turn, finding.least)
    if effect is not None and no_difference(effect, turn):
        return {"same": "holds", "undecided": "undecided"}.get(relation, "a difference")
    near, far = turn, math.inf
    if effect is not None:
        near = max(effect / NEAR, math.sqrt(effect * turn))
        far = min(effect * NEAR, effect / turn * effect)
    if relation == "slower":
        return "reversed"
    if relation == "same" and not (effect is not None and near <= estimate <= far):
        return "no difference"
    if relation != "faster":
        return "undecided"
    return "holds weaker" if estimate < near else "holds stronger" if estimate > far else "holds"


def no_difference(effect: float, turn: float = 1.0) -> bool:
    """Return whether a published number says that there is no difference."""
    return turn / NONE_PUBLISHED <= effect <= turn * NONE_PUBLISHED


def _quantity(effect: float | None, finding: Finding) -> str:
    if effect is None:
        raise ValueError("a quantity is judged by a published number, and there is none")
    low, high = effect / NEAR, effect * NEAR
    if low <= finding.low and finding.high <= high:
        return "holds"
    return "a difference" if finding.high < low or finding.low > high else "undecided"


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


@dataclass(frozen=True)
class Verdict:
    """A verdict on one device, with the number that it rests on, or the reason why there is none."""

    verdict: str
    finding: Finding | None = None
    reason: str = ""


@dataclass(frozen=True)
class Judged:
    """One piece of evidence for a claim, or for one of several numbers of it, and the verdict of each device."""

    id: str
    claim: str
    shown_by: str
    effects: tuple[float, ...]
    """Published numbers: one, none, or several that no measurement tests."""
    evidence: Evidence
    variants: tuple[str, ...]
    """The variants whose measurements the evidence needs."""
    outcomes: Mapping[StoreDevice, Verdict]


def judged(lab: "Lab", store: "Store") -> list[Judged]:
    """Return every claim of the lab's report with verdicts from the store, in the file's order, one entry a piece of evidence.

    A row counts if it was measured at a published size and if its kernel is, letter for letter, that of today's code; the
    host's code may have changed since. The newest of each variant and case is read, in all of its runs, and gives a number only
    if it is verified. Devices are all those of the store with the measurements of any claim. Errors: UsageError for a lab
    without claims.
    """
    statements = claims(lab.name, results_of(lab.name, store.root))
    evidence = publication(lab).evidence
    data_by_device = _devices(lab, store)
    lines = []
    for claim in statements.to_dict("records"):
        pieces = evidence.get(claim["id"], (NotTestable("no measurement of ours tests it"),))
        for piece, published in zip(pieces, effects_of(pieces, claim["effects"]), strict=True):
            outcomes = {device: verdict_on(published, piece, data) for device, data in data_by_device.items()}
            texts = claim["id"], claim["claim"], claim["shown_by"]
            lines.append(Judged(*texts, published, piece, piece.variants(lab), outcomes))
    with_finding = [device for device in data_by_device if any(line.outcomes[device].finding for line in lines)]
    return [replace(line, outcomes={device: line.outcomes[device] for device in with_finding}) for line in lines]


def only(lines: Sequence[Judged], slug: str) -> list[Judged]:
    """Return the lines with the verdicts of one device only, by all of its backends. slug: its name in the store."""
    return [
        replace(line, outcomes={device: v for device, v in line.outcomes.items() if device.slug == slug})
        for line in lines
    ]


def effects_of(pieces: Sequence[Evidence], effects: tuple[float, ...]) -> list[tuple[float, ...]]:
    """Return the published numbers of each piece of evidence: one each, or all of them for each piece that they apply to."""
    if len(effects) == len(pieces):
        return [(effect,) for effect in effects]
    return [effects if piece.numbered else () for piece in pieces]


def verdict_on(effects: tuple[float, ...], evidence: Evidence, claim_data: ClaimData) -> Verdict:
    """Return the verdict of a device's measurements on a statement, or why they give none. effects: as `effects_of` returns."""
    try:
        finding = evidence.find(claim_data)
    except NotApplicable as error:
        return Verdict("not testable", reason=str(error))
    except MissingData as error:
        return Verdict("not measured", reason=str(error))
    effect = effects[0] if effects and evidence.effect is None else evidence.effect
    return Verdict(verdict(effect, finding), finding)


def _devices(lab: "Lab", store: "Store") -> dict[StoreDevice, ClaimData]:
    """Return the measurements that the lab's evidence needs, by device: GPUs first, then by name.

    A device's data includes the measurements of its machine's host, and of the peers that another backend runs on this device.
    Runs in a browser judge no claim.
    """
    import pandas as pd

    every = [piece for pieces in publication(lab).evidence.values() for piece in pieces]
    needed = dict.fromkeys(name for piece in every for name in piece.variants(lab))
    if not needed:
        return {}
    rows = rows_of_today(lab, store, scale=SCALE, variant=list(needed))
    profiles = rows_of_today(lab, store, scale=SCALE, variant=list(needed), role=PROFILE)
    by_device = {}
    for device, device_rows in rows_by_device(lab, rows):
        backend = device.backend
        if backend == BROWSER:
            continue
        peaks = store.rows("peaks", scale=SCALE, device=device.slug, backend=backend)
        counted = profiles[(profiles["device"] == device.slug) & (profiles["backend"] == backend)]
        with_peers = pd.concat([device_rows, peers_by_other_backends(lab, rows, device_rows, device.slug)])
        by_device[device] = ClaimData(
            lab, with_peers, peaks, counted, backend=backend, kind=device.kind, name=device.name
        )
    for claim_data in by_device.values():
        claim_data.other_devices = [other for other in by_device.values() if other is not claim_data]
    return {device: by_device[device] for device in sorted(by_device, key=lambda d: (d.kind != "gpu", str(d)))}


FEW = 16
"""Number of variants that a command names one by one; with more it measures the whole lab."""


def command(lab: "Lab", pieces: Sequence[Evidence]) -> str:
    """Return the command that measures the data behind a claim again; '' if nothing can be measured."""
    variants = list(dict.fromkeys(name for piece in pieces for name in piece.variants(lab)))
    cases = list(dict.fromkeys(piece.case for piece in pieces if piece.case))
    if not variants:
        return ""
    if all(isinstance(piece, CounterRatio) for piece in pieces):
        commands = [f"roofbook profile {lab.name} {name} {case}" for case in cases for name in variants]
        return " && ".join(f"{line} --scale {SCALE} --remeasure" for line in commands)
    chosen = f" -p variants '[{', '.join(variants)}]'" if len(variants) <= FEW else ""
    return f"roofbook run {lab.name} --scale {SCALE}{chosen} -p cases '[{', '.join(cases)}]' -p remeasure true"
