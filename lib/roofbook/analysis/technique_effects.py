"""Effects of techniques on recorded devices: how many times as fast each step is as its parent, wherever both were measured.

Serves the pages about techniques. A step that changes several techniques at once counts for each of them, and its effect is not
that of one alone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ..devices.backends import CUDA
from ..measure import stats
from ..spec.lab import Lab
from ..spec.plan import SCALES, Variant
from ..spec.techniques import TECHNIQUES, Tag, Technique, step_tags
from ..store.parquet import Store
from .readings import Speedup, faster
from .recorded import recorded
from .store_devices import StoreDevice, card_of


class Effect(NamedTuple):
    """A step and its parent on a case, both verified on one recorded device."""

    device: StoreDevice
    scale: str
    case: str
    ratio: Speedup
    """How many times as fast as its parent the step is, with the interval."""
    card: str
    """The step's measurement, as `card_of` names it."""


class StepEffects:
    """A step of a ladder with its techniques, and its effect on each device and case."""

    def __init__(self, lab: Lab, step: Variant, tags: Sequence[Tag], effects: Sequence[Effect]) -> None:
        self.lab, self.step, self.tags, self.effects = lab, step, tags, effects

    def takes_away(self, technique: Technique) -> bool:
        """Return whether the step does without a technique that its parent has."""
        return Tag(technique, True) in self.tags

    def others(self, technique: Technique) -> list[Tag]:
        """Return the step's tags of other techniques."""
        return [tag for tag in self.tags if tag.technique != technique]

    @cached_property
    def counts(self) -> Counter[stats.Relation]:
        """Number of measurements by the relation of the step's time to its parent's."""
        return Counter(effect.ratio.word for effect in self.effects)

    @property
    def pays(self) -> bool:
        """Whether the step is faster than its parent in any measurement."""
        return self.counts["faster"] > 0


class TechniqueEffects:
    """A technique with all steps that change it: in the order of the labs and their ladders."""

    def __init__(self, technique: Technique, steps: Sequence[StepEffects]) -> None:
        self.technique, self.steps = technique, steps

    @cached_property
    def adding(self) -> list[StepEffects]:
        """The measured steps that add the technique, whatever else they change."""
        return [step for step in self.steps if step.effects and not step.takes_away(self.technique)]

    @cached_property
    def alone(self) -> list[StepEffects]:
        """The measured steps that add the technique and change no other."""
        return [step for step in self.adding if not step.others(self.technique)]

    @cached_property
    def counts(self) -> Counter[stats.Relation]:
        """Number of measurements of the steps that add it, by relation."""
        return sum((step.counts for step in self.adding), Counter())


def tagged_steps(lab: Lab, effects: Mapping[str, Sequence[Effect]]) -> list[StepEffects]:
    """Return the tagged steps of a lab in the order of its ladder. effects: by step, as `effects_by_step` returns them."""
    tags = step_tags(lab)
    return [
        StepEffects(lab, variant, tags.get(variant.name, ()), effects.get(variant.name, []))
        for variant in lab.ladder
        if tags.get(variant.name)
    ]


def effects_by_step(lab: Lab, store: Store) -> dict[str, list[Effect]]:
    """Return the effects of a lab's steps on recorded devices, at all scales, by step."""
    by_step: dict[str, list[Effect]] = {}
    for scale in SCALES if step_tags(lab) else ():
        for record in recorded(lab, store, scale):
            for case in record.cases:
                readings = record.on(case.name).readings
                for variant in lab.ladder:
                    reading = readings.get(variant.name)
                    if reading and (ratio := faster(readings.get(variant.parent or ""), reading)):
                        card = card_of(lab.name, record.store_device.id, scale, reading.id)
                        effect = Effect(record.store_device, scale, case.name, ratio, card)
                        by_step.setdefault(variant.name, []).append(effect)
    return by_step


def devices_of(steps: Iterable[StepEffects]) -> list[StoreDevice]:
    """Return the devices of effects: GPUs first, then those with most effects, and of one piece of hardware CUDA first."""
    counts = Counter(effect.device for step in steps for effect in step.effects)
    of_hardware = Counter(slug for device, count in counts.items() for slug in [device.slug] * count)
    return sorted(
        counts,
        key=lambda device: (device.kind != "gpu", -of_hardware[device.slug], device.slug, device.backend != CUDA.name),
    )


def technique_effects(steps: Sequence[StepEffects]) -> list[TechniqueEffects]:
    """Return all techniques in the order of their list, each with the steps that change it."""
    return [
        TechniqueEffects(technique, [step for step in steps if technique in (tag.technique for tag in step.tags)])
        for technique in TECHNIQUES.values()
    ]
