"""The lab's publication: a report that is made up for the tests."""

from collections.abc import Mapping

from roofbook.analysis.evidence import Evidence, Pair
from roofbook.analysis.publication import Publication

from . import LAB

CASE = LAB.cases("published")[0].name


class Report(Publication):
    """Publication of the made-up lab, with its claims."""

    evidence: Mapping[str, tuple[Evidence, ...]] = {"threads": (Pair("sequential", "parallel", CASE),)}
    cases: Mapping[str, str] = {"four million elements": CASE}


PUBLICATION = Report(LAB)
