"""A table as text of a given width: columns side by side while they fit, else in blocks that repeat the names of the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..escaping import printable
from ..terminal import command, filled, pieces, prose, width, wrapped

if TYPE_CHECKING:
    from .html import Cell, Table

GAP = 2
"""Spaces between two columns."""
COMFORT = 24
"""A column that wraps is made no narrower than this as long as there is another way."""
ABOVE = "(above)"
"""What stands for the rest of a cell whose columns lie in two blocks."""
_INDENT = 4


@dataclass(frozen=True)
class _Said:
    """A cell as text: the columns that it covers, and whether it is a command."""

    covers: range
    text: str
    command: bool = False

    @property
    def longest(self) -> int:
        return max(map(width, pieces(self.text)), default=0)


def fitted(table: "Table", most: int) -> str:
    """A table in at most `most` columns: cells wrap at spaces, and what is too wide becomes blocks that repeat the row's names.

    The first column and those with `key` among the classes of their heads name a row. Where not all stands side by side, what
    every row says alike is said once, in a line of its own, and a column of commands (`command`) or of remarks (`below`) moves
    below its row. A line is longer only where a word is longer than `most`.
    """
    return "\n".join(_Layout(table, most).lines())


class _Layout:
    def __init__(self, table: "Table", most: int) -> None:
        self.table, self.most = table, most
        self.classes = [column.css.split() for column in table.columns]
        self.said = [_line(table.columns, self.classes, head=True)]
        self.said += [_line(row.cells, self.classes) for row in table.rows]
        self.natural, self.least = [0] * len(self.classes), [0] * len(self.classes)
        for each in (each for line in self.said for each in line if len(each.covers) == 1):
            at = each.covers.start
            self.natural[at] = max(self.natural[at], width(each.text))
            self.least[at] = max(self.least[at], each.longest)
            if each.command:  # to be copied: it stands beside others on one line, or below them
                self.least[at] = self.natural[at]
        self.alike: list[int] = []
        self.below: list[int] = []
        self.blocks = self._blocks()

    def lines(self) -> Iterator[str]:
        yield from prose(self.table.caption, self.most)
        drawn = [self._drawn(number) for number in range(len(self.blocks))]
        for head, body, rule in drawn:
            yield from (rule, *head, rule, *body)
        yield drawn[-1][2]
        for at in self.alike:
            name, all_say = self.said[0][at].text, self._cell(self.said[1], at).text
            yield from prose(f"{name}: {all_say}" if name else all_say, self.most)
        for note in self.table.notes:
            yield from prose(note, self.most)

    def _blocks(self) -> list[list[int]]:
        """The columns of each block, those that name the row in all of them."""
        every = list(range(len(self.classes)))
        if self._stand(every):
            return [every]
        keys = [at for at in every if at == 0 or "key" in self.classes[at]]
        if self._needed(keys) + GAP + COMFORT > self.most:
            keys = [0]
        self.alike = [at for at in every if at not in keys and self._same(at)]
        asides = ("command", "below")
        rest = [at for at in every if at not in keys and at not in self.alike]
        if self._stand(keys + rest):
            return [sorted(keys + rest)]
        self.below = [
            at
            for at in rest
            if any(word in self.classes[at] for word in asides) or self._needed([*keys, at]) > self.most
        ]
        blocks: list[list[int]] = []
        for at in (at for at in rest if at not in self.below):
            if blocks and self._stand([*blocks[-1], at]):
                blocks[-1].append(at)
            else:
                blocks.append([*keys, at])
        return [sorted(block) for block in blocks] or [keys]

    def _stand(self, block: Sequence[int]) -> bool:
        """Whether columns can stand side by side, none of them narrower than is comfortable."""
        widths = [min(self.natural[at], max(self.least[at], COMFORT)) for at in block]
        return sum(widths) + GAP * (len(block) - 1) <= self.most

    def _needed(self, block: Sequence[int]) -> int:
        return sum(self.least[at] for at in block) + GAP * (len(block) - 1)

    def _same(self, at: int) -> bool:
        """Whether three rows or more say the same in a column that no cell spans."""
        cells = [self._cell(line, at) for line in self.said[1:]]
        return len(cells) > 2 and all(len(cell.covers) == 1 and cell.text == cells[0].text for cell in cells)

    @staticmethod
    def _cell(line: Sequence[_Said], at: int) -> _Said:
        return next((each for each in line if at in each.covers), _Said(range(at, at + 1), ""))

    def _widths(self, block: Sequence[int]) -> dict[int, int]:
        """What each column of a block gets: the same for all that wrap, no more than its text and no less than its words."""
        for level in range(self.most, 0, -1):
            found = {at: min(self.natural[at], max(self.least[at], level)) for at in block}
            if sum(found.values()) + GAP * (len(block) - 1) <= self.most:
                return found
        return {at: self.least[at] for at in block}

    def _drawn(self, number: int) -> tuple[list[str], list[str], str]:
        """Head, body and rule of a block."""
        widths = self._widths(self.blocks[number])
        head, *body = (self._row(line, number, widths) for line in self.said)
        across = sum(widths.values()) + GAP * (len(widths) - 1)
        rule = "-" * min(self.most, max([across, *map(width, head)]))
        return head, [line for row in body for line in row], rule

    def _row(self, line: Sequence[_Said], number: int, widths: dict[int, int]) -> list[str]:
        """The lines of a row in a block: its cells side by side, then what stands below them."""
        cells: list[tuple[int, bool, list[str]]] = []
        under: list[str] = []
        for each in line:
            own = [at for at in each.covers if at in widths]
            if not own:
                if number == len(self.blocks) - 1 and each.text and self._nowhere(each):
                    under += self._under(each)
                continue
            space = sum(widths[at] for at in own) + GAP * (len(own) - 1)
            text = each.text
            if len(each.covers) > 1:
                if own[-1] == max(widths):
                    space += self.most - sum(widths.values()) - GAP * (len(widths) - 1)
                begun = any(at in block for block in self.blocks[:number] for at in each.covers)
                if begun and own[0] != 0 and width(text) > space:
                    text = ABOVE if space >= len(ABOVE) else ""
                elif each.longest > space:
                    text, under = "", under + self._under(each)
            right = "num" in self.classes[own[0]] and len(each.covers) == 1
            cells.append((space, right, wrapped(text, space)))
        height = max((len(lines) for _, _, lines in cells), default=0)
        out = []
        for nth in range(height):
            parts = []
            for space, right, lines in cells:
                text = lines[nth] if nth < len(lines) else ""
                gap = " " * max(0, space - width(text))
                parts.append(gap + text if right else text + gap)
            out.append((" " * GAP).join(parts).rstrip(" "))
        return out + under

    def _nowhere(self, each: _Said) -> bool:
        """Whether no block has a column of the cell, nor the line of what all rows say alike."""
        shown = {at for block in self.blocks for at in block} | set(self.alike)
        return not shown & set(each.covers)

    def _under(self, each: _Said) -> list[str]:
        indent = min(_INDENT, max(0, self.most - each.longest))
        if each.command:
            return command(each.text, self.most, _INDENT)
        return filled(pieces(each.text), self.most, " " * indent, " " * indent)


def _line(cells: "Sequence[Cell]", classes: Sequence[Sequence[str]], head: bool = False) -> list[_Said]:
    """Cells as text, each with the columns that it covers."""
    out, at = [], 0
    for cell in cells:
        text = printable(" ".join(part for part in (cell.text, cell.small) if part))
        covers = range(at, at + cell.span)
        out.append(_Said(covers, " ".join(text.splitlines()), not head and "command" in classes[at]))
        at += cell.span
    return out
