"""The fabric, made for real: needs root."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest

from lab.deadline import Deadline
from lab.errors import LabError
from lab.fabric import namespace
from lab.fabric.plan import FabricPlan, SegmentPlan, TapPlan

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/net/tun").exists(),
    reason="taps and network namespaces need root and /dev/net/tun",
)

IFF_TAP_NO_PI_VNET_HDR = 0x0002 | 0x1000 | 0x4000
TUNSETIFF = 0x400454CA


@pytest.fixture
def plan() -> Iterator[FabricPlan]:
    """Two taps on a jumbo segment with a line rate, one multi-queue tap on a plain one."""
    unique = token_hex(3)
    plan = FabricPlan(
        namespace=f"lab-test-{unique}",
        segments=(
            SegmentPlan("lan", "br0", mtu=9000, rate_bits_per_s=10**9),
            SegmentPlan("plain", "br1", mtu=1500, rate_bits_per_s=None),
        ),
        taps=(
            TapPlan(f"lab{unique}-0", "lan", queues=1, mtu=9000),
            TapPlan(f"lab{unique}-1", "lan", queues=1, mtu=9000),
            TapPlan(f"lab{unique}-2", "plain", queues=4, mtu=1500),
        ),
    )
    yield plan
    namespace.destroy(plan)


def everything(plan: FabricPlan) -> list[str]:
    """What of the plan is on the host."""
    return namespace.leftovers(plan.namespace) + namespace.leftovers(plan.taps[0].name[:-2])


def ip(*words: str) -> Any:
    done = subprocess.run(["ip", "-json", "-details", *words], check=True, capture_output=True)
    return json.loads(done.stdout)


def inside(plan: FabricPlan, *command: str) -> Any:
    done = subprocess.run(
        ["ip", "netns", "exec", plan.namespace, *command], check=True, capture_output=True
    )
    return json.loads(done.stdout)


def links(plan: FabricPlan) -> dict[str, Any]:
    return {link["ifname"]: link for link in inside(plan, "ip", "-json", "-details", "address")}


def open_tap(name: str) -> int:
    """Hold a tap as QEMU does."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI_VNET_HDR))
    return tap


def frames(tap: int) -> Iterator[bytes]:
    """What has arrived at a tap."""
    with suppress(BlockingIOError):
        while True:
            yield os.read(tap, 65536)


def test_taps_are_made_as_qemu_will_ask_for_them(plan: FabricPlan) -> None:
    namespace.create(plan)
    taps = [ip("link", "show", tap.name)[0]["linkinfo"]["info_data"] for tap in plan.taps]
    assert all(tap["type"] == "tap" and tap["vnet_hdr"] and tap["persist"] for tap in taps)
    assert [tap["multi_queue"] for tap in taps] == [False, False, True]


def test_segments_are_made_with_their_mtu(plan: FabricPlan) -> None:
    namespace.create(plan)
    found = links(plan)
    assert [found[bridge]["mtu"] for bridge in ("br0", "br1")] == [9000, 1500]


def test_adopted_taps_are_ports_of_their_segment(plan: FabricPlan) -> None:
    namespace.create(plan)
    namespace.adopt(plan)
    found = links(plan)
    assert [found[tap.name]["master"] for tap in plan.taps] == ["br0", "br0", "br1"]
    assert [found[tap.name]["mtu"] for tap in plan.taps] == [9000, 9000, 1500]
    assert [found[bridge]["mtu"] for bridge in ("br0", "br1")] == [9000, 1500]
    assert all("UP" in found[name]["flags"] for name in found if name != "lo")
    bridge = found["br0"]["linkinfo"]["info_data"]
    assert (bridge["stp_state"], bridge["mcast_snooping"]) == (0, 0)
    assert namespace.leftovers(plan.taps[0].name[:-2]) == []


def test_the_line_rate_holds_for_each_port(plan: FabricPlan) -> None:
    namespace.create(plan)
    namespace.adopt(plan)
    qdiscs = {each["dev"]: each for each in inside(plan, "tc", "-json", "qdisc")}
    for tap in plan.taps[:2]:
        assert qdiscs[tap.name]["kind"] == "tbf"
        assert qdiscs[tap.name]["options"]["rate"] == 10**9 // 8
        assert qdiscs[tap.name]["options"]["burst"] >= 64 * 1024
    assert qdiscs[plan.taps[2].name]["kind"] != "tbf"


def test_guests_are_alone_on_a_segment(plan: FabricPlan) -> None:
    """Frames cross between taps opened before; the host has no address and says nothing."""
    namespace.create(plan)
    frame = b"\xff" * 6 + b"\x52\x54\x00\x00\x00\x01" + b"\x88\xb5" + b"jumbo" * 1700
    with ExitStack() as stack:
        taps = [open_tap(tap.name) for tap in plan.taps[:2]]
        for tap in taps:
            stack.callback(os.close, tap)
        namespace.adopt(plan)

        def cross() -> bool:
            os.write(taps[0], bytes(10) + frame)
            return bool(select.select([taps[1]], [], [], 0.1)[0])

        # The kernel lets a port forward a moment after it is up.
        Deadline(5).poll(cross, "a frame to cross")
        time.sleep(1.5)  # IPv6 would announce an address of its own within a second
        assert {received[10:] for received in frames(taps[1])} == {frame}
        assert not list(frames(taps[0]))
    assert [link["addr_info"] for link in links(plan).values()] == [[]] * 6


def test_destroying_leaves_nothing_and_twice_is_fine(plan: FabricPlan) -> None:
    namespace.create(plan)
    with closing(os.fdopen(open_tap(plan.taps[0].name), "rb")):
        namespace.adopt(plan)
        namespace.destroy(plan)
    assert everything(plan) == []
    namespace.destroy(plan)


def test_taps_that_nobody_adopted_are_destroyed_too(plan: FabricPlan) -> None:
    namespace.create(plan)
    assert len(everything(plan)) == 4
    namespace.destroy(plan)
    assert everything(plan) == []


@pytest.mark.parametrize("killed_in", ["_add_bridge", "_add_tap", "_limit"])
def test_whatever_a_killed_bring_up_made_can_be_destroyed(plan: FabricPlan, killed_in: str) -> None:
    script = f"""
        import os, signal
        from lab.fabric import namespace
        from lab.fabric.plan import FabricPlan, SegmentPlan, TapPlan
        real, calls = namespace.{killed_in}, []
        def killed(*arguments):
            if calls:
                os.kill(os.getpid(), signal.SIGKILL)
            calls.append(real(*arguments))
        namespace.{killed_in} = killed
        plan = {plan!r}
        namespace.create(plan)
        namespace.adopt(plan)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert everything(plan)
    namespace.destroy(plan)
    assert everything(plan) == []


def test_what_exists_already_is_named_and_not_touched(plan: FabricPlan) -> None:
    namespace.create(plan)
    with pytest.raises(LabError, match=f"(?s){plan.namespace}.*File exists"):
        namespace.create(plan)
    other = FabricPlan(f"{plan.namespace}x", (), plan.taps[:1])
    with pytest.raises(LabError, match=f"interface {plan.taps[0].name} already"):
        namespace.create(other)
    namespace.destroy(FabricPlan(other.namespace, (), ()))
    assert len(everything(plan)) == 4


def test_adopting_a_tap_that_has_gone_says_so(plan: FabricPlan) -> None:
    namespace.create(plan)
    subprocess.run(["ip", "link", "delete", plan.taps[0].name], check=True)
    with pytest.raises(LabError, match=f"interface {plan.taps[0].name} is gone"):
        namespace.adopt(plan)
