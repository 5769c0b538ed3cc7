"""Segments of a batch on several queues, copies under kernels: any segments are right, and each queue keeps its order."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Span
from roofbook.labs.lenet import LAB, reported, streams
from roofbook.labs.lenet.forward import Forward

from .test_variants import ROTATING, STREAMS, accepted, case_of, make, outputs, problem, run

OPTIMISED = True
"""Whether kernels are optimised: with forty images of 86x86 the runs outlast the compiler."""


@pytest.mark.thorough
@pytest.mark.parametrize("pinned", [False, True], ids=["pageable", "pinned"])
@pytest.mark.parametrize(("segment", "queues"), list(product((1, 2, 3, 4, 5, 7), (1, 2, 3))))
def test_any_segments_on_any_number_of_queues(device: Device, segment: int, queues: int, pinned: bool) -> None:
    """Segments include some that do not divide a batch of five, and one that is longer."""
    variant = LAB.variant("streams").at("try", "it", segment=segment, queues=queues, pinned=pinned)
    runnable = make(device, variant, 5)
    out = outputs(runnable)
    assert accepted(variant, 5, out)
    spans = traced(runnable)
    turns = [number % queues for number in range(math.ceil(5 / segment))]
    assert sorted(span.queue for span in spans if span.what == "kernel") == sorted(turns)
    assert len(spans) == 3 * len(turns)


@pytest.mark.parametrize(("batch", "segments"), [(1, 1), (3, 3), (40, 3), (301, 4)])
def test_each_queue_has_a_segment_of_a_hundred_images_at_most(device: Device, batch: int, segments: int) -> None:
    runnable = streams.StreamsDirect(device, LAB.variant("streams"), case_of(batch), {
        **problem(1)[0], "x": np.zeros((batch, 1, 86, 86), np.float32)
    })  # fmt: skip
    assert math.ceil(batch / runnable.segment) == segments
    runnable.close()


def traced(runnable: Forward) -> list[Span]:
    return [Span(*fields) for fields in runnable.facts()["timeline"]]


@pytest.mark.parametrize("name", STREAMS)
def test_a_timeline_tells_what_each_queue_did_in_its_order(device: Device, name: str) -> None:
    runnable = make(device, LAB.variant(name), 40)
    runnable.reset()
    runnable.run()
    facts, parts, spans = runnable.facts(), dict(runnable.parts), traced(runnable)
    runnable.close()
    kernels = 2 if name == "streams-tiled" else 1  # the zeros that atomic sums start from are one
    queues = {0} if name in ROTATING else {0, 1, 2}  # forty images are less than a segment of the report's
    assert {span.queue for span in spans} == queues and min(span.start for span in spans) == 0
    for queue in queues:
        spans_of_queue = sorted((span for span in spans if span.queue == queue), key=lambda span: span.start)
        assert [span.what for span in spans_of_queue] == ["to device", *["kernel"] * kernels, "to host"]
        assert all(before.start <= before.end <= after.start <= after.end for before, after in pairwise(spans_of_queue))
    ran = [span for span in spans if span.what == "kernel"]
    assert parts["op 1"] == pytest.approx(max(span.end for span in ran) - min(span.start for span in ran))
    assert max(span.end for span in spans) < parts["copies and kernels"]
    shares = {key: value for key, value in facts.items() if key.startswith("share of ")}
    assert set(shares) == {f"share of stream {queue}, layer {layer}" for queue in (1, 2, 3) for layer in (1, 2)}
    assert sum(shares.values()) == pytest.approx(1) and (min(shares.values()) > 0) == (len(queues) == 3)
    busy = [sum(span.end - span.start for span in spans if span.queue == queue) for queue in range(3)]
    shares_of_streams = [shares[f"share of stream {queue}, layer 1"] for queue in (1, 2, 3)]
    assert np.array(shares_of_streams) / sum(shares_of_streams) == pytest.approx(np.array(busy) / sum(busy))


# -- roles that rotate among the queues, as in the report --------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("name", ROTATING)
@pytest.mark.parametrize("segment", [1, 2, 3, 5, 7])
def test_any_segments_in_rotating_roles(device: Device, name: str, segment: int) -> None:
    """Segments include some that do not divide a batch of five, and one that is longer."""
    variant = LAB.variant(name).at("segment", segment, segment=segment)
    assert accepted(variant, 5, run(device, variant, 5))


def test_roles_rotate(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one queue copies a segment in, the next computes the one before, and the third copies the one before that out."""
    runnable = make(device, LAB.variant("rotating-linear").at("segment", 2, segment=2), 8)
    assert isinstance(runnable, reported.Rotating)
    done: list[tuple[int, str]] = []

    def noted(number: int, name: str, call: Callable[..., None]) -> Callable[..., None]:
        def submit(*args: Any, **offset: Any) -> None:
            done.append((number, name))
            call(*args, **offset)

        return submit

    for number, queue in enumerate(runnable.queues):
        for name in ("send", "launch", "receive"):
            monkeypatch.setattr(queue, name, noted(number, name, getattr(queue, name)))
    runnable.run()
    begin = [(0, "send"), (1, "send"), (0, "launch")]
    full = [(2, "send"), (1, "launch"), (0, "receive"), (0, "send"), (2, "launch"), (1, "receive")]
    assert done == 2 * [*begin, *full, (0, "launch"), (2, "receive"), (0, "receive")], "four segments, in each layer"
    runnable.close()


@pytest.mark.parametrize(("batch", "segments"), [(1, 1), (59, 1), (60, 1), (61, 2), (301, 6)])
def test_a_batch_below_a_segment_is_in_one_piece(device: Device, batch: int, segments: int) -> None:
    runnable = reported.RotatingLinear(device, LAB.variant("rotating-linear"), case_of(batch), {
        **problem(1)[0], "x": np.zeros((batch, 1, 86, 86), np.float32)
    })  # fmt: skip
    assert math.ceil(batch / runnable.segment) == segments
    runnable.close()
