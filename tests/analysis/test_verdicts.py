"""Published claims: each has its evidence, is judged by the rows of a store, which are made up here, and is shown in tables and
pages. test_verdict_rule.py has the rule.
"""

import json
import os
import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tests.often import often

from roofbook import cli, report
from roofbook.analysis import evidence, verdicts
from roofbook.analysis.publication import publication
from roofbook.analysis.readings import faster, newest
from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import of_host
from roofbook.book import fragments, kernels_page, lesson_page, techniques_page
from roofbook.book.experiment import PARAMETERS
from roofbook.measure import stats
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.store import published_results
from roofbook.store.parquet import Store

RESULTS = Path(__file__).parents[2] / "results"
LABS = published_results.labs_with_claims(RESULTS)


# -- the evidence of the labs ------------------------------------------------------------------------------------------

PIECES = [
    pytest.param(registry.get(lab), name, piece, id=f"{lab}: {name} {at}")
    for lab in LABS
    for name, pieces in publication(registry.get(lab)).evidence.items()
    for at, piece in enumerate(pieces)
]


@pytest.mark.parametrize("lab", LABS)
def test_every_claim_has_its_evidence_and_no_evidence_is_without_a_claim(lab: str) -> None:
    statements = published_results.claims(lab, RESULTS)
    evidence_ = publication(registry.get(lab)).evidence
    assert list(evidence_) == statements["id"].tolist()
    for claim in statements.to_dict("records"):
        pieces, effects = evidence_[claim["id"]], claim["effects"]
        untold = isinstance(pieces[0], evidence.NotTestable)
        assert len(effects) in (0, 1, len(pieces)) or untold, f"{claim['id']}: which number is of which evidence?"
        assert len(pieces) == 1 or not untold
        assert not effects or any(piece.numbered for piece in pieces), "a number is of something"
        for piece in (candidate for candidate in pieces if candidate.numbered):
            stated = any(word in claim["published_effect"] for word in ("of the time", "of peak"))
            assert untold or (piece.unit == "%") == stated or not effects, claim["id"]


def test_a_lab_without_a_report_has_no_evidence() -> None:
    from roofbook.labs.peaks import LAB as peaks

    assert publication(peaks).evidence == {}


@pytest.mark.parametrize(("lab", "name", "piece"), PIECES)
def test_the_cells_behind_a_claim_are_of_the_lab(lab: Lab, name: str, piece: evidence.Evidence) -> None:
    if isinstance(piece, evidence.NotTestable):
        assert len(piece.reason) > 10
        return
    case = lab.case(piece.case, verdicts.SCALE)
    assert case.name in [listed.name for listed in lab.cases(verdicts.SCALE)]
    assert piece.variants(lab), "something is compared"
    for variant in piece.variants(lab):
        assert lab.skip_reason(lab.variant(variant), case) in (None, *_machine_excuses(lab, variant))
    if isinstance(piece, evidence.Best):
        points = evidence.points(lab, piece.axis)
        assert len(points) > 1
        assert set(piece.best) | set(piece.other_points) <= set(points) and not set(piece.best) & set(
            piece.other_points
        )
    plain = isinstance(piece, evidence.Pair) and isinstance(piece.slower, str)
    assert plain or piece.compared, "what is compared is said, unless the variants' names say it"


def _machine_excuses(lab: Lab, variant: str) -> tuple[str, ...]:
    """Return the reasons why a peer may lack here, which say nothing of the claim."""
    from roofbook.peers import pytorch

    return (pytorch.missing() or "",) if lab.variant(variant).role == "peer" else ()


def _parts(piece: evidence.Evidence) -> dict[str, set[str]]:
    """Return the parts of runs that a piece of evidence reads, by variant."""
    parts: dict[str, set[str]] = {}
    if isinstance(piece, evidence.Pair):
        for side in (piece.slower, piece.faster):
            if isinstance(side, evidence.SumOfParts):
                parts.setdefault(side.variant, set()).update(side.parts)
    if isinstance(piece, evidence.Share):
        parts[piece.variant] = {piece.part, *piece.of}
    return parts


def test_the_parts_and_facts_behind_a_claim_are_told_by_a_run_on_the_cpu() -> None:
    from roofbook.devices.contract import Unsupported
    from roofbook.devices.find import host_cpu

    try:
        device = host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))
    looked_at = 0
    for name in LABS:
        lab = registry.get(name)
        parts_by_variant: dict[str, set[str]] = {}
        facts: dict[str, set[str]] = {}
        for pieces in publication(lab).evidence.values():
            for piece in pieces:
                for variant, parts in _parts(piece).items():
                    parts_by_variant.setdefault(variant, set()).update(parts)
                if isinstance(piece, evidence.FactSpread):
                    facts.setdefault(piece.variant, set()).update(piece.facts)
        case = lab.cases("test")[0]
        inputs = lab.inputs(case, 0) if parts_by_variant else {}
        for variant in {**parts_by_variant, **facts}:
            chosen = lab.variant(variant)
            run = chosen.plan(device, chosen, case, inputs)
            run.reset()
            run.run()
            run_facts = run.facts()
            assert parts_by_variant.get(variant, set()) <= set(run.parts) and facts.get(variant, set()) <= set(
                run_facts
            ), variant
            looked_at += 1
            run.close()
    assert looked_at > 5


@pytest.mark.parametrize("lab", LABS)
def test_the_command_measures_the_cells_again(lab: str) -> None:
    lab_ = registry.get(lab)
    for name, pieces in publication(lab_).evidence.items():
        words = shlex.split(verdicts.command(lab_, pieces))
        if isinstance(pieces[0], evidence.NotTestable):
            assert words == []
            continue
        if isinstance(pieces[0], evidence.CounterRatio):
            commands = [words[at + 1 : at + 8] for at, word in enumerate(words) if word == "roofbook"]
            parsed = [cli.app.commands["profile"].make_context("profile", line[1:]).params for line in commands]
            assert {options["variant"] for options in parsed} == set(pieces[0].variants(lab_))
            for options in parsed:
                assert (options["lab"], options["case"], options["scale"]) == (lab_, pieces[0].case, verdicts.SCALE)
                assert options["remeasure"]
            continue
        assert words[:2] == ["roofbook", "run"]
        run_options = cli.app.commands["run"].make_context("run", words[2:]).params
        assert run_options["lab"] == lab and run_options["scale"] == verdicts.SCALE
        parameters = {name: yaml.safe_load(text) for name, text in run_options["parameter"]}
        assert set(parameters) <= set(PARAMETERS) and parameters["remeasure"] is True
        assert set(parameters["cases"]) == {piece.case for piece in pieces}
        needed = {variant for piece in pieces for variant in piece.variants(lab_)}
        assert set(parameters.get("variants", needed)) == needed, name


# -- what the store says -----------------------------------------------------------------------------------------------

STARTED = datetime(2026, 1, 1, 10, tzinfo=UTC)
HOST = "0123 Processor"


def row(variant: str, seconds: float, lab: str = "convpool", **fields: Any) -> dict[str, Any]:
    """Return a verified row of an H200 by CUDA at the published size; the host's rows are of its CPU."""
    spec = registry.get(lab).variant(variant)
    hosted = of_host(spec)
    place = ("a-cpu", "A CPU", "cpu", "opencl") if hosted else ("nvidia-h200", "NVIDIA H200", "gpu", "cuda")
    drift = 1 + 0.001 * np.sin(np.arange(12) + len(variant))
    machine = {"cpu": fields.pop("cpu", HOST), "threads_usable": 8}
    facts = fields.pop("facts", {})
    return {
        "run": "20260101T100000Z-aaaaaa", "started": STARTED, "lab": lab, "variant": variant, "parent": spec.parent,
        "case": "512x512x32x32-k3", "scale": "published", "role": spec.role, "axis": spec.axis, "point": spec.point,
        **dict(zip(("device", "device_name", "device_kind", "backend"), place, strict=True)), "policy": "{}",
        "timed": "kernels", "unit": "layer", "units": 1, "cell_key": variant, "env_key": "e", "status": "ok",
        "source_sha256": spec.source.sha256 if spec.source else None, "samples_s": (seconds * drift).tolist(),
        "rounds": list(range(12)), "error": 0.0, "bound": 0.0, "extra": json.dumps(facts), "provenance": json.dumps(machine),
    } | fields  # fmt: skip


def judge(folder: Path, *rows: dict[str, Any], lab: str = "convpool") -> dict[str, list[verdicts.Judged]]:
    """Return the judged claims by their id, from a store with these rows."""
    store = Store(folder)
    if rows:
        store.append(rows)
    lines_by_claim: dict[str, list[verdicts.Judged]] = {}
    for line in verdicts.judged(registry.get(lab), store):
        lines_by_claim.setdefault(line.id, []).append(line)
    return lines_by_claim


def outcome(line: verdicts.Judged, backend: str = "cuda") -> verdicts.Verdict:
    (verdict_,) = [verdict_on_device for place, verdict_on_device in line.outcomes.items() if place.backend == backend]
    return verdict_


def test_an_empty_store_judges_nothing_and_still_lists_every_claim(tmp_path: Path) -> None:
    lines_by_claim = judge(tmp_path)
    assert len(lines_by_claim) == 16 and all(line.outcomes == {} for lines in lines_by_claim.values() for line in lines)
    table = report.claims([line for lines in lines_by_claim.values() for line in lines], "A lab")
    assert table.fitted(400).count("not measured") == 17 and table.frame.empty


def test_a_claim_is_judged_by_its_cells(tmp_path: Path) -> None:
    lines_by_claim = judge(tmp_path, row("row-groups", 4.4e-3), row("filter-groups", 1e-3), row("lists", 1e-3))
    (grid,) = lines_by_claim["grid"]
    assert (grid.claim, grid.effects) == ("one block per filter beats one block per filter row", (4.5,))
    assert grid.variants == ("row-groups", "filter-groups") and list(map(str, grid.outcomes)) == ["NVIDIA H200, CUDA"]
    assert outcome(grid).verdict == "holds" and outcome(grid).finding is not None
    assert outcome(lines_by_claim["sparse"][0]).verdict == "no difference"
    assert outcome(lines_by_claim["atomic-pool"][0]) == verdicts.Verdict("not measured", reason="atomic-pool")
    assert outcome(lines_by_claim["tiling-128"][0]).verdict == "not measured"


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ({"status": "failed", "reason": "out of memory", "samples_s": []}, "filter-groups failed: out of memory"),
        ({"error": 3.0}, "filter-groups failed: not verified: error 3, allowed 0"),
        ({"source_sha256": "of an older kernel"}, "filter-groups"),
        ({"scale": "quick"}, "filter-groups"),
    ],
)
def test_what_failed_was_not_verified_or_is_of_another_kernel_gives_no_number(
    tmp_path: Path, broken: dict[str, Any], reason: str
) -> None:
    rows = row("lists", 1e-3), row("input-in-local", 2e-3)
    lines_by_claim = judge(tmp_path, *rows, row("row-groups", 4.4e-3), row("filter-groups", 1e-3) | broken)
    assert outcome(lines_by_claim["grid"][0]) == verdicts.Verdict("not measured", reason=reason)
    assert outcome(lines_by_claim["input-shared"][0]).verdict == "holds"


def test_the_newest_row_of_todays_kernel_counts_and_of_a_pair_the_newest_run_that_has_both(tmp_path: Path) -> None:
    later: dict[str, Any] = {"run": "20260102T100000Z-bbbbbb", "started": STARTED + timedelta(days=1)}
    latest: dict[str, Any] = {
        "run": "20260103T100000Z-cccccc",
        "started": STARTED + timedelta(days=2),
        "source_sha256": "another",
    }
    rows = row("filter-groups", 4e-3), row("lists", 1e-3, **later), row("lists", 9e-3, **latest)
    apart = outcome(judge(tmp_path / "apart", *rows)["sparse"][0])
    assert apart.verdict == "holds" and apart.finding is not None and apart.finding.how == "across these runs"
    in_one_run = outcome(judge(tmp_path / "beside", *rows, row("lists", 4e-3))["sparse"][0])
    assert (
        in_one_run.verdict == "no difference"
        and in_one_run.finding is not None
        and in_one_run.finding.how == "in one run"
    )


def test_a_device_by_two_backends_is_two_columns_and_what_is_not_for_one_is_not_testable_there(tmp_path: Path) -> None:
    by_opencl: dict[str, Any] = {"backend": "opencl", "run": "20260102T100000Z-bbbbbb"}
    rows = [row(name, 1e-3) for name in ("filter-groups", "cached", "uncached", "lists")]
    rows += [row(name, 1e-3, **by_opencl) for name in ("filter-groups", "lists")]
    lines_by_claim = judge(tmp_path, *rows)
    assert list(map(str, lines_by_claim["sparse"][0].outcomes)) == ["NVIDIA H200, CUDA", "NVIDIA H200, OpenCL"]
    cached = lines_by_claim["cached-loads"][0]
    assert outcome(cached).verdict == "no difference"
    assert outcome(cached, "opencl") == verdicts.Verdict("not testable", reason="uncached is not for opencl")


def test_a_peer_of_the_same_card_judges_a_claim_whichever_backend_calls_it(tmp_path: Path) -> None:
    small: dict[str, Any] = {"lab": "lbm", "case": "128x128"}
    by_opencl: dict[str, Any] = {"backend": "opencl", "run": "20260102T100000Z-bbbbbb"}
    rows = [row("flat-grid@wg=32x1", 1e-3, **small, **by_opencl), row("openacc", 1e-2, **small)]
    on_grid = [line for line in judge(tmp_path, *rows, lab="lbm")["openacc"] if line.evidence.case == "128x128"]
    verdict_on_opencl = outcome(on_grid[0], "opencl")
    assert verdict_on_opencl.finding and verdict_on_opencl.finding.estimate == pytest.approx(0.1, rel=0.01)
    assert "across" in verdict_on_opencl.finding.how


def test_the_host_of_a_device_is_that_of_its_machine_and_no_column_of_its_own(tmp_path: Path) -> None:
    other_run: dict[str, Any] = {"run": "20260102T100000Z-bbbbbb", "started": STARTED + timedelta(days=1)}
    (tmp_path / "mine").mkdir()
    (tmp_path / "other").mkdir()
    rows = [row("lists", 1e-3), row("filter-groups", 4e-3)]
    same_host = judge(tmp_path / "mine", *rows, row("sequential", 1.6, **other_run))["gpu"][0]
    assert [place.slug for place in same_host.outcomes] == ["nvidia-h200"]
    assert outcome(same_host).verdict == "holds"
    another_host = judge(tmp_path / "other", *rows, row("sequential", 1.6, cpu="Another", **other_run))["gpu"][0]
    assert outcome(another_host) == verdicts.Verdict("not measured", reason="sequential")


def test_a_claim_with_several_numbers_has_a_verdict_on_each(tmp_path: Path) -> None:
    grids = {"128x128": 1.47, "256x256": 1.0, "1024x1024": 9.0}
    rows = [
        row(name, seconds, "lbm", case=grid)
        for grid, ratio in grids.items()
        for name, seconds in (("fused", ratio * 1e-3), ("soa", 1e-3))
    ]
    lines_by_claim = judge(tmp_path, *rows, lab="lbm")
    assert [(line.effects, line.evidence.case, outcome(line).verdict) for line in lines_by_claim["soa"]] == [
        ((1.47,), "128x128", "holds"),
        ((1.89,), "256x256", "no difference"),
        ((5.32,), "1024x1024", "holds stronger"),
    ]
    assert [line.effects for line in lines_by_claim["bit-ops"]] == [(1.01,)] * 3
    assert [(line.effects, outcome(line).verdict) for line in lines_by_claim["openacc"]] == [
        ((effect,), "not measured") for effect in (0.098, 0.229, 0.591)
    ]
    assert outcome(lines_by_claim["openmp"][0]) == verdicts.Verdict("not testable", reason="the claim is about a CPU")


# -- the tables, the command and the page ------------------------------------------------------------------------------


def measured(folder: Path) -> Path:
    parts = {"parts": {"pooling": [1e-5] * 12, "kernels": [1e-3] * 12, "copies": [1e-4] * 12}}
    rows = [row("row-groups", 2e-3), row("filter-groups", 1e-3), row("lists", 1e-3, facts=parts)]
    judge(folder, *rows, row("input-in-local", 1e-3) | {"status": "failed", "reason": "<no> memory", "samples_s": []})
    return folder


def test_the_tables_show_published_and_ours_with_its_interval_and_the_cells_behind(tmp_path: Path) -> None:
    lines = verdicts.judged(registry.get("convpool"), Store(measured(tmp_path)))
    table = report.claims(lines, "A lab")
    text = {line.split("  ")[0]: line for line in table.fitted(400).replace("\u202f", " ").splitlines()}
    assert re.search(r"512x512x32x32-k3 +4\.5 +holds weaker 2\.00 \[[\d.]+, [\d.]+\] \(in one run\)$", text["grid"])
    assert re.search(r" 0\.2 % +holds weaker 1\.00 %$", text["pool-kernel"])
    assert "(pooling over kernels of lists, in each sample) " in text["pool-kernel"]
    assert re.search(r" 1 \(claims none\) +not measured", text["fast-math"])
    assert text["input-shared"].endswith("not measured (input-in-local failed: <no> memory)")
    assert "&lt;no&gt; memory" in table.html and 'class="verdict holds-weaker wrap"' in table.html
    assert any(re.match(r"NVIDIA H200, CUDA: 1\d not measured, ", note) for note in table.notes)
    frame = table.frame.set_index("id")
    assert frame.loc["pool-kernel", "compared"] == "pooling over kernels of lists, in each sample"
    assert frame.loc["grid", "verdict"] == "holds weaker" and frame.loc["grid", "ours"] == pytest.approx(2, rel=0.01)
    behind = report.claim_measurements(lines, {line.id: f"command of {line.id}" for line in lines}, "A lab").fitted(400)
    assert re.search(r"grid .* row-groups, filter-groups on 512x512x32x32-k3 .* command of grid\n", behind)


@pytest.fixture
def roofbook(tmp_path: Path, command: Any) -> Any:
    """Runs `roofbook claims` on a store of its own."""
    return partial(command, "claims", "--results", str(tmp_path))


def test_the_command_prints_all_labs_or_one_and_all_devices_or_one(roofbook: Any, tmp_path: Path) -> None:
    code, out, err = roofbook()
    assert (code, err) == (0, "") and all(
        f"{registry.get(lab).title}: published claims, re-tested" in out for lab in LABS
    )
    assert roofbook("--on", "nvidia-h200")[::2] == (
        2, "error: no measurement behind a claim was taken yet; `roofbook run LAB --scale published` does it\n",
    )  # fmt: skip
    measured(tmp_path)
    code, out, err = roofbook("--lab", "convpool", "--on", "nvidia-h200")
    assert (code, err) == (0, "") and "NVIDIA H200, CUDA" in out and "Lattice" not in out
    pasted = " ".join(out.replace("\\\n", "").split())
    assert "roofbook run convpool --scale published -p variants '[row-groups, filter-groups]'" in pasted
    assert roofbook("--on", "nvidia-h100")[2].startswith(
        "error: unknown device with measurements behind a claim 'nvidia-h100' (did you mean "
    )
    assert roofbook("--lab", "convpol")[2].startswith(
        "error: unknown lab 'convpol' (did you mean 'convpool'?); valid: "
    )


def test_the_build_leaves_each_labs_verdicts_for_the_page_and_touches_none_that_are_as_they_were(
    unmeasured: Callable[[], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for page in (kernels_page, lesson_page, techniques_page):  # that have no verdicts
        monkeypatch.setattr(page, "update", lambda *_: None)
    root = unmeasured()
    fragments.update(root)
    fragment_files = sorted((root / "book" / "_generated").glob("*-claims.html"))
    assert [path.name for path in fragment_files] == [f"{lab}-claims.html" for lab in LABS]
    text = fragment_files[0].read_text()
    assert (
        text.count("<table") == 2 and "<details><summary>Convolution layer: the measurements behind each claim" in text
    )
    for path in fragment_files:
        os.utime(path, (0, 0))
    measured(root / "results")
    fragments.update(root)
    assert [path.name for path in fragment_files if path.stat().st_mtime > 0] == ["convpool-claims.html"]


def test_the_page_gives_the_rule_with_the_numbers_that_the_code_has() -> None:
    page = (RESULTS.parent / "book" / "claims.md").read_text()
    for word in verdicts.VERDICTS:
        assert re.search(rf"^([\w ]+, )?{word}(, [\w ]+)?\n: ", page, re.M), word
    page = " ".join(page.split())
    assert f"$f/{verdicts.NEAR:g}$ to ${verdicts.NEAR:g} f$" in page
    assert f"within {100 * (verdicts.NONE_PUBLISHED - 1):.3g} % of $t$" in page
    least, band = (f"{100 * (factor - 1):.3g} %" for factor in (stats.LEAST, stats.EQUAL))
    assert f"whole interval lies more than {least} from $t$" in page and f"lies within {band} of $t$" in page
    assert "{fragments} *-claims.html" in page


@pytest.mark.parametrize("lab", often(LABS, lambda name: name == "stencil"))
def test_a_claim_and_a_ladder_have_the_same_ratio_of_two_variants(lab: str) -> None:
    """Claims and ladders agree on all recorded rows, also if the newest measurements of both variants share no run."""
    lab_, store = registry.get(lab), Store(RESULTS, ("recorded",))
    rows = {data.store_device: data.rows_with_peers for data in recorded(lab_, store)}
    compared = 0
    for line in verdicts.judged(lab_, store):
        piece = line.evidence
        if not isinstance(piece, evidence.Pair) or isinstance(piece.slower, evidence.SumOfParts):
            continue
        for place, outcome in line.outcomes.items():
            if outcome.finding is not None:
                readings = newest(rows[place], piece.case)
                ratio = faster(readings[str(piece.slower)], readings[str(piece.faster)])
                assert ratio is not None
                numbers = (outcome.finding.estimate, outcome.finding.low, outcome.finding.high)
                assert (ratio.estimate, ratio.low, ratio.high) == numbers, (line.id, place)
                compared += 1
    assert compared > 3
