"""A bench to measure made-up variants on, and a made-up GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from roofbook.measure import answer, checkpoint, sampling, verify
from roofbook.spec import registry

from .counters.made_up import Gpu
from .made_up import Bench


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench whose clock stands still between runs, and that draws no sample to be judged: test_judged_samples.py does."""
    made_up = Bench()
    monkeypatch.setattr(sampling, "_is_judged", lambda measurement: False)
    for module in (checkpoint, sampling, verify):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=made_up.clock.perf_counter))
    return made_up


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A made-up GPU, which is the only CUDA device."""
    device = Gpu()
    monkeypatch.setattr("roofbook.devices.cuda.devices", lambda: [device])
    return device


@pytest.fixture
def short_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that samples a kernel and the step for a tenth of a second each."""
    monkeypatch.setattr(answer, "BUDGET_S", 0.1)


@pytest.fixture
def few_awkward_sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge that takes two small cases, and one near them that it draws: the short suite compiles each kernel less often."""
    if "not thorough" in request.config.option.markexpr:
        for name in registry.names():
            lab = registry.get(name)
            monkeypatch.setattr(lab, "awkward", lab.awkward[:2])
