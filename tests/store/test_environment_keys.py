"""Keys of the environment of stored rows, as today's code counts variables."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis import fastest_variant
from roofbook.analysis.readings import newest
from roofbook.spec import registry
from roofbook.store.environment_keys import MOST_MISMATCHES, with_current_environment
from roofbook.store.identity import env_key
from roofbook.store.parquet import Store
from roofbook.store.row_rules import _PROVENANCE, _parse
from roofbook.store.todays_code import newest_measurements

PLAIN: dict[str, Any] = {"device": {"backend": "cuda"}, "python": "3.12"}
LEFT_OUT = {"TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
COUNTED = {"TORCH_CUDNN_V8_API_DISABLED": "1"}


def with_column(rows: pa.Table, name: str, text: str) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, pa.array([text] * len(rows)))


def environment(variables: dict[str, str]) -> dict[str, Any]:
    return {**PLAIN, **({"settings": variables} if variables else {})}


def rows_with(*settings: dict[str, str], provenance: str | None = "") -> pa.Table:
    """Return a row for each set of variables, all of one variant and case, oldest first. provenance: of all, if not ''."""
    environments = [environment(variables) for variables in settings]
    texts = [json.dumps({"environment": of_row}) if provenance == "" else provenance for of_row in environments]
    return pa.table(
        {
            "variant": ["fused"] * len(settings), "case": ["6x7"] * len(settings), "cell_key": ["a"] * len(settings),
            "run": [str(number) for number in range(len(settings))], "env_key": [*map(env_key, environments)],
            "provenance": pa.array(texts, pa.string()),
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
    current = with_current_environment(rows)
    assert newest_measurements(current.to_pandas())["run"].tolist() == runs
    assert current["provenance"].equals(rows["provenance"]), "what was set stays in the row"
    at = rows.schema.get_field_index("env_key")
    encoded = with_current_environment(rows.set_column(at, "env_key", rows["env_key"].dictionary_encode()))
    assert encoded["env_key"].to_pylist() == current["env_key"].to_pylist()
    assert pa.types.is_dictionary(encoded["env_key"].type), "a column of codes stays one"


@pytest.mark.parametrize(
    "provenance", [None, "{}", '{"environment": {}}', '{"environment": null}', '{"environment": {"settings": null}}']
)
def test_rows_that_name_no_environment_keep_their_keys(provenance: str | None) -> None:
    rows = rows_with({}, LEFT_OUT, provenance=provenance)
    assert with_current_environment(rows) is rows and len(with_current_environment(rows.slice(0, 0))) == 0


@pytest.mark.parametrize(
    ("backend", "library", "counts"),
    [
        ("opencl", "pocl-binary-distribution", False), ("opencl", "cupy-cuda13x", False), ("opencl", "pyopencl", True),
        ("opencl", "numpy", True), ("cuda", "pyopencl", False), ("cuda", "cupy-cuda13x", True), ("webgpu", "wgpu", True),
        ("of-a-plugin", "its-library", True),
    ],
)  # fmt: skip
def test_the_libraries_of_another_backend_do_not_count(backend: str, library: str, counts: bool) -> None:
    """PoCL's distribution once counted for every device by OpenCL, so that new runs on a GPU hid older ones."""
    plain = {"device": {"backend": backend}, "libraries": {}, "python": "3.12"}
    key_of_plain = env_key(plain)
    with_library = {**plain, "libraries": {library: "3.0"}}
    texts = [json.dumps({"environment": of_row}) for of_row in (plain, with_library)]
    rows = pa.table({"env_key": [key_of_plain, env_key(with_library)], "provenance": texts})
    current = with_current_environment(rows)["env_key"].to_pylist()
    assert current == [key_of_plain, env_key(with_library) if counts else key_of_plain]


def test_all_readers_of_a_store_count_the_same_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A card once showed the three newest of nine runs, and a table all of them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    store, lbm = Store(tmp_path / "results"), registry.get("lbm")
    for day, (seconds, variables) in enumerate([(3.0, {}), (1.0, {}), (5.0, LEFT_OUT), (9.0, LEFT_OUT)]):
        of_run = environment(variables)
        row = {
            "run": f"run-{day}", "started": datetime(2026, 1, 1 + day, tzinfo=UTC), "lab": "lbm", "variant": "fused",
            "case": "128x128", "role": "step", "device": "some-gpu", "device_name": "Some GPU", "device_kind": "gpu",
            "backend": "cuda", "policy": "{}", "cell_key": "a", "env_key": env_key(of_run), "status": "ok",
            "samples_s": [seconds] * 3, "rounds": [0, 1, 2], "units": 1, "error": 0.0, "bound": 1.0, "unit": "step",
            "scale": "quick", "provenance": json.dumps({"environment": of_run}),
        }  # fmt: skip
        store.append([row])
    reading = newest(store.rows("lbm"), "128x128")["fused"]
    assert len(reading.runs) == 4 and reading.median == 4.0
    assert [time.seconds for time in fastest_variant.timed(lbm, store)] == [4.0]
    (table,) = store.by_device("lbm")
    assert len(set(table["env_key"].to_pylist())) == 1
    names = ("lab", "variant", "case", "device", "backend", "cell_key")
    cell = {name: table[name][0].as_py() for name in names} | {"env_key": env_key(PLAIN)}
    (state,) = store.states([cell])
    assert (state.state, state.runs) == ("fresh", 4)


@pytest.mark.parametrize("is_first", [True, False])
def test_a_row_with_the_key_of_another_environment_changes_no_key(is_first: bool) -> None:
    """Whether the key counts is not for a stranger's row to say, before or after the rows whose key it took."""
    key_of_set = env_key({**PLAIN, "settings": LEFT_OUT})
    honest, taken = rows_with(LEFT_OUT), with_column(rows_with({}), "env_key", key_of_set)
    rows = pa.concat_tables([taken, honest] if is_first else [honest, taken])
    assert with_current_environment(rows)["env_key"].to_pylist() == [env_key(PLAIN)] * 2
    assert with_current_environment(taken)["env_key"].equals(taken["env_key"])
    stolen = with_column(rows_with(LEFT_OUT), "env_key", env_key(PLAIN))
    assert with_current_environment(stolen)["env_key"].to_pylist() == [env_key(PLAIN)]
    many = pa.concat_tables([taken] * MOST_MISMATCHES + [honest])
    assert set(with_current_environment(many)["env_key"].to_pylist()) == {key_of_set}, "they are not read without end"


SCALARS = st.one_of(st.none(), st.floats(), st.integers(-(2**60), 2**60), st.text(max_size=5), st.booleans())
VARIABLES = st.dictionaries(
    st.one_of(st.sampled_from([*LEFT_OUT, *COUNTED, ""]), st.text(max_size=5)), SCALARS, max_size=4
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"environment": st.one_of(st.none(), st.fixed_dictionaries(
                {}, optional={
                    "device": VARIABLES, "libraries": st.one_of(st.none(), VARIABLES), "python": st.text(max_size=5),
                    "settings": st.one_of(st.none(), VARIABLES),
                }
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
    rows = pa.table({"env_key": pa.array(keys, pa.string()), "provenance": pa.array(texts, pa.string())})
    assert with_current_environment(rows)["env_key"].to_pylist() == keys


def test_an_environment_with_a_number_that_json_lacks_keeps_its_key() -> None:
    environment = {**PLAIN, "settings": {**LEFT_OUT, "OMP_NUM_THREADS": float("nan")}}
    text = json.dumps({"environment": environment})
    assert not isinstance(_parse(text, _PROVENANCE), str), "the store takes it, in a failed row"
    rows = rows_with({}, provenance=text)
    assert with_current_environment(rows) is rows


def test_many_keys_take_time_in_proportion_to_their_number() -> None:
    """Ten times as many take less than forty times as long. With `Series.replace` they took a hundred times as long."""

    def seconds(keys: int) -> float:
        rows = rows_with(*({**LEFT_OUT, "OMP_NUM_THREADS": str(number)} for number in range(keys)))
        start = time.process_time()
        assert len(set(with_current_environment(rows)["env_key"].to_pylist())) == keys
        return time.process_time() - start

    few, many = (min(seconds(keys) for _ in range(3)) for keys in (500, 5000))
    assert many < 40 * few
