"""Tables and figures that labs bring: the cells of the notebooks that draw them do so on recorded devices."""

from __future__ import annotations

import json

import pytest

from roofbook.analysis.recorded import recorded
from roofbook.book.replay_notebook import replay
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store


@pytest.mark.parametrize(
    ("lab", "drawn"),
    [
        ("stencil", "<svg"),
        ("lenet", "kernels during"),
        ("lbm", "Weak scaling"),
    ],
)
def test_a_notebook_draws_what_its_lab_brings(lab: str, drawn: str) -> None:
    notebook = json.loads((project_root() / "experiments" / f"{lab}.ipynb").read_text(encoding="utf-8"))
    own = f"from roofbook.labs.{lab}."
    cells = [
        cell for cell in notebook["cells"] if any(text in "".join(cell["source"]) for text in ("roofbook.open", own))
    ]
    assert [own in "".join(cell["source"]) for cell in cells] == [False, True]
    store = Store(project_root() / "results")
    data = max(recorded(registry.get(lab), store, "published"), key=lambda data: len(data.rows))
    _, html = replay({**notebook, "cells": cells}, data, store).values()
    assert drawn in html and "not repeated" not in html
