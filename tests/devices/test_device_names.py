"""Names of devices, and the device that opens by a user's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofbook.devices import contract, cuda, opencl
from roofbook.devices import find as all_devices
from roofbook.devices.contract import Device, Unsupported
from roofbook.devices.find import open_device
from roofbook.errors import UsageError


class Named(Device):
    """A device that has a name and does nothing."""

    compute_units = max_work_group = max_clock_mhz = 1
    memory_bytes = cache_bytes = local_bytes = 1

    def __init__(self, backend: str, index: int, kind: str, name: str) -> None:
        self.backend, self.kind, self.name, self.spec = backend, kind, name, f"{backend}:{index}"

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name, "platform": "Somebody's Computing Language"}

    def build(self, text: str, options: Any = ()) -> contract.Program:
        raise NotImplementedError

    def empty(self, nbytes: int) -> contract.Buffer:
        raise NotImplementedError

    def queue(self, profiling: bool = False) -> contract.Queue:
        raise NotImplementedError


CUDA_GPU, CL_GPU = Named("cuda", 0, "gpu", "NVIDIA H200"), Named("opencl", 0, "gpu", "NVIDIA H200")
CL_CPU, CL_OTHER = Named("opencl", 1, "cpu", "AMD EPYC"), Named("opencl", 2, "gpu", "AMD Instinct MI300X")
ALL = [CUDA_GPU, CL_GPU, CL_CPU, CL_OTHER]


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def list_devices(*listed: Device) -> None:
        monkeypatch.setattr(
            all_devices, "devices", lambda of=None: [device for device in listed if of in (None, device.backend)]
        )

    return list_devices


@pytest.mark.parametrize(
    ("spec", "preferred_backend", "expected"),
    [
        ("auto", "opencl", CL_GPU),
        ("auto", "cuda", CUDA_GPU),
        ("cuda:0", "opencl", CUDA_GPU),
        ("opencl:1", "opencl", CL_CPU),
        ("opencl:NVIDIA", "cuda", CL_GPU),
        ("opencl:amd", "opencl", CL_CPU),
        ("opencl:mi300x", "opencl", CL_OTHER),
        ("opencl:computing language", "opencl", CL_GPU),
    ],
)
def test_a_device_goes_by_its_number_or_a_word(
    present: Callable[..., None], spec: str, preferred_backend: str, expected: Device
) -> None:
    present(*ALL)
    assert open_device(spec, preferred_backend) is expected


def test_auto_falls_back_to_the_other_backends_gpu_then_to_the_cpu(present: Callable[..., None]) -> None:
    present(CUDA_GPU, CL_CPU)
    assert open_device("auto", "opencl") is CUDA_GPU
    present(CL_CPU)
    assert open_device("auto", "cuda") is CL_CPU


@pytest.mark.parametrize(("spec", "preferred_backend"), [("cuda:0", "opencl"), ("auto", "cuda")])
def test_a_driver_that_is_not_asked_for_is_not_started(
    monkeypatch: pytest.MonkeyPatch, spec: str, preferred_backend: str
) -> None:
    monkeypatch.setattr(cuda, "devices", lambda: [CUDA_GPU])
    monkeypatch.setattr(opencl, "devices", lambda: pytest.fail("it takes a quarter of a second"))
    assert open_device(spec, preferred_backend) is CUDA_GPU


@pytest.mark.parametrize(
    "spec",
    ["opencl:9", "opencl:00", "opencl:-1", "opencl", "opencl:", "opencl:nosuch", "opencl:model", "OPENCL:0",
     "cuda:1", "cuda:amd", "vulkan:0", "", "gpu", "0", "auto:0"],
)  # fmt: skip
def test_a_wrong_name_gets_one_line_that_lists_the_right_ones(present: Callable[..., None], spec: str) -> None:
    present(*ALL)
    with pytest.raises(UsageError, match=r"\Aunknown device [^\n]*\Z") as failure:
        open_device(spec)
    assert repr(spec) in str(failure.value)
    assert "valid: auto, cuda:0, opencl:0, opencl:1, opencl:2" in str(failure.value)


def test_no_device_at_all_says_how_to_get_one(present: Callable[..., None]) -> None:
    present()
    with pytest.raises(UsageError, match=r"\Ano device: [^\n]*pyopencl\[pocl\][^\n]*\Z"):
        open_device("auto")


def test_the_real_list_is_cuda_then_opencl_and_every_name_opens() -> None:
    listed = all_devices.devices()
    assert [device.backend for device in listed] == sorted(device.backend for device in listed)
    assert len({device.spec for device in listed}) == len(listed)
    if not cuda.devices():
        with pytest.raises(UsageError, match="valid: auto"):
            open_device("cuda:0")


def test_the_host_cpu_is_opencls_or_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl, "devices", lambda: [CL_GPU, CL_CPU])
    assert all_devices.host_cpu() is CL_CPU
    monkeypatch.setattr(opencl, "devices", lambda: [CL_GPU])
    with pytest.raises(Unsupported, match="no OpenCL device for the CPU"):
        all_devices.host_cpu()


def test_a_slug_is_a_folder_name() -> None:
    assert CUDA_GPU.slug == "nvidia-h200"
    assert Named("opencl", 0, "cpu", " Intel(R) Xeon(R) CPU @ 2.20GHz ").slug == "intel-r-xeon-r-cpu-2-20ghz"
