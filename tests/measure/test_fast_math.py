"""Fast mathematics that a variant does not declare is refused, wherever it is switched on; similar options are allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roofbook.devices.contract import Device
from roofbook.devices.find import open_device
from roofbook.measure.fast_math import FastMath, check_declared, pragmas, switches
from roofbook.measure.measurement import Measurement
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.measure.verify import References, prepare
from roofbook.peers import one_thread
from roofbook.spec import registry
from roofbook.spec.plan import Variant

from .test_judged_samples import HONEST, Chained, Chains

SWITCHES = (
    "-cl-fast-relaxed-math", "-cl-unsafe-math-optimizations", "-cl-finite-math-only", "-cl-mad-enable", "-cl-no-signed-zeros",
    "-cl-denorms-are-zero", "--use_fast_math", "-use_fast_math", "--ftz=true", "--prec-div=false", "-prec-sqrt=false",
    "-ffast-math", "-Ofast", "-fassociative-math", "-freciprocal-math", "-funsafe-math-optimizations", "-ffinite-math-only",
    "-fno-signed-zeros", "-ffp-model=fast",
)  # fmt: skip
PRAGMAS = (
    "#pragma clang fp reassociate(on)", "#pragma clang fp contract(fast)", "  #  pragma  clang fp reciprocal( on )",
    "#pragma STDC FP_CONTRACT ON", "#pragma OPENCL FP_CONTRACT ON", '_Pragma("clang fp contract(fast)")',
    '#pragma GCC optimize ("fast-math")', "#pragma float_control(precise, off)", "#pragma \\\nclang fp reassociate(on)",
    '__attribute__((optimize("fast-math")))',
)  # fmt: skip
HARMLESS = (
    "#pragma unroll 4", "#pragma clang fp contract(off)", "#pragma STDC FP_CONTRACT OFF", "// #pragma clang fp contract(fast)",
    "#pragma OPENCL EXTENSION cl_khr_fp16 : enable", "#pragma once", "/* _Pragma(\"clang fp contract(fast)\") */",
    "__attribute__((aligned(4)))",
)  # fmt: skip


@pytest.mark.parametrize("switch", SWITCHES)
def test_each_switch_is_seen_among_others(switch: str) -> None:
    assert switches(["-O3", f"-march=native {switch}"]) == [switch]


def test_other_options_are_no_switches() -> None:
    harmless = ["-cl-std=CL1.2", "-cl-opt-disable", "-arch=sm_90a", "--std=c++17", "-lineinfo", "-DFAST=1", "-fopenmp"]
    assert switches([*harmless, *one_thread.FLAGS, "--ftz=false", "--prec-div=true", "-ffp-model=precise"]) == []


@pytest.mark.parametrize("line", PRAGMAS)
def test_each_pragma_is_seen(line: str) -> None:
    assert len(pragmas(f"int a;\n{line}\nfloat b;\n")) == 1


@pytest.mark.parametrize("line", HARMLESS)
def test_harmless_lines_are_none(line: str) -> None:
    assert pragmas(f"int a;\n{line}\nfloat b;\n") == []


def test_a_variant_may_declare_it_and_a_peer_need_not() -> None:
    undeclared = Variant("a", None, None, Chains, "", "")
    build = [("float a;", ["-cl-mad-enable"])]
    with pytest.raises(
        FastMath, match=r"^it is compiled with -cl-mad-enable; only a variant with the option fast_math"
    ):
        check_declared(undeclared, build)
    with pytest.raises(FastMath, match="-Ofast"):
        check_declared(undeclared, [], host_flags="-Ofast")
    check_declared(replace(undeclared, options={"fast_math": True}), build)
    check_declared(replace(undeclared, role="peer"), build)


class Relaxed(Chains):
    """A plan that compiles with fast mathematics."""

    def __init__(self, device: Device, *arguments: object) -> None:
        super().__init__(device, *arguments)  # type: ignore[arg-type]
        device.build("__kernel void g() {}", ("-cl-fast-relaxed-math",))


@pytest.mark.parametrize(
    ("text", "plan", "reason"),
    [
        (HONEST, Chains, None),
        (HONEST, Relaxed, "-cl-fast-relaxed-math"),
        (f"#pragma clang fp reassociate(on)\n{HONEST}", Chains, "#pragma clang fp reassociate(on)"),
    ],
)
def test_a_variant_that_is_compiled_so_is_not_timed(text: str, plan: type[Chains], reason: str | None) -> None:
    device = open_device("opencl:0")
    variant = Variant("a", None, None, plan, "", "", options={"text": text})
    lab = Chained(variant)
    at = Setting(lab, lab.cases("quick")[0], device, Policy())
    measurement = Measurement(variant, "step", device, "opencl")
    prepare(at, measurement, References(at))
    measurement.release()
    assert measurement.reason == (
        f"not accepted: it is compiled with {reason}; only a variant with the option fast_math may be"
        if reason
        else None
    )


def test_only_steps_named_for_fast_mathematics_declare_it() -> None:
    steps = [variant for name in registry.names() for variant in registry.get(name).ladder]
    assert {variant.name for variant in steps if "fast_math" in variant.options} == {"fast-math"}


def test_the_flags_of_a_step_s_c_program_are_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("lbm")
    variant, device = lab.variant("partly-ported"), open_device("opencl:0")
    at = Setting(lab, lab.case("40x24", "test"), device, Policy())
    references = References(at)
    for flags, reason in (
        (("-O3",), None),
        (("-O3", "-ffast-math"), "not accepted: it is compiled with -ffast-math; "),
    ):
        monkeypatch.setattr("roofbook.labs.lbm.partly_ported.FLAGS", flags)
        measurement = Measurement(variant, "step", device, "opencl")
        prepare(at, measurement, references)
        measurement.release()
        assert measurement.reason is None if reason is None else str(measurement.reason).startswith(reason)
