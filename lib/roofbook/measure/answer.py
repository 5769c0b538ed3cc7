"""Judges a reader's kernel for an exercise: `roofbook exercise LAB NAME --check FILE`. Right, wrong and where, or no kernel.

It is verified as a variant is before it is timed, in a process of its own, since it may crash or never end.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..paths import scratch_folder
from ..spec import registry
from ..spec.exercise import HOLE, Write
from ..spec.lab import Lab
from .placement import target_of

LIMIT_S = 120.0
"""Seconds that checks and times may take together: seconds are what they need."""
BUILD = "does not build: "


@dataclass(frozen=True)
class Mark:
    """What came of an answer."""

    code: int
    """The command's exit code: 0 right, 1 wrong, 2 no kernel that a compiler takes."""
    said: str
    """In one line."""
    timed: dict[str, Any] | None = None
    """Of a right one that was timed: `case`, `seconds`, `ratio` to the step with its interval, `relation`; or `reason`."""


def judge(lab: Lab, exercise: Write, text: Path, device: Device, *, take_time: bool = True) -> Mark:
    """Check the kernel in the file `text` on the cases of the exercise, on `device`; time a right one beside the step.

    Errors: UsageError for a file that is no text, and where the step does not run on `device`.
    """
    written = _read(text)
    step = lab.variant(exercise.step)
    if target_of(step, device) is None:
        raise UsageError(f"{exercise.step} does not run on {device.spec}, so no answer to {exercise.name} does")
    with scratch_folder() as scratch:
        file = text.resolve()
        if not text.is_file():  # a pipe, which is empty now
            file = scratch / text.name
            file.write_text(written, encoding="utf-8")
        told, end = _run({
            "lab": lab.name, "exercise": exercise.name, "text": str(file), "device": device.spec, "time": take_time,
            "out": f"{scratch}/told",
        })  # fmt: skip
    hole = "; the hole is still there" if HOLE in written else ""
    last = next((each["at"] for each in reversed(told) if "at" in each), None)
    refused = next((each for each in told if "wrong" in each), None)
    if refused:
        why, where = refused["wrong"]["reason"], refused["wrong"]["where"]
        if why.startswith(BUILD):
            return Mark(2, f"does not compile: {_plain(why.removeprefix(BUILD), text)}{hole}")
        where = f"; {where}" if where else ""
        return Mark(1, f"not right on {refused['case']}: {why}{where}{hole}")
    if end and last is None:
        raise Failed(f"the checking process {end}")
    if end:
        return Mark(1, f"not right on {last}: its process {end}{hole}")
    timed = next((each["timed"] for each in told if "timed" in each), None)
    return Mark(0, f"right on {', '.join(exercise.cases)}", timed)


def _read(text: Path) -> str:
    try:
        return text.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{text} is no text") from None


def _run(order: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """What the process told, and how it ended, '' where as it should."""
    out = Path(order["out"])
    with tempfile.TemporaryFile() as said:
        command = [sys.executable, "-m", f"{__package__}.answered", json.dumps(order)]
        environment = {**os.environ, **registry.environment(), "LC_ALL": "C"}
        end = ""
        try:
            done = subprocess.run(
                command,
                stdout=said,
                stderr=said,
                stdin=subprocess.DEVNULL,
                env=environment,
                timeout=LIMIT_S,
                check=False,
            )
            said.seek(0)
            end = _ended(done.returncode, said.read().decode(errors="replace"))
        except subprocess.TimeoutExpired:
            end = f"did not end within {LIMIT_S:g} s"
        told = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    return told, end


def _ended(code: int, said: str) -> str:
    if code == 0:
        return ""
    if code < 0:
        return f"crashed by {signal.Signals(-code).name}"
    words = [line.strip() for line in said.splitlines() if line.strip()]
    return f"ended with exit code {code} ({words[-1][:200] if words else 'no message'})"


def _plain(message: str, text: Path) -> str:
    """A compiler's message with the file as the reader named it."""
    return re.sub(r"\S*" + re.escape(f"/{text.name}") + r"(?=:)", text.name, message)
