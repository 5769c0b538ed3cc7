"""Python processes without the settings of a reader's shell, folder and profile.

Serves the command and all that starts a process. A file named `platform.py` in the current folder, PYTHONOPTIMIZE, a
sitecustomize module or a matplotlibrc would otherwise take part in what is measured or drawn.

Packages that PYTHONPATH or the user's own site folder provide (CuPy as a module of a cluster, PyTorch) are still found, behind
those of Python itself and of its environment, where they replace none.
"""

import os
import signal
import site
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

from .paths import LIBRARY

PACKAGES = "ROOFBOOK_PACKAGES"
"""Names the variable with the reader's own folders of packages, which a process searches last."""
_HARMLESS = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
"""Variables of Python that decide only the folder of compiled modules."""
_OTHERS = ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_CONFIG_PATH", "DOCUTILSCONFIG")
"""Variables that name the reader's profiles and settings."""
_FOLDERS = ("XDG_CACHE_HOME", "POCL_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH", "TMPDIR", "ROOFBOOK_DATA")
"""Variables with one folder each: a `~` in them, which only a shell expands, is the home folder."""
_CACHES = ("XDG_CACHE_HOME", "POCL_CACHE_DIR", "CUPY_CACHE_DIR", "CUDA_CACHE_PATH")
"""Variables of _FOLDERS that name caches of drivers and libraries. For some an empty name is no name, for others an error."""
_SETTINGS = {
    "PYTHONSAFEPATH": "1",  # nothing is imported from the current folder
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "MPLBACKEND": "agg",
    "MATPLOTLIBRC": os.devnull,
}


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables (by default this process's environment) as a Python process of ours gets them. It is idempotent."""
    before = dict(os.environ if variables is None else variables)
    passed_on = {
        name: value
        for name, value in before.items()
        if (not name.startswith("PYTHON") or name in _HARMLESS) and name not in _OTHERS
    }
    passed_on |= {
        name: os.path.expanduser(passed_on[name]) for name in _FOLDERS if passed_on.get(name, "").startswith("~")
    }
    for name in _CACHES:
        if name in passed_on and not os.path.isabs(
            passed_on[name]
        ):  # of XDG such a name is void; and a checkout is no cache
            relative = passed_on.pop(name)
            if relative and name != "XDG_CACHE_HOME" and current_folder():
                passed_on[name] = os.path.abspath(relative)
    passed_on.setdefault("PATH", os.defpath)  # as shells have it; a compiler that PoCL brings finds no linker without
    library_parent = str(LIBRARY.parent)
    found_anyway = LIBRARY.parent.name in (
        "site-packages",
        "dist-packages",
    )  # in front, its modules would replace Python's
    paths = dict.fromkeys([*packages(before), *_user_site(before)])
    paths.pop(library_parent, None)
    return {
        **passed_on,
        **_SETTINGS,
        **({} if found_anyway else {"PYTHONPATH": library_parent}),
        **({PACKAGES: os.pathsep.join(paths)} if paths else {}),
    }


def current_folder() -> str:
    """Return the current folder; '' where it was removed, or is closed to the reader."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def packages(variables: Mapping[str, str] | None = None) -> list[str]:
    """Return the folders of packages that an environment names, in PYTHONPATH or for a process of ours; absolute."""
    named = os.environ if variables is None else variables
    words = f"{named.get('PYTHONPATH', '')}{os.pathsep}{named.get(PACKAGES, '')}".split(os.pathsep)
    return list(
        dict.fromkeys(os.path.abspath(word) for word in words if os.path.isabs(word) or (word and current_folder()))
    )


def search_packages_last() -> None:
    """Let this process find the reader's own packages, behind all others."""
    sys.path += [path for path in os.environ.get(PACKAGES, "").split(os.pathsep) if path and path not in sys.path]


def settle() -> None:
    """Make this process one of ours, before it imports more than Python's own: its environment and where it finds modules."""
    new_environment = environment()
    readers = {*packages(), *_user_site(os.environ), current_folder(), ""} - {str(LIBRARY.parent)}
    if not sys.flags.safe_path or "PYTHONPATH" in os.environ or site.ENABLE_USER_SITE:
        sys.path[:] = [path for path in sys.path if path not in readers]
    if str(LIBRARY.parent) not in sys.path and new_environment.get("PYTHONPATH"):
        sys.path.insert(0, str(LIBRARY.parent))
    os.environ.clear()
    os.environ.update(new_environment)
    search_packages_last()
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:  # then all processes seem to end with code 0, git's too
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


class _MatplotlibElsewhere(MetaPathFinder):
    """Imports matplotlib as if this library were the current folder: it reads a matplotlibrc there before any other."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path, target) if fullname == "matplotlib" else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def execute_elsewhere(module: ModuleType) -> None:
            with _in_folder(str(LIBRARY)):
                execute(module)

        spec.loader.exec_module = execute_elsewhere  # type: ignore[method-assign]
        return spec


@contextmanager
def _in_folder(folder: str) -> Iterator[None]:
    """Make a folder the current one within the block. The one before may have been removed, or may be closed to the reader."""
    try:
        before = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        os.chdir(folder)
        yield
    finally:
        with suppress(OSError):
            os.fchdir(before)
        os.close(before)


def import_matplotlib_elsewhere() -> None:
    """Keep a matplotlibrc of the current folder out of this process, whoever imports matplotlib first. Twice is as once."""
    if not any(isinstance(finder, _MatplotlibElsewhere) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MatplotlibElsewhere())


def _user_site(variables: Mapping[str, str]) -> list[str]:
    """Return the user's own site folder where this process has it among its modules."""
    folder = site.getusersitepackages() if site.ENABLE_USER_SITE and "PYTHONNOUSERSITE" not in variables else ""
    return [folder] if folder in sys.path else []
