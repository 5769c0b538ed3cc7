"""Files of Kernel Tuner: what is written has the formats' shapes and is replayed, and a stranger's file is checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from roofbook.analysis import kernel_tuner_files
from roofbook.errors import UsageError

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
T4_SHAPE = {
    "type": "object",
    "required": ["results", "schema_version"],
    "properties": {
        "schema_version": {"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        "results": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["configuration", "times", "invalidity", "correctness"],
                "properties": {
                    "timestamp": {"type": "string"},
                    "configuration": {"type": "object"},
                    "objectives": {"type": "array", "items": {"type": "string"}},
                    "times": {
                        "type": "object",
                        "properties": {
                            "runtimes": {"type": "array", "items": {"type": "number"}},
                            "framework": {"type": "number"},
                            "search_algorithm": {"type": "number"},
                            "validation": {"type": "number"},
                        },
                    },
                    "invalidity": {"enum": ["timeout", "compile", "runtime", "correctness", "constraints", "correct"]},
                    "correctness": {"type": "number"},
                    "measurements": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "name": {"type": "string"},
                                "value": {"type": "number"},
                                "unit": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}
"""Shape of a file of T4's results, version 1.0.0, in the words of its own schema."""


def row(seconds: float | None, reason: str = "") -> Mapping[str, Any]:
    return {
        "status": "ok" if seconds else "failed", "reason": reason or None, "samples_s": [10 * seconds] if seconds else [],
        "units": 10, "started": STARTED, "device_name": "Some GPU",
        "extra": json.dumps({"phases_s": {"compilation": 0.5, "benchmark": 0.001, "validation": 0.25}}),
    }  # fmt: skip


POINTS = [
    ({"GROUP": "32", "shape": "16x4", "ORDER": "ROWS"}, row(2e-3)),
    ({"GROUP": "64", "shape": "16x4", "ORDER": "ROWS"}, row(1e-3)),
    ({"GROUP": "64", "shape": "8x8", "ORDER": "ROWS"}, row(None, "does not build: error: x")),
    ({"GROUP": "32", "shape": "8x8", "ORDER": "ROWS"}, row(None, "wrong result: error 3")),
]


def test_t4_has_the_shape_of_its_schema_and_milliseconds(tmp_path: Path) -> None:
    kernel_tuner_files.write(tmp_path / "t4.json", "t4", "tiled", POINTS)
    content = json.loads((tmp_path / "t4.json").read_text())
    jsonschema.validate(content, T4_SHAPE)
    assert [result["invalidity"] for result in content["results"]] == ["correct", "correct", "compile", "correctness"]
    first = content["results"][0]
    assert first["configuration"] == {"GROUP": 32, "shape": "16x4", "ORDER": "ROWS"}
    assert first["measurements"] == [{"name": "time", "value": 2.0, "unit": "ms"}]
    assert first["times"]["compilation"] == 500.0 and first["times"]["runtimes"] == [2.0]
    assert content["results"][2]["measurements"] == [] and content["results"][3]["correctness"] == 0.0


def test_a_cache_has_a_key_of_each_points_values_in_order(tmp_path: Path) -> None:
    kernel_tuner_files.write(tmp_path / "cache.json", "cache", "tiled", POINTS)
    content = json.loads((tmp_path / "cache.json").read_text())
    assert content["tune_params_keys"] == list(content["tune_params"]) == ["GROUP", "shape", "ORDER"]
    assert content["tune_params"] == {"GROUP": [32, 64], "shape": ["16x4", "8x8"], "ORDER": ["ROWS"]}
    assert (content["device_name"], content["kernel_name"], content["objective"]) == ("Some GPU", "tiled", "time")
    assert list(content["cache"]) == ["32,16x4,ROWS", "64,16x4,ROWS", "64,8x8,ROWS", "32,8x8,ROWS"]
    assert content["cache"]["64,16x4,ROWS"]["time"] == 1.0
    assert content["cache"]["64,8x8,ROWS"]["__error__"] == "CompilationFailedConfig"
    for entry in content["cache"].values():
        assert entry["compile_time"] == 500.0 and entry["verification_time"] == 250.0 and entry["benchmark_time"] == 1.0


def test_kernel_tuner_replays_the_cache_and_accepts_t4(tmp_path: Path) -> None:
    """Runs only where kernel_tuner is installed; the shapes are checked without it."""
    kernel_tuner = pytest.importorskip("kernel_tuner")
    from kernel_tuner.file_utils import output_file_schema

    kernel_tuner_files.write(tmp_path / "t4.json", "t4", "tiled", POINTS)
    jsonschema.validate(json.loads((tmp_path / "t4.json").read_text()), output_file_schema("results")[1])
    kernel_tuner_files.write(tmp_path / "cache.json", "cache", "tiled", POINTS)
    knobs = json.loads((tmp_path / "cache.json").read_text())["tune_params"]
    results, _ = kernel_tuner.tune_kernel(
        "tiled", "__kernel void tiled() {}", 1, [], knobs, lang="OpenCL", simulation_mode=True,
        cache=str(tmp_path / "cache.json"), block_size_names=["GROUP"], quiet=True,
    )  # fmt: skip
    times = {(result["GROUP"], result["shape"]): result["time"] for result in results if "__error__" not in result}
    assert times == {(32, "16x4"): 2.0, (64, "16x4"): 1.0}


@pytest.mark.parametrize("layout", ("t4", "cache"))
def test_a_file_is_read_back_fastest_first(tmp_path: Path, layout: str) -> None:
    kernel_tuner_files.write(tmp_path / "file.json", layout, "tiled", POINTS)
    points = kernel_tuner_files.read(tmp_path / "file.json")
    assert points[:2] == [POINTS[1][0], POINTS[0][0]] and len(points) == 4


def test_a_cache_that_was_left_open_is_read(tmp_path: Path) -> None:
    (tmp_path / "open.json").write_text(
        '{"tune_params_keys": ["G"],\n"cache": {\n"32": {"G": 32, "time": 2.5},\n"64": {"G": 64, "time": 1},'
    )
    assert kernel_tuner_files.read(tmp_path / "open.json") == [{"G": "64"}, {"G": "32"}]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[1]", "is no JSON"),
        ('{"a": 1}', "is no file of Kernel Tuner"),
        ('{"results": {"a": 1}}', "`results` must be a list of objects"),
        ('{"results": []}', "has no points"),
        ('{"results": [{"configuration": 3}]}', "an object of knobs and values"),
        ('{"results": [{"configuration": {"G": [1]}}]}', "is no knob with a number or word"),
        ('{"results": [{"configuration": {"G": "1;rm"}}]}', "is no knob with a number or word"),
        ('{"results": [{"configuration": {"a b": 1}}]}', "is no knob with a number or word"),
        ('{"results": [{"configuration": {"G": true}}]}', "is no knob with a number or word"),
        ('{"results": [{"configuration": {"G": 1}}, {"configuration": {"H": 1}}]}', "different knobs"),
        ('{"cache": {"32": 3}, "tune_params_keys": ["G"]}', "an object of objects"),
        ('{"cache": {"32": {"H": 3}}, "tune_params_keys": ["G"]}', "G=None is no knob"),
    ],
)  # fmt: skip
def test_a_strangers_file_of_another_shape_is_refused_in_one_line(tmp_path: Path, content: str, reason: str) -> None:
    (tmp_path / "file.json").write_text(content)
    with pytest.raises(UsageError) as error:
        kernel_tuner_files.read(tmp_path / "file.json")
    assert reason in str(error.value) and len(str(error.value).splitlines()) == 1


def test_times_that_are_none_come_last(tmp_path: Path) -> None:
    entries = {str(n): {"G": n, "time": time} for n, time in enumerate(("fast", -1, None, True, 3.0, 1e400))}
    (tmp_path / "file.json").write_text(json.dumps({"cache": entries, "tune_params_keys": ["G"]}))
    assert kernel_tuner_files.read(tmp_path / "file.json")[0] == {"G": "4"}
