"""Commands that compare over time: what changed in the store, and whether a change made something slower."""

import click

from ..errors import UsageError, one_of
from ..terminal import say
from .app import LAB, RESULTS, app


@app.command()
@LAB
@click.argument("variant", required=False)
@click.option("--case", help="A case.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@click.option("--every/--changes", default=None, help="All versions, or changes alone.  [default: all of a VARIANT]")
@RESULTS
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
