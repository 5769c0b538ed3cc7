"""What the tests of the executed book know of this lab's page alone."""

ENVIRONMENT = {"POCL_EXTRA_BUILD_FLAGS": "-cl-opt-disable"}
"""No other test has its cases at scale `test`: PoCL compiles their kernels without optimising them, in half the time."""
