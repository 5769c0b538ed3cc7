"""The kernel with a deep halo in two languages on the host, by a thread for each work-item: right, and without a race."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from roofbook.devices.contract import Unsupported
from roofbook.labs.lbm import deep_halo_ptx
from roofbook.labs.lbm.lattice import LAB
from roofbook.labs.lbm.on_chip import Tiling
from roofbook.peers import cc

from ...devices.warps_in_c import InC, closing, operands, sections
from .test_deep_halo import NX, NY, UNITS, Outcome, compiled_and_run, program_around, reason_to_skip, run_program

STEP = LAB.variant("deep-halo-ptx")
PTX = (
    (r"rcp\.approx\.ftz\.f32 %0, %1;", "{0} = 1.0f / {1}"),
    (r"sqrt\.approx\.ftz\.f32 %0, %1;", "{0} = sqrtf({1})"),
    (r".*st\.relaxed\.gpu\.global\.b128.*", "store_word({0}, {1}, {2}, {3}, {4})"),
    (r".*ld\.relaxed\.gpu\.global\.b128.*", "load_word({0}, {1}, {2}, {3}, {4})"),
    (r"atom\.relaxed\.gpu\.global\.add\.s32 %0, \[%1\], 1;", "{0} = ((Counter *){1})->fetch_add(1)"),
    (r"ld\.relaxed\.gpu\.global\.s32 %0, \[%1\];", "{0} = load_count({1})"),
    (r"atom\.relaxed\.gpu\.global\.cas\.b32 %0, \[%1\], %2, %3;", "{0} = replace_count({1}, {2}, {3})"),
    (r"shfl\.sync\.bfly\.b32 %0, %1, %2, 0x1f, 0xffffffff;", "{0} = of_lane({1}, {2})"),
)
"""Pattern of PTX, and C++ that does it with its operands."""
TILINGS = [Tiling(4, 4, 3), Tiling(4, 4, 2), Tiling(8, 4, 4), Tiling(8, 8, 5)]
"""Four blocks, by an odd and an even number of steps a round; two, one above the other; and one, which sends itself words."""


def in_cpp(text: str) -> str:
    """Return the C++ of a kernel in CUDA C++ or OpenCL C, with its PTX done in C++ and local memory of its block."""
    for match in reversed([*re.finditer(r"\basm(\s+volatile)?\s*\(", text)]):
        end = closing(text, match.end() - 1)
        statement, outputs, inputs, _ = sections(text[match.end() : end])
        ptx = "".join(re.findall(r'"([^"]*)"', statement))
        (words,) = (words for pattern, words in PTX if re.fullmatch(pattern, ptx))
        text = text[: match.start()] + words.format(*operands(outputs), *operands(inputs)) + text[end + 1 :]
    used = "0"
    for declaration, kind, name, size in re.findall(r"((?:__shared__|__local) (\w+) (\w+)\[([^]]*)\];)", text):
        text = text.replace(declaration, f"{kind} *{name} = ({kind} *)(block_of_thread->shared + {used});")
        used += f" + 4 * ({size})"
    return text


def program_of(language: str, tiling: Tiling, change: tuple[str, str] = ("", ""), *, missing: int = 0) -> str:
    """Return a program that runs the kernel once, on operands of a file. missing: number of blocks that never begin."""
    knobs = {"NX": NX, "NY": NY, "TILE_X": tiling.tile_x, "TILE_Y": tiling.tile_y, "DEPTH": tiling.depth}
    text = STEP.text.with_knobs(**knobs).render(language)
    assert change[0] in text
    blocks = NX * NY // (tiling.tile_x * tiling.tile_y)
    operands_of_launch = f"from, to, obstacles, sums, halo, &begun, {blocks + missing}, 1, {UNITS}"
    program = program_around(
        in_cpp(text.replace(*change, 1)), blocks, f"{blocks}, {tiling.threads}, {deep_halo_ptx.local_bytes(tiling)}",
        f"static uint4 halo[2 * 3 * {NX * NY}];\nstatic int begun;",
        f"deep_halo_ptx({operands_of_launch}, numbers[0], numbers[1], numbers[2])",
    )  # fmt: skip
    return f"#define {language.upper()}\n{program}"


@pytest.fixture
def thread_sanitizer() -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)


@pytest.mark.usefixtures("thread_sanitizer")
@pytest.mark.parametrize("language", ["opencl", "cuda"])
@pytest.mark.parametrize(
    "tiling", [TILINGS[0], *(pytest.param(cut, marks=pytest.mark.thorough) for cut in TILINGS[1:])], ids=str
)
def test_is_right_and_has_no_race(language: str, tiling: Tiling, tmp_path: Path) -> None:
    assert run_program(STEP, program_of(language, tiling), tmp_path) == Outcome(right=True, race="")


@pytest.mark.usefixtures("thread_sanitizer")
def test_a_race_is_seen(tmp_path: Path) -> None:
    one_word_for_all_warps = ("tallies[j * WARPS + p / WARP] = sum", "tallies[j * WARPS] = sum")
    program = program_of("opencl", TILINGS[0], one_word_for_all_warps)
    assert "data race" in run_program(STEP, program, tmp_path).race


@pytest.mark.usefixtures("thread_sanitizer")
def test_blocks_begin_nothing_unless_all_of_them_begin(tmp_path: Path) -> None:
    """The one that gives up first tells the others, and the sums of the first step tell the host."""
    (tmp_path / "in").write_bytes(bytes(10 * 4 * NX * NY))
    program = program_of("opencl", TILINGS[0], ("patience = 1 << 20", "patience = 9"), missing=1)
    ended = compiled_and_run(program, tmp_path)
    numbers = np.fromfile(tmp_path / "out", np.float32)
    to, sums = numbers[: 9 * NX * NY], numbers[9 * NX * NY :].reshape(UNITS, -1)
    assert ended == "" and not to.any() and (sums[0] == -1).all() and not sums[1:].any()


@pytest.mark.skipif(cc.compiler() is None, reason=str(cc.missing()))
def test_a_launch_that_began_nothing_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    case = LAB.awkward_case("5x7")
    run = deep_halo_ptx.DeepHaloPtx(InC(tmp_path), STEP, case, LAB.inputs(case, seed=1))
    run.reset()
    run.run()
    run.groups_begun += 1  # as if a group of this launch would not begin
    with pytest.raises(
        RuntimeError, match=r"^nothing was computed: the 1 work-groups .* not all of them began within about a second"
    ):
        run.run()


def test_more_groups_than_compute_units_are_refused(tmp_path: Path) -> None:
    case = LAB.case("128x128")
    with pytest.raises(
        Unsupported, match=r"^128 work-groups must run at once, and the device has compute units for 1$"
    ):
        deep_halo_ptx.DeepHaloPtx(InC(tmp_path), STEP, case, LAB.inputs(case, seed=1))
    assert deep_halo_ptx.DeepHaloPtx.run_options(case, InC(tmp_path)) is None


def test_tiles_fit_the_local_memory_that_opencl_grants() -> None:
    cut = {name: deep_halo_ptx.tiling_of(*map(int, name.split("x"))) for name in ("128x128", "128x256", "256x256")}
    for tiling in cut.values():
        assert tiling and deep_halo_ptx.local_bytes(tiling) <= 49152
    assert deep_halo_ptx.tiling_of(1024, 1024) is None
    assert (
        LAB.skip_reason(STEP, LAB.case("1024x1024"))
        == "not on this case: the groups that run at once do not hold the grid"
    )
