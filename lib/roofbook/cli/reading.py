"""Commands that read: kernels and their differences, measurements, claims of reports, exercises."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import strict_json
from ..devices.backends import OPENCL, WEBGPU, WGSL, languages
from ..errors import UsageError
from ..escaping import printable, spreadsheet_frame
from ..terminal import say
from .app import DEVICE, KNOWN_LAB, LIMIT, MEMORY, SANDBOX, SCALE, STORE, VARIANT, UserPath, app, to_write, writing

if TYPE_CHECKING:
    import pyarrow as pa

    from ..spec.lab import Lab
    from ..store.parquet import Store


@app.command()
@KNOWN_LAB
@click.argument("variant", required=False)
@click.option("--ladder", is_flag=True, help="Print all steps in order, with a mark at each line that changed.")
@click.option(
    "--as", "dialect", type=click.Choice(sorted(languages())), help=f"[default: {OPENCL.name}, if the variant has it]"
)
def show(lab: "Lab", variant: str | None, ladder: bool, dialect: str | None) -> None:
    """Print a kernel as plain OpenCL C, CUDA C++, C or WGSL.

    It is the text that the compiler gets, ready to paste elsewhere. Its sizes are those of the row; a plan sets those of the
    case. A kernel in a language of Python is printed as it is. With --ladder the kernels of all steps follow each other: a
    line with + is new, one with - is gone.

    \b
      roofbook show lbm fused --as cuda
      roofbook show lbm fused --as wgsl
      roofbook show stencil --ladder
    """
    if ladder:
        from ..report.ladder_source import ladder_source

        if variant is not None:
            raise UsageError(f"--ladder prints all steps of {lab.name}: leave {variant} out")
        print(ladder_source(lab, dialect))
        return
    if variant is None:
        raise UsageError(f"name a variant of {lab.name}, such as {lab.ladder[0].name}, or give --ladder for all steps")
    chosen = lab.variant(variant)
    if chosen.role == "dsl":
        if dialect:
            raise UsageError(f"{variant} has no {dialect} form: it is written in Python; leave --as out")
        print("".join(file.read_text("utf-8") for file in getattr(chosen.plan, "sources", ())), end="")
        return
    if chosen.source is None:
        raise UsageError(f"{variant} has no kernel: it is a program of the host")
    if dialect == WGSL:
        if lacking := chosen.lacking(WEBGPU.name):
            raise UsageError(f"{variant} has no {dialect} form: {WEBGPU.label} lacks: {lacking}")
        print(chosen.source.render(dialect), end="")
        return
    forms = chosen.languages
    dialect = dialect or next(name for name in (OPENCL.name, *languages()) if name in forms)
    if dialect not in forms:
        raise UsageError(f"{variant} has no {dialect} form; it has --as {', '.join(sorted(forms))}")
    print(chosen.source.render(dialect), end="")


@app.command()
@KNOWN_LAB
@VARIANT
def diff(lab: "Lab", variant: str) -> None:
    """Show the difference of a kernel from its parent.

    Both have their knobs expanded: the diff is of the source that is compiled.

    \b
      roofbook diff lbm fused
    """
    chosen = lab.variant(variant)
    if chosen.parent in (None, variant):
        instead = f"`roofbook show {lab.name} {variant}` prints its kernel"
        raise UsageError(f"{variant} has no parent; {instead if chosen.source else 'it is a program of the host'}")
    parent = lab.variant(str(chosen.parent))
    if chosen.source is None:
        raise UsageError(
            f"{variant} and {parent.name} are in two languages: `roofbook show {lab.name} {variant}` prints it"
        )
    text = ""
    if chosen.source and parent.source:
        text = chosen.source.diff(parent.source, (parent.name, chosen.name))
    if text:
        print(text)
    else:
        say(f"Same kernel as {parent.name}; different {' and '.join(chosen.differs)}. {chosen.change}")


@app.command()
@KNOWN_LAB
@click.argument("name", required=False)
@click.option(
    "--check",
    "answer",
    type=UserPath(allow_dash=True),
    help="A file with your kernel, or - for standard input: is it right?",
)
@click.option("--solution", is_flag=True, help="Print the kernel without the hole.")
@click.option("--time/--no-time", default=True, show_default=True, help="Time a right one beside the book's own.")
@SANDBOX
@LIMIT
@MEMORY
@click.option("--json", "as_json", is_flag=True, help="Print the feedback as JSON.")
@DEVICE
def exercise(
    lab: "Lab",
    name: str | None,
    answer: Path | None,
    solution: bool,
    time: bool,
    sandbox: bool | None,
    limit: float,
    memory: float | None,
    as_json: bool,
    device: str,
) -> None:
    """Print a kernel with a hole in it, and check yours.

    NAME is one of LAB's kernels to write; without it, they are listed. The exit code is 0 where yours is right on all cases,
    the timed one included, 1 where it is wrong, and 2 where it does not compile.

    A kernel runs with the rights of your account. The page "A stranger's kernel" of the book, book/strangers-kernel.md, names
    the dangers of another person's kernel, and those that the sandbox prevents.

    \b
      roofbook exercise stencil fused > my.k
      roofbook exercise stencil fused --check my.k
    """

    from ..devices.find import open_device
    from ..measure.answer import Limits, judge, task_of
    from ..measure.sandbox import sandbox as sandbox_if
    from ..report import exercise_feedback
    from ..spec import exercise as exercises
    from ..spec.answer_file import read_answer

    all_of_lab = exercises.exercises(lab)
    if not all_of_lab.write:
        raise UsageError(f"{lab.name} has no kernel to write; `roofbook exercise stencil` lists some")
    if name is None:
        widest = max(len(exercise_of_lab.name) for exercise_of_lab in all_of_lab.write)
        for exercise_of_lab in all_of_lab.write:
            say(f"{exercise_of_lab.name:{widest}} {exercise_of_lab.task}", hang=widest + 1)
        return
    chosen = all_of_lab.named(lab.name, name)
    if answer is None:
        print((exercises.solution if solution else exercises.holed)(lab, chosen), end="")
        return
    kernel_text = read_answer(answer)
    mark = judge(
        lab,
        task_of(lab, chosen),
        kernel_text,
        open_device(device, lab.preferred_backend),
        sandbox_if(sandbox),
        take_time=time,
        limits=Limits(limit, memory),
    )
    if as_json:
        print(strict_json.dumps(exercise_feedback.as_json(mark, lab, chosen), indent=2))
    else:
        say(exercise_feedback.as_text(mark, lab, chosen))
    sys.exit(mark.code)


@app.command()
@KNOWN_LAB
@click.argument("case")
@to_write("--out", required=True, help="A file, .svg or .png.")
@click.option(
    "--on", help="A device of the store, such as nvidia-h200 or nvidia-h200/cuda.  [default: that of the newest run]"
)
@click.option("--only", multiple=True, help="A variant; may be repeated.  [default: the whole ladder]")
@SCALE
@STORE
def chart(lab: "Lab", case: str, out: Path, on: str | None, only: tuple[str, ...], scale: str, store: "Store") -> None:
    """Draw a ladder, for any device in the store, by one backend.

    Of a device without its backend it is the one of the newest run.

    \b
      roofbook chart lbm 128x128 --out ladder.svg
    """
    from ..analysis.case_data import CaseData
    from ..analysis.recorded import recorded
    from ..errors import one_of
    from ..report import ladder_chart
    from ..store.files import STORE_PARTS

    all_names = [variant.name for variant in (*lab.ladder, *lab.peers)]
    order = [lab.variant(name).name for name in only] or all_names
    name, newest = lab.case(case, scale).name, {}
    for data in recorded(lab, store, scale, STORE_PARTS):
        own_rows = data.rows[(data.rows["backend"] == data.store_device.backend) & (data.rows["case"] == name)]
        if (runs := own_rows[own_rows["variant"].isin(order)]["run"]).size:
            newest[data] = runs.max()
    if not newest:
        raise UsageError(f"{lab.name} on {case} was not measured at scale {scale} yet; `roofbook run` does it")
    chosen = [data for data in newest if on in (None, data.store_device.slug, data.store_device.id)]
    if not chosen:
        raise one_of("device in the store", on, [data.store_device.id for data in newest])
    shown_data = max(chosen, key=newest.__getitem__)
    parents = {variant.name: variant.parent for variant in lab.ladder if variant.parent}
    drawing = ladder_chart(
        CaseData(shown_data.rows, order, name, lab.bases, parents=parents),
        f"{lab.title}, {case}, on {shown_data.store_device}",
    )
    with writing("--out", out):
        drawing.save(out)


@app.command()
@click.option("--lab", "names", multiple=True, help="A lab; may be repeated.  [default: all]")
@click.option("--on", help="A device's name in the store, such as nvidia-h200.  [default: all devices]")
@STORE
def claims(names: tuple[str, ...], on: str | None, store: "Store") -> None:
    """Print the reports' claims, and our verdicts.

    Then the measurements behind each claim, and the command that repeats them.

    \b
      roofbook claims --lab lbm
    """
    from ..analysis.publication import publication
    from ..analysis.verdicts import judged
    from ..book.fragments import verdicts
    from ..errors import one_of
    from ..spec import registry as all_labs

    chosen, errors = [all_labs.get(name) for name in names], list[str]()
    if not names:
        chosen, errors = all_labs.usable()
    for lab in chosen:
        if names and not publication(lab).evidence:
            say(f"{lab.name} has no report whose claims are tested")
    lines_by_lab = {lab.name: judged(lab, store) for lab in chosen if publication(lab).evidence}
    devices = sorted({device.slug for lines in lines_by_lab.values() for line in lines for device in line.outcomes})
    if on and on not in devices:
        if not devices:
            raise UsageError(
                "no measurement behind a claim was taken yet; `roofbook run LAB --scale published` does it"
            )
        raise one_of("device with measurements behind a claim", on, devices)
    for name, lines in lines_by_lab.items():
        for table in verdicts(all_labs.get(name), lines, on):
            print(table.text, end="\n\n")
    if errors:
        raise UsageError("; ".join(errors))


@app.command()
@KNOWN_LAB
@click.argument("case")
@click.option(
    "--on", multiple=True, help="A device of the store, such as nvidia-h200 or nvidia-h200/cuda; may be repeated."
)
@STORE
def compare(lab: "Lab", case: str, on: tuple[str, ...], store: "Store") -> None:
    """Print a case of LAB on several devices.

    Shows the times of each device and backend in the store, at published and large sizes, and how many times as fast one is
    as another. --on chooses the devices; ratios then compare the first with each of the others:

    \b
      roofbook compare lbm 128x128 --on nvidia-h200/opencl --on nvidia-h200/cuda
    """
    from ..analysis.comparison import on_case
    from ..report.comparison_table import comparison

    print(comparison(on_case(lab, store, case, on)).text)


@app.command()
@click.argument("sql", required=False)
@to_write("--out", help="A file, .csv or .parquet; standard output without it.")
@STORE
def export(sql: str | None, out: Path | None, store: "Store") -> None:
    """Write the rows of the store, or an SQL query.

    The views are cells (one row per measurement), published and claims; the default is all of cells. Lists are JSON in a
    CSV, and a text that a spreadsheet would take for a formula begins with an apostrophe. On standard output control characters
    are written out; a file has them. Rows whose role is profile have times under a profiler.

    \b
      roofbook export "select variant, count(*) from cells group by all"
      roofbook export --out cells.parquet
    """
    if out and out.suffix not in (".csv", ".parquet"):
        raise UsageError(f"--out must end in .csv or .parquet, not {out.name!r}")
    try:
        table = store.all_rows() if sql is None else store.arrow(sql)
    except UsageError as error:
        hint = 'the views are cells, published and claims; the columns "case" and "table" need their double quotes'
        of_sql = str(error).startswith(("the store cannot answer", "this SQL"))
        raise UsageError(f"{error} ({hint})" if of_sql else str(error)) from None
    if out is None:
        for part in _csv(table, ROWS_AT_ONCE):
            print(printable(part), end="")
        return
    from ..paths import write_whole

    with writing("--out", out):
        write_whole(out, _parquet(table) if out.suffix == ".parquet" else (part.encode() for part in _csv(table)))


ROWS_AT_ONCE = 1000
"""Number of rows of a CSV that are printed together."""


def _csv(table: "pa.Table", rows_at_once: int = 20_000) -> Iterator[str]:
    """Yield a table as CSV, some rows at a time, since a large store as text takes ten times its memory.

    Lists and other nested fields are JSON. Errors: UsageError for a field that cannot be written as text.
    """
    from decimal import Decimal

    import pyarrow as pa

    def plain(number: object) -> float | str:
        return float(number) if isinstance(number, Decimal) else str(number)

    def texts(column: "pa.ChunkedArray") -> "pa.Array":
        fields = [None if field is None else strict_json.dumps(field, default=plain) for field in column.to_pylist()]
        return pa.array(fields, pa.string())

    try:
        for index, column in enumerate(table.columns):
            if (
                pa.types.is_integer(column.type) and column.null_count
            ):  # so that all rows have the form of pandas' floats
                table = table.set_column(index, table.field(index).name, column.cast(pa.float64(), safe=False))
        for start in range(0, max(1, len(table)), rows_at_once):
            part = table.slice(start, rows_at_once)
            for index, column in enumerate(part.columns):
                if pa.types.is_nested(column.type):
                    part = part.set_column(index, part.field(index).name, texts(column))
            yield spreadsheet_frame(_without_dictionaries(part).to_pandas()).to_csv(index=False, header=not start)
    except (pa.ArrowException, ValueError, OverflowError, NotImplementedError) as error:
        raise _no_such("CSV", error) from None


def _without_dictionaries(table: "pa.Table") -> "pa.Table":
    """Return a table with plain texts where it has dictionary-encoded ones."""
    import pyarrow as pa

    for index, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type):
            table = table.set_column(index, table.field(index).name, column.cast(column.type.value_type))
    return table


def _parquet(table: "pa.Table") -> bytes:
    """Return a table as a Parquet file, with its types. Errors: UsageError for types that such a file cannot hold."""
    from io import BytesIO

    import pyarrow as pa
    import pyarrow.parquet as pq

    if repeated := [name for name, count in Counter(table.column_names).items() if count > 1]:
        names = ", ".join(repeated)
        raise UsageError(f"two columns are named {names}; a Parquet file needs other names: SELECT ... AS NAME")
    try:
        file = BytesIO()
        with pq.ParquetWriter(file, _without_dictionaries(table.slice(0, 0)).schema) as writer:
            for start in range(0, len(table), ROWS_IN_GROUP):
                writer.write_table(_without_dictionaries(table.slice(start, ROWS_IN_GROUP)))
        return file.getvalue()
    except pa.ArrowException as error:
        raise _no_such("Parquet file", error) from None


ROWS_IN_GROUP = 50_000
"""Number of rows that a Parquet file has in a group."""


def _no_such(file: str, error: Exception) -> UsageError:
    message = " ".join(str(error).split())[:200]
    return UsageError(f"a {file} cannot hold this answer: {message}; make that column text: SELECT COLUMN::VARCHAR")
