"""Steps whose warpgroups have roles: no bit depends on how many images a block takes, and a block has what roles ask for."""

from __future__ import annotations

import numpy as np
import pytest

from roofbook.devices.contract import Device
from roofbook.labs.lenet import LAB, producer, roles
from roofbook.labs.lenet.network import FILES, trained
from roofbook.labs.lenet.problem import Layer
from roofbook.spec.kernel_constants import constants

from .test_variants import accepted, run

OPTIMISED = True
"""Whether kernels are optimised: with forty images of 86x86 the runs outlast the compiler."""


@pytest.mark.parametrize("blocks", [1, 3, 40])
@pytest.mark.parametrize("name", ["split-producer", "split-boxes"])
def test_roles_change_no_bit_however_many_images_a_block_takes(
    device: Device, monkeypatch: pytest.MonkeyPatch, name: str, blocks: int
) -> None:
    """A block takes one image, or more than it has slots for, so that its rings go round."""

    def size(self: producer.Producer, layer: Layer, count: int) -> tuple[int, ...]:
        return (self.group_of(layer)[0] * min(count, blocks),)

    plain = run(device, LAB.variant("split"), 40)
    monkeypatch.setattr(producer.Producer, "size", size)
    for key, right in plain.items():
        np.testing.assert_array_equal(run(device, LAB.variant(name), 40)[key], right)


@pytest.mark.parametrize("blocks", [1, 3, 40])
def test_roles_of_the_whole_network_change_no_bit_however_many_images_a_block_takes(
    device: Device, monkeypatch: pytest.MonkeyPatch, blocks: int
) -> None:
    """A block takes one image, or more than it has slots for; its last images are as many as have scores at once, or fewer."""
    plain = run(device, LAB.variant("whole-fused"), 40)
    monkeypatch.setattr(
        roles.WholeRoles, "size", lambda self, layer, count: (self.group_of(layer)[0] * min(count, blocks),)
    )
    variant = LAB.variant("whole-roles")
    out = run(device, variant, 40)
    np.testing.assert_array_equal(out["pool2"], plain["pool2"])
    assert accepted(variant, 40, out)


def test_roles_of_the_whole_network_share_out_registers_and_memory_that_a_block_has() -> None:
    """A role that asks for more registers than others gave back waits forever."""
    source = LAB.variant("whole-roles").source
    assert source
    values = constants(source)
    assert values["REGISTERS_INPUT"] + values["REGISTERS_1"] + 2 * values["REGISTERS_2"] == 65536 // 128
    assert values["REGISTERS_INPUT"] <= 128 <= min(values["REGISTERS_1"], values["REGISTERS_2"]), (
        "what a launch begins with"
    )
    assert values["SHARED_BYTES"] <= 227 * 1024


@pytest.mark.parametrize("name", FILES)
def test_no_image_takes_the_last_pooled_maps_of_trained_weights_near_the_end_of_fp16(name: str) -> None:
    """No value is larger than with pixels that are 255 where a weight is positive and 0 elsewhere, in both layers at once."""
    weights, _ = trained(name)
    pooled = 255 * np.maximum(weights["conv1"], 0).sum(axis=(1, 2, 3))
    last = np.maximum(weights["conv2"], 0).sum(axis=(2, 3)) @ pooled
    assert last.max() < 54 < np.finfo(np.float16).max, "the plan's docstring says 54"
