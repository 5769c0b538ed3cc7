"""What a lab shows beyond times, as a table."""

from ..analysis.publication import Demonstration
from .html import Cell, Row, Table


def demonstration(shown: Demonstration) -> Table:
    """The rows of a demonstration, its numbers aligned."""
    css = ["num" if head in shown.numbers else "" for head in shown.heads]
    columns = [Cell(head, look) for head, look in zip(shown.heads, css, strict=True)]
    rows = [Row([Cell(text, look) for text, look in zip(row, css, strict=True)]) for row in shown.rows]
    return Table(shown.caption, columns, rows, shown.frame, shown.notes, "demonstration")
