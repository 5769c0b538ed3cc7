"""Makes the book: the pages that are not up to date, lab by lab, and the site. What `roofbook build` stands on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..devices.find import why_auto
from ..terminal import say
from . import execute, site
from .input_hashes import InputHashes
from .manifest import because, making
from .noop_check import FileTimes


class Due(NamedTuple):
    """A page that is to be made: with which parameters, and why."""

    parameters: Mapping[str, Any]
    why: str


def build(root: Path, wanted: Mapping[str, Any], *, fresh: bool = False) -> None:
    """Make what is not up to date of the book of the checkout `root`, and say what and why.

    wanted: parameters of all notebooks; without any, each page is made as it was last. fresh: each page is made anew.
    """
    if not fresh and FileTimes(root, wanted).is_known():
        say(f"The site is up to date: {root / site.INDEX}")
        return
    for notebook in execute.notebooks(root):
        execute.check_notebook(notebook)
    with making(root, say):
        _make(root, wanted, fresh)


def _make(root: Path, wanted: Mapping[str, Any], fresh: bool) -> None:
    # These bring pandas and Sphinx: half of the time of a build with nothing to do.
    from . import (
        fragments,
        render_recorded,
    )  # which bring pandas and Sphinx: half of the time of a build with nothing to do

    before, now = FileTimes(root, wanted), InputHashes(root)
    due = _due(root, wanted, fresh, now)
    if any(page.parameters.get("device", "auto") == "auto" for page in due.values()) and (taken := why_auto()):
        say(taken)
    missing = [notebook for notebook in due if not execute.page_of(root, notebook).exists()]
    if render_recorded.stale(root, now):  # with pages that are missing a site is wanted soon
        say(f"Drawing the labs on {'the best recorded device' if missing else 'recorded devices'}")
        render_recorded.draw(root, best_only=bool(missing))
    if due:
        _execute(root, due, missing)
    builder = site.start(root) if due else None  # it gets ready meanwhile
    try:
        if missing:  # most are drawn by now
            render_recorded.draw(root)
        fragments.renew(root)
        say(f"The book is built: {site.build(root, progress=say, builder=builder)}")
    finally:
        if builder:
            builder.kill()
            builder.wait()
    if due:  # rows came meanwhile: whether they leave something to do
        before, now = FileTimes(root, wanted), InputHashes(root)
        if _due(root, wanted, False, now) or render_recorded.stale(root, now):
            return
        fragments.renew(root)
        site.build(root)
    FileTimes(root, wanted).remember(before)


def _due(root: Path, wanted: Mapping[str, Any], fresh: bool, now: InputHashes) -> dict[Path, Due]:
    """By their notebooks, the pages that are to be made."""
    due = {}
    for notebook in execute.notebooks(root):
        parameters = {"scale": "quick", "device": "auto", **wanted}
        if not wanted:
            parameters = execute.parameters_of(root, notebook) or parameters
        changed = execute.stale(root, notebook, parameters, now)
        if fresh or changed:
            due[notebook] = Due(parameters, because(changed) or "as asked")
    return due


def _execute(root: Path, due: Mapping[Path, Due], missing: Sequence[Path]) -> None:
    """Execute notebooks. Where pages are `missing`, a site of recorded devices alone comes first, and each page joins it."""
    from . import fragments, render_recorded
    from .background_jobs import BackgroundJobs

    if missing:
        render_recorded.unexecuted(root, missing)
    labs = {notebook.stem: page.parameters for notebook, page in due.items()}
    with BackgroundJobs(root, labs, draw=bool(missing)) as meanwhile:
        if missing:
            fragments.renew(root)
            index = site.build(root, progress=say)
            say(f"It can be read: {index.as_uri()}. Each page is made anew when its lab has run")
        for done, (notebook, page) in enumerate(due.items(), 1):
            left = f"; then {', '.join(each.stem for each in list(due)[done:])}" if done < len(due) else ""
            given = execute.said(page.parameters)
            say(f"{done} of {len(due)}: executing {notebook.name} with {given}: {page.why}{left}")
            execute.execute(root, notebook, page.parameters, here=True)
            if missing and left:
                meanwhile.renew_site()
        meanwhile.wait()
        if missing:
            meanwhile.wait_for_drawing(say)
