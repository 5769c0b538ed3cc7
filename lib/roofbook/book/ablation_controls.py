"""Controls of a notebook by which a click measures a step again beside its parent. Serves `Experiment.controls`."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import UserFacingError
from ..report.html import Html
from ..spec.plan import Case, Variant

if TYPE_CHECKING:
    from ipywidgets import VBox


def ablation_controls(rerun: Callable[..., Html], steps: Sequence[Variant], cases: Sequence[Case]) -> "VBox":
    """Return fields for a step, a case, its knobs and a number of runs, a button that measures, and the outcome.

    rerun: `Experiment.rerun`. A knob counts if its field differs from the value of the step, which then becomes a point of a
    sweep.
    """
    from IPython.display import display
    from ipywidgets import BoundedIntText, Button, Dropdown, HBox, Output, Text, VBox

    step = Dropdown(options=[(variant.name, variant) for variant in steps], description="Step")
    case = Dropdown(options=[case.name for case in cases], description="Case")
    runs = BoundedIntText(value=1, min=1, max=100, description="Runs")
    knobs, outcome = VBox(), Output()
    button = Button(description="Measure", tooltip="Measure the step beside its parent, in the same rounds")

    def show_knobs(_: object) -> None:
        knobs.children = [
            Text(value=str(value), description=name, tooltip=description)
            for name, (value, description) in _knobs_of(step.value).items()
        ]

    def measure(_: object) -> None:
        own = _knobs_of(step.value)
        turned = {field.description: field.value.strip() for field in knobs.children}
        turned = {name: value for name, value in turned.items() if value != str(own[name][0])}
        outcome.clear_output(wait=True)
        button.disabled = True
        try:
            with outcome:
                try:
                    display(rerun(step.value.name, knobs=turned, case=case.value, runs=runs.value))
                except UserFacingError as error:
                    print(error)
        finally:
            button.disabled = False

    step.observe(show_knobs, "value")
    button.on_click(measure)
    show_knobs(None)
    return VBox([HBox([step, case, runs, button]), knobs, outcome])


def _knobs_of(variant: Variant) -> dict[str, tuple[object, str]]:
    """Return knob -> (value, description) of a step's source that a reader may turn; empty for a step of a library."""
    if variant.source is None:
        return {}
    settings, documented = variant.text.settings, variant.text.documented()
    return {name: (settings[name], documented[name]) for name in sorted(settings) if name in documented}
