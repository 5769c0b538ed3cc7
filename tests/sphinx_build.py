"""Builds of small sites by Sphinx, each in a process of its own: a build leaves settings behind that a later one would find.

This file is also the program of a process that imports Sphinx, which takes longer than such a build, and forks for each build.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path


def build_site(book: Path, site: Path, *options: str) -> str:
    """Build the sources in `book` into the folder `site`; return the warnings, and fail on an error."""
    log = site.with_name(f"{site.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    order = {"options": ["-q", *options, str(book), str(site)], "log": str(log), "folder": os.getcwd()}
    server = started_server(os.getpid())
    assert server.stdin and server.stdout
    server.stdin.write(json.dumps({**order, "environment": dict(os.environ)}) + "\n")
    server.stdin.flush()
    code = server.stdout.readline().strip()
    warnings = log.read_text()
    log.unlink()
    assert code == "0", warnings
    return warnings


@cache
def started_server(process: int) -> subprocess.Popen[str]:
    """Start the process that builds sites for the process with this id, and ends with it."""
    command = [sys.executable, "-P", __file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def serve() -> None:
    """Fork for each order that a line of the input holds, and print the exit code of its build."""
    import sphinx.application
    from sphinx.cmd.build import main

    for module in ("roofbook.book.sphinx_ext", "myst_parser.sphinx_ext.main", *sphinx.application.builtin_extensions):
        importlib.import_module(module)
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
            continue
        order = json.loads(line)
        with open(order["log"], "wb") as log, open(os.devnull, "rb") as nothing:
            for stream, file in enumerate((nothing, log, log)):
                os.dup2(file.fileno(), stream)
        os.chdir(order["folder"])
        os.environ.clear()
        os.environ.update(order["environment"])
        sys.exit(main(order["options"]))


if __name__ == "__main__":
    serve()
