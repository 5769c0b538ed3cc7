"""Pairs of like sources in a class: what they share after preprocessing, whatever their names, white space and comments are.

A source is cut into overlapping runs of RUN tokens. A name within a run counts as the position at which it stood there first,
so a renamed copy has the same runs. Of each WINDOW runs the one with the smallest hash is kept (winnowing, as MOSS does).
Runs of the handout, and those that most of the class has, do not count. A likeness accuses nobody: short kernels for one task
look alike.

`python -m roofbook.analysis.likeness ORDER` preprocesses a stranger's text, in a process of its own with limits.
"""

import hashlib
import itertools
import json
import re
import resource
import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..measure.grading import code_hash, hash_of, remembered
from ..paths import scratch_folder
from ..process_tree import run_tool
from ..spec import registry
from ..spec.class_folder import ClassSubmission
from ..spec.exercise import exercises, holed
from ..spec.lab import Lab
from ..spec.source import stranger_text
from ..spec.submission import RESERVED, lab_folder, submission_of

RUN = 12
"""Tokens of a run."""
WINDOW = 4
"""Runs of which one is kept: a copied part of RUN + WINDOW - 1 tokens always leaves a trace."""
LIKE = 0.6
"""Least likeness that is reported."""
FEWEST = 8
"""Least number of runs that two sources must share to be reported."""
SMALL_CLASS = 5
"""Number of sources from which on runs that more than half of them have do not count."""
LIMIT_S, MEMORY_BYTES = 20.0, 2 << 30
"""Limits of the process that preprocesses a text."""
_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|<<=|>>=|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|\S")
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"', re.S)
_BUILT_IN = re.compile(
    r"get_\w+|barrier|mem_fence|native_\w+|half_\w+|vload\w+|vstore\w+|as_\w+|convert_\w+|atomic\w*|mad\w*|fma\w?|r?sqrt\w?|"
    r"f?(?:max|min|abs)f?|select|clamp|__\w+|\w*(?:Idx|Dim)|(?:u?(?:char|short|int|long)|half|float|double)\d*"
)
"""Names of the languages, which a copy cannot change."""


@dataclass(frozen=True)
class LikePair:
    """Two submissions with like sources."""

    first: str
    """Name of the one."""
    second: str
    share: float
    """Share of the runs of the smaller source that the other one has too."""
    is_exact: bool
    """Whether the whole sources are the same but for names, white space and comments."""


def tokens(text: str) -> list[str]:
    """Return the tokens of a text without comments and directives.

    >>> tokens("x += 1.0f; // one more")
    ['x', '+=', '1.0f', ';']
    """
    without_comments = _COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)
    words = _TOKEN.findall(re.sub(r"^[ \t]*#.*$", "", without_comments, flags=re.M))
    return [word.removeprefix("__") for word in words]  # `__global` is `global`


def without_names(run: Sequence[str]) -> tuple[str, ...]:
    """Return tokens with each name of the author's own replaced by the position at which it stood first.

    >>> without_names(["int", "row", "=", "row", "+", "n"])
    ('int', '$1', '=', '$1', '+', '$5')
    """
    first: dict[str, str] = {}
    return tuple(first.setdefault(token, f"${at}") if _is_own_name(token) else token for at, token in enumerate(run))


def _is_own_name(token: str) -> bool:
    return (token[0].isalpha() or token[0] == "_") and token not in RESERVED and not _BUILT_IN.fullmatch(token)


def fingerprints(words: Sequence[str]) -> list[int]:
    """Return the kept runs of a source as numbers, sorted."""
    hashes = [
        int.from_bytes(hashlib.sha256(" ".join(without_names(words[at : at + RUN])).encode()).digest()[:7])
        for at in range(max(1, len(words) - RUN + 1) if words else 0)
    ]
    windows = [hashes[at : at + WINDOW] for at in range(max(1, len(hashes) - WINDOW + 1))]
    return sorted({min(window) for window in windows if window})


def like_pairs(sources: Mapping[str, tuple[Collection[int], str]], handout: Collection[int] = ()) -> list[LikePair]:
    """Return the pairs of like sources, the most alike first.

    sources: fingerprints and hash of the whole by name. handout: fingerprints that do not count.
    """
    common, in_handout = set(handout), set(handout)
    counts = Counter(number for numbers, _ in sources.values() for number in set(numbers))
    if len(sources) >= SMALL_CLASS:
        common |= {number for number, count in counts.items() if count > len(sources) / 2}
    own = {name: set(numbers) - common for name, (numbers, _) in sources.items()}
    pairs = []
    for first, second in itertools.combinations(sorted(sources), 2):
        smaller = min(len(own[first]), len(own[second]))
        shared = len(own[first] & own[second])
        is_exact = sources[first][1] == sources[second][1] and not in_handout.issuperset(sources[first][0])
        if is_exact or (shared >= FEWEST and shared >= LIKE * smaller):
            pairs.append(LikePair(first, second, 1.0 if is_exact else shared / smaller, is_exact))
    return sorted(pairs, key=lambda pair: (-pair.share, not pair.is_exact, pair.first, pair.second))


def source_traces(lab: Lab, submission: ClassSubmission, exercise: str | None) -> dict[str, Any]:
    """Return `fingerprints` and `whole` (a hash) of a submission's text after preprocessing, from a process with limits.

    A text that cannot be preprocessed is compared as it stands. One that takes too long is like no other.
    """
    with scratch_folder() as scratch:
        file = scratch / f"submission{submission.suffix}"
        file.write_text(submission.text, encoding="utf-8")
        for expands in (True, False):
            order = {"lab": lab.name, "file": str(file), "exercise": exercise, "expands": expands}
            run = run_tool([sys.executable, "-m", __name__, json.dumps(order)], limit_s=LIMIT_S)
            if run.code == 0 and not run.out_of_time:
                return dict(json.loads(run.output))
    return {"fingerprints": [], "whole": ""}


def pairs_of_class(
    lab: Lab,
    submissions: Sequence[ClassSubmission],
    exercise: str | None,
    folder_of: Callable[[ClassSubmission], Path],
) -> list[LikePair]:
    """Return the pairs of like sources of a class, by name. folder_of: returns the folder that keeps a submission's traces."""

    def traces_of(submission: ClassSubmission) -> dict[str, Any]:
        key = hash_of(submission.text, submission.suffix, code_hash(lab), str(exercise))
        file = folder_of(submission) / "traces.json"
        return remembered(file, key, lambda: source_traces(lab, submission, exercise))

    sources = {
        submission.key: (traces["fingerprints"], traces["whole"])
        for submission in submissions
        if not submission.reason and (traces := traces_of(submission))
    }
    handout: list[int] = []
    if exercise is not None:
        text = holed(lab, exercises(lab).named(lab.name, exercise))
        handout = source_traces(lab, ClassSubmission("handout", "handout", text, ".k"), exercise)["fingerprints"]
    names = {submission.key: submission.name for submission in submissions}
    return [replace(pair, first=names[pair.first], second=names[pair.second]) for pair in like_pairs(sources, handout)]


def preprocessed(order: Mapping[str, Any]) -> str:
    """Return the lines of a file after preprocessing, without those of the files that it includes.

    order: `lab`, `file` and `exercise`, as JSON data. Errors: UsageError for a text that cannot be expanded.
    """
    lab, file = registry.get(order["lab"]), Path(order["file"])
    knobs: tuple[tuple[str, Any], ...] = ()
    if order["exercise"] is not None:
        knobs = tuple((name, name) for name in exercises(lab).named(lab.name, order["exercise"]).plan_knobs)
    else:
        knobs = submission_of(file.read_text(encoding="utf-8")).defines
    text = stranger_text(file, tuple(sorted(knobs)), "cuda" if file.suffix == ".cu" else "opencl", lab_folder(lab))
    is_own, lines = True, []
    for line in text.splitlines():
        if place := re.match(r'\s*#line \d+ "(.*)"', line):
            is_own = Path(place[1]).name == file.name
        elif is_own:
            lines.append(line)
    return "\n".join(lines)


def main(order_text: str) -> int:
    """Print the traces of a text as JSON. Return 1 if it cannot be expanded."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    order = json.loads(order_text)
    try:
        text = preprocessed(order) if order["expands"] else Path(order["file"]).read_text(encoding="utf-8")
    except (UsageError, ArithmeticError, LookupError, TypeError, ValueError, MemoryError, RecursionError):
        return 1
    words = tokens(text)
    whole = hashlib.sha256(" ".join(without_names(words)).encode()).hexdigest()
    print(json.dumps({"fingerprints": fingerprints(words), "whole": whole}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
