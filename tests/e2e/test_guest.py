"""What each guest itself sees is what the topology says."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from lab.plan import DiskPlan
from lab.running import RunningGuest, RunningLab


def block_devices(guest: RunningGuest) -> dict[str, dict[str, Any]]:
    """Serial -> what lsblk says of the disk."""
    listed = json.loads(
        guest.host.check_output(
            "lsblk --json --bytes --nodeps --output NAME,SERIAL,SIZE,ROTA,SCHED,HCTL,MOUNTPOINT"
        )
    )
    return {disk["serial"]: disk for disk in listed["blockdevices"]}


def host_number(hctl: str) -> str:
    return hctl.split(":")[0]


def test_disks_have_their_names_and_sizes(guest: RunningGuest) -> None:
    seen = block_devices(guest)
    assert set(seen) == {disk.serial for disk in guest.plan.disks}
    for name, disk in guest.plan.spec.disks.items():
        assert seen[name]["size"] == disk.size


def test_disks_sit_on_their_hbas_and_luns(guest: RunningGuest) -> None:
    seen = block_devices(guest)
    by_hba: dict[int, list[DiskPlan]] = {}
    for disk in guest.plan.disks:
        by_hba.setdefault(disk.hba, []).append(disk)
    hosts = [
        {host_number(seen[disk.serial]["hctl"]) for disk in disks} for disks in by_hba.values()
    ]
    assert all(len(numbers) == 1 for numbers in hosts), "disks of one HBA are on several"
    assert len(set.union(*hosts)) == len(by_hba), "two HBAs are one in the guest"
    for disk in guest.plan.disks:
        assert int(seen[disk.serial]["hctl"].rsplit(":", 1)[1]) == disk.lun


def test_request_queues(guest: RunningGuest) -> None:
    seen = block_devices(guest)
    for disk in guest.plan.data_disks:
        queues = guest.plan.hbas[disk.hba].queues
        if queues:
            path = f"/sys/block/{seen[disk.serial]['name']}/mq"
            assert int(guest.host.check_output(f"ls {path} | wc -l")) == queues


def test_nics(guest: RunningGuest) -> None:
    for nic in guest.plan.nics:
        interface = guest.host.interface(nic.name)
        assert interface.exists
        assert str(nic.address.ip) in interface.addresses
        sysfs = f"/sys/class/net/{nic.name}"
        assert int(guest.host.file(f"{sysfs}/mtu").content_string) == nic.mtu
        assert guest.host.file(f"{sysfs}/address").content_string.strip() == nic.mac
        assert guest.host.file(f"{sysfs}/operstate").content_string.strip() in ("up", "unknown")


def test_offloads(guest: RunningGuest) -> None:
    for nic in guest.plan.nics:
        spec = guest.plan.spec.nics[nic.name]
        features = guest.host.check_output(f"ethtool -k {nic.name}")
        for feature, wanted in {
            "tcp-segmentation-offload": spec.tso,
            "generic-segmentation-offload": spec.gso,
            "tx-checksumming": spec.checksum,
        }.items():
            assert f"{feature}: {'on' if wanted else 'off'}" in features


def test_rdma_devices(guest: RunningGuest) -> None:
    links = {
        link["ifname"]: link
        for link in json.loads(guest.host.check_output("rdma -j link show") or "[]")
    }
    assert set(links) == set(guest.plan.spec.rdma)
    for name, rdma in guest.plan.spec.rdma.items():
        assert links[name]["state"] == "ACTIVE"
        assert links[name]["netdev"] == rdma.nic


def test_vcpus_and_memory(guest: RunningGuest) -> None:
    assert int(guest.host.check_output("nproc")) == guest.plan.spec.vcpus
    total_kib = int(guest.host.check_output("awk '/MemTotal/ {print $2}' /proc/meminfo"))
    assert 0.8 < total_kib * 1024 / guest.plan.spec.memory <= 1


def test_the_system_is_up_without_a_failed_unit(guest: RunningGuest) -> None:
    assert guest.host.check_output("systemctl list-units --failed --plain --no-legend") == ""
    assert guest.host.check_output("cat /proc/1/comm") == "systemd"


BENIGN = {
    r"sd \d+:0:0:\d+: Power-on or device reset occurred": "QEMU's answer to a disk's first command",
    r"lan\d speed is unknown, defaulting to 1000": "rxe asks virtio-net, which has no speed",
    r"Unstable clock detected, switching|If you want to keep|trace_clock=|on the kernel command": (
        "qemu64 has no invariant TSC"
    ),
    r"mtrr: your CPUs had inconsistent": "QEMU starts a second vCPU without firmware's MTRRs",
    r"clocksource: ": "the TSCs of emulated vCPUs drift, and the kernel stops using them",
    r"tsc: Unable to calibrate|APIC calibration not consistent|hpet: Lost \d+ RTC interrupts": (
        "an emulated timer that the host was late to serve"
    ),
}


def test_the_kernel_log_is_clean(guest: RunningGuest) -> None:
    said = guest.host.check_output("dmesg --level=emerg,alert,crit,err,warn").splitlines()
    assert [line for line in said if not re.search("|".join(BENIGN), line)] == []


def test_guests_reach_each_other_and_nothing_else(
    client: RunningGuest, server: RunningGuest
) -> None:
    peer = server.addresses["lan0"]
    # A full jumbo frame, not to be fragmented: the segment really has its MTU.
    payload = server.plan.nics[0].mtu - 28
    assert client.host.run(f"ping -c 1 -W 5 -M do -s {payload} {peer}").rc == 0
    assert client.host.run("ip route show default").stdout == ""
    # QEMU's user network has the host's loopback at this address unless it is restricted.
    probe = f"timeout 3 bash -c 'echo > /dev/tcp/10.0.2.2/{client.target.port}'"
    assert client.host.run(probe).rc != 0


@pytest.mark.parametrize("module", ["virtio_rng", "pvpanic_pci", "virtio_console"])
def test_devices_for_control_have_drivers(guest: RunningGuest, module: str) -> None:
    if module == "pvpanic_pci":
        module = "pvpanic_mmio"
    assert guest.host.run(f"test -d /sys/module/{module}").rc == 0


def test_the_lab_knows_its_fidelity(lab: RunningLab) -> None:
    assert lab.accelerator in ("kvm", "tcg")
    assert lab.record.accelerator_reason
