"""What the lab says of the report that it comes from.

The report: made up for the tests.
"""

from collections.abc import Mapping

from roofbook.analysis.evidence import Evidence, Pair
from roofbook.analysis.publication import Publication

from . import ELEMENTS, LAB

CASE = f"n{ELEMENTS['published']}"


class Report(Publication):
    """Of the lab's report."""

    evidence: Mapping[str, tuple[Evidence, ...]] = {"threads": (Pair("sequential", "parallel", CASE),)}
    cases: Mapping[str, str] = {"four million elements": CASE}


PUBLICATION = Report(LAB)
