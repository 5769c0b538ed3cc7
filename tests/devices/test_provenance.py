"""Provenance is complete, stable, quick and private; a missing git, NVML or CPU clock is no error."""

import getpass
import json
import os
import platform
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import contract as contract
from roofbook.devices import machine, provenance, settings
from roofbook.devices.find import devices
from roofbook.devices.nvml import card as nvml_card
from roofbook.devices.nvml import neighbours


class Device:
    kind, pci_bus_id = "cpu", None

    def identity(self) -> dict[str, str]:
        return {"backend": "opencl", "model": "Some CPU", "driver": "1.2"}


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Each test asks the package list and NVML anew."""
    for cached in (provenance._version, nvml_card):
        cached.cache_clear()
    yield
    for cached in (provenance._version, nvml_card):
        cached.cache_clear()


def test_environment_is_stable_and_names_its_libraries() -> None:
    first = provenance.environment(Device())
    assert first == provenance.environment(Device()) == provenance.counted(first), "today all of it counts"
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
    for name in ("machine", "cpu", "threads", "threads_usable", "memory_bytes", "os", "kernel", "load_1min", "time"):
        assert taken[name] is not None
    assert taken["gpu"] is None, "the device is a CPU"
    assert taken["time"].endswith("+00:00")
    words = json.dumps(taken).replace("/", " ").split()
    assert not {platform.node(), getpass.getuser(), str(Path.home()).strip("/")} & {word.strip('",') for word in words}


def test_a_snapshot_starts_no_process_but_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first snapshot of a process asks git and reads the facts that do not change."""
    before = provenance.snapshot(Device())

    def started(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    assert provenance.snapshot(Device())["git"] == before["git"]
    machine._lasting.cache_clear()
    assert machine.facts()


def test_the_package_of_a_driver_that_the_device_is_not_of_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pocl(Device):
        def identity(self) -> dict[str, str]:
            return {**super().identity(), "platform": "Portable Computing Language OpenCL 3.0 PoCL 5.0+debian"}

    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.0")
    libraries = provenance.environment(Pocl())["libraries"]
    assert libraries == {"numpy": "3.0", "pyopencl": "3.0"}, "Debian's PoCL computes, whatever pip installed beside it"


def test_difference_names_the_first_change() -> None:
    was = {"device": {"driver": "570.1", "model": "A"}, "python": "3.11"}
    assert provenance.difference(was, was) is None
    assert provenance.difference(was, {**was, "python": "3.12"}) == "the python changed: 3.11 -> 3.12"
    now: dict[str, Any] = {"device": {"driver": "580.2", "model": "A"}, "python": "3.12"}
    assert provenance.difference(was, now) == "the driver changed: 570.1 -> 580.2 (and 1 more)"
    assert provenance.differences(was, now) == [
        "the driver changed: 570.1 -> 580.2",
        "the python changed: 3.11 -> 3.12",
    ]
    assert provenance.difference(was, {"device": was["device"]}) == "python is gone: was 3.11"
    assert provenance.difference(was, {**was, "pocl": "5"}) == "pocl is new: 5"


class NVMLError(Exception):
    """Exception of the fake driver."""


class FakeNVML(types.ModuleType):
    """Just enough of pynvml: one H200 at 1980 MHz and 61 degrees whose power cap, 600 of 700 W, is reached."""

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 1, 0
    readings: Mapping[str, Any] = {
        "GetClockInfo": 1980, "GetTemperature": 61, "EventReasons": 0x4 | 0x1, "ThrottleReasons": 0x40,
        "UUID": b"GPU-01234567-89ab", "DriverVersion": "580.65.06", "VbiosVersion": "96.00", "EnforcedPowerLimit": 600_000,
        "DefaultLimit": 700_000, "GetApplicationsClock": 1410, "DefaultApplicationsClock": 1980, "MaxClockInfo": 1980,
        "PersistenceMode": 1, "ComputeMode": 3, "MigMode": [0, 1], "EccMode": [1, 1],
    }  # fmt: skip
    refused: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvml"):
            raise AttributeError(name)

        def call(*arguments: Any) -> Any:
            if name in self.refused:
                raise NVMLError("Not Supported")
            return next((value for end, value in self.readings.items() if name.endswith(end)), arguments)

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


class Gpu(Device):
    kind, pci_bus_id = "gpu", BUS  # type: ignore[assignment]


def test_a_row_of_a_gpu_knows_its_card_and_how_it_is_set(nvml: FakeNVML) -> None:
    gpu = provenance.snapshot(Gpu())["gpu"]
    assert gpu.pop("numa_node") is None or gpu["pci_bus_id"] == BUS
    assert gpu == {
        "uuid": "GPU-01234567-89ab", "pci_bus_id": BUS, "driver": "580.65.06", "vbios": "96.00",
        "power_limit_w": 600.0, "power_limit_default_w": 700.0,
        "application_clock_mhz": 1410.0, "application_clock_default_mhz": 1980.0, "highest_clock_mhz": 1980.0,
        "persistence": True, "compute_mode": "exclusive process", "mig": False, "ecc": True,
    }  # fmt: skip


def test_what_a_driver_does_not_tell_of_a_card_is_null(nvml: FakeNVML) -> None:
    nvml.refused = tuple(f"nvmlDeviceGet{name}" for name in ("UUID", "EnforcedPowerLimit", "MigMode", "ComputeMode"))
    gpu = provenance.snapshot(Gpu())["gpu"]
    assert [gpu[name] for name in ("uuid", "power_limit_w", "mig", "compute_mode")] == [None] * 4
    assert gpu["power_limit_default_w"] == 700.0
    nvml_card.cache_clear()
    nvml.refused = ("nvmlInit",)
    assert provenance.snapshot(Gpu())["gpu"] is None


def test_the_other_cards_of_a_host_are_as_busy_as_the_driver_says(
    nvml: FakeNVML, monkeypatch: pytest.MonkeyPatch
) -> None:
    cards = ["GPU-a", "GPU-b", "GPU-c"]
    monkeypatch.setattr(nvml, "nvmlDeviceGetCount", lambda: 3, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByPciBusId", lambda bus: 1, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetHandleByIndex", lambda at: at, raising=False)
    monkeypatch.setattr(nvml, "nvmlDeviceGetUUID", lambda handle: cards[handle], raising=False)

    def utilisation(handle: int) -> Any:
        if handle == 2:
            raise NVMLError("Not Supported")
        return types.SimpleNamespace(gpu=37 + handle)

    monkeypatch.setattr(nvml, "nvmlDeviceGetUtilizationRates", utilisation, raising=False)
    assert neighbours(BUS) == [37.0, None], "without itself, which is the second"
    nvml_card.cache_clear()
    nvml.refused = ("nvmlInit",)
    assert neighbours(BUS) is None and neighbours(None) is None


def test_the_card_is_in_no_key(nvml: FakeNVML, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result is not stale on another card of its kind, nor under another power limit: the row names the card."""
    for name in settings.of_device("opencl", "cpu"):  # which a GPU's programs do not read
        monkeypatch.delenv(name)
    assert provenance.environment(Gpu()) == provenance.environment(Device())


@pytest.mark.parametrize(
    ("reasons", "slowed"),
    [
        ((), False),
        (("software power cap", "application clocks", "sync boost"), False),
        (("software power cap", "hardware thermal slowdown"), True),
        (("power brake",), True),
    ],
)
def test_heat_and_lack_of_power_slow_a_device_down_its_own_power_cap_does_not(
    reasons: tuple[str, ...], slowed: bool
) -> None:
    assert provenance.slowed(reasons) == slowed


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
    """Both backends find the same card, which has the device's name."""
    if device.kind != "gpu" or "nvidia" not in device.name.lower():
        pytest.skip("NVML has NVIDIA's GPUs alone")
    pynvml = pytest.importorskip("pynvml")
    clocks = provenance.Clocks(device.kind, device.pci_bus_id)
    assert clocks.reason == ""
    assert clocks.read()["clock_mhz"] > 0
    name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByPciBusId(device.pci_bus_id))
    assert device.name.split(" MIG ")[0] == name
    places = {gpu.pci_bus_id.lower() for gpu in devices() if gpu.pci_bus_id}
    assert len(places) <= pynvml.nvmlDeviceGetCount(), "a card has one name by CUDA and by OpenCL"
