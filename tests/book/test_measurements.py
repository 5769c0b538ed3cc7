"""The cards of measurements: they show the numbers of the rows, each number of a page has one, and their commands work."""

from __future__ import annotations

import json
import re
import shlex
from functools import cache
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.often import often

from roofbook import cli
from roofbook.analysis.readings import read_runs
from roofbook.analysis.recorded import RecordedData, recorded
from roofbook.analysis.store_devices import card_of
from roofbook.book import card_links, device_choices, measurements, render_recorded
from roofbook.devices.find import spec_of
from roofbook.paths import project_root
from roofbook.report import cards_page, ladder, peaks
from roofbook.report.measured_card import axis, facts
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_history import taken
from ..recorded_labs import RECORDED
from ..report.rows import row

LABS = (*RECORDED, registry.PEAKS)


@cache
def store() -> Store:
    return Store(project_root() / "results")


@pytest.fixture(scope="module", params=often(LABS, lambda name: name in ("convpool", "stencil")))
def drawn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RecordedData, dict[str, Any], Path]:
    """Return a lab's data on its best recorded device, the contents of its cards, and the root of their files."""
    root = tmp_path_factory.mktemp("root")
    best_extent = render_recorded.extents(project_root(), request.param)[0]
    recorded_data = recorded(registry.get(request.param), store(), best_extent.scale)
    data = next(device_data for device_data in recorded_data if device_data.store_device.id == best_extent.place)
    measurements.draw_recorded(root, data, "device", "Device", store())
    return data, card_links.read_cards(root, request.param, "device"), root


def test_each_card_has_the_numbers_of_its_rows(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, card_data, _ = drawn
    cards = {fields["id"]: fields for fields in card_data["cards"]}
    readings = [reading for reading, _ in measurements.measured_with_ratios(data)]
    assert len(cards) == len(card_data["cards"]) == len(readings) > 30
    key = ("run", "variant", "case", "role")
    rows = {tuple(record[column] for column in key): record for record in data.rows.to_dict("records")}
    for reading in readings:
        card = cards[reading.id]
        version = card["versions"][-1]
        assert {fields["run"] for fields in version["runs"]} == {str(measured.row["run"]) for measured in reading.runs}
        if not reading.ok:
            assert card["why"] == reading.reason and not card["time"] and "seconds" not in version
            continue
        assert version["seconds"] == pytest.approx([reading.median, reading.low, reading.high], rel=6e-4)
        for run in version["runs"]:
            row = rows[run["run"], reading.row["variant"], card["case"], reading.row["role"]]
            samples = [float(sample) / int(row["units"]) for sample in row["samples_s"]]
            assert len(run["samples"]) + run.get("left_out", 0) == len(samples)
            if "left_out" not in run:
                assert run["samples"] == pytest.approx(samples, rel=6e-4)
            assert run["seconds"][1] <= run["seconds"][0] <= run["seconds"][2]
            git = json.loads(row["provenance"])["git"] or {"commit": ""}
            assert run["commit"] == git["commit"] and run["started"] == f"{row['started']:%Y-%m-%d %H:%M}"
            assert run["machine"] >= 0 and dict(card_data["machines"][run["machine"]])["driver"]


def test_each_number_of_a_page_has_a_card(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, card_data, _ = drawn
    ids = {card["id"] for card in card_data["cards"]}
    tables = [ladder(data.on(case.name)) for case in data.cases if data.lab.name != registry.PEAKS]
    for table in [drawing.html for drawing in tables or [peaks(data.rows, "Device", {})]]:
        named = {unescape(card_id) for card_id in re.findall(r'data-of="([^"]*)"', table)}
        assert named <= ids and named


def test_each_command_is_valid_on_the_command_line(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    """The command names a variant, a case and a scale of the lab, and the id of the card has no space."""
    data, card_data, _ = drawn
    for card in card_data["cards"]:
        program, name, *words = shlex.split(card["command"])
        options = cli.app.commands[name].make_context(name, words).params
        assert (program, name, options["lab"], options["scale"]) == ("roofbook", "rerun", data.lab.name, data.scale)
        assert (
            data.lab.variant(options["variant"])
            and data.lab.case(options["case"], options["scale"]).name == card["case"]
        )
        assert options["device"] == "cuda:0" and not re.search(r"\s", card["id"])


def test_each_card_is_on_the_page_that_needs_no_script(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, card_data, root = drawn
    page = (root / card_links.FOLDER / data.lab.name / "device.html").read_text(encoding="utf-8")
    assert {unescape(card_id) for card_id in re.findall(r'<section class=measured id="([^"]*)"', page)} == {
        fields["id"] for fields in card_data["cards"]
    }
    page_text = unescape(page)
    for card in card_data["cards"][::7]:
        for text in (card["time"], card["answer"], card["command"], *(fact for _, fact in card["facts"])):
            assert text in page_text
        samples = sum(len(run.get("samples", ())) for version in card["versions"] for run in version["runs"])
        section = page[page.index(f'id="{card["id"].replace(chr(39), "&#x27;")}"') :].partition("</section>")[0]
        assert section.count("h0") == samples and section.count("<code>2026") == sum(
            len(v["runs"]) for v in card["versions"]
        )


def test_an_older_version_stays_in_the_card_with_the_reason_of_the_change(tmp_path: Path) -> None:
    data = data_of_three_runs(tmp_path)
    measurements.draw_recorded(tmp_path, data, "device", "Device", Store(tmp_path / "results"))
    (card,) = card_links.read_cards(tmp_path, "lbm", "device")["cards"]
    new = card["versions"][1]
    assert new["changes"] == [["code", "the kernel's source changed"]] and new["word"] == "faster"
    assert [len(version["runs"]) for version in card["versions"]] == [1, 2] and "changed once" in card["answer"]
    assert new["ratio"].startswith("2.0") and new["runs"][1]["changes"] == [
        ["machine", "another machine: aaaa -> bbbb"]
    ]
    page = (tmp_path / card_links.FOLDER / "lbm" / "device.html").read_text(encoding="utf-8")
    assert "Version 2; code: the kernel&#x27;s source changed; faster: 2.0" in page


def data_of_three_runs(root: Path) -> RecordedData:
    """Return the data of a step in three runs: one of an older kernel, two of today's on two machines."""
    source = registry.get("lbm").variant("fused").source
    assert source is not None
    today = {"case": "128x128", "scale": "published", "source_sha256": source.sha256, "policy": '{"cache": "cold"}'}
    rows = [
        taken(1, 2e-5, **today | {"cell_key": "old", "source_sha256": "old"}),
        taken(2, 1e-5, **today),
        taken(3, 1.001e-5, facts={"machine": "bbbb"}, **today),
    ]
    Store(root / "results").append(rows, "recorded")
    (data,) = recorded(registry.get("lbm"), Store(root / "results"))
    return data


def test_links_lead_to_the_card_of_the_pages_device_or_of_the_named_one(tmp_path: Path) -> None:
    data = data_of_three_runs(tmp_path)
    for device in ("gpu.cuda", "cpu"):
        measurements.draw_recorded(tmp_path, data, device, device, Store(tmp_path / "results"))
    cell = '<td class="num" data-of="fused~128x128" title="t">1.5 <small>(x)</small></td>'
    assert card_links.linked(cell, "../", tmp_path, "lbm/gpu.cuda") == (
        '<td class="num" title="t"><a class="of" href="../labs/lbm/measurements/gpu.cuda.html#fused~128x128">1.5</a> '
        "<small>(x)</small></td>"
    )
    numbers = '<span data-of="lbm/cpu#fused~128x128">2</span> <span data-of="lbm/cpu#fused~1">3</span>'
    html = card_links.linked(numbers, "", tmp_path)
    assert '<span><a class="of" href="labs/lbm/measurements/cpu.html#fused~128x128">2</a></span>' in html
    assert html.endswith("<span>3</span>"), "without a card there is no link"
    assert card_links.linked(cell, "", tmp_path) == cell.replace(' data-of="fused~128x128"', ""), "a page of no device"
    names = ("fused~128x128", "lbm/cpu#fused~128x128", "fused~128x128")
    row = "".join(f'<td data-of="{name}">{number}</td>' for number, name in enumerate(names, 1))
    html = card_links.linked(f"<table><tr>{row}</tr><tr>{row}</tr></table>", "", tmp_path, "lbm/gpu.cuda")
    counts = [html.count(text) for text in ("gpu.cuda.html#fused", "cpu.html#fused", '<td><a class="of">3</a></td>')]
    assert counts == [2, 2, 2], "only the first link of a row to a card has an address"


@pytest.mark.parametrize(
    ("backend", "platform", "spec"),
    [
        ("cuda", "CUDA runtime 13020, CuPy 14.2.0", "cuda:0"),
        ("opencl", "Portable Computing Language OpenCL 3.0 PoCL 5.0+debian", "opencl:pocl"),
        ("opencl", "NVIDIA CUDA OpenCL 3.0 CUDA 13.0.94", "opencl:NVIDIA"),
        ("opencl", "Intel(R) OpenCL OpenCL 3.0 LINUX", "opencl:Intel"),
        ("opencl", "", "opencl:0"),
    ],
)
def test_a_command_names_the_platform_of_a_device_if_a_host_can_have_several(
    backend: str, platform: str, spec: str
) -> None:
    device: Any = SimpleNamespace(backend=backend, identity=lambda: {"platform": platform})
    assert spec_of(device) == spec


def test_a_recorded_device_is_described_by_its_own_rows_and_not_by_its_hosts(tmp_path: Path) -> None:
    """A GPU and its host may have the same backend, OpenCL; here the rows of the host are newer."""

    def row_on_day(day: int, variant: str, platform: str, **more_columns: Any) -> dict[str, Any]:
        source = registry.get("lbm").variant(variant).source
        assert source is not None
        platform_facts = {"environment": {"device": {"platform": platform}}}
        columns = {"variant": variant, "case": "128x128", "scale": "published", "source_sha256": source.sha256}
        return taken(day, 1e-5, facts=platform_facts, **columns | more_columns)

    host = {"device": "some-cpu", "device_name": "Some CPU", "device_kind": "cpu"}
    rows = [row_on_day(1, "fused", "NVIDIA CUDA"), row_on_day(2, "sequential", "PoCL", **host)]
    Store(tmp_path / "results").append(rows, "recorded")
    recorded_data = recorded(registry.get("lbm"), Store(tmp_path / "results"))
    (data,) = (device_data for device_data in recorded_data if device_data.store_device.kind == "gpu")
    assert {"fused", "sequential"} == set(data.rows["variant"]) and spec_of(data.device) == "opencl:NVIDIA"


def test_names_of_cards_are_those_of_their_files() -> None:
    """Tables of several devices link to cards by the names under which the cards are drawn."""
    for name, scale in (("nvidia-h200/cuda", "published"), ("nvidia-h200/cuda/large", "large")):
        choice = device_choices.DeviceChoice(name, "")
        assert card_of("lbm", "nvidia-h200/cuda", scale, "a~1") == f"lbm/{choice.stem}#a~1"
    assert card_of("lbm", device_choices.HERE.name, "published", "a~1") == "lbm/here#a~1"


def test_cards_are_copied_to_the_site_with_links_to_the_repository_and_removed_with_their_sources(
    tmp_path: Path,
) -> None:
    measurements.draw_recorded(tmp_path, data_of_three_runs(tmp_path), "device", "Device", Store(tmp_path / "results"))
    site = tmp_path / "site"
    page, script = (site / "labs" / "lbm" / "measurements" / f"device.{kind}" for kind in ("html", "js"))
    card_links.copy_cards(tmp_path, site, "https://github.com/a/b")
    assert f'<a href="https://github.com/a/b/commit/{"c" * 40}">' in page.read_text()
    assert script.read_text().startswith('roofbookCards({"repository":"https://github.com/a/b",')
    card_links.copy_cards(tmp_path, site, "")
    assert (
        "COMMIT" not in page.read_text()
        and "<code>cccccccccc</code>" in page.read_text()
        and "/commit/" not in page.read_text()
    )
    stamp = page.stat().st_mtime_ns
    card_links.copy_cards(tmp_path, site, "")
    assert page.stat().st_mtime_ns == stamp, "an unchanged file is not written"
    card_links.keep_only(tmp_path, "lbm", [])
    card_links.copy_cards(tmp_path, site, "")
    assert not page.exists() and not script.exists() and not card_links.ids(tmp_path, "lbm", "device")


@pytest.mark.parametrize(
    ("times", "log"),
    [
        ([1e-3, 1.2e-3], False),
        ([1e-3], False),
        ([1e-6, 1e-3], True),
        ([1e-3, 1e-3 * (1 + 1e-7)], False),
        ([3.0, 13.0], True),
    ],
)
def test_an_axis_holds_all_samples_and_has_ticks(times: list[float], log: bool) -> None:
    scale = axis(times, 1e-6)
    assert scale["low"] < min(times) <= max(times) < scale["high"]
    assert scale["log"] == log and 2 <= len(scale["ticks"]) <= 12
    assert all(scale["low"] <= position <= scale["high"] for position, _ in scale["ticks"])
    assert len({text for _, text in scale["ticks"]}) == len(scale["ticks"]), "no two ticks read alike"


def test_a_failed_measurement_has_a_card_without_a_drawing(tmp_path: Path) -> None:
    source = registry.get("lbm").variant("fused").source
    assert source is not None
    columns = {"case": "128x128", "scale": "published", "source_sha256": source.sha256, "cell_key": "c", "env_key": "e"}
    Store(tmp_path / "results").append(
        [row("fused", 1e-5, status="failed", reason="out of memory", **columns)], "recorded"
    )
    (data,) = recorded(registry.get("lbm"), Store(tmp_path / "results"))
    assert measurements.draw_recorded(tmp_path, data, "d", "D", Store(tmp_path / "results")) == {"fused~128x128"}
    (card,) = card_links.read_cards(tmp_path, "lbm", "d")["cards"]
    assert card["why"] == "out of memory" and "axis" not in card and not card["time"]
    assert "<svg" not in (tmp_path / card_links.FOLDER / "lbm" / "d.html").read_text()


def test_a_card_says_if_threads_were_bound() -> None:
    free, bound = (
        dict(facts(read_runs([row("openmp", 1e-5, cell_key="c", env_key="e", extra=json.dumps(extra))])))
        for extra in ({}, {"threads_bound": True})
    )
    assert "Threads" not in free and bound["Threads"] == "each bound to a processor"


def test_the_heads_of_a_cards_runs_are_equal_on_a_phone() -> None:
    style_sheet = (project_root() / "book" / "_assets" / "card.css").read_text()
    assert (
        tuple(re.findall(r'\.card-runs td:nth-child\(\d\)::before \{ content: "(.*): "', style_sheet))
        == cards_page.HEADS
    )


def test_text_in_backquotes_is_code_on_a_card(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    measurement = drawn[1]["cards"][0] | {"what": "As `fused` < `soa`, once"}
    assert "<p>As <code>fused</code> &lt; <code>soa</code>, once</p>" in cards_page.card(measurement, "A lab, a GPU")


def test_a_dialog_shows_the_cards_and_machines_of_the_page(tmp_path: Path) -> None:
    measurements.draw_recorded(tmp_path, data_of_three_runs(tmp_path), "gpu", "GPU", Store(tmp_path / "results"))
    card_links.copy_cards(tmp_path, tmp_path / "site", "")
    folder = tmp_path / "site" / "labs" / "lbm" / "measurements"
    script, page = ((folder / f"gpu{kind}").read_text() for kind in (card_links.DIALOGS, ".html"))
    cards, machines = json.loads(f"[{script[script.index('(') + 1 : script.rindex(')')]}]")
    assert [*cards] == ["fused~128x128"] and [*machines] == ["1", "2"]
    assert all(html in page for html in (*cards.values(), *machines.values()))
