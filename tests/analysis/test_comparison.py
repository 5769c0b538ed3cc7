"""Devices side by side, from rows of a store that are made up here: numbers, verdicts, published times, and the page."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from roofbook.analysis import comparison, predictions, verdicts
from roofbook.analysis.comparison import CaseComparison, DevicePair
from roofbook.analysis.store_devices import StoreDevice, of_host
from roofbook.book import fragments, kernels_page, lesson_page, techniques_page
from roofbook.errors import UsageError
from roofbook.report import comparison_table as report
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..axe import Eyes
from ..often import often
from ..served import served
from ..sphinx_build import build_site

STARTED = datetime(2026, 1, 1, 10, tzinfo=UTC)
H200, CPU = "NVIDIA H200", "A CPU"
CUDA = StoreDevice("nvidia-h200", "cuda", H200, "gpu")
OPENCL = StoreDevice("nvidia-h200", "opencl", H200, "gpu")
POCL = StoreDevice("a-cpu", "opencl", CPU, "cpu")
GRID = "128x128"


def row(variant: str, seconds: float, place: StoreDevice = CUDA, lab: str = "lbm", **fields: Any) -> dict[str, Any]:
    """Return a verified row of a run of its own on that device; a variant of the host is a row of the CPU."""
    spec = registry.get(lab).variant(variant)
    on = POCL if of_host(spec) else place
    drift = 1 + 0.001 * np.sin(np.arange(12) + len(variant))
    return {
        "run": f"20260101T100000Z-{place.backend}{place.kind}", "started": STARTED, "lab": lab, "variant": variant,
        "parent": spec.parent, "case": GRID, "scale": "published", "role": spec.role, "axis": spec.axis,
        "point": spec.point, "device": on.slug, "device_name": on.name, "device_kind": on.kind, "policy": "{}",
        "backend": "host" if spec.backends == {"host"} else on.backend, "timed": "loop", "unit": "step", "units": 1,
        "cell_key": variant, "env_key": "e", "status": "ok", "samples_s": (seconds * drift).tolist(),
        "source_sha256": spec.source.sha256 if spec.source else None, "rounds": list(range(12)), "error": 0.0,
        "bound": 0.0, "extra": "{}", "provenance": json.dumps({"cpu": "A processor", "threads_usable": 8}),
    } | fields  # fmt: skip


def store(folder: Path, *rows: dict[str, Any]) -> Store:
    filled = Store(folder)
    if rows:
        filled.append(rows, "recorded")
    return filled


def only(folder: Path, *rows: dict[str, Any], lab: str = "lbm") -> CaseComparison:
    """Return the comparison of the only case of these rows."""
    (only_case,) = comparison.compared(registry.get(lab), store(folder, *rows), "published")
    return only_case


def everywhere(variant: str, cuda: float, opencl: float, pocl: float, **fields: Any) -> list[dict[str, Any]]:
    times = ((CUDA, cuda), (OPENCL, opencl), (POCL, pocl))
    return [row(variant, seconds, place, **fields) for place, seconds in times]


# -- the numbers -------------------------------------------------------------------------------------------------------


def test_each_place_has_its_time_with_its_interval_and_each_pair_its_ratio(tmp_path: Path) -> None:
    compared_case = only(tmp_path, *everywhere("fused", 2e-5, 1e-5, 4e-4), *everywhere("soa", 1e-5, 1e-5, 1e-4))
    assert (compared_case.lab.name, compared_case.scale, compared_case.case) == ("lbm", "published", GRID)
    assert set(compared_case.devices) == {CUDA, OPENCL, POCL} and compared_case.devices[-1] == POCL
    assert [name for name, times in compared_case.times.items() if times] == ["fused", "soa"]
    time = compared_case.times["fused"][OPENCL]
    assert time.seconds == pytest.approx(1e-5, rel=1e-3) and time.low < time.seconds < time.high and time.note == ""
    backends, processors = compared_case.ratios
    assert (str(backends), str(processors)) == (
        "NVIDIA H200: OpenCL vs CUDA",
        "NVIDIA H200, OpenCL vs A CPU, OpenCL",
    )
    ratio = compared_case.ratios[backends]["fused"]
    assert ratio.estimate == pytest.approx(2) and ratio.low < 2 < ratio.high and ratio.how == "across these runs"
    assert {name: speedup.word for name, speedup in compared_case.ratios[backends].items()} == {
        "fused": "faster", "soa": "same",
    }  # fmt: skip
    against = compared_case.ratios[processors]["soa"]
    assert against.estimate == pytest.approx(10) and against.how == "across devices in these runs"
    (turned,) = [
        compared_case.ratios[DevicePair(CUDA, OPENCL)]["fused"]
        for compared_case in comparison.compared(
            registry.get("lbm"), Store(tmp_path), "published", lambda _: [DevicePair(CUDA, OPENCL)]
        )
    ]
    assert turned.word == "slower" and turned.estimate == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"status": "failed", "reason": "out of <memory>", "samples_s": []}, "failed: out of <memory>"),
        ({"error": 3.0}, "failed: not verified: error 3, allowed 0"),
        ({"source_sha256": "of an older kernel"}, "not measured"),
        ({"scale": "quick"}, "not measured"),
        ({"role": "profile", "extra": '{"tool": "ncu", "counters": {}}'}, "not measured"),
    ],
)
def test_a_cell_without_a_verified_time_of_todays_kernel_says_why(
    tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    rows = [row("fused", 1e-5), row("fused", 1e-5, OPENCL) | broken, row("soa", 1e-5), row("soa", 1e-5, OPENCL)]
    compared_case = only(tmp_path, *rows, row("graph", 1e-5))
    assert OPENCL not in compared_case.times["fused"] and compared_case.lacks["fused"][OPENCL] == reason
    assert list(compared_case.ratios[DevicePair(OPENCL, CUDA)]) == ["soa"]
    assert compared_case.lacks["graph"][OPENCL] == "not on this device"
    assert compared_case.lacks["ported"] == {CUDA: "not measured", OPENCL: "not measured"}, (
        "shown for its published time"
    )
    assert "half-storage" not in compared_case.times, "measured nowhere, published nowhere"


def test_the_newest_row_counts_whether_recorded_or_the_readers_own(tmp_path: Path) -> None:
    later: dict[str, Any] = {"run": "20260102T100000Z-bbbbbb", "started": STARTED + timedelta(days=1)}
    store_ = store(tmp_path, row("fused", 1e-5))
    store_.append([row("fused", 3e-5, **later) | {"env_key": "with another driver"}], "local")
    (compared_case,) = comparison.compared(registry.get("lbm"), store_, "published")
    assert compared_case.times["fused"][CUDA].seconds == pytest.approx(3e-5, rel=1e-3)


def test_runs_of_one_measurement_count_together_wherever_they_are_kept(tmp_path: Path) -> None:
    later: dict[str, Any] = {"run": "20260102T100000Z-bbbbbb", "started": STARTED + timedelta(days=1)}
    store_ = store(tmp_path, row("fused", 1e-5))
    store_.append([row("fused", 3e-5, **later)], "local")
    (compared_case,) = comparison.compared(registry.get("lbm"), store_, "published")
    assert compared_case.times["fused"][CUDA].seconds == pytest.approx(2e-5, rel=1e-3)


def test_what_runs_on_the_host_is_marked_and_in_no_ratio_of_a_gpu(tmp_path: Path) -> None:
    compared_case = only(tmp_path, *everywhere("fused", 1e-5, 1e-5, 1e-4), row("sequential", 1e-2), row("openmp", 1e-4))
    for name in ("sequential", "openmp"):
        assert {place: time.note for place, time in compared_case.times[name].items()} == {
            CUDA: "on the host", OPENCL: "on the host", POCL: "",
        }  # fmt: skip
    assert all(set(ratios) == {"fused"} for ratios in compared_case.ratios.values())


def test_pairs_are_the_backends_of_a_gpu_and_each_gpu_against_each_cpu() -> None:
    another_gpu, another_cpu = (
        StoreDevice("a100", "cuda", "A100", "gpu"),
        StoreDevice("b-cpu", "opencl", "B CPU", "cpu"),
    )
    assert comparison.pairs([CUDA]) == comparison.pairs([POCL]) == comparison.pairs([]) == []
    assert comparison.pairs([CUDA, OPENCL]) == [DevicePair(OPENCL, CUDA)]
    assert comparison.pairs([OPENCL, CUDA, another_gpu, POCL, another_cpu]) == [
        DevicePair(OPENCL, CUDA), DevicePair(OPENCL, POCL), DevicePair(OPENCL, another_cpu), DevicePair(another_gpu, POCL),
        DevicePair(another_gpu, another_cpu),
    ]  # fmt: skip


INTEL = StoreDevice("a-cpu-intel-opencl", "opencl", f"{POCL.name}, Intel OpenCL", "cpu")


def test_a_cpus_other_platform_is_compared_with_pocl_and_named_by_its_platform(tmp_path: Path) -> None:
    again = StoreDevice("a-cpu-2", "opencl", f"{POCL.name} 2", "cpu")
    (pair,) = comparison.pairs([POCL, INTEL, again])
    assert pair == DevicePair(INTEL, POCL) and str(pair) == f"{POCL.name}: Intel OpenCL vs PoCL"
    assert (str(INTEL), str(POCL)) == (f"{POCL.name}, Intel OpenCL", f"{POCL.name}, OpenCL")
    assert DevicePair(OPENCL, INTEL) in comparison.pairs([OPENCL, POCL, INTEL])
    compared_case = only(tmp_path, row("fused", 1e-4, INTEL), row("fused", 4e-4, POCL), row("sequential", 1e-2))
    assert compared_case.ratios[pair]["fused"].estimate == pytest.approx(4)
    assert compared_case.times["sequential"][INTEL].note == "on the host", "by PoCL, whatever platform the lab runs on"
    assert "sequential" not in compared_case.ratios[pair]


def test_quick_sizes_are_compared_where_a_cpu_was_measured_by_several_platforms(tmp_path: Path) -> None:
    """As on a reader's own machine, where nothing else is measured."""
    lab, quick = registry.get("lbm"), {"scale": "quick"}
    store_ = store(tmp_path, row("fused", 4e-4, POCL, **quick), row("fused", 1e-5, OPENCL, **quick))
    assert "quick" not in comparison.scales(store_)(lab), "a GPU, and a CPU that is its host"
    with pytest.raises(UsageError, match="not measured at scale published or large"):
        comparison.on_case(lab, store_, GRID)
    store_.append([row("fused", 1e-4, INTEL, **quick)], "local")
    assert comparison.scales(store_)(lab)[-1] == "quick" and "quick" not in comparison.scales(store_)(
        registry.get("cnn")
    )
    compared_case = comparison.on_case(lab, store_, GRID, [INTEL.slug, POCL.id])
    assert compared_case.scale == "quick" and list(compared_case.ratios) == [DevicePair(INTEL, POCL)]
    store_.append([row("fused", 1e-3, POCL)], "local")
    assert comparison.on_case(lab, store_, GRID).scale == "published"
    assert comparison.on_case(lab, store_, GRID, [INTEL.slug]).scale == "quick"


def test_a_place_held_against_itself_is_the_same_in_every_cell(tmp_path: Path) -> None:
    store_ = store(tmp_path, row("fused", 1e-5), row("soa", 2e-5))
    (compared_case,) = comparison.compared(
        registry.get("lbm"), store_, "published", lambda places: [DevicePair(CUDA, CUDA)]
    )
    assert [ratio.word for ratio in compared_case.ratios[DevicePair(CUDA, CUDA)].values()] == ["same", "same"]


def test_the_summary_is_the_geometric_mean_over_the_ladder_and_the_peers_of_all_cases(tmp_path: Path) -> None:
    rows = [*everywhere("fused", 4e-5, 1e-5, 1e-3), *everywhere("soa", 1e-5, 1e-5, 1e-3)]
    rows += everywhere("soa", 1e-5, 2e-5, 1e-3, case="256x256")
    rows += everywhere("flat-grid@wg=32x1", 9e-5, 1e-5, 1e-3)
    comparisons = comparison.compared(registry.get("lbm"), store(tmp_path, *rows), "published")
    assert "flat-grid@wg=32x1" in comparisons[0].ratios[DevicePair(OPENCL, CUDA)]
    summaries = comparison.summaries(comparisons)
    assert list(summaries) == [DevicePair(OPENCL, CUDA), DevicePair(OPENCL, POCL)]
    (line,) = summaries[DevicePair(OPENCL, CUDA)]
    assert (line.measurements, line.verdicts) == (3, {"faster": 1, "same": 1, "undecided": 0, "slower": 1})
    assert line.mean == pytest.approx(2 ** (1 / 3)) and (line.least, line.greatest) == pytest.approx((0.5, 4))
    (table, _) = report.overview(comparisons)
    assert re.search(r"Lattice Boltzmann +3 +1\.26 +0\.500 +4\.00 +1 +1 +0 +1$", table.fitted(200), re.M)


def test_a_case_that_one_backend_has_not_is_no_part_of_a_summary_by_that_backend(tmp_path: Path) -> None:
    rows = [row("fused", 1e-5, OPENCL), row("fused", 1e-3, POCL)]
    rows += [row("fused", 1e-6, CUDA, case="256x256"), row("fused", 1e-3, POCL, case="256x256")]
    comparisons = comparison.compared(registry.get("lbm"), store(tmp_path, *rows), "published")
    assert {pair for compared_case in comparisons for pair in compared_case.ratios} == {
        DevicePair(OPENCL, POCL),
        DevicePair(CUDA, POCL),
    }
    summaries = comparison.summaries(comparisons)
    assert list(summaries) == [DevicePair(OPENCL, POCL)] and summaries[DevicePair(OPENCL, POCL)][0].measurements == 1
    (pair,) = comparison.summaries(comparisons[1:])
    assert pair == DevicePair(CUDA, POCL), "where OpenCL has none, CUDA is what there is"


# -- published times ---------------------------------------------------------------------------------------------------


def test_published_times_are_per_unit_of_the_variants_that_the_lab_maps_them_to(tmp_path: Path) -> None:
    compared_case = only(tmp_path, row("fused", 1e-5), row("flat-grid", 1e-6, POCL))
    steps = registry.get("lbm").case(GRID, "published").params["iterations"]
    assert compared_case.published["fused"].keys() == {"Tesla P100"}
    assert compared_case.published["fused"]["Tesla P100"].seconds == pytest.approx(2.811 / steps)
    swept = compared_case.published["flat-grid@wg=32x1"]
    assert swept.keys() == {"Tesla P100", "Tesla K20m", "Tesla V100", "GeForce GTX 1660 Ti"}
    assert swept["Tesla V100"].seconds == pytest.approx(0.206 / steps)
    assert math.isnan(swept["Tesla V100"].low) and swept["Tesla V100"].note == "as optimised, work-group 32x1"
    assert compared_case.published["flat-grid"]["Xeon E5-2680"].note == "as optimised OpenCL on CPU"
    assert "no-compute" not in compared_case.times, "a probe computes nothing, so its time is none of a step"
    text = report.comparison(compared_case).html
    assert "(GeForce GTX 1660 Ti, as optimised, work-group 32x1)" in text


def test_of_trials_the_median_and_of_several_runs_the_shortest_is_shown(tmp_path: Path) -> None:
    cnn: dict[str, Any] = {"lab": "cnn", "case": "256ch-224x224-k5", "unit": "layer"}
    published = only(tmp_path, row("fissioned", 1e-3, **cnn), lab="cnn").published
    assert published["sequential-c"]["host CPU"].seconds == 15.8858
    assert published["as-reported"]["Tesla M60 (one chip)"].seconds == 0.073091
    assert published["as-reported@report=unrolling"]["Tesla M60 (one chip)"].seconds == 1.3253


def test_a_published_part_of_a_run_is_no_time_of_ours(tmp_path: Path) -> None:
    fields: dict[str, Any] = {"lab": "convpool", "case": "512x512x32x32-k3", "unit": "layer"}
    published = only(tmp_path / "convpool", row("lists", 1e-3, **fields), lab="convpool").published
    assert {name: {device: time.seconds for device, time in times.items()} for name, times in published.items()} == {
        "sequential": {"host CPU": 16.5},
        "lists": {"GeForce GTX 680": 0.01},
    }
    fields = {"lab": "lenet", "case": "batch-10000", "unit": "batch"}
    assert not only(tmp_path / "lenet", row("linear", 1e-3, **fields), lab="lenet").published


def test_a_lab_without_published_figures_is_compared_without_them(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    compared_case = only(tmp_path, *everywhere("fused", 1e-5, 1e-5, 1e-4))
    assert not compared_case.published and list(compared_case.times) == ["fused"]
    assert "Published" not in report.comparison(compared_case).text


# -- the table, the data and the command -------------------------------------------------------------------------------


def small(folder: Path) -> Store:
    """Two labs: three places on one case of the one, a GPU alone on the other."""
    failed = {"status": "failed", "reason": "out of <memory>", "samples_s": []}
    rows = [*everywhere("fused", 2e-5, 1e-5, 4e-4), *everywhere("soa", 1e-5, 2e-5, 1e-4), row("sequential", 1e-2)]
    rows += [row("tree", 1e-5), row("tree", 1e-5, OPENCL) | failed, row("fused", 1e-4, case="256x256")]
    rows += [row("lists", 1e-3, lab="convpool", case="512x512x32x32-k3", unit="layer")]
    return store(folder, *rows)


def compared(store_: Store) -> list[CaseComparison]:
    return [
        compared_case
        for lab in registry.names()
        for compared_case in comparison.compared(registry.get(lab), store_, "published")
    ]


def test_the_table_has_a_column_a_place_and_a_pair(tmp_path: Path) -> None:
    (_, case, _) = compared(small(tmp_path))
    table = report.comparison(case)
    lines = {line.split("  ")[0]: line.replace("\u202f", " ") for line in table.fitted(400).splitlines()}
    assert table.caption == "Lattice Boltzmann, 128x128: time per step in µs"
    assert re.search(
        r" 10\.0 \[.+\] +20\.0 \[.+\] +400 \[.+\] +70\.3 \(Tesla P100, .+\) +faster 2\.00 ", lines["fused"]
    )
    assert re.search(r"failed: out of <memory> +10\.0 .* not measured ", lines["tree"])
    assert lines["sequential"].count("(on the host)") == 2
    assert 'class="num verdict slower"' in table.html and "out of &lt;memory&gt;" in table.html
    assert len(table.frame) == 3 * len(case.times) and table.frame["seconds"].notna().sum() == 10


def test_the_script_of_what_can_be_picked_calls_the_page_with_json_of_all_cells(tmp_path: Path) -> None:
    text = report.picker_script(compared(small(tmp_path)))
    picker = json.loads(text.removeprefix("roofbookDevices(").removesuffix(");\n"))
    assert [lab["name"] for lab in picker["labs"]] == ["convpool", "lbm"]
    ids = [place[0] for place in picker["places"]]
    assert ids[:3] == ["nvidia-h200/cuda", "nvidia-h200/opencl", "a-cpu/opencl"] and "published/Tesla V100" in ids
    assert len(ids) == len(set(ids)) and not any("," in id_ for id_ in ids)
    case = picker["labs"][1]["cases"][0]
    assert (case["id"], case["unit"], case["start"]) == (
        "published/128x128",
        "µs per step",
        ["sequential", "fused", "soa", "flat-grid"],
    )
    cell_text, *numbers = case["cells"]["fused"]["1"]
    assert (
        cell_text.startswith("10.0 [")
        and numbers[0] == pytest.approx(10, rel=1e-3)
        and numbers[1] < numbers[0] < numbers[2]
    )
    assert case["cells"]["tree"]["1"] == ["failed: out of <memory>"]
    assert case["ratios"]["soa"]["1/0"][0] == "slower" and case["pairs"]["1/0"] == "NVIDIA H200: OpenCL vs CUDA"


def test_no_name_of_a_variant_would_break_the_address_that_lists_them() -> None:
    assert not [
        variant.name for lab in registry.names() for variant in registry.get(lab).all_variants() if "," in variant.name
    ]


@pytest.fixture
def roofbook(tmp_path: Path, command: Any) -> Any:
    """Runs `roofbook compare` on a store of its own."""
    return partial(command, "compare", "--results", str(tmp_path))


def test_the_command_prints_all_places_or_those_asked_for(
    roofbook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    assert roofbook("lbm", GRID)[::2] == (
        2,
        "error: lbm was not measured at scale published or large yet; `roofbook run lbm --scale published` does it\n",
    )
    small(tmp_path)
    code, out, err = roofbook("lbm", GRID)
    assert (code, err) == (0, "") and "A CPU, OpenCL" in out and "NVIDIA H200: OpenCL vs CUDA" in out
    code, out, _ = roofbook("lbm", GRID, "--on", "nvidia-h200/cuda", "--on", "a-cpu")
    assert code == 0 and "NVIDIA H200, CUDA vs A CPU, OpenCL" in out and "NVIDIA H200, OpenCL" not in out
    code, out, _ = roofbook("lbm", GRID, "--on", "nvidia-h200")
    assert code == 0 and " vs " in out and "A CPU" not in out
    assert roofbook("lbm", GRID, "--on", "nvidia-h20")[2].startswith(
        "error: unknown recorded device 'nvidia-h20' (did you"
    )
    assert roofbook("lbm", "12x128")[2].startswith(
        "error: unknown recorded case '12x128' (did you mean '128x128'?); valid: 128x128, 256x256"
    )


def test_a_case_that_is_not_on_record_is_an_error_of_the_library_too(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="recorded case"):
        comparison.on_case(registry.get("lbm"), small(tmp_path), "1024x1024")


# -- the page ----------------------------------------------------------------------------------------------------------


PAGES = ("index", "devices", "claims")
"""Pages that show what `small` has on record, beside those of its labs; warnings of links to others do not matter."""


@pytest.fixture(scope="module")
def page(unmeasured: Callable[[], Path], browser: Any) -> Iterator[str]:
    """The address of the page of a site that was built of the small store, with PAGES alone."""
    root = unmeasured()
    book = root / "book"
    for path in [*book.glob("*.md"), *book.glob("exercises/*.md"), *(root / "experiments").rglob("*.ipynb")]:
        if path.stem not in PAGES:
            path.unlink()
    toc = "format: jb-book\nroot: index\nchapters:\n- file: devices\n- file: claims\n- glob: labs/*/devices\n"
    (book / "_toc.yml").write_text(toc)
    small(root / "results")
    with pytest.MonkeyPatch.context() as patch:
        for written in (kernels_page, lesson_page, techniques_page):  # which these pages have nothing of
            patch.setattr(written, "update", lambda *_: None)
        fragments.update(root)
    build_site(book, root / "site")
    with served(root / "site") as address:
        yield f"{address}/devices.html"


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A tab that must see no error of a script."""
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    wrong: list[str] = []
    opened.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    yield opened
    opened.close()
    assert not wrong


def bars(tab: Any) -> dict[str, list[str]]:
    """The bars by variant, each by the place that it is of, once they are there."""
    tab.wait_for_selector("#devices-pick")
    return dict(
        tab.evaluate(
            "[...document.querySelectorAll('.pick-group')].map(group => [group.querySelector('strong').textContent,"
            " [...group.querySelectorAll('.pick-bar > span:first-child')].map(each => each.textContent)])"
        )
    )


@pytest.mark.site
def test_picking_changes_the_chart_the_table_and_the_address_and_the_address_brings_it_back(
    tab: Any, page: str
) -> None:
    tab.goto(page)
    assert bars(tab) == {
        "sequential": ["host CPU, published"], "lists": ["NVIDIA H200, CUDA", "GeForce GTX 680, published"],
    }  # fmt: skip
    assert tab.evaluate("location.hash") == "", "nothing was picked yet"
    tab.get_by_label("Lab").select_option("lbm")
    assert list(bars(tab)) == ["sequential", "fused", "soa", "flat-grid"]
    tab.get_by_label("soa", exact=True).uncheck()
    tab.get_by_label("sequential", exact=True).uncheck()
    tab.get_by_label("flat-grid", exact=True).uncheck()
    tab.get_by_label("A CPU, OpenCL", exact=True).uncheck()
    tab.get_by_label("Tesla P100, published").uncheck()
    chosen = {"fused": ["NVIDIA H200, CUDA", "NVIDIA H200, OpenCL"]}
    assert bars(tab) == chosen
    colours = tab.eval_on_selector_all(".pick-bar b", "all => all.map(bar => bar.className)")
    assert colours == ["same", "faster"], "the colour is the effect over the first device, the same in all figures"
    assert "faster than on NVIDIA H200, CUDA" in tab.inner_text(".pick-legend")
    widths = "[...document.querySelectorAll('.pick-bar b')].map(bar => bar.getBoundingClientRect().width)"
    logarithmic = tab.evaluate(widths)
    tab.get_by_label("Logarithmic axis").uncheck()
    cuda, opencl = tab.evaluate(widths)
    assert cuda == pytest.approx(2 * opencl, rel=0.01) and logarithmic[0] < 2 * logarithmic[1]
    (line,) = tab.locator("#devices-pick tbody tr").all_inner_texts()
    assert re.search(r"^fused\t20\.0 \[.*\]\t10\.0 \[.*\]\tfaster 2\.00 \[", line)
    cards = tab.eval_on_selector_all("#devices-pick tbody a.of", "all => all.map(each => each.getAttribute('href'))")
    assert cards == [
        f"labs/lbm/measurements/nvidia-h200.{backend}.html#fused~128x128" for backend in ("cuda", "opencl")
    ]
    address, caption = tab.url, tab.locator("figcaption").inner_text()
    assert "#lab=lbm&case=published/128x128&variants=fused&devices=nvidia-h200/cuda,nvidia-h200/opencl" in address
    tab.goto("about:blank")
    tab.goto(address)
    assert bars(tab) == chosen and tab.locator("figcaption").inner_text() == caption
    assert not tab.get_by_label("Logarithmic axis").is_checked()
    tab.get_by_label("Case").select_option("published/256x256")
    assert bars(tab) == {"fused": ["NVIDIA H200, CUDA"]}
    tab.evaluate("location.hash = '#lab=lbm&case=published/128x128&variants=tree,no-such&devices=nvidia-h200/cuda'")
    tab.wait_for_function("document.querySelector('.pick-group strong').textContent === 'tree'")
    assert bars(tab) == {"tree": ["NVIDIA H200, CUDA"]}


@pytest.mark.site
@pytest.mark.thorough
def test_variants_are_found_by_name_and_an_empty_choice_says_what_to_do(tab: Any, page: str) -> None:
    tab.goto(f"{page}#lab=lbm")
    tab.get_by_label("Find variants").fill("SO")
    labels = [label.inner_text() for label in tab.locator("[data-list=variants] label").all() if label.is_visible()]
    assert labels == ["soa"]
    tab.get_by_role("button", name="None").click()
    assert list(bars(tab)) == ["sequential", "fused", "flat-grid"]
    tab.get_by_label("Find variants").fill("")
    tab.get_by_role("button", name="None").click()
    assert bars(tab) == {} and "choose at least one" in tab.locator("figcaption").inner_text()
    tab.get_by_role("button", name="All found").click()
    assert {"soa", "tree"} <= set(bars(tab))
    tab.goto(f"{page}#lab=constructor&case=__proto__&variants=&devices=x")
    tab.reload()
    assert bars(tab) == {} and tab.get_by_label("Lab").input_value() == "convpool"


@pytest.mark.site
@pytest.mark.thorough
def test_the_keyboard_reaches_the_form(tab: Any, page: str) -> None:
    tab.goto(f"{page}#lab=lbm&variants=fused")
    assert "NVIDIA H200, OpenCL" in bars(tab)["fused"], "the form is there: what is hidden takes no focus"
    tab.get_by_label("Logarithmic axis").focus()
    for _ in range(2):
        tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert "NVIDIA H200, OpenCL" not in bars(tab)["fused"] and "NVIDIA H200, CUDA" in bars(tab)["fused"]


@pytest.mark.site
@pytest.mark.thorough
def test_the_pages_of_what_is_on_record_in_both_schemes_and_on_a_phone(browser: Any, page: str) -> None:
    opened, eyes = browser.new_page(viewport={"width": 390, "height": 900}), Eyes()
    for name, must in (
        (f"{page}#lab=lbm", ".verdict"),
        (page.replace("devices", "claims"), ".verdict"),
        (page.replace("devices", "index"), ".descent svg, table.glance"),
    ):
        opened.goto(name)
        assert "#" not in name or bars(opened)
        opened.evaluate("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert opened.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert opened.locator(must).count(), name
        assert eyes.violations(opened) == [], name
    opened.close()


@pytest.mark.site
@pytest.mark.thorough
def test_a_time_of_the_host_is_one_bar_whichever_places_it_stands_at(tab: Any, page: str) -> None:
    tab.goto(f"{page}#lab=lbm&variants=sequential")
    published = [bar for bar in bars(tab)["sequential"] if "published" in bar]
    assert bars(tab)["sequential"] == ["A CPU, OpenCL", *published], "the host is a place of its own"
    (line,) = tab.locator("#devices-pick tbody tr").all_inner_texts()
    assert line.count("on the host") == 2, "the table says it of each place"
    tab.get_by_label("A CPU, OpenCL", exact=True).uncheck()
    assert bars(tab)["sequential"] == ["A CPU", *published] and tab.locator("b.pick-host").count() == 1


@pytest.mark.site
@pytest.mark.parametrize("width", often([320, 390], {320}.__contains__))
@pytest.mark.thorough
def test_on_a_phone_no_word_of_a_label_is_broken(browser: Any, page: str, width: int) -> None:
    """However long the text beside it is: here as long as that of a published time that names its own variant."""
    opened = browser.new_page(viewport={"width": width, "height": 900})
    opened.goto(f"{page}#lab=lbm")
    assert bars(opened)
    broken = opened.evaluate(
        """(text) => [...document.querySelectorAll('.pick-bar:not(.pick-axis)')].flatMap(bar => {
            const [label, , said] = bar.children, node = label.firstChild, range = document.createRange();
            said.textContent = text;
            return [...label.textContent.matchAll(/\\S+/g)].filter(word => {
                range.setStart(node, word.index);
                range.setEnd(node, word.index + word[0].length);
                return range.getClientRects().length > 1;
            }).map(word => word[0]);
        })""",
        "73.1 [72.0, 74.2] (as best (global 64x112x16, local 4x8x2))",
    )
    assert opened.locator(".pick-bar:not(.pick-axis)").count() > 3 and broken == []
    opened.close()


STYLE = (Path(__file__).parents[2] / "book" / "_assets" / "roofbook.css").read_text()


def luminance(colour: str) -> float:
    """Relative luminance of #rrggbb, as WCAG 2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_colour_of_every_verdict_is_legible_on_every_ground_of_a_table(scheme: str) -> None:
    (block,) = re.findall(rf'html\[data-theme="{scheme}"\] {{(.*?)}}', STYLE, re.S)[:1]
    colours = dict(re.findall(r"(--roofbook-\w+): (#\w{6});", block))
    used = set(re.findall(r"--verdict: var\((--roofbook-\w+)\)", STYLE))
    assert len(used) == 6
    for name, ground in ((name, ground) for name in (*used, "--roofbook-quiet") for ground in ("ground", "soft")):
        light, dark = sorted((luminance(colours[name]), luminance(colours[f"--roofbook-{ground}"])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (name, ground)


def test_every_verdict_of_a_claim_and_of_a_ratio_has_its_colour() -> None:
    rules = " ".join(re.findall(r"^(\.verdict[^{]*)\{ --verdict", STYLE, re.M))
    named = {word.replace("-", " ") for word in re.findall(r"\.([\w-]+)", rules)} - {"verdict"}
    judged = {*verdicts.VERDICTS[:7], "faster", "slower", *get_args(predictions.Outcome)}
    assert named == judged - {"undecided"}, "undecided and same stay quiet"


@pytest.mark.site
def test_without_a_script_every_number_stands_in_the_tables(browser: Any, page: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    opened = context.new_page()
    opened.goto(page)
    assert (
        not opened.locator("#devices-pick").is_visible()
        and opened.get_by_text("This form needs JavaScript").is_visible()
    )
    opened.click("#all-measurements >> text=Lattice Boltzmann")
    opened.wait_for_url("**/labs/lbm/devices.html")
    assert "faster 2.00" in opened.content().replace("</td>", "").replace(" <small>", " ")
    context.close()
