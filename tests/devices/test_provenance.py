"""Provenance is complete, stable, quick and private; a missing git, NVML or CPU clock is no error."""

import getpass
import json
import os
import platform
import shlex
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import contract as contract
from roofbook.devices import provenance
from roofbook.devices.find import devices

ROOT = Path(__file__).parents[2]


class Device:
    def identity(self) -> dict[str, str]:
        return {"backend": "opencl", "model": "Some CPU", "driver": "1.2"}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Each test asks git and the package list anew."""
    provenance._git.cache_clear()
    provenance._version.cache_clear()
    yield
    provenance._git.cache_clear()
    provenance._version.cache_clear()


def test_environment_is_stable_and_names_its_libraries() -> None:
    first = provenance.environment(Device())
    assert first == provenance.environment(Device())
    assert first["device"] == Device().identity()
    assert {"numpy", "pyopencl"} <= first["libraries"].keys()
    assert first["python"] == platform.python_version()


def test_environment_does_not_depend_on_the_other_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "1")
    assert not any("cupy" in name for name in provenance.environment(Device())["libraries"])


def test_environment_is_the_same_in_another_process() -> None:
    text = (
        "import json; from roofbook.devices import provenance; from test_provenance import Device;"
        "print(json.dumps(provenance.environment(Device())))"
    )
    paths = os.pathsep.join([str(Path(provenance.__file__).parents[2]), str(Path(__file__).parent)])
    setting = {**os.environ, "PYTHONPATH": paths}
    child = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, env=setting)
    assert json.loads(child.stdout) == provenance.environment(Device())


def test_snapshot_is_complete_plain_and_private() -> None:
    taken = provenance.snapshot(Device())
    assert json.loads(json.dumps(taken, allow_nan=False)) == taken
    assert taken["environment"] == provenance.environment(Device())
    for name in ("cpu", "threads", "threads_usable", "memory_bytes", "os", "kernel", "load_1min", "time"):
        assert taken[name] is not None
    assert taken["time"].endswith("+00:00")
    words = json.dumps(taken).replace("/", " ").split()
    assert not {platform.node(), getpass.getuser(), str(Path.home()).strip("/")} & {word.strip('",') for word in words}


def test_snapshot_is_quick() -> None:
    provenance.snapshot(Device())
    begin = time.perf_counter()
    for _ in range(10):
        provenance.snapshot(Device())
    assert (time.perf_counter() - begin) / 10 < 0.05


def git(folder: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


def test_git_commit_and_dirty_flag(tmp_path: Path) -> None:
    assert provenance._git(tmp_path) is None
    git(tmp_path, "init", "-q")
    provenance._git.cache_clear()
    assert provenance._git(tmp_path) == {"commit": None, "dirty": False}
    (tmp_path / "kernel.k").write_text("a")
    git(tmp_path, "add", "kernel.k")
    git(tmp_path, "commit", "-q", "-m", "a")
    provenance._git.cache_clear()
    clean = provenance._git(tmp_path)
    assert clean and len(clean["commit"]) == 40 and not clean["dirty"]
    (tmp_path / "new.k").write_text("b")
    assert provenance._git(tmp_path) is clean  # asked once a process
    provenance._git.cache_clear()
    assert provenance._git(tmp_path) == {**clean, "dirty": True}
    inner = tmp_path / "site-packages"
    inner.mkdir()
    assert provenance._git(inner) is None  # installed inside somebody's repository, not ours


def test_no_git_is_null(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert provenance._git(tmp_path) is None  # a broken repository
    provenance._git.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert provenance._git(tmp_path) is None
    assert "git" in provenance.snapshot(Device())


def test_an_archive_of_a_commit_names_it(tmp_path: Path) -> None:
    """As `git archive` and the hosts of repositories make it."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    subprocess.run("git archive HEAD lib | tar -x -C " + shlex.quote(str(tmp_path)), shell=True, cwd=ROOT, check=True)
    told = (tmp_path / "lib" / "roofbook" / "archived.txt").read_text().strip()
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told == head.strip()
    ask = "from pathlib import Path; from roofbook.devices import provenance; print(provenance._git(Path('nowhere')))"
    found = subprocess.run(
        [sys.executable, "-c", ask], env={**os.environ, "PYTHONPATH": str(tmp_path / "lib")}, cwd=tmp_path,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert found.strip() == str({"commit": told, "dirty": None})


def test_difference_names_the_first_change() -> None:
    was = {"device": {"driver": "570.1", "model": "A"}, "python": "3.11"}
    assert provenance.difference(was, was) is None
    assert provenance.difference(was, {**was, "python": "3.12"}) == "the python changed: 3.11 -> 3.12"
    now: dict[str, Any] = {"device": {"driver": "580.2", "model": "A"}, "python": "3.12"}
    assert provenance.difference(was, now) == "the driver changed: 570.1 -> 580.2 (and 1 more)"
    assert provenance.difference(was, {"device": was["device"]}) == "python is gone: was 3.11"
    assert provenance.difference(was, {**was, "pocl": "5"}) == "pocl is new: 5"


class NVMLError(Exception):
    """The fake driver's refusal."""


class FakeNVML(types.ModuleType):
    """Just enough of pynvml: one H200 at 1980 MHz and 61 degrees whose power cap is reached."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
    refused: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            if name in self.refused:
                raise NVMLError("Not Supported")
            known = {"ClockInfo": 1980, "Temperature": 61, "EventReasons": 0x4 | 0x1, "ThrottleReasons": 0x40}
            return next((value for end, value in known.items() if name.endswith(end)), arguments)

        return call


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> FakeNVML:
    fake = FakeNVML("pynvml")
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    return fake


BUS = "0000:3B:00.0"


def test_clocks_of_a_gpu(nvml: FakeNVML) -> None:
    clocks = provenance.Clocks("gpu", BUS)
    assert clocks.reason == ""
    assert clocks.read() == {"clock_mhz": 1980.0, "temperature_c": 61.0, "throttle": ["software power cap"]}


def test_clocks_of_an_old_driver(nvml: FakeNVML) -> None:
    nvml.refused = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetClockInfo")
    read = provenance.Clocks("gpu", BUS).read()
    assert read == {"clock_mhz": None, "temperature_c": 61.0, "throttle": ["hardware thermal slowdown"]}
    nvml.refused = (*nvml.refused, "nvmlDeviceGetCurrentClocksThrottleReasons")
    assert provenance.Clocks("gpu", BUS).read()["throttle"] == []


def test_no_gpu_says_why(nvml: FakeNVML, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.refused = ("nvmlInit",)
    clocks = provenance.Clocks("gpu", BUS)
    assert clocks.reason == "no NVML for GPU 0000:3B:00.0: Not Supported"
    assert clocks.read() == {"clock_mhz": None, "temperature_c": None, "throttle": []}
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert provenance.Clocks("gpu", BUS).reason == "nvidia-ml-py is not installed"


def test_a_gpu_without_a_bus_id_has_no_clocks_and_not_those_of_another(nvml: FakeNVML) -> None:
    clocks = provenance.Clocks("gpu")
    assert clocks.reason == "the driver does not tell the GPU's PCI bus id"
    assert clocks.read() == {"clock_mhz": None, "temperature_c": None, "throttle": []}


def test_clocks_of_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    read = provenance.Clocks().read()
    assert read["clock_mhz"] is None or 100 < read["clock_mhz"] < 10_000
    assert (read["temperature_c"], read["throttle"]) == (None, [])
    import psutil

    def unknown() -> None:
        raise NotImplementedError

    for silent in (lambda: None, unknown):
        monkeypatch.setattr(psutil, "cpu_freq", silent)
        assert provenance.Clocks().read()["clock_mhz"] is None


@pytest.mark.gpu
def test_a_real_gpu_is_found_by_its_bus_id(device: contract.Device) -> None:
    """By both backends the same card, which has the device's name."""
    if device.kind != "gpu" or "nvidia" not in device.name.lower():
        pytest.skip("NVML has NVIDIA's GPUs alone")
    pynvml = pytest.importorskip("pynvml")
    clocks = provenance.Clocks(device.kind, device.pci_bus_id)
    assert clocks.reason == ""
    assert clocks.read()["clock_mhz"] > 0
    name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id))
    assert device.name.split(" MIG ")[0] == name
    places = {each.pci_bus_id.lower() for each in devices() if each.pci_bus_id}
    assert len(places) <= pynvml.nvmlDeviceGetCount(), "a card has one name by CUDA and by OpenCL"
