"""Carry out one order of a campaign: `python -m roofbook.book.campaign_worker`, with the order on standard input.

Serves campaign.py, which gives the orders. The answer is the last line on standard output; lines before it tell of progress.
"""

import contextlib
import json
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..devices import checkout, find, provenance
from ..devices.nvml import card
from ..errors import UsageError, of_system
from ..measure import case_process, gpu_claim, precompile
from ..measure.background_group import end_with_parent
from ..measure.messages import messages_to_parent
from ..measure.placement import Setting
from ..measure.policy import Policy
from ..measure.row import row
from ..spec import registry
from ..store.identity import cell_key, env_key
from ..store.parquet import Store
from ..store.storage import storage_of

Answer = dict[str, Any]


def worker_facts(order: Mapping[str, Any]) -> Answer:
    """Return facts about this worker: device, environment, GPU and code. Raise UsageError if it does not see the store."""
    try:
        storage_of(order["root"]).read(order["token"])
    except FileNotFoundError:
        raise UsageError(f"it does not see the store {order['root']}: all hosts need one folder, or a bucket") from None
    if order["device"] == "auto" and gpu_claim.has_no_card():
        raise UsageError(gpu_claim.ALL_TAKEN)  # else this worker would measure on its CPU
    lab = registry.get(order["lab"])
    device = find.open_device(order["device"], lab.preferred_backend)
    gpu_claim.check_device(device)
    facts = card(device.pci_bus_id).facts() if device.kind == "gpu" else None
    return {
        "host": socket.gethostname(), "spec": device.spec, "slug": device.slug, "name": device.name, "kind": device.kind,
        "card": (facts or {}).get("uuid"), "env_key": env_key(provenance.environment(device)), "git": checkout.state(),
    }  # fmt: skip


def specs(order: Mapping[str, Any]) -> Answer:
    """Return one device of each kind that this worker has."""
    from .record_device import one_of_each_kind

    return {"specs": [device.spec for device in one_of_each_kind(find.devices())]}


def plan(order: Mapping[str, Any]) -> Answer:
    """Return the cells of a lab to be measured, and of the peaks for its page, each with its state in the store."""
    from ..analysis.campaign_time import cost_of
    from .experiment import Experiment

    experiment = Experiment(order["lab"], order["parameters"], parts=order["parts"])
    policy = experiment.policy
    if order["limit_s"]:
        policy = replace(policy, limit_s=order["limit_s"])
    stages = [(experiment.plan(), policy)]
    if order["peaks"] and experiment.lab.name != registry.PEAKS:
        stages.insert(0, (experiment.plan_of_peaks(), policy.warm()))
    answer_stages = []
    for cells, stage_policy in stages:
        chosen = [
            cell for cell in cells
            if (order["sweeps"] or cell.case in experiment.cases)
            and (order["host"] or cell.device.slug == experiment.device.slug)
        ]  # fmt: skip
        if not chosen:
            continue
        lab = chosen[0].lab.name
        counts = experiment.store.query('select "case", count(*) as n from cells where lab = ? group by 1', [lab])
        answer_stages.append({
            "lab": lab, "policy": vars(stage_policy), "known": dict(zip(counts["case"], map(int, counts["n"]), strict=True)),
            "seconds": cost_of(experiment.store, lab, experiment.device.slug, experiment.device.backend).seconds,
            "cells": [
                {"case": cell.case.name, "scale": cell.case.scale, "variant": cell.variant.name, "state": cell.state,
                 "runs": cell.runs, "key": cell_key({"cell": cell.cell_key, "environment": cell.env_key})}
                for cell in chosen
            ],
        })  # fmt: skip
    return {"title": experiment.lab.title, "device": experiment.device.name, "stages": answer_stages}


def compile_ahead(order: Mapping[str, Any]) -> Answer:
    """Compile the kernels of a lab for this host, on all of its cores."""
    lab, device = gpu_claim.open_lab(order["lab"], order["device"])
    cells = [(lab.case(case, scale), lab.variant(name)) for case, scale, name in order["cells"]]
    return {"compiled": precompile.prebuild(lab, cells, device, order["seed"], lambda stage: None)}


def measure(order: Mapping[str, Any]) -> Answer:
    """Measure a case: its variants in turns, with the A/A control and the libraries. Rows already in the store stay."""
    workers = case_process.Workers(order["lab"], order["device"], 1)
    workers.follow("start")  # the measuring process starts while the lab is prepared
    with workers:
        setting, store = _setting(order)
        if order["env_key"] != env_key(provenance.environment(setting.device)):
            raise UsageError("its driver or its libraries changed during the campaign")
        stored = _stored_rows(store, order)
        left = [
            setting.lab.variant(name)
            for name in order["variants"]
            if name not in {stored_row[1] for stored_row in stored}
        ]
        measured = [] if not left else case_process.measure_isolated(
            setting, left, run=order["run"], store=store, where=order["where"], resume=False, once=order["once"],
            workers=workers,
            progress=lambda variant, step: say(variant=f"{order['case']} {variant}", what=step),
        )  # fmt: skip
    return {"kept": [*stored, *measured]}


def fail(order: Mapping[str, Any]) -> Answer:
    """Store failed rows for the variants of a case that killed its workers."""
    setting, store = _setting(order)
    stored = {stored_row[1] for stored_row in _stored_rows(store, order)}
    left = [setting.lab.variant(name) for name in order["variants"] if name not in stored]
    rows = [
        row(setting, case_process.failed_measurement(setting, variant, order["reason"]), order["run"])
        for variant in left
    ]
    if rows:
        store.append(rows, order["where"], f"{order['once']}.failed")
    names = ("case", "variant", "role", "status", "run")
    return {"kept": [[failed_row[name] for name in names] for failed_row in rows]}


def tables(order: Mapping[str, Any]) -> Answer:
    """Return the tables of a lab as text: the ladder of each case, or the peaks."""
    from .experiment import Experiment

    experiment = Experiment(order["lab"], order["parameters"], parts=order["parts"])
    return {"texts": [table.text for table in experiment.tables()]}


def _setting(order: Mapping[str, Any]) -> tuple[Setting, Store]:
    lab, device = gpu_claim.open_lab(order["lab"], order["device"])
    setting = Setting(lab, lab.case(order["case"], order["scale"]), device, Policy(**order["policy"]))
    return setting, Store(order["root"])


def _stored_rows(store: Store, order: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows in the store of this case and run: a worker may have died after storing them, before it answered."""
    rows = store.rows(order["lab"], case=order["case"], run=order["run"])
    names = ("case", "variant", "role", "status", "run")
    return [[str(getattr(stored_row, name)) for name in names] for stored_row in rows.itertuples()]


ORDERS = {function.__name__: function for function in (worker_facts, specs, plan, compile_ahead, measure, fail, tables)}


say: Callable[..., None]
"""Function that sends a message to the process that started this one."""

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that runs the campaign
    end_with_parent()
    say = messages_to_parent()
    order = json.loads(sys.stdin.readline())
    with contextlib.suppress(BrokenPipeError):
        try:
            answer = ORDERS[order["do"]](order)
        except Exception as error:
            is_usage = isinstance(error, UsageError | OSError)
            description = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            message = of_system(error) if isinstance(error, OSError) else str(error) if is_usage else description
            answer = {"error": message, "usage": is_usage, "host": socket.gethostname()}
        say(**answer)
