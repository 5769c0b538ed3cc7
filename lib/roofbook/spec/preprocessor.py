"""pcpp with quicker tokens: expander.py and kernel_constants.py derive their preprocessors from it.

A file is cut into tokens once, though many steps include it, and a token is copied without Python's general protocol. Both
took half of the time of an expansion.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pcpp
from pcpp.parser import LexToken


class Token(LexToken):  # type: ignore[misc]
    """Token of pcpp that is copied quickly."""

    def __copy__(self) -> "Token":
        copied = Token.__new__(Token)
        copied.__dict__.update(self.__dict__)
        return copied


class Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
    """Preprocessor of pcpp that cuts each text into tokens once."""

    def group_lines(self, text: str, source: str | None) -> Iterator[list[Token]]:
        """Yield the tokens of each line. They are new ones: who takes them may change them."""
        for line in _lexed(text):
            tokens = []
            for fields in line:
                token = Token.__new__(Token)
                token.__dict__.update(fields, source=source)
                tokens.append(token)
            yield tokens

    def expand_macros(self, tokens: list[Any], expanding_from: list[str] = []) -> list[Any]:  # noqa: B006  # as in pcpp
        """Expand the macros among tokens, or return the tokens at once if there is none."""
        macros = self.macros
        if any(token.type == self.t_ID and (token.value in macros or token.value in _COUNTED) for token in tokens):
            expanded: list[Any] = super().expand_macros(tokens, expanding_from)
            return expanded
        return tokens


_COUNTED = ("__LINE__", "__COUNTER__")
"""Macros that pcpp computes."""


@lru_cache(maxsize=32)
def _lexed(text: str) -> list[list[dict[str, Any]]]:
    """Return the attributes of each token of each line of a text."""
    return [
        [{"type": t.type, "value": t.value, "lineno": t.lineno, "lexpos": t.lexpos} for t in line]
        for line in pcpp.Preprocessor().group_lines(text, None)
    ]
