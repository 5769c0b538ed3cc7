"""The cache keeps texts and binaries between processes, and a broken or missing one never stops a command."""

from __future__ import annotations

import errno
import importlib.metadata
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook import paths
from roofbook.devices import cuda
from roofbook.devices.backends import CUDA
from roofbook.devices.contract import BuildFailed
from roofbook.spec import source
from roofbook.spec.registry import get
from roofbook.spec.source import Source


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "roofbook"


def refuse() -> str:
    raise AssertionError("it is there already")


def test_a_text_is_made_once(folder: Path) -> None:
    assert paths.cached_text("kind", "key", lambda: "one\ntwo — µ\n") == "one\ntwo — µ\n"
    assert paths.cached_text("kind", "key", refuse) == "one\ntwo — µ\n"
    assert paths.cached_text("kind", "other", lambda: "") == paths.cached_text("kind", "other", refuse) == ""
    assert sorted(path.name for path in (folder / "kind").iterdir()) == ["key", "other"]


@given(left=st.binary(max_size=200))
def test_a_file_that_is_not_whole_is_made_again(tmp_path_factory: pytest.TempPathFactory, left: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        paths.cached_text("kind", "key", lambda: "whole")
        path = paths.cache_dir() / "kind" / "key"
        path.write_bytes(left)
        assert paths.cached_text("kind", "key", lambda: "again") == "again"
        assert paths.cached_text("kind", "key", refuse) == "again"


@given(cached_bytes=st.binary(max_size=200), flipped=st.integers(0, 10**6))
def test_bytes_with_one_wrong_bit_are_made_again(
    tmp_path_factory: pytest.TempPathFactory, cached_bytes: bytes, flipped: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        assert paths.cached("kind", "key", lambda: cached_bytes) == cached_bytes
        path = paths.cache_dir() / "kind" / "key"
        content = bytearray(path.read_bytes())
        content[flipped // 8 % len(content)] ^= 1 << flipped % 8
        path.write_bytes(content)
        assert paths.cached("kind", "key", lambda: b"again") == b"again"


@pytest.fixture
def nvrtc(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Replace CuPy and NVRTC by stand-ins that log which texts they compile and load."""
    stand_ins = SimpleNamespace(
        loaded=[], compiled=[], version=[13, 0], package={"nvidia-cuda-nvrtc": "13.0.88"}, knows="sm_"
    )

    class Module:
        def __init__(self, path: str = "", code: str = "", options: tuple[str, ...] = (), backend: str = "") -> None:
            stand_ins.loaded.append(Path(path).read_bytes() if path else (code, *options))

        def compile(self) -> None:
            if stand_ins.loaded[-1][0] == "wrong":
                raise ValueError("kernel.cu(1): error: it is wrong")

    def version_of(name: str) -> str:
        if name not in stand_ins.package:
            raise importlib.metadata.PackageNotFoundError
        return str(stand_ins.package[name])

    def compile_program(text: str, options: tuple[str, ...]) -> None:
        if not any(stand_ins.knows in option for option in options):
            raise RuntimeError
        stand_ins.compiled.append((text, *options))

    library = SimpleNamespace(
        NVRTCError=RuntimeError,
        getVersion=lambda: tuple(stand_ins.version),
        getProgramLog=lambda _: "nvrtc: error: invalid value for --gpu-architecture (-arch)",
        createProgram=lambda text, *_: text,
        compileProgram=compile_program,
        getCUBIN=lambda text: f"cubin {len(stand_ins.compiled)} of {text}".encode(),
    )
    monkeypatch.setattr(importlib.metadata, "version", version_of)
    monkeypatch.setattr(cuda, "_compiler", cuda._compiler.__wrapped__)
    device = SimpleNamespace(
        Device=lambda *_: SimpleNamespace(use=lambda: None), compiler=SimpleNamespace(CompileException=ValueError)
    )
    for name, module in (
        ("cupy", SimpleNamespace(RawModule=Module, cuda=device)),
        ("cupy_backends", SimpleNamespace()),
        ("cupy_backends.cuda", SimpleNamespace()),
        ("cupy_backends.cuda.libs", SimpleNamespace(nvrtc=library)),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    return stand_ins


def test_a_binary_is_compiled_once(folder: Path, nvrtc: SimpleNamespace) -> None:
    """The key has the text, the options, and the versions of the compiler that is loaded and of its package."""
    for text, arch in (("a", "90a"), ("a", "90a"), ("a", "100a"), ("b", "90a")):
        cuda._module(text, [f"-arch=sm_{arch}"])
    assert [text for text, *_ in nvrtc.compiled] == ["a", "a", "b"]
    assert nvrtc.loaded[0] == nvrtc.loaded[1] == b"cubin 1 of a"
    nvrtc.version[1] = 1
    cuda._module("a", ["-arch=sm_90a"])
    nvrtc.package.clear()
    cuda._module("a", ["-arch=sm_90a"])
    assert len(nvrtc.compiled) == 5
    for path in (folder / "cubin").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    cuda._module("a", ["-arch=sm_90a"])
    assert len(nvrtc.compiled) == 6 and nvrtc.loaded[-1] == b"cubin 6 of a"


def test_a_text_that_names_no_architecture_is_compiled_as_by_cupy(folder: Path, nvrtc: SimpleNamespace) -> None:
    """CuPy compiles texts that NVRTC refuses: those with headers of CUDA's, or for an architecture that is too new."""
    device = cuda.CudaDevice.__new__(cuda.CudaDevice)
    device.index, device.architecture, device._programs = 0, 90, {}
    device.build("a", ("-DN=1",))
    device.build("a", ("-arch=sm_90a",))
    native = ("-ftz=true", "--device-as-default-execution-space", "-arch=sm_90")
    assert nvrtc.compiled == [("a", "-DN=1", *CUDA.flags, *native), ("a", *CUDA.flags, "-arch=sm_90a")]
    device.build("a", ("-DN=1",))
    assert len(nvrtc.compiled) == 2 and device.programs_built == 2
    nvrtc.knows = "sm_120"
    device.architecture = 121
    device.build("b")
    assert nvrtc.loaded[-1] == ("b", *CUDA.flags) and len(nvrtc.compiled) == 2
    with pytest.raises(BuildFailed, match="gpu-architecture"):
        device.build("b", ("-arch=sm_90a",))
    with pytest.raises(BuildFailed, match="it is wrong"):
        device.build("wrong")


def test_without_a_folder_nothing_is_cached_and_nothing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    contents = iter("12")
    assert [paths.cached_text("kind", "key", lambda: next(contents)) for _ in range(2)] == ["1", "2"]


def test_an_expanded_kernel_is_cached_until_its_text_changes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "part.h").write_text("#define TWICE(x) (2 * (x))\n")
    kernel = tmp_path / "kernel.k"
    kernel.write_text('#include "part.h"\n// Knob N: how many\nKERNEL void k(GLOBAL float *x) { x[0] = TWICE(N); }\n')
    expanded = Source.of(kernel, N=3).render("cuda")
    with monkeypatch.context() as patch:
        patch.setattr(source, "_expanded", lambda *_: refuse())
        source._expand.cache_clear()  # as a new process has it
        assert Source.of(kernel, N=3).render("cuda") == expanded and "(2 * (3))" in expanded
        for another in (Source.of(kernel, N=4), Source.of(kernel)):
            with pytest.raises(AssertionError):
                another.render("cuda")
        with pytest.raises(AssertionError):
            Source.of(kernel, N=3).render("opencl")
    (tmp_path / "part.h").write_text("#define TWICE(x) ((x) + (x))\n")
    assert "((3) + (3))" in Source.of(kernel, N=3).render("cuda")


def test_the_error_of_a_broken_kernel_is_raised_each_time(folder: Path, tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.k"
    kernel.write_text('#include "absent.h"\nKERNEL void k() {}\n')
    for _ in range(2):
        source._expand.cache_clear()
        with pytest.raises(ValueError, match=r"kernel\.k includes absent\.h"):
            Source.of(kernel).render("cuda")


def test_a_process_that_finds_all_kernels_expanded_does_not_load_the_preprocessor(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variant = get("lbm").variant("fused")
    assert variant.source
    text = variant.source.resolve()
    source._expand.cache_clear()
    monkeypatch.setitem(__import__("sys").modules, "pcpp", None)  # an import of it fails
    assert variant.source.resolve() == text


@pytest.mark.parametrize("content", ["text — µ\n", b"\x00\xff", [b"in ", b"pieces"]])
@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_written_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | bytes | list[bytes], durable: bool
) -> None:
    file = tmp_path / "folder" / "file"
    paths.write_whole(file, "old")
    paths.write_whole(file, content, durable=durable)
    expected = (
        content.encode() if isinstance(content, str) else b"".join([content] if isinstance(content, bytes) else content)
    )
    assert file.read_bytes() == expected

    with pytest.raises(NotADirectoryError) as refused:
        paths.write_whole(file / "file", content, durable=durable)
    assert refused.value.filename == str(file)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="full") as no_room:
        patch.setattr("os.replace", full)
        paths.write_whole(file, "new", durable=durable)
    assert no_room.value.filename == str(file) and file.read_bytes() == expected

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("os.replace", killed)
    with pytest.raises(KeyboardInterrupt):
        paths.write_whole(file, "new", durable=durable)
    assert file.read_bytes() == expected and [path.name for path in file.parent.iterdir()] == ["file"]


def test_a_link_stays_a_link_and_a_device_file_takes_the_text(tmp_path: Path) -> None:
    """A pipe stands for devices too: taken over as root, /dev/null would be gone for all programs of the machine."""
    (tmp_path / "file").write_text("old")
    for name, to in (("link", "file"), ("dangling", "folder/new")):
        (tmp_path / name).symlink_to(to)
        paths.write_whole(tmp_path / name, name)
        assert (tmp_path / name).is_symlink() and (tmp_path / to).read_text() == name
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    paths.write_whole(tmp_path / "pipe", "told", durable=True)
    assert (tmp_path / "pipe").is_fifo() and os.read(reader, 9) == b"told"
    os.close(reader)
    with pytest.raises(IsADirectoryError):
        paths.write_whole(tmp_path, "told")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "file", "folder", "link", "pipe"]
