"""The group that the commands join, and the arguments and options that several of them have."""

import gc
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError, one_of
from ..paths import expanded

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ..spec.lab import Lab
    from ..store.parquet import Store


SECTIONS = {
    "measuring": "Measure",
    "trying": "Measure on any GPU",
    "reading": "Read",
    "tuning": "Tune",
    "judging": "Judge kernels of your own",
    "comparing": "Compare over time",
    "publishing": "The book",
    "sharing": "A store for several",
    "authoring": "Labs of your own",
}
"""Headings of the help, by the modules of the commands below them. Those of other modules come last, under "More"."""


def _labs(_: click.Context) -> list[str]:
    from ..spec import registry

    return registry.names_with_peaks()


def _lab_of(context: click.Context) -> "Lab | None":
    """Return the lab that a command's words name so far; None if there is none, or several."""
    from ..spec import registry

    named = context.params.get("lab") or context.params.get("labs") or context.params.get("names")
    if isinstance(named, tuple):
        named = named[0] if len(named) == 1 else None
    try:
        lab: Lab | None = registry.get(named) if isinstance(named, str) else named or None
        return lab
    except UsageError:
        return None


def _variants(context: click.Context) -> list[str]:
    lab = _lab_of(context)
    return [variant.name for variant in lab.all_variants()] if lab else []


def _cases(context: click.Context) -> list[str]:
    from ..spec.plan import SCALES as all_scales

    lab = _lab_of(context)
    names = [case.name for scale in all_scales for case in lab.cases(scale)] if lab else []
    return list(dict.fromkeys(names))


def _devices(_: click.Context) -> list[str]:
    from ..devices.find import devices

    return ["auto", *(device.spec for device in devices())]


def _recorded_devices(context: click.Context) -> list[str]:
    from ..paths import project_root
    from ..store.parquet import Store

    lab = _lab_of(context)
    files = Store.of_project(project_root(), "results").files(lab.name if lab else "*")
    return sorted({path.parent.name.partition("=")[2] for path in files})


COMPLETED = {
    "lab": _labs, "labs": _labs, "names": _labs, "variant": _variants, "variants": _variants, "case": _cases, "cases": _cases,
    "device": _devices, "devices": _devices, "on": _recorded_devices,
}  # fmt: skip
"""Names with which a shell completes an argument or option, by the parameter's name in all commands."""


class Completed(click.types.StringParamType):
    """Text that a shell completes by the function of the parameter's name."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        names = COMPLETED[str(param.name)](ctx)
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class Sections(click.Group):
    """Group whose help lists its commands by what they are for, and whose names a shell completes."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        for parameter in cmd.params:
            if parameter.name in COMPLETED and parameter.type is click.STRING:
                parameter.type = Completed()
        super().add_command(cmd, name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, self.commands))
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in (*SECTIONS.values(), "More")}
        for name, command in sorted(self.commands.items()):
            module = str(getattr(command.callback, "__module__", "")).rpartition(".")[2]
            rows[SECTIONS.get(module, "More")].append((name.ljust(widest), command.get_short_help_str(formatter.width)))
        for heading in filter(rows.__getitem__, rows):
            with formatter.section(heading):
                formatter.write_dl(rows[heading])


@click.group(
    cls=Sections,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="roofbook")
@click.pass_context
def app(context: click.Context) -> None:
    """Measure a ladder of GPU kernel variants, keep every result, and read the book they make.

    A file or folder that you name is relative to the current folder.
    """
    if context.invoked_subcommand is None:
        print(context.get_help())


SCALES = "quick, published, large or test"
DEVICES = "auto, or as `roofbook devices` lists them"


def _scales(_: click.Context, __: click.Parameter, scales: Any) -> Any:
    """Return the option's scale or scales. Errors: UsageError for an unknown one."""
    from ..spec.plan import SCALES as all_scales

    for scale in [scales] if isinstance(scales, str) else scales or ():
        if scale not in all_scales:
            raise one_of("scale", scale, all_scales)
    return scales


of_scale = partial(click.option, "--scale", callback=_scales)
SCALE = of_scale(default="quick", show_default=True, help=f"{SCALES}.")
DEVICE = click.option("--device", default="auto", show_default=True, help=f"{DEVICES}.")


def filled(_: click.Context, __: click.Parameter, path_text: str | None) -> str | None:
    """Return a path with `~` replaced by the home folder, since no shell expands the `~` of --results=~/rows.

    Errors: BadParameter for an empty text, such as an unset variable of a shell.
    """
    if path_text == "":
        raise click.BadParameter("it is empty")
    return path_text if path_text is None else expanded(path_text)


def store_address(results: str) -> str:
    """Return the address of the store that a command line names: a URL, or a folder relative to the current one.

    The project's own `results` keep this name, so that an installed book's rows are read with them.
    """
    from ..paths import project_root

    if "://" in results:
        return results
    folder = Path(os.path.abspath(expanded(results)))
    return "results" if folder.resolve() == (project_root() / "results").resolve() else str(folder)


def addressed(context: click.Context, option: click.Parameter, results: str | None) -> str | None:
    """Return the address of the option's store. Without the option it is the project's `results`, or none."""
    is_given = context.get_parameter_source(str(option.name)) is not click.core.ParameterSource.DEFAULT
    return store_address(results) if is_given and (results := filled(context, option, results)) else results


class UserPath(click.Path):
    """A file or folder as the user wrote it, with `~` as the home folder. An empty text, as of an unset variable, is none."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        if value == "":
            self.fail("it is empty", parameter, context)
        return super().convert(expanded(value), parameter, context)


def number(_: click.Context, __: click.Parameter, number_given: float | None) -> float | None:
    """Return a number in a range. Errors: BadParameter for NaN, which click takes for one in any range."""
    if number_given is not None and math.isnan(number_given):
        raise click.BadParameter(f"{number_given} is not a number")
    return number_given


def no_store(folder: str) -> UsageError:
    """Return the error for a folder in which there is no store."""
    return UsageError(f"there is no store in {folder}; `roofbook run LAB --results FOLDER` makes one")


def _there(context: click.Context, option: click.Parameter, results: str) -> str:
    """Return the address of a store to read. Errors: UsageError if the user named a store that does not exist."""
    address = str(addressed(context, option, results))
    from ..paths import project_root
    from ..store.storage import located, storage_of

    if context.get_parameter_source(str(option.name)) is not click.core.ParameterSource.DEFAULT:
        storage = storage_of(located(project_root(), address))
        if not storage.is_remote and not storage.root.exists():
            resolved = "" if str(storage.root) == results else f", which is {storage.root}"
            raise no_store(f"{results}{resolved}")
    return address


def _opened(context: click.Context, option: click.Parameter, results: str) -> "Store":
    """Return the store at an address. Errors: UsageError as for `_there`."""
    address = _there(context, option, results)
    from ..paths import project_root
    from ..store.parquet import Store

    return Store.of_project(project_root(), address)


_of_store = partial(
    click.option,
    "--results",
    default="results",
    show_default="results of the project",
    help="The folder of the store, or s3://BUCKET/NAME.",
)
RESULTS = _of_store(callback=addressed)
RECORDED = _of_store(callback=_there)
"""Option for the address of a store that exists: a mistyped folder is not taken for an empty store."""
STORE = _of_store("store", callback=_opened)
"""Option for a store that exists, which the command gets open."""
CLUSTER = click.option(
    "--cluster",
    metavar="ADDRESS",
    callback=filled,
    help="Measure by the workers of the Dask scheduler at ADDRESS.",
)
WORKERS = click.option(
    "--workers", type=click.IntRange(1, 1024), help="Measure by so many workers on this host, one for each card."
)


def _known_lab(_: click.Context, __: click.Parameter, name: str) -> "Lab":
    """Return a lab by its name. Errors: UsageError for an unknown one."""
    from ..spec import registry

    return registry.get(name)


def _to_write(_: click.Context, option: click.Parameter, path_text: str | None) -> Path | None:
    """Return a file to write. Errors: UsageError if it cannot be written, before anything is measured or drawn."""
    if path_text is None:
        return None
    out = Path(expanded(path_text))
    target = out if out.exists() and not out.is_file() else out.resolve().parent  # a file is replaced whole
    reason = ""
    if not out.parent.is_dir():
        reason = f"there is no folder {out.parent}"
    elif not os.access(target, os.W_OK):
        reason = f"you may not write to {target}"
    if out.is_dir():
        reason = "it is a folder, not a file" if path_text else "a file has a name"
    if reason:
        raise UsageError(f"{option.opts[0]} {path_text or repr(path_text)} cannot be written: {reason}")
    return out


to_write = partial(click.option, metavar="FILE", callback=_to_write)
"""An option for a file to write."""
seconds = partial(click.option, show_default=True, type=click.FloatRange(min=0, min_open=True), callback=number)
"""An option for a duration in seconds."""
LAB = click.argument("lab")
"""Argument for the name of a lab, which the command checks with its parameters."""
KNOWN_LAB = click.argument("lab", callback=_known_lab)
"""Argument for a lab, which the command gets."""
SANDBOX = click.option(
    "--sandbox/--no-sandbox",
    default=None,
    help="Run the kernel in bubblewrap, without network or home.  [default: where it is installed and works]",
)
"""Option for a command that runs a reader's kernel. So are LIMIT and MEMORY."""
LIMIT = seconds("--limit", default=120.0, help="Seconds that one request to the kernel's process may take.")
memory = partial(
    click.option,
    "--memory",
    type=click.FloatRange(min=0.5, max=1 << 20),
    callback=number,
    metavar="GIB",
    help="Memory that a kernel's process may take.",
)
MEMORY = memory()
VARIANT = click.argument("variant")


@contextmanager
def writing(option: str, out: Path) -> Iterator[None]:
    """Turn a file that cannot be written into a UsageError that names the option."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{option} {out} cannot be written: {error.strerror or error}") from None


@contextmanager
def without_collection() -> Iterator[None]:
    """Turn off Python's search for reference cycles, for a command that lasts seconds."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
