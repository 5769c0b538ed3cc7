"""The constants of a kernel's text, for host code that launches it: each is written once, in the kernel.

`constants(source)["TILE_I"]` is the value of a macro with the source's knobs. `work_items(source, "tensor")` is the size of
the work-groups that a kernel is compiled for, as `KERNEL_OF` gives it.
"""

import json
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..paths import cache_key, cached_text
from .source import Knob, Source, TextError

_KERNEL = re.compile(r"\bKERNEL_OF\s*\(([^,]+),[^()]*\)[^;{}]*?\bvoid\s+(\w+)\s*\(")
_WORK_ITEMS = "work-items of "


class Constants(dict[str, int]):
    """Integer macros of a kernel's text by name. Raises TextError for a name that is none."""

    def __init__(self, file: str, values: dict[str, int]) -> None:
        super().__init__(values)
        self.file = file

    def __missing__(self, name: str) -> int:
        raise TextError(
            f"{self.file} has no constant {name}, which its plan asks for: write #define {name} and a number"
        )


def constants(source: Source) -> Constants:
    """Return the integer macros of a source with its knobs, those of included files among them."""
    texts = tuple(path.read_text(encoding="utf-8-sig") for path in source.files)
    return Constants(source.path.name, dict(_evaluated(source.path, source.knobs, texts)))


def work_items(source: Source, kernel: str) -> int:
    """Return the number of work-items in a group of a kernel. Raise TextError if the text does not fix it by KERNEL_OF."""
    values = constants(source)
    if _WORK_ITEMS + kernel not in values:
        raise TextError(f"{source.path.name} does not fix the groups of {kernel}: write KERNEL_OF(work-items, groups)")
    return values[_WORK_ITEMS + kernel]


@lru_cache(maxsize=256)
def _evaluated(path: Path, knobs: tuple[tuple[str, Knob], ...], texts: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """Evaluate the macros of a file. texts: those of the files that it may include. The values are cached on the disk."""
    key = cache_key(Path(__file__).read_text(encoding="utf-8"), str(path), *map(str, knobs), *texts)
    values: dict[str, int] = json.loads(
        cached_text("constants", key, lambda: json.dumps(_evaluate(path, knobs, texts[0])))
    )
    return tuple(values.items())


def _evaluate(path: Path, knobs: tuple[tuple[str, Knob], ...], text: str) -> dict[str, int]:
    """Return the value of each macro that is an integer, and of the first argument of each KERNEL_OF."""
    import pcpp  # takes a while

    from .preprocessor import Preprocessor
    from .source import _DIALECT_FOLDER

    class Evaluator(Preprocessor):
        is_number = True
        """Whether all words of the expression that is evaluated stand for numbers."""

        def on_unknown_macro_in_expr(self, ident: str) -> int:
            self.is_number = False
            return 0

        def on_error(self, *_: Any) -> None:
            self.is_number = False

        def on_include_not_found(self, *_: Any) -> None:
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndPassThrough)

        def value_of(self, tokens: list[Any]) -> int | None:
            self.is_number = True
            value, _ = self.evalexpr(tokens)
            return int(value) if self.is_number else None

    evaluator = Evaluator()
    evaluator.line_directive = None
    for folder in (path.parent, _DIALECT_FOLDER):
        evaluator.add_path(str(folder))
    for name, value in knobs:
        evaluator.define(f"{name} {value}")
    evaluator.parse(text, str(path))
    expanded = "".join(token.value for token in iter(evaluator.token, None))
    macros = {
        name: list(macro.value) for name, macro in evaluator.macros.items() if macro.arglist is None and macro.value
    }
    macros |= {_WORK_ITEMS + kernel: evaluator.tokenize(number) for number, kernel in _KERNEL.findall(expanded)}
    values = {name: evaluator.value_of(tokens) for name, tokens in macros.items() if not name.startswith("__")}
    return {name: value for name, value in values.items() if value is not None}
