"""Commands for authors of labs."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..terminal import say
from .app import KNOWN_LAB, UserPath, app

if TYPE_CHECKING:
    from ..spec.lab import Lab


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


@app.command()
@KNOWN_LAB
def lint(lab: "Lab") -> None:
    """Say what a lab lacks, in sentences.

    Reads its ladder, its texts, its cases and its notebook, compiles each kernel for OpenCL and CUDA as far as this machine has
    their compilers, and tries the check with wrong outputs. The exit code is 1 if there is anything to say.

    \b
      roofbook lint saxpy
    """
    from ..book.lint import faults
    from ..paths import project_root

    all_faults = list(faults(lab, project_root()))
    for fault in all_faults:
        say(fault, hang=2)
    sys.exit(1 if all_faults else 0)
