"""The agent's workloads as the host asks for them.

The agent declares and checks every parameter; these models give them types here. A test holds
names, defaults and choices of both sides against each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol


class Workload(Protocol):
    """Something to run in a guest; `name` is the agent's name for it."""

    @property
    def name(self) -> str: ...
    def parameters(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class GivenWorkload:
    """A mechanism or workload by the agent's name, with the policies and parameters given to it.

    The agent's own declarations say what there is; lab.guest.catalogue reads them.
    """

    name: str
    given: Mapping[str, Any]

    def parameters(self) -> dict[str, Any]:
        return dict(self.given)


@dataclass(frozen=True, kw_only=True)
class DeclaredWorkload:
    """A workload whose parameters are the fields. Units are in the names."""

    name: ClassVar[str]

    def parameters(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Disk(DeclaredWorkload):
    """Requests to a data disk by the agent's own engine; refused unless the disk is blank."""

    name: ClassVar[str] = "disk"
    disk: str
    pattern: Literal["read", "write", "randread", "randwrite"]
    block_bytes: int = 4096
    outstanding: int = 32
    runtime_s: float = 2.0


@dataclass(frozen=True, kw_only=True)
class Fio(DeclaredWorkload):
    """Requests to the data disk whose serial is `disk`; refused unless the disk is blank."""

    name: ClassVar[str] = "fio"
    disk: str
    pattern: Literal["read", "write", "randread", "randwrite", "rw", "randrw"]
    block_bytes: int = 4096
    iodepth: int = 32
    engine: Literal["libaio", "io_uring", "psync", "sync"] = "libaio"
    runtime_s: float = 2.0
    ramp_s: float = 0.0
    direct: bool = True


@dataclass(frozen=True, kw_only=True)
class Iperf3Server(DeclaredWorkload):
    name: ClassVar[str] = "iperf3-server"
    address: str
    port: int = 0


@dataclass(frozen=True, kw_only=True)
class Iperf3Client(DeclaredWorkload):
    name: ClassVar[str] = "iperf3-client"
    address: str
    port: int
    runtime_s: float = 2.0
    omit_s: int = 0
    streams: int = 1
    reverse: bool = False


@dataclass(frozen=True, kw_only=True)
class SockperfServer(DeclaredWorkload):
    name: ClassVar[str] = "sockperf-server"
    address: str
    port: int = 0


@dataclass(frozen=True, kw_only=True)
class SockperfClient(DeclaredWorkload):
    name: ClassVar[str] = "sockperf-client"
    address: str
    port: int
    mode: Literal["ping-pong", "under-load"] = "ping-pong"
    runtime_s: float = 2.0
    message_bytes: int = 64
    messages_per_s: int = 1000


PerftestTest = Literal[
    "ib_write_bw", "ib_write_lat", "ib_send_bw", "ib_send_lat", "ib_read_bw", "ib_read_lat"
]


@dataclass(frozen=True, kw_only=True)
class PerftestServer(DeclaredWorkload):
    """One end of an RDMA test; both ends are given the same test, size and length."""

    name: ClassVar[str] = "perftest-server"
    test: PerftestTest
    device: str
    gid_address: str = ""
    message_bytes: int = 65536
    iterations: int = 0
    runtime_s: int = 2
    port: int = 0


@dataclass(frozen=True, kw_only=True)
class PerftestClient(DeclaredWorkload):
    name: ClassVar[str] = "perftest-client"
    test: PerftestTest
    device: str
    address: str
    port: int
    gid_address: str = ""
    message_bytes: int = 65536
    iterations: int = 0
    runtime_s: int = 2


@dataclass(frozen=True, kw_only=True)
class RpingServer(DeclaredWorkload):
    """Serves one client; both ends are given the same size."""

    name: ClassVar[str] = "rping-server"
    address: str
    port: int = 0
    message_bytes: int = 64


@dataclass(frozen=True, kw_only=True)
class RpingClient(DeclaredWorkload):
    name: ClassVar[str] = "rping-client"
    address: str
    port: int
    pings: int = 100
    message_bytes: int = 64


@dataclass(frozen=True, kw_only=True)
class UdpRrServer(DeclaredWorkload):
    name: ClassVar[str] = "udp-rr-server"
    address: str
    port: int = 0


@dataclass(frozen=True, kw_only=True)
class UdpRrClient(DeclaredWorkload):
    name: ClassVar[str] = "udp-rr-client"
    address: str
    port: int
    runtime_s: float = 2.0
    request_bytes: int = 8
    response_bytes: int = 4096


WORKLOADS: tuple[type[DeclaredWorkload], ...] = (
    Disk,
    Fio,
    Iperf3Client,
    Iperf3Server,
    PerftestClient,
    PerftestServer,
    RpingClient,
    RpingServer,
    SockperfClient,
    SockperfServer,
    UdpRrClient,
    UdpRrServer,
)
