"""Each function of escaping.py: hostile text comes out as text where it is shown, and harmless text as it was."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import html5lib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from roofbook import escaping

from .hostile import CONTROLS, FORMULA, HALF, HOSTILE

ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)
"""Texts with any code point, halves of surrogate pairs among them."""
PLAIN = "12.3 µs [12.1, 12.6]: größer → `fused`, 3 × 4\u202f%"


def test_harmless_text_stays_as_it_is() -> None:
    assert escaping.printable(f"{PLAIN}\n\tb") == f"{PLAIN}\n\tb"
    assert escaping.escape(PLAIN) == PLAIN
    assert escaping.file_name("nvidia-geforce-rtx-4090-laptop-gpu") == "nvidia-geforce-rtx-4090-laptop-gpu"
    assert escaping.spreadsheet("a = b") == "a = b" and escaping.spreadsheet("-1.5e3") == "-1.5e3"
    assert escaping.raw_html("<p>a</p>") == "```{raw} html\n<p>a</p>\n```\n"
    assert escaping.markdown_code("fused@wg=16x4") == "`fused@wg=16x4`"
    assert escaping.read_json('{"a": "\\ud83d\\ude00\\u001b"}') == {"a": "\U0001f600\x1b"}


@given(ANY)
def test_printable_text_has_nothing_that_a_terminal_obeys(text: str) -> None:
    printable = escaping.printable(text)
    assert not CONTROLS.search(printable) and escaping.printable(printable) == printable
    printable.encode()


@given(ANY)
def test_html_shows_the_printable_text(text: str) -> None:
    markup = f'<p title="{escaping.escape(text)}">{escaping.escape(text)}</p>'
    paragraph = html5lib.parse(markup, namespaceHTMLElements=False).find(".//p")
    assert paragraph.get("title") == "".join(paragraph.itertext()) == escaping.printable(text)
    assert not list(paragraph)


@given(ANY)
def test_json_neither_ends_its_script_nor_swallows_the_page(text: str) -> None:
    page = f"<body><script type='application/json'>{escaping.page_json({text: [text, 1.5]})}</script><p>after</p>"
    tree = html5lib.parse(page, namespaceHTMLElements=False)
    assert [paragraph.text for paragraph in tree.findall(".//p")] == ["after"]
    printable = escaping.printable(text)
    assert json.loads(tree.find(".//script").text) == {printable: [printable, 1.5]}
    assert json.loads(f"[{escaping.script_json(text, [text])}]") == [printable, [printable]]


@pytest.mark.parametrize("text", [HOSTILE, "</script><!--<script>", "a\u2028b", HALF])
def test_json_in_a_page_has_no_markup(text: str) -> None:
    assert not re.search("[<>&\u2028\u2029]", escaping.page_json(text))


@pytest.mark.parametrize(
    "text", [HOSTILE, "- a", "#", "[a]: http://b", "{ref}`a`", "a\\", "``` a ```", "&amp;", "$x$", "<!--"]
)
def test_markdown_shows_the_text_on_one_line(text: str) -> None:
    line = " ".join(escaping.printable(text).split())
    for markdown in (f"It says {escaping.markdown(text)}.", f"It says {escaping.markdown_code(text)}."):
        (paragraph,) = html5lib.parse(MarkdownIt().render(markdown), namespaceHTMLElements=False).find("body")
        assert "".join(paragraph.itertext()) == f"It says {line}."
        assert [element.tag for element in paragraph] in ([], ["code"])


@pytest.mark.parametrize("markup", [HOSTILE, "a\n```\n<script>", "`````", "<pre>```{note}\n```</pre>"])
def test_raw_html_stays_within_its_fence(markup: str) -> None:
    tokens = MarkdownIt().parse(f"before\n\n{escaping.raw_html(markup)}\nafter\n")
    assert [token.type for token in tokens if token.type == "fence"] == ["fence"]
    fence = next(token for token in tokens if token.type == "fence")
    assert fence.info == "{raw} html" and fence.content.startswith(markup[:5].replace("\x1b", "\x1b"))
    assert [token.content for token in tokens if token.type == "inline"] == ["before", "after"]


@given(ANY)
def test_a_file_name_stays_in_its_folder(text: str) -> None:
    name = escaping.file_name(text)
    assert re.fullmatch(r"[A-Za-z0-9_+@=~-][A-Za-z0-9_.+@=~-]*", name) and len(name) < 60
    assert os.path.basename(name) == name and Path(name).name == name


@given(ANY, ANY)
def test_two_texts_have_two_file_names(first_text: str, second_text: str) -> None:
    assert (escaping.file_name(first_text) == escaping.file_name(second_text)) == (first_text == second_text)


@pytest.mark.parametrize("text", [FORMULA, "+1+1", "-a", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"])
def test_no_spreadsheet_computes_a_text(text: str) -> None:
    assert escaping.spreadsheet(text) == f"'{text}"
    frame = pd.DataFrame({text: [text, None, "a"], "n": [-1, 2, 3], "x": [-0.5, np.nan, 1.0]})
    escaped = escaping.spreadsheet_frame(frame)
    assert list(escaped.columns) == [f"'{text}", "n", "x"] and escaped.iloc[0, 0] == f"'{text}"
    assert escaped["n"].tolist() == [-1, 2, 3] and escaped["x"][0] == -0.5 and frame.iloc[0, 0] == text


def test_half_a_surrogate_pair_in_json_can_be_written() -> None:
    parsed = escaping.read_json(json.dumps({"a": HALF, "b": [{HALF: 1.5}]}))
    assert parsed == {"a": "\\ud800", "b": [{"\\ud800": 1.5}]}


def test_all_html_is_escaped_by_one_function() -> None:
    """Python's own html.escape leaves characters in the text that hide others or change the direction of writing."""
    library = Path(escaping.__file__).parent
    other_modules = [path for path in library.rglob("*.py") if path.name != "escaping.py"]
    offenders = [
        str(path)
        for path in other_modules
        if re.search(r"html import .*\bescape\b|html\.escape\(", path.read_text("utf-8"))
    ]
    assert not offenders
