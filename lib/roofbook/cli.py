"""The command `roofbook`: measure, re-run one cell, read a kernel, build the book. Click makes functions commands."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .devices.backends import OPENCL, languages
from .errors import Failed, UsageError, complain, program
from .terminal import say

if TYPE_CHECKING:
    import pandas as pd


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
SCALE = click.option("--scale", default="quick", show_default=True, help=f"{SCALES}.")
DEVICE = click.option("--device", default="auto", show_default=True, help=f"{DEVICES}.")
RESULTS = click.option("--results", default="results", show_default=True, help="The folder of the store.")
LAB = click.argument("lab")
VARIANT = click.argument("variant")


def main() -> None:
    """Entry point. A user's error is one line and exit code 2, Ctrl-C one line and 130."""
    stopped = "stopped; finished measurements are in the store, and the same command continues from there"
    if code := program(_command, stopped):
        sys.exit(code)


def _command() -> None:
    try:
        app(prog_name="roofbook", standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        command = next((name for name in sys.argv[1:] if name in app.commands), "")
        help_of = f"roofbook {command}".strip()
        raise UsageError(f"{error.format_message()} (`{help_of} --help` says more)") from None


@app.command()
def devices() -> None:
    """List the devices, by the names that --device takes."""
    from .devices import intel
    from .devices.find import devices as all_devices
    from .devices.find import no_device, why_auto

    found = all_devices()
    if not found:
        raise no_device()
    for device in found:
        units = f", {device.compute_units} compute units" if device.kind == "gpu" else ""
        say(f"{device.spec:10} {device.kind}  {device.name}{units} ({device.identity()['platform']})", hang=16)
    for line in (why_auto(), intel.refused()):
        if line:
            say(line, hang=4)


@app.command()
def labs() -> None:
    """List the labs: what each is, and its cases at each scale."""
    from .spec import registry as all_labs
    from .spec.lab import SCALES

    for name in all_labs.names():
        lab = all_labs.get(name)
        say(f"{name:10} {lab.title}: {len(lab.ladder)} variants, {len(lab.peers)} peers", hang=11)
        say(f"           {lab.about}", hang=11)
        for scale in SCALES:
            say(f"           {scale:10} {', '.join(case.name for case in lab.cases(scale))}", hang=22)


@app.command()
@LAB
@SCALE
@DEVICE
@RESULTS
@click.option("-p", "--parameter", nargs=2, multiple=True, metavar="NAME VALUE", help="Any parameter; may be repeated.")
def run(lab: str, scale: str, device: str, results: str, parameter: tuple[tuple[str, str], ...]) -> None:
    """Measure what is not fresh, and print the ladder.

    Executes the notebook of LAB, a name from `roofbook labs`. For two variants on one case:

    \b
      roofbook run lbm -p variants '[fused, soa]' -p cases '[128x128]'
    """
    from .book import execute
    from .book.experiment import Experiment
    from .devices.find import why_auto
    from .paths import project_root

    given = {"scale": scale, "device": device, "results": results}
    given |= {name: _literal(value) for name, value in parameter}
    root = project_root()
    experiment = Experiment(lab, given, root)
    if given["device"] == "auto" and (why := why_auto(experiment.lab.preferred_backend)):
        say(why)
    page = execute.execute(root, root / "experiments" / f"{lab}.ipynb", given)
    for case in experiment.cases:
        print(experiment.ladder(case.name).text, end="\n\n")
    say(f"The executed notebook: {page.relative_to(root)}; `roofbook build` renders it.")


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
@click.option("--scale", help=f"{SCALES}.  [default: that of the lab's page, else quick]")
@click.option("--device", help=f"{DEVICES}.  [default: that of the lab's page, else auto]")
@click.option("--results", help="The folder of the store.  [default: that of the lab's page, else results]")
@click.option("--page/--no-page", default=True, show_default=True, help="Rebuild the lab's page.")
def rerun(
    lab: str, variant: str, case: str, scale: str | None, device: str | None, results: str | None, page: bool
) -> None:
    """Repeat one measurement, and keep it.

    Appends a row for VARIANT on CASE to the store, and rebuilds the page of LAB if it shows this measurement:

    \b
      roofbook rerun lbm fused 128x128
    """
    from contextlib import ExitStack, nullcontext

    from .analysis.sentences import time_text
    from .book import execute, fragments, site
    from .book.ahead import Ahead
    from .book.experiment import Experiment
    from .measure.progress import Reporter
    from .measure.schedule import bring_up_to_date
    from .paths import project_root

    root = project_root()
    notebook = root / "experiments" / f"{lab}.ipynb"
    shown = execute.parameters_of(root, notebook)
    given = {"scale": scale, "device": device, "results": results, "variants": [variant], "cases": [case]}
    experiment = Experiment(lab, shown | {name: value for name, value in given.items() if value is not None}, root)
    cells = experiment.plan()
    if not cells:
        chosen = experiment.lab.variant(variant)
        why = experiment.lab.skip_reason(chosen, experiment.cases[0]) or f"it does not run on {experiment.device.spec}"
        raise UsageError(f"{variant} on {case} cannot be measured: {why}")
    tell, builders = Reporter(), list[site.Builder]()
    there = page and bool(shown) and execute.page_of(root, notebook).exists()
    with ExitStack() as beside:

        def start() -> None:  # it gets ready beside the page, and beside no sample
            builders.append(beside.enter_context(site.start(root)))
            beside.callback(builders[-1].kill)

        try:
            with Ahead(tell, start) if there else nullcontext(tell) as progress:
                done = bring_up_to_date(
                    cells,
                    experiment.device,
                    experiment.store,
                    experiment.policy,
                    remeasure=True,
                    go_on=False,
                    progress=progress,
                    apart=True,
                )
        finally:
            tell.end()
        say(str(done))
        now = experiment.plan()[0]
        if now.state == "failed":
            raise Failed(f"{variant} on {case}: {now.why}")
        said = time_text(experiment.data.rows_of([now]), variant, case)
        say(f"{variant} on {case}: {said} per {experiment.lab.unit}")
        if not page:
            return
        if not there:
            say("There is no page to show it yet; `roofbook build` makes one")
            return
        whole = Experiment(lab, shown, root)
        planned = whole.plan()
        if whole.store.root != experiment.store.root or now.cell_key not in {cell.cell_key for cell in planned}:
            say(f"The page of {lab} does not show this measurement: it was made with {execute.said(shown)}")
            return
        due = sum(cell.state != "fresh" for cell in planned)
        say(f"Rebuilding the page{f'; {due} more of its measurements are not fresh, and are taken now' if due else ''}")
        if due:
            beside.close()
            builders.clear()
        execute.execute(root, notebook, shown, here=not due)
        fragments.renew(root)
        say(str(site.build(root, builder=builders[0] if builders else None)))


@app.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--lab", "labs", multiple=True, help="A lab, or peaks; may be repeated.  [default: peaks, then all]")
@click.option("--device", "devices", multiple=True, help="A device; may be repeated.  [default: one of each kind]")
@click.option("--scale", "scales", multiple=True, help=f"{SCALES}; may be repeated.  [default: published and large]")
@click.option("--case", "cases", multiple=True, help="A case; may be repeated. All without it.")
@click.option("--variant", "variants", multiple=True, help="A variant; may be repeated. All without it.")
@click.option("--sweeps/--no-sweeps", default=True, show_default=True, help="Measure also points of sweeps and series.")
@click.option("--host/--no-host", default=True, show_default=True, help="Measure also what runs on the host's CPU.")
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    help="Processes that each figure comes from.  [default: 3; of a lab whose times include the host's 5]",
)
@click.option("--budget", default=0.5, show_default=True, help="Seconds of samples a cell, in each run.")
@click.option(
    "--limit",
    default=150.0,
    show_default=True,
    type=click.FloatRange(min=0, min_open=True),
    help="Seconds that one run may take; what takes longer becomes a row that says so.",
)
@click.option("--remeasure", is_flag=True, help="Measure also what OUT holds already.")
@click.option("--uncommitted", is_flag=True, help="Measure also changes that are not committed, into OUT/local.")
def record(out: Path, **options: Any) -> None:
    """Measure this machine's devices, to send them in.

    Peaks, labs and peers on each device: prints the ladders, leaves Parquet files in OUT/recorded. Each row names the commit,
    so commit your changes first. `results/record.sh OUT` installs first what that needs.

    \b
      roofbook record OUT --lab lbm --case 128x128
    """
    from .book import record_device

    record_device.record(out, **options)


@app.command()
@LAB
@VARIANT
@click.argument("case")
@SCALE
@DEVICE
@RESULTS
@click.option("--remeasure", is_flag=True, help="Count again what is already counted.")
def profile(lab: str, variant: str, case: str, scale: str, device: str, results: str, remeasure: bool) -> None:
    """Read a GPU's hardware counters for a variant.

    Uses NVIDIA's ncu, on a CUDA device: DRAM, L2 and L1 bytes, instructions, occupancy and the limiting unit, kept as a row
    of the store. With `all` for VARIANT, reads those of every step and peer that runs there:

    \b
      roofbook profile lbm all 128x128
    """
    from .book.experiment import Experiment
    from .measure import ncu
    from .measure.progress import Reporter
    from .spec import registry as all_labs

    known = all_labs.get(lab)
    every = [each for each in (*known.ladder, *known.peers) if each.role in ("step", "peer")]
    chosen = every if variant == "all" else [known.variant(variant)]
    place = ncu.open_cuda(device)
    experiment = Experiment(lab, {"scale": scale, "device": place.spec, "results": results, "cases": [case]})
    size, store, policy = experiment.cases[0], experiment.store, experiment.policy
    cells = ncu.plan(known, size, chosen, experiment.device, store, policy)
    if not cells:
        why = known.skip_reason(chosen[0], size) or f"it does not run on {place.spec}"
        raise UsageError(f"{variant} on {case} cannot be profiled: {why}")
    tell = Reporter()
    try:
        done = ncu.bring_up_to_date(cells, store, policy, remeasure=remeasure, progress=tell)
    finally:
        tell.end()
    print(experiment.counters(case).text)
    say(str(done))
    now = ncu.plan(known, size, chosen, experiment.device, store, policy)
    if variant != "all" and now[0].state == "failed":
        raise Failed(f"{variant} on {case}: {now[0].why}")


@app.command()
@LAB
@VARIANT
@click.argument("case", required=False)
@click.option("--scale", default="test", show_default=True, help=f"{SCALES}.")
@DEVICE
@click.option("--ends", is_flag=True, help="Of each launch the first and the last group alone: seconds, but no result.")
def check(lab: str, variant: str, case: str | None, scale: str, device: str, ends: bool) -> None:
    """Look for data races and accesses out of bounds.

    Runs VARIANT under Oclgrind, or on a CUDA device under NVIDIA's compute-sanitizer, and prints what that finds in the
    kernel's own lines. CASE is the smallest that VARIANT is for, unless given. The exit code is 1 if there is a finding, or if
    the result is wrong. With `all` for VARIANT, checks every step that runs there:

    \b
      roofbook check lbm tree
      roofbook check lbm all 40x24
    """
    from .devices.find import open_device
    from .measure import sanitize
    from .measure.progress import Reporter
    from .paths import project_root
    from .report import checked
    from .spec import registry as all_labs

    known = all_labs.get(lab)
    place = open_device(device, known.preferred_backend)
    chosen = sanitize.choose(known, variant, case, scale, place)
    root, bad, tell = project_root(), 0, Reporter()
    try:
        for it in sanitize.check(known, chosen, place, ends=ends, progress=tell):
            tell.end()
            for finding in checked.findings(it, root):
                print(finding, end="\n\n")
            say(checked.summary(it))
            bad += not it.clean
    finally:
        tell.end()
    if bad:
        sys.exit(1)


@app.command()
@LAB
@SCALE
@DEVICE
@RESULTS
def explain(lab: str, scale: str, device: str, results: str) -> None:
    """Say whether each measurement of LAB is fresh, and if not, why."""
    from .book.experiment import Experiment
    from .report import states

    experiment = Experiment(lab, {"scale": scale, "device": device, "results": results})
    print(states([cell.row() for cell in experiment.plan()], f"Measurements of {lab} on {experiment.device.name}").text)


@app.command()
@LAB
@VARIANT
def diff(lab: str, variant: str) -> None:
    """Show what a kernel changes over its parent.

    Both have their knobs expanded: the diff is of the source that is compiled.

    \b
      roofbook diff lbm fused
    """
    from .spec import registry as all_labs

    chosen = all_labs.get(lab).variant(variant)
    if chosen.parent in (None, variant):
        instead = f"`roofbook show {lab} {variant}` prints its kernel"
        raise UsageError(f"{variant} has no parent; {instead if chosen.source else 'it is a program of the host'}")
    parent = all_labs.get(lab).variant(str(chosen.parent))
    text = ""
    if chosen.source and parent.source:
        text = chosen.source.diff(parent.source, (parent.name, chosen.name))
    differs = ", ".join(chosen.differs)
    if text:
        print(text)
    else:
        say(f"The kernel is the same as in {parent.name}; what differs: {differs}. {chosen.change}")


@app.command()
@LAB
@VARIANT
@click.option(
    "--as", "dialect", type=click.Choice(sorted(languages())), help=f"[default: {OPENCL.name}, if the variant has it]"
)
def show(lab: str, variant: str, dialect: str | None) -> None:
    """Print a kernel as plain OpenCL C, CUDA C++ or C.

    Exactly what the compiler gets, ready to paste elsewhere:

    \b
      roofbook show lbm fused --as cuda
    """
    from .spec import registry as all_labs

    chosen = all_labs.get(lab).variant(variant)
    if chosen.source is None:
        raise UsageError(f"{variant} has no kernel: it is a program of the host")
    forms = chosen.languages
    dialect = dialect or next(name for name in (OPENCL.name, *languages()) if name in forms)
    if dialect not in forms:
        raise UsageError(f"{variant} has no {dialect} form; it has --as {', '.join(sorted(forms))}")
    print(chosen.source.render(dialect), end="")


@app.command()
@LAB
@click.argument("name", required=False)
@click.option("--check", "answer", type=click.Path(path_type=Path), help="A file with your kernel: is it right?")
@click.option("--solution", is_flag=True, help="Print the kernel without the hole.")
@click.option("--time/--no-time", default=True, show_default=True, help="Time a right one beside the book's own.")
@DEVICE
def exercise(lab: str, name: str | None, answer: Path | None, solution: bool, time: bool, device: str) -> None:
    """Print a kernel with a hole in it, and check yours.

    NAME is one of LAB's kernels to write; without it, they are listed. The exit code is 0 where yours is right, 1 where it is
    wrong, and 2 where it does not compile.

    \b
      roofbook exercise stencil fused > my.k
      roofbook exercise stencil fused --check my.k
    """
    from .devices.find import open_device
    from .measure.answer import judge
    from .report import marked
    from .spec import exercise as exercises
    from .spec import registry as all_labs

    known = all_labs.get(lab)
    all_of_lab = exercises.exercises(known)
    if not all_of_lab.write:
        raise UsageError(f"{lab} has no kernel to write")
    if name is None:
        for each in all_of_lab.write:
            say(f"{each.name:10} {each.task}", hang=11)
        return
    chosen = all_of_lab.named(lab, name)
    if answer is None:
        print((exercises.solution if solution else exercises.holed)(known, chosen), end="")
        return
    found = judge(known, chosen, answer, open_device(device, known.preferred_backend), take_time=time)
    say(marked.words(found, known, chosen))
    sys.exit(found.code)


@app.command()
@click.option("--execute", "fresh", is_flag=True, help="Execute every notebook again, even if up to date.")
@click.option("--scale", help=f"{SCALES}.  [default: as each page was made last, else quick]")
@click.option("--device", help=f"{DEVICES}.  [default: as each page was made last, else auto]")
def build(fresh: bool, scale: str | None, device: str | None) -> None:
    """Make the pages that are not up to date, and the site.

    Says of each what has changed.
    """
    from .book.build import build as build_book
    from .paths import project_root

    wanted = {name: value for name, value in (("scale", scale), ("device", device)) if value is not None}
    if wanted:
        from .book.experiment import check

        check(wanted)
    build_book(project_root(), wanted, fresh=fresh)


@app.command()
@LAB
@click.argument("case")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A file, .svg or .png.")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: that of the newest run]")
@click.option("--only", multiple=True, help="A variant; may be repeated.  [default: the whole ladder]")
@SCALE
@RESULTS
def chart(lab: str, case: str, out: Path, on: str | None, only: tuple[str, ...], scale: str, results: str) -> None:
    """Draw a ladder, for any device in the store.

    \b
      roofbook chart lbm 128x128 --out ladder.svg
    """
    from .analysis.case_data import CaseData
    from .errors import one_of
    from .paths import project_root
    from .report import ladder_chart
    from .spec import registry as all_labs
    from .store.parquet import Store

    found = all_labs.get(lab)
    ladder = [found.variant(name) for name in only] or [*found.ladder, *found.peers]
    order = [variant.name for variant in ladder]
    rows = Store(project_root() / results).rows(lab, scale=scale, case=found.case(case, scale).name)
    of_ladder = rows[rows["variant"].isin(order) & (rows["backend"] != "host")]
    if of_ladder.empty:
        raise UsageError(f"{lab} on {case} was not measured at scale {scale} yet; `roofbook run` does it")
    known = list(dict.fromkeys(of_ladder["device"]))
    if on and on not in known:
        raise one_of("device in the store", on, known)
    on = on or known[-1]
    mine = rows[rows["run"].isin(rows[rows["device"] == on]["run"])]  # with what ran on its host meanwhile
    name = of_ladder[of_ladder["device"] == on]["device_name"].iloc[-1]
    drawing = ladder_chart(CaseData(mine, order, case, found.bases), f"{found.title}, {case}, on {name}")
    try:
        drawing.save(out)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from None


@app.command()
@click.option("--lab", "names", multiple=True, help="A lab; may be repeated.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@RESULTS
def claims(names: tuple[str, ...], on: str | None, results: str) -> None:
    """Print what the reports claim, and our verdicts.

    Then the measurements behind each claim, and the command that repeats them.

    \b
      roofbook claims --lab lbm
    """
    from .analysis.publication import publication
    from .analysis.verdicts import judged
    from .book.fragments import verdicts
    from .errors import one_of
    from .paths import project_root
    from .spec import registry as all_labs
    from .store.parquet import Store

    store = Store(project_root() / results)
    chosen = [all_labs.get(name) for name in names or all_labs.names()]
    found = {lab.name: judged(lab, store) for lab in chosen if names or publication(lab).evidence}
    known = sorted({place.device for lines in found.values() for line in lines for place in line.outcomes})
    if on and on not in known:
        if not known:
            raise UsageError(
                "no measurement behind a claim was taken yet; `roofbook run LAB --scale published` does it"
            )
        raise one_of("device with measurements behind a claim", on, known)
    for name, lines in found.items():
        for table in verdicts(all_labs.get(name), lines, on):
            print(table.text, end="\n\n")


@app.command()
@LAB
@click.argument("case")
@click.option(
    "--on", multiple=True, help="A device of the store, such as nvidia-h200 or nvidia-h200/cuda; may be repeated."
)
@RESULTS
def compare(lab: str, case: str, on: tuple[str, ...], results: str) -> None:
    """Print a case of LAB on several devices.

    Shows the times of each device and backend in the store, and how many times as fast one is as another. --on chooses the
    devices; ratios then compare the first with each of the others:

    \b
      roofbook compare lbm 128x128 --on nvidia-h200/opencl --on nvidia-h200/cuda
    """
    from .analysis.comparison import on_case
    from .paths import project_root
    from .report.comparison_table import comparison
    from .spec import registry as all_labs
    from .store.parquet import Store

    print(comparison(on_case(all_labs.get(lab), Store(project_root() / results), case, on)).text)


@app.command()
@LAB
@click.option("--data-dir", help="The folder of the training and test images.  [default: the cache, or by download]")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the weights.")
@click.option("--epochs", type=click.IntRange(1), default=60, show_default=True, help="Passes over the images.")
@click.option("--out", type=click.Path(path_type=Path), help="An .npz file.  [default: the weights that the lab uses]")
def train(lab: str, data_dir: str | None, seed: int, epochs: int, out: Path | None) -> None:
    """Train the weights of a lab's network again.

    Takes minutes on two cores without a GPU, and prints the accuracy:

    \b
      roofbook train lenet --data-dir fashion-mnist
    """
    import importlib

    from .errors import one_of
    from .spec import registry as all_labs

    trainable = sorted(name for name, folder in all_labs.folders().items() if (folder / "train.py").is_file())
    if lab not in trainable:
        raise one_of("lab with weights", lab, trainable)
    made = importlib.import_module(f".labs.{lab}.train", __package__)
    try:
        say(made.make(data_dir, seed, epochs, out, say))
    except KeyboardInterrupt:
        sys.exit(complain("stopped; no weights were written", 130))


@app.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
def serve(port: int) -> None:
    """Serve the built site on this machine."""
    from .book import site
    from .paths import project_root

    site.serve(project_root() / "_build" / "html", port)


@app.command()
@click.argument("sql", default="select * from cells")
@click.option("--out", type=click.Path(path_type=Path), help="A file, .csv or .parquet; standard output without it.")
@RESULTS
def export(sql: str, out: Path | None, results: str) -> None:
    """Write the rows of the store, or an SQL query.

    The views are cells (one row per measurement), published and claims; the default is all of cells. Lists are JSON in a
    CSV. Rows whose role is profile have times under a profiler.

    \b
      roofbook export "select variant, count(*) from cells group by all"
      roofbook export --out cells.parquet
    """
    from .paths import project_root
    from .store.parquet import Store

    if out and out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--out must end in .csv or .parquet, not {out.name!r}")
    store = Store(project_root() / results)
    try:
        frame = store.query(sql)
    except UsageError as error:
        hint = 'the views are cells, published and claims; the columns "case" and "table" need their double quotes'
        raise UsageError(f"{error} ({hint})") from None
    if out is None:
        _plain(frame).to_csv(sys.stdout, index=False)
        return
    from io import BytesIO

    from .paths import write_whole

    made = BytesIO()
    _plain(frame).to_csv(made, index=False) if out.suffix == ".csv" else frame.to_parquet(made, index=False)
    try:
        out.parent.stat()  # a folder that is mistyped is not made
        write_whole(out, made.getvalue())
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror or error}") from None


def _plain(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Lists as JSON: pandas writes them as NumPy prints them, cut short and over several lines."""
    import json

    import numpy as np

    return frame.map(lambda value: json.dumps(value.tolist()) if isinstance(value, np.ndarray) else value)


if __name__ == "__main__":
    main()
