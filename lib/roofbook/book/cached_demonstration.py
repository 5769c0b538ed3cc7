"""What a lab shows beyond times, computed on a device once and kept for as long as the code and the device are the same."""

import json
from io import StringIO
from pathlib import Path

from ..analysis.publication import Demonstration, publication
from ..devices.contract import Device
from ..paths import cache_key, cached_text
from ..spec.lab import Lab
from .input_hashes import InputHashes


def cached_demonstration(lab: Lab, device: Device, root: Path) -> Demonstration | None:
    """The demonstration of a lab on a device; None where it has none."""
    import pandas as pd

    made_from = InputHashes(root).demonstration(lab.name, device)
    kept = json.loads(cached_text("demonstrated", cache_key(json.dumps(made_from)), lambda: _as_text(lab, device)))
    if kept is None:
        return None
    frame = pd.read_json(StringIO(kept.pop("frame")), orient="split")
    return Demonstration(**kept | {"numbers": frozenset(kept["numbers"]), "frame": frame})


def _as_text(lab: Lab, device: Device) -> str:
    made = publication(lab).demonstration(device)
    if made is None:
        return json.dumps(None)
    kept = {"caption": made.caption, "heads": made.heads, "rows": made.rows, "notes": made.notes}
    return json.dumps(kept | {"numbers": sorted(made.numbers), "frame": made.frame.to_json(orient="split")})
