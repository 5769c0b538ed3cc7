"""Commands, files, names and code examples in the prose pages exist and work."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from roofbook import cli
from roofbook.book.experiment import PARAMETERS, check
from roofbook.book.notebook_cells import declared_parameters
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Plan, Runnable

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "book").glob("*.md"))]
CHEAP = {"devices", "labs", "explain", "diff", "show", "export"}


def fenced(language: str) -> Iterator[tuple[str, str]]:
    """Yield (page, text) for each fenced block in a language."""
    for page in PAGES:
        for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S):
            yield page.name, text


def commands_of_pages() -> list[tuple[str, list[str]]]:
    """Return (page, words) for every command that a page gives: in blocks of shell, and in the running text."""
    commands = []
    for page, text in fenced("sh"):
        for line in text.splitlines():
            for command in line.split("&&"):
                commands.append((page, shlex.split(command, comments=True)))
    for path in PAGES:
        for text in re.findall(r"`((?:roofbook|make|papermill) [^`\n]+)`", path.read_text()):
            commands.append((path.name, shlex.split(text)))
    bare = [
        (page, [*takewhile(lambda word: word != ">", dropwhile(lambda word: re.match(r"[A-Z_]+=", word), words))])
        for page, words in commands
    ]
    return [(page, [words[0].removeprefix(".venv/bin/"), *words[1:]]) for page, words in bare if words]


COMMANDS = commands_of_pages()
SCRIPT = "results/record.sh"


def parameters_of(program: str) -> list[Any]:
    return [
        pytest.param(words[1:], id=f"{page}: {shlex.join(words)}") for page, words in COMMANDS if words[0] == program
    ]


def test_every_command_of_the_pages_is_of_a_known_program() -> None:
    """Ensure that one of the tests below checks each command."""
    assert {words[0] for _, words in COMMANDS} == {
        ".",
        "roofbook",
        "make",
        "papermill",
        "conda",
        "cp",
        "dask",
        "pip",
        SCRIPT,
    }
    assert len(parameters_of("roofbook")) > 20


@pytest.mark.parametrize("words", parameters_of("roofbook"))
def test_the_commands_have_arguments_that_the_program_takes(
    words: list[str],
    unmeasured: Callable[[], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words == ["--help"]:
        return
    command = cli.app.commands[words[0]]
    if "--import" in words:  # a file of another tuner
        monkeypatch.chdir(tmp_path)
        Path(words[words.index("--import") + 1]).touch()
    placeholders = {"LAB": "lbm", "NAME": "lbm", "VARIANT": "fused", "STEP": "fused", "CASE": "128x128"}
    if "saxpy" in words and words[0] != "new":  # the page on labs writes this one; stencil stands for it
        placeholders = {"saxpy": "stencil", "each": "checked", "n1000": "64x64"}
    words = [placeholders.get(word, word) for word in words]
    context = command.make_context(words[0], words[1:], resilient_parsing=len(words) == 1)
    options = context.params
    if options.get("lab") and words != ["check", "all", "all", *words[3:]]:
        lab = options["lab"] if isinstance(options["lab"], Lab) else registry.get(options["lab"])
        for name in [*filter(None, [options.get("variant")]), *options.get("only", ())]:
            assert (words[0], name) == ("profile", "all") or lab.variant(name)
        if options.get("case"):
            lab.case(options["case"], options.get("scale") or "quick")
    for name, value in options.get("parameter", ()):
        assert name in PARAMETERS
        names = check({name: yaml.safe_load(value)})[name]
        for listed in names if name in ("variants", "cases") else ():
            assert lab.variant(listed) if name == "variants" else lab.case(listed, options["scale"])
    if words[0] in CHEAP and (len(words) > 1 or words[0] in ("devices", "labs")):
        checkout = unmeasured()
        monkeypatch.chdir(checkout)
        monkeypatch.setattr(sys, "argv", ["roofbook", *words])
        cli.main()
        assert capsys.readouterr().out or list(checkout.glob("*.csv")) or list(checkout.glob("*.parquet"))


@pytest.mark.parametrize("words", parameters_of("papermill"))
def test_the_calls_of_papermill_name_a_notebook_and_its_parameters(words: list[str]) -> None:
    assert (ROOT / words[0]).exists() and words[1].endswith(".ipynb")
    pairs = list(pairwise(words))
    named = {value for option, value in pairs if option == "-p"}
    named |= {name for option, value in pairs if option == "-y" for name in yaml.safe_load(value)}
    assert named and named <= declared_parameters(json.loads((ROOT / words[0]).read_text(encoding="utf-8")))


@pytest.mark.parametrize("words", parameters_of("dask"))
def test_the_calls_of_dask_have_options_that_it_takes(words: list[str]) -> None:
    parts = {"scheduler": "dask_scheduler", "worker": "dask_worker"}
    if words[0] in parts:
        module = pytest.importorskip(f"distributed.cli.{parts[words[0]]}")
        module.main.make_context(words[0], words[1:])


@pytest.mark.parametrize("words", parameters_of("pip"))
def test_the_calls_of_pip_install_an_extra_of_the_project(words: list[str]) -> None:
    extra = re.fullmatch(r"install (?:-e \.|roofbook)\[(\w+)\]", " ".join(words))
    assert words == ["install", "roofbook"] or (
        extra and extra[1] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )


@pytest.mark.parametrize("words", parameters_of("make"))
def test_the_targets_of_make_exist(words: list[str]) -> None:
    rules = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{words[0]}:", rules, re.M) and words[0] in re.findall(r"\.PHONY: (.*)", rules)[0].split()
    for setting in words[1:]:
        name, _, value = setting.partition("=")
        assert f"$(call taken_from_command_line,{name}," in rules
        if name in ("GPU", "WITH"):
            assert (ROOT / "locks" / f"{value}.txt").exists()


def test_make_installs_by_hash_alone() -> None:
    """The installer is installed by hash too; only this package itself is not."""
    rules = (ROOT / "Makefile").read_text()
    installs = re.findall(r"call INSTALL,(.*)\)$|(?<!INSTALL = )(?<=\t).*-m pip install (.*)$", rules, re.M)
    install_options = ["".join(groups) for groups in installs]
    assert len(install_options) == 3 and [
        options for options in install_options if "--require-hashes" not in options
    ] == ["--no-deps --no-build-isolation --editable ."]
    for lock in (ROOT / "locks").glob("*.txt"):
        pinned = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.M))
        assert all(re.match(r"[\w.-]+==", pin) and "--hash=sha256:" in pin for pin in pinned), lock


@pytest.mark.parametrize("words", parameters_of(SCRIPT))
def test_the_script_that_records_accepts_the_options_of_the_pages(words: list[str], tmp_path: Path) -> None:
    """Run the script with a fake Python that logs its arguments, so nothing is installed or measured."""
    python = tmp_path / "out" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@" >> "$0.log"\n')
    python.chmod(0o755)
    command = [str(ROOT / SCRIPT), *(str(tmp_path / "out") if word == "OUT" else word for word in words)]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHON": str(python)})
    called = python.with_name("python.log").read_text().splitlines()
    install_lines = [line for line in called if "-m pip install" in line]
    assert any("locks/record.txt" in line for line in install_lines)
    for line in install_lines:  # only packages that a lock pins, by hash
        (lock,) = re.findall(r"--requirement (\S+)", line)
        assert "--require-hashes" in line and Path(lock).is_file() and Path(lock).is_relative_to(ROOT / "locks")
    assert shlex.split(called[-1])[:4] == ["-P", "-m", "roofbook.cli", "record"]
    assert cli.app.commands["record"].make_context("record", shlex.split(called[-1])[4:])


def test_the_script_that_records_asks_for_a_commit_before_it_installs_anything(tmp_path: Path) -> None:
    log, python, out = tmp_path / "log", tmp_path / "python", tmp_path / "out"
    python.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$3" != roofbook.devices.checkout ]\n')
    python.chmod(0o755)
    environment_python = out / ".venv" / "bin" / "python"
    environment_python.parent.mkdir(parents=True)
    environment_python.symlink_to(python)
    setting = {**os.environ, "PYTHON": str(python)}
    check_command = f"-P -m roofbook.devices.checkout {out}"
    process = subprocess.run([str(ROOT / SCRIPT), str(out)], cwd=tmp_path, env=setting)
    assert process.returncode and log.read_text().splitlines() == [check_command]
    log.unlink()
    subprocess.run([str(ROOT / SCRIPT), str(out), "--uncommitted"], cwd=tmp_path, env=setting, check=True)
    called = log.read_text().splitlines()
    assert check_command not in called and called[-1] == f"-P -m roofbook.cli record {out} --uncommitted"


def test_the_picture_is_made_by_a_command_that_works() -> None:
    command = subprocess.run(["make", "-n", "picture"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in command.splitlines() if "roofbook chart" in line]
    options = cli.app.commands["chart"].make_context("chart", shlex.split(line)[2:]).params
    lab = options["lab"]
    lab.case(options["case"], options["scale"])
    assert [lab.variant(name).name for name in options["only"]]
    assert f"({options['out']})" in (ROOT / "README.md").read_text()
    picture = (ROOT / options["out"]).read_text()
    assert "prefers-color-scheme: dark" in picture and "currentColor" in picture


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text):
        link = "".join(target)
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link
    for path in re.findall(r"`((?:lib|tests|book|experiments|results|locks)/[\w./*-]*)`", text):
        if not re.search("NAME|saxpy", path) and not path.startswith(("results/local", "results/tuning/local")):
            assert path == "results/recorded" or (ROOT / path).exists(), path


def test_the_example_of_a_variant_is_the_ladders_own() -> None:
    """The page's row, evaluated in the ladder's module, equals the ladder's row except for its published figure."""
    from roofbook.labs.lbm import ladder, lattice

    (block,) = [text for page, text in fenced("python") if page == "add-a-variant.md"]
    example = eval(block, vars(ladder))
    variant = lattice.LAB.variant(example.name)
    assert {**vars(example), "published": None} == {**vars(variant), "published": None}
    (block,) = [text for page, text in fenced("c") if page == "add-a-variant.md"]
    kernel = iter((lattice.HERE / "fused.k").read_text().splitlines())
    assert [line for line in block.splitlines() if line not in kernel] == [], "lines of the kernel, in its order"


def test_the_page_on_labs_lists_the_members_that_a_lab_must_have() -> None:
    text = (ROOT / "book" / "add-a-lab.md").read_text()
    members = re.findall(r"^(\w+)\n: ", text.partition("## The lab in full")[2], re.M)
    optional = {"ladder", "peers", "case_class", "sweeps", "series", "parts"}
    assert set(members) == {*Lab.__abstractmethods__, *optional, "plan"} and all(
        hasattr(Lab, name) for name in optional - {"ladder"}
    )
    assert all(f"`{name}`" in text for name in Plan.__abstractmethods__ - {"__init__", *Runnable.__abstractmethods__})


def test_conda_installs_the_packages_of_pip() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    names = [dependency for dependency in listed if isinstance(dependency, str)] + next(
        dependency for dependency in listed if isinstance(dependency, dict)
    )["pip"]
    conda_names = {re.split(r"[ >=<\[]", name)[0] for name in names}
    renamed = {"duckdb": "python-duckdb"}
    pip_names = {re.split(r"[>=<\[]", dependency)[0] for dependency in project["dependencies"]}
    indirect = {
        *("docutils", "markdown-it-py", "myst-nb", "pybtex", "pygments", "sphinx"),  # by jupyter-book
        *("ipython", "traitlets"),  # by ipykernel
        *("nbformat", "pyyaml"),  # by papermill
    }
    assert {renamed.get(name, name) for name in pip_names} - indirect <= conda_names
    unneeded = (
        conda_names
        - {renamed.get(name, name) for name in pip_names}
        - {"python", "pip", "git", "make", "pocl", "ocl-icd-system", "-e"}
    )
    assert not unneeded, f"nobody needs {unneeded}"


def test_a_wrong_command_is_refused_without_running_it() -> None:
    """Check this file's own method: a wrong command raises."""
    with pytest.raises(click.UsageError):
        cli.app.commands["rerun"].make_context("rerun", ["lbm", "fused"])


def test_only_verdicts_of_claims_are_called_no_difference() -> None:
    """Everywhere else a ratio is `same` or `undecided`, and a report that sees no effect `claims none`."""
    text_by_source = {
        path.name: path.read_text()
        for path in [*(ROOT / "book").glob("*.md"), *sorted((ROOT / "experiments").glob("*.ipynb"))]
    }
    for name in registry.names():
        variant_texts = (
            text for variant in registry.get(name).all_variants() for text in (variant.change, variant.expect)
        )
        text_by_source[f"lab {name}"] = "\n".join(filter(None, variant_texts))
    lines_by_source = {name: re.findall(r".*no difference.*", text, re.I) for name, text in text_by_source.items()}
    assert {name: lines for name, lines in lines_by_source.items() if lines} == {"claims.md": ["no difference"]}
