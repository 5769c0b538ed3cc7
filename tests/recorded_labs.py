"""Labs with recorded rows: those of their cards, exercises and devices that tests draw."""

from roofbook.paths import project_root
from roofbook.spec import registry

RECORDED = [name for name in registry.names() if (project_root() / "results" / "recorded" / f"lab={name}").is_dir()]
"""Names of the labs that have recorded rows; a new lab has none yet."""
