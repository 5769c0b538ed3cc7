"""The devices that the store knows: which rows are of which, those of the same machine's host among them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..devices.backends import HOST, label
from ..escaping import file_name, read_json

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab, Variant


@dataclass(frozen=True)
class StoreDevice:
    """A device by a backend, as one column of the verdicts."""

    device: str
    """Its name in the store."""
    backend: str
    name: str
    kind: str

    @property
    def id(self) -> str:
        """How a user and an address name it, such as `nvidia-h200/cuda`."""
        return f"{file_name(self.device)}/{file_name(self.backend)}"

    @property
    def by(self) -> str:
        """The backend, as it is written."""
        return label(self.backend)

    def __str__(self) -> str:
        return (
            self.name if self.name.endswith(f" {self.by}") else f"{self.name}, {self.by}"
        )  # a platform may be named so


def card_of(lab: str, place: str, scale: str, id: str) -> str:
    """How a table of several labs or devices names a measurement of one: the lab, the files of the device's cards, the `id`."""
    return f"{lab}/{'.'.join([*place.split('/'), *[scale] * (scale != 'published')])}#{id}"


def of_host(variant: "Variant") -> bool:
    """Whether it runs on the host's CPU wherever the lab runs."""
    return HOST in variant.backends or variant.options.get("device") == "host"


def rows_by_device(lab: "Lab", rows: "pd.DataFrame") -> "list[tuple[StoreDevice, pd.DataFrame]]":
    """The rows of a lab by the devices and backends that they are of, each with those that its host measured."""
    hosted = rows["variant"].isin([variant.name for variant in lab.all_variants() if of_host(variant)])
    machines = rows["provenance"].map(machine)
    found = []
    for (device, backend), own in rows[~hosted].groupby(["device", "backend"]):
        last = own.iloc[-1]
        place = StoreDevice(device, backend, str(last["device_name"]), str(last["device_kind"]))
        here = set(machines[own.index])
        on_host = hosted & machines.map(lambda each, here=here: any(_one(each, other) for other in here))
        found.append((place, rows[rows.index.isin(own.index) | on_host]))
    return found


def peers_by_other_backends(lab: "Lab", rows: "pd.DataFrame", own: "pd.DataFrame", device: str) -> "pd.DataFrame":
    """Return the rows of peers that other backends call on this very device, where `own` has none of that peer on that case.

    own: the rows of the device by one backend and of its host, oldest first as `rows`. A peer counts if its newest row is
    verified, on the cases of `own`.
    """
    from .readings import unfit

    names, measured = [peer.name for peer in lab.peers], set(zip(own["variant"], own["case"], strict=True))
    there = rows[(rows["device"] == device) & (rows["backend"] != HOST) & rows["variant"].isin(names)]
    there = there[there["case"].isin(own["case"].unique())]
    newest = {(row["variant"], row["case"]): row for row in there.to_dict("records")}
    chosen = {pair for pair, row in newest.items() if pair not in measured and not unfit(row)}
    pairs = zip(there["variant"], there["case"], strict=True)
    return there.iloc[[number for number, pair in enumerate(pairs) if pair in chosen]]


def machine(provenance: object) -> tuple[str, str | None]:
    """What tells the machine of a row from another: its processor, and how many threads of it a program gets; then its own
    identifier, None of a row from before there was one.
    """
    told = read_json(provenance) if isinstance(provenance, str) and provenance else {}  # a null may read as NaN
    return f"{told.get('cpu')}, {told.get('threads_usable')}", told.get("machine")


def _one(first: tuple[str, str | None], second: tuple[str, str | None]) -> bool:
    """Whether two are one machine, as far as both of them tell."""
    return first[0] == second[0] and (first[1] == second[1] or None in (first[1], second[1]))
