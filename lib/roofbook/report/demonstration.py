"""Table of a lab's demonstration, which shows something other than times."""

from ..analysis.publication import Demonstration
from .html import Cell, Row, Table


def demonstration(content: Demonstration) -> Table:
    """Return the rows of a demonstration as a table, its numbers aligned."""
    css = ["num" if head in content.numbers else "" for head in content.heads]
    columns = [Cell(head, column_css) for head, column_css in zip(content.heads, css, strict=True)]
    rows = [Row([Cell(text, column_css) for text, column_css in zip(row, css, strict=True)]) for row in content.rows]
    return Table(content.caption, columns, rows, content.frame, content.notes, "demonstration")
