"""Renews the site of a checkout while a lab is measured: `python -m roofbook.book.renew ROOT`."""

import sys
from pathlib import Path

from ..measure.beside import give_way
from . import site

if __name__ == "__main__":
    give_way()
    site.build(Path(sys.argv[1]))
