"""Commands for a store that several people or machines share: copy files into it and out of it, and merge them."""

from pathlib import Path

import click

from ..errors import Failed, UsageError
from ..terminal import say
from .app import RECORDED, RESULTS, app, filled


@app.command()
@click.argument("to", callback=filled)
@RECORDED
def push(to: str, results: str) -> None:
    """Add your measurements to another store.

    TO is a folder, or a bucket as s3://BUCKET/NAME. Files that are there already, in whatever form, are not sent again. None
    is changed or removed:

    \b
      roofbook push s3://team/roofbook
    """
    from ..paths import project_root
    from ..store.storage import located

    _copy(located(project_root(), results), to)


@app.command()
@click.argument("source", metavar="FROM", callback=filled)
@RESULTS
def pull(source: str, results: str) -> None:
    """Add another store's measurements to yours.

    FROM is a folder, or a bucket as s3://BUCKET/NAME:

    \b
      roofbook pull s3://team/roofbook
    """
    from ..paths import project_root
    from ..store.storage import located

    _copy(source, located(project_root(), results))


def _copy(source: str | Path, target: str | Path) -> None:
    from ..measure.progress import ProgressLine
    from ..store.copying import copy
    from ..store.storage import storage_of

    here, there = storage_of(source), storage_of(target)
    if here.address == there.address:
        raise UsageError(f"{here.address} is both where the files come from and where they go to")
    if isinstance(source, str) and "://" not in source and not here.root.is_dir():
        raise UsageError(f"there is no store in {source}")
    line = ProgressLine("copying")
    try:
        done = copy(here, there, lambda number, of: line(f"{number} of {of} files"))
    finally:
        line.end()
    say(f"{done.new} files copied to {there.address}; {done.there} were there already")
    if done.broken:
        raise Failed(f"{done.broken} files were left out, as the warnings above say")


@app.command()
@RECORDED
def compact(results: str) -> None:
    """Merge the files of a store, so that reading is quick.

    Of each lab and device in its part local/ one file is left, with the same rows. Measuring and reading may go on meanwhile:

    \b
      roofbook compact --results s3://team/roofbook
    """
    from ..paths import project_root
    from ..store.parquet import Store
    from ..store.storage import located

    store = Store(located(project_root(), results))
    busy: list[str] = []
    merged = store.compact(busy=busy.append)
    for folder in busy:
        say(f"{folder}: somebody else is merging it, or died while doing so less than ten minutes ago")
    say(f"{len(merged)} files now hold what more held before" if merged else "There was nothing to merge")
