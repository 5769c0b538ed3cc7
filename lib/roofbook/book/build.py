"""Build of the whole book: outdated pages, lab by lab, then the site. Serves `roofbook build`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..devices.find import why_auto
from ..errors import one_of
from ..terminal import say
from . import execute, site
from .input_hashes import InputHashes
from .manifest import build_lock, reason_text


class Due(NamedTuple):
    """A page to be made, with its parameters and the reason."""

    parameters: Mapping[str, Any]
    reason: str


def build(root: Path, parameters: Mapping[str, Any], *, fresh: bool = False, labs: Sequence[str] = ()) -> None:
    """Make every outdated part of the book of the checkout `root`, and report each with the reason.

    parameters: those of all notebooks; if empty, each page keeps those of its last execution. fresh: make every page.
    labs: names of the notebooks that may be executed; all without any. Other pages stay as they are.
    """
    notebooks = execute.notebooks(root)
    for lab in labs:
        if lab not in (names := [notebook.stem for notebook in notebooks]):
            raise one_of("lab with a notebook", lab, names)
    for notebook in notebooks:
        execute.check_notebook(notebook)
    with build_lock(root, say):
        _make(root, parameters, fresh, labs)


def _make(root: Path, parameters: Mapping[str, Any], fresh: bool, labs: Sequence[str]) -> None:
    from . import fragments, render_recorded

    now = InputHashes(root)
    due = {
        notebook: page
        for notebook, page in _due(root, parameters, fresh, now).items()
        if not labs or notebook.stem in labs
    }
    if any(page.parameters.get("device", "auto") == "auto" for page in due.values()) and (fallback := why_auto()):
        say(fallback)
    without_page = [notebook for notebook in execute.notebooks(root) if not execute.page_of(root, notebook).exists()]
    missing = [notebook for notebook in without_page if notebook in due]
    if render_recorded.stale(root, now):  # if pages are missing, readers want a first site soon
        say(f"Drawing the labs on {'the best recorded device' if missing else 'recorded devices'}")
        render_recorded.draw(root, best_only=bool(missing))
    render_recorded.unexecuted(root, without_page)
    if due:
        _execute(root, due, missing)
    if missing:  # most are drawn by now
        render_recorded.draw(root)
    if due:
        index = _make_site(root)
    else:  # it may be current
        fragments.update(root)
        index = site.build(root, progress=say)
    say(f"The book is built: {index}")


def _make_site(root: Path) -> Path:
    """Make the stale fragments and a stale site, whose builder starts meanwhile; return the site's index.html."""
    from . import fragments

    with site.start(root) as builder:
        fragments.update(root)
        return site.build(root, progress=say, builder=builder)


def _due(root: Path, parameters_given: Mapping[str, Any], fresh: bool, now: InputHashes) -> dict[Path, Due]:
    """Return the pages to be made, by their notebooks."""
    due = {}
    for notebook in execute.notebooks(root):
        page_parameters = {"scale": "quick", "device": "auto", **parameters_given}
        if not parameters_given:
            page_parameters = execute.parameters_of(root, notebook) or page_parameters
        changed = execute.stale(root, notebook, page_parameters, now)
        if fresh or changed:
            due[notebook] = Due(page_parameters, reason_text(changed) or "as asked")
    return due


def _execute(root: Path, due: Mapping[Path, Due], missing: Sequence[Path]) -> None:
    """Execute notebooks. If pages were `missing`, build a site of recorded devices first; executed pages join it at the end."""
    from .background_jobs import BackgroundJobs

    labs = {notebook.stem: page.parameters for notebook, page in due.items()}
    with BackgroundJobs(root, labs, draw=bool(missing)) as jobs:
        if missing:
            index = _make_site(root)
            say(f"It can be read: {index.as_uri()}. What is measured here joins it at the end")
        for done, (notebook, page) in enumerate(due.items(), 1):
            remaining = f"; then {', '.join(path.stem for path in list(due)[done:])}" if done < len(due) else ""
            parameters = execute.parameters_text(page.parameters)
            say(f"{done} of {len(due)}: executing {notebook.name} with {parameters}: {page.reason}{remaining}")
            execute.execute(root, notebook, page.parameters)
        if missing:
            jobs.wait_for_drawing(say)
