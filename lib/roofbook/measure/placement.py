"""Where a variant runs, what tells its measurement from every other, and which variant is the A/A control of a case."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..devices import find, provenance
from ..devices.backends import HOST
from ..devices.contract import Device, Unsupported
from ..peers import threads
from ..spec.lab import Case, Lab, Variant
from ..store.identity import cell_key, env_key
from .policy import Policy


@dataclass(frozen=True)
class Setting:
    """A case of a lab on a device by a policy: what the variants that are measured side by side have in common."""

    lab: Lab
    case: Case
    device: Device
    policy: Policy


class Target(NamedTuple):
    """A device, and the backend that a row names: `host` for a program that no backend runs."""

    device: Device
    backend: str


def target_of(variant: Variant, device: Device) -> Target | None:
    """Where `variant` runs when its lab runs on `device`; None where it cannot.

    Programs of the host and a kernel of one work-item run on the CPU of the machine, wherever the lab runs.
    """
    try:
        if HOST in variant.backends:
            return Target(find.host_cpu(), HOST)
        if variant.options.get("device") == "host":
            cpu = find.host_cpu()
            return Target(cpu, cpu.backend)
    except Unsupported:
        return None
    if not variant.is_for(device.backend, device.kind):
        return None
    if getattr(device, "architecture", variant.architectures.start) not in variant.architectures:
        return None
    if variant.options.get("devices", 1) > getattr(device, "alike", 1) and not variant.options.get("overlapping"):
        return None
    return Target(device, device.backend)


def compilers_of(variant: Variant) -> dict[str, str]:
    """Return the host's compilers that make a variant's program, with their versions; none for most."""
    compilers = getattr(variant.plan, "compilers", None)
    return dict(compilers(variant)) if compilers else {}


def environment(variant: Variant, target: Target) -> dict[str, Any]:
    """Return what env_key is made of: the device's environment, and the host's compilers that make the variant's program."""
    named = compilers_of(variant)
    return {**provenance.environment(target.device), **({"compilers": named} if named else {})}


def key_without_compilers(target: Target) -> str:
    """Return the env_key of rows that were measured before rows named their compilers: they stay fresh."""
    return env_key(provenance.environment(target.device))


def keys(at: Setting, variant: Variant, target: Target, units: int, **more: str) -> tuple[str, str]:
    """(cell_key, env_key) of a measurement as the code and the machine are now.

    units: of one sample. more: what else tells it from a timed one, such as the tool that counts.
    """
    cell = {
        "lab": at.lab.name,
        "variant": variant.name,
        "case": {"name": at.case.name, **at.case.params},
        "units": units,
        "dtype": variant.dtype,
        **variant.fingerprint(),
        "backend": target.backend,
        "policy": at.policy.identity(),
        "device": target.device.slug,
        **({"threads": "each bound to a processor"} if threads.are_bound(variant) else {}),
        **more,
    }
    return cell_key(cell), env_key(environment(variant, target))


def control_of(variants: Sequence[Variant]) -> Variant:
    """The A/A control, which is measured twice: the variant that most others are compared with."""
    parents = [variant.parent for variant in variants]
    return max(variants, key=lambda variant: (parents.count(variant.name), -variants.index(variant)))
