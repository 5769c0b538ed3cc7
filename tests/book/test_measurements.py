"""The cards of measurements: their numbers are those of the rows, each number of a page has one, each command is one."""

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

from roofbook import cli
from roofbook.analysis.readings import read_runs
from roofbook.analysis.recorded import RecordedData, recorded
from roofbook.analysis.store_devices import card_of
from roofbook.book import card_links, device_choices, measurements, render_recorded
from roofbook.book.device_switch import finish_cells
from roofbook.devices.find import spec_of
from roofbook.paths import project_root
from roofbook.report import ladder, peaks
from roofbook.report.cards_page import HEADS
from roofbook.report.measured_card import axis, facts
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_history import taken
from ..report.rows import row

LABS = (*registry.names(), registry.PEAKS)


@cache
def store() -> Store:
    return Store(project_root() / "results")


@pytest.fixture(scope="module", params=LABS)
def drawn(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[RecordedData, dict[str, Any], Path]:
    """A lab on its best recorded device, what its cards tell, and the root that they lie in."""
    root = tmp_path_factory.mktemp("root")
    best = render_recorded.extents(project_root(), request.param)[0]
    found = recorded(registry.get(request.param), store(), best.scale)
    data = next(each for each in found if each.store_device.id == best.place)
    measurements.draw_recorded(root, data, "device", "Device", store())
    return data, card_links.read_cards(root, request.param, "device"), root


def test_each_card_has_the_numbers_of_its_rows(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, told, _ = drawn
    cards = {each["id"]: each for each in told["cards"]}
    shown = measurements.readings(data)
    assert len(cards) == len(told["cards"]) == len(shown) > 30
    rows = {(each["run"], each["variant"], each["case"], each["role"]): each for each in data.rows.to_dict("records")}
    for reading in shown:
        card = cards[reading.id]
        version = card["versions"][-1]
        assert {each["run"] for each in version["runs"]} == {str(each.row["run"]) for each in reading.runs}
        if not reading.ok:
            assert card["why"] == reading.reason and not card["time"] and "seconds" not in version
            continue
        assert version["seconds"] == pytest.approx([reading.median, reading.low, reading.high], rel=6e-4)
        for run in version["runs"]:
            row = rows[run["run"], reading.row["variant"], card["case"], reading.row["role"]]
            samples = [float(each) / int(row["units"]) for each in row["samples_s"]]
            assert len(run["samples"]) + run.get("left_out", 0) == len(samples)
            if "left_out" not in run:
                assert run["samples"] == pytest.approx(samples, rel=6e-4)
            assert run["seconds"][1] <= run["seconds"][0] <= run["seconds"][2]
            git = json.loads(row["provenance"])["git"] or {"commit": ""}
            assert run["commit"] == git["commit"] and run["started"] == f"{row['started']:%Y-%m-%d %H:%M}"
            assert run["machine"] >= 0 and dict(told["machines"][run["machine"]])["driver"]


def test_each_number_of_a_page_has_a_card(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, told, _ = drawn
    ids = {each["id"] for each in told["cards"]}
    tables = [ladder(data.on(case.name)) for case in data.cases if data.lab.name != registry.PEAKS]
    for table in [each.html for each in tables or [peaks(data.rows, "Device", {})]]:
        named = {unescape(each) for each in re.findall(r'data-of="([^"]*)"', table)}
        assert named <= ids and named
        assert card_links.unlink_missing_cards({"cell": table}, ids) == {"cell": table}


def test_each_command_is_one_of_the_command_line(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    """Its words are the lab's own: a variant, a case, a scale; and the address of the card has no space."""
    data, told, _ = drawn
    for card in told["cards"]:
        program, name, *words = shlex.split(card["command"])
        given = cli.app.commands[name].make_context(name, words).params
        assert (program, name, given["lab"], given["scale"]) == ("roofbook", "rerun", data.lab.name, data.scale)
        assert data.lab.variant(given["variant"]) and data.lab.case(given["case"], given["scale"]).name == card["case"]
        assert given["device"] == "cuda:0" and not re.search(r"\s", card["id"])


def test_each_card_is_on_the_page_that_needs_no_script(drawn: tuple[RecordedData, dict[str, Any], Path]) -> None:
    data, told, root = drawn
    page = (root / card_links.FOLDER / data.lab.name / "device.html").read_text(encoding="utf-8")
    assert {unescape(each) for each in re.findall(r'<section class=measured id="([^"]*)"', page)} == {
        each["id"] for each in told["cards"]
    }
    for card in told["cards"][::7]:
        for text in (card["time"], card["answer"], card["command"], *(fact for _, fact in card["facts"])):
            assert text in unescape(page)
        samples = sum(len(run.get("samples", ())) for version in card["versions"] for run in version["runs"])
        section = page[page.index(f'id="{card["id"].replace(chr(39), "&#x27;")}"') :].partition("</section>")[0]
        assert section.count("h0") == samples and section.count("<code>2026") == sum(
            len(v["runs"]) for v in card["versions"]
        )


def test_an_older_version_stays_in_the_card_and_says_what_changed(tmp_path: Path) -> None:
    data = made_up(tmp_path)
    measurements.draw_recorded(tmp_path, data, "device", "Device", Store(tmp_path / "results"))
    (card,) = card_links.read_cards(tmp_path, "lbm", "device")["cards"]
    new = card["versions"][1]
    assert new["changes"] == [["code", "the kernel's source changed"]] and new["word"] == "faster"
    assert [len(each["runs"]) for each in card["versions"]] == [1, 2] and "changed once" in card["answer"]
    assert new["ratio"].startswith("2.0") and new["runs"][1]["changes"] == [
        ["machine", "another machine: aaaa -> bbbb"]
    ]
    page = (tmp_path / card_links.FOLDER / "lbm" / "device.html").read_text(encoding="utf-8")
    assert "Version 2; code: the kernel&#x27;s source changed; faster: 2.0" in page


def made_up(root: Path) -> RecordedData:
    """A step in three runs: one of an older kernel, two of today's on two machines."""
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
    bar = '<div class="device-bar" data-lab="lbm"><option data-script="gpu.cuda.js"><option data-script="cpu.js"></div>'
    cell = '<td class="num" data-of="a~1" title="t">1.5 <small>(x)</small></td>'
    made = card_links.linked(bar + cell, "../", tmp_path)
    assert (
        '<td class="num" title="t"><a class="of" href="../labs/lbm/measurements/gpu.cuda.html#a~1">1.5</a> <small>'
        in made
    )
    measurements.draw_recorded(tmp_path, made_up(tmp_path), "cpu", "CPU", Store(tmp_path / "results"))
    other = '<span data-of="lbm/cpu#fused~128x128">2</span> <span data-of="lbm/cpu#fused~1">3</span>'
    made = card_links.linked(other, "", tmp_path)
    assert '<span><a class="of" href="labs/lbm/measurements/cpu.html#fused~128x128">2</a></span>' in made
    assert made.endswith("<span>3</span>"), "of which there is no card"
    assert card_links.linked(cell, "", tmp_path) == cell.replace(' data-of="a~1"', ""), "of a page that is of no device"
    row = '<tr><td data-of="a~1">1</td><td data-of="b~1">2</td><td data-of="a~1">3</td></tr>'
    made = card_links.linked(f"{bar}<table>{row}{row}</table>", "", tmp_path)
    assert [made.count(each) for each in ("gpu.cuda.html#a~1", "gpu.cuda.html#b~1", ' data-of="">3</td>')] == [
        2,
        2,
        2,
    ], "the first of a card in each row"
    measurements.draw_recorded(
        tmp_path, made_up(tmp_path / "more"), "here", "This machine", Store(tmp_path / "results")
    )
    for page in ("labs/lbm", "labs/lbm/results"):
        alone = card_links.linked('<td data-of="fused~128x128">2</td>', "../", tmp_path, page)
        assert alone == '<td><a class="of" href="../labs/lbm/measurements/here.html#fused~128x128">2</a></td>', (
            "of this machine"
        )


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
def test_a_command_names_the_device_by_its_platform_where_there_may_be_several(
    backend: str, platform: str, spec: str
) -> None:
    device: Any = SimpleNamespace(backend=backend, identity=lambda: {"platform": platform})
    assert spec_of(device) == spec


def test_a_recorded_device_is_told_by_its_own_rows_and_not_by_its_hosts(tmp_path: Path) -> None:
    """Both may be of one backend, as where a GPU and its host run OpenCL; here the host's are newer."""

    def of(day: int, variant: str, platform: str, **other: Any) -> dict[str, Any]:
        source = registry.get("lbm").variant(variant).source
        assert source is not None
        told = {"environment": {"device": {"platform": platform}}}
        given = {"variant": variant, "case": "128x128", "scale": "published", "source_sha256": source.sha256}
        return taken(day, 1e-5, facts=told, **given | other)

    host = {"device": "some-cpu", "device_name": "Some CPU", "device_kind": "cpu"}
    rows = [of(1, "fused", "NVIDIA CUDA"), of(2, "sequential", "PoCL", **host)]
    Store(tmp_path / "results").append(rows, "recorded")
    (data,) = (
        each for each in recorded(registry.get("lbm"), Store(tmp_path / "results")) if each.store_device.kind == "gpu"
    )
    assert {"fused", "sequential"} == set(data.rows["variant"]) and spec_of(data.device) == "opencl:NVIDIA"


def test_names_of_cards_are_those_of_their_files() -> None:
    """As tables of several devices name them, and as they are drawn."""
    for name, scale in (("nvidia-h200/cuda", "published"), ("nvidia-h200/cuda/large", "large")):
        choice = device_choices.DeviceChoice(name, "")
        assert card_of("lbm", "nvidia-h200/cuda", scale, "a~1") == f"lbm/{choice.stem}#a~1"
    assert card_of("lbm", device_choices.HERE.name, "published", "a~1") == "lbm/here#a~1"


def test_a_number_without_a_card_names_no_measurement() -> None:
    cells = finish_cells({"x": '<table><tr><td data-of="a~1">1</td><td data-of="b~1">2</td></tr></table>'})
    assert card_links.unlink_missing_cards(cells, ["a~1"])["x"] == cells["x"].replace(' data-of="b~1"', "")


def test_cards_join_the_site_with_its_repository_and_go_when_they_are_gone(tmp_path: Path) -> None:
    measurements.draw_recorded(tmp_path, made_up(tmp_path), "device", "Device", Store(tmp_path / "results"))
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
    assert page.stat().st_mtime_ns == stamp, "what did not change is not written"
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
    made = axis(times, 1e-6)
    assert (
        made["low"] < min(times) <= max(times) < made["high"] and made["log"] == log and 2 <= len(made["ticks"]) <= 12
    )
    assert all(made["low"] <= at <= made["high"] for at, _ in made["ticks"])
    assert len({text for _, text in made["ticks"]}) == len(made["ticks"]), "no two ticks read alike"


def test_a_failed_measurement_has_a_card_without_a_drawing(tmp_path: Path) -> None:
    source = registry.get("lbm").variant("fused").source
    assert source is not None
    given = {"case": "128x128", "scale": "published", "source_sha256": source.sha256, "cell_key": "c", "env_key": "e"}
    Store(tmp_path / "results").append(
        [row("fused", 1e-5, status="failed", reason="out of memory", **given)], "recorded"
    )
    (data,) = recorded(registry.get("lbm"), Store(tmp_path / "results"))
    assert measurements.draw_recorded(tmp_path, data, "d", "D", Store(tmp_path / "results")) == {"fused~128x128"}
    (card,) = card_links.read_cards(tmp_path, "lbm", "d")["cards"]
    assert card["why"] == "out of memory" and "axis" not in card and not card["time"]
    assert "<svg" not in (tmp_path / card_links.FOLDER / "lbm" / "d.html").read_text()


def test_a_card_says_where_threads_were_bound() -> None:
    free, bound = (
        dict(facts(read_runs([row("openmp", 1e-5, cell_key="c", env_key="e", extra=json.dumps(extra))])))
        for extra in ({}, {"threads_bound": True})
    )
    assert "Threads" not in free and bound["Threads"] == "each bound to a processor"


def test_the_heads_of_a_cards_runs_are_the_same_by_a_script_without_one_and_on_a_phone() -> None:
    assets = project_root() / "book" / "_assets"
    (script,) = re.findall(r"const HEADS = (\[.*\]);", (assets / "card.js").read_text(encoding="utf-8"))
    phone = re.findall(
        r'\.card-runs td:nth-child\(\d\)::before \{ content: "(.*): "', (assets / "card.css").read_text()
    )
    assert tuple(json.loads(script)) == tuple(phone) == HEADS
