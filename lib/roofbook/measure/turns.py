"""Who may take times on a host at which moment: the workers of a sweep agree on it by locks of files. Serves case_run.

Whoever works holds the host's processors shared, whoever samples a program or a kernel of the CPU holds them alone, and a card
belongs to one at a time. A process that dies lets go of its locks.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from ..devices.contract import Device

VARIABLE = "ROOFBOOK_TURNS"
"""The folder of the locks. Without it, or empty, nobody waits for anybody."""


def folder_of_host() -> Path:
    """Where all of this user's processes on this host meet, and no other host's: in memory, else where temporary files lie."""
    memory = Path("/dev/shm")
    folder = (memory if os.access(memory, os.W_OK) else Path(tempfile.gettempdir())) / f"roofbook-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


class Turns:
    """The locks of a folder."""

    def __init__(self, folder: Path | None) -> None:
        """folder: None for a process that waits for nobody."""
        self.folder = folder

    @classmethod
    def of_environment(cls) -> "Turns":
        """As whoever started this process has it."""
        named = os.environ.get(VARIABLE)
        return cls(Path(named) if named else None)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """For work that computes and is not timed: beside other work and times on cards, not beside a time on the CPU."""
        with self._processors(fcntl.LOCK_SH):
            yield

    @contextlib.contextmanager
    def timing(self, device: Device) -> Iterator[None]:
        """For times: on the CPU alone on the host, on a card alone on that card, and on no host whose CPU is timed.

        Not within `working`: it would wait for itself.
        """
        with ExitStack() as held:
            if device.kind == "cpu":
                held.enter_context(self._processors(fcntl.LOCK_EX))
            else:
                held.enter_context(self._processors(fcntl.LOCK_SH))
                held.enter_context(self._locked(f"card-{device.pci_bus_id or device.spec}", fcntl.LOCK_EX))
            yield

    def _processors(self, how: int) -> AbstractContextManager[object]:
        """A gate stands before them, or whoever wants them alone would wait for as long as others come and go."""
        with self._locked("gate", fcntl.LOCK_EX):
            return self._locked("processors", how)

    def _locked(self, name: str, how: int) -> AbstractContextManager[object]:
        if self.folder is None:
            return nullcontext()
        file = (self.folder / name.replace("/", "-")).open("w")
        try:
            fcntl.flock(file, how)
        except BaseException:
            file.close()
            raise
        return file
