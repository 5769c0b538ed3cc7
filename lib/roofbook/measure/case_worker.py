"""The process that measures one case: `python -m roofbook.measure.case_worker LAB DEVICE`. case_process.py starts it."""

import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import memory
from ..devices.find import open_device
from ..errors import UsageError, of_system
from ..peers import threads
from ..store.files import StorePart
from ..store.parquet import Store
from . import case_run, verify
from .background_group import end_with_parent
from .gpu_claim import check_device, open_lab
from .messages import messages_to_parent
from .placement import Setting
from .policy import Policy
from .worker_process import GRACE_S, POISONED


class StoreWithoutPandas(Store):
    """Store that writes rows without pandas: pyarrow would import it, which takes longer than sampling many a case."""

    def append(self, rows: Sequence[Mapping[str, Any]], part: StorePart = "local", once: str = "") -> list[Path]:
        sys.meta_path.insert(0, self)
        try:
            return super().append(rows, part, once)
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, *_: Any) -> None:
        """Refuse the import of pandas, as a finder of sys.meta_path."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main(lab_name: str, spec: str) -> int:
    """Prepare a lab and its device, measure the order on standard input, and report on standard output. Return an exit code."""
    memory.keep_freed()
    memory.collect_seldom()
    threads.bind()
    end_with_parent()  # while there is nothing to save
    tell = messages_to_parent()

    def work() -> None:
        lab, device = open_lab(lab_name, spec)
        importlib.import_module("pyarrow.parquet")  # storing rows needs it
        line = sys.stdin.readline()
        if not line:
            return
        order = json.loads(line)
        if not order.get("once"):
            end_with_parent(False)
        threading.Thread(target=end_when_input_closes, daemon=True).start()
        case = lab.case(order["case"], order["scale"])
        opened = [device if name == device.spec else open_device(name) for name in order["devices"]]
        for used in opened:
            check_device(used)
        at = Setting(lab, case, opened[0], Policy(**order["policy"]))
        stored = case_run.measure_and_store(
            at, [lab.variant(name) for name in order["variants"]], run=order["run"], store=StoreWithoutPandas(order["root"]),
            where=order["where"], resume=order["resume"], once=order.get("once", ""), further_devices=opened[1:],
            progress=lambda variant, stage: tell(variant=variant, what=stage),
            report_stored=lambda stored_rows: tell(kept=[list(stored_row) for stored_row in stored_rows]),
        )  # fmt: skip
        tell(closed=len(stored))

    return exit_code(work, tell)


def exit_code(work: Callable[[], None], tell: Callable[..., None]) -> int:
    """Do the work of a process that measures. Return its exit code. tell: reports an error to the parent."""
    try:
        work()
    except KeyboardInterrupt:
        return 130
    except verify.DeviceLost:
        return POISONED
    except OSError as error:
        tell(error=of_system(error), usage=True)
    except Exception as error:
        usage = isinstance(error, UsageError)
        tell(error=str(error) if usage else verify.describe_error(error), usage=usage)
    return 0


def run_as_program(main: Callable[..., int]) -> None:
    """Call the main function of a process that measures with the arguments of its command, and end the process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # the parent need not wait for the clean-up of Python and a driver


def end_when_input_closes(take_line: Callable[[str], object] = lambda line: None) -> None:
    """Interrupt this process when its parent dies, which closes standard input, so that samples are saved.

    Kill it if a kernel that does not end keeps Python from that. take_line: called with each further order.
    """
    for line in sys.stdin:
        take_line(line)
    end = time.monotonic() + GRACE_S
    while (left := end - time.monotonic()) > 0:
        os.kill(os.getpid(), signal.SIGINT)  # again if it was dropped, as by a destructor
        time.sleep(min(left, GRACE_S / 2, 5.0))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    run_as_program(main)
