"""A lab as the store has it of a device that need not be here: the tables and figures of runs on record.

Serves the pages, which show a GPU's figures beside those of the machine that built them, and the page that compares devices.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from ..analysis.verdicts import Place, by_place
from ..devices.contract import Buffer, Device, Program, Queue, Unsupported
from ..labs import peaks
from ..measure.case_run import where
from ..measure.schedule import todays
from ..spec.lab import Case, Lab
from ..store.parquet import Store, Where
from .view import Note, View

if TYPE_CHECKING:
    import pandas as pd


class Absent(Device):
    """A device that is known from its rows alone: it runs nothing."""

    def __init__(self, place: Place, row: "pd.Series[Any]") -> None:
        self.backend, self.kind, self.name, self.spec = place.backend, place.kind, place.name, f"{place} on record"
        self.told = json.loads(row["provenance"] or "{}").get("environment", {}).get("device", {})
        if found := re.search(r"\bsm_(\d+)\b", self.told.get("device", "")):
            self.architecture = int(found[1])

    def identity(self) -> dict[str, str]:
        return dict(self.told)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        raise Unsupported(f"{self.spec} is not here")

    def empty(self, nbytes: int) -> Buffer:
        raise Unsupported(f"{self.spec} is not here")

    def queue(self, profiling: bool = False) -> Queue:
        raise Unsupported(f"{self.spec} is not here")


class Record(View):
    """What an Experiment on that device would show. It measures nothing.

    Rows count whose kernel is, letter for letter, that of today's code; the host's code may have changed since.
    """

    def __init__(
        self, lab: Lab, place: Place, store: Store, scale: str, rows: "pd.DataFrame", parts: Sequence[Where]
    ) -> None:
        self.lab, self.place, self.store, self.parts_of_store = lab, place, store, parts
        self.scale = scale
        self._own = rows
        self.device = Absent(place, rows[rows["backend"] == place.backend].iloc[-1])
        self.variants = list(lab.all_variants())
        measured = set(rows["case"])
        self.cases = [case for case in lab.cases(scale) if case.name in measured]

    @cached_property
    def rows(self) -> "pd.DataFrame":
        return self._own

    @cached_property
    def _ceilings(self) -> "pd.DataFrame":
        known = {case.name: case.units for case in peaks.LAB.cases(self.scale)}
        place = {"device": self.place.device, "backend": self.place.backend}
        rows = todays(peaks.LAB, self.store.rows("peaks", where=self.parts_of_store, **place))
        rows = rows[[known.get(row.case) == row.units for row in rows.itertuples()]] if len(rows) else rows
        return rows.drop_duplicates(["variant", "case"], keep="last")

    def elsewhere(self, case: Case) -> dict[str, str]:
        """Why a variant was not measured there. What this machine lacks, such as a peer's package, says nothing of that one."""
        measured = set(self.rows[self.rows["case"] == case.name]["variant"])
        lacked = {peer.name for peer in self.lab.peers if where(peer, self.device)[0] is not None}
        return {name: why for name, why in super().elsewhere(case).items() if name not in measured | lacked}

    def shown(self) -> list[Any]:
        """What a page shows of it below its conclusions: tables and figures of all that was measured."""
        if self.lab is peaks.LAB:
            return [self.bandwidths(), self.ceilings()]
        blocks: list[Any] = [self.ladder_chart()]
        for case in self.cases:
            timed = set(self.rows[(self.rows["case"] == case.name) & (self.rows["status"] == "ok")]["role"])
            blocks += [self.ladder(case.name), self.peers(case.name) if "peer" in timed else None]
        blocks.append(self.pairs())
        bound = self.bound(self.case())
        blocks += [self.roofline(), self.bandwidth_chart() if bound and bound.roof == "memory" else None]
        blocks += [self.counters(case.name) for case in self.cases]
        blocks += [self.parts() if self.lab.parts else None, self.resources()]
        for sweep in self.lab.sweeps:
            if sweep.axis == "without":
                blocks.append(self.leave_one_out())
            else:
                two = all(re.search("[x/]", str(point.point)) for point in sweep.variants)
                blocks.append(self.heat_map(sweep.axis) if two else self.line_sweep(sweep.axis))
        for series in self.lab.series(self.scale):
            blocks += [self.series_chart(series.axis), self.crossings(series.axis)]
        return [block for block in blocks if block is not None and not isinstance(block, Note)]

    def section(self, opened: bool) -> str:
        """HTML that opens and closes: what is on record of the lab on this device."""
        from markdown_it import MarkdownIt

        run, cells = self.rows.iloc[-1], self.rows.drop_duplicates(["variant", "case", "role"])
        told = f"{len(cells)} cells, the newest of {run['started']:%Y-%m-%d}, scale {self.scale}"
        words = MarkdownIt().render(self.lab.summary(self))
        body = "".join(block._repr_html_() for block in self.shown())
        state = " open" if opened else ""
        head = f"<summary>{escape(str(self.place))}: {escape(told)}</summary>"
        return f'<details class="recorded"{state}>{head}\n{words}{body}</details>'


def records(lab: Lab, store: Store, scale: str = "published", parts: Sequence[Where] = ("recorded",)) -> list[Record]:
    """A lab on each device by each backend of which these parts of the store have cells, GPUs first."""
    rows = todays(lab, store.rows(lab.name, scale=scale, where=parts))
    made = [Record(lab, place, store, scale, mine, parts) for place, mine in by_place(lab, rows)]
    return sorted(made, key=lambda each: (each.place.kind != "gpu", each.place.backend != lab.home, str(each.place)))


NOTHING = (
    "no device is on record: `results/record.sh OUT` measures everything on one, `cp -r OUT/recorded results/` adds it"
)


def sections(lab: Lab, store: Store) -> str:
    """HTML: a section for each device on record by each backend, the first open; the published sizes before the large."""
    found = [record for scale in ("published", "large") for record in records(lab, store, scale)]
    if not found:
        return Note(NOTHING).html
    return "\n".join(record.section(opened=at == 0) for at, record in enumerate(found))
