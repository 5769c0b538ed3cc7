"""Files of one store copied into another: folders and buckets, either way. Again and again, each lands there once.

Serves the commands `push` and `pull`. A file is known by its content, so one that was merged there meanwhile stays so.
"""

import errno
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ..errors import warn
from .checker import check_file
from .file_check import MOST_BYTES, Facts
from .files import EVERYWHERE, MERGED, of_rows, pattern, shown, unnamed
from .row_cache import read_rows
from .storage import Entry, Storage, digest, keep

_AT_ONCE = 16


class Copied(NamedTuple):
    """How many files were copied, were there already, and were left out as none of a store's."""

    new: int
    there: int
    broken: int


def copy(source: Storage, target: Storage, tell: Callable[[int, int], object] = lambda done, due: None) -> Copied:
    """Add to `target` each file of `source` whose content it lacks, whole or not at all; nothing is removed or changed.

    tell: of how many files were looked at, out of how many. Killed at any time, the same call goes on. UsageError for a
    storage that cannot be reached.
    """
    listed = [entry for part in EVERYWHERE for entry in source.entries(pattern(part))]
    found = Copied(0, 0, 0)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        known = _contents(target, pool)
        work = pool.map(lambda entry: _copy_one(source, target, entry, known), listed)
        try:
            for done, what in enumerate(work, 1):
                if what:
                    found = found._replace(**{what: getattr(found, what) + 1})
                tell(done, len(listed))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    if sum(found) == len(listed):
        return found
    rest = copy(source, target, tell)  # a merge took some away: the merged file has what they had
    return rest._replace(new=found.new + rest.new, there=max(0, rest.there - found.new))


def _contents(target: Storage, pool: ThreadPoolExecutor) -> set[str]:
    """Digests of all that is there, as a file of its own or within a merged one."""
    known = set[str]()
    for part in EVERYWHERE:
        known |= set(pool.map(lambda entry: _digest(target, entry), target.entries(pattern(part))))
        for facts in read_rows(target.files([pattern(part, name=f"{MERGED}*")])).facts.values():
            known |= set(facts.merged_from)
    return known


def _digest(place: Storage, entry: Entry) -> str:
    """'' of what is gone meanwhile, or cannot be read."""
    try:
        return place.digest(entry)
    except OSError:
        return ""


def _copy_one(source: Storage, target: Storage, entry: Entry, known: set[str]) -> str:
    """Which number of Copied it adds to; none where it is gone meanwhile."""
    name = f"{source.address}/{shown(entry.name)}"
    try:
        why = unnamed(entry.name) or (
            f"it has {entry.size} bytes, {MOST_BYTES} at most" if entry.size > MOST_BYTES else ""
        )
        if not why and source.digest(entry) in known:
            return "there"
        data = b"" if why else source.read(entry.name)
    except FileNotFoundError:
        return ""
    except OSError as error:  # it may not be read, or is a folder, a pipe or a link
        why, data = _kind_of(error), b""
    facts = Facts(why) if why else check_file(data).facts
    if facts.fault:
        warn(f"warning: {name} is left out: {facts.fault}")
        return "broken"
    if facts.wrong:
        warn(f"warning: {name} is copied with all its rows, but {of_rows(facts)} by who reads it")
    folder, _, name = entry.name.rpartition("/")
    origins = facts.merged_from if name.startswith(MERGED) else ()
    if digest(data) in known or (origins and known.issuperset(origins)):
        return "there"
    keep(target, folder, name.removesuffix(".parquet"), data)
    return "new"


def _kind_of(error: OSError) -> str:
    """What the system says of a file that is none, or may not be read."""
    return "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
