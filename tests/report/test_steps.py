"""A step of a ladder and the answer of a lab as HTML: their words, also if a measurement is missing."""

import html
import re
from typing import Any

import pytest

from roofbook.analysis.answers import answer as answered
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import EMPTY_KERNEL, Bound, LeastLaunch
from roofbook.book.page_html import on_site
from roofbook.report import answer, ladder
from roofbook.report.html import with_code
from roofbook.report.steps import UNEXPLAINED, StepFold, effect, step
from roofbook.spec import registry
from roofbook.spec.changed_lines import Excerpt
from roofbook.spec.prediction import FASTER, SAME

from .rows import even, frame, lab_rows, row

LAB = registry.get("lbm")


def words(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup)).replace("\u202f", " ")


def lines(markup: str) -> list[str]:
    """Return the text of each case's line, without the names at the bars."""
    without_bars = re.sub(r'<div class="step-bars .*?</div>', "", markup)
    return [words(line) for line in re.findall(r"<li.*?</li>", without_bars)]


def test_a_line_a_case_says_how_many_times_as_fast_and_both_times() -> None:
    soa = {"256x256": 5e-5, "big": 1.5e-4, "same": 1e-4}
    rows = frame(
        *(even("fused", 1e-4, case=case) for case in soa),
        *(even("soa", seconds, "fused", case=case) for case, seconds in soa.items()),
    )
    markup = effect("soa", "fused", rows, dict.fromkeys(soa, ""))
    quick, slow, same = lines(markup)
    assert re.fullmatch(r"2\.00 times as fast \[[\d., ]+\] \(in one run\), 100 → 50\.0 µs on 256x256", quick)
    assert re.fullmatch(r"1\.50 times as slow \[[\d., ]+\] \(in one run\), 100 → 150 µs on big", slow)
    assert re.fullmatch(r"As fast \[[\d., ]+\] \(in one run\), 100 → 100 µs on same", same)
    assert re.findall(r'data-case="([^"]+)"', markup) == list(soa)
    assert re.findall(r'data-of="([^"]+)"', markup)[:2] == ["fused~256x256", "soa~256x256"]


def test_times_that_contradict_the_ratio_beside_them_say_why() -> None:
    """Nine of the step's 20 samples take half as long: its median does not show them, its pairs do."""
    steady = [100 * 2e-5 * (0.99 if at < 9 else 1.0 if at < 12 else 1.3) for at in range(20)]
    halves = [100 * 2e-5 * (0.5 if at < 9 else 1.0) for at in range(20)]
    rows = frame(row("fused", 2e-5, samples_s=steady), row("soa", 2e-5, "fused", samples_s=halves))
    (line,) = lines(effect("soa", "fused", rows, {"256x256": ""}))
    note = "20.0 → 20.0 µs (the ratio pairs samples of the same round; the times are medians of all runs of each)"
    assert note in line and " times as fast " in line
    assert "the times are medians" not in effect(
        "tree", "soa", frame(even("soa", 2e-5), even("tree", 1e-5, "soa")), {"256x256": ""}
    )


def test_a_folded_step_says_what_its_effect_is_over() -> None:
    rows = frame(even("fused", 1e-4), even("soa", 5e-5, "fused"))
    folded = step(LAB.variant("soa"), rows, {"256x256": ""}, "", "lbm", fold=StepFold())
    summary = words(folded.partition("</summary>")[0])
    assert "2.00 times as fast" in summary and f"Over {LAB.variant('soa').parent}. " in summary


def test_a_gain_over_a_parent_that_was_not_tuned_is_told_beside_that_over_its_best() -> None:
    rows = frame(
        even("fused", 4e-4), even("fused@wg=32x1", 3e-4, "fused", role="sweep", axis="wg", point="32x1"),
        even("fused@wg=16x1", 5e-4, "fused", role="sweep", axis="wg", point="16x1"), even("soa", 1e-4, "fused"),
    )  # fmt: skip
    tuned = ("fused@wg=32x1", "fused@wg=16x1", "fused@wg=8x1")
    (line,) = lines(effect("soa", "fused", rows, {"256x256": ""}, tuned_parents=tuned))
    assert line.startswith("4.00 times as fast")
    assert re.search(r"Compared with its parent at its best, fused@wg=32x1: 3\.00 times as fast \[[\d., ]+\]\.$", line)
    (line,) = lines(effect("soa", "fused", rows, {"256x256": ""}, tuned_parents=("fused@wg=16x1",)))
    assert "at its best" not in line, "the parent as it is is the faster one"
    slower = frame(even("fused", 4e-4), even("fused@wg=32x1", 3e-4, "fused", role="sweep"), even("soa", 5e-4, "fused"))
    (line,) = lines(effect("soa", "fused", slower, {"256x256": ""}, tuned_parents=tuned))
    assert "at its best" not in line, "the step gains nothing"


@pytest.mark.parametrize(
    ("rows", "cases", "texts"),
    [
        ([], {"256x256": "", "big": ""}, ["Not measured."]),
        ([], {"256x256": "not on this device", "big": "not on this device"}, ["Not on this device."]),
        ([row("soa", 1e-4, "fused")], {"256x256": "", "big": ""}, ["100 µs on 256x256", "Not measured on big"]),
        (
            [row("soa", 1e-4, "fused", status="failed", reason="out of time: 80 s")],
            {"256x256": "", "big": "too big"},
            ["Failed: out of time: 80 s on 256x256", "Too big on big"],
        ),
    ],
)
def test_what_is_missing_is_said_and_once_where_all_cases_lack_it(
    rows: list[dict[str, Any]], cases: dict[str, str], texts: list[str]
) -> None:
    assert lines(effect("soa", "fused", frame(*rows), cases)) == texts


def test_a_difference_unfolds_in_a_notebook_and_is_a_link_on_the_site() -> None:
    markup = step(LAB.variant("soa"), lab_rows(), {"256x256": ""}, "--- fused\n+++ soa\n-a\n+b\n", "lbm")
    assert '<details class="in-notebook">' in markup and re.search(r"<a [^>]*kernels\.html#soa\" hidden>", markup)
    site = on_site(markup + "<details><summary>Other</summary></details>")
    assert "in-notebook" not in site and "<summary>Other</summary>" in site and "--- fused" not in site
    assert re.search(r'<a class="step-code on-site" href="lbm/kernels\.html#soa">Code and difference</a>', site)
    assert on_site(site) == site


def test_a_host_program_without_a_kernel_has_no_link_to_its_code() -> None:
    markup = step(LAB.variant("openmp"), lab_rows(), {"256x256": ""}, "", "lbm")
    assert "kernels.html" not in markup


def test_an_answer_says_what_it_stands_beside_and_escapes_all_it_says() -> None:
    rows = frame(
        even("sequential", 4e-3, device="some-cpu", device_kind="cpu"),
        even("fused", 2e-4), even("soa", 1e-4, "fused"),
        even("lbmpy", 2e-4, role="peer"), even("lbmpy-bare", 5e-5, role="peer"),
    )  # fmt: skip
    data = CaseData(
        rows, list(dict.fromkeys(rows["variant"])), "256x256", bounds={"float32": Bound(5e-5, "memory")},
        changes={"soa": "Structure of <arrays>.", "lbmpy": "A library."},
    )  # fmt: skip
    markup = answer(data, answered(LAB, data))
    entries = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", markup, re.S))
    texts = {head: words(text) for head, text in entries.items()}
    assert texts["Fastest kernel"] == "soa, float32: 100 µs per step."
    assert texts["Share of the bound"] == "50.0 % of its bound, 50.0 µs, which memory sets."
    assert texts["Against the best peer under equal conditions"].startswith("2.00 times as fast [")
    assert texts["Against the best peer under equal conditions"].endswith(" as lbmpy, 200 µs. (A library)")
    assert texts["Against the fastest peer"].endswith(
        "lbmpy-bare, 50.0 µs. The peer leaves out obstacles, drive and mean speeds."
    )
    assert texts["What mattered most"].startswith("soa, 2.00 times as fast [2.00, 2.00] (in one run) as fused: ")
    assert "Structure of &lt;arrays&gt;." in entries["What mattered most"]
    assert re.findall('#step-[^"]+', markup) == ["#step-soa"] * 2, (
        "to steps over a parent alone: others have no place of their own"
    )
    assert '<a href="#step-soa"><code>soa</code></a>' in entries["Fastest kernel"] and 'data-case="256x256"' in markup


def test_a_comparison_without_a_number_begins_its_sentence_with_a_capital() -> None:
    data = CaseData(frame(even("soa", 1e-4), even("lbmpy", 1e-4, role="peer")), ["soa", "lbmpy"], "256x256")
    assert "As fast [1.00, 1.00] (in one run) as lbmpy, 100 µs." in words(answer(data, answered(LAB, data)))


def test_an_answer_says_what_is_missing() -> None:
    data = CaseData(frame(row("soa", 1e-4)), ["soa"], "256x256")
    text = words(answer(data, answered(LAB, data)))
    for missing in (
        "No library or other program was measured on this device.", "No baseline has a time here.",
        "the peak of its precision was not measured here", "No step on the way to it is faster",
    ):  # fmt: skip
        assert missing in text
    assert "No step has a verified time here." in words(answer(data, None))
    assert 'data-case="256x256" data-main ' in answer(data, None, main=True) and "data-main" not in answer(data, None)


def test_the_roof_of_a_bound_is_the_memory_or_an_arithmetic() -> None:
    data = CaseData(frame(row("soa", 1e-4)), ["soa"], "256x256", bounds={"float32": Bound(2e-5, "float16")})
    assert "which float16 arithmetic sets." in words(answer(data, answered(LAB, data)))


def test_a_line_says_what_came_of_a_prediction_and_why_where_it_was_refuted() -> None:
    soa = {"256x256": 5e-5, "big": 1.5e-4, "same": 1e-4}
    rows = frame(
        *(even("fused", 1e-4, case=case) for case in soa),
        *(even("soa", seconds, "fused", case=case) for case, seconds in soa.items()),
    )
    markup = step(
        LAB.variant("soa"), rows, dict.fromkeys(soa, ""), "", "lbm", predictions={"256x256": FASTER, "big": SAME},
        whys={"256x256": "of no use here", "big": "`L2` misses"},
    )  # fmt: skip
    quick, slow, same = lines(markup)
    assert quick.startswith("2.00 times as fast [") and quick.endswith("on 256x256Predicted: faster. Confirmed.")
    assert slow.startswith("1.50 times as slow [") and slow.endswith("Predicted: as fast. Refuted.Why: L2 misses.")
    assert same.startswith("As fast [") and "Predicted" not in same, "nothing was predicted of it"
    assert re.findall(r'<li class="([\w ]+)"', markup) == ["verdict faster", "verdict slower", "verdict same"]
    unexplained = step(LAB.variant("soa"), rows, {"big": ""}, "", "lbm", predictions={"big": SAME})
    assert lines(unexplained)[0].endswith(f"Why: {words(with_code(UNEXPLAINED))}.")


def test_two_bars_have_the_times_of_a_step_and_its_parent_and_the_interval_of_the_ratio() -> None:
    rows = frame(even("fused", 1e-4), even("soa", 5e-5, "fused"), even("tree", 2e-4, "soa"))
    markup = effect("soa", "fused", rows, {"256x256": ""})
    assert re.findall(r"<i>(\w+)</i>", markup) == ["fused", "soa"]
    assert re.findall(r"--at:([\d.]+)%", markup) == ["100", "50"]
    (low,), (high,) = (re.findall(rf"--{end}:([\d.]+)%", markup) for end in ("low", "high"))
    assert float(low) <= 50 <= float(high)
    assert re.findall(r"--at:([\d.]+)%", effect("tree", "soa", rows, {"256x256": ""})) == ["25", "100"]
    assert "step-bars" not in effect("soa", None, rows, {"256x256": ""}), "nothing to compare with"


def test_the_changed_lines_are_on_the_site_alone() -> None:
    few = Excerpt(["-a", "+b"], 2)
    markup = step(LAB.variant("soa"), lab_rows(), {"256x256": ""}, "", "lbm", excerpt=few)
    assert '<div class="step-lines on-site" hidden>' in markup
    assert "2 changed lines of the kernel" in on_site(markup) and 'on-site" hidden' not in on_site(markup)
    many = step(LAB.variant("soa"), lab_rows(), {"256x256": ""}, "", "lbm", excerpt=Excerpt(["+b"], 9, of_host=True))
    assert "1 of 9 changed lines of the host" in words(many)


def test_a_kernel_above_its_bound_has_no_share_of_it() -> None:
    data = CaseData(frame(row("soa", 1e-4)), ["soa"], "256x256", bounds={"float32": Bound(2e-4, "memory")})
    text = words(answer(data, answered(LAB, data)))
    assert "faster than its bound of 200 µs" in text and "% of its bound" not in text


def test_where_a_launch_takes_longer_than_the_bound_there_is_no_share_of_it() -> None:
    floor = Bound(1e-6, "memory", launch=LeastLaunch(EMPTY_KERNEL, 4e-6))
    data = CaseData(frame(row("soa", 1e-4)), ["soa"], "256x256", bounds={"float32": floor})
    text = words(answer(data, answered(LAB, data)))
    assert (
        "An empty kernel by the device's clock takes 4.00 µs, longer than the bound, 1.00 µs" in text
        and "% of its bound" not in text
    )
    (cell,) = [row.cells for row in ladder(data).rows if row.cells[0].text == "soa"]
    assert "launch" in [
        part.text for part in cell
    ] and "'launch': an empty kernel by the device's clock takes 4.00\u202fµs" in " ".join(ladder(data).notes)
    assert not Bound(1e-6, "memory").is_below_launch, "a launch that was not measured"


def test_a_kernel_faster_than_a_launch_has_a_share_of_its_bound() -> None:
    """A kernel that does several units in one launch is not held to the time of an empty one. A probe has no share at all."""
    floor = Bound(1e-6, "memory", launch=LeastLaunch(EMPTY_KERNEL, 4e-6))
    rows = frame(row("soa", 2e-6), row("tree", 8e-6), row("no-compute", 1e-7, role="probe"))
    data = CaseData(rows, ["soa", "tree", "no-compute"], "256x256", bounds={"float32": floor})
    assert "49.9 % of its bound" in words(answer(data, answered(LAB, data)))
    shares = {line.cells[0].text: [part.text for part in line.cells] for line in ladder(data).rows}
    assert "49.9\u202f%" in shares["soa"] and "launch" in shares["tree"]
    assert "does several units in one launch" in " ".join(ladder(data).notes)
    assert [*ladder(data).frame["share"].fillna(0)] == [pytest.approx(0.5, rel=0.01), 0, 0]


def test_only_the_device_and_backend_of_the_peaks_have_a_bound() -> None:
    """CUDA has instructions that OpenCL lacks, so its peers may pass a bound by OpenCL's peaks."""
    floor = Bound(1e-4, "memory", device="some-gpu", backend="opencl")
    rows = frame(
        row("soa", 2e-4), row("lbmpy", 5e-5, role="peer", backend="cuda"), row("openmp", 5e-5, device="some-cpu")
    )
    data = CaseData(rows, ["soa", "lbmpy", "openmp"], "256x256", bounds={"float32": floor})
    table = ladder(data)
    assert "above" not in table.html and [*table.frame["share"].notna()] == [True, False, False]
    assert "nor peers that another backend calls" in " ".join(table.notes)
