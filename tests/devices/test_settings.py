"""Variables that change compiled code or how it runs are part of a key and of a row; others are not."""

import pytest

from roofbook.devices import provenance, settings
from roofbook.store.identity import env_key


class Fake:
    def __init__(self, backend: str, kind: str) -> None:
        self.backend, self.kind = backend, kind

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in settings.of_device("opencl", "cpu") | settings.of_device("cuda", "gpu"):
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("backend", "kind", "name"),
    [
        *(("opencl", "cpu", name) for name in (
            "PYOPENCL_BUILD_OPTIONS", "POCL_WORK_GROUP_METHOD", "POCL_MAX_CU_COUNT", "POCL_CPU_MAX_CU_COUNT",
            "POCL_EXTRA_BUILD_FLAGS", "CL_CONFIG_CPU_VECTORIZER_MODE", "OPENCL_LAYERS", "OMP_THREAD_LIMIT", "OMP_NUM_THREADS",
            "OMP_SCHEDULE", "GOMP_CPU_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS", "OPENBLAS_CORETYPE", "GLIBC_TUNABLES",
            "MALLOC_ARENA_MAX", "LD_PRELOAD", "GHCRTS", "XLA_FLAGS",
        )),
        *(("cuda", "gpu", name) for name in (
            "CUPY_TF32", "CUPY_ACCELERATORS", "CUDA_LAUNCH_BLOCKING", "CUDA_FORCE_PTX_JIT", "NVIDIA_TF32_OVERRIDE",
            "CUBLAS_WORKSPACE_CONFIG", "NVRTC_DISABLE_CONCURRENT_NVVM", "CUDA_DEVICE_MAX_CONNECTIONS", "NCCL_ALGO",
            "LD_PRELOAD", "TRITON_DEFAULT_FP_FUSION", "DISABLE_PTXAS_OPT", "CUTE_DSL_KEEP", "NUMBA_OPT",
        )),
        ("opencl", "gpu", "PYOPENCL_BUILD_OPTIONS"),
    ],
)  # fmt: skip
def test_what_changes_a_kernel_or_its_run_is_part_of_the_key(
    backend: str, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = Fake(backend, kind)
    before = provenance.environment(device)
    assert "settings" not in before, "rows without such variables keep their keys"
    keys = {env_key(before)}
    for value in ("1", "2"):
        monkeypatch.setenv(name, value)
        now = provenance.environment(device)
        assert now["settings"] == {name: value} and name in (provenance.difference(before, now) or "")
        keys.add(env_key(now))
    assert len(keys) == 3
    monkeypatch.setenv(name, "")
    assert provenance.environment(device) == before, "empty is unset"


@pytest.mark.parametrize(
    "name",
    [
        "POCL_CACHE_DIR", "POCL_DEBUG", "POCL_AFFINITY", "PYOPENCL_CTX", "PYOPENCL_COMPILER_OUTPUT", "OCL_ICD_VENDORS",
        "CUDA_HOME",
        "CUDA_VISIBLE_DEVICES", "CUDA_VERSION", "CUDA_CACHE_PATH", "CUPY_CACHE_DIR", "NCCL_VERSION", "NCCL_NVLS_ENABLE",
        "TORCH_SYMM_MEM_DISABLE_MULTICAST",
        "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR",
        "OMP_DISPLAY_ENV", "TORCH_HOME", "XLA_PYTHON_CLIENT_PREALLOCATE", "MKL_VERBOSE", "PATH", "HOME",
    ],
)  # fmt: skip
def test_where_things_lie_and_what_is_printed_is_not(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    for backend, kind in (("opencl", "cpu"), ("cuda", "gpu")):
        assert "settings" not in provenance.environment(Fake(backend, kind))


def test_what_we_set_ourselves_is_not_another_values_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "4")
    assert not settings.of_device("opencl", "cpu")
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "20")
    assert settings.of_device("opencl", "cpu") == {"OPENBLAS_THREAD_TIMEOUT": "20"}


def test_what_is_published_names_no_folder_and_still_tells_values_apart() -> None:
    values = [
        "/home/me/lib/libjemalloc.so.2",
        "/home/you/lib/libjemalloc.so.2",
        "-I /home/me/include -DX=/home/me/y",
        "me@host",
    ]
    published = [settings.published(value) for value in values]
    assert len(set(published)) == len(values)
    assert not any(word in " ".join(published) for word in ("home", "/", "me@"))
    assert published[0].startswith("libjemalloc.so.2 (")
    assert settings.published("-cl-opt-disable -DN=4") == "-cl-opt-disable -DN=4"
    assert len(settings.published("x" * 10_000)) < 200
