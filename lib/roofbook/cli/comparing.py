"""Commands that compare over time: changes in the store, and whether a change made something slower."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import UsageError, complain, one_of
from ..terminal import say
from .app import DEVICE, KNOWN_LAB, SCALE, STORE, app, filled, number, seconds, to_write, writing

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from ..store.parquet import Store


@app.command()
@KNOWN_LAB
@click.argument("variant", required=False)
@click.option("--case", help="A case.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@click.option("--every/--changes", default=None, help="All versions, or changes alone.  [default: all of a VARIANT]")
@STORE
def history(
    lab: "Lab", variant: str | None, case: str | None, on: str | None, every: bool | None, store: "Store"
) -> None:
    """List changes over time, and their reasons.

    A version of a measurement is its runs by equal code, in an equal environment, on one machine. The list has the versions
    whose time differs from the previous one beyond the noise: since when, by how much, and whether code, driver or machine
    changed. With VARIANT, it has all versions:

    \b
      roofbook history lbm
      roofbook history lbm fused --case 128x128
    """
    from ..analysis.stretches import Stretch, stretches
    from ..report.versions_table import versions_tables
    from ..store.selection import texts_of, with_texts

    chosen = {"variant": variant, "case": case, "device": on}
    names: dict[str, set[str]] = {column: set() for column in chosen}

    def histories() -> Iterator[list[Stretch]]:
        for table in store.by_device(lab.name):
            rows = with_texts(table, {"lab": [lab.name]})
            for column, name in chosen.items():
                names[column] |= texts_of(rows, column)
                rows = with_texts(rows, {column: [name]}) if name is not None else rows
            yield from stretches(rows)

    every = variant is not None if every is None else every
    tables, notes = versions_tables(histories(), lab.title, every=every)
    if not names["variant"]:
        raise UsageError(f"{lab.name} was not measured yet; `roofbook run {lab.name}` does it")
    for column, name in chosen.items():
        if name is not None and name not in names[column] and names[column]:
            raise one_of(f"{column} with measurements of {lab.name}", name, sorted(names[column]))
    if not notes:
        raise UsageError(
            f"{lab.name} has no measurements of these together; `roofbook history {lab.name}` lists all changes"
        )
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
@click.option("--unchanged", is_flag=True, help="Measure also variants that have not changed.")
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
    of fresh processes. The exit code is 1 if something became slower beyond the noise between runs, or no longer works, and 2
    if nothing could be compared. With a file or folder of rows in place of a commit, it compares with the rows of the same
    device:

    \b
      roofbook gate --against main
      roofbook gate --against HEAD~1 --lab lbm --case 128x128 --json gate.json
    """
    from ..analysis.gate import Selection, against_commit, against_rows
    from ..measure.progress import Reporter
    from ..measure.side_by_side import Rule
    from ..paths import expanded, write_whole
    from ..report import gate_report

    request = Selection(labs, cases, variants, scale, device, budget, unchanged)
    rule = Rule(1 + tolerance / 100, runs)
    path = Path(ref) if Path(ref).exists() else Path(expanded(ref))
    if path.suffix == ".parquet" and not path.exists():
        raise UsageError(
            f"there is no file {path}: --against takes a commit, or rows as a Parquet file, a folder or a URL"
        )
    try:
        with Reporter() as reporter:
            if "://" in ref or path.suffix == ".parquet" or (path.is_dir() and next(path.rglob("*.parquet"), None)):
                findings = against_rows(ref if "://" in ref else str(path), request, rule, reporter)
            else:
                findings = against_commit(ref, request, rule, reporter)
    except KeyboardInterrupt:
        sys.exit(complain("stopped; a gate that is not finished says nothing", 130))
    if findings.outcomes:
        print(gate_report.gate_table(findings, rule).text, end="\n\n")
    else:
        for note in gate_report.notes(findings, rule):
            say(note)
    if findings.compared:
        say(gate_report.summary(findings))
    if annotate if annotate is not None else os.environ.get("GITHUB_ACTIONS") == "true":
        print(*gate_report.annotations(findings), sep="\n")
    if out is not None:
        with writing("--json", out):
            write_whole(out, gate_report.as_json(findings, rule))
    if findings.failing:
        sys.exit(1)
    if not findings.compared:
        raise UsageError(gate_report.summary(findings))
