"""The sentences of the pages: short enough to be understood at the first reading."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook.book import prose
from roofbook.book.prose import MOST_WORDS, paragraphs, sentences, words
from roofbook.spec import registry
from roofbook.spec.lesson import lesson

ROOT = Path(__file__).parents[1]
PERMITTED: dict[str, str] = {}
"""First words of each sentence that may be longer, with the reason."""
MADE = frozenset({"_build", "_generated", "labs", "techniques"})
"""Folders of the book whose pages a build makes of the labs. Their sentences are those of the labs, or of references."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield name and text of each page, each cell of text in a notebook, each step, each part of a lesson, and each claim."""
    for path in (*sorted((ROOT / "book").rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        if not MADE.intersection(path.relative_to(ROOT).parts):
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
        if described := lesson(lab):
            for act in described.acts:
                yield f"lab {lab.name}, lesson, {act.title}", "\n\n".join((act.shows, act.task, act.outcome))
            for question in described.questions:
                yield f"lab {lab.name}, lesson, {question.text}", f"{question.text}\n\n{question.answer}"
    for path in sorted((ROOT / "results" / "published" / "claims").glob("*.csv")):
        for row in csv.DictReader(path.read_text(encoding="utf-8").splitlines()):
            yield f"{path.relative_to(ROOT)}, {row['id']}", row["claim"]


def long_sentences() -> list[tuple[str, str]]:
    """Return `file:line: number of words` and the sentence, for each one of more than MOST_WORDS."""
    return [
        (f"{name}:{line}: {count} words", sentence)
        for name, text in texts()
        for line, sentence, count in prose.long_sentences(text)
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
