"""Intel's OpenCL for the CPU: found where pip puts it, in addition to all other drivers, and distinguished from PoCL."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import find, intel, opencl
from roofbook.devices.find import open_device, why_auto

# -- where it is, by folders that are made up --------------------------------------------------------------------------


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the libraries that were loaded: a library loads if its file exists."""
    names: list[str] = []

    def load(path: str, mode: int = ctypes.DEFAULT_MODE) -> None:
        if not Path(path).is_file():
            raise OSError(f"{path}: cannot open shared object file")
        assert mode != ctypes.RTLD_GLOBAL, "its mathematical functions would be everybody's"
        names.append(Path(path).name)

    monkeypatch.setattr(ctypes, "CDLL", load)
    return names


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loaded: list[str]) -> Path:
    """A made-up environment with the packages, on a system that has two drivers: the environment's lib folder."""
    lib, system = tmp_path / "prefix" / "lib", tmp_path / "vendors"
    lib.mkdir(parents=True)
    for name in (intel.DRIVER, *intel.LIBRARIES):
        (lib / name).touch()
    system.mkdir()
    (system / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    (system / "intel64.icd").write_text("/opt/intel/libintelocl.so\n")
    monkeypatch.setattr(intel, "prefixes", lambda: [tmp_path / "nothing", tmp_path / "prefix"])
    monkeypatch.setenv("OPENCL_VENDOR_PATH", str(system))
    monkeypatch.delenv("OCL_ICD_VENDORS", raising=False)
    return lib


def drivers() -> dict[str, str]:
    """Return the drivers that the loader would find in its folder, by file."""
    return {entry.name: entry.read_text().strip() for entry in Path(os.environ["OCL_ICD_VENDORS"]).iterdir()}


def test_the_loader_finds_it_beside_the_systems_drivers(installed: Path, loaded: list[str]) -> None:
    with intel.shown():
        by_file, folder = drivers(), Path(os.environ["OCL_ICD_VENDORS"])
    assert by_file == {"nvidia.icd": "libnvidia-opencl.so.1", "roofbook-intel.icd": str(installed / intel.DRIVER)}, (
        "with the system's own copy of it there would be two devices of one name"
    )
    assert loaded == list(intel.LIBRARIES)
    assert "OCL_ICD_VENDORS" not in os.environ and not folder.exists()


def test_a_variable_that_is_empty_is_empty_again(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "")
    with intel.shown():
        assert drivers()
    assert os.environ["OCL_ICD_VENDORS"] == ""


def test_the_drivers_that_the_user_names_are_those_that_are_loaded(
    installed: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OCL_ICD_VENDORS", "/my/drivers")
    with intel.shown():
        assert os.environ["OCL_ICD_VENDORS"] == "/my/drivers"
    assert loaded == [] and intel.refused() == ""


def test_where_it_is_not_installed_nothing_is_touched(
    installed: Path, loaded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / intel.DRIVER).unlink()
    with intel.shown():
        assert "OCL_ICD_VENDORS" not in os.environ
    assert loaded == [] and intel.refused() == ""


def test_half_of_it_is_refused_in_one_line(installed: Path) -> None:
    """pip installs intel-opencl-rt without the other package."""
    (installed / "libsvml.so").unlink()
    with intel.shown():
        assert "OCL_ICD_VENDORS" not in os.environ
    reason = intel.refused()
    assert "libsvml.so" in reason and "pip install intel-opencl-rt intel-cmplr-lib-rt" in reason and "\n" not in reason


def test_the_environments_own_comes_before_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    import site

    monkeypatch.setattr(site, "ENABLE_USER_SITE", True)
    monkeypatch.setattr(site, "getuserbase", lambda: "/home/me/.local")
    assert intel.prefixes() == [Path(sys.prefix), Path("/home/me/.local")]
    monkeypatch.setattr(site, "ENABLE_USER_SITE", False)
    assert intel.prefixes() == [Path(sys.prefix)]


# -- what it is called -------------------------------------------------------------------------------------------------


def platform(name: str, kind: str = "CPU", version: str = "OpenCL 3.0") -> Any:
    """A platform with one device."""
    import pyopencl as cl

    by_maker = types.SimpleNamespace(name=name, version=version)
    device = types.SimpleNamespace(
        platform=by_maker, name="a device", vendor="somebody", version=version, driver_version="1.2",
        type=getattr(cl.device_type, kind), max_compute_units=4, global_mem_size=1, global_mem_cache_size=1,
        local_mem_size=1, max_work_group_size=1, max_clock_frequency=1,
    )  # fmt: skip
    by_maker.get_devices = lambda: [device]
    return by_maker


INTEL, POCL = "Intel(R) OpenCL", "Portable Computing Language"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[opencl.OpenCLDevice]]:
    """A machine with these platforms and no CUDA."""
    import pyopencl as cl

    def make(*platforms: Any) -> list[opencl.OpenCLDevice]:
        monkeypatch.setattr(cl, "get_platforms", lambda: list(platforms))
        listed = opencl._listed(simulated=False)
        monkeypatch.setattr(opencl, "devices", lambda: listed)
        monkeypatch.setattr(
            find, "devices", lambda of=None: [device for device in listed if of in (None, device.backend)]
        )
        return listed

    return make


def test_a_cpus_other_platforms_have_names_of_their_own(machine: Callable[..., list[opencl.OpenCLDevice]]) -> None:
    pocl, intel_device = machine(platform(INTEL), platform(POCL))
    assert [device.spec for device in (pocl, intel_device)] == ["opencl:0", "opencl:1"]
    assert pocl.name.endswith(", 4 cores") and pocl.slug.endswith("-4-cores"), "recorded rows have this name"
    assert intel_device.name == f"{pocl.name}, Intel OpenCL" and intel_device.slug == f"{pocl.slug}-intel-opencl"
    assert pocl.identity()["platform"] != intel_device.identity()["platform"] and pocl.identity()["model"] == pocl.name
    (alone,) = machine(platform(INTEL))
    assert alone.name == intel_device.name, "a row does not say what else was installed"


def test_pocl_is_the_host_and_auto_and_a_word_chooses_the_other(
    machine: Callable[..., list[opencl.OpenCLDevice]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opencl, "_cpu_name", lambda cores: "Intel(R) Xeon(R), 4 cores")
    pocl, intel_device = machine(platform(INTEL), platform(POCL))
    assert find.host_cpu() is pocl and open_device("auto") is pocl and open_device("auto", "cuda") is pocl
    assert open_device("opencl:intel") is intel_device, "the platform, not the maker of the CPU"
    assert open_device("opencl:xeon") is pocl
    machine(platform(POCL))
    assert open_device("opencl:intel").name == pocl.name


def test_auto_says_what_it_takes_and_why(machine: Callable[..., list[opencl.OpenCLDevice]]) -> None:
    machine(platform(POCL))
    assert why_auto() == "", "there is no choice"
    machine(platform(POCL), platform(INTEL))
    assert why_auto() == "auto takes opencl:0: there is no GPU, and PoCL is the platform that every CPU can have"
    machine(platform(INTEL), platform("NVIDIA", "GPU"), platform(POCL))
    assert why_auto("opencl") == "auto takes opencl:0: the first GPU"


def test_each_labs_backend_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_device_names import ALL, CUDA_GPU

    monkeypatch.setattr(find, "devices", lambda: ALL)
    assert why_auto() == "auto takes cuda:0 or opencl:0: a GPU, by the backend that the lab was written for"
    assert why_auto("cuda") == "auto takes cuda:0: a GPU, by the backend that the lab was written for"
    monkeypatch.setattr(find, "devices", lambda: [CUDA_GPU])
    assert why_auto() == ""


# -- the runtime itself, where it is -----------------------------------------------------------------------------------

needs_it = pytest.mark.skipif(
    not any(device.platform_name == INTEL for device in opencl.devices()),
    reason="no OpenCL of Intel's for the CPU: `pip install intel-opencl-rt intel-cmplr-lib-rt` brings it (400 MB)",
)


@needs_it
def test_a_process_finds_both_and_so_does_one_that_it_starts() -> None:
    listed = (
        "import json, os; from roofbook.devices.opencl import devices; found = devices();"
        " print(json.dumps([[each.name, each.platform_name] for each in found]), os.environ.get('OCL_ICD_VENDORS'))"
    )
    once = f"import subprocess, sys; from roofbook.devices.opencl import devices; devices(); {listed}"
    twice = f"{once}; sys.stdout.flush(); subprocess.run([sys.executable, '-c', {listed!r}], check=True)"
    done = subprocess.run([sys.executable, "-c", twice], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == second and first.endswith(" None")
    names = [platform for _, platform in json.loads(first.rpartition(" ")[0])]
    assert POCL in names and INTEL in names and opencl.SIMULATOR not in names
