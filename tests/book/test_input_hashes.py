"""Input hashes of pages, by name: of code without comments, of kernels as texts, and only of the labs that a page needs."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from roofbook import paths
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import input_hashes
from roofbook.book.input_hashes import InputHashes
from roofbook.devices import provenance
from roofbook.devices.find import open_device
from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_comparison import INTEL, POCL, row


@pytest.fixture
def library(unmeasured: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return a checkout, and a copy of the library that is hashed in place of this one."""
    root = unmeasured()
    library_copy = root / "lib"
    shutil.copytree(paths.LIBRARY, library_copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(input_hashes, "LIBRARY", library_copy)
    return root, library_copy


def test_a_page_depends_on_each_of_its_inputs_by_name(
    library: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, code = library
    notebook = root / "experiments" / "lbm.ipynb"
    last = InputHashes(root).page(notebook, {})

    def changed(parameters: dict[str, str] | None = None) -> set[str]:
        """Return the names of the inputs that changed since the last call."""
        nonlocal last
        now, before = InputHashes(root).page(notebook, parameters or {}), last
        last = now
        return {name for name in now if now[name] != before[name]}

    def append(path: Path, text: str) -> None:
        path.write_text((path.read_text() if path.exists() else "") + text)

    assert changed() == set()
    append(code / "report" / "bars.py", "\n# a comment\n")
    append(code / "labs" / "lbm" / "plans.py", "\n# a comment\n")
    append(code / "labs" / "cnn" / "plans.py", "\nLIMIT = 3\n")
    append(code / "labs" / "cnn" / "new.k", "kernel")
    append(root / "results" / "published" / "cnn.csv", "\n")
    append(code / ".hidden", "")
    append(root / "results" / ".hidden", "")
    assert changed() == set(), "comments, and other labs"
    append(code / "report" / "bars.py", "\nLIMIT = 3\n")
    assert changed() == {"library"}
    append(code / "labs" / "lbm" / "plans.py", "\nLIMIT = 3\n")
    assert changed() == {"lab"}
    append(code / "labs" / "peaks" / "plans.py", "\nLIMIT = 3\n")
    assert changed() == {"lab"}, "each page shows the peaks"
    append(code / "labs" / "lbm" / "fused.k", "// a comment\n")
    assert changed() == {"kernels"}, "pages show them"
    append(code / "spec" / "dialect" / "cuda.h", "\n")
    assert changed() == {"kernels"}
    append(root / "results" / "published" / "lbm.csv", "\n")
    assert changed() == {"published"}
    append(root / "results" / "published" / "claims" / "lbm.csv", "\n")
    assert changed() == {"published"}
    append(notebook, "\n")
    assert changed() == {"notebook"}
    assert changed({"scale": "test"}) == {"parameters"}
    assert changed({"scale": "test", "remeasure": "yes"}) == set()
    assert changed() == {"parameters"}
    run = root / "results" / "recorded" / "lab=lbm" / "device=x" / "20260101T000000Z-000000.parquet"
    run.parent.mkdir(parents=True)
    run.touch()
    assert changed() == {"store"}
    environment = provenance.environment
    monkeypatch.setattr(provenance, "environment", lambda device: {**environment(device), "python": "4.0"})
    assert changed() == {"device"}
    assert changed({"device": open_device().spec}) <= {"parameters", "device"}, (
        "another word, and the lab's own backend"
    )
    with pytest.raises(UsageError, match="unknown device"):
        InputHashes(root).page(notebook, {"device": "cuda:77"})


def test_another_notebook_depends_on_every_lab(library: tuple[Path, Path]) -> None:
    root, code = library
    demo = root / "experiments" / "demo.ipynb"
    shutil.copy(demo.with_stem("lbm"), demo)
    before = InputHashes(root).page(demo, {})
    (code / "labs" / "cnn" / "new.k").write_text("kernel")
    now = InputHashes(root).page(demo, {})
    assert {name for name in now if now[name] != before[name]} == {"kernels"}


@pytest.mark.parametrize("lab", [*registry.names(), registry.PEAKS])
def test_no_import_of_another_lab_is_missed(lab: str) -> None:
    """A page depends on each lab that the syntax trees of its labs import, also in imports over several lines."""
    labs = InputHashes(paths.LIBRARY).with_imported(lab)
    assert {lab, registry.PEAKS} <= labs <= {*registry.names(), registry.PEAKS}
    for file in (path for name in labs for path in (paths.LIBRARY / "labs" / name).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                words = set(re.findall(r"\w+", ast.unparse(node)))
                assert words & {*registry.names(), registry.PEAKS} <= labs, f"{file}: {ast.unparse(node)}"


def test_recorded_sections_and_verdicts_depend_on_one_lab_and_comparisons_on_all(library: tuple[Path, Path]) -> None:
    root, code = library

    def hashes_by_question() -> dict[str, dict[str, str]]:
        now = InputHashes(root)
        return {
            "recorded": now.recorded("lbm", Store(root / "results")),
            "verdicts": now.verdicts("lbm"),
            "comparison": now.comparison(),
            "ladders": now.ladders(),
            "ends": now.ends({}),
        }

    before = hashes_by_question()
    (code / "labs" / "stencil" / "new.k").write_text("kernel")
    now = hashes_by_question()
    changed = {name: [key for key in now[name] if now[name][key] != before[name][key]] for name in now}
    assert changed == {
        "recorded": [], "verdicts": [], "comparison": ["kernels"], "ladders": ["kernels"], "ends": ["kernels"],
    }  # fmt: skip
    assert InputHashes(root).ends({"lbm": {"store": "1"}}) != InputHashes(root).ends({"lbm": {"store": "2"}})


def test_quick_runs_change_the_comparison_only_if_a_cpu_was_measured_by_two_platforms(
    unmeasured: Callable[[], Path],
) -> None:
    """So quick runs of `make book` change the hash only if the comparison shows them."""
    root = unmeasured()

    def store_hash_with(*places: StoreDevice) -> str:
        rows = [row("fused", 1e-4, place, scale="quick") | {"run": f"2026-{place.slug}"} for place in places]
        Store(root / "results").append(rows, "local")
        return InputHashes(root).comparison()["store"]

    without_rows = InputHashes(root).comparison()["store"]
    assert store_hash_with(POCL) == without_rows
    with_both = store_hash_with(INTEL)
    assert with_both != without_rows
    assert store_hash_with(replace(POCL, slug="another")) != with_both


def test_the_site_depends_on_the_files_of_the_book(unmeasured: Callable[[], Path]) -> None:
    root = unmeasured()
    before = InputHashes(root).site()
    for name, file in (
        ("pages", "method.md"), ("assets", "_assets/roofbook.css"), ("settings", "_toc.yml"), ("settings", "conf.py"),
        ("fragments", "_generated/new.html"), ("settings", "../_config.yml"), ("pages", "labs/lbm.ipynb"),
    ):  # fmt: skip
        path = root / "book" / file
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + "\n")
        now = InputHashes(root).site()
        assert [kind for kind in now if now[kind] != before[kind]] == [name], file
        before = now
    (root / "book" / ".ipynb_checkpoints").mkdir()
    (root / "book" / ".ipynb_checkpoints" / "lbm.ipynb").touch()
    assert InputHashes(root).site() == before
