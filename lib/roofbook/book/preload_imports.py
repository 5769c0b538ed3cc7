"""Imports what a page needs while a process that measures starts or ends, and never while it takes samples.

Serves `roofbook rerun`, which then waits for nothing but the samples.
"""

import contextlib
import importlib
import threading
from collections.abc import Callable
from typing import Self

from ..measure.progress import Progress

MODULES = (
    "papermill",
    "IPython.core.interactiveshell",
    f"{__package__}.inprocess_engine",
    "matplotlib.figure",
    "matplotlib.backends.backend_svg",
)
"""What takes longest of a page's imports, in parts: one that has begun is not interrupted."""


class ImportPreloader:
    """A thread that imports between `with` and its end, but not from the first word of a process that measures one variant
    until its samples are taken. It follows that as `Progress`, and hands all on to `tell`.

    at_end: called once the samples are taken.
    """

    def __init__(self, tell: Progress, at_end: Callable[[], object]) -> None:
        self.tell, self.at_end = tell, at_end
        self.may, self.sampled, self.over = threading.Event(), False, False
        self.thread = threading.Thread(target=self._import, daemon=True)

    def __enter__(self) -> Self:
        self.may.set()
        self.thread.start()
        return self

    def __call__(self, variant: str, what: str) -> None:
        self.tell(variant, what)
        if self.sampled:
            return
        self.sampled = what == "last run"
        if self.sampled:
            self.may.set()
            self.at_end()
        else:
            self.may.clear()

    def __exit__(self, *_: object) -> None:
        """No two threads import at once: what they wait for might be each other."""
        self.over = True
        self.may.set()
        self.thread.join()

    def _import(self) -> None:
        for name in MODULES:
            self.may.wait()
            if self.over:
                return
            with contextlib.suppress(Exception):  # it is said where it is needed
                importlib.import_module(name)
