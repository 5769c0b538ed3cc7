"""What readers download: the recorded rows as one Parquet file, and the published figures and claims as CSV.

They lie in book/_generated/data, which the site's extension copies into the site. No page loads them.
"""

from io import BytesIO
from pathlib import Path

from ..analysis import format as show
from ..escaping import escape
from ..report.html import html_source
from ..store.parquet import Store
from .citation import Citation

FOLDER = "data"
"""Of the generated files and of the site."""
ROWS = "roofbook-recorded.parquet"


def recorded_rows(results: Path) -> tuple[bytes, str]:
    """All recorded rows as Parquet (zstd), and what there is to say of them; nothing where none is recorded."""
    import pyarrow.parquet as parquet

    store = Store(results, ("recorded",))
    rows = store.arrow('select * from cells order by lab, device, backend, run, "case", variant, role, policy')
    if not rows.num_rows:
        return b"", ""
    made = BytesIO()
    parquet.write_table(rows, made, compression="zstd")
    runs, devices = (len(set(rows[name].to_pylist())) for name in ("run", "device"))
    extent = f"{show.number(rows.num_rows, places=0)} rows of {runs} runs on {devices} device{'s' * (devices > 1)}"
    return made.getvalue(), extent


def listed(files: dict[str, bytes], extent: str) -> str:
    """HTML: a list of the files to download, each with its size and what it holds."""
    lines = []
    for name, content in files.items():
        kind, _, lab = name.removesuffix(".csv").partition("-")
        what = (
            extent
            if name == ROWS
            else f"what the published report of the lab {lab} {'claims' if kind == 'claims' else 'gives as its figures'}"
        )
        size = show.quantity(float(len(content)), "B")
        lines.append(
            f'<li><a class="download" href="{FOLDER}/{escape(name)}" download>{escape(name)}</a> ({size}): {escape(what)}</li>'
        )
    return "<ul>\n" + "\n".join(lines) + "\n</ul>\n" if lines else ""


def published(results: Path) -> dict[str, bytes]:
    """The CSV files of the literature, by the names under which they are downloaded."""
    folder = results / "published"
    figures = {f"published-{path.name}": path for path in sorted(folder.glob("*.csv"))}
    claims = {f"claims-{path.name}": path for path in sorted((folder / "claims").glob("*.csv"))}
    return {name: path.read_bytes() for name, path in (figures | claims).items()}


def cite(root: Path) -> str:
    """HTML: the BibTeX of this book."""
    return html_source(Citation.of(root).bibtex(), "bibtex")
