"""Files for readers to download: the recorded rows as one Parquet file, and the published figures and claims as CSV.

They are in book/_generated/data, which the site's extension copies into the site. No page loads them.
"""

from io import BytesIO
from pathlib import Path

from ..analysis import format as show
from ..escaping import escape
from ..report.html import html_source
from ..spec import registry
from ..store.parquet import Store
from .citation import Citation

FOLDER = "data"
"""Folder in the generated files and in the site."""
ROWS = "roofbook-recorded.parquet"


def recorded_rows(results: Path) -> tuple[bytes, str]:
    """Return all recorded rows as Parquet (zstd), and their extent in words; both empty if nothing is recorded."""
    import pyarrow.parquet as parquet

    store = Store(results, ("recorded",))
    rows = store.arrow('select * from cells order by lab, device, backend, run, "case", variant, role, policy')
    if not rows.num_rows:
        return b"", ""
    buffer = BytesIO()
    parquet.write_table(rows, buffer, compression="zstd")
    runs, devices = (len(set(rows[name].to_pylist())) for name in ("run", "device"))
    extent = f"{show.number(rows.num_rows, places=0)} rows of {runs} runs on {devices} device{'s' * (devices > 1)}"
    return buffer.getvalue(), extent


def file_list(files: dict[str, bytes], extent: str) -> str:
    """Return an HTML list of the files to download, each with its size and contents."""
    lines = []
    for name, content in files.items():
        kind, _, lab = name.removesuffix(".csv").partition("-")
        contents = (
            extent
            if name == ROWS
            else f"what the published report of the lab {lab} {'claims' if kind == 'claims' else 'gives as its figures'}"
        )
        size = show.quantity(float(len(content)), "B")
        lines.append(
            f'<li><a class="download" href="{FOLDER}/{escape(name)}" download>{escape(name)}</a> ({size}): '
            f"{escape(contents)}</li>"
        )
    return "<ul>\n" + "\n".join(lines) + "\n</ul>\n" if lines else ""


def published(results: Path) -> dict[str, bytes]:
    """Return the CSV files of the literature, by the names under which they are downloaded."""
    folder = results / "published"
    figures = {f"published-{path.name}": path for path in sorted(folder.glob("*.csv"))}
    claims = {f"claims-{path.name}": path for path in sorted((folder / "claims").glob("*.csv"))}
    return {name: path.read_bytes() for name, path in (figures | claims).items()}


def cite(root: Path) -> str:
    """Return the BibTeX of this book as HTML, and in a fold that of each lab."""
    citation = Citation.of(root)
    titles = {name: registry.get(name).title for name in registry.names_of_site()}
    of_labs = "\n".join(citation.bibtex_of_lab(name, title) for name, title in titles.items())
    fold = f"<details><summary>One lab of the book</summary>\n{html_source(of_labs, 'bibtex')}</details>\n"
    return html_source(citation.bibtex(), "bibtex") + fold * bool(titles)
