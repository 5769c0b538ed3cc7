"""`python -m roofbook` is the command `roofbook`."""

from .cli import run

if __name__ == "__main__":
    run()
