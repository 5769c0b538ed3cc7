"""The course's files: round trips, every kind of broken input, and the command that reads and writes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import roofbook.labs.cnn
from roofbook.errors import UsageError
from roofbook.labs.cnn import __main__ as command
from roofbook.labs.cnn import course
from roofbook.labs.cnn.problem import Array, Layer, blocked, error_over_bound, inputs, reference

SHARED_FOLDER = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
LAYER = Layer(channels=3, filters=4, height=7, width=7, kernel=5)
FILES = {"x": "input.bin", "weight": "weight.bin", "bias": "bias.bin"}


def write(folder: Path, layer: Layer, seed: int = 0) -> dict[str, Array]:
    """Write the three files of a layer, and return their arrays."""
    drawn: dict[str, Array] = {**inputs(layer, seed, "uniform")}
    for name, array in drawn.items():
        (folder / FILES[name]).write_bytes(array.astype("<f4").tobytes())
    return drawn


@SHARED_FOLDER
@given(st.integers(1, 5), st.integers(1, 5), st.integers(2, 9), st.integers(1, 6))
@example(3, 4, 7, 5)
def test_files_give_the_layer_back(tmp_path: Path, channels: int, filters: int, side: int, kernel: int) -> None:
    layer = Layer(channels, filters, side, side, kernel)
    drawn = write(tmp_path, layer)
    layer_read, *arrays = course.read(tmp_path, kernel)
    assert layer_read == layer
    for array, right in zip(arrays, drawn.values(), strict=True):
        np.testing.assert_array_equal(array, right)
        assert array.dtype == np.float32 and array.flags.c_contiguous and array.flags.writeable


def test_the_kernel_is_the_courses_unless_told(tmp_path: Path) -> None:
    write(tmp_path, LAYER)
    assert course.read(str(tmp_path))[0] == LAYER


def cut(folder: Path, name: str, end: int) -> None:
    (folder / name).write_bytes((folder / name).read_bytes()[:end])


@pytest.mark.parametrize("name", FILES.values())
def test_a_file_that_is_not_there_or_no_file(tmp_path: Path, name: str) -> None:
    write(tmp_path, LAYER)
    (tmp_path / name).unlink()
    with pytest.raises(UsageError, match=f"{name}: no such file, expected input.bin, weight.bin and bias.bin"):
        course.read(tmp_path)
    (tmp_path / name).mkdir()
    with pytest.raises(UsageError, match=f"{name}: cannot be read: .*[Dd]irectory"):
        course.read(tmp_path)


@pytest.mark.parametrize("name", FILES.values())
def test_a_file_that_is_empty_or_ends_within_a_value(tmp_path: Path, name: str) -> None:
    for size in (15, 2, 0):
        write(tmp_path, LAYER)
        cut(tmp_path, name, size)
        with pytest.raises(UsageError, match=f"{name}: has {size} bytes, expected a multiple of 4"):
            course.read(tmp_path)


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("input.bin", -4, "input.bin: has 1448 bytes, expected 3 square channels, as in weight.bin, of 6x6 float32 or more,"
                          " such as 1452 bytes"),
        ("input.bin", 300, "input.bin: has 300 bytes, expected 3 square channels, .* such as 432 bytes"),
        ("input.bin", 4, "input.bin: has 4 bytes, expected 3 square channels, .* such as 432 bytes"),
        ("weight.bin", -4, "weight.bin: has 1196 bytes, expected a multiple of 400: a 5x5 kernel of float32 for each of the 4"
                           " filters of bias.bin"),
        ("weight.bin", 396, "weight.bin: has 396 bytes, expected a multiple of 400"),
        ("weight.bin", 800, "input.bin: has 1452 bytes, expected 2 square channels"),
        ("bias.bin", -4, "input.bin: has 1452 bytes, expected 4 square channels"),
        ("bias.bin", 4, "input.bin: has 1452 bytes, expected 12 square channels"),
    ],
)  # fmt: skip
def test_files_that_do_not_match(tmp_path: Path, name: str, size: int, says: str) -> None:
    write(tmp_path, LAYER)
    cut(tmp_path, name, size)
    with pytest.raises(UsageError, match=says) as caught:
        course.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_bias_that_the_weights_do_not_match(tmp_path: Path) -> None:
    write(tmp_path, LAYER)
    (tmp_path / "bias.bin").write_bytes(bytes(28))
    with pytest.raises(
        UsageError, match=r"weight\.bin: has 1200 bytes, expected a multiple of 700: .* 7 filters of bias\.bin"
    ):
        course.read(tmp_path)
    write(tmp_path, LAYER)
    for kernel in (0, -5):
        with pytest.raises(UsageError, match=f"kernel must be 1 or more, not {kernel}"):
            course.read(tmp_path, kernel)
    with pytest.raises(UsageError, match=r"weight\.bin: has 1200 bytes, expected a multiple of 144"):
        course.read(tmp_path, 3)


@pytest.mark.parametrize(
    ("name", "index", "location"),
    [("x", (2, 10, 0), "input.bin: the value at \\[2, 10, 0\\]"), ("bias", (3,), "bias.bin: the value at \\[3\\]"),
     ("weight", (1, 2, 4, 0), "weight.bin: the value at \\[1, 2, 4, 0\\]")],
)  # fmt: skip
@pytest.mark.parametrize("bad", ["nan", "inf", "-inf"])
def test_a_value_that_is_no_number(tmp_path: Path, name: str, index: tuple[int, ...], location: str, bad: str) -> None:
    drawn = write(tmp_path, LAYER)
    drawn[name][index] = float(bad)
    (tmp_path / FILES[name]).write_bytes(drawn[name].tobytes())
    with pytest.raises(UsageError, match=f"{location} is {bad}, expected finite numbers"):
        course.read(tmp_path)


few = st.binary(max_size=40) | st.integers(0, 30).map(lambda size: bytes(4 * size))


@SHARED_FOLDER
@given(few, few, few, st.integers(-1, 3))
@example(bytes(16), bytes(4), bytes(4), 1)
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path: Path, x: bytes, weight: bytes, bias: bytes, kernel: int
) -> None:
    for name, data in zip(FILES.values(), (x, weight, bias), strict=True):
        (tmp_path / name).write_bytes(data)
    try:
        layer, *arrays = course.read(tmp_path, kernel)
    except UsageError as wrong:
        assert "\n" not in str(wrong)
    else:
        assert [array.shape for array in arrays] == [layer.x_shape, layer.weight_shape, layer.bias_shape]
        assert [array.nbytes for array in arrays] == [len(x), len(weight), len(bias)]


def test_output_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.arange(12.0).reshape(2, 3, 2)
    assert course.write_output(tmp_path, out) == tmp_path / "output.bin"
    assert (tmp_path / "output.bin").read_bytes() == np.arange(12, dtype="<f4").tobytes()
    course.write_output(tmp_path, np.asfortranarray(out + 1))
    expected = np.arange(1, 13, dtype="<f4").tobytes()
    assert (tmp_path / "output.bin").read_bytes() == expected

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match=r"output\.bin: cannot be written: No space left"):
        course.write_output(tmp_path, 0 * out)
    assert [path.name for path in tmp_path.iterdir()] == ["output.bin"]
    assert (tmp_path / "output.bin").read_bytes() == expected
    with pytest.raises(UsageError, match=r"output\.bin: cannot be written"):
        course.write_output(tmp_path / "none", out)


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a small layer; `forward` is a matrix product on the host."""

    def forward(device: str, variant: str | None, layer: Layer, x: Array, weight: Array, bias: Array) -> Array:
        if device != "auto":
            raise UsageError(f"unknown device {device!r}; valid: auto")
        out = blocked(layer, x, weight, bias)
        if variant == "wrong":
            out[0, 0, 0] += 1
        return out

    monkeypatch.setattr(roofbook.labs.cnn, "forward", forward, raising=False)
    write(tmp_path, LAYER)
    return tmp_path


def test_command_writes_the_output_and_says_what_it_took(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "time", SimpleNamespace(perf_counter=iter([5.0, 5.25]).__next__))
    assert command.main([str(folder)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "Layer:    3to4ch-7x7-k5, 2.94e-05 GFLOP"
    assert printed[1] == "Time:     0.250000 s, one cold call with copies and build"
    assert printed[2] == f"Rate:     {LAYER.flops / 0.25e9:.4g} GFLOP/s, of that call"
    assert printed[3] == f"Written:  {folder / 'output.bin'}" and len(printed) == 4
    layer, *arrays = course.read(folder)
    right = reference(layer, *arrays)
    out = np.fromfile(folder / "output.bin", "<f4").reshape(layer.out_shape)
    assert error_over_bound(out, right, layer) <= 1


def test_command_checks_what_it_writes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = []
    for variant in ("right", "wrong"):
        assert command.main([str(folder), "--check", "--variant", variant]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[3].startswith("Error:    ") and printed[3].endswith(" of the tolerance for fp32, at most")
        assert printed[4].startswith("Course:   ") and printed[4].endswith(" of 36 outputs wrong by its check")
        counts.append((float(printed[3].split()[1]), int(printed[4].split()[1])))
    assert counts[0][0] <= 1 and counts[0][1] == 0
    assert counts[1][0] > 1 and counts[1][1] == 1


def test_command_takes_another_kernel(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, Layer(2, 2, 6, 6, 3))
    assert command.main([str(folder), "--kernel", "3"]) == 0
    assert capsys.readouterr().out.startswith("Layer:    2ch-6x6-k3, ")


def test_command_refuses_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = str(folder)
    for arguments in (
        [],
        [good, "--no-such-option"],
        [good, "--kernel", "five"],
        [good, "--kernel", "0"],
        [good, "--device", "tpu"],
        [str(folder / "none")],
        [str(folder / "bias.bin")],
    ):
        assert command.main(arguments) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.startswith("error: ") and err.count("\n") == 1
    assert not (folder / "output.bin").exists()


def test_command_stops_at_ctrl_c_and_leaves_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)  # put back what a process would end with
    for module, name in ((command, "reference"), (roofbook.labs.cnn, "forward")):
        monkeypatch.setattr(module, name, stopped)
        assert command.main([str(folder), "--check"]) == 130
        assert capsys.readouterr().err == "stopped; nothing was written\n"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES.values())


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "roofbook.labs.cnn", *arguments], capture_output=True, text=True)


def test_command_runs_as_a_module() -> None:
    done = run("--help")
    assert done.returncode == 0 and "DIR" in done.stdout
    done = run()
    assert done.returncode == 2 and done.stderr.count("\n") == 1


def test_command_runs_the_labs_own_kernels(tmp_path: Path) -> None:
    layer = Layer(channels=4, filters=8, height=12, width=12, kernel=5)
    write(tmp_path, layer)
    done = run(str(tmp_path), "--check")
    assert done.returncode == 0, done.stderr
    assert " 0 of 288 outputs wrong" in done.stdout
    assert (tmp_path / "output.bin").stat().st_size == 4 * 288
    done = run(str(tmp_path), "--variant", "no-such-variant")
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
