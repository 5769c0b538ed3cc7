"""Sandbox of a kernel's process, by bubblewrap if that is installed: no network, no home folder, read-only system.

Used by kernel_process.py. The process sees the system's programs, this Python environment, and this library.
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
"""Files that the loader of programs and drivers reads. Nothing else of /etc is visible."""
DRIVER_VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "CUDA_PATH", "CUDA_HOME", "LD_LIBRARY_PATH")
"""Variables of the environment that name folders of drivers."""
PACKAGES = ("numpy", "pcpp", "click", "pyopencl", "cupy", "duckdb", "pandas", "psutil")
"""Packages by which a folder of packages is recognised: this library imports them."""
GPUS = ("nvidia*", "dri", "kfd")
PROBE_S = 20.0


@dataclass(frozen=True)
class Sandbox:
    """Decision whether a process is started in bubblewrap, and the reason if not."""

    is_used: bool
    why_not: str = ""

    def command(self, command: Sequence[str], folder: Path) -> list[str]:
        """Return the command that runs `command` in the sandbox with write access to `folder` only; without one, `command`."""
        return (
            [*_bubblewrap(), "--bind", str(folder), str(folder), "--remount-ro", "/", "--chdir", str(folder), *command]
            if self.is_used
            else list(command)
        )


def sandbox(requested: bool | None = None) -> Sandbox:
    """Return the sandbox for kernels. requested: whether to use one; None to use it if it works.

    Errors: UsageError if it is requested and does not work.
    """
    if requested is False:
        return Sandbox(False, "--no-sandbox was asked for")
    if reason := reason_unusable():
        if requested:
            raise UsageError(f"there is no sandbox: {reason}; --no-sandbox runs the kernel without one")
        return Sandbox(False, reason)
    return Sandbox(True)


@lru_cache
def reason_unusable() -> str:
    """Return why bubblewrap does not work here, in a few words; '' if it does."""
    if not shutil.which("bwrap"):
        return "bubblewrap (bwrap) is not installed"
    try:
        probe = subprocess.run(
            [*_bubblewrap(), "--chdir", "/", sys.executable, "-c", "import numpy"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=PROBE_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"bubblewrap does not work here: it did not end within {PROBE_S:g} s"
    except OSError as error:
        return f"bubblewrap does not work here: {' '.join(str(error).split())[:200]}"
    words = [line.strip() for line in probe.stderr.decode(errors="replace").splitlines() if line.strip()]
    return (
        f"bubblewrap does not work here: {words[-1][:200] if words else probe.returncode}" if probe.returncode else ""
    )


def _bubblewrap() -> list[str]:
    """Return the bubblewrap command up to the program: namespaces, visible paths and devices."""
    command = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    command += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in _readable_paths():
        link = path.parent == Path("/") and path.is_symlink()
        command += ["--symlink", os.readlink(path), str(path)] if link else ["--ro-bind", str(path), str(path)]
    for pattern in GPUS:
        for device in sorted(Path("/dev").glob(pattern)):
            command += ["--dev-bind", str(device), str(device)]
    return command


def package_folders() -> list[Path]:
    """Return the folders outside this environment from which this process imports packages that a kernel's process needs."""
    prefixes = [Path(prefix) for prefix in (sys.prefix, sys.base_prefix)]
    folders = [Path(os.path.abspath(entry)) for entry in sys.path if entry]
    return [
        folder
        for folder in dict.fromkeys(folders)
        if any((folder / name).is_dir() for name in PACKAGES) and not any(map(folder.is_relative_to, prefixes))
    ]


def _readable_paths() -> Iterator[Path]:
    """Yield the existing files and folders that the sandbox may read, parents before children."""
    python = [sys.prefix, sys.base_prefix, *package_folders()]
    drivers = [folder for name in DRIVER_VARIABLES for folder in os.environ.get(name, "").split(os.pathsep)]
    labs = [folder for folder in registry.folders().values() if not folder.is_relative_to(LIBRARY)]
    paths = {Path(os.path.abspath(str(p))) for p in (*SYSTEM, *SETTINGS, *python, *drivers, LIBRARY, *labs) if p}
    home = Path(os.path.abspath(os.path.expanduser("~")))
    for path in sorted(paths):
        if path.exists() and path not in (Path("/"), home, *home.parents):
            yield path
