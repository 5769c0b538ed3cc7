"""Commands for a store that several people or machines share: copy files into it and out of it, merge them, and import the runs
of browsers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import Failed, UsageError
from ..terminal import say
from .app import RECORDED, RESULTS, STORE, UserPath, app, filled, no_store

if TYPE_CHECKING:
    from ..store.files import StorePart
    from ..store.parquet import Store


@app.command()
@click.argument("to", callback=filled)
@RECORDED
def push(to: str, results: str) -> None:
    """Add your measurements to another store.

    TO is a folder, or a bucket as s3://BUCKET/NAME. Files that it has already, in whatever form, are not sent again. No file
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
    from ..store.storage import storage_of
    from ..store.transfer import copy

    source_storage, target_storage = storage_of(source), storage_of(target)
    if source_storage.address == target_storage.address:
        raise UsageError(f"{source_storage.address} is both where the files come from and where they go to")
    if isinstance(source, str) and "://" not in source and not source_storage.root.is_dir():
        raise no_store(source)
    line = ProgressLine("copying")
    try:
        copied = copy(source_storage, target_storage, lambda number, total: line(f"{number} of {total} files"))
    finally:
        line.end()
    say(f"{copied.new} files copied to {target_storage.address}; {copied.present} were there already")
    if copied.broken:
        raise Failed(f"{copied.broken} files were left out, as the warnings above say")


@app.command()
@STORE
@click.option(
    "--part", default="local", show_default=True, help="local: your measurements; recorded: those that the book cites."
)
def compact(store: "Store", part: "StorePart") -> None:
    """Merge the files of a store, so that reading is quick.

    Leaves few files for each lab and device in a part of the store, with the same rows. Measuring and reading may go on
    meanwhile:

    \b
      roofbook compact --results s3://team/roofbook
    """
    busy: list[str] = []
    merged = store.compact(part, busy=busy.append)
    for folder in busy:
        say(f"{folder}: somebody else is merging it, or died while doing so less than ten minutes ago")
    if merged:
        say(f"{len(merged)} {'file now holds' if len(merged) == 1 else 'files now hold'} the rows of several")
    elif not busy:
        say("There was nothing to merge")


@app.command("import")
@click.argument("file", type=UserPath())
@RESULTS
def import_rows(file: Path, results: str) -> None:
    """Add the rows that a page measured in a browser.

    FILE is the JSON that a page of the book saves after *Run it on this device*. Each of its fields is checked, and its kernels
    are compared with this version of the book. Either all of its rows are added or none; FILE stays as it is. The rows are
    those of a device of their own, by WebGPU in a browser: no verdict on a claim counts them.

    \b
      roofbook import stencil-fused-1024x1024.json
    """
    from ..book.browser_import import MOST_BYTES, read
    from ..paths import project_root, read_regular
    from ..store.storage import located

    content = read_regular(file, MOST_BYTES)
    try:
        file_rows = read(content)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from None
    _add(file_rows.rows, located(project_root(), results))
    if file_rows.changed:
        say(f"Rows of a changed kernel that were left out, as they are of no step: {file_rows.changed}")


def _add(rows: Sequence[dict[str, Any]], results: str | Path) -> None:
    """Add rows to a store, run by run, and say of each run whether it is new."""
    from ..analysis.store_devices import StoreDevice
    from ..store.parquet import Store

    store = Store(results)
    by_run: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_run.setdefault((row["lab"], row["run"]), []).append(row)
    present = {(lab, Path(name).stem) for lab in {lab for lab, _ in by_run} for name in store.names(lab)}
    store.append([row for run, of_run in by_run.items() if run not in present for row in of_run])
    for (lab, run), of_run in by_run.items():
        device = StoreDevice(*(str(of_run[0][name]) for name in ("device", "backend", "device_name", "device_kind")))
        added = f"{len(of_run)} rows added to {store.address}"
        say(f"{lab} on {device}, run {run}: {'in the store already' if (lab, run) in present else added}")
