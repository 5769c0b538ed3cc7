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
    """Return the experiment of a lab, which measures and draws what its notebook shows: an `Experiment`.

    parameters: the notebook's `globals()`, among which are those that papermill sets.
    """
    from .book.experiment import Experiment

    return Experiment.from_notebook(lab, parameters)


def best(lab: str, case: str, device: str = "auto", results: str = "results") -> "KernelCall":
    """Return the fastest verified kernel of a lab on a case and device as a function of NumPy arrays: a `KernelCall`.

    results: the store from which it is chosen. Raise UsageError if no kernel was measured there.
    """
    from .analysis.best_kernels import fastest_call

    return fastest_call(lab, case, device, results)
