"""The step by Winograd's algorithm: transform filters and input, multiply point by point, transform back.

Tiles of 4 x 4 outputs were tried as well. They need 2.25 times fewer products, and were faster, but the largest error of the
published layer was beyond the tolerance.
"""

from collections.abc import Mapping
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from .plans import Convolution, layer


class Winograd(Convolution):
    """Four launches, all timed: values of the filters, values of the input, their products, outputs."""

    kernel_name = "multiply"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return None if layer(case).kernel == 5 else "not on this case: filters other than 5x5"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; values of filters and input, and the sums of their products, are written and read as well."""
        return least + 2 * 4 * sum(arrays_of(case, variant).values())

    @classmethod
    def operations(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the operations of the products, two for each; those of the transformations are few."""
        one = layer(case)
        tile = constants(variant.text)
        tiles = ceil_div(one.width, tile["SIDE"]) * ceil_div(one.height, tile["SIDE"])
        return float(2 * tile["POINTS"] * one.channels * one.filters * tiles)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        tile, line = self.constants, (self.constants["LINE"], 1)
        self.to_factors, self.to_values, self.to_outputs = (
            self.program.kernel(name) for name in ("to_factors", "to_values", "to_outputs")
        )
        self.factors, self.values, self.sums = (device.empty(4 * count) for count in arrays_of(case, variant).values())
        self.buffers += [self.factors, self.values, self.sums]
        tiles, channels = tile["PADDED_TILES"], tile["PADDED_CHANNELS"]
        self.transforms = (
            (self.to_factors, (tile["PADDED_FILTERS"], channels), line, self.weight, self.factors),
            (self.to_values, (tiles, channels), line, self.x, self.values),
        )
        self.back = self.to_outputs, (tiles, self.layer.filters), line, self.sums, self.bias, self.out

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        self.group = tile["GROUP"], 1, 1
        filters, tiles = (tile[name] // tile["TILE"] for name in ("PADDED_FILTERS", "PADDED_TILES"))
        return tile["GROUP"] * filters, tiles, tile["POINTS"]

    def submit(self) -> None:
        for launch in self.transforms:
            self.queue.launch(*launch)
        self.queue.launch(self.kernel, self.size, self.group, self.factors, self.values, self.sums)
        self.queue.launch(*self.back)


def arrays_of(case: Case, variant: Variant) -> dict[str, int]:
    """Return the floats of the arrays between the launches, by name."""
    one = layer(case)
    sizes = {
        "CHANNELS": one.channels,
        "FILTERS": one.filters,
        "HEIGHT": one.height,
        "WIDTH": one.width,
        "TAPS": one.kernel,
    }
    tile = constants(variant.text.with_knobs(**sizes))
    points, channels, filters, tiles = (
        tile[name] for name in ("POINTS", "PADDED_CHANNELS", "PADDED_FILTERS", "PADDED_TILES")
    )
    return {
        "factors": points * channels * filters,
        "values": points * channels * tiles,
        "sums": points * filters * tiles,
    }
