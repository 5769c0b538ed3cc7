"""One worker, one card: by UUID, whatever was preset, on a host whose cards are made up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.devices import nvml
from roofbook.errors import UsageError
from roofbook.measure import gpu_claim

CARDS = ["GPU-a1", "GPU-a2", "GPU-b3", "GPU-c4"]


@pytest.fixture(autouse=True)
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One with four cards."""
    monkeypatch.setattr(gpu_claim, "uuids", lambda: CARDS)
    for name in (gpu_claim.CUDA, gpu_claim.VARIABLE):
        monkeypatch.setenv(name, "")  # so that it is as before, when the test is over
        monkeypatch.delenv(name)
    yield
    for lock in gpu_claim._held:
        lock.close()
    gpu_claim._held.clear()


@pytest.mark.parametrize(
    ("preset", "left"),
    [
        (None, CARDS), ("", []), ("0", ["GPU-a1"]), ("3,0", ["GPU-c4", "GPU-a1"]), ("GPU-b", ["GPU-b3"]), ("GPU-a", []),
        ("1,9,0", ["GPU-a2"]), ("1,-1,0", ["GPU-a2"]), ("1, 1", ["GPU-a2"]), ("MIG-5e", ["MIG-5e"]),
    ],
)  # fmt: skip
def test_a_preset_list_of_cards_is_read_as_cuda_reads_it(preset: str | None, left: list[str]) -> None:
    assert gpu_claim.visible_cards(CARDS, preset) == left


def as_another_worker(folder: Path, preset: str | None) -> str:
    """Return the card that a new worker gets: its locks belong to another open file, as those of another process do."""
    os.environ.pop(gpu_claim.VARIABLE, None)
    os.environ.pop(gpu_claim.CUDA, None)
    if preset is not None:
        os.environ[gpu_claim.CUDA] = preset
    return gpu_claim.claim(folder)


def test_workers_that_may_all_see_the_first_card_get_one_each(tmp_path: Path) -> None:
    """Slurm presets the variable for a whole job, so without claims all ranks would take card 0."""
    cards = [as_another_worker(tmp_path, "0,1") for _ in range(3)]
    assert cards == ["GPU-a1", "GPU-a2", ""]
    assert os.environ[gpu_claim.CUDA] == "", "without a card of its own it sees none"
    assert as_another_worker(tmp_path, None) == "GPU-b3" == os.environ[gpu_claim.CUDA]
    assert gpu_claim.claim(tmp_path) == "GPU-b3", "asked again, it keeps the one that it has"


DRIVER = """
class NVMLError(Exception):
    pass

def nvmlInit():
    pass

def nvmlDeviceGetCount():
    return 2

def nvmlDeviceGetHandleByIndex(at):
    return at

def nvmlDeviceGetUUID(at):
    return ["GPU-a1", "GPU-b2"][at]
"""


def test_processes_that_start_at_once_have_a_card_each_and_one_too_many_has_none(tmp_path: Path) -> None:
    """Real processes, under a driver that is made up; as Slurm starts them, with one preset for all."""
    import subprocess
    import sys

    (tmp_path / "pynvml.py").write_text(DRIVER)
    code = (
        "import os, sys; from pathlib import Path; from roofbook.measure.gpu_claim import claim\n"
        "print(claim(Path(sys.argv[1])), os.environ['CUDA_VISIBLE_DEVICES'], flush=True); sys.stdin.read()"
    )
    search_path = [str(tmp_path), str(Path(gpu_claim.__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search_path), "CUDA_VISIBLE_DEVICES": "0,1"}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], env=environment, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in range(3)
    ]  # fmt: skip
    cards = [worker.stdout.readline().split() for worker in workers if worker.stdout]
    for worker in workers:
        worker.communicate("")
    assert sorted(cards) == [[], ["GPU-a1", "GPU-a1"], ["GPU-b2", "GPU-b2"]]


def test_a_worker_that_ends_leaves_its_card_to_the_next(tmp_path: Path) -> None:
    assert as_another_worker(tmp_path, "2") == "GPU-b3"
    assert as_another_worker(tmp_path, "2") == ""
    gpu_claim._held.pop().close()
    assert as_another_worker(tmp_path, "2") == "GPU-b3"


def test_a_host_without_cards_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_claim, "uuids", list)
    assert as_another_worker(tmp_path, None) == "" and gpu_claim.CUDA not in os.environ
    gpu_claim.check_device(device("gpu"))


def device(kind: str) -> Any:
    return SimpleNamespace(kind=kind, pci_bus_id="0000:01:00.0", spec="cuda:0")


@pytest.mark.parametrize(
    ("card", "seen", "message"),
    [
        ("GPU-b3", "GPU-b3", None),
        ("GPU-b3", "GPU-a1", "was given the card GPU-b3, but cuda:0 is GPU-a1"),
        ("GPU-b3", None, "but cuda:0 is one that NVML does not know"),
        ("", "GPU-a1", "other workers of this host have all cards"),
        ("MIG-5e", "GPU-a1", None),
    ],
)
def test_a_worker_measures_on_the_card_that_it_claimed(
    monkeypatch: pytest.MonkeyPatch, card: str, seen: str | None, message: str | None
) -> None:
    monkeypatch.setenv(gpu_claim.VARIABLE, card)
    monkeypatch.setattr(gpu_claim, "card", lambda bus: SimpleNamespace(facts=lambda: seen and {"uuid": seen}))
    gpu_claim.check_device(device("cpu"))
    if message is None:
        gpu_claim.check_device(device("gpu"))
    else:
        with pytest.raises(UsageError, match=message):
            gpu_claim.check_device(device("gpu"))


def test_the_cards_of_a_host_are_as_nvml_lists_them(monkeypatch: pytest.MonkeyPatch) -> None:
    class NVMLError(Exception):
        pass

    fake = SimpleNamespace(
        NVMLError=NVMLError, nvmlInit=lambda: None, nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda at: at, nvmlDeviceGetUUID=lambda at: [b"GPU-a1", "GPU-a2"][at],
    )  # fmt: skip
    monkeypatch.setitem(__import__("sys").modules, "pynvml", fake)
    assert nvml.uuids() == ["GPU-a1", "GPU-a2"]

    def refuse() -> None:
        raise NVMLError

    fake.nvmlInit = refuse
    assert nvml.uuids() == []
