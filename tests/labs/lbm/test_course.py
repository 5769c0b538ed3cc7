"""The course's files: round trips, every kind of broken input, and the command that reads and writes them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psutil
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import roofbook.labs.lbm.lattice
from roofbook.analysis.fastest_variant import Choice
from roofbook.devices.contract import OutOfMemory
from roofbook.devices.find import devices
from roofbook.errors import UsageError
from roofbook.labs.lbm import __main__ as command
from roofbook.labs.lbm import course, plans, problem
from roofbook.labs.lbm.problem import Array, Mask, Params

GOOD = ["12", "10", "5", "10", "0.1", "0.005", "1.85"]
SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def write_params(path: Path, params: Params) -> None:
    write(path, [str(getattr(params, name)) for name in course.FIELDS])


def write_obstacles(path: Path, obstacles: Mask) -> None:
    path.write_text("".join(f"{x} {y} 1\n" for y, x in np.argwhere(obstacles).tolist()))


def read_av_vels(path: Path) -> list[float]:
    """Return the values of av_vels.dat, whose lines are numbered from 0."""
    pairs = [line.split(":\t") for line in path.read_text().splitlines()]
    assert [step for step, _ in pairs] == [str(step) for step in range(len(pairs))]
    return [float(value) for _, value in pairs]


def changed(line: int, text: str) -> list[str]:
    return [*GOOD[: line - 1], text, *GOOD[line:]]


def test_reads_what_the_course_hands_out(tmp_path: Path) -> None:
    params = course.read_params(write(tmp_path / "p", GOOD))
    assert params == Params(12, 10, 5, 10, 0.1, 0.005, 1.85)
    assert course.read_params(write(tmp_path / "p", [*GOOD, "", "# as handed out", "  "])) == params
    (tmp_path / "p").write_bytes(b"\xef\xbb\xbf" + "\r\n".join(GOOD).encode())
    assert course.read_params(tmp_path / "p") == params
    obstacles = course.read_obstacles(write(tmp_path / "o", ["3 2 1", "11 9 1", "3 2 1", ""]), 12, 10)
    assert np.argwhere(obstacles).tolist() == [[2, 3], [9, 11]]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (GOOD[:-1], "found 6 values, expected 7; missing: omega"),
        ([], "found 0 values, expected 7; missing: nx, ny"),
        ([*GOOD, "1"], "line 8: found '1', expected the end"),
        (["12 10", *GOOD[2:]], "line 1: found '12 10', expected nx, an integer"),
        (changed(2, "ten"), "line 2: found 'ten', expected ny, an integer"),
        (changed(1, "12.0"), "line 1: found '12.0', expected nx, an integer"),
        (changed(1, "1_2"), "line 1: found '1_2'"),
        (changed(1, "9" * 5000), "line 1: found '9999"),
        (changed(1, "0"), "line 1: nx must be an integer from 1"),
        (changed(2, "1"), r"line 2: ny must be an integer from 2 to 2147483647 \(row ny-2"),
        (changed(2, "-10"), "line 2: ny must be"),
        (changed(3, "0"), "line 3: iterations must be"),
        (changed(4, "0"), "line 4: reynolds_dim must be"),
        (changed(5, "nan"), "line 5: found 'nan', expected density, a finite number"),
        (changed(5, "1e999"), "line 5: density must be a finite number above 0, not inf"),
        (changed(6, "-0.1"), "line 6: accel must be"),
        (changed(7, "2"), "line 7: omega must be a number above 0 and below 2, not 2.0"),
        (["2000000", "2000000", *GOOD[2:]], r"line 2: nx\*ny must be below"),
    ],
)
def test_broken_params_say_where_and_what(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        course.read_params(write(tmp_path / "p", lines))
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["1 1 1", "4 0 1"], "line 2: found x = 4, expected 0 to 3"),
        (["0 -1 1"], "line 1: found y = -1, expected 0 to 2"),
        (["0 0 2"], r"line 1: found 2 as the third value, expected 1 \(blocked\)"),
        (["0 0"], "line 1: found '0 0', expected three integers: x y 1"),
        (["0 0 1 1"], "expected three integers"),
        (["0 zero 1"], "expected three integers"),
        ([f"{x} {y} 1" for x in range(4) for y in range(3)], "blocks all 12 cells"),
        ([f"{x} 1 1" for x in range(4)], "blocks all of row 1"),
    ],
)
def test_broken_obstacles_say_where_and_what(tmp_path: Path, lines: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        course.read_obstacles(write(tmp_path / "o", lines), 4, 3)


def test_files_that_are_no_text_files(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    (tmp_path / "zeros").write_bytes(b"12\n\0\n")
    for name, says in (("none", "no such file"), (".", "directory"), ("binary", "binary"), ("zeros", "binary")):
        for read in (course.read_params, lambda path: course.read_obstacles(path, 4, 3)):
            with pytest.raises(UsageError, match=says):
                read(tmp_path / name)


numbers = st.floats(1e-30, 1e30)


@SHARED_FOLDER
@given(
    st.builds(
        Params,
        nx=st.integers(1, 10**4),
        ny=st.integers(2, 10**4),
        iterations=st.integers(1, 2**31 - 1),
        reynolds_dim=st.integers(1, 2**31 - 1),
        density=numbers,
        accel=numbers | st.just(0.0),
        omega=st.floats(1e-30, 1.999),
    )
)
def test_params_round_trip(tmp_path: Path, params: Params) -> None:
    write_params(tmp_path / "p", params)
    assert course.read_params(tmp_path / "p") == params


@SHARED_FOLDER
@given(st.integers(1, 9), st.integers(2, 9), st.data())
def test_obstacles_round_trip(tmp_path: Path, nx: int, ny: int, data: st.DataObject) -> None:
    cells = data.draw(st.lists(st.booleans(), min_size=nx * ny, max_size=nx * ny))
    obstacles = np.array(cells).reshape(ny, nx)
    obstacles[ny - 2, 0] = False
    write_obstacles(tmp_path / "o", obstacles)
    np.testing.assert_array_equal(course.read_obstacles(tmp_path / "o", nx, ny), obstacles)


@SHARED_FOLDER
@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
def test_av_vels_round_trip(tmp_path: Path, values: list[float]) -> None:
    course.write_av_vels(tmp_path / "a", np.array(values))
    np.testing.assert_allclose(read_av_vels(tmp_path / "a"), values, rtol=1e-12, atol=0)


words = st.sampled_from(["0", "1", "-1", "3", "7:", "0:", "1.5", "nan", "1e400", "#", "x", "1 1 1"])
line = st.lists(words).map(" ".join)


@SHARED_FOLDER
@given(st.text() | st.lists(line).map("\n".join))
@example("\n".join(GOOD))
@example("٣ ٣ 1")
def test_any_text_is_read_or_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_bytes(text.encode("utf-8", "surrogatepass"))
    for read in (course.read_params, lambda path: course.read_obstacles(path, 4, 3)):
        try:
            read(tmp_path / "t")
        except UsageError as wrong:
            assert "\n" not in str(wrong)


@SHARED_FOLDER
@given(st.binary())
def test_any_bytes_are_read_or_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "b").write_bytes(data)
    for read in (course.read_params, lambda path: course.read_obstacles(path, 4, 3)):
        with contextlib.suppress(UsageError):
            read(tmp_path / "b")


def test_written_files_have_the_courses_format(tmp_path: Path) -> None:
    params = Params(3, 2, 2, 10, 0.3, 0.0, 1.0)
    obstacles = np.array([[False, False, False], [False, False, True]])
    f = problem.equilibrium(np.full((2, 3), 0.6), np.full((2, 3), 0.03), np.full((2, 3), -0.04))
    course.write_final_state(tmp_path / "final_state.dat", f, params, obstacles)
    lines = (tmp_path / "final_state.dat").read_text().splitlines()
    assert [line[:3] for line in lines] == ["0 0", "1 0", "2 0", "0 1", "1 1", "2 1"]
    assert lines[0] == "0 0 3.000000000000E-02 -4.000000000000E-02 5.000000000000E-02 2.000000000000E-01 0"
    assert lines[-1] == "2 1 0.000000000000E+00 0.000000000000E+00 0.000000000000E+00 1.000000000000E-01 1"
    course.write_av_vels(tmp_path / "av_vels.dat", np.array([0.5, 2.0**-10], np.float32))
    assert (tmp_path / "av_vels.dat").read_text() == "0:\t5.000000000000E-01\n1:\t9.765625000000E-04\n"


@given(
    st.lists(st.floats() | st.floats(-1, 1) | st.sampled_from([0.0, -0.0, 0.5, 9.9999999999995e-5, 1e22]), min_size=1)
)
@example(
    [1.0000000000005, 9.9999999999999e9, 1e-300, 5e-324, 1.7e308, float("nan"), -float("inf"), 1e-100, 10.0, 0.001]
)
def test_numbers_are_written_as_c_does(values: list[float]) -> None:
    written = [bytes(row[row != 0]).decode() for row in course.scientific(np.array(values))]
    assert written == [f"{value:.12E}" for value in values]


@SHARED_FOLDER
@given(st.integers(1, 130), st.integers(2, 40), st.integers(0, 2**32 - 1))
def test_the_final_state_is_that_of_a_plain_loop(tmp_path: Path, nx: int, ny: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    params = Params(nx, ny, 1, 10, 0.1, 0.0, 1.0)
    obstacles = random.random((ny, nx)) < 0.3
    f = problem.initial(params, np.float32) * (1 + random.uniform(-0.1, 0.1, (9, ny, nx)).astype(np.float32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(course, "CELLS_AT_ONCE", 64)
        course.write_final_state(tmp_path / "final_state.dat", f, params, obstacles)
    rho, ux, uy = problem.macroscopic(np.asarray(f, np.float64))
    with (tmp_path / "final_state.dat").open() as file:
        for (y, x), blocked in np.ndenumerate(obstacles):
            u, v = (0, 0) if blocked else (ux[y, x], uy[y, x])
            pressure = (0.1 if blocked else rho[y, x]) / 3
            numbers = " ".join(f"{number:.12E}" for number in (u, v, np.hypot(u, v), pressure))
            assert next(file) == f"{x} {y} {numbers} {int(blocked)}\n"
        assert file.read() == ""


def test_a_failed_write_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    target = tmp_path / "av_vels.dat"
    course.write_av_vels(target, np.array([1.0]))

    def lines() -> Iterator[bytes]:
        yield b"0:\t2\n"
        raise OSError(28, "No space left on device")

    with pytest.raises(UsageError, match="cannot be written: No space left"):
        course._write_bytes(target, lines())
    assert read_av_vels(target) == [1.0]
    assert [path.name for path in tmp_path.iterdir()] == ["av_vels.dat"]
    with pytest.raises(UsageError, match="cannot be written"):
        course.write_av_vels(tmp_path / "none" / "av_vels.dat", np.array([1.0]))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The two input files of a small box; `simulate` is the float64 reference."""

    def simulate(device: str, variant: str | None, params: Params, obstacles: Mask, *_: object) -> tuple[Array, Array]:
        if device != "auto":
            raise UsageError(f"unknown device {device!r}; valid: auto")
        f, av_vels = problem.reference(params, obstacles, params.iterations)
        return f.astype(np.float32), av_vels.astype(np.float32)

    monkeypatch.setattr(roofbook.labs.lbm.lattice, "simulate", simulate, raising=False)
    params, obstacles = problem.box(12, 10, 5)
    write_params(tmp_path / "input.params", params)
    write_obstacles(tmp_path / "obstacles.dat", obstacles)
    return tmp_path / "input.params", tmp_path / "obstacles.dat"


def test_command_prints_and_writes_as_the_course(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([*map(str, files), "--out", str(tmp_path / "new" / "out")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "==done=="
    assert printed[1].startswith("Reynolds number:\t\t") and printed[1][-4] == "E"
    assert printed[2].startswith("Elapsed time:\t\t\t") and printed[2].endswith(" (s)")
    params, obstacles = problem.box(12, 10, 5)
    _, av_vels = problem.reference(params, obstacles, 5)
    got = read_av_vels(tmp_path / "new" / "out" / "av_vels.dat")
    np.testing.assert_allclose(got, av_vels, rtol=1e-6)
    assert float(printed[1].split()[-1]) == pytest.approx(problem.reynolds(av_vels[-1], params))
    state = (tmp_path / "new" / "out" / "final_state.dat").read_text().splitlines()
    assert len(state) == 120 and state[0].endswith(" 1") and state[13].startswith("1 1 ") and state[13].endswith(" 0")


def test_command_refuses_in_one_line(
    files: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    params, obstacles = map(str, files)
    for arguments in (
        [],
        [params],
        [params, obstacles, "--no-such-option"],
        [params, str(tmp_path / "none")],
        [obstacles, params],
        [params, obstacles, "--device", "tpu"],
        [params, obstacles, "--out", params],
    ):
        assert command.main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (
            ["15000", "15000", "1", *GOOD[3:]],
            "225000000 cells and 1 iterations need about 40.5 GB of memory, 16 GB are",
        ),
        ([*GOOD[:2], "2147483647", *GOOD[3:]], "2147483647 iterations need about 107 GB of memory, 16 GB are free"),
        (changed(5, "1e300"), "must be at most 3.4e+38 (single precision)"),
        ([*GOOD[:4], "1e20", "1e20", "1.85"], "must be at most 3.4e+38 (single precision)"),
        ([*GOOD[:4], "1e-300", "0", "1.85"], "must be at least 4.23e-37 (single precision)"),
        ([*GOOD[:4], "1e-36", "0.005", "1.85"], "must be at least 4.23e-37 (single precision)"),
    ],
)
def test_command_begins_no_case_that_cannot_be_held(
    files: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[str],
    says: str,
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=16e9))
    write(files[0], lines)
    assert command.main([*map(str, files)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"error: {files[0]}: ") and says in err and err.count("\n") == 1


def test_command_asks_for_free_memory_only_where_a_case_is_large(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=0))
    write(files[0], GOOD)
    command._check_size(str(files[0]), course.read_params(files[0]))
    write(files[0], ["1300", "1300", *GOOD[2:]])
    with pytest.raises(UsageError, match="GB are free"):
        command._check_size(str(files[0]), course.read_params(files[0]))


def test_command_says_that_memory_has_run_out(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def simulate(*_: object) -> None:
        raise MemoryError("Unable to allocate 8.05 GiB")

    monkeypatch.setattr(roofbook.labs.lbm.lattice, "simulate", simulate)
    assert command.main([*map(str, files)]) == 2
    assert capsys.readouterr() == ("", "error: not enough memory: Unable to allocate 8.05 GiB\n")


@pytest.mark.parametrize(("nx", "ny"), [(1, 2), (5, 3)])
@pytest.mark.thorough
def test_a_grid_smaller_than_a_work_group_is_simulated(nx: int, ny: int) -> None:
    """Every step that can run the grid does, in chunks of partial sums too."""
    params, obstacles = Params(nx, ny, 3, 10, 0.1, 0.005, 1.85), np.zeros((ny, nx), bool)
    f, av_vels = problem.reference(params, obstacles, 3)
    ran = 0
    for variant in [None, *(v.name for v in roofbook.labs.lbm.lattice.LAB.ladder if v.role == "step")]:
        with contextlib.suppress(UsageError):
            simulated = roofbook.labs.lbm.lattice.simulate("auto", variant, params, obstacles)
            ran += 1
            assert np.abs(simulated[0] - f).max() < 1e-6 and np.abs(simulated[1] - av_vels).max() < 1e-6, variant
    assert ran > 10


def test_the_program_takes_the_fastest_that_can_run_and_says_which_and_why(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.undo()  # `simulate` as it is
    if not any(device.kind == "cpu" for device in devices()):
        pytest.skip("no OpenCL device for the CPU")
    (cpu,) = [device.spec for device in devices() if device.kind == "cpu"][:1]
    lab = roofbook.labs.lbm.lattice.LAB

    class Broken(plans.Fused):
        def __init__(self, *_: object) -> None:
            raise OutOfMemory("9 bytes asked for")

    ranking = [Choice(replace(lab.variant("soa"), plan=Broken), "first"), Choice(lab.variant("fused"), "the second")]
    monkeypatch.setattr(roofbook.labs.lbm.lattice, "_quickest", lambda *_: ranking)
    words = [*map(str, files), "--out", str(tmp_path / "out"), "--device", cpu]
    assert command.main(words) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Variant:")]
    assert lines == ["Variant:\t\t\tsoa cannot run this: 9 bytes asked for", "Variant:\t\t\tfused: the second"]
    params, obstacles = problem.box(12, 10, 5)
    got = read_av_vels(tmp_path / "out" / "av_vels.dat")
    np.testing.assert_allclose(got, problem.reference(params, obstacles, 5)[1], rtol=1e-4)
    ranking[:] = ranking[:1]
    assert command.main(words) == 2
    assert capsys.readouterr().err == "error: variant 'soa' cannot run this: 9 bytes asked for\n"
    assert command.main([*words, "--variant", "tree"]) == 0
    assert "Variant:\t\t\ttree: as asked for\n" in capsys.readouterr().out


def test_command_stops_at_ctrl_c_and_leaves_no_file(
    files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def simulate(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back what a process would end with
    monkeypatch.setattr(roofbook.labs.lbm.lattice, "simulate", simulate)
    assert command.main([*map(str, files), "--out", str(tmp_path / "out")]) == 130
    assert capsys.readouterr() == ("", "stopped; nothing was written\n")
    assert not list((tmp_path / "out").iterdir())


def test_command_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "roofbook.labs.lbm", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "PARAMS" in done.stdout
    done = subprocess.run([sys.executable, "-m", "roofbook.labs.lbm"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_run_is_kept_whatever_becomes_of_what_it_prints(
    files: tuple[Path, Path], tmp_path: Path, unbuffered: str
) -> None:
    """Standard output is a full device, whether Python prints as it goes or at the end."""
    program = [sys.executable, "-m", "roofbook.labs.lbm", *map(str, files), "--out", str(tmp_path / "out")]
    with open("/dev/full", "w") as full:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "No space left on device" in done.stderr
    assert unbuffered or "standard output" in done.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"av_vels.dat", "final_state.dat"}


def test_a_device_number_of_any_length_is_an_unknown_device(
    files: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in ("9" * 23, "9" * 5000):
        assert command.main([*map(str, files), "--out", str(tmp_path), "--device", f"cuda:{number}"]) == 2
        error = capfd.readouterr().err
        assert error.startswith("error: unknown device") and error.count("\n") == 1


def test_a_step_for_cpus_is_no_choice_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """No backend of a GPU offers it, whether it is asked for or not."""
    params, obstacles = problem.box(12, 10, 5)
    gpu = SimpleNamespace(
        backend="opencl", kind="gpu", spec="opencl:0", name="A GPU", slug="a-gpu", compute_units=4, ptx=0
    )
    monkeypatch.setattr(roofbook.labs.lbm.lattice, "open_device", lambda *_: gpu)
    with pytest.raises(UsageError, match="variant 'bands' cannot run this: not on opencl:0"):
        roofbook.labs.lbm.lattice.simulate("auto", "bands", params, obstacles)
    case = roofbook.labs.lbm.lattice.LAB.case("128x128", "published")
    chosen = {
        candidate.variant.plan.__name__ for candidate in roofbook.labs.lbm.lattice._quickest(cast(Any, gpu), case)
    }
    assert chosen and not chosen & {"Bands", "Team", "DeepHaloPtx"}
