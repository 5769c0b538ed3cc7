"""Twenty-five tasks of readers, done in a browser by clicks from the front page; each answer is computed again from the store.

TASKS lists them: fifteen that readers of the first book had, and ten of those who browse techniques, devices and lessons.
"""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from roofbook.cli import app
from roofbook.labs.stencil.ladder import LADDER as STENCIL
from roofbook.labs.stencil.problem import PUBLISHED_PASSES
from roofbook.spec import registry
from roofbook.spec.lesson import LENGTH, lesson
from roofbook.spec.techniques import TECHNIQUES, step_tags

from ...axe import Eyes
from ...tabs import Tabs
from .reader import Reader
from .stored_times import H200, RECORDED, Place, duration_of_longest_run, number, on_h200, seconds, times

pytestmark = pytest.mark.site
ROOT = Path(__file__).parents[3]
CASE = "8192x8192"
Open = Callable[..., Any]


class Task(NamedTuple):
    """A task of a reader, and the most that it may cost from the front page."""

    question: str
    clicks: int
    screens: int


TASKS = {
    # of before
    "what_was_found": Task("What did the book find?", 0, 1),
    "the_fastest_kernel_and_its_bound": Task("What is the fastest kernel of a lab, and how near to its bound?", 1, 3),
    "the_effect_of_one_step": Task("What did one step change, what was predicted, and what came of it?", 2, 4),
    "the_text_of_a_kernel": Task("How does a kernel read, and what differs from the step before it?", 3, 6),
    "the_samples_behind_a_number": Task("Which runs and samples are behind a number?", 2, 4),
    "one_measurement_again": Task("How do I measure one number again?", 2, 4),
    "opencl_against_cuda_on_one_gpu": Task("Is OpenCL slower than CUDA on one GPU?", 3, 4),
    "a_device_against_another": Task("How does a step do on another device?", 2, 5),
    "the_best_work_group": Task("Which work-group is the fastest?", 2, 3),
    "the_bandwidth_of_a_device": Task("Which bandwidth has the memory of the device?", 2, 6),
    "a_published_claim_that_did_not_hold_and_its_evidence": Task(
        "Which published claim did not hold, and by what?", 3, 15
    ),
    "how_to_cite_the_licence_and_the_authors_of_the_reports": Task(
        "How do I cite the book, a lab and a report?", 2, 16
    ),
    "how_to_put_a_device_in_the_book": Task("How does my device get into the book?", 2, 12),
    "how_to_add_a_kernel": Task("How do I add a kernel of mine?", 2, 6),
    "a_term": Task("What does a word mean?", 1, 3),
    # of now
    "one_technique_in_each_lab": Task("Does staging in local memory pay?", 2, 3),
    "all_that_made_something_slower_by_device": Task("What made something slower on my device?", 2, 3),
    "what_applies_to_my_a100": Task("Which steps apply to my A100?", 1, 2),
    "one_technique_across_labs": Task("Where else is the technique of this step used?", 4, 10),
    "a_lesson_of_50_minutes_with_figures_to_take_away": Task(
        "Can I teach a lab in 50 minutes, with its figures?", 3, 8
    ),
    "time_and_disk_before_i_run_it": Task("How long does a lab run, and how much disk does it take?", 2, 12),
    "where_we_differ_from_a_report_twofold_and_why": Task(
        "Where does a report differ twofold from the book, and why?", 2, 4
    ),
    "the_story_read_aloud": Task("Can I follow a story by ear?", 1, 3),
    "keyboard_alone": Task("Can I come from the front page to the samples of a number without a mouse?", 30, 4),
    "print_a_story": Task("Can I print a story?", 2, 20),
}


ON_A_PHONE = {
    "a_published_claim_that_did_not_hold_and_its_evidence",
    "how_to_cite_the_licence_and_the_authors_of_the_reports",
    "how_to_put_a_device_in_the_book",
    "how_to_add_a_kernel",
}
"""Tasks on pages of much prose, done on a phone; the others are done at a desktop."""


@pytest.fixture
def reader(request: pytest.FixtureRequest, tabs: Tabs, built_site: Path) -> Iterator[Reader]:
    """Yield a reader; fail on script errors, on too wide pages, and where a task took more clicks or screens than it may."""
    name = request.node.name.removeprefix("test_")
    task, width = TASKS[name], 390 if name in ON_A_PHONE else 1280
    tab = tabs.open(width, 844)
    reader = Reader(tab, built_site)
    reader.open()
    yield reader
    excess = tab.evaluate("document.documentElement.scrollWidth") - width
    assert excess <= 0
    request.node.user_properties += [("clicks", reader.clicks), ("screens", reader.screens)]
    assert reader.clicks <= task.clicks and reader.screens <= task.screens, (reader.clicks, reader.screens)


def test_each_task_has_its_test_and_its_question() -> None:
    names = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(TASKS) <= names
    assert len({task.question for task in TASKS.values()}) == len(TASKS)


def close(shown: float, computed: float, share: float = 0.006) -> bool:
    """Return whether a number of three digits is that of the store."""
    return abs(shown / computed - 1) <= share


def test_what_was_found(reader: Reader) -> None:
    """No click: a bar for each lab, and a sentence with the smallest and the largest factor."""
    lines = reader.tab.locator("figure.found li").all_inner_texts()
    assert [line.split("\n")[0] for line in lines] == [registry.get(name).title for name in registry.names()]
    baseline = times("stencil")[Place("intel-r-xeon-r-processor-16-cores", "host", "published", CASE)]["sequential-c"]
    (stencil,) = (line for line in lines if line.startswith("Rsqrt stencil"))
    assert close(number(stencil.split("\n")[1]), baseline.seconds / on_h200("stencil", CASE)["fused"].seconds, 0.03)
    factors = [number(line.split("\n")[1]) for line in lines]
    sentence = reader.read("figure.found figcaption").replace("\u202f", "")
    assert f"{min(factors):.0f} to {max(factors):.0f} times as fast" in sentence


def test_the_fastest_kernel_and_its_bound(reader: Reader) -> None:
    """One click on the lab; the answer is below its opening figure."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    answer = reader.read(".answer")
    fastest = min(
        (variant.name for variant in STENCIL if variant.name in on_h200("stencil", CASE)),
        key=lambda name: on_h200("stencil", CASE)[name].seconds,
    )
    time = on_h200("stencil", CASE)[fastest].seconds
    words = re.search(r"Fastest kernel (\S+), float32: (\S+ \S+)", answer.replace("\u202f", " "))
    assert words and words[1] == fastest and close(seconds(words[2]), time)
    share = re.search(r"([\d.]+)\s% of its bound, (\S+\s\S+),", answer)
    assert share and close(float(share[1]) / 100, seconds(share[2]) / time)


def test_the_effect_of_one_step(reader: Reader) -> None:
    """Two clicks: the lab, and the step in its answer."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click(".answer a[href='#step-fused']")
    text = reader.read("#step-fused .effect > li")
    measured = on_h200("stencil", CASE)
    factor = re.search(r"([\d.]+) times as fast \[([\d.]+), ([\d.]+)\]", text)
    assert factor and close(float(factor[1]), measured["float4"].seconds / measured["fused"].seconds)
    assert float(factor[2]) <= float(factor[1]) <= float(factor[3]) <= PUBLISHED_PASSES
    assert f"Predicted: faster and at most {PUBLISHED_PASSES} times as fast. Confirmed." in text


def test_the_text_of_a_kernel(reader: Reader) -> None:
    """Three clicks: the lab, the step, its code, which opens with the difference."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click(".answer a[href='#step-fused']")
    reader.click("#step-fused .step-code")
    reader.tab.wait_for_selector("#fused .kernel-text pre")
    lab = registry.get("stencil")
    case = next(case for case in lab.cases("published") if case.name == CASE)
    sources = [lab.variant(name).text.of_size(lab.sizes(case)) for name in ("float4", "fused")]
    changed = [line for line in sources[1].diff(sources[0], dialect="cuda").splitlines()[2:] if line[0] in "+-"]
    shown = [line for line in reader.tab.inner_text("#fused .kernel-text pre").splitlines()[2:] if line[:1] in "+-"]
    assert shown == changed and changed


def test_the_samples_behind_a_number(reader: Reader) -> None:
    """Two clicks: the lab, and the number."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click(".answer a.of")
    reader.tab.wait_for_selector("dialog.measurement[open] h2")
    card = reader.read("dialog.measurement")
    fused = on_h200("stencil", CASE)["fused"]
    assert set(re.findall(r"\d{8}T\d{6}Z-[0-9a-f]{6}", card)) == set(fused.runs)
    assert re.search(rf"Samples \d+ in {len(fused.runs)} runs, each of {PUBLISHED_PASSES} × pass", card)


def test_one_measurement_again(reader: Reader) -> None:
    """Two clicks: the lab, and the number, whose card has the command."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click(".answer a.of")
    reader.tab.wait_for_selector("dialog.measurement[open] h2")
    (line,) = re.findall(r"roofbook [^\n]+", reader.tab.inner_text("dialog.measurement"))
    command, *arguments = line.split()[1:]
    parameters = app.commands[command].make_context(command, arguments).params
    assert {parameters["lab"], parameters["variant"], parameters["case"]} == {"stencil", "fused", CASE}


def test_opencl_against_cuda_on_one_gpu(reader: Reader) -> None:
    """One click to the ratios of each lab; two more to the times of a step by both."""
    reader.click("text=OpenCL against CUDA")
    section = "#opencl-against-cuda-device-against-device"
    line = reader.find(f"{section} table >> tr", has_text="Rsqrt stencil").locator("td").all_inner_texts()
    count, mean, least, greatest = (number(text) for text in line[:4])
    ratios = {
        name: on_h200("stencil", CASE)[name].seconds / measured.seconds
        for name, measured in on_h200("stencil", CASE, "opencl").items()
        if name in {variant.name for variant in STENCIL} & on_h200("stencil", CASE).keys()
    }
    assert (
        least <= min(ratios.values()) * 1.01 and max(ratios.values()) <= greatest * 1.01 and least <= mean <= greatest
    )
    assert count >= len(ratios) > 10
    reader.choose("#devices-pick [name=lab]", "stencil")
    reader.choose("#devices-pick [name=case]", f"published/{CASE}")
    bars = [" ".join(text.split()) for text in reader.tab.locator(".pick-bar").all_inner_texts()]
    for backend, label in (("opencl", "OpenCL"), ("cuda", "CUDA")):
        shown = [number(text.removeprefix(name)) for text in bars if text.startswith(name := f"NVIDIA H200, {label} ")]
        assert any(close(time * 1e-6, on_h200("stencil", CASE, backend)["fused"].seconds) for time in shown)


def test_a_device_against_another(reader: Reader) -> None:
    """Two clicks: the lab, and the other device in its bar; the opening figure, like each step, then shows both."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.choose(".device-bar select[name=against]", "nvidia-h200/opencl")
    text = reader.read(".opening-step .against.verdict")
    other = on_h200("stencil", CASE, "opencl")["fused"].seconds
    assert "NVIDIA H200, OpenCL" in text and close(seconds(text.rpartition(", ")[2]), other)


def test_the_best_work_group(reader: Reader) -> None:
    """Two clicks: the lab, and its sweeps; the bold bar is the fastest."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click("nav.lab-pages a", has_text="Sweeps")
    figure = reader.find("figure.roofbook", has_text="Which shape of work-group?")
    bold = figure.locator("svg text[style*='bold'], svg text[style*='700']").all_text_contents()
    points = {
        name.partition("@wg=")[2]: measured.seconds
        for name, measured in on_h200("stencil", CASE).items()
        if name.startswith("native-rsqrt@wg=")
    }
    assert len(points) > 5 and min(points, key=lambda point: points[point]) in bold


def test_the_bandwidth_of_a_device(reader: Reader) -> None:
    """Two clicks: the lab, and its roofline, whose first figure has a line at the fastest stream."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click("nav.lab-pages a", has_text="Roofline")
    (line,) = reader.find("figure.roofbook").locator("svg text", has_text="fastest stream").all_text_contents()
    size = 2**31  # bytes: the streams whose working set is not smaller than the three grids
    streams = times(registry.PEAKS)[Place(H200, "cuda", "published", "2 GiB")]
    fastest = max(size / streams[name].seconds for name in ("read", "write", "copy"))
    assert line.endswith("GB/s") and close(number(line.partition(": ")[2]) * 1e9, fastest)


def test_a_published_claim_that_did_not_hold_and_its_evidence(reader: Reader) -> None:
    """One click, the front page's link; two more to the row with all devices, and to a step's difference."""
    reader.click("text=Published claims that did not hold")
    claim = reader.find(".failed-claims > li", has_text="structure of arrays")
    text = " ".join(claim.inner_text().split())
    assert re.search(
        r"structure of arrays 128x128, published [\d.]+: .*reversed on NVIDIA [\w ]+, \w+: 0\.\d+ \[", text
    )
    claim.get_by_text("To measure it again").click()
    command = claim.locator("code", has_text="roofbook run").inner_text()
    assert "fused, soa]'" in command and command.startswith("roofbook run lbm --scale published")
    reader.click(claim.get_by_text("all devices"))
    assert "reversed" in reader.read("tr:target")
    reader.tab.go_back()
    reader.click(claim.get_by_role("link", name="soa", exact=True))
    reader.tab.wait_for_selector("#soa .kernel-text pre")
    assert reader.tab.text_content("#soa .kernel-text pre").startswith("--- fused\n+++ soa\n")


def test_how_to_cite_the_licence_and_the_authors_of_the_reports(reader: Reader) -> None:
    """One click, in the foot of the page; the reference of a report is a second."""
    reader.click("text=Data, licence, how to cite")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    bibtex = reader.read("#how-to-cite pre")
    assert bibtex.startswith("@software{") and citation["title"] in bibtex
    assert (ROOT / "LICENSE").read_text().split("\n")[0] in reader.tab.inner_text("#licence")
    credits = reader.tab.locator("#credits tbody tr")
    assert [row.split()[0] for row in credits.all_inner_texts()] == list(registry.names())
    reader.click(credits.first.locator("a").first)
    assert len(reader.read(":target")) > 40, "title, course, university, year and address"


def test_how_to_put_a_device_in_the_book(reader: Reader) -> None:
    """One click, and the page has every command in its order."""
    reader.click("text=Put your device in the book >> nth=0")
    section = "#put-your-device-in-the-book"
    steps = reader.find(f"{section} > ol").locator("> li").all_inner_texts()
    assert [text.partition(".")[0] for text in steps[1:]] == ["Measure", "Look at it", "Send it"]
    assert "commit" in steps[0] and "results/record.sh OUT" in steps[1] and (ROOT / "results" / "record.sh").is_file()
    assert "cp -r OUT/recorded results/" in steps[2] and "make book" in steps[2] and "pull request" in steps[3]
    reader.click(f"{section} >> text=Data and credits")
    assert reader.tab.url.endswith("data.html")


def test_how_to_add_a_kernel(reader: Reader) -> None:
    """One click to the page, one more to the kernel of its example, whose difference it quotes."""
    reader.click("text=Add your kernel")
    titles = reader.tab.locator("article h2").all_inner_texts()
    assert [title.partition(".")[0] for title in titles] == [str(number) for number in range(1, len(titles) + 1)]
    article = reader.tab.inner_text("article")
    assert (ROOT / "lib/roofbook/labs/lbm/fused.k").is_file() and "lib/roofbook/labs/lbm/fused.k" in article
    for command in re.findall(r"^\s*roofbook (\w+)", article, re.M):
        assert command in app.commands
    reader.click("article >> text=/^select$/")
    reader.tab.wait_for_selector("#select .kernel-text pre")
    parent = registry.get("lbm").variant("select").parent
    assert reader.tab.text_content("#select .kernel-text pre").startswith(f"--- {parent}\n+++ select\n")


def test_a_term(reader: Reader) -> None:
    """One click on a word, which leads to the glossary."""
    reader.click("article a[href$='#term-bound']")
    glossary = (ROOT / "book" / "glossary.md").read_text()
    (meaning,) = re.findall(r"^bound\n  (.+)", glossary, re.M)
    assert " ".join(meaning.split()[:4]) in reader.read("dt:target + dd")


def effects(lab: str, step: str, parent: str) -> dict[Place, float]:
    """Return how many times as fast as its parent a step is, at each place of the store."""
    return {
        place: measured[parent].seconds / measured[step].seconds
        for place, measured in times(lab).items()
        if {step, parent} <= measured.keys()
    }


def test_one_technique_in_each_lab(reader: Reader) -> None:
    """Two clicks: the techniques, and the one; the page opens with its effect alone, lab by lab."""
    reader.click("text=Each technique")
    reader.click(".technique-list a", has_text="Staging in local memory")
    lines = reader.find("ul", has_text="local-tile").locator("li").all_inner_texts()
    for lab, step, parent in (("cnn", "local-tile", "fissioned"), ("stencil", "local-memory", "native-rsqrt")):
        (line,) = (line for line in lines if line.startswith(f"{registry.get(lab).title}: {step} is "))
        least, greatest = (float(text) for text in re.findall(r"([\d.]+) to ([\d.]+) times as fast", line)[0])
        computed = effects(lab, step, parent).values()
        assert sum(map(int, re.findall(r"(\d+) (?:faster|same|slower|undecided)", line))) == len(computed)
        assert close(greatest, max(computed), 0.03) and least <= min(computed) * 1.03, "a noisy CPU has the least one"
    figures_of_labs = reader.tab.locator("figure.roofbook:not(.animation) figcaption").all_inner_texts()
    staged = {
        lab.title for lab in map(registry.get, registry.names())
        if any(tag.technique.key == "staging" for tags in step_tags(lab).values() for tag in tags)
    }  # fmt: skip
    assert all(any(title in caption for caption in figures_of_labs) for title in staged) and len(staged) == 5


def test_all_that_made_something_slower_by_device(reader: Reader) -> None:
    """Two clicks: the front page's link, and the device."""
    reader.click("text=What made something slower")
    reader.click("#what-made-something-slower-by-device summary", has_text="NVIDIA H200, CUDA")
    rows = reader.tab.locator("#what-made-something-slower-by-device details[open] tbody tr")
    texts = [[" ".join(cell.split()) for cell in row] for row in rows.evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )]  # fmt: skip
    ratios = [number(cells[-1]) for cells in texts]
    assert len(ratios) > 20 and ratios == sorted(ratios) and max(ratios) < 1
    shown = {(cells[0].split()[0], cells[3]): number(cells[-1]) for cells in texts if "Rsqrt stencil" in cells[0]}
    computed = {
        (variant.name, place.case): ratio
        for variant in STENCIL
        for place, ratio in effects("stencil", variant.name, variant.parent or "").items()
        if (place.device, place.backend) == (H200, "cuda")
    }
    assert all(close(ratio, computed[key], 0.02) for key, ratio in shown.items())
    assert {key for key, ratio in computed.items() if ratio < 0.95} <= shown.keys() != set()


def test_what_applies_to_my_a100(reader: Reader) -> None:
    """One click; the page opens with an A100."""
    reader.click("text=What applies to my GPU")
    assert "A100" in reader.tab.locator("select[name=preset]").input_value()
    summary = reader.read(".my-gpu-tables summary", has_text="Convolution layer")
    (applying, of_all) = map(int, re.findall(r"(\d+) of (\d+) steps apply", summary)[0])
    rows = reader.tab.locator(".my-gpu-tables details").first.locator("tbody tr").all_inner_texts()
    hopper = {
        variant.name for variant in registry.get("cnn").ladder
        if variant.architectures.start > 80 and variant.name in on_h200("cnn", "256ch-224x224-k5")
    }  # fmt: skip
    refused = {row.split()[0] for row in rows if "does not apply" in row}
    assert len(rows) == of_all and len(refused) == of_all - applying and hopper <= refused and len(hopper) > 5
    assert "tiled" not in refused


def test_one_technique_across_labs(reader: Reader) -> None:
    """Four clicks: a lab, a step of its answer, its technique, and a step of another lab."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.click(".answer a[href='#step-fused']")
    reader.click("#step-fused a.technique")
    (tag,) = step_tags(registry.get("stencil")).get("fused", ())
    assert reader.read("article h1").startswith(TECHNIQUES[tag.technique.key].name)
    reader.click("#the-steps tbody a[href*='labs/lbm.html#step-']")
    step = reader.tab.url.partition("#step-")[2]
    assert tag.technique in [tag.technique for tag in step_tags(registry.get("lbm")).get(step, ())]
    told = reader.find(f"#step-{step}").evaluate("element => (element.closest('details') ?? element).textContent")
    assert step in told, "its heading, or the line that folds it"


def test_time_and_disk_before_i_run_it(reader: Reader) -> None:
    """Two clicks: the front page's link, and the lab's lesson, whose end says what a run takes."""
    reader.click("text=a lesson with slides")
    reader.click("#a-lesson-of-50-minutes a[href='labs/stencil/lesson.html']")
    needs = reader.read("#what-it-takes-to-run")
    size = re.search(r"recorded measurements of this lab take ([\d.]+)\s([kM])B", needs)
    stored = sum(path.stat().st_size for path in (RECORDED / "lab=stencil").rglob("*.parquet"))
    assert size and close(float(size[1]) * {"k": 1e3, "M": 1e6}[size[2]], stored)
    assert re.search(r"packages take [\d.]+\s[MG]B on the disk", needs)
    row = reader.tab.locator("#what-it-takes-to-run tbody tr", has_text="NVIDIA H200, CUDA").filter(
        has_text="published"
    )
    cells = row.first.locator("td").all_inner_texts()
    longest = duration_of_longest_run("stencil", Place(H200, "cuda", "published", CASE))
    assert cells[-1].endswith("min") and abs(number(cells[-1]) - longest / 60) < 1.5
    assert "roofbook run stencil" in needs and "run" in app.commands


def test_where_we_differ_from_a_report_twofold_and_why(reader: Reader) -> None:
    """Two clicks: the front page's link, and the lab."""
    reader.click("text=Times that differ twofold")
    reader.click(".unlike-published summary", has_text="Lattice Boltzmann")
    lines = [
        [" ".join(cell.split()) for cell in row]
        for row in reader.tab.locator(".unlike-published details[open] tbody tr").evaluate_all(
            "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
        )
    ]
    ratios = [number(cells[5]) for cells in lines]
    assert len(lines) > 5 and all(ratio < 1 or ratio > 2 for ratio in ratios)
    assert all(re.search(r"\(.*(theirs is of|names no device|we do not know)", cells[5]) for cells in lines)
    cells = next(cells for cells in lines if cells[2] == "time" and "." in cells[3])
    printed = cells[3].replace("\u202f", " ").split()
    assert close(seconds(" ".join(printed)) / seconds(cells[4]), number(cells[5]), 0.02), cells
    with (ROOT / "results" / "published" / "lbm.csv").open(newline="") as file:
        published = [row for row in csv.DictReader(file) if cells[0].startswith(row["variant"])]
    assert printed in [[row["value"], row["unit"]] for row in published]


def test_the_story_read_aloud(reader: Reader) -> None:
    """One click; the accessibility tree has the headings of the notebook and its steps in their order, and a name for each
    control and picture.
    """
    reader.click("figure.found a", has_text="Rsqrt stencil")
    tree = reader.tab.locator("article").aria_snapshot()
    headings = re.findall(r"""^ *- '?heading "(.*?)" \[level=(\d)\]""", tree, re.M)
    levels = [int(level) for _, level in headings]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(levels)), "no level is left out"
    cells = json.loads((ROOT / "experiments" / "stencil.ipynb").read_text())["cells"]
    source = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    told = [name for call in re.findall(r"lab\.steps\(([^)]*)\)", source) for name in re.findall(r'"([\w-]+)"', call)]
    on_page = [text.split()[0] for text, level in headings if level == "3"]
    measured = [name for name in told if name in on_h200("stencil", CASE) or name == "sequential-c"]
    assert [name for name in on_page if name in measured] == measured and len(measured) > 15
    assert not re.findall(r"^ *- (?:button|link|img|slider|combobox)(?::|$| \[)", tree, re.M), "nothing without a name"
    assert tree.index("The answer") < tree.index(f'heading "{measured[-1]}')


def test_keyboard_alone(reader: Reader) -> None:
    """Tab and Enter lead to the lab, arrows through its opening figure, Enter opens a number's card, Escape closes it."""
    focused = "document.activeElement"

    def tab_to(selector: str) -> None:
        for _ in range(25):
            reader.press("Tab")
            if reader.tab.evaluate(f"{focused}.matches({selector!r})"):
                return
        raise AssertionError(f"{selector} is not reached by Tab")

    reader.press("Tab")
    assert "main" in reader.tab.evaluate(f"{focused}.getAttribute('href') ?? ''").lower(), "past the side bar"
    reader.press("Enter")
    tab_to("figure.found a[href='labs/cnn.html']")
    for _ in registry.names()[1:]:
        reader.press("Tab")
    reader.press("Enter")
    reader.tab.wait_for_selector(".opening-slider input")
    reader.tab.locator(".opening-slider input").focus()
    before = reader.tab.inner_text(".opening-name strong")
    reader.press("ArrowLeft")
    assert reader.tab.inner_text(".opening-name strong") != before
    tab_to(".answer a.of")
    reader.press("Enter")
    reader.tab.wait_for_selector("dialog.measurement[open] h2")
    reader.press("Escape")
    assert not reader.tab.is_visible("dialog.measurement") and reader.tab.evaluate(f"{focused}.matches('.answer a.of')")


def test_print_a_story(reader: Reader) -> None:
    """Two clicks: the lab, and the button in the foot of the page. Paper has no controls, and all tables and figures."""
    reader.click("figure.found a", has_text="Rsqrt stencil")
    reader.tab.evaluate("window.print = () => { document.title = 'printing' }")
    reader.click("button.print-page")
    assert reader.tab.title() == "printing"
    reader.tab.emulate_media(media="print")
    reader.tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    for control in (
        ".bd-sidebar-primary",
        ".opening-slider",
        ".device-bar select",
        ".figure-files",
        "button.print-page",
    ):
        assert not reader.tab.locator(f"{control}:visible").count(), control
    assert reader.tab.evaluate("document.documentElement.dataset.theme") == "light"
    assert not reader.tab.locator("details:not([open]):has(table, figure)").count()
    assert reader.tab.is_visible(".answer") and reader.tab.is_visible("#step-fused .effect")
    reader.tab.evaluate("dispatchEvent(new Event('afterprint'))")


def test_a_lesson_of_50_minutes_with_figures_to_take_away(reader: Reader) -> None:
    """Three clicks: the first page's link, the lab, and the slides. Each figure of the lesson has its files."""
    described = lesson(registry.get("stencil"))
    assert described
    reader.click("text=a lesson with slides")
    reader.click("#a-lesson-of-50-minutes a", has_text="Rsqrt stencil")
    plan = reader.tab.locator(".lesson-plan tbody th").all_inner_texts()
    assert len(plan) == len(described.acts) and plan[-1].endswith(f"to {LENGTH} min")
    files = reader.tab.locator("figure.roofbook .figure-files button").all_inner_texts()
    assert files.count("SVG") == files.count("PNG") == reader.tab.locator("svg.roofbook-figure").count() > 1
    ratio = on_h200("stencil", CASE)["float4"].seconds / on_h200("stencil", CASE)["fused"].seconds
    effects = reader.tab.locator("li.verdict", has_text="NVIDIA H200, CUDA").all_inner_texts()
    assert any(close(float(text.split(" times")[0]), ratio, 0.03) for text in effects if " times" in text)
    reader.click(".lesson-materials >> text=Slides")
    assert reader.tab.locator(".slide").count() > len(described.acts)


def test_every_link_of_a_claim_that_failed_leads_to_a_kernel_and_a_row(built_site: Path) -> None:
    text = (built_site / "claims.html").read_text()
    (section,) = re.findall(r'<section id="what-did-not-hold">.*?</section>', text, re.S)
    assert len(re.findall("<li>", section)) > 5
    pages = {lab: (built_site / "labs" / lab / "kernels.html").read_text() for lab in registry.names()}
    for lab, name in re.findall(r'href="labs/(\w+)/kernels\.html#([^"]+)"', section):
        assert f'id="{name}"' in pages[lab], f"{lab} {name}"
    rows = re.findall(r'href="#(claim-[^"]+)"', section)
    assert rows and all(text.count(f'id="{row_id}"') == 1 for row_id in rows)


def test_search_finds_the_pages_that_say_how(browser: Any, served_site: str) -> None:
    pages_by_query = {
        "put your device": "your-device.html",
        "add a kernel": "add-a-variant.html",
        "did not hold": "claims.html#what-did-not-hold",
        "opencl against cuda": "devices.html",
    }
    tab = browser.new_page()
    for words, page in pages_by_query.items():
        tab.goto(f"{served_site}/search.html?q={words}")
        tab.wait_for_selector("#search-results p.search-summary >> text=/Search finished|did not match/")
        links = tab.eval_on_selector_all(
            "#search-results li > a", "all => all.map(element => element.getAttribute('href'))"
        )
        assert any(link.startswith(page) for link in links[:5]), (words, links[:5])
    tab.close()


@pytest.mark.thorough
def test_axe_finds_no_problem_in_the_pages_of_recorded_rows(browser: Any, built_site: Path) -> None:
    """The tests of the executed book look at the other pages."""
    tab, eyes = browser.new_page(viewport={"width": 390, "height": 844}), Eyes()
    problems = []
    for name in ("index", "claims", "devices"):
        tab.goto(f"file://{built_site}/{name}.html")
        problems += [f"{name}: {problem}" for problem in eyes.violations(tab)]
    tab.close()
    assert problems == []
