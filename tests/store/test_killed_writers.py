"""The store loses no row if writers are killed at any moment, or write while a process merges."""

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
def store(tmp_path: Path) -> Store:
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
"""Start of the code of a process that forks others: the imports, which they share, take 100 times as long as an append."""

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
    """Yield a function that starts a process whose `code` forks others; all of them end with the test."""
    started = []

    def start(code: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", FORKING + code, LIB, json.dumps({**row(), "started": None}), *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True))
        return started[-1]

    yield start
    for family in started:
        with family, contextlib.suppress(ProcessLookupError):
            os.killpg(family.pid, signal.SIGKILL)


@pytest.mark.thorough
def test_killed_writers_lose_nothing(store: Store, forking: Forking) -> None:
    """After kill -9 at random moments, every append that had returned is there whole, and no other file prevents reading."""
    chance = random.Random(1)
    names = [f"w{number}" for number in range(18)]
    family = forking(WRITERS, str(store.root), "10000", *names)
    assert family.stdout
    promised: list[str] = []
    alive: dict[str, int] = {}
    while len(alive) < len(names):
        variant, process_id = family.stdout.readline().split()
        promised.append(variant)
        alive[variant.split("-")[0]] = int(process_id)
    for process in chance.sample(sorted(alive.values()), len(alive)):
        time.sleep(chance.uniform(0, 0.05))
        os.kill(process, signal.SIGKILL)
    promised += [line.split()[0] for line in family.stdout]
    family.wait()
    assert len(promised) > 2 * len(names)
    read = store.rows("lbm")
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
    """An append killed before its file is linked leaves no row; killed later, it leaves a whole row."""
    output, _ = forking(DEADLY, str(tmp_path), " ".join(STEPS), " ".join(MOMENTS)).communicate()
    assert output.splitlines() == [f"{step} {when} {-signal.SIGKILL:d}" for step in STEPS for when in MOMENTS]
    for step, when in itertools.product(STEPS, MOMENTS):
        linked = (step, when) in (("link", "after"), ("unlink", "before"), ("unlink", "after"))
        assert variants(Store(tmp_path / f"{when}-{step}")) == ["first", *["second"] * linked], (step, when)


@pytest.mark.thorough
def test_four_writers_and_a_merger_lose_nothing(store: Store, forking: Forking) -> None:
    """Four processes append under one run's name while this process reads and merges."""
    family = forking(WRITERS, str(store.root), "25", *"abcd")
    seen = 0
    while family.poll() is None:
        store.compact()
        count = len(store.rows("lbm"))
        assert count >= seen
        seen = count
    assert family.returncode == 0
    assert variants(store) == sorted(f"{name}-{number}" for name in "abcd" for number in range(25))
    assert not list(store.root.rglob("*.tmp"))
