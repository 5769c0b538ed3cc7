"""Settings of Dask for TLS, made by the commands of the page on clusters: for tests that start schedulers and workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "book" / "cluster.md"


def tls_settings(home: Path) -> dict[str, str]:
    """Return the variables that the page's `tls.sh` sets, after its certificate was made in `home`."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl, which makes the certificates of these tests")
    blocks = re.findall(r"^  ```sh\n(.*?)^  ```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    (make,) = (block for block in blocks if "openssl req" in block)
    (name,) = (block for block in blocks if "export ${tls}" in block)
    script = textwrap.dedent(make) + textwrap.dedent(name) + "env -0\n"
    environment = {**os.environ, "HOME": str(home)}
    done = subprocess.run(["sh", "-ec", script], env=environment, check=True, capture_output=True, text=True)
    variables = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
    return {key: value for key, value in variables.items() if key.startswith("DASK_DISTRIBUTED__COMM__")}
