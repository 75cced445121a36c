"""What NICs, segments and RDMA devices cannot be."""

from __future__ import annotations

from collections.abc import Iterator

from lab.topology.derive import RXE_HEADER_BYTES, nic_mtu, nics_on, rxe_mtu
from lab.topology.model import MAX_RATE_BITS_PER_S, Topology
from lab.topology.problem import Loc, did_you_mean
from lab.topology.rules import Finding, Host, each_nic, each_rdma
from lab.units import format_bits_per_s

# include/uapi/linux/if.h: IFNAMSIZ is 16, with the terminating zero.
MAX_INTERFACE_NAME = 15
# e1000e: max_hw_frame_size of the 82574 (9234) less VLAN_ETH_HLEN and ETH_FCS_LEN.
E1000E_MAX_MTU = 9212
NO_SIW = ("debian-12",)


def segment_exists(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A NIC is plugged into a segment of the same file."""
    for loc, name, nic, _ in each_nic(topology):
        if nic.segment not in topology.segments:
            message = f"NIC `{name}` is on segment `{nic.segment}`, which there is not"
            hint = did_you_mean(nic.segment, topology.segments) or "add it under `segments`"
            yield Finding((*loc, "segment"), message, hint)


def segment_is_used(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A segment without NICs is a slip: a name misspelt elsewhere, or a leftover."""
    for name in topology.segments:
        if not any(nics_on(topology, name)):
            yield Finding(("segments", name), f"segment `{name}` has no NIC", "remove it")


def rate_needs_two_nics(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A line rate shapes what NICs send each other; one alone sends to nobody."""
    for name, segment in topology.segments.items():
        if segment.rate and len(list(nics_on(topology, name))) == 1:
            message = f"segment `{name}` has a rate, but one NIC only"
            yield Finding(("segments", name, "rate"), message, "put another NIC on it")


def rate_can_be_set(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A faster line cannot be told to the kernel: MAX_RATE_BITS_PER_S."""
    for name, segment in topology.segments.items():
        if segment.rate and segment.rate > MAX_RATE_BITS_PER_S:
            message = f"segment `{name}` has a rate of {format_bits_per_s(segment.rate)}"
            hint = f"at most {MAX_RATE_BITS_PER_S // 10**9}Gbit, or no rate at all"
            yield Finding(("segments", name, "rate"), message, hint)


def nic_mtu_within_segment(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A bridge drops frames larger than its port's MTU (is_skb_forwardable, net/core/dev.c)."""
    for loc, name, nic, _ in each_nic(topology):
        segment = topology.segments.get(nic.segment)
        if segment and nic.mtu and nic.mtu > segment.mtu:
            yield Finding(
                (*loc, "mtu"),
                f"NIC `{name}` has MTU {nic.mtu}, but its segment `{nic.segment}` {segment.mtu}",
                f"at most {segment.mtu}, or raise the segment's",
            )


def e1000e_mtu(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """The 82574 that QEMU emulates takes frames up to DEFAULT_JUMBO.

    drivers/net/ethernet/intel/e1000e: 82571.c (e1000_82574_info), netdev.c (max_mtu)
    """
    for loc, name, nic, _ in each_nic(topology):
        mtu = nic_mtu(topology, nic) or 0
        if nic.model == "e1000e" and mtu > E1000E_MAX_MTU:
            message = f"NIC `{name}` would have MTU {mtu}, but e1000e stops at {E1000E_MAX_MTU}"
            yield Finding((*loc, "mtu"), message, "lower `mtu`, or set model: virtio")


def e1000e_has_one_queue(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Linux uses one queue pair of the 82574 (e1000e's netdev.c: alloc_etherdev, not _mqs)."""
    for loc, name, nic, _ in each_nic(topology):
        if nic.model == "e1000e" and nic.queues > 1:
            message = f"NIC `{name}` is an e1000e, which has one queue, not {nic.queues}"
            yield Finding((*loc, "queues"), message, "set model: virtio, or leave `queues` out")


def queues_within_vcpus(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """With fewer CPUs than queue pairs, the guest uses as many as it has CPUs.

    virtnet_probe: curr_queue_pairs; drivers/net/virtio_net.c
    """
    for loc, name, nic, guest in each_nic(topology):
        if nic.queues > guest.vcpus:
            message = f"{nic.queues} queues for NIC `{name}`, but the guest has {guest.vcpus} vCPU"
            yield Finding((*loc, "queues"), message, "raise `vcpus` or lower `queues`")


def tso_needs_checksum(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """The kernel switches TSO off with checksum offload: "Dropping TSO features since no CSUM".

    netdev_fix_features, net/core/dev.c
    """
    for loc, name, nic, _ in each_nic(topology):
        if nic.tso and not nic.checksum:
            message = f"NIC `{name}` cannot have TSO without checksum offload"
            yield Finding((*loc, "checksum"), message, "set tso: false as well")


def interface_name_fits(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A NIC's name is its interface's in the guest: dev_valid_name, net/core/dev.c."""
    for loc, name, _, _ in each_nic(topology):
        if len(name) > MAX_INTERFACE_NAME:
            message = f"NIC `{name}` is longer than an interface name may be"
            yield Finding(loc, message, f"at most {MAX_INTERFACE_NAME} characters")


def interface_name_is_free(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Names the guest has otherwise: its loopback, and sysctl's `all` and `default`.

    sysctl_dev_name_is_allowed, include/net/ip.h
    """
    for loc, name, _, _ in each_nic(topology):
        if name in ("lo", "all", "default"):
            message = f"no NIC can be called `{name}` in a guest"
            yield Finding(loc, message, "choose another name, such as `lan0`")


def mac_is_usable(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A NIC's address is unicast, not zero, and does not begin as those of its taps do.

    is_valid_ether_addr, include/linux/etherdevice.h; libvirt's "Unable to use MAC address
    starting with reserved value 0xFE".
    """
    for loc, name, nic, _ in each_nic(topology):
        if nic.mac is None:
            continue
        first = int(nic.mac[:2], 16)
        if first & 1 or first == 0xFE or nic.mac == "00:00:00:00:00:00":
            kind = "a multicast address" if first & 1 else "a reserved address"
            message = f"NIC `{name}` cannot have {nic.mac}, {kind}"
            yield Finding((*loc, "mac"), message, "such as 52:54:00:12:34:56, or leave it out")


def mac_is_unique(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A bridge learns one port an address (IEEE 802.1D), and the guest finds its NICs by it."""
    owners: dict[str, Loc] = {}
    for loc, name, nic, _ in each_nic(topology):
        if nic.mac is None:
            continue
        if first := owners.get(nic.mac):
            message = f"NIC `{name}` has the MAC of NIC `{first[3]}` of guest `{first[1]}`"
            yield Finding((*loc, "mac"), message, "leave it out: the lab gives each NIC its own")
        else:
            owners[nic.mac] = loc


def rdma_nic_exists(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A software RDMA device is made on an interface of the same guest."""
    for loc, name, rdma, guest in each_rdma(topology):
        if rdma.nic not in guest.nics:
            message = f"RDMA device `{name}` is on NIC `{rdma.nic}`, which the guest has not"
            hint = did_you_mean(rdma.nic, guest.nics) or "add it under `nics`"
            yield Finding((*loc, "nic"), message, hint)


def one_rdma_device_a_nic(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """A second link on an interface is refused: rxe_newlink, "already configured on"; siw too.

    drivers/infiniband/sw/rxe/rxe.c, drivers/infiniband/sw/siw/siw_main.c
    """
    owners: dict[tuple[str | int, str], str] = {}
    for loc, name, rdma, _ in each_rdma(topology):
        first = owners.setdefault((loc[1], rdma.nic), name)
        if first != name:
            message = f"RDMA device `{name}` is on NIC `{rdma.nic}`, which `{first}` has taken"
            yield Finding((*loc, "nic"), message, "a NIC of its own for each RDMA device")


def rxe_mtu_fits(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """rxe's MTU is the largest InfiniBand MTU within the NIC's less RXE_MAX_HDR_LENGTH (80).

    eth_mtu_int_to_enum, drivers/infiniband/sw/rxe/rxe_param.h: 4096 needs a NIC of 4176.
    """
    for loc, name, rdma, guest in each_rdma(topology):
        nic = guest.nics.get(rdma.nic)
        mtu = nic_mtu(topology, nic) if nic else None
        if rdma.model == "rxe" and rdma.mtu and mtu and rdma.mtu > rxe_mtu(mtu):
            yield Finding(
                (*loc, "mtu"),
                f"RDMA device `{name}` wants MTU {rdma.mtu}, but NIC `{rdma.nic}` of MTU {mtu}"
                f" carries {rxe_mtu(mtu)}",
                f"needs a NIC and segment of MTU {rdma.mtu + RXE_HEADER_BYTES}",
            )


def siw_has_no_mtu(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """iWARP runs over TCP and has no path MTU to set (RFC 5044: the MULPDU follows TCP's MSS)."""
    for loc, name, rdma, _ in each_rdma(topology):
        if rdma.model == "siw" and rdma.mtu:
            message = f"RDMA device `{name}` is siw, which has no MTU of its own"
            yield Finding((*loc, "mtu"), message, "leave it out")


def siw_is_there(topology: Topology, host: Host | None) -> Iterator[Finding]:
    """Debian's kernels: "CONFIG_RDMA_SIW is not set" in /boot/config of 6.1.0-57 and 6.12.117."""
    for loc, name, rdma, guest in each_rdma(topology):
        if rdma.model == "siw" and guest.image in NO_SIW:
            message = f"RDMA device `{name}`: the kernels of image {guest.image} have no siw"
            yield Finding((*loc, "model"), message, "set model: rxe")


RULES = (
    segment_exists,
    segment_is_used,
    rate_needs_two_nics,
    rate_can_be_set,
    nic_mtu_within_segment,
    e1000e_mtu,
    e1000e_has_one_queue,
    queues_within_vcpus,
    tso_needs_checksum,
    interface_name_fits,
    interface_name_is_free,
    mac_is_usable,
    mac_is_unique,
    rdma_nic_exists,
    one_rdma_device_a_nic,
    rxe_mtu_fits,
    siw_has_no_mtu,
    siw_is_there,
)
