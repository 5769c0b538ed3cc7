"""What is done for a book while its labs are measured: the kernels of those that wait are compiled, and the site renewed.

The processes rest while samples are taken (`measure.beside`). This one leads them and compiles, lab by lab:
`python -m roofbook.book.meanwhile ROOT LABS FOLDER`.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..measure.beside import Beside, give_way


class Meanwhile(Beside):
    """Kernels are compiled ahead, and the site is renewed, while the block measures labs with these parameters, in order."""

    def __init__(self, root: Path, labs: Mapping[str, Mapping[str, Any]], done: Sequence[str] = ()) -> None:
        """done: labs that are measured first, and not waited for."""
        self._root = root
        self._renewing: subprocess.Popen[bytes] | None = None
        super().__init__([sys.executable, "-m", __name__, str(root), json.dumps(labs)], done)

    def renew_site(self) -> None:
        """Begin to build the site with the pages as they are. What goes wrong does so again at the end, and is told then."""
        self.wait()
        self._renewing = self.run([sys.executable, "-m", "roofbook.book.renew", str(self._root)])

    def wait(self) -> None:
        """Wait for the site that is being renewed, if one is."""
        if self._renewing:
            self._renewing.wait()


def compile_ahead(root: Path, labs: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
    """Compile what measuring these labs would compile; of each that is done there is a file of its name in `folder`."""
    from ..measure.policy import UNTIMED
    from ..measure.precompile import prebuild
    from .experiment import Experiment

    for lab, parameters in labs.items():
        with contextlib.suppress(Exception):  # the notebook will tell
            experiment = Experiment(lab, parameters, root)
            device = experiment.device
            here = [
                (cell.case, cell.variant)
                for cell in experiment.plan()
                if cell.device is device and cell.state != "fresh"
            ]
            meet = experiment.scale == UNTIMED
            prebuild(experiment.lab, here, device, experiment.policy.seed, lambda _: None, meet=meet)
            (folder / lab).touch()


def _end_with_the_other() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    give_way()
    threading.Thread(target=_end_with_the_other, daemon=True).start()
    compile_ahead(Path(sys.argv[1]), json.loads(sys.argv[2]), Path(sys.argv[3]))
