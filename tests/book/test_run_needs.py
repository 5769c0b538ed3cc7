"""Time and space that a lab takes: from the rows of the store, and from the lists of installed files."""

from __future__ import annotations

from importlib.metadata import distribution
from pathlib import Path

import pytest

from roofbook.analysis.format import THIN
from roofbook.book.run_needs import installed_bytes, minutes, run_needs, stored_bytes
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..analysis.test_campaign_time import row

LAB = registry.get("stencil")


def test_times_are_those_of_the_rows_by_device_and_scale(tmp_path: Path) -> None:
    assert not run_needs(LAB, tmp_path).rows and stored_bytes(LAB, tmp_path) == 0
    store = Store(tmp_path)
    card = {"lab": "stencil", "device_name": "A card"}
    for case, ended, fields in (("a", 90, {"scale": "quick"}), ("b", 200, {"scale": "published"})):
        store.append([row(case, name, f"r{case}", 0, ended, **card, **fields) for name in ("one", "two")])
    lines = [[cell.text for cell in line.cells] for line in run_needs(LAB, tmp_path).rows]
    where = "A card, CUDA, this machine"
    assert lines == [[where, "published", "2", minutes(200.5)], [where, "quick", "2", minutes(90.5)]]
    assert stored_bytes(LAB, tmp_path) == 0, "only recorded measurements count"


@pytest.mark.parametrize(
    ("seconds", "words"), [(59.4, "59 s"), (61, "2 min"), (600, "10 min"), (5999, "100 min"), (9000, "2.5 h")]
)
def test_times_for_planning_are_rounded_up(seconds: float, words: str) -> None:
    assert minutes(seconds).replace(THIN, " ") == words


def test_the_space_of_a_package_includes_those_that_it_needs() -> None:
    alone = sum(file.size or 0 for file in distribution("pluggy").files or ())
    assert installed_bytes("pluggy") == alone > 0
    assert installed_bytes("pytest") > alone
    assert installed_bytes("no-such-package") == 0
