"""Keys of the environment of stored rows, as today's code counts variables."""

from __future__ import annotations

import json
import time
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.store.identity import env_key
from roofbook.store.row_rules import _PROVENANCE, _parse
from roofbook.store.todays_code import MOST_MISMATCHES, newest_measurements, with_current_environment

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


@pytest.mark.parametrize("is_first", [True, False])
def test_a_row_with_the_key_of_another_environment_changes_no_key(is_first: bool) -> None:
    """Whether the key counts is not for a stranger's row to say, before or after the rows whose key it took."""
    honest, taken = rows_with(LEFT_OUT), rows_with({}).assign(env_key=env_key({**PLAIN, "settings": LEFT_OUT}))
    rows = pd.concat([taken, honest] if is_first else [honest, taken], ignore_index=True)
    assert with_current_environment(rows)["env_key"].tolist() == [env_key(PLAIN)] * 2
    assert with_current_environment(taken)["env_key"].equals(taken["env_key"])
    stolen = rows_with(LEFT_OUT).assign(env_key=env_key(PLAIN))
    assert with_current_environment(stolen)["env_key"].tolist() == [env_key(PLAIN)]
    many = pd.concat([taken] * MOST_MISMATCHES + [honest], ignore_index=True)
    assert set(with_current_environment(many)["env_key"]) == set(honest["env_key"]), "they are not read without end"


SCALARS = st.one_of(st.none(), st.floats(), st.integers(-(2**60), 2**60), st.text(max_size=5), st.booleans())
VARIABLES = st.dictionaries(
    st.one_of(st.sampled_from([*LEFT_OUT, *COUNTED, ""]), st.text(max_size=5)), SCALARS, max_size=4
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"environment": st.one_of(st.none(), st.fixed_dictionaries(
                {}, optional={"device": VARIABLES, "settings": st.one_of(st.none(), VARIABLES), "python": st.text(max_size=5)}
            ))},
        ),
        max_size=5,
    )
)  # fmt: skip
def test_any_environment_that_a_row_may_have_is_read(provenances: list[dict[str, Any]]) -> None:
    """A failed row may have NaN, numbers as variables, and half a surrogate pair as far as JSON can write it."""
    texts = [json.dumps(provenance) for provenance in provenances]
    texts = [text for text in texts if not isinstance(_parse(text, _PROVENANCE), str)]
    keys = [str(number) for number in range(len(texts))]
    rows = pd.DataFrame({"env_key": keys, "provenance": texts}, dtype=object)
    assert with_current_environment(rows)["env_key"].tolist() == keys


def test_an_environment_with_a_number_that_json_lacks_keeps_its_key() -> None:
    environment = {**PLAIN, "settings": {**LEFT_OUT, "OMP_NUM_THREADS": float("nan")}}
    rows = rows_with({}).assign(provenance=json.dumps({"environment": environment}))
    assert not isinstance(_parse(rows["provenance"][0], _PROVENANCE), str), "the store takes it, in a failed row"
    assert with_current_environment(rows)["env_key"].tolist() == rows["env_key"].tolist()


def test_many_keys_take_time_in_proportion_to_their_number() -> None:
    """With `Series.replace` they took its square: minutes."""
    rows = rows_with(*({**LEFT_OUT, "OMP_NUM_THREADS": str(number)} for number in range(20_000)))
    start = time.process_time()
    assert with_current_environment(rows)["env_key"].nunique() == 20_000
    assert time.process_time() - start < 5
