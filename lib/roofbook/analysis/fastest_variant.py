"""Which variant of a lab is the fastest on a device, by the rows of the store. Serves programs whose user names none.

A row is what was measured; where the device or the size at hand has none, the nearest that was measured stands in.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .. import paths
from ..devices.backends import label
from ..devices.contract import Device
from ..errors import UsageError
from ..paths import project_root
from ..spec.lab import Lab, Variant
from ..store.files import EVERYWHERE, stamp
from ..store.parquet import Store
from ..store.schema import MEASUREMENT, age
from .throttled import without_slowed


@dataclass(frozen=True)
class Timed:
    """A variant's newest measurement, of the role `step`, that did not fail. seconds: the median over its runs, per unit."""

    device: str
    device_name: str
    device_kind: str
    backend: str
    case: str
    variant: str
    run: str
    recorded: bool
    seconds: float


@dataclass(frozen=True)
class Choice:
    """A variant, and in one line why it."""

    variant: Variant
    reason: str

    def __str__(self) -> str:
        return f"{self.variant.name}: {self.reason}"


def checkout_store() -> Store | None:
    """The store of the checkout around this folder, else of this library; None where it was installed without one."""
    try:
        return Store(project_root() / "results")
    except UsageError:
        return None


def choices(
    lab: Lab, device: Device, case: str, size: Callable[[str], float], variants: Sequence[Variant], store: Store | None
) -> list[Choice]:
    """The variants that the store has a time of, the fastest first, and last `lab.best`, which runs anywhere.

    Of this device at this case; else at the nearest size that was measured on it; else of a recorded device that is of the
    same kind and backend. size: of a case by its name, such as its cells. variants: those that can run the case.
    """
    known = [each for each in (timed(lab, store) if store else ()) if each.backend == device.backend]
    known = [each for each in known if each.variant in {variant.name for variant in variants}]
    mine = [each for each in known if each.device == device.slug]
    like = [each for each in known if each.recorded and each.device_kind == device.kind]

    def far(each: Timed) -> float:
        return abs(math.log(size(each.case) / size(case)))

    def nearest(found: list[Timed]) -> list[Timed]:
        """Those of one case on one device: of the same size rather than the same name, the newest device of several."""
        same = [each for each in found if each.case == case]
        least = min(map(far, found))
        best = max(same or [each for each in found if far(each) == least], key=lambda each: each.run)
        return [each for each in found if (each.device, each.case) == (best.device, best.case)]

    made = []
    if found := mine or like:
        found = sorted(nearest(found), key=lambda each: each.seconds)
        first = found[0]
        where = f"{first.device_name} by {label(first.backend)} at {first.case}"
        lack = f"; {device.name} was not measured" if first.device != device.slug else ""
        lack += f", the measured size nearest to {case}" if first.case != case else ""
        for rank, each in enumerate(found):
            said = "the fastest" if rank == 0 else f"number {rank + 1}"
            why = f"{said} of {len(found)} measured on {where}, run {each.run}{lack}"
            made.append(Choice(lab.variant(each.variant), why))
    named = {choice.variant.name for choice in made}
    last = next((variant for variant in variants if variant.name == lab.best), None)
    if last and last.name not in named:
        none = f"the default: no store has a time by {label(device.backend)} on a {device.kind.upper()}"
        lack = "the default: those that were measured cannot run here" if made else none
        made.append(Choice(last, lack))
    return made


def timed(lab: Lab, store: Store) -> list[Timed]:
    """The newest measurement of each variant, case, backend and device, unless it failed; read again where a file changed."""
    files = [(str(path), stamp(path)) for path in store.files(lab.name)]
    if not files:
        return []
    text = paths.cached_text(
        "fastest_variant", paths.cache_key(lab.name, repr(files)), lambda: _written(_read(lab, store))
    )
    return [Timed(**each) for each in json.loads(text)]


def _written(found: Iterable[Timed]) -> str:
    return json.dumps([asdict(each) for each in found])


def _read(lab: Lab, store: Store) -> list[Timed]:
    """From the checked rows, without DuckDB and pandas."""
    import pyarrow.compute as pc

    names = [name for name in Timed.__annotations__ if name not in ("recorded", "seconds")]
    also = (*MEASUREMENT, "role", "status", "started", "samples_s", "units", "sample_throttle")
    rows = []
    for where in EVERYWHERE:
        table = store.checked(lab.name, where=(where,)).table
        steps = table.filter(pc.equal(table["role"].cast("string"), "step")).select([*names, *also])
        rows += [row | {"recorded": where == "recorded"} for row in steps.to_pylist()]
    runs: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: (age(row["started"]), row["run"])):
        runs.setdefault((row["device"], row["backend"], row["case"], row["variant"]), []).append(row)
    made = []
    for mine in runs.values():
        last = mine[-1]
        same = [row for row in mine if _timed(row) and all(row[name] == last[name] for name in MEASUREMENT)]
        if _timed(last):
            medians = [statistics.median(row["samples_s"]) / row["units"] for row in map(without_slowed, same)]
            made.append(
                Timed(**{name: last[name] for name in (*names, "recorded")}, seconds=statistics.median(medians))
            )
    return made


def _timed(row: Mapping[str, Any]) -> bool:
    return row["status"] == "ok" and bool(row["samples_s"]) and bool(row["units"])
