"""The guests' data networks, in a network namespace of the lab's own.

A tap is made in the host's namespace, because libvirt opens it there; once QEMU holds it, it
moves into the lab's namespace and onto its segment's bridge. Nothing in that namespace has an
address, and nothing leads out of it. Removing it removes bridges and taps: the kernel does that.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.deadline import Deadline
from lab.errors import LabError
from lab.fabric.plan import FabricPlan, SegmentPlan, TapPlan
from lab.process import run
from lab.topology.model import MAX_RATE_BITS_PER_S

if TYPE_CHECKING:
    from pyroute2.iproute.linux import IPRoute

NAMESPACES = Path("/run/netns")
INTERFACES = Path("/sys/class/net")

_COMMAND_S = 30.0
_LIBC = ctypes.CDLL(None, use_errno=True)
_CLONE_NEWNET = 0x40000000  # linux/sched.h

# tun(4): linux/if_tun.h
_TUNSETIFF = 0x400454CA
_TUNSETPERSIST = 0x400454CB
_IFF_TAP = 0x0002
_IFF_NO_PI = 0x1000
_IFF_VNET_HDR = 0x4000
_IFF_MULTI_QUEUE = 0x0100

# linux/if_link.h: no IPv6 link-local address, so no host traffic on a segment.
_ADDRGENMODE_NONE = 1

# A bucket must hold the largest frame a guest hands over (a 64 KiB TSO frame and its headers) and
# what a line sends between two timer ticks of the host (4 ms at CONFIG_HZ=250).
_MIN_BURST_BYTES = 80 * 1024
_TICK_S = 0.004
_TBF_LATENCY = "50ms"


def create(plan: FabricPlan) -> None:
    """Make the namespace, its bridges, and the taps (in the host's namespace, for QEMU to open).

    Raises LabError, with part of it made, when something of that name exists or the kernel
    refuses; `destroy` removes whatever there is.
    """
    with _translated(f"create network namespace {plan.namespace}"):
        run(["ip", "netns", "add", plan.namespace], deadline=Deadline(_COMMAND_S))
        _inside(plan.namespace, lambda ip: _add_bridges(ip, plan))
    for tap in plan.taps:
        with _translated(f"create tap {tap.name}"):
            _add_tap(tap)


def adopt(plan: FabricPlan) -> None:
    """Move the taps, which QEMU holds by now, onto their segments, and bring them up.

    Raises LabError when one is gone or the kernel refuses.
    """
    with _translated(f"move taps into {plan.namespace}"):
        with _outside() as ip:
            for tap in plan.taps:
                ip.link("set", index=_index(ip, tap.name), net_ns_fd=plan.namespace)
        _inside(plan.namespace, lambda ip: _connect_taps(ip, plan))


def destroy(plan: FabricPlan) -> None:
    """Remove the namespace with all it holds, and taps still outside it; none at all is fine."""
    with _translated(f"remove network namespace {plan.namespace}"):
        # Taps that QEMU opened but nobody adopted, or that it never opened.
        stray = [tap.name for tap in plan.taps if (INTERFACES / tap.name).exists()]
        if stray:
            with _outside() as ip:
                for name in stray:
                    ip.link("del", index=_index(ip, name))
        if (NAMESPACES / plan.namespace).exists():
            run(["ip", "netns", "delete", plan.namespace], deadline=Deadline(_COMMAND_S))


def leftovers(prefix: str) -> list[str]:
    """Network namespaces and host interfaces whose names begin with `prefix`."""
    return sorted(
        entry.name
        for folder in (NAMESPACES, INTERFACES)
        if folder.is_dir()
        for entry in folder.iterdir()
        if entry.name.startswith(prefix)
    )


@contextlib.contextmanager
def _outside() -> Iterator[IPRoute]:
    """A netlink socket in the host's own namespace."""
    # Importing pyroute2 takes a fifth of a second: only who needs it pays.
    from pyroute2.iproute.linux import IPRoute

    with IPRoute() as ip:
        yield ip


def _inside(namespace: str, work: Callable[[IPRoute], None]) -> None:
    """Call `work` with a netlink socket in a namespace.

    In a thread of its own, which setns(2) moves alone. pyroute2's own way there is to fork, and
    a fork of a process with threads may inherit a lock that nobody will release.
    """

    def enter_and_work() -> None:
        descriptor = os.open(NAMESPACES / namespace, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _LIBC.setns(descriptor, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
        finally:
            os.close(descriptor)
        with _outside() as ip:
            work(ip)

    with ThreadPoolExecutor(1) as pool:
        pool.submit(enter_and_work).result()


def _add_bridges(ip: IPRoute, plan: FabricPlan) -> None:
    for segment in plan.segments:
        _add_bridge(ip, segment)


def _connect_taps(ip: IPRoute, plan: FabricPlan) -> None:
    for tap in plan.taps:
        segment = plan.segment(tap.segment)
        index = _index(ip, tap.name)
        ip.link("set", index=index, mtu=tap.mtu, **_no_address())
        ip.link("set", index=index, master=_index(ip, segment.bridge), state="up")
        if segment.rate_bits_per_s:
            _limit(ip, index, segment.rate_bits_per_s)


def _index(ip: IPRoute, name: str) -> int:
    found = ip.link_lookup(ifname=name)
    if not found:
        raise LabError(f"interface {name} is gone", hint="`lab status` says which guests run")
    return int(found[0])


def _add_bridge(ip: IPRoute, segment: SegmentPlan) -> None:
    # Without snooping a bridge floods multicast as a plain wire does; without STP a port forwards
    # at once.
    ip.link(
        "add",
        ifname=segment.bridge,
        kind="bridge",
        br_stp_state=0,
        br_forward_delay=0,
        br_mcast_snooping=0,
    )
    index = _index(ip, segment.bridge)
    # Set after it exists, or the bridge would follow the MTU of its ports.
    ip.link("set", index=index, mtu=segment.mtu, **_no_address())
    ip.link("set", index=index, state="up")


def _no_address() -> dict[str, Any]:
    """Link attributes that keep IPv6 from addressing an interface, and so from talking on it.

    To be set before the interface is up: in the same message it would be too late.
    """
    inet6 = {"attrs": [("IFLA_INET6_ADDR_GEN_MODE", _ADDRGENMODE_NONE)]}
    return {"IFLA_AF_SPEC": {"attrs": [("AF_INET6", inet6)]}}


def _add_tap(tap: TapPlan) -> None:
    # A tap is multi-queue or not for life, and whoever opens it must ask for the same.
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    if tap.queues > 1:
        flags |= _IFF_MULTI_QUEUE
    if (INTERFACES / tap.name).exists():
        raise FileExistsError(f"there is an interface {tap.name} already")
    control = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(control, _TUNSETIFF, struct.pack("16sH22x", tap.name.encode(), flags))
        fcntl.ioctl(control, _TUNSETPERSIST, 1)
    finally:
        os.close(control)


def _limit(ip: IPRoute, index: int, rate_bits_per_s: int) -> None:
    """Let no more than the line rate out of the bridge towards the guest."""
    if rate_bits_per_s > MAX_RATE_BITS_PER_S:
        raise LabError(f"a segment's rate can be at most {MAX_RATE_BITS_PER_S} bit/s")
    bytes_per_s = rate_bits_per_s // 8
    ip.tc(
        "add",
        "tbf",
        index,
        0x10000,
        rate=bytes_per_s,
        burst=max(_MIN_BURST_BYTES, int(bytes_per_s * _TICK_S)),
        latency=_TBF_LATENCY,
    )


@contextlib.contextmanager
def _translated(doing: str) -> Iterator[None]:
    """Turn the kernel's refusals into LabErrors that say what was being done."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except PermissionError as error:
        raise LabError(f"cannot {doing}: {error.strerror}", hint="run as root") from error
    except (NetlinkError, OSError) as error:
        raise LabError(f"cannot {doing}: {error}", hint="`lab doctor` checks the host") from error
