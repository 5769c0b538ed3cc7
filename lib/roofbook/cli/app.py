"""The group that the commands join, and the arguments and options that several of them have."""

import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click

from ..errors import UsageError, one_of
from ..paths import expanded


@click.group(
    invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="roofbook")
@click.pass_context
def app(context: click.Context) -> None:
    """Measure a ladder of GPU kernel variants, keep every result, and read the book they make."""
    if context.invoked_subcommand is None:
        print(context.get_help())


SCALES = "quick, published, large or test"
DEVICES = "auto, or as `roofbook devices` lists them"


def _scales(_: click.Context, __: click.Parameter, given: Any) -> Any:
    """One scale, several or none. Each is known."""
    from ..spec.lab import SCALES as known

    for scale in [given] if isinstance(given, str) else given or ():
        if scale not in known:
            raise one_of("scale", scale, known)
    return given


of_scale = partial(click.option, "--scale", callback=_scales)
SCALE = of_scale(default="quick", show_default=True, help=f"{SCALES}.")
DEVICE = click.option("--device", default="auto", show_default=True, help=f"{DEVICES}.")


def filled(_: click.Context, __: click.Parameter, given: str | None) -> str | None:
    """Return what names a place, with `~` as the home folder. What is empty, as a shell's unset variable, is refused.

    No shell expands the `~` of --results=~/rows.
    """
    if given == "":
        raise click.BadParameter("it is empty")
    return given if given is None else expanded(given)


class UserPath(click.Path):
    """A file or folder as the user names it, with `~` as the home folder."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        return super().convert(expanded(value), parameter, context)


def number(_: click.Context, __: click.Parameter, given: float) -> float:
    """What lies in a range is a number: NaN is neither below nor above."""
    if math.isnan(given):
        raise click.BadParameter(f"{given} is not a number")
    return given


def _there(context: click.Context, option: click.Parameter, results: str) -> str:
    """A store to read. One that a user names is there."""
    results = str(filled(context, option, results))
    from ..paths import project_root
    from ..store.storage import located, storage_of

    if context.get_parameter_source("results") is not click.core.ParameterSource.DEFAULT:
        place = storage_of(located(project_root(), results))
        if not place.is_remote and not place.root.exists():
            seen = "" if str(place.root) == results else f", which is {place.root}"
            raise UsageError(f"there is no store in {results}{seen}")
    return results


_of_store = partial(
    click.option,
    "--results",
    default="results",
    show_default=True,
    help="The folder of the store, or s3://BUCKET/NAME.",
)
RESULTS = _of_store(callback=filled)
RECORDED = _of_store(callback=_there)
"""Of what is there already: a folder that is mistyped is no empty store."""
CLUSTER = click.option(
    "--cluster",
    metavar="ADDRESS",
    callback=filled,
    help="Measure by the workers of the Dask scheduler at ADDRESS.",
)
WORKERS = click.option(
    "--workers", type=click.IntRange(1, 1024), help="Measure by so many workers on this host, one for each card."
)


def _to_write(_: click.Context, option: click.Parameter, given: str | None) -> Path | None:
    """A file to write: what is mistyped is refused before anything is measured or drawn."""
    if given is None:
        return None
    out = Path(expanded(given))
    written = out if out.exists() and not out.is_file() else out.resolve().parent  # a file is replaced whole
    why = ""
    if not out.parent.is_dir():
        why = f"there is no folder {out.parent}"
    elif not os.access(written, os.W_OK):
        why = f"you may not write to {written}"
    if out.is_dir():
        why = "it is a folder, not a file" if given else "a file has a name"
    if why:
        raise UsageError(f"{option.opts[0]} {given or repr(given)} cannot be written: {why}")
    return out


to_write = partial(click.option, metavar="FILE", callback=_to_write)
"""An option for a file to write."""
seconds = partial(click.option, show_default=True, type=click.FloatRange(min=0, min_open=True), callback=number)
"""An option for a time that something may take."""
LAB = click.argument("lab")
VARIANT = click.argument("variant")


@contextmanager
def without_collection() -> Iterator[None]:
    """For a command that lasts seconds: Python looks for no cycles among what it has no time to throw away."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
