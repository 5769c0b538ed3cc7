"""The sentences of a page in Markdown, to find those that are too long to be understood at the first reading."""

import re
from collections.abc import Iterator

MOST_WORDS = 30
"""Number of words of a sentence."""
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


def long_sentences(text: str) -> list[tuple[int, str, int]]:
    """Return (line, sentence, number of words) of each sentence with more than MOST_WORDS."""
    return [
        (line, sentence, count)
        for line, paragraph in paragraphs(text)
        for sentence in sentences(paragraph)
        if (count := words(sentence)) > MOST_WORDS
    ]
