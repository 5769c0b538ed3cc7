"""`roofbook gate` in a project of its own: a commit's source beside the checkout's, stored rows, and every mistake in a line.

The whole experiment, a hundred planted slowdowns and a hundred kernels without, takes minutes of a machine that does nothing
else: ROOFBOOK_PLANTED=100 asks for it, and ROOFBOOK_PLANTED_ON names another device; see CONTRIBUTING.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.often import often

from roofbook import labs
from roofbook.analysis import gate
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.measure import source_tree
from roofbook.measure.policy import Policy
from roofbook.measure.schedule import bring_up_to_date, plan
from roofbook.measure.side_by_side import Rule
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.store.schema import COLUMNS, REQUIRED

from .chains import LABS, Project

MANY = int(os.environ.get("ROOFBOOK_PLANTED", "0"))
ON = os.environ.get("ROOFBOOK_PLANTED_ON", "opencl:pocl")
Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    try:
        host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))
    return Project(tmp_path_factory.mktemp("project") / "of-mine")


@pytest.fixture(scope="module")
def gate_run(project: Project) -> tuple[Any, dict[str, dict[str, Any]], dict[str, Any]]:
    """A gate on a checkout with a slow kernel, a wrong one, a new one and one that is gone: the process, results, all JSON."""
    project.plant(chain_4=1000)
    project.commit()
    project.plant(chain_1=4000)
    project.edit("__init__.py", r"range\(8\)", "range(1, 5)")
    project.edit("__init__.py", r"^ITEMS = 64$", 'ITEMS = 64\nNEW = {"chain-new": 500}')
    project.edit("__init__.py", r"in LENGTHS.items\(\)\)$", "in (LENGTHS | NEW).items())")
    project.edit("chain.k", r"^  out\[i\] = ", "#if STEPS == 10000\n  zero++;\n#endif\n  out[i] = ")
    unless_done = "#if STEPS == 12000\n  if (out[i] != (unsigned int)i) return;\n#endif"
    project.edit("chain.k", r"^  unsigned int x = start\[i\];$", f"{unless_done}\n  unsigned int x = start[i];")
    done = project.gate(
        "--against", "HEAD", "--runs", "3", "--budget", "0.05", "--json", "gate.json", "--device", "opencl:pocl",
        GITHUB_ACTIONS="true",
    )  # fmt: skip
    report = json.loads((project.folder / "gate.json").read_text())
    return done, {outcome["variant"]: outcome for outcome in report["results"]}, report


@pytest.fixture
def in_project(project: Project, command: Cli) -> Cli:
    """Runs the gate in this process, as if it had been started in the project."""

    def gate(*arguments: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(project.folder)
            without_ours = [path for path in labs.__path__ if path != str(LABS)]
            patch.setattr(labs, "__path__", [*without_ours, str(project.folder / "labs")])
            forget_the_lab()
            try:
                return command("gate", "--lab", "chains", *arguments)
            finally:
                forget_the_lab()

    return gate


def forget_the_lab() -> None:
    """Have the lab's folder looked for again: the project's lab has the name of that of other tests."""
    sys.modules.pop("roofbook.labs.chains", None)
    registry.get.cache_clear()


def test_a_slower_or_wrong_variant_fails_the_gate(gate_run: Any) -> None:
    done, results, report = gate_run
    assert (done.returncode, done.stderr) == (1, "") and report["failed"]
    slow = results["chain-1"]
    assert slow["verdict"] == "slower" and len(slow["ratios"]) >= 6, "three runs, and three more to be sure"
    assert slow["ratio"] > 2 and slow["now_s"] > 2 * slow["before_s"], "five times as long, on an idle machine"
    assert results["chain-2"]["verdict"] == "broken" and "wrong result" in results["chain-2"]["why"]


def test_unchanged_variants_are_not_measured_and_new_or_removed_ones_are_named(gate_run: Any) -> None:
    done, results, report = gate_run
    assert set(results) == {"chain-1", "chain-2", "chain-4"} and report["unchanged"] == 1
    assert report["new"] == ["chains chain-new"]
    assert report["gone"] == [f"chains chain-{number}" for number in (0, 5, 6, 7)]
    assert "New, so there is nothing to compare with: chains chain-new." in done.stdout
    assert "1 broken, 1 slower" in done.stdout


def test_a_kernel_that_skips_work_whose_results_are_there_is_not_faster(gate_run: Any) -> None:
    """Half of its work, an extra chain, was taken out. Without its 12000 steps it would take less than a tenth."""
    _, results, _ = gate_run
    assert results["chain-4"]["verdict"] != "broken" and results["chain-4"]["ratio"] > 0.25


def test_annotations_point_at_the_changed_line(gate_run: Any, project: Project) -> None:
    done, results, _ = gate_run
    wrong, slow = sorted((line for line in done.stdout.splitlines() if line.startswith("::error ")), reverse=True)
    lines = (project.folder / "labs/chains/chain.k").read_text().splitlines()
    number = lines.index("#if STEPS == 12000") + 1
    assert f"file=labs/chains/chain.k,line={number},title=chains chain-2%3A broken::" in wrong
    assert "title=chains chain-1%3A slower::chain-1 on one-group" in slow and "times as long as in HEAD" in slow
    assert (results["chain-2"]["file"], results["chain-2"]["line"]) == ("labs/chains/chain.k", number)


def test_the_gate_passes_if_nothing_changed(project: Project, gate_run: Any) -> None:
    project.commit()
    done = project.gate("--against", "HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    assert "The code of 5 variants is the same as in HEAD" in " ".join(done.stdout.split())


def test_a_repository_with_links_that_lead_out_of_it_can_be_compared(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "images"
    outside.mkdir()
    links = {
        "absolute": str(outside), "nowhere": "/no/such/folder", "upwards": os.path.relpath(outside, project.folder),
        "labs/deep": os.path.relpath(outside, project.folder / "labs"), "own": str(project.folder / "labs"),
        "inside": "labs/chains", "round": "round",
    }  # fmt: skip
    for name, target in links.items():
        (project.folder / name).symlink_to(target)
    project.commit()
    done = project.gate("--against", "HEAD")
    assert (done.returncode, done.stderr) == (0, "")
    repository, copy = source_tree.Project(project.folder.resolve()), tmp_path / "copy"
    copy.mkdir()
    repository.extract(repository.commit("HEAD"), copy)
    for name in ("absolute", "upwards", "labs/deep"):
        assert (copy / name).resolve() == outside.resolve()
    assert (copy / "own").resolve() == copy / "labs" and (copy / "inside").resolve() == copy / "labs" / "chains"
    assert os.readlink(copy / "nowhere") == "/no/such/folder" and os.readlink(copy / "round") == "round"
    for name in links:
        (project.folder / name).unlink()
    project.commit()


@pytest.mark.parametrize(
    "kind",
    often(["no folder", "empty store", "another device", "other labs"], lambda kind: kind == "empty store"),
)
def test_the_gate_fails_if_nothing_was_compared(
    project: Project, in_project: Cli, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    stored = tmp_path / "stored"
    if kind == "empty store":
        (stored / "local").mkdir(parents=True)
    elif kind != "no folder":
        changed = {"device": "some-gpu"} if kind == "another device" else {"lab": "lbm"}
        Store(stored).append([row | changed for row in request.getfixturevalue("rows")])
    report_path = project.folder / "nothing.json"
    ref = f"file://{stored}" if kind in ("no folder", "empty store") else str(stored)
    code, _, err = in_project("--against", ref, "--lab", "chains", "--scale", "test", "--json", str(report_path))
    assert code == 2 and err.startswith(f"error: nothing was compared with the rows of {ref}: there is no ")
    assert err.count("\n") == 1 and json.loads(report_path.read_text())["compared"] == 0
    assert not (tmp_path / "stored").exists() or kind != "no folder"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (["--against", "nowhere"], "'nowhere' is no commit, tag or branch of "),
        (["--against", "--help-me"], "'--help-me' is no commit"),
        (["--against", "rows.parquet"], "there is no file rows.parquet"),
        (["--against", ".gitignore.parquet"], "holds no rows of the store: "),
        (["--against", "HEAD", "--variant", "chain-9"], "unknown variant 'chain-9'"),
        (["--against", "HEAD", "--scale", "huge"], "unknown scale 'huge'"),
        (["--against", "HEAD", "--runs", "2"], "'--runs'"),
        (["--against", "HEAD", "--json", "no/gate.json"], "there is no folder no"),
        (["--against", "HEAD", "--device", "opencl:none", "--unchanged"], "unknown device 'opencl:none'"),
    ],
)
def test_a_mistake_is_one_line(project: Project, in_project: Cli, wrong: list[str], words: str) -> None:
    (project.folder / ".gitignore.parquet").write_text("no rows")
    code, out, err = in_project(*wrong)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


def test_a_folder_outside_of_any_project_is_refused(project: Project, tmp_path: Path) -> None:
    other_project = Project(tmp_path / "other")
    (other_project.folder / "labs").rename(other_project.folder / "no-labs")
    other_project.commit()
    done = other_project.gate("--against", "HEAD", ROOFBOOK_LABS=str(project.folder / "labs"))
    assert done.returncode == 2 and "nothing of a commit would be measured" in done.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other_project.folder = elsewhere
    done = other_project.gate("--against", "HEAD", GIT_CEILING_DIRECTORIES=str(tmp_path))
    assert done.returncode == 2 and "is in no git repository" in done.stderr


# -- against stored rows -----------------------------------------------------------------------------------------------

RULE = Rule(runs=3)
FAST = Policy(cache="warm", budget_s=1e-3, minimum=5, maximum=6)


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Rows of two variants in three runs each, as the checkout's code is."""
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(LABS)])
    monkeypatch.setattr(gate, "Policy", lambda **_: FAST)
    try:
        device = host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))
    lab, store = registry.get("chains"), Store(tmp_path / "results")
    cells = plan(lab, lab.cases("test"), lab.ladder[:2], device, store, FAST)
    bring_up_to_date(cells, device, store, FAST, runs=3)
    stored: list[dict[str, Any]] = store.arrow("select * from cells").to_pylist()
    return stored


def compared(rows: list[dict[str, Any]], folder: Path, **changed: Any) -> dict[str, gate.Gated]:
    """Verdicts of the two variants against these rows as those of other code."""
    stored = Store(folder / "stored")
    stored.append([row | {"cell_key": f"other {row['variant']}"} | changed for row in rows])
    selection = gate.Selection(("chains",), (), ("chain-0", "chain-1"), "test", host_cpu().spec)
    comparison = gate.against_rows(str(folder / "stored"), selection, RULE)
    return {outcome.variant: outcome for outcome in comparison.outcomes}


def test_rows_of_the_same_device_are_compared_run_by_run(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    """Stored times are a hundredth and a hundred times as long: whatever else the machine does, the verdict is clear."""
    factors = {"chain-0": 1 / 100, "chain-1": 100}
    changed = [row | {"samples_s": [time * factors[row["variant"]] for time in row["samples_s"]]} for row in rows]
    outcomes = compared(changed, tmp_path)
    slow, fast = outcomes["chain-0"], outcomes["chain-1"]
    assert slow.verdict == "slower" and slow.ratio and slow.runs == 3, "a hundred times as long, on any machine"
    assert slow.ratio.how == "across runs" and 10 < slow.ratio.estimate < 1000
    assert fast.verdict == "faster" and fast.ratio and 1 / 1000 < fast.ratio.estimate < 1 / 10
    assert all("plan, its options or the host's code changed" in outcome.reason for outcome in (slow, fast))


def test_one_stored_run_decides_nothing(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    first = [
        row | {"samples_s": [time / 3 for time in row["samples_s"]]} for row in rows if row["run"] == rows[0]["run"]
    ]
    outcomes = compared(first, tmp_path)
    assert {outcome.verdict for outcome in outcomes.values()} == {"undecided"}
    assert outcomes["chain-0"].reason.startswith("one run on a side cannot show how far runs differ")


def test_rows_may_come_from_a_file_and_fresh_ones_are_not_measured_again(
    rows: list[dict[str, Any]], tmp_path: Path
) -> None:
    import pandas as pd

    path = tmp_path / "all.parquet"
    pd.DataFrame(rows).to_parquet(path, index=False)
    selection = gate.Selection(("chains",), (), (), "test", host_cpu().spec)
    comparison = gate.against_rows(str(path), selection, RULE)
    assert not comparison.outcomes and comparison.same == 2 and len(comparison.new) == 6
    with pytest.raises(UsageError, match="holds no rows of the store"):
        gate.stored_rows(__file__, tmp_path / "none")


def test_a_case_selects_the_labs_that_have_it(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    Store(tmp_path / "stored").append(rows)
    case = rows[0]["case"]
    selection = gate.Selection(("cnn", "chains"), (case,), (), "test", host_cpu().spec)
    comparison = gate.against_rows(str(tmp_path / "stored"), selection, RULE)
    assert (
        not comparison.outcomes
        and comparison.same == 2
        and all(variant.startswith("chains ") for variant in comparison.new)
    )
    with pytest.raises(UsageError, match="unknown case 'nowhere'"):
        gate.against_rows(str(tmp_path / "stored"), replace(selection, cases=(case, "nowhere")), RULE)


@pytest.mark.parametrize("of", [(), ("lbm", "stencil"), ("lbm",)])
def test_a_variant_that_no_lab_has_is_refused_with_the_nearest(tmp_path: Path, of: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=r"unknown variant 'fusd' \(did you mean 'fused'\?\); valid: "):
        gate.against_rows(str(tmp_path), gate.Selection(of, variants=("fusd",)), RULE)


@pytest.mark.parametrize("name", ["../../../aside", "/tmp/aside", "a\0b", "", None])
@pytest.mark.parametrize("column", ["lab", "device"])
def test_rows_say_no_place_to_be_written_to(tmp_path: Path, column: str, name: str | None) -> None:
    import pandas as pd

    started = pd.Timestamp("2026-01-01", tz="UTC")
    row = dict.fromkeys(COLUMNS) | dict.fromkeys(REQUIRED, "x") | {"started": started, column: name}
    path = tmp_path / "all.parquet"
    pd.DataFrame([row]).to_parquet(path, index=False)
    with pytest.raises(UsageError, match=r"all.parquet holds no rows of the store: row 0 \("):
        gate.stored_rows(str(path), tmp_path / "a" / "b" / "c")
    assert list(tmp_path.iterdir()) == [path]


# -- the experiment ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not MANY, reason="takes minutes alone on a machine: ROOFBOOK_PLANTED=100 asks for a hundred")
def test_a_hundred_planted_slowdowns_of_three_percent_are_detected(tmp_path: Path) -> None:
    """Every other variant is planted, the rest are as they were; gate follows gate until there are enough.

    On a GPU, where processes take seconds to start and chains are short, a gate has all variants at once, and longer ones.
    """
    project = Project(tmp_path / "project")
    command = ["--against", "HEAD", "--unchanged", "--device", ON, "--json", "gate.json"]
    variants = 8
    if ON.startswith("cuda"):
        variants = 2 * MANY
        project.edit(
            "__init__.py",
            r"8000 \+ 1000 \* number for number in range\(8\)",
            f"20000 + 100 * number for number in range({variants})",
        )
        project.commit()
        command += ["--budget", "0.02", "--runs", "3"]
    planted = {f"chain_{number}": 30 for number in range(1, variants, 2)}
    project.plant(**planted)
    words: dict[bool, list[str]] = {True: [], False: []}
    while len(words[True]) < MANY:
        done = project.gate(*command)
        assert not done.stderr, done.stderr
        for outcome in json.loads((project.folder / "gate.json").read_text())["results"]:
            assert outcome["before_s"], outcome["why"]
            assert outcome["before_s"] > 50e-6
            words[outcome["variant"].replace("-", "_") in planted].append(outcome["verdict"])
    print({name: {word: verdicts.count(word) for word in sorted(set(verdicts))} for name, verdicts in words.items()})
    assert words[True].count("slower") >= 0.95 * len(words[True])
    assert words[False].count("slower") <= 0.05 * len(words[False])
