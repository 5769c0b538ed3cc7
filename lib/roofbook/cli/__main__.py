"""`python -m roofbook.cli` is the command `roofbook`."""

from . import main

if __name__ == "__main__":
    main()
