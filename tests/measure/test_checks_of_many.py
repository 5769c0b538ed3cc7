"""Checks of many variants by compute-sanitizer: they share processes, and their results are kept for the page on method."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook import cli, paths
from roofbook.devices.find import host_cpu
from roofbook.measure import sanitize, sanitizer_record
from roofbook.measure.sanitize import CheckedVariant
from roofbook.process_tree import PatientClock
from roofbook.report import sanitizer_checks, sanitizer_text
from roofbook.spec import registry

from .counters.made_up import Gpu

Command = Callable[..., tuple[int, str, str]]
KERNELS = paths.LIBRARY / "labs" / "lbm"
HANGS = ".hangs"
"""Ending of the file that a process makes before it hangs."""
RIGHT = {"error": 0.5, "tolerance": 1.0, "compared": "x", "tool": "compute-sanitizer", "optimised": True}
CHECK_ALL = ["check", "lbm", "all", "--device", "cuda:0", "--out"]
SEVERAL = """
import json, os, sys, time
ACTS, RESULTS, RESULT, PRINTS = json.load(open(__file__ + ".json"))
if sys.argv[1] == "--version":
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.0.0 (build 1)")
    sys.exit()
order, tool = json.loads(sys.argv[-1]), sys.argv[sys.argv.index("--tool") + 1]
names = [name for name, _, _ in order["chosen"]]
open(__file__ + ".calls", "a").write(json.dumps([tool, names]) + "\\n")
raced = False
for name in names:
    print(order["mark"] + name, file=sys.stderr, flush=True)
    what = ACTS.get(f"{tool} {name}", ACTS.get(name))
    write = lambda message: print(json.dumps({"variant": name, **message}), file=open(order["out"], "a"), flush=True)
    write({"stage": "run"})
    if what == "hang":
        open(order["out"] + HANGS, "w").close()
        time.sleep(3600)
    if what == "crash":
        os._exit(11)
    if what == "close":
        os.remove(order["out"])
        os.mkdir(order["out"])
    raced |= what == "race"
    if what in PRINTS:
        print(PRINTS[what])
    if what in RESULTS:
        write({"result": RESULT | RESULTS[what]} if "reason" not in RESULTS[what] else {"result": RESULTS[what]})
        continue
    write({"result": RESULT | ({"error": 2.0} if what == "wrong" or (what == "wrong beside others" and names[1:]) else {})})
if raced:
    print("========= Error: Race reported between Read access at fused+0x90 in LINE:12")
    print("=========     and Write access at fused+0xb0 in LINE:12 [2 hazards]")
print("========= ERROR SUMMARY: 0 errors")
"""
"""A compute-sanitizer whose variants act as ACTS says, by variant or by tool and variant."""
RESULTS: dict[str, dict[str, Any]] = {
    "no error": {"error": None},
    "no tolerance": {"tolerance": None},
    "huge error": {"error": 10**400},
    "blank reason": {"reason": "\x1b \n", "tool": "x", "optimised": True},
    "no reason": {"reason": "", "tool": "x", "optimised": True},
    "half a character": {"reason": "\udc80" * 9, "tool": "x", "optimised": True},
    "deep": {"compared": json.loads("[" * 900 + "]" * 900)},
}
"""Closing records that the worker never writes, but a kernel in its process may."""
PRINTS = {
    "huge number": "========= Error: Race reported between Read access at f+0x90 in LINE:12\n"
    f"=========     and Write access at f+0xb0 in LINE:12 [{'9' * 5000} hazards]",
    "huge line": f"========= Invalid __global__ read of size 4 bytes\n=========     at f()+0x90 in /a.cu:{'9' * 5000}",
    "control characters": "========= Invalid __\x1b[2J\0__\u202e<script>\r\n=========     at \x1b[2J+0x90 in /\0\x1b[2J<b>:1",
    "no name": "========= Invalid __global__ read of size 4 bytes\n=========     at ()+0x90 in :0",
    "many": "\n".join(f"========= Invalid __{number}\n=========     at f+0x1 in a:{number}" for number in range(3000)),
}
"""Reports that no tool writes, but a kernel may print."""


def write_sanitizer(folder: Path, acts: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a compute-sanitizer whose variants act so, and let it be found first."""
    script = folder / sanitize.SANITIZER
    script.with_suffix(".json").write_text(json.dumps([acts, RESULTS, RIGHT, PRINTS]))
    code = SEVERAL.replace("LINE", str(KERNELS / "reduce_tree.inc")).replace("HANGS", repr(HANGS))
    script.write_text(f"#!{sys.executable} -IS{code}")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return script


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Callable[[str], list[Any]]]:
    """Return a function that makes a compute-sanitizer by its acts, and returns one that lists a tool's processes."""

    def make(acts: dict[str, str]) -> Callable[[str], list[Any]]:
        script = write_sanitizer(tmp_path, acts, monkeypatch)

        def processes(tool: str) -> list[Any]:
            calls = map(json.loads, Path(f"{script}.calls").read_text().splitlines())
            return [names for of_tool, names in calls if of_tool == tool]

        return processes

    return make


@pytest.fixture
def racecheck_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run racecheck alone: the process of each tool takes the same way."""
    monkeypatch.setattr(sanitize, "TOOLS", ("racecheck",))


def checked_on_gpu(gpu: Gpu, names: list[str], **options: Any) -> dict[str, CheckedVariant]:
    lab = registry.get("lbm")
    cells = [(lab.variant(name), lab.case("40x24", "test")) for name in names]
    return {check.variant.name: check for check in sanitize.check(lab, cells, gpu, **options)}


STEPS = ["fused", "soa", "tree", "in-place"]


def test_variants_without_a_finding_share_a_process(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({})
    checks = checked_on_gpu(gpu, STEPS)
    assert list(checks) == STEPS and all(check.clean for check in checks.values())
    assert all(processes(tool) == [STEPS] for tool in sanitize.TOOLS)


def test_more_variants_than_a_process_takes_are_checked_by_several_at_a_time(
    gpu: Gpu, several: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitize, "MOST_TOGETHER", 3)
    processes = several({"memcheck tree": "race"})
    checks = checked_on_gpu(gpu, STEPS, jobs=4)
    assert list(checks) == STEPS and [name for name in STEPS if not checks[name].clean] == ["tree"]
    assert processes("memcheck").count(STEPS[3:]) == 1 and STEPS[:3] in processes("memcheck")


def test_a_finding_is_that_of_the_one_variant_that_has_it_alone(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({"racecheck tree": "race"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["tree"]
    assert checks["tree"].tools["racecheck"].defects.total() == 2 and not checks["tree"].tools["memcheck"].defects
    assert processes("memcheck") == [STEPS]
    assert sorted(processes("racecheck")) == sorted([STEPS, STEPS[:2], STEPS[2:], ["tree"], ["in-place"]])


def test_a_wrong_result_is_confirmed_alone(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({"initcheck soa": "wrong"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    assert "wrong result" in str(checks["soa"].reason) and processes("initcheck") == [STEPS, ["soa"]]
    several({"initcheck soa": "wrong beside others"})
    assert all(check.clean for check in checked_on_gpu(gpu, STEPS).values())


def test_a_variant_that_ends_a_process_under_one_tool_costs_no_other(gpu: Gpu, several: Callable[..., Any]) -> None:
    several({"synccheck soa": "crash"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    text = sanitizer_text.summary(checks["soa"])
    assert "not checked to its end; the process under synccheck ended with exit code 11" in text


@pytest.fixture
def watchdog_sees_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a process be out of time as soon as it hangs, and not before, however slow the machine is."""
    tools_run, outputs_by_thread = sanitize._run, dict[int, str]()

    def run(command: Any, order: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        outputs_by_thread[threading.get_ident()] = order["out"]
        return tools_run(command, order, *arguments, **options)

    def is_over(clock: PatientClock) -> bool:
        return Path(outputs_by_thread.get(threading.get_ident(), "") + HANGS).exists()

    monkeypatch.setattr(sanitize, "_run", run)
    monkeypatch.setattr(PatientClock, "is_over", is_over)
    monkeypatch.setattr(PatientClock, "SLICE_S", 0.05)


@pytest.mark.usefixtures("watchdog_sees_hangs")
def test_a_variant_that_never_ends_is_named_with_its_tool_and_costs_no_other(
    gpu: Gpu, several: Callable[..., Any]
) -> None:
    processes = several({"racecheck soa": "hang"})
    checks = checked_on_gpu(gpu, STEPS, limit_s=3600, jobs=2)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    assert checks["soa"].reason == "the process under racecheck did not end within 3600 s; it was at: run"
    assert sorted(processes("racecheck")) == [STEPS, ["fused", "tree", "in-place"], ["soa"]]
    assert "4 variants are clean; wrong or not checked to the end: soa" in sanitizer_text.summary_of_all(
        [*checks.values()]
    )


@pytest.mark.parametrize("act", ["close", *RESULTS])
def test_what_a_kernel_writes_in_place_of_its_result_costs_no_other(
    gpu: Gpu, several: Callable[..., Any], racecheck_only: None, act: str
) -> None:
    several({"racecheck soa": act})
    checks = checked_on_gpu(gpu, ["fused", "soa"])
    assert [name for name, check in checks.items() if not check.clean] == ["soa"]
    text = sanitizer_text.summary(checks["soa"])
    assert "not checked to its end; the process under racecheck ended with exit code " in text


@pytest.mark.parametrize("act", PRINTS)
def test_what_a_kernel_prints_as_a_report_is_a_finding_in_the_record_and_text_on_the_page(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path, act: str
) -> None:
    several({"memcheck tree": act})
    code, out, err = command("check", "lbm", "all", "--device", "cuda:0", "--out", str(tmp_path / "checks"))
    assert (code, err) == (1, "") and "fused on 40x24 by compute-sanitizer: nothing found" in " ".join(out.split())
    assert out.replace("\n", "").isprintable()
    lab = sanitizer_checks.read(tmp_path)[0][0]
    assert lab.record["variants"]["tree"]["tools"]["memcheck"] and (lab.clean, lab.checked) == (1, ["fused", "tree"])
    html = sanitizer_checks.checks(tmp_path)
    assert "<script>" not in html and html.replace("\n", "").isprintable() and html.count("<td") < 400


@pytest.mark.parametrize(
    ("function", "error", "reason"),
    [
        ("_run", OSError(12, "Cannot allocate memory"), "Cannot allocate memory"),
        ("findings.of_sanitizer", ValueError("\x1b[2J of ours"), "ValueError: [2J of ours"),
        pytest.param("_run", MemoryError(), "MemoryError:", marks=pytest.mark.thorough),
    ],
)
def test_an_error_of_a_thread_costs_the_results_of_no_other_variant(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path, function: str, error: Exception, reason: str,
) -> None:  # fmt: skip
    """Both in the run of a process and in the reading of its output."""
    several({"memcheck fused": "race"})

    def read(text: str) -> Any:
        raise error

    def run(command: Any, order: dict[str, Any], *arguments: Any, **options: Any) -> Any:
        if "initcheck" in command and any(name == "tree" for name, *_ in order["chosen"]):
            raise error
        return tools_run(command, order, *arguments, **options)

    tools_run = sanitize._run
    replacement, start = (run, "initcheck could") if function == "_run" else (read, "memcheck could")
    monkeypatch.setattr(f"roofbook.measure.sanitize.{function}", replacement)
    code, out, err = command(*CHECK_ALL, str(tmp_path / "checks"))
    words = f"initcheck could not be run, or its output not read: {reason}"
    printed = " ".join(out.split())
    assert (code, err) == (1, "")
    assert f"tree on 40x24 by compute-sanitizer: not checked to its end; {start}" in printed
    variants = sanitizer_record.read(tmp_path / "checks" / "lbm.json")["variants"]
    assert variants["tree"]["tools"]["initcheck"] == words
    if function == "_run":
        assert variants["fused"]["tools"]["initcheck"] == [] and variants["tree"]["tools"]["memcheck"] == []


def test_processes_that_run_end_where_a_check_is_abandoned(
    gpu: Gpu, several: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Ctrl-C: the others do not run to their limit."""
    monkeypatch.setattr(sanitize, "MOST_TOGETHER", 1)
    several({"soa": "hang"})
    lab = registry.get("lbm")
    cells = [(lab.variant(name), lab.case("40x24", "test")) for name in ("fused", "soa")]
    checks = sanitize.check(lab, cells, gpu, jobs=8)
    assert isinstance(checks, Generator) and next(checks).variant.name == "fused"
    start = time.monotonic()
    checks.close()
    assert time.monotonic() - start < 500, "they would run for an hour"


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_two_steps(monkeypatch)


def keep_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let lbm be the only lab, with two steps."""
    lab = registry.get("lbm")
    monkeypatch.setattr(lab, "ladder", tuple(v for v in lab.ladder if v.name in ("fused", "tree")))
    monkeypatch.setattr(registry, "names", lambda: ["lbm"])
    monkeypatch.setattr(registry, "PEAKS", "lbm")


def test_all_labs_are_checked_by_one_command_which_keeps_the_results(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path
) -> None:
    several({"racecheck tree": "race"})
    folder = tmp_path / "results" / "checks"
    code, out, err = command("check", "all", "all", "--device", "cuda:0", "--jobs", "2", "--out", str(folder))
    assert (code, err) == (1, "") and out.splitlines()[-1].endswith("4 variants are clean; with findings: tree, tree")
    assert "fused on 40x24 by compute-sanitizer: nothing found" in out
    record = json.loads((folder / "lbm.json").read_text())
    assert (record["lab"], record["sanitizer"], record["limit_s"]) == ("lbm", "2025.3.0.0", 3600)
    assert record["device"] == gpu.identity() and record["git"]["commit"]
    clean: dict[str, list[Any]] = {tool: [] for tool in sanitize.TOOLS}
    assert record["variants"]["fused"]["tools"] == clean and record["variants"]["fused"]["wrong"] is None
    line = "labs/lbm/reduce_tree.inc:12"
    kind = "read-write data race in shared memory"
    finding = {"kind": kind, "kernel": "fused", "lines": [line], "count": 2}
    assert record["variants"]["tree"]["tools"] == clean | {"racecheck": [finding]}
    html = sanitizer_checks.checks(folder.parent)
    assert "2025.3.0.0" in html and kind in html and record["git"]["commit"][:10] in html
    labs, _ = sanitizer_checks.read(folder.parent)
    assert [(lab.checked, lab.clean, len(lab.steps)) for lab in labs] == [(["fused", "tree"], 1, 2)] * 2


def test_a_kernel_or_a_case_that_changed_since_is_not_checked(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path
) -> None:
    several({"memcheck fused": "wrong"})
    code, _, _ = command("check", "lbm", "all", "--device", "cuda:0", "--out", str(tmp_path / "checks"))
    path = tmp_path / "checks" / "lbm.json"
    record = json.loads(path.read_text())
    assert code == 1 and record["variants"]["fused"]["wrong"].startswith("wrong result")
    kept = record["variants"]["tree"]
    for field, other in (("source_sha256", "0" * 64), ("case", "24x40")):
        record["variants"]["tree"] = kept | {field: other}
        path.write_text(json.dumps(record))
        lab = sanitizer_checks.read(tmp_path)[0][0]
        note = "Not checked in lbm with the kernel and on the case of today: tree."
        assert note in sanitizer_checks.checks(tmp_path)
        assert (lab.checked, lab.clean) == (["fused"], 0) and lab.reports[0].text.startswith("wrong result")


def test_without_a_file_the_page_has_no_table(tmp_path: Path) -> None:
    assert sanitizer_checks.checks(tmp_path) == ""


@pytest.fixture(scope="module")
def clean_record(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return the file that a check without findings writes."""
    folder = tmp_path_factory.mktemp("clean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roofbook.devices.cuda.devices", lambda: [Gpu()])
        keep_two_steps(patch)
        write_sanitizer(folder, {}, patch)
        patch.setattr(sys, "argv", ["roofbook", *CHECK_ALL, str(folder)])
        cli.main()
    return (folder / "lbm.json").read_bytes()


@pytest.fixture
def record(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, clean_record: bytes, tmp_path: Path
) -> tuple[Path, dict[str, Any]]:
    """Return the file that a check without findings wrote, and its content."""
    several({})
    path = tmp_path / "checks" / "lbm.json"
    path.parent.mkdir()
    path.write_bytes(clean_record)
    return path, json.loads(clean_record)


DAMAGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda record: [record],
    "another lab": lambda record: record | {"lab": "cnn"},
    "another field": lambda record: record | {"author": "<b>"},
    "a field less": lambda record: {name: value for name, value in record.items() if name != "time"},
    "a number as a device": lambda record: record | {"device": 1},
    "HTML as a commit": lambda record: record | {"git": record["git"] | {"commit": "<script>alert(1)</script>"}},
    "a number as a time": lambda record: record | {"time": 1e308},
    "a time without a zone": lambda record: record | {"time": "2026-11-29"},
    "a limit of NaN": lambda record: record | {"limit_s": float("nan")},
    "a variant that is a text": lambda record: record | {"variants": {"fused": "clean"}},
    "no tool": lambda record: of_fused(record, tools={}),
    "a tool less": lambda record: of_fused(record, tools={"memcheck": []}),
    "a finding that is a number": lambda record: of_fused(record, tools={tool: [1] for tool in sanitize.TOOLS}),
    "another scale": lambda record: of_fused(record, scale="quick"),
    "half a character": lambda record: of_fused(record, wrong="\udc80"),
    "a huge text": lambda record: of_fused(record, wrong="x" * 10**6),
    "an empty reason": lambda record: of_fused(record, wrong=""),
    "a blank reason": lambda record: of_fused(record, wrong=" \n"),
    "a reason of several lines": lambda record: of_fused(record, wrong="wrong\nresult"),
    "a tool without a reason": lambda record: of_fused(record, tools={tool: "" for tool in sanitize.TOOLS}),
    "a finding of no kind": lambda record: of_fused(
        record, tools={tool: [{"kind": "", "kernel": "", "lines": [], "count": 1}] for tool in sanitize.TOOLS}
    ),
    "no case": lambda record: of_fused(record, case=""),
    "no hash of a kernel": lambda record: of_fused(record, source_sha256=""),
}
"""Changes to a record that `roofbook check --out` cannot have written."""


def of_fused(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a record with other fields of its variant `fused`."""
    return record | {"variants": record["variants"] | {"fused": record["variants"]["fused"] | fields}}


CONTENTS: dict[str, bytes] = {
    "not UTF-8": b"\xff\xfe{}", "empty": b"", "half": b'{"lab": "lbm"', "deep": b"[" * 100_000, "large": b" " * (9 << 20),
    "many digits": b"1" * 10_000, "a name twice": b'{"lab": "lbm", "lab": "lbm"}',
}  # fmt: skip


@pytest.mark.parametrize("name", [*DAMAGED, *CONTENTS, "a folder", "a dangling link", "a pipe"])
def test_a_file_that_is_no_record_is_named_on_the_page_and_not_replaced(
    record: tuple[Path, dict[str, Any]], command: Command, name: str
) -> None:
    path, content = record
    path.unlink()
    if name == "a folder":
        path.mkdir()
    elif name == "a pipe":
        os.mkfifo(path)
    elif name == "a dangling link":
        path.symlink_to("none")
    else:
        path.write_bytes(CONTENTS[name] if name in CONTENTS else json.dumps(DAMAGED[name](content)).encode())
    html = sanitizer_checks.checks(path.parents[1])
    assert (
        "Left out, as <code>roofbook check --out</code> did not write it: lbm.json" in html
        and "<script>alert" not in html
    )
    before = path.lstat()
    code, out, err = command(*CHECK_ALL, str(path.parent))
    assert (code, out) == (2, "") and err.startswith(f"error: {path} is no record of checks: ") and err.count("\n") == 1
    assert path.lstat() == before


def test_texts_of_a_record_are_text_on_the_page(record: tuple[Path, dict[str, Any]]) -> None:
    path, content = record
    hostile = "<script>alert(1)</script>"
    finding = {"kind": hostile, "kernel": hostile, "lines": [], "count": 1}
    changed = of_fused(
        content, wrong=hostile, tools={tool: [finding] for tool in sanitize.TOOLS} | {"memcheck": hostile}
    )
    changed |= {"sanitizer": hostile, "device": content["device"] | {"model": hostile}}
    changed["variants"] |= {hostile: changed["variants"]["fused"], "unrolled": changed["variants"]["fused"]}
    path.write_text(json.dumps(changed))
    html = sanitizer_checks.checks(path.parents[1])
    assert "<script>" not in html and "&lt;script&gt;" in html and "unrolled" not in html


def test_a_record_without_a_commit_or_a_limit_is_read(record: tuple[Path, dict[str, Any]]) -> None:
    path, content = record
    path.write_text(json.dumps(content | {"git": None, "limit_s": None}))
    assert "unknown commit" in sanitizer_checks.checks(path.parents[1])


@pytest.mark.parametrize("stops", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_check_that_stops_replaces_no_record_of_more_variants(
    record: tuple[Path, dict[str, Any]], command: Command, monkeypatch: pytest.MonkeyPatch, stops: Any
) -> None:
    path, content = record
    unfinished = path.with_name("lbm.unfinished.json")
    whole, tools_check = path.read_bytes(), sanitize.check

    def stopping(*arguments: Any, **options: Any) -> Iterator[CheckedVariant]:
        yield next(tools_check(*arguments, **options))
        raise stops

    with monkeypatch.context() as patch:
        patch.setattr(sanitize, "check", stopping)
        code, _, err = command(*CHECK_ALL, str(path.parent))
        words = (
            f"stopped; the results so far are in {path.parent}\n" if code == 130 else "error: No space left on device\n"
        )
        assert code in (2, 130) and err == words and path.read_bytes() == whole
        assert list(json.loads(unfinished.read_text())["variants"]) == ["fused"]
        path.unlink()
        command(*CHECK_ALL, str(path.parent))
        assert list(json.loads(path.read_text())["variants"]) == ["fused"] and not unfinished.exists()
    assert command(*CHECK_ALL, str(path.parent))[0] == 0
    assert json.loads(path.read_text())["variants"].keys() == content["variants"].keys()
    assert [file.name for file in path.parent.iterdir()] == ["lbm.json"]


def test_one_check_at_a_time_writes_to_a_folder(record: tuple[Path, dict[str, Any]], command: Command) -> None:
    path, _ = record
    with sanitizer_record.writing(path.parent, [registry.get("lbm")]):
        code, out, err = command(*CHECK_ALL, str(path.parent))
    assert (code, out) == (2, "") and err.startswith(f"error: another check writes to {path.parent}: ")
    assert command(*CHECK_ALL, str(path.parent))[0] == 0


@pytest.mark.parametrize("out", ["file", "file/below", "closed", "closed/below", "link", ""])
def test_a_folder_that_cannot_be_written_is_one_line_before_anything_is_checked(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path, out: str
) -> None:
    several({})
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(0o500)
    (tmp_path / "link").symlink_to("link")
    if os.getuid() == 0 and out.startswith("closed"):
        pytest.skip("root may write anywhere")
    code, printed, err = command(*CHECK_ALL, str(tmp_path / out) if out else "")
    assert (code, printed) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / f"{sanitize.SANITIZER}.calls").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["lbm", "all", "--jobs", jobs] for jobs in ("0", "x", "-1", "1.5", "65", "")),
        *(["lbm", "all", "--limit", limit] for limit in ("-1", "nan", "0", "x", "")),
        ["no-lab", "all"], ["lbm", "no-variant"], ["all", "all", "16ch-16x28-k5"], ["all", "all", "40x24"],
        ["lbm", "all", "40x24", "--out", "checks"], ["lbm", "all", "--scale", "quick", "--out", "checks"],
    ],
)  # fmt: skip
def test_bad_input_is_one_line_before_anything_is_checked(
    gpu: Gpu, several: Callable[..., Any], command: Command, tmp_path: Path, arguments: list[str]
) -> None:
    several({})
    code, out, err = command("check", *arguments, "--device", "cuda:0")
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / f"{sanitize.SANITIZER}.calls").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all", "tree"], "with `all` for LAB, VARIANT must be `all` too"),
        (["lbm", "tree", "--out", "checks"], "--out needs `all` for VARIANT and a CUDA device"),
        (
            ["lbm", "all", "--out", "checks", "--device", host_cpu().spec],
            "--out needs `all` for VARIANT and a CUDA device",
        ),
    ],
)
def test_what_keeps_no_results_is_one_line(gpu: Gpu, command: Command, arguments: list[str], words: str) -> None:
    device = [] if "--device" in arguments else ["--device", "cuda:0"]
    code, out, err = command("check", *arguments, *device)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1
