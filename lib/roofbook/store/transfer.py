"""Transfer of files from one store to another, between folders and buckets. Repeating it transfers no file twice.

Serves the commands `push` and `pull`. Files are compared by content, so a file that was merged in the target is not sent again.
"""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..errors import warn
from .checker import check_file
from .file_check import Facts
from .files import MERGED, STORE_PARTS, file_fault, left_out_rows, pattern, printable, stamp
from .row_cache import read_rows
from .storage import keep
from .storage_interface import Entry, Storage, digest

_THREADS = 16


class Copied(NamedTuple):
    """Numbers of files: copied, already in the target, and left out because no store can hold them."""

    new: int
    present: int
    broken: int


def copy(source: Storage, target: Storage, tell: Callable[[int, int], object] = lambda finished, total: None) -> Copied:
    """Add to `target` each file of `source` whose content it lacks, whole or not at all; nothing is removed or changed.

    tell: called with the number of finished files and the number of all. A call that was killed can be repeated: it continues.
    UsageError if a storage cannot be reached.
    """
    listed = [entry for part in STORE_PARTS for entry in source.entries(pattern(part))]
    counts = Copied(0, 0, 0)
    with ThreadPoolExecutor(_THREADS) as pool:
        digests = _contents(target, pool)
        outcomes = pool.map(lambda entry: _copy_one(source, target, entry, digests), listed)
        try:
            for finished, outcome in enumerate(outcomes, 1):
                if outcome:
                    counts = counts._replace(**{outcome: getattr(counts, outcome) + 1})
                tell(finished, len(listed))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if sum(counts) == len(listed):
        return counts
    second = copy(source, target, tell)  # a merge removed some files; their rows are in the merged file
    return second._replace(new=counts.new + second.new, present=max(0, second.present - counts.new))


def _contents(target: Storage, pool: ThreadPoolExecutor) -> set[str]:
    """Return the digests of all files of `target`, and of the files that were merged into them."""
    digests = set[str]()
    for part in STORE_PARTS:
        digests |= set(pool.map(lambda entry: _digest(target, entry), target.entries(pattern(part))))
        merged = [(path, stamp(path)) for path in target.files([pattern(part, name=f"{MERGED}*")])]
        for facts in read_rows(merged).facts.values():
            digests |= set(facts.merged_from)
    return digests


def _digest(storage: Storage, entry: Entry) -> str:
    """Return a file's digest; '' if it was removed or cannot be read."""
    try:
        return storage.digest(entry)
    except OSError:
        return ""


def _copy_one(source: Storage, target: Storage, entry: Entry, digests: set[str]) -> str:
    """Copy a file unless its digest is among `digests`. Return the field of Copied that counts it; '' if it was removed."""
    label = f"{source.address}/{printable(entry.name)}"
    try:
        fault = file_fault(entry.name, entry.size)
        if not fault and source.digest(entry) in digests:
            return "present"
        content = b"" if fault else source.read(entry.name)
    except FileNotFoundError:
        return ""
    except OSError as error:  # no permission, or a folder, a pipe or a link
        fault, content = _reason(error), b""
    facts = Facts(fault) if fault else check_file(content).facts
    if facts.fault:
        warn(f"warning: {label} is left out: {facts.fault}")
        return "broken"
    if facts.wrong:
        warn(f"warning: {label} is copied with all its rows, but readers skip some: {left_out_rows(facts)}")
    folder, _, name = entry.name.rpartition("/")
    origins = facts.merged_from if name.startswith(MERGED) else ()
    if digest(content) in digests or (origins and digests.issuperset(origins)):
        return "present"
    keep(target, folder, name.removesuffix(".parquet"), content)
    return "new"


def _reason(error: OSError) -> str:
    """Return why the system could not read a file."""
    return "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
