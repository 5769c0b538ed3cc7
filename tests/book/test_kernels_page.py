"""The pages of the labs' kernels: they show the texts that compilers get, opened by mouse, keyboard or link."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import kernels_page
from roofbook.book.input_hashes import InputHashes
from roofbook.book.kernel_texts import SUFFIXES, constants, size_of, texts
from roofbook.book.manifest import Manifest
from roofbook.book.page_weight import first_screen
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from ..axe import Eyes
from ..served import served
from ..sphinx_build import build_site

ROOT = Path(__file__).parents[2]
LABS = registry.names()
PAGE = "labs/lbm/kernels.html"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a checkout with the pages of all labs' kernels and their texts, and return its folder."""
    root = tmp_path_factory.mktemp("kernels")
    kernels_page.update(root, Manifest(root), InputHashes(root))
    return root


@pytest.fixture(scope="module")
def site(checkout: Path) -> Path:
    """Build a site of these pages by plain Sphinx with the book's settings, and return its folder."""
    shutil.copy(ROOT / "_config.yml", checkout)
    for name in ("conf.py", "references.bib", "_assets"):
        path = ROOT / "book" / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, checkout / "book" / name)
    (checkout / "book" / "index.md").write_text("# A book\n\nOf kernels.\n")
    (checkout / "book" / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - glob: labs/*/kernels\n")
    build_site(checkout / "book", checkout / "_build" / "html", "-W", "--keep-going")
    return checkout / "_build" / "html"


def kernels(lab: str) -> list[Variant]:
    problem = registry.get(lab)
    return [variant for variant in (*problem.ladder, *problem.peers) if variant.source]


@pytest.mark.parametrize("lab", LABS)
def test_every_kernel_has_a_file_in_each_of_its_languages_as_it_is_rendered(checkout: Path, lab: str) -> None:
    problem, folder = registry.get(lab), checkout / kernels_page.FOLDER / lab
    sizes = problem.sizes(size_of(problem))
    assert size_of(problem) in problem.cases("published")
    for variant in kernels(lab):
        assert variant.source and variant.languages
        for language in variant.languages:
            path = folder / f"{variant.name}.{SUFFIXES.get(language, language)}.txt"
            assert path.read_text() == variant.source.of_size(sizes).render(language), path.name


def patched(text: str, difference: str) -> str:
    """Return a text with a unified difference applied to it."""
    lines, patched_lines, position = text.splitlines(), list[str](), 0
    for line in difference.splitlines()[2:]:
        if hunk := re.match(r"@@ -(\d+)(,0)?", line):
            start = int(hunk[1]) - (not hunk[2])
            patched_lines, position = patched_lines + lines[position:start], start
        elif line[0] == "+":
            patched_lines.append(line[1:])
        else:
            assert lines[position] == line[1:]
            patched_lines, position = patched_lines + [line[1:]] * (line[0] == " "), position + 1
    return "\n".join([*patched_lines, *lines[position:]]) + "\n"


@pytest.mark.parametrize("lab", LABS)
def test_the_difference_of_a_kernel_turns_its_parents_text_into_its_own(checkout: Path, lab: str) -> None:
    problem, folder, differences = registry.get(lab), checkout / kernels_page.FOLDER / lab, 0
    for variant in kernels(lab):
        for language in variant.languages:
            path = folder / f"{variant.name}.{language}.diff.txt"
            parent = problem.variant(variant.parent) if variant.parent else None
            before = folder / f"{parent.name}.{SUFFIXES.get(language, language)}.txt" if parent else None
            kernel_text = (folder / f"{variant.name}.{SUFFIXES.get(language, language)}.txt").read_text()
            if before is None or not before.is_file() or before.read_text() == kernel_text:
                assert not path.exists()
                continue
            assert patched(before.read_text(), path.read_text()) == kernel_text
            differences += 1
    assert differences


@pytest.mark.parametrize("lab", LABS)
def test_the_page_has_each_step_once_with_its_change_and_no_points_of_sweeps(checkout: Path, lab: str) -> None:
    problem, page = registry.get(lab), kernels_page.page_of(checkout, lab).read_text()
    headings = re.findall(r"^### `(.+)`$", page, re.M)
    assert headings == [variant.name for variant in (*problem.ladder, *problem.peers) if texts(problem, variant)]
    for variant in (*problem.ladder, *problem.peers):
        assert re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(variant.change)) in page
    assert "@" not in "".join(headings)


@pytest.mark.parametrize("lab", LABS)
def test_the_page_names_the_case_of_its_constants(checkout: Path, lab: str) -> None:
    problem, page = registry.get(lab), kernels_page.page_of(checkout, lab).read_text()
    case = size_of(problem).name
    assert (f"those of the case <strong>{case}</strong>" in page) == bool(problem.sizes(size_of(problem)))
    for variant in kernels(lab):
        section = page.partition(f"### `{variant.name}`\n")[2].partition("\n### ")[0]
        constants_shown = constants(problem, variant)
        assert (f"Constants of the case {case}: " in section) == bool(constants_shown)
        assert all(f"<code>{name}={value}</code>" in section for name, value in constants_shown.items())


def test_a_size_that_is_an_argument_is_no_constant() -> None:
    stencil = registry.get("stencil")
    assert constants(stencil, stencil.variant("no-ifs")) == {}
    assert set(constants(stencil, stencil.variant("compiled-sizes"))) == {"HEIGHT", "WIDTH"}


def test_a_step_with_its_parents_kernel_names_the_options_that_differ(checkout: Path) -> None:
    page = kernels_page.page_of(checkout, "lbm").read_text()
    section = page.partition("### `no-finish`\n")[2].partition("\n### ")[0]
    assert "The kernel is the same as that of <code>ported</code>. Options: no finish." in section
    assert "-difference" not in section


def test_only_the_page_of_a_lab_whose_code_changed_is_written_again(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labs_drawn: list[str] = []
    page = kernels_page.page

    def draw_and_note(lab: Lab, *arguments: Any) -> str:
        labs_drawn.append(lab.name)
        return page(lab, *arguments)

    monkeypatch.setattr(kernels_page, "page", draw_and_note)
    kernels_page.update(checkout, Manifest(checkout), InputHashes(checkout))
    assert labs_drawn == []
    changed_hashes = InputHashes(checkout)
    hashes_by_lab = {lab: changed_hashes.kernels(lab) for lab in LABS}
    hashes_by_lab["stencil"] |= {"kernels": "new"}
    monkeypatch.setattr(changed_hashes, "kernels", lambda lab: hashes_by_lab[lab])
    kernels_page.update(checkout, Manifest(checkout), changed_hashes)
    assert labs_drawn == ["stencil"]


def test_a_text_without_a_kernel_is_removed_from_the_folder_and_the_site(checkout: Path, tmp_path: Path) -> None:
    (checkout / kernels_page.FOLDER / "stencil" / "gone.cu.txt").write_text("")
    kernels_page.copy_texts(checkout, tmp_path)
    assert (tmp_path / "kernels" / "stencil" / "gone.cu.txt").exists()
    kernels_page.page_of(checkout, "stencil").unlink()
    kernels_page.update(checkout, Manifest(checkout), InputHashes(checkout))
    kernels_page.copy_texts(checkout, tmp_path)
    assert not (tmp_path / "kernels" / "stencil" / "gone.cu.txt").exists()
    assert (tmp_path / "_static" / "kernels" / "stencil" / "fused.js").exists()


# -- in a browser ------------------------------------------------------------------------------------------------------

Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, site: Path) -> Iterator[Open]:
    """Yield a function that opens a page on a phone, from the disk, always in the same tab; fail on any error of its scripts.

    It is loaded anew in the same process: another one, as of another tab, sees stored choices only a moment later.
    """
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page_errors: list[str] = []
    tab = context.new_page()
    tab.on("pageerror", lambda error: page_errors.append(str(error)))
    tab.on("console", lambda message: page_errors.append(message.text) if message.type == "error" else None)

    def open_address(address: str = PAGE) -> Any:
        is_first = tab.url == "about:blank"
        tab.goto(f"file://{site}/{address}")  # where only the part after `#` differs, nothing is loaded
        if not is_first:
            tab.reload()
        return tab

    yield open_address
    context.close()
    assert not page_errors


def text(checkout: Path, file: str) -> str:
    return (checkout / kernels_page.FOLDER / "lbm" / file).read_text()


def shown_text(tab: Any, kernel: str = "fused") -> str:
    """Return the text that a kernel's panel shows."""
    tab.wait_for_selector(f"#{kernel} .kernel-text pre")
    panel_text: str = tab.text_content(f"#{kernel} .kernel-text pre")
    return panel_text


@pytest.mark.thorough
def test_clicks_show_each_text_as_its_file_has_it(open_page: Open, checkout: Path) -> None:
    tab = open_page()
    tab.click(".kernel-index >> text=/^fused$/")
    tabs = tab.locator("#fused [role=tab]")
    assert tabs.all_inner_texts() == ["CUDA", "OpenCL", "Difference in CUDA", "Difference in OpenCL"]
    assert shown_text(tab) == text(checkout, "fused.cuda.diff.txt"), "a link to a kernel opens its difference"
    for name, file in (
        ("CUDA", "fused.cu.txt"),
        ("OpenCL", "fused.cl.txt"),
        ("Difference in OpenCL", "fused.opencl.diff.txt"),
    ):
        tab.locator("#fused").get_by_role("tab", name=name, exact=True).click()
        assert shown_text(tab) == text(checkout, file)
        link = tab.get_attribute("#fused .kernel-bar a", "href")
        assert (
            link == f"../../kernels/lbm/{file}"
            and (checkout / "_build" / "html" / "labs" / "lbm" / link).resolve().exists()
        )
    assert tab.locator("#fused pre .gi").count() > 3 and tab.locator("#fused pre .gd").count() > 3
    tab.click("#fused .kernel-bar button")
    tab.wait_for_function("document.querySelector('#fused .kernel-said').textContent === 'Copied'")
    assert tab.evaluate("navigator.clipboard.readText()") == text(checkout, "fused.opencl.diff.txt")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click("#fused [role=tab][aria-selected=true]")
    assert not tab.is_visible("#fused .kernel-text")


@pytest.mark.thorough
def test_the_keyboard_reaches_every_text(open_page: Open, checkout: Path) -> None:
    tab = open_page()
    tab.focus("#fused [role=tab]")
    tab.keyboard.press("Enter")
    assert shown_text(tab) == text(checkout, "fused.cu.txt")
    last = "Difference in OpenCL"
    names_by_key = {"ArrowRight": "OpenCL", "End": last, "ArrowDown": last, "Home": "CUDA", "ArrowLeft": last}
    for key, name in names_by_key.items():
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.textContent") == name
        assert tab.inner_text("#fused [role=tab][aria-selected=true]") == name
        assert shown_text(tab)
    stops = tab.locator("#fused [role=tab][tabindex='0']")
    assert stops.count() == 1, "one stop for the tabs of a kernel"
    for _ in range(3):
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == f"fused: {last}"


@pytest.mark.thorough
def test_a_link_opens_a_kernel_in_the_language_that_was_chosen_last(open_page: Open, checkout: Path) -> None:
    tab = open_page(f"{PAGE}#soa")
    assert shown_text(tab, "soa") == text(checkout, "soa.cuda.diff.txt")
    assert 0 <= tab.evaluate("document.querySelector('#soa').getBoundingClientRect().top") < 200
    tab.locator("#soa").get_by_role("tab", name="OpenCL", exact=True).click()
    shown_text(tab, "soa")
    assert shown_text(open_page(f"{PAGE}#tree"), "tree") == text(checkout, "tree.opencl.diff.txt")
    assert shown_text(open_page(f"{PAGE}#sequential-c"), "sequential-c") == text(checkout, "sequential-c.c.txt")


@pytest.mark.thorough
def test_the_device_chosen_on_the_books_pages_decides_the_first_language(open_page: Open, checkout: Path) -> None:
    tab = open_page()
    tab.evaluate("localStorage.setItem('roofbook-device', 'nvidia-h200/opencl/large')")
    assert shown_text(open_page(f"{PAGE}#soa"), "soa") == text(checkout, "soa.opencl.diff.txt")


def test_a_source_is_coloured_like_other_code_and_no_letter_is_lost(open_page: Open, checkout: Path) -> None:
    tab = open_page(f"{PAGE}#tagged-halo")
    tab.locator("#tagged-halo").get_by_role("tab", name="CUDA", exact=True).click()
    assert shown_text(tab, "tagged-halo") == text(checkout, "tagged-halo.cu.txt")
    kinds = tab.eval_on_selector_all(
        "#tagged-halo pre span", "all => all.map(element => [element.className, element.textContent])"
    )
    by_kind = {kind: [text_of_span for span_kind, text_of_span in kinds if span_kind == kind] for kind, _ in kinds}
    assert all(text_of_span.startswith(("//", "/*")) for text_of_span in by_kind["c1"])
    assert {"if", "for", "static"} <= set(by_kind["k"]) and {"float", "int"} <= set(by_kind["kt"])
    assert all(text_of_span.startswith('"') for text_of_span in by_kind["s"])


@pytest.mark.thorough
def test_a_text_that_cannot_be_loaded_says_so_and_links_to_its_file(browser: Any, site: Path, tmp_path: Path) -> None:
    alone = tmp_path / "labs" / "lbm"
    alone.mkdir(parents=True)
    shutil.copy(site / PAGE, alone)
    shutil.copytree(site / "_static", tmp_path / "_static", ignore=shutil.ignore_patterns("lbm"))
    tab = browser.new_page()
    tab.goto(f"file://{alone}/kernels.html#soa")
    tab.wait_for_function("document.querySelector('#soa .kernel-text').textContent.includes('could not be loaded')")
    assert tab.get_attribute("#soa .kernel-text a", "href") == "../../kernels/lbm/soa.cuda.diff.txt"
    tab.close()


def test_without_javascript_links_open_the_texts(browser: Any, site: Path, checkout: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"file://{site}/{PAGE}")
    tab.click("#soa .kernel-files >> text=Difference in OpenCL")
    assert tab.inner_text("body").strip() == text(checkout, "soa.opencl.diff.txt").strip(), "shown, not saved"
    context.close()


def test_search_finds_a_kernel_by_its_name_and_by_words_of_its_change(browser: Any, site: Path) -> None:
    pages_by_query = {"tagged-halo": "labs/lbm/kernels.html#tagged-halo", "halving": "labs/lbm/kernels.html"}
    tab = browser.new_page()
    with served(site) as address:
        for words, page in {**pages_by_query, "halving-unheard-of": None}.items():
            tab.goto(f"{address}/search.html?q={words}")
            tab.wait_for_selector("#search-results p.search-summary >> text=/Search finished|did not match/")
            links = tab.eval_on_selector_all(
                "#search-results li a", "all => all.map(element => element.getAttribute('href'))"
            )
            assert any(link.startswith(page) for link in links) if page else not links
    tab.close()


@pytest.mark.thorough
def test_axe_finds_no_problem(browser: Any, site: Path) -> None:
    tab = browser.new_page()
    tab.goto(f"file://{site}/{PAGE}#soa")
    shown_text(tab, "soa")
    tab.locator("#tree").get_by_role("tab", name="CUDA", exact=True).click()
    shown_text(tab, "tree")
    assert Eyes().violations(tab) == []
    tab.close()


@pytest.mark.parametrize("lab", LABS)
def test_a_page_is_light(site: Path, lab: str) -> None:
    """A page loads only the texts that a reader opens."""
    page = (site / "labs" / lab / "kernels.html").read_text()
    most = 40_000 + 1_500 * page.count('<div class="kernel"')
    assert len(first_screen.without_rules(page).encode()) < most, "without the rules that are on each page"
    assert f"_static/kernels/{lab}/" not in "".join(re.findall(r"<script[^>]*>", page))
    for script in (site / "_static" / "kernels" / lab).glob("*.js"):
        call = re.fullmatch(r'roofbookKernel\("(\S+)", "(\S+)", (\{.*\})\);\n', script.read_text())
        assert call and (call[1], f"{call[2]}.js") == (lab, script.name) and json.loads(call[3])
