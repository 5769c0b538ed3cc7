"""Steps that run in a page by WebGPU: the scripts that the book writes, and their runs in a real browser, without a GPU."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.book import browser_exercises, browser_import, browser_runs, exercises_page, kernels_page, run_buttons
from roofbook.book.input_hashes import InputHashes
from roofbook.book.manifest import Manifest
from roofbook.labs.cnn import browser as cnn
from roofbook.labs.cnn import plans
from roofbook.labs.cnn import problem as convolution
from roofbook.labs.convpool import browser as convpool
from roofbook.labs.convpool import plans as sparse_plans
from roofbook.labs.convpool import problem as sparse
from roofbook.labs.lbm import browser as lbm
from roofbook.labs.lbm import problem as lattice
from roofbook.labs.lbm.lattice import problem_of as lattice_problem
from roofbook.labs.lenet import browser as lenet
from roofbook.labs.lenet import problem as network
from roofbook.labs.stencil import browser as stencil
from roofbook.labs.stencil import problem
from roofbook.labs.stencil.plans import Passes
from roofbook.measure import stats
from roofbook.spec import registry
from roofbook.spec.browser_run import browser_run, drawn
from roofbook.spec.exercise import exercises
from roofbook.spec.rounding import mean_square_over
from roofbook.store.schema import COLUMNS, REQUIRED

from ..axe import violations
from ..tabs import Tabs

ROOT = Path(__file__).parents[2]
RUNS = {
    "stencil": stencil.BROWSER,
    "cnn": cnn.BROWSER,
    "convpool": convpool.BROWSER,
    "lenet": lenet.BROWSER,
    "lbm": lbm.BROWSER,
}
LAB, CNN, CONVPOOL, LENET, LBM = map(registry.get, RUNS)
RUN = RUNS["stencil"]
SMALL = {"stencil": "66x2048", "cnn": "16ch-16x28-k5", "convpool": "8x16x16x16-k3", "lenet": "batch-2", "lbm": "40x24"}
"""Lab -> the case of its runs, which takes a GPU of software milliseconds."""
STORY_STEPS = ("sequential-c", "fused")
"""Steps of a story, of which the second runs in a browser; its parent is not in the story."""

STEPS = 12
"""Time steps of a run of lbm here: two whole walks."""


def step_of(script: str) -> dict[str, Any]:
    call = re.fullmatch(r"roofbookRunHere\.take\((\{.*\})\);\n", script)
    assert call
    step: dict[str, Any] = json.loads(call[1])
    return step


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the pages of kernels as plain HTML, with their scripts. Runs have the fewest samples, on SMALL."""
    small = {lab: replace(RUNS[lab], cases=(case,), units=min(STEPS, RUNS[lab].units)) for lab, case in SMALL.items()}
    root, site = tmp_path_factory.mktemp("book"), tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "names_of_site", lambda: [*SMALL])
        patch.setattr(browser_runs, "browser_run", lambda lab: small[lab.name])
        kernels_page.update(root, Manifest(root), InputHashes(root))
    shutil.copytree(ROOT / "book" / "_assets", site / "_static")
    machinery = (site / "_static" / "run-here.js").read_text()
    for setting in ("SAMPLE_S = 0.02;", "BUDGET_S = 3;"):
        assert machinery.count(setting) == 1
        machinery = machinery.replace(setting, f"{setting.partition('=')[0]}= 1e-3;")
    assert machinery.count("HANG_S = 30;") == 1
    patient = "HANG_S = window.hangsAfterS ?? 400;"  # a kernel on a busy machine is slow as well
    (site / "_static" / "run-here.js").write_text(machinery.replace("HANG_S = 30;", patient))
    kernels_page.copy_texts(root, site)
    style = '<link rel="stylesheet" href="../../_static/roofbook.css">'
    for lab in SMALL:
        page = kernels_page.page_of(root, lab).read_text()
        body = "\n".join(re.findall(r"^`+\{raw\} html\n(.*?)\n`+$", page, re.M | re.S))
        (site / "labs" / lab).mkdir(parents=True)
        (site / "labs" / lab / "kernels.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Kernels</title>{style}<main class="bd-article">'
            f"<h1>Kernels</h1>{body}</main></html>"
        )
        index = run_buttons.run_index(root, lab)
        steps = "".join(f'<div class="step" id="step-{name}"><h3>{name}</h3></div>' for name in STORY_STEPS)
        (site / "labs" / f"{lab}.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Story</title>{style.replace("../", "", 1)}'
            f'<main class="bd-article"><h1>Story</h1><div class="on-device"><figure class="opening"></figure></div>'
            f'<div class="on-device">{steps}</div>{run_buttons.buttons_of(index, lab, "../")}</main></html>'
        )
        to_do = exercises(registry.get(lab))
        sections = [exercises_page._write(exercise, registry.get(lab), index) for exercise in to_do.write]
        sections += [f'<section class="exercise">{exercises_page._run_both(to_do.predict[0], index)}</section>']
        (site / "exercises").mkdir(exist_ok=True)
        (site / "exercises" / f"{lab}.html").write_text(
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Exercises</title>{style.replace("../", "", 1)}'
            f'<main class="bd-article"><h1>Exercises</h1>{"".join(sections)}{run_buttons.buttons_of(index, lab, "../")}'
            "</main></html>"
        )
    return site


Open = Callable[..., Any]


@pytest.fixture(scope="module")
def tabs_with_webgpu(browser_with_webgpu: Any) -> Tabs:
    return Tabs(browser_with_webgpu)


@pytest.fixture
def open_page(tabs_with_webgpu: Tabs, site: Path) -> Iterator[Open]:
    """Yield a function that opens the page of kernels from the disk; fail on any error of its scripts."""
    with tabs_with_webgpu.of_one_test() as tabs:

        def open_tab(script: str = "", lab: str = "stencil", page: str = "labs/{}/kernels") -> Any:
            tab = tabs.open(script=script)
            tab.goto((site / f"{page.format(lab)}.html").as_uri())
            return tab

        yield open_tab


# -- what the book writes ----------------------------------------------------------------------------------------------


def test_each_step_that_wgsl_can_say_has_a_script_with_the_launches_of_its_plan(site: Path) -> None:
    folder = site / "_static" / "runs" / "stencil"
    in_wgsl = {step.name for step in LAB.ladder if step.role == "step" and step.is_for("webgpu", "gpu")}
    assert {path.stem for path in folder.glob("*.js")} == {
        *in_wgsl,
        *(f"exercise-{e.name}" for e in exercises(LAB).write),
    }
    for name in in_wgsl:
        step = step_of((folder / f"{name}.js").read_text())
        (case,) = step["cases"]
        launches = sum(repetitions for _, repetitions in case["order"])
        assert launches == (1 if name.startswith("fused") else problem.PUBLISHED_PASSES)
        assert [buffer["array"] for buffer in case["buffers"]] == ["r", "b", "g"]
        assert case["buffers"][case["outputs"]["g"]["buffer"]]["array"] == "g"
        height, width = case["params"]["height"], case["params"]["width"]
        for launch in case["launches"]:
            assert f"fn {launch['kernel']}(" in case["texts"][launch["text"]]
            assert int(np.prod(launch["groups"])) * launch["group"] * 16 >= (height - 2) * width
    checked = step_of((folder / "checked.js").read_text())["cases"][0]["launches"][0]
    assert checked["numbers"] == [*np.array([66, 2048], np.int32).tobytes()]


def test_steps_of_cnn_have_scripts_with_what_they_need_of_a_gpu(site: Path) -> None:
    folder = site / "_static" / "runs" / "cnn"
    in_wgsl = {step.name for step in CNN.ladder if step.role == "step" and step.is_for("webgpu", "gpu")}
    with_scripts = {path.stem for path in folder.glob("*.js")} - {"exercise-local-tile", "exercise-permuted"}
    assert with_scripts == in_wgsl
    (case,) = step_of((folder / "implicit-gemm.js").read_text())["cases"]
    assert [buffer.get("array") for buffer in case["buffers"]] == ["x", "weight", "bias", None, None]
    assert case["launches"][0]["kernel"] == "pack" and case["order"] == [[0, 1], [1, 1]] and case["needs"] == {}
    (case,) = step_of((folder / "double-buffered.js").read_text())["cases"]
    assert 16384 < case["needs"].pop("maxComputeWorkgroupStorageSize") <= 32768 and not case["needs"]


def test_the_page_says_how_many_steps_run_and_what_the_others_lack(site: Path) -> None:
    """The table of the page on laptops has each reason too, with a step."""
    text = (ROOT / "book" / "laptop.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (\w+) \| `([\w-]+)` \| (.*) \|$", text, re.M)
    told: dict[tuple[str, str], set[str]] = {}
    for lab in map(registry.get, RUNS):
        page = (site / "labs" / lab.name / "kernels.html").read_text()
        scripts = (site / "_static" / "runs" / lab.name).glob("*.js")
        runs = sum(not path.stem.startswith("exercise-") for path in scripts)
        steps = [step for step in lab.ladder if step.role == "step"]
        assert f"runs {runs} of the {len(steps)} steps" in page
        others = set[str]()
        for names, reason in re.findall(r"It does not run ((?:<code>[\w-]+</code>(?:, )?)+): (.*?)\.", page):
            told[lab.name, reason] = set(re.findall(r"<code>(.*?)</code>", names))
            others |= told[lab.name, reason]
        in_wgsl = {step.name for step in steps if step.is_for("webgpu", "gpu")}
        assert others <= in_wgsl and len(in_wgsl) == runs + len(others)
    of_any_case = {key for key in told if not key[1].startswith("not on this case")}
    assert {(lab, reason) for lab, _, reason in lines} == of_any_case and len(told) >= 2
    assert all(step in told[lab, reason] for lab, step, reason in lines)


def test_the_page_loads_nothing_of_it_before_a_press(site: Path) -> None:
    page = (site / "labs" / "stencil" / "kernels.html").read_text()
    assert re.findall(r"<script[^>]*>", page) == [
        '<script src="../../_static/kernels.js?v=" defer>',
        '<script src="../../_static/run-buttons.js?v=" data-run="../../_static/run-here.js?v=" defer>',
    ]
    assert page.count('data-run="../../_static/runs/stencil/') == len(
        [*(site / "_static" / "runs" / "stencil").glob("[!e]*.js")]
    )


def test_a_lab_without_a_check_for_browsers_has_no_scripts() -> None:
    assert browser_run(registry.get("peaks")) is None and browser_runs.scripts(registry.get("peaks")) == ({}, {})


class Rearranging(Passes):
    """A plan whose operands are in another order than the lab's."""

    def placed(self, grid: np.ndarray) -> np.ndarray:
        return super().placed(grid[::-1])


class Scaling(Passes):
    """A plan whose outputs are not what its buffer holds."""

    def outputs(self) -> dict[str, np.ndarray]:
        return {"g": super().outputs()["g"] * 2}


@pytest.mark.parametrize("plan", [Rearranging, Scaling])
def test_a_plan_that_changes_operands_or_outputs_on_the_host_is_left_out(plan: Any) -> None:
    case = LAB.case("7x48", "test")
    inputs = browser_runs.drawn_inputs(LAB, case, 1)
    assert browser_runs.recorded_case(LAB, LAB.variant("checked"), case, inputs)
    assert browser_runs.recorded_case(LAB, replace(LAB.variant("checked"), plan=plan), case, inputs) is None


# -- in a browser ------------------------------------------------------------------------------------------------------

LOAD = """() => new Promise((resolve, reject) => document.head.append(Object.assign(
  document.createElement('script'), {src: '../../_static/run-here.js', onload: () => resolve(), onerror: reject})))"""
"""Loads the machinery without a press."""


def test_operands_are_drawn_as_in_python(open_page: Open) -> None:
    tab = open_page()
    tab.evaluate(LOAD)
    sizes = {name: 1000 + number for number, name in enumerate(RUN.ranges)}
    for seed in (0, 1, 2**31 - 1):
        there = tab.evaluate(
            "of => Object.fromEntries(Object.entries(roofbookRunHere.draw(...of)).map(([name, all]) => [name, [...all]]))",
            [RUN.ranges, sizes, seed],
        )
        here = drawn(RUN, sizes, seed)
        for name, (low, high) in RUN.ranges.items():
            np.testing.assert_array_equal(np.array(there[name], np.float32), here[name])
            assert low <= here[name].min() and here[name].max() < high
            assert here[name].mean() == pytest.approx((low + high) / 2, abs=0.15)
            assert len(np.unique(here[name])) > 990
    assert not np.array_equal(here["r"][:1000], here["b"][:1000])


def test_statistics_are_those_of_the_book(open_page: Open) -> None:
    tab, random = open_page(), np.random.default_rng(1)
    tab.evaluate(LOAD)
    pairs = [random.lognormal(0, 0.1, (2, n)).tolist() for n in range(1, 70)]
    there = tab.evaluate(
        "pairs => pairs.map(([a, b]) => [roofbookRunHere.medianCi(a), roofbookRunHere.pairedRatio(a, b)]"
        ".map(({estimate, low, high}) => [estimate, low, high === Infinity ? null : high]))",
        pairs,
    )
    for (a, b), (median, ratio) in zip(pairs, there, strict=True):
        assert median == pytest.approx(stats.median_ci(a)[:3])
        right = stats.paired_ratio(a, b)
        assert ratio[:2] == pytest.approx([right.estimate, right.low])
        assert ratio[2] is None if right.n < 3 else ratio[2] == pytest.approx(right.high)


def test_the_check_is_that_of_the_lab(open_page: Open) -> None:
    tab, case = open_page(), LAB.case("7x48", "test")
    shape = case.params["height"], case.params["width"]
    inputs = {name: array.reshape(shape) for name, array in drawn(RUN, dict.fromkeys("rbg", 7 * 48), 3).items()}
    right = LAB.reference(case, inputs)
    flat = {name: array.ravel().tolist() for name, array in inputs.items()}
    params, check = {**case.params, "units": case.units}, RUN.script.read_text(encoding="utf-8")
    noise = np.random.default_rng(2).uniform(-1, 1, shape) * right["bound"]
    border = np.zeros(shape)
    border[0, 0] = 1e-6
    for error in (0 * noise, 0.2 * noise, 3 * noise, border, noise * np.nan):
        g = right["g"] + error
        there = tab.evaluate(
            "([check, params, inputs, outputs]) => Object.values(eval(check).check(params, inputs)(outputs))",
            [check, params, flat, {"g": g.ravel().tolist()}],
        )
        largest = problem.error_over_bound(g, right, right["bound"])
        if largest < np.inf:
            assert there == pytest.approx([largest, problem.mean_square(g, right, inputs["g"], case.units)])
        else:
            assert there == [np.inf, np.inf] and not largest < np.inf


@pytest.mark.parametrize("step", ["tiled", "winograd"])
def test_the_check_of_cnn_is_that_of_the_lab(open_page: Open, step: str) -> None:
    tab, case, run = open_page(), CNN.case("3to5ch-7x34-k3", "test"), RUNS["cnn"]
    assert browser_run(CNN) is run
    layer = plans.layer(case)
    shapes = {"x": layer.x_shape, "weight": layer.weight_shape, "bias": layer.bias_shape}
    flat = drawn(run, {name: int(np.prod(shape)) for name, shape in shapes.items()}, 4)
    right = CNN.reference(case, {name: array.reshape(shapes[name]) for name, array in flat.items()})
    noise = np.random.default_rng(5).uniform(-1, 1, layer.out_shape) * convolution.bound(layer, right)
    variant = CNN.variant(step)
    by = convolution.Arithmetic.of(variant.options, variant.dtype, peer=False)
    assert run.allowed(variant) == {"clearance": by.clearance} and (by.clearance > 1) == (step == "winograd")
    for error in (0 * noise, 0.2 * noise, 0.1 * abs(noise), 3 * noise, noise * np.nan):
        out = right["out"] + error
        there = tab.evaluate(
            "([code, params, inputs, ...of]) => Object.values(eval(code).check(params, inputs)(...of))",
            [
                run.script.read_text(encoding="utf-8"),
                dict(case.params),
                {name: array.tolist() for name, array in flat.items()},
                {"out": out.ravel().tolist()},
                {"clearance": by.clearance},
            ],
        )
        here = [
            convolution.error_over_bound(out, right, layer),
            convolution.mean_square(out, right, layer, by),
            convolution.mean_of_filters(out, right, layer, by),
        ]
        assert there == (pytest.approx(here, abs=1e-9) if np.isfinite(error).all() else [np.inf] * 3)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        pytest.param("tiled", "tiled, measured twice: ", marks=pytest.mark.thorough),
        ("implicit-gemm", "in one run on this device .* times as fast as local-tile"),
    ],
)
def test_steps_of_cnn_run(open_page: Open, step: str, words: str) -> None:
    part = press(open_page(lab="cnn"), step)
    assert part.locator(".run-status").inner_text() == "Done."
    said = part.locator(".run-result").inner_text()
    assert re.search(rf"{step}: .* a layer, verified", said) and re.search(words, said)


TYPED = """([code, params, given, wanted]) => {
  const types = { f4: Float32Array, f8: Float64Array, i1: Int8Array, i2: Int16Array, i4: Int32Array, u2: Uint16Array };
  const typed = (packed) => Object.fromEntries(Object.entries(packed).map(([name, [type, text]]) =>
    [name, new types[type](Uint8Array.from(atob(text), (of) => of.charCodeAt(0)).buffer)]));
  const lab = eval(code), arrays = typed(given);
"""
"""Begin of a function in the page: makes typed arrays of what `packed` returns, which is faster than lists."""
CALL = f"""{TYPED}
  return Object.fromEntries(Object.entries(lab[wanted](params, arrays)).map(([name, array]) => {{
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength), type = Object.keys(types)
      .find((type) => array instanceof types[type]);
    let text = "";
    for (let k = 0; k < bytes.length; k += 8192) text += String.fromCharCode(...bytes.subarray(k, k + 8192));
    return [name, [type, btoa(text)]];
  }}));
}}"""
"""Calls a function of a lab's script, and returns its arrays."""
JUDGE = f"""{TYPED}
  const check = lab.check(params, arrays);
  return wanted.map((outputs) => Object.values(check(typed(outputs))).map((ratio) => ratio === Infinity ? 1e300 : ratio));
}}"""
"""Calls the check of a lab's script on several results, and returns the ratios of each."""


def packed(arrays: Any) -> dict[str, tuple[str, str]]:
    return {
        name: (array.dtype.str[1:], base64.b64encode(np.ascontiguousarray(array).tobytes()).decode())
        for name, array in arrays.items()
    }


def in_page(tab: Any, lab: Any, name: str, case: Any, seed: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the lab's inputs from drawn numbers, and the arrays of buffers as the lab's script makes them from the same."""
    run = RUNS[lab.name]
    assert run.sizes and run.inputs
    numbers = drawn(run, run.sizes(case), seed)
    there = tab.evaluate(CALL, [run.script.read_text(encoding="utf-8"), dict(case.params), packed(numbers), name])
    arrays = {of: np.frombuffer(base64.b64decode(text), kind) for of, (kind, text) in there.items()}
    return run.inputs(case, numbers), arrays


def ratios(tab: Any, lab: Any, case: Any, arrays: Any, results: Sequence[Any]) -> list[list[float]]:
    """Return the ratios of the check of the lab's script on several results; 1e300 for infinity."""
    code, params = RUNS[lab.name].script.read_text(encoding="utf-8"), {**case.params, "units": case.units}
    there: list[list[float]] = tab.evaluate(JUDGE, [code, params, packed(arrays), [*map(packed, results)]])
    return there


def equal_arrays(there: Any, here: Any) -> None:
    assert there.keys() == here.keys()
    for name, array in here.items():
        assert there[name].dtype == array.dtype
        np.testing.assert_array_equal(there[name], array.ravel())


def test_operands_of_convpool_are_made_as_in_python(open_page: Open) -> None:
    tab = open_page()
    for name in ("5x7x9x9-k3", "3x2x7x7-k5"):
        case, run = CONVPOOL.case(name, "test"), RUNS["convpool"]
        inputs, there = in_page(tab, CONVPOOL, "arrays", case, 6)
        equal_arrays(there, run.arrays(inputs))
        layer = sparse_plans.layer(case)
        assert (np.count_nonzero(inputs["weight"], axis=(2, 3)) == 1).all()
        assert len(set(np.count_nonzero(inputs["x"], axis=(1, 2)))) == 1 and np.abs(inputs["x"]).max() <= sparse.LARGEST
        _, unusual = in_page(tab, CONVPOOL, "unusual", case, 6)
        lengths = np.count_nonzero(unusual["weight"].reshape(layer.weight_shape), axis=(2, 3))
        assert lengths.min() == 0 and lengths.max() == layer.kernel**2 and {0, layer.kernel**2} <= set(lengths.ravel())


@pytest.mark.parametrize("operands", ["arrays", "unusual"])
def test_the_check_of_convpool_is_exact(open_page: Open, operands: str) -> None:
    tab, case = open_page(), CONVPOOL.case("5x7x9x9-k3", "test")
    layer = sparse_plans.layer(case)
    _, arrays = in_page(tab, CONVPOOL, operands, case, 7)
    x = arrays["padded x"].reshape(layer.depth, layer.size + 2, layer.size + 2)[:, 1:-1, 1:-1]
    right = sparse.reference(layer, x, arrays["weight"].reshape(layer.weight_shape))["out"]
    wrong = right.copy()
    wrong[-1, -1, -1] += 1
    results = [{"out": out} for out in (right, wrong, 0 * right - 1)]
    assert ratios(tab, CONVPOOL, case, arrays, results) == [[0], [1e300], [1e300]]


def test_the_check_of_lenet_is_that_of_the_lab(open_page: Open) -> None:
    tab, case = open_page(), LENET.case("batch-2", "test")
    inputs, arrays = in_page(tab, LENET, "arrays", case, 8)
    equal_arrays(arrays, lenet.arrays(inputs))
    right, random = LENET.reference(case, inputs), np.random.default_rng(9)
    results, expected = list[dict[str, np.ndarray]](), list[list[float]]()
    for size in (0, 1e-3, 0.02, 5, np.nan):
        out, here = {}, []
        for name in ("conv1", "pool1", "conv2", "pool2", "scores"):
            maps = right[name]
            out[name] = maps.value + random.normal(0, 1, maps.value.shape) * size * maps.rounding
            here.append(network.error_over_bound(out[name], maps))
            if name != "scores":
                here.append(network.mean_square(out[name], maps, right["variances"][name]))
        results.append(out)
        expected.append([1e300] * len(here) if np.isnan(size) else here)
    for there, here in zip(ratios(tab, LENET, case, arrays, results), expected, strict=True):
        assert there == pytest.approx(here, rel=1e-6, abs=1e-6)


def test_a_batch_repeats_its_images(open_page: Open) -> None:
    case = LENET.case(f"batch-{lenet.DIFFERENT + 3}", "test")
    inputs, there = in_page(open_page(), LENET, "arrays", case, 10)
    np.testing.assert_array_equal(there["x"], inputs["x"].ravel())
    np.testing.assert_array_equal(inputs["x"][lenet.DIFFERENT :], inputs["x"][:3])


def test_a_layer_begins_with_what_the_one_before_wrote(site: Path) -> None:
    """Contents that the host takes from one buffer to another are a copy; the two convolutions alone are timed."""
    for name in ("baseline", "fused-pool"):
        (case,) = step_of((site / "_static" / "runs" / "lenet" / f"{name}.js").read_text())["cases"]
        kernels = [case["launches"][item[0]]["kernel"] if isinstance(item, list) else item for item in case["order"]]
        timed = [case["launches"][launch] for launch, _ in case["timed"]]
        first, second = (launch["bindings"][1][2] for launch in timed)
        copies = [item["copy"] for item in case["order"] if "copy" in item]
        assert [kernel for kernel in kernels if isinstance(kernel, str)][-1] == "classify"
        assert {launch["bindings"][0][2] for launch in timed} - {copies[0][1]} == {
            number for number, buffer in enumerate(case["buffers"]) if buffer.get("array") == "x"
        }
        outputs = {output["buffer"] for output in case["outputs"].values()}
        assert {first, second} <= outputs and len(copies) == 2
        assert (copies[0][0] == first) == (name == "fused-pool"), "elsewhere a kernel pools between"


def test_the_state_and_the_obstacles_of_lbm_are_made_as_in_python(open_page: Open) -> None:
    tab, case = open_page(), LBM.case("40x24")
    inputs, there = in_page(tab, LBM, "arrays", case, 11)
    equal_arrays(there, lbm.arrays(inputs))
    _, thin = in_page(tab, LBM, "unusual", case, 11)
    f = lattice.with_thin_cells(inputs["params"], inputs["obstacles"], inputs["f"])
    equal_arrays(thin, lbm.arrays({**inputs, "f": f}))
    blocked = """([code, params]) => { const bytes = eval(code).arrays(params, {disturbance: []})["obstacle bytes"];
      return bytes.reduce((found, solid, i) => solid ? [...found, i] : found, []); }"""
    for name in lbm.BROWSER.cases:
        params = dict(LBM.case(name).params)
        found = tab.evaluate(blocked, [lbm.BROWSER.script.read_text(encoding="utf-8"), params])
        np.testing.assert_array_equal(found, np.flatnonzero(lattice_problem(name)[1]))


@pytest.mark.parametrize("operands", ["arrays", "unusual"])
def test_the_check_of_lbm_is_that_of_the_lab(open_page: Open, operands: str) -> None:
    tab, case, random = open_page(), LBM.case("40x24"), np.random.default_rng(12)
    inputs, arrays = in_page(tab, LBM, operands, case, 13)
    inputs = {**inputs, "f": arrays["f"].reshape(inputs["f"].shape)}
    right, fluid = LBM.reference(case, inputs), (~inputs["obstacles"]).sum()
    results, expected = list[dict[str, np.ndarray]](), list[list[float]]()
    for size in (0, 0.2, 1, 30, np.nan):
        for half in (False, True):
            allowed = right["allowed"][half]
            f = right["f"] * (1 + random.normal(0, 1, right["f"].shape) * size * allowed.mean_square)
            speeds = right["av_vels"] * (1 + random.normal(0, 1, case.units) * size * allowed.speeds)
            if half:
                stored = lbm.halves(inputs["params"], f)
                weights = (lattice.WEIGHTS * inputs["params"].density)[:, None, None]
                f = stored.view(np.float16).astype(float) / 1024 + weights
            parts = random.uniform(0, 1, (case.units, 5))
            sums = speeds[:, None] * parts / parts.sum(axis=1, keepdims=True)
            counts = np.full((case.units, 2), 3, np.int32)
            state = {"f in halves": stored} if half else {"f": f} if size < 1 else {"f by cells": f.transpose(1, 2, 0)}
            given = (
                {"totals": speeds * fluid}
                if half
                else {"sums": sums * fluid}
                if size
                else {"sums": sums * 6, "counts": counts}
            )
            results.append({**state, **given})
            mean_square = lattice.mean_square_error(f, right["f"])
            ratio = mean_square_over(mean_square, allowed.mean_square**2, right["f"].size)
            here = [lattice.error(f, right["f"]) / allowed.largest, ratio]
            here.append(lattice.error_av_vels(speeds, right["av_vels"]) / allowed.speeds)
            expected.append([1e300] * 3 if np.isnan(size) else here)
    for there, here in zip(ratios(tab, LBM, case, arrays, results), expected, strict=True):
        assert there == pytest.approx(here, rel=1e-4, abs=1e-6)


def test_the_host_of_lbm_waits_and_reads_as_the_plan_does(site: Path) -> None:
    """In the report's first steps the host waits for each kernel, or reads sums after each step: so does a page, timed."""
    folder, events = site / "_static" / "runs" / "lbm", {}
    for step in ("ported", "no-finish", "fused", "flat-grid", "walk-down"):
        (case,) = step_of((folder / f"{step}.js").read_text())["cases"]
        assert "timed" not in case and case["params"]["units"] == STEPS
        launches = sum(item[1] for item in case["order"] if isinstance(item, list))
        waits, reads = (sum(what in item for item in case["order"]) for what in ("wait", "read"))
        events[step] = launches, waits, reads
        assert case["outputs"].keys() == {
            "f by cells" if reads else "f",
            *(("sums", "counts") if reads else ("totals",)),
        }
    assert events == {
        "ported": (5 * STEPS, 5 * STEPS - 1, 2 * STEPS),
        "no-finish": (5 * STEPS, 0, 2 * STEPS),
        "fused": (2 * STEPS, 0, 2 * STEPS),
        "flat-grid": (STEPS + 2, 0, 0),
        "walk-down": (STEPS // 6 + 2, 0, 0),
    }


THREE = {
    "lbm": ("ported", "fused", "in-place"),
    "convpool": ("filter-groups", "lists", "built-lists"),
    "lenet": ("baseline", "constant", "joint"),
}
"""Lab -> steps that are run in its page: of different plans, in groups that each GPU allows."""


@pytest.mark.parametrize("lab", THREE)
def test_steps_of_a_lab_are_verified_and_timed(open_page: Open, lab: str) -> None:
    tab = open_page(lab=lab)
    tab.evaluate("few => { roofbookRuns.names = few; }", [*THREE[lab]])
    tab.get_by_role("button", name="Run all steps on this device").click()
    tab.locator(".run-status").filter(has_text=re.compile(r"[^\u2026]$")).wait_for()
    assert tab.locator(".run-status").inner_text() == "Done."
    said = tab.locator(".run-result").inner_text().splitlines()
    for step, line in zip(THREE[lab], said, strict=False):
        assert re.match(rf"{step}: [\d.]+ \[[\d.]+, [\d.]+\] \S+ a {registry.get(lab).unit}, verified", line)


def press(tab: Any, step: str = "fused") -> Any:
    """Press the button of a step, and return its part of the page when the run has ended."""
    part = tab.locator(f'.kernel[data-kernel="{step}"]')
    part.get_by_role("button", name="Run it on this device").click()
    part.locator(".run-status").filter(has_text=re.compile(r"[^\u2026]$")).wait_for()
    return part


CLOCK_OF_LAUNCHES = """const has = GPUSupportedFeatures.prototype.has, submit = GPUQueue.prototype.submit;
const passes = GPUComputePassEncoder.prototype, dispatch = passes.dispatchWorkgroups;
let launches = 0, now = 0;
GPUSupportedFeatures.prototype.has = function (name) { return name !== "timestamp-query" && has.call(this, name); };
passes.dispatchWorkgroups = function (...of) { launches += 1; return dispatch.apply(this, of); };
GPUQueue.prototype.submit = function (of) { now += 5 * launches; launches = 0; return submit.call(this, of); };
performance.now = () => now;"""
"""JavaScript by which the browser's clock, in milliseconds, tells 5 for each launch: a busy machine changes no time."""


def test_one_press_verifies_and_times_a_step_beside_its_parent(open_page: Open, tmp_path: Path) -> None:
    tab = open_page(CLOCK_OF_LAUNCHES)
    part = press(tab)
    assert part.locator(".run-status").inner_text() == "Done."
    said = part.locator(".run-result").inner_text()
    assert re.search(r"fused: 217 \[217, 217\] \u00b5s a pass, verified", said), "5 ms for all 23 passes"
    assert re.search(r"float4: 5.00 \[5.00, 5.00\] ms a pass, verified", said)
    assert "in one run on this device 23.0 [23.0, 23.0] times as fast as float4: faster" in said, (
        "one pass over memory in place of twenty-three: the slow one is found slow"
    )
    assert "float4, measured twice: 1.00 [1.00, 1.00]. The two are the same, so this is the noise." in said
    assert re.search(r"7 rounds on .*[Ss]wift[Ss]hader.*, timed by the clock of the browser", said)
    with tab.expect_download() as download:
        part.get_by_role("link", name="The rows").click()
    assert download.value.suggested_filename == f"stencil-fused-{SMALL['stencil']}.json"
    download.value.save_as(tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["variant"], row["role"]) for row in rows] == [
        ("fused", "step"),
        ("float4", "step"),
        ("float4", "again"),
    ]
    for row in rows:
        assert row.keys() <= COLUMNS.keys() and {*REQUIRED} - row.keys() == {"policy", "cell_key", "env_key"}
        assert row["status"] == "ok" and 0 < row["error"] <= row["bound"] and len(row["samples_s"]) == 7
        assert row["source_sha256"] == LAB.variant(row["variant"]).text.sha256 and row["backend"] == "webgpu"
        assert row["rounds"] == [*range(7)] and row["units"] % problem.PUBLISHED_PASSES == 0
    imported = browser_import.read((tmp_path / "rows.json").read_bytes())
    assert [row["variant"] for row in imported.rows] == ["fused", "float4", "float4"] and not imported.changed
    assert violations(tab, {"rules": {"color-contrast": {"enabled": False}}}) == [], (
        "this page has not the theme's colours"
    )


def test_all_steps_run_in_the_same_rounds(open_page: Open, changed: Callable[[str, str], None]) -> None:
    """One that is refused has its reason among the others' times."""
    changed("inverseSqrt(", "2 * inverseSqrt(")
    tab = open_page()
    tab.evaluate("few => { roofbookRuns.names = few; }", ["float2", "float4", "fused"])
    tab.get_by_role("button", name="Run all steps on this device").click()
    tab.locator(".run-status").filter(has_text="Done").wait_for()
    first, second, refused, noise, *_ = tab.locator(".run-result").inner_text().splitlines()
    assert first.startswith("float2: ") and first.endswith("verified.")
    assert re.search(r"^float4: .*in one run on this device .* times as fast as float2: ", second)
    assert re.search(r"^fused is wrong: .* It has no time", refused) and noise.startswith("float2, measured twice")


@pytest.fixture
def changed(site: Path) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that changes the kernel's text in the script of `fused`; the script is restored afterwards."""
    script = site / "_static" / "runs" / "stencil" / "fused.js"
    before = script.read_text()

    def change(old: str, new: str) -> None:
        assert before.count(old) == 1
        script.write_text(before.replace(old, new))

    yield change
    script.write_text(before)


REFUSED = {
    "a result that is 0.01 % off": (
        ("inverseSqrt(", "1.0001 * inverseSqrt("), r"^fused is wrong: .* is [\d.]+ times its tolerance. It has no time\.$",
    ),
    "an element that is left out": (("if (k < 131072)", "if (k > 0 && k < 131072)"), r"^fused is wrong: .*It has no time\.$"),
    "a text that does not compile": (
        ("inverseSqrt(", "inverseRoot("), r"^The browser's compiler refuses fused, line \d+: .*inverseRoot.*",
    ),
}  # fmt: skip
"""Name -> (a change of the kernel's text, what the page says)."""


@pytest.mark.parametrize("mistake", REFUSED)
def test_a_wrong_kernel_has_a_reason_and_no_time(
    open_page: Open, changed: Callable[[str, str], None], mistake: str
) -> None:
    change, words = REFUSED[mistake]
    changed(*change)
    part = press(open_page())
    assert re.search(words, part.locator(".run-status").inner_text())
    assert part.locator(".run-result").inner_text() == ""
    assert part.get_by_role("button", name="Run it on this device").is_enabled()


def test_a_reader_changes_the_kernel(open_page: Open, tmp_path: Path) -> None:
    """A mistake of the compiler's is selected, a wrong kernel refused, a right one timed beside the book's."""
    tab = open_page()
    part = press(tab)
    button, status = part.get_by_role("button", name="Run it on this device"), part.locator(".run-status")
    part.get_by_role("button", name="Change the kernel").click()
    editor = part.get_by_role("textbox", name="Kernel of fused in WGSL")
    original = editor.input_value()
    ends = (
        (original.replace("inverseSqrt(", "inverseRoot("), "refuses fused, changed, line"),
        (original.replace("inverseSqrt(", "2 * inverseSqrt("), "fused, changed is wrong: .* It has no time"),
        (original.replace("inverseSqrt(", "1 / sqrt("), "Done"),
    )
    for text, words in ends:
        editor.fill(text)
        button.click()
        status.filter(has_text=re.compile(words)).wait_for()
        if "refuses" in words:
            selected = editor.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
            assert "inverseRoot(" in selected and "\n" not in selected
    said = part.locator(".run-result").inner_text()
    assert "fused, changed: " in said and "times as fast as fused: " in said
    with tab.expect_download() as download:
        part.get_by_role("link", name="The rows").click()
    download.value.save_as(tmp_path / "rows.json")
    row, *others = json.loads((tmp_path / "rows.json").read_text())
    assert row["extra"]["changed_text"] == ends[-1][0] and row["source_sha256"] is None
    assert all("changed_text" not in other["extra"] for other in others)
    part.get_by_role("button", name="Take the book's kernel").click()
    button.click()
    status.filter(has_text="Done").wait_for()
    assert "times as fast as float4" in part.locator(".run-result").inner_text()


LACKING = {
    "no WebGPU": ("delete Navigator.prototype.gpu", "This browser has no WebGPU. Chrome and Edge have it"),
    "no adapter": (
        "navigator.gpu.requestAdapter = async () => null", "found no GPU that it lets pages use. Acceleration by hardware",
    ),
    "a refused device": (
        "GPUAdapter.prototype.requestDevice = async () => { throw new Error('not today'); }",
        "The browser refused the device: not today.",
    ),
    "a lost device": (
        """const request = GPUAdapter.prototype.requestDevice;
        GPUAdapter.prototype.requestDevice = async function (...of) {
          const device = await request.apply(this, of);
          setTimeout(() => device.destroy(), 50);
          return device;
        }""",
        "The device was lost",
    ),
    "too large a buffer": (
        """const create = GPUDevice.prototype.createBuffer;
        GPUDevice.prototype.createBuffer = function (of) { return create.call(this, { ...of, size: 2 ** 50 }); }""",
        "The browser refuses fused: ",
    ),
    "a device without memory": (
        """const scopes = [], push = GPUDevice.prototype.pushErrorScope, pop = GPUDevice.prototype.popErrorScope;
        GPUDevice.prototype.pushErrorScope = function (filter) { scopes.push(filter); return push.call(this, filter); };
        GPUDevice.prototype.popErrorScope = async function () {
          const error = await pop.call(this);
          return scopes.pop() === "out-of-memory" ? new GPUOutOfMemoryError("none is left") : error;
        }""",
        "The device has too little memory for fused: none is left Choose a smaller size.",
    ),
    "a tab without memory": (
        """const Plain = Uint8Array;
        window.Uint8Array = function (of) {
          if (of > 1000) throw new RangeError("Array buffer allocation failed");
          return new Plain(...arguments);
        };""",
        "This tab has too little memory for this size: choose a smaller one.",
    ),
    "a kernel that never ends": (
        "window.hangsAfterS = 1; GPUQueue.prototype.onSubmittedWorkDone = () => new Promise(() => {});",
        "fused did not end within 1 s, and was given up.",
    ),
}  # fmt: skip
"""Name -> (a change of the browser, words of the page's sentence)."""
SELDOM = ("no adapter", "a refused device", "too large a buffer")


@pytest.mark.parametrize(
    "lack", [pytest.param(name, marks=[pytest.mark.thorough] * (name in SELDOM)) for name in LACKING]
)
def test_what_is_missing_is_said(open_page: Open, lack: str) -> None:
    script, words = LACKING[lack]
    part = press(open_page(script))
    assert words in part.locator(".run-status").inner_text()
    assert part.locator(".run-result").inner_text() == ""
    assert part.get_by_role("button", name="Run it on this device").is_enabled(), "the page goes on"


def test_the_work_of_a_slow_device_is_submitted_in_pieces(open_page: Open) -> None:
    """The first run waits for each piece, and so finds how many launches one may have; later runs wait for none."""
    tab = open_page(
        """const submit = GPUQueue.prototype.submit, done = GPUQueue.prototype.onSubmittedWorkDone;
        const passes = GPUComputePassEncoder.prototype, dispatch = passes.dispatchWorkgroups;
        window.pieces = [];
        let launches = 0;
        passes.dispatchWorkgroups = function (...of) { launches += 1; return dispatch.apply(this, of); };
        GPUQueue.prototype.submit = function (of) {
          if (launches) window.pieces.push([launches, false]);
          launches = 0;
          return submit.call(this, of);
        };
        GPUQueue.prototype.onSubmittedWorkDone = async function () {
          window.pieces.at(-1)[1] = true;
          await done.call(this);
          await new Promise((resolve) => { setTimeout(resolve, 130); });
        };"""
    )
    assert press(tab, "float4").locator(".run-status").inner_text() == "Done."
    pieces = tab.evaluate("pieces")
    assert [count for count, waited in pieces if waited] == [1] * 3 * problem.PUBLISHED_PASSES
    assert {count for count, waited in pieces if not waited} == {1}, "two would take more than a quarter of a second"


def test_a_step_of_the_story_runs_in_its_card_and_outlasts_a_change_of_device(open_page: Open) -> None:
    """The machinery is loaded at the first press, and the keyboard alone does it."""
    tab = open_page(page="labs/{}")
    assert not tab.evaluate("'roofbookRunHere' in window")
    assert tab.locator("#step-sequential-c button").count() == 0
    button = tab.get_by_role("button", name="Run it on this device: fused")
    button.focus()
    tab.keyboard.press("Enter")
    status = tab.locator("#step-fused .run-status")
    status.filter(has_text=re.compile(r"[^\u2026]$")).wait_for()
    assert status.inner_text() == "Done."
    said = tab.locator("#step-fused .run-result").inner_text()
    assert "times as fast as float4: " in said
    kept = json.loads(tab.evaluate("localStorage.getItem('roofbook-runs-stencil')"))
    assert [[row["variant"] for row in rows] for rows in kept][-1] == ["fused", "float4", "float4"]
    assert len(browser_import.read(json.dumps(kept[-1]).encode()).rows) == 3, "they can be saved and imported"
    link = tab.locator("#step-fused").get_by_role("link", name="Show it in the recorded ladder")
    assert link.get_attribute("href").endswith("/labs/stencil.html?against=this-device")
    another = '<div class="step" id="step-fused"><h3>fused</h3></div>'
    tab.evaluate("html => { document.querySelector('.on-device:has(.step)').innerHTML = html; }", another)
    assert tab.locator("#step-fused .run-result").inner_text() == said
    assert violations(tab, {"rules": {"color-contrast": {"enabled": False}}}) == []


def test_kernels_to_write_have_their_hole_in_wgsl() -> None:
    stencil_run, case = RUNS["stencil"], LAB.case(RUNS["stencil"].cases[0])
    to_write, operands = exercises(LAB).write, browser_runs.drawn_inputs(LAB, case)
    texts = {exercise.name: browser_exercises.holed(LAB, exercise, case, operands) for exercise in to_write}
    assert texts.keys() == {"checked", "local-memory", "fused"}
    for exercise in to_write:
        text, step = texts[exercise.name], LAB.variant(exercise.step)
        full = browser_runs.recorded_case(LAB, step, case, operands)
        lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]
        assert full and text.count("YOUR CODE HERE:") == 1 and not re.search(r"roofbook_hole|qrt\(", "".join(lines))
        assert set(lines) <= {*full["texts"][-1].splitlines()}, "all else is the step's own text"
    assert "WIDTH is 1024" in texts["fused"] and "float4 is vec4<f32>" in texts["fused"]
    unrolled = next(exercise for exercise in exercises(CNN).write if exercise.name == "pool")
    case = CNN.case(RUNS["cnn"].cases[0])
    operands = browser_runs.drawn_inputs(CNN, case)
    assert browser_exercises.holed(CNN, unrolled, case, operands) == "", "a hole in several places is none"
    assert browser_exercises.scripts(LAB, stencil_run, {}) == {}, "no kernel to write of a step that does not run"


def test_an_exercise_is_written_in_the_page(open_page: Open) -> None:
    """The kernel with the hole computes nothing and is refused; with the step's own lines it is right."""
    tab = open_page(page="exercises/{}")
    part = tab.locator('.run-here[data-holed="fused"]')
    part.get_by_role("button", name="Write it here, in WGSL: fused").press("Enter")
    editor = part.get_by_role("textbox", name="Kernel of fused in WGSL")
    editor.wait_for()
    assert "YOUR CODE HERE" in editor.input_value() and "inverseSqrt(" not in editor.input_value()
    run, status = part.get_by_role("button", name="Run it on this device"), part.locator(".run-status")
    assert status.inner_text().startswith("Fill the hole")
    run.press("Enter")
    status.filter(has_text="It has no time").wait_for()
    solution = step_of((site_of(tab) / "_static" / "runs" / "stencil" / "fused.js").read_text())["cases"][0]["texts"][
        -1
    ]
    editor.fill(solution.replace("inverseSqrt(", "1 / sqrt("))
    run.press("Enter")
    status.filter(has_text="Done").wait_for()
    assert "fused, changed: " in (said := part.locator(".run-result").inner_text()) and "Kept in" not in said
    both = tab.locator('.run-here[data-against="float4"]')
    both.get_by_role("button", name="Measure both on this device: fused").click()
    both.locator(".run-status").filter(has_text="Done").wait_for()
    assert "times as fast as float4: " in both.locator(".run-result").inner_text()
    assert violations(tab, {"rules": {"color-contrast": {"enabled": False}}}) == []


def site_of(tab: Any) -> Path:
    return Path(tab.url.removeprefix("file://")).parents[1]


HELD_UNTIL_STOPPED = """const create = GPUDevice.prototype.createComputePipelineAsync;
const pressed = new Promise((resolve) => document.addEventListener("click", ({ target }) => {
  if (target.textContent === "Stop") resolve();
}));
GPUDevice.prototype.createComputePipelineAsync = async function (of) { await pressed; return create.call(this, of); };"""
"""JavaScript that keeps a run at its first kernel until a reader has pressed Stop, which a busy reader does late."""


def test_a_run_is_stopped(open_page: Open) -> None:
    part = open_page(HELD_UNTIL_STOPPED).locator('.kernel[data-kernel="fused"]')
    part.get_by_role("button", name="Run it on this device").click()
    part.get_by_role("button", name="Stop").click()
    part.locator(".run-status").filter(has_text="Stopped").wait_for()
    assert part.get_by_role("button", name="Run it on this device").is_enabled()
