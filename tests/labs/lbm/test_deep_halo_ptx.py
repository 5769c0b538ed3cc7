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
from roofbook.spec.plan import Variant

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
    ("", ""),  # keeps a value in a register
    (r"shfl\.sync\.bfly\.b32 %0, %1, %2, 0x1f, 0xffffffff;", "{0} = of_lane({1}, {2})"),
)
"""Pattern of PTX, and C++ that does it with its operands."""
TILINGS = [Tiling(4, 4, 3), Tiling(4, 4, 2), Tiling(8, 4, 4), Tiling(8, 8, 5)]
"""Four blocks, by an odd and an even number of steps a round; two, one above the other; and one, which sends itself words."""


def in_cpp(text: str) -> str:
    """Return the C++ of a kernel in CUDA C++ or OpenCL C, with its PTX done in C++ and local memory of its block.

    Memory that the launch gives is an array without a size. It comes last.
    """
    for match in reversed([*re.finditer(r"\basm(\s+volatile)?\s*\(", text)]):
        end = closing(text, match.end() - 1)
        statement, outputs, inputs, _ = sections(text[match.end() : end])
        ptx = "".join(re.findall(r'"([^"]*)"', statement))
        (words,) = (words for pattern, words in PTX if re.fullmatch(pattern, ptx))
        text = text[: match.start()] + words.format(*operands(outputs), *operands(inputs)) + text[end + 1 :]
    used = "0"
    for declaration, kind, name, size in re.findall(r"((?:__shared__|__local) (\w+) (\w+)\[([^]]+)\];)", text):
        text = text.replace(declaration, f"{kind} *{name} = ({kind} *)(block_of_thread->shared + {used});")
        used += f" + 4 * ({size})"
    return re.sub(r"extern __shared__ (\w+) (\w+)\[\];", rf"\1 *\2 = (\1 *)(block_of_thread->shared + {used});", text)


def program_of(
    language: str, tiling: Tiling, change: tuple[str, str] = ("", ""), *, step: Variant = STEP, missing: int = 0,
    patience: str = "1 << 30",
) -> str:  # fmt: skip
    """Return a program that runs the kernel of a step once, on operands of a file.

    missing: number of blocks that never begin.
    patience: how often a block looks for the others before it gives up. The kernel's own number is too small here: a busy host
    takes longer to start all threads than a GPU to start all groups.
    """
    knobs = {"NX": NX, "NY": NY, "TILE_X": tiling.tile_x, "TILE_Y": tiling.tile_y, "DEPTH": tiling.depth,
             "PLANES": "LAUNCHED" if language == "cuda" else "DECLARED"}  # fmt: skip
    text = step.text.with_knobs(**knobs).render(language)
    for before, after in (("patience = 1 << 20", f"patience = {patience}"), change):
        assert before in text
        text = text.replace(before, after, 1)
    blocks = NX * NY // (tiling.tile_x * tiling.tile_y)
    operands_of_launch = f"from, to, obstacles, sums, halo, &begun, {blocks + missing}, 1, {UNITS}"
    program = program_around(
        in_cpp(text), blocks, f"{blocks}, {tiling.threads}, {deep_halo_ptx.local_bytes(tiling)}",
        f"static uint4 halo[2 * 3 * {NX * NY}];\nstatic int begun;",
        f"deep_halo_ptx({operands_of_launch}, numbers[0], numbers[1], numbers[2])",
    )  # fmt: skip
    return f"#define {language.upper()}\n{program}"


def speeds_of(folder: Path) -> np.ndarray:
    """Return the sums of speeds of each step that a program left in a folder."""
    sums: np.ndarray = np.fromfile(folder / "out", np.float32)[9 * NX * NY :].reshape(UNITS, -1).sum(axis=1)
    return sums


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
def test_a_probe_without_steps_leaves_the_cells_as_they_are(tmp_path: Path) -> None:
    probe = LAB.variant("deep-halo-exchange")
    assert run_program(probe, program_of("cuda", TILINGS[0], step=probe), tmp_path) == Outcome(right=True, race="")
    assert (speeds_of(tmp_path) == 0).all()


@pytest.mark.usefixtures("thread_sanitizer")
def test_a_probe_without_waits_is_right_until_the_first_exchange(tmp_path: Path) -> None:
    probe, (tiling, *_) = LAB.variant("deep-halo-no-waits"), TILINGS
    outcome = run_program(probe, program_of("opencl", tiling, step=probe), tmp_path)
    speeds = speeds_of(tmp_path)
    assert outcome == Outcome(right=False, race="")
    assert run_program(STEP, program_of("cuda", tiling), tmp_path).right
    differences = abs(speeds / speeds_of(tmp_path) - 1)
    assert (differences[: tiling.depth] < 1e-6).all() and (differences[tiling.depth :] > 1e-6).all()
    assert np.isfinite(speeds).all()


@pytest.mark.usefixtures("thread_sanitizer")
def test_a_race_is_seen(tmp_path: Path) -> None:
    one_word_for_all_warps = ("tallies[j * WARPS + p / WARP] = sum", "tallies[j * WARPS] = sum")
    program = program_of("opencl", TILINGS[0], one_word_for_all_warps)
    assert "data race" in run_program(STEP, program, tmp_path).race


@pytest.mark.usefixtures("thread_sanitizer")
def test_blocks_begin_nothing_unless_all_of_them_begin(tmp_path: Path) -> None:
    """The one that gives up first tells the others, and the sums of the first step tell the host."""
    (tmp_path / "in").write_bytes(bytes(10 * 4 * NX * NY))
    program = program_of("opencl", TILINGS[0], missing=1, patience="9")
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


def device_with(units: int, folder: Path) -> InC:
    device = InC(folder)
    device.compute_units = units
    return device


@pytest.mark.parametrize(("size", "units"), [("128x128", 30), ("128x256", 46), ("256x256", 114)])
def test_a_grid_that_too_few_compute_units_hold_is_refused(size: str, units: int, tmp_path: Path) -> None:
    case, device = LAB.case(size), device_with(units, tmp_path)
    sentence = f"the grid does not fit one work-group on each of the {units} compute units"
    with pytest.raises(Unsupported, match=f"^{sentence}$"):
        deep_halo_ptx.DeepHaloPtx(device, STEP, case, LAB.inputs(case, seed=1))
    assert deep_halo_ptx.DeepHaloPtx.run_options(case, device) is None


@pytest.mark.parametrize(
    ("size", "tiling_by_units"),
    [
        ("128x128", {132: (16, 8, 5), 114: (32, 8, 4), 108: (32, 8, 4), 80: (32, 8, 4), 46: (32, 16, 2)}),
        ("128x256", {132: (32, 8, 4), 114: (32, 16, 2), 108: (32, 16, 2), 80: (32, 16, 2), 46: None}),
        ("256x256", {132: (32, 16, 2), 114: None, 108: None, 80: None, 46: None}),
    ],
)
def test_fewer_compute_units_get_fewer_and_larger_tiles(
    size: str, tiling_by_units: dict[int, tuple[int, int, int] | None], tmp_path: Path
) -> None:
    nx, ny = map(int, size.split("x"))
    for units, expected in tiling_by_units.items():
        tiling = deep_halo_ptx.tiling_of(nx, ny, units, deep_halo_ptx.DECLARED_BYTES)
        assert tiling == expected
        if tiling:
            assert deep_halo_ptx.groups_of(nx, ny, tiling) <= units
            assert deep_halo_ptx.local_bytes(tiling) <= 49152
        runs = deep_halo_ptx.DeepHaloPtx.run_options(LAB.case(size), device_with(units, tmp_path))
        assert runs == (None if expected is None else {})


@pytest.mark.skipif(cc.compiler() is None, reason=str(cc.missing()))
def test_a_plan_has_the_tiles_of_its_device(tmp_path: Path) -> None:
    case = LAB.awkward_case("64x64")
    for units, expected, groups in ((46, (16, 8, 5), 32), (16, (32, 8, 4), 16)):
        run = deep_halo_ptx.DeepHaloPtx(device_with(units, tmp_path), STEP, case, LAB.inputs(case, seed=1))
        assert (run.tiling, run.groups, run.size) == (expected, groups, (run.tiling.threads * groups,))
        assert [run.knobs()[name] for name in ("TILE_X", "TILE_Y", "DEPTH")] == [*expected]
        run.close()


def test_a_launch_by_cuda_gives_a_tile_more_memory_than_a_kernel_declares() -> None:
    tiling = deep_halo_ptx.tiling_of(256, 256)
    assert tiling == (32, 16, 3)
    assert deep_halo_ptx.local_bytes(tiling) > deep_halo_ptx.DECLARED_BYTES


def test_more_compute_units_than_groups_change_nothing() -> None:
    for nx, ny in ((128, 128), (128, 256), (256, 256)):
        for units in (128, 132, 148):
            assert deep_halo_ptx.tiling_of(nx, ny, units) == deep_halo_ptx.tiling_of(nx, ny)


def test_a_grid_that_no_device_holds_is_refused_as_a_case() -> None:
    assert deep_halo_ptx.tiling_of(1024, 1024) is None
    assert (
        LAB.skip_reason(STEP, LAB.case("1024x1024"))
        == "not on this case: the groups that run at once do not hold the grid"
    )
