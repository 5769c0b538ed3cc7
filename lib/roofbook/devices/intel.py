"""Intel's OpenCL for the CPU: where pip puts it, no OpenCL loader looks. Serves opencl.py, which lists the devices.

Its packages are the extra `intel` in pyproject.toml. Where they are not installed, nothing here is read or loaded.
"""

import contextlib
import ctypes
import os
import site
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from .. import own_python
from ..paths import scratch_folder

PACKAGES = ("intel-opencl-rt", "intel-cmplr-lib-rt")
DRIVER = "libintelocl.so"
LIBRARIES = ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libtbb.so.12")
"""Libraries that the driver links to, each after those that it needs itself."""
CHOSEN = "OCL_ICD_VENDORS"
"""Names the folder in which the loader looks for drivers, in place of the system's."""


def prefixes() -> Sequence[Path]:
    """Return the folders into which pip may have installed the packages: the environment's, and the user's own."""
    users = [Path(site.getuserbase())] if site.ENABLE_USER_SITE else []
    folders = [Path(folder) for folder in own_python.packages()]  # a process of ours has the user's own among them
    users += [folder.parents[2] for folder in folders if folder.name == "site-packages"]
    return [Path(sys.prefix), *dict.fromkeys(users)]


def systems() -> Sequence[Path]:
    """Return the folders in which a loader looks by default: the system's or its replacement, and a conda environment's."""
    return [
        Path(os.environ.get("OPENCL_VENDOR_PATH") or "/etc/OpenCL/vendors"),
        *([Path(sys.prefix, "etc/OpenCL/vendors")] if Path(sys.prefix, "conda-meta").is_dir() else []),
    ]


def folder() -> Path | None:
    """Return the folder of the driver and its libraries; None if it is not installed, or the user names the drivers."""
    if os.environ.get(CHOSEN):
        return None
    return next((prefix / "lib" for prefix in prefixes() if (prefix / "lib" / DRIVER).is_file()), None)


def refused() -> str:
    """Return why the installed driver cannot be loaded; '' if it can, or if there is none."""
    libraries = folder()
    return _load(libraries) if libraries else ""


def _load(libraries: Path) -> str:
    """Load the driver's libraries by their paths, and return the error, or ''.

    Some releases do not say where their libraries lie. Symbols stay local, since one of them is a libm.
    """
    for name in LIBRARIES:
        try:
            ctypes.CDLL(str(libraries / name))
        except OSError as error:
            return f"Intel's OpenCL cannot be loaded: {error}; `pip install {' '.join(PACKAGES)}` brings all of it"
    return ""


@contextlib.contextmanager
def shown() -> Iterator[None]:
    """Let OpenCL's loader find this driver beside the system's in the block: it looks for drivers once in a process.

    The environment is restored after the block: a process that this one starts finds the driver by itself.
    """
    libraries = folder()
    if libraries is None or _load(libraries):
        yield
        return
    with scratch_folder() as icds:
        for entry in (entry for place in systems() for entry in sorted(place.glob("*.icd"))):
            with contextlib.suppress(OSError):  # unreadable, or of the same name
                if DRIVER not in entry.read_text():  # twice, it would be two devices of one name
                    (icds / entry.name).symlink_to(entry)
        (icds / "roofbook-intel.icd").write_text(f"{libraries / DRIVER}\n")
        before = os.environ.get(CHOSEN)  # it may be there and empty
        os.environ[CHOSEN] = str(icds)
        try:
            yield
        finally:
            os.environ.pop(CHOSEN) if before is None else os.environ.update({CHOSEN: before})
