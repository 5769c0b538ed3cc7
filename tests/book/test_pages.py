"""What the prose pages tell a reader to type is there and works: commands, files, names, the examples of code."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from roofbook import cli
from roofbook.book.experiment import PARAMETERS, check
from roofbook.spec import registry
from roofbook.spec.lab import Lab

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "book").glob("*.md"))]
CHEAP = {"devices", "labs", "explain", "diff", "show", "export"}


def fenced(language: str) -> Iterator[tuple[str, str]]:
    """(page, text) of each fenced block in a language."""
    for page in PAGES:
        for text in re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S):
            yield page.name, text


def typed() -> list[tuple[str, list[str]]]:
    """(page, words) of every command that a page gives: in blocks of shell, and in the running text."""
    found = []
    for page, text in fenced("sh"):
        for line in text.splitlines():
            for command in line.split("&&"):
                found.append((page, shlex.split(command, comments=True)))
    for path in PAGES:
        for text in re.findall(r"`((?:roofbook|make|papermill) [^`\n]+)`", path.read_text()):
            found.append((path.name, shlex.split(text)))
    bare = [(page, [*dropwhile(lambda word: re.match(r"[A-Z_]+=", word), words)]) for page, words in found]
    return [(page, [words[0].removeprefix(".venv/bin/"), *words[1:]]) for page, words in bare if words]


COMMANDS = typed()
SCRIPT = "results/record.sh"


def of(program: str) -> list[Any]:
    return [
        pytest.param(words[1:], id=f"{page}: {shlex.join(words)}") for page, words in COMMANDS if words[0] == program
    ]


def test_every_command_of_the_pages_is_of_a_known_program() -> None:
    """So that each is looked at by one of the tests below."""
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
    assert len(of("roofbook")) > 20


@pytest.mark.parametrize("words", of("roofbook"))
def test_the_commands_are_as_the_program_has_them(
    words: list[str],
    unmeasured: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if words == ["--help"]:
        return
    command = cli.app.commands[words[0]]
    placeholders = {"LAB": "lbm", "NAME": "lbm", "VARIANT": "fused", "CASE": "128x128"}
    words = [placeholders.get(word, word) for word in words]
    context = command.make_context(words[0], words[1:], resilient_parsing=len(words) == 1)
    given = context.params
    if given.get("lab"):
        lab = registry.get(given["lab"])
        for name in [*filter(None, [given.get("variant")]), *given.get("only", ())]:
            assert (words[0], name) == ("profile", "all") or lab.variant(name)
        if given.get("case"):
            lab.case(given["case"], given.get("scale") or "quick")
    for name, value in given.get("parameter", ()):
        assert name in PARAMETERS
        meant = check({name: yaml.safe_load(value)})[name]
        for each in meant if name in ("variants", "cases") else ():
            assert lab.variant(each) if name == "variants" else lab.case(each, given["scale"])
    if words[0] in CHEAP and (len(words) > 1 or words[0] in ("devices", "labs")):
        place = unmeasured()
        monkeypatch.chdir(place)
        monkeypatch.setattr(sys, "argv", ["roofbook", *words])
        cli.main()
        assert capsys.readouterr().out or list(place.glob("*.csv")) or list(place.glob("*.parquet"))


@pytest.mark.parametrize("words", of("papermill"))
def test_the_calls_of_papermill_name_a_notebook_and_its_parameters(words: list[str]) -> None:
    assert (ROOT / words[0]).exists() and words[1].endswith(".ipynb")
    named = [words[at + 1] for at, word in enumerate(words) if word == "-p"]
    assert named and set(named) <= set(PARAMETERS)


@pytest.mark.parametrize("words", of("dask"))
def test_the_calls_of_dask_have_options_that_it_takes(words: list[str]) -> None:
    parts = {"scheduler": "dask_scheduler", "worker": "dask_worker"}
    if words[0] in parts:
        module = pytest.importorskip(f"distributed.cli.{parts[words[0]]}")
        module.main.make_context(words[0], words[1:])


@pytest.mark.parametrize("words", of("pip"))
def test_what_pip_is_asked_for_is_an_extra(words: list[str]) -> None:
    extra = re.fullmatch(r"install -e \.\[(\w+)\]", " ".join(words))
    assert (
        extra and extra[1] in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    )


@pytest.mark.parametrize("words", of("make"))
def test_the_targets_of_make_are_there(words: list[str]) -> None:
    rules = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{words[0]}:", rules, re.M) and words[0] in re.findall(r"\.PHONY: (.*)", rules)[0].split()
    for setting in words[1:]:
        name, _, value = setting.partition("=")
        assert f"$(call taken_from_command_line,{name}," in rules
        if name in ("GPU", "WITH"):
            assert (ROOT / "locks" / f"{value}.txt").exists()


def test_make_installs_by_hash_alone() -> None:
    """Its installer too; only this package itself has none."""
    rules = (ROOT / "Makefile").read_text()
    installs = re.findall(r"call INSTALL,(.*)\)$|(?<!INSTALL = )(?<=\t).*-m pip install (.*)$", rules, re.M)
    said = ["".join(each) for each in installs]
    assert len(said) == 3 and [each for each in said if "--require-hashes" not in each] == [
        "--no-deps --no-build-isolation --editable ."
    ]
    for lock in (ROOT / "locks").glob("*.txt"):
        pinned = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock.read_text(), flags=re.M))
        assert all(re.match(r"[\w.-]+==", each) and "--hash=sha256:" in each for each in pinned), lock


@pytest.mark.parametrize("words", of(SCRIPT))
def test_the_script_that_records_takes_what_it_is_given(words: list[str], tmp_path: Path) -> None:
    """Where all packages are there it installs nothing: here pip only says what it would do, of a checkout that is clean."""
    fake = tmp_path / "out" / ".venv" / "bin" / "python"
    fake.parent.mkdir(parents=True)
    fake.write_text('#!/bin/sh\necho "$@" >> "$0.log"\n')
    fake.chmod(0o755)
    command = [str(ROOT / SCRIPT), *(str(tmp_path / "out") if word == "OUT" else word for word in words)]
    subprocess.run(command, check=True, cwd=tmp_path, env={**os.environ, "PYTHON": str(fake)})
    called = fake.with_name("python.log").read_text().splitlines()
    installs = [line for line in called if "-m pip install" in line]
    assert any("locks/record.txt" in line for line in installs)
    for line in installs:  # by hash alone, what locks pin
        (lock,) = re.findall(r"--requirement (\S+)", line)
        assert "--require-hashes" in line and Path(lock).is_file() and Path(lock).is_relative_to(ROOT / "locks")
    assert shlex.split(called[-1])[:4] == ["-P", "-m", "roofbook.cli", "record"]
    assert cli.app.commands["record"].make_context("record", shlex.split(called[-1])[4:])


def test_the_script_that_records_asks_for_a_commit_before_it_installs_anything(tmp_path: Path) -> None:
    log, python, out = tmp_path / "log", tmp_path / "python", tmp_path / "out"
    python.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$3" != roofbook.devices.checkout ]\n')
    python.chmod(0o755)
    own = out / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(python)
    setting = {**os.environ, "PYTHON": str(python)}
    asked = f"-P -m roofbook.devices.checkout {out}"
    refused = subprocess.run([str(ROOT / SCRIPT), str(out)], cwd=tmp_path, env=setting)
    assert refused.returncode and log.read_text().splitlines() == [asked]
    log.unlink()
    subprocess.run([str(ROOT / SCRIPT), str(out), "--uncommitted"], cwd=tmp_path, env=setting, check=True)
    called = log.read_text().splitlines()
    assert asked not in called and called[-1] == f"-P -m roofbook.cli record {out} --uncommitted"


def test_the_picture_is_made_by_a_command_that_works() -> None:
    command = subprocess.run(["make", "-n", "picture"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (line,) = [line for line in command.splitlines() if "roofbook chart" in line]
    given = cli.app.commands["chart"].make_context("chart", shlex.split(line)[2:]).params
    lab = registry.get(given["lab"])
    lab.case(given["case"], given["scale"])
    assert [lab.variant(name).name for name in given["only"]]
    assert f"({given['out']})" in (ROOT / "README.md").read_text()
    picture = (ROOT / given["out"]).read_text()
    assert "prefers-color-scheme: dark" in picture and "currentColor" in picture


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_path_leads_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)|src=\"([^\"]+)\"", text):
        link = "".join(target)
        if not link.startswith("http"):
            assert (page.parent / link).exists(), link
    for path in re.findall(r"`((?:lib|tests|book|experiments|results|locks)/[\w./*-]*)`", text):
        if "NAME" not in path and not path.startswith("results/local"):
            assert path == "results/recorded" or (ROOT / path).exists(), path


def test_the_example_of_a_variant_is_the_ladders_own() -> None:
    """The row that the page shows, evaluated where the ladder is, is the ladder's, but for what was published of it."""
    from roofbook.labs.lbm import ladder, lattice

    (block,) = [text for page, text in fenced("python") if page == "add-a-variant.md"]
    shown = eval(block, vars(ladder))
    own = lattice.LAB.variant(shown.name)
    assert {**vars(shown), "published": None} == {**vars(own), "published": None}
    (block,) = [text for page, text in fenced("c") if page == "add-a-variant.md"]
    kernel = iter((lattice.HERE / "fused.k").read_text().splitlines())
    assert [line for line in block.splitlines() if line not in kernel] == [], "lines of the kernel, in its order"


def test_the_page_on_labs_asks_for_what_a_lab_must_have() -> None:
    text = (ROOT / "book" / "add-a-lab.md").read_text()
    asked = re.findall(r"^(\w+)\n: ", text, re.M)
    optional = {"ladder", "peers", "conditions", "case_class", "sweeps", "series", "parts"}
    assert set(asked) == {*Lab.__abstractmethods__, *optional} and all(
        hasattr(Lab, name) for name in optional - {"ladder"}
    )


def test_conda_brings_what_pip_brings() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    names = [each for each in listed if isinstance(each, str)] + next(
        each for each in listed if isinstance(each, dict)
    )["pip"]
    known = {re.split(r"[ >=<\[]", name)[0] for name in names}
    renamed = {"duckdb": "python-duckdb"}
    wanted = {re.split(r"[>=<\[]", each)[0] for each in project["dependencies"]}
    brought_along = {"myst-nb"}  # by jupyter-book
    assert {renamed.get(name, name) for name in wanted} - brought_along <= known
    extra = (
        known
        - {renamed.get(name, name) for name in wanted}
        - {"python", "pip", "git", "make", "pocl", "ocl-icd-system", "-e"}
    )
    assert not extra, f"nobody needs {extra}"


def test_click_alone_reads_the_commands() -> None:
    """A guard of this file's own: a command that is wrong is found out."""
    with pytest.raises(click.UsageError):
        cli.app.commands["rerun"].make_context("rerun", ["lbm", "fused"])


def test_no_difference_is_the_verdict_of_a_claim_and_nothing_else() -> None:
    """What a ratio shows is `same` or `undecided` wherever it stands; a report that sees no effect `claims none`."""
    told = {
        path.name: path.read_text()
        for path in [*(ROOT / "book").glob("*.md"), *sorted((ROOT / "experiments").glob("*.ipynb"))]
    }
    for name in registry.names():
        texts = (text for each in registry.get(name).all_variants() for text in (each.change, each.expect))
        told[f"lab {name}"] = "\n".join(filter(None, texts))
    found = {name: re.findall(r".*no difference.*", text, re.I) for name, text in told.items()}
    assert {name: lines for name, lines in found.items() if lines} == {"claims.md": ["no difference"]}
