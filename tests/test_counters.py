"""Hardware counters: ncu's output as numbers, what a row keeps of them, the process that is watched, tables and the command.

The sample is of an H200. No test needs a GPU: ncu is a script that prints the sample, and the device is made up.
"""

from __future__ import annotations

import csv
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook import cli, counters, cuda, labs, ncu, profiled, run
from roofbook import device as contract
from roofbook.claims import judged, verdict
from roofbook.counters import AMOUNTS, DURATION, METRICS, SHARES, Launch, counted, limit, of_kernel, parse, total
from roofbook.device import Unsupported
from roofbook.errors import Failed, UsageError
from roofbook.evidence import Cells, Counted, Finding, Lacking, NotHere
from roofbook.experiment import Experiment
from roofbook.lab import Case, Lab, Measured, Runnable, Variant, Work
from roofbook.measure import Policy
from roofbook.report.counters import against
from roofbook.report.html import Table
from roofbook.report.readings import newest
from roofbook.run import todays
from roofbook.store import PROFILE, Store
from roofbook.view import Note

SAMPLE = (Path(__file__).parent / "data" / "ncu.csv").read_text()
"""`lbm fused` on 1024x1024, three steps: two kernels each."""
STEPS = 3
CELLS = 1024 * 1024
Cli = Callable[..., tuple[int, str, str]]


def changed(*pairs: tuple[str, str]) -> str:
    """The sample with some of its text replaced."""
    text = SAMPLE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


# -- ncu's output ------------------------------------------------------------------------------------------------------


def test_the_sample_of_ncu_is_read() -> None:
    launches = parse(SAMPLE)
    assert [launch.kernel for launch in launches] == ["accelerate_flow", "fused"] * STEPS
    assert {(launch.kernel, launch.grid, launch.block) for launch in launches} == {
        ("accelerate_flow", "16x1x1", "64x1x1"),
        ("fused", "16x1024x1", "64x1x1"),
    }
    values = launches[1].values
    assert set(values) == set(METRICS)
    assert values["dram__bytes_read.sum"] == 42_107_904 and values["gpu__time_duration.sum"] == pytest.approx(48.32e-6)
    assert values["dram__throughput.avg.pct_of_peak_sustained_elapsed"] == pytest.approx(0.2739)


def test_counters_are_per_step_of_all_kernels() -> None:
    told = counted(parse(SAMPLE), STEPS)["counters"]
    read, written = 44800 + 42107904 + 44288 + 42104320 + 44288 + 42104576, 21566976 + 21314560 + 21695744
    assert told["dram_bytes"] == pytest.approx((read + written) / 3)
    assert told["l1_bytes"] == 396160 + 609222656 and told["instructions"] == pytest.approx(15471383.33)
    assert told["flops"] == 2 * 99128890 + (51134752 + 6126) + 11478082
    assert told["seconds"] == pytest.approx((3.04 + 48.32 + 2.912 + 48.544 + 2.848 + 48.288) * 1e-6 / 3)
    assert (told["launches"], told["limit"]) == (2, "L2")
    of_time = 3.04 * 0.95 + 48.32 * 82.36 + 2.912 * 1.28 + 48.544 * 82.40 + 2.848 * 1.02 + 48.288 * 82.20
    assert told["l2"] == pytest.approx(of_time / 100 / (3.04 + 48.32 + 2.912 + 48.544 + 2.848 + 48.288))
    assert 0.60 < told["occupancy"] < 0.64, "an idle kernel of 3 microseconds hardly counts"
    assert told["l1_bytes"] > told["l2_bytes"] > told["dram_bytes"] > 36 * CELLS


def test_kernels_are_told_apart_by_name_and_shape_in_their_order() -> None:
    grids = ((-1, '"(16, 1024, 1)"'), (0, '"(8, 1024, 1)"'))
    first, second = SAMPLE.split('"3","545"')
    text = first + '"3","545"' + second.replace(grids[0][1], grids[1][1])
    told = counted(parse(text), STEPS)
    assert [(each["kernel"], each["grid"], each["launches"]) for each in told["kernels"]] == [
        ("accelerate_flow", "16x1x1", 1),
        ("fused", "16x1024x1", pytest.approx(1 / 3)),
        ("fused", "8x1024x1", pytest.approx(2 / 3)),
    ]
    assert of_kernel(told, "fused", 1, "l1_bytes") == pytest.approx(609222656 / 3)
    assert of_kernel(told, "fused", 2, "l1_bytes") == pytest.approx(609222656 * 2 / 3)
    assert of_kernel(told, "fused", 3, "l1_bytes") is None is of_kernel(told, "fused", 0, "l1_bytes")
    assert of_kernel(told, "soa", 1, "l1_bytes") is None


def test_the_kernel_that_only_waits_is_left_out() -> None:
    told = counted(parse(changed(('"accelerate_flow"', '"wait_ns"'))), STEPS)
    assert [each["kernel"] for each in told["kernels"]] == ["fused"]
    assert told["counters"]["l1_bytes"] == 609222656 and told["counters"]["launches"] == 1
    only = changed(('"accelerate_flow"', '"wait_ns"'), ('"fused"', '"wait_ns"'))
    with pytest.raises(Failed, match="ncu counted no kernel"):
        counted(parse(only), STEPS)


@pytest.mark.parametrize("text", ["n/a", "nan", "", "inf", "(!) n/a"])
def test_what_ncu_does_not_tell_is_unknown_and_not_nothing(text: str) -> None:
    told = counted(parse(changed(('"99,128,890"', f'"{text}"'))), STEPS)
    assert told["counters"]["ffma"] is None is told["counters"]["flops"] and told["counters"]["fadd"] == 51140878
    assert of_kernel(told, "accelerate_flow", 1, "ffma") == 0
    unknown = counted(parse(changed(('"82.36"', f'"{text}"'))), STEPS)["counters"]
    assert unknown["l2"] is None is unknown["limit"] and unknown["dram"] is not None
    untimed = counted(parse(changed(('"48,320"', f'"{text}"'))), STEPS)["counters"]
    assert untimed["seconds"] is None is untimed["l2"] and untimed["dram_bytes"] is not None


def test_a_metric_that_this_gpu_does_not_have_is_unknown() -> None:
    told = counted(parse(changed(('"sm__inst_executed_pipe_tensor.sum"', '"another"'))), STEPS)["counters"]
    assert told["tensor_instructions"] is None and told["instructions"] is not None


PERMISSION = (
    "==PROF== Connected to process 12 (/usr/bin/python3)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission "
    "to access NVIDIA GPU Performance Counters on the target device 0. For instructions see https://..."
)
NOT_LOADED = "==ERROR== Failed to initialize the profiler: LibraryNotLoaded\n"


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            PERMISSION,
            UsageError,
            "ncu may not read the GPU's counters: run as root, or have the driver allow it to all",
        ),
        (NOT_LOADED, UsageError, "cannot count on this machine: Failed to initialize the profiler: LibraryNotLoaded"),
        ("", Failed, "ncu counted no kernel$"),
        ("==WARNING== No kernels were profiled.\n", Failed, "ncu counted no kernel$"),
        ("==ERROR== LaunchFailed\n", Failed, "ncu counted no kernel: LaunchFailed"),
        (SAMPLE[: SAMPLE.index('"0","545"')], Failed, "ncu counted no kernel"),
        (SAMPLE[: SAMPLE.index('"","",')], Failed, "without a line of units"),
        (SAMPLE.replace('"Kernel Name"', '"Name"'), Failed, "without names of kernels"),
        (SAMPLE.replace('"byte"', '"Mbyte"'), Failed, "in 'Mbyte'; base units are needed: inst, byte"),
    ],
)
def test_output_without_counters_is_one_line(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        parse(text)
    assert "\n" not in str(caught.value) and isinstance(caught.value, UsageError) == (kind is UsageError)


NUMBERS = st.none() | st.integers(0, 10**12).map(float)
KERNELS = st.sampled_from(["fused", "void cut<float, 3>(T1::Params, int)", 'a "quoted" name'])


@st.composite
def runs(draw: st.DrawFn) -> list[Launch]:
    made = []
    for _ in range(draw(st.integers(1, 6))):
        values: dict[str, float | None] = {metric: draw(NUMBERS) for metric in METRICS if metric not in SHARES.values()}
        shares = st.none() | st.integers(0, 10000).map(lambda each: each / 10000)
        values |= {metric: draw(shares) for metric in SHARES.values()}
        duration = draw(st.none() | st.integers(1, 10**9))
        values[DURATION] = None if duration is None else duration * 1e-9
        made.append(Launch(draw(KERNELS), draw(st.sampled_from(["1x1x1", "16x1024x1"])), "64x1x1", values))
    return made


def written(launches: Sequence[Launch]) -> str:
    """As ncu writes them, a line of the program and one of ncu's in between."""
    out = StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
    table.writerow(["ID", "Kernel Name", "Block Size", "Grid Size", *METRICS])
    units = {DURATION: "ns"} | dict.fromkeys(SHARES.values(), "%")
    table.writerow(["", "", "", "", *(units.get(metric, "byte") for metric in METRICS)])
    for number, launch in enumerate(launches):
        sizes = {DURATION: 1e9} | dict.fromkeys(SHARES.values(), 100)
        numbers = [
            "n/a" if value is None else f"{value * sizes.get(metric, 1):,.2f}"
            for metric, value in launch.values.items()
        ]
        shape = [f"({each.replace('x', ', ')})" for each in (launch.block, launch.grid)]
        table.writerow([str(number), launch.kernel, *shape, *numbers])
        out.write("==PROF== what ncu says, and what the program says\n")
    return "==PROF== Connected\n" + out.getvalue()


@given(runs(), st.integers(1, 50))
def test_what_is_written_is_read_and_sums_are_those_of_all_launches(launches: list[Launch], units: int) -> None:
    found = parse(
        written(
            [
                Launch(each.kernel, each.grid, each.block, dict.fromkeys(METRICS) | dict(each.values))
                for each in launches
            ]
        )
    )
    assert [(each.kernel, each.grid, each.block) for each in found] == [
        (each.kernel, each.grid, each.block) for each in launches
    ]
    for one, other in zip(found, launches, strict=True):
        for metric in METRICS:
            assert one.values[metric] == (None if other.values[metric] is None else pytest.approx(other.values[metric]))
    told = counted(found, units)
    for name, metrics in AMOUNTS.items():
        every = [each.values[metric] for each in launches for metric in metrics]
        known = [each for each in every if each is not None]
        parts = [each[name] for each in told["kernels"]]
        if len(known) < len(every):
            assert told["counters"][name] is None and None in parts
        else:
            assert told["counters"][name] == pytest.approx(sum(known) / units) == pytest.approx(sum(parts))
    for name, metric in SHARES.items():
        values = [each.values[metric] for each in launches]
        if None in values or None in [each.values[DURATION] for each in launches]:
            assert told["counters"][name] is None
        else:
            low, high = (end(value for value in values if value is not None) for end in (min, max))
            assert low - 1e-4 <= told["counters"][name] <= high + 1e-4
    assert told["counters"]["launches"] == pytest.approx(len(launches) / units)


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ({"dram": 0.9, "l2": 0.8, "l1": 0.2, "sm": 0.3}, "DRAM"),
        ({"dram": 0.2, "l2": 0.8, "l1": 0.2, "sm": 0.3}, "L2"),
        ({"dram": 0.2, "l2": 0.3, "l1": 0.7, "sm": 0.3}, "L1"),
        ({"dram": 0.2, "l2": 0.3, "l1": 0.6, "sm": 0.95}, "SM"),
        ({"dram": 0.6, "l2": 0.3, "l1": 0.1, "sm": 0.1}, "DRAM"),
        ({"dram": 0.59, "l2": 0.3, "l1": 0.1, "sm": 0.1}, "latency"),
        ({"dram": 0.9, "l2": 0.3, "l1": None, "sm": 0.1}, None),
        ({"dram": 0.9, "l2": 0.3, "sm": 0.1}, None),
    ],
)
def test_the_limit_is_the_unit_that_is_used_most_if_it_is_used_much(
    shares: dict[str, float | None], expected: str | None
) -> None:
    assert limit({"memory": 1.0, "occupancy": 1.0} | shares) == expected


# -- the process that ncu watches --------------------------------------------------------------------------------------


class Made(Runnable):
    """A run that notes what it does; by its device's clock where the variant's options say so."""

    def __init__(self, device: Any, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.units, self.options, self.log = device, case.units, variant.options, device.log
        self.log.append("plan")
        if failure := self.options.get("fails"):
            raise failure

    def reset(self) -> None:
        self.log.append("reset")

    def run(self) -> float | None:
        self.log.append("run")
        if not self.options.get("clock"):
            return None
        return float(sum(self.device.queue().laps(lambda: self.log.append("kernel"))))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"x": np.array([self.options.get("value", 1.0)])}

    def close(self) -> None:
        self.log.append("close")


def variant(name: str, **options: Any) -> Variant:
    return Variant(name, None, None, Made, "", "", frozenset({"cuda"}), options=options)


class MadeUp(Lab):
    name = "made-up"
    ladder = (
        variant("by-host"),
        variant("by-clock", clock=True),
        variant("wrong", value=1.5),
        variant("nan", value=math.nan),
        variant("refused", fails=Unsupported("no tensor cores")),
        variant("defect", fails=KeyError("x")),
    )

    def __init__(self) -> None:
        self.references = 0

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case("small", scale, {}, 1000)]

    def checker(self, case: Case, variant: Variant) -> Case:
        return Case(case.name, case.scale, case.params, 5)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"seed": seed}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        self.references += 1
        assert case.units == 5 and inputs == {"seed": 7}
        return {"x": np.ones(1)}

    def check(self, case: Case, variant: Variant, outputs: Any, reference: Any) -> tuple[float, float, str]:
        return np.float32(abs(outputs["x"] - reference["x"]).max()), 0.1, "of x"  # type: ignore[return-value]

    def work(self, case: Case) -> Work:
        return Work(1, 1, 1)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, profiled.Watch]:
    """A device that notes what is done, and the watch that its queue tells."""
    log: list[str] = []
    watch = profiled.Watch(lambda: log.append("start"), lambda: log.append("stop"))

    def laps(self: Any, *submits: Callable[[], None]) -> list[float]:
        return [0.5 for submit in submits if not submit()]

    def traced(self: Any, queues: Sequence[Any], submit: Callable[[], None]) -> list[Any]:
        submit()
        return []

    monkeypatch.setattr(cuda.Queue, "__init__", lambda self, index: None)
    monkeypatch.setattr(cuda.Queue, "laps", laps)
    monkeypatch.setattr(cuda.CudaDevice, "__init__", lambda self, index: setattr(self, "index", index))
    monkeypatch.setattr(cuda.CudaDevice, "traced", traced)
    device: Any = profiled.WatchedDevice(3, watch)
    device.log = log
    return device, watch


def profile(name: str, watched: tuple[Any, profiled.Watch], scratch: Path, lab: Lab | None = None) -> dict[str, Any]:
    lab = lab or MadeUp()
    device, watch = watched
    return profiled.run(lab, lab.variant(name), lab.case("small"), device, watch, seed=7, scratch=scratch)


def test_a_run_that_was_verified_is_watched_as_a_whole(watched: Any, tmp_path: Path) -> None:
    told = profile("by-host", watched, tmp_path)
    assert json.loads(json.dumps(told)) == {"units": 5, "error": 0, "bound": 0.1, "compared": "of x"}
    assert watched[0].log == ["plan", "reset", "run", "reset", "start", "run", "stop", "close"]


def test_of_a_run_with_a_clock_what_is_timed_is_watched_and_the_check_is_not(watched: Any, tmp_path: Path) -> None:
    profile("by-clock", watched, tmp_path)
    once = ["reset", "run"]
    assert watched[0].log == ["plan", *once, "kernel", *once, "start", "kernel", "stop", "close"]


def test_what_several_queues_do_is_watched_too(watched: Any) -> None:
    device, watch = watched
    device.traced([], lambda: device.log.append("unwatched"))
    with watch.run():
        device.traced([], lambda: device.log.append("kernels"))
        device.log.append("between")
    device.traced([], lambda: device.log.append("after"))
    assert device.log == ["unwatched", "start", "kernels", "stop", "between", "after"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong", "wrong result: error 0.5, allowed 0.1 (of x)"),
        ("nan", "wrong result: error nan, allowed 0.1 (of x)"),
        ("refused", "not supported here: no tensor cores"),
    ],
)
def test_what_is_wrong_or_refused_is_not_watched(watched: Any, tmp_path: Path, name: str, reason: str) -> None:
    assert profile(name, watched, tmp_path) == {"reason": reason}
    assert "start" not in watched[0].log and watched[0].log[-1] in ("close", "plan")


def test_a_defect_of_ours_is_raised(watched: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        profile("defect", watched, tmp_path)


def test_a_reference_is_computed_once_for_all_variants(watched: Any, tmp_path: Path) -> None:
    lab = MadeUp()
    assert "reason" in profile("wrong", watched, tmp_path, lab)
    assert "reason" not in profile("by-host", watched, tmp_path, lab)
    assert lab.references == 1
    no_room = tmp_path / "gone"
    assert "reason" not in profile("by-host", watched, no_room, lab) and lab.references == 2


# -- taking them -------------------------------------------------------------------------------------------------------


class Gpu(contract.Device):
    """All that planning and keeping a row ask of a CUDA device."""

    backend, kind, name, spec, architecture = "cuda", "gpu", "NVIDIA H200", "cuda:0", 90
    compute_units, memory_bytes, cache_bytes, local_bytes, max_work_group, max_clock_mhz = 132, 1, 1, 1, 1024, 1980

    def identity(self) -> dict[str, str]:
        return {"backend": "cuda", "model": self.name, "device": self.name, "platform": "made up", "driver": "13000"}

    def build(self, text: str, options: Sequence[str] = ()) -> contract.Program:
        raise NotImplementedError

    def empty(self, nbytes: int) -> contract.Buffer:
        raise NotImplementedError

    def queue(self, profiling: bool = False) -> contract.Queue:
        raise NotImplementedError


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A CUDA device, the machine's first."""
    made = Gpu()
    monkeypatch.setattr("roofbook.cuda.devices", lambda: [made])
    monkeypatch.setattr("roofbook.ncu.cuda_devices", lambda: [made])
    return made


RIGHT: dict[str, Any] = {"units": STEPS, "error": 1e-7, "bound": 1.0, "compared": "largest error"}


class Ncu:
    """A script `ncu` that writes down its arguments, prints a text, and leaves what the process that it watches would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says()
        script = folder / "ncu"
        script.write_text(
            f"#!{sys.executable}\n"
            "import json, os, sys\nfrom pathlib import Path\n"
            "here, words = Path(__file__).parent, sys.argv[1:]\n"
            "if words == ['--version']:\n"
            "    print('NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0 (build 1) (public-release)')\n"
            "    sys.exit()\n"
            "with (here / 'calls').open('a') as calls:\n"
            "    print(json.dumps([os.environ['LC_ALL'], *words]), file=calls)\n"
            "if (here / 'told').exists():\n"
            "    Path(words[words.index('--out') + 1]).write_text((here / 'told').read_text())\n"
            "    (here / 'once').exists() and (here / 'told').unlink()\n"
            "print((here / 'said').read_text(), end='')\n"
            "print((here / 'complaint').read_text(), end='', file=sys.stderr)\n"
        )
        script.chmod(0o755)

    def says(self, said: str = SAMPLE, told: Mapping[str, Any] | None = RIGHT, complaint: str = "") -> None:
        (self.folder / "said").write_text(said)
        (self.folder / "complaint").write_text(complaint)
        (self.folder / "told").unlink(missing_ok=True)
        if told is not None:
            (self.folder / "told").write_text(json.dumps(told))

    @property
    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Ncu(folder)


@pytest.fixture
def no_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ncu, "PLACES", (str(tmp_path / "*" / "ncu"),))


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def roofbook(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `roofbook profile` in this process: (exit code, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        given = ["profile", *arguments, "--scale", "test", "--results", str(results)]
        monkeypatch.setattr(sys, "argv", ["roofbook", *given])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def kept(results: Path, lab: str = "lbm") -> pd.DataFrame:
    return Store(results).rows(lab, role=PROFILE)


def test_profile_keeps_a_row_of_what_ncu_counted(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    code, out, err = roofbook("lbm", "fused", "40x24")
    assert (code, err) == (0, "")
    assert "What the hardware counted on 40x24" in out and "1 cell measured; run " in out
    (row,) = kept(results).to_dict("records")
    assert (row["variant"], row["case"], row["role"], row["scale"], row["units"]) == (
        "fused",
        "40x24",
        PROFILE,
        "test",
        3,
    )
    assert (row["timed"], row["status"], row["backend"], row["device"]) == (
        *("kernels under a profiler", "ok", "cuda"),
        "nvidia-h200",
    )
    assert (row["error"], row["bound"], row["parent"]) == (1e-7, 1.0, labs.get("lbm").variant("fused").parent)
    assert row["samples_s"] == pytest.approx([STEPS * 51.31733e-6], rel=1e-4)
    told = json.loads(row["extra"])
    assert told["tool"] == "ncu 2025.3.1.0" and told["error_is"] == "largest error"
    assert {"counters": told["counters"], "kernels": told["kernels"]} == counted(parse(SAMPLE), STEPS)


def test_ncu_is_asked_for_our_metrics_of_a_process_of_ours(gpu: Gpu, fake: Ncu, roofbook: Cli, tmp_path: Path) -> None:
    roofbook("lbm", "fused", "40x24")
    (call,) = fake.calls
    assert call[:3] == ["C", "--clock-control", "none"] and "--profile-from-start" in call
    assert call[call.index("--metrics") + 1].split(",") == list(METRICS)
    at = call.index(sys.executable)
    assert call[at + 1 : at + 3] == ["-m", "roofbook.profiled"]
    given = profiled.main.make_context("profiled", call[at + 3 :]).params
    assert (given["lab"], given["variant"], given["case"]) == ("lbm", "fused", "40x24")
    assert (given["scale"], given["device"], given["seed"]) == ("test", "cuda:0", 20)
    assert not given["out"].exists() and not given["scratch"].exists(), "nothing is left behind"


def test_what_is_counted_is_counted_once(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    roofbook("lbm", "fused", "40x24")
    code, out, _ = roofbook("lbm", "fused", "40x24")
    assert code == 0 and "0 cells measured, 1 was fresh" in out and len(kept(results)) == len(fake.calls) == 1
    roofbook("lbm", "fused", "40x24", "--remeasure")
    assert len(kept(results)) == len(fake.calls) == 2
    fake.says(told={"reason": "out of memory: 3 bytes"})
    roofbook("lbm", "soa", "40x24")
    fake.says()
    assert "1 cell measured" in roofbook("lbm", "soa", "40x24")[1], "what failed is tried again"


def test_all_are_the_steps_and_peers_that_run_there(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    code, out, _ = roofbook("lbm", "all", "40x24")
    names = {call[call.index("roofbook.profiled") + 2] for call in fake.calls}
    lab = labs.get("lbm")
    assert code == 0 and len(names) == len(fake.calls) == len(kept(results)) > 10
    assert {"fused", "soa", "graph"} <= names
    assert not names & {"sequential", "no-compute", "openmp", "bit-neighbours"}, (
        "of the host, probes, not for this case"
    )
    assert names <= {each.name for each in (*lab.ladder, *lab.peers)} and "soa" in out


@pytest.mark.parametrize(
    ("said", "told", "complaint", "reason"),
    [
        ("", {"reason": "wrong result: error 3, allowed 1 (x)"}, "", "wrong result: error 3, allowed 1 (x)"),
        (
            "==PROF== Connected\n",
            None,
            "Traceback\nMemoryError: x\n==ERROR== code (1).\n",
            "process died: MemoryError: x",
        ),
        ("==PROF== Connected\n", None, "", "the profiled process died: exit code 0"),
        ("==WARNING== No kernels were profiled.\n", RIGHT, "", "ncu counted no kernel"),
        (changed(('"48,320"', '"n/a"')), RIGHT, "", "ncu told no time of a kernel"),
    ],
)
def test_a_variant_that_cannot_be_counted_is_a_failed_row_with_its_reason(
    gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path, said: str, told: Any, complaint: str, reason: str
) -> None:
    fake.says(said, told, complaint)
    code, out, err = roofbook("lbm", "fused", "40x24")
    (row,) = kept(results).to_dict("records")
    assert row["status"] == "failed" and reason in row["reason"] and not len(row["samples_s"])
    assert code == 1 and err.startswith("error: fused on 40x24: failed in ") and reason in err and err.count("\n") == 1
    assert f"failed: {row['reason']}" in out
    fake.says()
    assert roofbook("lbm", "soa", "40x24")[0] == 0, "another is counted after it"


@pytest.mark.parametrize("told", [RIGHT, None])
def test_a_machine_that_may_not_count_stops_with_one_line_and_loses_nothing(
    gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path, told: Any
) -> None:
    roofbook("lbm", "fused", "40x24")
    fake.says(PERMISSION, told)
    code, out, err = roofbook("lbm", "all", "40x24")
    assert (
        (code, out) == (2, "")
        and err.startswith("error: ncu may not read the GPU's counters: ")
        and err.count("\n") == 1
    )
    assert kept(results)["variant"].tolist() == ["fused"] and len(fake.calls) == 2


def test_without_ncu_one_line_says_so(gpu: Gpu, no_ncu: None, roofbook: Cli, results: Path, tmp_path: Path) -> None:
    code, out, err = roofbook("lbm", "fused", "40x24")
    assert (
        (code, out) == (2, "") and err.startswith("error: no ncu, which reads the counters: ") and err.count("\n") == 1
    )
    assert not results.exists()
    for version in ("2024.1", "2025.3"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "ncu").touch()
    assert ncu.find_ncu() == str(tmp_path / "2025.3" / "ncu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm", "fused", "40x24"], "no CUDA device, and hardware counters are read of no other: it takes an NVIDIA"),
        (["lbm", "fused", "40x24", "--device", "opencl:0"], "opencl:0 is no CUDA device, and hardware counters"),
        (["lbm", "fused", "40x24", "--device", "cuda:7"], "unknown device 'cuda:7'"),
        (["lmb", "fused", "40x24"], "did you mean 'lbm'?"),
        (["lbm", "fusd", "40x24"], "did you mean 'fused'?"),
    ],
)
def test_a_mistake_is_one_line(
    monkeypatch: pytest.MonkeyPatch, roofbook: Cli, results: Path, arguments: list[str], words: str
) -> None:
    monkeypatch.setattr("roofbook.cuda.devices", list)
    monkeypatch.setattr("roofbook.ncu.cuda_devices", list)
    code, out, err = roofbook(*arguments)
    assert (code, out) == (2, "") and words in err and err.startswith("error: ") and err.count("\n") == 1
    assert not results.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm", "sequential", "40x24"], "sequential on 40x24 cannot be profiled: it does not run on cuda:0"),
        (["lbm", "bit-neighbours", "40x24"], "cannot be profiled: not on this case: a side is no power of two"),
        (["lbm", "fused", "128x128"], "unknown case at scale test '128x128'; valid: 40x24"),
    ],
)
def test_what_cannot_be_profiled_says_why(gpu: Gpu, fake: Ncu, roofbook: Cli, arguments: list[str], words: str) -> None:
    code, out, err = roofbook(*arguments)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1 and not fake.calls


def test_what_one_variant_told_is_not_taken_for_the_next_one(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    (fake.folder / "once").touch()
    assert roofbook("lbm", "all", "40x24")[0] == 0
    assert kept(results)["status"].value_counts().to_dict() == {"ok": 1, "failed": len(fake.calls) - 1}


def test_a_cell_is_never_that_of_a_time(gpu: Gpu, results: Path) -> None:
    lab, store, policy = labs.get("stencil"), Store(results), Policy()
    case, chosen = lab.cases("test")[0], [lab.variant("flat")]
    (counted,) = ncu.plan(lab, case, chosen, gpu, store, policy)
    (timed,) = run.plan(lab, [case], chosen, gpu, store, policy)
    assert lab.checker(case, chosen[0]).units == lab.units(case, chosen[0], gpu), "what else tells them apart"
    assert counted.cell_key != timed.cell_key and counted.env_key == timed.env_key


# -- who reads the rows ------------------------------------------------------------------------------------------------


@pytest.fixture
def profiles(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> Iterator[Path]:
    """A store with the counters of `fused` and `soa`, of which the second moves half of the bytes through L1."""
    assert roofbook("lbm", "fused", "40x24")[0] == 0
    fake.says(changed(('"609,222,656"', '"304,611,328"'), ('"48,', '"24,')))
    assert roofbook("lbm", "soa", "40x24")[0] == 0
    yield results


def opened(results: Path, **given: Any) -> Experiment:
    return Experiment("lbm", {"scale": "test", "results": str(results), "device": "cuda:0", **given})


def test_who_reads_times_does_not_read_counters(profiles: Path) -> None:
    store = Store(profiles)
    assert store.rows("lbm").empty and store.latest("lbm").empty and len(store.rows("lbm", role=PROFILE)) == 2
    assert len(store.query("select * from cells")) == 2, "an export has all there is"
    experiment = opened(profiles, variants=["fused", "soa"])
    assert [cell.state for cell in experiment.plan()] == ["missing", "missing"]
    assert experiment.rows.empty and experiment.seconds("fused", "40x24") is None
    keys = {cell.cell_key for cell in experiment.plan()}
    both = store.rows("lbm", role=PROFILE)
    assert len(keys | set(both["cell_key"])) == 4
    assert newest(both) == newest(both, "40x24", ["step"]) == {}
    assert set(newest(both, "40x24", [PROFILE])) == {"fused", "soa"}
    timed = both.assign(role="step", started=both["started"] + pd.Timedelta(days=1))
    mixed = pd.concat([both, timed])
    assert {each.role for each in newest(mixed).values()} == {"step"}
    assert {each.role for each in newest(mixed, roles=[PROFILE]).values()} == {PROFILE}
    assert all(not line.outcomes for line in judged(labs.get("lbm"), store))


def test_the_table_says_what_was_counted_and_what_a_step_changed(profiles: Path) -> None:
    table = opened(profiles).counters()
    assert isinstance(table, Table)
    frame = table.frame.set_index("variant")
    told = counted(parse(SAMPLE), STEPS)["counters"]
    bytes_modelled = labs.get("lbm").work(labs.get("lbm").case("40x24", "test")).bytes
    assert frame.index.tolist() == ["fused", "soa"]
    assert frame.loc["fused", "dram_bytes"] == told["dram_bytes"] and frame.loc["fused", "limit"] == "L2"
    assert frame.loc["fused", "ratio"] == pytest.approx(told["dram_bytes"] / bytes_modelled)
    assert frame.loc["fused", "against_parent"] == "no-finish was not counted"
    assert frame.loc["soa", "against_parent"] == "fused: 1.88 times as fast; L1 bytes fell 2.00 times"
    assert math.isnan(frame.loc["soa", "time_ratio"]), "nothing was timed"
    for words in ("63.7", "610", "60.8\u2009%", "77.7\u2009%", "L2 (MB)", "Instructions (M)"):
        assert words in table.text, words
    assert "from a cold cache" in table.text and "per step, by ncu 2025.3.1.0" in table.text
    (missing,) = [note for note in table.notes if note.startswith("Not counted: ")]
    assert "graph" in missing and "sequential" not in missing and "bit-neighbours" not in missing


def test_the_time_is_held_against_ours_by_the_same_backend(profiles: Path) -> None:
    experiment = opened(profiles)
    rows = Store(profiles).rows("lbm", role=PROFILE).assign(role="step", samples_s=[[3 * 40e-6] * 10] * 2)
    experiment.__dict__["rows"] = rows
    table = experiment.counters()
    assert isinstance(table, Table)
    assert table.frame.set_index("variant").loc["fused", "time_ratio"] == pytest.approx(51.3 / 40, rel=1e-3)
    experiment.__dict__["rows"] = rows.assign(backend="opencl")
    table = experiment.counters()
    assert isinstance(table, Table) and table.frame["time_ratio"].isna().all()


def test_counted_bytes_are_told_by_variant(profiles: Path, fake: Ncu, roofbook: Cli) -> None:
    told = counted(parse(SAMPLE), STEPS)["counters"]["dram_bytes"]
    assert opened(profiles).counted_bytes() == {"fused": told, "soa": told}
    fake.says(changed(('"42,107,904"', '"n/a"')))
    roofbook("lbm", "soa", "40x24", "--remeasure")
    assert opened(profiles).counted_bytes("40x24") == {"fused": told}, "unknown bytes are none"
    fake.says(told={"reason": "out of memory: x"})
    roofbook("lbm", "fused", "40x24", "--remeasure")
    experiment = opened(profiles)
    assert experiment.counted_bytes() == {} and experiment.counted("fused", "40x24") is None
    table = experiment.counters()
    assert isinstance(table, Table) and "failed: out of memory: x" in table.text
    assert table.frame.set_index("variant").loc["soa", "against_parent"] == "fused was not counted"


def test_counters_of_another_kernel_device_or_case_are_none(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Store(profiles).rows("lbm", role=PROFILE)
    assert todays(labs.get("lbm"), rows.assign(source_sha256="of an older kernel")).empty
    monkeypatch.setattr(Gpu, "name", "Another")
    note = opened(profiles).counters()
    assert isinstance(note, Note)
    assert note.text == "No counters yet: `roofbook profile lbm all 40x24 --scale test` takes them where ncu is."
    assert opened(profiles).counted_bytes() == {}


def test_a_step_is_told_by_the_counter_that_changed_most() -> None:
    parent: dict[str, Any] = {
        "seconds": 2.0, "dram_bytes": 8.0, "l2_bytes": 8.0, "l1_bytes": 0, "instructions": None, "occupancy": 0.5,
        "limit": "DRAM",
    }  # fmt: skip
    assert against(parent, parent) == "as fast; no counter changed"
    assert (
        against({**parent, "dram_bytes": 2.0, "seconds": 1.0}, parent)
        == "2.00 times as fast; DRAM bytes fell 4.00 times"
    )
    slower = {**parent, "l2_bytes": 24.0, "dram_bytes": 4.0, "seconds": 3.0, "limit": "L2"}
    assert against(slower, parent) == "1.50 times as slow; L2 bytes rose 3.00 times; limit L2 in place of DRAM"
    assert (
        against({**parent, "l1_bytes": 9.0, "instructions": 5.0, "limit": None}, parent)
        == "as fast; no counter changed"
    )
    unknown = dict.fromkeys(parent)
    assert against(unknown, parent) == against(parent, unknown) == ""


# -- what was published ------------------------------------------------------------------------------------------------


def layers(*shares: float | None, kernel: str = "direct") -> dict[str, Any]:
    return {"kernels": [{"kernel": "clear", "memory": 1.0}, *({"kernel": kernel, "memory": each} for each in shares)]}


def test_the_throughputs_of_the_network_are_ours_where_they_were_counted() -> None:
    lab = labs.get("lenet")
    told = {
        "baseline": layers(0.7, 0.8),
        "tiled": layers(0.5, None, kernel="tiled"),
        "atomic-channels": layers(0.4, 0.1),
    }

    def counted(name: str, case: str) -> dict[str, Any] | None:
        assert case == "batch-10000"
        return told.get(name)

    found = lab.counted(cast(Measured, SimpleNamespace(counted=counted)))
    ours = {(theirs.split()[0], metric): value for (theirs, _, metric), value in found.items()}
    assert ours == {
        ("baseline", "layer 1 throughput"): "70.0\u2009%",
        ("baseline", "layer 2 throughput"): "80.0\u2009%",
        ("baseline", "layer 1 memory throughput"): "70.0\u2009%",
        ("baseline", "layer 2 memory throughput"): "80.0\u2009%",
        ("#1", "layer 1 throughput"): "50.0\u2009%",
        ("#9+#4", "layer 1 memory throughput"): "40.0\u2009%",
        ("#9+#4", "layer 2 memory throughput"): "10.0\u2009%",
    }
    told.clear()
    assert lab.counted(cast(Measured, SimpleNamespace(counted=counted))) == {}


def test_a_figure_that_was_counted_stands_in_place_of_what_it_needs() -> None:
    from roofbook.report import published_beside_ours

    figures = pd.DataFrame(
        [{"table": "6", "variant": "net", "case": "all", "device": "x", "metric": m, "unit": "%", "trial": "", "value": 1.0}
         for m in ("a", "b")]
    ).assign(seconds=math.nan)  # fmt: skip
    table = published_beside_ours(
        figures, pd.DataFrame(), {}, measured={("net", "all", "a"): "70 %"}, lacks=lambda *key: "needs counters"
    )
    assert [row.cells[4].text for row in table.rows] == ["70 %", "needs counters"]


def profile_row(name: str, memory: float | None, **other: Any) -> dict[str, Any]:
    return {
        "variant": name, "case": "small", "role": PROFILE, "started": pd.Timestamp("2026-01-01T10:00:00Z"), "parent": None,
        "status": "ok", "reason": None, "samples_s": [1.0], "units": 1, "error": 0.0, "bound": 1.0,
        "extra": json.dumps(layers(0.9, memory)),
    } | other  # fmt: skip


def cells(*rows: dict[str, Any], backend: str = "cuda") -> Cells:
    frame = pd.DataFrame(list(rows), columns=None if rows else list(profile_row("one", 1.0)))
    return Cells(MadeUp(), frame[:0], frame[:0], frame, backend=backend, kind="gpu")


def test_a_claim_about_a_counter_is_judged_by_what_was_counted() -> None:
    piece = Counted("memory", "one", "other", "small", kernel="direct", number=2)
    found = piece.find(cells(profile_row("one", 0.88), profile_row("other", 0.15)))
    ratio = 0.15 / 0.88
    assert found == Finding(ratio, ratio, ratio, "0.88 with one, 0.15 with other")
    assert verdict(0.167, found) == "holds" and piece.variants(MadeUp()) == ("one", "other")
    for rows, why in (
        ([profile_row("one", 0.88)], "counters of other$"),
        ([profile_row("one", 0.88), profile_row("other", None)], "memory of direct 2 in other"),
        ([profile_row("one", 0.88), profile_row("other", 0.2, status="failed", reason="x")], "counters of other: x"),
        ([profile_row("one", 0.88), profile_row("other", 0.2, case="large")], "counters of other$"),
    ):
        with pytest.raises(Lacking, match=why) as caught:
            piece.find(cells(*rows))
        assert not isinstance(caught.value, NotHere)
    with pytest.raises(NotHere, match="read by CUDA"):
        piece.find(cells(backend="opencl"))


def test_every_counter_has_a_metric_and_every_limit_a_share() -> None:
    told = total(parse(SAMPLE), STEPS)
    assert {*AMOUNTS, *SHARES, "flops", "limit", "seconds", "launches"} == set(told)
    assert set(counters.LIMITS) <= set(SHARES) and len(set(METRICS)) == len(METRICS)
