"""One style sheet made of those of a theme and its extensions: the rules that a site can use, in their order.

For pages.py. A rule is dropped if it names a class or an id that no page and no script contains. Fonts are dropped too, since
pages use the reader's system fonts, and animations and variables that no rule uses.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping

_STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''
_TOKEN = re.compile(rf"{_STRING}|url\([^)\"']*\)|[{{}};]", re.S)
_NAMED = re.compile(r"[.#](-?[A-Za-z_](?:\\.|[\w-])*)")
GROUPS = ("@media", "@supports", "@layer", "@container")


def words(*texts: str) -> set[str]:
    """Return all words of these texts that may be names of classes or ids. The texts are attributes' values or scripts."""
    return {word for text in texts for word in re.findall(r"[\w-]+", text)}


def combine(
    sheets: Mapping[str, str], used: Collection[str], elsewhere: str = "", keep_all: Collection[str] = ()
) -> str:
    """Return the rules of all sheets that can match.

    sheets: text by address below the folder of the result. used: all names of classes and ids. elsewhere: other text that may
    use variables, such as scripts or `style` attributes. keep_all: sheets whose rules all stay, since scripts may construct
    their names.
    """
    imported = {import_address for address, text in sheets.items() for import_address, _ in imports(address, text)}
    texts = {address: _with_imports(address, sheets) for address in sheets if address not in imported}
    kept_rules = "\n".join(
        "\n".join(_matching_rules(text, None if name in keep_all else used)) for name, text in texts.items()
    )
    return without_unused(kept_rules, elsewhere) + "\n"


def imports(address: str, text: str) -> list[tuple[str, str]]:
    """Return (address, import statement) for each sheet that a sheet imports."""
    statements = re.finditer(r"@import\s+(?:url\()?[\"']?([^\"')]+)[\"']?\)?\s*;", text)
    return [
        (posixpath.normpath(posixpath.join(posixpath.dirname(address), statement[1])), statement[0])
        for statement in statements
    ]


def _with_imports(address: str, sheets: Mapping[str, str]) -> str:
    """Return a sheet without comments, with the sheets it imports, and with addresses relative to the folder of the result."""
    text = re.sub(rf"({_STRING})|/\*.*?\*/", lambda m: m[1] or "", sheets[address], flags=re.S)
    text = text.replace('@charset "UTF-8";', "").lstrip("\ufeff")
    imported = imports(address, text)
    for _, line in imported:
        text = text.replace(line, "")
    folder = posixpath.dirname(address)

    def moved_url(match: re.Match[str]) -> str:
        return f"url({posixpath.normpath(posixpath.join(folder, match[1]))})"

    text = re.sub(r"url\([\"']?(?![\"']?(?:data:|https?:|/|#))([^\"')]+)[\"']?\)", moved_url, text)
    return "\n".join([_with_imports(import_address, sheets) for import_address, _ in imported] + [text])


def rules(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield (head, body) of each rule: the text before its braces and within them; (statement, None) for a statement."""
    depth, start, opened = 0, 0, 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{":
                depth += 1
                opened = token.end() if depth == 1 else opened
            case "}":
                depth -= 1
                if not depth:
                    yield text[start : opened - 1].strip(), text[opened : token.start()].strip()
                    start = token.end()
            case ";" if not depth:
                yield text[start : token.start()].strip(), None
                start = token.end()


def _matching_rules(text: str, used: Collection[str] | None) -> Iterator[str]:
    for head, body in rules(text):
        if body is None:
            yield f"{head};"
        elif head.startswith(GROUPS):
            if inside := "\n".join(_matching_rules(body, used)):
                yield f"{_tight(head)}{{\n{inside}\n}}"
        elif head.startswith("@"):
            if not head.startswith("@font-face"):
                yield f"{_tight(head)}{{{_tight(body)}}}"
        elif body and (selectors := [selector for selector in alternatives(head) if _can_match(selector, used)]):
            yield f"{_tight(','.join(selectors))}{{{_tight(body)}}}"


def alternatives(selectors: str) -> list[str]:
    """Split selectors at commas outside parentheses and brackets."""
    parts, depth = [""], 0
    for piece in re.findall(rf"\\.|{_STRING}|[(),\[\]]|[^(),\[\]\\\"']+", selectors, re.S):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and not depth:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def _can_match(selector: str, used: Collection[str] | None) -> bool:
    """Return whether all classes and ids of a selector are used.

    Names in parentheses do not count: `:not(.a)` needs no `.a`.
    """
    if used is None:
        return True
    return all(re.sub(r"\\(.)", r"\1", name) in used for name in _NAMED.findall(outside_parentheses(selector)))


def outside_parentheses(selector: str) -> str:
    """Return a selector without its parts in parentheses and brackets."""
    plain = re.sub(rf"\[(?:{_STRING}|[^]\"'])*\]", "", selector)
    while plain != (plain := re.sub(r"\([^()]*\)", "", plain)):
        pass
    return plain


def _tight(text: str) -> str:
    """Return text without redundant white space."""
    pieces = re.split(rf"({_STRING})", text)
    pieces[::2] = [re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", piece)) for piece in pieces[::2]]
    pieces[::2] = [re.sub(r"(?<=[;{])([\w-]+):\s+|^([\w-]+):\s+", _colon, piece) for piece in pieces[::2]]
    return "".join(pieces).strip().rstrip(";")


def _colon(match: re.Match[str]) -> str:
    return f"{match[1] or match[2]}:"


def without_unused(sheet: str, elsewhere: str) -> str:
    """Return a sheet without variables and animations that neither its rules nor `elsewhere` use, repeatedly."""
    while (fewer := _without_unused(sheet, elsewhere)) != sheet:
        sheet = fewer
    return sheet


def _without_unused(sheet: str, elsewhere: str) -> str:
    read = set(re.findall(r"var\(\s*(--[\w-]+)", sheet)) | set(re.findall(r"--[\w-]+", elsewhere))
    sheet = re.sub(
        rf"(?<=[;{{])(--[\w-]+):(?:{_STRING}|[^;{{}}\"'])*(?:;|(?=\}}))",
        lambda m: m[0] if m[1] in read else "",
        sheet,
    )
    animated = " ".join(re.findall(r"animation(?:-name)?:([^;}]*)", sheet)) + elsewhere
    frames = r"@(?:-webkit-)?keyframes ([\w-]+)\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}\n?"
    sheet = re.sub(frames, lambda m: m[0] if re.search(rf"\b{m[1]}\b", animated) else "", sheet)
    return re.sub(r"(?:^|(?<=\n))[^{}@\n]*\{\}\n?", "", sheet)
