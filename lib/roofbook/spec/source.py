"""Kernel text with knobs: it is resolved, rendered for a language, hashed and compared. Serves ladders and plans.

A knob is a macro that a variant may set (`LAYOUT=SOA`). The file that uses it documents it in its head (`// Knob LAYOUT: ...`),
gives its default in an `#ifndef`, and has its choices side by side. A knob without a value and without a default is an error.
A compiler gets exactly the text that `roofbook show` prints: knobs and dialect are expanded.

A folder of kernels has four kinds of files. `.k` files (kernels in the neutral dialect) and `.cu` or `.cl` files (in CUDA or
OpenCL) are never included. `.h` files stand alone and may be included anywhere and any number of times. `.inc` files are
pieces of the text around them; their first line lists the names that they use of it.
"""

import hashlib
import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from .. import paths
from ..devices import backends
from ..devices.contract import Unsupported
from ..errors import UsageError
from .host_code import hash_of_text, source_text
from .included_files import MAY_INCLUDE, forbidden_directive

_DIALECT_FOLDER = paths.LIBRARY / "spec" / "dialect"
Knob = int | float | str

_LINE_DIRECTIVES = ContextVar("line_directives", default=False)
_RENDERED: ContextVar["list[Source] | None"] = ContextVar("rendered_sources", default=None)


class TextError(UsageError, ValueError):
    """A kernel's text cannot be expanded with the knobs that are set."""


class Settings(dict[str, Knob]):
    """Knobs of a text with their values. Raises TextError for a knob that the text does not have."""

    def __init__(self, text: str, values: Mapping[str, Knob]) -> None:
        super().__init__(values)
        self.text = text

    def __missing__(self, name: str) -> Knob:
        raise TextError(f"{self.text} has no knob {name}, which its plan asks for")


@contextmanager
def rendered_sources() -> Iterator[list["Source"]]:
    """Note the sources that are rendered in this block, in their order: the kernels that a plan builds."""
    sources: list[Source] = []
    before = _RENDERED.set(sources)
    try:
        yield sources
    finally:
        _RENDERED.reset(before)


@contextmanager
def line_directives() -> Iterator[None]:
    """Have `Source.render` write #line directives with the file and line of each line, for tools that report lines.

    The code is the same, but the text is not laid out to be read.
    """
    before = _LINE_DIRECTIVES.set(True)
    try:
        yield
    finally:
        _LINE_DIRECTIVES.reset(before)


@dataclass(frozen=True)
class Source:
    """One kernel file and the values of its knobs."""

    path: Path
    """A `.k` file (neutral dialect), a `.cu` file (only CUDA C++) or a `.cl` file (only OpenCL C). It may include files of its
    folder and of the dialect."""
    knobs: tuple[tuple[str, Knob], ...] = field(default=())
    """(name, value) of each knob that is set, sorted."""
    pinned: frozenset[str] = frozenset()
    """Names of the knobs that a reader has turned: a plan must not set them to another value."""

    @classmethod
    def of(cls, path: Path, **knobs: Knob) -> "Source":
        """Return a source with knobs by name. Raise TextError for a knob, or a choice in capitals, that is not in the text."""
        for name, value in knobs.items():
            if not _has_word(path, name):
                raise TextError(f"{path.name} has no knob {name}")
            if str(value).isupper() and not _has_word(path, str(value)):
                raise TextError(f"{path.name}: knob {name} has no choice {value}")
        return cls(path, tuple(sorted(knobs.items())))

    def with_knobs(self, **knobs: Knob) -> "Source":
        """Return the same text with some knobs set to other values. Raise TextError as `of` does, and for a pinned knob."""
        before, changed = dict(self.knobs), dict(Source.of(self.path, **knobs).knobs)
        for name in self.pinned & changed.keys():
            if changed[name] != before[name]:
                raise TextError(
                    f"{self.path.name}: {name} cannot be turned: the launch or the case sets it, here to {changed[name]}"
                )
        return replace(self, knobs=tuple(sorted({**before, **changed}.items())))

    def turned(self, **knobs: Knob) -> "Source":
        """Return the result of `pinned_to`. Raise TextError as it does, and if no code changes."""
        changed = self.pinned_to(**knobs)
        if changed.sha256 == self.sha256:
            values = ", ".join(f"{name}={value}" for name, value in knobs.items())
            raise TextError(f"{self.path.name} is the same code with {values}")
        return changed

    def pinned_to(self, **knobs: Knob) -> "Source":
        """Return the same text with some knobs set and pinned. Raise TextError as `of` does, and for a knob that it lacks."""
        for name in knobs:
            if name not in self.settings:
                raise TextError(f"{self.path.name} has no knob {name}; its knobs: {', '.join(sorted(self.settings))}")
        return replace(self.with_knobs(**knobs), pinned=self.pinned | set(knobs))

    def of_size(self, sizes: Mapping[str, Knob]) -> "Source":
        """Return the same text for a problem size: with those knobs of `Lab.sizes` that it has."""
        return self.with_knobs(**{name: size for name, size in sizes.items() if _has_word(self.path, name)})

    def without(self, *names: str) -> "Source":
        """Return the same text with some knobs unset."""
        return replace(self, knobs=tuple(knob for knob in self.knobs if knob[0] not in names))

    @property
    def settings(self) -> Settings:
        """Values of all knobs: those that are set, and the text's defaults of the others."""
        return Settings(self.path.name, {**_defaults(self.path), **dict(self.knobs)})

    def documented(self) -> dict[str, str]:
        """Return knob -> first line of its description in the head of the file that documents it."""
        lines = re.findall(r"^// Knobs? ([A-Z][A-Z0-9_, ]*): *(.+)$", "\n".join(_family(self.path).values()), re.M)
        return {name: description for names, description in lines for name in re.findall(r"\w+", names)}

    def resolve(self) -> str:
        """Return the text with its knobs expanded and the words of the dialect left as they are, to be compared."""
        return _preprocess(self.path, self.knobs, None)

    def render(self, dialect: str) -> str:
        """Return the text in a plain language, such as OpenCL C, CUDA C++ or C, to read, to compile and to paste elsewhere.

        dialect: a backend's name, `c` or `wgsl`. Raise ValueError for an unknown language, or one that lacks features of
        `needs`, and Unsupported if a translator cannot say this text in it.
        """
        language = backends.language(dialect)
        if language is None:
            raise ValueError(f"no dialect {dialect!r}; there are {', '.join(backends.languages())}")
        if not self.needs <= language.features:
            capable = backends.with_features(self.needs)
            raise ValueError(f"{self.path.name} is {' and '.join(map(backends.label, sorted(capable)))} only")
        if (noted := _RENDERED.get()) is not None:
            noted.append(self)
        if _LINE_DIRECTIVES.get():
            return _expanded(self.path, self.knobs, _headers(dialect), lines=True)
        text = _preprocess(self.path, self.knobs, dialect)
        return translate(text, language.translator) if language.translator else text

    @property
    def files(self) -> tuple[Path, ...]:
        """The kernel's file, then all files that it may include."""
        return tuple(_family(self.path))

    @property
    def needs(self) -> frozenset[str]:
        """Features that a backend must have to compile this file."""
        return frozenset(_FEATURES_BY_SUFFIX.get(self.path.suffix, ()))

    @property
    def sha256(self) -> str:
        """Hash of the resolved text without comments and white space. Sources with equal hashes compile to the same code."""
        return self._hash_in(_current_family(self.path, _stamp))

    def _hash_in(self, family: "_Family") -> str:
        """Return `sha256` of this source with these texts of its files."""
        if self.knobs not in family.hashes:
            family.hashes[self.knobs] = hash_of_text(self.resolve())
        return family.hashes[self.knobs]

    def translation_sha256(self, dialect: str) -> str:
        """Hash what a language's translator, such as that of WGSL, makes of this text, without comments and white space.

        '' for a language without a translator. Raise Unsupported if the translator cannot say this text.
        """
        language = backends.language(dialect)
        if language is None or not language.translator:
            return ""
        return hash_of_text(translate(_preprocess(self.path, self.knobs, dialect), language.translator))

    def diff(self, parent: "Source", names: tuple[str, str] = ("parent", "variant"), dialect: str | None = None) -> str:
        """Return the unified diff from `parent` to this source; empty if they are equal.

        names: of both, in the head of the diff. dialect: a language to render both in; by default they are resolved.
        """
        from difflib import unified_diff

        before, after = (source.render(dialect) if dialect else source.resolve() for source in (parent, self))
        lines = unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="")
        return "\n".join(lines)


def hashes_of(sources: Iterable[Source]) -> list[str]:
    """Return `sha256` of each source. A file that many of them share is looked at once."""
    stamp = cache(_stamp)
    return [source._hash_in(_current_family(source.path, stamp)) for source in sources]


def _has_word(path: Path, word: str) -> bool:
    """Return whether a file, or one that it may include, has a word. A word that it lacked is sought again after an edit."""
    family = _FAMILIES.get(path)
    return (family is not None and word in family.words) or word in _current_family(path, _stamp).words


_DEFAULT = re.compile(r"^#ifndef (\w+)\n#define \1 (\S.*)$", re.M)


def _defaults(path: Path) -> dict[str, Knob]:
    """Return knob -> default, for a file and all files that it may include."""
    return {name: value for text in _family(path).values() for name, value in _defaults_of(text)}


@lru_cache(maxsize=1024)
def _defaults_of(text: str) -> tuple[tuple[str, Knob], ...]:
    """Return (knob, default) of each knob that a text documents and gives a default."""
    names = documented(text)
    return tuple(
        (name, int(value) if value.isdecimal() else value) for name, value in _DEFAULT.findall(text) if name in names
    )


def documented(text: str) -> list[str]:
    """Return the names of the knobs that the head of a text documents."""
    lines = re.findall(r"^// Knobs? ([A-Z][A-Z0-9_, ]*):", text, re.M)
    return [name for line in lines for name in re.findall(r"\w+", line)]


def _included(folder: Path, text: str) -> list[Path]:
    """Return the files that a text names in quotes: each from the kernel's folder, or else from the dialect's."""
    names = dict.fromkeys(re.findall(r'"([\w.]+\.\w+)"', text))
    candidates = ([file for file in (folder / name, _DIALECT_FOLDER / name) if file.is_file()] for name in names)
    return [files[0] for files in candidates if files]


def _family(path: Path) -> Mapping[Path, str]:
    """Return a file and all files that it may include, with their texts. They are read again after an edit."""
    return _current_family(path, _stamp).texts


def _current_family(path: Path, stamp_of: "Callable[[Path], _Stamp]") -> "_Family":
    """Return a file and all files that it may include. They are read again after an edit, which `stamp_of` tells."""
    family = _FAMILIES.get(path)
    if family is None or any(stamp_of(file) != stamp for file, stamp in family.stamps.items()):
        family = _FAMILIES[path] = _read_family(path)
    return family


_Stamp = tuple[int, int] | None
"""(time of the last change in ns, size in bytes) of a file; None if there is no such file."""


@dataclass(frozen=True)
class _Family:
    """A file and all files that it may include, as they were read."""

    texts: Mapping[Path, str]
    """The file itself is first."""
    stamps: Mapping[Path, _Stamp]
    """Stamps of the files, and of the folders where a further file may appear."""
    hashes: dict[tuple[tuple[str, Knob], ...], str] = field(default_factory=dict)
    """Knobs -> hash of the text with these knobs, of those that were asked for."""

    @cached_property
    def words(self) -> frozenset[str]:
        """Words of all these texts."""
        return frozenset().union(*map(_words_of, self.texts.values()))


@lru_cache(maxsize=1024)
def _words_of(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


_FAMILIES: dict[Path, _Family] = {}


def _stamp(file: Path) -> _Stamp:
    """Return a file's stamp, which tells an edit; None if there is no such file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _read_family(path: Path) -> _Family:
    """Read a file and all files that it may include."""
    stamps = {folder: _stamp(folder) for folder in (path.parent, _DIALECT_FOLDER)}
    texts: dict[Path, str] = {}
    pending = [path]
    while pending:
        file = pending.pop()
        if file not in texts:
            stamps[file] = _stamp(file)  # before it is read, so that an edit in between shows
            texts[file] = source_text(file)
            pending.extend(_included(path.parent, texts[file]))
    return _Family(MappingProxyType(texts), stamps)


_KNOB_LINES = re.compile(r"^(//\n)?(// (?:Knobs?|Uses) [^\n]*\n)(//  [^\n]*\n|// (?:Knobs?|Uses) [^\n]*\n)*", re.M)
"""Lines that document knobs, or the names that a fragment uses: an expanded text has neither."""


def _wrap(line: str, width: int = 116) -> str:
    """Break a long line after commas outside of strings, as a person would: expanded macros make long lines."""
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
"""(dialect header, ((word missing in this language, header that defines it), ...))"""


def _headers(dialect: str | None) -> Headers:
    """Read the headers of a language from their files; without a language they are empty, and the dialect's words stay."""
    if dialect is None:
        return "", ()
    language = backends.language(dialect)
    assert language is not None, dialect
    return source_text(language.dialect), tuple((word, source_text(file)) for word, file in language.lacks.items())


@lru_cache(maxsize=1024)
def _expand(
    path: Path, family: tuple[tuple[str, str], ...], knobs: tuple[tuple[str, Knob], ...], headers: Headers
) -> str:
    """Expand the text of `path`, or return it from a cache on the disk: to expand is the slowest part of a page.

    family: name and text of the file and of all files that it may include. headers: of the language. All arguments are in
    the key of the cache.
    """
    key = json.dumps([family, knobs, headers, _expander()])
    return paths.cached_text(
        "expanded", hashlib.sha256(key.encode()).hexdigest(), lambda: _expanded(path, knobs, headers)
    )


@lru_cache
def _expander() -> list[str]:
    """Return all else that an expanded text depends on: the dialect's files, the code here, and the preprocessor's version."""
    from importlib import metadata  # takes longer to import than all else here

    code = [
        Path(__file__).with_name(name) for name in ("source.py", "expander.py", "preprocessor.py", "included_files.py")
    ]
    files = [*sorted(_DIALECT_FOLDER.iterdir()), *code]
    return [*(source_text(file) for file in files if file.is_file()), metadata.version("pcpp")]


def _expanded(
    path: Path,
    knobs: tuple[tuple[str, Knob], ...],
    headers: Headers,
    *,
    lines: bool = False,
    lab_folder: Path | None = None,
) -> str:
    """Return the text with macros expanded, laid out to be read.

    lines: write #line directives instead, as in `line_directives`. lab_folder: set for a stranger's text, which may include
    only the kernel files of this folder and of the dialect.
    """
    from .expander import Expander  # pcpp takes a while to import

    prelude, lacks = headers
    above = f"{prelude}\n{_MARKER}\n"
    folders = (lab_folder or path.parent, _DIALECT_FOLDER)
    expander = Expander(
        path, above, folders, is_strangers=lab_folder is not None, file_mark="" if lines else _FILE_MARK
    )
    for name, value in knobs:
        expander.define(f"{name} {value}")
    expander.parse(f"{above}{source_text(path)}", str(path))
    text = _with_lines(expander, path, above.count("\n")) if lines else expander.text()
    if expander.problems:
        raise TextError("; ".join(expander.problems))
    text = text.split(_MARKER, 1)[1]
    if not lines:
        text = _laid_out(text, path.name)
    _refuse_unset(path, expander.unknown, text, documented(source_text(path)) if lab_folder else None)
    if lab_folder and (directive := forbidden_directive(text)):
        raise TextError(f"{path.name} has a directive that is none for a kernel: {directive}; {MAY_INCLUDE}")
    return _with_headers(text, lacks)


def _laid_out(text: str, main: str) -> str:
    """Return expanded text as a person would write it. main: name of its file."""
    text = re.sub(r"[ \t]+$", "", _without_lone_comments(text, main), flags=re.M)
    text = _KNOB_LINES.sub("", text)
    text = re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"
    return "\n".join(_wrap(line) for line in text.split("\n"))


def _with_headers(text: str, lacks: tuple[tuple[str, str], ...]) -> str:
    """Return a text below the headers that define the words in it which its language lacks. lacks: as in `Headers`."""
    for word, header in lacks:
        if re.search(word, text):
            text = header + text
    return text


def translate(text: str, translator: str) -> str:
    """Return expanded text in a language that a module translates to. Raise Unsupported if it cannot say this text."""
    translation, reason = _translation_or_reason(text, translator)
    if reason:
        raise Unsupported(reason)
    return translation


@lru_cache(maxsize=1024)
def _translation_or_reason(text: str, translator: str) -> tuple[str, str]:
    """Return (translation, '') or ('', why there is none), or the same from a cache on the disk.

    The key holds the text and the translator's files, so that no translation is older than what it came from.
    """
    module = importlib.import_module(translator)
    files = sorted(Path(str(module.__file__)).parent.glob("*.py"))
    key = paths.cache_key("translation, reason", text, *(source_text(file) for file in files))

    def as_json() -> str:
        try:
            lines = module.translated(text).split("\n")
        except Unsupported as reason:
            return json.dumps(["", str(reason)])
        return json.dumps(["\n".join(_wrap(line) for line in lines), ""])

    translation, reason = json.loads(paths.cached_text("translated", key, as_json))
    return translation, reason


_FEATURES_BY_SUFFIX = {".cu": ("cuda-c++",), ".cl": ("opencl-c",)}
"""Suffix of a kernel's file -> features that a backend must have to compile it. All compile the neutral dialect."""
_FILE_MARK = "\x1f"
"""Separator between a comment and the name of its file, while a text is expanded."""
_MARKER = "// <kernel>"
"""Line between a language's header and a kernel's text, while the text is expanded."""


def _without_lone_comments(text: str, main: str) -> str:
    """Return expanded text without comments of included files whose code is not there, such as that on a file of macros.

    A comment belongs to the code behind it. If comments of several files follow each other, only those of the last file and
    of `main` stay.
    """
    lines: list[str] = []
    comments: list[tuple[str, str]] = []

    def end_comments() -> None:
        last = next((file for _, file in reversed(comments) if file), "")
        lines.extend(comment for comment, file in comments if not file or file in (main, last))
        comments.clear()

    for line in text.split("\n"):
        comment, _, file = line.partition(_FILE_MARK)
        if line.lstrip().startswith("//"):
            comments.append((comment, file))
        elif line.strip():
            end_comments()
            lines.append(comment)
        else:
            comments.append((line, ""))
    end_comments()
    return "\n".join(lines)


def _with_lines(expander: Any, path: Path, above: int) -> str:
    """Return the expanded text with a #line directive before each line that does not follow the previous one in its file.

    above: number of lines that stand before the text of `path`.
    """
    out: list[str] = []
    line: list[Any] = []
    next_position = None
    for token in iter(expander.token, None):
        line.append(token)
        if not token.value.startswith("\n"):
            continue
        if first := next((word for word in line if word.value.strip()), None):
            file = first.source or str(path)
            number = first.lineno - (above if file == str(path) else 0)
            if (file, number) != next_position and number > 0:
                out.append(f'#line {number} "{file}"\n')
            text = "".join(word.value for word in line[:-1])
            out.append(f"{text}\n")
            next_position = file, number + 1 + text.count("\n")
        line.clear()
    return "".join([*out, *(token.value for token in line), "\n"])


def stranger_text(path: Path, knobs: tuple[tuple[str, Knob], ...], dialect: str, lab_folder: Path) -> str:
    """Return a stranger's text in a plain language, with #line for each of its lines.

    It may include the kernel files of `lab_folder` and of the dialect. Raise TextError if it asks for any other file, also by
    a directive that macros make or that only the compiler would see.
    """
    return _expanded(path, knobs, _headers(dialect), lines=True, lab_folder=lab_folder)


COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
"""A comment, or a string."""


def _refuse_unset(path: Path, unknown: list[str], expanded: str, knob_names: Sequence[str] | None) -> None:
    """Raise TextError if a condition asks for a macro without a value, or a knob without a value is left in the code.

    unknown: macros without a value in conditions. knob_names: by default those that the file and all files that it may
    include document.
    """
    if knob_names is None:
        knob_names = [name for text in _family(path).values() for name in documented(text)]
    words = {*unknown, *re.findall(r"\w+", COMMENT_OR_STRING.sub(" ", expanded))}
    if missing := sorted(words & set(knob_names)):
        raise TextError(f"{path.name}: neither a value nor a default for knob {', '.join(missing)}")
    if unknown:
        raise TextError(f"{path.name}: a condition asks for {', '.join(sorted({*unknown}))}, which nothing defines")


def _preprocess(path: Path, knobs: tuple[tuple[str, Knob], ...], dialect: str | None) -> str:
    family = tuple((file.name, text) for file, text in _family(path).items())
    return _expand(path, family, knobs, _headers(dialect))
