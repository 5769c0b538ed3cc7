"""The answer of a lab's page: the peer that a kernel is compared with, and the steps that gained most."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.answers import IN_FULL, MATTERED, LabAnswer, Rival, answer, main_steps
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.conclusions import peer_comparison
from roofbook.analysis.readings import SHARED_MACHINES
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.report.answer_box import answer as answer_box
from roofbook.spec import registry
from roofbook.spec.plan import CHANNELS_LAST, LAID_OUT

from ..report.rows import frame, row

HOST = {"device": "some-cpu", "device_name": "Some CPU", "device_kind": "cpu"}


def answered(lab: str, *rows: dict[str, Any]) -> LabAnswer:
    lab_answer = answer(registry.get(lab), CaseData(frame(*rows), [fields["variant"] for fields in rows], "256x256"))
    assert lab_answer
    return lab_answer


def box(data: CaseData, lab_answer: LabAnswer) -> str:
    return answer_box(data, lab_answer).html


def test_nothing_is_answered_where_no_step_has_a_time() -> None:
    rows = (row("fused", 1e-4, status="failed", reason="wrong"), row("lbmpy", 1e-4, role="peer"))
    assert answer(registry.get("lbm"), CaseData(frame(*rows), ["fused", "lbmpy"], "256x256")) is None


def test_steps_that_were_not_tried_are_told_and_failed_ones_or_those_of_other_devices_are_not() -> None:
    lab = registry.get("lbm")
    steps = [step.name for step in lab.ladder if step.role == "step" and step.name not in lab.headline]
    rows = [row(name, 1e-4) for name in steps[2:]] + [row(steps[1], 1e-4, status="failed", reason="wrong")]
    data = CaseData(frame(*rows), steps, "256x256")
    lab_answer = answer(lab, data)
    assert lab_answer and lab_answer.lacking == steps[:1] and lab_answer.steps == steps
    assert f"<dt>Not measured here</dt><dd>1 of {len(steps)} steps: <code>{steps[0]}</code>. It may" in box(
        data, lab_answer
    )
    without = replace(data, skip_reasons={steps[0]: "not on this device"})
    lab_answer = answer(lab, without)
    assert lab_answer and not lab_answer.lacking and len(lab_answer.steps) == len(steps) - 1
    assert "Not measured here" not in box(without, lab_answer)
    few = CaseData(frame(rows[0]), steps, "256x256")
    lab_answer = answer(lab, few)
    assert lab_answer and f"<code>{steps[-1]}</code> and {len(steps) - 7} more. One of them may" in box(few, lab_answer)


def test_a_tie_is_told_with_the_fastest() -> None:
    steps = ["fused", "in-place", "flat-grid", "hoisted", "soa", "tree"]
    times = dict(zip(steps, (1.001e-4, 1e-4, 1.002e-4, 1.003e-4, 1.004e-4, 2e-4), strict=True))
    for names in (["in-place", "tree"], ["fused", "in-place", "tree"], steps):
        data = CaseData(frame(*(row(name, times[name]) for name in names)), names, "256x256")
        lab_answer = answer(registry.get("lbm"), data)
        assert lab_answer and {lab_answer.fastest.reading.variant, *lab_answer.level} == {*names} - {"tree"}
        note = {
            2: "",
            3: "The difference to <code>{}</code> is within the noise.",
            6: "The differences to <code>{}</code>, <code>{}</code>, <code>{}</code> and 1 more are within the noise.",
        }[len(names)].format(*lab_answer.level)
        assert note in box(data, lab_answer) and ("the noise." in box(data, lab_answer)) == bool(note)


def test_a_kernel_is_compared_with_the_fastest_peer_of_its_own_conditions() -> None:
    lab_answer = answered(
        "lbm",
        row("in-place", 2e-5),
        row("lbmpy", 3e-5, role="peer"),
        row("lbmpy-bare", 1e-5, role="peer"),
        row("openmp", 5e-6, role="peer", **HOST),
    )
    peer, quicker = lab_answer.fastest.peer, lab_answer.fastest.faster_peer
    assert peer and quicker and peer.alike and peer.reading.variant == "lbmpy"
    assert peer.ratio and peer.ratio.estimate == pytest.approx(1.5, rel=0.01)
    assert quicker.reading.variant == "lbmpy-bare", "a program of the host is no peer of a GPU, however fast it is"
    assert lab_answer.plain is None, "the fastest has no conditions itself"


def test_a_program_of_the_host_alone_is_no_peer_of_a_gpu() -> None:
    lab_answer = answered("lbm", row("in-place", 2e-5), row("openmp", 5e-6, role="peer", **HOST))
    assert lab_answer.fastest.peer is None and lab_answer.fastest.faster_peer is None


def test_a_peer_of_the_same_device_counts_whichever_backend_calls_it() -> None:
    rows = [row("in-place", 2e-5, backend="opencl"), row("lbmpy", 3e-5, role="peer", backend="cuda")]
    rows.append(row("openmp", 5e-6, role="peer", **HOST, backend="host"))
    lab_answer = answered("lbm", *rows)
    assert lab_answer.fastest.peer and lab_answer.fastest.peer.called_by == "CUDA" and lab_answer.fastest.peer.alike
    data = CaseData(frame(*rows), [fields["variant"] for fields in rows], "256x256")
    assert "as <code>lbmpy</code> (called by CUDA)" in box(data, lab_answer)


@pytest.mark.parametrize(
    ("extra", "free"),
    [({"threads": 16}, True), ({"threads": 16, "threads_bound": True}, False), ({"threads": 1}, False)],
)
def test_a_peer_whose_threads_were_free_on_a_cpu_is_said_to_be_one(extra: dict[str, Any], free: bool) -> None:
    rows = (row("in-place", 2e-5, **HOST), row("openmp", 3e-5, role="peer", extra=json.dumps(extra), **HOST))
    data = CaseData(frame(*rows), ["in-place", "openmp"], "256x256")
    lab_answer = answer(registry.get("lbm"), data)
    assert lab_answer and ("The peer's threads were not bound to processors" in box(data, lab_answer)) == free


@pytest.mark.parametrize(("quick", "note"), [(9, "would make it 1.00."), (0, "")])
def test_a_ratio_that_the_two_times_beside_it_do_not_make_says_why(quick: int, note: str) -> None:
    """Nine of the kernel's 20 samples take half as long: its median does not show them, its pairs do."""
    heaps = [100 * 2e-5 * (0.5 if at < quick else 1.0) for at in range(20)]
    peer = [100 * 2e-5 * (0.99 if at < 9 else 1.0 if at < 12 else 1.3) for at in range(20)]
    lab = registry.get("lbm")
    base = lab.headline[0]
    kernel, rival = row("in-place", 2e-5, samples_s=heaps), row("lbmpy", 2e-5, role="peer", samples_s=peer)
    slower = row(base, 2e-5, samples_s=[1.01 * seconds for seconds in peer])
    data = CaseData(frame(kernel, rival, slower), ["in-place", "lbmpy", base], "256x256")
    lab_answer = answer(lab, data)
    assert (
        lab_answer
        and lab_answer.fastest.peer
        and lab_answer.base
        and lab_answer.base.ratio
        and lab_answer.base.reading.variant == base
    )
    assert lab_answer.fastest.peer.medians_disagree(lab_answer.fastest.reading) == bool(note)
    assert note in box(data, lab_answer)
    assert box(data, lab_answer).count("The ratio pairs samples of the same round") == 2 * bool(note), (
        "of the peer and of the base"
    )

    apart = replace(lab_answer.base, ratio=replace(lab_answer.base.ratio, runs=0))
    assert not apart.medians_disagree(lab_answer.fastest.reading), "a ratio across runs is that of the times"
    assert apart.ratio
    on_both = replace(apart, ratio=replace(apart.ratio, how=f"across runs, {SHARED_MACHINES}"))
    assert on_both.medians_disagree(lab_answer.fastest.reading) == bool(note)
    with_both = replace(lab_answer, base=on_both, fastest=replace(lab_answer.fastest, peer=None))
    assert ("is of the machines that both ran on" in box(data, with_both)) == bool(note)


def test_beside_the_fastest_without_conditions_stands_a_faster_peer_that_is_as_exact_and_does_more() -> None:
    lab_answer = answered(
        "lenet", row("whole-fused", 1e-5, dtype="float16"), row("split", 2e-5, dtype="float16"),
        row("torch-fp32", 2e-4, role="peer"), row("torch-folded-fp32", 1e-4, role="peer"),
        row("torch-folded", 3e-5, role="peer", dtype="float16"),
    )  # fmt: skip
    assert lab_answer.plain and lab_answer.plain.reading.variant == "split"
    peer, exact = lab_answer.plain.peer, lab_answer.plain.as_exact
    assert peer and peer.alike and peer.reading.variant == "torch-fp32"
    assert exact and exact.reading.variant == "torch-folded-fp32"
    assert (exact.only_kernel, exact.only_rival) == ([], ["does ReLU and pooling as well"])
    assert exact.ratio and exact.ratio.estimate == pytest.approx(5, rel=0.01)


def test_where_no_peer_is_alike_the_one_that_differs_least_stands_beside_it_and_says_in_what() -> None:
    lab_answer = answered(
        "lbm", row("half-storage", 1e-5), row("in-place", 2e-5), row("lbmpy", 3e-5, role="peer"),
        row("lbmpy-bare", 2e-5, role="peer"), row("given-c", 1e-2, role="peer", **HOST),
    )  # fmt: skip
    peer = lab_answer.fastest.peer
    assert peer and peer.reading.variant == "lbmpy"
    assert (peer.only_rival, peer.only_kernel) == ([], ["stores populations in fp16"])
    assert lab_answer.fastest.faster_peer and lab_answer.fastest.faster_peer.reading.variant == "lbmpy-bare"
    assert lab_answer.plain and lab_answer.plain.reading.variant == "in-place"
    assert lab_answer.plain.peer and lab_answer.plain.peer.alike


def test_without_peers_and_bases_there_are_none() -> None:
    lab_answer = answered("lbm", row("in-place", 2e-5))
    assert (
        lab_answer.fastest.peer is lab_answer.fastest.faster_peer is lab_answer.base is None and not lab_answer.mattered
    )


def test_a_precision_is_a_condition_where_results_lose_by_it() -> None:
    lab = registry.get("cnn")
    conditions = {
        name: lab.conditions(lab.variant(name)) for name in ("tensor-fp16", "tensor-bf16", "tensor-split", "torch-tf32")
    }
    assert conditions["tensor-fp16"] == ("rounds operands to fp16",) and conditions["tensor-bf16"] == (
        "rounds operands to bf16",
    )
    assert conditions["tensor-split"] == (), "three products give the error of fp32"
    assert "rounds operands to TF32" in conditions["torch-tf32"]
    exact = registry.get("convpool")
    assert {exact.conditions(exact.variant(name)) for name in ("strips", "tiles", "tensor-int8", "torch-fp32")} == {()}


def test_what_a_library_leaves_is_a_condition_too() -> None:
    lenet = registry.get("lenet")
    for name in ("cnn", "convpool", "lenet"):
        lab = registry.get(name)
        conditions = {peer: lab.conditions(lab.variant(peer)) for peer in ("torch-fp32", "torch-tf32", "torch-fp16")}
        assert conditions["torch-fp32"] == ()
        assert {LAID_OUT, CHANNELS_LAST} <= {*conditions["torch-tf32"]} and {*conditions["torch-tf32"]} < {
            *conditions["torch-fp16"]
        } | {"rounds operands to TF32"}
        assert (
            "rounds results to fp16" in conditions["torch-fp16"]
            and "rounds results to fp16" not in conditions["torch-tf32"]
        )
    assert "rounds results to fp16" not in lenet.conditions(lenet.variant("torch-whole")), "scores are fp32"


def sentence(ratio: str, *differences: dict[str, Any]) -> str:
    """Return the sentence that compares `step` with peers, each with these fields of its Rival."""
    peers = [SimpleNamespace(variant=f"peer {number}") for number in range(len(differences))]
    measured = SimpleNamespace(
        fastest=lambda case: "step",
        rivals=lambda case: [
            Rival(cast(Any, peer), None, **fields) for peer, fields in zip(peers, differences, strict=True)
        ],
        ratio_text=lambda step, peer, case: ratio,
    )
    return peer_comparison(cast(Any, measured), "case")


def test_a_headline_says_in_what_two_are_alike_or_in_what_they_differ() -> None:
    twice, shared = "2.00 times as fast as", ("rounds operands to fp16", LAID_OUT)
    assert sentence(twice) == ""
    assert sentence(twice, {}) == "Under equal conditions `step` is 2.00 times as fast as the best peer, `peer 0`"
    assert sentence(twice, {"shared": shared}).endswith(
        f" as the best peer, `peer 0`, which also rounds operands to fp16 and {LAID_OUT}"
    )
    unlike = {"shared": shared, "only_rival": (CHANNELS_LAST,), "only_kernel": ("pools", "adds", "ends")}
    words = "which leaves results channels-last, while `step` pools, adds and ends"
    assert sentence(twice, unlike) == f"`step` is {twice} the nearest peer, `peer 0`, {words}"
    assert sentence(twice, {"only_kernel": ("pools",)}).endswith(" the nearest peer, `peer 0`, while `step` pools")
    assert sentence(twice, {}, unlike).endswith(
        f" as the best peer, `peer 0`. `step` is {twice} the fastest peer, `peer 1`, {words}"
    )
    assert sentence(f"{NOT_MEASURED} against", {}, {}) == ""


def test_what_is_multiplied_comes_before_how_results_lie() -> None:
    lab = registry.get("lenet")
    rows = [row("tensor", 1e-5), row("torch-fp32", 2e-4, role="peer"), row("torch-fp16", 1e-4, role="peer")]
    lab_answer = answered("lenet", *rows)
    assert lab_answer.fastest.peer and lab_answer.fastest.peer.reading.variant == "torch-fp16", (
        "that is nearer than another precision"
    )
    assert len(lab_answer.fastest.peer.only_rival) > len(lab.conditions(lab.variant("tensor")))
    assert lab_answer.fastest.faster_peer is None


def test_the_steps_that_mattered_are_those_on_the_way_with_the_largest_gains_on_one_device() -> None:
    lab_answer = answered(
        "lbm",
        row("sequential", 1.0, **HOST),
        row("partly-ported", 1e-1, "sequential"),
        row("ported", 8e-2, "partly-ported"),
        row("no-finish", 2e-2, "ported"),
        row("fused", 1e-2, "no-finish"),
        row("soa", 1e-2 * 0.999, "fused"),
        row("one-buffer", 1e-4, "soa", status="failed", reason="wrong"),
        row("select", 1e-2 / 3, "kept-partials"),
    )
    assert lab_answer.fastest.reading.variant == "select"
    assert [(gain.step, gain.over) for gain in lab_answer.mattered] == [("no-finish", "ported"), ("select", "soa")]
    assert len(lab_answer.mattered) == MATTERED
    assert lab_answer.mattered[0].ratio.estimate == pytest.approx(4, rel=0.01)
    assert lab_answer.base and lab_answer.base.reading.variant == "sequential"
    assert lab_answer.base_is == registry.get("lbm").variant("sequential").description


@pytest.mark.parametrize("lab", registry.names())
def test_conditions_are_words_that_follow_a_name(lab: str) -> None:
    lab_ = registry.get(lab)
    conditions = {words for variant in lab_.all_variants() for words in lab_.conditions(variant)}
    assert all(words.split()[0].endswith("s") and not words.endswith(".") for words in conditions)
    assert not lab_.conditions(lab_.ladder[0]), "the first step is a plain one"


def test_a_story_shows_the_fastest_step_and_the_largest_gains_on_the_way_to_it_in_full() -> None:
    lab = registry.get("lbm")
    names = [
        "ported",
        "no-finish",
        "fused",
        "soa",
        "device-struct",
        "no-count",
        "tree",
        "kept-partials",
        "select",
        "accelerate-fused",
    ]
    gains = dict(zip(names, (1, 2, 1.0, 3, 1.5, 0.5, 4, 1.2, 1.3, 1.4), strict=True))
    seconds, times = 1.0, dict[str, float]()
    for name, gain in gains.items():
        times[name] = seconds = seconds / gain
    rows = [row(name, time, lab.variant(name).parent) for name, time in times.items()]
    beside = row("chunks-1792", times["kept-partials"] / 1.01, "kept-partials")
    chosen = main_steps(lab, CaseData(frame(*rows, beside), [*gains, "chunks-1792"], "256x256"))
    assert chosen == ["accelerate-fused", "tree", "soa", "no-finish", "device-struct"]
    assert len(chosen) == IN_FULL and "chunks-1792" not in chosen, "it gains, and leads nowhere"
    assert main_steps(lab, CaseData(frame(row("fused", 1e-4, status="failed", reason="x")), ["fused"], "256x256")) == []
