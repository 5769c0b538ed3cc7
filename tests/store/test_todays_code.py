"""Keys of the environment of stored rows, as today's code counts variables."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from roofbook.store.identity import env_key
from roofbook.store.todays_code import newest_measurements, with_current_environment

PLAIN: dict[str, Any] = {"device": {"backend": "cuda"}, "python": "3.12"}
LEFT_OUT = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
COUNTED = {"TORCH_CUDNN_V8_API_DISABLED": "1"}


def rows_with(*settings: dict[str, str]) -> pd.DataFrame:
    """Return a row for each set of variables, all of one variant and case, oldest first."""
    environments = [{**PLAIN, **({"settings": variables} if variables else {})} for variables in settings]
    return pd.DataFrame(
        {
            "variant": "fused", "case": "6x7", "cell_key": "a", "run": [str(number) for number in range(len(settings))],
            "env_key": [env_key(environment) for environment in environments],
            "provenance": [json.dumps({"environment": environment}) for environment in environments],
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "runs"),
    [
        (({}, LEFT_OUT), ["0", "1"]),
        ((LEFT_OUT, {}), ["0", "1"]),
        (({}, COUNTED), ["1"]),
        ((COUNTED, {**COUNTED, **LEFT_OUT}, {}, {**LEFT_OUT, **COUNTED}), ["0", "1", "3"]),
    ],
)
def test_a_variable_that_no_longer_counts_divides_no_runs(
    settings: tuple[dict[str, str], ...], runs: list[str]
) -> None:
    rows = rows_with(*settings)
    assert newest_measurements(with_current_environment(rows))["run"].tolist() == runs
    assert rows["provenance"].equals(with_current_environment(rows)["provenance"]), "what was set stays in the row"


@pytest.mark.parametrize(
    "provenance", [None, "{}", '{"environment": {}}', '{"environment": null}', '{"environment": {"settings": null}}']
)
def test_rows_that_name_no_environment_keep_their_keys(provenance: str | None) -> None:
    rows = rows_with({}).assign(provenance=provenance, env_key="then")
    assert with_current_environment(rows)["env_key"].tolist() == ["then"]
    assert with_current_environment(rows.iloc[:0]).empty
