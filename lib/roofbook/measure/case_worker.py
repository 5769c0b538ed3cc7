"""The process that measures one case: `python -m roofbook.measure.case_worker LAB DEVICE`. case_process.py starts it."""

import importlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import memory
from ..devices.find import open_device
from ..errors import UsageError, of_system
from ..peers import threads
from ..spec import registry
from ..store.files import StorePart
from ..store.parquet import Store
from . import case_run, gpu_claim, verify
from .background_group import end_with_parent
from .placement import Setting
from .policy import Policy

GRACE_S = 10.0
"""Seconds that a process has to put its samples aside after Ctrl-C."""
POISONED = 70
"""Exit code of a process whose device answers no more."""


class _WithoutPandas(Store):
    """A store whose rows are written without pandas. pyarrow imports it if it can: longer than many a case is sampled."""

    def append(self, rows: Sequence[Mapping[str, Any]], part: StorePart = "local", once: str = "") -> list[Path]:
        sys.meta_path.insert(0, self)
        try:
            return super().append(rows, part, once)
        finally:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, *_: Any) -> None:
        """As Python asks for a module that it is to import."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


def main(lab_name: str, spec: str) -> int:
    """Get ready for a lab on a device, measure what the line on standard input says, and tell of it on standard output."""
    memory.keep_freed()
    memory.collect_seldom()
    threads.bind()
    end_with_parent()  # as long as there is nothing to keep
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a driver prints is no message
    lock, own = threading.Lock(), os.getpid()

    def tell(**message: Any) -> None:
        if os.getpid() != own:  # a fork of a plan's that came back from it: it must not measure as well
            os._exit(0)
        with lock:
            print(json.dumps(message), file=told)

    try:
        lab = registry.get(lab_name)
        lab.prepare()
        device = open_device(spec, lab.preferred_backend)
        gpu_claim.check_device(device)
        importlib.import_module("pyarrow.parquet")  # rows that are kept need it
        line = sys.stdin.readline()
        if not line:
            return 0
        order = json.loads(line)
        if not order.get("once"):
            end_with_parent(False)
        threading.Thread(target=_end_with_the_other, daemon=True).start()
        case = lab.case(order["case"], order["scale"])
        at = Setting(lab, case, device, Policy(**order["policy"]))
        kept = case_run.measure_and_store(
            at, [lab.variant(name) for name in order["variants"]], run=order["run"], store=_WithoutPandas(order["root"]),
            where=order["where"], resume=order["resume"], once=order.get("once", ""),
            progress=lambda variant, what: tell(variant=variant, what=what),
            report_stored=lambda rows: tell(kept=[list(stored_row) for stored_row in rows]),
        )  # fmt: skip
        tell(closed=len(kept))
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


def _end_with_the_other() -> None:
    """Standard input ends where whoever reads the messages has died: as by Ctrl-C, samples are put aside.

    A kernel that does not end keeps Python from that.
    """
    sys.stdin.read()
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(code)  # whoever waits need not wait for Python and a driver to tidy up
