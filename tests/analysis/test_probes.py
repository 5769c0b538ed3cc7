"""A probe, however short its time, is in no sentence, figure or comparison that says how fast a lab's steps are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from roofbook.analysis.answers import answer
from roofbook.analysis.conclusions import conclusions, peer_comparison
from roofbook.analysis.recorded import RecordedData, recorded
from roofbook.paths import project_root
from roofbook.report import opening
from roofbook.spec import registry
from roofbook.store.parquet import Store

STORE = Store(project_root() / "results", ("recorded",))


class WithProbes(RecordedData):
    """A recorded device on which each probe of the lab takes a thousandth of the fastest step's time."""

    def __init__(self, data: RecordedData) -> None:
        self.__dict__.update(
            {name: value for name, value in vars(data).items() if name not in ("measured", "_cases_data")}
        )
        frames = [data.rows[data.rows["role"] != "probe"]]
        for case in data.cases:
            steps = data.rows[
                (data.rows["case"] == case.name) & (data.rows["variant"] == data.measured.fastest(case.name))
            ]
            for probe in self.lab.ladder:
                if probe.role == "probe":
                    made = steps.assign(variant=probe.name, role="probe", parent=probe.parent)
                    made["samples_s"] = [np.asarray(samples) / 1000 for samples in made["samples_s"]]
                    frames.append(made)
        self._rows = pd.concat(frames, ignore_index=True)


def said(data: RecordedData) -> dict[str, str]:
    """Return what is said of a lab on each case: the answer, the conclusions, the comparison with peers, the opening figure."""
    texts = {"conclusions": conclusions(data.lab, data.measured)}
    for case in data.cases:
        lab_answer = answer(data.lab, data.on(case.name))
        texts[f"opening {case.name}"] = opening(data.on(case.name)).html
        texts[f"peers {case.name}"] = peer_comparison(data.measured, case.name)
        texts[f"answer {case.name}"] = repr(lab_answer and (lab_answer.fastest.reading.variant, len(lab_answer.steps)))
    return texts


@pytest.mark.parametrize(
    "lab", [name for name in registry.names() if any(v.role == "probe" for v in registry.get(name).ladder)]
)
def test_a_probe_is_not_taken_for_the_fastest_step(lab: str) -> None:
    devices = [data for data in recorded(registry.get(lab), STORE) if data.device.kind == "gpu"][:2]
    assert devices
    for data in devices:
        with_probes = WithProbes(data)
        probes = {step.name for step in data.lab.ladder if step.role == "probe"}
        without = WithProbes(data)
        without._rows = without._rows[without._rows["role"] != "probe"]
        assert probes <= set(with_probes.rows["variant"])
        assert said(with_probes) == said(without)
        texts = "".join(said(with_probes).values())
        assert not [name for name in probes if name in texts]
