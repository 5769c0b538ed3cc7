"""One NVIDIA card as its driver describes it by NVML: what it is, how it is set, how it is at this moment.

Serves provenance. What a driver does not tell is null, never an error.
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
"""NVML's bits of what holds the clocks down. That a GPU idles between two samples slows nothing, so bit 0x1 is not here."""


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
        """`clock_mhz` and `temperature_c` (float, or None where unknown) and `throttle` (names, empty for none)."""
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
        """Which card it is and how it is set, as plain JSON data; None where NVML tells nothing. Power in W, clocks in MHz.

        NVML has a call that locks clocks (nvmlDeviceSetGpuLockedClocks) and none that says whether they are: what it tells is
        the application clock with its default, and the highest clock. A clock that is held shows in a sample's `throttle`.
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
        """One answer; a driver that does not tell it makes it unknown, not an error."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except (AttributeError, self._nvml.NVMLError):
            return None

    def _number(self, function: str, *arguments: int) -> float | None:
        found = self._ask(function, self._handle, *arguments)
        return None if found is None else float(found)

    def _watts(self, function: str) -> float | None:
        found = self._number(function)
        return None if found is None else found / 1000

    def _switch(self, function: str) -> bool | None:
        """A mode that is on or off. NVML gives some with the one that is pending behind it."""
        found = self._ask(function, self._handle)
        found = found[0] if isinstance(found, list | tuple) else found
        return None if found is None else bool(found)

    def _text(self, function: str, of_card: bool = True) -> str | None:
        found = self._ask(function, *[self._handle] * of_card)
        return found.decode() if isinstance(found, bytes) else found


@lru_cache(maxsize=16)
def card(pci_bus_id: str | None) -> NvmlCard:
    """Opened once a process."""
    return NvmlCard(pci_bus_id)


def uuids() -> list[str]:
    """Of all cards that this process may reach, in the order of the bus; none where there is no driver, or no nvidia-ml-py."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(at) for at in range(pynvml.nvmlDeviceGetCount())]
        found = [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    except ImportError:
        return []
    except pynvml.NVMLError:
        return []
    return [each.decode() if isinstance(each, bytes) else each for each in found]


def neighbours(pci_bus_id: str | None) -> list[float | None] | None:
    """How busy the host's other cards are: of each that this process may reach, in the order of the bus, the percentage of the
    driver's last period in which a kernel ran (NVML API Reference, nvmlDeviceGetUtilizationRates). It lasts up to a
    second. None where NVML tells nothing of this card; of another card, where it does not tell.
    """
    if card(pci_bus_id).reason:
        return None
    import pynvml

    found: list[float | None] = []
    try:
        own = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id))
        for at in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(at)
            if pynvml.nvmlDeviceGetUUID(handle) != own:
                found.append(_utilisation(pynvml, handle))
    except (pynvml.NVMLError, AttributeError):
        return None
    return found


def _utilisation(pynvml: Any, handle: Any) -> float | None:
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except (pynvml.NVMLError, AttributeError):
        return None


def _numa_node(pci_bus_id: str) -> int | None:
    """The node of the host's memory that the card is next to; None where the system does not tell, which reads -1."""
    domain, _, rest = pci_bus_id.lower().partition(":")
    try:
        found = int(Path(f"/sys/bus/pci/devices/{domain[-4:]}:{rest}/numa_node").read_text())
    except (OSError, ValueError):
        return None
    return found if found >= 0 else None
