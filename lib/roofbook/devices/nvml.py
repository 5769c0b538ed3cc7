"""Facts of an NVIDIA card by NVML: its model, its settings, and its clock and temperature at this moment.

Serves provenance. Facts that a driver does not tell are null, never an error.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

_COMPUTE_MODES = ("default", "exclusive thread", "prohibited", "exclusive process")
_REASONS = {
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
    0x200: "board limit",
    0x400: "reliability",
}
"""NVML's bits of reasons for low clocks. Bit 0x1 is left out: a GPU that idles between two samples is not slowed."""


class NvmlCard:
    """A card by its PCI bus id: NVML numbers all cards of the machine in the order of the bus (NVML API Reference,
    nvmlDeviceGetHandleByIndex), CUDA those that CUDA_VISIBLE_DEVICES leaves, the fastest first, and OpenCL in an order of its
    own. An instance of a card that is shared by MIG has the bus id of the card, whose clock and temperature all its instances
    have. `reason` says in one clause why it tells nothing; it is empty where all is well.
    """

    def __init__(self, pci_bus_id: str | None) -> None:
        self.reason, self.pci_bus_id = "", pci_bus_id
        self._nvml: Any = None
        if pci_bus_id is None:
            self.reason = "the driver does not tell the GPU's PCI bus id"
            return
        try:
            import pynvml
        except ImportError:
            self.reason = "nvidia-ml-py is not installed"
            return
        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
            self._nvml = pynvml
        except pynvml.NVMLError as error:
            self.reason = f"no NVML for GPU {pci_bus_id}: {error}"

    def now(self) -> dict[str, Any]:
        """Return `clock_mhz` and `temperature_c` (float, or None if unknown), and `throttle` (reasons, empty for none)."""
        if self._nvml is None:
            return {"clock_mhz": None, "temperature_c": None, "throttle": []}
        # Drivers from before the renaming know the reasons under their old name only.
        reasons = self._number("nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._number("nvmlDeviceGetCurrentClocksThrottleReasons")
        return {
            "clock_mhz": self._number("nvmlDeviceGetClockInfo", self._nvml.NVML_CLOCK_SM),
            "temperature_c": self._number("nvmlDeviceGetTemperature", self._nvml.NVML_TEMPERATURE_GPU),
            "throttle": [name for bit, name in _REASONS.items() if bit & int(reasons or 0)],
        }

    def facts(self) -> dict[str, Any] | None:
        """Return the card's identity and settings as plain JSON data, in W and MHz; None if NVML tells nothing.

        NVML can lock clocks (nvmlDeviceSetGpuLockedClocks), but does not tell whether they are locked. It tells the application
        clock with its default, and the highest clock. A clock that is held down shows in a sample's `throttle`.
        """
        if self._nvml is None:
            return None
        sm = self._nvml.NVML_CLOCK_SM
        mode = self._number("nvmlDeviceGetComputeMode")
        return {
            "uuid": self._text("nvmlDeviceGetUUID"),
            "pci_bus_id": self.pci_bus_id,
            "driver": self._text("nvmlSystemGetDriverVersion", of_card=False),
            "vbios": self._text("nvmlDeviceGetVbiosVersion"),
            "power_limit_w": self._watts("nvmlDeviceGetEnforcedPowerLimit"),
            "power_limit_default_w": self._watts("nvmlDeviceGetPowerManagementDefaultLimit"),
            "application_clock_mhz": self._number("nvmlDeviceGetApplicationsClock", sm),
            "application_clock_default_mhz": self._number("nvmlDeviceGetDefaultApplicationsClock", sm),
            "highest_clock_mhz": self._number("nvmlDeviceGetMaxClockInfo", sm),
            "persistence": self._switch("nvmlDeviceGetPersistenceMode"),
            "compute_mode": None if mode is None else dict(enumerate(_COMPUTE_MODES)).get(int(mode)),
            "mig": self._switch("nvmlDeviceGetMigMode"),
            "ecc": self._switch("nvmlDeviceGetEccMode"),
            "numa_node": _numa_node(self.pci_bus_id or ""),
        }

    def _ask(self, function: str, *arguments: Any) -> Any:
        """Call one function of NVML and return its answer; None if the driver does not tell."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (AttributeError, self._nvml.NVMLError):
            return None

    def _number(self, function: str, *arguments: int) -> float | None:
        number = self._ask(function, self._handle, *arguments)
        return None if number is None else float(number)

    def _watts(self, function: str) -> float | None:
        milliwatts = self._number(function)
        return None if milliwatts is None else milliwatts / 1000

    def _switch(self, function: str) -> bool | None:
        """Return whether a mode is on; None if it is unknown. NVML returns some modes with the pending mode behind."""
        mode = self._ask(function, self._handle)
        mode = mode[0] if isinstance(mode, list | tuple) else mode
        return None if mode is None else bool(mode)

    def _text(self, function: str, of_card: bool = True) -> str | None:
        text = self._ask(function, *[self._handle] * of_card)
        return text.decode() if isinstance(text, bytes) else text


@lru_cache(maxsize=16)
def card(pci_bus_id: str | None) -> NvmlCard:
    """Return the card with a bus id. Each is opened once in a process."""
    return NvmlCard(pci_bus_id)


def uuids() -> list[str]:
    """Return the UUIDs of all cards that this process may reach, in the order of the bus; none without driver or pynvml."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        names = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    except ImportError:
        return []
    except pynvml.NVMLError:
        return []
    return [name.decode() if isinstance(name, bytes) else name for name in names]


def bus_id_of_only_card() -> str | None:
    """Return the bus id of the machine's only card; None if there are several, since a driver may not tell which it uses."""
    try:
        import pynvml

        pynvml.nvmlInit()
        if pynvml.nvmlDeviceGetCount() != 1:
            return None
        bus_id = pynvml.nvmlDeviceGetPciInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).busId
    except ImportError:
        return None
    except pynvml.NVMLError:
        return None
    return bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)


def neighbours(pci_bus_id: str | None) -> list[float | None] | None:
    """Return the utilisation in percent of the host's other cards that this process may reach, in the order of the bus.

    It is the share of the driver's last period, of up to a second, in which a kernel ran (NVML API Reference,
    nvmlDeviceGetUtilizationRates). It is None for a card of which NVML tells nothing; the result is None if this card is one.
    """
    if card(pci_bus_id).reason:
        return None
    import pynvml

    utilisations: list[float | None] = []
    try:
        own_uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
        for at in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(at)
            if pynvml.nvmlDeviceGetUUID(handle) != own_uuid:
                utilisations.append(_utilisation(pynvml, handle))
    except (pynvml.NVMLError, AttributeError):
        return None
    return utilisations


def _utilisation(pynvml: Any, handle: Any) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except (pynvml.NVMLError, AttributeError):
        return None


def _numa_node(pci_bus_id: str) -> int | None:
    """Return the node of the host's memory next to the card; None if the system does not tell, which reads -1."""
    domain, _, address = pci_bus_id.lower().partition(":")
    try:
        node = int(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{address}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
