"""Commands for authors of labs: begin a project, write a lab, check it."""

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from ..paths import SETTINGS, is_book, write_whole
from ..terminal import say
from .app import KNOWN_LAB, UserPath, app

if TYPE_CHECKING:
    from ..spec.lab import Lab

README = """# {title}

Labs of GPU kernels, measured by Roofbook. Each folder in `labs/` is one lab.

    roofbook labs          # those of this project and of the book
    roofbook run LAB       # measure one; rows go to results/
    roofbook build         # a site of this project's labs
"""


@app.command()
@click.argument("folder", type=UserPath(), default=".", required=False)
def init(folder: Path) -> None:
    """Make FOLDER a project for labs of your own.

    Writes roofbook.toml, labs/ and a README.md where they are missing. The current folder is the default:

    \b
      roofbook init my-kernels
    """
    folder = folder.absolute()
    if is_book(folder):
        raise UsageError(f"{folder} is a checkout of Roofbook: its labs are in lib/roofbook/labs")
    title = folder.resolve().name or "Kernels"
    settings = f'# Makes this folder a project of Roofbook.\ntitle = "{title.translate(_IN_TOML)}"\n'
    texts = {folder / SETTINGS: settings, folder / "README.md": README.format(title=title)}
    made = [path for path in texts if not path.exists()]
    if not (folder / "labs").is_dir():
        made.append(folder / "labs")
    for path in made:
        if path in texts:
            write_whole(path, texts[path])
        else:
            path.mkdir(parents=True)
    names = ", ".join(path.name + "/" * path.is_dir() for path in made)
    say(f"{folder}: wrote {names}" if made else f"{folder} is a project already: nothing was written")


_IN_TOML = str.maketrans({"\\": "\\\\", '"': '\\"', **{chr(code): " " for code in [*range(32), 127]}})
"""Replacements of characters that a text of TOML cannot hold as they are."""


@app.group(invoke_without_command=True)
@click.pass_context
def new(context: click.Context) -> None:
    """Write the files of something new, such as a lab."""
    if context.invoked_subcommand is None:
        print(context.get_help())


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
    from ..spec.registry import PEAKS

    if lab.name == PEAKS:
        raise UsageError(f"{PEAKS} measures the device and has no ladder to check; name a lab")
    all_faults = list(faults(lab, project_root()))
    for fault in all_faults:
        say(fault, hang=2)
    sys.exit(1 if all_faults else 0)
