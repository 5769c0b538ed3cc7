"""A lab on recorded devices as HTML: the tables and figures that pages show beside those of the machine that built them."""

import re
from html import escape
from typing import Any

from ..analysis.publication import publication
from ..analysis.recorded import RecordedData, recorded
from ..analysis.traced import counts, machines
from ..report.html import Table
from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from .page import Note, Page


class RecordedPage(Page):
    """What an Experiment on that device would show. It measures nothing."""

    def __init__(self, data: RecordedData, store: Store) -> None:
        self._data, self._store = data, store

    @property
    def data(self) -> RecordedData:
        return self._data

    @property
    def store(self) -> Store:
        return self._store

    def shown(self) -> list[Any]:
        """What a page shows of it below its conclusions: tables and figures of all that was measured."""
        data, lab = self.data, self.data.lab
        if lab.name == registry.PEAKS:
            return [self.bandwidths(), self.peak_table(), *self._failures()]
        blocks: list[Any] = [self.ladder_chart()]
        for case in data.cases:
            timed = set(data.rows[(data.rows["case"] == case.name) & (data.rows["status"] == "ok")]["role"])
            blocks += [self.ladder(case.name), self.peers(case.name) if "peer" in timed else None]
        blocks.append(self.pairs())
        bound = data.bounds(data.case()).get("float32")
        blocks += [self.roofline(), self.bandwidth_chart() if bound and bound.roof == "memory" else None]
        blocks += [self.counters(case.name) for case in data.cases]
        blocks += [self.parts() if lab.parts else None, self.resources()]
        for sweep in lab.sweeps:
            if sweep.axis == "without":
                blocks.append(self.leave_one_out())
            else:
                two = all(re.search("[x/]", str(point.point)) for point in sweep.variants)
                blocks.append(self.heat_map(sweep.axis) if two else self.line_sweep(sweep.axis))
        for series in lab.series(data.scale):
            blocks += [self.series_chart(series.axis), self.crossings(series.axis)]
        blocks += self._failures()
        return [block for block in blocks if block is not None and not isinstance(block, Note)]

    def _failures(self) -> list[Table]:
        """What failed there, where anything did."""
        failed = self.failed()
        return [failed] * bool(failed.rows)

    def section(self, opened: bool) -> str:
        """HTML that opens and closes: what is recorded of the lab on this device."""
        from markdown_it import MarkdownIt

        data = self.data
        run, measured = data.rows.iloc[-1], data.rows.drop_duplicates(["variant", "case", "role"], keep="last")
        extent = f"{len(measured)} measurements, the newest of {run['started']:%Y-%m-%d}, scale {data.scale}"
        faults = counts(measured.to_dict("records"))
        extent += "".join(f", {number} of them: {why}" for why, number in faults.items())
        words = (
            MarkdownIt().render(publication(data.lab).summary(data.measured)) if data.lab.name != registry.PEAKS else ""
        )
        body = "".join(block._repr_html_() for block in self.shown())
        state = " open" if opened else ""
        head = f"<summary>{escape(str(data.place))}: {escape(extent)}</summary>"
        several = machines(measured)
        apart = f"<p>Of {len(several)} machines: {escape('; '.join(several))}.</p>\n" * bool(several)
        return f'<details class="recorded"{state}>{head}\n{apart}{words}{body}</details>'


NOTHING = (
    "no device is recorded: `results/record.sh OUT` measures everything on one, `cp -r OUT/recorded results/` adds it"
)


def sections(lab: Lab, store: Store) -> str:
    """HTML: a section for each recorded device by each backend, the first open; the published sizes before the large."""
    found = [data for scale in ("published", "large") for data in recorded(lab, store, scale)]
    if not found:
        return Note(NOTHING).html
    return "\n".join(RecordedPage(data, store).section(opened=at == 0) for at, data in enumerate(found))
