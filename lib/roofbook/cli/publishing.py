"""Commands that make the book and serve it."""

import click

from .app import DEVICES, SCALES, app


@app.command()
@click.option("--execute", "fresh", is_flag=True, help="Execute every notebook again, even if up to date.")
@click.option("--scale", help=f"{SCALES}.  [default: as each page was made last, else quick]")
@click.option("--device", help=f"{DEVICES}.  [default: as each page was made last, else auto]")
def build(fresh: bool, scale: str | None, device: str | None) -> None:
    """Make the pages that are not up to date, and the site.

    Says of each what has changed.
    """
    from ..book.build import build as build_book
    from ..paths import project_root

    wanted = {name: value for name, value in (("scale", scale), ("device", device)) if value is not None}
    if wanted:
        from ..book.experiment import check

        check(wanted)
    build_book(project_root(), wanted, fresh=fresh)


@app.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
def serve(port: int) -> None:
    """Serve the built site on this machine."""
    from ..book import site
    from ..paths import project_root

    site.serve(project_root() / "_build" / "html", port)
