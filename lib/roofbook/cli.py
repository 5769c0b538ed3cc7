"""The command `roofbook`: measure, re-run one cell, read a kernel, build the book. Click turns these functions into commands."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .errors import UsageError

if TYPE_CHECKING:
    from .experiment import Experiment

@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="roofbook")
def app() -> None:
    """Roofbook: measure a ladder of GPU kernel variants, keep every result, and read the book they make."""


SCALE = click.option("--scale", default="quick", show_default=True, help="quick, published, large or test.")
DEVICE = click.option("--device", default="auto", show_default=True, help="auto, or as `roofbook devices` lists them.")
RESULTS = click.option("--results", default="results", show_default=True, help="The folder of the store.")
LAB = click.argument("lab")
VARIANT = click.argument("variant")


def main() -> None:
    """Entry point. A user's error is one line and exit code 2, Ctrl-C one line and 130."""
    from .execute import NotebookFailed
    from .site import SiteFailed

    try:
        app(standalone_mode=False)
    except UsageError as error:
        _stop(str(error), 2)
    except (NotebookFailed, SiteFailed) as error:
        _stop(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        _stop("stopped; every case that was finished is in the store, and the same command goes on from there", 130)
    except click.ClickException as error:
        help_ = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "roofbook"
        _stop(f"{error.format_message()} (`{help_} --help` says more)", 2)


def _stop(message: str, code: int) -> None:
    print(f"error: {message}" if code != 130 else message, file=sys.stderr)
    sys.exit(code)


def _experiment(lab: str, **parameters: Any) -> "Experiment":
    from .experiment import Experiment

    return Experiment(lab, {name: value for name, value in parameters.items() if value is not None})


@app.command()
def devices() -> None:
    """List the devices that are present, by the names that --device takes."""
    from .device import devices as all_devices

    found = all_devices()
    if not found:
        raise UsageError("no device: `pip install 'pyopencl[pocl]'` brings one for the CPU")
    for device in found:
        identity = device.identity()
        print(f"{device.spec:10} {device.kind}  {device.name}, {device.compute_units} compute units ({identity['platform']})")


@app.command()
def labs() -> None:
    """List the labs, with their cases at each scale."""
    from . import labs as all_labs
    from .lab import SCALES

    for name in all_labs.names():
        lab = all_labs.get(name)
        print(f"{name:10} {lab.title}: {len(lab.ladder)} variants, {len(lab.peers)} peers")
        for scale in SCALES:
            print(f"           {scale:10} {', '.join(case.name for case in lab.cases(scale))}")


@app.command()
@LAB
@SCALE
@DEVICE
@click.option(
    "-p", "--parameter", nargs=2, multiple=True, metavar="NAME VALUE", help="Any parameter of the notebook; may be repeated."
)
def run(lab: str, scale: str, device: str, parameter: tuple[tuple[str, str], ...]) -> None:
    """Execute a lab's notebook: measure what is not fresh, and print the ladder."""
    from . import execute
    from .experiment import check
    from .run import project_root

    given = {"scale": scale, "device": device, **{name: _literal(value) for name, value in parameter}}
    check(given)
    experiment = _experiment(lab, **given)
    root = project_root()
    page = execute.execute(root, root / "experiments" / f"{lab}.ipynb", given)
    for case in experiment.cases:
        print(experiment.ladder(case.name).text, end="\n\n")
    print(f"The executed notebook: {page.relative_to(root)}; `roofbook build` renders it.")


def _literal(text: str) -> Any:
    """`0.5`, `true`, `["fused"]` as papermill reads them: YAML scalars and lists, else the text itself."""
    import yaml

    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


@app.command()
@LAB
@VARIANT
@click.argument("case")
@SCALE
@DEVICE
@RESULTS
@click.option("--page/--no-page", default=True, show_default=True, help="Render the lab's page again.")
def rerun(lab: str, variant: str, case: str, scale: str, device: str, results: str, page: bool) -> None:
    """Measure one cell again, append it to the store, and render its page again."""
    from . import execute, site
    from .report.prose import time_text
    from .run import bring_up_to_date, project_root

    experiment = _experiment(lab, scale=scale, device=device, results=results, variants=[variant], cases=[case])
    cells = experiment.plan()
    if not cells:
        chosen = experiment.lab.variant(variant)
        why = experiment.lab.excuse(chosen, experiment.cases[0]) or f"it does not run on {experiment.device.spec}"
        raise UsageError(f"{variant} on {case} cannot be measured: {why}")
    print(bring_up_to_date(cells, experiment.device, experiment.store, experiment.policy, remeasure=True))
    print(f"{variant} on {case}: {time_text(experiment.rows, variant, case)} per {experiment.lab.unit}")
    if page:
        root = project_root()
        notebook = root / "experiments" / f"{lab}.ipynb"
        execute.execute(root, notebook, execute.parameters_of(root, notebook))
        _fragments(root)
        print(f"{site.build(root)}")


@app.command()
@LAB
@SCALE
@DEVICE
@RESULTS
def explain(lab: str, scale: str, device: str, results: str) -> None:
    """Say of each cell of a lab whether it is fresh, and if not, why."""
    from .report import states

    experiment = _experiment(lab, scale=scale, device=device, results=results)
    print(states([cell.row() for cell in experiment.plan()], f"Cells of {lab} on {experiment.device.name}").text)


@app.command()
@LAB
@VARIANT
def diff(lab: str, variant: str) -> None:
    """Show how a variant's kernel differs from its parent's, both with their knobs set."""
    from . import labs as all_labs

    chosen = all_labs.get(lab).variant(variant)
    if chosen.parent is None:
        raise UsageError(f"{variant} has no parent; `roofbook show {lab} {variant}` prints its kernel")
    parent = all_labs.get(lab).variant(chosen.parent)
    text = ""
    if chosen.source and parent.source:
        text = chosen.source.diff(parent.source, (parent.name, chosen.name))
    print(text or f"the kernel is the same as in {parent.name}; what differs: {', '.join(chosen.differs)}. {chosen.change}")


@app.command()
@LAB
@VARIANT
@click.option(
    "--as", "dialect", type=click.Choice(["opencl", "cuda"]), default="opencl", show_default=True, help="The language."
)
def show(lab: str, variant: str, dialect: str) -> None:
    """Print a variant's kernel as plain OpenCL C or CUDA C++, just as its compiler gets it."""
    from . import labs as all_labs

    chosen = all_labs.get(lab).variant(variant)
    if chosen.source is None:
        raise UsageError(f"{variant} has no kernel: it is a program of the host")
    if dialect not in chosen.backends:
        raise UsageError(f"{variant} has no {dialect} form; it runs on {', '.join(sorted(chosen.backends))}")
    print(chosen.source.render(dialect), end="")


@app.command()
@click.option("--execute", "fresh", is_flag=True, help="Execute every notebook again, also those up to date.")
@SCALE
@DEVICE
def build(fresh: bool, scale: str, device: str) -> None:
    """Execute the notebooks that are not up to date, and build the site."""
    from . import execute, site
    from .experiment import check
    from .run import project_root

    parameters = check({"scale": scale, "device": device})
    parameters = {"scale": parameters["scale"], "device": parameters["device"]}
    root = project_root()
    for notebook in sorted((root / "experiments").glob("*.ipynb")):
        if fresh or execute.stale(root, notebook, parameters):
            execute.execute(root, notebook, parameters)
    _fragments(root)
    print(f"The book is built: {site.build(root, progress=print)}")


def _fragments(root: Path) -> None:
    """The pieces of HTML that pages take from the store: a ladder chart for each lab whose notebook is executed."""
    from . import execute
    from .experiment import Experiment

    folder = root / "book" / "_generated"
    folder.mkdir(exist_ok=True)
    for notebook in sorted((root / "experiments").glob("*.ipynb")):
        target = folder / f"{notebook.stem}-ladder.html"
        page = execute.page_of(root, notebook)
        if page.exists() and (not target.exists() or target.stat().st_mtime < page.stat().st_mtime):
            experiment = Experiment(notebook.stem, execute.parameters_of(root, notebook), root)
            target.write_text(experiment.ladder_chart().html)


@app.command()
@click.option("--port", default=8000, show_default=True, help="0 takes any free port.")
def serve(port: int) -> None:
    """Serve the built site on this machine."""
    from . import site
    from .run import project_root

    site.serve(project_root() / "_build" / "html", port)


@app.command()
@click.argument("sql", default="select * from cells")
@click.option("--out", type=click.Path(path_type=Path), help="A file, .csv or .parquet; standard output without it.")
@RESULTS
def export(sql: str, out: Path | None, results: str) -> None:
    """Write the result of an SQL query as CSV or Parquet. The views are cells, published and claims."""
    from .run import project_root
    from .store import Store

    root = Path(results) if Path(results).is_absolute() else project_root() / results
    if out and out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--out must end in .csv or .parquet, not {out.name!r}")
    frame = Store(root).query(sql)
    if out is None:
        frame.to_csv(sys.stdout, index=False)
    elif out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        frame.to_parquet(out, index=False)


if __name__ == "__main__":
    main()
