"""The process that measures points of a search space: `python -m roofbook.measure.point_worker LAB DEVICE`.

space_search.py starts it. Its first order names the case; each further one is a point, and its answer the point's stored row.
"""

import importlib
import json
import queue
import sys
import threading

from .. import memory
from ..errors import UserFacingError
from ..peers import threads
from . import verify
from .case_run import measure_alone
from .case_worker import StoreWithoutPandas, end_when_input_closes, exit_code, run_as_program
from .gpu_claim import open_lab
from .measurement import Measurement
from .messages import messages_to_parent
from .placement import Setting
from .policy import Policy
from .row import row


def main(lab_name: str, spec: str) -> int:
    """Measure the points on standard input, and report on standard output. Return an exit code."""
    memory.keep_freed()
    memory.collect_seldom()
    threads.bind()
    tell = messages_to_parent()
    orders: queue.Queue[str] = queue.Queue()

    def work() -> None:
        lab, device = open_lab(lab_name, spec)
        importlib.import_module("pyarrow.parquet")  # storing rows needs it
        if not (line := sys.stdin.readline()):
            return
        order = json.loads(line)
        threading.Thread(target=end_when_input_closes, args=(orders.put,), daemon=True).start()
        setting = Setting(lab, lab.case(order["case"], order["scale"]), device, Policy(**order["policy"]))
        step, store = lab.variant(order["step"]), StoreWithoutPandas(order["root"])
        tell(variant="", what="check, with its reference")
        references = verify.References(setting)
        tell(ready=True)
        while True:
            variant = lab.turned(step, json.loads(orders.get()))
            try:
                new_row = measure_alone(
                    setting, variant, references, run=order["run"],
                    progress=lambda name, stage: tell(variant=name, what=stage),
                )  # fmt: skip
            except UserFacingError as error:  # the plan of this point refuses it
                new_row = row(
                    setting, Measurement(variant, variant.role, device, device.backend, reason=str(error)), order["run"]
                )
            store.append([new_row])
            tell(
                stored=variant.name,
                seconds=[*new_row["samples_s"], 0.0][0] / new_row["units"],
                reason=new_row["reason"] or "",
            )

    return exit_code(work, tell)


if __name__ == "__main__":
    run_as_program(main)
