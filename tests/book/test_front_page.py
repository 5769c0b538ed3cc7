"""The first page: all labs on one recorded device, and the ends of their ladders on every device and here."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.places import Place
from roofbook.analysis.recorded import RecordedData
from roofbook.book import front_page

from ..analysis.test_comparison import CUDA, GRID, H200, OPENCL, POCL, row, store

OTHER = replace(CUDA, device="another-gpu", name="Another GPU")


def records(folder: Path, *rows: dict[str, Any]) -> list[RecordedData]:
    return front_page.all_recorded(store(folder, *rows))


def test_devices_stand_in_one_order_gpus_first(tmp_path: Path) -> None:
    found = records(tmp_path, *(row("fused", 1e-5, place) for place in (POCL, OPENCL, CUDA)))
    assert [record.place for record in found] == [CUDA, OPENCL, POCL]


@pytest.mark.parametrize(
    ("cells", "chosen"),
    [
        ({CUDA: {"lbm": 1}}, CUDA),
        ({POCL: {"lbm": 9, "cnn": 9}, OPENCL: {"lbm": 1}}, OPENCL),
        ({CUDA: {"lbm": 9}, OTHER: {"lbm": 1, "cnn": 1}}, OTHER),
        ({OPENCL: {"lbm": 2}, CUDA: {"lbm": 3}}, CUDA),
    ],
)
def test_the_ladders_are_of_the_gpu_that_has_most(cells: dict[Place, dict[str, int]], chosen: Place) -> None:
    found = [
        SimpleNamespace(place=place, rows=[None] * count, lab=SimpleNamespace(name=lab))
        for place, each in cells.items()
        for lab, count in each.items()
    ]
    assert {record.place for record in front_page.on_one_place(cast(Any, found))} == {chosen}


def test_a_card_has_the_descent_and_what_came_of_it(tmp_path: Path) -> None:
    rows = [
        row("sequential", 1e-2),
        row("ported", 1e-3),
        row("fused", 1e-4),
        row("lbmpy", 2e-4),
        row("fused", 1e-3, OPENCL),
    ]
    shown = front_page.ladders(records(tmp_path, *rows))
    assert shown.count("<section") == shown.count("<svg") == 1
    assert '<h3><a href="labs/lbm.html">Lattice Boltzmann</a></h3>' in shown
    assert f"{GRID}, {H200}, CUDA" in shown
    words = re.sub(r"<[^>]+>", "", shown[shown.index("</figure>") :])
    assert "The fastest kernel in one run is fused: 100" in words and "times as fast as sequential." in words
    assert "Like for like the best peer is lbmpy: fused is in one run 2.00 times as fast as it." in words


def test_nothing_on_record_is_no_card_and_no_table() -> None:
    assert front_page.ladders([]) == "" and front_page.ends([]) == ""


def test_this_machine_stands_below_the_devices_on_record(tmp_path: Path) -> None:
    (record, cpu) = records(tmp_path, row("sequential", 1e-2), row("fused", 1e-4), row("fused", 1e-3, POCL))
    here = SimpleNamespace(data=cpu, lab=cpu.lab, device=cpu.device)
    lines = [*front_page.recorded_ends([record]), *front_page.own_ends(cast(Any, here))]
    shown = re.findall(r'<th scope="row"[^>]*>([^<]*)<', front_page.ends(lines))
    assert shown == ["Lattice Boltzmann", f"{H200}, CUDA", "A CPU, this machine"]


def test_a_lab_without_a_verified_rung_is_left_out(tmp_path: Path) -> None:
    found = records(tmp_path, row("fused", 1e-4, status="failed", reason="out of memory", samples_s=[], rounds=[]))
    assert front_page.ends(front_page.recorded_ends(found)) == front_page.ladders(found) == ""
