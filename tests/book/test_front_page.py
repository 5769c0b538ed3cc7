"""The first page: all labs on one recorded device, and the ends of their ladders on every device and on this machine."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.recorded import RecordedData
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import front_page
from roofbook.paths import project_root
from roofbook.store.parquet import Store

from ..analysis.test_comparison import CUDA, GRID, H200, OPENCL, POCL, row, store

OTHER = replace(CUDA, slug="another-gpu", name="Another GPU")


def records(folder: Path, *rows: dict[str, Any]) -> list[RecordedData]:
    return front_page.all_recorded(store(folder, *rows))


def test_gpus_come_first_in_the_order_of_devices(tmp_path: Path) -> None:
    recorded = records(tmp_path, *(row("fused", 1e-5, place) for place in (POCL, OPENCL, CUDA)))
    assert [record.store_device for record in recorded] == [CUDA, OPENCL, POCL]


@pytest.mark.parametrize(
    ("ranks", "chosen"),
    [({CUDA: 1}, CUDA), ({POCL: 9, OPENCL: 1}, OPENCL), ({CUDA: 9, OTHER: 10}, OTHER), ({OPENCL: 3, CUDA: 2}, OPENCL)],
)
def test_the_ladders_are_those_of_the_gpu_with_most_measurements(
    ranks: dict[StoreDevice, int], chosen: StoreDevice
) -> None:
    records = [SimpleNamespace(store_device=device) for device in ranks for _ in range(2)]
    by_id = {device.id: count for device, count in ranks.items()}
    assert {record.store_device for record in front_page.on_one_device(cast(Any, records), by_id)} == {chosen}
    assert front_page.on_one_device([], by_id) == []


def test_a_card_has_the_descent_and_a_sentence_on_the_fastest_kernel(tmp_path: Path) -> None:
    rows = [
        row("sequential", 1e-2),
        row("ported", 1e-3),
        row("fused", 1e-4),
        row("lbmpy", 2e-4),
        row("fused", 1e-3, OPENCL),
    ]
    html = front_page.ladders(records(tmp_path, *rows), {CUDA.id: 2, OPENCL.id: 1})
    assert html.count("<section") == html.count("<svg") == 1
    assert '<h3><a href="labs/lbm.html">Lattice Boltzmann</a></h3>' in html
    assert f"{GRID}, {H200}, CUDA" in html
    assert html.count(f'<span data-of="lbm/nvidia-h200.cuda#fused~{GRID}">') == 3, (
        "a time and two ratios, with their cards"
    )
    words = re.sub(r"<[^>]+>", "", html[html.index("</figure>") :])
    assert "The fastest kernel in one run is fused: 100" in words
    assert re.search(r"which is in these runs \d+ \[\d+, \d+\] times as fast as sequential\.", words)
    sentence = r"Under equal conditions fused is in one run 2\.\d\d \[\d\.\d+, 2\.\d+\] times as fast as the best peer, lbmpy\."
    assert re.search(sentence, words)


def test_a_gpu_is_compared_with_its_own_peers_of_any_backend(tmp_path: Path) -> None:
    rows = [row("fused", 1e-3, OPENCL), row("fused", 1e-4), row("lbmpy", 2e-4), row("lbmpy-bare", 3e-4)]
    failed = row("jax", 1e-5) | {"status": "failed", "reason": "out of memory"}
    by_place = {line.cells[0].text: line for line in front_page.recorded_ends(records(tmp_path, *rows, failed))}
    by_opencl, by_cuda = by_place[str(OPENCL)], by_place[str(CUDA)]
    assert by_opencl.record["peer"] == by_cuda.record["peer"] == "lbmpy"
    assert by_opencl.cells[5].small.endswith("lbmpy (by CUDA)") and by_cuda.cells[5].small.endswith("lbmpy")
    assert by_opencl.record["vs_peer"] == pytest.approx(0.2, rel=0.02)


def test_every_ratio_of_the_record_has_its_interval_and_a_peer_of_its_device() -> None:
    all_recorded = front_page.all_recorded(Store(project_root() / "results", ("recorded",)))
    by_place = {(data.lab.title, str(data.store_device)): data for data in all_recorded}
    lines = front_page.recorded_ends(all_recorded)
    assert len(lines) > 10
    for line in lines:
        data = by_place[line.lab, line.cells[0].text]
        for cell in (line.cells[3], line.cells[5]):
            assert "[" in f"{cell.text} {cell.small}" or cell.text == "–", line.cells
        if peer := line.record["peer"]:
            assert data.on().readings[peer].row["device"] == data.store_device.slug, (line.lab, str(data.store_device))


def test_without_records_there_is_no_card_and_no_table() -> None:
    assert front_page.ladders([], {}) == "" and front_page.ends([]) == ""


def test_this_machine_stands_below_the_devices_on_record(tmp_path: Path) -> None:
    (record, cpu) = records(tmp_path, row("sequential", 1e-2), row("fused", 1e-4), row("fused", 1e-3, POCL))
    experiment = SimpleNamespace(data=cpu, lab=cpu.lab, device=cpu.device)
    lines = [*front_page.recorded_ends([record]), *front_page.own_ends(cast(Any, experiment))]
    heads = re.findall(r'<th scope="row"[^>]*>([^<]*)<', front_page.ends(lines))
    assert heads == ["Lattice Boltzmann", f"{H200}, CUDA", "A CPU, this machine"]


def test_a_lab_without_a_verified_rung_is_left_out(tmp_path: Path) -> None:
    recorded = records(tmp_path, row("fused", 1e-4, status="failed", reason="out of memory", samples_s=[], rounds=[]))
    assert front_page.ends(front_page.recorded_ends(recorded)) == front_page.ladders(recorded, {}) == ""


def test_the_first_page_says_what_was_found_as_a_picture_and_in_sentences(tmp_path: Path) -> None:
    rows = [row("sequential", 1e-2), row("fused", 1e-4), row("lbmpy", 2e-4), row("fused", 1e-3, OPENCL)]
    html = front_page.found(records(tmp_path, *rows), {CUDA.id: 2, OPENCL.id: 1})
    assert html.count("<li>") == 1 and "fused" in html and f"On {CUDA}" in html
    assert "In 1 of 1 labs the fastest kernel is faster than every library" in html
    (bar,), (peer,) = re.findall(r'<b style="width:([\d.]+)%', html), re.findall(r'<u style="left:([\d.]+)%', html)
    assert float(bar) == 100 and 80 < float(peer) < 100, (
        "the peer is fifty times as fast: on a logarithmic axis not far behind"
    )
    assert front_page.found([], {}) == ""


def test_a_kernel_as_fast_as_the_fastest_peer_is_counted_as_such(tmp_path: Path) -> None:
    rows = [row("sequential", 1e-2), row("fused", 1e-4), row("lbmpy", 1e-4)]
    html = front_page.found(records(tmp_path, *rows), {CUDA.id: 1})
    assert "that we measured beside it, and in 1 as fast as the fastest of them." in html


def test_a_lab_whose_baseline_has_no_time_is_shown_over_the_first_step_that_has_one(tmp_path: Path) -> None:
    rows = [row("ported", 1e-2), row("fused", 1e-4), row("lbmpy", 2e-4)]
    html = front_page.found(records(tmp_path, *rows), {CUDA.id: 1})
    assert "as <code>ported</code>, its first step with a time here; the fastest peer" in html
    assert '<b class="stand-in" style="width:100.0%">' in html and "plain loops" not in html
    assert "In 1 of 1 labs the fastest kernel is faster than every library" in html
    assert front_page.found(records(tmp_path / "one", row("fused", 1e-4)), {CUDA.id: 1}) == "", "nothing to compare"
