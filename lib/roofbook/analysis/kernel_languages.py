"""Kernels in today's languages on recorded devices, each with the step that it is compared with. Serves the page about them.

Each is compared with the fastest step of its precision that differs least from it in work and timing. Its parent, the step of
the same method, is the second comparison. A third is the fastest step that launches as the kernel does, where a lab names such
steps. None takes part in comparisons with libraries.
"""

from typing import NamedTuple

from ..spec import registry
from ..spec.plan import SCALES
from ..store.parquet import Store
from .case_data import CaseData
from .publication import publication
from .readings import Reading, Speedup, faster, fastest
from .recorded import recorded
from .store_devices import StoreDevice, card_of

ROLE = "dsl"


class Comparison(NamedTuple):
    """A verified kernel in a language of today on a case, and the step nearest to it."""

    lab: str
    title: str
    data: CaseData
    kernel: Reading
    step: Reading | None
    parent: Reading | None
    card: str
    """The kernel's measurement, as `card_of` names it."""
    alike: Reading | None = None
    """The fastest step that launches as the kernel does; None if the lab names no such steps."""

    def ratio(self) -> Speedup | None:
        """Return how many times as fast as the step the kernel is, below 1 if it is slower."""
        return faster(self.step, self.kernel) if self.step else None

    def ratio_to_parent(self) -> Speedup | None:
        """Return how many times as fast as its parent the kernel is."""
        return faster(self.parent, self.kernel) if self.parent else None

    def gain_of_alike(self) -> Speedup | None:
        """Return how many times as fast as the kernel the fastest step is that launches as the kernel does."""
        return faster(self.kernel, self.alike) if self.alike else None

    def step_lines(self) -> int | None:
        """Return the lines of the step's text with all that it includes, without comments and blank ones."""
        step = self.step and registry.get(self.lab).variant(self.step.variant)
        if not step or not step.source:
            return None
        lines = (line.strip() for line in step.source.resolve().splitlines())
        return sum(bool(line) and not line.startswith("//") for line in lines)


def comparisons(store: Store) -> dict[StoreDevice, list[Comparison]]:
    """Return the comparisons of each device with any, lab by lab and case by case."""
    by_device: dict[StoreDevice, list[Comparison]] = {}
    for name in registry.names_of_site():
        lab = registry.get(name)
        same_launches = publication(lab).same_launches
        for scale in SCALES if len(store.rows(name, parts=("recorded",), role=ROLE)) else ():
            for record in recorded(lab, store, scale):
                for case in record.cases:
                    data = record.on(case.name)
                    steps = [reading for reading in data.readings.values() if reading.ok and reading.role == "step"]
                    for kernel in data.verified(data.order):
                        if kernel.role == ROLE:
                            card = card_of(name, record.store_device.id, scale, kernel.id)
                            nearest = data.nearest(kernel, steps)
                            parent = next((step for step in steps if step.variant == kernel.parent), None)
                            names = same_launches.get(kernel.variant, ())
                            alike = (
                                fastest(step for step in steps if step.variant in {kernel.parent, *names})
                                if names
                                else None
                            )
                            comparison = Comparison(name, lab.title, data, kernel, nearest, parent, card, alike)
                            by_device.setdefault(record.store_device, []).append(comparison)
    return by_device
