"""The opening figure of a lab's page: a point for each step at its time, the names that fit, and the line of the fastest."""

from __future__ import annotations

import re
from typing import Any

import pytest

from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Bound
from roofbook.book.page_html import on_site
from roofbook.errors import UsageError
from roofbook.report import opening

from .rows import even, frame, row

TIMES = {"sequential": 1e-2, "ported": 1e-3, "fused": 1e-4, "soa": 2e-4, "tree": 5e-5}


def figure(times: dict[str, float], **data: Any) -> str:
    names = list(times)
    rows = [even(name, times[name], names[at - 1] if at else None) for at, name in enumerate(names)]
    case_data = CaseData(frame(*rows, even("lbmpy", 8e-5, role="peer")), [*names, "lbmpy"], "256x256", **data)
    return on_site(str(opening(case_data).html))


def places(markup: str) -> dict[str, tuple[float, float]]:
    """Return (across, down) of each point in per cent, by step."""
    pattern = r'<li style="left:([\d.]+)%;top:([\d.]+)%"><a [^>]*data-step="([^"]+)"'
    return {name: (float(across), float(down)) for across, down, name in re.findall(pattern, markup)}


def test_points_are_in_ladder_order_and_a_faster_step_is_further_down() -> None:
    markup = figure(TIMES, bounds={"float32": Bound(1e-5, "memory")})
    found = places(markup)
    assert list(found) == list(TIMES)
    assert [across for across, _ in found.values()] == sorted(across for across, _ in found.values())
    assert sorted(TIMES, key=lambda name: -TIMES[name]) == sorted(found, key=lambda name: found[name][1])
    steps_of_ten = [found["ported"][1] - found["sequential"][1], found["fused"][1] - found["ported"][1]]
    assert steps_of_ten[0] == pytest.approx(steps_of_ten[1], abs=0.1), "the axis is logarithmic"
    assert 'class="slower" title="soa: 200' in markup and 'class="faster" title="tree: 50' in markup
    (bound,) = re.findall(r'<u class="bound" style="top:([\d.]+)%', markup)
    assert float(bound) > max(down for _, down in found.values())
    assert "fastest peer, lbmpy" in markup and "from 10.0" in markup


def test_the_fastest_step_is_marked_where_the_slider_begins_and_named_though_another_median_is_shorter() -> None:
    """On the machine of an older run all takes less time; in the run that has both steps the newer is faster."""
    older = [row("older", seconds, run=f"run-{at}") for at, seconds in enumerate((1.0e-4, 1.0e-4, 1.2e-4))]
    newer = row("newer", 1.1e-4, "older", run="run-2")
    data = CaseData(frame(row("plain", 1e-2), *older, newer), ["plain", "older", "newer"], "256x256")
    markup = on_site(str(opening(data).html))
    assert re.findall(r'data-step="(\w+)"[^>]* data-fastest', markup) == ["newer"]
    assert ">newer</span>" in markup and "(newer)" in markup


def test_the_line_never_rises() -> None:
    path = re.search(r'<path d="([^"]+)"', figure(TIMES))
    assert path
    downs = [float(number) for number in re.findall(r"V([\d.]+)", path[1])]
    assert downs == sorted(downs) and len(downs) == 3, "three steps are the fastest so far"


def test_names_that_would_lie_on_each_other_are_left_out_and_the_fastest_is_named() -> None:
    names = {f"a-step-with-a-long-name-{number}": 1e-3 * 0.9**number for number in range(40)}
    labels = re.findall(r'<span aria-hidden="true" class="([\w ]+)"[^>]*>([^<]+)</span>', figure(names))
    assert 2 <= len(labels) < 20 and list(names)[-1] in [name for _, name in labels]
    assert sum(css.startswith("both") for css, _ in labels) < len(labels), "a phone has fewer"


@pytest.mark.parametrize(("factor", "side"), [(1.1, "peer"), (0.9, "peer above"), (50.0, "peer above")])
def test_the_words_of_the_peers_line_are_on_the_side_without_points(factor: float, side: str) -> None:
    """Ten points lie just above the line of the peer (slower), just below it, or far from it."""
    times = {"sequential": 1e-2, **{f"step-{number}": 8e-5 * factor * 0.99**number for number in range(10)}}
    assert re.findall(r'<u class="(peer[^"]*)"', figure(times)) == [side]


def test_a_phone_leaves_out_the_peers_name_if_points_lie_under_it_on_both_sides() -> None:
    """Twenty points lie beside the line of the peer, above and below, where only the name would cover them on a phone."""
    beside = {f"step-{number}": 8e-5 * (1.07 if number % 2 else 0.93) for number in range(20)}
    peers_line = r'<u class="peer[^"]*"[^>]*><small>(.*?)</small>'
    far = {f"slow-{number}": 1e-2 for number in range(12)}
    assert re.findall(peers_line, figure({**far, **beside})) == ['fastest peer<span class="wide">, lbmpy</span>']
    assert re.findall(peers_line, figure(TIMES)) == ["fastest peer, lbmpy"]


def test_a_notebook_has_a_sentence_in_its_place() -> None:
    data = CaseData(frame(even("fused", 1e-4)), ["fused"], "256x256")
    assert '<figure class="opening on-site" hidden>' in opening(data).html and "lab.descent()" in repr(opening(data))
    with pytest.raises(UsageError):
        opening(CaseData(frame(row("fused", 1e-4, status="failed")), ["fused"], "256x256"))


def test_a_step_that_needs_certain_hardware_is_a_square_and_says_what_it_needs() -> None:
    markup = figure(TIMES, marks={"tree": ("sm_90", "tensor cores"), "soa": ("CUDA",)})
    assert re.findall(r'<a class="\w+ special"[^>]*data-step="(\w+)"', markup) == ["tree"], "a language is no hardware"
    assert re.search(r'aria-label="tree: [^"]*, needs sm_90 and tensor cores"', markup)
    assert re.search(r'aria-label="soa: [^"]*, needs CUDA"', markup) and 'data-needs="sm_90 · tensor cores"' in markup
    assert "Squares need" in markup and "Squares need" not in figure(TIMES)
