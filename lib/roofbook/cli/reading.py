"""Commands that read: kernels and their differences, what was measured, what reports claim, an exercise."""

import sys
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from .. import strict_json
from ..devices.backends import OPENCL, languages
from ..errors import UsageError
from ..escaping import printable, spreadsheet_frame
from ..terminal import say
from .app import DEVICE, LAB, RECORDED, SCALE, VARIANT, UserPath, app, to_write

if TYPE_CHECKING:
    import pyarrow as pa


@app.command()
@LAB
@VARIANT
@click.option(
    "--as", "dialect", type=click.Choice(sorted(languages())), help=f"[default: {OPENCL.name}, if the variant has it]"
)
def show(lab: str, variant: str, dialect: str | None) -> None:
    """Print a kernel as plain OpenCL C, CUDA C++ or C.

    What the compiler gets, ready to paste elsewhere. Its sizes are those of the row; a plan sets those of the case:

    \b
      roofbook show lbm fused --as cuda
    """
    from ..spec import registry as all_labs

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
@VARIANT
def diff(lab: str, variant: str) -> None:
    """Show what a kernel changes over its parent.

    Both have their knobs expanded: the diff is of the source that is compiled.

    \b
      roofbook diff lbm fused
    """
    from ..spec import registry as all_labs

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
@click.argument("name", required=False)
@click.option(
    "--check",
    "answer",
    type=UserPath(allow_dash=True),
    help="A file with your kernel, or - for standard input: is it right?",
)
@click.option("--solution", is_flag=True, help="Print the kernel without the hole.")
@click.option("--time/--no-time", default=True, show_default=True, help="Time a right one beside the book's own.")
@click.option(
    "--sandbox/--no-sandbox",
    default=None,
    help="Run the kernel in bubblewrap, without network or home.  [default: where it is installed and works]",
)
@click.option("--json", "as_json", is_flag=True, help="Say what came of it as JSON.")
@DEVICE
def exercise(
    lab: str,
    name: str | None,
    answer: Path | None,
    solution: bool,
    time: bool,
    sandbox: bool | None,
    as_json: bool,
    device: str,
) -> None:
    """Print a kernel with a hole in it, and check yours.

    NAME is one of LAB's kernels to write; without it, they are listed. The exit code is 0 where yours is right on all cases,
    the timed one included, 1 where it is wrong, and 2 where it does not compile.

    A kernel runs with the rights of your account. What one that is not yours can do to it, and what the sandbox keeps from it,
    is said on the page "A stranger's kernel" of the book, book/strangers-kernel.md.

    \b
      roofbook exercise stencil fused > my.k
      roofbook exercise stencil fused --check my.k
    """

    from ..devices.find import open_device
    from ..measure.answer import judge
    from ..measure.sandbox import sandbox as sandbox_if
    from ..report import exercise_feedback
    from ..spec import exercise as exercises
    from ..spec import registry as all_labs
    from ..spec.answer_file import read_answer

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
    handed_in = read_answer(answer)
    mark = judge(
        known, chosen, handed_in, open_device(device, known.preferred_backend), sandbox_if(sandbox), take_time=time
    )
    if as_json:
        print(strict_json.dumps(exercise_feedback.as_json(mark, known, chosen), indent=2))
    else:
        say(exercise_feedback.words(mark, known, chosen))
    sys.exit(mark.code)


@app.command()
@LAB
@click.argument("case")
@to_write("--out", required=True, help="A file, .svg or .png.")
@click.option(
    "--on", help="A device of the store, such as nvidia-h200 or nvidia-h200/cuda.  [default: that of the newest run]"
)
@click.option("--only", multiple=True, help="A variant; may be repeated.  [default: the whole ladder]")
@SCALE
@RECORDED
def chart(lab: str, case: str, out: Path, on: str | None, only: tuple[str, ...], scale: str, results: str) -> None:
    """Draw a ladder, for any device in the store, by one backend.

    Of a device without its backend it is the one of the newest run.

    \b
      roofbook chart lbm 128x128 --out ladder.svg
    """
    from ..analysis.case_data import CaseData
    from ..analysis.recorded import recorded
    from ..errors import one_of
    from ..paths import project_root
    from ..report import ladder_chart
    from ..spec import registry as all_labs
    from ..store.files import EVERYWHERE
    from ..store.parquet import Store
    from ..store.storage import located

    found = all_labs.get(lab)
    whole = [variant.name for variant in (*found.ladder, *found.peers)]
    order = [found.variant(name).name for name in only] or whole
    name, newest = found.case(case, scale).name, {}
    for data in recorded(found, Store(located(project_root(), results)), scale, EVERYWHERE):
        own = data.rows[(data.rows["backend"] == data.store_device.backend) & (data.rows["case"] == name)]
        if (runs := own[own["variant"].isin(order)]["run"]).size:
            newest[data] = runs.max()
    if not newest:
        raise UsageError(f"{lab} on {case} was not measured at scale {scale} yet; `roofbook run` does it")
    chosen = [data for data in newest if on in (None, data.store_device.slug, data.store_device.id)]
    if not chosen:
        raise one_of("device in the store", on, [data.store_device.id for data in newest])
    shown = max(chosen, key=newest.__getitem__)
    drawing = ladder_chart(
        CaseData(shown.rows, order, name, found.bases, lab_order=whole),
        f"{found.title}, {case}, on {shown.store_device}",
    )
    try:
        drawing.save(out)
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror}") from None


@app.command()
@click.option("--lab", "names", multiple=True, help="A lab; may be repeated.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@RECORDED
def claims(names: tuple[str, ...], on: str | None, results: str) -> None:
    """Print what the reports claim, and our verdicts.

    Then the measurements behind each claim, and the command that repeats them.

    \b
      roofbook claims --lab lbm
    """
    from ..analysis.publication import publication
    from ..analysis.verdicts import judged
    from ..book.fragments import verdicts
    from ..errors import one_of
    from ..paths import project_root
    from ..spec import registry as all_labs
    from ..store.parquet import Store
    from ..store.storage import located

    store = Store(located(project_root(), results))
    chosen = [all_labs.get(name) for name in names or all_labs.names()]
    found = {lab.name: judged(lab, store) for lab in chosen if names or publication(lab).evidence}
    known = sorted({place.slug for lines in found.values() for line in lines for place in line.outcomes})
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
@RECORDED
def compare(lab: str, case: str, on: tuple[str, ...], results: str) -> None:
    """Print a case of LAB on several devices.

    Shows the times of each device and backend in the store, at published and large sizes, and how many times as fast one is
    as another. --on chooses the devices; ratios then compare the first with each of the others:

    \b
      roofbook compare lbm 128x128 --on nvidia-h200/opencl --on nvidia-h200/cuda
    """
    from ..analysis.comparison import on_case
    from ..paths import project_root
    from ..report.comparison_table import comparison
    from ..spec import registry as all_labs
    from ..store.parquet import Store
    from ..store.storage import located

    print(comparison(on_case(all_labs.get(lab), Store(located(project_root(), results)), case, on)).text)


@app.command()
@click.argument("sql", default="select * from cells")
@to_write("--out", help="A file, .csv or .parquet; standard output without it.")
@RECORDED
def export(sql: str, out: Path | None, results: str) -> None:
    """Write the rows of the store, or an SQL query.

    The views are cells (one row per measurement), published and claims; the default is all of cells. Lists are JSON in a
    CSV, and a text that a spreadsheet would take for a formula begins with an apostrophe. On standard output control characters
    are written out; a file has them. Rows whose role is profile have times under a profiler.

    \b
      roofbook export "select variant, count(*) from cells group by all"
      roofbook export --out cells.parquet
    """
    from ..paths import project_root
    from ..store.parquet import Store
    from ..store.storage import located

    if out and out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--out must end in .csv or .parquet, not {out.name!r}")
    store = Store(located(project_root(), results))
    try:
        table = store.arrow(sql)
    except UsageError as error:
        hint = 'the views are cells, published and claims; the columns "case" and "table" need their double quotes'
        of_sql = str(error).startswith(("the store cannot answer", "this SQL"))
        raise UsageError(f"{error} ({hint})" if of_sql else str(error)) from None
    if out is None:
        _write_csv(table, None)
        return
    from io import BytesIO

    from ..paths import write_whole

    made = BytesIO()
    if out.suffix == ".parquet":
        _write_parquet(table, made)
    else:
        _write_csv(table, made)
    try:
        write_whole(out, made.getvalue())
    except OSError as error:
        raise UsageError(f"--out {out} cannot be written: {error.strerror or error}") from None


ROWS_AT_ONCE = 1000
"""Number of rows of a CSV that are printed together."""


def _write_csv(table: "pa.Table", to: IO[bytes] | None) -> None:
    """Write a table as CSV to a file, or print it; lists and what else is nested as JSON.

    Errors: UsageError for what no text is made of.
    """
    from decimal import Decimal

    import pyarrow as pa

    def plain(value: object) -> float | str:
        return float(value) if isinstance(value, Decimal) else str(value)

    try:
        for at, column in enumerate(table.columns):
            if pa.types.is_nested(column.type):
                texts = [
                    None if value is None else strict_json.dumps(value, default=plain) for value in column.to_pylist()
                ]
                table = table.set_column(at, table.field(at).name, pa.array(texts, pa.string()))
        frame = spreadsheet_frame(table.to_pandas())
        if to is None:
            for first in range(0, max(1, len(frame)), ROWS_AT_ONCE):
                rows = frame.iloc[first : first + ROWS_AT_ONCE]
                print(printable(rows.to_csv(index=False, header=not first)), end="")
        else:
            frame.to_csv(to, index=False)
    except (pa.ArrowException, ValueError, OverflowError, NotImplementedError) as error:
        raise _no_such("CSV", error) from None


def _write_parquet(table: "pa.Table", to: IO[bytes]) -> None:
    """With the types of the answer. Errors: UsageError for those that such a file has not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if twice := [name for name, count in Counter(table.column_names).items() if count > 1]:
        names = ", ".join(twice)
        raise UsageError(f"two columns are named {names}; a Parquet file needs other names: SELECT ... AS NAME")
    try:
        pq.write_table(table, to)
    except pa.ArrowException as error:
        raise _no_such("Parquet file", error) from None


def _no_such(file: str, error: Exception) -> UsageError:
    said = " ".join(str(error).split())[:200]
    return UsageError(f"a {file} cannot hold this answer: {said}; make that column text: SELECT COLUMN::VARCHAR")
