"""Facts of a host: read from a made-up system, so that each fact and each lack of one is seen."""

from pathlib import Path

import pytest

from roofbook.devices import machine

CPUINFO = """processor\t: {at}
cpu family\t: 6
model\t\t: {model}
model name\t: Some Processor
stepping\t: 2
physical id\t: {at}
flags\t\t: fpu sse4_2 avx2 avx512f amx_tile hypervisor{more}

"""


def system(
    root: Path, *, model: int = 207, sockets: int = 2, further_flags: str = "", machine_id: str = "0" * 31 + "1"
) -> Path:
    files = {
        "proc/cpuinfo": "".join(CPUINFO.format(at=at, model=model, more=further_flags) for at in range(sockets)),
        "proc/self/cgroup": "0::/jobs/mine\n",
        "sys/fs/cgroup/jobs/cpu.max": "150000 100000\n",
        "sys/fs/cgroup/jobs/mine/cpu.max": "max 100000\n",
        "sys/devices/system/node/node0/cpulist": "0\n",
        "sys/devices/system/node/node1/cpulist": "1\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq": "800000\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq": "3500000\n",
        "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "etc/machine-id": machine_id + "\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_all_that_a_system_tells(tmp_path: Path) -> None:
    facts = machine.facts(system(tmp_path))
    assert (facts["cpu"], facts["cpu_id"]) == ("Some Processor", "family 6, model 207, stepping 2")
    assert facts["cpu_simd"] == ["amx_tile", "avx2", "avx512f", "sse4_2"] and len(facts["cpu_flags"]) == 12
    assert (facts["sockets"], facts["numa_nodes"], facts["hypervisor"]) == (2, 2, True)
    assert (facts["governor"], facts["cpu_mhz_limits"], facts["boost"]) == ("performance", [800.0, 3500.0], False)
    assert facts["cpu_quota"] == 1.5, "that of the group around its own"


def test_what_a_system_does_not_tell_is_null(tmp_path: Path) -> None:
    facts = machine.facts(tmp_path)
    unknown = ("cpu_id", "cpu_simd", "cpu_flags", "sockets", "numa_nodes", "hypervisor", "governor", "cpu_mhz_limits")
    assert [facts[name] for name in (*unknown, "boost", "cpu_quota")] == [None] * 10
    assert facts["machine"], "of what is known"


def test_a_quota_of_the_first_version_of_control_groups(tmp_path: Path) -> None:
    for name, text in (("cfs_quota_us", "400000"), ("cfs_period_us", "100000")):
        (tmp_path / "sys/fs/cgroup/cpu").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"sys/fs/cgroup/cpu/cpu.{name}").write_text(text)
    assert machine.facts(tmp_path)["cpu_quota"] == 4.0
    (tmp_path / "sys/fs/cgroup/cpu/cpu.cfs_quota_us").write_text("-1")
    assert machine.facts(tmp_path)["cpu_quota"] is None, "no limit"


@pytest.mark.parametrize(
    "change",
    [{"model": 143}, {"sockets": 1}, {"further_flags": " avx512_fp16"}, {"machine_id": "0" * 31 + "2"}],
    ids=["model", "sockets", "vector instructions", "installation"],
)
def test_two_machines_with_a_processor_of_one_name_are_told_apart(tmp_path: Path, change: dict[str, object]) -> None:
    one = machine.facts(system(tmp_path / "one"))
    two = machine.facts(system(tmp_path / "two", **change))  # type: ignore[arg-type]
    assert one["cpu"] == two["cpu"] and one["machine"] != two["machine"]


def test_a_machine_is_the_same_after_an_update_of_its_kernel_and_without_a_machine_id(tmp_path: Path) -> None:
    one = machine.facts(system(tmp_path / "one"))
    newer = machine.facts(system(tmp_path / "newer", further_flags=" ibrs_enhanced"))
    assert one["machine"] == newer["machine"] and one["cpu_flags"] != newer["cpu_flags"]
    nameless = {
        machine.facts(system(tmp_path / id, machine_id=id))["machine"] for id in ("", "uninitialized", "0" * 32)
    }
    assert len(nameless) == 1 and one["machine"] not in nameless


def test_the_machine_id_itself_is_in_no_fact(tmp_path: Path) -> None:
    secret = "fedcba9876543210fedcba9876543210"
    facts = str(machine.facts(system(tmp_path, machine_id=secret)))
    assert not any(secret[at : at + 8] in facts for at in range(25))
