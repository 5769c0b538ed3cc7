"""Theoretical peaks of a device from its properties, to compare with the measured ones."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...devices.contract import Device
from ...devices.occupancy import CORES

LANES = {
    (8, 0): {"float16": 256, "float64": 32, "int32": 64, "root": 16},
    (8, 6): {"float16": 128, "float64": 2, "int32": 64, "root": 16},
    (8, 9): {"float16": 128, "float64": 2, "int32": 64, "root": 16},
    (9, 0): {"float16": 256, "float64": 64, "int32": 64, "root": 16},
}
"""Results a clock and multiprocessor, by compute capability: CUDA C++ Programming Guide, throughput of native arithmetic."""

TENSOR = {
    (8, 0): {"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048},
    (9, 0): {"f16": 2048, "bf16": 2048, "tf32": 1024, "s8": 4096, "e4m3": 4096},
}
"""Multiply-adds a clock and multiprocessor on dense matrices: NVIDIA's white papers on the A100 and the H100."""

LINK = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Bytes/s a lane and direction by generation of PCI Express."""


@dataclass(frozen=True)
class Theory:
    """A theoretical peak in the unit of the measured one, and its derivation in words."""

    value: float
    words: str


@dataclass(frozen=True)
class Card:
    """NVML's figures of an NVIDIA GPU; None for figures that it does not give."""

    capability: tuple[int, int] | None
    clock_mhz: int | None
    memory_mhz: int | None
    bus_bits: int | None
    link: tuple[int, int] | None
    """(generation, lanes)"""


@lru_cache
def card(pci_bus_id: str) -> Card | None:
    """Return NVML's figures of the GPU with a PCI bus id; None without NVML, or if it has no such GPU."""
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
    except Exception as error:  # NVML's own error type cannot be imported if NVML is not installed
        if type(error).__module__.startswith("pynvml") or isinstance(error, ImportError):
            return None
        raise

    def ask(function: str, *arguments: int) -> int | None:
        try:
            return int(getattr(nvml, function)(handle, *arguments))
        except (AttributeError, nvml.NVMLError):
            return None

    try:
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
    except nvml.NVMLError:
        major = minor = None
    generation, lanes = ask("nvmlDeviceGetMaxPcieLinkGeneration"), ask("nvmlDeviceGetMaxPcieLinkWidth")
    return Card(
        capability=(major, minor) if major is not None else None,
        clock_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_SM),
        memory_mhz=ask("nvmlDeviceGetMaxClockInfo", nvml.NVML_CLOCK_MEM),
        bus_bits=ask("nvmlDeviceGetMemoryBusWidth"),
        link=(generation, lanes) if generation and lanes else None,
    )


def theory(device: Device, peak: str) -> Theory | None:
    """Return the theoretical value of a peak, a variant of the lab `peaks`; None if the device's properties do not give it."""
    if device.kind == "cpu":
        return _of_cpu(device, peak)
    properties = card(device.pci_bus_id) if device.pci_bus_id is not None else None
    return _of_card(device, properties, peak) if properties else None


def _of_card(device: Device, properties: Card, peak: str) -> Theory | None:
    kind, _, element = peak.partition("-")
    if kind in ("copy", "read", "write"):
        if not (properties.memory_mhz and properties.bus_bits):
            return None
        value = 2e6 * properties.memory_mhz * properties.bus_bits / 8
        return Theory(
            value, f"memory: {properties.bus_bits} bits, two transfers per clock at {properties.memory_mhz} MHz"
        )
    if kind == "to":
        if not properties.link or properties.link[0] not in LINK:
            return None
        generation, lanes = properties.link
        return Theory(LINK[generation] * lanes, f"PCI Express {generation}, {lanes} lanes, one direction")
    name, capability = element or kind, properties.capability or (0, 0)
    lanes_of = (TENSOR if kind in ("mma", "wgmma") else LANES).get(capability, {})
    if name == "float32" and capability in CORES:
        lanes_of = {name: CORES[capability]}
    if name not in lanes_of or not properties.clock_mhz:
        return None
    unit, operations = ("roots", 1) if name == "root" else ("multiply-adds", 2)
    value = 1e6 * operations * lanes_of[name] * properties.clock_mhz * device.compute_units
    return Theory(
        value, f"{device.compute_units} multiprocessors, {lanes_of[name]} {unit} per clock, {properties.clock_mhz} MHz"
    )


def _of_cpu(device: Device, peak: str) -> Theory | None:
    kind, _, element = peak.partition("-")
    bits, lanes = _vector_bits(), {"float32": 32, "float64": 64}.get(element)
    if kind != "fma" or not (bits and lanes and device.max_clock_mhz):
        return None
    value = 1e6 * device.max_clock_mhz * device.compute_units * 2 * 2 * bits / lanes
    threads, clock = device.compute_units, device.max_clock_mhz
    return Theory(
        value, f"{threads} threads, two multiply-adds of {bits} bits per clock each, {clock} MHz without turbo"
    )


@lru_cache
def _vector_bits() -> int | None:
    """Return the bits of this CPU's vector registers, if it has fused multiply-adds on them; otherwise None."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    flags = set(next((line.partition(":")[2].split() for line in text.splitlines() if line.startswith("flags")), []))
    return 512 if "avx512f" in flags else 256 if {"avx2", "fma"} <= flags else None
