"""Parser and exit code of the programs for a course's files: `python -m roofbook.labs.cnn` and `.lbm`."""

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..errors import UsageError, program


class Parser(argparse.ArgumentParser):
    """Parser of a program's arguments: it raises UsageError for wrong ones."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see --help)")


def exit_code(
    parser: Callable[[], Parser], run: Callable[[argparse.Namespace], None], argv: Sequence[str] | None
) -> int:
    """Run a program and return its exit code: 0, 2 after an error of the user (one line on stderr), 130 after Ctrl-C.

    parser: makes the parser of the arguments, with which `run` is called. argv: by default those of the process.
    """
    return program(lambda: run(parser().parse_args(argv)), "stopped; nothing was written")
