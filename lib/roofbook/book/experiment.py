"""Entry point of a notebook: a lab on a device at a scale. It measures missing and outdated cells; page.py draws results."""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .. import report
from ..analysis.lab_data import LabData
from ..analysis.recorded import recorded
from ..analysis.roofline import needed_peaks
from ..analysis.step_rerun import StepRerun, step_rerun
from ..analysis.store_devices import peers_by_other_backends
from ..devices.contract import Unsupported
from ..devices.find import open_device
from ..devices.provenance import snapshot
from ..errors import Failed, UsageError, one_of
from ..escaping import escape, file_name
from ..measure import background_group, placement, schedule
from ..measure.case_process import Workers
from ..measure.messages import Shape, has_shape
from ..measure.policy import UNTIMED, Policy
from ..measure.progress import Progress, Reporter, is_in_notebook
from ..measure.schedule import Planned
from ..paths import project_root
from ..report.html import Html, Table
from ..spec import registry
from ..spec.lab import turned_name
from ..spec.plan import SCALES, Case, Variant
from ..store.files import STORE_PARTS, StorePart
from ..store.parquet import Store
from ..store.schema import PROFILE
from ..store.todays_code import newest_measurements, rows_of_today, with_current_traffic
from .background_jobs import BackgroundJobs
from .input_hashes import InputHashes
from .notebook_cells import assigned_names
from .page import Note, Page, noted, published_of
from .render_cache import FOLDER, RenderCache, key_of

if TYPE_CHECKING:
    import pandas as pd
    from ipywidgets import VBox

PARAMETERS: dict[str, Any] = {
    "device": "auto",
    "scale": "quick",
    "variants": None,
    "cases": None,
    "budget_s": 0.05,
    "runs": 1,
    "remeasure": False,
    "results": "results",
    "seed": 20,
}
"""Parameters of every notebook, with their defaults."""

Shown = TypeVar("Shown")

_INJECTED = "# Parameters"
"""First line of the cell that papermill adds with the parameters of its command."""
_NOTEBOOK_NAMES = {"In", "Out"}


def _names_of_the_profile(names: Mapping[str, Any]) -> set[str]:
    """Return the names that the reader's IPython profile has defined, and no cell has used since."""
    try:
        hidden = names["get_ipython"]().user_ns_hidden
    except (KeyError, TypeError, AttributeError):  # not in IPython
        return set()
    used = set(re.findall(r"\w+", "\n".join(map(str, names.get("In", ())))))
    return {name for name, value in names.items() if name not in used and hidden.get(name, hidden) is value}


def check(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters, defaults filled in. Raise UsageError with one line for an unknown name or a value of the wrong
    kind.
    """
    for name in parameters:
        if name not in PARAMETERS:
            raise one_of("parameter", name, list(PARAMETERS))
    full = {**PARAMETERS, **parameters}
    full |= {name: parse_list(full[name]) for name in ("variants", "cases")}
    if full["scale"] not in SCALES:
        raise one_of("scale", full["scale"], SCALES)
    for name, (shape, expected) in _SHAPES.items():
        if not has_shape(full[name], shape):
            raise UsageError(f"parameter {name} must be {expected}, not {full[name]!r}")
    return full


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and has_shape(list(value), [str])


_SHAPES: Mapping[str, tuple[Shape, str]] = {
    "device": (str, "a string such as 'auto', 'opencl:0' or 'cuda:0'"),
    "results": (lambda value: isinstance(value, str | Path) and str(value),
                "the name of a folder, or a URL such as s3://BUCKET/NAME"),
    "budget_s": (lambda value: has_shape(value, float) and 0 < value < 1e6, "seconds, a number above 0"),
    "seed": (lambda value: has_shape(value, int) and value >= 0, "a whole number, 0 or more"),
    "runs": (lambda value: has_shape(value, int) and 1 <= value <= 100, "a whole number from 1 to 100"),
    "remeasure": (bool, "True or False"),
    **dict.fromkeys(("variants", "cases"), ((None, _are_names), "a list such as ['name'], or None for all")),
}  # fmt: skip
"""Parameter -> the shape of its values, and right values in words."""


def parse_list(value: Any) -> Any:
    """Return the list that a text such as papermill's `-p variants '["fused"]'` holds; any other value unchanged.

    Numbers stay names: a case may be called 1e3 or 010.
    """
    if not (isinstance(value, str) and value.strip().startswith("[")):
        return value
    import yaml

    try:
        return yaml.load(value, Loader=yaml.BaseLoader)  # every scalar stays text
    except yaml.YAMLError:
        return value


def known(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an experiment, without those that a notebook has declared for itself."""
    return {name: value for name, value in parameters.items() if name in PARAMETERS}


def _declared_by_the_notebook(cells: Sequence[str]) -> set[str]:
    """Return the names that cells have assigned, but for the cell that papermill adds, whose names a reader has typed."""
    return {name for code in cells if not code.startswith(_INJECTED) for name in assigned_names(code)}


class MeasuredData(LabData):
    """Rows that match today's code on this machine, at this scale."""

    def __init__(self, experiment: "Experiment") -> None:
        self._experiment = experiment
        self.lab, self.device, self.scale = experiment.lab, experiment.device, experiment.scale
        self.cases = experiment.cases

    @cached_property
    def rows(self) -> "pd.DataFrame":
        variants = [*self.lab.all_variants(), *self._experiment.turned_variants()]
        return with_current_traffic(self.lab, self.rows_of(self._experiment.plan(variants)))

    @cached_property
    def peer_rows(self) -> "pd.DataFrame":
        rows = self._experiment.store.rows(self.lab.name, device=self.device.slug, scale=self.scale)
        other_backends = peers_by_other_backends(self.lab, rows, self.rows, self.device.slug)
        return with_current_traffic(self.lab, other_backends)

    @cached_property
    def peak_rows(self) -> "pd.DataFrame":
        cells = self._experiment.plan_of_peaks()
        rows = newest_measurements(self.rows_of(cells))
        order = {(cell.case.name, cell.variant.name): position for position, cell in enumerate(cells)}
        positions = [order[row.case, row.variant] for row in rows.itertuples()]
        return rows.iloc[sorted(range(len(rows)), key=positions.__getitem__)]

    @cached_property
    def profiles(self) -> "pd.DataFrame":
        return rows_of_today(self.lab, self._experiment.store, role=PROFILE, device=self.device.slug)

    def rows_of(self, cells: Sequence[schedule.Planned]) -> "pd.DataFrame":
        """Return all rows of these measurements, oldest first. A key holds everything that matters: a row may be from another
        scale.
        """
        keys = dict.fromkeys(cell.cell_key for cell in cells)
        return self._experiment.store.rows(cells[0].lab.name if cells else self.lab.name, cell_key=list(keys))


class Experiment(Page):
    """A lab, a device and a scale. A notebook displays it as the run card."""

    def __init__(
        self,
        lab: str,
        parameters: Mapping[str, Any] | None = None,
        root: Path | None = None,
        parts: Sequence[StorePart] = STORE_PARTS,
    ) -> None:
        """parts: the parts of the store whose rows count."""
        self.parameters = check(parameters or {})
        self.lab, self.scale = registry.get(lab), self.parameters["scale"]
        self.device = open_device(self.parameters["device"], self.lab.preferred_backend)
        self.root = root or project_root()
        self._store = Store.of_project(self.root, self.parameters["results"], parts)
        self.policy = Policy(cache=self.lab.cache, budget_s=self.parameters["budget_s"], seed=self.parameters["seed"])
        if self.scale == UNTIMED:  # a fixed number of samples
            self.policy = replace(self.policy, minimum=self.policy.few, maximum=self.policy.few)
        self.lab.prepare()
        case_by_name = {case.name: case for case in self.lab.cases(self.scale)}
        self.cases = [
            self._case(case_by_name, name) for name in dict.fromkeys(self.parameters["cases"] or case_by_name)
        ]
        chosen = dict.fromkeys(self.parameters["variants"] or ())
        self.variants = [self.lab.variant(name) for name in chosen] or list(self.lab.at_scale(self.scale))
        if not self.parameters["cases"]:  # drop cases that none of the variants can run
            self.cases = [
                case for case in self.cases if any(map(partial(self._is_for, case), self.variants))
            ] or self.cases

    @classmethod
    def from_notebook(cls, lab: str, names: Mapping[str, Any]) -> "Experiment":
        """Create an experiment from a notebook's `globals()`: all plain values count as parameters, so that a misspelt one is
        found. Names that the notebook itself assigns are its own.

        A notebook that was opened before may hold the reader's own variables: there only known parameters count.
        """
        ignored = _NOTEBOOK_NAMES | _names_of_the_profile(names)
        variables = {name: value for name, value in names.items() if not name.startswith("_") and name not in ignored}
        if any(isinstance(value, cls) for value in variables.values()):
            return cls(lab, known(variables))
        own = _declared_by_the_notebook(names.get("In", ()))
        data = (type(None), bool, int, float, str, list, tuple, dict, set, Path)
        return cls(
            lab,
            {
                name: value
                for name, value in variables.items()
                if name in PARAMETERS or (isinstance(value, data) and name not in own)
            },
        )

    def _is_for(self, case: Case, variant: Variant) -> bool:
        return self.lab.skip_reason(variant, case) is None

    def _case(self, case_by_name: Mapping[str, Case], name: str) -> Case:
        cases = list(case_by_name.values())
        return case_by_name.get(name) or self.lab.other_case(name, self.scale, cases, f"case at scale {self.scale}")

    @property
    def store(self) -> Store:
        return self._store

    @cached_property
    def data(self) -> MeasuredData:
        return MeasuredData(self)

    def turned_variants(self) -> list[Variant]:
        """Return the steps with other knobs that the store has for this device; knobs that are gone are left out."""
        rows = self.store.rows(self.lab.name, device=self.device.slug, scale=self.scale, role="sweep")
        listed = {variant.name for variant in self.lab.all_variants()}
        turned = []
        for name in dict.fromkeys(rows["variant"]):
            if name not in listed:
                with suppress(UsageError):
                    turned.append(self.lab.variant(name))
        return turned

    def plan(self, variants: Sequence[Variant] | None = None) -> list[schedule.Planned]:
        """Return the measurements of this experiment with their state in the store, each once, those of its series last."""
        chosen = self.variants if variants is None else variants
        cells = self._plan(self.cases, chosen)
        if variants is None and not self.parameters["variants"]:
            swept = {case.name for case in self.lab.sweep_cases(self.cases)}
            cells = [cell for cell in cells if cell.variant.role != "sweep" or cell.case.name in swept]
        for series in () if self.parameters["cases"] else self.lab.series(self.scale):
            cases = [self.lab.case(name, self.scale) for _, name in series.points]
            cells += self._plan(cases, [variant for variant in chosen if variant.name in series.variants])
        return list({(cell.case.name, cell.variant.name): cell for cell in cells}.values())

    def _plan(self, cases: Sequence[Case], variants: Sequence[Variant]) -> list[schedule.Planned]:
        return schedule.plan(self.lab, cases, variants, self.device, self.store, self.policy)

    def plan_of_peaks(self) -> list[schedule.Planned]:
        """Return the peaks that the lab's bounds and rooflines need; in the notebook of the peaks, all."""
        if self.lab.name == registry.PEAKS:
            return self.plan(self.lab.ladder)
        peaks, needed = registry.get(registry.PEAKS), needed_peaks(self.lab)
        return schedule.plan(peaks, peaks.cases(self.scale), needed, self.device, self.store, self.policy.warm())

    def measure(self, *steps: str, knobs: Mapping[str, Any] | None = None, case: str | None = None) -> Html:
        """Measure as `bring_up_to_date` does. Return the number of measurements as text.

        steps: measure only these, where they are not fresh, on one case, and return their table. knobs: values of knobs of
        their sources, such as `{"GROUP_SIZE": 32}`, with which they become points of a sweep. case: by default the first.
        Errors: UsageError for an unknown step, knob or case.
        """
        if steps:
            return self._measure_steps(steps, knobs or {}, case, {})
        return Html(f"<p>{escape(self.bring_up_to_date())}.</p>")

    def bring_up_to_date(self) -> schedule.Done:
        """Measure the device's peaks and every measurement that is not fresh, in the requested number of runs."""
        plans = [(self.plan(), self.policy)]
        if self.lab.name != registry.PEAKS:
            plans.insert(0, (self.plan_of_peaks(), self.policy.warm()))
        with Reporter() as show, self._compiling_ahead(plans):
            for plan, policy in plans:
                done = self._take(plan, policy, show)
        return done

    def rerun(
        self, *steps: str, knobs: Mapping[str, Any] | None = None, case: str | None = None, runs: int = 1
    ) -> Html:
        """Measure steps again, each beside its parent in the same rounds. Return the ratios in sentences, and the table.

        steps, knobs, case: as of `measure`. runs: processes that start afresh; from three on, intervals are between runs.
        """
        return self._measure_steps(steps, knobs or {}, case, {"remeasure": True, "runs": runs})

    def _measure_steps(
        self, steps: Sequence[str], knobs: Mapping[str, Any], case: str | None, parameters: Mapping[str, Any]
    ) -> Html:
        names = [turned_name(step, knobs) for step in steps]
        beside = self.beside_parents(names, case or self.cases[0].name, parameters)
        with Reporter() as show:
            done = beside.take(show)
        self.__dict__.pop("data", None)
        outcomes = [line for name in names for line in beside.outcome(name, done).lines()] if parameters else []
        sentences = "".join(f"<p>{escape(line)}</p>" for line in outcomes)
        return Html(f"<p>{escape(done)}.</p>{sentences}{''.join(table.html for table in beside.tables())}")

    def controls(self) -> "VBox | Note":
        """Return fields and a button by which a click measures a step, with knobs of your choice, again beside its parent.

        A page that the book builds has a note in their place.
        """
        if not is_in_notebook():
            return super().controls()
        from .ablation_controls import ablation_controls

        steps = [
            variant
            for variant in self.lab.ladder
            if placement.target_of(variant, self.device) and any(self._is_for(case, variant) for case in self.cases)
        ]
        return ablation_controls(self.rerun, steps, self.cases)

    def beside_parents(self, names: Sequence[str], case: str, parameters: Mapping[str, Any]) -> "Experiment":
        """Return this experiment with only these variants and their parents, on one case, and with other parameters."""
        parents = [self.lab.variant(name).parent for name in names]
        both = [name for pair in zip(parents, names, strict=True) for name in pair if name]
        chosen = {"variants": list(dict.fromkeys(both)), "cases": [case], "remeasure": False, "runs": 1}
        return Experiment(self.lab.name, {**self.parameters, **chosen, **parameters}, self.root)

    def take(self, progress: Progress, workers: Workers | None = None) -> schedule.Done:
        """Measure what is not fresh, or all if asked to remeasure, without peaks. workers: see `schedule.bring_up_to_date`."""
        return self._take(self.plan(), self.policy, progress, workers)

    def _take(
        self, plan: Sequence[Planned], policy: Policy, progress: Progress, workers: Workers | None = None
    ) -> schedule.Done:
        remeasure = self.parameters["remeasure"]
        done = schedule.bring_up_to_date(
            plan, self.device, self.store, policy, runs=self.parameters["runs"], remeasure=remeasure,
            resume=not remeasure, progress=progress, isolated=True, workers=workers,
        )  # fmt: skip
        self.__dict__.pop("data", None)
        return done

    def outcome(self, name: str, done: schedule.Done) -> StepRerun:
        """Return the outcome of new runs of a step and its parent, both variants of this experiment of one case.

        Raise Failed with the reason if the step has no verified time.
        """
        cells = {cell.variant.name: cell for cell in self.plan()}
        cell, case = cells[name], self.cases[0].name
        if cell.state == "failed":
            shown = f" (lines of the output of `roofbook show {self.lab.name} {name}`)"
            raise Failed(f"{name} on {case}: {cell.why}{shown * cell.why.startswith('does not build')}")
        pair = [cells[variant] for variant in (name, cell.variant.parent) if variant in cells]
        rows = self.store.rows(
            self.lab.name, case=case, scale=self.scale, variant=[member.variant.name for member in pair],
            device=[member.device.slug for member in pair], backend=[member.backend for member in pair],
        )  # fmt: skip
        return step_rerun(rows, name, cell.variant.parent, case, done.run.split(", "))

    def _compiling_ahead(self, plans: Sequence[tuple[Sequence[Planned], Policy]]) -> AbstractContextManager[Any]:
        """Compile the lab's kernels while the peaks are measured, unless another process does so for all labs already."""
        due = [any(cell.state != "fresh" for cell in plan) for plan, _ in plans]
        if background_group.exists() or len(due) < 2 or not all(due):
            return nullcontext()
        return BackgroundJobs(self.root, {self.lab.name: self.parameters}, done=[registry.PEAKS])

    def _repr_html_(self) -> str:
        return self.card()._repr_html_()

    def card(self) -> Table:
        """Return the run card: device, driver, libraries, GPU with its power limit, host and its load, commit."""
        facts = report.card(snapshot(self.device), {"device": f"{self.device.spec}, {self.device.name}"})
        labels = (
            *("device", "platform", "driver", "compiled for", "libraries", "GPU", "power limit", "application clock"),
            *("machine", "cpu", "cpu id", "cores", "cpu quota", "load 1min", "commit", "time"),
        )
        return replace(facts, rows=[row for row in facts.rows if row.cells[0].text in labels])

    def tables(self) -> list[Table]:
        """Return the tables for a terminal: the peaks, or the ladder on each case that was measured."""
        if self.lab.name == registry.PEAKS:
            return [self.peak_table()]
        measured = set(self.data.rows["case"])
        if self.parameters["variants"]:
            names = [variant.name for variant in self.variants]
            selections = [
                self.data.on(case.name).alone().with_order(names) for case in self.cases if case.name in measured
            ]
            return [report.ladder(data) for data in selections]
        return [self.ladder(case.name) for case in self.cases if case.name in measured]

    def demonstration(self) -> Table | Note:
        """Return the lab's results beyond times, computed on this device by this code: conservation, analytic solutions.

        Raise UsageError for a lab without a demonstration.
        """
        from .cached_demonstration import cached_demonstration

        try:
            demonstration = cached_demonstration(self.lab, self.device, self.root)
        except Unsupported as reason:
            return Note(f"no demonstration on {self.device.spec}: {reason}")
        if demonstration is None:
            raise UsageError(
                f"lab {self.lab.name} has no demonstration; its tables are the ladder, the sweeps and the peaks"
            )
        return report.demonstration(demonstration)

    @noted
    def published(self) -> Table | Note:
        """Return every published figure of the lab with our measurement: at published sizes on this device, otherwise on a
        recorded one.
        """
        if self.scale == "published":
            return super().published()

        def with_recorded() -> Table | Html:
            records = recorded(self.lab, self.store)
            return published_of(records[0], self.store) if records else Html()

        if self.store.storage.is_remote:  # its files are not all on this host
            table = with_recorded()
        else:
            table = self.keep("published", "", self._made_from.recorded(self.lab.name, self.store), with_recorded)
        return cast(Table, table) if table.html else super().published()

    def keep(self, name: str, subject: str, made_from: object, draw: Callable[[], Shown]) -> Shown:
        """Return the drawing of `draw`, from _build/shown if it was drawn before from the same data."""
        folder = self.root / FOLDER / self.lab.name / f"{self.device.slug}.{self.device.backend}.{self.scale}"
        key = key_of(self._code, made_from)
        return cast(Shown, RenderCache(folder / f"{file_name(name)} {file_name(subject)}.json", key, draw))

    @cached_property
    def _made_from(self) -> InputHashes:
        return InputHashes(self.root)

    @cached_property
    def _code(self) -> dict[str, str]:
        """Hashes of all code that draws a page."""
        return self._made_from.kernels(self.lab.name) | {name: version(name) for name in ("matplotlib", "pandas")}
