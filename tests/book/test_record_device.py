"""Recording a device: where the runs lie, that a second call goes on, and what a page shows of a device that is not here."""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator
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
from roofbook.devices.contract import Unsupported
from roofbook.errors import UsageError
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.terminal import width

ROOT = Path(__file__).parents[2]
VARIANTS = ("sequential", "checked", "native-rsqrt", "float4", "fused")


def recorded(out: Path, *more: str, labs: tuple[str, ...] = ("peaks", "stencil")) -> Result:
    chosen = [word for name in labs for word in ("--lab", name)]
    words = ["record", str(out), *chosen, "--scale", "test", "--budget", "1e-6", *more]
    return CliRunner().invoke(cli.app, words, catch_exceptions=False)


CLEAN = {"commit": "1" * 40, "dirty": False, "change": None}


@pytest.fixture(scope="module", autouse=True)
def committed() -> Iterator[pytest.MonkeyPatch]:
    """The checkout is clean, whatever whoever runs the tests is at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkout, "state", cache(lambda project=None: CLEAN))
        yield patch


def variants(*names: str) -> list[str]:
    return [word for name in names for word in ("--variant", name)]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the ceilings and a ladder recorded."""
    folder = tmp_path_factory.mktemp("out")
    for each in (recorded(folder, labs=("peaks",)), recorded(folder, *variants(*VARIANTS), labs=("stencil",))):
        assert each.exit_code == 0, each.output
        assert max(map(width, each.output.splitlines())) <= 80
    return folder


@pytest.fixture
def shown(out: Path) -> RecordedPage:
    return RecordedPage(records(registry.get("stencil"), Store(out), "test")[-1], Store(out))


def test_the_runs_lie_where_the_book_has_them_and_a_second_call_measures_nothing(out: Path) -> None:
    places = {path.relative_to(out).parts[:2] for path in out.rglob("*.parquet")}
    assert places == {("recorded", "lab=peaks"), ("recorded", "lab=stencil")}
    before = sorted(out.rglob("*.parquet"))
    again = recorded(out, *variants(*VARIANTS), labs=("stencil",))
    assert re.search(r"0 measurements taken, \d+ were fresh", again.output)
    assert sorted(out.rglob("*.parquet")) == before
    assert re.search(r"In all \d+ s, at most [\d.]+ GiB of the host's memory", again.output)
    more = recorded(out, *variants("flat"), labs=("stencil",))
    assert re.search(r"9 measurements taken", more.output) and "flat" in more.output


def test_what_was_kept_of_a_run_that_is_cut_off_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Cut(Exception):
        pass

    def cut(variant: str, what: str) -> None:
        if variant.startswith("7x48"):
            raise Cut

    whole = record_device.CasePrinter
    monkeypatch.setattr(record_device, "CasePrinter", lambda: cut)
    with pytest.raises(Cut):
        recorded(tmp_path, *variants("flat", "float4"), labs=("stencil",))
    assert set(Store(tmp_path).rows("stencil")["case"]) == {"6x1024"}
    monkeypatch.setattr(record_device, "CasePrinter", whole)
    again = recorded(tmp_path, *variants("flat", "float4"), labs=("stencil",))
    assert re.search(r"1\d measurements taken", again.output)


class Checkout:
    """In these states, one an asking, then in the last."""

    def __init__(self, *states: dict[str, Any] | None) -> None:
        self.states = list(states)

    def __call__(self, project: Path | None = None) -> dict[str, Any] | None:
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cache_clear(self) -> None:
        """Each asking is anew."""


DIRTY = CLEAN | {"dirty": True, "change": "0123456789ab"}


@pytest.mark.parametrize(
    ("state", "said"),
    [(DIRTY, "changed checkout: commit the changes first"), (None, "unknown commit: measure from a clone")],
)
def test_what_no_commit_stands_for_is_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: dict[str, Any] | None, said: str
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(state))
    with pytest.raises(UsageError, match=said):
        recorded(tmp_path, *variants("flat"), labs=("stencil",))
    assert not list(tmp_path.rglob("*.parquet"))


def test_what_is_measured_all_the_same_is_local_and_does_not_count_as_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(DIRTY))
    local = recorded(tmp_path, *variants("flat"), "--uncommitted", labs=("stencil",))
    assert local.exit_code == 0 and "The ladder on 6x1024" in local.output
    assert {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*.parquet")} == {"local"}
    monkeypatch.setattr(checkout, "state", Checkout(CLEAN))
    clean = recorded(tmp_path, *variants("flat"), labs=("stencil",))
    assert re.search(r"9 measurements taken; runs", clean.output)
    rows = Store(tmp_path, ["recorded"]).rows("stencil")
    assert [json.loads(text)["git"] for text in rows["provenance"]] == [CLEAN] * 9


def test_rows_of_a_change_during_the_run_stay_local_and_the_command_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkout, "state", Checkout(CLEAN, DIRTY))
    with pytest.raises(UsageError, match="changed checkout"):
        recorded(tmp_path, *variants("flat"), labs=("stencil",))
    assert len(Store(tmp_path, ["local"]).rows("stencil")) and Store(tmp_path, ["recorded"]).rows("stencil").empty


def test_a_lab_without_its_sweeps() -> None:
    lab = registry.get("stencil")
    assert record_device.variants_to_measure("stencil", True) is None
    assert record_device.variants_to_measure("stencil", False) == [
        variant.name for variant in (*lab.ladder, *lab.peers)
    ]


def test_the_hosts_rows_may_be_left_for_another_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place: Any = SimpleNamespace(slug="a-gpu")
    whole = Experiment.plan

    def plan(self: Any, *chosen: Any) -> list[Any]:
        return [replace(each, device=place) if each.variant.name == "flat" else each for each in whole(self, *chosen)]

    monkeypatch.setattr(Experiment, "plan", plan)
    only = recorded(tmp_path, *variants("flat", "checked"), "--no-host", labs=("stencil",))
    assert only.exit_code == 0, only.output
    assert set(Store(tmp_path).rows("stencil")["variant"]) == {"checked"}


def test_the_limit_is_that_of_any_measurement_unless_another_is_given() -> None:
    (limit,) = [each for each in cli.app.commands["record"].params if each.name == "limit"]
    assert limit.default == Policy.limit_s


def test_what_outlasts_the_limit_is_a_row_that_says_so(tmp_path: Path) -> None:
    short = recorded(tmp_path, *variants("flat", "sequential"), "--limit", "1e-9", labs=("stencil",))
    assert short.exit_code == 0, short.output
    reasons = Store(tmp_path).rows("stencil")["reason"]
    assert len(reasons) and all(
        re.match(r"out of time: .+ would take .+, the limit is 1e-09 s", each) for each in reasons
    )
    assert "out of time" in short.output


def test_series_are_left_out_with_the_sweeps(tmp_path: Path) -> None:
    whole = [word for word in ("--variant", "built-lists")]
    without = recorded(tmp_path, *whole, "--no-sweeps", labs=("convpool",))
    assert without.exit_code == 0, without.output
    cases = {case.name for case in registry.get("convpool").cases("test")}
    assert set(Store(tmp_path).rows("convpool")["case"]) <= cases
    more = recorded(tmp_path, *whole, labs=("convpool",))
    assert set(Store(tmp_path).rows("convpool")["case"]) > cases, more.output


def test_a_long_run_says_now_and_then_what_it_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = iter((0, 1, 12, 13, 14))
    monkeypatch.setattr(record_device, "time", SimpleNamespace(perf_counter=lambda: 100.0 + next(seconds)))
    tell = record_device.CasePrinter()
    for name, what in (
        ("8x8 a", "check"),
        ("8x8 b", "check"),
        ("8x8 c", "warm up"),
        ("8x8 d", "x"),
        ("9x9 a", "check"),
    ):
        tell(name, what)
    assert capsys.readouterr().out.splitlines() == ["  8x8", "    c: warm up", "  9x9"]


def test_one_device_of_each_kind_is_taken() -> None:
    class Fake:
        def __init__(self, backend: str, kind: str, spec: str) -> None:
            self.backend, self.kind, self.spec = backend, kind, spec

    found: list[Any] = [
        Fake("cuda", "gpu", "cuda:0"), Fake("cuda", "gpu", "cuda:1"), Fake("opencl", "gpu", "opencl:0"),
        Fake("opencl", "cpu", "opencl:1"), Fake("opencl", "cpu", "opencl:2"),
    ]  # fmt: skip
    assert [each.spec for each in record_device.one_of_each_kind(found)] == ["cuda:0", "opencl:0", "opencl:1"]


@pytest.mark.parametrize(
    ("words", "said"),
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
def test_what_is_wrong_is_one_line(tmp_path: Path, words: list[str], said: str) -> None:
    import subprocess
    import sys

    command = [sys.executable, "-m", "roofbook.cli", "record", str(tmp_path / "out"), *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 2
    assert re.fullmatch(rf"error: {said}\n", done.stderr), done.stderr


def test_a_record_shows_what_was_measured_without_its_device(shown: RecordedPage, out: Path) -> None:
    rows = Store(out).rows("stencil")
    assert [case.name for case in shown.data.cases] == ["6x1024", "7x48", "5x13"]
    assert shown.data.store_device.kind == rows[rows["variant"] == "checked"].iloc[0]["device_kind"]
    for name in VARIANTS:
        mine = rows[(rows["variant"] == name) & (rows["case"] == "6x1024") & (rows["role"] != "again")]
        medians = [statistics.median(each["samples_s"]) / each["units"] for each in mine.to_dict("records")]
        assert len(medians) == 3
        assert shown.data.measured.seconds(name, "6x1024") == pytest.approx(statistics.median(medians))
    notebook = json.loads((ROOT / "experiments" / "stencil.ipynb").read_text())
    html = "".join(replay_notebook.replay(notebook, shown.data, Store(out)).values())
    assert html.count("<details") == html.count("</details>")
    assert str(shown.data.store_device) in html and html.count("<svg") >= 2 and html.count("<table") >= 3
    assert "not on this device" not in shown.ladder("6x1024").html.split("fused")[0]
    assert shown.data.peaks and shown.data.peaks.flops["float32"] > 0
    with pytest.raises(Unsupported, match="recorded is not here"):
        shown.data.device.build("")


def test_what_this_machine_lacks_is_not_said_of_what_was_measured_there(
    shown: RecordedPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(shown.data.lab), "skip_reason", lambda self, variant, case: "something is not installed")
    said = shown.data.skip_reasons(shown.data.cases[0])
    assert not set(VARIANTS) & said.keys() and said["no-ifs"] == "something is not installed"
    assert "torch-cpu" not in said, "whether PyTorch is on this machine"
    assert "torch-cpu" in shown.ladder("6x1024").frame.set_index("variant").index
    assert "not measured" in next(
        line for line in shown.ladder("6x1024").fitted(400).splitlines() if line.startswith("torch-cpu ")
    )


def test_rows_of_another_kernel_text_do_not_count(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("stencil")
    before = records(lab, Store(out), "test")[-1]
    assert before.measured.seconds("checked", "6x1024") and records(lab, Store(out), "published") == []
    changed = lab.variant("no-ifs").source
    variant = lab.variant("checked")
    monkeypatch.setattr(type(lab), "ladder", tuple(
        type(each)(**{**vars(each), "source": changed}) if each is variant else each for each in lab.ladder
    ))  # fmt: skip
    after = records(lab, Store(out), "test")[-1]
    assert after.measured.seconds("checked", "6x1024") is None and after.measured.seconds("fused", "6x1024")


def test_the_runs_that_the_book_keeps_are_whole_and_small() -> None:
    kept = [path for path in (ROOT / "results" / "recorded").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in kept) < 30e6
    for lab in sorted({part.removeprefix("lab=") for path in kept for part in path.parts if part.startswith("lab=")}):
        rows = Store(ROOT / "results").rows(lab, parts=("recorded",))
        good = rows[rows["status"] == "ok"]
        assert len(good) and all(len(samples) >= 3 for samples in good["samples_s"])
        assert (good["error"] <= good["bound"]).all() | (good["role"] == "probe").any()
        assert rows[rows["status"] == "failed"]["reason"].notna().all()


def test_each_row_that_the_book_keeps_names_a_commit_of_this_repository() -> None:
    """One of a changed checkout is kept only where nothing else was measured of the same kernel."""
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
    of = [(tuple(row[name] for name in names), json.loads(row["provenance"])["git"]) for row in rows]
    commits = {state["commit"] for _, state in of}
    assert commits and commits <= history, commits - history
    clean = {cell for cell, state in of if not checkout.fault(state)}
    assert not [cell for cell, state in of if checkout.fault(state) and cell in clean]


@pytest.mark.thorough
@pytest.mark.parametrize(("turn", "name"), list(enumerate([registry.PEAKS, *registry.names()])))
def test_what_the_book_keeps_can_be_drawn(turn: int, name: str) -> None:
    """Of each lab one device by one backend, of the labs all: `roofbook build` draws every one."""
    lab, store = registry.get(name), Store(ROOT / "results")
    kept = records(lab, store, "published")
    one = kept[turn % len(kept)]
    notebook = json.loads((ROOT / "experiments" / f"{name}.ipynb").read_text())
    drawn = "".join(replay_notebook.replay(notebook, one, store).values())
    assert f"<strong>{one.store_device}</strong>" in drawn
    if name != registry.PEAKS:
        assert all(f"The ladder on {case.name}" in drawn for case in one.cases)


@pytest.mark.parametrize("role", ["step", "peer"])
def test_the_fastest_of_a_role_has_the_shortest_median_of_its_newest_cells(role: str) -> None:
    """Over all runs of a cell that is recorded; independently of the readings from which tables and sentences are written."""
    kept = records(registry.get("convpool"), Store(ROOT / "results"))
    assert kept
    for each in kept:
        for case in each.cases:
            rows = each.rows if role == "step" else pd.concat([each.rows, each.peer_rows])
            rows = rows[(rows["case"] == case.name) & (rows["role"] == role)].sort_values("started")
            if each.store_device.kind == "gpu":  # a program of the host is no peer of a GPU
                rows = rows[rows["device"] == each.store_device.slug]
            newest = rows.drop_duplicates("variant", keep="last")
            runs = rows.merge(newest[newest["status"] == "ok"][["cell_key", "env_key"]])
            medians = {name: median(map(median, of["samples_s"])) for name, of in runs.groupby("variant")}
            found = each.measured.fastest(case.name) if role == "step" else each.measured.fastest_peer(case.name)
            assert found == min(medians, key=lambda name: medians[name])
