"""What a notebook talks to: a lab on a device at a scale. Measures what is not fresh; what it shows is in view.py."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import report
from ..devices.find import open_device
from ..errors import UsageError, one_of
from ..labs import peaks
from ..measure import schedule
from ..measure.case_run import Policy
from ..measure.progress import Reporter
from ..paths import project_root
from ..spec import registry
from ..spec.lab import SCALES, Case, Variant
from ..store.parquet import Store
from .view import View

if TYPE_CHECKING:
    import pandas as pd

    from ..report.html import Html, Table

PARAMETERS: dict[str, Any] = {
    "device": "auto",
    "scale": "quick",
    "variants": None,
    "cases": None,
    "budget_s": 0.1,
    "remeasure": False,
    "results": "results",
    "seed": 20,
}
"""Parameters of every notebook, with their defaults."""

_NOTEBOOK_NAMES = {"In", "Out"}


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters, defaults filled in. UsageError with one line for an unknown name or a value of the wrong kind."""
    for name in parameters:
        if name not in PARAMETERS:
            raise one_of("parameter", name, list(PARAMETERS))
    full = {**PARAMETERS, **parameters}
    if full["scale"] not in SCALES:
        raise one_of("scale", full["scale"], SCALES)
    for name, kinds, right in (
        ("device", (str,), "a string such as 'auto', 'opencl:0' or 'cuda:0'"),
        ("results", (str, Path), "the name of a folder"),
        ("budget_s", (int, float), "seconds, a number above 0"),
        ("seed", (int,), "a whole number, 0 or more"),
        ("remeasure", (bool,), "True or False"),
    ):
        value = full[name]
        wrong = not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        wrong = wrong or (name == "budget_s" and not 0 < value < 1e6) or (name == "seed" and value < 0)
        if wrong or (name == "results" and not str(value)):
            raise UsageError(f"parameter {name} must be {right}, not {value!r}")
    for name in ("variants", "cases"):
        value = full[name] = _listed(full[name])
        if value is not None and not (isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)):
            raise UsageError(f"parameter {name} must be a list such as ['name'], or None for all, not {value!r}")
    return full


def _listed(value: Any) -> Any:
    """A list that came as text, as `papermill -p variants '["fused"]'` hands it over; anything else as it is."""
    if not (isinstance(value, str) and value.strip().startswith("[")):
        return value
    import yaml

    try:
        return yaml.safe_load(value)
    except yaml.YAMLError:
        return value


class Experiment(View):
    """A lab, a device and a scale. Shown by itself it is the run card."""

    def __init__(self, lab: str, parameters: Mapping[str, Any] | None = None, root: Path | None = None) -> None:
        self.parameters = check(parameters or {})
        self.lab, self.scale = registry.get(lab), self.parameters["scale"]
        self.device = open_device(self.parameters["device"], self.lab.home)
        self.root, results = root or project_root(), Path(self.parameters["results"])
        self.store = Store(self.root / results)
        self.policy = Policy(cache=self.lab.cache, budget_s=self.parameters["budget_s"], seed=self.parameters["seed"])
        self.lab.prepare()
        everything = {case.name: case for case in self.lab.cases(self.scale)}
        self.cases = [self._case(everything, name) for name in dict.fromkeys(self.parameters["cases"] or everything)]
        chosen = dict.fromkeys(self.parameters["variants"] or ())
        self.variants = [self.lab.variant(name) for name in chosen] or list(self.lab.at_scale(self.scale))

    @classmethod
    def from_notebook(cls, lab: str, names: Mapping[str, Any]) -> "Experiment":
        """From a notebook's `globals()`: all data in it is taken for parameters, so that a misspelt one is found.

        Not where the notebook has been opened before: the reader's own variables may have joined it since.
        """
        given = {k: v for k, v in names.items() if not k.startswith("_") and k not in _NOTEBOOK_NAMES}
        if any(isinstance(value, cls) for value in given.values()):
            return cls(lab, {name: value for name, value in given.items() if name in PARAMETERS})
        data = (type(None), bool, int, float, str, list, tuple, dict, set, Path)
        return cls(lab, {name: value for name, value in given.items() if name in PARAMETERS or isinstance(value, data)})

    def _case(self, everything: Mapping[str, Case], name: str) -> Case:
        listed = list(everything.values())
        return everything.get(name) or self.lab.other_case(name, self.scale, listed, f"case at scale {self.scale}")

    def plan(self, variants: Sequence[Variant] | None = None) -> list[schedule.Planned]:
        """The cells of this experiment, each once, those of its series after the others, and their state in the store."""
        chosen = self.variants if variants is None else variants
        cells = self._plan(self.cases, chosen)
        for series in () if self.parameters["cases"] else self.lab.series(self.scale):
            cells += self._plan(self._cases_of(series), [each for each in chosen if each.name in series.variants])
        return list({(cell.case.name, cell.variant.name): cell for cell in cells}.values())

    def _plan(self, cases: Sequence[Case], variants: Sequence[Variant]) -> list[schedule.Planned]:
        return schedule.plan(self.lab, cases, variants, self.device, self.store, self.policy)

    def measure(self) -> "Html":
        """Measure the device's ceilings and the cells that are not fresh; says how many."""
        from ..report.html import Html

        show = Reporter()
        remeasure = self.parameters["remeasure"]
        try:
            plans = [(self.plan(), self.policy)]
            if self.lab is not peaks.LAB:
                plans.insert(0, (self._plan_of_ceilings(), schedule.warm(self.policy)))
            for plan, policy in plans:
                done = schedule.bring_up_to_date(
                    plan, self.device, self.store, policy, remeasure=remeasure, go_on=not remeasure, progress=show
                )
        finally:
            show.end()
        for kept in ("rows", "_ceilings"):
            self.__dict__.pop(kept, None)
        return Html(f"<p>{done}.</p>")

    def _plan_of_ceilings(self) -> list[schedule.Planned]:
        """Those that the lab's bounds and rooflines are held against; in the notebook of the ceilings, all."""
        if self.lab is peaks.LAB:
            return self.plan(peaks.LAB.ladder)
        cases, needed = peaks.LAB.cases(self.scale), peaks.LAB.needed(self.lab)
        return schedule.plan(peaks.LAB, cases, needed, self.device, self.store, schedule.warm(self.policy))

    @cached_property
    def rows(self) -> "pd.DataFrame":
        """The store's rows of this lab that today's code would give, at this scale, on this device and its host."""
        return schedule.modelled(self.lab, self._rows_of(self.plan(self.lab.all_variants())))

    @cached_property
    def _ceilings(self) -> "pd.DataFrame":
        cells = self._plan_of_ceilings()
        rows = self._rows_of(cells).drop_duplicates(["variant", "case"], keep="last")
        order = {(cell.case.name, cell.variant.name): at for at, cell in enumerate(cells)}
        places = [order[row.case, row.variant] for row in rows.itertuples()]
        return rows.iloc[sorted(range(len(rows)), key=places.__getitem__)]

    def _rows_of(self, cells: Sequence[schedule.Planned]) -> "pd.DataFrame":
        """All rows of these cells, oldest first. Their keys hold all that matters: a row may be of another scale."""
        rows = self.store.rows(cells[0].lab.name if cells else self.lab.name)
        return rows[rows["cell_key"].isin({cell.cell_key for cell in cells})]

    def _repr_html_(self) -> str:
        return self.card()._repr_html_()

    def card(self) -> "Table":
        """What runs where: device, driver and libraries, machine and its load, commit."""
        from ..devices.provenance import snapshot

        facts = report.card(snapshot(self.device), {"device": f"{self.device.spec}, {self.device.name}"})
        wanted = ("device", "platform", "driver", "libraries", "cpu", "cores", "load 1min", "commit", "time")
        return replace(facts, rows=[row for row in facts.rows if row.cells[0].text in wanted])

    def demonstration(self) -> "Table":
        """What the lab shows beyond times, computed now on this device: conservation, analytic solutions."""
        return self.lab.demonstration(self.device)

    def published(self) -> "Table":
        """Every published figure of the lab, ours beside it: of this device at the published sizes, else of one on record."""
        from .recorded import records

        if self.scale == "published":
            return super().published()
        recorded = records(self.lab, self.store)
        return recorded[0].published() if recorded else super().published()

    def recorded(self) -> "Html":
        """What the store has of the lab on recorded devices, each to open: ladders, peers, roofline, counters, sweeps."""
        from ..report.html import Html
        from .recorded_html import shown

        return Html(shown(self.lab, self.store, self.root))
