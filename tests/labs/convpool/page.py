"""Exceptions of this lab's page, for the tests of the executed book."""

ENVIRONMENT = {"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"}
"""Variables of the page's run. No other test has its cases at scale `test`; without optimisation PoCL takes half the time."""
