"""What a measurement is known by: the key of its cell, that of its environment, and the name of the run that it is of."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def cell_key(identity: Mapping[str, Any]) -> str:
    """sha256 over canonical JSON (sorted keys, no spaces) of what decides a cell. Raises ValueError on NaN."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def env_key(environment: Mapping[str, Any]) -> str:
    """The same over `provenance.environment(device)`."""
    return cell_key(environment)


def new_run_id() -> str:
    """UTC time and 6 random hex digits: sorts by time, and two runs of one second still differ."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
