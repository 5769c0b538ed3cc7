"""The statements of the original reports, judged by our own measurements by a written rule."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..measure import stats
from ..store.current import matching_source
from ..store.published import claims
from ..store.schema import PROFILE
from .claim_data import Cells, MissingData, NotApplicable
from .evidence import Counted, Evidence, Finding, NotTestable
from .publication import publication
from .store_devices import StoreDevice, rows_by_device

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from ..store.parquet import Store

SCALE = "published"
"""Statements are about the sizes that were published, and judged at no others."""
NEAR = 1.25
"""An effect within this factor of the published one is the same."""
NONE_PUBLISHED = stats.LEAST
"""A published effect within this factor of 1 says that there is none, as ours within it is none."""
VERDICTS = (
    *("holds", "holds weaker", "holds stronger", "reversed", "no difference", "a difference", "undecided"),
    *("not measured", "not testable"),
)


def verdict(effect: float | None, found: Finding) -> str:
    """What our number says of a published statement: one of the first seven of VERDICTS.

    effect: the published number f; None for a statement without one. found: ours, with its 95 % interval [low, high]. Both
    are relative to the number t at which the statement would turn into its opposite: `found.turn`, which is 1 for a ratio. The
    rule is the same for f and 1/f, as if both were turned round together. Whether ours differs from t is decided as in every
    table, by `stats.relation`: faster, slower, the same, or undecided.

    Where f is within 1 % of t, the statement is that there is no difference:
    - holds: ours is the same as t;
    - a difference: ours is faster or slower;
    - undecided: else.

    Otherwise f says which side of t is meant, and how far from it. Ours is the same effect from f/1.25 to 1.25 f and, so that
    a small effect is not taken for none, from half of it to twice as much on a logarithmic scale:
    - holds: ours differs from t on the side of f, and its estimate is the same effect;
    - holds weaker, holds stronger: ours differs on that side, and the estimate lies below the same effect, or beyond it;
    - reversed: ours differs from t on the other side;
    - no difference: ours is the same as t, and its estimate is not the same effect;
    - undecided: else.

    A statement without a number says on which side of t ours is. It holds, is reversed, shows no difference, or is undecided.
    One that ours is less than t, such as that a step gains little, has no band, with a number or without: it holds below t, is
    reversed above, and is undecided where the interval has both. What a table calls faster reverses a statement that a step
    gains nothing.

    Where t is 0 the statement is a quantity, which has no opposite. It holds where all of the interval lies within f/1.25 and
    1.25 f, shows a difference where none of it does, and is undecided else. Raises ValueError for one without a number.
    """
    if found.turn == 0:
        return _quantity(effect, found)
    if found.below:
        gains = found.turn <= stats.EQUAL and stats.relation(found.low, found.high) == "faster"
        if gains or found.low > found.turn:
            return "reversed"
        return "holds" if found.high < found.turn else "undecided"
    estimate, low, high, turn = found.estimate, found.low, found.high, found.turn
    if effect is not None and effect < turn:
        estimate, low, high, turn = _inverse(estimate), _inverse(high), _inverse(low), _inverse(turn)
        effect = _inverse(effect)
    relation = stats.relation(low / turn, high / turn, found.least)
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
    """Whether a published number says that there is no difference."""
    return turn / NONE_PUBLISHED <= effect <= turn * NONE_PUBLISHED


def _quantity(effect: float | None, found: Finding) -> str:
    if effect is None:
        raise ValueError("a quantity is judged by a published number, and there is none")
    low, high = effect / NEAR, effect * NEAR
    if low <= found.low and found.high <= high:
        return "holds"
    return "a difference" if found.high < low or found.low > high else "undecided"


def _inverse(value: float) -> float:
    return 1 / value if value else math.inf


@dataclass(frozen=True)
class Verdict:
    """A verdict on one device, with the number that it rests on, or why there is none."""

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
    """What was published: one number, none, or those that nothing tells of."""
    evidence: Evidence
    variants: tuple[str, ...]
    """Those whose cells the evidence needs."""
    outcomes: Mapping[StoreDevice, Verdict]


def judged(lab: "Lab", store: "Store") -> list[Judged]:
    """Every claim of the lab's report by what `store` holds, in the order of the file; one entry a piece of evidence.

    A row counts if it was measured at a published size and if its kernel is, letter for letter, that of today's code; the
    host's code may have changed since. The newest of each variant and case is read, in all of its runs, and gives a number
    only if it is verified. Devices are all of those in the store of which any claim has its cells. Errors: UsageError for a
    lab without claims.
    """
    from ..paths import project_root

    own = (store.root / "published").is_dir()
    statements = claims(lab.name, store.root if own else project_root() / "results")
    evidence = publication(lab).evidence
    on = _devices(lab, store)
    lines = []
    for claim in statements.to_dict("records"):
        pieces = evidence.get(claim["id"], (NotTestable("no measurement of ours tests it"),))
        for piece, mine in zip(pieces, effects_of(pieces, claim["effects"]), strict=True):
            outcomes = {place: verdict_on(mine, piece, cells) for place, cells in on.items()}
            said = claim["id"], claim["claim"], claim["shown_by"], mine
            lines.append(Judged(*said, piece, piece.variants(lab), outcomes))
    shown = [place for place in on if any(line.outcomes[place].finding for line in lines)]
    return [replace(line, outcomes={place: line.outcomes[place] for place in shown}) for line in lines]


def only(lines: Sequence[Judged], device: str) -> list[Judged]:
    """The same with the verdicts of one device, by all of its backends."""
    return [
        replace(line, outcomes={place: each for place, each in line.outcomes.items() if place.device == device})
        for line in lines
    ]


def effects_of(pieces: Sequence[Evidence], effects: tuple[float, ...]) -> list[tuple[float, ...]]:
    """The published numbers of each piece of evidence: one each, or the same for all that they are of."""
    if len(effects) == len(pieces):
        return [(effect,) for effect in effects]
    return [effects if piece.numbered else () for piece in pieces]


def verdict_on(effects: tuple[float, ...], evidence: Evidence, cells: Cells) -> Verdict:
    """What the cells of a device say of a statement, or why they say nothing. effects: as `effects_of` gives them."""
    try:
        found = evidence.find(cells)
    except NotApplicable as why:
        return Verdict("not testable", reason=str(why))
    except MissingData as why:
        return Verdict("not measured", reason=str(why))
    effect = effects[0] if effects and evidence.effect is None else evidence.effect
    return Verdict(verdict(effect, found), found)


def _devices(lab: "Lab", store: "Store") -> dict[StoreDevice, Cells]:
    """The cells of each device that evidence asks for, by the device's name; its host's are those of the same machine."""
    every = [piece for pieces in publication(lab).evidence.values() for piece in pieces]
    asked = dict.fromkeys(name for piece in every for name in piece.variants(lab))
    if not asked:
        return {}
    rows = matching_source(lab, store.rows(lab.name, scale=SCALE, variant=list(asked)))
    profiles = matching_source(lab, store.rows(lab.name, scale=SCALE, variant=list(asked), role=PROFILE))
    found = {}
    for place, mine in rows_by_device(lab, rows):
        peaks = store.rows("peaks", scale=SCALE, device=place.device, backend=place.backend)
        watched = profiles[(profiles["device"] == place.device) & (profiles["backend"] == place.backend)]
        found[place] = Cells(lab, mine, peaks, watched, backend=place.backend, kind=place.kind, name=place.name)
    for cells in found.values():
        cells.others = [each for each in found.values() if each is not cells]
    return dict(sorted(found.items(), key=lambda each: (each[0].kind != "gpu", str(each[0]))))


FEW = 16
"""Variants that a command names one by one; with more it measures all of the lab."""


def command(lab: "Lab", pieces: Sequence[Evidence]) -> str:
    """What a reader types to measure the cells behind a claim again; '' where there are none."""
    variants = list(dict.fromkeys(name for piece in pieces for name in piece.variants(lab)))
    cases = list(dict.fromkeys(piece.case for piece in pieces if piece.case))
    if not variants:
        return ""
    if all(isinstance(piece, Counted) for piece in pieces):
        counted = [f"roofbook profile {lab.name} {name} {case}" for case in cases for name in variants]
        return " && ".join(f"{each} --scale {SCALE} --remeasure" for each in counted)
    chosen = f" -p variants '[{', '.join(variants)}]'" if len(variants) <= FEW else ""
    return f"roofbook run {lab.name} --scale {SCALE}{chosen} -p cases '[{', '.join(cases)}]' -p remeasure true"
