"""Labs whose notebooks the tests of the site execute with all steps and sweeps."""

from roofbook.spec import registry

WHOLE = ("lbm", "stencil", registry.PEAKS)
"""The other labs' notebooks draw the same cells from a few steps; tests/labs verifies all of their steps."""
