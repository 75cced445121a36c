"""A guest as libvirt domain XML. Pure: the same plan always renders to the same text.

Sources: libvirt's "Domain XML format" manual; QEMU's invocation manual for what libvirt 9 cannot
say (the management NIC with a restricted user network and a forwarded port).
"""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.images.image import GuestImage
from lab.plan import DiskPlan, GuestPlan, HbaPlan, Identity, NicPlan
from lab.topology.model import Disk

QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
LAB_NAMESPACE = "urn:qemu-lab:1"

# Slots of pcie.0 that libvirt, which fills from 1 upwards, does not reach on its own.
MANAGEMENT_NIC_SLOT = 0x1D

# glibc and the kernel pick AVX code where the model has it, and TCG emulates that slowly.
TCG_CPU = "qemu64"


@dataclass(frozen=True)
class DirectBoot:
    """Kernel, initramfs (with the guest's seed behind it) and command line."""

    kernel: Path
    initrd: Path
    cmdline: tuple[str, ...]


@dataclass(frozen=True)
class DiskBoot:
    """The image's own boot loader, with a NoCloud ISO beside the root disk."""

    seed_iso: Path


@dataclass(frozen=True)
class Machine:
    """What the host decides: the accelerator and how segments reach the guest.

    `fabric` "namespace" gives each NIC a tap; "sockets" a UNIX datagram socket (rootless).
    """

    accelerator: Literal["kvm", "tcg"]
    fabric: Literal["namespace", "sockets"]
    vhost: bool


def render(
    guest: GuestPlan,
    identity: Identity,
    image: GuestImage,
    boot: DirectBoot | DiskBoot,
    host: Machine,
) -> str:
    """The domain XML of `guest`, indented, ending with a newline."""
    # Children in libvirt's qemu namespace need their prefix declared on the root element.
    ET.register_namespace("qemu", QEMU_NAMESPACE)
    ET.register_namespace("lab", LAB_NAMESPACE)
    domain = ET.Element("domain", type="kvm" if host.accelerator == "kvm" else "qemu")
    _text(domain, "name", guest.domain)
    _text(domain, "uuid", str(guest.uuid))
    _text(domain, "genid", str(uuid.uuid5(guest.uuid, "generation")))
    ET.SubElement(
        ET.SubElement(domain, "metadata"),
        f"{{{LAB_NAMESPACE}}}guest",
        {"lab": identity.name, "id": identity.id, "name": guest.name},
    )
    _text(domain, "memory", str(guest.spec.memory), unit="bytes")
    _vcpus(domain, guest, host)
    if guest.iothreads:
        _text(domain, "iothreads", str(guest.iothreads))
    _os(domain, boot)
    _features(domain, guest)
    _cpu(domain, guest, host)
    ET.SubElement(domain, "clock", offset="utc")
    _text(domain, "on_poweroff", "destroy")
    _text(domain, "on_reboot", "restart")
    # A panicked guest stays for its evidence to be taken.
    _text(domain, "on_crash", "preserve")
    _devices(domain, guest, image, boot, host)
    _command_line(domain, guest, boot, host)
    ET.indent(domain)
    return ET.tostring(domain, encoding="unicode") + "\n"


def _text(parent: ET.Element, tag: str, text: str, **attributes: str) -> None:
    ET.SubElement(parent, tag, attributes).text = text


def _vcpus(domain: ET.Element, guest: GuestPlan, host: Machine) -> None:
    count = guest.spec.vcpus
    if host.accelerator == "tcg" and count == 1:
        # A TCG that can only ever have one vCPU leaves the guest's memory barriers out (QEMU's
        # tcg_cpu_init_cflags: CF_PARALLEL needs max_cpus > 1), though iothreads share its memory:
        # the guest then loses virtio interrupts. Room for a second vCPU brings them back.
        _text(domain, "vcpu", "2", current="1")
    else:
        _text(domain, "vcpu", str(count))


def _os(domain: ET.Element, boot: DirectBoot | DiskBoot) -> None:
    os = ET.SubElement(domain, "os")
    _text(os, "type", "hvm", arch="x86_64", machine="q35")
    if isinstance(boot, DirectBoot):
        _text(os, "kernel", str(boot.kernel))
        _text(os, "initrd", str(boot.initrd))
        _text(os, "cmdline", " ".join(boot.cmdline))
    else:
        ET.SubElement(os, "boot", dev="hd")


def _features(domain: ET.Element, guest: GuestPlan) -> None:
    features = ET.SubElement(domain, "features")
    ET.SubElement(features, "acpi")
    ET.SubElement(features, "apic")
    if guest.spec.hyperv:
        # The set Hyper-V's own guests rely on; each needs those before it.
        hyperv = ET.SubElement(features, "hyperv", mode="custom")
        for name in ("relaxed", "vapic"):
            ET.SubElement(hyperv, name, state="on")
        ET.SubElement(hyperv, "spinlocks", state="on", retries="8191")
        for name in ("vpindex", "runtime", "synic", "stimer", "frequencies"):
            ET.SubElement(hyperv, name, state="on")


def _cpu(domain: ET.Element, guest: GuestPlan, host: Machine) -> None:
    model = guest.spec.cpu or ("host" if host.accelerator == "kvm" else TCG_CPU)
    if model == "host":
        ET.SubElement(domain, "cpu", mode="host-passthrough", check="none")
    elif model == "max":
        ET.SubElement(domain, "cpu", mode="maximum", check="none")
    else:
        cpu = ET.SubElement(domain, "cpu", mode="custom", match="exact", check="none")
        _text(cpu, "model", model, fallback="forbid")


def _devices(
    domain: ET.Element,
    guest: GuestPlan,
    image: GuestImage,
    boot: DirectBoot | DiskBoot,
    host: Machine,
) -> None:
    devices = ET.SubElement(domain, "devices")
    for disk in guest.disks:
        _disk(devices, disk, image if disk is guest.root_disk else None)
    if isinstance(boot, DiskBoot):
        _seed_iso(devices, guest, boot)
    for hba in guest.hbas:
        _hba(devices, hba)
    ET.SubElement(devices, "controller", type="usb", model="none")
    if host.fabric == "namespace":
        for nic in guest.nics:
            _tap_interface(devices, guest, nic, host)
    _console(devices, guest)
    channel = ET.SubElement(devices, "channel", type="unix")
    if host.fabric == "sockets":
        # libvirt's own place for it, below ~/.config, is too long a path for most users' names.
        ET.SubElement(channel, "source", mode="bind", path=str(guest.agent_socket))
    ET.SubElement(channel, "target", type="virtio", name="org.qemu.guest_agent.0")
    rng = ET.SubElement(devices, "rng", model="virtio")
    _text(rng, "backend", "/dev/urandom", model="random")
    ET.SubElement(devices, "panic", model="isa")
    ET.SubElement(devices, "memballoon", model="none")


def _disk(devices: ET.Element, disk: DiskPlan, backing: GuestImage | None) -> None:
    spec = disk.spec
    element = ET.SubElement(devices, "disk", type="file", device="disk")
    driver = ET.SubElement(
        element,
        "driver",
        name="qemu",
        type="raw" if disk.path.suffix == ".raw" else "qcow2",
        cache=str(spec.cache),
        io=str(spec.aio),
    )
    if isinstance(spec, Disk):
        driver.set("discard", spec.discard)
    ET.SubElement(element, "source", file=str(disk.path))
    if backing:
        store = ET.SubElement(element, "backingStore", type="file")
        ET.SubElement(store, "format", type=backing.root_format)
        source = ET.SubElement(store, "source", file=str(backing.root))
        # libvirt would give the image to the user QEMU runs as, and it may be a user's own file.
        ET.SubElement(source, "seclabel", model="dac", relabel="no")
    ET.SubElement(element, "target", dev=disk.target, bus="scsi")
    _text(element, "serial", disk.serial)
    _scsi_address(element, disk.hba, disk.lun)


def _scsi_address(element: ET.Element, hba: int, lun: int) -> None:
    ET.SubElement(
        element, "address", type="drive", controller=str(hba), bus="0", target="0", unit=str(lun)
    )


def _seed_iso(devices: ET.Element, guest: GuestPlan, boot: DiskBoot) -> None:
    """A CD-ROM beside the root disk, on its HBA: kernels for clouds have no AHCI driver."""
    element = ET.SubElement(devices, "disk", type="file", device="cdrom")
    ET.SubElement(element, "driver", name="qemu", type="raw")
    ET.SubElement(element, "source", file=str(boot.seed_iso))
    ET.SubElement(element, "target", dev="sdza", bus="scsi")
    ET.SubElement(element, "readonly")
    _scsi_address(element, guest.root_disk.hba, guest.root_disk.lun + 1)


def _hba(devices: ET.Element, hba: HbaPlan) -> None:
    controller = ET.SubElement(
        devices, "controller", type="scsi", index=str(hba.index), model="virtio-scsi"
    )
    driver = {}
    if hba.queues:
        driver["queues"] = str(hba.queues)
    if hba.iothread:
        driver["iothread"] = str(hba.iothread)
    if driver:
        ET.SubElement(controller, "driver", driver)


def _tap_interface(devices: ET.Element, guest: GuestPlan, nic: NicPlan, host: Machine) -> None:
    spec = guest.spec.nics[nic.name]
    interface = ET.SubElement(devices, "interface", type="ethernet")
    ET.SubElement(interface, "mac", address=nic.mac)
    ET.SubElement(interface, "target", dev=nic.tap, managed="no")
    ET.SubElement(interface, "model", type=spec.model)
    if spec.model == "virtio":
        driver = {"name": "vhost" if host.vhost else "qemu"}
        if spec.queues > 1:
            driver["queues"] = str(spec.queues)
        ET.SubElement(interface, "driver", driver)
        ET.SubElement(interface, "mtu", size=str(nic.mtu))
    # No boot ROM: nothing boots from a data NIC.
    ET.SubElement(interface, "rom", enabled="no")


def _console(devices: ET.Element, guest: GuestPlan) -> None:
    # QEMU itself writes the log, from the first byte and whether or not anyone is attached.
    serial = ET.SubElement(devices, "serial", type="pty")
    ET.SubElement(serial, "log", file=str(guest.console_log), append="on")
    ET.SubElement(serial, "target", type="isa-serial", port="0")
    console = ET.SubElement(devices, "console", type="pty")
    ET.SubElement(console, "target", type="serial", port="0")


def _command_line(
    domain: ET.Element, guest: GuestPlan, boot: DirectBoot | DiskBoot, host: Machine
) -> None:
    """What libvirt 9 has no element for: management NIC, datagram sockets, ring features."""
    arguments = [
        "-netdev",
        f"user,id=management,restrict=on,hostfwd=tcp:127.0.0.1:{guest.ssh_port}-:22",
        "-device",
        f"virtio-net-pci,netdev=management,mac={guest.management_mac},"
        f"bus=pcie.0,addr={MANAGEMENT_NIC_SLOT:#x},romfile=",
    ]
    if not guest.spec.scsi.event_idx:
        arguments += ["-global", "virtio-scsi-pci.event_idx=off"]
    if isinstance(boot, DiskBoot):
        # The firmware, and a boot loader that speaks through it, write to the serial console.
        arguments += ["-machine", "graphics=off"]
    if host.fabric == "sockets":
        for index, nic in enumerate(guest.nics):
            arguments += _socket_nic(guest, nic, slot=MANAGEMENT_NIC_SLOT - 1 - index)
    commandline = ET.SubElement(domain, f"{{{QEMU_NAMESPACE}}}commandline")
    for argument in arguments:
        ET.SubElement(commandline, f"{{{QEMU_NAMESPACE}}}arg", value=argument)


def _socket_nic(guest: GuestPlan, nic: NicPlan, *, slot: int) -> list[str]:
    spec = guest.spec.nics[nic.name]
    device = "virtio-net-pci" if spec.model == "virtio" else spec.model
    mtu = f",host_mtu={nic.mtu}" if spec.model == "virtio" else ""
    assert nic.sockets, "lint refuses a rootless segment without exactly two NICs"
    local, remote = nic.sockets
    return [
        "-netdev",
        f"dgram,id={nic.name},local.type=unix,local.path={local},"
        f"remote.type=unix,remote.path={remote}",
        "-device",
        f"{device},netdev={nic.name},mac={nic.mac},bus=pcie.0,addr={slot:#x},romfile={mtu}",
    ]
