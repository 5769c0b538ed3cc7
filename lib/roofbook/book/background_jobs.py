"""Work in the background while labs are measured: compile the next labs' kernels, draw recorded devices, rebuild the site.

The processes are paused while samples are taken (`measure.background_group`). background_worker.py leads them.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..measure.background_group import POLL_S, BackgroundGroup

WORKER = "roofbook.book.background_worker"


class BackgroundJobs(BackgroundGroup):
    """Context that measures labs with these parameters, in order; in the background, kernels are compiled and the site is
    rebuilt.
    """

    def __init__(
        self, root: Path, labs: Mapping[str, Mapping[str, Any]], done: Sequence[str] = (), *, draw: bool = False
    ) -> None:
        """done: labs that are measured first, without waiting for their kernels. draw: also draw recorded devices, after
        compiling.
        """
        self._root = root
        self._renewing: subprocess.Popen[bytes] | None = None
        super().__init__([sys.executable, "-m", WORKER, str(root), json.dumps(labs), "draw" * draw], done)

    def renew_site(self) -> None:
        """Begin to build the site from the current pages. An error is ignored here: the final build raises it again."""
        self.wait()
        self._renewing = self.run([sys.executable, "-m", "roofbook.book.rebuild_site_worker", str(self._root)])

    def wait(self) -> None:
        """Wait for the site's build, if one runs."""
        if self._renewing:
            self._renewing.wait()

    def wait_for_drawing(self, tell: Callable[[str], object]) -> None:
        """Wait until recorded devices are drawn, rather than draw them again. tell: called with a message if there is a
        wait.
        """
        if self.is_leader_alive():
            tell("Drawing the labs on the other recorded devices")
        while self.is_leader_alive():
            time.sleep(POLL_S)
