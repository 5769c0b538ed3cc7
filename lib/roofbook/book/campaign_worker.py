"""Carry out one order of a campaign: `python -m roofbook.book.campaign_worker`, with the order on standard input.

Serves campaign.py, which gives the orders. The answer is the last line on standard output; lines before it tell of progress.
"""

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..devices import checkout, find, provenance
from ..devices.nvml import card
from ..errors import UsageError, of_system
from ..measure import case_process, gpu_claim, precompile
from ..measure.background_group import end_with_parent
from ..measure.placement import Setting
from ..measure.policy import Policy
from ..measure.row import row
from ..spec import registry
from ..store.identity import cell_key, env_key
from ..store.parquet import Store
from ..store.storage import storage_of

Answer = dict[str, Any]


def who(order: Mapping[str, Any]) -> Answer:
    """What this worker measures: the device, its environment and card, the code; and whether it sees the store."""
    try:
        storage_of(order["root"]).read(order["token"])
    except FileNotFoundError:
        raise UsageError(f"it does not see the store {order['root']}: all hosts need one folder, or a bucket") from None
    if order["device"] == "auto" and gpu_claim.has_no_card():
        raise UsageError(gpu_claim.ALL_TAKEN)  # or it would take the CPU for what all are to measure
    lab = registry.get(order["lab"])
    device = find.open_device(order["device"], lab.preferred_backend)
    gpu_claim.check_device(device)
    facts = card(device.pci_bus_id).facts() if device.kind == "gpu" else None
    return {
        "host": socket.gethostname(), "spec": device.spec, "slug": device.slug, "name": device.name, "kind": device.kind,
        "card": (facts or {}).get("uuid"), "env_key": env_key(provenance.environment(device)), "git": checkout.state(),
    }  # fmt: skip


def specs(order: Mapping[str, Any]) -> Answer:
    """One device of each kind that this worker has."""
    from .record_device import one_of_each_kind

    return {"specs": [device.spec for device in one_of_each_kind(find.devices())]}


def plan(order: Mapping[str, Any]) -> Answer:
    """What of a lab and, for its page, of the peaks is to be measured, each with its state in the store."""
    from ..analysis.campaign_time import cost_of
    from .experiment import Experiment

    experiment = Experiment(order["lab"], order["parameters"], parts=order["parts"])
    policy = experiment.policy
    if order["limit_s"]:
        policy = replace(policy, limit_s=order["limit_s"])
    stages = [(experiment.plan(), policy)]
    if order["peaks"] and experiment.lab.name != registry.PEAKS:
        stages.insert(0, (experiment.plan_of_peaks(), policy.warm()))
    shown = []
    for cells, its_policy in stages:
        kept = [
            cell for cell in cells
            if (order["sweeps"] or cell.case in experiment.cases)
            and (order["host"] or cell.device.slug == experiment.device.slug)
        ]  # fmt: skip
        if not kept:
            continue
        lab = kept[0].lab.name
        counted = experiment.store.query('select "case", count(*) as n from cells where lab = ? group by 1', [lab])
        shown.append({
            "lab": lab, "policy": vars(its_policy), "known": dict(zip(counted["case"], map(int, counted["n"]), strict=True)),
            "seconds": cost_of(experiment.store, lab, experiment.device.slug, experiment.device.backend).seconds,
            "cells": [
                {"case": cell.case.name, "scale": cell.case.scale, "variant": cell.variant.name, "state": cell.state,
                 "runs": cell.runs, "key": cell_key({"cell": cell.cell_key, "environment": cell.env_key})}
                for cell in kept
            ],
        })  # fmt: skip
    return {"title": experiment.lab.title, "device": experiment.device.name, "stages": shown}


def compile_ahead(order: Mapping[str, Any]) -> Answer:
    """Have the kernels of a lab compiled for this host, on all of its cores."""
    lab = registry.get(order["lab"])
    lab.prepare()
    device = find.open_device(order["device"], lab.preferred_backend)
    cells = [(lab.case(case, scale), lab.variant(name)) for case, scale, name in order["cells"]]
    return {"compiled": precompile.prebuild(lab, cells, device, order["seed"], lambda what: None)}


def measure(order: Mapping[str, Any]) -> Answer:
    """Measure a case: its variants in turns, with the A/A control and the libraries. What is in the store of it stays."""
    workers = case_process.Workers(order["lab"], order["device"], 1)
    workers.follow("start")  # the process that measures gets ready meanwhile
    with workers:
        at, store = _setting(order)
        if order["env_key"] != env_key(provenance.environment(at.device)):
            raise UsageError("its driver or its libraries changed during the sweep")
        there = _kept(store, order)
        left = [at.lab.variant(name) for name in order["variants"] if name not in {each[1] for each in there}]
        kept = [] if not left else case_process.measure_isolated(
            at, left, run=order["run"], store=store, where=order["where"], resume=False, once=order["once"], workers=workers,
            progress=lambda variant, what: say(variant=f"{order['case']} {variant}", what=what),
        )  # fmt: skip
    return {"kept": [*there, *kept]}


def fail(order: Mapping[str, Any]) -> Answer:
    """Failed rows for the variants of a case that nobody may measure again."""
    at, store = _setting(order)
    there = {each[1] for each in _kept(store, order)}
    left = [at.lab.variant(name) for name in order["variants"] if name not in there]
    rows = [row(at, case_process.failed(at, variant, order["reason"]), order["run"]) for variant in left]
    if rows:
        store.append(rows, order["where"], f"{order['once']}.failed")
    return {"kept": [[each["case"], each["variant"], each["role"], each["status"], each["run"]] for each in rows]}


def tables(order: Mapping[str, Any]) -> Answer:
    """The tables of a lab as text: the ladder of each case, or the peaks."""
    from .experiment import Experiment

    experiment = Experiment(order["lab"], order["parameters"], parts=order["parts"])
    return {"texts": [each.text for each in experiment.tables()]}


def _setting(order: Mapping[str, Any]) -> tuple[Setting, Store]:
    lab = registry.get(order["lab"])
    lab.prepare()
    device = find.open_device(order["device"], lab.preferred_backend)
    gpu_claim.check_device(device)
    at = Setting(lab, lab.case(order["case"], order["scale"]), device, Policy(**order["policy"]))
    return at, Store(order["root"])


def _kept(store: Store, order: Mapping[str, Any]) -> list[list[str]]:
    """What the store has of this case in this run: of a worker that died when it had kept its rows, and could not say so."""
    rows = store.rows(order["lab"], case=order["case"], run=order["run"])
    names = ("case", "variant", "role", "status", "run")
    return [[str(getattr(each, name)) for name in names] for each in rows.itertuples()]


ORDERS = {each.__name__: each for each in (who, specs, plan, compile_ahead, measure, fail, tables)}


def say(**message: Any) -> None:
    """A line for whoever started this process."""
    print(json.dumps(message), file=_told, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever sweeps
    end_with_parent()
    _told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a driver prints is no message
    given = json.loads(sys.stdin.readline())
    with contextlib.suppress(BrokenPipeError):
        try:
            answer = ORDERS[given["do"]](given)
        except Exception as error:
            usage = isinstance(error, UsageError | OSError)
            named = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
            said = of_system(error) if isinstance(error, OSError) else str(error) if usage else named
            answer = {"error": said, "usage": usage, "host": socket.gethostname()}
        say(**answer)
