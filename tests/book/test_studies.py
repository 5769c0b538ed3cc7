"""Studies of recorded rows: their tables from made-up rows, and from the record by papermill as well as on the page."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.often import often

from roofbook.book import inprocess_engine, studies
from roofbook.book.notebook_cells import cells_of, outputs_html
from roofbook.store.parquet import Store

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "experiments" / "studies"
NEIGHBOURS, CAMPAIGNS = FOLDER / "busy_neighbours.ipynb", FOLDER / "campaign_times.ipynb"
IDLE, BUSY = {"before": [0.0], "after": [3.0]}, {"before": [97.0], "after": [100.0]}
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(minute: int, other_cards: dict[str, Any], seconds: float, card: str = "GPU-a", **fields: Any) -> dict[str, Any]:
    provenance = {"neighbours": other_cards, "gpu": {"uuid": card}, "git": {"commit": "c" * 40}}
    return {
        "run": f"r{minute}", "started": BEGAN + timedelta(minutes=minute), "lab": "made", "variant": "one", "case": "a",
        "role": "step", "device": "card", "device_name": "Card", "device_kind": "gpu", "backend": "cuda", "policy": "{}",
        "cell_key": "k", "env_key": "e", "status": "ok", "units": 1, "error": 0.0, "bound": 1.0, "unit": "call",
        "timed": "kernels", "samples_s": list(seconds * np.linspace(0.999, 1.001, 9)), "rounds": list(range(9)),
        "provenance": json.dumps(provenance), **fields,
    }  # fmt: skip


def tables(notebook: Path, results: Path, **parameters: Any) -> list[list[list[str]]]:
    """Return the tables that a study shows of a store, each as the texts of its rows, without their heads."""
    shown = filter(None, studies.fragments(notebook, results=str(results), **parameters))
    lines = [re.findall(r"<tr><th scope=\"row\".*?</tr>", html) for html in shown]
    return [[[unescape(re.sub("<[^>]*>", "", cell)) for cell in re.split(r"</t[hd]>", line)[:-1]] for line in of_table]
            for of_table in lines]  # fmt: skip


def recorded(root: Path, *appended: list[dict[str, Any]]) -> Path:
    """Return the results of a checkout whose record has these rows."""
    for rows in appended:
        Store(root).append(rows)
    (root / "local").rename(root / "recorded")
    return root


def test_a_tuned_space_is_drawn_and_searches_are_replayed(tmp_path: Path) -> None:
    notebook = FOLDER / "tuned_spaces.ipynb"
    assert set(studies.fragments(notebook, results=str(tmp_path))) == {""}
    points = [(f"{a},{b}", 1e-3 * a * b) for a in (1, 2) for b in (1, 2, 4)]
    rows = [
        row(minute, {}, seconds, lab="convpool", variant=f"strips@PARTS={values[0]},TOGETHER={values[2]}", role="sweep",
            axis="PARTS,TOGETHER", point=values, samples_s=[seconds], rounds=[0])
        for minute, (values, seconds) in enumerate(points)
    ]  # fmt: skip
    recorded(tmp_path / "tuning", rows)
    drawing, table = (text for text in studies.fragments(notebook, results=str(tmp_path)) if text)
    assert "<svg" in drawing and "PARTS = 1, TOGETHER = 1" in drawing
    assert "convpool strips, a, Card" in table and "exhaustive" in table


def test_the_same_measurement_is_compared_beside_idle_cards_and_beside_busy_ones(tmp_path: Path) -> None:
    """Rows of another card, code or kind count as little as rows that are neither beside idle cards nor beside busy ones."""
    unfit: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"before": [97.0], "after": [10.0]}, {}),  # for a part of the time
        ({"before": [20.0], "after": [20.0]}, {}),
        ({"before": [97.0, 0.0], "after": [0.0, 97.0]}, {}),  # one before, another after
        ({"before": [], "after": []}, {}),  # a card alone
        ({"before": [97.0], "after": []}, {}),
        (BUSY, {"card": "GPU-b"}),
        (BUSY, {"cell_key": "another"}),
        (BUSY, {"device_kind": "cpu"}),
        (BUSY, {"error": 2.0}),
        (BUSY, {"provenance": "{}"}),
    ]
    rows = [row(at, cards, 2e-6 if cards is BUSY else 1e-6) for at, cards in enumerate([IDLE, BUSY] * 3)]
    for number, (cards, fields) in enumerate(unfit):
        rows += [row(20, IDLE, 1e-6, variant=f"v{number}"), row(21, cards, 1e-6, variant=f"v{number}", **fields)]
    (of_pairs,) = tables(NEIGHBOURS, recorded(tmp_path, rows))
    ((measurement, device, *times, ratio),) = of_pairs
    assert (measurement, device) == ("made a one", "Card, cuda") and ratio.startswith("2.00")
    assert [time[:4] for time in times] == ["1.00", "2.00"]
    thresholds = {"idle": 10, "busy": 15}
    assert len(tables(NEIGHBOURS, tmp_path, **thresholds)[0]) == 2, "other thresholds, other pairs"


def campaign(began: float, cards: dict[str, str], took: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """Return the rows of a campaign. cards: card by case. took: start and end by case, in seconds after the command's start."""
    run = f"{BEGAN + timedelta(seconds=began):%Y%m%dT%H%M%SZ}-{began:06.0f}"
    rows = []
    for case, card in cards.items():
        start, end = (BEGAN + timedelta(seconds=began + seconds) for seconds in took[case])
        facts = {"time": end.isoformat(timespec="seconds"), "gpu": {"uuid": card}, "git": {"commit": "c" * 40}}
        fields: dict[str, Any] = {
            "run": run,
            "case": case,
            "started": start,
            "lab": "lbm",
            "provenance": json.dumps(facts),
        }
        rows += [row(0, {}, 1e-6, variant=variant, **fields) for variant in ("one", "two")]
    return rows


ONE, TWO = {"a": "x", "b": "x"}, {"a": "x", "b": "y"}
IN_TURN, AT_ONCE = {"a": (4.0, 14.0), "b": (15.0, 34.0)}, {"a": (4.0, 15.0), "b": (4.0, 25.0)}


def test_a_campaign_on_one_card_and_on_two_is_compared_without_its_first_run(tmp_path: Path) -> None:
    rows = [
        campaign(0, TWO, {"a": (4.0, 90.0), "b": (4.0, 99.0)}),
        *(
            campaign(100, ONE, IN_TURN),
            campaign(200, TWO, AT_ONCE),
            campaign(300, ONE, {"a": (4.0, 16.0), "b": (17.0, 40.0)}),
        ),
        campaign(400, {"a": "z", "b": "z"}, IN_TURN),  # another host's card
        campaign(500, {"a": "x"}, {"a": (4.0, 14.0)}),  # another campaign
    ]
    campaigns, forecasts = tables(CAMPAIGNS, recorded(tmp_path, *rows), devices=[1, 2, 64])
    assert [line[0] for line in campaigns] == ["lbm: 2 cases, 4 measurements"] * 2
    cases = (14 + 16) / 2 - 4 + 0.5, (34 - 15 + 40 - 17) / 2 + 0.5
    one, two = ([cell.replace("\u202f", " ") for cell in line[2:]] for line in campaigns)
    assert one == ["1", "37.0 s (34.0 s, 40.0 s)", "1", f"{sum(cases) + 2 * 3.5:.1f} s"]
    assert two == ["2", "25.0 s", "1.48 (1.36 to 1.6)", f"{max(cases) + 3.5:.1f} s"]
    assert [line[1] for line in forecasts] == ["1", "2", "64"] and forecasts[0][3:5] == ["1", "100 %"]
    speedups = [float(line[3]) for line in forecasts]
    assert 1.5 <= speedups[1] <= 2, "the longest first takes at most 4/3 of the best order's time"
    assert float(forecasts[2][4].split()[0]) == pytest.approx(100 * speedups[2] / 64, rel=0.01)
    assert all(line[5].startswith("lbm b, ") for line in forecasts)


@pytest.mark.parametrize("kinds", [[], [TWO], [ONE, ONE], [TWO, TWO], [ONE, TWO]], ids=len)
def test_campaigns_of_one_kind_are_no_comparison(tmp_path: Path, kinds: list[dict[str, str]]) -> None:
    """The first run does not count, so two runs of both kinds are too few."""
    recorded(
        tmp_path,
        campaign(900, {"c": "x"}, {"c": (4.0, 5.0)}),
        *(campaign(100 * at, cards, IN_TURN) for at, cards in enumerate(kinds)),
    )
    assert len(tables(CAMPAIGNS, tmp_path)) == 1, "a forecast alone"


@pytest.mark.parametrize(
    "notebook", often([NEIGHBOURS, CAMPAIGNS], lambda path: path == CAMPAIGNS), ids=lambda path: path.stem
)
def test_papermill_shows_the_tables_of_the_page(notebook: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have rows of the record, and nothing where nothing is recorded."""
    import papermill

    monkeypatch.chdir(ROOT)
    results = str(ROOT / "results")
    executed = papermill.execute_notebook(
        str(notebook),
        None,
        {"results": results},
        engine_name=inprocess_engine.NAME,
        kernel_name="python3",
        progress_bar=False,
    )
    shown = studies.fragments(notebook, results=results)
    assert [outputs_html(cell["outputs"]) for cell in cells_of(executed)] == shown and "H200" in "".join(shown)


def test_an_empty_record_shows_no_table(tmp_path: Path) -> None:
    assert {notebook.name for notebook in studies.notebooks(ROOT)} == {
        NEIGHBOURS.name,
        CAMPAIGNS.name,
        "kernel_languages.ipynb",
        "tuned_spaces.ipynb",
    }
    for notebook in studies.notebooks(ROOT):
        assert not any(studies.fragments(notebook, results=str(tmp_path)))
    pages = "".join((ROOT / "book" / name).read_text() for name in ("cluster.md", "tuning.md", "kernel-languages.md"))
    included = re.findall(r"\{fragments\} (study-\S+)", pages)
    assert set(included) <= {name for notebook in studies.notebooks(ROOT) for name in studies.fragment_names(notebook)}
    assert len(included) == 6
