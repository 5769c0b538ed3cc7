"""Device of a variant, keys that identify a measurement, and the A/A control of a case."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..devices import find, provenance
from ..devices.backends import HOST, X86_INSTRUCTIONS, label
from ..devices.contract import Device, Unsupported
from ..peers import threads
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..spec.source import TextError
from ..store.identity import cell_key, env_key
from .policy import Policy


@dataclass(frozen=True)
class Setting:
    """Case of a lab, device and policy: common to all variants that are measured together."""

    lab: Lab
    case: Case
    device: Device
    policy: Policy


class Target(NamedTuple):
    """Device and backend of a row; the backend is `host` for a program that runs without one."""

    device: Device
    backend: str


def target_of(variant: Variant, device: Device) -> Target | None:
    """Return the device and backend of `variant` when its lab runs on `device`; None if it cannot run.

    Host programs, and kernels whose options choose the host, run on the machine's CPU, wherever the lab runs.
    """
    try:
        if HOST in variant.backends:
            return Target(find.host_cpu(), HOST)
        if variant.options.get("device") == "host":
            cpu = find.host_cpu()
            return Target(cpu, cpu.backend)
    except Unsupported:
        return None
    if not variant.is_for(device.backend, device.kind) or lacking_instructions(variant, device):
        return None
    if getattr(device, "architecture", variant.architectures.start) not in variant.architectures:
        return None
    if variant.options.get("devices", 1) > getattr(device, "alike", 1) and not variant.options.get("overlapping"):
        return None
    return Target(device, device.backend)


def why_not(lab: Lab, case: Case, variant: Variant, device: Device) -> str:
    """Return why a variant does not run on a case and a device; '' if it does."""
    target = target_of(variant, device)
    if target is None or target.device is not device:
        if variant.kind and variant.kind != device.kind:
            return f"it is for a {variant.kind.upper()}, and {device.spec} is a {device.kind.upper()}"
        lacking = variant.lacking(device.backend)
        return f"{label(device.backend)} lacks: {lacking}" if lacking else f"not on {device.spec}"
    return lab.skip_reason(variant, case) or ""


def lacking_instructions(variant: Variant, device: Device) -> str:
    """Return why a device does not run the x86 instructions in a variant's text; '' if it does, or the text has none."""
    reasons = (device.lacks_instructions(feature) for feature in sorted(variant.needs & X86_INSTRUCTIONS))
    return next(filter(None, reasons), "")


def compilers_of(variant: Variant) -> dict[str, str]:
    """Return the versions of the host compilers that build a variant's program, by name; empty for most variants."""
    compilers = getattr(variant.plan, "compilers", None)
    return dict(compilers(variant)) if compilers else {}


def environment(variant: Variant, target: Target) -> dict[str, Any]:
    """Return the fields of env_key: the device's environment, and the host compilers that build the variant's program."""
    compilers = compilers_of(variant)
    return {**provenance.environment(target.device), **({"compilers": compilers} if compilers else {})}


def key_without_compilers(target: Target) -> str:
    """Return the env_key without host compilers: rows measured before rows named compilers have it, and stay fresh."""
    return env_key(provenance.environment(target.device))


def wgsl_sha256(lab: Lab, case: Case, variant: Variant, target: Target) -> str:
    """Return the hash of the WGSL of a variant's kernel on a case: the translation can change while the source does not.

    Knobs that the plan sets for a device have their defaults in it. '' on a backend without a translator, and for a text that
    cannot be translated, whose measurement fails.
    """
    try:
        source = variant.source and variant.source.of_size(lab.sizes(case))
        return source.translation_sha256(target.backend) if source else ""
    except (TextError, Unsupported):
        return ""


def keys(setting: Setting, variant: Variant, target: Target, units: int, **details: str) -> tuple[str, str]:
    """Return (cell_key, env_key) of a measurement with today's code and machine.

    units: of one sample. details: more fields of cell_key, such as the tool that counts instead of timing.
    """
    wgsl = wgsl_sha256(setting.lab, setting.case, variant, target)
    cell = {
        "lab": setting.lab.name,
        "variant": variant.name,
        "case": {"name": setting.case.name, **setting.case.params},
        "units": units,
        "dtype": variant.dtype,
        **variant.fingerprint(),
        "backend": target.backend,
        "policy": setting.policy.identity(),
        "device": target.device.slug,
        **({"wgsl_sha256": wgsl} if wgsl else {}),
        **({"threads": "each bound to a processor"} if threads.are_bound(variant) else {}),
        **details,
    }
    return cell_key(cell), env_key(environment(variant, target))


def control_of(variants: Sequence[Variant]) -> Variant:
    """Return the A/A control, which is measured twice: the variant that is the parent of most others."""
    parents = [variant.parent for variant in variants]
    return max(variants, key=lambda variant: (parents.count(variant.name), -variants.index(variant)))
