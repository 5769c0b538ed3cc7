"""Kernel text with knobs. Knows no device: it resolves, renders, hashes and compares text.

A knob is a macro that may be set from outside (`LAYOUT=SOA`). The head of the file that uses it documents it (`// Knob LAYOUT:
...`), an `#ifndef` below gives its default, and its arms stand side by side. A knob that a text needs and that is neither
given nor has a default is an error. What a compiler gets is exactly what `roofbook show` prints: the text after the knobs
and the dialect have been expanded.

A folder of kernels has `.k` files (kernels in the neutral dialect) and `.cu` or `.cl` files (in CUDA or OpenCL), which are
never included; `.h` files, which stand alone and may be included anywhere and any number of times; and `.inc` files, which are
pieces of the text around them and say in their first line what they use of it.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .. import paths
from ..devices import backends
from ..errors import UsageError
from .host_code import hash_of_text, source_text

_DIALECT_FOLDER = paths.LIBRARY / "spec" / "dialect"
Knob = int | float | str

_LINED = ContextVar("lined", default=False)


class TextError(UsageError, ValueError):
    """A text and its knobs do not go together."""


class Settings(dict[str, Knob]):
    """The knobs of a text with their values. Errors: TextError where a plan asks for one that the text has not."""

    def __init__(self, text: str, values: Mapping[str, Knob]) -> None:
        super().__init__(values)
        self.text = text

    def __missing__(self, name: str) -> Knob:
        raise TextError(f"{self.text} has no knob {name}, which its plan asks for")


@contextmanager
def lined() -> Iterator[None]:
    """Within it, what `render` returns tells a compiler by #line from which file and line each of its lines comes.

    For tools that report lines. The code is the same; the text is laid out for no reader.
    """
    before = _LINED.set(True)
    try:
        yield
    finally:
        _LINED.reset(before)


@dataclass(frozen=True)
class Source:
    """One kernel file and the values of its knobs.

    `path` is a `.k` file (neutral dialect), or a `.cu` or `.cl` file (CUDA C++ or OpenCL C alone).
    Included files are looked up beside it.
    """

    path: Path
    knobs: tuple[tuple[str, Knob], ...] = field(default=())

    @classmethod
    def of(cls, path: Path, **knobs: Knob) -> "Source":
        """A source with knobs by name. ValueError for a knob or an arm that the text never names: a typo picks no arm."""
        for name, value in knobs.items():
            if not _names(path, name):
                raise TextError(f"{path.name} has no knob {name}")
            if str(value).isupper() and not _names(path, str(value)):
                raise TextError(f"{path.name}: knob {name} has no choice {value}")
        return cls(path, tuple(sorted(knobs.items())))

    def with_knobs(self, **knobs: Knob) -> "Source":
        """The same text with some knobs set otherwise."""
        turned = dict(Source.of(self.path, **knobs).knobs)
        return Source(self.path, tuple(sorted({**dict(self.knobs), **turned}.items())))

    def of_size(self, sizes: Mapping[str, Knob]) -> "Source":
        """The same text for a problem of these sizes: those of these knobs that it has."""
        return self.with_knobs(**{name: size for name, size in sizes.items() if _names(self.path, name)})

    def without(self, *names: str) -> "Source":
        """The same text with these knobs unset."""
        return replace(self, knobs=tuple(item for item in self.knobs if item[0] not in names))

    @property
    def settings(self) -> Settings:
        """Every knob that has a value here: those that are given, and for the others the default of the text."""
        return Settings(self.path.name, {**_defaults(self.path), **dict(self.knobs)})

    def documented(self) -> dict[str, str]:
        """Knob -> what the head of its file says of it, in the first line there."""
        found = re.findall(r"^// Knobs? ([A-Z][A-Z0-9_, ]*): *(.+)$", "\n".join(_family(self.path).values()), re.M)
        return {name: said for names, said in found for name in re.findall(r"\w+", names)}

    def resolve(self) -> str:
        """The text with its knobs expanded and the dialect's words left as they are: what a diff should compare."""
        return _preprocess(self.path, self.knobs, None)

    def render(self, dialect: str) -> str:
        """A plain language, such as OpenCL C, CUDA C++ or C, fit to read, to compile and to paste elsewhere.

        dialect: a backend's name, or `c`. ValueError for no language, or one that lacks what the file needs.
        """
        known = backends.languages()
        if dialect not in known:
            raise ValueError(f"no dialect {dialect!r}; there are {', '.join(known)}")
        if not self.needs <= known[dialect].features:
            found = backends.with_features(self.needs)
            raise ValueError(f"{self.path.name} is {' and '.join(map(backends.label, sorted(found)))} only")
        if _LINED.get():
            return _expanded(self.path, self.knobs, _headers(dialect), lines=True)
        return _preprocess(self.path, self.knobs, dialect)

    @property
    def files(self) -> tuple[Path, ...]:
        """The file and all that it may include, itself first."""
        return tuple(_family(self.path))

    @property
    def needs(self) -> frozenset[str]:
        """The features without which no backend takes this file."""
        return frozenset(_OF_LANGUAGE.get(self.path.suffix, ()))

    @property
    def sha256(self) -> str:
        """Of the resolved text without comments and white space: two sources with the same hash compile to the same code."""
        return hash_of_text(self.resolve())

    def diff(self, parent: "Source", names: tuple[str, str] = ("parent", "variant"), dialect: str | None = None) -> str:
        """Unified diff from `parent` to this source, resolved, or in a plain language; empty where nothing differs."""
        from difflib import unified_diff

        before, after = (each.render(dialect) if dialect else each.resolve() for each in (parent, self))
        lines = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
        return "\n".join(lines)


def _names(path: Path, word: str) -> bool:
    """Whether the file, or one that it includes, has the word."""
    if word not in _words(path):
        _words.cache_clear()  # it may have been edited since
    return word in _words(path)


@lru_cache(maxsize=256)
def _words(path: Path) -> frozenset[str]:
    """Of the file and of all that it may include; many files include the same ones, which are read once."""
    text = source_text(path)
    return frozenset(re.findall(r"\w+", text)).union(*(_words(file) for file in _included(path.parent, text)))


_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S.*)$", re.M)


def _defaults(path: Path) -> dict[str, Knob]:
    """The knobs that a kernel need not be given, and what they are then."""
    return {name: value for text in _family(path).values() for name, value in _defaults_of(text)}


@lru_cache(maxsize=1024)
def _defaults_of(text: str) -> tuple[tuple[str, Knob], ...]:
    mine = documented(text)
    return tuple(
        (name, int(value) if value.isdecimal() else value) for name, value in _DEFAULT.findall(text) if name in mine
    )


def documented(text: str) -> list[str]:
    """The knobs that the lines at the head of a file document."""
    lines = re.findall(r"^// Knobs? ([A-Z][A-Z0-9_, ]*):", text, re.M)
    return [name for line in lines for name in re.findall(r"\w+", line)]


def _included(folder: Path, text: str) -> list[Path]:
    """The files beside a kernel, else of the dialect, that its text names."""
    names = dict.fromkeys(re.findall(r'"([\w.]+\.\w+)"', text))
    found = ([file for file in (folder / name, _DIALECT_FOLDER / name) if file.is_file()] for name in names)
    return [files[0] for files in found if files]


def _family(path: Path) -> Mapping[Path, str]:
    """The file and all that it may include, with their texts, as they are now: read again where one was edited."""
    known = _FAMILIES.get(path)
    if known is None or any(_stamp(file) != stamp for file, stamp in known.stamps.items()):
        known = _FAMILIES[path] = _read_family(path)
    return known.texts


@dataclass(frozen=True)
class _Family:
    """Texts, and of their files and the folders where a file may come to stand the stamps by which an edit shows."""

    texts: Mapping[Path, str]
    stamps: Mapping[Path, tuple[int, int] | None]


_FAMILIES: dict[Path, _Family] = {}


def _stamp(file: Path) -> tuple[int, int] | None:
    """(when it was changed last, its size); None where it is gone."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _read_family(path: Path) -> _Family:
    stamps = {folder: _stamp(folder) for folder in (path.parent, _DIALECT_FOLDER)}
    texts: dict[Path, str] = {}
    open_ends = [path]
    while open_ends:
        file = open_ends.pop()
        if file not in texts:
            stamps[file] = _stamp(file)  # before it is read: an edit made meanwhile shows
            texts[file] = source_text(file)
            open_ends.extend(_included(path.parent, texts[file]))
    return _Family(MappingProxyType(texts), stamps)


_KNOB_LINES = re.compile(r"^(//\n)?(// (?:Knobs?|Uses) [^\n]*\n)(//  [^\n]*\n|// (?:Knobs?|Uses) [^\n]*\n)*", re.M)
"""The lines that document a file's knobs or what a fragment uses: to the reader of the result they tell nothing."""


def _wrap(line: str, width: int = 116) -> str:
    """Expanded macros make long lines: break them after commas outside of strings, as a person would."""
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    lines: list[str] = []
    while len(line) > width:
        code = line.partition("//")[0][:width]
        commas = [at for at in range(len(indent) + 1, len(code) - 1) if code[at : at + 2] == ", "]
        outside = [at for at in commas if code.count('"', 0, at) % 2 == 0]
        if not outside:
            break
        lines.append(line[: outside[-1] + 1])
        line = indent + line[outside[-1] + 2 :]
    return "\n".join([*lines, line])


Headers = tuple[str, tuple[tuple[str, str], ...]]
"""Of a language: the text that makes the dialect it, and (word that it lacks, text that defines it)."""


def _headers(dialect: str | None) -> Headers:
    """Those of a language, as they are now; none where the dialect is to stay."""
    if dialect is None:
        return "", ()
    language = backends.languages()[dialect]
    return source_text(language.dialect), tuple((word, source_text(file)) for word, file in language.lacks.items())


@lru_cache(maxsize=1024)
def _expand(
    path: Path, family: tuple[tuple[str, str], ...], knobs: tuple[tuple[str, Knob], ...], headers: Headers
) -> str:
    """The text of `path`, expanded, or as it was expanded before: that takes the longest of all that a page needs.

    family: name and text of the file and of all it includes. headers: of the language. An edit to any of these texts is
    another key of the cache.
    """
    said = json.dumps([family, knobs, headers, _expander()])
    return paths.cached_text(
        "expanded", hashlib.sha256(said.encode()).hexdigest(), lambda: _expanded(path, knobs, headers)
    )


@lru_cache
def _expander() -> list[str]:
    """What expands besides the text itself: the dialects, the preprocessor, and this file."""
    from importlib import metadata  # takes longer to import than all else here

    files = [*sorted(_DIALECT_FOLDER.iterdir()), Path(__file__)]
    return [*(source_text(file) for file in files if file.is_file()), metadata.version("pcpp")]


def _expanded(
    path: Path,
    knobs: tuple[tuple[str, Knob], ...],
    headers: Headers,
    *,
    lines: bool = False,
    lab_folder: Path | None = None,
) -> str:
    """The text with macros expanded, laid out to be read, or with `lines` as `lined` has it.

    lab_folder: the text is a stranger's. It may include the kernel files of this folder and of the dialect, and nothing else.
    """
    import pcpp  # takes a while

    problems: list[str] = []
    unknown: list[str] = []

    class Expander(pcpp.Preprocessor):  # type: ignore[misc]
        def on_comment(self, token: Any) -> bool:
            if token.value.strip() == marker:
                return True
            if not lines and token.value.startswith("//"):
                token.value += f"{_OF_FILE}{Path(token.source or path).name}"
            return lab_folder is None  # comments stay: the result is to be read

        def on_error(self, file: str, line: int, message: str) -> None:
            problems.append(f"{file}:{line}: {message}")

        def on_unknown_macro_in_expr(self, ident: str) -> int:
            unknown.append(ident)  # C takes it for 0, and so picks an arm that nobody asked for
            return 0

        def on_include_not_found(self, malformed: bool, system: bool, folder: str, name: str) -> None:
            if lab_folder:
                problems.append(f"{path.name} includes {name}, which is not there; {_MAY_INCLUDE}")
            elif not system:
                problems.append(f"{path.name} includes {name}, which is not there")
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)

        def on_directive_unknown(self, directive: Any, words: list[Any], *rest: Any) -> Any:
            if directive.value == "error":
                line = directive.lineno - (above.count("\n") if directive.source == str(path) else 0)
                text = "".join(word.value for word in words).strip()
                problems.append(f"{Path(directive.source).name}:{line}: #error {text}")
                return True
            return super().on_directive_unknown(directive, words, *rest)

        def on_file_open(self, system: bool, file: str) -> Any:
            if lab_folder and not _may_be_included(Path(file), lab_folder):
                raise FileNotFoundError(file)
            return super().on_file_open(system, file)

    expander = Expander()
    expander.assume_encoding = "utf-8-sig"
    expander.line_directive = None
    expander.expand_filemacro = lab_folder is None
    for folder in (lab_folder or path.parent, _DIALECT_FOLDER):
        expander.add_path(str(folder))
    for name, value in knobs:
        expander.define(f"{name} {value}")
    prelude, lacks = headers
    marker = "// <kernel>"
    above = f"{prelude}\n{marker}\n"
    expander.rewrite_paths = []  # absolute ones stay so
    expander.parse(f"{above}{source_text(path)}", str(path))
    if lines:
        text = _with_lines(expander, path, above.count("\n"))
    else:
        out = io.StringIO()
        expander.write(out)
        text = out.getvalue()
    if problems:
        raise TextError("; ".join(problems))
    text = text.split(marker, 1)[1]
    if not lines:
        text = re.sub(r"[ \t]+$", "", _without_lone_comments(text, path.name), flags=re.M)
        text = _KNOB_LINES.sub("", text)
        text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
        text = "\n".join(_wrap(line) for line in text.split("\n"))
    _need_all(path, unknown, text, documented(source_text(path)) if lab_folder else None)
    if lab_folder:
        _refuse_directives(path, text)
    for word, header in lacks:
        if re.search(word, text):
            text = header + text
    return text


_OF_LANGUAGE = {".cu": ("cuda-c++",), ".cl": ("opencl-c",)}
"""By the ending of a kernel's file, what a backend needs to take it; any takes the neutral dialect."""
_OF_FILE = "\x1f"
"""What stands between a comment and the name of its file while a text is expanded."""


def _without_lone_comments(text: str, main: str) -> str:
    """Return expanded text without comments of included files whose code is not there, such as that on a file of macros.

    A comment belongs to the code behind it. Of several files' comments in a row those of the last stay, and those of `main`.
    """
    kept: list[str] = []
    run: list[tuple[str, str]] = []

    def end_run() -> None:
        last = next((file for _, file in reversed(run) if file), "")
        kept.extend(comment for comment, file in run if not file or file in (main, last))
        run.clear()

    for line in text.split("\n"):
        comment, _, file = line.partition(_OF_FILE)
        if line.lstrip().startswith("//"):
            run.append((comment, file))
        elif line.strip():
            end_run()
            kept.append(comment)
        else:
            run.append((line, ""))
    end_run()
    return "\n".join(kept)


def _with_lines(expander: Any, path: Path, above: int) -> str:
    """What the preprocessor has left, and before each line that does not follow the one before it, #line with its place.

    above: lines that the text of `path` has before the file's own.
    """
    out: list[str] = []
    line: list[Any] = []
    due = None
    for token in iter(expander.token, None):
        line.append(token)
        if not token.value.startswith("\n"):
            continue
        if first := next((each for each in line if each.value.strip()), None):
            file = first.source or str(path)
            number = first.lineno - (above if file == str(path) else 0)
            if (file, number) != due and number > 0:
                out.append(f'#line {number} "{file}"\n')
            text = "".join(each.value for each in line[:-1])
            out.append(f"{text}\n")
            due = file, number + 1 + text.count("\n")
        line.clear()
    return "".join([*out, *(token.value for token in line), "\n"])


_MAY_INCLUDE = "the lab's own .k, .h and .inc files can be included by their names"
_HARMLESS = re.compile(
    r'\s*#\s*(?:line \d+ "[^"\\\n]*"'
    r"|pragma\s+(?:OPENCL|STDC|once|unroll|nounroll|clang\s+(?:loop|fp)|GCC\s+(?:unroll|ivdep))\b.*)?"
)
"""Directives that a compiler may still find in a stranger's text, whose others are done by then: none of them opens a file."""
_DIRECTIVE = re.compile(r"\s*(?:#|%:)|.*\*/\s*(?:#|%:)|.*\\\s*$")
"""A line that a compiler takes for a directive, also behind a comment, or that goes on in the next."""


def stranger_text(path: Path, knobs: tuple[tuple[str, Knob], ...], dialect: str, lab_folder: Path) -> str:
    """Return a stranger's text in a plain language, with #line for each of its lines.

    It may include the kernel files of `lab_folder` and of the dialect. TextError where it asks for any other file, also by a
    directive that macros make or that only the compiler would see.
    """
    return _expanded(path, knobs, _headers(dialect), lines=True, lab_folder=lab_folder)


def _may_be_included(file: Path, lab_folder: Path) -> bool:
    """Whether a file is a kernel file of the lab or of the dialect, and where it is a link, leads to one."""
    folders = {lab_folder.resolve(), _DIALECT_FOLDER.resolve()}
    real = file.resolve()
    return all(path.suffix in (".k", ".h", ".inc") for path in (file, real)) and real.parent in folders


def _refuse_directives(path: Path, expanded: str) -> None:
    """TextError where expanded text, without comments, has a directive by which a compiler may open a file."""
    for line in expanded.split("\n"):
        plain = line.replace("??=", "#").replace("??/", "\\")
        pragmas = re.findall(r'_Pragma\s*\(?\s*(?:"([^"]*)")?', plain)
        if (_DIRECTIVE.match(plain) and not _HARMLESS.fullmatch(line)) or not all(
            _HARMLESS.fullmatch(f"#pragma {words}") for words in pragmas
        ):
            words = " ".join(line.split())[:60]
            raise TextError(f"{path.name} has a directive that is none for a kernel: {words}; {_MAY_INCLUDE}")


_NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
"""Comments and strings."""


def _need_all(path: Path, unknown: list[str], expanded: str, known: Sequence[str] | None) -> None:
    """ValueError where the text asks for a macro that has no value: in a condition, or for a knob in the code itself.

    known: the knobs of the text; by default those that the file and all that it may include document.
    """
    knobs = {name for text in _family(path).values() for name in documented(text)} if known is None else set(known)
    left = knobs & set(re.findall(r"\w+", _NO_CODE.sub(" ", expanded)))
    missing = sorted(left | (knobs & set(unknown)))
    if missing:
        raise TextError(f"{path.name}: neither a value nor a default for knob {', '.join(missing)}")
    if unknown:
        raise TextError(f"{path.name}: a condition asks for {', '.join(sorted({*unknown}))}, which nothing defines")


def _preprocess(path: Path, knobs: tuple[tuple[str, Knob], ...], dialect: str | None) -> str:
    family = tuple((file.name, text) for file, text in _family(path).items())
    return _expand(path, family, knobs, _headers(dialect))
