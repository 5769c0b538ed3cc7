"""A base class for plans of tests."""

from __future__ import annotations

from roofbook.spec.plan import Plan, least_bytes, no_conditions


class PlainPlan(Plan):
    """A plan of tests: it moves the least bytes, and has no conditions."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)
