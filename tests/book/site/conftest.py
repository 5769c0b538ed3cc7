"""The book as a reader has it: every notebook executed, and the site built from them and served."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.spec import registry
from roofbook.spec.lab import Lab

from ...served import served
from ..drawing import in_this_process

ROOT = Path(__file__).parents[3]
FEW = 2
"""Number of a notebook's first steps that stand for its ladder."""
DEVICES = (
    *("nvidia-h200/cuda", "nvidia-h200/opencl", "nvidia-h200/cuda/large"),
    "intel-r-xeon-r-processor-16-cores/opencl/large",
)
"""Recorded devices that readers of the stencil's page can choose."""
SWEPT = "buffers"
"""Sweep, of empty kernels, that stands for all sweeps."""


PRECOMPILED = ("peaks", "stencil")
"""Notebooks whose kernels are compiled by several processes beforehand: for few kernels these cost more than they compile."""


def few_steps(lab: Lab) -> list[str]:
    """Return the variants that stand for all of a lab: its first steps, the best one, and the ends of a sweep."""
    swept = [variant.name for sweep in lab.sweeps if sweep.axis == SWEPT for variant in sweep.variants]
    return list(dict.fromkeys([*[step.name for step in lab.ladder[:FEW]], lab.best, *swept[:1], *swept[-1:]]))


@pytest.fixture(scope="session")
def executed(request: pytest.FixtureRequest, unmeasured: Callable[[], Path]) -> dict[str, Path]:
    """Execute every notebook at scale `test` in a separate checkout, three samples a measurement; return the pages by lab.

    Without the thorough tests a lab's notebook measures a few steps; tests/labs verifies all of them.
    """
    from roofbook.book import cached_demonstration, execute
    from roofbook.labs.lenet import demonstration
    from roofbook.measure import precompile

    root, short, pages = unmeasured(), "not thorough" in request.config.option.markexpr, {}
    for notebook in execute.notebooks(root):
        name = notebook.stem
        parameters: dict[str, Any] = {"scale": "test", "budget_s": 1e-6}
        few = short and name != registry.PEAKS
        if few:
            parameters["variants"] = few_steps(registry.get(name))
        with pytest.MonkeyPatch.context() as patch:
            if short and name not in PRECOMPILED:
                patch.setattr(precompile, "LEAST_KERNELS", sys.maxsize)
            if few and name == "lenet":  # whose demonstration is the reference on a hundred images
                patch.setattr(demonstration, "IMAGES", 10)
                patch.setattr(cached_demonstration, "cached_text", lambda kind, key, make: make())
            pages[name] = execute.execute(root, notebook, parameters)
    return pages


@pytest.fixture(scope="session")
def executed_lbm(executed: dict[str, Path]) -> Path:
    """Return the path of the executed LBM notebook."""
    return executed["lbm"]


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory, executed: dict[str, Path]) -> Path:
    """Return a checkout with the site's sources, the executed notebooks, and a wide page that strains the layout.

    The written pages show all recorded devices, the stencil's page those of DEVICES, and the other labs' pages this machine.
    """
    from roofbook.book import fragments, render_recorded

    folder = tmp_path_factory.mktemp("checkout")
    for name in ("_config.yml", "CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(executed["lbm"].parents[1], folder / "book")
    shutil.copy(Path(__file__).with_name("strain.md"), folder / "book" / "labs")
    (folder / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "stencil.ipynb", folder / "experiments")
    (folder / "results").mkdir()
    (folder / "results" / "recorded").symlink_to(ROOT / "results" / "recorded")
    (folder / "results" / "published").symlink_to(ROOT / "results" / "published")
    extents = render_recorded.extents
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(render_recorded, "_processes", in_this_process)
        patch.setattr(
            render_recorded,
            "extents",
            lambda root, lab: [extent for extent in extents(root, lab) if extent.choice.name in DEVICES],
        )
        render_recorded.draw(folder)
    fragments.update(folder)
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
