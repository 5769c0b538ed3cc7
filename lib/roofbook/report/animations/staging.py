"""Animation of staging: a group copies a tile to local memory, and its work-items read their windows from there."""

from ...analysis.format import several
from .scene import FIRST, SECOND, Animation, Scene, Stage

VALUE_BYTES = 4


def staging(
    *, rows: int, columns: int, taps: int, filters: int, work_items: int, plane: str, last_stage: str
) -> Animation:
    """Return the animation of a convolution whose group computes `rows` x `columns` outputs of `filters` filters.

    taps: side of a filter. plane: text that names the part of the input that lies in local memory, such as 'a channel'.
    last_stage: sentence on what follows.
    """
    tile_rows, tile_columns = rows + taps - 1, columns + taps - 1
    values = tile_rows * tile_columns
    copied = VALUE_BYTES * values
    products = rows * columns * taps * taps * filters
    stages = (
        Stage(
            f"A group of {work_items} work-items computes {rows} x {columns} outputs of {several(filters, 'filter')}. For "
            f"these it needs {tile_rows} x {tile_columns} inputs of {plane}: {taps - 1} rows and columns more.",
            {"work_items": work_items, "output_rows": rows, "output_columns": columns, "filters": filters},
        ),
        Stage(
            f"Its work-items copy them to local memory: {copied:,} bytes.",
            {"tile_rows": tile_rows, "tile_columns": tile_columns, "local_bytes": copied},
        ),
        Stage("All wait at a barrier: nobody reads before the last value is there."),
        Stage(
            f"Each work-item multiplies from local memory. Windows of {taps} x {taps} overlap: {products / values:.0f} "
            "products for each value that was copied.",
            {"products": products, "products_per_value": round(products / values, 1)},
        ),
        Stage(last_stage),
    )
    scene = Scene(460, 190, len(stages))
    cell = min(180 / tile_columns, 130 / tile_rows)
    tile, size = (180.0, 40.0), (cell * tile_columns, cell * tile_rows)
    window = cell * taps
    scene.text((12, 20), "global memory")
    scene.box((12, 30), (120, 150))
    scene.text((180, 20), "local memory of the group")
    scene.box((172, 30), (196, 150))
    scene.text((384, 20), "registers")
    scene.box((384, 30), (64, 150))
    source = (40.0, 70.0)
    scene.box(source, (size[0] / 3, size[1] / 3), FIRST, filled=0.3)
    scene.text((40, 62), f"{tile_rows} x {tile_columns}", FIRST)
    away = (source[0] - tile[0], source[1] - tile[1])
    scene.cells(tile, cell, tile_rows, tile_columns, FIRST, during=range(1, 5), offsets={0: away, 1: (0, 0)})
    scene.arrow((136, 105), (168, 105), FIRST, during=range(1, 5))
    scene.text((178, 176), "barrier", during=range(2, 5))
    slide = {3: (0.0, 0.0), 4: (2 * cell, cell)}
    shift = (tile[0] + 3 * cell, tile[1] + 2 * cell)
    scene.box(shift, (window, window), SECOND, filled=0.35, during=range(3, 5), offsets=slide)
    scene.box((shift[0] + 2 * cell, shift[1]), (window, window), SECOND, filled=0.35, during=range(3, 5), offsets=slide)
    scene.arrow((372, 105), (382, 105), SECOND, during=range(3, 5))
    for row in range(3):
        scene.box((396, 62 + 30 * row), (40, 22), SECOND, filled=0.3, during=range(3, 5))
        scene.text((416, 77 + 30 * row), "sum", anchor="middle", during=range(3, 5))
    return Animation(
        "staging",
        "A tile goes through local memory",
        f"Left the input in global memory with a tile of {tile_rows} x {tile_columns} values, in the middle this tile in local "
        f"memory with two windows of {taps} x {taps} that overlap, right the sums in registers of work-items",
        stages,
        scene,
    )
