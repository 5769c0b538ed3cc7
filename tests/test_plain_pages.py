"""The sentences of the pages: short enough to be understood at the first reading."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook.spec import registry

ROOT = Path(__file__).parents[1]
MOST_WORDS = 30
PERMITTED: dict[str, str] = {}
"""First words of each sentence that may be longer, with the reason."""
DIRECTIVES_OF_PROSE = ("fragments", "glossary", "in-a-browser", "note", "repository", "rst-class")
"""Directives of Sphinx that hold sentences; all other fences hold code or markup."""
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|cf|vs|al|Fig|Sec|Eq|approx)\.$")
LIST_ITEM = re.compile(r"([-*+]|\d+\.|:) +")
FENCE = re.compile(r"(```+|~~~+)(?:\{([\w-]+)\})?")
NO_PROSE = re.compile(r"#|\||:::|<.*>$|!\[|\([\w-]+\)=$|:\w+:|%")
"""Beginning of a line that is no part of a sentence: a heading, a table, a picture, an anchor, an option."""


def paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the text of each paragraph, list item and definition of a page."""
    start, held = 0, list[str]()
    code = ""  # the fence that ends the code, while in code
    directives = list[str]()  # the fences that end the directives of prose around a line
    for number, line in enumerate(without_front_matter(text), 1):
        stripped = line.strip()
        fence = FENCE.match(stripped)
        if code:
            code = "" if fence and fence[1].startswith(code) and stripped == fence[1] else code
            continue
        if fence and fence[2] in DIRECTIVES_OF_PROSE:
            directives.append(fence[1])
        elif fence and directives and stripped == directives[-1]:
            directives.pop()
        elif fence:
            code = fence[1]
        list_item = LIST_ITEM.match(stripped)
        prose = bool(stripped) and not fence and not NO_PROSE.match(stripped)
        if held and (list_item or not prose):
            yield start, " ".join(held)
            held = []
        if prose:
            start = start if held else number
            held.append(stripped[list_item.end() :] if list_item else stripped)
    if held:
        yield start, " ".join(held)


def without_front_matter(text: str) -> Iterator[str]:
    """Yield the lines of a page, those of its front matter and of displayed formulas as empty ones."""
    front, formula = text.startswith("---\n"), False
    for number, line in enumerate(text.splitlines()):
        marks = line.count("$$")
        yield "" if front or formula or marks else line
        formula ^= marks % 2 == 1
        front &= number == 0 or line != "---"


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph: formulas and code are one word each, links have no address."""
    text = re.sub(r"\{term\}`([^`<]+?)( <[^`]*)?`", r"\1", paragraph)
    text = re.sub(r"\{[\w-]+\}(?=`)", "", text)
    text = re.sub(r"(`+)(.+?)\1", lambda code: "`" + re.sub(r"\W", "_", code[2]) + "`", text)
    text = re.sub(r"\$[^$]+\$", "$formula$", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"<[^<>]+>", "", text).strip()
    ended, start = list[str](), 0
    for end in re.finditer(r"[.!?][*_\"')\]]*(?=\s|$)", text):
        if not ABBREVIATION.search(text[: end.end()]) or end.end() == len(text):
            ended.append(text[start : end.end()].strip())
            start = end.end()
    return ended + ([text[start:].strip()] if text[start:].strip() else [])


def words(sentence: str) -> int:
    """Return the number of words of a sentence: what stands between spaces and has a letter or a digit."""
    return len(re.findall(r"\S*\w\S*", sentence))


def texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page, of each cell of text in a notebook, of each step, and of each claim."""
    for path in (*sorted((ROOT / "book").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        if "_build" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "experiments").rglob("*.ipynb")):
        if ".ipynb_checkpoints" in path.parts:
            continue
        for index, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            if cell["cell_type"] == "markdown":
                yield f"{path.relative_to(ROOT)}, cell {index}", "".join(cell["source"])
    for lab in map(registry.get, registry.names()):
        for variant in lab.all_variants():
            yield f"lab {lab.name}, {variant.name}, change", variant.change
            yield f"lab {lab.name}, {variant.name}, expect", variant.expect
    for path in sorted((ROOT / "results" / "published" / "claims").glob("*.csv")):
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
            yield f"{path.relative_to(ROOT)}, {row['id']}", row["claim"]


def long_sentences() -> list[tuple[str, str]]:
    """Return `file:line: number of words` and the sentence, for each one of more than MOST_WORDS."""
    return [
        (f"{name}:{line}: {words(sentence)} words", sentence)
        for name, text in texts()
        for line, paragraph in paragraphs(text)
        for sentence in sentences(paragraph)
        if words(sentence) > MOST_WORDS
    ]


def test_sentences_are_short() -> None:
    too_long = [
        f"{where}: {sentence}" for where, sentence in long_sentences() if not sentence.startswith(tuple(PERMITTED))
    ]
    assert not too_long, "\n".join([f"{len(too_long)} sentences have over {MOST_WORDS} words:", *too_long])


def test_each_permitted_sentence_is_still_there() -> None:
    long = [sentence for _, sentence in long_sentences()]
    assert not [beginning for beginning in PERMITTED if not any(sentence.startswith(beginning) for sentence in long)]
    assert all(len(reason.split()) >= 3 for reason in PERMITTED.values())


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ("PoCL 7.1 takes 0.5 s. nvbench takes less.", ["PoCL 7.1 takes 0.5 s.", "nvbench takes less."]),
        ("It is a host in C. So it is slower.", ["It is a host in C.", "So it is slower."]),
        ("It lacks 3 steps. nvbench has them.", ["It lacks 3 steps.", "nvbench has them."]),
        ("A cache, e.g. L2, i.e. the last one, cf. Fig. 3, ends here. So it does.", None),
        (
            "**Cold.** It is empty. *Which?* A.",
            ["**Cold.**", "It is empty.", "*Which?*", "A."],
        ),
        ("(It holds. Really.) It does.", ["(It holds.", "Really.)", "It does."]),
        ('He said "stop." Then it stopped.', ['He said "stop."', "Then it stopped."]),
        ("Call `a. B(c)`. See `results/x.py`: it ends.", ["Call `a__B_c_`.", "See `results_x_py`: it ends."]),
        (
            "See [the. Page](https://a.b/c. D) now. A {term}`b c <d>`. {cite}`e f`.",
            ["See the.", "Page now.", "A b c.", "`e_f`."],
        ),
        ("With $x. Y$ it holds. So $f$ is 1.", ["With $formula$ it holds.", "So $formula$ is 1."]),
        ("a: one; two", ["a: one; two"]),
        ("", []),
    ],
)
def test_a_paragraph_is_split_into_sentences(paragraph: str, expected: list[str] | None) -> None:
    if expected is None:
        expected = ["A cache, e.g. L2, i.e. the last one, cf. Fig. 3, ends here.", "So it does."]
    assert sentences(paragraph) == expected


PAGE = """---
title: "No prose. None."
---
# A heading. Of a page

One sentence
on two lines.
- A list item
  goes on
- Another.
1. A number.

| a. | table. |
|---|---|

```sh
code. More code.
```

````{fragments} name.html
```{note}
Nothing is there. Yet.
```
````

```{glossary}
:sorted:

term
  Its meaning.
```

~~~python
```
x. y.
~~~

```
Output. More output.
```

$$
x. Y
$$

:::{div} way
**Read it.** Here.
:::

(anchor)=
<img src="a.b c">
Last.
"""


def test_a_page_has_paragraphs_without_code_tables_and_headings() -> None:
    assert list(paragraphs(PAGE)) == [
        (6, "One sentence on two lines."),
        (8, "A list item goes on"),
        (10, "Another."),
        (11, "A number."),
        (22, "Nothing is there. Yet."),
        (29, "term Its meaning."),
        (47, "**Read it.** Here."),
        (52, "Last."),
    ]


def test_a_long_sentence_is_counted_by_its_words() -> None:
    assert words("The *first* step -- `a b c` -- takes 3 %, of 12.5 GB/s.") == 11
    assert words(" ".join(["word"] * 31)) == 31
