"""Animation of a halo exchange: each part of a grid sends its outermost rows to its neighbours, and keeps copies of theirs."""

from .scene import FIRST, SECOND, Animation, Scene, Stage

CELL_NUMBERS = 9
"""Numbers of a lattice cell."""


def halo_exchange(
    *, part: str, count: int, rows: int, columns: int, leaving: int, word_bytes: int, sending: str, arrival: str
) -> Animation:
    """Return the animation for a grid that `count` parts share, each with `rows` rows of `columns` cells.

    part: name of a part, such as 'block'. leaving: numbers of a cell that cross a side of its part. word_bytes: bytes of one
    as it travels. sending, arrival: a sentence on how a part sends, and on how it knows that its neighbours' numbers are there.
    """
    row_bytes = leaving * columns * word_bytes
    kept = CELL_NUMBERS * 4 * rows * columns
    stages = (
        Stage(
            f"{count} {part}s share the grid: each has {rows:,} rows of {columns:,} cells, {kept:,} bytes. They form a ring.",
            {"parts": count, "rows": rows, "columns": columns, "part_bytes": kept},
        ),
        Stage(
            f"In a time step {leaving} of the {CELL_NUMBERS} numbers of a cell go one row up, and {leaving} one row down. "
            "From the outermost rows they leave their part."
        ),
        Stage(
            f"Upwards: {leaving} x {columns:,} numbers of {word_bytes} bytes, {row_bytes:,} bytes. {sending}",
            {"bytes_each_way": row_bytes},
        ),
        Stage(
            f"Downwards as many. The neighbour keeps them as its halo. {arrival}",
            {"bytes_sent_by_a_part": 2 * row_bytes},
        ),
        Stage(
            f"Now each {part} computes all its cells by itself. It has {kept:,} bytes, and {2 * row_bytes:,} more of "
            "its neighbours."
        ),
    )
    scene = Scene(460, 216, len(stages))
    left, wide, high, gap = 96.0, 220.0, 36.0, 34.0
    for number in range(3):
        top = 20 + number * (high + gap)
        scene.box((left, top), (wide, high), filled=0.06)
        scene.text((left - 10, top + 22), ("part above", part, "part below")[number], anchor="end")
        scene.box((left, top + 1), (wide, 7), FIRST, filled=0.35, during=range(1, 5))
        scene.box((left, top + high - 8), (wide, 7), SECOND, filled=0.35, during=range(1, 5))
        if number:
            scene.box((left, top - 10), (wide, 7), SECOND, dashed=True, during=range(2, 5))
            up = 2 - gap
            scene.box(
                (left, top + 1 + up), (wide, 7), FIRST, filled=0.7, during=range(2, 5), offsets={0: (0, -up), 2: (0, 0)}
            )
        if number < 2:
            scene.box((left, top + high + 3), (wide, 7), FIRST, dashed=True, during=range(2, 5))
            down = gap - 2
            scene.box(
                (left, top + high - 8 + down),
                (wide, 7),
                SECOND,
                filled=0.7,
                during=range(3, 5),
                offsets={0: (0, -down), 3: (0, 0)},
            )
    middle = 20 + high + gap
    scene.arrow((330, middle + 4), (330, middle - 24), FIRST, during=range(2, 5))
    scene.text((338, middle - 14), f"{row_bytes:,} bytes", FIRST, during=range(2, 5))
    scene.arrow((330, middle + high - 4), (330, middle + high + 24), SECOND, during=range(3, 5))
    scene.text((338, middle + high + 22), f"{row_bytes:,} bytes", SECOND, during=range(3, 5))
    scene.text((338, middle + 22), f"{rows:,} x {columns:,} cells")
    return Animation(
        "halo",
        f"Neighbouring {part}s exchange halos",
        f"Three {part}s of a grid, one above the other. The outermost rows of each are copied to a strip beside its neighbour, "
        f"upwards and downwards, {row_bytes:,} bytes each way",
        stages,
        scene,
    )
