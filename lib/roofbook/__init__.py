"""Roofbook: an executable book of GPU kernel optimisation. Every notebook starts with `roofbook.open(...)`."""

from typing import TYPE_CHECKING, Any

from . import own_python
from .errors import UsageError

if TYPE_CHECKING:
    from .book.experiment import Experiment
    from .measure.kernel_call import KernelCall

__all__ = ["UsageError", "best", "open"]

own_python.search_packages_last()
own_python.import_matplotlib_elsewhere()


def open(lab: str, parameters: dict[str, Any]) -> "Experiment":
    """The experiment of `lab` with the notebook's own `globals()` as parameters; see `roofbook.book.experiment`."""
    from .book.experiment import Experiment

    return Experiment.from_notebook(lab, parameters)


def best(lab: str, case: str, device: str = "auto", results: str = "results") -> "KernelCall":
    """The fastest verified kernel of the store as a function of arrays; see `roofbook.measure.kernel_call`."""
    from .analysis.best_kernels import fastest_call

    return fastest_call(lab, case, device, results)
