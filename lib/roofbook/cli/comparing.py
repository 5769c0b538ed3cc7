"""Commands that compare over time: what changed in the store, and whether a change made something slower."""

import os
import sys
from pathlib import Path

import click

from ..errors import UsageError, complain, of_system, one_of
from ..terminal import say
from .app import DEVICE, LAB, RECORDED, SCALE, app, filled, number, seconds, to_write


@app.command()
@LAB
@click.argument("variant", required=False)
@click.option("--case", help="A case.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@click.option("--every/--changes", default=None, help="All versions, or changes alone.  [default: all of a VARIANT]")
@RECORDED
def history(lab: str, variant: str | None, case: str | None, on: str | None, every: bool | None, results: str) -> None:
    """List what changed over time, and why.

    A version of a measurement is its runs by equal code, in an equal environment, on one machine. Those are listed whose time
    is another than before, beyond the noise: since when, by how much, and whether code, driver or machine changed. With
    VARIANT, all versions:

    \b
      roofbook history lbm
      roofbook history lbm fused --case 128x128
    """
    from ..analysis.history import by_measurement, stretches, versions
    from ..paths import project_root
    from ..report.versions_table import versions_tables
    from ..spec import registry as all_labs
    from ..store.parquet import Store
    from ..store.storage import located

    known = all_labs.get(lab)
    frame = Store(located(project_root(), results)).rows(lab)
    if frame.empty:
        raise UsageError(f"{lab} was not measured yet; `roofbook run {lab}` does it")
    for column, what, given in (("variant", "variant", variant), ("case", "case", case), ("device", "device", on)):
        if given is not None:
            names = sorted(set(frame[column]))
            if given not in names:
                raise one_of(f"{what} with measurements of {lab}", given, names)
            frame = frame[frame[column] == given]
    if frame.empty:
        raise UsageError(f"{lab} was not measured so; `roofbook history {lab}` lists what was")
    rows = [{str(name): field for name, field in row.items()} for row in frame.to_dict("records")]
    found = {key: stretches(versions(mine)) for key, mine in by_measurement(rows).items()}
    every = variant is not None if every is None else every
    tables, notes = versions_tables(found, known.title, every=every)
    for table in tables:
        print(table.text, end="\n\n")
    for note in notes:
        say(note)


@app.command()
@click.option(
    "--against",
    "ref",
    required=True,
    callback=filled,
    help="A commit, tag or branch; or rows: a Parquet file, a folder or a URL.",
)
@click.option("--lab", "labs", multiple=True, help="A lab; may be repeated.  [default: all]")
@click.option("--case", "cases", multiple=True, help="A case; may be repeated.  [default: those of the scale]")
@click.option("--variant", "variants", multiple=True, help="A variant; may be repeated.  [default: all that changed]")
@click.option("--unchanged", is_flag=True, help="Measure also what has not changed.")
@SCALE
@DEVICE
@click.option(
    "--tolerance",
    default=3.0,
    show_default=True,
    type=click.FloatRange(min=1, max=100, min_open=True),
    callback=number,
    help="The slowdown in percent that must be found.",
)
@click.option(
    "--runs",
    default=5,
    show_default=True,
    type=click.IntRange(3, 30),
    help="Fresh processes a side before the first verdict; where that is open, up to three times as many.",
)
@seconds("--budget", default=0.5, help="Seconds of samples a variant and side, in each run.")
@to_write("--json", "out", help="A file for all figures.")
@click.option(
    "--annotate/--no-annotate",
    default=None,
    help="Print GitHub's annotations.  [default: where GITHUB_ACTIONS is true]",
)
def gate(
    ref: str,
    labs: tuple[str, ...],
    cases: tuple[str, ...],
    variants: tuple[str, ...],
    unchanged: bool,
    scale: str,
    device: str,
    tolerance: float,
    runs: int,
    budget: float,
    out: Path | None,
    annotate: bool | None,
) -> None:
    """Fail where a change made a kernel slower.

    Builds the kernels that differ from a commit out of the commit's own source, and measures both in turns, in several pairs
    of fresh processes. The exit code is 1 where something became slower beyond the noise between runs, or no longer
    works, and 2 where nothing could be compared. With a file or folder of rows in place of a commit, it compares with the rows
    of the same device:

    \b
      roofbook gate --against main
      roofbook gate --against HEAD~1 --lab lbm --case 128x128 --json gate.json
    """
    from ..analysis.gate import Asked, against_commit, against_rows
    from ..measure.progress import Reporter
    from ..measure.side_by_side import Rule
    from ..paths import expanded, write_whole
    from ..report import gate_report

    asked = Asked(labs, cases, variants, scale, device, budget, unchanged)
    rule = Rule(1 + tolerance / 100, runs)
    tell = Reporter()
    path = Path(ref) if Path(ref).exists() else Path(expanded(ref))
    try:
        if path.suffix == ".parquet" and not path.exists():
            raise UsageError(f"there is no file {path}")
        if "://" in ref or path.suffix == ".parquet" or (path.is_dir() and next(path.rglob("*.parquet"), None)):
            found = against_rows(ref if "://" in ref else str(path), asked, rule, tell)
        else:
            found = against_commit(ref, asked, rule, tell)
    except KeyboardInterrupt:
        tell.end()
        sys.exit(complain("stopped; a gate that is not finished says nothing", 130))
    finally:
        tell.end()
    if found.outcomes:
        print(gate_report.gate_table(found, rule).text, end="\n\n")
    else:
        for note in gate_report.notes(found, rule):
            say(note)
    if found.compared:
        say(gate_report.summary(found))
    if annotate if annotate is not None else os.environ.get("GITHUB_ACTIONS") == "true":
        print(*gate_report.annotations(found), sep="\n")
    if out is not None:
        try:
            write_whole(out, gate_report.as_json(found, rule))
        except OSError as error:
            raise UsageError(f"--json {out} cannot be written: {of_system(error)}") from None
    if found.failing:
        sys.exit(1)
    if not found.compared:
        raise UsageError(gate_report.summary(found))
