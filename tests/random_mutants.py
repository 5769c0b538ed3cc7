"""Draw small random changes of kernels, and report which of them a lab's checks refuse: mistakes that nobody planned.

    python -m tests.random_mutants --scale test --count 40 --seed 1 stencil lbm

prints the share that is refused, and each accepted change. Some of those are no mistakes: a bound that is never reached, a
smaller vector before a loop over the remainder, a constant that is multiplied by zero. The reader of the list decides.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.find import open_device
from roofbook.measure.measurement import Measurement
from roofbook.measure.placement import Setting, Target, target_of
from roofbook.measure.policy import Policy
from roofbook.measure.verify import References, prepare
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from .mutants import copied, of_folder, package_of

LABS = ("stencil", "lbm", "cnn", "convpool", "lenet")
LIMIT_S = 30.0
"""Seconds after which a mutant is taken for one that never ends."""
KERNELS = (".k", ".inc", ".h")

_COMMENT = re.compile(r"//.*|/\*.*?\*/")
_NOT_CODE = re.compile(r"^\s*(#\s*(if|ifdef|ifndef|elif|else|endif|include|undef|pragma|error)\b|typedef\b|KERNEL\b|$)")


@dataclass(frozen=True)
class RandomMutant:
    """One line of a kernel's text with one change. start: where in the line the old words stand."""

    lab: str
    variant: str
    file: str
    line: int
    start: int
    old: str
    new: str

    def applied_to(self, text: str) -> str:
        """Return the text with the change."""
        lines = text.split("\n")
        before = lines[self.line]
        assert before[self.start :].startswith(self.old), f"{self.file} has changed since the mutant was drawn"
        lines[self.line] = before[: self.start] + self.new + before[self.start + len(self.old) :]
        return "\n".join(lines)

    def __str__(self) -> str:
        return f"{self.lab} {self.variant} {self.file}:{self.line + 1} {self.old!r} -> {self.new!r}"


def _matches(pattern: str, change: Callable[[re.Match[str]], Sequence[str]]) -> Any:
    return re.compile(pattern), change


_RULES = (
    _matches(r"(?<![\w.])\d+(?![\w.])", lambda m: [str(int(m[0]) + 1), str(max(0, int(m[0]) - 1))]),
    _matches(r"(?<![\w.])\d+\.\d*f?", lambda m: [f"(1.001f * {m[0]})", f"({m[0]} + 0.01f)"]),
    _matches(r"(?<=[\w)\]] )<(?= )", lambda m: ["<=", ">"]),
    _matches(r"(?<=[\w)\]] )<=(?= )", lambda m: ["<"]),
    _matches(r"(?<=[\w)\]] )>(?= )", lambda m: [">=", "<"]),
    _matches(r"(?<=[\w)\]] )>=(?= )", lambda m: [">"]),
    _matches(r"(?<= )==(?= )", lambda m: ["!="]),
    _matches(r"(?<= )(&&|&)(?= )", lambda m: ["||" if m[0] == "&&" else "|"]),
    _matches(r"(?<=[\w)\]] )\+(?= )", lambda m: ["-"]),
    _matches(r"(?<=[\w)\]] )-(?= )", lambda m: ["+"]),
    _matches(r"(?<=[\w)\]] )\*(?= )", lambda m: ["+"]),
    _matches(r"(?<=[\w)\]] )/(?= )", lambda m: ["*"]),
    _matches(r"(?<=[\w)\]] )%(?= )", lambda m: ["/"]),
    _matches(r"(?<= )\+=(?= )", lambda m: ["=", "-="]),
    _matches(r"\+\+(?=\))", lambda m: [" += 2"]),
    _matches(r"\b(HEIGHT|WIDTH)\b", lambda m: ["WIDTH" if m[0] == "HEIGHT" else "HEIGHT"]),
    _matches(r"\b(nx|ny)\b", lambda m: ["ny" if m[0] == "nx" else "nx"]),
    _matches(r"\b(north|south|east|west)\b",
             lambda m: [{"north": "south", "south": "north", "east": "west", "west": "east"}[m[0]]]),
    _matches(r"\b(FILTERS|DEPTH|CHANNELS|TAPS|SIZE|OUT)\b", lambda m: [f"({m[0]} - 1)"]),
    _matches(r"\b([xy]|[hw]|[pq]|[ij])\b(?!\[)",
             lambda m: [{"x": "y", "y": "x", "h": "w", "w": "h", "p": "q", "q": "p", "i": "j", "j": "i"}[m[0]]]),
    _matches(r"\b(LOCAL|GLOBAL|GROUP)_ID\(([01])\)", lambda m: [f"{m[1]}_ID({1 - int(m[2])})", f"({m[0]} / 2 * 2)"]),
    _matches(r"\bBARRIER\w*(\([^)]*\))?;", lambda m: [";"]),
    _matches(r"\b(MAX|LARGER)\(", lambda m: ["MIN(" if m[1] == "MAX" else "SMALLER("]),
)  # fmt: skip
"""Patterns of code, each with its possible replacements."""


def changes_of(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield (where, old, new) for each change of a line of a kernel; none for comments and conditions of the preprocessor."""
    if _NOT_CODE.match(line):
        return
    code = _COMMENT.sub(lambda match: " " * len(match[0]), line)
    head = re.match(r"\s*#define \w+(\([^)]*\))?", code)
    for pattern, change in _RULES:
        for match in pattern.finditer(code, head.end() if head else 0):
            for new in change(match):
                yield match.start(), match[0], new


def drawn(lab_name: str, count: int, seed: int, scale: str = "test") -> list[RandomMutant]:
    """Draw so many mutants of a lab's steps, each of a step that runs on this machine and whose source it changes."""
    lab, device, draw = registry.get(lab_name), open_device("opencl:0"), random.Random(seed)
    lab_folder = package_of(lab)
    steps = [
        variant
        for variant in lab.ladder
        if variant.source and variant.role == "step" and target_of(variant, device) is not None
        and any(lab.skip_reason(variant, case) is None for case in lab.cases(scale))
    ]  # fmt: skip
    mutants: dict[tuple[str, int, int, str], RandomMutant] = {}
    with tempfile.TemporaryDirectory() as folder:
        while len(mutants) < count:
            variant = draw.choice(steps)
            assert variant.source
            files = [file for file in variant.source.files if file.parent == lab_folder and file.suffix in KERNELS]
            file = draw.choice(files)
            lines = file.read_text().split("\n")
            number = draw.randrange(len(lines))
            if not (choices := list(changes_of(lines[number]))):
                continue
            mutant = RandomMutant(lab_name, variant.name, file.name, number, *draw.choice(choices))
            place = mutant.file, mutant.line, mutant.start, mutant.new
            if place not in mutants and _changes(lab, variant, mutant, Path(folder)):
                mutants[place] = mutant
    return list(mutants.values())


def _changes(lab: Lab, variant: Variant, mutant: RandomMutant, folder: Path) -> bool:
    """Whether the mutant's text is another one, as the variant's knobs have it, and can be read."""
    assert variant.source
    try:
        changed = mutated(lab, variant, mutant, folder).source
        return changed is not None and changed.sha256 != variant.source.sha256
    except ValueError:
        return False


def mutated(lab: Lab, variant: Variant, mutant: RandomMutant, folder: Path) -> Variant:
    """Return the variant with the mutant's text, whose files are laid in `folder`."""
    copied(variant, package_of(lab), folder)
    path = folder / mutant.file
    path.write_text(mutant.applied_to(path.read_text()))
    return of_folder(variant, folder)


Seen = dict[tuple[str, str], References]


def verdict(mutant: RandomMutant, scale: str, seen: Seen) -> str:
    """Return why a mutant is refused on the cases of a scale, `accepted` where it is not."""
    lab, device = registry.get(mutant.lab), open_device("opencl:0")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        right = lab.variant(mutant.variant)
        wrong = mutated(lab, right, mutant, Path(folder))
        for name, module in list(sys.modules.items()):
            if name.startswith(f"roofbook.labs.{lab.name}.") and hasattr(module, "HERE"):
                patch.setattr(module, "HERE", Path(folder))
        target = target_of(right, device)
        assert target is not None
        cases = [case.name for case in lab.cases(scale) if lab.skip_reason(right, case) is None]
        reasons = (_refused(lab, wrong, case, scale, target, seen) for case in cases)
        return next((reason for reason in reasons if reason), "accepted")


def _refused(lab: Lab, wrong: Variant, case: str, scale: str, target: Target, seen: Seen) -> str | None:
    at = Setting(lab, lab.case(case, scale), target.device, Policy(limit_s=LIMIT_S))
    references = seen.setdefault((lab.name, case), References(at))
    measurement = Measurement(wrong, wrong.role, *target)
    prepare(at, measurement, references)
    measurement.release()
    return measurement.reason


# -- a process that may die --------------------------------------------------------------------------------------------


def worker(scale: str) -> None:
    """Judge the mutants that lines of standard input name."""
    seen: Seen = {}
    for line in sys.stdin:
        try:
            outcome = verdict(RandomMutant(**json.loads(line)), scale, seen)
        except Exception as error:  # a plan that does not stand it
            outcome = f"{type(error).__name__}: {error}"
        print("\nverdict " + json.dumps(outcome), flush=True)


class Judge:
    """A process that judges mutants one after another, started afresh after one that crashed it or did not end."""

    def __init__(self, scale: str) -> None:
        self.scale = scale
        self.process: subprocess.Popen[str] | None = None

    def verdict(self, mutant: RandomMutant) -> str:
        """Return the outcome of a mutant; `crashed` or `out of time` if its process does not answer."""
        if self.process is None or self.process.poll() is not None:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.random_mutants", "--worker", "--scale", self.scale],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
        process = self.process
        assert process.stdin and process.stdout
        late = threading.Event()

        def end() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(LIMIT_S, end)
        timer.start()
        try:
            process.stdin.write(json.dumps(asdict(mutant)) + "\n")
            process.stdin.flush()
            for line in process.stdout:
                if line.startswith("verdict "):
                    return str(json.loads(line.removeprefix("verdict ")))
        except BrokenPipeError:
            pass
        finally:
            timer.cancel()
        process.wait()
        return "out of time" if late.is_set() else "crashed"

    def close(self) -> None:
        """End the process."""
        if self.process:
            self.process.kill()
            self.process.wait()


def main() -> None:
    """Draw mutants of labs, judge them, and print the share that is refused."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("labs", nargs="*", default=LABS)
    parser.add_argument("--scale", default="test")
    parser.add_argument("--count", type=int, default=20, help="mutants of each lab")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", action="store_true")
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.scale)
        return
    judge, outcomes = Judge(arguments.scale), Counter[str]()
    for name in arguments.labs:
        for mutant in drawn(name, arguments.count, arguments.seed, arguments.scale):
            outcome = judge.verdict(mutant)
            outcomes[outcome.partition(":")[0]] += 1
            print(f"{mutant}: {outcome[:110]}", flush=True)
    judge.close()
    total = sum(outcomes.values())
    built = total - outcomes["does not build"]
    print(dict(outcomes))
    print(f"{built - outcomes['accepted']} of {built} that build are refused at the scale {arguments.scale}")


if __name__ == "__main__":
    main()
