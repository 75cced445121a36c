"""Each rule of lint: what it refuses, where, and the nearest thing that it lets pass."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from lab.topology import lint as lint_module
from lab.topology.lint import check, lint
from lab.topology.load import load, parse
from lab.topology.problem import Problem, TopologyError
from lab.topology.rules import experiments

TOPOLOGIES = Path(__file__).parents[2] / "topologies"


@dataclass(frozen=True)
class Host:
    accelerator: Literal["kvm", "tcg"] = "kvm"
    io_uring: bool = True
    fabric: Literal["namespace", "sockets"] = "namespace"


def linted(text: str, host: Host | None = None) -> list[Problem]:
    return lint(parse(text, Path("t.yaml")), host)


def guest(body: str, *, segments: str = "{}") -> str:
    return f"name: t\nguests:\n  a: {{{body}}}\nsegments: {segments}\n"


def lan(body: str, *, vcpus: int = 1, segment: str = "{}", rdma: str = "{}") -> str:
    """A guest with one NIC `n` on segment `lan`: `body` are its other settings."""
    return guest(
        f"vcpus: {vcpus}, nics: {{n: {{segment: lan, {body}}}}}, rdma: {rdma}",
        segments=f"{{lan: {segment}}}",
    )


SCSI_PCI = "scsi: {hardware: virtio-scsi-pci}"
DISK = "size: 1GiB"

# What is refused (with words of the message), beside what is not.
STORAGE = {
    "iothread_needs_own_hba": [
        (
            guest(f"{SCSI_PCI}, disks: {{d: {{{DISK}, iothread: true}}}}"),
            "disk `d` cannot have an iothread on virtio-scsi-pci .*virtio-scsi-single",
            guest(f"disks: {{d: {{{DISK}, iothread: true}}}}"),
        ),
        (
            guest(f"disks: {{d: {{{DISK}, hba: h, iothread: true}}, e: {{{DISK}, hba: h}}}}"),
            "disk `d` cannot have an iothread: it shares HBA `h`",
            guest(f"disks: {{d: {{{DISK}, hba: h, iothread: true}}, e: {{{DISK}, hba: i}}}}"),
        ),
    ],
    "shared_hba_has_one_queue_count": [
        (
            guest(f"vcpus: 4, disks: {{d: {{{DISK}, hba: h, queues: 4}}}}"),
            "disk `d` cannot choose the queues .*scsi.queues: 4",
            guest(f"vcpus: 4, disks: {{d: {{{DISK}, queues: 4}}}}"),
        ),
        (
            guest(
                "vcpus: 4, scsi: {hardware: virtio-scsi-pci, queues: 2},"
                f" disks: {{d: {{{DISK}, queues: 4}}}}"
            ),
            "disk `d` cannot choose the queues",
            guest(
                "vcpus: 4, scsi: {hardware: virtio-scsi-pci, queues: 4},"
                f" disks: {{d: {{{DISK}, queues: 4}}}}"
            ),
        ),
    ],
    "queues_within_vcpus": [
        (
            guest(f"vcpus: 2, disks: {{d: {{{DISK}, queues: 3}}}}"),
            "3 queues for disk `d`, but the guest has 2 vCPU",
            guest(f"vcpus: 2, disks: {{d: {{{DISK}, queues: 2}}}}"),
        ),
        (
            guest("scsi: {queues: 2}"),
            "2 queues for the HBAs",
            guest("vcpus: 2, scsi: {queues: 2}"),
        ),
        (
            lan("queues: 2"),
            "2 queues for NIC `n`, but the guest has 1 vCPU",
            lan("queues: 2", vcpus=2),
        ),
    ],
    "native_aio_needs_direct": [
        (
            guest(f"disks: {{d: {{{DISK}, aio: native, cache: {cache}}}}}"),
            f"disk `d`: aio=native needs O_DIRECT, which cache={cache}",
            guest(f"disks: {{d: {{{DISK}, aio: native, cache: directsync}}}}"),
        )
        for cache in ("writeback", "writethrough", "unsafe")
    ]
    + [
        (
            guest("root: {aio: native}"),
            "disk `root`: aio=native needs O_DIRECT, which cache=unsafe",
            guest("root: {aio: native, cache: none}"),
        ),
    ],
    "disk_is_not_root": [
        (
            guest(f"disks: {{root: {{{DISK}}}}}"),
            "`root` is the guest's system disk",
            guest(f"disks: {{boot: {{{DISK}}}}}"),
        ),
    ],
    "hba_is_not_a_disk": [
        (
            guest(f"disks: {{d: {{{DISK}}}, e: {{{DISK}, hba: d}}}}"),
            "disk `e` cannot join disk `d`",
            guest(f"disks: {{d: {{{DISK}, hba: d}}, e: {{{DISK}, hba: d}}}}"),
        ),
        (
            guest(f"disks: {{d: {{{DISK}, hba: root}}}}"),
            "disk `d` cannot join disk `root`",
            guest(f"disks: {{d: {{{DISK}, hba: other}}}}"),
        ),
    ],
    "whole_sectors": [
        (
            guest("disks: {d: {size: 1000B}}"),
            "the size of disk `d` is not a whole number of 512 B sectors",
            guest("disks: {d: {size: 1024B}}"),
        ),
    ],
}

NETWORK = {
    "segment_exists": [
        (
            guest("nics: {n: {segment: lam}, m: {segment: lan}}", segments="{lan: {}}"),
            "segment `lam`, which there is not .*did you mean `lan`",
            lan(""),
        ),
        (
            guest("nics: {n: {segment: lam}}"),
            "segment `lam`, which there is not .*add it under `segments`",
            lan(""),
        ),
    ],
    "segment_is_used": [
        (guest("", segments="{lan: {}}"), "segment `lan` has no NIC", lan("")),
    ],
    "rate_needs_two_nics": [
        (
            lan("", segment="{rate: 1Gbit}"),
            "segment `lan` has a rate, but one NIC only",
            guest("nics: {n: {segment: lan}, m: {segment: lan}}", segments="{lan: {rate: 1Gbit}}"),
        ),
    ],
    "rate_can_be_set": [
        (
            guest("nics: {n: {segment: lan}, m: {segment: lan}}", segments="{lan: {rate: 35Gbit}}"),
            "segment `lan` has a rate of 35Gbit .*at most 34Gbit",
            guest("nics: {n: {segment: lan}, m: {segment: lan}}", segments="{lan: {rate: 34Gbit}}"),
        ),
    ],
    "nic_mtu_within_segment": [
        (
            lan("mtu: 1501"),
            "NIC `n` has MTU 1501, but its segment `lan` 1500",
            lan("mtu: 1500"),
        ),
    ],
    "e1000e_mtu": [
        (
            lan("model: e1000e", segment="{mtu: 9213}"),
            "would have MTU 9213, but e1000e stops at 9212",
            lan("model: e1000e", segment="{mtu: 9212}"),
        ),
    ],
    "e1000e_has_one_queue": [
        (
            lan("model: e1000e, queues: 2", vcpus=2),
            "e1000e, which has one queue, not 2",
            lan("model: virtio, queues: 2", vcpus=2),
        ),
    ],
    "tso_needs_checksum": [
        (
            lan("checksum: false"),
            "TSO without checksum offload .*tso: false",
            lan("checksum: false, tso: false"),
        ),
    ],
    "interface_name_fits": [
        (
            guest("nics: {abcdefghijklmnop: {segment: s}}", segments="{s: {}}"),
            "longer than an interface name",
            guest("nics: {abcdefghijklmno: {segment: s}}", segments="{s: {}}"),
        ),
    ],
    "interface_name_is_free": [
        (
            guest(f"nics: {{{name}: {{segment: s}}}}", segments="{s: {}}"),
            f"no NIC can be called `{name}`",
            lan(""),
        )
        for name in ("lo", "all", "default")
    ],
    "mac_is_usable": [
        (lan(f"mac: {mac}"), f"NIC `n` cannot have {mac}, a {kind}", lan("mac: bc:24:11:00:00:01"))
        for mac, kind in {
            "01:00:5e:00:00:01": "multicast",
            "ff:ff:ff:ff:ff:ff": "multicast",
            "00:00:00:00:00:00": "reserved",
            "fe:54:00:00:00:01": "reserved",
        }.items()
    ],
    "mac_is_unique": [
        (
            guest(
                "nics: {n: {segment: s, mac: 52:54:00:12:34:56},"
                f" m: {{segment: s, mac: 52:54:00:12:34:{last}}}}}",
                segments="{s: {}}",
            ),
            message,
            lan("mac: 52:54:00:12:34:56"),
        )
        for last, message in {"56": "NIC `m` has the MAC of NIC `n` of guest `a`"}.items()
    ],
    "rdma_nic_exists": [
        (
            lan("", rdma="{r: {nic: m}}"),
            "RDMA device `r` is on NIC `m`, which the guest has not .*known: n",
            lan("", rdma="{r: {nic: n}}"),
        ),
    ],
    "one_rdma_device_a_nic": [
        (
            lan("", rdma="{r: {nic: n}, q: {nic: n}}"),
            "RDMA device `q` is on NIC `n`, which `r` has taken",
            lan("", rdma="{r: {nic: n}}"),
        ),
    ],
    "rxe_mtu_fits": [
        (
            lan("", segment=f"{{mtu: {nic}}}", rdma=f"{{r: {{nic: n, mtu: {mtu}}}}}"),
            f"wants MTU {mtu}, but NIC `n` of MTU {nic} carries {got} .* MTU {nic + 1}",
            lan("", segment=f"{{mtu: {nic + 1}}}", rdma=f"{{r: {{nic: n, mtu: {mtu}}}}}"),
        )
        for mtu, nic, got in [(4096, 4175, 2048), (2048, 2127, 1024), (1024, 1103, 512)]
    ],
    "siw_has_no_mtu": [
        (
            lan("", rdma="{r: {nic: n, model: siw, mtu: 1024}}").replace("{vc", "{image: own, vc"),
            "`r` is siw, which has no MTU",
            lan("", rdma="{r: {nic: n, model: siw}}").replace("{vc", "{image: own, vc"),
        ),
    ],
    "siw_is_there": [
        (
            lan("", rdma="{r: {nic: n, model: siw}}"),
            "the kernels of image debian-12 have no siw .*model: rxe",
            lan("", rdma="{r: {nic: n, model: siw}}").replace("{vc", "{image: own, vc"),
        ),
    ],
}

GUEST = {
    "enough_memory": [
        (guest("memory: 127MiB"), "cannot boot in 127MiB", guest("memory: 128MiB")),
    ],
    "memory_in_mib": [
        (guest("memory: 262145KiB"), "not a whole number of MiB .*257MiB", guest("memory: 1GiB")),
    ],
    "guest_is_not_localhost": [
        ("name: t\nguests: {localhost: {}}", "can be called `localhost`", guest("")),
    ],
}

ROOTLESS = Host(fabric="sockets")


def pair(nic: str = "", segment: str = "", nics: int = 2) -> str:
    """A guest whose `nics` NICs, with the settings `nic`, are all on segment `lan`."""
    each = ", ".join(f"n{index}: {{segment: lan, {nic}}}" for index in range(nics))
    return guest(f"vcpus: 2, nics: {{{each}}}", segments=f"{{lan: {{{segment}}}}}")


# What an ordinary user cannot have, and root can.
SOCKETS = {
    "sockets_join_two_nics": [
        (pair(nics=1), "segment `lan` has one NIC, but without root it joins exactly two"),
        (pair(nics=3), "segment `lan` has 3 NICs, but without root it joins exactly two"),
    ],
    "sockets_have_no_rate": [(pair(segment="rate: 1Gbit"), "has a rate, which only root can")],
    "sockets_have_one_queue": [
        (pair("queues: 2"), "NIC `n0` has 2 queues, but without root it has one")
    ],
}

CASES = [
    pytest.param(refused, message, passed, id=f"{rule}-{index}")
    for rule, cases in (STORAGE | NETWORK | GUEST).items()
    for index, (refused, message, passed) in enumerate(cases)
]

HOST_CASES = {
    "io_uring_is_there": [
        (f"disks: {{d: {{{DISK}, aio: io_uring}}}}", Host(io_uring=False), "cannot use io_uring"),
        ("root: {aio: io_uring}", Host(io_uring=False), "disk `root`: this host's QEMU"),
    ],
    "hyperv_needs_kvm": [("hyperv: true", Host("tcg"), "which only KVM has .*TCG")],
    "host_cpu_needs_kvm": [("cpu: host", Host("tcg"), "CPU model `host`, which only KVM")],
}


@pytest.mark.parametrize(("refused", "message", "passed"), CASES)
def test_rule(refused: str, message: str, passed: str) -> None:
    (problem,) = linted(refused)
    assert re.search(message, str(problem))
    assert linted(passed) == []


@pytest.mark.parametrize(
    ("body", "host", "message"),
    [
        pytest.param(*case, id=f"{rule}-{index}")
        for rule, cases in HOST_CASES.items()
        for index, case in enumerate(cases)
    ],
)
def test_rule_about_the_host(body: str, host: Host, message: str) -> None:
    (problem,) = linted(guest(body), host)
    assert re.search(message, str(problem))
    assert linted(guest(body), Host()) == []
    assert linted(guest(body), None) == [], "without a probe, the host may have it"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(*case, id=f"{rule}-{index}")
        for rule, cases in SOCKETS.items()
        for index, case in enumerate(cases)
    ],
)
def test_rule_about_sockets(text: str, message: str) -> None:
    problems = [str(problem) for problem in linted(text, ROOTLESS)]
    assert re.search(message, problems[0])
    assert problems[0].startswith("t.yaml:")
    assert linted(text, Host()) == linted(text, None) == []
    assert linted(pair("mtu: 9000", segment="mtu: 9000"), ROOTLESS) == []


def test_every_rule_has_a_case_and_a_source() -> None:
    names = {rule.__name__ for rule in lint_module.RULES}
    # The cases of experiments are in test_experiment_rules.py.
    of_experiments = {rule.__name__ for rule in experiments.RULES}
    assert names == {*STORAGE, *NETWORK, *GUEST, *HOST_CASES, *SOCKETS, *of_experiments}
    assert all(rule.__doc__ for rule in lint_module.RULES)


def test_the_shipped_topologies_can_work() -> None:
    for path in TOPOLOGIES.glob("*.yaml"):
        assert lint(load(path), Host("tcg")) == []


def test_macs_are_compared_across_guests() -> None:
    nics = "{nics: {n: {segment: s, mac: 52:54:00:12:34:56}}}"
    (problem,) = linted(f"name: t\nguests:\n  a: {nics}\n  b: {nics}\nsegments: {{s: {{}}}}")
    assert str(problem).startswith("t.yaml:4: NIC `n` has the MAC of NIC `n` of guest `a`")


def test_an_rdma_name_twice_in_a_guest_is_a_duplicate_key() -> None:
    with pytest.raises(TopologyError, match="duplicate key `r`, first on line 3"):
        linted(lan("", rdma="{r: {nic: n}, r: {nic: n}}"))


def test_two_guests_may_use_the_same_names() -> None:
    one = "{nics: {n: {segment: s}}, rdma: {r: {nic: n}}, disks: {d: {size: 1GiB}}}"
    assert linted(f"name: t\nguests: {{a: {one}, b: {one}}}\nsegments: {{s: {{}}}}") == []


def test_problems_point_at_the_field_and_come_in_the_order_of_the_file() -> None:
    problems = linted(
        "name: t\n"
        "guests:\n"
        "  a:\n"
        "    memory: 1MiB\n"
        "    disks:\n"
        "      d:\n"
        "        size: 1GiB\n"
        "        cache: writeback\n"
        "        aio: native\n"
        "    nics:\n"
        "      n:\n"
        "        segment: lam\n"
        "segments:\n"
        "  lan: {}\n"
    )
    assert [problem.where for problem in problems] == [
        "t.yaml:4",
        "t.yaml:9",
        "t.yaml:12",
        "t.yaml:14",
    ]


def test_check_raises_them_all() -> None:
    loaded = parse(guest("memory: 1MiB, root: {aio: native}"), Path("t.yaml"))
    with pytest.raises(TopologyError) as caught:
        check(loaded, None)
    assert len(caught.value.problems) == 2
    check(parse(guest(""), Path("t.yaml")), None)
