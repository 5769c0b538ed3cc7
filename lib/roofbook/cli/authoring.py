"""Commands for authors of labs."""

import os
import shlex
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
@click.option("--in", "project", type=UserPath(file_okay=False), help="Folder of another project.")
def new_lab(name: str, steps: str, project: Path | None) -> None:
    """Write a lab that runs at once, to change it into one of your own.

    Writes labs/NAME with its Python and its kernel, and experiments/NAME.ipynb, into the nearest project, else into the
    current folder, which becomes one. No file is overwritten.

    \b
      roofbook new lab saxpy --steps sequential,parallel,pairs
    """
    from ..book.new_lab import write_lab
    from ..paths import project_root

    current = Path.cwd()
    nearest = project_root()
    root = (project or (nearest if current.is_relative_to(nearest) else current)).resolve()
    paths = write_lab(root, name, [step.strip() for step in steps.split(",")])
    for path in paths:
        say(f"wrote {path.relative_to(root)}")
    change_folder = "" if project_root() == root else f"cd {shlex.quote(os.path.relpath(root))} && "
    say(f"Next: {change_folder}roofbook run {name} --scale test")
