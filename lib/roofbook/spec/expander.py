"""The preprocessor that expands kernel texts: pcpp, with our rules for comments, errors and included files.

source.py imports it when it expands the first text, since pcpp takes a while to import.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pcpp

from .included_files import MAY_INCLUDE, may_be_included
from .preprocessor import Preprocessor


class Expander(Preprocessor):
    """Preprocessor of one kernel's text. After `parse` and `text`, `problems` and `unknown` say what was wrong with it."""

    problems: list[str]
    """Errors, each with its file."""
    unknown: list[str]
    """Macros without a value in conditions: C takes them for 0, and so picks a choice that nobody asked for."""

    def __init__(self, path: Path, above: str, folders: Sequence[Path], *, is_strangers: bool, file_mark: str) -> None:
        """path: the kernel's file. above: the text before its first line, whose last line is a comment that marks the end.

        folders: those of files that it may include. is_strangers: whether it may include no others, and loses its comments.
        file_mark: separator between a comment and the name of its file; '' for comments as they are.
        """
        super().__init__()
        self.problems, self.unknown = [], []
        self._path, self._above, self._folders = path, above, folders
        self._is_strangers, self._file_mark = is_strangers, file_mark
        self._marker = above.splitlines()[-1]
        self.assume_encoding = "utf-8-sig"
        self.line_directive = None
        self.expand_filemacro = not is_strangers
        for folder in folders:
            self.add_path(str(folder))
        self.rewrite_paths: list[tuple[str, str]] = []  # absolute ones stay so

    def text(self) -> str:
        """Return the expanded text of what was parsed."""
        out = io.StringIO()
        self.write(out)
        return out.getvalue()

    def on_comment(self, token: Any) -> bool:
        if token.value.strip() == self._marker:
            return True
        if self._file_mark and token.value.startswith("//"):
            token.value += f"{self._file_mark}{Path(token.source or self._path).name}"
        return not self._is_strangers  # comments stay: the result is to be read

    def on_error(self, file: str, line: int, message: str) -> None:
        self.problems.append(f"{file}:{line}: {message}")

    def on_unknown_macro_in_expr(self, ident: str) -> int:
        self.unknown.append(ident)
        return 0

    def on_include_not_found(self, malformed: bool, system: bool, folder: str, name: str) -> None:
        absent = f"{self._path.name} includes {name}, which is not there"
        if self._is_strangers:
            self.problems.append(f"{absent}; {MAY_INCLUDE}")
        elif not system:
            self.problems.append(absent)
        raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)

    def on_directive_unknown(self, directive: Any, words: list[Any], *args: Any) -> Any:
        if directive.value == "error":
            line = directive.lineno - (self._above.count("\n") if directive.source == str(self._path) else 0)
            text = "".join(word.value for word in words).strip()
            self.problems.append(f"{Path(directive.source).name}:{line}: #error {text}")
            return True
        return super().on_directive_unknown(directive, words, *args)

    def on_file_open(self, system: bool, file: str) -> Any:
        if self._is_strangers and not may_be_included(Path(file), self._folders):
            raise FileNotFoundError(file)
        return super().on_file_open(system, file)
