"""A small site by Sphinx with the book's extension: equal sources give equal bytes, and a changed asset reaches the site."""

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
    """Write the sources of a site of two pages into `folder`, and return their folder."""
    book = folder / "book"
    (book / "_assets").mkdir(parents=True)
    texts = {"conf.py": CONF, "index.md": INDEX, "glossary.md": GLOSSARY}
    texts |= {"_assets/own.css": ".own { color: red }\n", "_assets/own.js": "1;\n"}
    for name, text in texts.items():
        (book / name).write_text(text)
    return book


def build(book: Path, seed: int = 0) -> Path:
    """Build the site in a separate process, and return its folder."""
    out = book.parent / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-d", str(book.parent / "trees"), str(book), str(out)]
    environment = os.environ | {"PYTHONHASHSEED": str(seed)}
    process = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert process.returncode == 0, process.stderr
    return out


def contents(site: Path) -> dict[str, bytes]:
    """Return the bytes of each file of a site by name, except Sphinx's own `.buildinfo`."""
    files = (path for path in site.rglob("*") if path.is_file() and path.name != ".buildinfo")
    return {str(path.relative_to(site)): path.read_bytes() for path in files}


def addresses(site: Path) -> dict[str, set[str]]:
    """Return, for each page, the book's own style sheet and script that it loads, with the hash in their addresses."""
    names = ("index.html", "glossary.html")
    files_by_page = {name: VERSIONED.findall((site / name).read_text(encoding="utf-8")) for name in names}
    return {
        name: {f"{file} {digest}" for file, digest in versioned if file in ("site.css", "own.js")}
        for name, versioned in files_by_page.items()
    }


@pytest.mark.thorough
@pytest.mark.site
def test_equal_sources_give_equal_bytes_in_any_folder_and_a_changed_asset_reaches_the_site(tmp_path: Path) -> None:
    book = sources(tmp_path / "here")
    site, second_site = build(book, seed=1), build(sources(tmp_path / "elsewhere"), seed=2)
    contents_of_first, contents_of_second = contents(site), contents(second_site)
    assert sorted(contents_of_first) == sorted(contents_of_second)
    assert [name for name in contents_of_first if contents_of_first[name] != contents_of_second[name]] == []
    assert len(addresses(site)["index.html"]) == 2 and addresses(site)["index.html"] == addresses(site)["glossary.html"]

    before = addresses(site)
    build(book)
    assert contents(site) == contents_of_first, "nothing changed"
    (book / "_assets" / "own.css").write_text(".own { color: blue }\n")
    (book / "_assets" / "own.js").write_text("2;\n")
    build(book)
    assert ".own{color:blue}" in (site / "_static" / "site.css").read_text()
    assert (site / "_static" / "own.js").read_text() == "2;\n"
    after = addresses(site)
    assert after["index.html"] == after["glossary.html"] and not after["index.html"] & before["index.html"]


DIGEST_OF_DRAWING = """
import hashlib, json, sys
from pathlib import Path
from roofbook.analysis.recorded import recorded
from roofbook.book.replay_notebook import replay
from roofbook.spec import registry
from roofbook.store.parquet import Store

root = Path(sys.argv[1])
store = Store(root / "results")
notebook = json.loads((root / "experiments" / "stencil.ipynb").read_text())
data = recorded(registry.get("stencil"), store, "published")[0]
print(hashlib.sha256(json.dumps(replay(notebook, data, store)).encode()).hexdigest())
"""


@pytest.mark.thorough
def test_tables_and_figures_of_a_lab_have_the_same_bytes_under_any_hash_seed() -> None:
    def digest_with_seed(seed: int) -> str:
        environment = os.environ | {"PYTHONHASHSEED": str(seed)}
        command = [sys.executable, "-c", DIGEST_OF_DRAWING, str(Path(__file__).parents[3])]
        return subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout

    first = digest_with_seed(1)
    assert len(first.strip()) == 64 and digest_with_seed(2) == first
