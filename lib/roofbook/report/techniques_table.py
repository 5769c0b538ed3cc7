"""Tables of techniques: the steps of one, all of them with their effects, what never paid, and what made something slower."""

from collections.abc import Sequence

from ..analysis import format as show
from ..analysis.technique_effects import Effect, StepEffects, TechniqueEffects
from ..escaping import escape
from ..measure.stats import CONFIDENCE, LEAST
from ..spec.step_marks import marks
from ..spec.techniques import GROUPS, Technique
from .columns import Column, count_column, table, text_column
from .html import Cell, StandingNote, Table
from .table_cell import with_code
from .technique_forest import effect_records, outcome_text, outcomes, story_address

RATIO = StandingNote(
    f"Effect: how many times as fast as its parent a step is. A step is 'faster' or 'slower' where the whole {CONFIDENCE} "
    f"interval lies more than {100 * (LEAST - 1):g} % from 1. Undecided measurements count as the same."
)


def extent(effects: Sequence[Effect]) -> str:
    """Return the range of effects, such as '0.49 to 2.06'; one number for one effect, and a dash for none."""
    estimates = [effect.ratio.estimate for effect in effects]
    ends = (
        list(dict.fromkeys(show.number(estimate) for estimate in (min(estimates), max(estimates)))) if effects else []
    )
    return " to ".join(ends) or show.DASH


def steps_of_technique(technique: Technique, steps: Sequence[StepEffects]) -> Table:
    """Return a table with a line for each step that changes a technique: its change, its effects, links to story and code."""

    def others(step: StepEffects) -> str:
        names = [f"{tag.technique.name}{' (taken away)' * tag.taken_away}" for tag in step.others(technique)]
        return "; ".join(names) or show.DASH

    def name(step: StepEffects) -> Cell:
        verb = "takes it away from" if step.takes_away(technique) else "over"
        small = f"{step.lab.title}, {verb} {step.step.parent}{_needs(step)}"
        return Cell(step.step.name, small=small, href=story_address(step))

    columns: list[Column[StepEffects]] = [
        Column("Step", name),
        Column("What changes", lambda step: Cell(step.step.change, "change")),
        Column("Also changes", others, "wrap"),
        Column("Effect", _effect_cell, "num"),
        Column("Code", lambda step: Cell("code", href=f"../labs/{step.lab.name}/kernels.html#{step.step.name}")),
    ]
    caption = f"{technique.name}: the steps"
    return table(caption, columns, steps, [RATIO], "techniques", records=effect_records(steps))


BAR_KEY = "".join(
    f'<span><i class="outcome-key {word}" aria-hidden="true"></i>{words}</span>'
    for word, words in (("faster", "faster than its parent"), ("same", "the same, or undecided"), ("slower", "slower"))
)
"""Legend of the bars in the list of techniques."""


def technique_list(techniques: Sequence[TechniqueEffects], to_pages: str) -> str:
    """Return the list of all techniques as HTML: for each group, each technique with its outcomes as a bar and in words.

    to_pages: address of the folder of their pages.
    """
    parts = []
    for group in GROUPS:
        items = "\n".join(_list_item(known, to_pages) for known in techniques if known.technique.group == group)
        parts.append(f'<h3>{escape(group)}</h3>\n<ul class="technique-list">\n{items}\n</ul>\n')
    key = f'<p class="table-note outcome-bar-key">A bar: the share of measurements in which a step is {BAR_KEY}</p>\n'
    return key + "".join(parts)


def _list_item(known: TechniqueEffects, to_pages: str) -> str:
    technique = known.technique
    counts = outcomes(known.counts)
    spans = "".join(f'<i class="{word}" style="flex-grow: {count}"></i>' for word, count in counts.items() if count)
    bar = f'<span class="outcome-bar" aria-hidden="true">{spans}</span>' * bool(spans)
    return (
        f'<li id="{technique.key}"><a href="{to_pages}{technique.key}.html">{escape(technique.name)}</a> '
        f"{bar}<span>{with_code(technique.about)}</span> <small>{escape(summary(known))}</small></li>"
    )


def effects_alone(known: TechniqueEffects) -> str:
    """Return a list as HTML of the steps that change nothing but a technique, each with its effect; '' for none."""
    items = "\n".join(
        f'<li>{escape(step.lab.title)}: <a href="{story_address(step)}"><code>{escape(step.step.name)}</code></a> is '
        f"<strong>{escape(extent(step.effects))}</strong> times as fast as <code>{escape(step.step.parent)}</code> "
        f"({escape(outcome_text(step))}{escape(_needs(step))}). {with_code(step.step.change)}</li>"
        for step in known.alone
    )
    return f"<p>Steps that change nothing else:</p>\n<ul>\n{items}\n</ul>\n" if items else ""


def summary(known: TechniqueEffects) -> str:
    """Return the outcomes of a technique in words: its steps, how many of them paid, its measurements, and its range."""
    if not known.adding:
        return f"{show.several(len(known.steps), 'step')}, not measured."
    paid = sum(step.pays for step in known.adding)
    effects = [effect for step in known.adding for effect in step.effects]
    alone = [effect for step in known.alone for effect in step.effects]
    verb = "is" if paid == 1 else "are"
    sentences = [f"{paid} of {show.several(len(known.adding), 'measured step')} {verb} faster somewhere"]
    faster = f"{known.counts['faster']} of {show.several(len(effects), 'measurement')} faster, {known.counts['slower']} slower"
    sentences.append(f"{faster}; {extent(effects)} times as fast")
    if alone and len(alone) < len(effects):
        sentences.append(f"Steps that change nothing else ({len(known.alone)}): {extent(alone)}")
    return ". ".join(sentences) + "."


def techniques_table(techniques: Sequence[TechniqueEffects]) -> Table:
    """Return a table with a line for each technique: its steps, those that paid, its measurements by outcome, its range."""

    def effects(known: TechniqueEffects) -> list[Effect]:
        return [effect for step in known.adding for effect in step.effects]

    def count_of(word: str) -> Column[TechniqueEffects]:
        return count_column(word.capitalize(), word, lambda known: outcomes(known.counts)[word])

    def ends(known: TechniqueEffects) -> tuple[float | None, float | None]:
        estimates = [effect.ratio.estimate for effect in effects(known)]
        return (min(estimates), max(estimates)) if estimates else (None, None)

    columns: list[Column[TechniqueEffects]] = [
        text_column("Technique", "technique", lambda known: known.technique.name),
        count_column("Steps", "steps", lambda known: len(known.steps)),
        count_column("Measured", "measured", lambda known: len(known.adding)),
        count_column("Paid", "paid", _paid),
        *(count_of(word) for word in ("faster", "same", "slower")),
        Column(
            "Effect",
            lambda known: extent(effects(known)),
            "num",
            {"least": lambda known: ends(known)[0], "greatest": lambda known: ends(known)[1]},
        ),
    ]
    return table("All techniques", columns, techniques, [RATIO])


def _paid(known: TechniqueEffects) -> int:
    return sum(step.pays for step in known.adding)


def never_paid(steps: Sequence[StepEffects]) -> Table:
    """Return a table of the steps that are nowhere faster than their parents, the slowest first."""
    useless = [step for step in steps if step.effects and not step.pays]
    useless.sort(key=lambda step: min(effect.ratio.estimate for effect in step.effects))
    columns: list[Column[StepEffects]] = [
        Column("Step", _name_cell),
        Column("What changes", lambda step: Cell(step.step.change, "change")),
        Column("Techniques", _technique_names, "wrap"),
        Column("Effect", _effect_cell, "num"),
    ]
    return table(
        "Steps that are nowhere faster", columns, useless, [RATIO], "techniques", records=effect_records(useless)
    )


def slower_on(device: str, steps: Sequence[tuple[StepEffects, Effect]]) -> Table:
    """Return a table of the measurements on a device in which a step is slower than its parent, the slowest first."""
    ordered = sorted(steps, key=lambda pair: pair[1].ratio.estimate)
    columns: list[Column[tuple[StepEffects, Effect]]] = [
        Column("Step", lambda pair: _name_cell(pair[0])),
        Column("What changes", lambda pair: Cell(pair[0].step.change, "change")),
        Column("Techniques", lambda pair: _technique_names(pair[0]), "wrap"),
        Column("Case", lambda pair: pair[1].case),
        Column(
            "Effect",
            lambda pair: Cell(
                show.factor(pair[1].ratio.estimate, pair[1].ratio.low, pair[1].ratio.high),
                "num slower",
                card_id=pair[1].card,
            ),
            "num",
        ),
    ]
    records = effect_records([StepEffects(step.lab, step.step, step.tags, [effect]) for step, effect in ordered])
    return table(f"Slower on {device}", columns, ordered, [RATIO], "techniques", records=records)


def _technique_names(step: StepEffects) -> str:
    return "; ".join(f"{tag.technique.name}{' (taken away)' * tag.taken_away}" for tag in step.tags)


def _name_cell(step: StepEffects) -> Cell:
    """Return the cell of a step's name and lab on the index page."""
    return Cell(step.step.name, small=f"{step.lab.title}{_needs(step)}", href=story_address(step).removeprefix("../"))


def _needs(step: StepEffects) -> str:
    """Return what a step needs of a device, in words that follow the name of its lab; '' if it needs nothing."""
    needs = marks(step.step)
    return f"; needs {' and '.join(needs)}" if needs else ""


def _effect_cell(step: StepEffects) -> Cell:
    """Return the cell of the range of a step's effect, with its outcomes."""
    return Cell(extent(step.effects), "num", small=outcome_text(step) or "not measured")
