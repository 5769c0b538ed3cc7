"""The book as a reader has it: every notebook executed, and the site built from them and served."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.spec import registry
from roofbook.spec.lab import Lab

from ...labs import page_exceptions
from ...served import served
from ...whole_notebooks import WHOLE

ROOT = Path(__file__).parents[3]
FEW = 4
"""Number of a notebook's first steps that stand for its ladder."""


def steps_of(lab: Lab, *, few: bool) -> list[str]:
    """Return the variants that a notebook measures: a few steps that stand for the ladder, or all but those of sweeps."""
    if few:
        return list(dict.fromkeys([*[step.name for step in lab.ladder[:FEW]], lab.best]))
    swept = {variant.name for sweep in lab.sweeps for variant in sweep.variants}
    return [variant.name for variant in lab.all_variants() if variant.name not in swept]


@pytest.fixture(scope="session")
def executed(request: pytest.FixtureRequest, unmeasured: Callable[[], Path]) -> dict[str, Path]:
    """Execute every notebook at scale `test` in a separate checkout, three samples a measurement; return the pages by lab.

    Without the thorough tests only the labs in WHOLE measure all their steps; the others' notebooks measure a few.
    """
    from roofbook.book import execute

    root, markexpr, pages = unmeasured(), request.config.option.markexpr, {}
    for notebook in execute.notebooks(root):
        parameters: dict[str, Any] = {"scale": "test", "budget_s": 1e-6}
        if notebook.stem not in WHOLE:
            parameters["variants"] = steps_of(registry.get(notebook.stem), few="not thorough" in markexpr)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in page_exceptions.of_lab(notebook.stem, "ENVIRONMENT").items():
                patch.setenv(name, value)
            pages[notebook.stem] = execute.execute(root, notebook, parameters)
    return pages


@pytest.fixture(scope="session")
def executed_lbm(executed: dict[str, Path]) -> Path:
    """Return the path of the executed LBM notebook."""
    return executed["lbm"]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory, executed: dict[str, Path]) -> Path:
    """Return a checkout with the site's sources, the executed notebooks, and a wide page that strains the layout.

    The stencil's page shows recorded devices as well.
    """
    from roofbook.book import kernels_page, render_recorded
    from roofbook.book.input_hashes import InputHashes
    from roofbook.book.manifest import Manifest

    folder = tmp_path_factory.mktemp("checkout")
    shutil.copy(ROOT / "_config.yml", folder)
    shutil.copytree(executed["lbm"].parents[1], folder / "book")
    (folder / "book" / "_generated").mkdir()
    shutil.copy(Path(__file__).with_name("strain.md"), folder / "book" / "labs")
    (folder / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "stencil.ipynb", folder / "experiments")
    for lab in ("stencil", registry.PEAKS):
        shutil.copytree(ROOT / "results" / "recorded" / f"lab={lab}", folder / "results" / "recorded" / f"lab={lab}")
    render_recorded.draw(folder)
    kernels_page.update(folder, Manifest(folder), InputHashes(folder))
    return folder


@pytest.fixture(scope="session")
def built_site(checkout: Path) -> Path:
    """Build the site from `checkout` by Jupyter Book, and return its folder."""
    from roofbook.book import site

    return site.build(checkout).parent


@pytest.fixture(scope="session")
def served_site(built_site: Path) -> Iterator[str]:
    """Serve the built site on this machine, and yield its address."""
    with served(built_site) as address:
        yield address
