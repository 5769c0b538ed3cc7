"""One style sheet of the many that a theme and its extensions bring: the rules that a site can use, in their order.

For pages.py. A rule goes where it names a class or an id that stands on no page and in no script; so do fonts, since pages
use those of the reader's system, and animations and variables that no rule uses.
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
    """What may be a name of a class or an id in these texts, such as the values of attributes or scripts."""
    return {word for text in texts for word in re.findall(r"[\w-]+", text)}


def joined(sheets: Mapping[str, str], used: Collection[str], elsewhere: str = "", whole: Collection[str] = ()) -> str:
    """The rules of the sheets, each by its address below the folder of the result, which something of `used` can match.

    used: all names of classes and ids. elsewhere: other text that may use variables, as a script or an attribute `style` does.
    whole: the sheets whose rules all stay, since scripts may make up names of theirs.
    """
    imported = {each for address, text in sheets.items() for each, _ in imports(address, text)}
    texts = {address: _with_imports(address, sheets) for address in sheets if address not in imported}
    kept = "\n".join("\n".join(_kept(text, None if name in whole else used)) for name, text in texts.items())
    return without_unused(kept, elsewhere) + "\n"


def imports(address: str, text: str) -> list[tuple[str, str]]:
    """The address of each sheet that a sheet imports, and the words that do so."""
    found = re.finditer(r"@import\s+(?:url\()?[\"']?([^\"')]+)[\"']?\)?\s*;", text)
    return [(posixpath.normpath(posixpath.join(posixpath.dirname(address), each[1])), each[0]) for each in found]


def _with_imports(address: str, sheets: Mapping[str, str]) -> str:
    """A sheet without comments, with those that it imports, and with its addresses from the folder of the result."""
    text = re.sub(rf"({_STRING})|/\*.*?\*/", lambda m: m[1] or "", sheets[address], flags=re.S)
    text = text.replace('@charset "UTF-8";', "").lstrip("\ufeff")
    found = imports(address, text)
    for _, line in found:
        text = text.replace(line, "")
    folder = posixpath.dirname(address)

    def moved(found: re.Match[str]) -> str:
        return f"url({posixpath.normpath(posixpath.join(folder, found[1]))})"

    text = re.sub(r"url\([\"']?(?![\"']?(?:data:|https?:|/|#))([^\"')]+)[\"']?\)", moved, text)
    return "\n".join([_with_imports(each, sheets) for each, _ in found] + [text])


def rules(text: str) -> Iterator[tuple[str, str | None]]:
    """What stands before the braces of each rule, and within; or a statement, and None."""
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


def _kept(text: str, used: Collection[str] | None) -> Iterator[str]:
    for head, body in rules(text):
        if body is None:
            yield f"{head};"
        elif head.startswith(GROUPS):
            if inside := "\n".join(_kept(body, used)):
                yield f"{_tight(head)}{{\n{inside}\n}}"
        elif head.startswith("@"):
            if not head.startswith("@font-face"):
                yield f"{_tight(head)}{{{_tight(body)}}}"
        elif body and (selectors := [each for each in alternatives(head) if _can_match(each, used)]):
            yield f"{_tight(','.join(selectors))}{{{_tight(body)}}}"


def alternatives(selectors: str) -> list[str]:
    """What stands between the commas, of those outside parentheses and brackets."""
    found, depth = [""], 0
    for piece in re.findall(rf"\\.|{_STRING}|[(),\[\]]|[^(),\[\]\\\"']+", selectors, re.S):
        depth += (piece in "([") - (piece in ")]")
        if piece == "," and not depth:
            found.append("")
        else:
            found[-1] += piece
    return found


def _can_match(selector: str, used: Collection[str] | None) -> bool:
    """Of what stands in parentheses nothing is asked: `:not(.a)` wants no `.a`, and `:is(.a, .b)` one of them."""
    if used is None:
        return True
    return all(re.sub(r"\\(.)", r"\1", name) in used for name in _NAMED.findall(outside_parentheses(selector)))


def outside_parentheses(selector: str) -> str:
    """What a selector asks for outside parentheses and brackets."""
    plain = re.sub(rf"\[(?:{_STRING}|[^]\"'])*\]", "", selector)
    while plain != (plain := re.sub(r"\([^()]*\)", "", plain)):
        pass
    return plain


def _tight(text: str) -> str:
    """Without the space that says nothing."""
    pieces = re.split(rf"({_STRING})", text)
    pieces[::2] = [re.sub(r"\s*([{};,>])\s*", r"\1", re.sub(r"\s+", " ", piece)) for piece in pieces[::2]]
    pieces[::2] = [re.sub(r"(?<=[;{])([\w-]+):\s+|^([\w-]+):\s+", _colon, piece) for piece in pieces[::2]]
    return "".join(pieces).strip().rstrip(";")


def _colon(found: re.Match[str]) -> str:
    return f"{found[1] or found[2]}:"


def without_unused(sheet: str, elsewhere: str) -> str:
    """Without variables and animations that neither the rules nor the text elsewhere name, nor what only those name."""
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
