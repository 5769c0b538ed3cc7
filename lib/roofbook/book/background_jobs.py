"""Work in the background while labs are measured: compile the next labs' kernels, draw recorded devices, rebuild the site.

The processes are paused while samples are taken (`measure.background_group`). This one leads them; it compiles, lab by lab, and
then draws: `python -m roofbook.book.background_jobs ROOT LABS DRAW FOLDER`.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import memory
from ..measure.background_group import POLL_S, BackgroundGroup, run_in_background


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
        super().__init__([sys.executable, "-m", __name__, str(root), json.dumps(labs), "draw" * draw], done)

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


def compile_ahead(root: Path, labs: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Compile all kernels that measuring these labs needs; a file named after each finished lab appears in `folder`."""
    from ..measure.policy import UNTIMED
    from ..measure.precompile import Compilers, prebuild
    from .experiment import Experiment

    with Compilers() as compilers:
        for lab, parameters in labs.items():
            with contextlib.suppress(Exception):  # the notebook raises the error again
                experiment = Experiment(lab, parameters, root)
                device, seed = experiment.device, experiment.policy.seed
                due = [cell for cell in experiment.plan() if cell.device is device and cell.state != "fresh"]
                kernels = [(cell.case, cell.variant) for cell in due]
                is_untimed = experiment.scale == UNTIMED
                prebuild(experiment.lab, kernels, device, seed, lambda _: None, meet=is_untimed, compilers=compilers)
                (folder / lab).touch()


def _exit_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def draw_devices(root: Path) -> None:
    """Draw stale recorded devices. An error is ignored here: the final build raises it again."""
    from . import render_recorded

    with contextlib.suppress(Exception):
        render_recorded.draw(root)


if __name__ == "__main__":
    run_in_background()
    memory.collect_seldom()
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    checkout = Path(sys.argv[1])
    compile_ahead(checkout, json.loads(sys.argv[2]), Path(sys.argv[4]))
    if sys.argv[3]:
        draw_devices(checkout)
