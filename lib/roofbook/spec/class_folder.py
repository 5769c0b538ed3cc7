"""Submissions of a class: a folder with a file for each student, or a folder for each with one file in it.

Serves `roofbook grade`. Names and texts are a stranger's. No link is followed, and a file without a kernel's text is a
submission that has a reason in place of a text.
"""

import os
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import UsageError, of_system
from ..escaping import file_name
from ..paths import read_regular
from .answer_file import LARGEST, decoded, on_one_line

MOST_SUBMISSIONS = 10_000
"""Largest number of submissions of a class."""
MOST_NAME = 120
"""Characters of a name that are shown."""


@dataclass(frozen=True)
class ClassSubmission:
    """Text that one student handed in, or the reason why there is none."""

    name: str
    """Name of the file or folder, on one line; different for all submissions of a class."""
    key: str
    """Name of the folder with its results: different for all submissions of a class."""
    text: str = ""
    suffix: str = ""
    """Ending of the file's name: its language."""
    reason: str = ""
    """Why there is nothing to judge; '' if there is."""


def submissions_in(folder: Path, suffixes: Collection[str]) -> list[ClassSubmission]:
    """Return the submissions of a folder, sorted by name. Hidden files and folders are none.

    suffixes: endings of kernel files; in a student's folder other files are left out. Raise UsageError for a folder that cannot
    be read, without submissions, or with too many.
    """
    try:
        names = sorted((entry for entry in os.listdir(folder) if not entry.startswith(".")), key=os.fsencode)
    except OSError as error:
        raise UsageError(f"{on_one_line(str(folder))}: {of_system(OSError(error.errno, error.strerror))}") from None
    if not names:
        raise UsageError(f"{on_one_line(str(folder))} has no submissions: a file or a folder for each student is meant")
    if len(names) > MOST_SUBMISSIONS:
        raise UsageError(
            f"{on_one_line(str(folder))} has {len(names)} files and folders; {MOST_SUBMISSIONS} submissions at most"
        )
    submissions = [_submission(folder / name, suffixes) for name in names]
    counts = Counter(submission.name for submission in submissions)
    return [
        submission
        if counts[submission.name] == 1
        else replace(submission, name=f"{submission.name} ({submission.key})")
        for submission in submissions
    ]


def _submission(path: Path, suffixes: Collection[str]) -> ClassSubmission:
    shown = on_one_line(path.name)
    name = shown if len(shown) <= MOST_NAME else f"{shown[:MOST_NAME]}..."
    key = file_name(path.name if path.name[0].isalnum() else f" {path.name}")  # else a spreadsheet may compute it
    try:
        file = path
        if path.is_symlink():
            raise UsageError("it is a link, which is not followed")
        if path.is_dir():
            file = _only_kernel(path, suffixes)
        if file.suffix not in suffixes:
            raise UsageError(f"the ending of a kernel's file is {', '.join(sorted(suffixes))}")
        return ClassSubmission(name, key, _text(file), file.suffix)
    except UsageError as error:
        return ClassSubmission(name, key, reason=str(error))
    except OSError as error:
        return ClassSubmission(name, key, reason=of_system(OSError(error.errno, error.strerror)))


def _only_kernel(folder: Path, suffixes: Collection[str]) -> Path:
    """Return the only kernel file of a student's folder. Raise UsageError if there is none, or several."""
    files = [path for path in folder.iterdir() if path.suffix in suffixes and not path.name.startswith(".")]
    if len(files) != 1:
        raise UsageError(f"its folder has {len(files)} files that end in {', '.join(sorted(suffixes))}; one is meant")
    if files[0].is_symlink():
        raise UsageError("it is a link, which is not followed")
    return files[0]


def _text(file: Path) -> str:
    """Return the text of a regular file. Raise UsageError for another kind of file, too many bytes, or another encoding."""
    if not file.is_file():
        raise UsageError("it is no file with a kernel's text")
    if (size := file.stat().st_size) > LARGEST:
        raise UsageError(f"it has {size} bytes; a kernel's text has {LARGEST} at most")
    return decoded(read_regular(file, LARGEST, follow=False), "it")
