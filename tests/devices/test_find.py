"""Machines of several made-up GPUs: each is found by the name that a user gives, and has its own card's clocks."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from roofbook.devices import cuda, driver, find, opencl, provenance
from roofbook.devices.contract import BuildFailed, Device
from roofbook.devices.find import open_device
from roofbook.errors import UsageError
from roofbook.labs.peaks import theory


@dataclass(frozen=True)
class Card:
    """One GPU of the machine, with NVML's readings of it."""

    name: str
    bus_id: str
    mhz: int
    celsius: int


L4, H200, A100 = (
    Card("NVIDIA L4", "0000:1B:00.0", 300, 31),
    Card("NVIDIA H200", "0000:5D:00.0", 1980, 62),
    Card("NVIDIA A100", "0001:5D:06.0", 1410, 53),
)
BY_BUS = [L4, H200, A100]
"""The cards in NVML's order, which is that of their buses."""
FASTEST_FIRST = [H200, A100, L4]
"""The cards in CUDA's order."""
OF_OPENCL = [A100, L4, H200]


class NVMLError(Exception):
    """NVML's exception."""


NVMLError.__module__ = "pynvml"


def nvml() -> Any:
    """Stand-in for NVML: all cards of the machine, whatever CUDA may see. A handle is the card."""
    module: Any = types.ModuleType("pynvml")
    module.NVMLError, module.NVML_CLOCK_SM, module.NVML_CLOCK_MEM, module.NVML_TEMPERATURE_GPU = NVMLError, 1, 2, 0

    def by_bus_id(text: str) -> Card:
        for card in BY_BUS:
            if card.bus_id == text.upper():
                return card
        raise NVMLError("Not Found")

    module.nvmlInit = lambda: None
    module.nvmlDeviceGetHandleByIndex = BY_BUS.__getitem__
    module.nvmlDeviceGetHandleByPciBusId = by_bus_id
    module.nvmlDeviceGetClockInfo = module.nvmlDeviceGetMaxClockInfo = lambda card, kind: card.mhz
    module.nvmlDeviceGetTemperature = lambda card, kind: card.celsius
    module.nvmlDeviceGetCurrentClocksEventReasons = lambda card: 0
    module.nvmlDeviceGetCudaComputeCapability = lambda card: (9, 0)
    for name in ("MemoryBusWidth", "MaxPcieLinkGeneration", "MaxPcieLinkWidth"):
        setattr(module, f"nvmlDeviceGet{name}", lambda card: 1)
    return module


def cupy(visible: list[Card]) -> Any:
    """Stand-in for CuPy's list of devices: those that CUDA_VISIBLE_DEVICES leaves, in its order."""
    module: Any = types.ModuleType("cupy")
    module.__version__ = "0"
    common = {"multiProcessorCount": 1, "major": 9, "minor": 0, "totalGlobalMem": 1, "l2CacheSize": 1}
    common |= {"sharedMemPerBlock": 1, "maxThreadsPerBlock": 1024}
    module.cuda = types.SimpleNamespace(
        runtime=types.SimpleNamespace(
            getDeviceCount=lambda: len(visible),
            getDeviceProperties=lambda index: {**common, "name": visible[index].name.encode()},
            deviceGetAttribute=lambda attribute, index: 65536,
            deviceGetPCIBusId=lambda index: visible[index].bus_id,
            runtimeGetVersion=lambda: 0,
            driverGetVersion=lambda: 0,
        )
    )
    return module


class OfOpenCL:
    """Stand-in for PyOpenCL's device of an NVIDIA GPU. tells: parts of its PCI address that the driver gives."""

    vendor, driver_version = "NVIDIA Corporation", "0"
    max_compute_units = global_mem_size = global_mem_cache_size = local_mem_size = max_work_group_size = 1
    max_clock_frequency = 1
    compute_capability_major_nv, compute_capability_minor_nv = 9, 0
    platform = types.SimpleNamespace(name="NVIDIA CUDA", version="OpenCL 3.0")

    def __init__(self, card: Card, tells: tuple[str, ...] = ("domain", "bus", "slot")) -> None:
        import pyopencl as cl

        domain, bus, slot_and_function = card.bus_id.split(":")
        device, _ = slot_and_function.split(".")
        places = {"domain": int(domain, 16), "bus": int(bus, 16), "slot": int(device, 16)}
        self.type, self.name = cl.device_type.GPU, card.name
        self.places = {f"pci_{place}_id_nv": number for place, number in places.items() if place in tells}

    def __getattr__(self, name: str) -> int:
        import pyopencl as cl

        if name in self.__dict__.get("places", {}):
            return int(self.places[name])
        if name.endswith("_id_nv"):
            raise cl.LogicError("clGetDeviceInfo", -30, "INVALID_VALUE")
        raise AttributeError(name)


class OfAMD(OfOpenCL):
    vendor = "Advanced Micro Devices, Inc."


LISTS = [backend.devices.__wrapped__ for backend in (cuda, opencl)]
"""Functions that list the devices of a backend, without their caches of this machine's devices."""
Machine = Callable[..., list[Device]]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Make the machine's devices: those of `visible` by CUDA, then those of `by_opencl` by OpenCL."""

    def make(visible: list[Card], by_opencl: list[Any]) -> list[Device]:
        import pyopencl as cl

        monkeypatch.setitem(sys.modules, "pynvml", nvml())
        monkeypatch.setitem(sys.modules, "cupy", cupy(visible))
        platform = types.SimpleNamespace(name="made up", get_devices=lambda: by_opencl)
        monkeypatch.setattr(cl, "get_platforms", lambda: [platform])
        listed = [lists() for lists in LISTS]
        monkeypatch.setattr(cuda, "devices", lambda: listed[0])
        monkeypatch.setattr(opencl, "devices", lambda: listed[1])
        return find.devices()

    theory.card.cache_clear()
    yield make
    theory.card.cache_clear()


def read(device: Device) -> dict[str, Any]:
    clocks = provenance.Clocks(device.kind, device.pci_bus_id)
    return {**clocks.read(), "reason": clocks.reason}


def of(card: Card) -> dict[str, Any]:
    return {"clock_mhz": float(card.mhz), "temperature_c": float(card.celsius), "throttle": [], "reason": ""}


@pytest.mark.parametrize(
    "visible",
    [FASTEST_FIRST, FASTEST_FIRST[1:2], [L4, H200], [H200]],
    ids=["all", "CUDA_VISIBLE_DEVICES=1", "CUDA_VISIBLE_DEVICES=2,0", "CUDA_VISIBLE_DEVICES=0"],
)
def test_each_gpu_has_the_clocks_of_its_own_card(machine: Machine, visible: list[Card]) -> None:
    """NVML numbers all cards by their bus; neither CUDA's numbers nor OpenCL's are its own."""
    listed = machine(visible, [OfOpenCL(card) for card in OF_OPENCL])
    for device, card in zip(listed, [*visible, *OF_OPENCL], strict=True):
        assert (device.name, device.pci_bus_id) == (card.name, card.bus_id)
        assert read(device) == of(card)
        paper = theory.theory(device, "fma-float32")
        assert paper and f"{card.mhz} MHz" in paper.words


@pytest.mark.parametrize("tells", [(), ("bus", "slot"), ("domain", "bus")])
def test_a_gpu_whose_place_is_not_told_has_no_clocks(machine: Machine, tells: tuple[str, ...]) -> None:
    """Its clocks are neither the first card's, nor those of a card in domain 0 on a bus of that number."""
    (device,) = machine([], [OfOpenCL(A100, tells)])
    assert device.pci_bus_id is None
    nothing: dict[str, Any] = {"clock_mhz": None, "temperature_c": None, "throttle": []}
    assert read(device) == {**nothing, "reason": "the driver does not tell the GPU's PCI bus id"}
    assert theory.theory(device, "fma-float32") is None


def test_a_gpu_of_another_vendor_has_not_the_clock_of_the_cpu(machine: Machine) -> None:
    (device,) = machine([], [OfAMD(Card("AMD Instinct MI300X", "0000:1B:00.0", 0, 0))])
    assert device.kind == "gpu" and device.pci_bus_id is None
    assert read(device)["clock_mhz"] is None and read(device)["reason"]


def test_a_gpu_that_nvml_does_not_have_says_so(machine: Machine) -> None:
    (device,) = machine([Card("NVIDIA Orin", "0000:00:00.0", 1, 1)], [])
    assert read(device)["reason"] == "no NVML for GPU 0000:00:00.0: Not Found"
    assert theory.theory(device, "fma-float32") is None


def test_several_gpus_go_by_their_numbers_and_names(machine: Machine) -> None:
    machine(FASTEST_FIRST, [OfOpenCL(card) for card in OF_OPENCL])
    for spec, card in {
        "cuda:0": H200, "cuda:1": A100, "cuda:2": L4, "opencl:0": A100, "opencl:1": L4, "opencl:2": H200,
        "cuda:l4": L4, "cuda:A100": A100, "opencl:h200": H200, "cuda:nvidia": H200, "opencl:nvidia": A100,
    }.items():  # fmt: skip
        device = open_device(spec)
        assert (device.backend, device.pci_bus_id) == (spec.split(":")[0], card.bus_id), spec
    assert open_device("auto", "cuda").spec == "cuda:0" and open_device("auto", "opencl").spec == "opencl:0"


def test_cuda_counts_what_is_visible(machine: Machine) -> None:
    machine([A100], [OfOpenCL(card) for card in OF_OPENCL])
    assert open_device("cuda:0").pci_bus_id == A100.bus_id
    with pytest.raises(UsageError, match="valid: auto, cuda:0, opencl:0, opencl:1, opencl:2"):
        open_device("cuda:1")
    machine([], [OfOpenCL(L4)])
    assert open_device("auto", "cuda").spec == "opencl:0", "no CUDA device is visible"


def test_the_driver_of_what_is_named_is_started_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int | None] = []
    monkeypatch.setattr(driver, "start_driver", started.append)
    for spec in ("auto", "cuda:1", "cuda:H200", "cuda:", "opencl:0", "nonsense"):
        driver.start_driver_of(spec, "cuda")
    driver.start_driver_of("auto", "opencl")
    assert started == [0, 1, 0, 0]


@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "POCL_DEVICES", "CUDA_VISIBLE_DEVICES"])
def test_where_no_device_is_seen_variables_that_hide_them_are_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in find.CHOOSING:
        monkeypatch.delenv(variable, raising=False)
    assert "this environment" not in str(find.no_device())
    monkeypatch.setenv(name, "/nowhere\n2")
    assert str(find.no_device()).endswith(f"; this environment says which are seen: {name}=/nowhere 2")


@pytest.mark.parametrize("options", ["-no-such-option", "-D '", "-cl-std=CL9.9"])
def test_options_that_the_environment_adds_are_named_where_nothing_builds(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not (devices := find.devices("opencl")):
        pytest.skip("no OpenCL device")
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", options)
    with pytest.raises(BuildFailed, match=r"\(PYOPENCL_BUILD_OPTIONS adds .* to its options\)$"):
        devices[0].build(f"__kernel void named_{abs(hash(options))}(__global int *x) {{ x[0] = 1; }}")
