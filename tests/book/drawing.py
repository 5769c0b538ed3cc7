"""Drawing of recorded devices within the process of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def in_this_process() -> Iterator[Callable[..., Any]]:
    """Yield a function that draws in this process; others would not see what a test has replaced."""

    class FakeFuture:
        def __init__(self, answer: Any) -> None:
            self.result = lambda: answer

    yield lambda work, *arguments: FakeFuture(work(*arguments))
