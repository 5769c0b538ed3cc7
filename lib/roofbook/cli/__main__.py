"""`python -m roofbook.cli` is the command `roofbook`."""

from . import run

if __name__ == "__main__":
    run()
