"""A small site by Sphinx with the book's extension: the same bytes from the same sources, and a changed asset reaches it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CONF = """
extensions = ["myst_parser", "roofbook.book.sphinx_ext"]
myst_enable_extensions = ["dollarmath"]
html_theme = "sphinx_book_theme"
root_doc = "index"
html_static_path = ["_assets"]
html_css_files = ["own.css"]
html_js_files = [["own.js", {"defer": "defer"}]]
html_copy_source = False
"""
GLOSSARY = "# Glossary\n\n```{glossary}\nwarp\n  Threads.\n\nblock\n  Warps.\n```\n"
INDEX = "# First\n\nA warp of a block, $x^2$.\n\n```{toctree}\nglossary\n```\n\n```python\n1 + 1\n```\n"
VERSIONED = re.compile(r"_static/([\w./-]+)\?v=([0-9a-f]+)")


def sources(folder: Path) -> Path:
    """The sources of a site of two pages, in `folder`."""
    book = folder / "book"
    (book / "_assets").mkdir(parents=True)
    texts = {"conf.py": CONF, "index.md": INDEX, "glossary.md": GLOSSARY}
    texts |= {"_assets/own.css": ".own { color: red }\n", "_assets/own.js": "1;\n"}
    for name, text in texts.items():
        (book / name).write_text(text)
    return book


def build(book: Path, seed: int = 0) -> Path:
    """The folder of the site, built in a process of its own."""
    out = book.parent / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(book.parent / "trees"), str(book), str(out)]
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return out


def contents(site: Path) -> dict[str, bytes]:
    """The files of a site by name, but for Sphinx's notes to itself."""
    files = (path for path in site.rglob("*") if path.is_file() and path.name != ".buildinfo")
    return {str(path.relative_to(site)): path.read_bytes() for path in files}


def addresses(site: Path) -> dict[str, set[str]]:
    """By page what it loads of our own, with the hash in its address."""
    names = ("index.html", "glossary.html")
    found = {name: VERSIONED.findall((site / name).read_text(encoding="utf-8")) for name in names}
    return {
        name: {f"{file} {of}" for file, of in each if file in ("site.css", "own.js")} for name, each in found.items()
    }


@pytest.mark.thorough
@pytest.mark.site
def test_the_same_sources_are_the_same_site_wherever_it_is_built_and_a_changed_asset_reaches_it(tmp_path: Path) -> None:
    book = sources(tmp_path / "here")
    site, other = build(book, seed=1), build(sources(tmp_path / "elsewhere"), seed=2)
    ours, theirs = contents(site), contents(other)
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []
    assert len(addresses(site)["index.html"]) == 2 and addresses(site)["index.html"] == addresses(site)["glossary.html"]

    before = addresses(site)
    build(book)
    assert contents(site) == ours, "nothing changed"
    (book / "_assets" / "own.css").write_text(".own { color: blue }\n")
    (book / "_assets" / "own.js").write_text("2;\n")
    build(book)
    assert ".own{color:blue}" in (site / "_static" / "site.css").read_text()
    assert (site / "_static" / "own.js").read_text() == "2;\n"
    after = addresses(site)
    assert after["index.html"] == after["glossary.html"] and not after["index.html"] & before["index.html"]


DRAWN = """
import hashlib, json, sys
from pathlib import Path
from roofbook.analysis.recorded import recorded
from roofbook.book import story
from roofbook.spec import registry
from roofbook.store.parquet import Store

root = Path(sys.argv[1])
store = Store(root / "results")
notebook = json.loads((root / "experiments" / "stencil.ipynb").read_text())
data = recorded(registry.get("stencil"), store, "published")[0]
print(hashlib.sha256(json.dumps(story.told(notebook, data, store)).encode()).hexdigest())
"""


@pytest.mark.thorough
def test_tables_and_figures_of_a_lab_are_the_same_bytes_whatever_order_a_process_hashes_in() -> None:
    def drawn(seed: int) -> str:
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", DRAWN, str(Path(__file__).parents[3])]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout

    first = drawn(1)
    assert len(first.strip()) == 64 and drawn(2) == first
