"""Work in the background while labs are measured: compile the next labs' kernels, and draw recorded devices.

The processes are paused while samples are taken (`measure.background_group`). background_worker.py leads them.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..measure.background_group import POLL_S, BackgroundGroup

WORKER = "roofbook.book.background_worker"


class BackgroundJobs(BackgroundGroup):
    """Context that measures labs with these parameters, in order; in the background, their kernels are compiled."""

    def __init__(
        self, root: Path, labs: Mapping[str, Mapping[str, Any]], done: Sequence[str] = (), *, draw: bool = False
    ) -> None:
        """done: labs that are measured first, without waiting for their kernels. draw: also draw recorded devices, after
        compiling.
        """
        super().__init__([sys.executable, "-m", WORKER, str(root), json.dumps(labs), "draw" * draw], done)

    def wait_for_drawing(self, tell: Callable[[str], object]) -> None:
        """Wait until recorded devices are drawn, rather than draw them again. tell: called with a message if there is a
        wait.
        """
        if self.is_leader_alive():
            tell("Drawing the labs on the other recorded devices")
        while self.is_leader_alive():
            time.sleep(POLL_S)
