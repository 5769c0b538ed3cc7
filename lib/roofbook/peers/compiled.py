"""Builds programs and libraries with compilers that not every machine has, and caches them.

For labs whose reports used another language or compiler. `cc` builds C with this machine's C compiler.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..devices.library_folder import library_folder as cache_dir
from .cc import BuildFailed, _call


def output_of(command: Sequence[str]) -> str:
    """Return the output of a command. Raises BuildFailed with one line if it fails or does not exist."""
    return _call(command)


def build(
    command: Sequence[str], sources: Sequence[Path], version: str, *, last: Sequence[str] = (), suffix: str = ""
) -> Path:
    """Run `command`, `sources`, `last` and `-o`, unless the cache has their output, and return the output's path.

    version: text that changes the key of the cache, such as the compiler's version. suffix: of the file. Raises BuildFailed.
    """
    texts = [*(source.read_text() for source in sources), *command, *last, version]
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    try:
        folder = cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{sources[0].stem}-{key[:16]}{suffix}"
        if not path.exists():
            with tempfile.TemporaryDirectory(
                dir=folder
            ) as work:  # some compilers write into the folder of their sources
                copies = [shutil.copy(source, work) for source in sources]
                output = f"{work}/made{suffix}"
                _call([*command, *copies, *last, "-o", output])
                Path(output).replace(path)
    except OSError as failure:
        raise BuildFailed(f"cannot build {sources[0].name}: {failure}") from None
    return path
