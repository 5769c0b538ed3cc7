"""Programs and libraries by compilers that not every machine has: made once, and kept by all that they are made from.

Serves labs whose reports used another language or compiler; what is C for cc.py's compiler is its own.
"""

import hashlib
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ..devices.library_folder import library_folder as cache_dir
from .cc import BuildFailed, _call


def output_of(command: Sequence[str]) -> str:
    """What a command prints. Raises BuildFailed with one line where it fails or is not there."""
    return _call(command)


def build(
    command: Sequence[str], sources: Sequence[Path], told: str, *, last: Sequence[str] = (), suffix: str = ""
) -> Path:
    """The file that `command`, `sources`, `last` and `-o` make, or made before.

    told: what else decides the result, such as the compiler's version. suffix: of the file. Raises BuildFailed.
    """
    texts = [*(source.read_text() for source in sources), *command, *last, told]
    key = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    try:
        folder = cache_dir()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{sources[0].stem}-{key[:16]}{suffix}"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=folder) as work:  # some compilers write beside what they read
                copies = [shutil.copy(source, work) for source in sources]
                made = f"{work}/made{suffix}"
                _call([*command, *copies, *last, "-o", made])
                Path(made).replace(path)
    except OSError as failure:
        raise BuildFailed(f"cannot build {sources[0].name}: {failure}") from None
    return path
