"""Recording a device: the folders of the runs, continuing in a second call, and pages of a device that this machine lacks."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from roofbook import cli
from roofbook.analysis.recorded import recorded as records
from roofbook.book import record_device, replay_notebook
from roofbook.book.experiment import Experiment
from roofbook.book.replay_notebook import RecordedPage
from roofbook.devices import checkout
from roofbook.devices.backends import ON_REQUEST, WEBGPU
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import Failed, UsageError
from roofbook.measure import schedule
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.terminal import width

from ..conftest import Command
from ..recorded_labs import RECORDED

ROOT = Path(__file__).parents[2]
VARIANTS = ("sequential", "checked", "native-rsqrt", "float4", "fused")
CASES = ("6x1024", "5x13")
OF_CASES = [word for case in CASES for word in ("--case", case)]


def record_words(out: Path, *options: str, labs: tuple[str, ...]) -> list[str]:
    chosen = [word for name in labs for word in ("--lab", name)]
    return ["record", str(out), *chosen, "--scale", "test", "--budget", "1e-6", *options]


def run_record(out: Path, *options: str, labs: tuple[str, ...] = ("peaks", "stencil")) -> Result:
    return CliRunner().invoke(cli.app, record_words(out, *options, labs=labs), catch_exceptions=False)


CLEAN = {"commit": "1" * 40, "dirty": False, "change": None}


@pytest.fixture(scope="module", autouse=True)
def committed() -> Iterator[pytest.MonkeyPatch]:
    """Let the checkout look clean, even if this one has changes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkout, "state", cache(lambda project=None: CLEAN))
        yield patch


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record some peaks and a ladder, on two of its cases, into a folder, and return it."""
    folder = tmp_path_factory.mktemp("out")
    for process_result in (
        run_record(folder, *variants("copy", "fma-float32", "launch"), labs=("peaks",)),
        run_record(folder, *variants(*VARIANTS), *OF_CASES, labs=("stencil",)),
    ):
        assert process_result.exit_code == 0, process_result.output
        assert max(map(width, process_result.output.splitlines())) <= 80
    return folder


@pytest.fixture
def record_page(out: Path) -> RecordedPage:
    return RecordedPage(records(registry.get("stencil"), Store(out), "test")[-1], Store(out))


def test_the_runs_are_in_the_folders_of_the_book_and_a_second_call_measures_nothing(out: Path) -> None:
    places = {path.relative_to(out).parts[:2] for path in out.rglob("*.parquet")}
    assert places == {("recorded", "lab=peaks"), ("recorded", "lab=stencil")}
    before = sorted(out.rglob("*.parquet"))
    again = run_record(out, *variants(*VARIANTS), *OF_CASES, labs=("stencil",))
    assert re.search(r"0 measurements taken, \d+ were fresh", again.output)
    assert sorted(out.rglob("*.parquet")) == before
    assert re.search(r"In all \d+ s, at most [\d.]+ GiB of the host's memory", again.output)
    flat_run = run_record(out, *variants("flat"), labs=("stencil",))
    assert re.search(r"9 measurements taken", flat_run.output) and "flat" in flat_run.output


def test_devices_that_are_measured_together_have_rows_of_the_same_runs(tmp_path: Path) -> None:
    if not ON_REQUEST["webgpu"].devices():
        pytest.skip(WEBGPU.absent)
    devices = ["--device", host_cpu().spec, "--device", "webgpu:0", "--together", "--no-host", "--no-sweeps"]
    options = [*devices, *variants("flat"), "--case", "6x1024", "--runs", "2"]
    first = run_record(tmp_path, *options, labs=("stencil",))
    assert first.exit_code == 0, first.output
    rows = Store(tmp_path, ["recorded"]).rows("stencil")
    steps = rows[rows["role"] == "step"]
    runs = {key: set(of_step["run"]) for key, of_step in steps.groupby(["variant", "backend"])}
    assert runs.keys() == {("flat", "opencl"), ("flat", "webgpu")}
    assert len(set(map(frozenset, runs.values()))) == 1 and len(runs["flat", "webgpu"]) == 2
    again = run_record(tmp_path, *options, labs=("stencil",))
    assert "0 measurements taken, 2 were fresh" in " ".join(again.output.split())


def test_devices_are_measured_together_only_if_there_are_two(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--together takes two or more --device"):
        run_record(tmp_path, "--device", host_cpu().spec, "--together", labs=("stencil",))


@pytest.mark.thorough
def test_rows_stored_before_a_run_broke_off_are_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(Exception):
        pass

    def cut(variant: str, stage: str) -> None:
        if variant.startswith("7x48"):
            raise Cut

    printer = record_device.CasePrinter
    monkeypatch.setattr(record_device, "CasePrinter", lambda: cut)
    with pytest.raises(Cut):
        run_record(tmp_path, *variants("flat", "float4"), labs=("stencil",))
    assert set(Store(tmp_path).rows("stencil")["case"]) == {"6x1024"}
    monkeypatch.setattr(record_device, "CasePrinter", printer)
    again = run_record(tmp_path, *variants("flat", "float4"), labs=("stencil",))
    assert re.search(r"1\d measurements taken", again.output)


class Checkout:
    """Fake of `checkout.state` that returns one of these states a call, then always the last."""

    def __init__(self, *states: dict[str, Any] | None) -> None:
        self.states = list(states)

    def __call__(self, project: Path | None = None) -> dict[str, Any] | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cache_clear(self) -> None:
        """Do nothing, as no state is cached."""


DIRTY = CLEAN | {"dirty": True, "change": "0123456789ab"}


@pytest.mark.parametrize(
    ("state", "message"),
    [(DIRTY, "changed checkout: commit the changes first"), (None, "unknown commit: measure from a clone")],
)
def test_a_checkout_that_matches_no_commit_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any] | None, message: str
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(state))
    with pytest.raises(UsageError, match=message):
        run_record(tmp_path, *variants("flat"), labs=("stencil",))
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.thorough
def test_rows_of_a_changed_checkout_are_local_and_do_not_count_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(DIRTY))
    local = run_record(tmp_path, *variants("flat"), "--uncommitted", labs=("stencil",))
    assert local.exit_code == 0 and "The ladder on 6x1024" in local.output
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.parquet")} == {"local"}
    monkeypatch.setattr(checkout, "state", Checkout(CLEAN))
    clean = run_record(tmp_path, *variants("flat"), labs=("stencil",))
    assert re.search(r"9 measurements taken; runs", clean.output)
    rows = Store(tmp_path, ["recorded"]).rows("stencil")
    assert [json.loads(text)["git"] for text in rows["provenance"]] == [CLEAN] * 9


def test_rows_of_a_change_during_the_run_stay_local_and_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(CLEAN, DIRTY))
    with pytest.raises(UsageError, match="changed checkout"):
        run_record(tmp_path, *variants("flat"), labs=("stencil",))
    assert len(Store(tmp_path, ["local"]).rows("stencil")) and Store(tmp_path, ["recorded"]).rows("stencil").empty


def test_a_lab_without_its_sweeps() -> None:
    lab = registry.get("stencil")
    assert record_device.variants_to_measure("stencil", True) is None
    assert record_device.variants_to_measure("stencil", False) == [
        variant.name for variant in (*lab.ladder, *lab.peers)
    ]


@pytest.mark.thorough
def test_no_host_leaves_out_the_rows_of_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = SimpleNamespace(slug="a-gpu")
    whole_plan = Experiment.plan

    def plan(self: Any, *chosen: Any) -> list[Any]:
        return [
            replace(cell, device=place) if cell.variant.name == "flat" else cell for cell in whole_plan(self, *chosen)
        ]

    monkeypatch.setattr(Experiment, "plan", plan)
    only = run_record(tmp_path, *variants("flat", "checked"), "--no-host", labs=("stencil",))
    assert only.exit_code == 0, only.output
    assert set(Store(tmp_path).rows("stencil")["variant"]) == {"checked"}


def test_the_default_limit_is_that_of_any_measurement() -> None:
    (limit,) = [option for option in cli.app.commands["record"].params if option.name == "limit"]
    assert limit.default == Policy.limit_s


def test_a_measurement_over_the_limit_is_a_failed_row_with_the_reason(tmp_path: Path) -> None:
    words = record_words(tmp_path, *variants("flat", "sequential"), "--limit", "1e-9", labs=("stencil",))
    short = CliRunner().invoke(cli.app, words)
    assert isinstance(short.exception, Failed) and "out of time" in short.output
    assert re.fullmatch(r"all \d+ measurements failed: the tables say why", str(short.exception))
    reasons = Store(tmp_path).rows("stencil")["reason"]
    assert len(reasons) and all(
        re.match(r"out of time: .+ would take .+, the limit is 1e-09 s", reason) for reason in reasons
    )


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([(3, 0, 3), (0, 0, 0)], "all 3 measurements failed"),
        ([(1, 0, 1)], "the only measurement failed"),
        ([(3, 0, 2)], None),
        ([(3, 0, 3), (1, 0, 0)], None),
        ([(3, 5, 3)], None),
        ([(0, 5, 0)], None),
        ([(0, 0, 0), (0, 1, 0)], None),
    ],
)
def test_a_record_fails_if_no_measurement_has_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[tuple[int, int, int]], words: str | None
) -> None:
    """Numbers of each lab: measured, fresh, failed. Fresh ones have a time."""
    summaries = iter([schedule.Done("run", *numbers) for numbers in counts])
    monkeypatch.setattr(record_device, "_on_this_host", lambda *arguments, **options: next(summaries))
    expected = pytest.raises(Failed, match=words) if words else nullcontext()
    with expected:
        result = run_record(tmp_path, "--device", host_cpu().spec, labs=("stencil", "lbm")[: len(counts)])
        assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--variant", "numba-fused"], "numba-fused does not run on {device}: OpenCL lacks: .+"),
        (["--variant", "float4", "--case", "5x13"], "float4 does not run on {device}: .+"),
    ],
)
def test_a_record_of_nothing_is_refused_with_the_reason(tmp_path: Path, words: list[str], message: str) -> None:
    device = host_cpu().spec
    with pytest.raises(UsageError) as refusal:
        run_record(tmp_path, "--device", device, *words, labs=("stencil",))
    assert re.fullmatch(f"nothing was measured: {message.format(device=device)}", str(refusal.value))


def test_a_variant_of_the_host_that_was_left_out_is_named() -> None:
    why = record_device._why_nothing([("stencil", "test", [], ["sequential-c"])], [host_cpu().spec])
    assert why == "sequential-c is left out by --no-host or --no-sweeps"


def test_what_is_named_twice_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[tuple[Any, ...]]()

    def measured(name: str, parameters: dict[str, Any], *_: Any, **options: Any) -> schedule.Done:
        called.append((name, parameters["device"], parameters["cases"], parameters["variants"]))
        return schedule.Done("run", 1, 0, 0)

    monkeypatch.setattr(record_device, "_on_this_host", measured)
    device = host_cpu().spec
    twice = ["--device", device, "--device", f" {device}", *["--case", "5x13"] * 2, *["--variant", "fused"] * 2]
    run_record(tmp_path, *twice, labs=("stencil", "stencil"))
    assert called == [("stencil", device, ["5x13"], ["fused"])]
    with pytest.raises(UsageError, match="--together takes two or more"):
        run_record(tmp_path, "--together", *twice, labs=("stencil",))


@pytest.mark.thorough
def test_series_are_left_out_with_the_sweeps(tmp_path: Path) -> None:
    options = [word for word in ("--variant", "built-lists")]
    without_sweeps = run_record(tmp_path, *options, "--no-sweeps", labs=("convpool",))
    assert without_sweeps.exit_code == 0, without_sweeps.output
    cases = {case.name for case in registry.get("convpool").cases("test")}
    assert set(Store(tmp_path).rows("convpool")["case"]) <= cases
    with_sweeps = run_record(tmp_path, *options, labs=("convpool",))
    assert set(Store(tmp_path).rows("convpool")["case"]) > cases, with_sweeps.output


def test_a_long_run_prints_its_progress_from_time_to_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter((0, 1, 12, 13, 14))
    monkeypatch.setattr(record_device, "time", SimpleNamespace(perf_counter=lambda: 100.0 + next(seconds)))
    tell = record_device.CasePrinter()
    for name, stage in (
        ("8x8 a", "check"),
        ("8x8 b", "check"),
        ("8x8 c", "warm up"),
        ("8x8 d", "x"),
        ("9x9 a", "check"),
    ):
        tell(name, stage)
    assert capsys.readouterr().out.splitlines() == ["  8x8", "    c: warm up", "  9x9"]


def test_one_device_of_each_kind_is_taken() -> None:
    class Fake:
        def __init__(self, backend: str, kind: str, spec: str) -> None:
            self.backend, self.kind, self.spec = backend, kind, spec

    devices: list[Any] = [
        Fake("cuda", "gpu", "cuda:0"), Fake("cuda", "gpu", "cuda:1"), Fake("opencl", "gpu", "opencl:0"),
        Fake("opencl", "cpu", "opencl:1"), Fake("opencl", "cpu", "opencl:2"),
    ]  # fmt: skip
    assert [device.spec for device in record_device.one_of_each_kind(devices)] == ["cuda:0", "opencl:0", "opencl:1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--lab", "stensil"], r"unknown lab 'stensil' \(did you mean 'stencil'\?\); valid: .*stencil.*"),
        (["--device", "cuda:77"], "unknown device 'cuda:77'; valid: auto, .*"),
        (
            ["--budgett", "1"],
            r"No such option '?--budgett'?.*\(`roofbook record --help` says more\)",
        ),
        (["--scale", "tiny"], "unknown scale 'tiny'; valid: quick, published, large, test"),
    ],
)
def test_a_wrong_option_is_one_line(tmp_path: Path, words: list[str], message: str) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "roofbook.cli", "record", str(tmp_path / "out"), *words]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert process.returncode == 2
    assert re.fullmatch(rf"error: {message}\n", process.stderr), process.stderr


@pytest.mark.thorough
def test_a_record_shows_its_measurements_without_the_device(record_page: RecordedPage, out: Path) -> None:
    rows = Store(out).rows("stencil")
    assert [case.name for case in record_page.data.cases] == [*CASES]
    assert record_page.data.store_device.kind == rows[rows["variant"] == "checked"].iloc[0]["device_kind"]
    for name in VARIANTS:
        variant_rows = rows[(rows["variant"] == name) & (rows["case"] == "6x1024") & (rows["role"] != "again")]
        medians = [
            statistics.median(record["samples_s"]) / record["units"] for record in variant_rows.to_dict("records")
        ]
        assert len(medians) == 3
        assert record_page.data.measured.seconds(name, "6x1024") == pytest.approx(statistics.median(medians))
    notebook = json.loads((ROOT / "experiments" / "stencil.ipynb").read_text())
    html = "".join(replay_notebook.replay(notebook, record_page.data, Store(out)).values())
    assert html.count("<details") == html.count("</details>")
    assert str(record_page.data.store_device) in html and html.count("<svg") >= 2 and html.count("<table") >= 3
    assert "not on this device" not in record_page.ladder("6x1024").html.split("fused")[0]
    assert record_page.data.peaks and record_page.data.peaks.flops["float32"] > 0
    with pytest.raises(Unsupported, match="recorded is not here"):
        record_page.data.device.build("")


def test_libraries_that_this_machine_lacks_are_no_reason_for_measurements_of_the_device(
    record_page: RecordedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(record_page.data.lab), "skip_reason", lambda self, variant, case: "something is not installed"
    )
    reasons = record_page.data.skip_reasons(record_page.data.cases[0])
    assert not set(VARIANTS) & reasons.keys() and reasons["no-ifs"] == "something is not installed"
    assert "torch-cpu" not in reasons, "also without PyTorch on this machine"
    assert "torch-cpu" in record_page.ladder("6x1024").frame.set_index("variant").index
    assert "not measured" in next(
        line for line in record_page.ladder("6x1024").fitted(400).splitlines() if line.startswith("torch-cpu ")
    )


def test_rows_of_another_kernel_text_do_not_count(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("stencil")
    before = records(lab, Store(out), "test")[-1]
    assert before.measured.seconds("checked", "6x1024") and records(lab, Store(out), "published") == []
    changed = lab.variant("no-ifs").source
    variant = lab.variant("checked")
    monkeypatch.setattr(type(lab), "ladder", tuple(
        replace(step, source=changed) if step is variant else step for step in lab.ladder
    ))  # fmt: skip
    after = records(lab, Store(out), "test")[-1]
    assert after.measured.seconds("checked", "6x1024") is None and after.measured.seconds("fused", "6x1024")


def test_the_recorded_runs_are_complete_and_small() -> None:
    files = [path for path in (ROOT / "results" / "recorded").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 30e6
    for lab in sorted({part.removeprefix("lab=") for path in files for part in path.parts if part.startswith("lab=")}):
        rows = Store(ROOT / "results").rows(lab, parts=("recorded",))
        good = rows[rows["status"] == "ok"]
        assert len(good) and all(len(samples) >= 3 for samples in good["samples_s"])
        assert (good["error"] <= good["bound"]).all() | (good["role"] == "probe").any()
        assert rows[rows["status"] == "failed"]["reason"].notna().all()


def test_each_recorded_row_names_a_commit_of_this_repository() -> None:
    """A row of a changed checkout is kept only if its kernel has no other row."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("needs a clone, and git")

    def git(*words: str) -> list[str]:
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.split()

    if git("rev-parse", "--is-shallow-repository") != ["false"]:
        pytest.skip("needs the whole history, as `git clone` fetches it")
    history = set(git("rev-list", "HEAD"))
    names = ["lab", "device", "backend", "scale", "case", "variant", "source_sha256", "role"]
    files = [pq.ParquetFile(path) for path in (ROOT / "results" / "recorded").rglob("*.parquet")]
    rows = [row for file in files for row in file.read([*names, "provenance"]).to_pylist()]
    states = [(tuple(row[name] for name in names), json.loads(row["provenance"])["git"]) for row in rows]
    commits = {state["commit"] for _, state in states}
    assert commits and commits <= history, commits - history
    clean = {cell for cell, state in states if not checkout.fault(state)}
    assert not [cell for cell, state in states if checkout.fault(state) and cell in clean]


@pytest.mark.thorough
@pytest.mark.parametrize(("turn", "name"), list(enumerate([registry.PEAKS, *RECORDED])))
def test_recorded_rows_of_each_lab_can_be_drawn(turn: int, name: str) -> None:
    """Draw each lab for one of its devices, in turn; `roofbook build` draws all of them."""
    lab, store = registry.get(name), Store(ROOT / "results")
    data_by_device = records(lab, store, "published")
    data = data_by_device[turn % len(data_by_device)]
    notebook = json.loads((ROOT / "experiments" / f"{name}.ipynb").read_text())
    html = "".join(replay_notebook.replay(notebook, data, store).values())
    assert f"<strong>{data.store_device}</strong>" in html
    if name != registry.PEAKS:
        assert all(f"The ladder on {case.name}" in html for case in data.cases)


@pytest.mark.parametrize("role", ["step", "peer"])
def test_the_fastest_of_a_role_has_the_shortest_median_of_its_newest_rows_or_wins_each_shared_run(role: str) -> None:
    """Compute the medians over all recorded runs here, without the readings that tables and sentences use."""
    data_by_device = records(registry.get("convpool"), Store(ROOT / "results"))
    assert data_by_device
    for data in data_by_device:
        for case in data.cases:
            rows = data.rows if role == "step" else pd.concat([data.rows, data.peer_rows])
            rows = rows[(rows["case"] == case.name) & (rows["role"] == role)].sort_values("started")
            if data.store_device.kind == "gpu":  # a program of the host is no peer of a GPU
                rows = rows[rows["device"] == data.store_device.slug]
            newest = rows.drop_duplicates("variant", keep="last")
            runs = rows[rows["status"] == "ok"].merge(newest[newest["status"] == "ok"][["cell_key", "env_key"]])
            medians_by_run = {
                name: dict(zip(variant_rows["run"], map(median, variant_rows["samples_s"]), strict=True))
                for name, variant_rows in runs.groupby("variant")
            }
            shortest = min(medians_by_run, key=lambda name: median(medians_by_run[name].values()))
            fastest = data.measured.fastest(case.name) if role == "step" else data.measured.fastest_peer(case.name)
            if fastest != shortest:
                winner, other = medians_by_run[str(fastest)], medians_by_run[shortest]
                shared = winner.keys() & other.keys()
                assert shared and all(winner[run] < other[run] for run in shared)


def test_the_picture_in_the_readme_has_the_numbers_of_the_recorded_rows(command: Command, tmp_path: Path) -> None:
    """`make picture` draws it again."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    steps = re.search(r"^RUNGS := (.*)$", makefile, re.M)
    chart = re.search(r"roofbook chart (.*) \$\(RUNGS:%=--only %\) --out (\S+)", makefile)
    assert steps and chart
    only = [word for step in steps[1].split() for word in ("--only", step)]
    drawn = tmp_path / "drawn.svg"
    assert command("chart", *chart[1].split(), *only, "--results", str(ROOT / "results"), "--out", str(drawn))[0] == 0
    committed, today = (re.findall(r'data-tip="([^"]*)"', path.read_text()) for path in (ROOT / chart[2], drawn))
    assert committed == today and len(today) >= len(steps[1].split())


@pytest.mark.parametrize("place", ["rows", "rows/deeper"])
def test_out_is_a_folder(tmp_path: Path, place: str) -> None:
    (tmp_path / "rows").write_text("kept")
    with pytest.raises(UsageError, match="is no folder, or lies in a file: name a folder"):
        run_record(tmp_path / place)
    assert (tmp_path / "rows").read_text() == "kept"
