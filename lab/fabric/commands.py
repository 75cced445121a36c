"""A lab's network as shell commands, for people: what lab.fabric.namespace does over netlink."""

from __future__ import annotations

from collections.abc import Iterator

from lab.fabric.plan import FabricPlan, TapPlan


def shell_commands(plan: FabricPlan) -> Iterator[str]:
    """Commands in order; the taps move into the namespace once QEMU has opened them."""
    inside = f"ip -n {plan.namespace}"
    yield f"ip netns add {plan.namespace}"
    for segment in plan.segments:
        yield f"{inside} link add {segment.bridge} mtu {segment.mtu} type bridge stp_state 0"
        yield f"{inside} link set {segment.bridge} up"
    for tap in plan.taps:
        multi_queue = " multi_queue" if tap.queues > 1 else ""
        yield f"ip tuntap add {tap.name} mode tap vnet_hdr{multi_queue}"
    yield "# here QEMU is started, and opens the taps"
    for tap in plan.taps:
        yield from _adopt(plan, tap, inside)


def _adopt(plan: FabricPlan, tap: TapPlan, inside: str) -> Iterator[str]:
    segment = plan.segment(tap.segment)
    yield f"ip link set {tap.name} netns {plan.namespace}"
    yield f"{inside} link set {tap.name} mtu {tap.mtu} master {segment.bridge} up"
    if segment.rate_bits_per_s:
        yield (
            f"tc -n {plan.namespace} qdisc add dev {tap.name} root tbf"
            f" rate {segment.rate_bits_per_s}bit burst 256kb latency 50ms"
        )
