"""Imports of page code while a measuring process starts or ends, but never while it takes samples.

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
"""Slowest imports of a page, in parts: an import that has begun is not interrupted."""


class ImportPreloader:
    """Context with a thread that imports MODULES, except between the first message of a measuring process and its last
    sample.

    It is the process's `Progress`, and passes all messages on to `tell`. at_end: called once the samples are taken.
    """

    def __init__(self, tell: Progress, at_end: Callable[[], object]) -> None:
        self.tell, self.at_end = tell, at_end
        self.may, self.sampled, self.over = threading.Event(), False, False
        self.thread = threading.Thread(target=self._import, daemon=True)

    def __enter__(self) -> Self:
        self.may.set()
        self.thread.start()
        return self

    def __call__(self, variant: str, step: str) -> None:
        self.tell(variant, step)
        if self.sampled:
            return
        self.sampled = step == "last run"
        if self.sampled:
            self.may.set()
            self.at_end()
        else:
            self.may.clear()

    def __exit__(self, *_: object) -> None:
        """Wait for the thread: two threads that import at once could wait for each other."""
        self.over = True
        self.may.set()
        self.thread.join()

    def _import(self) -> None:
        for name in MODULES:
            self.may.wait()
            if self.over:
                return
            with contextlib.suppress(Exception):  # the code that needs the module raises again
                importlib.import_module(name)
