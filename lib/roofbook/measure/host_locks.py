"""Who may take times on a host at which moment: the workers of a sweep agree on it by locks of files. Serves case_run.

Whoever works holds the host's processors shared, whoever samples a program or a kernel of the CPU holds them alone, and a card
belongs to one at a time. A process that dies lets go of its locks.
"""

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from ..devices.contract import Device
from ..errors import UsageError
from ..paths import not_private, open_lock

VARIABLE = "ROOFBOOK_TURNS"
"""The folder of the locks. Without it, or empty, nobody waits for anybody."""


def candidate_folders() -> Sequence[Path]:
    """Return the places where processes of a host can meet, the best one first."""
    return Path("/dev/shm"), Path(f"/run/user/{os.getuid()}"), Path(tempfile.gettempdir())


def host_folder() -> Path:
    """Return the folder where all processes of this user on this host, and of no other host, find each other's locks.

    It lies in memory, else with the user's own files of this session, else with temporary files. Anybody can make a folder in
    the first and the last place: one that is not this user's own is not used.
    Errors: UsageError where another user has taken all of them.
    """
    refused: list[str] = []
    for place in candidate_folders():
        folder = place / f"roofbook-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            why = not_private(folder.lstat())
        except OSError as error:
            why = f"cannot be used: {error.strerror}"
        if not why:
            return folder
        refused.append(f"{folder} {why}")
    raise UsageError(f"no folder for the locks of this host: {'; '.join(refused)}. Have one of them removed")


class HostLocks:
    """The locks of a folder."""

    def __init__(self, folder: Path | None) -> None:
        """folder: None for a process that waits for nobody."""
        self.folder = folder

    @classmethod
    def from_environment(cls) -> "HostLocks":
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
        file = open_lock(self.folder / name.replace("/", "-"), private=True)
        try:
            fcntl.flock(file, how)
        except BaseException:
            file.close()
            raise
        return file
