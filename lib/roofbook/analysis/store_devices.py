"""The devices in the store: each with its rows, and with those that the host of the same machine measured."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..devices.backends import HOST, WEBGPU_UNCHECKED, label
from ..escaping import file_name
from .machines import is_one_machine, machine

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab
    from ..spec.plan import Variant
    from ..store.parquet import Store


@dataclass(frozen=True)
class StoreDevice:
    """A device by one backend, such as one column of the verdicts."""

    slug: str
    """Its `device` in rows of the store."""
    backend: str
    name: str
    kind: str

    @property
    def id(self) -> str:
        """The name in addresses and commands, such as `nvidia-h200/cuda`."""
        return f"{file_name(self.slug)}/{file_name(self.backend)}"

    @property
    def backend_label(self) -> str:
        """The backend as readers see it."""
        return label(self.backend)

    def __str__(self) -> str:
        # The name of a platform may end with the backend already.
        return self.name if self.name.endswith(f" {self.backend_label}") else f"{self.name}, {self.backend_label}"


RULE = "Each page opens with the GPU that has most recorded measurements over all labs"
"""Rule for the device that a reader sees first, in a sentence of the pages. `by_extent` counts for it."""


def by_extent(store: "Store") -> dict[str, int]:
    """Return `StoreDevice.id` -> number of measured (lab, variant, case) over all labs."""
    sql = 'SELECT device, backend, count(DISTINCT (lab, variant, "case")) FROM cells GROUP BY ALL'
    return {StoreDevice(device, backend, "", "").id: count for device, backend, count in store.query(sql).to_numpy()}


def card_of(lab: str, device_id: str, scale: str, id: str) -> str:
    """Return the name of a measurement's card in tables of several labs or devices: LAB/FILE#id.

    device_id: `StoreDevice.id`, from which with the scale the name of the file of the device's cards is made. id: `Reading.id`.
    """
    return f"{lab}/{'.'.join([*device_id.split('/'), *[scale] * (scale != 'published')])}#{id}"


def of_host(variant: "Variant") -> bool:
    """Return whether a variant runs on the host's CPU wherever the lab runs."""
    return HOST in variant.backends or variant.options.get("device") == "host"


def rows_by_device(lab: "Lab", rows: "pd.DataFrame") -> "list[tuple[StoreDevice, pd.DataFrame]]":
    """Return the devices of a lab's rows, each by one backend, with its rows and those that its host measured.

    WEBGPU_UNCHECKED is an experiment and no backend that a reader can choose: `gpu_languages` alone reads its rows.
    """
    rows = rows[rows["backend"] != WEBGPU_UNCHECKED.name]
    hosted = rows["variant"].isin([variant.name for variant in lab.all_variants() if of_host(variant)])
    machines = rows["provenance"].map(machine)
    by_device = []
    for (slug, backend), device_rows in rows[~hosted].groupby(["device", "backend"]):
        newest = device_rows.iloc[-1]
        device = StoreDevice(slug, backend, str(newest["device_name"]), str(newest["device_kind"]))
        its_machines = set(machines[device_rows.index])
        on_host = hosted & machines.map(
            lambda host, its_machines=its_machines: any(is_one_machine(host, m) for m in its_machines)
        )
        by_device.append((device, rows[rows.index.isin(device_rows.index) | on_host]))
    return by_device


def peers_by_other_backends(lab: "Lab", rows: "pd.DataFrame", device_rows: "pd.DataFrame", slug: str) -> "pd.DataFrame":
    """Return the rows of peers that other backends run on one device, for peers and cases that `device_rows` lacks.

    device_rows: the rows of the device by one backend and of its host, oldest first as `rows`. slug: the device's name in the
    store. A peer's rows on a case are returned if the newest of them is verified and `device_rows` has the case.
    """
    from .readings import unfit

    peer_names = [peer.name for peer in lab.peers if peer.role == "peer"]
    measured = set(zip(device_rows["variant"], device_rows["case"], strict=True))
    peer_rows = rows[(rows["device"] == slug) & (rows["backend"] != HOST) & rows["variant"].isin(peer_names)]
    peer_rows = peer_rows[peer_rows["case"].isin(device_rows["case"].unique())]
    newest = {(row["variant"], row["case"]): row for row in peer_rows.to_dict("records")}
    chosen = {pair for pair, row in newest.items() if pair not in measured and not unfit(row)}
    pairs = zip(peer_rows["variant"], peer_rows["case"], strict=True)
    return peer_rows.iloc[[number for number, pair in enumerate(pairs) if pair in chosen]]
