"""What the default topology leaves at its defaults: kernel, queues, offloads, MTU, rate, names."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.guest.workloads import Iperf3Client, Iperf3Server
from lab.pytest_plugin import LabFactory
from lab.running import RunningLab
from tests.e2e import test_guest, test_qemu

RATE_MBIT = 50
TOPOLOGY = f"""
name: options
guests:
  old:
    image: debian-12
    memory: 512MiB
    nics:
      lan0: {{segment: lan, tso: false, gso: false, checksum: false}}
  new:
    image: debian-12
    kernel: "6.12"
    vcpus: 2
    memory: 512MiB
    scsi: {{hardware: virtio-scsi-pci, queues: 2}}
    root: {{cache: none, aio: native}}
    disks:
      a: {{size: 64MiB, cache: writeback}}
      b: {{size: 64MiB, cache: directsync}}
    nics:
      lan0: {{segment: lan, queues: 2, mtu: 1400}}
      lan1: {{segment: other, model: e1000e, mac: "52:54:00:aa:bb:cc"}}
segments:
  lan: {{mtu: 1500, rate: {RATE_MBIT}Mbit}}
  other: {{}}
"""


@pytest.fixture(scope="module")
def options(lab_factory: LabFactory, tmp_path_factory: pytest.TempPathFactory) -> RunningLab:
    path: Path = tmp_path_factory.mktemp("options") / "options.yaml"
    path.write_text(TOPOLOGY)
    return lab_factory(path)


def test_each_guest_runs_its_kernel(options: RunningLab) -> None:
    releases = {name: guest.host.check_output("uname -r") for name, guest in options.guests.items()}
    assert releases["old"].startswith("6.1.")
    assert releases["new"].startswith("6.12.")


@pytest.mark.parametrize("name", ["old", "new"])
def test_devices_are_as_written(options: RunningLab, name: str) -> None:
    guest = options.guest(name)
    test_guest.test_disks_sit_on_their_hbas_and_luns(guest)
    test_guest.test_nics(guest)
    test_guest.test_offloads(guest)
    test_guest.test_the_system_is_up_without_a_failed_unit(guest)
    test_guest.test_the_kernel_log_is_clean(guest)
    test_qemu.test_cache_modes(options, guest)
    test_qemu.test_aio_modes(guest)


def test_a_nic_has_its_queues(options: RunningLab) -> None:
    channels = options.guest("new").host.check_output("ethtool -l lan0")
    assert channels.split("Current hardware settings")[1].count("Combined:\t2") == 1


def test_models_have_their_drivers(options: RunningLab) -> None:
    guest = options.guest("new")
    for nic, driver in {"lan0": "virtio_net", "lan1": "e1000e"}.items():
        assert f"driver: {driver}" in guest.host.check_output(f"ethtool -i {nic}")


def test_the_segment_holds_its_rate_and_carries_it(options: RunningLab) -> None:
    old, new = options.guest("old"), options.guest("new")
    address = str(old.addresses["lan0"])
    with (
        old.agent() as there,
        new.agent() as here,
        there.start(Iperf3Server(address=address), deadline=options.scaled(15)) as listening,
    ):
        result = here.run(
            Iperf3Client(address=address, port=listening.port, runtime_s=4.0),
            deadline=options.scaled(15),
        )
    throughput = result["throughput"]
    assert throughput.unit == "Gbit/s"
    assert 0.5 * RATE_MBIT < throughput.value * 1000 < 1.1 * RATE_MBIT
