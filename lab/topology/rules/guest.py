"""What a guest as a whole cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from lab.topology.model import MIB, Topology
from lab.topology.rules import Finding, Host, each_guest
from lab.units import format_bytes

MIN_MEMORY_BYTES = 128 * MIB


def enough_memory(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Catches slips such as 12MiB; a real guest wants more.

    The Debian 12 installation guide (section 3.4) asks for 512 MB where there is no desktop.
    """
    for loc, name, guest in each_guest(topology):
        if guest.memory < MIN_MEMORY_BYTES:
            yield Finding(
                (*loc, "memory"),
                f"guest `{name}` cannot boot in {format_bytes(guest.memory)}",
                f"at least {format_bytes(MIN_MEMORY_BYTES)}",
            )


def memory_in_mib(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """libvirt rounds memory to KiB and QEMU to pages (both silently): ask for what one gets.

    libvirt formatdomain, "Memory Allocation".
    """
    for loc, name, guest in each_guest(topology):
        if guest.memory % MIB:
            rounded = format_bytes(guest.memory // MIB * MIB + MIB)
            message = f"the memory of guest `{name}` is not a whole number of MiB"
            yield Finding((*loc, "memory"), message, f"such as {rounded}")


def hyperv_needs_kvm(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """QEMU implements the enlightenments in KVM alone (docs/system/i386/hyperv.rst)."""
    for loc, name, guest in each_guest(topology):
        if guest.hyperv and host and host.accelerator != "kvm":
            message = f"guest `{name}` wants Hyper-V enlightenments, which only KVM has"
            yield Finding((*loc, "hyperv"), message, "this host has TCG only: leave it out")


def host_cpu_needs_kvm(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """QEMU: "CPU model 'host' requires KVM or HVF" (target/i386/host-cpu.c)."""
    for loc, name, guest in each_guest(topology):
        if guest.cpu == "host" and host and host.accelerator != "kvm":
            message = f"guest `{name}` wants CPU model `host`, which only KVM has"
            yield Finding((*loc, "cpu"), message, "leave `cpu` out: the lab chooses by accelerator")


def guest_is_not_localhost(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Guests find each other by name, and this one means oneself (RFC 6761, section 6.3)."""
    for loc, name, _ in each_guest(topology):
        if name == "localhost":
            yield Finding(loc, "no guest can be called `localhost`", "choose another name")


RULES = (
    enough_memory,
    memory_in_mib,
    hyperv_needs_kvm,
    host_cpu_needs_kvm,
    guest_is_not_localhost,
)
