"""Hostile text in every text column, metadata name and JSON field of a store: commands print and pages show it as plain text.

A browser listens for dialogs, errors and requests that would show that some text was executed.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.dom import minidom

import html5lib
import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from roofbook import cli, paths
from roofbook.book import card_links, device_choices, fragments, kernels_page, pdf, render_recorded, run_buttons
from roofbook.book.kernel_texts import texts
from roofbook.escaping import printable
from roofbook.spec import registry

from ..conftest import Command
from ..hostile import CONTROLS, FORMULA, HOSTILE, hostile_stores, write_hostile_store
from ..served import served
from ..sphinx_build import build_site
from .drawing import in_this_process

ROOT = Path(__file__).parents[2]
LAB, DEVICE, CASE = "stencil", "nvidia-h200", "8192x8192"
VARIANTS = (
    "sequential", "sequential-c", "checked", "rsqrt", "native-rsqrt", "tasks-4", "flat", "float4", "fused", "openmp", "torch",
    "native-rsqrt@wg=64x1", "native-rsqrt@wg=128x1", "native-rsqrt@wg=256x1",
)  # fmt: skip

# -- commands ----------------------------------------------------------------------------------------------------------

READING = (
    ["explain", LAB, "--scale", "published"],
    ["history", LAB, "--every"],
    ["history", LAB],
    ["history", LAB, "--on", "no such device"],
    ["claims", "--lab", LAB],
    ["compare", LAB, CASE],
    ["chart", LAB, CASE, "--scale", "published", "--out", "OUT/chart.svg"],
    ["chart", LAB, CASE, "--scale", "published", "--on", "no such device", "--out", "OUT/chart.png"],
    ["export"],
    ["export", "select * from cells", "--out", "OUT/rows.csv"],
    ["export", "select * from cells", "--out", "OUT/rows.parquet"],
    ["rerun", LAB, "fused", "no such case"],
    ["push", "OUT/other"],
    ["compact"],
)
"""Commands that show rows of a store. `gate` against its rows, `run`, `record` and `profile` measure first."""
OTHERS = {"best", "build", "check", "devices", "diff", "exercise", "gate", "grade", "import", "init", "judge", "labs", "lint",
          "new", "pdf", "profile", "pull", "record", "run", "serve", "show", "train", "try", "tune"}  # fmt: skip
"""Commands that show nothing of a store, or that are tried elsewhere: `build` below, the others where they are tested."""


@pytest.fixture(scope="module")
def hostile_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a store whose rows each have hostile text in one column, and return its folder."""
    results = tmp_path_factory.mktemp("results")
    write_hostile_store(ROOT / "results" / "recorded", results, LAB, DEVICE)
    return results


def test_each_command_that_reads_a_store_is_tried() -> None:
    assert {arguments[0] for arguments in READING} | OTHERS == set(cli.app.commands)


def test_commands_write_hostile_text_out(hostile_results: Path, command: Command, tmp_path: Path) -> None:
    for arguments in READING:
        command_line = [word.replace("OUT", str(tmp_path)) for word in arguments]
        code, out, err = command(*command_line, "--results", str(hostile_results))
        assert code in (0, 2), f"{arguments}: {err}"
        assert not (control := CONTROLS.search(out + err)), f"{arguments}: {control}"
        assert "Traceback" not in err and (code == 0 or "error: " in err), f"{arguments}: {err}"
    minidom.parse(str(tmp_path / "chart.svg"))
    with (tmp_path / "rows.csv").open(newline="", encoding="utf-8") as file:
        texts = [text for row in csv.reader(file) for text in row]
    assert HOSTILE in texts, "a file has the texts of the rows"
    assert f"'{FORMULA}" in texts and FORMULA not in texts, "no spreadsheet computes it"
    assert {HOSTILE, FORMULA} <= set(pq.read_table(tmp_path / "rows.parquet")["reason"].to_pylist())


def test_no_printed_text_reaches_a_terminal_as_a_control_sequence(tmp_path: Path) -> None:
    """Text printed by other code than tables and messages is escaped too, such as a warning of a library."""
    code = (
        "import sys, warnings\nfrom roofbook.errors import UsageError, program\n"
        f"hostile = {HOSTILE!r}\n"
        "def work():\n    print(hostile); warnings.warn(hostile); sys.stderr.writelines([hostile]); raise UsageError(hostile)\n"
        "sys.exit(program(work, ''))\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path)
    for text in (process.stdout.decode(), process.stderr.decode()):
        assert printable(HOSTILE) in text and not CONTROLS.search(text)
    assert process.returncode == 2 and b"Traceback" not in process.stderr


# -- pages -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hostile_site(unmeasured: Callable[[], Path]) -> Path:
    """Build the pages of a lab whose rows are all hostile by Sphinx, and return the folder of the site."""
    root = unmeasured()
    book = root / "book"
    for path in [*book.glob("*.md"), *book.glob("exercises/*.md"), *(root / "experiments").glob("*.ipynb")]:
        if path.stem not in (LAB, "history"):
            path.unlink()
    for name in ("CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, root)
    (root / "results" / "recorded").mkdir()
    (root / "results" / "recorded" / f"lab={LAB}").symlink_to(ROOT / "results" / "recorded" / f"lab={LAB}")
    (root / "results" / "recorded" / "lab=peaks").symlink_to(ROOT / "results" / "recorded" / "lab=peaks")
    cache = root / "cache" / "roofbook"
    cache.mkdir(parents=True)
    for kind in ("code", "expanded", "translated", "constants", "plan"):  # made from texts of the library alone
        (paths.cache_dir() / kind).mkdir(parents=True, exist_ok=True)
        (cache / kind).symlink_to(paths.cache_dir() / kind)
    with hostile_stores((DEVICE,), VARIANTS), pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache.parent))  # what is drawn of honest rows has the same key there
        patch.setattr(registry, "names", lambda: [LAB])
        patch.setattr(render_recorded, "_processes", in_this_process)
        patch.setattr(render_recorded, "SCALES", ("published",))
        render_recorded.draw(root)
        (book / "labs").mkdir(exist_ok=True)
        shutil.copy(root / "experiments" / f"{LAB}.ipynb", book / "labs")
        fragments.update(root)
    directives = "".join(
        f"````{{fragments}} {path.name}\n````\n\n" for path in sorted((book / "_generated").glob("*.html"))
    )
    (book / "index.md").write_text(f"# All that is generated\n\n{directives}\nThe end of the page.\n", encoding="utf-8")
    (book / "_toc.yml").write_text(
        "format: jb-book\nroot: index\nchapters:\n- glob: labs/*\n- glob: exercises/*\n- glob: techniques/*\n- file: history\n"
    )
    site = root / "_build" / "html"
    warnings = build_site(book, site, "--keep-going")
    lines = [line for line in warnings.splitlines() if not re.search(r"xref_missing|term not in glossary", line)]
    assert not lines, "MyST warns of more than links to pages that are left out"
    card_links.copy_cards(root, site, "https://elsewhere.invalid/book")  # an address that no link to a commit may have
    printed = pdf.combined_html(root, LAB, device_choices.choices(root, LAB)[0])
    (site / "labs" / "printed.html").write_text(
        printed.replace("</body>", "<footer></footer></body>"), encoding="utf-8"
    )
    return site


def test_pages_show_hostile_text_as_text(hostile_site: Path, browser: Any) -> None:
    files = (path.relative_to(hostile_site) for path in hostile_site.rglob("*.html"))
    pages = sorted(str(path) for path in files if path.parts[0] != "_static")
    assert len(pages) > 10 and any("measurements/" in page for page in pages)
    escaped, dialogs, errors, requested = list[str](), list[str](), list[str](), list[str]()
    with served(hostile_site) as address:
        context = browser.new_context()
        tab = context.new_page()
        tab.on("dialog", lambda dialog: dialogs.append(dialog.message) or dialog.dismiss())  # type: ignore[func-returns-value]
        tab.on(
            "console", lambda message: errors.append(f"{tab.url}: {message.text}") if message.type == "error" else None
        )
        tab.on("pageerror", lambda error: errors.append(f"{tab.url}: {error}"))
        tab.on("request", lambda request: requested.append(request.url))
        page_text = ""
        for page in pages:
            tab.goto(f"{address}/{page}")
            page_text += tab.inner_text("body")
            escaped += [f"{page}: {problem}" for problem in tab.evaluate(ESCAPED_TEXT)]
        tab.goto(f"{address}/labs/{LAB}.html")
        tab.select_option("select[name=device]", index=1)
        tab.wait_for_function("document.querySelector('.device-said').textContent")
        escaped += tab.evaluate(ESCAPED_TEXT)
        tab.goto(f"{address}/labs/{LAB}/results.html")
        tab.locator("td a.of:visible").first.click()
        tab.wait_for_selector("dialog.measurement[open] h2")
        assert printable(HOSTILE).splitlines()[0] in tab.inner_text("dialog.measurement")
        escaped += tab.evaluate(ESCAPED_TEXT)
        tab.goto(f"{address}/exercises/{LAB}.html")
        for radio in tab.locator("input[type=radio]:visible").all():
            radio.click()
        escaped += tab.evaluate(ESCAPED_TEXT)
        context.close()
        context = browser.new_context(java_script_enabled=False)
        tab = context.new_page()
        tab.on("request", lambda request: requested.append(request.url))
        for page in (
            f"labs/{LAB}.html",
            f"labs/{LAB}/results.html",
            next(name for name in pages if "/measurements/" in name),
        ):
            tab.goto(f"{address}/{page}")
            escaped += [f"{page} without a script: {problem}" for problem in tab.evaluate(ESCAPED_TEXT)]
        context.close()
    assert not escaped, "\n".join(escaped)
    known_error = (
        "printed.html: DOCUMENTATION_OPTIONS is not defined"  # that page is printed without the scripts of the others
    )
    events = [*dialogs, *(error for error in errors if known_error not in error)]
    assert not events, "\n".join(events)
    assert not [url for url in requested if not url.startswith((address, "data:", "blob:"))]
    assert "\\x1b]0;owned\\x07" in page_text and "onerror=alert(window.hacked=1)" in page_text, "the rows are shown"


ESCAPED_TEXT = """() => [
    ...(window.hacked ? ["window.hacked"] : []),
    ...[...document.querySelectorAll("[onerror], [onload]:not(link), img[src*=elsewhere], a[href^='javascript'], "
        + "a[href^='//'], a[href^='https://elsewhere']")].map(element => element.outerHTML.slice(0, 200)),
    ...(document.querySelector("footer, #machines, .slide-number") ? [] : ["it has no end"]),
]"""


def test_names_of_a_lab_stay_text_and_lead_to_no_other_folder(tmp_path: Path) -> None:
    """A lab may be in any folder, so its title and the names and texts of its variants may be hostile."""
    lab = copy(registry.get(LAB))
    base = lab.variant("checked")
    hostile = replace(base, name=HOSTILE, parent=None, change=HOSTILE, expect=HOSTILE)
    lab.title, lab.ladder, lab.peers = HOSTILE, (hostile,), ()
    texts_by_variant = {HOSTILE: texts(lab, hostile)}
    assert {Path(text.file).name for text in texts_by_variant[HOSTILE]} == {
        text.file for text in texts_by_variant[HOSTILE]
    }
    tabs, runs = (
        {HOSTILE: kernels_page.script_address(folder, lab, HOSTILE, "")}
        for folder in (kernels_page.SCRIPTS, run_buttons.RUN_SCRIPTS)
    )
    tokens = MarkdownIt().parse(kernels_page.page(lab, texts_by_variant, tabs, runs, {}))
    assert {token.type for token in tokens} <= {"heading_open", "heading_close", "inline", "fence"}
    for token in tokens:
        assert {child.type for child in token.children or ()} <= {"text", "code_inline"}
        if token.type == "fence":
            tree = html5lib.parseFragment(token.content, namespaceHTMLElements=False)
            scripts = {f"../../_static/{name}.js?v=" for name in ("kernels", "run-buttons")}
            assert {element.get("src") for element in tree.iter("script")} <= scripts
            assert not [*tree.iter("img"), *tree.iter("svg")]
