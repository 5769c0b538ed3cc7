"""Stand-ins for a GPU and for ncu: a sample of ncu's output, taken on an H200, a script that prints it, and a lab."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roofbook.devices import contract
from roofbook.devices.contract import Unsupported
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Variant
from roofbook.store.parquet import Store
from roofbook.store.schema import PROFILE

from ...plain_plan import PlainPlan

SAMPLE = Path(__file__).with_name("ncu.csv").read_text()
"""`lbm fused` on 1024x1024, three steps: two kernels each."""
STEPS = 3
Cli = Callable[..., tuple[int, str, str]]


def changed(*pairs: tuple[str, str]) -> str:
    """Return the sample with some of its text replaced."""
    text = SAMPLE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


PERMISSION = (
    "==PROF== Connected to process 12 (/usr/bin/python3)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission "
    "to access NVIDIA GPU Performance Counters on the target device 0. For instructions see https://..."
)


class Made(PlainPlan):
    """A plan that logs each of its steps; with the option `clock` it is timed by its device's clock."""

    def __init__(self, device: Any, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.units, self.options, self.log = device, case.units, variant.options, device.log
        self.log.append("plan")
        if failure := self.options.get("fails"):
            raise failure

    def reset(self) -> None:
        self.log.append("reset")

    def run(self) -> float | None:
        self.log.append("run")
        if not self.options.get("clock"):
            return None
        return float(sum(self.device.queue().laps(lambda: self.log.append("kernel"))))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"x": np.array([self.options.get("value", 1.0)])}

    def close(self) -> None:
        self.log.append("close")


def variant(name: str, **options: Any) -> Variant:
    return Variant(name, None, None, Made, "", "", frozenset({"cuda-c++"}), options=options)


class MadeUp(Lab):
    name = "made-up"
    ladder = (
        variant("by-host"),
        variant("by-clock", clock=True),
        variant("wrong", value=1.5),
        variant("nan", value=math.nan),
        variant("refused", fails=Unsupported("no tensor cores")),
        variant("defect", fails=KeyError("x")),
    )

    def __init__(self) -> None:
        self.references = 0

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case("small", scale, {}, 1000)]

    def verification_case(self, case: Case, variant: Variant) -> Case:
        return Case(case.name, case.scale, case.params, 5)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"seed": seed}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        self.references += 1
        assert case.units == 5 and inputs == {"seed": 7}
        return {"x": np.ones(1)}

    def check(self, case: Case, variant: Variant, outputs: Any, reference: Any) -> tuple[float, float, str]:
        return np.float32(abs(outputs["x"] - reference["x"]).max()), 0.1, "of x"  # type: ignore[return-value]

    def work(self, case: Case) -> Work:
        return Work(1, 1, 1)


class Gpu(contract.Device):
    """A made-up CUDA device with everything that planning a row and storing it need."""

    backend, kind, name, spec, architecture = "cuda", "gpu", "NVIDIA H200", "cuda:0", 90
    compute_units, memory_bytes, cache_bytes, local_bytes, max_work_group, max_clock_mhz = 132, 1, 1, 1, 1024, 1980

    def identity(self) -> dict[str, str]:
        return {"backend": "cuda", "model": self.name, "device": self.name, "platform": "made up", "driver": "13000"}

    def build(self, text: str, options: Sequence[str] = ()) -> contract.Program:
        raise NotImplementedError

    def empty(self, nbytes: int) -> contract.Buffer:
        raise NotImplementedError

    def queue(self, profiling: bool = False) -> contract.Queue:
        raise NotImplementedError


RIGHT: dict[str, Any] = {"units": STEPS, "error": 1e-7, "tolerance": 1.0, "compared": "largest error"}


class Ncu:
    """A script `ncu` that logs its arguments, prints a text, and writes the answer that the watched process would write."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.says()
        script = folder / "ncu"
        script.write_text(
            f"#!{sys.executable} -IS\n"
            "import json, os, sys\nfrom pathlib import Path\n"
            "here, words = Path(__file__).parent, sys.argv[1:]\n"
            "if words == ['--version']:\n"
            "    print('NVIDIA (R) Nsight Compute\\nVersion 2025.3.1.0 (build 1) (public-release)')\n"
            "    sys.exit()\n"
            "with (here / 'calls').open('a') as calls:\n"
            "    print(json.dumps([os.environ['LC_ALL'], *words]), file=calls)\n"
            "if (here / 'told').exists():\n"
            "    Path(words[words.index('--out') + 1]).write_text((here / 'told').read_text())\n"
            "    (here / 'once').exists() and (here / 'told').unlink()\n"
            "print((here / 'said').read_text(), end='')\n"
            "print((here / 'complaint').read_text(), end='', file=sys.stderr)\n"
        )
        script.chmod(0o755)

    def says(self, output: str = SAMPLE, answer: Mapping[str, Any] | None = RIGHT, complaint: str = "") -> None:
        (self.folder / "said").write_text(output)
        (self.folder / "complaint").write_text(complaint)
        (self.folder / "told").unlink(missing_ok=True)
        if answer is not None:
            (self.folder / "told").write_text(json.dumps(answer))

    @property
    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def kept(results: Path, lab: str = "lbm") -> pd.DataFrame:
    return Store(results).rows(lab, role=PROFILE)
