"""Sentences of the lab's page: variants that were not measured are left out."""

from __future__ import annotations

from typing import cast

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.labs.lbm import LAB

from ..fake_measurements import FakeMeasurements


def paragraphs(*measured: str) -> list[str]:
    return publication(LAB).summary(cast(Measured, FakeMeasurements(LAB, *measured))).split("\n\n")


def test_the_summary_tells_all_that_was_measured() -> None:
    case = LAB.cases("test")[0].name
    peers = [variant.name for variant in LAB.peers if variant.name != "openmp"]
    sentences = paragraphs("vectors", *(variant.name for variant in LAB.ladder), *peers, "openmp")
    assert len(sentences) == len(LAB.cases("test"))
    assert sentences[0].endswith(
        f"The fastest kernel here is `vectors`: the time of vectors on {case} per step, which is so much over on {case}"
        f" `sequential-c`, so much over on {case} the report's first program, so much over on {case} C + OpenMP on the"
        " host's cores. Under equal conditions `vectors` is"
        f" so much over on {case} the best peer, `{peers[0]}`. The step without its arithmetic (`no-compute`) takes"
        f" the time of no-compute on {case} per step, `soa` takes the time of soa on {case}. One grid instead of two"
        f" (`in-place`) is so much over on {case} `{LAB.best}`, fp16 storage (`half-storage`) is so much over on {case}"
        " `in-place`."
    )


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    case = LAB.cases("test")[0].name
    assert paragraphs("vectors", "sequential", "soa")[0].endswith(
        f"`vectors`: the time of vectors on {case} per step, which is so much over on {case} `sequential`."
        f" `soa` takes the time of soa on {case}."
    )
    (alone,) = paragraphs("vectors")
    assert alone.endswith(f"`vectors`: the time of vectors on {case} per step.")


def test_a_base_that_stands_in_for_another_is_told() -> None:
    assert paragraphs("vectors", "sequential")[-1] == (
        "`sequential` is one work-item on the host's CPU, and stands in for `sequential-c`, which has no time here."
    )


def test_a_peer_is_told_once() -> None:
    case = LAB.cases("test")[0].name
    assert paragraphs("vectors", "sequential", "openmp")[0].endswith(
        f" `sequential`. Under equal conditions `vectors` is so much over on {case} the best peer, `openmp`."
    )
