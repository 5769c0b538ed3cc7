"""A table as text of a given width: columns side by side while they fit, else in blocks that repeat the rows' names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..escaping import printable
from ..terminal import command, filled, pieces, prose, width, wrapped
from .table_cell import Cell, Row

GAP = 2
"""Spaces between two columns."""
COMFORT = 24
"""Least width of a column that wraps, as long as there is another way."""
ABOVE = "(above)"
"""Text in place of the rest of a cell whose columns lie in two blocks."""
_INDENT = 4


@dataclass(frozen=True)
class _TextCell:
    """A cell as text: the columns that it covers, and whether it is a command."""

    covers: range
    text: str
    command: bool = False

    @property
    def longest(self) -> int:
        return max(map(width, pieces(self.text)), default=0)


def fitted(caption: str, heads: Sequence[Cell], rows: Sequence[Row], notes: Sequence[str], most: int) -> str:
    """Return a table as text of at most `most` columns: cells wrap at spaces, and wide tables become blocks.

    The first column and those with the class `key` name a row; each block repeats them. If the columns do not fit side by
    side, a text that is the same in every row is written once, in a line of its own, and columns of commands (`command`) or
    remarks (`below`) move below their row. A line is longer only if a word is longer than `most`.
    """
    lines = [*prose(caption, most), *_Layout(heads, rows, most).lines()]
    return "\n".join([*lines, *(line for note in notes for line in prose(note, most))])


class _Layout:
    def __init__(self, heads: Sequence[Cell], rows: Sequence[Row], most: int) -> None:
        self.most, self.classes = most, [head.css.split() for head in heads]
        self.lines_of_cells = [_line(heads, self.classes, head=True)]
        self.lines_of_cells += [_line(row.cells, self.classes) for row in rows]
        self.natural, self.least = [0] * len(self.classes), [0] * len(self.classes)
        for cell in (cell for line in self.lines_of_cells for cell in line if len(cell.covers) == 1):
            column = cell.covers.start
            self.natural[column] = max(self.natural[column], width(cell.text))
            self.least[column] = max(self.least[column], cell.longest)
            if cell.command:  # kept on one line, so that a reader can copy it
                self.least[column] = self.natural[column]
        self.alike: list[int] = []
        self.below: list[int] = []
        self.blocks = self._blocks()

    def lines(self) -> Iterator[str]:
        drawn = [self._block_lines(number) for number in range(len(self.blocks))]
        for head, body, rule in drawn:
            yield from (rule, *head, rule, *body)
        yield drawn[-1][2]
        for column in self.alike:
            name, all_say = self.lines_of_cells[0][column].text, self._cell_at(self.lines_of_cells[1], column).text
            with_colon = f"{name}:" if name and max(map(width, pieces(f"{name}:"))) <= self.most else name
            yield from prose(f"{with_colon} {all_say}".strip(), self.most)

    def _blocks(self) -> list[list[int]]:
        """Return the columns of each block, including those that name the row."""
        every = list(range(len(self.classes)))
        if self._fits(every):
            return [every]
        keys = [column for column in every if column == 0 or "key" in self.classes[column]]
        if self._least_width(keys) + GAP + COMFORT > self.most:
            keys = [0]
        self.alike = [column for column in every if column not in keys and self._is_alike(column)]
        asides = ("command", "below")
        remaining = [column for column in every if column not in keys and column not in self.alike]
        if self._fits(keys + remaining):
            return [sorted(keys + remaining)]
        self.below = [
            column
            for column in remaining
            if any(word in self.classes[column] for word in asides) or self._least_width([*keys, column]) > self.most
        ]
        blocks: list[list[int]] = []
        for column in (column for column in remaining if column not in self.below):
            if blocks and self._fits([*blocks[-1], column]):
                blocks[-1].append(column)
            else:
                blocks.append([*keys, column])
        return [sorted(block) for block in blocks] or [keys]

    def _fits(self, block: Sequence[int]) -> bool:
        """Return whether columns fit side by side, none narrower than is comfortable."""
        widths = [min(self.natural[column], max(self.least[column], COMFORT)) for column in block]
        return sum(widths) + GAP * (len(block) - 1) <= self.most

    def _least_width(self, block: Sequence[int]) -> int:
        return sum(self.least[column] for column in block) + GAP * (len(block) - 1)

    def _is_alike(self, column: int) -> bool:
        """Return whether a column has the same text in all of three rows or more, and no cell spans it."""
        cells = [self._cell_at(line, column) for line in self.lines_of_cells[1:]]
        return len(cells) > 2 and all(len(cell.covers) == 1 and cell.text == cells[0].text for cell in cells)

    @staticmethod
    def _cell_at(line: Sequence[_TextCell], column: int) -> _TextCell:
        return next((cell for cell in line if column in cell.covers), _TextCell(range(column, column + 1), ""))

    def _widths(self, block: Sequence[int]) -> dict[int, int]:
        """Return each column's width in a block: the same for columns that wrap, but no less than their longest word."""
        for level in range(self.most, 0, -1):
            widths = {column: min(self.natural[column], max(self.least[column], level)) for column in block}
            if sum(widths.values()) + GAP * (len(block) - 1) <= self.most:
                return widths
        return {column: self.least[column] for column in block}

    def _block_lines(self, number: int) -> tuple[list[str], list[str], str]:
        """Return head, body and rule of a block."""
        widths = self._widths(self.blocks[number])
        head, *body = (self._row(line, number, widths) for line in self.lines_of_cells)
        across = sum(widths.values()) + GAP * (len(widths) - 1)
        rule = "-" * min(self.most, max([across, *map(width, head)]))
        return head, [line for row in body for line in row], rule

    def _row(self, line: Sequence[_TextCell], number: int, widths: dict[int, int]) -> list[str]:
        """Return the lines of a row in a block: its cells side by side, then texts below them."""
        cells: list[tuple[int, bool, list[str]]] = []
        under: list[str] = []
        for cell in line:
            columns = [column for column in cell.covers if column in widths]
            if not columns:
                if number == len(self.blocks) - 1 and cell.text and self._is_in_no_block(cell):
                    under += self._lines_below(cell)
                continue
            space = sum(widths[column] for column in columns) + GAP * (len(columns) - 1)
            text = cell.text
            if len(cell.covers) > 1:
                if columns[-1] == max(widths):
                    space += self.most - sum(widths.values()) - GAP * (len(widths) - 1)
                shown_before = any(column in block for block in self.blocks[:number] for column in cell.covers)
                if shown_before and columns[0] != 0 and width(text) > space:
                    text = ABOVE if space >= len(ABOVE) else ""
                elif cell.longest > space:
                    text, under = "", under + self._lines_below(cell)
            right = "num" in self.classes[columns[0]] and len(cell.covers) == 1
            cells.append((space, right, wrapped(text, space)))
        height = max((len(lines) for _, _, lines in cells), default=0)
        out = []
        for line_number in range(height):
            parts = []
            for space, right, lines in cells:
                text = lines[line_number] if line_number < len(lines) else ""
                gap = " " * max(0, space - width(text))
                parts.append(gap + text if right else text + gap)
            out.append((" " * GAP).join(parts).rstrip(" "))
        return out + under

    def _is_in_no_block(self, cell: _TextCell) -> bool:
        """Return whether neither a block nor the line for equal texts shows any column of the cell."""
        shown_columns = {column for block in self.blocks for column in block} | set(self.alike)
        return not shown_columns & set(cell.covers)

    def _lines_below(self, cell: _TextCell) -> list[str]:
        indent = min(_INDENT, max(0, self.most - cell.longest))
        if cell.command:
            return command(cell.text, self.most, _INDENT)
        return filled(pieces(cell.text), self.most, " " * indent, " " * indent)


def _line(cells: Sequence[Cell], classes: Sequence[Sequence[str]], head: bool = False) -> list[_TextCell]:
    """Return cells as texts, each with the columns that it covers."""
    texts, column = [], 0
    for cell in cells:
        text = printable(" ".join(part for part in (cell.text, cell.small) if part))
        covers = range(column, column + cell.span)
        texts.append(_TextCell(covers, " ".join(text.splitlines()), not head and "command" in classes[column]))
        column += cell.span
    return texts
