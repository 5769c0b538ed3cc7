"""What is done for a book while its labs are measured: the kernels of those that wait are compiled, the recorded devices that
are not drawn yet are drawn, and the site is renewed.

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
    """Kernels are compiled ahead, and the site is renewed, while the block measures labs with these parameters, in order."""

    def __init__(
        self, root: Path, labs: Mapping[str, Mapping[str, Any]], done: Sequence[str] = (), *, draw: bool = False
    ) -> None:
        """done: labs that are measured first, and not waited for. draw: recorded devices, when all is compiled."""
        self._root = root
        self._renewing: subprocess.Popen[bytes] | None = None
        super().__init__([sys.executable, "-m", __name__, str(root), json.dumps(labs), "draw" * draw], done)

    def renew_site(self) -> None:
        """Begin to build the site with the pages as they are. What goes wrong does so again at the end, and is told then."""
        self.wait()
        self._renewing = self.run([sys.executable, "-m", "roofbook.book.rebuild_site_worker", str(self._root)])

    def wait(self) -> None:
        """Wait for the site that is being renewed, if one is."""
        if self._renewing:
            self._renewing.wait()

    def wait_for_drawing(self, tell: Callable[[str], object]) -> None:
        """Wait for what is half drawn, rather than to draw it anew; `tell` where there is something to wait for."""
        if self.is_leader_alive():
            tell("Drawing the labs on the other recorded devices")
        while self.is_leader_alive():
            time.sleep(POLL_S)


def compile_ahead(root: Path, labs: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Compile what measuring these labs would compile; of each that is done there is a file of its name in `folder`."""
    from ..measure.policy import UNTIMED
    from ..measure.precompile import Compilers, prebuild
    from .experiment import Experiment

    with Compilers() as compilers:
        for lab, parameters in labs.items():
            with contextlib.suppress(Exception):  # the notebook will tell
                experiment = Experiment(lab, parameters, root)
                device, seed = experiment.device, experiment.policy.seed
                due = [cell for cell in experiment.plan() if cell.device is device and cell.state != "fresh"]
                here = [(cell.case, cell.variant) for cell in due]
                meet = experiment.scale == UNTIMED
                prebuild(experiment.lab, here, device, seed, lambda _: None, meet=meet, compilers=compilers)
                (folder / lab).touch()


def _end_with_the_other() -> None:
    sys.stdin.read()
    os._exit(0)


def draw_devices(root: Path) -> None:
    """Draw the recorded devices that are not drawn yet; what goes wrong does so again at the end, and is told then."""
    from . import render_recorded

    with contextlib.suppress(Exception):
        render_recorded.draw(root)


if __name__ == "__main__":
    run_in_background()
    memory.collect_seldom()
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    checkout = Path(sys.argv[1])
    compile_ahead(checkout, json.loads(sys.argv[2]), Path(sys.argv[4]))
    if sys.argv[3]:
        draw_devices(checkout)
