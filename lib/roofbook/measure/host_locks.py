"""File locks by which the workers of a host take turns, so that no work disturbs samples. Used by case_run and cluster.

Untimed work holds the processors shared, sampling on the CPU holds them exclusively, and one process at a time holds a card.
A process that dies releases its locks.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

from ..devices.contract import Device
from ..errors import UsageError
from ..paths import not_private, open_lock

VARIABLE = "ROOFBOOK_TURNS"
"""Variable with the folder of the locks. If it is empty or missing, processes do not wait for each other."""


def candidate_folders() -> Sequence[Path]:
    """Return the parents of a lock folder that all processes of a host can reach, the best one first."""
    return Path("/dev/shm"), Path(f"/run/user/{os.getuid()}"), Path(tempfile.gettempdir())


def host_folder() -> Path:
    """Return the folder for the locks of all processes of this user on this host, and on no other host.

    It is in memory, else with the user's files of this session, else with temporary files. Anybody can make a folder in the
    first and the last of these: a folder that is not private to this user is not used.
    Errors: UsageError if another user has taken all of them.
    """
    refused: list[str] = []
    for parent in candidate_folders():
        folder = parent / f"roofbook-{os.getuid()}"
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            reason = not_private(folder.lstat())
        except OSError as error:
            reason = f"cannot be used: {error.strerror}"
        if not reason:
            return folder
        refused.append(f"{folder} {reason}")
    raise UsageError(f"no folder for the locks of this host: {'; '.join(refused)}. Have one of them removed")


class HostLocks:
    """Locks in a folder."""

    def __init__(self, folder: Path | None) -> None:
        """folder: None for a process that waits for no other."""
        self.folder = folder

    @classmethod
    def from_environment(cls) -> "HostLocks":
        """Return the locks of the folder that the environment names."""
        folder = os.environ.get(VARIABLE)
        return cls(Path(folder) if folder else None)

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Hold the processors shared, for untimed work: it may run during other work and timing on cards, not on the CPU."""
        with self._processors(shared=True):
            yield

    @contextlib.contextmanager
    def timing(self, device: Device) -> Iterator[None]:
        """Hold a device for timing: the CPU exclusively, or a card exclusively and the processors shared.

        Do not call it within `working`: it would wait for itself.
        """
        with ExitStack() as locks:
            if device.kind == "cpu":
                locks.enter_context(self._processors(shared=False))
            else:
                locks.enter_context(self._processors(shared=True))
                locks.enter_context(self._locked(f"card-{device.pci_bus_id or device.spec}", shared=False))
            yield

    def _processors(self, *, shared: bool) -> AbstractContextManager[object]:
        """Lock the processors, behind a gate: else an exclusive lock would wait for as long as shared ones come and go."""
        with self._locked("gate", shared=False):
            return self._locked("processors", shared=shared)

    def _locked(self, name: str, *, shared: bool) -> AbstractContextManager[object]:
        if self.folder is None:
            return nullcontext()
        import fcntl  # Windows has none; there no folder is named either

        file = open_lock(self.folder / name.replace("/", "-"), private=True)
        try:
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            file.close()
            raise
        return file
