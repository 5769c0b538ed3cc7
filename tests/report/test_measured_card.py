"""The card of a row names compilers, variables and checks; an older row lacks some of them."""

import json
from types import SimpleNamespace
from typing import Any, cast

from roofbook.report import measured_card


def reading(environment: dict[str, Any] | None = None, ok: bool = True, **extra: Any) -> Any:
    return SimpleNamespace(row={"provenance": json.dumps({"environment": environment or {}})}, ok=ok, facts=extra)


def test_the_hosts_compilers_are_named_or_said_to_be_unknown() -> None:
    named = reading({"compilers": {"C compiler": "gcc 12.2.0", "C compiler's added flags": "-m32"}}, flags="-O3")
    assert measured_card._compilers(named) == "C compiler: gcc 12.2.0; C compiler's added flags: -m32"
    assert measured_card._compilers(reading(flags="-O3")).startswith("not named: this row is older")
    assert measured_card._compilers(reading()) == "", "a kernel, which the driver compiles"


def test_rows_by_the_earlier_protocol_say_so() -> None:
    assert measured_card._checked_samples(reading(checks={"seed": 1, "samples": [3, 17]})).startswith(
        "2 of the newest run's"
    )
    for extra in ({}, {"checks": {"seed": 1}}, {"checks": None}):
        assert "by the earlier protocol" in measured_card._checked_samples(reading(**extra)), extra
    assert measured_card._checked_samples(reading(checks={"samples": []})) == ""
    assert measured_card._checked_samples(reading(ok=False)) == ""


def test_variables_that_were_set_are_named() -> None:
    row = reading({"settings": {"OMP_THREAD_LIMIT": "1"}}).row
    assert measured_card._environment(row)["settings"] == {"OMP_THREAD_LIMIT": "1"}
    assert measured_card._environment({"provenance": None}) == {}


def spread(*places: tuple[str | None, str | None]) -> str:
    """Return the spread of runs on these machines and GPUs; each takes a tenth longer than the first run."""
    provenances = [{"machine": name, "gpu": uuid and {"uuid": uuid}} for name, uuid in places]
    runs = [
        SimpleNamespace(row={"provenance": json.dumps(provenance)}, median=1e-3 * (1.1 if at else 1))
        for at, provenance in enumerate(provenances)
    ]
    return measured_card._spread(cast(Any, SimpleNamespace(ok=True, runs=runs, run_by_run=runs)))


def test_the_spread_of_runs_counts_the_machines_and_gpus_that_they_ran_on() -> None:
    assert spread(("a", "1"), ("a", "1")).startswith("the longest median of 2 runs is 10")
    several = spread(("a", "1"), ("a", "1"), ("a", "2"), ("b", "3"), (None, None), (None, None))
    assert several.startswith("the longest median of 6 runs on 4 machines or GPUs is 10")
    assert "2 machines or GPUs" in spread(("a", None), ("b", None)), "processors"
    assert spread(("a", None)) == "one run: nothing is known of the next"
