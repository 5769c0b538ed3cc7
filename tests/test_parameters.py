"""Parameters that a user types: `-p` as papermill reads it, `~` in any folder's name, and cases that some scales lack."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofbook import own_python, paths
from roofbook.book import record_device
from roofbook.book.experiment import parse_list
from roofbook.book.record_device import chosen_cases
from roofbook.cli.measuring import _literal
from roofbook.errors import UsageError
from roofbook.labs.lbm.sharded import Jax
from roofbook.spec import registry
from roofbook.spec.lab import by_make
from roofbook.store.storage import located

from .conftest import Command


@pytest.mark.parametrize(
    "text",
    [
        "1e-3", "1e3", "1E3", "1.", "010", "-010", "1:30", "12:30:45", "2024-05-01", "0x10", "0o17", "0b1", "1_000", "yes",
        "no", "on", "off", "y", "~", "", " ", "=", "128x128", "1e3x4", "auto", "opencl:0", "True", "False", "None", ".5", "-7",
        "+7", "nan", "inf",
        "2024-05-01T10:00:00Z", "{a: b}", "'quoted'", "a: b", "- a", "#7", "!!python/name:os.system", "&a", "*a",
    ],
)  # fmt: skip
def test_a_parameter_reads_as_papermill_reads_it(text: str) -> None:
    from papermill.cli import _resolve_type

    assert repr(_literal(text)) == repr(_resolve_type(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("false", False), ("null", None), ("[fused, soa]", ["fused", "soa"]), ('["fused"]', ["fused"]),
        ("[1e3, 010, yes, no, 1:30]", ["1e3", "010", "yes", "no", "1:30"]),
        ("[2024-05-01, 0x10, 64, ~]", ["2024-05-01", "0x10", "64", "~"]),
        ("[broken", "[broken"),
    ],
)  # fmt: skip
def test_lists_hold_texts(text: str, value: Any) -> None:
    assert _literal(text) == value
    assert not text.startswith("[") or parse_list(text) == value


def test_a_tilde_that_no_shell_expands_is_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    home, working_folder = tmp_path / "home", tmp_path / "here"
    for folder in (home / "rows" / "local", working_folder):
        folder.mkdir(parents=True)
    (home / "answer.k").write_text("not a kernel")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(working_folder)
    assert (
        located(working_folder, "~/rows") == home / "rows"
        and located(working_folder, "rows") == working_folder / "rows"
    )
    assert located(working_folder, "s3://bucket/~/x") == "s3://bucket/~/x"
    assert command("export", "--results", "~/rows", "--out", "~/cells.csv")[0] == 0
    assert (home / "cells.csv").exists()
    assert command("export", "--results=~/nowhere")[2].startswith("error: there is no store in ")
    assert command("push", "~/other", "--results", "~/rows")[0] == 0
    assert command("pull", "~/rows", "--results", "~/third")[0] == 0
    assert (
        "~" not in os.listdir(working_folder)
        and command("gate", "--against", "~/none.parquet")[2].count(str(home)) == 1
    )
    environment = own_python.environment({"XDG_CACHE_HOME": "~/cache", "POCL_CACHE_DIR": "~", "ROOFBOOK_DATA": "x~"})
    assert environment["XDG_CACHE_HOME"] == str(home / "cache") and environment["POCL_CACHE_DIR"] == str(home)
    assert environment["ROOFBOOK_DATA"] == "x~"


@pytest.mark.parametrize("text", ["~no-such-user/rows", "~no-such-user"])
def test_the_home_folder_of_nobody_is_refused(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Else a folder of that name would be made, in the checkout too."""
    monkeypatch.chdir(tmp_path)
    for words in (
        ("export", "--results", text), ("export", "--out", text), ("push", text), ("gate", "--against", f"{text}.parquet"),
        ("rerun", "stencil", "fused", "7x48", "--scale", "test", "--no-page", f"--results={text}"),
        ("exercise", "stencil", "fused", "--check", text), ("record", text, "--uncommitted", "--lab", "peaks"),
    ):  # fmt: skip
        code, _, errors = command(*words)
        assert code == 2 and "there is no user no-such-user" in errors and errors.count("\n") == 1, (words, errors)
    assert not os.listdir(tmp_path)
    (tmp_path / text.partition("/")[0]).mkdir()
    assert paths.expanded(text) == text, "a folder that is there is meant"


def test_a_home_folder_that_is_not_known_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", lambda text: text)  # as where no user has this number
    with pytest.raises(UsageError, match=r"^~/rows: the home folder is not known; \./~/rows is a folder of that name$"):
        paths.expanded("~/rows")


def test_a_case_is_recorded_at_the_scales_that_list_it() -> None:
    assert chosen_cases(["lbm"], (), ["128x128"], ()) == [("lbm", "published", ["128x128"], [])]
    large = [case.name for case in registry.get("lbm").cases("large")]
    two_scales = chosen_cases(["lbm"], (), ["128x128", large[0]], ())
    assert two_scales == [("lbm", "published", ["128x128"], []), ("lbm", "large", [large[0]], [])]
    assert {name for name, *_ in chosen_cases([], (), ["128x128"], ())} == {"lbm"}
    assert len(chosen_cases(["lbm", "cnn"], (), (), ())) == 4
    assert {name for name, *_ in chosen_cases([], (), ["1000x999"], ())} >= {"stencil"}
    sized = chosen_cases(["stencil"], (), ["1000x999"], ())
    assert sized == [("stencil", "published", ["1000x999"], [])], "a size that no scale lists, once"
    two_labs = chosen_cases(["stencil", "lbm"], ("test",), (), ["fused", "tree"])
    assert two_labs == [("stencil", "test", [], ["fused"]), ("lbm", "test", [], ["fused", "tree"])]


@pytest.mark.parametrize(
    ("cases", "variants", "message"),
    [
        (["128x129"], [], "unknown case '128x129' (did you mean '128x128'?); valid: "),
        (["128x128", "7x"], [], "unknown case '7x'"),
        ([], ["fusd"], "unknown variant 'fusd' (did you mean 'fused'?); valid: "),
        (["128x128"], ["fused", "no-such"], "unknown variant 'no-such'"),
    ],
)
def test_an_unknown_case_or_variant_is_refused_before_anything_is_measured(
    cases: list[str], variants: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_device, "_on_this_host", lambda *_, **__: pytest.fail("it was measured"))
    with pytest.raises(UsageError) as refusal:
        record_device.record(
            tmp_path / "out", labs=["lbm"], devices=[], scales=[], cases=cases, variants=variants, sweeps=False, host=True,
            runs=1, budget=0.1, limit=10, remeasure=False, uncommitted=True,
        )  # fmt: skip
    assert str(refusal.value).startswith(message)


class NotInstalled(Jax):
    @staticmethod
    def missing() -> str | None:
        return "JAX is not installed: pip install 'roofbook[peers]'"


def test_a_missing_package_is_named_with_the_projects_own_command() -> None:
    assert (
        by_make("JAX is not installed: pip install 'roofbook[peers]'")
        == "JAX is not installed: `make book WITH=peers` installs it"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "LIBRARY", Path("/usr/lib/python3/roofbook"))
        assert by_make("no JAX: pip install roofbook[peers]") == "no JAX: `pip install 'roofbook[peers]'` installs it"
    assert by_make(None) is None and by_make("no ghc") == "no ghc"
    lab = registry.get("lbm")
    variant = replace(lab.variant("jax"), plan=NotInstalled)
    assert lab.skip_reason(variant, lab.cases("test")[0]) == "JAX is not installed: `make book WITH=peers` installs it"
    makefile = (paths.LIBRARY.parents[1] / "Makefile").read_text()
    for extra in ("peers", "cluster", "bucket"):
        assert (paths.LIBRARY.parents[1] / "locks" / f"{extra}.txt").is_file() and extra in makefile
