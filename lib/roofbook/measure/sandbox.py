"""Runs a process in bubblewrap, where that is installed: without network, without home, on a system that it can only read.

Serves kernel_process.py. What the process sees are the system's programs, this environment of Python, and this library.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..errors import UsageError
from ..paths import LIBRARY
from ..spec import registry

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store", "/sys")
SETTINGS = (
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/OpenCL",
    "/etc/localtime",
)
"""What programs are loaded by. Of /etc nothing else is there."""
NAMED = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH")
"""Variables of the environment that name folders of drivers."""
PACKAGES = ("numpy", "pcpp", "click", "pyopencl", "cupy", "duckdb", "pandas", "psutil")
"""Some that this library imports: a folder with one of them is one of packages."""
GPUS = ("nvidia*", "dri", "kfd")
PROBE_S = 20.0


@dataclass(frozen=True)
class Sandbox:
    """Whether a process is started in bubblewrap, and why not."""

    is_used: bool
    why_not: str = ""

    def command(self, command: Sequence[str], folder: Path) -> list[str]:
        """Return what runs `command` in the sandbox, where it may write into `folder` alone; the same where there is none."""
        return (
            [*_bubblewrap(), "--bind", str(folder), str(folder), "--remount-ro", "/", "--chdir", str(folder), *command]
            if self.is_used
            else list(command)
        )


def sandbox(asked: bool | None = None) -> Sandbox:
    """Return the sandbox for kernels. asked: with or without; by default with it where it works.

    Errors: UsageError where it is asked for and does not work.
    """
    if asked is False:
        return Sandbox(False, "--no-sandbox was asked for")
    if why := why_not():
        if asked:
            raise UsageError(f"there is no sandbox: {why}; --no-sandbox runs the kernel without one")
        return Sandbox(False, why)
    return Sandbox(True)


@lru_cache
def why_not() -> str:
    """Why bubblewrap does not work here, in a few words; '' where it does."""
    if not shutil.which("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    try:
        done = subprocess.run(
            [*_bubblewrap(), "--chdir", "/", sys.executable, "-c", "import numpy"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"bubblewrap does not work here: it did not end within {PROBE_S:g} s"
    except OSError as error:
        return f"bubblewrap does not work here: {' '.join(str(error).split())[:200]}"
    words = [line.strip() for line in done.stderr.decode(errors="replace").splitlines() if line.strip()]
    return f"bubblewrap does not work here: {words[-1][:200] if words else done.returncode}" if done.returncode else ""


def _bubblewrap() -> list[str]:
    """Return the command up to the program: namespaces of its own, and what it may see."""
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for place in _readable():
        link = place.parent == Path("/") and place.is_symlink()
        command += ["--symlink", os.readlink(place), str(place)] if link else ["--ro-bind", str(place), str(place)]
    for pattern in GPUS:
        for device in sorted(Path("/dev").glob(pattern)):
            command += ["--dev-bind", str(device), str(device)]
    return command


def package_folders() -> list[Path]:
    """Return the folders, beside those of this environment, from which this process imports what a kernel's process needs."""
    prefixes = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    folders = [Path(os.path.abspath(entry)) for entry in sys.path if entry]
    return [
        folder
        for folder in dict.fromkeys(folders)
        if any((folder / name).is_dir() for name in PACKAGES) and not any(map(folder.is_relative_to, prefixes))
    ]


def _readable() -> Iterator[Path]:
    """Yield the files and folders that can be read, each that is there once, what holds others before them."""
    python = [sys.prefix, sys.base_prefix, *package_folders()]
    drivers = [folder for name in NAMED for folder in os.environ.get(name, "").split(os.pathsep)]
    labs = [folder for folder in registry.folders().values() if not folder.is_relative_to(LIBRARY)]
    places = {
        Path(os.path.abspath(str(place))) for place in (*SYSTEM, *SETTINGS, *python, *drivers, LIBRARY, *labs) if place
    }
    home = Path(os.path.abspath(os.path.expanduser("~")))
    for place in sorted(places):
        if place.exists() and place not in (Path("/"), home, *home.parents):
            yield place
