"""The pages of the labs' kernels: texts are those that compilers get; a reader opens them by mouse, keyboard, link."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
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
from roofbook.spec.lab import Lab, Variant

from ..axe import Eyes
from ..served import served

ROOT = Path(__file__).parents[2]
LABS = registry.names()
PAGE = "labs/lbm/kernels.html"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the pages of all labs' kernels and their texts."""
    root = tmp_path_factory.mktemp("kernels")
    kernels_page.update(root, Manifest(root), InputHashes(root))
    return root


@pytest.fixture(scope="module")
def site(made: Path) -> Path:
    """The site of those pages alone, by plain Sphinx with the book's settings."""
    shutil.copy(ROOT / "_config.yml", made)
    for name in ("conf.py", "references.bib", "_assets"):
        path = ROOT / "book" / name
        (shutil.copytree if path.is_dir() else shutil.copy)(path, made / "book" / name)
    (made / "book" / "index.md").write_text("# A book\n\nOf kernels.\n")
    (made / "book" / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - glob: labs/*/kernels\n")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        str(made / "book"),
        str(made / "_build" / "html"),
    ]
    subprocess.run(command, check=True)
    return made / "_build" / "html"


def kernels(lab: str) -> list[Variant]:
    it = registry.get(lab)
    return [each for each in (*it.ladder, *it.peers) if each.source]


@pytest.mark.parametrize("lab", LABS)
def test_every_kernel_has_a_file_in_each_of_its_languages_as_it_is_rendered(made: Path, lab: str) -> None:
    it, folder = registry.get(lab), made / kernels_page.FOLDER / lab
    sizes = it.sizes(size_of(it))
    assert size_of(it) in it.cases("published")
    for variant in kernels(lab):
        assert variant.source and variant.languages
        for language in variant.languages:
            path = folder / f"{variant.name}.{SUFFIXES.get(language, language)}.txt"
            assert path.read_text() == variant.source.of_size(sizes).render(language), path.name


def patched(text: str, difference: str) -> str:
    """A text with a unified difference applied to it."""
    lines, made, at = text.splitlines(), list[str](), 0
    for line in difference.splitlines()[2:]:
        if hunk := re.match(r"@@ -(\d+)(,0)?", line):
            start = int(hunk[1]) - (not hunk[2])
            made, at = made + lines[at:start], start
        elif line[0] == "+":
            made.append(line[1:])
        else:
            assert lines[at] == line[1:]
            made, at = made + [line[1:]] * (line[0] == " "), at + 1
    return "\n".join([*made, *lines[at:]]) + "\n"


@pytest.mark.parametrize("lab", LABS)
def test_the_differences_turn_the_parents_text_into_its_own(made: Path, lab: str) -> None:
    it, folder, found = registry.get(lab), made / kernels_page.FOLDER / lab, 0
    for variant in kernels(lab):
        for language in variant.languages:
            path = folder / f"{variant.name}.{language}.diff.txt"
            parent = it.variant(variant.parent) if variant.parent else None
            before = folder / f"{parent.name}.{SUFFIXES.get(language, language)}.txt" if parent else None
            own = (folder / f"{variant.name}.{SUFFIXES.get(language, language)}.txt").read_text()
            if before is None or not before.is_file() or before.read_text() == own:
                assert not path.exists()
                continue
            assert patched(before.read_text(), path.read_text()) == own
            found += 1
    assert found > 5


@pytest.mark.parametrize("lab", LABS)
def test_the_page_has_each_step_once_with_its_change_and_no_points_of_sweeps(made: Path, lab: str) -> None:
    it, page = registry.get(lab), kernels_page.page_of(made, lab).read_text()
    headings = re.findall(r"^### `(.+)`$", page, re.M)
    assert headings == [each.name for each in (*it.ladder, *it.peers) if texts(it, each)]
    for each in (*it.ladder, *it.peers):
        assert re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(each.change)) in page
    assert "@" not in "".join(headings)


@pytest.mark.parametrize("lab", LABS)
def test_the_page_says_of_which_case_its_constants_are(made: Path, lab: str) -> None:
    it, page = registry.get(lab), kernels_page.page_of(made, lab).read_text()
    case = size_of(it).name
    assert (f"those of the case <strong>{case}</strong>" in page) == bool(it.sizes(size_of(it)))
    for variant in kernels(lab):
        section = page.partition(f"### `{variant.name}`\n")[2].partition("\n### ")[0]
        known = constants(it, variant)
        assert (f"Constants of the case {case}: " in section) == bool(known)
        assert all(f"<code>{name}={value}</code>" in section for name, value in known.items())


def test_a_size_that_is_an_argument_is_no_constant() -> None:
    stencil = registry.get("stencil")
    assert constants(stencil, stencil.variant("no-ifs")) == {}
    assert set(constants(stencil, stencil.variant("compiled-sizes"))) == {"HEIGHT", "WIDTH"}


def test_a_step_whose_kernel_is_its_parents_says_what_else_differs(made: Path) -> None:
    page = kernels_page.page_of(made, "lbm").read_text()
    section = page.partition("### `no-finish`\n")[2].partition("\n### ")[0]
    assert "The kernel is the same as that of <code>ported</code>. Options: no finish." in section
    assert "-difference" not in section


def test_only_the_lab_whose_code_changed_is_made_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    again: list[str] = []
    page = kernels_page.page

    def noted(lab: Lab, *more: Any) -> str:
        again.append(lab.name)
        return page(lab, *more)

    monkeypatch.setattr(kernels_page, "page", noted)
    kernels_page.update(made, Manifest(made), InputHashes(made))
    assert again == []
    other = InputHashes(made)
    known = {lab: other.kernels(lab) for lab in LABS}
    monkeypatch.setattr(other, "kernels", lambda lab: known[lab] | ({"kernels": "new"} if lab == "lbm" else {}))
    kernels_page.update(made, Manifest(made), other)
    assert again == ["lbm"]


def test_a_text_that_is_gone_leaves_the_folder_and_the_site(made: Path, tmp_path: Path) -> None:
    (made / kernels_page.FOLDER / "lbm" / "gone.cu.txt").write_text("")
    kernels_page.copy_texts(made, tmp_path)
    assert (tmp_path / "kernels" / "lbm" / "gone.cu.txt").exists()
    kernels_page.page_of(made, "lbm").unlink()
    kernels_page.update(made, Manifest(made), InputHashes(made))
    kernels_page.copy_texts(made, tmp_path)
    assert not (tmp_path / "kernels" / "lbm" / "gone.cu.txt").exists()
    assert (tmp_path / "_static" / "kernels" / "lbm" / "fused.js").exists()


# -- in a browser ------------------------------------------------------------------------------------------------------

Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[Open]:
    """Opens a page on a phone, from the disk, in one tab that remembers; nothing may go wrong in it.

    Another tab may have a process of its own, which learns a moment later what this one keeps.
    """
    context = browser.new_context(viewport={"width": 390, "height": 844})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    wrong: list[str] = []
    tab = context.new_page()
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)

    def open_page(address: str = PAGE) -> Any:
        tab.goto("about:blank")
        tab.goto(f"file://{site}/{address}")
        return tab

    yield open_page
    context.close()
    assert not wrong


def text(made: Path, file: str) -> str:
    return (made / kernels_page.FOLDER / "lbm" / file).read_text()


def shown(tab: Any, kernel: str = "fused") -> str:
    """The text that a kernel's panel shows."""
    tab.wait_for_selector(f"#{kernel} .kernel-text pre")
    found: str = tab.text_content(f"#{kernel} .kernel-text pre")
    return found


def test_clicks_show_each_text_as_its_file_has_it(opened: Open, made: Path) -> None:
    tab = opened()
    tab.click(".kernel-index >> text=/^fused$/")
    tabs = tab.locator("#fused [role=tab]")
    assert tabs.all_inner_texts() == ["CUDA", "OpenCL", "Difference in CUDA", "Difference in OpenCL"]
    assert shown(tab) == text(made, "fused.cuda.diff.txt"), "a link to a kernel opens what it changes"
    for name, file in (
        ("CUDA", "fused.cu.txt"),
        ("OpenCL", "fused.cl.txt"),
        ("Difference in OpenCL", "fused.opencl.diff.txt"),
    ):
        tab.locator("#fused").get_by_role("tab", name=name, exact=True).click()
        assert shown(tab) == text(made, file)
        link = tab.get_attribute("#fused .kernel-bar a", "href")
        assert (
            link == f"../../kernels/lbm/{file}"
            and (made / "_build" / "html" / "labs" / "lbm" / link).resolve().exists()
        )
    assert tab.locator("#fused pre .gi").count() > 3 and tab.locator("#fused pre .gd").count() > 3
    tab.click("#fused .kernel-bar button")
    tab.wait_for_function("document.querySelector('#fused .kernel-said').textContent === 'Copied'")
    assert tab.evaluate("navigator.clipboard.readText()") == text(made, "fused.opencl.diff.txt")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.click("#fused [role=tab][aria-selected=true]")
    assert not tab.is_visible("#fused .kernel-text")


def test_the_keyboard_reaches_every_text(opened: Open, made: Path) -> None:
    tab = opened()
    tab.focus("#fused [role=tab]")
    tab.keyboard.press("Enter")
    assert shown(tab) == text(made, "fused.cu.txt")
    last = "Difference in OpenCL"
    pressed = {"ArrowRight": "OpenCL", "End": last, "ArrowDown": last, "Home": "CUDA", "ArrowLeft": last}
    for key, name in pressed.items():
        tab.keyboard.press(key)
        assert tab.evaluate("document.activeElement.textContent") == name
        assert tab.inner_text("#fused [role=tab][aria-selected=true]") == name
        assert shown(tab)
    stops = tab.locator("#fused [role=tab][tabindex='0']")
    assert stops.count() == 1, "one stop for the tabs of a kernel"
    for _ in range(3):
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == f"fused: {last}"


def test_a_link_opens_a_kernel_in_the_language_that_was_looked_at_last(opened: Open, made: Path) -> None:
    tab = opened(f"{PAGE}#soa")
    assert shown(tab, "soa") == text(made, "soa.cuda.diff.txt")
    assert 0 <= tab.evaluate("document.querySelector('#soa').getBoundingClientRect().top") < 200
    tab.locator("#soa").get_by_role("tab", name="OpenCL", exact=True).click()
    shown(tab, "soa")
    assert shown(opened(f"{PAGE}#tree"), "tree") == text(made, "tree.opencl.diff.txt")
    assert shown(opened(f"{PAGE}#sequential-c"), "sequential-c") == text(made, "sequential-c.c.txt")


def test_the_device_of_the_books_pages_says_the_first_language(opened: Open, made: Path) -> None:
    tab = opened()
    tab.evaluate("localStorage.setItem('roofbook-device', 'nvidia-h200/opencl/large')")
    assert shown(opened(f"{PAGE}#soa"), "soa") == text(made, "soa.opencl.diff.txt")


def test_a_source_is_coloured_as_elsewhere_and_no_letter_is_lost(opened: Open, made: Path) -> None:
    tab = opened(f"{PAGE}#tagged-halo")
    tab.locator("#tagged-halo").get_by_role("tab", name="CUDA", exact=True).click()
    assert shown(tab, "tagged-halo") == text(made, "tagged-halo.cu.txt")
    kinds = tab.eval_on_selector_all(
        "#tagged-halo pre span", "all => all.map(element => [element.className, element.textContent])"
    )
    by_kind = {kind: [said for own, said in kinds if own == kind] for kind, _ in kinds}
    assert all(said.startswith(("//", "/*")) for said in by_kind["c1"])
    assert {"if", "for", "static"} <= set(by_kind["k"]) and {"float", "int"} <= set(by_kind["kt"])
    assert all(said.startswith('"') for said in by_kind["s"])


def test_what_cannot_be_loaded_says_so_and_offers_the_file(browser: Any, site: Path, tmp_path: Path) -> None:
    alone = tmp_path / "labs" / "lbm"
    alone.mkdir(parents=True)
    shutil.copy(site / PAGE, alone)
    shutil.copytree(site / "_static", tmp_path / "_static", ignore=shutil.ignore_patterns("lbm"))
    tab = browser.new_page()
    tab.goto(f"file://{alone}/kernels.html#soa")
    tab.wait_for_function("document.querySelector('#soa .kernel-text').textContent.includes('could not be loaded')")
    assert tab.get_attribute("#soa .kernel-text a", "href") == "../../kernels/lbm/soa.cuda.diff.txt"
    tab.close()


def test_without_javascript_links_open_the_texts(browser: Any, site: Path, made: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"file://{site}/{PAGE}")
    tab.click("#soa .kernel-files >> text=Difference in OpenCL")
    assert tab.inner_text("body").strip() == text(made, "soa.opencl.diff.txt").strip(), "shown, not saved"
    context.close()


def test_search_finds_a_kernel_by_its_name_and_by_what_it_changes(browser: Any, site: Path) -> None:
    asked = {"tagged-halo": "labs/lbm/kernels.html#tagged-halo", "halving": "labs/lbm/kernels.html"}
    tab = browser.new_page()
    with served(site) as address:
        for words, wanted in {**asked, "halving-unheard-of": None}.items():
            tab.goto(f"{address}/search.html?q={words}")
            tab.wait_for_selector("#search-results p.search-summary >> text=/Search finished|did not match/")
            links = tab.eval_on_selector_all(
                "#search-results li a", "all => all.map(element => element.getAttribute('href'))"
            )
            assert any(link.startswith(wanted) for link in links) if wanted else not links
    tab.close()


def test_axe_finds_nothing(browser: Any, site: Path) -> None:
    tab = browser.new_page()
    tab.goto(f"file://{site}/{PAGE}#soa")
    shown(tab, "soa")
    tab.locator("#tree").get_by_role("tab", name="CUDA", exact=True).click()
    shown(tab, "tree")
    assert Eyes().violations(tab) == []
    tab.close()


@pytest.mark.parametrize("lab", LABS)
def test_a_page_is_light(site: Path, lab: str) -> None:
    """It loads the texts that are opened, and no others."""
    page = (site / "labs" / lab / "kernels.html").read_text()
    most = 40_000 + 1_500 * page.count('<div class="kernel"')
    assert (
        len(first_screen.without_rules(page).encode()) < most
    )  # what it has of the style sheet is as much on each page
    assert f"_static/kernels/{lab}/" not in "".join(re.findall(r"<script[^>]*>", page))
    for script in (site / "_static" / "kernels" / lab).glob("*.js"):
        found = re.fullmatch(r'roofbookKernel\("(\S+)", "(\S+)", (\{.*\})\);\n', script.read_text())
        assert found and (found[1], f"{found[2]}.js") == (lab, script.name) and json.loads(found[3])
