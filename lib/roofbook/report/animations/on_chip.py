"""Animation of a grid that stays on the chip: blocks load their rows once, take many time steps, and write them once."""

from .scene import FIRST, SECOND, Animation, Scene, Stage

DRAWN = 8
"""Number of blocks that the drawing has."""


def grid_on_chip(
    *, rows: int, columns: int, cell_bytes: int, blocks: int, threads: int, exchanged_bytes: int, steps: int
) -> Animation:
    """Return the animation of a grid whose rows `blocks` blocks keep. exchanged_bytes: of all blocks in a time step."""
    grid_bytes, block_bytes = rows * columns * cell_bytes, rows // blocks * columns * cell_bytes
    stages = (
        Stage(
            f"The grid is in memory: {rows} x {columns} cells of {cell_bytes} bytes, {grid_bytes:,} bytes.",
            {"rows": rows, "columns": columns, "grid_bytes": grid_bytes},
        ),
        Stage(
            f"One launch of {blocks} blocks. Each loads {rows // blocks} rows into the registers of its {threads} threads: "
            f"{block_bytes:,} bytes.",
            {"blocks": blocks, "threads_of_a_block": threads, "block_bytes": block_bytes},
        ),
        Stage(
            "A time step: cells exchange numbers with neighbours through shared memory, and with other blocks through the L2 "
            f"cache. All blocks together write and read {exchanged_bytes:,} bytes there.",
            {"exchanged_bytes": exchanged_bytes},
        ),
        Stage(
            f"Step follows step, {steps:,} times, without a launch. With a launch for each, every step would read and "
            f"write the whole grid: {2 * grid_bytes:,} bytes.",
            {"steps": steps, "bytes_of_a_step_by_launches": 2 * grid_bytes},
        ),
        Stage("After the last step each block writes its rows back, once."),
    )
    scene = Scene(460, 232, len(stages))
    scene.text((12, 20), f"chip: {DRAWN} of {blocks} blocks, one on a multiprocessor")
    scene.box((12, 28), (436, 92))
    scene.text((12, 226), "memory")
    scene.box((12, 154), (436, 56))
    width, step = 40.0, 53.0
    for number in range(DRAWN):
        x = 26 + number * step
        scene.box((x, 60), (width, 48))
        scene.box((x, 162), (width, 38), FIRST, filled=0.3)
        scene.box(
            (x, 66), (width, 36), FIRST, filled=0.55, during=range(1, 5), offsets={0: (0, 97), 1: (0, 0), 4: (0, 0)}
        )
        if number:
            scene.arrow((x - step + width + 1, 78), (x - 1, 78), SECOND, during=range(2, 4))
            scene.arrow((x - 1, 90), (x - step + width + 1, 90), SECOND, during=range(2, 4))
        scene.arrow((x + 14, 160), (x + 14, 112), FIRST, during=range(1, 2))
        scene.arrow((x + 26, 112), (x + 26, 160), FIRST, during=range(4, 5))
    scene.text((26, 50), "step 1", SECOND, during=range(2, 3))
    scene.text((26, 50), f"step 2, 3, ... {steps:,}", SECOND, during=range(3, 4))
    scene.text((26, 50), f"{steps:,} steps: one load, one store", FIRST, during=range(4, 5))
    scene.text((448, 226), "untouched", anchor="end", during=range(2, 4))
    return Animation(
        "persistent",
        "A whole grid stays on the chip",
        f"Above a chip with {DRAWN} of {blocks} blocks, below the memory with the grid. Rows of the grid go up to the "
        "blocks once, arrows between neighbouring blocks show the exchange of each time step, and the rows go down once "
        "at the end",
        stages,
        scene,
    )
