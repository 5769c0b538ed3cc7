"""The command line as a user meets it: its help, devices, labs and kernels."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from roofbook import cli
from roofbook.devices import nvrtc
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import devices
from roofbook.spec import registry
from roofbook.spec.plan import SCALES

from .commands import Cli

DIALECT = Path(cli.__file__).parents[1] / "spec" / "dialect"


def test_the_help_lists_every_command_with_its_whole_summary(roofbook: Cli) -> None:
    code, out, err = roofbook("--help")
    assert (code, err) == (0, "")
    for name, command in cli.app.commands.items():
        summary = (command.help or "").split("\n")[0]
        assert re.search(rf"^  {name} +{re.escape(summary)}$", out, re.M), f"{name}: {summary}"
    assert roofbook("-h") == roofbook() == (0, out, "")


@pytest.mark.parametrize("name", cli.app.commands)
def test_the_help_of_a_command_names_every_option_and_fits_a_terminal(roofbook: Cli, name: str) -> None:
    code, out, err = roofbook(name, "--help")
    assert (code, err) == (0, "")
    for parameter in cli.app.commands[name].params:
        assert isinstance(parameter, click.Argument) or parameter.help or "[default" in out
        for word in parameter.opts if isinstance(parameter, click.Option) else [str(parameter.human_readable_name)]:
            assert word in out
    assert max(map(len, out.splitlines())) <= 100 and "\b" not in out
    for command in re.findall(r"^    roofbook (.*)$", out, re.M):
        assert command.split()[0] == name


def test_devices_are_listed_by_the_names_that_open_them(roofbook: Cli) -> None:
    code, out, _ = roofbook("devices")
    assert code == 0
    specs = [line.split()[0] for line in out.splitlines() if line[0] != " "]
    assert specs == [*(device.spec for device in devices()), *["auto"] * (len(devices()) > 1)]


def test_no_device_says_how_to_get_one(roofbook: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roofbook.devices.find.devices", lambda of=None: [])
    code, out, err = roofbook("devices")
    assert (code, out) == (2, "") and "pyopencl[pocl]" in err


def test_labs_are_listed_with_the_cases_of_each_scale(roofbook: Cli) -> None:
    code, out, _ = roofbook("labs")
    assert code == 0
    for name in registry.names():
        assert re.search(rf"^{name} ", out, re.M)
        for scale in SCALES:
            cases = ", ".join(case.name for case in registry.get(name).cases(scale))
            assert re.search(rf"^ +{scale} +{re.escape(cases)}$", out, re.M)


def test_a_kernel_in_a_language_of_python_is_shown_as_it_is(roofbook: Cli) -> None:
    code, out, err = roofbook("show", "stencil", "triton-fused")
    assert (code, err) == (0, "") and "@triton.jit\ndef fused(" in out
    shown = roofbook("show", "stencil", "triton-fused", "--as", "cuda")
    assert shown == (2, "", "error: triton-fused has no cuda form: it is written in Python; leave --as out\n")
    code, out, err = roofbook("diff", "stencil", "triton-fused")
    assert (code, out) == (2, "") and "in two languages: `roofbook show stencil triton-fused` prints it" in err


def test_diff_shows_what_the_compiler_sees(roofbook: Cli) -> None:
    code, out, _ = roofbook("diff", "lbm", "select")
    assert code == 0 and out.startswith("--- kept-partials\n+++ select\n@@")
    assert not re.search(r"^[+-]\s*#", out, re.M), "a macro that is not expanded"
    code, out, _ = roofbook("diff", "lbm", "no-finish")
    assert code == 0 and "Same kernel as ported" in out and "options" in out


@pytest.mark.parametrize("variant", ["fused", "half-storage", "flat-grid@wg=16x16", "graph"])
@pytest.mark.parametrize("dialect", ["opencl", "cuda"])
def test_show_prints_plain_source_that_compiles(roofbook: Cli, variant: str, dialect: str) -> None:
    code, out, err = roofbook("show", "lbm", variant, "--as", dialect)
    if dialect not in registry.get("lbm").variant(variant).backends:
        assert (code, out) == (2, "") and "--as cuda" in err
        assert roofbook("show", "lbm", variant)[:2] == (0, registry.get("lbm").variant(variant).source.render("cuda"))  # type: ignore[union-attr]
        return
    assert code == 0
    words = set(re.findall(r"#define (\w+)", (DIALECT / f"{dialect}.h").read_text()))
    assert words and not words & set(re.findall(r"\w+", re.sub(r"//.*", "", out)))
    if dialect == "cuda":
        try:
            assert ".visible .entry" in nvrtc.compile_cuda(out, 90).ptx
        except Unsupported as why:
            pytest.skip(str(why))
    else:
        opencl = [device for device in devices() if device.backend == "opencl"]
        if not opencl:
            pytest.skip("no OpenCL device")
        opencl[0].build(out)
