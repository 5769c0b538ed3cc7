"""Identity of a measurement: the hash of its definition, the hash of its environment, and the name of its run."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def cell_key(identity: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a measurement's identity as canonical JSON (sorted keys, no spaces). ValueError for NaN."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def env_key(environment: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an environment, as `provenance.environment(device)` returns it."""
    return cell_key(environment)


def new_run_id() -> str:
    """Return a name for a run: UTC time and 6 random hex digits. Names sort by time, and differ within one second."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
