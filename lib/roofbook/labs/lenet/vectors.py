"""The steps for CPUs: whole images a work-item, explicit vectors, no barriers."""

from __future__ import annotations

from typing import Any

from .forward import Forward
from .problem import Layer, convolution_bytes, pooled_bytes
from .registers import Pooled

ITEMS = 32
"""Largest number of work-items a core. PoCL gives each thread that asks a share of all: with fewer, shares are less even."""


class Vectors(Forward):
    """Work-items that each take one image after another."""

    group = (1,)
    takes_count = True

    traffic = staticmethod(convolution_bytes)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return self.group

    def turned(self, layer: Layer) -> dict[str, Any]:
        """Return the knobs, with vectors of filters only if there are sixteen."""
        few = {"LANES": "COLUMNS"} if layer.filters < 16 else {}
        return {**Forward.turned(self, layer), "POOL": layer.pool, **few}

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return (min(count, ITEMS * self.device.compute_units),)


class PooledVectors(Vectors, Pooled):
    """Explicit vectors, with ReLU and pool: a layer's output is the next one's input."""

    traffic = staticmethod(pooled_bytes)
