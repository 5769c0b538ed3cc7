"""Compiles the kernels of labs that wait for their measurement, then draws the recorded devices that are not drawn yet.

Started by background_jobs.py: `python -m roofbook.book.background_worker ROOT LABS DRAW FOLDER`.
"""

import contextlib
import json
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import memory
from ..measure.background_group import run_in_background
from ..measure.policy import UNTIMED
from ..measure.precompile import Compilers, prebuild
from . import render_recorded
from .experiment import Experiment, known


def compile_ahead(root: Path, labs: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Compile all kernels that measuring these labs needs; a file named after each finished lab appears in `folder`."""
    with Compilers() as compilers:
        for lab, parameters in labs.items():
            with contextlib.suppress(Exception):  # the notebook raises the error again
                experiment = Experiment(lab, known(parameters), root)
                device, seed = experiment.device, experiment.policy.seed
                due = [cell for cell in experiment.plan() if cell.device is device and cell.state != "fresh"]
                kernels = [(cell.case, cell.variant) for cell in due]
                is_untimed = experiment.scale == UNTIMED
                prebuild(
                    experiment.lab, kernels, device, seed, lambda _: None, from_last=is_untimed, compilers=compilers
                )
                (folder / lab).touch()


def _exit_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def draw_devices(root: Path) -> None:
    """Draw stale recorded devices. An error is ignored here: the final build raises it again."""
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
