"""Files of rows that a page measured in a browser: a stranger's file is refused in a line, or becomes rows of a device."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.comparison import on_case, scales
from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import browser_import, browser_runs
from roofbook.book.browser_import import read
from roofbook.devices.backends import BROWSER
from roofbook.errors import UsageError
from roofbook.report.comparison_table import picker_data
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.store.row_rules import wrong_rows
from roofbook.store.schema import CONTROL, table

LAB, CASE = registry.get("stencil"), "1024x1024"
Command = Callable[..., tuple[int, str, str]]


def page_row(variant: str, role: str = "step", seconds: float = 0.02, **fields: Any) -> dict[str, Any]:
    """Return a row as run-here.js writes it."""
    step, case = LAB.variant(variant), LAB.case(CASE)
    today = browser_import._step_today(LAB, variant, CASE)
    assert today
    row: dict[str, Any] = {
        **{
            "run": "2026-02-03T04:05:06.789Z",
            "started": "2026-02-03T04:05:06.789Z",
            "lab": LAB.name,
            "variant": variant,
        },
        **{"case": CASE, "parent": step.parent, "role": role, "dtype": step.dtype, "device": "apple-metal-3"},
        **{"device_name": "apple metal-3", "device_kind": "gpu", "backend": "webgpu", "timed": "kernels"},
        **{"unit": LAB.unit, "units": 4 * case.units, "source_sha256": step.text.sha256},
        **{"samples_s": [seconds * (1 + number / 100) for number in range(7)], "rounds": [*range(7)]},
        **{"status": "ok", "reason": "", "error": 0.25, "bound": 1},
        "extra": {
            "seed": 7,
            "runs": 4,
            "cache": "warm",
            "wgsl_sha256": today.fingerprint,
            "timer": "the browser's clock",
        },
        "provenance": {
            **{"browser": "Mozilla/5.0 (Macintosh)", "vendor": "apple", "architecture": "metal-3", "device": ""},
            **{"description": "", "page": "Stencil: kernels"},
        },
    }
    return row | fields


@pytest.fixture(scope="module")
def page_rows() -> list[dict[str, Any]]:
    return [page_row("fused", seconds=0.01), page_row("float4"), page_row("float4", CONTROL, 0.0201)]


def file_of(rows: Any) -> bytes:
    return json.dumps(rows).encode()


def test_the_fingerprint_is_that_of_the_scripts_texts() -> None:
    case = LAB.case(CASE)
    recorded_case = browser_runs.recorded_case(LAB, LAB.variant("fused"), case, browser_runs.drawn_inputs(LAB, case))
    assert recorded_case
    today = browser_import._step_today(LAB, "fused", CASE)
    assert today and today.fingerprint == browser_runs.fingerprint(recorded_case["texts"]) and today.units == case.units
    assert browser_import._step_today(LAB, "fused", "66x2048") != today, "sizes are constants of the text"


def test_rows_become_those_of_a_device_of_their_own(tmp_path: Path, page_rows: list[dict[str, Any]]) -> None:
    found = read(file_of(page_rows))
    assert not found.changed
    store = Store(tmp_path / "results")
    store.append(found.rows)
    (data,) = recorded(LAB, store, "quick", ("local",))
    assert data.store_device == StoreDevice("browser-apple-metal-3", BROWSER, "apple metal-3", "gpu")
    assert str(data.store_device) == "apple metal-3, WebGPU in a browser"
    readings = data.on(CASE).readings
    fused, control = readings["fused"], readings["float4 (A/A control)"]
    assert fused.ok and fused.median == pytest.approx(0.0103 / (4 * LAB.case(CASE).units)) and control.ok
    assert scales(store)(LAB)[-1] == "quick", "the comparison of devices has the size"
    comparison = on_case(LAB, store, CASE)
    assert comparison.times["fused"].keys() == {data.store_device} and not comparison.ratios
    shown = picker_data([replace(comparison, scale="published")])["labs"][0]["cases"][0]
    assert shown["cells"]["fused"] and shown["cards"] == {}, "no page has cards of it"
    row = found.rows[0]
    provenance = json.loads(row["provenance"])
    assert provenance["source"] == BROWSER and "driver" in provenance["not told"] and "git" not in provenance
    assert provenance["browser"] == "Mozilla/5.0 (Macintosh)" and json.loads(row["policy"]) == {"cache": "warm"}


def test_a_run_has_the_same_name_in_any_file(page_rows: list[dict[str, Any]]) -> None:
    another = [row | {"run": "2026-02-03T05:05:06Z", "started": "2026-02-03T05:05:06Z"} for row in page_rows]
    names = [row["run"] for row in read(file_of(page_rows)).rows]
    assert len({*names}) == 1 and names[0].startswith("20260203T040506Z-")
    both = {row["run"] for row in read(file_of([*reversed(page_rows), *another])).rows}
    assert names[0] in both and len(both) == 2


def test_rows_of_a_changed_kernel_are_left_out_and_counted(page_rows: list[dict[str, Any]]) -> None:
    own = page_row("fused") | {"variant": "fused, changed", "parent": "fused", "source_sha256": None}
    own["extra"]["changed_text"] = "fn fused() {}\n"
    found = read(file_of([*page_rows, own]))
    assert len(found.rows) == len(page_rows) and found.changed == 1


def changed(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row.update(fields)


def of_extra(**fields: Any) -> Callable[[dict[str, Any]], None]:
    return lambda row: row["extra"].update(fields)


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no field": (lambda row: row.pop("units"), "it lacks units"),
    "another field": (changed(path="/etc/passwd"), "a field path, which no page writes"),
    "another lab": (changed(lab="stencill"), "unknown lab 'stencill' (did you mean 'stencil'?)"),
    "a path as a lab": (changed(lab="../stencil"), "lab is no name"),
    "a path as a variant": (changed(variant="/fused"), "variant is no name"),
    "a lab without a browser": (changed(lab="peaks"), "peaks does not run in a browser"),
    "another step": (changed(variant="fuse"), "unknown variant 'fuse' (did you mean 'fused'?)"),
    "a step of another backend": (changed(variant="streams"), "streams does not run in a browser on 1024x1024"),
    "another case": (changed(case="1024x1025"), "unknown case of stencil in a browser '1024x1025'"),
    "another parent": (changed(parent="checked"), "parent is 'checked'; that of fused is 'float4'"),
    "another type": (changed(dtype="float16"), "dtype is 'float16'; that of fused is 'float32'"),
    "another role": (changed(role="peer"), "role is neither 'step' nor 'again'"),
    "another kernel": (of_extra(wgsl_sha256="0" * 64), "another text than fused on 1024x1024"),
    "no fingerprint": (of_extra(wgsl_sha256="abc"), "extra.wgsl_sha256 is no SHA-256"),
    "other units": (changed(units=5), "units is not 23 for each of its 4 runs"),
    "a bool for a number": (changed(units=True), "units is no whole number above 0"),
    "a failed row": (changed(status="failed"), "status is not 'ok'"),
    "a wrong result": (changed(error=1.01), "error is no number from 0 to 1"),
    "a larger bound": (changed(bound=2), "bound is not 1"),
    "no samples": (changed(samples_s=[], rounds=[]), "samples_s is no list"),
    "a time of 0": (lambda row: row["samples_s"].append(0), "samples_s is no list"),
    "an endless time": (lambda row: row["samples_s"].append(1e9), "samples_s is no list"),
    "a text for a time": (lambda row: row["samples_s"].append("1"), "samples_s is no list"),
    "unequal lengths": (lambda row: row["rounds"].append(9), "different lengths"),
    "a round twice": (changed(rounds=[0, 1, 2, 3, 4, 5, 5]), "rounds is no list of rising whole numbers"),
    "the future": (changed(started=f"{datetime.now(UTC) + timedelta(days=3):%Y-%m-%dT%H:%M:%SZ}"), "the clock"),
    "no date": (changed(started="2026-02-31T04:05:06Z"), "started is no time"),
    "another zone": (changed(started="2026-02-03T04:05:06+01:00"), "started is no time in UTC"),
    "an escape": (changed(device_name="apple\x1b[2J"), "device_name is no text on one line"),
    "a reversed name": (changed(device_name="apple\u202e"), "device_name is no text on one line"),
    "a long name": (changed(device_name="a" * 201), "device_name is no text on one line"),
    "a name of signs": (changed(device_name="../.."), "device_name has no letter or digit"),
    "no adapter": (lambda row: row["provenance"].pop("vendor"), "it lacks provenance.vendor"),
    "an object in a text": (lambda row: row["provenance"].update(page={}), "provenance.page is no text on one line"),
}  # fmt: skip
"""Name -> (a change of a page's row, words of the message)."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_row_is_a_line_that_names_the_row(page_rows: list[dict[str, Any]], fault: str) -> None:
    change, words = FAULTS[fault]
    rows = copy.deepcopy(page_rows)
    change(rows[0])
    with pytest.raises(UsageError) as error:
        read(file_of([*rows[1:], rows[0]]))
    message = str(error.value)
    assert message.startswith("row 3: ") and words in message and "\n" not in message and "\x1b" not in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "it is no JSON"),
        (b"\xff\xfe[", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b"[" + b"1" * 10_000 + b"]", "it is no JSON"),
        (b"{}", "it is no list of rows"),
        (b"[]", "it is no list of rows"),
        (b"[NaN]", "not finite"),
        (b'[{"a": 1, "a": 2}]', "a name twice"),
        (b"[1]", "row 1: it is no object"),
        (b"[" + b"1," * 1000 + b"1]", "it has 1001 rows, 1000 at most"),
        (b" " * (browser_import.MOST_BYTES + 1), "bytes, 8388608 at most"),
    ],
)
def test_a_file_that_no_page_saved_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read(content)


def test_one_measurement_twice_is_refused(page_rows: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="two rows of one run are the same measurement"):
        read(file_of([*page_rows, page_rows[0] | {"error": 0.5}]))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
def test_any_json_is_refused_in_a_line(value: Any) -> None:
    with pytest.raises(UsageError) as error:
        read(file_of(value))
    assert str(error.value).isprintable()


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_a_line(content: bytes) -> None:
    with pytest.raises(UsageError):
        read(content)


@given(st.data())
def test_a_row_with_any_value_is_refused_or_fits_the_store(
    page_rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    """A value of any kind at any place: the row is refused, or it is one that a store takes."""
    row = copy.deepcopy(data.draw(st.sampled_from(page_rows)))
    holder = data.draw(st.sampled_from([row, row["extra"], row["provenance"]]))
    holder[data.draw(st.sampled_from(sorted(holder)))] = data.draw(JSON)
    try:
        found = read(file_of([row]))
    except UsageError as error:
        assert str(error).isprintable() and len(str(error)) < 2000
        return
    for stored in found.rows:
        assert stored["backend"] == BROWSER and stored["device"].startswith(f"{BROWSER}-")
        assert not wrong_rows(table([stored]))


def test_the_command_adds_a_file_once_and_refuses_a_wrong_one_whole(
    command: Command, tmp_path: Path, page_rows: list[dict[str, Any]]
) -> None:
    results, file = tmp_path / "results", tmp_path / "rows.json"
    file.write_bytes(file_of(page_rows))
    code, out, err = command("import", str(file), "--results", str(results))
    assert not code, err
    said = " ".join(out.split())
    assert said.startswith("stencil on apple metal-3, WebGPU in a browser, run ") and ": 3 rows added to " in said
    code, out, err = command("import", str(file), "--results", str(results))
    assert not code and "in the store already" in " ".join(out.split())
    assert len(list(results.rglob("*.parquet"))) == 1 and file.read_bytes() == file_of(page_rows)
    copied = tmp_path / "copied"
    shutil.copytree(results, copied)
    wrong = [page_row("checked") | {"run": "2026-03-03T04:05:06Z"}, page_rows[0] | {"error": 2}]
    file.write_bytes(file_of(wrong))
    code, _, err = command("import", str(file), "--results", str(copied))
    assert code == 2 and err == f"error: {file}: row 2: error is no number from 0 to 1\n"
    assert len(list(copied.rglob("*.parquet"))) == 1
    for path, words in (
        (tmp_path / "none.json", "No such file"),
        (tmp_path, "regular file"),
        (Path("/dev/zero"), "regular"),
    ):
        code, _, err = command("import", str(path), "--results", str(results))
        assert code == 2 and words in err and err.count("\n") == 1
    svg = tmp_path / "ladder.svg"
    code, _, err = command("chart", "stencil", CASE, "--scale", "quick", "--results", str(results), "--out", str(svg))
    assert not code and "WebGPU in a browser" in svg.read_text(), err
