"""Commands that make the book, serve it and print it."""

from pathlib import Path

import click

from .app import DEVICES, LAB, SCALES, app, of_scale, to_write


@app.command()
@click.argument("labs", nargs=-1, metavar="[LAB]...")
@click.option("--execute", "fresh", is_flag=True, help="Execute every notebook again, even if up to date.")
@of_scale(help=f"{SCALES}.  [default: as each page was made last, else quick]")
@click.option("--device", help=f"{DEVICES}.  [default: as each page was made last, else auto]")
def build(labs: tuple[str, ...], fresh: bool, scale: str | None, device: str | None) -> None:
    """Make the pages that are not up to date, and the site.

    Prints for each page the reason why it is made again. With names of labs, only their notebooks are executed.
    """
    from ..book.build import build as build_book
    from ..book.sources import gather
    from ..paths import project_root
    from ..spec import registry

    parameters = {
        name: parameter for name, parameter in (("scale", scale), ("device", device)) if parameter is not None
    }
    if parameters:
        from ..book.experiment import check

        check(parameters)
    root = project_root()
    for name in registry.names_in(root / "labs"):
        registry.get(name)  # or say the mistake of it, before anything is measured
    build_book(gather(root), parameters, fresh=fresh, labs=labs)


@app.command()
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes any free one.")
def serve(port: int) -> None:
    """Serve the built site on this machine."""
    from ..book import site
    from ..book.sources import pages_root
    from ..paths import project_root

    site.serve(pages_root(project_root()) / "_build" / "html", port)


@app.command()
@LAB
@click.option(
    "--device", help="As the address of the lab's page names it: nvidia-h200/cuda.  [default: the page's first]"
)
@click.option("--slides", is_flag=True, help="The slides of its lesson instead, one a sheet.")
@to_write("--out", help="The file.  [default: LAB-DEVICE.pdf or LAB-slides.pdf]")
def pdf(lab: str, device: str | None, slides: bool, out: Path | None) -> None:
    """Print a lab of the built site as one PDF, on a device.

    Its story, results, sweeps and published figures, by the system's Chromium.
    """
    from ..book.pdf import choose_device, write_pdf, write_slides
    from ..book.sources import pages_root
    from ..errors import UsageError
    from ..paths import project_root
    from ..terminal import say

    root = pages_root(project_root())
    if slides and device:
        raise UsageError("slides are of one device, that with which all pages open: leave out --device")
    if slides:
        path = out or Path(f"{lab}-slides.pdf")
        write_slides(root, lab, path)
        say(f"{path}: slides of {lab}")
        return
    choice = choose_device(root, lab, device)
    path = out or Path(f"{lab}-{choice.stem}.pdf")
    write_pdf(root, lab, choice, path)
    say(f"{path}: {lab} on {choice.label}")
