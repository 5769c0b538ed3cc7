"""A base for plans of tests: it moves the least, and has no conditions."""

from __future__ import annotations

from roofbook.spec.lab import Plan, least_bytes, no_conditions


class PlainPlan(Plan):
    """What each plan states of itself, for one that is like a plain step."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)
