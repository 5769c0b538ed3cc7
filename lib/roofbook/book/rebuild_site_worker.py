"""Worker that rebuilds the site of a checkout while a lab is measured: `python -m roofbook.book.rebuild_site_worker ROOT`."""

import sys
from pathlib import Path

from ..measure.background_group import run_in_background
from . import site

if __name__ == "__main__":
    run_in_background()
    site.build(Path(sys.argv[1]))
