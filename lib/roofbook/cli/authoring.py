"""Commands for authors of labs."""

import os
from pathlib import Path

import click

from ..terminal import say
from .app import UserPath, app


@app.group()
def new() -> None:
    """Write the files of something new, such as a lab."""


@new.command("lab")
@click.argument("name")
@click.option("--steps", required=True, metavar="A,B,...", help="Names of the steps, the baseline first.")
@click.option(
    "--in", "project", type=UserPath(file_okay=False), help="The project's folder.  [default: the nearest one]"
)
def new_lab(name: str, steps: str, project: Path | None) -> None:
    """Write a lab that runs at once, to change it into one of your own.

    Writes labs/NAME with its Python and its kernel, and experiments/NAME.ipynb. No file is overwritten.

    \b
      roofbook new lab saxpy --steps sequential,parallel,pairs
    """
    from ..book.new_lab import write_lab
    from ..paths import project_root
    from ..spec import registry

    root = (project or project_root()).resolve()
    paths = write_lab(root, name, [step.strip() for step in steps.split(",")])
    for path in paths:
        say(f"wrote {path.relative_to(root)}")
    folder = paths[0].parents[1]
    setting = "" if name in registry.folders() else f"ROOFBOOK_LABS={os.path.relpath(folder)} "
    say(f"Next: {setting}roofbook run {name} --scale test")
