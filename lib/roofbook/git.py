"""Git's answers on a folder, whatever a hook exports and whatever the user has set git to.

Serves the commit that a row names, and the gate, which compares with the source of a commit. A hook, `git rebase -x` and `git
worktree` export variables such as GIT_DIR, which make git answer for another repository than the one that was asked for.
"""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

PATIENCE_S = 60.0
"""Seconds within which git must answer: on a slow network file system it may need many."""
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_COUNT", "GIT_CEILING_DIRECTORIES")
"""Variables of git that stay, with GIT_CONFIG_KEY_n and GIT_CONFIG_VALUE_n: whose repositories to trust, where to stop."""
_SETTINGS = {
    "color.ui": "false",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "diff.algorithm": "default",
    "diff.context": "3",
    "diff.ignoreSubmodules": "none",
    "diff.interHunkContext": "0",
    "diff.mnemonicPrefix": "false",
    "diff.noprefix": "false",
    "diff.renames": "false",
    "diff.submodule": "short",
    "diff.suppressBlankEmpty": "false",
    "status.showUntrackedFiles": "normal",
}
"""Settings that decide which files count as changed, or the text of a change: these replace the user's."""


class GitRefused(Exception):
    """Git gave no answer. The message is git's own, in one line, or says that git is missing or too slow."""


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return variables (by default this process's environment) without those that name another repository."""
    passed_on = {
        name: value
        for name, value in (os.environ if variables is None else variables).items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
    }
    return {**passed_on, "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}


def answer(
    folder: Path, *words: str, given: bytes | None = None, into: IO[bytes] | None = None, patience_s: float = PATIENCE_S
) -> bytes:
    """Return the output of `git WORDS` in `folder`, or write it `into` a file. Raise GitRefused if git fails.

    given: standard input.
    """
    settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    command: Sequence[str] = ["git", "-C", str(folder), *settings, *words]
    try:
        done = subprocess.run(
            command, input=given or b"", stdout=into or subprocess.PIPE, stderr=subprocess.PIPE, timeout=patience_s,
            env=environment(),
        )  # fmt: skip
    except FileNotFoundError:
        raise GitRefused("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise GitRefused(f"git {words[0]} did not answer within {patience_s:.0f} s") from None
    except OSError as error:
        raise GitRefused(f"git cannot be started: {error.strerror or error}") from None
    if done.returncode:
        raise GitRefused(_message(done.stderr) or f"git {words[0]} ended with code {done.returncode}")
    return done.stdout or b""


def text(folder: Path, *words: str) -> str | None:
    """Return the output of `git WORDS` in `folder`, without white space around it; None if git fails."""
    try:
        return answer(folder, *words).decode(errors="replace").strip()
    except GitRefused:
        return None


def _message(complaints: bytes) -> str:
    """Return git's own error in one line: the lines from the first `fatal:` or `error:` on, without advice."""
    lines = [line.strip() for line in complaints.decode(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return " ".join("; ".join(errors or lines[-1:]).split())
