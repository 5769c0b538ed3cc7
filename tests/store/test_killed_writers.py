"""The store loses nothing: writers that are killed at any moment, and writers side by side with a merger."""

import contextlib
import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roofbook.store import parquet
from roofbook.store.parquet import Store

from .test_parquet import row, variants

LIB = str(Path(parquet.__file__).parents[2])


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return Store(tmp_path / "results")


FORKING = """
import json, os, signal, sys
from datetime import UTC, datetime
import pandas, pyarrow.parquet
sys.path.insert(0, sys.argv[1])
from roofbook.store.parquet import Store
plain = json.loads(sys.argv[2])
def append(root, variant):
    Store(root).append([{**plain, "variant": variant, "started": datetime.now(UTC), "samples_s": [1.0] * 500}])
def ended():
    return os.waitstatus_to_exitcode(os.wait()[1])
"""
"""How a process begins that forks others: what they all import takes a hundred times as long as an append."""

WRITERS = """
root, count, *names = sys.argv[3:]
for name in names:
    if os.fork() == 0:
        for number in range(int(count)):
            append(root, f"{name}-{number}")
            os.write(1, f"{name}-{number} {os.getpid()}\\n".encode())  # at once, unlike print: others write too
        os._exit(0)
sys.exit(any([ended() for _ in names]))
"""

Forking = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def forking() -> Iterator[Forking]:
    """Starts a process that forks as `code` says; none of the family outlives the test."""
    started = []

    def start(code: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", FORKING + code, LIB, json.dumps({**row(), "started": None}), *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield start
    for family in started:
        with family, contextlib.suppress(ProcessLookupError):
            os.killpg(family.pid, signal.SIGKILL)


def test_killed_writers_lose_nothing(kept: Store, forking: Forking) -> None:
    """kill -9 at random moments: every append that had returned is there whole, and nothing else is in the way."""
    chance = random.Random(1)
    names = [f"w{number}" for number in range(18)]
    family = forking(WRITERS, str(kept.root), "10000", *names)
    assert family.stdout
    promised: list[str] = []
    alive: dict[str, int] = {}
    while len(alive) < len(names):
        variant, who = family.stdout.readline().split()
        promised.append(variant)
        alive[variant.split("-")[0]] = int(who)
    for process in chance.sample(sorted(alive.values()), len(alive)):
        time.sleep(chance.uniform(0, 0.05))
        os.kill(process, signal.SIGKILL)
    promised += [line.split()[0] for line in family.stdout]
    family.wait()
    assert len(promised) > 2 * len(names)
    read = kept.rows("lbm")
    assert set(promised) <= set(read["variant"])
    assert len(read) <= len(promised) + len(names)  # at most the one append of each that was cut before it could say so
    assert set(read["samples_s"].map(len)) == {500}


STEPS = ("fsync", "link", "unlink")
MOMENTS = ("before", "after")

DEADLY = """
for step in sys.argv[4].split():
    for when in sys.argv[5].split():
        if os.fork() == 0:
            root, real = os.path.join(sys.argv[3], f"{when}-{step}"), getattr(os, step)
            append(root, "first")
            def deadly(*a, **k):
                if when == "after":
                    real(*a, **k)
                os.kill(os.getpid(), signal.SIGKILL)
            setattr(os, step, deadly)
            append(root, "second")
        print(step, when, ended(), flush=True)
"""


def test_killed_inside_an_append(tmp_path: Path, forking: Forking) -> None:
    """Killed at each step of one append: before the link nothing is seen, after it the row is whole."""
    said, _ = forking(DEADLY, str(tmp_path), " ".join(STEPS), " ".join(MOMENTS)).communicate()
    assert said.splitlines() == [f"{step} {when} {-signal.SIGKILL:d}" for step in STEPS for when in MOMENTS]
    for step, when in itertools.product(STEPS, MOMENTS):
        linked = (step, when) in (("link", "after"), ("unlink", "before"), ("unlink", "after"))
        assert variants(Store(tmp_path / f"{when}-{step}")) == ["first", *["second"] * linked], (step, when)


@pytest.mark.thorough
def test_four_writers_and_a_merger_lose_nothing(kept: Store, forking: Forking) -> None:
    """All five at once, the writers under one run's name, while this process reads and merges."""
    family = forking(WRITERS, str(kept.root), "25", *"abcd")
    seen = 0
    while family.poll() is None:
        kept.compact()
        found = len(kept.rows("lbm"))
        assert found >= seen
        seen = found
    assert family.returncode == 0
    assert variants(kept) == sorted(f"{name}-{number}" for name in "abcd" for number in range(25))
    assert not list(kept.root.rglob("*.tmp"))
