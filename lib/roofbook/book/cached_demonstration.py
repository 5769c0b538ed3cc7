"""Cache of a lab's demonstration on a device. It is computed again when the code or the device changes."""

import json
from io import StringIO
from pathlib import Path

from ..analysis.publication import Demonstration, publication
from ..devices.contract import Device
from ..paths import cache_key, cached_text
from ..spec.lab import Lab
from .input_hashes import InputHashes


def cached_demonstration(lab: Lab, device: Device, root: Path) -> Demonstration | None:
    """Return the demonstration of a lab on a device; None for a lab without one."""
    import pandas as pd

    made_from = InputHashes(root).demonstration(lab.name, device)
    fields = json.loads(cached_text("demonstrated", cache_key(json.dumps(made_from)), lambda: _as_text(lab, device)))
    if fields is None:
        return None
    frame = pd.read_json(StringIO(fields.pop("frame")), orient="split")
    return Demonstration(**fields | {"numbers": frozenset(fields["numbers"]), "frame": frame})


def _as_text(lab: Lab, device: Device) -> str:
    from threadpoolctl import threadpool_limits

    # Threads of NumPy's library would wait for each other in a loop, since its products are small here. With one thread the
    # last bits of a result do not depend on the number of cores either.
    with threadpool_limits(1, user_api="blas"):
        demo = publication(lab).demonstration(device)
    if demo is None:
        return json.dumps(None)
    fields = {
        "caption": demo.caption,
        "heads": demo.heads,
        "rows": demo.rows,
        "notes": demo.notes,
    }
    return json.dumps(fields | {"numbers": sorted(demo.numbers), "frame": demo.frame.to_json(orient="split")})
