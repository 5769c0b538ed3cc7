"""Commands that measure on a device of this machine or of a cluster."""

import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Failed, UsageError, complain, one_of
from ..terminal import say
from .app import (
    CLUSTER,
    DEVICE,
    DEVICES,
    KNOWN_LAB,
    LAB,
    RECORDED,
    RESULTS,
    SCALE,
    SCALES,
    VARIANT,
    WORKERS,
    UserPath,
    addressed,
    app,
    filled,
    of_scale,
    seconds,
    store_address,
    without_collection,
)

if TYPE_CHECKING:
    from ..book.experiment import Experiment
    from ..book.site import Builder
    from ..measure.case_process import Workers
    from ..measure.schedule import Done, Planned
    from ..spec.lab import Lab


@app.command()
@click.argument("backend", required=False)
def devices(backend: str | None) -> None:
    """List the devices, by the names that --device takes.

    With BACKEND, list those of one backend alone. Devices by WebGPU are listed only by `roofbook devices webgpu`.
    """
    from ..devices import intel
    from ..devices.backends import BACKENDS, ON_REQUEST
    from ..devices.find import devices as all_devices
    from ..devices.find import no_device, why_auto

    backends = {**BACKENDS, **ON_REQUEST}
    if backend not in (None, *backends):
        raise one_of("backend", str(backend), list(backends))
    found_devices = all_devices(backend)
    if not found_devices:
        raise UsageError(backends[backend].absent) if backend else no_device()
    for device in found_devices:
        counts = device.kind == "gpu" and device.backend in BACKENDS  # WebGPU does not tell
        units = f", {device.compute_units} compute units" if counts else ""
        say(f"{device.spec:10} {device.kind}  {device.name}{units} ({device.identity()['platform']})", hang=16)
    warnings = (f"{device.spec}: {device.warning}" for device in found_devices if device.warning)
    choice = () if backend else (why_auto(), intel.refused())
    for line in (*warnings, *choice):
        if line:
            say(line, hang=4)


@app.command()
def labs() -> None:
    """List the labs: title, description, and cases at each scale."""
    from ..spec import registry as all_labs
    from ..spec.plan import SCALES

    labs_here, errors = all_labs.usable()
    for lab in labs_here:
        languages = sum(peer.role == "dsl" for peer in lab.peers)
        others = f", {languages} in other kernel languages" if languages else ""
        say(
            f"{lab.name:10} {lab.title}: {len(lab.ladder)} variants, {len(lab.peers) - languages} peers{others}",
            hang=11,
        )
        say(f"           {lab.about}", hang=11)
        for scale in SCALES:
            say(f"           {scale:10} {', '.join(case.name for case in lab.cases(scale))}", hang=22)
    if problems := [*errors, *filter(None, [all_labs.useless_folders()])]:
        raise UsageError("; ".join(problems))


@app.command()
@LAB
@SCALE
@DEVICE
@RESULTS
@CLUSTER
@WORKERS
@click.option("-p", "--parameter", nargs=2, multiple=True, metavar="NAME VALUE", help="Any parameter; may be repeated.")
def run(
    lab: str,
    scale: str,
    device: str,
    results: str,
    cluster: str | None,
    workers: int | None,
    parameter: tuple[tuple[str, str], ...],
) -> None:
    """Bring a lab's measurements up to date, and print its ladder.

    Executes the notebook of LAB, a name from `roofbook labs`. For two variants on one case:

    \b
      roofbook run lbm -p variants '[fused, soa]' -p cases '[128x128]'

    With variants it prints these alone, and the book's page stays as it was.
    """
    from ..book import execute
    from ..book.experiment import PARAMETERS, Experiment
    from ..book.sources import pages_root
    from ..devices.find import why_auto
    from ..paths import project_root
    from ..spec import registry

    parameters = {"scale": scale, "device": device, "results": results}
    parameters |= {
        name: store_address(text) if name == "results" and text else _literal(text) for name, text in parameter
    }
    registry.get(lab)
    root = pages_root(project_root(), lab)
    if (cluster or workers) and not _measure_by_cluster(root, lab, parameters, cluster, workers):
        return
    notebook = root / "experiments" / f"{lab}.ipynb"
    notebooks_own = execute.declared_parameters(notebook)
    experiment = Experiment(
        lab,
        {name: value for name, value in parameters.items() if name in PARAMETERS or name not in notebooks_own},
        root,
    )
    if parameters["device"] == "auto" and (reason := why_auto(experiment.lab.preferred_backend)):
        say(reason)
    of_variants = bool(experiment.parameters["variants"])
    variants_page = root / "_build" / "of-variants" / notebook.name
    has_notebook = notebook.is_file()
    if has_notebook:
        page = execute.execute(root, notebook, parameters, page=variants_page if of_variants else None)
    else:
        say(f"{experiment.bring_up_to_date()}.")
    for table in experiment.tables():
        print(table.text, end="\n\n")
    if not has_notebook:
        return
    next_step = "the book's page stays as it was" if of_variants else "`roofbook build` renders it"
    say(f"The executed notebook: {page.relative_to(project_root())}; {next_step}.")


def _measure_by_cluster(
    root: Path, lab: str, parameters: dict[str, Any], cluster: str | None, workers: int | None
) -> bool:
    """Measure by a cluster. Return whether this machine has the measured device, so that it can make the lab's page."""
    from ..book import campaign
    from ..book.experiment import check
    from ..devices import find, provenance
    from ..spec import registry
    from ..store.identity import env_key
    from ..store.storage import located

    lab_definition, checked = registry.get(lab), check(parameters)
    with campaign.opened(cluster, workers, located(root, checked["results"])) as crew:
        summary, worker_device, texts = crew.bring_up_to_date(
            lab, checked, runs=checked["runs"], remeasure=checked["remeasure"]
        )
    say(str(summary))
    local_devices = [device for device in find.devices() if device.spec == worker_device.facts["spec"]]
    if local_devices and env_key(provenance.environment(local_devices[0])) == worker_device.facts["env_key"]:
        parameters |= {"device": local_devices[0].spec, "remeasure": False}
        return True
    for text in texts:
        print(text, end="\n\n")
    say(
        f"This machine does not have the device of {worker_device.host}, so the page of {lab_definition.name} stays as it is"
    )
    return False


def _knobs(settings: tuple[str, ...]) -> dict[str, str]:
    """Return knob -> value. Raise UsageError for a setting that is not NAME=VALUE, and for a knob that is set twice."""
    values: dict[str, str] = {}
    for setting in settings:
        knob, equals, value = setting.partition("=")
        if not equals or knob in values:
            reason = "sets a knob twice" if knob in values else "is no NAME=VALUE, such as GROUP_SIZE=32"
            raise UsageError(f"--knob {setting} {reason}")
        values[knob] = value
    return values


_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}


def _literal(text: str) -> Any:
    """Read a parameter as papermill's -p does: a number as Python writes it, otherwise a text; or a list of texts.

    So `1e3` is a number, `010` is ten, and `yes`, `1:30` or a date is a text.
    """
    from ..book.experiment import parse_list

    if text in _WORDS:
        return _WORDS[text]
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return number(text)
    return parse_list(text)


@app.command()
@LAB
@VARIANT
@click.argument("case")
@click.option("--knob", "knobs", multiple=True, metavar="NAME=VALUE", help="A knob of its source; may be repeated.")
@click.option("--runs", type=click.IntRange(1, 100), default=1, show_default=True, help="Processes that start afresh.")
@of_scale(help=f"{SCALES}.  [default: that of the lab's page, else quick]")
@click.option("--device", help=f"{DEVICES}.  [default: that of the lab's page, else auto]")
@click.option(
    "--results",
    callback=addressed,
    help="The folder of the store, or s3://BUCKET/NAME.  [default: that of the lab's page, else results of the project]",
)
@click.option("--page/--no-page", default=True, show_default=True, help="Rebuild the lab's page.")
@without_collection()
def rerun(
    lab: str,
    variant: str,
    case: str,
    knobs: tuple[str, ...],
    runs: int,
    scale: str | None,
    device: str | None,
    results: str | None,
    page: bool,
) -> None:
    """Measure a step again beside its parent, and keep both.

    Appends rows for VARIANT, its parent and the A/A control on CASE, measured in the same rounds. Prints the ratio to the
    parent, and the ratio before. Rebuilds the page of LAB if it shows this measurement. With --knob, VARIANT with other
    values of its knobs becomes a point of a sweep, and VARIANT itself is the parent:

    \b
      roofbook rerun lbm fused 128x128
      roofbook rerun lbm tree 128x128 --knob GROUP_SIZE=32
    """
    from ..book import execute, site
    from ..book.experiment import Experiment, known
    from ..book.sources import pages_root
    from ..measure.case_process import Workers
    from ..paths import project_root
    from ..spec.lab import turned_name

    root = pages_root(project_root(), lab)
    notebook = root / "experiments" / f"{lab}.ipynb"
    page_parameters = execute.parameters_of(root, notebook)
    options = {"scale": scale, "device": device, "results": results}
    given = {name: option for name, option in options.items() if option is not None}
    name = turned_name(variant, _knobs(knobs))
    whole = Experiment(lab, known(page_parameters) | given | {"variants": None, "cases": None}, root)
    experiment = whole.beside_parents([name], case, {"remeasure": True, "runs": runs})
    has_page = page and bool(page_parameters) and execute.page_of(root, notebook).exists()
    builders = list[site.Builder]()
    with contextlib.ExitStack() as resources:
        workers = resources.enter_context(Workers(lab, experiment.device.spec, cases=runs))
        workers.prepare()  # while this process plans
        _planned_cell(experiment)  # what cannot be measured is refused now

        def start_builder() -> None:
            if has_page and runs == 1 and not builders:
                builders.append(resources.enter_context(site.start(root)))  # it gets ready beside no sample
                resources.callback(builders[-1].kill)

        _say_outcome(experiment, _measured(experiment, workers, start_builder), runs)
        if not page:
            return
        if not has_page:
            say("There is no page to show it yet; `roofbook build` makes one")
            return
        due = _due_on_page(Experiment(lab, known(page_parameters), root), experiment)
        if due is None:
            made_with = execute.parameters_text(page_parameters)
            say(f"The page of {lab} does not show this measurement: it was made with {made_with}")
            return
        say(f"Rebuilding the page{f'; {due} more of its measurements are not fresh, and are taken now' if due else ''}")
        if due:
            resources.close()
            builders.clear()
        _rebuild_page(root, notebook, page_parameters, builders[0] if builders else None)


def _planned_cell(experiment: "Experiment") -> "Planned":
    """Return the measurement that is planned of an experiment's last variant, on its only case.

    Raise UsageError with the reason if it cannot be measured.
    """
    variant, case = experiment.variants[-1], experiment.cases[0]
    for cell in experiment.plan():
        if cell.variant.name == variant.name:
            return cell
    reason = experiment.lab.skip_reason(variant, case) or f"it does not run on {experiment.device.spec}"
    raise UsageError(f"{variant.name} on {case.name} cannot be measured: {reason}")


def _measured(experiment: "Experiment", workers: "Workers", at_last_run: Callable[[], None]) -> "Done":
    """Return what was taken of an experiment, with its progress in the terminal. at_last_run: called in each last run."""
    from ..measure.progress import Reporter

    reporter = Reporter()

    def report(measured: str, stage: str) -> None:
        reporter(measured, stage)
        if stage.startswith("last run"):
            at_last_run()

    with reporter:
        return experiment.take(report, workers)


def _say_outcome(experiment: "Experiment", done: "Done", runs: int) -> None:
    """Print what was measured of an experiment's last variant, and how to measure more runs if there are few."""
    import shlex

    from ..measure.stats import ENOUGH_RUNS

    say(str(done))
    outcome = experiment.outcome(experiment.variants[-1].name, done)
    for line in outcome.lines():
        say(line)
    if outcome.ratio and runs < ENOUGH_RUNS:
        again = shlex.join(["roofbook", *sys.argv[1:], "--runs", str(ENOUGH_RUNS)])
        say(f"Other runs may differ by more: `{again}` measures {ENOUGH_RUNS}")


def _due_on_page(page: "Experiment", experiment: "Experiment") -> int | None:
    """Return how many measurements of a lab's page are not fresh.

    None if the page does not show the measurement of the experiment's last variant.
    """
    planned = page.plan() + page.plan(page.turned_variants())
    keys = {cell.cell_key for cell in planned}
    if page.store.address != experiment.store.address or _planned_cell(experiment).cell_key not in keys:
        return None
    return sum(cell.state != "fresh" for cell in planned)


def _rebuild_page(root: Path, notebook: Path, parameters: Mapping[str, Any], builder: "Builder | None") -> None:
    """Execute a lab's notebook, and build the site, by a builder that has started already if there is one."""
    from ..book import execute, fragments, manifest, site

    with manifest.build_lock(root, say):
        execute.execute(root, notebook, parameters)
        fragments.update(root)
        say(str(site.build(root, builder=builder)))


@app.command()
@click.argument("out", callback=filled)
@click.option("--lab", "labs", multiple=True, help="A lab, or peaks; may be repeated.  [default: peaks, then all]")
@click.option("--device", "devices", multiple=True, help="A device; may be repeated.  [default: one of each kind]")
@of_scale("scales", multiple=True, help=f"{SCALES}; may be repeated.  [default: published and large]")
@click.option("--case", "cases", multiple=True, help="A case; may be repeated. All without it.")
@click.option("--variant", "variants", multiple=True, help="A variant; may be repeated. All without it.")
@click.option("--sweeps/--no-sweeps", default=True, show_default=True, help="Measure also points of sweeps and series.")
@click.option(
    "--host/--no-host", default=True, show_default=True, help="Measure also variants that run on the host's CPU."
)
@click.option(
    "--runs",
    type=click.IntRange(1, 100),
    help="Processes that each figure comes from.  [default: 3; of a lab whose times include the host's 5]",
)
@seconds("--budget", default=0.5, help="Seconds of samples a cell, in each run.")
@seconds("--limit", default=150.0, help="Seconds that one run may take; a longer run is recorded as out of time.")
@click.option("--remeasure", is_flag=True, help="Measure also variants that OUT holds already.")
@click.option("--uncommitted", is_flag=True, help="Measure also changes that are not committed, into OUT/local.")
@click.option("--together", is_flag=True, help="Measure the devices in the same rounds, as backends of one GPU.")
@CLUSTER
@WORKERS
def record(out: str, **options: Any) -> None:
    """Measure this machine's devices, to send them in.

    Peaks, labs and peers on each device: prints the ladders, leaves Parquet files in OUT/recorded. Each row names the commit,
    so commit your changes first. The exit code is 1 if all measurements failed. `results/record.sh OUT` first installs the
    packages for it.

    \b
      roofbook record OUT --lab lbm --case 128x128
    """
    from ..book import record_device

    record_device.record(Path(out), **options)


@app.command()
@KNOWN_LAB
@VARIANT
@click.argument("case")
@SCALE
@DEVICE
@RESULTS
@click.option("--remeasure", is_flag=True, help="Count again also variants that were counted.")
def profile(lab: "Lab", variant: str, case: str, scale: str, device: str, results: str, remeasure: bool) -> None:
    """Read a GPU's hardware counters for a variant.

    Uses NVIDIA's ncu, on a CUDA device: DRAM, L2 and L1 bytes, instructions, occupancy and the limiting unit, kept as a row
    of the store. With `all` for VARIANT, reads those of every step and peer that runs there:

    \b
      roofbook profile lbm all 128x128
    """
    from ..book.experiment import Experiment
    from ..measure import ncu
    from ..measure.progress import Reporter

    measurable = [
        lab_variant for lab_variant in (*lab.ladder, *lab.peers) if lab_variant.role in ("step", "peer", "dsl")
    ]
    chosen_variants = measurable if variant == "all" else [lab.variant(variant)]
    cuda_device = ncu.open_cuda(device)
    experiment = Experiment(lab.name, {"scale": scale, "device": cuda_device.spec, "results": results, "cases": [case]})
    size, store, policy = experiment.cases[0], experiment.store, experiment.policy
    cells = ncu.plan(lab, size, chosen_variants, experiment.device, store, policy)
    if not cells:
        reason = lab.skip_reason(chosen_variants[0], size) or f"it does not run on {cuda_device.spec}"
        raise UsageError(f"{variant} on {case} cannot be profiled: {reason}")
    with Reporter() as reporter:
        summary = ncu.bring_up_to_date(cells, store, policy, remeasure=remeasure, progress=reporter)
    print(experiment.counters(case).text)
    say(str(summary))
    planned = ncu.plan(lab, size, chosen_variants, experiment.device, store, policy)
    if variant != "all" and planned[0].state == "failed":
        raise Failed(f"{variant} on {case}: {planned[0].why}")


@app.command()
@LAB
@VARIANT
@click.argument("case", required=False)
@of_scale(default="test", show_default=True, help=f"{SCALES}.")
@DEVICE
@click.option(
    "--ends",
    is_flag=True,
    help="Run only the first and the last group of each launch: takes seconds, compares no result.",
)
@seconds("--limit", default=3600.0, help="Seconds that a tool may take for one variant.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of processes that run under compute-sanitizer at a time.",
)
@click.option("--out", type=UserPath(), help="Folder for a file of results for each lab. Needs a CUDA device.")
def check(
    lab: str,
    variant: str,
    case: str | None,
    scale: str,
    device: str,
    ends: bool,
    limit: float,
    jobs: int,
    out: Path | None,
) -> None:
    """Look for data races and accesses out of bounds.

    Runs VARIANT under Oclgrind, or on a CUDA device under NVIDIA's compute-sanitizer, and prints findings in the kernel's own
    lines. CASE is the smallest that VARIANT is for, unless given. The exit code is 1 if there is a finding, or if
    the result is wrong. `all` for VARIANT checks every step that runs on the device. `all` for LAB as well does so in all labs:

    \b
      roofbook check lbm tree
      roofbook check lbm all 40x24
      roofbook check all all --device cuda:0 --jobs 8 --out results/checks
    """
    from ..devices.find import open_device
    from ..measure import sanitize, sanitizer_record
    from ..measure.progress import Reporter
    from ..paths import project_root
    from ..report import sanitizer_text
    from ..spec import registry

    if lab == "all" and variant != "all":
        raise UsageError("with `all` for LAB, VARIANT must be `all` too")
    if out and (case or scale != sanitizer_record.SCALE):
        raise UsageError(
            f"--out needs the smallest cases of the scale {sanitizer_record.SCALE}: leave out CASE and --scale"
        )
    labs = [registry.get(name) for name in (registry.names_with_peaks() if lab == "all" else (lab,))]
    opened_device = open_device(device, labs[0].preferred_backend)
    if out and (variant != "all" or opened_device.backend != "cuda"):
        raise UsageError("--out needs `all` for VARIANT and a CUDA device")
    chosen = [(one_lab, sanitize.choose(one_lab, variant, case, scale, opened_device)) for one_lab in labs]
    version = sanitize.sanitizer_version() if out else ""
    root, checks_done = project_root(), list[sanitize.CheckedVariant]()
    try:
        with sanitizer_record.writing(out, labs) if out else contextlib.nullcontext(), Reporter() as reporter:
            for one_lab, cells in chosen:
                checks = list[sanitize.CheckedVariant]()
                for checked in sanitize.check(
                    one_lab, cells, opened_device, ends=ends, limit_s=limit, jobs=jobs, progress=reporter
                ):
                    reporter.end()
                    for finding in sanitizer_text.findings(checked, root):
                        print(finding, end="\n\n")
                    say(sanitizer_text.summary(checked))
                    checks.append(checked)
                    if out:
                        is_whole = len(checks) == len(cells)
                        sanitizer_record.write(
                            out, one_lab, checks, opened_device, version=version, limit_s=limit, is_whole=is_whole
                        )
                    checks_done.append(checked)
    except KeyboardInterrupt:
        kept = f"; the results so far are in {out}" if out and checks_done else ""
        sys.exit(complain(f"stopped{kept}", 130))
    if variant == "all":
        say(sanitizer_text.summary_of_all(checks_done))
    if not all(checked.clean for checked in checks_done):
        sys.exit(1)


@app.command()
@LAB
@SCALE
@DEVICE
@RECORDED
def explain(lab: str, scale: str, device: str, results: str) -> None:
    """Say whether each measurement of LAB is fresh, and if not, why."""
    from ..book.experiment import Experiment
    from ..report import states

    experiment = Experiment(lab, {"scale": scale, "device": device, "results": results})
    print(states([cell.row() for cell in experiment.plan()], f"Measurements of {lab} on {experiment.device.name}").text)


@app.command()
@LAB
@click.option(
    "--data-dir",
    callback=filled,
    help="The folder of the training and test images.  [default: the cache, or by download]",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the weights.")
@click.option("--epochs", type=click.IntRange(1), default=60, show_default=True, help="Passes over the images.")
@click.option("--out", type=UserPath(), help="An .npz file.  [default: the weights that the lab uses]")
def train(lab: str, data_dir: str | None, seed: int, epochs: int, out: Path | None) -> None:
    """Train the weights of a lab's network again.

    Takes minutes on two cores without a GPU, and prints the accuracy:

    \b
      roofbook train lenet --data-dir fashion-mnist
    """
    import importlib

    from ..spec import registry as all_labs

    trainable = sorted(name for name, folder in all_labs.folders().items() if (folder / "train.py").is_file())
    if lab not in trainable:
        raise one_of("lab with weights", lab, trainable)
    module = importlib.import_module(f"..labs.{lab}.train", __package__)
    try:
        say(module.make(data_dir, seed, epochs, out, say))
    except KeyboardInterrupt:
        sys.exit(complain("stopped; no weights were written", 130))
